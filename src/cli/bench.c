#include "cli/bench.h"
#include "config/settings.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/env.h"
#include "db/driver.h"

void wh_bench_fill(wh_bench_message *m, int64_t number)
{
	static const char filler[] =
		"the quick brown fox jumps over the lazy dog, and then "
		"over the next one, until the line is as long as a "
		"message of everyday use, which is some two hundred bytes";
	int len = snprintf(m->body, sizeof(m->body),
			   "{\"number\":%" PRId64 ",\"text\":\"%s\"}", number, filler);

	(void)snprintf(m->key, sizeof(m->key), "key-%d", (int)(number % WH_BENCH_KEYS));
	m->message = WHERRY_MESSAGE(.topic = "bench", .key = m->key, .body = m->body,
				    .body_len = (size_t)len);
}

int64_t wh_bench_digits(const char *text)
{
	int64_t number = 0;

	text += strspn(text, " \t");
	for (; *text >= '0' && *text <= '9' && number < INT64_MAX / 10 - 1; text++)
		number = number * 10 + (*text - '0');
	return number;
}

wherry_code wh_bench_open(wh_bench *b, wherry_db **out_db, wherry_outbox **out_outbox,
			  wherry_error *err)
{
	const char *table = wh_config_text(b->config, WH_RELAY_TABLE);
	wherry_db *db = NULL;
	wherry_code code = wh_db_open_own(b->url, b->config, &db, err);

	if (code == WHERRY_OK)
		code = wherry_outbox_open(db, table, out_outbox, err);
	if (code == WHERRY_OK)
		*out_db = db;
	else
		wherry_db_close(db);
	return code;
}

static void run_part(wh_bench *b, wh_bench_fn fn)
{
	wherry_error err = WHERRY_ERROR_INIT;

	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGHUP, SIG_DFL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fn(b, &err) == WHERRY_OK)
		_exit(0);
	(void)snprintf(b->shared->failure, sizeof(b->shared->failure), "%s", err.message);
	_exit(1);
}

int wh_bench_start(wh_bench *b, wh_bench_fn fn)
{
	pid_t pid;

	(void)fflush(NULL); /* or the child writes it as well */
	pid = fork();
	if (pid == 0)
		run_part(b, fn);
	return (int)pid;
}

wherry_code wh_bench_prepare(wh_bench *b, wherry_error *err)
{
	const char *table = wh_config_text(b->config, WH_RELAY_TABLE);
	int64_t count[WHERRY_STATE_COUNT], n = 0;
	wherry_outbox *outbox = NULL;
	wherry_db *db = NULL;
	wherry_code code = wh_db_open_own(b->url, b->config, &db, err);

	if (code == WHERRY_OK)
		code = wherry_outbox_create(db, table, NULL, err);
	if (code == WHERRY_OK)
		code = wherry_outbox_open(db, table, &outbox, err);
	if (code == WHERRY_OK)
		code = wherry_outbox_count(outbox, count, err);
	for (int i = 0; code == WHERRY_OK && i < WHERRY_STATE_COUNT; i++)
		n += count[i];
	if (n)
		code = wh_fail(err, WHERRY_INVALID,
			       "outbox '%s' holds %" PRId64
			       " messages: the bench needs an empty "
			       "one, since it delivers all there are to nowhere",
			       table, n);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	return code;
}

wherry_code wh_bench_enqueue(wh_bench *b, wherry_error *err)
{
	static wh_bench_message parts[WH_BENCH_BATCH];
	wherry_message msgs[WH_BENCH_BATCH];
	int64_t began = wh_monotonic(&wh_env_system);
	wherry_outbox *outbox = NULL;
	wherry_db *db = NULL;
	wherry_code code = wh_bench_open(b, &db, &outbox, err);

	for (int64_t done = 0; code == WHERRY_OK && done < b->messages;) {
		size_t n = 0;

		for (; n < WH_BENCH_BATCH && done < b->messages; n++, done++) {
			wh_bench_fill(&parts[n], done);
			msgs[n] = parts[n].message;
		}
		code = wherry_outbox_enqueue_many(outbox, msgs, n, WHERRY_OWN_TRANSACTION,
						  NULL, err);
	}
	b->shared->enqueue_rate = (double)b->messages * 1e6 /
				  (double)(wh_monotonic(&wh_env_system) - began);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	return code;
}

wherry_code wh_bench_drain(wh_bench *b, wherry_error *err)
{
	int64_t began = wh_monotonic(&wh_env_system);
	wherry_relay *relay = NULL;
	wherry_relay_stats stats = {0};
	wherry_code code = wherry_relay_open(b->url, "null:", b->config, &relay, err);

	if (code == WHERRY_OK)
		code = wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, NULL, err);
	if (code == WHERRY_OK)
		wherry_relay_get_stats(relay, &stats, sizeof(wherry_relay_stats));
	b->shared->drain_rate = (double)b->messages * 1e6 /
				(double)(wh_monotonic(&wh_env_system) - began);
	wherry_relay_close(relay);
	if (code == WHERRY_OK && stats.delivered != b->messages)
		code = wh_fail(err, WHERRY_INVALID,
			       "%" PRId64 " of %" PRId64
			       " messages were delivered: is another "
			       "relay at work?",
			       stats.delivered, b->messages);
	return code;
}

/* The position of a relay that read the WAL does not cover the last messages: that of the next one does. */
static wherry_code cover(const wh_bench *b, wherry_error *err)
{
	wherry_relay *relay = NULL;
	wherry_code code = wherry_relay_open(b->url, "null:", b->config, &relay, err);

	if (code == WHERRY_OK)
		code = wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, NULL, err);
	wherry_relay_close(relay);
	return code;
}

wherry_code wh_bench_clean(wh_bench *b, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_db *db = NULL;
	wherry_code code = cover(b, err);

	if (code == WHERRY_OK)
		code = wh_bench_open(b, &db, &outbox, err);
	if (code == WHERRY_OK)
		code = wherry_outbox_purge(outbox, 0, 10000, 0, NULL, err);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	return code;
}
