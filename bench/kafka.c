/*
 * To Kafka: Wherry's relay, and librdkafka alone, which publishes the same bodies with the
 * same settings and acknowledgements from memory.  The brokers are librdkafka's mock
 * cluster, in a process of its own.
 */
#include "bench.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h> /* before its mock */
#include <librdkafka/rdkafka_mock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "publish/kafka/kafka.h"

enum { PARTITIONS = 8, POLL_MS = 1000, FDS_MOST = 256 };

typedef struct brokers {
	pid_t pid;
	int hold; /* they live as long as this is open */
	char url[300];
} brokers;

/*
 * A broker answers at once (Kafka's SocketServer: setTcpNoDelay).  The mock cluster leaves that
 * to the kernel, which keeps a second small answer until the first is acknowledged, 40 ms
 * where nothing more is sent.  What listens passes the option on to what it accepts.
 */
static void answer_at_once(void)
{
	for (int fd = 0; fd < FDS_MOST; fd++) {
		int listens = 0, on = 1;
		socklen_t len = sizeof(listens);

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 &&
		    listens)
			(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
}

static void be_brokers(const char *topic, int hold, int out)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_mock_cluster_t *cluster = NULL;
	rd_kafka_t *rk;
	char end;

	rd_kafka_conf_set_log_cb(conf, NULL);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, NULL, 0);
	if (rk)
		cluster = rd_kafka_mock_cluster_new(rk, 1);
	answer_at_once();
	if (cluster && !rd_kafka_mock_topic_create(cluster, topic, PARTITIONS, 1))
		(void)dprintf(out, "%s", rd_kafka_mock_cluster_bootstraps(cluster));
	(void)close(out);
	while (read(hold, &end, 1) > 0)
		;
	_exit(0);
}

static wherry_code start_brokers(brokers *b, const char *topic, wherry_error *err)
{
	int to[2], from[2];
	char address[200] = "";
	ssize_t n;

	if (pipe(to) != 0 || pipe(from) != 0)
		return wh_fail(err, WHERRY_IO, "no pipe");
	b->pid = fork();
	if (b->pid == 0) {
		(void)close(to[1]);
		(void)close(from[0]);
		be_brokers(topic, to[0], from[1]);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	b->hold = to[1];
	n = b->pid > 0 ? read(from[0], address, sizeof(address) - 1) : -1;
	(void)close(from[0]);
	(void)snprintf(b->url, sizeof(b->url), "kafka://%s", address);
	return n > 0 ? WHERRY_OK : wh_fail(err, WHERRY_IO, "no mock cluster of Kafka's");
}

static void stop_brokers(const brokers *b)
{
	(void)close(b->hold);
	if (b->pid > 0)
		(void)waitpid(b->pid, NULL, 0);
}

/* ---- Wherry ---- */

wherry_code bench_kafka_wherry(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err)
{
	bench_job to_kafka = *job;
	bench_load *load = NULL;
	brokers b = {.pid = -1};
	wherry_code code = bench_load_open(job, &load, err);
	int64_t began = 0;

	if (code == WHERRY_OK)
		code = start_brokers(&b, bench_load_get(load, 0).topic, err);
	bench_load_close(load);
	to_kafka.to = b.url;
	began = wh_monotonic(&wh_env_system);
	if (code == WHERRY_OK)
		code = bench_wherry_drain(&to_kafka, out, err);
	out[2] = (double)(wh_monotonic(&wh_env_system) - began) / 1000;
	stop_brokers(&b);
	return code;
}

/* ---- librdkafka alone ---- */

static int64_t count_reports(rd_kafka_queue_t *queue, int wait_ms)
{
	rd_kafka_event_t *event = rd_kafka_queue_poll(queue, wait_ms);
	int64_t n = 0;

	if (event && rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR)
		n = (int64_t)rd_kafka_event_message_count(event);
	rd_kafka_event_destroy(event);
	return n;
}

static bool produce(rd_kafka_topic_t *topic, const wherry_message *msg)
{
	void *body; /* copied: it is not const for those who give it away */

	memcpy(&body, &msg->body, sizeof(body));
	return rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, body,
				msg->body_len, msg->key, msg->key ? strlen(msg->key) : 0,
				NULL) == 0;
}

static void publish_all(rd_kafka_t *rk, rd_kafka_queue_t *queue, const bench_load *load,
			int64_t messages)
{
	rd_kafka_topic_t *topic =
		rd_kafka_topic_new(rk, bench_load_get(load, 0).topic, NULL);
	int64_t sent = 0, done = 0;

	while (done < messages) {
		wherry_message msg = bench_load_get(load, sent % messages);
		bool taken = sent < messages && produce(topic, &msg);

		sent += taken;
		if (!taken || sent % BENCH_BATCH == 0)
			done += count_reports(queue, taken ? 0 : POLL_MS);
	}
	rd_kafka_topic_destroy(topic);
}

static wherry_code publish(const bench_job *job, const bench_load *load,
			   wh_kafka_settings *set, wherry_error *err)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_dup(set->conf);
	char why[200] = "";
	rd_kafka_queue_t *queue;
	rd_kafka_t *rk;

	rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR);
	rd_kafka_conf_set_log_cb(conf, NULL);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (!rk) {
		rd_kafka_conf_destroy(conf);
		return wh_fail(err, WHERRY_INVALID, "librdkafka: %s", why);
	}
	queue = rd_kafka_queue_get_main(rk);
	publish_all(rk, queue, load, job->messages);
	rd_kafka_queue_destroy(queue);
	rd_kafka_destroy(rk);
	return WHERRY_OK;
}

wherry_code bench_kafka_alone(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err)
{
	wh_kafka_settings set = {0};
	bench_load *load = NULL;
	brokers b = {.pid = -1};
	int64_t began = 0;
	wherry_code code = bench_load_open(job, &load, err);

	if (code == WHERRY_OK)
		code = start_brokers(&b, bench_load_get(load, 0).topic, err);
	if (code == WHERRY_OK)
		code = wh_kafka_settings_read(b.url + strlen("kafka:"), NULL, &set, err);
	began = wh_monotonic(&wh_env_system);
	if (code == WHERRY_OK)
		code = publish(job, load, &set, err);
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	out[2] = (double)(wh_monotonic(&wh_env_system) - began) / 1000;
	wh_kafka_settings_clear(&set);
	bench_load_close(load);
	stop_brokers(&b);
	return code;
}
