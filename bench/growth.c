/*
 * How cost grows: rate, memory and statements of a relay over the backlog, over delivered
 * rows that it works beside, over keys that are held, and over idle relays.
 *
 * Each point is measured once, in a separate process and on a new database.  So a
 * single number says little; a line that bends says that something grows.
 */
#include "bench.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include <wherry/wherry.h>

#include "base/env.h"
#include "db/driver.h"
#include "db/trace.h"

enum { RELAYS_MOST = 80, PER_COMMIT = 10000 };

/* ---- what is measured: rate, memory in MB, statements ---- */

static wherry_code count(void *ctx, const char *op, const char *what, wherry_error *err)
{
	int64_t *n = ctx;

	*n += strcmp(op, "run") == 0 || strcmp(op, "begin") == 0 ||
	      strcmp(op, "commit") == 0;
	return WHERRY_OK;
}

/* A relay on an outbox of that name, which is made; its statements are counted in *n. */
static wherry_relay *open_one(const bench_job *job, const char *table, int64_t *n)
{
	const wh_trace trace = {.before = count, .ctx = n};
	wherry_config *config = bench_config(job);
	wherry_db *inner, *db = NULL;
	wherry_publisher *pub = NULL;
	wherry_relay *relay = NULL;

	bench_set(config, "db.synchronous", "full");
	bench_set(config, "relay.table", table);
	bench_set(config, "db.create", "on");
	inner = bench_open(job, config);
	bench_must(bench_init(inner, table, false, &bench_error));
	bench_must(wh_db_trace(inner, &trace, &db, &bench_error));
	bench_must(wherry_publisher_open("null:", config, &pub, &bench_error));
	bench_must(wherry_relay_open_on(db, pub, config, &relay, &bench_error));
	return relay;
}

/* Deliver that many messages; statements for 1,000 of them. */
static void drain(const bench_job *job, double *out)
{
	int64_t began, n = 0, wake_us = 0;
	wherry_relay *relay = open_one(job, "outbox", &n);
	wherry_relay_stats stats = {0};
	bool finished;

	began = bench_now();
	while (stats.delivered < job->messages) {
		bench_must(wherry_relay_step(relay, &wake_us, &finished, &bench_error));
		wherry_relay_get_stats(relay, &stats, sizeof(wherry_relay_stats));
		if (stats.delivered < job->messages)
			wherry_relay_wait(relay, wake_us);
	}
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	out[2] = (double)n * 1000 / (double)job->messages;
	wherry_relay_close(relay); /* which acknowledges the last messages */
}

static void rest(wherry_relay *const *all, int n, int64_t seconds)
{
	int64_t until_us = wherry_relay_clock(all[0]) + seconds * WH_SECOND, left_us;
	struct pollfd fds[RELAYS_MOST * WHERRY_RELAY_FDS];
	bool finished;

	while (wherry_relay_clock(all[0]) < until_us) {
		int64_t first_us = until_us;
		size_t n_fds = 0;

		for (int i = 0; i < n; i++) {
			int64_t wake_us = 0;

			bench_must(wherry_relay_step(all[i], &wake_us, &finished,
						     &bench_error));
			first_us = wake_us < first_us ? wake_us : first_us;
		}
		for (int i = 0; i < n; i++)
			n_fds += wherry_relay_fds(all[i], fds + n_fds);
		left_us = first_us - wherry_relay_clock(all[0]);
		if (left_us > 0)
			(void)poll(fds, n_fds, (int)(left_us / 1000) + 1);
	}
}

/* Relays of as many outboxes, with nothing to do; statements of each in ten seconds. */
static void idle(const bench_job *job, double *out)
{
	wherry_relay *all[RELAYS_MOST] = {NULL};
	int64_t n = 0, before;
	char table[24];

	for (int i = 0; i < job->relays; i++) {
		(void)snprintf(table, sizeof(table), "outbox%d", i);
		all[i] = open_one(job, table, &n);
	}
	rest(all, job->relays, 2 + job->relays / 8); /* until all sleep */
	before = n;
	rest(all, job->relays, job->seconds);
	out[1] = bench_memory_mb();
	out[2] = (double)(n - before) * 10 / (double)job->seconds / job->relays;
}

/* ---- what is there at the start ---- */

/* Each row becomes the failed head of a key, with a pending one behind it. */
static void hold(const bench_job *job, double *out)
{
	static const char behind[] = "INSERT INTO outbox(topic, partition_key, payload) "
				     "SELECT topic, partition_key, payload FROM outbox";
	char sql[500];

	(void)snprintf(sql, sizeof(sql),
		       "UPDATE outbox SET partition_key = 'held-' || id; "
		       "INSERT INTO outbox_exception(subscription, id, state, attempts, "
		       "next_retry_at) SELECT 'relay', id, 3, 1, %s FROM outbox; %s",
		       strncmp(job->url, "postgres", 8) == 0
			       ? "now() + interval '1 day'"
			       : "(SELECT ms + 86400000 FROM wherry_clock)",
		       behind);
	bench_must(wh_db_script(bench_open(job, NULL), sql, &bench_error));
}

typedef struct growing {
	bench_place place;
	const bench_options *options;
	bench_points *points;
	char url[300];
	int n_databases;
} growing;

static wherry_code child(const growing *g, const char *what, bench_work *run,
			 bench_job job, double *out, wherry_error *err)
{
	job.url = g->url;
	job.data = g->options->data;
	job.body = 200;
	job.per_transaction = PER_COMMIT;
	return bench_in_child(what, run, &job, out, err);
}

/* A new database with an outbox and that many messages. */
static wherry_code fresh(growing *g, int64_t messages, wherry_error *err)
{
	double unused[BENCH_VALUES];
	char name[24];
	wherry_code code;

	(void)snprintf(name, sizeof(name), "growth_%d", g->n_databases++);
	bench_place_url(&g->place, name, g->url, sizeof(g->url));
	code = bench_place_new(&g->place, name, err);
	if (code == WHERRY_OK)
		code = child(g, "making a backlog", bench_make_backlog,
			     (bench_job){.messages = messages}, unused, err);
	return code;
}

/* ---- points ---- */

/* A backlog of n messages; or as many as --messages beside n that were delivered or are held; or n
 * relays. */
static wherry_code measure(growing *g, bench_axis axis, int64_t n, double *out,
			   wherry_error *err)
{
	const bench_job some = {.messages = n}, all = {.messages = g->options->messages},
			idling = {.relays = (int)n, .seconds = g->options->seconds};
	wherry_code code = fresh(g, axis == BENCH_RELAYS ? 0 : n, err);

	if (code != WHERRY_OK || axis == BENCH_RELAYS)
		return code == WHERRY_OK ? child(g, "idling", idle, idling, out, err)
					 : code;
	if (axis == BENCH_BACKLOG)
		return child(g, "draining", drain, some, out, err);
	if (n)
		code = axis == BENCH_DONE
			       ? child(g, "delivering", drain, some, out, err)
			       : child(g, "holding keys", hold, some, out, err);
	if (code == WHERRY_OK)
		code = child(g, "enqueueing", bench_wherry_enqueue, all, out, err);
	return code == WHERRY_OK ? child(g, "draining", drain, all, out, err) : code;
}

/* Where an axis is measured: parts of --messages, and numbers of relays. */
static int64_t value_of(const bench_options *o, bench_axis axis, int i)
{
	static const int64_t times[] = {1, 3, 10, 30}, parts[] = {0, 1000, 100, 10},
			     relays[] = {1, 10, RELAYS_MOST, 0};

	switch (axis) {
	case BENCH_BACKLOG:
		return o->messages * times[i];
	case BENCH_DONE:
		return i ? o->messages * times[i] : 0;
	case BENCH_HELD:
		return i ? (o->messages + parts[i] - 1) / parts[i] : 0;
	case BENCH_RELAYS:
	case BENCH_AXES:
		break;
	}
	return o->messages < 1000 && i == 2 ? 20 : relays[i];
}

static wherry_code measure_all(growing *g, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (int axis = 0; axis < BENCH_AXES; axis++) {
		for (int i = 0; i < BENCH_STEPS && code == WHERRY_OK; i++) {
			int64_t value = value_of(g->options, (bench_axis)axis, i);
			bench_point *p = &g->points->all[g->points->n];
			double out[BENCH_VALUES] = {0};

			if (axis == BENCH_RELAYS && (!value || !g->place.postgres))
				continue; /* each SQLite outbox has files of its own */
			code = measure(g, (bench_axis)axis, value, out, err);
			if (code != WHERRY_OK)
				break;
			*p = (bench_point){.axis = (bench_axis)axis,
					   .postgres = g->place.postgres,
					   .value = value,
					   .rate = out[0],
					   .memory_mb = out[1],
					   .statements = out[2]};
			g->points->n++;
			bench_print_point(p, stdout);
			(void)fflush(stdout);
		}
	}
	return code;
}

wherry_code bench_growth(const bench_options *options, wherry_error *err)
{
	static bench_points points;
	wherry_code code = WHERRY_OK;

	bench_print_point(NULL, stdout);
	for (int postgres = options->postgres; postgres < 2 && code == WHERRY_OK;
	     postgres++) {
		growing g = {.options = options, .points = &points};

		code = bench_place_open(&g.place, &(bench_options){.postgres = postgres},
					false, err);
		if (code != WHERRY_OK)
			break;
		code = measure_all(&g, err);
		bench_place_close(&g.place);
	}
	if (code == WHERRY_OK && options->svg)
		code = bench_write_growth(&points, options->svg, err);
	return code;
}
