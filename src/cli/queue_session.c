#include "cli/queue_session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue/queue.h"
#include "store/fields.h"

/* What is longer is not read to its end. */
enum { BODY_READ_MOST = 4 * WH_BODY_MAX };

wh_exit wh_queue_session_open(wh_queue_session *s, const wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status;
	wherry_code code;

	*s = (wh_queue_session){.queue = NULL};
	status = wh_place_open(&s->at, args);
	if (status != WH_EXIT_DONE)
		return status;
	code = wherry_queue_open(s->at.db, s->at.name, &s->queue, &err);
	if (code == WHERRY_OK) {
		wh_report_layout(s->queue->store.layout.name);
		return WH_EXIT_DONE;
	}
	status = WH_EXIT_FAILED;
	if (code != WHERRY_NOTFOUND || !wh_tell_other(s->at.db, args, s->at.name)) {
		status = wh_call_failed(args, code, &err);
		if (code == WHERRY_NOTFOUND)
			wh_suggest(s->at.db, s->at.name, false);
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

const char *wh_queue_state_name(wherry_state state)
{
	switch (state) {
	case WHERRY_PROCESSING:
		return "leased";
	case WHERRY_FAILED:
		return "waiting";
	case WHERRY_DEAD:
		return "dead";
	case WHERRY_PENDING:
	case WHERRY_DONE:
		break;
	}
	return "ready";
}

void wh_put_queue_message(wh_buf *buf, const wh_queue_session *s,
			  const wherry_queue_message *msg)
{
	const wherry_message line =
		WHERRY_MESSAGE(.id = msg->id, .message_id = msg->message_id,
			       .topic = msg->topic ? msg->topic : s->at.name,
			       .headers = msg->headers, .body = msg->body,
			       .body_len = msg->body_len,
			       .created_at_us = msg->created_at_us,
			       .attempts = msg->attempts);

	wh_put_line(buf, &line);
	wh_put_text_field(buf, "correlation_id", msg->correlation_id);
	wh_put_text_field(buf, "reply_to", msg->reply_to);
	wh_put_text_field(buf, "state", wh_queue_state_name(msg->state));
	wh_put_time_field(buf, "available_at", msg->available_at_us);
	wh_put_time_field(buf, "expires_at", msg->expires_at_us);
	wh_put_text_field(buf, "last_error", msg->last_error);
	if (msg->token)
		wh_put_text_field(buf, "token", msg->token);
	wh_buf_puts(buf, "}\n");
}

/* ---- a message to send ---- */

wh_exit wh_outgoing_read(wh_outgoing *out, const wh_args *args, const char *body)
{
	const char *from = wh_arg(args, "from");
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status = WH_EXIT_DONE;

	*out = (wh_outgoing){.body = WH_BUF_INIT(BODY_READ_MOST)};
	wherry_queue_message_init(&out->msg);
	if (body && from)
		return wh_usage(args->command,
				"a body is given, and --from too: only one of them");
	if (!wh_arg_duration(args, "in", &out->msg.delay_us) ||
	    !wh_arg_duration(args, "expires", &out->msg.expires_us))
		return WH_EXIT_USAGE;
	if (!body && !from && isatty(STDIN_FILENO))
		(void)fputs("reading the body from standard input, which Ctrl-D ends\n",
			    stderr);
	if (body && strcmp(body, "-") != 0)
		wh_buf_puts(&out->body, body);
	else
		status = wh_read_file(&out->body, from ? from : "-");
	if (status == WH_EXIT_DONE && wh_buf_check(&out->body, &err) != WHERRY_OK)
		status = wh_complain(NULL, "the body is over %d bytes, the limit is %d",
				     BODY_READ_MOST, WH_BODY_MAX);
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
