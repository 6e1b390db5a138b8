/*
 * Connecting.  libpq reads the URL, ~/.pgpass, PGPASSWORD, service files and TLS options.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "db/postgres/postgres.h"

enum { CONNECT_S = 10 }; /* Default of connect_timeout. */

/* The value of an option as libpq resolved it; "": none.  The caller frees it. */
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

static int64_t time_to_connect(const postgres_db *s)
{
	char *text = option_of(s->conn, "connect_timeout");
	char *hosts = option_of(s->conn, "host");
	bool several = hosts && strchr(hosts, ',');
	int64_t seconds = 0;
	bool is_set = text && wh_parse_int(text, &seconds) && seconds != 0;

	free(text);
	free(hosts);
	if (!is_set && several && s->host_us)
		return s->host_us;
	if (!is_set)
		seconds = CONNECT_S;
	if (seconds < 0 || seconds > 3600)
		seconds = 3600;
	return seconds * WH_SECOND;
}

/* How long to wait.  The result is a duration because give_up_us is by the environment's
 * clock and the wait by the system's. */
static int64_t limit_us(const postgres_db *s)
{
	int64_t limit = time_to_connect(s), left;

	if (!s->give_up_us)
		return limit;
	left = s->give_up_us - wh_monotonic(s->base.env);
	return left < limit ? left : limit;
}

static const char standard_port[] = "5432";

enum { PORTS_MOST = 1024 * 1024 };

/* The port that libpq uses.  PQport() gives none if a URL has hosts and no ports. */
static const char *port_of(PGconn *conn)
{
	const char *port = PQport(conn);

	return port && *port ? port : standard_port;
}

/* Which of a URL's hosts libpq tries. */
typedef struct trying {
	char host[256], port[8];
} trying;

static trying tried(PGconn *conn)
{
	const char *host = PQhost(conn);
	trying t;

	(void)snprintf(t.host, sizeof(t.host), "%s", host ? host : "");
	(void)snprintf(t.port, sizeof(t.port), "%s", port_of(conn));
	return t;
}

static bool same(const trying *a, const trying *b)
{
	return strcmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0;
}

/* Wait until libpq is connected; each host has its own time.  libpq's blocking connect
 * reports no SQLSTATE; verbose messages contain it, and they must be requested before
 * connecting. */
static wherry_code wait_for(postgres_db *s, wherry_error *err)
{
	int64_t by_us = wh_later(wh_monotonic(&wh_env_system), limit_us(s));
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;
	trying before = tried(s->conn);

	while (next != PGRES_POLLING_OK) {
		struct pollfd fd = {.fd = PQsocket(s->conn), .events = POLLIN};
		trying now = tried(s->conn);
		int64_t left_us;
		int n;

		if (!same(&now, &before))
			by_us = wh_later(wh_monotonic(&wh_env_system), limit_us(s));
		before = now;
		left_us = by_us - wh_monotonic(&wh_env_system);
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

/* Receives notices, which libpq would write to standard error. */
static void hear(void *arg, const PGresult *res)
{
	const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	postgres_db *s = arg;

	(void)snprintf(s->notice, sizeof(s->notice), "%s", text ? text : "");
	wh_log(s->base.env, WHERRY_LOG_DEBUG, "db", "notice",
	       wh_log_text("text", s->notice));
}

/* Set the name of the database for messages, without the password. */
static void name_it(postgres_db *s)
{
	const char *db = PQdb(s->conn), *host = PQhost(s->conn);

	(void)snprintf(s->name, sizeof(s->name), "%.60s%s%.60s",
		       db && *db ? db : "postgres", host && *host ? " on " : "",
		       host ? host : "");
}

static wherry_code connect_once(postgres_db *s, const char *const *keywords,
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

/* Cut element nth out of a list with commas.  A list of fewer elements stays: one port may
 * be that of all hosts. */
static void cut_element(char *list, size_t nth)
{
	char *begin = list, *end;

	for (; nth && begin; nth--) {
		begin = strchr(begin, ',');
		begin = begin ? begin + 1 : NULL;
	}
	if (!begin || !strchr(list, ','))
		return;
	end = strchr(begin, ',');
	if (end)
		memmove(begin, end + 1, strlen(end));
	else
		begin[-1] = 0;
}

/* Element nth of a list with commas; of a list of one element, always that one. */
static wh_view element(const char *list, size_t nth)
{
	const char *begin = list;

	for (; nth && strchr(begin, ','); nth--)
		begin = strchr(begin, ',') + 1;
	return (wh_view){begin, strcspn(begin, ",")};
}

/* Write the standard port for each element of a list that is empty.  libpq ignores an option
 * that is empty as a whole, such as the port that is left of two, and takes that of the URL.
 * Takes the list and gives another one; NULL: out of memory. */
static char *name_ports(char *list)
{
	wh_buf named = WH_BUF_INIT(PORTS_MOST);

	if (!list || !strchr(list, ','))
		return list;
	for (const char *p = list;; p++) {
		if ((*p == ',' || !*p) && (p == list || p[-1] == ','))
			wh_buf_puts(&named, standard_port);
		if (!*p)
			break;
		wh_buf_putc(&named, *p);
	}
	free(list);
	return wh_buf_take(&named);
}

static bool is_element(const char *list, size_t nth, const char *text)
{
	wh_view e = element(list, nth);

	return e.len == strlen(text) && memcmp(e.ptr, text, e.len) == 0;
}

enum { HOST, HOSTADDR, PORT, HOST_OPTIONS };

static const char *const host_options[HOST_OPTIONS] = {"host", "hostaddr", "port"};

/* Leave the host that libpq tried last out of the lists.  False: it is the only one. */
static bool drop_silent(PGconn *conn, char *lists[HOST_OPTIONS])
{
	const trying silent = tried(conn);
	const char *names = *lists[HOST] ? lists[HOST] : lists[HOSTADDR];
	size_t n = 1, nth = 0;

	for (const char *p = strchr(names, ','); p; p = strchr(p + 1, ','))
		n++;
	while (nth < n && !(is_element(names, nth, silent.host) &&
			    is_element(lists[PORT], nth, silent.port)))
		nth++;
	if (n == 1 || nth == n)
		return false;
	for (int i = 0; i < HOST_OPTIONS; i++)
		cut_element(lists[i], nth);
	return true;
}

/* How many options PQconnectdbParams() gets at most. */
enum { OPTIONS_MOST = 100 };

/*
 * Connect with these options, in the form of PQconnectdbParams().  s->conn is set also on
 * failure.
 *
 * If a host does not answer in its time, libpq would never try the next one, so it is asked
 * again without that host.
 */
static wherry_code connect_with(postgres_db *s, const char *const *keywords,
				const char *const *values, wherry_error *err)
{
	const char *more[OPTIONS_MOST + HOST_OPTIONS + 1] = {NULL};
	const char *more_values[OPTIONS_MOST + HOST_OPTIONS + 1] = {NULL};
	wherry_code code = connect_once(s, keywords, values, err);
	char *lists[HOST_OPTIONS] = {NULL};
	size_t n = 0;

	if (code != WHERRY_TIMEOUT)
		return code;
	for (; n < OPTIONS_MOST && keywords[n]; n++) {
		more[n] = keywords[n];
		more_values[n] = values[n];
	}
	for (int i = 0; i < HOST_OPTIONS; i++) {
		lists[i] = option_of(s->conn, host_options[i]);
		if (i == PORT)
			lists[i] = name_ports(lists[i]);
		more[n + (size_t)i] = host_options[i];
		more_values[n + (size_t)i] = lists[i];
	}
	while (code == WHERRY_TIMEOUT && lists[HOST] && lists[HOSTADDR] && lists[PORT] &&
	       limit_us(s) > 0 && drop_silent(s->conn, lists)) {
		PQfinish(s->conn);
		wh_error_clear(err);
		code = connect_once(s, more, more_values, err);
	}
	for (int i = 0; i < HOST_OPTIONS; i++)
		free(lists[i]);
	return code;
}

/* The options added last override earlier ones of the same name.  They name the host that
 * answered, if the URL has several. */
wherry_code wh_postgres_connect_as(postgres_db *s, const postgres_db *like,
				   const char *replication, wherry_error *err)
{
	enum { MOST = 80, MORE = 4 };
	PQconninfoOption *all = PQconninfo(like->conn);
	const char *keywords[MOST + MORE + 1], *values[MOST + MORE + 1];
	const char *more[MORE][2] = {{"host", PQhost(like->conn)},
				     {"hostaddr", PQhostaddr(like->conn)},
				     {"port", port_of(like->conn)},
				     {"replication", replication}};
	size_t n = 0;
	wherry_code code;

	if (!all)
		return wh_oom(err);
	s->base.driver = like->base.driver;
	s->base.env = like->base.env;
	s->answer_us = like->answer_us;
	for (const PQconninfoOption *o = all; o->keyword && n < MOST; o++) {
		if (!o->val || strcmp(o->keyword, "replication") == 0)
			continue;
		keywords[n] = o->keyword;
		values[n++] = o->val;
	}
	for (size_t i = 0; i < MORE; i++) {
		keywords[n] = more[i][0];
		values[n] = more[i][1];
		n += more[i][1] != NULL;
	}
	keywords[n] = values[n] = NULL;
	code = connect_with(s, keywords, values, err);
	PQconninfoFree(all);
	return code;
}

/*
 * Statements are planned once, often when the table is empty, and run for days.  These
 * settings make plans for large tables, which use the indexes.
 *
 * A lone statement waits for fsync, also behind a pooler: a lease must not be taken twice
 * under one epoch after the server is killed ("a lease outlives a server that is killed",
 * postgres_restart.sh; "a lease waits for the disk", pgbouncer.sh).  Transactions do not
 * wait if full_sync is off.
 */
static void write_settings(char *out, size_t cap, const char *set,
			   const wh_db_options *options, bool pooled)
{
	/* A policy that hides rows makes a statement fail, instead of hiding them from a relay
	 * in silence.  The application's own statements may rely on policies. */
	const char *all_rows = options->app_sql ? "" : " row_security = off; ";

	long long wait_ms = (options->busy_timeout_us + 999) / 1000 + 1;
	long long idle_ms = options->idle_us / 1000;
	char idle[80] = "", alive[160] = "";

	if (idle_ms)
		(void)snprintf(idle, sizeof(idle),
			       "%s idle_in_transaction_session_timeout = %lld; ", set,
			       idle_ms);
	/* If the relay's machine is gone, the server notices it within 11 seconds. */
	if (idle_ms && !pooled)
		(void)snprintf(alive, sizeof(alive),
			       "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval "
			       "= 2; SET tcp_keepalives_count = 3; "
			       "SET tcp_user_timeout = 11000; ");
	(void)snprintf(
		out, cap,
		"%s client_min_messages = warning; %s lock_timeout = %lld; "
		"%s standard_conforming_strings = on; %s quote_all_identifiers = off; "
		"%s enable_seqscan = off; %s enable_bitmapscan = off; "
		"%s enable_hashjoin = off; %s enable_mergejoin = off; %s jit = off; "
		"%s plan_cache_mode = force_generic_plan; %s%s%s",
		set, set, wait_ms, set, set, set, set, set, set, set, set,
		options->app_sql ? "" : set, all_rows, idle);
}

/* Citus would copy Wherry's functions to nodes where their tables are not, and would make the tables its own. */
static const char keep_local[] =
	"SELECT pg_catalog.set_config(n, 'off', %s) FROM pg_catalog.unnest("
	"'{citus.enable_ddl_propagation,citus.use_citus_managed_tables}'::pg_catalog.text[]) "
	"AS t(n) WHERE pg_catalog.current_setting(n, true) = 'on'; ";

/* Make the settings: once for the session; behind a pooler in each transaction, since
 * sessions are shared.  The search path comes first, so that the rest uses no schema of
 * other roles (postgres_hostile.sh). */
static wherry_code set_up(postgres_db *s, const wh_db_options *options, wherry_error *err)
{
	static const char begin[] = "BEGIN ISOLATION LEVEL READ COMMITTED";
	const char *set = s->pooled ? "SET LOCAL" : "SET";
	char settings[760], sync[240], citus[320] = "", sql[1500];
	const char *encoding;

	s->no_sync = options->full_sync ? "" : "; SET LOCAL synchronous_commit = off";
	write_settings(settings, sizeof(settings), set, options, s->pooled);
	(void)snprintf(sync, sizeof(sync),
		       "%s%sSELECT pg_catalog.set_config('synchronous_commit', 'on', %s) "
		       "WHERE pg_catalog.current_setting('synchronous_commit') = 'off'; ",
		       s->fixed ? set : "",
		       s->fixed ? " search_path = pg_catalog, pg_temp; " : "",
		       s->pooled ? "true" : "false");
	if (s->fixed)
		(void)snprintf(citus, sizeof(citus), keep_local,
			       s->pooled ? "true" : "false");
	encoding = s->fixed ? wh_postgres_text_open(&s->text, s->conn) : NULL;
	if (!s->fixed)
		(void)wh_postgres_text_open(&s->text_of_calls, s->conn);
	if (s->pooled) {
		(void)snprintf(s->begin, sizeof(s->begin), "%s; %s%s%s%s%s", begin, sync,
			       citus, settings,
			       encoding ? "; SET LOCAL client_encoding = " : "",
			       encoding ? encoding : "");
		return WHERRY_OK;
	}
	(void)snprintf(s->begin, sizeof(s->begin), "BEGIN");
	(void)snprintf(sql, sizeof(sql),
		       "%s%s%sSET default_transaction_isolation = 'read committed'%s%s",
		       sync, citus, settings, encoding ? "; SET client_encoding = " : "",
		       encoding ? encoding : "");
	return wh_postgres_exec(s, sql, err);
}

/* The peer is not a PostgreSQL server, or a pooler has lost the answer. */
static wherry_code no_sense(const postgres_db *s, wherry_error *err)
{
	return wh_fail(
		err, WHERRY_IO,
		"%s: the server's first answer makes no sense: is it PostgreSQL, and "
		"what is between?",
		s->name);
}

/* Read the answer of look_around().  A pooler reports a fake backend PID. */
static wherry_code take_surroundings(postgres_db *s, const PGresult *res, bool must_write,
				     wherry_error *err)
{
	int64_t pid = 0;

	if (PQntuples(res) != 1 || PQnfields(res) != 4 || PQgetisnull(res, 0, 0) ||
	    PQgetisnull(res, 0, 1) || PQgetisnull(res, 0, 2) || PQgetisnull(res, 0, 3) ||
	    !wh_parse_int(PQgetvalue(res, 0, 0), &pid))
		return no_sense(s, err);
	if (must_write && strcmp(PQgetvalue(res, 0, 1), "t") == 0)
		return wh_fail(err, WHERRY_READONLY,
			       "%s: it cannot be written, being a standby or set to read "
			       "only: name the primary, as with "
			       "?target_session_attrs=read-write",
			       s->name);
	s->one_session = strcmp(PQgetvalue(res, 0, 3), "t") == 0;
	s->pooled = s->one_session || pid != PQbackendPID(s->conn);
	if (s->fixed)
		s->schemas = strdup(PQgetvalue(res, 0, 2));
	return s->fixed && !s->schemas ? wh_oom(err) : WHERRY_OK;
}

/* Names are qualified, because this first statement runs with the user's search path.  A standalone server, as PGlite is,
 * has one session for all connections: it is treated as a pooler. */
static wherry_code look_around(postgres_db *s, bool must_write, wherry_error *err)
{
	static const char sql[] =
		"SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery() OR "
		"pg_catalog.current_setting('transaction_read_only') "
		"OPERATOR(pg_catalog.=) 'on', "
		"pg_catalog.current_schemas(false)::pg_catalog.text[], "
		"EXISTS (SELECT 1 FROM pg_catalog.pg_stat_activity AS a "
		"WHERE a.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() "
		"AND a.backend_type OPERATOR(pg_catalog.=) 'standalone backend')";
	PGresult *res = wh_postgres_query(s, sql);
	wherry_code code = PQresultStatus(res) == PGRES_TUPLES_OK
				   ? take_surroundings(s, res, must_write, err)
				   : wh_postgres_fail(s, res, err);

	PQclear(res);
	return code;
}

/*
 * Uses the current search path, or the user's if the driver has changed it.  Temporary
 * tables are not found, because others must see an outbox.
 */
wherry_code wh_postgres_schema_of(wherry_db *db, const char *table, bool own, char *out,
				  size_t cap, int64_t *out_n, wherry_error *err)
{
	static const char sql[] =
		"SELECT s.name, pg_catalog.count(c.oid) OVER () "
		"FROM pg_catalog.unnest(coalesce($2::pg_catalog.text[], "
		"pg_catalog.current_schemas(false)::pg_catalog.text[])) "
		"WITH ORDINALITY AS s(name, nth) JOIN pg_catalog.pg_namespace AS n "
		"ON n.nspname OPERATOR(pg_catalog.=) s.name::pg_catalog.name "
		"LEFT JOIN pg_catalog.pg_class AS c ON c.relnamespace "
		"OPERATOR(pg_catalog.=) n.oid AND c.relname OPERATOR(pg_catalog.=) "
		"$1::pg_catalog.name WHERE pg_catalog.left(s.name, 3) "
		"OPERATOR(pg_catalog.<>) 'pg_' ORDER BY c.oid IS NULL OR $3::boolean AND "
		"(pg_catalog.current_setting('is_superuser') OPERATOR(pg_catalog.=) 'on' "
		"OR NOT pg_catalog.pg_has_role(c.relowner, 'USAGE')), s.nth LIMIT 1";
	postgres_db *s = (postgres_db *)db;
	wherry_code code = wh_postgres_check_free(s, err);
	wh_arena copies = WH_ARENA_INIT;
	const char *values[] = {table, s->schemas, own ? "t" : "f"};
	bool failed = false, alone;
	PGresult *res;

	if (code != WHERRY_OK)
		return code;
	/* Where all connections have one session, another one may parse a statement before this is bound, unless a
	 * transaction keeps it out. */
	alone = s->one_session && PQtransactionStatus(s->conn) == PQTRANS_IDLE;
	if (alone)
		PQclear(wh_postgres_query(s, "BEGIN"));
	values[0] = wh_postgres_text_sql(s, table, &copies);
	res = wh_postgres_query_params(s, sql, 3, values, 0);
	if (alone)
		PQclear(wh_postgres_query(s, "ROLLBACK"));
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		code = wh_postgres_fail(s, res, err);
	else if (PQntuples(res) == 1 && PQnfields(res) == 2)
		(void)snprintf(out, cap, "%s",
			       wh_postgres_text_utf8(&s->text,
						     wh_view_of(PQgetvalue(res, 0, 0)),
						     &copies, &failed)
				       .ptr);
	else
		*out = 0;
	if (out_n &&
	    !(code == WHERRY_OK && *out && wh_parse_int(PQgetvalue(res, 0, 1), out_n)))
		*out_n = 0;
	if (failed)
		code = wh_oom(err);
	wh_arena_clear(&copies);
	PQclear(res);
	wh_postgres_heard(s);
	return code;
}

/* The URL in libpq's form.  The caller frees it; NULL: out of memory. */
static char *libpq_url(const char *rest)
{
	size_t len = strlen(rest) + sizeof("postgresql:");
	char *url = malloc(len);

	if (url)
		(void)snprintf(url, len, "postgresql:%s", rest);
	return url;
}

/* Are user and password encoded?  Otherwise an @ or / in the password makes libpq read
 * the rest of it as host, port or database, and errors name those. */
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

static bool is_option(const char *name)
{
	PQconninfoOption *all = PQconndefaults();
	bool found = !all; /* out of memory: nothing is known of it */

	for (const PQconninfoOption *o = all; o && o->keyword; o++)
		found = found || strcmp(o->keyword, name) == 0;
	PQconninfoFree(all);
	return found || strcmp(name, "ssl") == 0;
}

/* Write the first option of a URL that libpq does not know.  False: there is none, or what
 * follows the "?" may be a part of a password. */
static bool unknown_option(const char *url, char *out, size_t cap)
{
	const char *at = strchr(url, '?');

	if (!at || strchr(at, '@'))
		return false;
	while (*at) {
		size_t len = strspn(++at, "abcdefghijklmnopqrstuvwxyz_");

		if (!len || len >= cap || at[len] != '=')
			return false;
		(void)snprintf(out, cap, "%.*s", (int)len, at);
		if (!is_option(out))
			return true;
		at += strcspn(at, "&");
	}
	return false;
}

static wherry_code check_url(const char *url, wherry_error *err)
{
	PQconninfoOption *parsed = PQconninfoParse(url, NULL);
	char name[40];

	bool fine = parsed && userinfo_plain(url) && ports_plain(parsed);

	PQconninfoFree(parsed);
	/* libpq's text would repeat a part of the password. */
	if (!parsed && unknown_option(url, name, sizeof(name)))
		return wh_fail(
			err, WHERRY_INVALID,
			"the URL has the option '%s', which libpq does not know%s", name,
			strncmp(name, "ssl", 3) == 0 ? ": did you mean 'sslmode'?" : "");
	if (!fine)
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
	/* The URL (dbname) comes later in the list and overrides these, except the
	 * encoding. */
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
	s->fixed = !options->app_sql;
	s->many_tables = options->many_tables;
	s->answer_us = options->answer_us;
	s->host_us = options->host_us;
	values[5] = url;
	code = connect_with(s, keywords, values, err);
	/* Limit the time of sending too.  The application's own calls may not know that
	 * they must flush, so do not do this if it uses the connection. */
	if (code == WHERRY_OK && s->fixed)
		(void)PQsetnonblocking(s->conn, 1);
	if (code == WHERRY_OK)
		code = look_around(s, options->must_write, err);
	if (code == WHERRY_OK)
		code = set_up(s, options, err);
	if (code != WHERRY_OK)
		goto out;
	s->cancel = PQgetCancel(s->conn);
	*out = &s->base;
	s = NULL; /* Owned by the caller now. */
out:
	if (s) {
		PQfinish(s->conn);
		wh_postgres_text_close(&s->text);
		wh_postgres_text_close(&s->text_of_calls);
		free(s->schemas);
	}
	free(s);
	free(url);
	return code;
}
