/*
 * Logs one event a line, as text or JSON.
 */
#include "daemon/advice.h"
#include "daemon/daemon.h"
#include "publish/parts.h"

enum { LINE_MAX_LEN = 64 * 1024 };

bool wh_line_wanted(wh_line_log *log, wherry_log_level level)
{
	bool wanted;

	(void)pthread_mutex_lock(&log->lock);
	wanted = level <= log->level;
	(void)pthread_mutex_unlock(&log->lock);
	return wanted;
}

void wh_line_record(wh_line_log *log, const char *relay, const wherry_log_record *record)
{
	wh_buf line = WH_BUF_INIT(LINE_MAX_LEN);
	wh_log_head head = {.relay = relay};
	char time[WH_TIME_LEN];

	(void)pthread_mutex_lock(&log->lock);
	head.json = log->json;
	(void)pthread_mutex_unlock(&log->lock);
	wh_time_print(wh_now(&wh_env_system), time);
	head.time = time;
	wh_put_log_line(&line, &head, record);
	log->put(wh_buf_str(&line));
	wh_buf_clear(&line);
}

typedef struct line_to {
	wh_line_log *log;
	const char *relay;
} line_to;

static void write_record(void *ctx, const wherry_log_record *record)
{
	const line_to *to = ctx;

	wh_line_record(to->log, to->relay, record);
}

void wh_line_send(wh_line_log *log, wherry_log_level level, const char *relay,
		  const char *event, const wherry_log_field *fields)
{
	line_to to = {log, relay};
	wh_env env = {.log = write_record, .log_ctx = &to};

	if (wh_line_wanted(log, level))
		wh_log_send(&env, level, "daemon", event, fields);
}
