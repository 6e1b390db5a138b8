#include "outbox/adopt.h"

#include <wherry/subscription.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "log/failing.h"

/* ---- looking at the table ---- */

static wherry_code take_look(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_adoption *a = ctx;
	const char *kind = wh_row_text(row, 0), *size = wh_row_text(row, 2),
		   *owner = wh_row_text(row, 4);

	if (kind && strcmp(kind, "citus") == 0)
		return wh_fail(
			err, WHERRY_UNSUPPORTED,
			"table '%s' belongs to Citus, whose other nodes keep its rows and have other "
			"transaction numbers: let producers write to a local table of each node",
			a->source);
	if (!kind || (*kind != 'r' && *kind != 'p'))
		return wh_fail(err, WHERRY_INVALID, "'%s' is not a table", a->source);
	if (!wh_row_int(row, 3))
		return wh_fail(
			err, WHERRY_DENIED,
			"table '%s' belongs to %s, and only an owner can add a column and a trigger to "
			"it: run this as %s",
			a->source, owner, owner);
	a->partitioned = *kind == 'p';
	a->rows = wh_row_int(row, 1);
	(void)snprintf(a->size, sizeof(a->size), "%s", size ? size : "");
	a->numbered = wh_row_int(row, 5);
	a->broken = wh_row_int(row, 6);
	a->published = wh_row_int(row, 7);
	return WHERRY_OK;
}

static wherry_code take_column(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_adoption *a = ctx;
	wh_adopt_column *c = &a->columns[a->n_columns];
	const char *name = wh_row_text(row, 0), *type = wh_row_text(row, 1);

	if (a->n_columns == WH_ADOPT_COLUMNS_MOST)
		return wh_fail(err, WHERRY_INVALID, "table '%s' has more than %d columns",
			       a->source, WH_ADOPT_COLUMNS_MOST);
	a->n_columns++;
	(void)snprintf(c->name, sizeof(c->name), "%s", name ? name : "");
	(void)snprintf(c->type, sizeof(c->type), "%s", type ? type : "");
	c->not_null = wh_row_int(row, 2);
	c->unique = wh_row_int(row, 3);
	return WHERRY_OK;
}

/* An outbox of Wherry's own needs no adoption. */
static wherry_code refuse_own(const wh_adoption *a, wherry_error *err)
{
	if (wh_adopt_find(a, "message_id", false) &&
	    wh_adopt_find(a, "partition_key", false) &&
	    (wh_adopt_find(a, "tx", false) || wh_adopt_find(a, "rv", false) ||
	     wh_adopt_find(a, "claim_token", false)))
		return wh_fail(
			err, WHERRY_INVALID,
			"table '%s' is an outbox of Wherry's own: relay it as it is",
			a->source);
	return WHERRY_OK;
}

static wherry_code take_server(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_adoption *a = ctx;
	const char *create = wh_row_text(row, 0), *as_owner = wh_row_text(row, 1);

	(void)snprintf(a->create, sizeof(a->create), "%s", create ? create : "");
	(void)snprintf(a->as_owner, sizeof(a->as_owner), "%s", as_owner ? as_owner : "");
	return wh_row_check(row, err);
}

static wherry_code look(wh_adoption *a, wherry_error *err)
{
	const wh_stmt *server = wh_sql_find(&a->sql, "server");
	int64_t found = 0;
	wherry_code code = wh_db_run(a->db, wh_sql_find(&a->sql, "look"), NULL, 0,
				     take_look, a, &found, err);

	if (code == WHERRY_OK)
		code = wh_db_run(a->db, wh_sql_find(&a->sql, "read-columns"), NULL, 0,
				 take_column, a, NULL, err);
	if (code == WHERRY_OK && server)
		code = wh_db_run(a->db, server, NULL, 0, take_server, a, NULL, err);
	if (code == WHERRY_OK && !a->n_columns)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "there is no table '%s' in this database", a->source);
	return code == WHERRY_OK ? refuse_own(a, err) : code;
}

/* ---- names ---- */

static void put_title(const wh_name *name, char *out, size_t cap, const char *said)
{
	if (strchr(said, '.') && *name->schema)
		(void)snprintf(out, cap, "%s.%s", name->schema, name->table);
	else
		(void)snprintf(out, cap, "%s", name->table);
}

/* Name the table, and the outbox in the same schema. */
static wherry_code find_names(wh_adoption *a, const char *table, const char *as,
			      wherry_error *err)
{
	const bool schemas = a->db->driver->connection.schema_of != NULL;
	wherry_code code = wh_name_parse(table, schemas, &a->table, err);
	int len;

	if (code == WHERRY_OK && schemas && !*a->table.schema)
		code = wh_db_schema_of(a->db, a->table.table, false, a->table.schema,
				       sizeof(a->table.schema), err);
	if (code == WHERRY_OK && as)
		code = wh_name_parse(as, schemas, &a->name, err);
	if (code != WHERRY_OK)
		return code;
	if (!as) {
		len = snprintf(a->name.table, sizeof(a->name.table), "%s_log",
			       a->table.table);
		if (len > WH_IDENT_MAX)
			return wh_fail(
				err, WHERRY_INVALID,
				"the name %s_log is too long for an outbox: choose one with --as",
				a->table.table);
	}
	if (!*a->name.schema)
		memcpy(a->name.schema, a->table.schema, sizeof(a->name.schema));
	if (strcmp(a->name.schema, a->table.schema) != 0)
		return wh_fail(err, WHERRY_INVALID,
			       "--as %s: the outbox is in the schema of its table, '%s'",
			       as, a->table.schema);
	if (strcmp(a->name.table, a->table.table) == 0)
		return wh_fail(
			err, WHERRY_INVALID,
			"--as %s: that is the name of the table, and the outbox needs another one",
			as);
	put_title(&a->table, a->source, sizeof(a->source), table);
	put_title(&a->name, a->title, sizeof(a->title), table);
	return WHERRY_OK;
}

wherry_code wh_adoption_plan(wherry_db *db, const char *table,
			     const wh_adopt_options *options, wh_adoption *out,
			     wherry_error *err)
{
	const char *text = wh_sql_embedded("outbox", "adopt", db->driver->scheme);
	wh_adopt_options known = *options;
	wh_sql_names names = {.dialect = db->driver->scheme, .payload = ""};
	wherry_code code;

	*out = (wh_adoption){.db = db,
			     .view = WH_BUF_INIT(512 * 1024),
			     .plain = WH_BUF_INIT(256 * 1024),
			     .done = WH_BUF_INIT(64 * 1024),
			     .done_shown = WH_BUF_INIT(64 * 1024),
			     .set = WH_BUF_INIT(64 * 1024),
			     .open = WH_BUF_INIT(64 * 1024),
			     .options = WH_BUF_INIT(512 * 1024)};
	for (int i = 0; i < WH_ADOPT_FIELDS; i++)
		out->shown[i] = (wh_buf)WH_BUF_INIT(64 * 1024);
	if (!text)
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "tables on '%s:' cannot be adopted yet",
			       db->driver->scheme);
	code = find_names(out, table, options->as, err);
	names.schema = *out->table.schema ? out->table.schema : NULL;
	names.table = out->table.table;
	if (code == WHERRY_OK)
		code = wh_sql_parse_as(text, &names, &out->sql, err);
	if (code == WHERRY_OK)
		code = look(out, err);
	if (code == WHERRY_OK)
		code = wh_adopt_recall(out, &known, err);
	if (code != WHERRY_OK)
		return code;
	wh_adopt_know(out, &known);
	out->where = known.where;
	code = wh_adopt_find_done(out, known.done, err);
	if (code == WHERRY_OK)
		code = wh_adopt_map(out, &known, err);
	if (code == WHERRY_OK)
		code = wh_adopt_remember(out, &known, err);
	if (code == WHERRY_OK)
		code = wh_adopt_check(out, options->from, err);
	return code == WHERRY_OK ? wh_adopt_plan_steps(out, err) : code;
}

/* ---- doing it ---- */

typedef struct script {
	wherry_db *db;
	const char *sql;
} script;

static wherry_code run_script(void *ctx, wherry_error *err)
{
	const script *s = ctx;

	return wh_db_script(s->db, s->sql, err);
}

static wherry_code run_step(const wh_adoption *a, const struct wh_adopt_step *step,
			    wherry_error *err)
{
	script s = {a->db, step->sql};
	wherry_code code;

	if (!step->alone)
		return wh_db_transact(a->db, run_script, &s, err);
	code = wh_db_script(a->db, wh_adopt_text(a, "be-patient"), err);
	if (code == WHERRY_OK)
		code = run_script(&s, err);
	if (code == WHERRY_OK)
		code = wh_db_script(a->db, wh_adopt_text(a, "be-usual"), err);
	if (wherry_code_remedy(code) == WHERRY_REMEDY_RETRY)
		return wh_prefix(
			err, code,
			"an index waits for transactions that were open before, and one stayed "
			"open: end it, and run this again");
	return code;
}

/* Forget an outbox of this name: the table was made again, or was never adopted.  Somebody else may have adopted it since it
 * was looked at. */
static wherry_code forget_old(void *ctx, wherry_error *err)
{
	wh_adoption *a = ctx;
	wherry_outbox outbox = {.store = wh_outbox_store(a->db, &wh_outbox_model)};
	wherry_code code = wh_db_run(a->db, wh_sql_find(&a->sql, "look"), NULL, 0,
				     take_look, a, NULL, err);

	if (code != WHERRY_OK || a->numbered)
		return code;
	code = wh_outbox_load(&outbox, a->db->driver->scheme, "adopted", a->title, err);
	if (code == WHERRY_OK)
		code = wh_db_script(
			a->db, wh_sql_find(&outbox.store.sql, "add-forget")->text, err);
	wh_store_clear(&outbox.store);
	return code;
}

static wherry_code forget(wh_adoption *a, wherry_error *err)
{
	return wh_db_transact(a->db, forget_old, a, err);
}

/* The trigger of the table, on SQLite, which finds rows that the position has passed. */
static wherry_code watch(const wh_adoption *a, const wherry_outbox *outbox,
			 wherry_error *err)
{
	const wh_stmt *stmt = wh_sql_find(&outbox->store.sql, "add-watch");
	wh_buf id = WH_BUF_INIT(1000), table = WH_BUF_INIT(1000),
	       text = WH_BUF_INIT(64 * 1024);
	wherry_code code = WHERRY_OK;

	if (stmt) {
		wh_adopt_quote(a, &id, a->id);
		wh_adopt_put_name(a, &table, &a->table, "");
		wh_adopt_fill(&text, stmt->text,
			      (const char *const[]){"id", wh_buf_str(&id), "table",
						    wh_buf_str(&table), NULL});
		code = wh_db_script(a->db, wh_buf_str(&text), err);
	}
	wh_buf_clear(&id);
	wh_buf_clear(&table);
	wh_buf_clear(&text);
	return code;
}

/* Where the first subscription begins. */
static wherry_code begin(const wh_adoption *a, wherry_outbox *outbox, wherry_error *err)
{
	const wh_stmt *undone = wh_sql_find(&outbox->store.sql, "add-undone");

	if (strcmp(a->from, "undone") == 0)
		return wh_db_script(a->db, undone->text, err);
	if (strcmp(a->from, "start") == 0)
		return WHERRY_OK;
	return wherry_subscription_seek(outbox, a->from, err);
}

/* In the transaction that makes the outbox: one that is there has begun where it should. */
static wherry_code finish(void *ctx, wherry_outbox *outbox, bool is_new,
			  wherry_error *err)
{
	const wh_adoption *a = ctx;
	wherry_code code = watch(a, outbox, err);

	return code == WHERRY_OK && is_new ? begin(a, outbox, err) : code;
}

/* Rows for which an expression fails are exceptions from the beginning. */
static wherry_code mark_failing(const wh_adoption *a, int64_t *out_n, wherry_error *err)
{
	wherry_outbox outbox = {.store = wh_outbox_store(a->db, &wh_outbox_model)};
	wherry_code code =
		wh_outbox_load(&outbox, a->db->driver->scheme, "adopted", a->title, err);

	*out_n = 0;
	if (code == WHERRY_OK)
		code = wh_failing_find(&outbox.store, out_n, err);
	wh_store_clear(&outbox.store);
	return code;
}

static wherry_code make_outbox(const wh_adoption *a, const wh_make *how,
			       wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = wh_outbox_make(a->db, how, a->title, &why);
	int64_t n = 1;

	while (wh_db_about_row(a->db, code, &why) &&
	       mark_failing(a, &n, NULL) == WHERRY_OK && n)
		code = wh_outbox_make(a->db, how, a->title, &why);
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

static wherry_code run_alone(wh_adoption *a, bool *out_made, wherry_error *err)
{
	wh_made made = {.from = 0};
	const wh_make how = {
		.layout = "adopted", .made = &made, .also = finish, .ctx = a};
	wherry_code code = a->numbered ? WHERRY_OK : forget(a, err);

	for (size_t i = 0; code == WHERRY_OK && i < a->n_steps; i++)
		code = run_step(a, &a->steps[i], err);
	if (wherry_code_remedy(code) == WHERRY_REMEDY_FIX && a->numbered)
		code = wh_prefix(
			err, code,
			"outbox '%s' is there, and cannot get these columns: drop it, and "
			"adopt the table again, with --from if rows do not say that they are done",
			a->title);
	if (code == WHERRY_OK)
		code = make_outbox(a, &how, err);
	*out_made = !made.from;
	return code;
}

/* A lock and a setting of the session must not be left to somebody else. */
static wherry_code check_session(const wh_adoption *a, wherry_error *err)
{
	const wh_stmt *ask = wh_sql_find(&a->sql, "session");
	const int64_t known = wh_db_session(a->db);
	int64_t session = known;
	wherry_code code = WHERRY_OK;

	if (ask && known)
		code = wh_db_run(a->db, ask, NULL, 0, wh_take_int, &session, NULL, err);
	if (code == WHERRY_OK && session != known)
		return wh_fail(err, WHERRY_INVALID,
			       "a connection pooler is between this program and the "
			       "server, and `adopt` needs one session for all its steps: "
			       "connect to the server itself");
	return code;
}

wherry_code wh_adoption_run(wh_adoption *a, bool *out_made, wherry_error *err)
{
	const wh_stmt *lock = wh_sql_find(&a->sql, "alone");
	int64_t alone = 1;
	wherry_code code = check_session(a, err);

	if (code == WHERRY_OK && lock)
		code = wh_db_run(a->db, lock, NULL, 0, wh_take_int, &alone, NULL, err);
	if (code == WHERRY_OK && !alone)
		code = wh_fail(err, WHERRY_BUSY, "somebody else adopts table '%s' now",
			       a->source);
	if (code != WHERRY_OK)
		return code;
	code = run_alone(a, out_made, err);
	if (lock)
		(void)wh_db_run(a->db, wh_sql_find(&a->sql, "alone-end"), NULL, 0, NULL,
				NULL, NULL, NULL);
	return code;
}

/* On PostgreSQL a row tells its transaction, so rows of a new table are late. */
wherry_code wh_adopted_check(wherry_outbox *outbox, wherry_error *err)
{
	const bool rows_tell = outbox->store.db->driver->connection.schema_of != NULL;
	int64_t missing = 0;
	wherry_code code = WHERRY_OK;

	if (outbox->store.layout.purges_soon && !rows_tell)
		code = wh_store_ask(&outbox->store, outbox->store.stmt.indexes_missing,
				    NULL, 0, &missing, err);
	if (code == WHERRY_OK && missing)
		return wh_fail(
			err, WHERRY_INVALID,
			"the table of outbox '%s' was made again, or what `adopt` added to it is "
			"gone: adopt the table again, which delivers its rows again",
			outbox->store.name.ptr);
	return code;
}

void wh_adoption_clear(wh_adoption *a)
{
	for (size_t i = 0; i < a->n_steps; i++)
		free(a->steps[i].sql);
	for (int i = 0; i < WH_ADOPT_FIELDS; i++)
		wh_buf_clear(&a->shown[i]);
	wh_buf_clear(&a->view);
	wh_buf_clear(&a->plain);
	wh_buf_clear(&a->done);
	wh_buf_clear(&a->done_shown);
	wh_buf_clear(&a->set);
	wh_buf_clear(&a->open);
	wh_buf_clear(&a->options);
	for (size_t i = 0; i < a->n_kept; i++)
		free(a->kept[i]);
	wh_db_forget(a->db, &a->sql);
	wh_sql_clear(&a->sql);
	*a = (wh_adoption){.n_steps = 0};
}
