/*
 * librdkafka's mock cluster, for tests and scripts.
 *
 *     kafka_mock [BROKERS]
 *
 * prints its bootstrap address, then does as each line of standard input says and answers
 * "ok"; it ends with its input.
 *
 *     topic NAME PARTITIONS
 *     down BROKER | up BROKER       0: all of them
 *     rtt MILLISECONDS
 *     slow BROKER API MILLISECONDS [TIMES]
 *     errors API CODE [TIMES]       answers to the next requests: 0 Produce, 3 Metadata
 *     clear API
 *     topic-error NAME CODE         in metadata
 *     leader NAME PARTITION BROKER  -1: none
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

enum { MOST = 5, TIMES_MOST = 1000, WAKE_US = 10000 };

static rd_kafka_mock_cluster_t *cluster;

static void quiet(const rd_kafka_t *rk, int level, const char *part, const char *text)
{
	(void)rk;
	(void)level;
	(void)part;
	(void)text;
}

/* A whole number, or an error of librdkafka's by its name: MSG_SIZE_TOO_LARGE. */
static int number(const char *text)
{
	const struct rd_kafka_err_desc *errors;
	size_t n;

	if (!text)
		return 0;
	rd_kafka_get_err_descs(&errors, &n);
	for (size_t i = 0; i < n; i++)
		if (errors[i].name && strcmp(errors[i].name, text) == 0)
			return errors[i].code;
	return (int)strtol(text, NULL, 10);
}

static rd_kafka_resp_err_t push_errors(int api, int code, int times)
{
	static rd_kafka_resp_err_t errors[TIMES_MOST];
	int n = times > 0 && times < TIMES_MOST ? times : 1;

	for (int i = 0; i < n; i++)
		errors[i] = (rd_kafka_resp_err_t)code;
	rd_kafka_mock_push_request_errors_array(cluster, (int16_t)api, (size_t)n, errors);
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t slow(int broker, int api, int ms, int times)
{
	rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;

	for (int i = 0; !code && i < (times > 0 ? times : 1); i++)
		code = rd_kafka_mock_broker_push_request_error_rtts(
			cluster, broker, (int16_t)api, 1, RD_KAFKA_RESP_ERR_NO_ERROR, ms);
	return code;
}

static rd_kafka_resp_err_t obey(char *const *word)
{
	int broker = number(word[1]) ? number(word[1]) : -1;

	if (strcmp(word[0], "topic") == 0)
		return rd_kafka_mock_topic_create(cluster, word[1], number(word[2]), 1);
	if (strcmp(word[0], "down") == 0)
		return rd_kafka_mock_broker_set_down(cluster, broker);
	if (strcmp(word[0], "up") == 0)
		return rd_kafka_mock_broker_set_up(cluster, broker);
	if (strcmp(word[0], "rtt") == 0)
		return rd_kafka_mock_broker_set_rtt(cluster, -1, number(word[1]));
	if (strcmp(word[0], "slow") == 0)
		return slow(number(word[1]), number(word[2]), number(word[3]),
			    number(word[4]));
	if (strcmp(word[0], "errors") == 0)
		return push_errors(number(word[1]), number(word[2]), number(word[3]));
	if (strcmp(word[0], "leader") == 0)
		return rd_kafka_mock_partition_set_leader(
			cluster, word[1], number(word[2]), number(word[3]));
	if (strcmp(word[0], "topic-error") == 0)
		rd_kafka_mock_topic_set_error(cluster, word[1],
					      (rd_kafka_resp_err_t)number(word[2]));
	else if (strcmp(word[0], "clear") == 0)
		rd_kafka_mock_clear_request_errors(cluster, (int16_t)number(word[1]));
	else
		return RD_KAFKA_RESP_ERR__INVALID_ARG;
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

/*
 * The cluster's thread now and then misses that it is called, and sleeps on for a second.
 * A connection wakes it.
 */
static atomic_bool calling;

static void *wake(void *arg)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	const char *colon = strchr(rd_kafka_mock_cluster_bootstraps(cluster), ':');

	(void)arg;
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons((uint16_t)strtol(colon + 1, NULL, 10));
	for (;; (void)usleep(WAKE_US)) {
		int fd = atomic_load(&calling) ? socket(AF_INET, SOCK_STREAM, 0) : -1;

		if (fd < 0)
			continue;
		(void)connect(fd, (const struct sockaddr *)&to, sizeof(to));
		(void)close(fd);
	}
	return NULL;
}

static void serve(void)
{
	char line[512], *rest, *word[MOST + 1];

	while (fgets(line, sizeof(line), stdin)) {
		rd_kafka_resp_err_t code;
		int n = 0;

		memset(word, 0, sizeof(word));
		for (char *at = strtok_r(line, " \n", &rest); at && n < MOST;
		     at = strtok_r(NULL, " \n", &rest))
			word[n++] = at;
		atomic_store(&calling, true);
		code = n ? obey(word) : RD_KAFKA_RESP_ERR__INVALID_ARG;
		atomic_store(&calling, false);
		puts(code ? rd_kafka_err2str(code) : "ok");
		(void)fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[200] = "";
	pthread_t waker;
	rd_kafka_t *rk;

	rd_kafka_conf_set_log_cb(conf, quiet);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	cluster =
		rk ? rd_kafka_mock_cluster_new(rk, argc > 1 ? number(argv[1]) : 1) : NULL;
	if (!cluster) {
		(void)fprintf(stderr, "no mock cluster: %s\n", why);
		return 1;
	}
	puts(rd_kafka_mock_cluster_bootstraps(cluster));
	(void)fflush(stdout);
	(void)pthread_create(&waker, NULL, wake, NULL);
	serve();
	_exit(0); /* to destroy it in good order takes seconds */
}
