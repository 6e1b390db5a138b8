#include "cli/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/error.h"
#include "base/text.h"
#include "config/settings.h"
#include "outbox/stream.h"

const char *wh_level_name(wh_level level)
{
	static const char *const names[] = {"ok", "warn", "bad"};

	return names[level];
}

/* ---- sentences ---- */

static void put_column(wh_buf *text, const wh_row *row, int column, bool span)
{
	static const char in[] = " in ";
	const char *value = wh_row_text(row, column);
	char words[WH_SPAN_LEN];
	int64_t ms = 0;
	bool spans = value && span && wh_parse_int(value, &ms);

	if (spans && ms <= 0 && text->len > strlen(in) &&
	    memcmp(wh_buf_str(text) + text->len - strlen(in), in, strlen(in)) == 0) {
		text->len -= strlen(in);
		value = " now";
	} else if (spans)
		value = wh_span_text(ms > INT64_MAX / 1000 ? INT64_MAX : ms * 1000,
				     words);
	wh_buf_puts(text, value ? value : "");
}

/* "mssql://user@host:port/database?…" as options of sqlcmd.  -I: QUOTED_IDENTIFIER is on. */
static void put_sqlcmd(wh_buf *text, const char *url)
{
	const char *host = strstr(url, "//");
	size_t len = host ? strcspn(host + 2, "/?") : 0;
	const char *at = host ? memrchr(host + 2, '@', len) : NULL;
	const char *end = host ? host + 2 + len : url;

	wh_buf_puts(text, "sqlcmd -I -S ");
	for (const char *p = at ? at + 1 : end - len; p < end; p++)
		wh_buf_putc(text, *p == ':' ? ',' : *p);
	if (*end == '/')
		wh_buf_printf(text, " -d %.*s", (int)strcspn(end + 1, "?"), end + 1);
}

/* The option that names the layout, if a new outbox would have another one. */
static void put_layout(wh_buf *text, const wh_doctor *d)
{
	const char *name = d->store->layout.name;

	if (d->session->outbox && strcmp(name, d->store->model->layouts[0]) != 0 &&
	    strcmp(name, "adopted") != 0)
		wh_buf_printf(text, " --layout %s", name);
}

static void put_name(wh_buf *text, const wh_doctor *d, char which)
{
	char *url;
	bool file = strcmp(d->session->db->driver->scheme, "sqlite") == 0;

	if (which == 'u') {
		wh_buf_puts(text, d->session->target);
		return;
	}
	if (which == 'l') {
		put_layout(text, d);
		return;
	}
	url = wh_url_without_secrets(d->session->url);
	if (url && strcmp(d->session->db->driver->scheme, "mssql") == 0) {
		put_sqlcmd(text, url);
		free(url);
		return;
	}
	wh_buf_puts(text, file ? "sqlite3 " : "psql ");
	wh_put_word(text, !url ? "" : file ? url + strcspn(url, ":") + 1 : url);
	free(url);
}

/* Fill a sentence; see wh_check.  row: NULL if the sentence contains no columns. */
static char *fill(const wh_doctor *d, const char *sentence, const wh_row *row)
{
	wh_buf text = WH_BUF_INIT(WH_SENTENCE_MAX);
	char *filled;

	for (const char *p = sentence; *p; p++) {
		bool mark = *p == '$' || *p == '~';
		char c = mark ? p[1] : 0;

		if (row && c >= '1' && c <= '8')
			put_column(&text, row, c - '0', *p == '~');
		else if (c == 'u' || c == 'd' || c == 'l')
			put_name(&text, d, c);
		else
			wh_buf_putc(&text, *p);
		p += c == 'u' || c == 'd' || c == 'l' || (row && c >= '1' && c <= '8');
	}
	filled = text.len ? wh_buf_take(&text) : strdup("");
	wh_buf_clear(&text);
	return filled;
}

void wh_doctor_add(wh_doctor *d, const char *check, wh_level level, char *what,
		   char *advice)
{
	if (d->n == WH_FINDINGS || !what || !advice) {
		d->lost = true;
		free(what);
		free(advice);
		return;
	}
	d->findings[d->n++] = (wh_finding){check, level, what, advice};
}

char *wh_doctor_sentence(const char *fmt, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	return text;
}

/* Add a check for which the role lacks rights.  All of them are one finding, which ends
 * with their names. */
static void add_denied(wh_doctor *d, const char *check, const wherry_error *err)
{
	static const char name[] = "permission";
	wh_buf advice = WH_BUF_INIT(WH_SENTENCE_MAX),
	       maker = WH_BUF_INIT(WH_SENTENCE_MAX);
	char *text;

	for (size_t i = 0; i < d->n; i++) {
		wh_finding *f = &d->findings[i];

		if (strcmp(f->check, name) != 0)
			continue;
		text = wh_doctor_sentence("%s, %s", f->what, check);
		if (text) {
			free(f->what);
			f->what = text;
		}
		return;
	}
	if (wh_put_grant(&maker, err))
		wh_buf_printf(&advice, "`%s`, as the owner",
			      wh_buf_into(&maker, &advice));
	else
		wh_buf_puts(&advice, "grant it rights on them");
	wh_buf_puts(&advice, "; or give doctor the URL of the relay");
	wh_doctor_add(d, name, WH_WARN,
		      wh_doctor_sentence("this role may not read what these checks need: "
					 "%s",
					 check),
		      wh_buf_take(&advice));
	wh_buf_clear(&maker);
	wh_buf_clear(&advice);
}

/* The message, and the command that repairs what failed; the caller frees it. */
static char *message_of(const wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(WH_SENTENCE_MAX);
	char *message;

	wh_put_message(&text, err);
	message = wh_buf_take(&text);
	wh_buf_clear(&text);
	return message;
}

void wh_doctor_could_not(wh_doctor *d, const char *check, const wherry_error *err)
{
	if (wh_error_lacks_right(err))
		add_denied(d, check, err);
	else
		wh_doctor_add(d, check, WH_WARN, message_of(err),
			      strdup("this could not be checked: repair that first"));
}

/* ---- checks ---- */

typedef struct visit {
	wh_doctor *d;
	const wh_check *c;
	bool any;
} visit;

/* The command that adopts the table again. */
static char *put_again(const wh_doctor *d)
{
	wh_buf text = WH_BUF_INIT(WH_SENTENCE_MAX);
	char *advice;
	const char *dot = strrchr(d->source, '.');
	const char *name = dot ? dot + 1 : d->source;
	const size_t len = strlen(name);

	wh_buf_putc(&text, '`');
	wh_put_adopt(&text, d->source);
	if (strncmp(d->session->table, name, len) != 0 ||
	    strcmp(d->session->table + len, "_log") != 0) {
		wh_buf_puts(&text, " --as ");
		wh_put_word(&text, d->session->table);
	}
	wh_buf_puts(&text, " --yes` makes it again, and remembers its options");
	advice = wh_buf_take(&text);
	wh_buf_clear(&text);
	return advice;
}

static wherry_code take_finding(void *ctx, const wh_row *row, wherry_error *err)
{
	visit *v = ctx;
	int64_t level = wh_row_int(row, 0);
	const char *what = v->c->trouble;
	wherry_code code = wh_row_check(row, err);

	if (code != WHERRY_OK)
		return code;
	v->any = true;
	if (level == WH_WELL)
		what = v->c->well;
	else if (level == WH_BAD && v->c->worse)
		what = v->c->worse;
	if (!what)
		return wh_fail(err, WHERRY_INVALID,
			       "the database answered the check '%s' with a row that it "
			       "cannot have",
			       v->c->name);
	wh_doctor_add(v->d, v->c->name, level > WH_WARN ? WH_BAD : (wh_level)level,
		      fill(v->d, what, row),
		      v->c->flags & WH_CHECK_ADOPT && *v->d->source
			      ? put_again(v->d)
			      : fill(v->d, level == WH_WELL ? "" : v->c->advice, row));
	return WHERRY_OK;
}

enum { PARAMS = 10 };

static void fill_params(const wh_doctor *d, const char *ident, wh_param out[PARAMS])
{
	int64_t number = -1;

	if (ident && !wh_parse_int(ident, &number))
		number = -1;
	out[0] = d->store ? wh_store_lease_name(d->store)
			  : WH_TEXT_PARAM("name", wh_view_of(d->names.table));
	out[1] = WH_INT_PARAM("older", d->older_us / 1000);
	out[2] = WH_INT_PARAM("local", wh_now(&wh_env_system) / 1000);
	out[3] = WH_INT_PARAM("session", wh_db_session(d->session->db));
	out[4] = WH_INT_PARAM("number", number);
	out[5] = WH_TEXT_PARAM("slot", wh_view_of(d->slot));
	out[6] = WH_TEXT_PARAM("publication", wh_view_of(d->publication));
	out[7] = WH_INT_PARAM("waits", d->behind_us / 1000);
	out[8] = WH_TEXT_PARAM("columns", wh_view_of(d->columns));
	out[9] = WH_TEXT_PARAM("gone", wh_view_of(wh_buf_str(&d->gone)));
}

wherry_code wh_doctor_run(wh_doctor *d, const wh_stmt *stmt, const char *ident,
			  wh_row_fn fn, void *ctx, wherry_error *err)
{
	wh_param params[PARAMS];

	fill_params(d, ident, params);
	return wh_db_run(d->session->db, stmt, params, PARAMS, fn, ctx, NULL, err);
}

static bool is_outbox(const wh_doctor *d)
{
	return d->store && !d->session->queue && !d->session->delayed;
}

/* Are the tables Wherry's own? */
static bool is_native(const wh_doctor *d)
{
	if (!d->store)
		return true;
	return is_outbox(d) ? !*d->store->limits
			    : strcmp(d->store->layout.name, "native") == 0;
}

/* Has the table leases of relays beside it, and so triggers that wake them? */
static bool has_leases(const wh_doctor *d)
{
	return is_native(d) || (is_outbox(d) && d->store->stmt.lease);
}

static bool is_passed_over(const wh_doctor *d, const wh_check *c)
{
	const unsigned of_table = WH_CHECK_NATIVE | WH_CHECK_TABLE | WH_CHECK_STREAM |
				  WH_CHECK_OF_TABLE | WH_CHECK_WAKES;

	if (!d->store)
		return c->flags & of_table;
	if (c->flags & WH_CHECK_NATIVE &&
	    (!is_native(d) || (!is_outbox(d) && !(c->flags & WH_CHECK_QUEUE))))
		return true;
	if (c->flags & WH_CHECK_WAKES && !has_leases(d))
		return true;
	return c->flags & WH_CHECK_STREAM && !d->streamed;
}

/* Make a check.  If wait is false, checks that may wait for the table are skipped.
 * Returns false if further checks must not wait, because this one was BUSY. */
static bool check_one(wh_doctor *d, const wh_check *c, bool wait)
{
	const wh_stmt *stmt = wh_sql_find(&d->sql, c->name);
	wherry_error err = WHERRY_ERROR_INIT;
	visit v = {d, c, false};
	wherry_code code;

	if (!stmt || is_passed_over(d, c) || (c->flags & WH_CHECK_TABLE && !wait))
		return wait;
	code = wh_doctor_run(d, stmt, NULL, take_finding, &v, &err);
	if (code != WHERRY_OK)
		wh_doctor_could_not(d, c->name, &err);
	else if (!v.any)
		wh_doctor_add(d, c->name, c->none ? WH_WELL : WH_WARN,
			      fill(d, c->none ? c->none : "the database answered nothing",
				   NULL),
			      strdup(""));
	return wait && code != WHERRY_BUSY;
}

static wherry_code take_any(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)row;
	(void)err;
	*(bool *)ctx = true;
	return WHERRY_OK;
}

static wherry_code take_process(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_doctor *d = ctx;
	const char *process = wh_row_text(row, 0);
	wherry_code code = wh_row_check(row, err);

	if (code != WHERRY_OK || !wh_store_orphaned(d->store, process))
		return code;
	if (!d->gone.len)
		wh_buf_putc(&d->gone, '\n');
	wh_buf_printf(&d->gone, "%s\n", process);
	return WHERRY_OK;
}

/* Find the leases whose holders have ended.  A failure is ignored, since the checks
 * report it. */
static void look_for_gone(wh_doctor *d)
{
	const wh_stmt *stmt = wh_sql_find(&d->sql, "processes");
	wherry_error err = WHERRY_ERROR_INIT;

	if (stmt && is_outbox(d) && is_native(d) &&
	    (wh_doctor_run(d, stmt, NULL, take_process, d, &err) != WHERRY_OK ||
	     d->gone.failed))
		wh_buf_clear(&d->gone);
}

/* Find out whether the engine stream is used.  A failure is ignored, since the checks
 * report it. */
static void look_for_stream(wh_doctor *d)
{
	const wh_stmt *stmt = wh_sql_find(&d->sql, "streamed");

	if (stmt && is_outbox(d) && d->store->stmt.lease &&
	    wh_doctor_run(d, stmt, NULL, take_any, &d->streamed, NULL) != WHERRY_OK)
		d->streamed = false;
}

/* Check that a transaction that writes can begin.  On SQLite it waits for another
 * writer. */
static void check_writing(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wherry_db_begin(d->session->db, &err);
	const char *advice = wh_way_out(code);

	wherry_db_rollback(d->session->db);
	if (code == WHERRY_OK)
		wh_doctor_add(d, "writing", WH_WELL,
			      strdup("the database can be written"), strdup(""));
	else
		wh_doctor_add(d, "writing", WH_BAD, strdup(err.message),
			      strdup(advice ? advice : ""));
}

/* Check that the table has its columns. */
static void check_columns(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	if (!is_outbox(d) || !is_native(d))
		return;
	code = wh_outbox_probe(d->session->outbox, &err);
	if (code == WHERRY_OK)
		wh_doctor_add(d, "columns", WH_WELL,
			      strdup("the table has the columns that relays need"),
			      strdup(""));
	else if (code == WHERRY_NOTFOUND)
		wh_doctor_add(d, "columns", WH_BAD, message_of(&err),
			      strdup("relays end until that is repaired"));
	else
		wh_doctor_could_not(d, "columns", &err);
}

/* Check the procedures.  For a queue wherry_queue_inspect() does this. */
static void check_procedures(wh_doctor *d)
{
	static const char name[] = "procedures";
	const wh_stmt *stmt =
		d->store && !d->session->queue ? d->store->stmt.procedures_stale : NULL;
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf advice = WH_BUF_INIT(WH_SENTENCE_MAX);
	int64_t n = 0;

	if (!stmt)
		return;
	if (wh_store_ask(d->store, stmt, NULL, 0, &n, &err) != WHERRY_OK) {
		wh_doctor_could_not(d, name, &err);
	} else if (!n) {
		wh_doctor_add(d, name, WH_WELL,
			      strdup("this version of Wherry made the procedures"),
			      strdup(""));
	} else {
		wh_buf_putc(&advice, '`');
		wh_put_create(&advice, d->session->delayed ? WHERRY_KIND_DELAYED
							   : WHERRY_KIND_OUTBOX);
		wh_buf_putc(&advice, '`');
		wh_doctor_add(d, name, WH_BAD,
			      wh_doctor_sentence("%" PRId64 " procedure%s missing, or "
						 "another version of Wherry made %s",
						 n, n == 1 ? " is" : "s are",
						 n == 1 ? "it" : "them"),
			      wh_buf_take(&advice));
	}
	wh_buf_clear(&advice);
}

/* Check that a relay with relay.source=wal, if that is set here, does not refuse it. */
static void check_source(wh_doctor *d)
{
	static const char name[] = "source";
	wherry_error err = WHERRY_ERROR_INIT;
	bool shared = false;
	wherry_code code;

	if (!d->store || wh_config_choice(d->config, WH_RELAY_SOURCE) == 0)
		return;
	code = wh_store_partitioned(d->store, &shared, &err);
	if (code != WHERRY_OK)
		wh_doctor_could_not(d, name, &err);
	else if (wh_wal_meets(d->store, shared, &err) == WHERRY_OK)
		wh_doctor_add(d, name, WH_WELL,
			      strdup("relays of this outbox may read the WAL"),
			      strdup(""));
	else
		wh_doctor_add(d, name, WH_BAD, strdup(err.message),
			      strdup("until then the relay does not start"));
}

/* Check for dead messages whose rows do not say so. */
static void check_dead_apart(wh_doctor *d)
{
	if (!d->dead_apart)
		return;
	wh_doctor_add(
		d, "dead-apart", WH_WARN,
		wh_doctor_sentence("%" PRId64 " message%s dead, in the table "
				   "wherry_dead, with the reason of each",
				   d->dead_apart, d->dead_apart == 1 ? " is" : "s are"),
		strdup("remove the cause, send what is still needed again, and delete "
		       "these rows"));
}

void wh_doctor_check(wh_doctor *d)
{
	bool wait = true;

	check_writing(d);
	look_for_stream(d);
	look_for_gone(d);
	for (size_t i = 0; i < wh_n_checks; i++)
		wait = check_one(d, &wh_checks[i], wait);
	if (wait)
		check_columns(d);
	check_procedures(d);
	check_source(d);
	check_dead_apart(d);
}

/* Add that another writer keeps the database locked, which only SQLite allows. */
static void check_locked(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wherry_db_begin(d->session->db, &err);

	wherry_db_rollback(d->session->db);
	if (code == WHERRY_BUSY)
		wh_doctor_add(d, "writing", WH_BAD, strdup(err.message),
			      strdup("no message can be committed until then"));
}

void wh_doctor_check_still(wh_doctor *d, bool streams)
{
	bool wait = true;

	d->streamed = streams;
	check_locked(d);
	for (size_t i = 0; i < wh_n_checks; i++)
		if (wh_checks[i].flags & WH_CHECK_STILL)
			wait = check_one(d, &wh_checks[i], wait);
}

/* ---- a database without the outbox ---- */

static wherry_code take_other(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_doctor *d = ctx;
	const char *model = wh_row_text(row, 1), *name = wh_row_text(row, 2);
	wh_buf text = WH_BUF_INIT(WH_SENTENCE_MAX);

	(void)err;
	wh_buf_printf(
		&text, "there is no outbox '%s', but the %s '%.100s'", d->session->table,
		strcmp(model, "delayed") == 0 ? "table of delayed queues" : model, name);
	wh_doctor_add(d, "outbox", WH_WELL, wh_buf_take(&text), strdup(""));
	wh_buf_clear(&text);
	return WHERRY_OK;
}

bool wh_doctor_others(wh_doctor *d)
{
	const wh_stmt *stmt = wh_sql_find(&d->sql, "others");
	size_t before = d->n;

	return stmt && wh_doctor_run(d, stmt, NULL, take_other, d, NULL) == WHERRY_OK &&
	       d->n > before;
}

wherry_code wh_doctor_now(wh_doctor *d, int64_t *out_us, wherry_error *err)
{
	const wh_stmt *clock = wh_sql_find(&d->sql, "time");
	int64_t ms = wh_now(&wh_env_system) / 1000;
	wherry_code code = WHERRY_OK;

	if (clock && is_native(d))
		code = wh_doctor_run(d, clock, NULL, wh_take_int, &ms, err);
	if (code == WHERRY_OK)
		*out_us = ms * 1000;
	return code;
}

/* ---- beginning and end ---- */

static void take_names(wh_doctor *d, const wh_wal *wal)
{
	(void)snprintf(d->slot, sizeof(d->slot), "%s", wal->slot);
	(void)snprintf(d->publication, sizeof(d->publication), "%s", wal->publication);
	(void)snprintf(d->columns, sizeof(d->columns), "%s", wal->columns);
}

static wherry_code open_stream(const wh_doctor *d, const char *slot, wh_wal **out)
{
	return wh_wal_open(d->session->outbox, slot,
			   wherry_config_get(d->config, "stream.publication"), out, NULL);
}

/* Read the names of the stream and how far it is behind.  Failures are ignored, since the
 * outbox may not be streamed.  A slot that is not set is the one that the last relay read. */
static void name_stream(wh_doctor *d)
{
	const char *slot = wherry_config_get(d->config, "stream.slot");
	wh_wal *wal = NULL, *read = NULL;
	wh_wal_stored last = {0};
	wh_wal_watched found;

	if (open_stream(d, slot, &wal) != WHERRY_OK)
		return;
	if (!wh_config_is_set(d->config, WH_STREAM_SLOT) &&
	    wh_wal_read_stored(wal, &last, NULL) == WHERRY_OK && last.known &&
	    *last.slot && open_stream(d, last.slot, &read) == WHERRY_OK) {
		wh_wal_close(wal);
		wal = read;
	}
	take_names(d, wal);
	if (wh_wal_watch(wal, &found, NULL) == WHERRY_OK) {
		d->behind_us = found.lag.us;
		d->dead_apart = found.dead;
	}
	wh_wal_close(wal);
}

/* The same of a log: do its relays read the WAL?  There is a publication then, or the setting is given here. */
static void name_log_stream(wh_doctor *d)
{
	wh_wal *wal = NULL;
	wh_wal_state state = {0};

	if (wh_wal_open_log(d->session->outbox,
			    wherry_config_get(d->config, "stream.publication"), &wal,
			    NULL) != WHERRY_OK)
		return;
	take_names(d, wal);
	d->streamed = wh_config_choice(d->config, WH_RELAY_SOURCE) != 0 ||
		      (wh_wal_look(wal, &state, NULL) == WHERRY_OK && state.published);
	wh_wal_close(wal);
}

static wherry_code take_source(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_doctor *d = ctx;
	const char *name = wh_row_text(row, 0);

	(void)snprintf(d->source, sizeof(d->source), "%s", name ? name : "");
	return wh_row_check(row, err);
}

wherry_code wh_doctor_begin(wh_doctor *d, wherry_error *err)
{
	const char *scheme = d->session->db->driver->scheme;
	const bool log = is_outbox(d) && d->store->stmt.read_log;
	const char *text =
		wh_sql_embedded("outbox", log ? "doctor-log" : "doctor", scheme);
	wh_sql_names names = {.dialect = scheme,
			      .payload = "",
			      .topic = d->store ? d->store->topic : NULL};
	const wh_stmt *source;
	wherry_code code;

	if (!text)
		return wh_fail(err, WHERRY_UNSUPPORTED, "no doctor for '%s:'", scheme);
	if (d->store)
		d->names = d->store->names;
	else
		(void)snprintf(d->names.table, sizeof(d->names.table), "%s",
			       d->session->table);
	names.schema = *d->names.schema ? d->names.schema : NULL;
	names.table = d->names.table;

	d->streamed = false;
	if (log)
		name_log_stream(d);
	else if (is_outbox(d))
		name_stream(d);
	code = wh_sql_parse_as(text, &names, &d->sql, err);
	source = code == WHERRY_OK ? wh_sql_find(&d->sql, "source-table") : NULL;
	if (source) /* Advice without it is less exact. */
		(void)wh_db_run(d->session->db, source, NULL, 0, take_source, d, NULL,
				NULL);
	return code;
}

void wh_doctor_clear(wh_doctor *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->findings[i].what);
		free(d->findings[i].advice);
	}
	d->n = 0;
	wh_db_forget(d->session->db, &d->sql);
	wh_sql_clear(&d->sql);
	wh_buf_clear(&d->gone);
}
