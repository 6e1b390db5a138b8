/*
 * To Kafka: Wherry's relay, and librdkafka alone, which publishes the same bodies with the
 * same settings and acknowledgements from memory.  The brokers are librdkafka's mock
 * cluster, in a process of its own.
 */
#include "bench.h"

#include <librdkafka/rdkafka.h> /* before its mock */
#include <librdkafka/rdkafka_mock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "publish/kafka/kafka.h"

enum { PARTITIONS = 8, POLL_MS = 1000, FDS_MOST = 256 };

typedef struct brokers {
	pid_t pid;
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

static void be_brokers(const char *topic, int out)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_mock_cluster_t *cluster = NULL;
	rd_kafka_t *rk;

	rd_kafka_conf_set_log_cb(conf, NULL);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, NULL, 0);
	if (rk)
		cluster = rd_kafka_mock_cluster_new(rk, 1);
	answer_at_once();
	if (cluster && !rd_kafka_mock_topic_create(cluster, topic, PARTITIONS, 1))
		(void)dprintf(out, "%s", rd_kafka_mock_cluster_bootstraps(cluster));
	(void)close(out);
	for (;;)
		(void)pause();
}

static brokers start_brokers(const bench_load *load)
{
	char address[200] = "";
	brokers b;
	int from[2];

	if (pipe(from) != 0)
		bench_die("no pipe");
	b.pid = bench_fork();
	if (b.pid == 0)
		be_brokers(bench_load_get(load, 0).topic, from[1]);
	(void)close(from[1]);
	if (read(from[0], address, sizeof(address) - 1) <= 0)
		bench_die("no mock cluster of Kafka's");
	(void)close(from[0]);
	(void)snprintf(b.url, sizeof(b.url), "kafka://%s", address);
	return b;
}

/* ---- Wherry ---- */

void bench_kafka_wherry(const bench_job *job, double *out)
{
	brokers b = start_brokers(bench_load_open(job));
	bench_job to_kafka = *job;
	int64_t began = bench_now();

	to_kafka.to = b.url;
	bench_wherry_drain(&to_kafka, out);
	out[2] = (double)(bench_now() - began) / 1000;
	bench_kill(b.pid);
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

void bench_kafka_alone(const bench_job *job, double *out)
{
	const bench_load *load = bench_load_open(job);
	brokers b = start_brokers(load);
	wh_kafka_settings set = {0};
	rd_kafka_queue_t *queue;
	char why[200] = "";
	rd_kafka_t *rk;
	int64_t began;

	bench_must(wh_kafka_settings_read(b.url + strlen("kafka:"), NULL, &set,
					  &bench_error));
	began = bench_now();
	rd_kafka_conf_set_events(set.conf, RD_KAFKA_EVENT_DR);
	rd_kafka_conf_set_log_cb(set.conf, NULL);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, set.conf, why, sizeof(why));
	if (!rk)
		bench_die("librdkafka: %s", why);
	queue = rd_kafka_queue_get_main(rk);
	publish_all(rk, queue, load, job->messages);
	rd_kafka_queue_destroy(queue);
	rd_kafka_destroy(rk);
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	out[2] = (double)(bench_now() - began) / 1000;
	bench_kill(b.pid);
}
