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

/* ---- one relay ---- */

typedef struct one {
	wherry_config *config;
	wherry_db *db;
	wherry_publisher *pub;
	wherry_relay *relay;
} one;

static wherry_code count(void *ctx, const char *op, const char *what, wherry_error *err)
{
	int64_t *n = ctx;

	(void)what;
	(void)err;
	*n += strcmp(op, "run") == 0 || strcmp(op, "begin") == 0 ||
	      strcmp(op, "commit") == 0;
	return WHERRY_OK;
}

/* On an outbox of that name, which is made; its statements are counted in *n. */
static wherry_code open_one(one *o, const char *url, const char *table, int64_t *n,
			    wherry_error *err)
{
	const wh_trace trace = {.before = count, .ctx = n};
	wherry_db *inner = NULL;
	wherry_code code = wherry_config_new(&o->config, err);

	if (code == WHERRY_OK)
		code = wherry_config_set(o->config, "relay.table", table, err);
	if (code == WHERRY_OK)
		code = wherry_config_set(o->config, "db.create", "on", err);
	if (code == WHERRY_OK)
		code = wherry_db_open(url, o->config, &inner, err);
	if (code == WHERRY_OK)
		code = bench_init(inner, table, false, err);
	if (code == WHERRY_OK)
		code = wh_db_trace(inner, &trace, &o->db, err);
	if (code == WHERRY_OK)
		code = wherry_publisher_open("null:", o->config, &o->pub, err);
	if (code == WHERRY_OK)
		code = wherry_relay_open_on(o->db, o->pub, o->config, &o->relay, err);
	return code;
}

static void close_one(one *o)
{
	wherry_relay_close(o->relay);
	wherry_publisher_close(o->pub);
	wherry_db_close(o->db);
	wherry_config_free(o->config);
}

/* ---- what is measured: rate, memory in MB, statements ---- */

/* Deliver that many messages; statements for 1,000 of them. */
static wherry_code drain(const bench_job *job, double out[BENCH_VALUES],
			 wherry_error *err)
{
	int64_t began, n = 0, wake_us = 0;
	wherry_relay_stats stats = {0};
	bool finished;
	one o = {.db = NULL};
	wherry_code code = open_one(&o, job->url, "outbox", &n, err);

	began = wh_monotonic(&wh_env_system);
	while (code == WHERRY_OK && stats.delivered < job->messages) {
		code = wherry_relay_step(o.relay, &wake_us, &finished, err);
		wherry_relay_get_stats(o.relay, &stats, sizeof(wherry_relay_stats));
		if (code == WHERRY_OK && stats.delivered < job->messages)
			wherry_relay_wait(o.relay, wake_us);
	}
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	out[2] = (double)n * 1000 / (double)job->messages;
	close_one(&o);
	return code;
}

static wherry_code step_all(const one *all, int n, int64_t *out_wake_us,
			    wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	bool finished;

	*out_wake_us = WH_NEVER;
	for (int i = 0; i < n && code == WHERRY_OK; i++) {
		int64_t wake_us = 0;

		code = wherry_relay_step(all[i].relay, &wake_us, &finished, err);
		if (wake_us < *out_wake_us)
			*out_wake_us = wake_us;
	}
	return code;
}

static void wait_all(const one *all, int n, int64_t until_us)
{
	struct pollfd fds[RELAYS_MOST * WHERRY_RELAY_FDS];
	int64_t left_us = until_us - wherry_relay_clock(all[0].relay);
	size_t n_fds = 0;

	for (int i = 0; i < n; i++)
		n_fds += wherry_relay_fds(all[i].relay, fds + n_fds);
	if (left_us > 0)
		(void)poll(fds, n_fds, (int)(left_us / 1000) + 1);
}

static wherry_code rest(const one *all, int n, int64_t seconds, wherry_error *err)
{
	int64_t until_us = wherry_relay_clock(all[0].relay) + seconds * WH_SECOND;
	wherry_code code = WHERRY_OK;

	while (code == WHERRY_OK && wherry_relay_clock(all[0].relay) < until_us) {
		int64_t wake_us = 0;

		code = step_all(all, n, &wake_us, err);
		if (code == WHERRY_OK)
			wait_all(all, n, wake_us < until_us ? wake_us : until_us);
	}
	return code;
}

/* Relays of as many outboxes, with nothing to do; statements of each in ten seconds. */
static wherry_code idle(const bench_job *job, double out[BENCH_VALUES], wherry_error *err)
{
	static one all[RELAYS_MOST];
	wherry_code code = WHERRY_OK;
	int64_t n = 0, before;
	char table[24];
	int opened = 0;

	for (; opened < job->relays && code == WHERRY_OK; opened++) {
		(void)snprintf(table, sizeof(table), "outbox%d", opened);
		code = open_one(&all[opened], job->url, table, &n, err);
	}
	if (code == WHERRY_OK)
		code = rest(all, opened, 2 + opened / 8, err); /* until all sleep */
	before = n;
	if (code == WHERRY_OK)
		code = rest(all, opened, job->seconds, err);
	out[1] = bench_memory_mb();
	out[2] = (double)(n - before) * 10 / (double)job->seconds / job->relays;
	for (int i = 0; i < opened; i++)
		close_one(&all[i]);
	return code;
}

/* ---- what is there at the start ---- */

/* Each row becomes the failed head of a key, with a pending one behind it. */
static wherry_code hold(const bench_job *job, double out[BENCH_VALUES], wherry_error *err)
{
	static const char behind[] = "INSERT INTO outbox(topic, partition_key, payload) "
				     "SELECT topic, partition_key, payload FROM outbox";
	char sql[500];
	wherry_db *db = NULL;
	wherry_code code = wherry_db_open(job->url, NULL, &db, err);

	(void)out;
	(void)snprintf(sql, sizeof(sql),
		       "UPDATE outbox SET partition_key = 'held-' || id; "
		       "INSERT INTO outbox_exception(subscription, id, state, attempts, "
		       "next_retry_at) SELECT 'relay', id, 3, 1, %s FROM outbox; %s",
		       strncmp(job->url, "postgres", 8) == 0
			       ? "now() + interval '1 day'"
			       : "(SELECT ms + 86400000 FROM wherry_clock)",
		       behind);
	if (code == WHERRY_OK)
		code = wh_db_script(db, sql, err);
	wherry_db_close(db);
	return code;
}

typedef struct growing {
	bench_place place;
	const bench_options *options;
	bench_points *points;
	char url[300];
	int n_databases;
} growing;

static wherry_code child(const growing *g, const char *what, bench_fn run, bench_job job,
			 double out[BENCH_VALUES], wherry_error *err)
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

static wherry_code deliver_first(growing *g, int64_t n, wherry_error *err)
{
	double unused[BENCH_VALUES];

	return n ? child(g, "delivering", drain, (bench_job){.messages = n}, unused, err)
		 : WHERRY_OK;
}

static wherry_code hold_first(growing *g, int64_t n, wherry_error *err)
{
	double unused[BENCH_VALUES];

	return n ? child(g, "holding keys", hold, (bench_job){.messages = n}, unused, err)
		 : WHERRY_OK;
}

/* ---- points ---- */

static wherry_code measure_backlog(growing *g, int64_t n, double out[BENCH_VALUES],
				   wherry_error *err)
{
	wherry_code code = fresh(g, n, err);

	return code == WHERRY_OK
		       ? child(g, "draining", drain, (bench_job){.messages = n}, out, err)
		       : code;
}

/* The same number of messages beside n others. */
static wherry_code measure_beside(growing *g, int64_t n,
				  wherry_code (*before)(growing *g, int64_t n,
							wherry_error *err),
				  double out[BENCH_VALUES], wherry_error *err)
{
	const bench_job job = {.messages = g->options->messages};
	wherry_code code = fresh(g, n, err);

	if (code == WHERRY_OK)
		code = before(g, n, err);
	if (code == WHERRY_OK)
		code = child(g, "enqueueing", bench_wherry_enqueue, job, out, err);
	if (code == WHERRY_OK)
		code = child(g, "draining", drain, job, out, err);
	return code;
}

static wherry_code measure(growing *g, bench_axis axis, int64_t n,
			   double out[BENCH_VALUES], wherry_error *err)
{
	wherry_code code;

	switch (axis) {
	case BENCH_BACKLOG:
		return measure_backlog(g, n, out, err);
	case BENCH_DONE:
		return measure_beside(g, n, deliver_first, out, err);
	case BENCH_HELD:
		return measure_beside(g, n, hold_first, out, err);
	case BENCH_RELAYS:
	case BENCH_AXES:
		break;
	}
	code = fresh(g, 0, err);
	return code == WHERRY_OK ? child(g, "idling", idle,
					 (bench_job){.relays = (int)n,
						     .seconds = g->options->seconds},
					 out, err)
				 : code;
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
		return i ? bench_at_least_one(o->messages / parts[i]) : 0;
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
