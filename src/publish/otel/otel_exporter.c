/*
 * The thread that sends spans and metrics.
 *
 * While the collector does not answer, the thread tries the same batch again with growing pauses,
 * the queue fills, and later spans are dropped and counted.  Deliveries never wait for it.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wherry/version.h>

#include "base/thread.h"
#include "publish/otel/otel.h"

enum {
	PAUSE_LEAST_US = 1000000,
	PAUSE_MOST_US = 60000000,
	NEWS_US = 60000000,
	END_US = 2000000, /* How long the rest may take, when the program ends. */
	REQUEST_MOST = 16 << 20
};

struct wh_otel_exporter {
	wh_otel_exporter *next;
	wh_otel_settings set;
	pthread_t thread;
	pthread_mutex_t lock; /* Guards what follows, up to the thread's. */
	pthread_cond_t changed;
	int64_t ends_at_us; /* The program ends: the last requests end by then; 0: it goes on. */
	wh_otel_queue queue;
	bool failing, changed_state; /* changed_state: not in the news yet. */
	int64_t news_us, news_dropped;
	char why[200];

	/* The thread's. */
	CURL *easy;
	char error[CURL_ERROR_SIZE];
	wh_otel_span *batch;
	size_t n_batch;
	wh_otel_series *series;
	bool asks; /* The request has no data: it asks whether the collector answers. */
};

/* Exporters of the program; they live until wh_otel_wrapper.end(). */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static wh_otel_exporter *all;

/* ---- requests ---- */

static size_t ignore(char *data, size_t size, size_t n, void *arg)
{
	(void)data;
	(void)arg;
	return size * n;
}

/* When the last requests end; 0: the program goes on. */
static int64_t end_of(wh_otel_exporter *x)
{
	int64_t ends_at_us;

	(void)pthread_mutex_lock(&x->lock);
	ends_at_us = x->ends_at_us;
	(void)pthread_mutex_unlock(&x->lock);
	return ends_at_us;
}

static bool is_ending(wh_otel_exporter *x)
{
	return end_of(x) != 0;
}

/* Time that a request may take, in milliseconds; 0: none is left. */
static long time_left_ms(wh_otel_exporter *x)
{
	int64_t ends_at_us = end_of(x), left_us;

	if (!ends_at_us)
		return x->set.limit_ms;
	left_us = ends_at_us - wh_monotonic(&wh_env_system);
	if (left_us < 1000)
		return 0;
	return left_us / 1000 < x->set.limit_ms ? (long)(left_us / 1000)
						: x->set.limit_ms;
}

/* A request that runs when the program ends gets no more time than those after it, and one without data none. */
static int go_on(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	wh_otel_exporter *x = arg;

	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return time_left_ms(x) == 0 || (x->asks && is_ending(x));
}

#define SET(easy, option, value) ((void)curl_easy_setopt((easy), (option), (value)))

static bool set_options(wh_otel_exporter *x, const char *path, const wh_buf *body,
			long time_ms)
{
	wh_buf url = WH_BUF_INIT(8192);
	bool ok;

	curl_easy_reset(x->easy);
	wh_buf_puts(&url, x->set.endpoint);
	wh_buf_puts(&url, path);
	SET(x->easy, CURLOPT_NOSIGNAL, 1L);
	SET(x->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	SET(x->easy, CURLOPT_USERAGENT, "wherry/" WHERRY_VERSION);
	SET(x->easy, CURLOPT_TIMEOUT_MS, time_ms);
	SET(x->easy, CURLOPT_ERRORBUFFER, x->error);
	SET(x->easy, CURLOPT_WRITEFUNCTION, ignore);
	SET(x->easy, CURLOPT_NOPROGRESS, 0L);
	SET(x->easy, CURLOPT_XFERINFOFUNCTION, go_on);
	SET(x->easy, CURLOPT_XFERINFODATA, x);
	SET(x->easy, CURLOPT_POSTFIELDS, body->ptr);
	SET(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
	ok = !url.failed && curl_easy_setopt(x->easy, CURLOPT_URL, url.ptr) == CURLE_OK;
	wh_buf_clear(&url);
	return ok;
}

static struct curl_slist *make_headers(const wh_otel_exporter *x)
{
	const wh_buf *lines = &x->set.headers;
	struct curl_slist *list =
		curl_slist_append(NULL, "content-type: application/json");

	for (size_t at = 0; list && at < lines->len; at += strlen(lines->ptr + at) + 1) {
		struct curl_slist *grown = curl_slist_append(list, lines->ptr + at);

		if (!grown)
			curl_slist_free_all(list);
		list = grown;
	}
	return list;
}

typedef enum result { TAKEN, REFUSED, LATER } result;

/* Note the result of a request for the news. */
static void note(wh_otel_exporter *x, result is, const char *why)
{
	bool failing = is != TAKEN;

	(void)pthread_mutex_lock(&x->lock);
	x->changed_state |= failing != x->failing || is == REFUSED;
	x->failing = failing;
	(void)snprintf(x->why, sizeof(x->why), "%s", why);
	(void)pthread_mutex_unlock(&x->lock);
}

static result post(wh_otel_exporter *x, const char *path, const wh_buf *body)
{
	struct curl_slist *headers = make_headers(x);
	CURLcode code = CURLE_OUT_OF_MEMORY;
	long status = 0;
	char why[200];
	long time_ms = time_left_ms(x);
	result is;

	(void)snprintf(x->error, sizeof(x->error), "%s",
		       time_ms ? "" : "the program ended before it was sent");
	if (headers && !body->failed && time_ms && set_options(x, path, body, time_ms)) {
		SET(x->easy, CURLOPT_HTTPHEADER, headers);
		code = curl_easy_perform(x->easy);
		(void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	}
	curl_slist_free_all(headers);
	if (status >= 200 && status < 300)
		is = TAKEN;
	else if (status && status != 429 && status != 502 && status != 503 &&
		 status != 504)
		is = REFUSED;
	else
		is = body->failed ? REFUSED : LATER;
	if (status)
		(void)snprintf(why, sizeof(why), "HTTP %ld", status);
	else
		(void)snprintf(why, sizeof(why), "%.190s",
			       *x->error ? x->error : curl_easy_strerror(code));
	note(x, is, why);
	return is;
}

/* Send the batch.  False: it must be sent again. */
static bool send_spans(wh_otel_exporter *x)
{
	wh_buf body = WH_BUF_INIT(REQUEST_MOST);
	result is;

	wh_otel_put_spans(&body, x->set.service, x->batch, x->n_batch);
	is = post(x, "/v1/traces", &body);
	wh_buf_clear(&body);
	if (is == LATER)
		return false;
	if (is == REFUSED) {
		(void)pthread_mutex_lock(&x->lock);
		x->queue.dropped += (int64_t)x->n_batch;
		(void)pthread_mutex_unlock(&x->lock);
	}
	x->n_batch = 0;
	return true;
}

/* Sums are those since the program began, so a request that failed need not be repeated.  Without any sum the
 * request is empty: so an operator learns of a collector that is down before there are messages. */
static bool send_metrics(wh_otel_exporter *x)
{
	wh_buf body = WH_BUF_INIT(REQUEST_MOST);
	int64_t begin_us;
	size_t n;
	result is = TAKEN;

	(void)pthread_mutex_lock(&x->lock);
	n = x->queue.n_series;
	begin_us = x->queue.begin_us;
	if (n)
		memcpy(x->series, x->queue.series, n * sizeof(*x->series));
	(void)pthread_mutex_unlock(&x->lock);
	if (n)
		wh_otel_put_metrics(&body, x->set.service, x->series, n, begin_us,
				    wh_now(&wh_env_system));
	else
		wh_buf_puts(&body, "{\"resourceMetrics\":[]}");
	x->asks = !n;
	if (n || !is_ending(x))
		is = post(x, "/v1/metrics", &body);
	x->asks = false;
	wh_buf_clear(&body);
	return is != LATER;
}

/* ---- the thread ---- */

/* Wait until a time on the monotonic clock, for a full batch, or for the end. */
static void wait_until(wh_otel_exporter *x, int64_t until_us, bool for_batch)
{
	struct timespec at = {until_us / WH_SECOND, until_us % WH_SECOND * 1000};

	(void)pthread_mutex_lock(&x->lock);
	while (!x->ends_at_us && !(for_batch && x->queue.n >= WH_OTEL_BATCH) &&
	       pthread_cond_timedwait(&x->changed, &x->lock, &at) == 0)
		;
	(void)pthread_mutex_unlock(&x->lock);
}

static bool take_batch(wh_otel_exporter *x)
{
	if (!x->n_batch) {
		(void)pthread_mutex_lock(&x->lock);
		x->n_batch = wh_otel_queue_take(&x->queue, x->batch);
		(void)pthread_mutex_unlock(&x->lock);
	}
	return x->n_batch > 0;
}

/* Send all spans that wait.  False: the collector does not take them now. */
static bool send_all(wh_otel_exporter *x)
{
	while (take_batch(x))
		if (!send_spans(x))
			return false;
	return true;
}

static void *work(void *arg)
{
	wh_otel_exporter *x = arg;
	int64_t now = wh_monotonic(&wh_env_system), pause_us = 0;
	int64_t metrics_at_us = now;

	while (!is_ending(x)) {
		bool ok = true;

		now = wh_monotonic(&wh_env_system);
		wait_until(x,
			   wh_sooner(wh_later(now, pause_us ? pause_us : x->set.spans_us),
				     pause_us ? WH_NEVER : metrics_at_us),
			   !pause_us);
		if (is_ending(x))
			break;
		ok = send_all(x);
		now = wh_monotonic(&wh_env_system);
		if (ok && now >= metrics_at_us) {
			ok = send_metrics(x);
			if (ok)
				metrics_at_us = wh_later(now, x->set.metrics_us);
		}
		pause_us = ok ? 0 : pause_us ? 2 * pause_us : PAUSE_LEAST_US;
		pause_us = wh_sooner(pause_us, PAUSE_MOST_US);
	}
	if (send_all(x))
		(void)send_metrics(x);
	return NULL;
}

/* ---- for relays ---- */

static void destroy(wh_otel_exporter *x)
{
	wh_otel_settings_clear(&x->set);
	wh_otel_queue_clear(&x->queue);
	curl_easy_cleanup(x->easy);
	free(x->batch);
	free(x->series);
	(void)pthread_cond_destroy(&x->changed);
	(void)pthread_mutex_destroy(&x->lock);
	free(x);
}

static void init_cond(pthread_cond_t *cond)
{
	pthread_condattr_t attributes;

	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_cond_init(cond, &attributes);
	(void)pthread_condattr_destroy(&attributes);
}

/* The settings are moved, also on failure. */
static wherry_code make(wh_otel_settings *settings, wh_otel_exporter **out,
			wherry_error *err)
{
	wh_otel_exporter *x = calloc(1, sizeof(*x));

	if (!x) {
		wh_otel_settings_clear(settings);
		return wh_oom(err);
	}
	x->set = *settings;
	(void)pthread_mutex_init(&x->lock, NULL);
	init_cond(&x->changed);
	x->queue.begin_us = wh_now(&wh_env_system);
	x->easy = curl_easy_init();
	x->batch = malloc(WH_OTEL_BATCH * sizeof(*x->batch));
	x->series = malloc(WH_OTEL_SERIES * sizeof(*x->series));
	if (x->easy && x->batch && x->series &&
	    wh_thread_start(&x->thread, WH_JOINED, work, x)) {
		*out = x;
		return WHERRY_OK;
	}
	destroy(x);
	return wh_fail(
		err, WHERRY_NOMEM,
		"OpenTelemetry: there is no memory, or there are too many threads");
}

wherry_code wh_otel_exporter_get(wh_otel_settings *settings, wh_otel_exporter **out,
				 wherry_error *err)
{
	wh_otel_exporter *x;
	wherry_code code = WHERRY_OK;

	(void)pthread_mutex_lock(&all_lock);
	x = all;
	while (x && !wh_otel_settings_equal(&x->set, settings))
		x = x->next;
	if (x) {
		wh_otel_settings_clear(settings);
	} else {
		code = make(settings, &x, err);
		if (code == WHERRY_OK) {
			x->next = all;
			all = x;
		}
	}
	(void)pthread_mutex_unlock(&all_lock);
	if (code == WHERRY_OK)
		*out = x;
	return code;
}

const wh_otel_settings *wh_otel_exporter_settings(const wh_otel_exporter *exporter)
{
	return &exporter->set;
}

void wh_otel_export(wh_otel_exporter *exporter, const wh_otel_span *spans, size_t n)
{
	(void)pthread_mutex_lock(&exporter->lock);
	for (size_t i = 0; i < n; i++) {
		int64_t us = spans[i].end_us - spans[i].begin_us;

		wh_otel_queue_count(&exporter->queue, &spans[i], (double)us / WH_SECOND);
		if (spans[i].context.sampled)
			(void)wh_otel_queue_span(&exporter->queue, &spans[i]);
	}
	if (exporter->queue.n >= WH_OTEL_BATCH)
		(void)pthread_cond_signal(&exporter->changed);
	(void)pthread_mutex_unlock(&exporter->lock);
}

bool wh_otel_exporter_news(wh_otel_exporter *exporter, wh_otel_news *out)
{
	int64_t now = wh_monotonic(&wh_env_system);
	bool any;

	(void)pthread_mutex_lock(&exporter->lock);
	any = exporter->changed_state || exporter->queue.dropped > exporter->news_dropped;
	if (exporter->news_us && now - exporter->news_us < NEWS_US &&
	    (exporter->failing || !exporter->changed_state))
		any = false;
	if (any) {
		exporter->changed_state = false;
		exporter->news_us = now;
		exporter->news_dropped = exporter->queue.dropped;
		out->works = !exporter->failing;
		out->dropped = exporter->queue.dropped;
		memcpy(out->why, exporter->why, sizeof(out->why));
	}
	(void)pthread_mutex_unlock(&exporter->lock);
	return any;
}

void wh_otel_end(void)
{
	wh_otel_exporter *x, *next;

	(void)pthread_mutex_lock(&all_lock);
	x = all;
	all = NULL;
	(void)pthread_mutex_unlock(&all_lock);
	for (next = x; next; next = next->next) {
		(void)pthread_mutex_lock(&next->lock);
		next->ends_at_us = wh_later(wh_monotonic(&wh_env_system), END_US);
		(void)pthread_cond_signal(&next->changed);
		(void)pthread_mutex_unlock(&next->lock);
	}
	for (; x; x = next) {
		next = x->next;
		(void)pthread_join(x->thread, NULL);
		destroy(x);
	}
}
