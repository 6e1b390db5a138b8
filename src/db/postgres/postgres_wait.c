/*
 * Waiting for the server's answers, for a bounded time.
 *
 * A server or a proxy may keep a connection open and stop sending.  TCP keepalives do not
 * notice that, because the peer's kernel still answers them.  A slow statement looks the
 * same.  So after a third of db.answer_timeout without a byte, a second connection asks the server
 * what the session does.  If the session works on the statement, the wait continues.
 * Otherwise, or if there is no answer by the end of that time, the connection is shut down, and the
 * call fails as with any lost connection.
 *
 * On a borrowed connection nothing is bounded: its owner decides how long to wait.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "db/postgres/postgres.h"

/* Longest silence if nobody knows what the session does. */
#define UNSURE_US (300 * WH_SECOND)

/* Time to wait after the session was found idle: its answer may be on the way. */
#define GRACE_US WH_SECOND

/* A server that works has at least this long to answer the second connection. */
#define ANSWER_US WH_SECOND

typedef enum verdict { WORKS, UNSURE, LOST, SILENT } verdict;

typedef struct silence {
	int64_t began_us; /* When a byte last came or went; monotonic. */
	int64_t ask_us;   /* When to ask what the session does. */
	bool lost;        /* The session was found not to work on the statement. */
} silence;

static silence silence_from(const postgres_db *s, int64_t now_us)
{
	return (silence){now_us,
			 s->answer_us ? wh_later(now_us, s->answer_us / 3) : WH_NEVER,
			 false};
}

/* ---- giving up ---- */

/* Shut the socket down.  libpq, and later checks of the connection, then find it
 * closed. */
static void hang_up(postgres_db *s, int64_t silent_us, const char *why)
{
	(void)snprintf(s->notice, sizeof(s->notice),
		       "the server sent nothing for %lld ms, and %s: the connection is "
		       "closed",
		       (long long)silent_us / 1000, why);
	(void)shutdown(PQsocket(s->conn), SHUT_RDWR);
	(void)PQconsumeInput(s->conn);
}

/* ---- what does the session do? ---- */

static bool is(const PGresult *res, int column, const char *text)
{
	return strcmp(PQgetvalue(res, 0, column), text) == 0;
}

/* A session that waits for its client believes that it has sent its answer. */
static verdict read_activity(const PGresult *res)
{
	if (PQresultStatus(res) != PGRES_TUPLES_OK || PQnfields(res) != 2)
		return PQresultErrorField(res, PG_DIAG_SQLSTATE) ? UNSURE : LOST;
	if (PQntuples(res) == 0)
		return LOST;
	if (is(res, 0, "disabled") || is(res, 0, ""))
		return UNSURE;
	return is(res, 0, "active") && !is(res, 1, "Client") ? WORKS : LOST;
}

static verdict ask(postgres_db *other, const postgres_db *s)
{
	char sql[160];
	PGresult *res;
	verdict answer;

	(void)snprintf(sql, sizeof(sql),
		       "SELECT state, wait_event_type FROM pg_catalog.pg_stat_activity "
		       "WHERE pid OPERATOR(pg_catalog.=) %d",
		       PQbackendPID(s->conn));
	res = wh_postgres_query(other, sql);
	answer = read_activity(res);
	PQclear(res);
	return answer;
}

/* Ask the server, on a second connection, what the session does.  Behind a pooler this is
 * impossible: its session numbers are fake.  A server that refuses the connection with a
 * SQLSTATE is alive. */
static verdict activity(const postgres_db *s)
{
	postgres_db other = {.conn = NULL};
	wherry_error err = WHERRY_ERROR_INIT;
	verdict answer = UNSURE;
	int64_t rest_us = s->answer_us - s->answer_us / 3;
	wherry_code code;

	if (s->pooled)
		return UNSURE;
	other.give_up_us = wh_later(wh_monotonic(s->base.env),
				    rest_us > ANSWER_US ? rest_us : ANSWER_US);
	code = wh_postgres_connect_as(&other, s, NULL, &err);
	other.answer_us = 0; /* Its own silence is not checked. */
	if (code == WHERRY_OK)
		answer = ask(&other, s);
	else if (!*err.sqlstate)
		answer = SILENT;
	PQfinish(other.conn);
	wh_log(s->base.env, WHERRY_LOG_DEBUG, "db", "silence",
	       wh_log_text("session", answer == WORKS ? "works" : "does not work"));
	return answer;
}

/* The time beyond which no call waits. */
static int64_t limit(const postgres_db *s)
{
	return s->give_up_us && !s->borrowed ? s->give_up_us : WH_NEVER;
}

/* Decide whether to continue after a silence.  False: the connection was shut down. */
static bool endure(postgres_db *s, silence *t, int64_t now_us)
{
	int64_t silent_us = now_us - t->began_us;
	verdict found;

	if (now_us >= limit(s)) {
		hang_up(s, silent_us, "there is no time left to wait for it");
		return false;
	}
	if (now_us < t->ask_us)
		return true;
	found = t->lost ? LOST : activity(s);
	if (found == SILENT || t->lost || (found == UNSURE && silent_us >= UNSURE_US)) {
		hang_up(s, wh_monotonic(s->base.env) - t->began_us,
			found == LOST     ? "it does not work on the statement"
			: found == SILENT ? "does not answer another connection"
					  : "cannot be asked whether it works");
		return false;
	}
	t->lost = found == LOST;
	now_us = wh_monotonic(s->base.env);
	t->ask_us = wh_later(now_us, t->lost ? GRACE_US : s->answer_us);
	return true;
}

/* ---- sending ---- */

/* Let the socket block, for a second at most where it sends, and hardly where it reads; or not block, as libpq has it. */
static bool set_blocking(const postgres_db *s, bool blocks)
{
	const struct timeval send = {.tv_sec = 1}, receive = {.tv_usec = 1000};
	int fd = PQsocket(s->conn), flags = fcntl(fd, F_GETFL);

	if (flags < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send, sizeof(send)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof(receive)) != 0)
		return false;
	return fcntl(fd, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) == 0;
}

/*
 * As PQflush().  If the socket takes a part, libpq moves the rest to the front of its buffer.  A socket takes 200 kB,
 * so most of the time of a value of 600 MB, minutes, went into such moves.  A socket that blocks takes it in one go; if
 * the server stops reading, it returns after a second.
 */
static int flush(const postgres_db *s)
{
	int unsent = PQflush(s->conn);

	if (unsent > 0 && s->sends_much && set_blocking(s, true)) {
		unsent = PQflush(s->conn);
		(void)set_blocking(s, false);
	}
	return unsent;
}

/* ---- waiting ---- */

/* Wait once.  True: bytes arrived, or unsent bytes can be sent. */
static bool wait_once(postgres_db *s, const silence *t, int64_t now_us, bool unsent)
{
	struct pollfd fd = {.fd = PQsocket(s->conn), .events = POLLIN};
	int64_t until_us = t->ask_us < limit(s) ? t->ask_us : limit(s);
	int64_t wait_us = until_us - now_us;

	if (s->base.meanwhile && !unsent) {
		s->base.meanwhile(s->base.meanwhile_ctx, fd.fd, until_us);
		return poll(&fd, 1, 0) > 0;
	}
	if (unsent)
		fd.events |= POLLOUT;
	if (wait_us > 60 * WH_SECOND)
		wait_us = 60 * WH_SECOND;
	return poll(&fd, 1, wait_us > 0 ? (int)(wait_us / 1000) + 1 : 0) > 0;
}

static bool done(const postgres_db *s, int unsent)
{
	return unsent < 0 || (!unsent && !PQisBusy(s->conn));
}

/*
 * Read the rest of an encrypted record, which poll() does not report.  A record has at
 * most 16 kB, and each read takes 8 kB or more.  True: libpq's buffer has all of it.
 */
static bool decrypt(postgres_db *s)
{
	struct pollfd fd = {.fd = PQsocket(s->conn), .events = POLLIN};

	if (!PQsslInUse(s->conn) && !PQgssEncInUse(s->conn))
		return true;
	while (poll(&fd, 1, 0) > 0)
		if (!PQconsumeInput(s->conn))
			return false;
	return PQconsumeInput(s->conn) && PQconsumeInput(s->conn);
}

/* Wait until a result can be fetched without blocking.  If the server does not work on the
 * statement, close the connection; the result then contains the error. */
static void await(postgres_db *s)
{
	int64_t now_us = wh_monotonic(s->base.env);
	silence t = silence_from(s, now_us);

	while (PQsocket(s->conn) >= 0) { /* The result contains the error. */
		int unsent = flush(s);

		if (done(s, unsent) || !decrypt(s) || done(s, unsent))
			return;
		if (wait_once(s, &t, now_us, unsent)) {
			if (!PQconsumeInput(s->conn))
				return;
			now_us = wh_monotonic(s->base.env);
			t = silence_from(s, now_us);
			continue;
		}
		now_us = wh_monotonic(s->base.env);
		if (!endure(s, &t, now_us))
			return;
		now_us = wh_monotonic(s->base.env);
	}
}

PGresult *wh_postgres_result(postgres_db *s)
{
	await(s);
	return PQgetResult(s->conn);
}

/* ---- as libpq's functions of these names, which wait for ever ---- */

static bool copies(const PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);

	return status == PGRES_COPY_IN || status == PGRES_COPY_OUT ||
	       status == PGRES_COPY_BOTH;
}

/* The last of several results, or the first that is an error; NULL: the query could not
 * be sent. */
static PGresult *last_result(postgres_db *s, int sent)
{
	PGresult *last = NULL, *res;

	while (sent && (res = wh_postgres_result(s))) {
		if (PQresultStatus(last) == PGRES_FATAL_ERROR && last) {
			PQclear(res);
			continue;
		}
		PQclear(last);
		last = res;
		if (copies(res) || PQstatus(s->conn) == CONNECTION_BAD)
			break;
	}
	return last;
}

PGresult *wh_postgres_query(postgres_db *s, const char *sql)
{
	wh_arena copies = WH_ARENA_INIT;
	PGresult *res = last_result(
		s, PQsendQuery(s->conn, wh_postgres_text_sql(s, sql, &copies)));

	wh_arena_clear(&copies);
	return res;
}

PGresult *wh_postgres_query_params(postgres_db *s, const char *sql, int n,
				   const char *const *values, int format)
{
	return last_result(
		s, PQsendQueryParams(s->conn, sql, n, NULL, values, NULL, NULL, format));
}

PGresult *wh_postgres_prepare(postgres_db *s, const char *name, const char *sql)
{
	wh_arena copies = WH_ARENA_INIT;
	PGresult *res = last_result(
		s, PQsendPrepare(s->conn, name, wh_postgres_text_sql(s, sql, &copies), 0,
				 NULL));

	wh_arena_clear(&copies);
	return res;
}

PGresult *wh_postgres_describe(postgres_db *s, const char *name)
{
	return last_result(s, PQsendDescribePrepared(s->conn, name));
}
