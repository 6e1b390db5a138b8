/*
 * Connecting.  URLs are libpq's own, and so are ~/.pgpass, PGPASSWORD, service files and
 * TLS.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "db/postgres.h"

enum { CONNECT_S = 10 }; /* unless connect_timeout says otherwise */

/* The value of an option as libpq resolved it; "" for none.  Freed by the caller. */
static char *option_of(PGconn *conn, const char *keyword)
{
	PQconninfoOption *all = PQconninfo(conn);
	char *value = NULL;

	for (PQconninfoOption *o = all; o && o->keyword && !value; o++)
		if (strcmp(o->keyword, keyword) == 0)
			value = strdup(o->val ? o->val : "");
	PQconninfoFree(all);
	return value;
}

static int64_t time_to_connect(PGconn *conn)
{
	char *text = option_of(conn, "connect_timeout");
	int64_t seconds = 0;

	if (!text || !wh_parse_int(text, &seconds) || seconds == 0)
		seconds = CONNECT_S;
	free(text);
	if (seconds < 0 || seconds > 3600)
		seconds = 3600;
	return seconds * WH_SECOND;
}

/* libpq's blocking connect tells no SQLSTATE: verbose messages have it, and only here can
 * they be asked for in time. */
static wherry_code wait_for(postgres_db *s, wherry_error *err)
{
	int64_t by_us = wh_later(wh_monotonic(&wh_env_system), time_to_connect(s->conn));
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;

	while (next != PGRES_POLLING_OK) {
		struct pollfd fd = {.fd = PQsocket(s->conn), .events = POLLIN};
		int64_t left_us = by_us - wh_monotonic(&wh_env_system);
		int n;

		if (next == PGRES_POLLING_FAILED || PQstatus(s->conn) == CONNECTION_BAD)
			return wh_postgres_refused(s, err);
		if (next == PGRES_POLLING_WRITING)
			fd.events = POLLOUT;
		n = left_us > 0 ? poll(&fd, 1, (int)(left_us / 1000) + 1) : 0;
		if (left_us <= 0 || (n == 0 && wh_monotonic(&wh_env_system) >= by_us))
			return wh_fail(
				err, WHERRY_TIMEOUT,
				"%s: no answer in time: is the host right? "
				"(connect_timeout in the URL says how long to wait)",
				s->name);
		if (n != 0)
			next = PQconnectPoll(s->conn);
	}
	return WHERRY_OK;
}

/* libpq would write to standard error. */
static void hear(void *arg, const PGresult *res)
{
	const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	postgres_db *s = arg;

	(void)snprintf(s->notice, sizeof(s->notice), "%s", text ? text : "");
	wh_log(s->base.env, WHERRY_LOG_DEBUG, "db", "notice",
	       wh_log_text("text", s->notice));
}

/* What errors call the database: never its password. */
static void name_it(postgres_db *s)
{
	const char *db = PQdb(s->conn), *host = PQhost(s->conn);

	(void)snprintf(s->name, sizeof(s->name), "%.60s%s%.60s",
		       db && *db ? db : "postgres", host && *host ? " on " : "",
		       host ? host : "");
}

wherry_code wh_postgres_connect(postgres_db *s, const char *const *keywords,
				const char *const *values, wherry_error *err)
{
	wherry_code code;

	s->conn = PQconnectStartParams(keywords, values, 1);
	if (!s->conn)
		return wh_oom(err);
	(void)PQsetErrorVerbosity(s->conn, PQERRORS_VERBOSE);
	(void)PQsetNoticeReceiver(s->conn, hear, s);
	name_it(s);
	code = wait_for(s, err);
	if (code == WHERRY_OK)
		name_it(s);
	return code;
}

/*
 * Statements are planned once, often when a table is empty, and run for days: the plans
 * must be those for large tables, which use the indexes.
 *
 * Commits need not wait for the disk if the settings say so; those of lone statements do,
 * since a lease must not be taken twice under one epoch when the server is killed and its
 * relays are not ("a lease outlives a server that is killed", postgres_restart.sh).
 */
static void write_settings(char *out, size_t cap, const char *set,
			   const wh_db_options *options)
{
	long long wait_ms = (options->busy_timeout_us + 999) / 1000 + 1;
	long long idle_ms = options->idle_us / 1000;
	char idle[80] = "";

	if (idle_ms)
		(void)snprintf(idle, sizeof(idle),
			       "%s idle_in_transaction_session_timeout = %lld; ", set,
			       idle_ms);
	(void)snprintf(
		out, cap,
		"%s client_min_messages = warning; %s lock_timeout = %lld; "
		"%s enable_seqscan = off; %s enable_bitmapscan = off; "
		"%s enable_hashjoin = off; %s enable_mergejoin = off; %s jit = off; "
		"%s",
		set, set, wait_ms, set, set, set, set, set, idle);
}

/* For the session; or, where a pooler would give it to others so, for each transaction. */
static wherry_code set_up(postgres_db *s, const wh_db_options *options, wherry_error *err)
{
	static const char begin[] = "BEGIN ISOLATION LEVEL READ COMMITTED";
	const char *set = s->pooled ? "SET LOCAL" : "SET";
	const char *no_sync =
		options->full_sync ? "" : "SET LOCAL synchronous_commit = off";
	char settings[400], sync[120], sql[700];

	write_settings(settings, sizeof(settings), set, options);
	(void)snprintf(sync, sizeof(sync),
		       "SELECT set_config('synchronous_commit', 'on', %s) "
		       "WHERE current_setting('synchronous_commit') = 'off'; ",
		       s->pooled ? "true" : "false");
	if (s->pooled) {
		(void)snprintf(s->begin, sizeof(s->begin), "%s; %s%s%s", begin, sync,
			       settings, no_sync);
		return WHERRY_OK;
	}
	(void)snprintf(s->begin, sizeof(s->begin), "%s; %s", "BEGIN", no_sync);
	(void)snprintf(sql, sizeof(sql),
		       "%s%sSET default_transaction_isolation = 'read committed'", sync,
		       settings);
	return wh_postgres_exec(s, sql, err);
}

/* A pooler makes up the process number that it tells. */
static wherry_code look_around(postgres_db *s, bool must_write, wherry_error *err)
{
	PGresult *res =
		PQexec(s->conn, "SELECT pg_backend_pid(), pg_is_in_recovery() OR "
				"current_setting('transaction_read_only') = 'on'");
	wherry_code code = WHERRY_OK;
	int64_t pid = 0;

	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		code = wh_postgres_fail(s, res, err);
	else if (must_write && strcmp(PQgetvalue(res, 0, 1), "t") == 0)
		code = wh_fail(err, WHERRY_READONLY,
			       "%s: it cannot be written, being a standby or set to read "
			       "only: name the primary, as with "
			       "?target_session_attrs=read-write",
			       s->name);
	else
		(void)wh_parse_int(PQgetvalue(res, 0, 0), &pid);
	s->pooled = pid != PQbackendPID(s->conn);
	PQclear(res);
	return code;
}

/* As libpq reads it.  Given; NULL: out of memory. */
static char *libpq_url(const char *rest)
{
	size_t len = strlen(rest) + sizeof("postgresql:");
	char *url = malloc(len);

	if (url)
		(void)snprintf(url, len, "postgresql:%s", rest);
	return url;
}

/* In a password that is not percent-encoded an @ or a / makes libpq take the rest of it for
 * hosts, a port or a database, which errors name. */
static bool userinfo_plain(const char *url)
{
	const char *begin = strstr(url, "://");
	const char *end, *at;

	if (!begin)
		return true;
	begin += 3;
	end = begin + strcspn(begin, "?");
	at = memchr(begin, '@', (size_t)(end - begin));
	return !at || (!memchr(at + 1, '@', (size_t)(end - at - 1)) &&
		       !memchr(begin, '/', (size_t)(at - begin)));
}

static bool ports_plain(const PQconninfoOption *options)
{
	for (; options->keyword; options++)
		if (strcmp(options->keyword, "port") == 0 && options->val)
			return !options->val[strspn(options->val, "0123456789,")];
	return true;
}

static wherry_code check_url(const char *url, wherry_error *err)
{
	PQconninfoOption *parsed = PQconninfoParse(url, NULL);

	bool fine = parsed && userinfo_plain(url) && ports_plain(parsed);

	PQconninfoFree(parsed);
	if (!fine) /* libpq's own text would repeat the password, or a part of it */
		return wh_fail(err, WHERRY_INVALID,
			       "no PostgreSQL URL: write "
			       "postgres://USER@HOST:PORT/DATABASE?OPTION=VALUE, with "
			       "%%XX for special characters");
	return WHERRY_OK;
}

wherry_code wh_postgres_check(const char *rest, wherry_error *err)
{
	char *url = libpq_url(rest);
	wherry_code code = url ? check_url(url, err) : wh_oom(err);

	free(url);
	return code;
}

wherry_code wh_postgres_open(const char *rest, const wh_db_options *options,
			     wherry_db **out, wherry_error *err)
{
	/* What the URL says comes later, and counts; but for the encoding. */
	const char *const keywords[] = {"fallback_application_name", "keepalives_idle",
					"keepalives_interval",       "keepalives_count",
					"tcp_user_timeout",          "dbname",
					"client_encoding",           NULL};
	const char *values[] = {"wherry", "30", "10", "3", "60000", NULL, "UTF8", NULL};
	postgres_db *s = calloc(1, sizeof(*s));
	char *url = libpq_url(rest);
	wherry_code code;

	if (!s || !url) {
		code = wh_oom(err);
		goto out;
	}
	code = check_url(url, err);
	if (code != WHERRY_OK)
		goto out;
	s->base.driver = &wh_db_postgres;
	s->base.env = options->env;
	values[5] = url;
	code = wh_postgres_connect(s, keywords, values, err);
	if (code == WHERRY_OK)
		code = look_around(s, options->must_write, err);
	if (code == WHERRY_OK)
		code = set_up(s, options, err);
	if (code != WHERRY_OK)
		goto out;
	s->cancel = PQgetCancel(s->conn);
	*out = &s->base;
	s = NULL; /* given away */
out:
	if (s && s->conn)
		PQfinish(s->conn);
	free(s);
	free(url);
	return code;
}
