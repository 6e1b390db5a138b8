/*
 * Noticing commits.
 *
 * While there is work the relay looks again and again, at growing intervals, less often if the
 * server is busy.  Before it sleeps it takes an advisory lock of its outbox.  A trigger of the outbox tries to share
 * this lock: a writer that is refused knows that a relay sleeps, and notifies it.  A
 * writer that shared the lock before may not have committed yet: then the relay is
 * refused, and continues to look.  With the lock it looks once more; writers that commit
 * later notify it.  No snapshot is involved, so no writer is missed, whatever its
 * isolation level.  While no relay sleeps, no writer notifies.
 *
 * Of several sleepers one has the lock.  The others only listen, since writers are
 * refused as well.  A sleeper that releases the lock notifies the others, which start
 * again.
 *
 * Notifications also arrive with the answers of other statements.  An eventfd then
 * becomes readable, so the descriptor to poll is an epoll of both.
 *
 * On a borrowed connection, behind a pooler, and on a server that lacks one of both, the
 * driver neither listens nor locks: it polls, at last four times a second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "db/postgres/postgres.h"

enum { FIRST_LOOK_US = 1000, SLEEPY_US = 16000, LAST_LOOK_US = 250000 };

/* A relay rests so many times as long as its statements took longer than they can. */
enum { REST = 4, REST_MOST_US = 50000, FORGET = 256 };

/* The key of an outbox's sleepers' lock is this plus the number of its table.
 * postgres.message.sql has the same number. */
#define SLEEPERS (1669LL << 32)

static bool add(const postgres_watch *w, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return fd >= 0 && epoll_ctl(w->fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Name the two channels.  They contain the number of the table, so other outboxes do not
 * wake this relay. */
static void name_channels(postgres_db *s)
{
	long long key = s->watch.whose.key;

	(void)snprintf(s->watch.rows_channel, sizeof(s->watch.rows_channel),
		       "wherry_%lld", key);
	(void)snprintf(s->watch.control_channel, sizeof(s->watch.control_channel),
		       "wherry_%lld_control", key);
}

static wherry_code listen_to(postgres_db *s, wherry_error *err)
{
	char sql[200];

	(void)snprintf(sql, sizeof(sql), "LISTEN %s; LISTEN %s", s->watch.rows_channel,
		       s->watch.control_channel);
	return s->watch.whose.key ? wh_postgres_exec(s, sql, err) : WHERRY_OK;
}

/* Never fails: if it cannot listen, it polls. */
wherry_code wh_postgres_watch(wherry_db *db, const wh_watch *whose, wherry_error *err)
{
	postgres_db *s = (postgres_db *)db;
	postgres_watch *w = &s->watch;

	if (w->on) { /* The connection is used for another table. */
		w->step_us = FIRST_LOOK_US;
		w->look_us = 0;
		return WHERRY_OK;
	}
	*w = (postgres_watch){.on = true,
			      .whose = *whose,
			      .fd = -1,
			      .event = -1,
			      .step_us = FIRST_LOOK_US};
	name_channels(s);
	if (s->borrowed || s->pooled || !wh_postgres_has(db, WH_DB_SIGNALS) ||
	    listen_to(s, err) != WHERRY_OK)
		return WHERRY_OK;
	w->fd = epoll_create1(EPOLL_CLOEXEC);
	w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd >= 0 && !(add(w, w->event) && add(w, PQsocket(s->conn))))
		wh_postgres_unwatch(s);
	return WHERRY_OK;
}

void wh_postgres_unwatch(postgres_db *s)
{
	postgres_watch *w = &s->watch;

	if (w->on && w->fd >= 0)
		(void)close(w->fd);
	if (w->on && w->event >= 0)
		(void)close(w->event);
	w->fd = w->event = -1;
	free(w->heard);
	w->heard = NULL;
	w->n_heard = w->heard_cap = 0;
}

int wh_postgres_fd(wherry_db *db)
{
	const postgres_watch *w = &((postgres_db *)db)->watch;

	return w->on ? w->fd : -1;
}

/* ---- notifications ---- */

/* Read the notifications that have arrived.  Ignore those of this session. */
static void take(postgres_db *s)
{
	PGnotify *n;

	while ((n = PQnotifies(s->conn))) {
		bool others = n->be_pid != PQbackendPID(s->conn);

		if (others && s->watch.whose.many)
			wh_postgres_note(&s->watch, n->relname);
		s->watch.rows |= others && strcmp(n->relname, s->watch.rows_channel) == 0;
		s->watch.control |=
			others && strcmp(n->relname, s->watch.control_channel) == 0;
		PQfreemem(n);
	}
}

void wh_postgres_heard(postgres_db *s)
{
	static const uint64_t one = 1;
	const postgres_watch *w = &s->watch;

	if (!w->on || w->fd < 0)
		return;
	take(s);
	/* The write fails only if the eventfd is readable already. */
	if (w->rows || w->control)
		(void)!write(w->event, &one, sizeof(one));
}

wherry_code wh_postgres_listen(wherry_db *db, const int64_t *keys, size_t n, bool on,
			       wherry_error *err)
{
	postgres_db *s = (postgres_db *)db;
	const char *word = on ? "LISTEN" : "UNLISTEN";
	wh_buf sql = WH_BUF_INIT(n * 128 + 1);
	wherry_code code;

	if (!s->watch.on || s->watch.fd < 0)
		return wh_fail(err, WHERRY_INVALID, "this connection cannot listen");
	for (size_t i = 0; i < n; i++)
		wh_buf_printf(&sql, "%s wherry_%lld; %s wherry_%lld_control; ", word,
			      (long long)keys[i], word, (long long)keys[i]);
	code = wh_buf_check(&sql, err);
	if (code == WHERRY_OK)
		code = wh_postgres_exec(s, wh_buf_str(&sql), err);
	wh_buf_clear(&sql);
	return code;
}

/* A connection that is lost is a notification of table 0. */
size_t wh_postgres_heard_of(wherry_db *db, wh_heard *out, size_t most)
{
	postgres_db *s = (postgres_db *)db;
	postgres_watch *w = &s->watch;
	uint64_t count;
	size_t n;

	if (w->fd >= 0) {
		(void)!read(w->event, &count, sizeof(count));
		if (PQconsumeInput(s->conn))
			take(s);
		w->rows = false;
	}
	n = wh_postgres_noted(w, out, most);
	if (!n && most && PQstatus(s->conn) == CONNECTION_BAD)
		out[n++] = (wh_heard){.key = 0};
	return n;
}

/* Has a notification arrived that matters to the caller? */
static bool heard(postgres_db *s, bool operators_only)
{
	postgres_watch *w = &s->watch;
	uint64_t count;
	bool any;

	if (w->fd < 0)
		return false;
	(void)!read(w->event, &count, sizeof(count));
	if (PQconsumeInput(s->conn))
		take(s);
	any = w->control || (w->rows && !operators_only);
	w->rows = w->control = false;
	return any;
}

void wh_postgres_committed(postgres_db *s)
{
	char sql[120];

	if (!s->watch.on || !s->watch.locked || s->quiet)
		return;
	(void)snprintf(sql, sizeof(sql), "SELECT pg_notify('%s', '')",
		       s->watch.rows_channel);
	PQclear(wh_postgres_query(s, sql));
}

/* ---- sleeping ---- */

static int64_t ask(postgres_db *s, const char *sql)
{
	PGresult *res = wh_postgres_query(s, sql);
	int64_t answer = -1;

	if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1 &&
	    PQnfields(res) == 1)
		answer = *PQgetvalue(res, 0, 0) - '0';
	PQclear(res);
	wh_postgres_heard(s);
	return answer;
}

/* Try to take the sleepers' lock.  The query returns 1: taken; 2: another sleeper has it;
 * 0: writers share it.  Returns false for 0. */
static bool lie_down(postgres_db *s)
{
	static const char text[] =
		"SELECT CASE WHEN pg_try_advisory_lock(%lld) THEN 1 "
		"WHEN EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' "
		"AND database = (SELECT oid FROM pg_database WHERE datname = "
		"current_database()) AND (classid::bigint << 32) + objid::bigint = %lld "
		"AND objsubid = 1 AND mode = 'ExclusiveLock' AND granted) THEN 2 ELSE 0 END";
	long long key = SLEEPERS + s->watch.whose.key;
	char sql[sizeof(text) + 40];
	int64_t answer;

	(void)snprintf(sql, sizeof(sql), text, key, key);
	answer = ask(s, sql);
	s->watch.locked = answer == 1;
	return answer > 0;
}

static void get_up(postgres_db *s)
{
	postgres_watch *w = &s->watch;
	char sql[160];

	(void)snprintf(sql, sizeof(sql),
		       "SELECT 1 FROM (SELECT pg_advisory_unlock(%lld), "
		       "pg_notify('%s', '')) AS up",
		       SLEEPERS + (long long)s->watch.whose.key, w->rows_channel);
	if (w->locked)
		(void)ask(s, sql);
	w->locked = w->last_look = w->asleep = false;
	w->step_us = FIRST_LOOK_US;
	w->look_us = 0;
}

/* Time to rest because the server is busy, which slower statements tell: relays that look as often
 * as they can would take its processors from those who write.  The time to a distant server is
 * in every statement, so it does not count. */
static int64_t rest(postgres_watch *w)
{
	int64_t spent_us = w->spent_us, more_us;

	w->spent_us = 0;
	if (!w->least_us || spent_us < w->least_us)
		w->least_us = spent_us;
	more_us = spent_us - w->least_us;
	w->least_us += more_us / FORGET;
	return more_us > REST_MOST_US / REST ? REST_MOST_US : more_us * REST;
}

/* Set the time of the next look.  After a long interval, try to fall asleep, with one
 * last look. */
static void look_again(postgres_db *s, const wh_look *look)
{
	postgres_watch *w = &s->watch;
	bool active = w->rows_read != look->rows_read;
	int64_t rest_us = rest(w);

	w->rows_read = look->rows_read;
	w->step_us = active ? FIRST_LOOK_US : w->step_us * 2;
	if (w->step_us > LAST_LOOK_US)
		w->step_us = LAST_LOOK_US;
	w->look_us = look->now_us + (w->step_us > rest_us ? w->step_us : rest_us);
	if (w->fd >= 0 && w->step_us >= SLEEPY_US && s->watch.whose.key &&
	    !s->watch.whose.unheard && lie_down(s)) {
		w->last_look = true;
		w->look_us = look->now_us;
	}
}

/* Is it time to look?  While the relay does not sleep nobody notifies it, so it has to
 * look. */
static bool is_time(postgres_db *s, const wh_look *look)
{
	postgres_watch *w = &s->watch;

	if (w->last_look) { /* The last look is over: did it find anything? */
		w->last_look = false;
		w->asleep = w->rows_read == look->rows_read;
		if (!w->asleep)
			get_up(s);
	}
	if (w->asleep || look->now_us < w->look_us)
		return false;
	look_again(s, look);
	return true;
}

/* Say why nobody wakes the relay. */
static void tell_polling(postgres_db *s)
{
	if (s->watch.warned)
		return;
	if (s->one_session)
		wh_log(s->base.env, WHERRY_LOG_WARN, "db", "polls",
		       wh_log_note("this server has one session for all connections, in "
				   "which it can wake nobody: the relay polls four "
				   "times a second"));
	else if (s->pooled)
		wh_log(s->base.env, WHERRY_LOG_WARN, "db", "pooler",
		       wh_log_note("a connection pooler keeps PostgreSQL from "
				   "waking this relay, which therefore polls four "
				   "times a second; give it a direct connection"));
	else if (!wh_postgres_has(&s->base, WH_DB_SIGNALS))
		wh_log(s->base.env, WHERRY_LOG_WARN, "db", "polls",
		       wh_log_note("this server lacks LISTEN or advisory locks, so the "
				   "relay polls four times a second"));
	s->watch.warned = true;
}

/* Is the connection lost?  The next query fails with the reason.  A lost session has lost
 * its lock, so nobody would wake the relay. */
static bool is_lost(const postgres_db *s)
{
	return PQstatus(s->conn) == CONNECTION_BAD;
}

bool wh_postgres_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us)
{
	postgres_db *s = (postgres_db *)db;
	postgres_watch *w = &s->watch;
	bool any;

	*out_next_us = WH_NEVER;
	if (!w->on || s->visiting)
		return false;
	if (is_lost(s))
		return true;
	if (PQtransactionStatus(s->conn) != PQTRANS_IDLE)
		return false;
	tell_polling(s);
	any = heard(s, look->operators_only);
	if (is_lost(s))
		return true;
	if ((any || look->operators_only) && (w->asleep || w->last_look))
		get_up(s);
	if (look->operators_only && w->fd >= 0)
		return any;
	any |= is_time(s, look);
	if (!w->asleep)
		*out_next_us = w->look_us;
	return any;
}
