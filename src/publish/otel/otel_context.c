/*
 * The trace that a message belongs to.
 *
 *     a traceparent, as a header or as trace_id   the span is a child of the producer's
 *     a trace id of 32 digits                     the span has the id that destinations give as
 *                                                 the parent, so consumers' spans are its children
 *     neither                                     the span begins a trace
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "publish/otel/otel.h"
#include "publish/parts.h"

/* The header traceparent in a message's place for a trace id. */
static bool header_context(const wherry_message *msg, char out[WH_TRACEPARENT_LEN])
{
	const char *text = wh_message_headers(msg), *name;
	json_t *headers, *value;
	bool found = false;

	if (!strcasestr(text, "traceparent"))
		return false;
	headers = json_loads(text, JSON_ALLOW_NUL, NULL);
	json_object_foreach (headers, name, value) {
		wherry_message shown = {.trace_id = json_string_value(value)};

		if (strcasecmp(name, "traceparent") == 0 && shown.trace_id &&
		    strlen(shown.trace_id) == WH_TRACEPARENT_LEN - 1)
			found |= wh_traceparent(&shown, out);
	}
	json_decref(headers);
	return found;
}

static bool is_sampled(const wh_otel_settings *settings, const char *trace)
{
	uint64_t low = 0;

	if (settings->sampler != WH_SAMPLE_RATIO)
		return settings->sampler == WH_SAMPLE_ALL;
	/* The last 56 bits are random; see W3C Trace Context. */
	for (const char *at = trace + 18; *at; at++)
		low = low * 16 +
		      (uint64_t)(wh_is_digit(*at) ? *at - '0' : *at - 'a' + 10);
	return (double)low < settings->ratio * 72057594037927936.0;
}

static void put_id(char *out, size_t cap, uint64_t number)
{
	(void)snprintf(out, cap, "%016" PRIx64, number ? number : 1);
}

void wh_otel_context_of(const wh_otel_settings *settings, const wh_env *env,
			const wherry_message *msg, wh_otel_context *out)
{
	char parent[WH_TRACEPARENT_LEN];
	bool is_id = msg->trace_id && strlen(msg->trace_id) == 32;
	bool known = header_context(msg, parent);

	if (known)
		is_id = false;
	else
		known = wh_traceparent(msg, parent);
	*out = (wh_otel_context){.parent = ""};
	if (!known) {
		put_id(out->trace, sizeof(out->trace), wh_random(env));
		put_id(out->trace + 16, sizeof(out->trace) - 16, wh_random(env));
		put_id(out->span, sizeof(out->span), wh_random(env));
		out->sampled = is_sampled(settings, out->trace);
		return;
	}
	memcpy(out->trace, parent + 3, 32);
	if (is_id) {
		memcpy(out->span, parent + 36, 16);
	} else {
		memcpy(out->parent, parent + 36, 16);
		put_id(out->span, sizeof(out->span), wh_random(env));
	}
	/* The last bit of the flags says whether the producer's span was sampled. */
	out->sampled = settings->by_parent && !is_id
			       ? strchr("13579bdf", parent[54]) != NULL
			       : is_sampled(settings, out->trace);
}
