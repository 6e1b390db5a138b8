/*
 * Relays as processes.  Each has a connection of its own to the database, through a trace
 * in which calls fail, or succeed and their answer is lost; and between any two calls the
 * process may be killed, or stand still while others go on.
 */
#include <stdlib.h>
#include <string.h>

#include <wherry/sqlite.h>

#include "base/error.h"
#include "db/sqlite/sqlite.h"
#include "db/trace.h"
#include "relay/relay.h"
#include "sim.h"

static sim_process *starting; /* whom wh_db_open and wh_publisher_open are called for */

/* ---- what may happen between two calls ---- */

bool sim_moment(sim_process *p)
{
	sim_world *w = p->world;

	if (p->crashed)
		return false;
	w->now_us += 1 + sim_below(w, 30);
	if (sim_chance(w, w->plan.crash, 10000)) {
		sim_say(w, "relay %d is killed in a call", p->number);
		p->crashed = true;
	} else if (w->depth < 2 && sim_chance(w, w->plan.pause, 10000)) {
		sim_say(w, "relay %d stands still in a call", p->number);
		w->depth++;
		sim_others(w, sim_time(w, sim_below(w, 3) ? 300000 : 6000000));
		w->depth--;
		sim_say(w, "relay %d goes on", p->number);
	}
	return !p->crashed;
}

/* ---- who has ended ---- */

/* The last place is on another machine. */
static bool is_far(const sim_process *p)
{
	return p->number == SIM_RELAYS - 1;
}

void sim_process_self(void *ctx, char out[WH_PROCESS_LEN])
{
	const sim_process *p = ctx;

	(void)snprintf(out, WH_PROCESS_LEN, "%d:%d", p->number, p->life);
}

wh_process_state sim_process_look(void *ctx, const char *who)
{
	const sim_process *p = ctx, *other = &p->world->processes[atoi(who)];
	int life = atoi(who + strcspn(who, ":") + 1);

	if (!*who || is_far(p) != is_far(other))
		return WH_PROCESS_UNKNOWN;
	if (life == other->life && !other->crashed && (other->relay || other->inside))
		return WH_PROCESS_LIVES;
	sim_say(p->world, "relay %d sees that process %s has ended", p->number, who);
	return WH_PROCESS_ENDED;
}

/* ---- the database in trouble ---- */

static wherry_code fault(sim_process *p, const char *op, const char *what,
			 wherry_error *err)
{
	static const wherry_code codes[] = {WHERRY_BUSY, WHERRY_IO, WHERRY_FULL,
					    WHERRY_INTERRUPTED, WHERRY_NOMEM};
	wherry_code code = codes[sim_below(p->world, sizeof(codes) / sizeof(*codes))];

	sim_say(p->world, "relay %d: %s %s fails: %s", p->number, op, what,
		wherry_code_name(code));
	return wh_fail(err, code, "%s %s failed", op, what);
}

/* An attempt that was recorded before it is made. */
static void charge_tried(sim_process *p)
{
	sim_world *w = p->world;
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v2(p->sqlite,
			       "SELECT message_id FROM sim_rows WHERE status = 1 AND "
			       "claimed_at = (SELECT ms FROM wherry_clock)",
			       -1, &stmt, NULL) != SQLITE_OK)
		return;
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		const char *id = (const char *)sqlite3_column_text(stmt, 0);
		int index = sim_index(id, strlen(id));

		if (index >= 0)
			w->messages[index].charges++;
	}
	sqlite3_finalize(stmt);
}

/* The same where nothing is written to rows. */
static void charge_alone(sim_process *p)
{
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v2(
		    p->sqlite,
		    "SELECT suspect, tries FROM wherry_stream WHERE suspect <> ''", -1,
		    &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW) {
		const char *id = (const char *)sqlite3_column_text(stmt, 0);

		p->world->messages[sim_index(id, strlen(id))].charges++;
		sim_say(p->world, "relay %d tries %s alone, attempt %d", p->number, id,
			sqlite3_column_int(stmt, 1));
	}
	sqlite3_finalize(stmt);
}

/* A claim of somebody else that expired is taken: what it was on may have been delivered. */
static void note_expired(sim_process *p)
{
	sim_world *w = p->world;
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v2(p->sqlite,
			       "SELECT message_id FROM sim_rows WHERE status = 1 AND "
			       "next_retry_at <= (SELECT ms FROM wherry_clock)",
			       -1, &stmt, NULL) != SQLITE_OK)
		return;
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		const char *id = (const char *)sqlite3_column_text(stmt, 0);
		int index = sim_index(id, strlen(id));

		if (index >= 0 && (w->messages[index].last == SIM_IN_FLIGHT ||
				   w->messages[index].last == SIM_TAKEN)) {
			w->messages[index].last = SIM_LOST;
			w->expires++;
		}
	}
	sqlite3_finalize(stmt);
}

/* Whoever held the lease before, did it end in order?  The database knows. */
static void note_lease(sim_process *p)
{
	sqlite3_stmt *stmt = NULL;
	sim_world *w = p->world;
	int64_t epoch;

	if (sqlite3_prepare_v2(p->sqlite, "SELECT epoch, unclean FROM wherry_lease", -1,
			       &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW) {
		epoch = sqlite3_column_int64(stmt, 0);
		if (epoch > 0 && epoch < SIM_EPOCHS && sqlite3_column_int64(stmt, 1)) {
			w->expires += !w->expired[0][epoch - 1];
			w->expired[0][epoch - 1] = true;
		}
		sim_say(w, "relay %d: the epoch is %lld", p->number, (long long)epoch);
	}
	sqlite3_finalize(stmt);
}

/* Leases that were not given back, before they are taken. */
static void note_parts(sim_process *p)
{
	sqlite3_stmt *stmt = NULL;
	sim_world *w = p->world;

	if (sqlite3_prepare_v2(
		    p->sqlite,
		    "SELECT number, epoch FROM wherry_lease WHERE (NOT clean OR state = "
		    "'stopping') AND expires_at <= (SELECT ms FROM wherry_clock)",
		    -1, &stmt, NULL) != SQLITE_OK)
		return;
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		int64_t lease = sqlite3_column_int64(stmt, 0);
		int64_t epoch = sqlite3_column_int64(stmt, 1);

		if (lease < SIM_LEASES && epoch < SIM_EPOCHS) {
			w->expires += !w->expired[lease][epoch];
			w->expired[lease][epoch] = true;
		}
	}
	sqlite3_finalize(stmt);
}

/* It is some time until the database has done it. */
static void pass_time(void *ctx)
{
	const sim_process *p = ctx;

	if (p->world->plan.busy && p->db && p->db->meanwhile)
		p->db->meanwhile(p->db->meanwhile_ctx, p->world->ready, WH_NEVER);
}

static wherry_code before(void *ctx, const char *op, const char *what, wherry_error *err)
{
	sim_process *p = ctx;

	if (strcmp(op, "run") == 0)
		pass_time(p);
	if (!sim_moment(p))
		return wh_fail(err, WHERRY_IO, "the process is gone");
	if (sim_chance(p->world, p->world->plan.fault, 10000))
		return fault(p, op, what, err);
	if (strcmp(what, "claim-expired") == 0 || strcmp(what, "claim-share") == 0)
		note_expired(p);
	if (strcmp(what, "partitions-strip") == 0 ||
	    strcmp(what, "partitions-take") == 0 || strcmp(what, "lease") == 0)
		note_parts(p);
	return WHERRY_OK;
}

static wherry_code after(void *ctx, const char *op, const char *what, wherry_code code,
			 int64_t took_us, wherry_error *err)
{
	sim_process *p = ctx;

	(void)took_us;
	if (strcmp(op, "rollback") == 0 || p->crashed)
		return code;
	if (strcmp(what, "write-position") == 0 && code == WHERRY_OK)
		charge_alone(p);
	if ((strcmp(what, "try") == 0 || strcmp(what, "claim-expired") == 0) &&
	    code == WHERRY_OK)
		charge_tried(p);
	if (strcmp(what, "move") == 0)
		sim_judge_high(p->world);
	if (strcmp(what, "lease") == 0 && code == WHERRY_OK)
		note_lease(p);
	if (strcmp(what, "lease-orphaned") == 0 && code == WHERRY_OK)
		p->world->orphans++;
	if (!sim_moment(p))
		return wh_fail(err, WHERRY_IO, "the process is gone");
	if (code == WHERRY_OK && sim_chance(p->world, p->world->plan.fault, 20000))
		return fault(p, op, what, err); /* it was made, but nobody is told */
	return code;
}

static bool (*changed)(wherry_db *db, const wh_look *look, int64_t *out_next_us);

/* On PostgreSQL no commit wakes a relay that reads the WAL. */
static bool see_operators(wherry_db *db, const wh_look *look, int64_t *out_next_us)
{
	if (!look->operators_only)
		return changed(db, look, out_next_us);
	*out_next_us = look->now_us + WH_SECOND;
	return false;
}

/* Linked in place of wh_db_open(): a connection to the world's database. */
wherry_code __wrap_wh_db_open(const char *url, const wh_db_options *options,
			      wherry_db **out, wherry_error *err);
wherry_code __wrap_wh_db_open(const char *url, const wh_db_options *options,
			      wherry_db **out, wherry_error *err)
{
	sim_process *p = &starting->world->processes[atoi(url + strlen("sim:"))];
	wh_trace trace = {before, after, p, pass_time};
	wherry_db *db = NULL;
	wherry_code code;

	(void)options;
	if (!sim_moment(p))
		return wh_fail(err, WHERRY_IO, "the process is gone");
	if (sim_chance(p->world, p->world->plan.fault, 1000))
		return fault(p, "open", "", err);
	p->sqlite = sim_store_connect(p->world);
	code = wherry_sqlite_borrow(p->sqlite, &db, err);
	if (code != WHERRY_OK)
		return code;
	((sqlite_db *)db)->borrowed = false; /* closed with it */
	db->shared = false;
	db->env = &p->env;
	code = wh_db_trace(db, &trace, out, err);
	if (code == WHERRY_OK) {
		wh_db_driver *driver = (wh_db_driver *)(uintptr_t)(*out)->driver;

		driver->late_commits = p->world->plan.late;
		driver->meanwhile = p->world->plan.busy;
		driver->stream = sim_stream_open;
		if (p->world->plan.engine == SIM_WAL) {
			changed = driver->commits.changed;
			driver->commits.changed = see_operators;
		}
		p->db = *out;
	}
	return code;
}

/* The process whose number stands behind the scheme. */
static sim_process *process_of(const char *url)
{
	return &starting->world->processes[atoi(url + strcspn(url, ":") + 1)];
}

/* Linked in place of wh_publisher_open(): of the destination. */
wherry_code __wrap_wh_publisher_open(const char *url, const wherry_config *config,
				     const wh_env *env, wherry_publisher **out,
				     wherry_error *err);
wherry_code __wrap_wh_publisher_open(const char *url, const wherry_config *config,
				     const wh_env *env, wherry_publisher **out,
				     wherry_error *err)
{
	(void)config;
	(void)env;
	return sim_broker_open(process_of(url), out, err);
}

/* Linked in place of wh_publisher_open_raw(): of dead letters. */
wherry_code __wrap_wh_publisher_open_raw(const char *url, const wherry_config *config,
					 const wh_env *env, wherry_publisher **out,
					 wherry_error *err);
wherry_code __wrap_wh_publisher_open_raw(const char *url, const wherry_config *config,
					 const wh_env *env, wherry_publisher **out,
					 wherry_error *err)
{
	(void)config;
	(void)env;
	return sim_post_open(process_of(url), out, err);
}

/* ---- starting, stepping, ending ---- */

static void log_record(void *ctx, const wherry_log_record *record)
{
	sim_process *p = ctx;

	sim_say(p->world, "relay %d: %s", p->number, record->line);
}

/* Its lease stays, and so does what it has on its way. */
static void close_relay(sim_process *p)
{
	p->inside = true; /* closing may take time as well */
	wherry_relay_close(p->relay);
	p->inside = false;
	p->relay = NULL;
	p->db = NULL;
	p->stopping = false;
	p->start_us = p->world->now_us + sim_time(p->world, 2000000);
}

/* Relays of a log may read the WAL or the table, one after the other. */
static void set_source(sim_process *p)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (wherry_config_set(p->world->config, "relay.source",
			      sim_below(p->world, 6) ? "wal" : "table",
			      &err) != WHERRY_OK)
		sim_wrong(p->world, "%s", err.message);
}

static void set_letters(sim_process *p)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char url[16];

	(void)snprintf(url, sizeof(url), "post:%d", p->number);
	if (wherry_config_set(p->world->config, "relay.dead_letters", url, &err) !=
	    WHERRY_OK)
		sim_wrong(p->world, "%s", err.message);
}

void sim_process_start(sim_process *p)
{
	wherry_error err = WHERRY_ERROR_INIT;
	sim_world *w = p->world;
	char url[16];
	wherry_code code;

	(void)snprintf(url, sizeof(url), "sim:%d", p->number);
	starting = p;
	p->crashed = false;
	p->life++;
	p->env = w->env;
	p->env.ctx = p;
	p->inside = true;
	if (w->plan.letters)
		set_letters(p);
	if (w->plan.engine == SIM_WAL)
		set_source(p);
	code = wherry_relay_open(url, url, w->config, &p->relay, &err);
	p->inside = false;
	if (code != WHERRY_OK) {
		sim_say(w, "relay %d does not start: %s", p->number, err.message);
		p->relay = NULL;
		p->db = NULL;
		p->start_us = w->now_us + sim_time(w, 1000000);
		if (w->calm)
			sim_wrong(w, "a relay does not start: %s", err.message);
		return;
	}
	p->relay->env = p->env;
	wherry_relay_log(p->relay, log_record, p);
	p->wake_us = w->now_us;
	if (p->crashed) {
		close_relay(p);
		return;
	}
	sim_say(w, "relay %d starts", p->number);
}

void sim_process_kill(sim_process *p)
{
	if (!p->relay)
		return;
	sim_say(p->world, "relay %d is killed", p->number);
	p->world->crashes++;
	p->crashed = true;
	if (!p->inside)
		close_relay(p);
}

bool sim_process_polls(const sim_process *p, int fd)
{
	struct pollfd fds[WHERRY_RELAY_FDS];
	size_t n = p->relay ? wherry_relay_fds(p->relay, fds) : 0;

	while (n--)
		if (fds[n].fd == fd && fds[n].events & POLLIN)
			return true;
	return false;
}

bool sim_process_ready(const sim_process *p)
{
	const sim_world *w = p->world;

	if (!p->relay || p->inside || w->now_us < p->paused_until_us)
		return false;
	return w->now_us >= p->wake_us || sim_broker_next(w, p) <= w->now_us ||
	       sim_stream_next(w, p) <= w->now_us;
}

void sim_process_step(sim_process *p)
{
	wherry_error err = WHERRY_ERROR_INIT;
	sim_world *w = p->world;
	bool finished = false;
	wherry_code code;

	if (!p->relay || p->inside)
		return;
	p->inside = true;
	starting = p;
	code = wherry_relay_step(p->relay, &p->wake_us, &finished, &err);
	p->inside = false;
	if (p->crashed) {
		w->crashes++;
		close_relay(p);
	} else if (code != WHERRY_OK) {
		sim_wrong(w, "relay %d gives up: %s", p->number, err.message);
	} else if (finished) {
		sim_say(w, "relay %d has stopped", p->number);
		close_relay(p);
	}
}
