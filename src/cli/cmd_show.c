#include "cli/commands.h"

#include <inttypes.h>
#include <string.h>

#include "base/env.h"
#include "cli/on_queue.h"

typedef struct show {
	wh_why why;
	bool json;
} show;

static void print_fields(const show *s, const wherry_row *row, const char *why)
{
	const wherry_message *m = row->message;

	wh_print_number("id:", m->id);
	wh_print_field("message_id:", m->message_id);
	wh_print_field("topic:", m->topic);
	wh_print_field("key:", m->key);
	wh_print_field("aggregate_type:", m->aggregate_type);
	wh_print_field("aggregate_id:", m->aggregate_id);
	wh_print_field("trace_id:", m->trace_id);
	wh_print_field("headers:", m->headers);
	wh_print_field("state:", wherry_state_name(row->state));
	wh_print_field("why:", why);
	wh_print_number("attempts:", m->attempts);
	wh_print_number("generation:", m->generation);
	wh_print_time(s->why.now_us, "created:", m->created_at_us);
	wh_print_time(s->why.now_us, "claimed:", row->claimed_at_us);
	wh_print_time(s->why.now_us, "next retry:", row->next_retry_at_us);
	wh_print_time(s->why.now_us, "delivered:", row->processed_at_us);
	wh_print_field("last error:", row->last_error);
}

static wherry_code visit(void *ctx, const wherry_row *row)
{
	show *s = ctx;
	wh_buf why = WH_BUF_INIT(4096);

	wh_put_why(&why, &s->why, row);
	if (s->json) {
		wh_buf json = WH_BUF_INIT(WH_OUTPUT_MOST);

		wh_put_row(&json, row, WH_ROW_FULL);
		json.len -= json.len > 0;
		wh_buf_puts(&json, ",\"why\":");
		wh_buf_json(&json, wh_buf_into(&why, &json), why.len);
		wh_buf_puts(&json, "}");
		wh_print_buf(&json, "\n");
		wh_buf_clear(&json);
	} else {
		print_fields(s, row, wh_buf_str(&why));
		wh_print_body(row->message->body, row->message->body_len);
	}
	wh_buf_clear(&why);
	return WHERRY_OK;
}

static wh_exit run(wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_session session;
	wh_exit status;
	show s = {.why.session = &session, .json = wh_arg_on(args, "json")};
	wherry_code code;

	if (wh_is_on_queue(args))
		return wh_on_queue_show(args);
	status = wh_session_open(&session, args);
	if (status != WH_EXIT_DONE)
		return status;
	s.why.now_us = wh_now(&wh_env_system);
	code = wherry_outbox_status(session.box, &s.why.status, sizeof(wherry_status),
				    &err);
	if (code == WHERRY_OK)
		code = wherry_outbox_show(session.box, wh_operand(args, 1), visit, &s,
					  &err);
	if (code != WHERRY_OK)
		status = wh_report(&err);
	wh_session_close(&session);
	return status;
}

static const wh_option options[] = {
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_show = {
	.name = "show",
	.operands = "URL ID",
	.synopsis = "URL ID [--json]",
	.brief = "Show one message, and why it is where it is",
	.help = "ID is a message id, or the number in the first column of `wherry "
		"list`; what is not in the outbox is looked for in its archive. JSON is indented if it is short; of a long body and of one "
		"that is not text the beginning is shown.\n"
		"\n"
		"Examples:\n"
		"  wherry show sqlite:shop.db 42\n"
		"  wherry show sqlite:shop.db ak18247005 --json | jq .body\n"
		"  wherry show sqlite:shop.db#jobs 7\n",
	.options = options,
	.run = run,
};
