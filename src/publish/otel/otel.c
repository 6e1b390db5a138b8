/*
 * A publisher around a publisher that notes when each delivery began and ended.
 *
 * A delivery begins when the destination takes the message, and ends with its receipt.  Each
 * attempt is a delivery.
 */
#include "publish/otel/otel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/url.h"
#include "publish/around.h"
#include "publish/curl_start.h"

enum { CHUNK = 32 };

/* A message in flight, in a hash table. */
typedef struct begun {
	const wherry_message *message; /* NULL: empty. */
	int64_t at_us;                 /* Unix time. */
} begun;

typedef struct otel {
	wh_around around;
	const wh_env *env;
	wh_otel_exporter *exporter;
	wh_otel_place place;
	begun *begun; /* Open addressing, at most half full. */
	size_t cap, n;
} otel;

static otel *of(wherry_publisher *pub)
{
	return (otel *)pub;
}

/* ---- messages in flight ---- */

static size_t place_of(const otel *o, const wherry_message *message)
{
	uint64_t hash = (uint64_t)(uintptr_t)message * 0x9e3779b97f4a7c15;

	return (size_t)(hash >> 32) & (o->cap - 1);
}

static begun *find(const otel *o, const wherry_message *message)
{
	size_t i = place_of(o, message);

	while (o->begun[i].message && o->begun[i].message != message)
		i = (i + 1) & (o->cap - 1);
	return &o->begun[i];
}

static bool grow(otel *o)
{
	otel grown = *o;

	if (2 * (o->n + 1) <= o->cap)
		return true;
	grown.cap = o->cap ? 2 * o->cap : 256;
	grown.begun = calloc(grown.cap, sizeof(*grown.begun));
	if (!grown.begun)
		return false;
	for (size_t i = 0; i < o->cap; i++)
		if (o->begun[i].message)
			*find(&grown, o->begun[i].message) = o->begun[i];
	free(o->begun);
	o->begun = grown.begun;
	o->cap = grown.cap;
	return true;
}

/* Without memory the delivery is not exported. */
static void begin(otel *o, const wherry_message *message, int64_t now)
{
	begun *b = grow(o) ? find(o, message) : NULL;

	if (!b)
		return;
	o->n += !b->message;
	*b = (begun){message, now};
}

/* Take a message out.  False: it is not there. */
static bool take(otel *o, const wherry_message *message, int64_t *out_at_us)
{
	size_t hole, i, home;

	if (!o->n)
		return false;
	hole = (size_t)(find(o, message) - o->begun);
	if (!o->begun[hole].message)
		return false;
	*out_at_us = o->begun[hole].at_us;
	o->n--;
	/* Move those back that were put behind it. */
	for (i = (hole + 1) & (o->cap - 1); o->begun[i].message;
	     i = (i + 1) & (o->cap - 1)) {
		home = place_of(o, o->begun[i].message);
		if (((i - home) & (o->cap - 1)) < ((i - hole) & (o->cap - 1)))
			continue;
		o->begun[hole] = o->begun[i];
		hole = i;
	}
	o->begun[hole].message = NULL;
	return true;
}

static void forget(otel *o)
{
	if (o->n)
		memset(o->begun, 0, o->cap * sizeof(*o->begun));
	o->n = 0;
}

/* ---- spans ---- */

static void copy(const char *text, char *out, size_t cap)
{
	size_t len = text ? strlen(text) : 0;

	len = text ? wh_utf8_cut(text, len, cap - 1) : 0;
	if (len)
		memcpy(out, text, len);
	out[len] = 0;
}

static const char *error_of(wherry_verdict verdict)
{
	switch (verdict) {
	case WHERRY_DELIVERED:
		return "";
	case WHERRY_RETRY:
		return "retry";
	case WHERRY_REJECTED:
		return "rejected";
	case WHERRY_THROTTLED:
		return "throttled";
	case WHERRY_UNKNOWN:
		break;
	}
	return "timeout";
}

static void fill(const otel *o, const wh_receipt *receipt, int64_t begin_us,
		 int64_t end_us, wh_otel_span *out)
{
	const wherry_message *msg = receipt->message;

	out->place = o->place;
	wh_otel_context_of(wh_otel_exporter_settings(o->exporter), o->env, msg,
			   &out->context);
	copy(msg->topic, out->topic, sizeof(out->topic));
	copy(msg->message_id, out->id, sizeof(out->id));
	copy(error_of(receipt->verdict), out->error, sizeof(out->error));
	copy(receipt->reason, out->reason, sizeof(out->reason));
	out->begin_us = begin_us;
	out->end_us = end_us > begin_us ? end_us : begin_us;
	out->body_len = msg->body_len;
}

static void export_all(otel *o, const wh_receipt *receipts, size_t n)
{
	wh_otel_span spans[CHUNK];
	int64_t now = n ? wh_now(o->env) : 0, begin_us;
	size_t filled = 0;

	for (size_t i = 0; i < n; i++) {
		if (take(o, receipts[i].message, &begin_us))
			fill(o, &receipts[i], begin_us, now, &spans[filled++]);
		if (filled == CHUNK || (filled && i + 1 == n)) {
			wh_otel_export(o->exporter, spans, filled);
			filled = 0;
		}
	}
}

static void say_news(const otel *o)
{
	wh_otel_news news;

	if (!wh_otel_exporter_news(o->exporter, &news))
		return;
	if (news.works && !news.dropped)
		wh_log(o->env, WHERRY_LOG_INFO, "otel", "collector-up",
		       wh_log_text("endpoint",
				   wh_otel_exporter_settings(o->exporter)->endpoint));
	else if (news.works)
		wh_log(o->env, WHERRY_LOG_WARN, "otel", "spans-dropped",
		       wh_log_int("dropped", news.dropped));
	else
		wh_log(o->env, WHERRY_LOG_WARN, "otel", "collector-down",
		       wh_log_text("endpoint",
				   wh_otel_exporter_settings(o->exporter)->endpoint),
		       wh_log_text("why", news.why), wh_log_int("dropped", news.dropped),
		       wh_log_note("deliveries go on; spans that have no room are "
				   "dropped"));
}

/* ---- the table ---- */

static wherry_code otel_submit(wherry_publisher *pub, const wherry_message *const *msgs,
			       size_t n, size_t *out_taken, wherry_error *err)
{
	otel *o = of(pub);
	int64_t now = wh_now(o->env);
	wherry_code code = wh_publisher_submit(o->around.inner, msgs, n, out_taken, err);

	for (size_t i = 0; i < *out_taken; i++)
		begin(o, msgs[i], now);
	return code;
}

static wherry_code otel_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				size_t *out_n, wherry_error *err)
{
	otel *o = of(pub);
	wherry_code code = wh_publisher_collect(o->around.inner, out, cap, out_n, err);

	if (code == WHERRY_OK)
		export_all(o, out, *out_n);
	say_news(o);
	return code;
}

/* The relay calls this now and then, also while it has nothing to deliver. */
static const char *otel_notice(wherry_publisher *pub)
{
	say_news(of(pub));
	return wh_publisher_notice(of(pub)->around.inner);
}

static void otel_drop(wherry_publisher *pub)
{
	wh_publisher_drop(of(pub)->around.inner);
	forget(of(pub));
}

static void otel_close(wherry_publisher *pub)
{
	otel *o = of(pub);

	wherry_publisher_close(o->around.inner);
	free(o->begun);
	free(o);
}

/* ---- opening ---- */

static void fill_place(const char *url, wh_otel_place *out)
{
	static const struct {
		const char *scheme, *system;
	} known[] = {{"amqp", "rabbitmq"},     {"amqps", "rabbitmq"},
		     {"nats+tls", "nats"},     {"rediss", "redis"},
		     {"https", "http"},        {"redis+sentinel", "redis"},
		     {"postgres", "wherry"},   {"rediss+sentinel", "redis"},
		     {"postgresql", "wherry"}, {"sqlite", "wherry"}};
	wh_url parts;
	const char *host, *end, *colon;
	wh_view hosts;
	int64_t port;
	char digits[8];

	*out = (wh_otel_place){.port = 0};
	if (wh_url_parse(url, &parts, NULL) != WHERRY_OK)
		return;
	(void)snprintf(out->system, sizeof(out->system), "%.*s",
		       (int)(parts.scheme.len < 31 ? parts.scheme.len : 31),
		       parts.scheme.ptr);
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (wh_view_eq(parts.scheme, wh_view_of(known[i].scheme)))
			(void)snprintf(out->system, sizeof(out->system), "%s",
				       known[i].system);
	if (strncmp(parts.rest.ptr, "//", 2) != 0)
		return;
	/* Never the user and password.  Of several hosts the first. */
	hosts = wh_url_hosts(parts.rest.ptr);
	if (!hosts.ptr)
		return;
	host = hosts.ptr;
	end = memchr(host, ',', hosts.len);
	end = end ? end : host + hosts.len;
	colon = *host == '[' ? memchr(host, ']', (size_t)(end - host)) : host;
	colon = colon ? memchr(colon, ':', (size_t)(end - colon)) : NULL;
	(void)snprintf(digits, sizeof(digits), "%.*s",
		       colon ? (int)(end - colon - 1 < 7 ? end - colon - 1 : 7) : 0,
		       colon ? colon + 1 : "");
	out->port =
		wh_parse_int(digits, &port) && port > 0 && port < 65536 ? (int)port : 0;
	end = colon ? colon : end;
	(void)snprintf(
		out->server, sizeof(out->server), "%.*s",
		(int)(end - host < WH_OTEL_NAME - 1 ? end - host : WH_OTEL_NAME - 1),
		host);
}

static wherry_code otel_check(const wherry_config *config, wherry_error *err)
{
	wh_otel_settings set;
	wherry_code code = wh_otel_settings_read(config, &set, err);

	if (code == WHERRY_OK)
		wh_otel_settings_clear(&set);
	return code;
}

static wherry_code otel_wrap(const char *url, const wherry_config *config,
			     const wh_env *env, wherry_publisher **pub, wherry_error *err)
{
	static const wh_publisher_driver own = {
		.close = otel_close,
		.submit = otel_submit,
		.collect = otel_collect,
		.drop = otel_drop,
		.notice = otel_notice,
	};
	wh_otel_settings set;
	wh_otel_exporter *exporter = NULL;
	wherry_code code = wh_otel_settings_read(config, &set, err);
	otel *o = NULL;

	if (code == WHERRY_OK && !set.endpoint)
		return WHERRY_OK;
	(void)wh_curl_start(NULL); /* curl_easy_init() fails if it did. */
	if (code == WHERRY_OK)
		code = wh_otel_exporter_get(&set, &exporter, err);
	if (code == WHERRY_OK) {
		o = calloc(1, sizeof(*o));
		code = o ? WHERRY_OK : wh_oom(err);
	}
	if (code != WHERRY_OK) {
		wherry_publisher_close(*pub);
		return code;
	}
	wh_around_make(&o->around, *pub, &own);
	o->env = env;
	o->exporter = exporter;
	fill_place(url, &o->place);
	*pub = &o->around.base;
	return WHERRY_OK;
}

const wh_publisher_wrapper wh_otel_wrapper = {
	.check = otel_check,
	.warn = wh_otel_settings_warn,
	.wrap = otel_wrap,
	.end = wh_otel_end,
};
