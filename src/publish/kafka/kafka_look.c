/*
 * Looks at topics: does the topic of the URL exist, and can a topic lose messages that it has taken?
 * The first is asked when the relay starts, so that a wrong name shows before the first message; the
 * second then, too, and after the first delivery to another topic.  librdkafka's calls wait for the
 * answers, so a thread makes them.  The answers are logged; what an operator must repair is also
 * reported to the relay.
 */
#include "publish/kafka/kafka.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"

enum {
	ANSWER_MS = 500,
	NS_PER_MS = 1000000,
	AGAIN_MS = 200,
	MS_PER_S = 1000,
	/* Questions about one topic while brokers do not answer them. */
	TRIES = 10,
	LOGGED_MOST = 20 /* Topics that are logged because they can lose messages. */
};

typedef struct wish {
	struct wish *next;
	bool named; /* The URL names the topic: log if it is missing. */
	char topic[];
} wish;

struct wh_kafka_look {
	rd_kafka_t *rk;
	pthread_t thread;
	pthread_mutex_t lock; /* Guards the members below. */
	pthread_cond_t changed;
	bool leaving;
	const wh_env *env;   /* Must not be used after leaving is set. */
	const char *brokers; /* The same. */
	bool checked;        /* The topic of the URL; then all messages go to it. */
	wish *first, *last;
	int unsafe;                   /* Topics that can lose messages. */
	bool news;                    /* One more since the notice was taken. */
	char notice[WH_KAFKA_NOTICE]; /* Of the first of them. */
};

/* ---- asking; the lock is not held ---- */

static int replicas_of(const struct rd_kafka_metadata_topic *topic)
{
	int most = 0;

	for (int i = 0; i < topic->partition_cnt; i++)
		if (topic->partitions[i].replica_cnt > most)
			most = topic->partitions[i].replica_cnt;
	return most;
}

static rd_kafka_resp_err_t ask(rd_kafka_t *rk, const char *name, wh_kafka_safety *safety)
{
	rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
	const struct rd_kafka_metadata *found = NULL;
	rd_kafka_resp_err_t code;

	if (!topic)
		return rd_kafka_last_error();
	code = rd_kafka_metadata(rk, 0, topic, &found, ANSWER_MS);
	if (!code)
		code = found->topic_cnt ? found->topics[0].err
					: RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
	if (!code)
		safety->replicas = replicas_of(&found->topics[0]);
	if (found)
		rd_kafka_metadata_destroy(found);
	rd_kafka_topic_destroy(topic);
	return code;
}

static bool is_answer(rd_kafka_resp_err_t code)
{
	return code == RD_KAFKA_RESP_ERR_NO_ERROR ||
	       code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
	       code == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION ||
	       code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
}

/* ---- reporting; the lock is held, and the client is not leaving ---- */

static void tell_missing(const wh_kafka_look *look, const char *topic,
			 rd_kafka_resp_err_t code)
{
	char text[200];

	wh_kafka_describe(code, text, sizeof(text));
	wh_log(look->env, WHERRY_LOG_WARN, "kafka", "no-topic",
	       wh_log_text("topic", topic), wh_log_text("why", text),
	       wh_log_note("messages are tried again until the topic exists"));
}

static void tell_safety(wh_kafka_look *look, const char *topic,
			const wh_kafka_safety *safety, rd_kafka_resp_err_t code)
{
	if (code) {
		wh_log(look->env, WHERRY_LOG_DEBUG, "kafka", "topic-unread",
		       wh_log_text("topic", topic),
		       wh_log_text("why", rd_kafka_err2str(code)),
		       wh_log_note(
			       "whether the topic can lose messages is not known; the "
			       "right to describe its configuration is optional"));
		return;
	}
	if (wh_kafka_is_safe(safety))
		return;
	if (!look->unsafe++)
		wh_kafka_safety_show(safety, topic, look->notice, sizeof(look->notice));
	look->news = true;
	if (look->unsafe <= LOGGED_MOST)
		wh_kafka_safety_log(safety, look->env, look->brokers, topic);
}

/* Wait a moment before the next try.  False: the client is leaving. */
static bool wait_again(wh_kafka_look *look)
{
	struct timespec until;

	(void)timespec_get(&until, TIME_UTC);
	until.tv_sec += (until.tv_nsec / NS_PER_MS + AGAIN_MS) / MS_PER_S;
	until.tv_nsec =
		(until.tv_nsec + (long)AGAIN_MS * NS_PER_MS) % (1000L * NS_PER_MS);
	if (!look->leaving)
		(void)pthread_cond_timedwait(&look->changed, &look->lock, &until);
	return !look->leaving;
}

/* The lock is held, but not while brokers are asked. */
static void look_at(wh_kafka_look *look, const wish *of)
{
	wh_kafka_safety safety = {0};
	rd_kafka_resp_err_t code;
	int tries = 0;

	if (look->checked)
		return;
	do {
		(void)pthread_mutex_unlock(&look->lock);
		code = ask(look->rk, of->topic, &safety);
		(void)pthread_mutex_lock(&look->lock);
	} while (!is_answer(code) && (of->named || ++tries < TRIES) && wait_again(look));
	if (look->leaving)
		return;
	if (code) {
		if (of->named)
			tell_missing(look, of->topic, code);
		return;
	}
	look->checked = of->named;
	if (safety.replicas < 2)
		return;
	tries = 0;
	do {
		(void)pthread_mutex_unlock(&look->lock);
		code = wh_kafka_safety_ask(look->rk, of->topic, &safety);
		(void)pthread_mutex_lock(&look->lock);
	} while (code == RD_KAFKA_RESP_ERR__TIMED_OUT && ++tries < TRIES &&
		 wait_again(look));
	if (!look->leaving)
		tell_safety(look, of->topic, &safety, code);
}

static void *work(void *arg)
{
	wh_kafka_look *look = arg;

	(void)pthread_mutex_lock(&look->lock);
	while (!look->leaving) {
		wish *next = look->first;

		if (!next) {
			(void)pthread_cond_wait(&look->changed, &look->lock);
			continue;
		}
		look->first = next->next;
		if (!look->first)
			look->last = NULL;
		look_at(look, next);
		free(next);
	}
	(void)pthread_mutex_unlock(&look->lock);
	return NULL;
}

/* ---- for the client ---- */

wh_kafka_look *wh_kafka_look_new(rd_kafka_t *rk, const char *brokers, const wh_env *env)
{
	wh_kafka_look *look = calloc(1, sizeof(*look));

	if (!look)
		return NULL;
	look->rk = rk;
	look->env = env;
	look->brokers = brokers;
	(void)pthread_mutex_init(&look->lock, NULL);
	(void)pthread_cond_init(&look->changed, NULL);
	if (wh_thread_start(&look->thread, WH_JOINED, work, look))
		return look;
	(void)pthread_cond_destroy(&look->changed);
	(void)pthread_mutex_destroy(&look->lock);
	free(look);
	return NULL;
}

void wh_kafka_look_at(wh_kafka_look *look, const char *topic, bool named)
{
	size_t len = strlen(topic) + 1;
	wish *next = malloc(sizeof(*next) + len);

	if (!next)
		return;
	*next = (wish){.named = named};
	memcpy(next->topic, topic, len);
	(void)pthread_mutex_lock(&look->lock);
	if (look->last)
		look->last->next = next;
	else
		look->first = next;
	look->last = next;
	(void)pthread_cond_signal(&look->changed);
	(void)pthread_mutex_unlock(&look->lock);
}

bool wh_kafka_look_notice(wh_kafka_look *look, char out[WH_KAFKA_NOTICE])
{
	bool any;

	(void)pthread_mutex_lock(&look->lock);
	any = look->news;
	if (any && look->unsafe > 1)
		(void)snprintf(out, WH_KAFKA_NOTICE, "%.150s, and of %d more",
			       look->notice, look->unsafe - 1);
	else if (any)
		memcpy(out, look->notice, WH_KAFKA_NOTICE);
	look->news = false;
	(void)pthread_mutex_unlock(&look->lock);
	return any;
}

void wh_kafka_look_leave(wh_kafka_look *look)
{
	(void)pthread_mutex_lock(&look->lock);
	look->leaving = true;
	(void)pthread_cond_signal(&look->changed);
	(void)pthread_mutex_unlock(&look->lock);
}

void wh_kafka_look_end(wh_kafka_look *look)
{
	(void)pthread_join(look->thread, NULL);
	while (look->first) {
		wish *next = look->first;

		look->first = next->next;
		free(next);
	}
	(void)pthread_cond_destroy(&look->changed);
	(void)pthread_mutex_destroy(&look->lock);
	free(look);
}
