/*
 * Outboxes of the schemas of a PostgreSQL database, over one connection.
 */
#include "daemon/match_driver.h"

#include <stdlib.h>
#include <string.h>

#include "outbox/outbox.h"
#include "relay/source.h"
#include "store/versions.h"

enum {
	CHUNK = 50,                 /* Outboxes of one statement. */
	TEXT_MAX = CHUNK * 8 * 1024 /* Of its text. */
};

typedef struct schemas {
	wh_match_db base;
	wherry_db *db;
	char *pattern; /* Of LIKE. */
	wh_sql sql;    /* Statements that name no outbox. */
	const wh_stmt *schemas, *sleep, *wake;
} schemas;

/* ---- opening ---- */

/* "tenant_*" as a pattern of LIKE. */
static char *like(const char *glob)
{
	wh_buf out = WH_BUF_INIT(1024);
	char *text;

	for (; *glob; glob++)
		if (*glob == '*' || *glob == '?')
			wh_buf_putc(&out, *glob == '*' ? '%' : '_');
		else
			wh_buf_printf(&out, "%s%c", strchr("%_\\", *glob) ? "\\" : "",
				      *glob);
	text = wh_buf_check(&out, NULL) == WHERRY_OK ? wh_buf_take(&out) : NULL;
	wh_buf_clear(&out);
	return text;
}

static wherry_code parse(const schemas *m, const char *schema, wh_sql *out,
			 wherry_error *err)
{
	const wh_sql_names names = {.dialect = "postgres",
				    .schema = schema,
				    .table = m->base.name.table,
				    .payload = "bytea",
				    .topic = WH_SUBSCRIPTION_OF_RELAYS};
	const char *text = wh_sql_embedded("outbox", "matched", "postgres");

	return text ? wh_sql_parse_as(text, &names, out, err)
		    : wh_fail(err, WHERRY_INVALID, "matched.postgres.sql is missing");
}

static wherry_code connect_to(schemas *m, const wh_plan_relay *relay, const char *url,
			      wherry_error *err)
{
	wh_db_options options = wh_db_options_of(relay->config, &wh_env_system);
	const wh_watch many = {.many = true};
	wherry_code code;

	options.create = false;
	code = wh_db_open(url, &options, &m->db, err);
	if (code == WHERRY_OK)
		code = wh_db_watch(m->db, &many, err);
	if (code == WHERRY_OK && wh_db_fd(m->db) >= 0)
		code = wh_db_run(m->db, wh_sql_find(&m->sql, "mark"), NULL, 0, NULL, NULL,
				 NULL, err);
	return code;
}

static void close_schemas(wh_match_db *base)
{
	schemas *m = (schemas *)base;

	if (m->db)
		wh_db_forget(m->db, &m->sql);
	wherry_db_close(m->db);
	wh_sql_clear(&m->sql);
	free(m->pattern);
	free(m);
}

static wherry_code open_schemas(const wh_plan_relay *relay, wh_match_db **out,
				wherry_error *err)
{
	schemas *m = calloc(1, sizeof(*m));
	wherry_config *config = NULL;
	char *url = NULL;
	wherry_code code;

	if (!m)
		return wh_oom(err);
	m->base.driver = &wh_match_schemas;
	m->pattern = like(relay->match.value);
	code = m->pattern ? wh_config_copy(relay->config, &config, err) : wh_oom(err);
	if (code == WHERRY_OK)
		code = wh_source_take_url(relay->from.value, config, &url, err);
	if (code == WHERRY_OK)
		code = wh_name_parse(wh_config_text(config, WH_RELAY_TABLE), true,
				     &m->base.name, err);
	if (code == WHERRY_OK)
		code = parse(m, NULL, &m->sql, err);
	if (code == WHERRY_OK) {
		m->schemas = wh_sql_find(&m->sql, "schemas");
		m->sleep = wh_sql_find(&m->sql, "sleep");
		m->wake = wh_sql_find(&m->sql, "wake");
		code = connect_to(m, relay, url, err);
	}
	wherry_config_free(config);
	free(url);
	if (code == WHERRY_OK)
		*out = &m->base;
	else
		close_schemas(&m->base);
	return code;
}

static int schemas_fd(const wh_match_db *base)
{
	return wh_db_fd(((const schemas *)base)->db);
}

/* ---- schemas ---- */

typedef struct listing {
	wh_match_row *rows;
	size_t n, most;
} listing;

static wherry_code take_schema(void *ctx, const wh_row *row, wherry_error *err)
{
	listing *l = ctx;
	wh_match_row *to = &l->rows[l->n];

	(void)err;
	if (l->n == l->most)
		return WHERRY_OK;
	*to = (wh_match_row){.key = wh_row_int(row, 1)};
	(void)snprintf(to->schema, sizeof(to->schema), "%s", wh_row_text(row, 0));
	l->n++;
	return WHERRY_OK;
}

static wherry_code list_schemas(wh_match_db *base, wh_match_row *out, size_t most,
				size_t *out_n, wherry_error *err)
{
	schemas *m = (schemas *)base;
	const wh_param params[] = {WH_TEXT_PARAM("pattern", wh_view_of(m->pattern)),
				   WH_INT_PARAM("most", (int64_t)most)};
	listing l = {out, 0, most};
	wherry_code code =
		wh_db_run(m->db, m->schemas, params, 2, take_schema, &l, NULL, err);

	*out_n = l.n;
	return code;
}

/* ---- listening and sleeping ---- */

static wherry_code listen_to(wh_match_db *base, const int64_t *keys, size_t n, bool on,
			     wherry_error *err)
{
	return schemas_fd(base) < 0
		       ? WHERRY_OK
		       : wh_db_listen(((schemas *)base)->db, keys, n, on, err);
}

static size_t schemas_heard(wh_match_db *base, wh_heard *out, size_t most)
{
	return wh_db_heard(((schemas *)base)->db, out, most);
}

typedef struct asked {
	wh_match_row *const *rows;
	size_t n;
} asked;

static wh_match_row *row_of(const asked *a, int64_t key)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->rows[i]->key == key)
			return a->rows[i];
	return NULL;
}

static wherry_code take_lock(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_match_row *to = row_of(ctx, wh_row_int(row, 0));

	(void)err;
	if (to)
		to->lock = (wh_match_lock)wh_row_int(row, 1);
	return WHERRY_OK;
}

static wherry_code on_keys(schemas *m, const wh_stmt *stmt, asked *a, wh_row_fn visit,
			   wherry_error *err)
{
	wh_buf keys = WH_BUF_INIT(a->n * 24 + 1);
	wh_param param;
	wherry_code code;

	for (size_t i = 0; i < a->n; i++)
		wh_buf_printf(&keys, "%s%lld", i ? "," : "", (long long)a->rows[i]->key);
	code = wh_buf_check(&keys, err);
	param = WH_TEXT_PARAM("keys", wh_view_of(wh_buf_str(&keys)));
	if (code == WHERRY_OK)
		code = wh_db_run(m->db, stmt, &param, 1, visit, a, NULL, err);
	wh_buf_clear(&keys);
	return code;
}

static wherry_code take_locks(wh_match_db *base, wh_match_row *const *rows, size_t n,
			      wherry_error *err)
{
	schemas *m = (schemas *)base;
	asked a = {rows, n};

	for (size_t i = 0; i < n; i++)
		rows[i]->lock = WH_LOCK_NONE;
	/* Behind a pooler the lock would stay with a session of other clients. */
	return schemas_fd(base) < 0 ? WHERRY_OK
				    : on_keys(m, m->sleep, &a, take_lock, err);
}

static wherry_code free_locks(wh_match_db *base, wh_match_row *const *rows, size_t n,
			      wherry_error *err)
{
	schemas *m = (schemas *)base;
	asked a = {rows, n};

	for (size_t i = 0; i < n; i++)
		rows[i]->lock = WH_LOCK_NONE;
	return schemas_fd(base) < 0 ? WHERRY_OK : on_keys(m, m->wake, &a, NULL, err);
}

/* ---- looking ---- */

static wherry_code take_found(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_match_row *to = row_of(ctx, wh_row_int(row, 0));

	return to ? wh_match_take_found(to, row, err) : WHERRY_OK;
}

/* Append the question of one outbox. */
static wherry_code put_question(const schemas *m, const wh_match_row *row, bool first,
				wh_buf *text, wherry_error *err)
{
	wh_sql sql;
	wherry_code code = parse(m, row->schema, &sql, err);

	if (code != WHERRY_OK)
		return code;
	wh_buf_printf(text, "%s(%s\n)", first ? "" : "\nUNION ALL ",
		      wh_sql_find(&sql, "look")->text);
	wh_sql_clear(&sql);
	return WHERRY_OK;
}

static wherry_code look_at_chunk(schemas *m, asked *a, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(TEXT_MAX);
	wh_stmt stmt;
	wh_sql alone = {.stmts = &stmt, .n = 1};
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < a->n; i++)
		code = put_question(m, a->rows[i], i == 0, &text, err);
	if (code == WHERRY_OK)
		code = wh_buf_check(&text, err);
	if (code == WHERRY_OK)
		code = wh_stmt_make("postgres", "look", wh_buf_str(&text), &stmt, err);
	wh_buf_clear(&text);
	if (code != WHERRY_OK)
		return code;
	code = wh_db_run(m->db, &stmt, NULL, 0, take_found, a, NULL, err);
	wh_db_forget(m->db, &alone);
	wh_stmt_clear(&stmt);
	return code;
}

static wherry_code look_at_schemas(wh_match_db *base, wh_match_row *const *rows, size_t n,
				   wherry_error *err)
{
	schemas *m = (schemas *)base;
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < n; i += CHUNK) {
		asked a = {rows + i, n - i < CHUNK ? n - i : CHUNK};

		code = look_at_chunk(m, &a, err);
	}
	return code;
}

const wh_match_driver wh_match_schemas = {
	.what = "schema",
	.none = "no schema of the database matches; it is looked again every five "
		"seconds",
	.none_has =
		"schemas match, and none has such an outbox of the layout log: create "
		"them with `wherry create URL#SCHEMA.TABLE`",
	.exact = true,
	.probe_us = 60 * WH_SECOND,
	.look_most = SIZE_MAX,
	.open = open_schemas,
	.close = close_schemas,
	.fd = schemas_fd,
	.list = list_schemas,
	.listen = listen_to,
	.heard = schemas_heard,
	.sleep = take_locks,
	.wake = free_locks,
	.look = look_at_schemas,
};
