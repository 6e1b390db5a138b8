#include "publish/kafka/kafka.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"

#define STATISTICS_MS "5000"

enum { ERROR_LEN = 200, AWAIT_SECONDS = 5 };

/* ---- opening ---- */

/* librdkafka calls it while its queue is polled. */
static void note_throttle(rd_kafka_t *rk, const char *broker, int32_t id, int ms,
			  void *opaque)
{
	wh_kafka_client *client = opaque;

	(void)rk;
	(void)broker;
	(void)id;
	client->throttled_ms += ms;
}

/* librdkafka calls it from its threads, for each certificate of a chain.  Its own error
 * does not say why a certificate was not accepted. */
static int note_certificate(rd_kafka_t *rk, const char *broker, int32_t id, int *error,
			    int depth, const char *der, size_t len, char *out_why,
			    size_t cap, void *opaque)
{
	wh_kafka_client *client = opaque;

	(void)rk;
	(void)broker;
	(void)id;
	(void)depth;
	(void)der;
	(void)len;
	if (!*error)
		return 1;
	atomic_store(&client->certificate, *error);
	(void)snprintf(out_why, cap, "error %d", *error);
	return 0;
}

/* rd_kafka_new() owns conf if it succeeds. */
static wherry_code start(wh_kafka_client *client, const wh_kafka_settings *set,
			 bool alone, wherry_error *err)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_dup(set->conf);
	char why[ERROR_LEN] = "";
	int events = RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG;

	if (set->watched)
		events |= RD_KAFKA_EVENT_STATS;
	if (!set->oidc)
		events |= RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH;
	else
		rd_kafka_conf_enable_sasl_queue(conf, 1);
	rd_kafka_conf_set_events(conf, events);
	rd_kafka_conf_set_opaque(conf, client);
	rd_kafka_conf_set_throttle_cb(conf, note_throttle);
	(void)rd_kafka_conf_set_ssl_cert_verify_cb(conf, note_certificate);
	(void)rd_kafka_conf_set(conf, "log.queue", "true", NULL, 0);
	if (alone)
		(void)rd_kafka_conf_set(conf, "batch.num.messages", "1", NULL, 0);
	/* librdkafka sends statistics at the interval of the URL even if nobody asks for
	 * these events. */
	if (!set->watched || !set->interval)
		(void)rd_kafka_conf_set(conf, "statistics.interval.ms",
					set->watched ? STATISTICS_MS : "0", NULL, 0);
	client->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (client->rk)
		return WHERRY_OK;
	rd_kafka_conf_destroy(conf);
	return wh_fail(err, WHERRY_INVALID, "kafka: %s", why);
}

static wherry_code attend(wh_kafka_client *client, const wh_kafka_settings *set,
			  wherry_error *err)
{
	static const uint64_t one = 1;
	rd_kafka_error_t *error;

	client->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (client->fd < 0)
		return wh_fail(err, WHERRY_IO, "kafka: no descriptor is left");
	client->queue = rd_kafka_queue_get_main(client->rk);
	(void)rd_kafka_set_log_queue(client->rk, client->queue);
	rd_kafka_queue_io_event_enable(client->queue, client->fd, &one, sizeof(one));
	error = set->oidc ? rd_kafka_sasl_background_callbacks_enable(client->rk) : NULL;
	if (error)
		rd_kafka_error_destroy(error);
	return WHERRY_OK;
}

wherry_code wh_kafka_client_open(const wh_kafka_settings *set, bool alone,
				 wh_kafka_exits *exits, wh_kafka_client **out,
				 wherry_error *err)
{
	wh_kafka_client *client = calloc(1, sizeof(*client));
	wherry_code code;

	if (!client)
		return wh_oom(err);
	client->fd = -1;
	client->exits = exits;
	code = start(client, set, alone, err);
	if (code == WHERRY_OK)
		code = attend(client, set, err);
	if (code == WHERRY_OK)
		*out = client;
	else
		wh_kafka_client_leave(client);
	return code;
}

/* ---- handing over ---- */

enum { TOPIC_LEN = 1024 };

/* The topic of a message.  Most messages go to the same topic as the one before. */
static rd_kafka_topic_t *find_topic(wh_kafka_client *client, const wh_kafka_settings *set,
				    const wherry_message *msg)
{
	char buf[TOPIC_LEN];
	const char *name = wh_kafka_topic_of(set, msg, buf, sizeof(buf));

	if (client->topic && strcmp(rd_kafka_topic_name(client->topic), name) == 0)
		return client->topic;
	if (client->topic)
		rd_kafka_topic_destroy(client->topic);
	client->topic = rd_kafka_topic_new(client->rk, name, NULL);
	return client->topic;
}

/* librdkafka copies the bytes.  Its pointer is not const, for callers who give the memory
 * away; memcpy() drops the const. */
static rd_kafka_vu_t bytes(rd_kafka_vtype_t type, const void *ptr, size_t len)
{
	rd_kafka_vu_t part = {.vtype = type, .u.mem = {.size = len}};

	memcpy(&part.u.mem.ptr, &ptr, sizeof(ptr));
	return part;
}

rd_kafka_resp_err_t wh_kafka_client_produce(wh_kafka_client *client,
					    const wh_kafka_settings *set,
					    const wherry_message *msg,
					    wh_kafka_record *record, void *opaque)
{
	rd_kafka_topic_t *topic = find_topic(client, set, msg);
	const rd_kafka_vu_t parts[] = {
		{.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = topic},
		{.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = record->partition},
		{.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
		bytes(RD_KAFKA_VTYPE_KEY, record->key,
		      record->key ? strlen(record->key) : 0),
		/* NULL: a tombstone, which removes its key from a compacted topic. */
		bytes(RD_KAFKA_VTYPE_VALUE, msg->body, msg->body ? msg->body_len : 0),
		{.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = record->headers},
		{.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = msg->created_at_us / 1000},
		{.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = opaque},
	};
	rd_kafka_error_t *error;
	rd_kafka_resp_err_t code;

	if (!topic)
		return rd_kafka_last_error();
	error = rd_kafka_produceva(client->rk, parts, sizeof(parts) / sizeof(*parts));
	if (!error) {
		record->headers = NULL; /* librdkafka owns them now. */
		return RD_KAFKA_RESP_ERR_NO_ERROR;
	}
	code = rd_kafka_error_code(error);
	rd_kafka_error_destroy(error);
	return code;
}

/* ---- topics ---- */

void wh_kafka_client_look(wh_kafka_client *client, const wh_kafka_settings *set,
			  const wh_env *env, const char *topic, bool named)
{
	if (!client->look)
		client->look = wh_kafka_look_new(client->rk, set->brokers, env);
	if (client->look)
		wh_kafka_look_at(client->look, topic, named);
}

/* ---- tokens ---- */

enum { TOKEN_MS = 3600000 };

/* The token is read again each time, so that a renewed file takes effect. */
void wh_kafka_client_authorize(wh_kafka_client *client, const wh_kafka_settings *set)
{
	wherry_error why = WHERRY_ERROR_INIT;
	char *token = NULL, text[ERROR_LEN] = "";

	if (!set->token)
		(void)rd_kafka_oauthbearer_set_token_failure(
			client->rk, "no token: sasl.oauthbearer.token=file:PATH, or "
				    "sasl.oauthbearer.method=oidc");
	else if (wh_kafka_secret("sasl.oauthbearer.token", set->token, &token, &why) !=
		 WHERRY_OK)
		(void)rd_kafka_oauthbearer_set_token_failure(client->rk, why.message);
	else if (rd_kafka_oauthbearer_set_token(client->rk, token,
						wh_now(&wh_env_system) / 1000 + TOKEN_MS,
						"wherry", NULL, 0, text, sizeof(text)) !=
		 RD_KAFKA_RESP_ERR_NO_ERROR)
		(void)rd_kafka_oauthbearer_set_token_failure(client->rk, text);
	free(token);
}

/* ---- leaving ---- */

struct wh_kafka_exits {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	int n;     /* Clients that are ending. */
	bool left; /* Nobody waits: the last client to end frees this. */
};

wh_kafka_exits *wh_kafka_exits_new(void)
{
	wh_kafka_exits *exits = calloc(1, sizeof(*exits));

	if (!exits)
		return NULL;
	(void)pthread_mutex_init(&exits->lock, NULL);
	(void)pthread_cond_init(&exits->ended, NULL);
	return exits;
}

static void destroy_exits(wh_kafka_exits *exits)
{
	(void)pthread_cond_destroy(&exits->ended);
	(void)pthread_mutex_destroy(&exits->lock);
	free(exits);
}

void wh_kafka_exits_free(wh_kafka_exits *exits)
{
	struct timespec until;
	bool last;

	if (!exits)
		return;
	(void)timespec_get(&until, TIME_UTC);
	until.tv_sec += AWAIT_SECONDS;
	(void)pthread_mutex_lock(&exits->lock);
	while (exits->n &&
	       pthread_cond_timedwait(&exits->ended, &exits->lock, &until) == 0)
		;
	last = exits->n == 0;
	exits->left = true;
	(void)pthread_mutex_unlock(&exits->lock);
	if (last)
		destroy_exits(exits);
}

static void *end(void *arg)
{
	wh_kafka_client *client = arg;
	wh_kafka_exits *exits = client->exits;
	bool last;

	if (client->look)
		wh_kafka_look_end(client->look);
	if (client->topic)
		rd_kafka_topic_destroy(client->topic);
	if (client->queue)
		rd_kafka_queue_destroy(client->queue);
	if (client->rk)
		rd_kafka_destroy(client->rk);
	if (client->fd >= 0)
		(void)close(client->fd);
	free(client);
	(void)pthread_mutex_lock(&exits->lock);
	last = --exits->n == 0 && exits->left;
	(void)pthread_cond_broadcast(&exits->ended);
	(void)pthread_mutex_unlock(&exits->lock);
	if (last)
		destroy_exits(exits);
	return NULL;
}

void wh_kafka_client_leave(wh_kafka_client *client)
{
	pthread_t thread;

	if (!client)
		return;
	if (client->look)
		wh_kafka_look_leave(client->look);
	if (client->queue)
		rd_kafka_queue_io_event_enable(client->queue, -1, NULL, 0);
	if (client->rk)
		(void)rd_kafka_purge(client->rk, RD_KAFKA_PURGE_F_QUEUE |
							 RD_KAFKA_PURGE_F_INFLIGHT |
							 RD_KAFKA_PURGE_F_NON_BLOCKING);
	(void)pthread_mutex_lock(&client->exits->lock);
	client->exits->n++;
	(void)pthread_mutex_unlock(&client->exits->lock);
	if (!wh_thread_start(&thread, WH_DETACHED, end, client))
		(void)end(client);
}
