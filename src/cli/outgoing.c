#include "cli/outgoing.h"

#include <stdlib.h>

#include "store/fields.h"

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
