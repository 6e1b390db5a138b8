/*
 * Requests of OTLP in JSON, with the names of OpenTelemetry's semantic conventions of messaging.
 * Numbers of 64 bits are strings, and ids are hexadecimal, as OTLP asks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <wherry/version.h>

#include "publish/otel/otel.h"

static const char schema[] = "https://opentelemetry.io/schemas/1.30.0";

enum { KIND_PRODUCER = 4, STATUS_ERROR = 2, CUMULATIVE = 2 };

static void put_text(wh_buf *out, const char *text)
{
	wh_buf_json(out, text, strlen(text));
}

static void put_comma(wh_buf *out)
{
	char last = out->len ? out->ptr[out->len - 1] : '[';

	if (last != '[' && last != '{')
		wh_buf_putc(out, ',');
}

static void put_attribute(wh_buf *out, const char *name, const char *value)
{
	if (!*value)
		return;
	put_comma(out);
	wh_buf_printf(out, "{\"key\":\"%s\",\"value\":{\"stringValue\":", name);
	put_text(out, value);
	wh_buf_puts(out, "}}");
}

static void put_number(wh_buf *out, const char *name, int64_t value)
{
	put_comma(out);
	wh_buf_printf(out, "{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRId64 "\"}}",
		      name, value);
}

static void put_place(wh_buf *out, const wh_otel_place *place, const char *topic,
		      const char *error)
{
	put_attribute(out, "messaging.system", place->system);
	put_attribute(out, "messaging.destination.name", topic);
	put_attribute(out, "messaging.operation.name", "send");
	put_attribute(out, "messaging.operation.type", "send");
	put_attribute(out, "server.address", place->server);
	if (*place->server && place->port)
		put_number(out, "server.port", place->port);
	put_attribute(out, "error.type", error);
}

/* Begin {"resourceSpans":[{"resource":…,"scopeSpans":[{"scope":…,"spans":[ */
static void begin(wh_buf *out, const char *service, const char *resources,
		  const char *scopes, const char *items)
{
	wh_buf_printf(out, "{\"%s\":[{\"resource\":{\"attributes\":[", resources);
	put_attribute(out, "service.name", service);
	put_attribute(out, "service.version", WHERRY_VERSION);
	wh_buf_printf(out,
		      "]},\"schemaUrl\":\"%s\",\"%s\":[{\"scope\":{\"name\":\"wherry\","
		      "\"version\":\"" WHERRY_VERSION "\"},\"schemaUrl\":\"%s\",\"%s\":[",
		      schema, scopes, schema, items);
}

static void end(wh_buf *out)
{
	wh_buf_puts(out, "]}]}]}");
}

static void put_time(wh_buf *out, const char *name, int64_t unix_us)
{
	wh_buf_printf(out, "\"%s\":\"%" PRId64 "000\",", name, unix_us);
}

static void put_span(wh_buf *out, const wh_otel_span *span)
{
	char name[WH_OTEL_NAME + 8];

	put_comma(out);
	wh_buf_printf(out, "{\"traceId\":\"%s\",\"spanId\":\"%s\",\"flags\":1,",
		      span->context.trace, span->context.span);
	if (*span->context.parent)
		wh_buf_printf(out, "\"parentSpanId\":\"%s\",", span->context.parent);
	(void)snprintf(name, sizeof(name), "send %s", span->topic);
	wh_buf_puts(out, "\"name\":");
	put_text(out, name);
	wh_buf_printf(out, ",\"kind\":%d,", KIND_PRODUCER);
	put_time(out, "startTimeUnixNano", span->begin_us);
	put_time(out, "endTimeUnixNano", span->end_us);
	wh_buf_puts(out, "\"attributes\":[");
	put_place(out, &span->place, span->topic, span->error);
	put_attribute(out, "messaging.message.id", span->id);
	put_number(out, "messaging.message.body.size", (int64_t)span->body_len);
	wh_buf_puts(out, "]");
	if (*span->error) {
		wh_buf_printf(out, ",\"status\":{\"code\":%d,\"message\":", STATUS_ERROR);
		put_text(out, span->reason);
		wh_buf_puts(out, "}");
	}
	wh_buf_puts(out, "}");
}

void wh_otel_put_spans(wh_buf *out, const char *service, const wh_otel_span *spans,
		       size_t n)
{
	begin(out, service, "resourceSpans", "scopeSpans", "spans");
	for (size_t i = 0; i < n; i++)
		put_span(out, &spans[i]);
	end(out);
}

/* ---- metrics ---- */

/* Begin a data point of a series. */
static void put_point(wh_buf *out, const wh_otel_series *series, int64_t begin_us,
		      int64_t now_us)
{
	put_comma(out);
	wh_buf_puts(out, "{\"attributes\":[");
	if (series->overflow)
		wh_buf_puts(out, "{\"key\":\"otel.metric.overflow\",\"value\":{"
				 "\"boolValue\":true}}");
	else
		put_place(out, &series->place, series->topic, series->error);
	wh_buf_puts(out, "],");
	put_time(out, "startTimeUnixNano", begin_us);
	put_time(out, "timeUnixNano", now_us);
}

/* A number that is not negative, with a point, whatever the program's locale is. */
static void put_double(wh_buf *out, double number)
{
	int64_t whole = (int64_t)number;

	wh_buf_printf(out, "%" PRId64 ".%06d", whole,
		      (int)((number - (double)whole) * 1000000));
}

static void put_histogram(wh_buf *out, const wh_otel_series *series)
{
	wh_buf_printf(out, "\"count\":\"%" PRId64 "\",\"sum\":", series->n);
	put_double(out, series->seconds);
	wh_buf_puts(out, ",\"bucketCounts\":[");
	for (size_t i = 0; i <= WH_OTEL_BOUNDS; i++)
		wh_buf_printf(out, "%s\"%" PRId64 "\"", i ? "," : "", series->buckets[i]);
	wh_buf_puts(out, "],\"explicitBounds\":[");
	for (size_t i = 0; i < WH_OTEL_BOUNDS; i++) {
		put_comma(out);
		put_double(out, wh_otel_bounds[i] + 0.0000001);
	}
	wh_buf_puts(out, "]}");
}

void wh_otel_put_metrics(wh_buf *out, const char *service, const wh_otel_series *series,
			 size_t n, int64_t begin_us, int64_t now_us)
{
	begin(out, service, "resourceMetrics", "scopeMetrics", "metrics");
	wh_buf_printf(
		out,
		"{\"name\":\"messaging.client.sent.messages\",\"unit\":\"{message}\","
		"\"description\":\"Messages that a destination was given.\",\"sum\":{"
		"\"aggregationTemporality\":%d,\"isMonotonic\":true,\"dataPoints\":[",
		CUMULATIVE);
	for (size_t i = 0; i < n; i++) {
		put_point(out, &series[i], begin_us, now_us);
		wh_buf_printf(out, "\"asInt\":\"%" PRId64 "\"}", series[i].n);
	}
	wh_buf_printf(
		out,
		"]}},{\"name\":\"messaging.client.operation.duration\",\"unit\":\"s\","
		"\"description\":\"How long deliveries took.\",\"histogram\":{"
		"\"aggregationTemporality\":%d,\"dataPoints\":[",
		CUMULATIVE);
	for (size_t i = 0; i < n; i++) {
		put_point(out, &series[i], begin_us, now_us);
		put_histogram(out, &series[i]);
	}
	wh_buf_puts(out, "]}}");
	end(out);
}
