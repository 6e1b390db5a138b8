/*
 * Spans and sums that wait to be sent, in bounded memory: no more than about 2.3 MB of spans and
 * WH_OTEL_SERIES series.
 */
#include <stdlib.h>
#include <string.h>

#include "publish/otel/otel.h"

/* As the semantic conventions of messaging ask. */
const double wh_otel_bounds[WH_OTEL_BOUNDS] = {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25,
					       0.5,   0.75, 1,     2.5,  5,     7.5, 10};

bool wh_otel_queue_span(wh_otel_queue *queue, const wh_otel_span *span)
{
	if (!queue->spans)
		queue->spans = malloc(WH_OTEL_SPANS * sizeof(*queue->spans));
	if (!queue->spans || queue->n == WH_OTEL_SPANS) {
		queue->dropped++;
		return false;
	}
	queue->spans[(queue->head + queue->n++) % WH_OTEL_SPANS] = *span;
	return true;
}

static bool is_same(const wh_otel_series *a, const wh_otel_span *span)
{
	return !a->overflow && strcmp(a->topic, span->topic) == 0 &&
	       strcmp(a->error, span->error) == 0 &&
	       strcmp(a->place.system, span->place.system) == 0 &&
	       strcmp(a->place.server, span->place.server) == 0 &&
	       a->place.port == span->place.port;
}

static wh_otel_series *add(wh_otel_queue *queue)
{
	size_t cap = queue->cap_series ? queue->cap_series * 2 : 8;
	wh_otel_series *grown;

	if (queue->n_series == queue->cap_series) {
		grown = realloc(queue->series, cap * sizeof(*grown));
		if (!grown)
			return NULL;
		queue->series = grown;
		queue->cap_series = cap;
	}
	queue->series[queue->n_series] = (wh_otel_series){.overflow = false};
	return &queue->series[queue->n_series++];
}

/* The series of a delivery; NULL: no memory. */
static wh_otel_series *find(wh_otel_queue *queue, const wh_otel_span *span)
{
	wh_otel_series *made;

	for (size_t i = queue->n_series; i--;)
		if (is_same(&queue->series[i], span))
			return &queue->series[i];
	if (queue->n_series == WH_OTEL_SERIES)
		return &queue->series[WH_OTEL_SERIES - 1];
	made = add(queue);
	if (!made)
		return NULL;
	if (queue->n_series == WH_OTEL_SERIES) {
		made->overflow = true;
		return made;
	}
	made->place = span->place;
	memcpy(made->topic, span->topic, sizeof(made->topic));
	memcpy(made->error, span->error, sizeof(made->error));
	return made;
}

void wh_otel_queue_count(wh_otel_queue *queue, const wh_otel_span *span, double seconds)
{
	wh_otel_series *series = find(queue, span);
	size_t i = 0;

	if (!series)
		return;
	while (i < WH_OTEL_BOUNDS && seconds > wh_otel_bounds[i])
		i++;
	series->n++;
	series->seconds += seconds;
	series->buckets[i]++;
}

size_t wh_otel_queue_take(wh_otel_queue *queue, wh_otel_span *out)
{
	size_t n = queue->n < WH_OTEL_BATCH ? queue->n : WH_OTEL_BATCH;

	for (size_t i = 0; i < n; i++)
		out[i] = queue->spans[(queue->head + i) % WH_OTEL_SPANS];
	queue->head = (queue->head + n) % WH_OTEL_SPANS;
	queue->n -= n;
	return n;
}

void wh_otel_queue_clear(wh_otel_queue *queue)
{
	free(queue->spans);
	free(queue->series);
	*queue = (wh_otel_queue){.spans = NULL};
}
