/*
 * topic=NAME: does the topic exist?  This is asked when the relay starts, so that a wrong
 * name shows before the first message.  librdkafka's call waits for the answer, so a
 * thread makes it.  The answer is only logged.
 */
#include "publish/kafka/kafka.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"

enum { ANSWER_MS = 500, NS_PER_MS = 1000000, AGAIN_MS = 200, MS_PER_S = 1000 };

struct wh_kafka_look {
	rd_kafka_t *rk;
	pthread_t thread;
	pthread_mutex_t lock; /* Guards the members below. */
	pthread_cond_t changed;
	bool leaving;
	const wh_env *env; /* Must not be used after leaving is set. */
	char topic[];
};

static rd_kafka_resp_err_t ask(const wh_kafka_look *look)
{
	rd_kafka_topic_t *topic = rd_kafka_topic_new(look->rk, look->topic, NULL);
	const struct rd_kafka_metadata *found = NULL;
	rd_kafka_resp_err_t code;

	if (!topic)
		return rd_kafka_last_error();
	code = rd_kafka_metadata(look->rk, 0, topic, &found, ANSWER_MS);
	if (!code)
		code = found->topic_cnt ? found->topics[0].err
					: RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
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

static void tell(const wh_kafka_look *look, rd_kafka_resp_err_t code)
{
	char text[200];

	if (!code)
		return;
	wh_kafka_describe(code, text, sizeof(text));
	wh_log(look->env, WHERRY_LOG_WARN, "kafka", "no-topic",
	       wh_log_text("topic", look->topic), wh_log_text("why", text),
	       wh_log_note("messages are tried again until the topic exists"));
}

static void *work(void *arg)
{
	wh_kafka_look *look = arg;
	bool over = false;

	while (!over) {
		rd_kafka_resp_err_t code = ask(look);
		struct timespec until;

		(void)timespec_get(&until, TIME_UTC);
		until.tv_sec += (until.tv_nsec / NS_PER_MS + AGAIN_MS) / MS_PER_S;
		until.tv_nsec = (until.tv_nsec + (long)AGAIN_MS * NS_PER_MS) %
				(1000L * NS_PER_MS);
		(void)pthread_mutex_lock(&look->lock);
		over = look->leaving || is_answer(code);
		if (!look->leaving && over)
			tell(look, code);
		else if (!over)
			(void)pthread_cond_timedwait(&look->changed, &look->lock, &until);
		(void)pthread_mutex_unlock(&look->lock);
	}
	return NULL;
}

wh_kafka_look *wh_kafka_look_new(rd_kafka_t *rk, const char *topic, const wh_env *env)
{
	size_t len = strlen(topic) + 1;
	wh_kafka_look *look = calloc(1, sizeof(*look) + len);

	if (!look)
		return NULL;
	look->rk = rk;
	look->env = env;
	memcpy(look->topic, topic, len);
	(void)pthread_mutex_init(&look->lock, NULL);
	(void)pthread_cond_init(&look->changed, NULL);
	if (wh_thread_start(&look->thread, WH_JOINED, work, look))
		return look;
	(void)pthread_cond_destroy(&look->changed);
	(void)pthread_mutex_destroy(&look->lock);
	free(look);
	return NULL;
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
	(void)pthread_cond_destroy(&look->changed);
	(void)pthread_mutex_destroy(&look->lock);
	free(look);
}
