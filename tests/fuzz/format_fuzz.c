/* Templates and rules of headers, which a message with any fields gets: they are refused, or each
 * message gets valid headers or a reason.  The input: a template, rules, fields, body; NUL ends
 * each. */
#include "fuzz.h"

#include "base/json.h"
#include "publish/format/format.h"
#include "publish/format/template.h"

static void check_pieces(const char *template)
{
	bool known = wh_template_check(template, NULL) == WHERRY_OK;
	bool all = true;

	for (const char *at = template; *at;) {
		const char *before = at;
		wh_piece piece = wh_template_next(&at);

		CHECK(at > before && piece.text.ptr >= before);
		CHECK(piece.text.ptr + piece.text.len <= at);
		all = all && piece.kind != WH_PIECE_UNKNOWN;
	}
	CHECK(all == known);
}

static void check_message(const wh_format *format, const wherry_message *msg)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_formed formed;
	wherry_code code;

	wh_formed_init(&formed);
	code = wh_format_make(format, msg, &formed, &err);
	if (code != WHERRY_OK) {
		CHECK(code == WHERRY_INVALID || code == WHERRY_TOOBIG);
		CHECK(*err.message);
	} else if (format->writes) {
		CHECK(wh_json_headers(formed.msg.headers, strlen(formed.msg.headers),
				      NULL) == WHERRY_OK);
	}
	if (code == WHERRY_OK && format->kind == WH_FORMAT_STRUCTURED)
		CHECK(wh_json_valid(formed.msg.body, formed.msg.body_len));
	wh_formed_clear(&formed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const wh_binding binding = {"ce-", true, true,
					   "application/cloudevents+json"};
	char *template = fuzz_next(&data, &len, 0), *rules = fuzz_next(&data, &len, 0);
	char source[] = "/s", type[] = "t";
	wh_format format = {.binding = &binding,
			    .source = source,
			    .type = type,
			    .parses = true,
			    .writes = true};
	fuzz_message f;

	check_pieces(template);
	if (wh_template_check(template, NULL) == WHERRY_OK &&
	    wh_header_rules_read(rules, &format.rules, NULL) == WHERRY_OK) {
		format.topic = format.key = template;
		fuzz_message_read(&f, data, len);
		for (int kind = WH_FORMAT_RAW; kind <= WH_FORMAT_EXPANDED; kind++) {
			format.kind = (wh_format_kind)kind;
			check_message(&format, &f.message);
		}
		fuzz_message_clear(&f);
		wh_header_rules_clear(&format.rules);
	}
	free(template);
	free(rules);
	return 0;
}
