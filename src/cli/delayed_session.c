#include "cli/delayed_session.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cli/queue_session.h"
#include "delayed/delayed.h"

const char *wh_delayed_table(const wh_args *args)
{
	return *args->table.table ? args->table.table : "delayed";
}

static wh_exit with(const wh_args *args, const char *queue, wh_delayed_work work)
{
	wh_delayed_session s = {.queue = queue};
	const char *type = *args->table.type ? args->table.type : NULL;
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status = wh_place_open(&s.at, args);
	wherry_code code;

	if (status != WH_EXIT_DONE)
		return status;
	/* The table is the same whichever of its queues is opened. */
	code = wherry_delayed_open(s.at.db, wh_delayed_table(args), queue ? queue : "any",
				   queue ? type : NULL, &s.delayed, &err);
	if (code == WHERRY_OK)
		wh_report_layout(s.delayed->store.layout.name);
	if (code == WHERRY_OK)
		status = work(args, &s);
	else if (code == WHERRY_NOTFOUND &&
		 wh_tell_other(s.at.db, args, wh_delayed_table(args)))
		status = WH_EXIT_FAILED;
	else
		status = wh_call_failed(args, code, &err);
	wherry_delayed_close(s.delayed);
	wh_place_close(&s.at);
	return status;
}

wh_exit wh_with_delayed(const wh_args *args, wh_delayed_work work)
{
	return with(args, args->table.queue, work);
}

wh_exit wh_with_delayed_table(const wh_args *args, wh_delayed_work work)
{
	return with(args, NULL, work);
}

const char *wh_delayed_state_name(const wherry_delayed_message *msg)
{
	switch (msg->state) {
	case WHERRY_PROCESSING:
		return "leased";
	case WHERRY_FAILED:
		return "returned";
	case WHERRY_DEAD:
		return "dead";
	case WHERRY_PENDING:
	case WHERRY_DONE:
		break;
	}
	return "waiting";
}

void wh_put_delayed_message(wh_buf *buf, const wherry_delayed_message *msg)
{
	wh_buf_printf(buf, "{\"id\":%" PRId64, msg->id);
	wh_put_text_field(buf, "key", msg->key);
	if (wh_utf8_valid(msg->body, msg->body_len)) {
		wh_buf_puts(buf, ",\"body\":");
		wh_buf_json(buf, msg->body, msg->body_len);
	} else {
		wh_buf_puts(buf, ",\"body_base64\":\"");
		wh_buf_base64(buf, msg->body, msg->body_len);
		wh_buf_putc(buf, '"');
	}
	wh_put_time_field(buf, "at", msg->at_us);
	wh_put_time_field(buf, "created_at", msg->created_at_us);
	wh_put_time_field(buf, "available_at", msg->available_at_us);
	wh_put_text_field(buf, "state", wh_delayed_state_name(msg));
	wh_buf_printf(buf, ",\"attempts\":%" PRId32 ",\"redelivery\":%s", msg->attempts,
		      msg->redelivery ? "true" : "false");
	wh_put_text_field(buf, "last_error", msg->last_error);
	if (msg->token)
		wh_put_text_field(buf, "token", msg->token);
	wh_buf_puts(buf, "}\n");
}

wh_exit wh_delayed_changed(const wh_args *args, const wh_delayed_session *s, int64_t n,
			   const char *what)
{
	if (n)
		wh_audit(args->command->name, wh_operand(args, 0), s->queue, n);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"%s\":%" PRId64 "}\n", what, n);
	else
		(void)printf("%" PRId64 " message%s %s\n", n, wh_plural(n), what);
	return WH_EXIT_DONE;
}
