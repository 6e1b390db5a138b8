/*
 * The answer of a stream: {"stream":"ORDERS","seq":42}, perhaps with "duplicate":true, or
 * {"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},…}.
 */
#include "publish/nats/nats.h"

#include <jansson.h>
#include <string.h>

/* The part of an answer that is not yet read. */
typedef struct rest {
	const char *at, *end;
} rest;

static bool skip(rest *r, const char *text)
{
	size_t len = strlen(text);

	if ((size_t)(r->end - r->at) < len || memcmp(r->at, text, len) != 0)
		return false;
	r->at += len;
	return true;
}

static void skip_blanks(rest *r)
{
	while (r->at < r->end && *r->at == ' ')
		r->at++;
}

/* Nearly all answers are {"stream":"ORDERS", "seq":42}: printable ASCII without escapes, and a
 * number that fits.  False: it is another answer, or not JSON, and has to be parsed. */
static bool is_stored(const char *data, size_t len)
{
	enum { DIGITS_MOST = 18 };
	rest r = {data, data + len};
	const char *began;

	if (!skip(&r, "{\"stream\":\""))
		return false;
	while (r.at < r.end && *r.at >= ' ' && *r.at <= '~' && *r.at != '"' &&
	       *r.at != '\\')
		r.at++;
	if (!skip(&r, "\","))
		return false;
	skip_blanks(&r);
	if (!skip(&r, "\"seq\":"))
		return false;
	skip_blanks(&r);
	began = r.at;
	while (r.at < r.end && *r.at >= '0' && *r.at <= '9')
		r.at++;
	return r.at > began && *began != '0' && r.at - began <= DIGITS_MOST &&
	       skip(&r, "}") && r.at == r.end;
}

wh_nats_answer wh_nats_answer_read(const char *data, size_t len)
{
	wh_nats_answer answer = {.outcome = WH_NATS_STRANGE};
	const json_t *error;
	const char *text;
	json_t *all;

	if (data && is_stored(data, len))
		return (wh_nats_answer){.outcome = WH_NATS_STORED};
	all = json_loadb(data, len, 0, NULL);
	error = json_object_get(all, "error");
	if (json_is_object(error)) {
		text = json_string_value(json_object_get(error, "description"));
		answer.outcome = WH_NATS_REFUSED;
		answer.code = (int)json_integer_value(json_object_get(error, "code"));
		answer.number =
			(int)json_integer_value(json_object_get(error, "err_code"));
		answer.text = text ? strdup(text) : NULL;
	} else if (json_is_string(json_object_get(all, "stream")) &&
		   json_is_integer(json_object_get(all, "seq"))) {
		answer.outcome = json_is_true(json_object_get(all, "duplicate"))
					 ? WH_NATS_DOUBLED
					 : WH_NATS_STORED;
	}
	json_decref(all);
	return answer;
}
