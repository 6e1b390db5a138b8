/*
 * Spans and metrics of deliveries for a collector of OpenTelemetry, by OTLP over HTTP in JSON.
 * Linked into the program only.
 *
 *     otel.c           a publisher around a publisher: when each delivery began and ended
 *     otel_settings.c  settings and the standard variables OTEL_…
 *     otel_context.c   the trace that a message belongs to, and whether it is sampled
 *     otel_queue.c     spans and sums that wait, in bounded memory
 *     otel_json.c      requests
 *     otel_exporter.c  the thread that sends them
 *
 * Relays that export to the same place share an exporter, which lives until the program ends.
 * A relay only copies a few hundred bytes under a lock that is held for microseconds.
 */
#ifndef WH_PUBLISH_OTEL_H
#define WH_PUBLISH_OTEL_H

#include <pthread.h>

#include "publish/driver.h"

/* ---- otel_settings.c ---- */

typedef enum wh_sampler { WH_SAMPLE_ALL, WH_SAMPLE_NONE, WH_SAMPLE_RATIO } wh_sampler;

typedef struct wh_otel_settings {
	char *endpoint; /* Without /v1/…; NULL: nothing is exported. */
	char *service;
	wh_buf headers; /* Lines "name: value", each ending in NUL. */
	wh_sampler sampler;
	bool by_parent; /* A message with a trace is sampled if its producer's span was. */
	double ratio;
	int64_t spans_us, metrics_us; /* How often to send. */
	long limit_ms;                /* How long a request may take. */
} wh_otel_settings;

/* NULL in endpoint: nothing names a collector. */
wherry_code wh_otel_settings_read(const wherry_config *config, wh_otel_settings *out,
				  wherry_error *err);
/* Append a line for each setting and variable that has no effect, or another one than it says. */
void wh_otel_settings_warn(const wherry_config *config, wh_buf *out);
bool wh_otel_settings_equal(const wh_otel_settings *a, const wh_otel_settings *b);
void wh_otel_settings_clear(wh_otel_settings *settings);

/* ---- otel_context.c ---- */

typedef struct wh_otel_context {
	char trace[33], span[17], parent[17]; /* Hexadecimal; parent "": none. */
	bool sampled;
} wh_otel_context;

/* The context of the span of a delivery.  It is that of the message's traceparent, or of its
 * trace id; without either the span begins a trace. */
void wh_otel_context_of(const wh_otel_settings *settings, const wh_env *env,
			const wherry_message *msg, wh_otel_context *out);

/* ---- otel_queue.c ---- */

enum {
	WH_OTEL_NAME = 256,   /* Of a topic, a message id or a host, with a NUL. */
	WH_OTEL_SPANS = 2048, /* Most spans that wait. */
	WH_OTEL_BATCH = 512,  /* Most spans in a request. */
	WH_OTEL_SERIES =
		256,        /* Most series of metrics; others are one series together. */
	WH_OTEL_BOUNDS = 14 /* Bounds of buckets. */
};

extern const double wh_otel_bounds[WH_OTEL_BOUNDS]; /* Seconds. */

/* Where messages are sent; the same for all of one publisher. */
typedef struct wh_otel_place {
	char system[32]; /* messaging.system */
	char server[WH_OTEL_NAME];
	int port; /* 0: not known. */
} wh_otel_place;

typedef struct wh_otel_span {
	wh_otel_context context;
	wh_otel_place place;
	char topic[WH_OTEL_NAME], id[WH_OTEL_NAME];
	char error[16]; /* error.type; "": the message was delivered. */
	char reason[200];
	int64_t begin_us, end_us; /* Unix time. */
	size_t body_len;
} wh_otel_span;

typedef struct wh_otel_series {
	wh_otel_place place;
	char topic[WH_OTEL_NAME];
	char error[16];
	bool overflow; /* The one series for all that have no room. */
	int64_t n;
	double seconds; /* Sum. */
	int64_t buckets[WH_OTEL_BOUNDS + 1];
} wh_otel_series;

typedef struct wh_otel_queue {
	wh_otel_span *spans; /* A ring. */
	size_t head, n;
	wh_otel_series *series;
	size_t n_series, cap_series;
	int64_t begin_us; /* When the sums began, Unix time. */
	int64_t dropped;  /* Spans without room, and those that the collector refused. */
} wh_otel_queue;

/* False: it was dropped, and counted. */
bool wh_otel_queue_span(wh_otel_queue *queue, const wh_otel_span *span);
void wh_otel_queue_count(wh_otel_queue *queue, const wh_otel_span *span, double seconds);
/* Move up to WH_OTEL_BATCH spans out.  Returns how many. */
size_t wh_otel_queue_take(wh_otel_queue *queue, wh_otel_span *out);
void wh_otel_queue_clear(wh_otel_queue *queue);

/* ---- otel_json.c ---- */

void wh_otel_put_spans(wh_buf *out, const char *service, const wh_otel_span *spans,
		       size_t n);
void wh_otel_put_metrics(wh_buf *out, const char *service, const wh_otel_series *series,
			 size_t n, int64_t begin_us, int64_t now_us);

/* ---- otel_exporter.c ---- */

typedef struct wh_otel_exporter wh_otel_exporter;

/* The exporter with these settings, which is made if there is none.  The settings are moved
 * or cleared. */
wherry_code wh_otel_exporter_get(wh_otel_settings *settings, wh_otel_exporter **out,
				 wherry_error *err);
const wh_otel_settings *wh_otel_exporter_settings(const wh_otel_exporter *exporter);

/* Count deliveries, and export those spans that are sampled. */
void wh_otel_export(wh_otel_exporter *exporter, const wh_otel_span *spans, size_t n);

/* News that nobody has logged yet: a request failed, or spans were dropped.  True at
 * most once a minute, and when the collector answers again. */
typedef struct wh_otel_news {
	bool works;
	int64_t dropped; /* Since the program began. */
	char why[200];
} wh_otel_news;
bool wh_otel_exporter_news(wh_otel_exporter *exporter, wh_otel_news *out);

/* Send what waits, for two seconds at most, and free all exporters. */
void wh_otel_end(void);

/* ---- otel.c ---- */

extern const wh_publisher_wrapper wh_otel_wrapper;

#endif
