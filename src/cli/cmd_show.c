#include "cli/commands.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/env.h"
#include "base/json.h"
#include "base/text.h"
#include "publish/parts.h"

enum {
	BODY_SHOWN = 4096,
	TEXT_MAX = BODY_SHOWN * 32, /* of a body with its indentation */
	HEX_SHOWN = 256,
	HEX_LINE = 16
};

typedef struct show {
	wh_why why;
	bool json;
} show;

/* ---- the fields ---- */

static void field(const char *name, const char *text)
{
	wh_buf safe = WH_BUF_INIT(1024 * 1024);

	if (text && *text) {
		wh_put_cell(&safe, text, 0);
		(void)printf("%-15s %s\n", name, wh_buf_str(&safe));
	}
	wh_buf_clear(&safe);
}

static void field_time(const show *s, const char *name, int64_t us)
{
	char text[WH_TIME_LEN], span[WH_SPAN_LEN];
	int64_t ago = s->why.now_us - us;

	if (!us)
		return;
	wh_time_print(us, text);
	(void)printf("%-15s %s, %s%s%s\n", name, text, ago < 0 ? "in " : "",
		     wh_span_text(ago < 0 ? -ago : ago, span), ago < 0 ? "" : " ago");
}

static void field_number(const char *name, int64_t number)
{
	(void)printf("%-15s %" PRId64 "\n", name, number);
}

static void print_fields(const show *s, const wherry_row *row, const char *why)
{
	const wherry_message *m = row->message;

	field_number("id:", m->id);
	field("message_id:", m->message_id);
	field("topic:", m->topic);
	field("key:", m->key);
	field("aggregate_type:", m->aggregate_type);
	field("aggregate_id:", m->aggregate_id);
	field("trace_id:", m->trace_id);
	field("headers:", m->headers);
	field("state:", wherry_state_name(row->state));
	field("why:", why);
	field_number("attempts:", m->attempts);
	field_number("generation:", m->generation);
	field_time(s, "created:", m->created_at_us);
	field_time(s, "claimed:", row->claimed_at_us);
	field_time(s, "next retry:", row->next_retry_at_us);
	field_time(s, "delivered:", row->processed_at_us);
	field("last error:", row->last_error);
}

/* ---- the body ---- */

static void print_hex(const unsigned char *body, size_t len)
{
	for (size_t at = 0; at < len && at < HEX_SHOWN; at += HEX_LINE) {
		size_t n = len - at < HEX_LINE ? len - at : HEX_LINE;

		(void)printf("%08zx ", at);
		for (size_t i = 0; i < HEX_LINE; i++)
			(void)(i < n ? printf(" %02x", body[at + i]) : printf("   "));
		(void)printf("  ");
		for (size_t i = 0; i < n; i++)
			(void)putchar(isprint(body[at + i]) ? body[at + i] : '.');
		(void)putchar('\n');
	}
}

/* Line by line, since a line break may stand but other control characters may not. */
static void print_lines(const char *text)
{
	wh_buf line = WH_BUF_INIT(TEXT_MAX), safe = WH_BUF_INIT(TEXT_MAX);

	while (*text) {
		size_t n = strcspn(text, "\n");

		wh_buf_reset(&line);
		wh_buf_reset(&safe);
		wh_buf_put(&line, text, n);
		wh_put_cell(&safe, wh_buf_str(&line), 0);
		(void)puts(wh_buf_str(&safe));
		text += n + (text[n] == '\n');
	}
	wh_buf_clear(&line);
	wh_buf_clear(&safe);
}

static void print_text(const char *body, size_t len)
{
	size_t n = wh_utf8_cut(body, len, BODY_SHOWN);
	wh_buf text = WH_BUF_INIT(TEXT_MAX);

	if (n == len && wh_json_valid(body, len))
		wh_put_pretty(&text, body, len);
	if (!text.len || text.failed) { /* no JSON, or nested too deeply to be indented */
		wh_buf_reset(&text);
		wh_buf_put(&text, body, n);
	}
	print_lines(wh_buf_str(&text));
	if (n < len)
		(void)printf("... %zu bytes more; --json has all\n", len - n);
	wh_buf_clear(&text);
}

static void print_body(const wherry_message *m)
{
	const char *body = m->body ? m->body : "";
	size_t len = m->body ? m->body_len : 0;
	bool text = wh_utf8_valid(body, len) && !memchr(body, 0, len);

	(void)printf("%-15s %zu byte%s%s\n", "body:", len, wh_plural((int64_t)len),
		     text ? "" : " that are not text");
	if (!len)
		return;
	(void)putchar('\n');
	if (text)
		print_text(body, len);
	else
		print_hex((const unsigned char *)body, len);
	if (!text && len > HEX_SHOWN)
		(void)printf("... %zu bytes more; --json has all\n", len - HEX_SHOWN);
}

/* ---- the command ---- */

static wherry_code visit(void *ctx, const wherry_row *row)
{
	show *s = ctx;
	wh_buf why = WH_BUF_INIT(4096);

	wh_put_why(&why, &s->why, row);
	if (s->json) {
		wh_buf json = WH_BUF_INIT((size_t)1 << 31);

		wh_put_row(&json, row, WH_ROW_FULL);
		json.len -= json.len > 0;
		wh_buf_puts(&json, ",\"why\":");
		wh_buf_json(&json, wh_buf_str(&why), why.len);
		wh_buf_puts(&json, "}");
		(void)puts(wh_buf_str(&json));
		wh_buf_clear(&json);
	} else {
		print_fields(s, row, wh_buf_str(&why));
		print_body(row->message);
	}
	wh_buf_clear(&why);
	return WHERRY_OK;
}

static wh_exit run(wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_session session;
	wh_exit status = wh_session_open(&session, args);
	show s = {.why.session = &session, .json = wh_arg_on(args, "json")};
	wherry_code code;

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
		"  wherry show sqlite:shop.db ak18247005 --json | jq .body\n",
	.options = options,
	.run = run,
};
