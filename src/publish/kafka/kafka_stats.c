/*
 * The numbers for metrics.  Our counters say what became of messages.  Numbers of brokers
 * and requests come from librdkafka's statistics: JSON every few seconds.  Statistics are
 * on only while somebody reads the metrics, since they arrive also while nothing is in
 * flight.
 */
#include "publish/kafka/kafka.h"

#include <jansson.h>
#include <string.h>

enum { OF_WATCH = 5 }; /* Numbers from librdkafka, at the end of the list. */

static int64_t integer(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

static bool is_up(const json_t *broker)
{
	const char *state = json_string_value(json_object_get(broker, "state"));

	return state && strcmp(state, "UP") == 0;
}

/* Only real brokers have a number; addresses in the URL and coordinators have none. */
static void add_broker(wh_kafka_watch *sum, const json_t *broker)
{
	const json_t *rtt = json_object_get(broker, "rtt");
	int64_t p99_us = integer(rtt, "p99");

	sum->retries += integer(broker, "txretries");
	if (integer(rtt, "cnt") && p99_us > sum->rtt_us)
		sum->rtt_us = p99_us;
	sum->connected += integer(broker, "nodeid") >= 0 && is_up(broker);
}

/* Add the growth of a counter, which starts at 0 again with each client. */
static void add_growth(int64_t *total, int64_t *last, int64_t now)
{
	*total += now > *last ? now - *last : 0;
	*last = now;
}

void wh_kafka_watch_take(wh_kafka_watch *watch, const char *text)
{
	json_t *all = json_loads(text, 0, NULL), *brokers;
	wh_kafka_watch now = {0};

	if (!all)
		return;
	brokers = json_object_get(all, "brokers");
	for (void *at = json_object_iter(brokers); at;
	     at = json_object_iter_next(brokers, at))
		add_broker(&now, json_object_iter_value(at));
	watch->known = true;
	watch->queued = integer(all, "msg_cnt");
	if (now.rtt_us) /* 0: no request was made. */
		watch->rtt_us = now.rtt_us;
	watch->connected = now.connected;
	add_growth(&watch->sent, &watch->last_sent, integer(all, "tx_bytes"));
	add_growth(&watch->retries, &watch->last_retries, now.retries);
	json_decref(all);
}

void wh_kafka_watch_renew(wh_kafka_watch *watch)
{
	watch->last_sent = watch->last_retries = 0;
	watch->connected = watch->queued = 0;
}

void wh_kafka_stats_get(const wherry_publisher *pub, wh_kafka_stats *out)
{
	const wh_kafka *p = (const wh_kafka *)pub;

	*out = p->stats;
	out->in_flight = (int64_t)p->open.n;
}

/* clang-format off */
size_t wh_kafka_numbers(const wherry_publisher *pub, wh_number *out)
{
	const wh_kafka_watch *watch = &((const wh_kafka *)pub)->watch;
	wh_kafka_stats stats;

	wh_kafka_stats_get(pub, &stats);
	const wh_number numbers[] = {
		{"kafka_bytes_total", "Bytes of messages that brokers took.", stats.bytes},
		{"kafka_failed_total", "Messages that failed by themselves.", stats.failed},
		{"kafka_returned_total",
			"Messages that came back because of others, to be sent again.", stats.returned},
		{"kafka_clients_total", "Producers opened: one more after each failure.",
			stats.clients},
		{"kafka_brokers_up", "0 while no broker can be reached.", !stats.down},
		{"kafka_brokers_connected", "Brokers that it has a connection to.",
			watch->connected},
		{"kafka_queue_messages", "Messages that wait in librdkafka or for an answer.",
			watch->queued},
		{"kafka_round_trip_p99_microseconds",
			"Of 100 requests, 99 were answered in this time, by the slowest broker.",
			watch->rtt_us},
		{"kafka_sent_bytes_total", "Bytes sent to brokers, of requests of all kinds.",
			watch->sent},
		{"kafka_retries_total", "Requests that were sent again.", watch->retries},
	};
	size_t n = sizeof(numbers) / sizeof(*numbers) - (watch->known ? 0 : OF_WATCH);

	_Static_assert(sizeof(numbers) / sizeof(*numbers) <= WH_NUMBERS_MOST, "too many");
	memcpy(out, numbers, n * sizeof(*numbers));
	return n;
}
/* clang-format on */
