#include "cli/queue_session.h"

#include <stdlib.h>
#include <string.h>

#include "cli/target.h"
#include "queue/queue.h"
#include "relay/names.h"
#include "store/fields.h"

wh_exit wh_queue_session_open(wh_queue_session *s, const wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status;
	wherry_code code;

	*s = (wh_queue_session){.queue = NULL};
	wh_report_kinds(WHERRY_KIND_QUEUE);
	wh_show_database(wh_operand(args, 0), s->url, sizeof(s->url));
	status = wh_place_open(&s->at, args);
	if (status != WH_EXIT_DONE)
		return status;
	code = wherry_queue_open(s->at.db, s->at.name, &s->queue, &err);
	if (code == WHERRY_OK) {
		wh_report_layout(s->queue->store.layout.name);
		return WH_EXIT_DONE;
	}
	if (code != WHERRY_NOTFOUND ||
	    !wh_tell_other(s->at.db, args, s->at.name, &status)) {
		if (code == WHERRY_NOTFOUND)
			wh_suggest(s->at.db, s->at.name, WHERRY_KIND_QUEUE, &err);
		status = wh_call_failed(args, code, &err);
	}
	wh_queue_session_close(s);
	return status;
}

void wh_queue_session_close(wh_queue_session *s)
{
	wherry_queue_close(s->queue);
	s->queue = NULL;
	wh_place_close(&s->at);
}

/* ---- a message to send ---- */

wh_exit wh_outgoing_read(wh_outgoing *out, const wh_args *args, size_t body)
{
	wh_exit status;

	*out = (wh_outgoing){.headers = NULL};
	wherry_queue_message_init(&out->msg);
	if (!wh_arg_duration(args, "in", &out->msg.delay_us) ||
	    !wh_arg_duration(args, "expires", &out->msg.expires_us))
		return WH_EXIT_USAGE;
	status = wh_read_body(&out->body, args, body, WH_BODY_MAX);
	if (status == WH_EXIT_DONE)
		status = wh_arg_headers(args, &out->headers);
	out->msg.message_id = wh_arg(args, "id");
	out->msg.correlation_id = wh_arg(args, "correlation-id");
	out->msg.reply_to = wh_arg(args, "reply-to");
	out->msg.headers = out->headers;
	out->msg.body = wh_buf_str(&out->body);
	out->msg.body_len = out->body.len;
	return status;
}

void wh_outgoing_clear(wh_outgoing *out)
{
	wh_buf_clear(&out->body);
	free(out->headers);
}
