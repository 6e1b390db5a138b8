/*
 * Creating an outbox and bringing it up to date.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <wherry/version.h>

#include "base/text.h"
#include "outbox/outbox.h"

static wherry_code take_version(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(wh_version *)ctx = (wh_version){true, wh_row_int(row, 0), wh_row_int(row, 1)};
	return WHERRY_OK;
}

wherry_code wh_outbox_version(wherry_outbox *box, wh_version *out, wherry_error *err)
{
	wh_param name = WH_TEXT_PARAM("name", box->name);
	int64_t exists = 1;
	wherry_code code = WHERRY_OK;

	*out = (wh_version){0};
	if (box->stmt.schema_exists)
		code = wh_db_run(box->db, box->stmt.schema_exists, NULL, 0, wh_take_int,
				 &exists, NULL, err);
	if (code != WHERRY_OK || !exists)
		return code;
	code = wh_db_run(box->db, box->stmt.schema_version, &name, 1, take_version, out,
			 NULL, err);
	if (code != WHERRY_OK)
		return code;
	if (out->min_program > WHERRY_VERSION_NUM)
		return wh_fail(
			err, WHERRY_TOONEW,
			"outbox '%s' has schema version %d, which needs wherry %d.%d.%d or "
			"newer; this is %s: upgrade this program",
			box->name.ptr, (int)out->version, (int)(out->min_program / 10000),
			(int)(out->min_program / 100 % 100),
			(int)(out->min_program % 100), WHERRY_VERSION);
	return WHERRY_OK;
}

wherry_code wh_outbox_check(wherry_outbox *box, const wh_version *v, wherry_error *err)
{
	if (!v->found)
		return wh_outbox_missing(box->name.ptr, WHERRY_NOTFOUND, err);
	if (!v->version && box->layout.streams)
		return wh_fail(err, WHERRY_INVALID,
			       "there is a table '%s' of layout %s, but not the tables "
			       "that a relay keeps beside it: `wherry init` makes them",
			       box->name.ptr, box->layout.name);
	if (!v->version)
		return wh_fail(
			err, WHERRY_INVALID,
			"there is a table '%s', but no table '%s_archive' with the "
			"columns that layout %s has: `wherry init` makes it",
			box->name.ptr, box->name.ptr, box->layout.name);
	box->version = (int)v->version;
	return WHERRY_OK;
}

static wherry_code take_type(void *ctx, const wh_row *row, wherry_error *err)
{
	wherry_outbox *box = ctx;
	const char *type = wh_row_text(row, 0);

	(void)err;
	(void)snprintf(box->payload_type, sizeof(box->payload_type), "%s",
		       type ? type : "");
	return WHERRY_OK;
}

wherry_code wh_outbox_payload(wherry_outbox *box, wherry_error *err)
{
	const wh_stmt *stmt = box->own.payload_type;

	*box->payload_type = 0;
	if (!stmt)
		return WHERRY_OK;
	return wh_db_run(box->db, stmt, NULL, 0, take_type, box, NULL, err);
}

/* A table keeps the type it was made with. */
static wherry_code check_payload(wherry_outbox *box, wherry_error *err)
{
	wherry_code code = wh_outbox_payload(box, err);

	if (code != WHERRY_OK || !box->payload || !*box->payload_type ||
	    strcmp(box->payload, box->payload_type) == 0)
		return code;
	return wh_fail(
		err, WHERRY_INVALID,
		"outbox '%s' is there and keeps payloads as %s: leave --payload out, or "
		"make another one",
		box->name.ptr, box->payload_type);
}

/* How a table compares with a list of columns, "a,b,!c": !c must not be there. */
typedef struct columns {
	const char *list;
	unsigned has; /* bits, in the order of the list */
	bool any;
} columns;

/* The i-th of them; NULL at the end. */
static const char *column_at(const char *list, int i, size_t *out_len)
{
	while (i-- > 0) {
		list += strcspn(list, ",");
		if (!*list++)
			return NULL;
	}
	*out_len = strcspn(list, ",");
	return list;
}

static wherry_code take_column(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_view name = wh_row_bytes(row, 0);
	columns *found = ctx;
	const char *column;
	size_t len;

	(void)err;
	found->any = true;
	for (int i = 0; (column = column_at(found->list, i, &len)) != NULL; i++) {
		bool not = *column == '!';

		if (wh_view_eq(name, (wh_view){column + not, len - not }))
			found->has |= 1u << i;
	}
	return WHERRY_OK;
}

static wherry_code read_columns(wherry_outbox *box, const char *table, const char *list,
				columns *out, wherry_error *err)
{
	wh_param name = WH_TEXT_PARAM("name", wh_view_of(table));

	*out = (columns){.list = list};
	return wh_db_run(box->db, box->stmt.columns, &name, 1, take_column, out, NULL,
			 err);
}

/* The first column that is missing, or should be: its name, or NULL. */
static const char *mismatch(const columns *found, int *out_len)
{
	const char *column;
	size_t len;

	for (int i = 0; (column = column_at(found->list, i, &len)) != NULL; i++) {
		*out_len = (int)len;
		if ((found->has >> i & 1) == (*column == '!'))
			return column;
	}
	return NULL;
}

/* A table of that name that is something else must not be touched; nor one that has the
 * name of the archive, such as an outbox "a_archive" when "a" is to be made. */
static wherry_code check_foreign(wherry_outbox *box, wherry_error *err)
{
	const char *table = box->name.ptr;
	char archive[WH_NAME_MOST + sizeof("_archive")];
	const char *column;
	columns found;
	wherry_code code;
	int len;

	if (strncasecmp(table, "wherry_", 7) == 0)
		return wh_fail(err, WHERRY_INVALID,
			       "'%s': names that begin with wherry_ are Wherry's own",
			       table);
	code = read_columns(box, table, box->layout.columns, &found, err);
	if (code != WHERRY_OK)
		return code;
	column = mismatch(&found, &len);
	if (found.any && column)
		return wh_fail(
			err, WHERRY_INVALID,
			"there is a table '%s' that is no outbox: it has no column "
			"'%.*s'; choose another name with --table",
			table, len, column);
	if (!*box->layout.archive)
		return WHERRY_OK;
	(void)snprintf(archive, sizeof(archive), "%s_archive", table);
	code = read_columns(box, archive, box->layout.archive, &found, err);
	if (code == WHERRY_OK && found.any && mismatch(&found, &len))
		return wh_fail(err, WHERRY_INVALID,
			       "there is a table '%s' that is no archive of outbox '%s'; "
			       "choose another name with --table",
			       archive, table);
	return code;
}

typedef struct stranger {
	bool found;
	char what[80]; /* "table wherry_slot" */
	char owner[80];
} stranger;

static wherry_code take_stranger(void *ctx, const wh_row *row, wherry_error *err)
{
	const char *what = wh_row_text(row, 0), *owner = wh_row_text(row, 1);
	stranger *out = ctx;

	(void)err;
	out->found = true;
	(void)snprintf(out->what, sizeof(out->what), "%s", what ? what : "");
	(void)snprintf(out->owner, sizeof(out->owner), "%s", owner ? owner : "");
	return WHERRY_OK;
}

/* A trigger runs with the rights of the role that writes to the table. */
static wherry_code check_owners(wherry_outbox *box, wherry_error *err)
{
	wh_param schema = WH_TEXT_PARAM("schema", wh_view_of(box->names.schema));
	const wh_stmt *stmt = box->stmt.owners;
	stranger s = {.found = false};
	wherry_code code;

	if (!stmt)
		return WHERRY_OK;
	code = wh_db_run(box->db, stmt, &schema, 1, take_stranger, &s, NULL, err);
	if (code != WHERRY_OK || !s.found)
		return code;
	return wh_fail(
		err, WHERRY_DENIED,
		"%s in schema %s belongs to %s, which could run its own code with the "
		"rights of all who use the outbox: run `wherry init` as %s if that is "
		"the owner of the outbox, else have it dropped",
		s.what, box->names.schema, s.owner, s.owner);
}

/* An outbox without one of its indexes is brought up to date from the first version on. */
static wherry_code check_indexes(wherry_outbox *box, wh_version *v, wherry_error *err)
{
	const wh_stmt *stmt = box->stmt.indexes_missing;
	int64_t missing = 0;
	wherry_code code = WHERRY_OK;

	if (stmt && v->version)
		code = wh_db_run(box->db, stmt, NULL, 0, wh_take_int, &missing, NULL,
				 err);
	if (missing)
		v->version = 0;
	return code;
}

typedef struct migration {
	wherry_outbox *box;
	unsigned extras;
	wh_made made;
} migration;

enum { EXTRAS = 2 };

/* Refuse what the layout cannot have. */
static wherry_code check_extras(const wherry_outbox *box, unsigned extras,
				wherry_error *err)
{
	static const wh_ask asks[] = {WH_ASK_INIT_STRICT, WH_ASK_INIT_SLOTS,
				      WH_ASK_INIT_STREAM};
	wherry_code code = WHERRY_OK;

	for (int i = 0; code == WHERRY_OK && i < 3; i++)
		if (extras >> i & 1)
			code = wh_meet_check(box->layout.home, WH_ENGINES, asks[i], err);
	return code;
}

/* The SQL of the i-th extra; NULL: it is not asked for, or nothing is needed for it here. */
static const wh_stmt *extra_sql(const wherry_outbox *box, unsigned extras, int i)
{
	static const char *const names[EXTRAS] = {"add-strict", "add-slots"};

	return extras >> i & 1 ? wh_sql_find(&box->sql, names[i]) : NULL;
}

/* To a table that an earlier version made. */
static wherry_code add_constraint(migration *m, const wh_stmt *repair, wherry_error *err)
{
	const wh_stmt *look = m->box->stmt.constraint_missing;
	int64_t before = 0, after = 0;
	wherry_code code = WHERRY_OK;

	if (look)
		code = wh_db_run(m->box->db, look, NULL, 0, wh_take_int, &before, NULL,
				 err);
	if (code == WHERRY_OK)
		code = wh_db_script(m->box->db, repair->text, err);
	if (code == WHERRY_OK && look)
		code = wh_db_run(m->box->db, look, NULL, 0, wh_take_int, &after, NULL,
				 err);
	m->made.repaired = m->made.repaired || before > after;
	return code;
}

static wherry_code add_extras(migration *m, wherry_error *err)
{
	const wh_stmt *repair = m->box->stmt.repair;
	wherry_code code = WHERRY_OK;

	if (repair)
		code = add_constraint(m, repair, err);

	for (int i = 0; code == WHERRY_OK && i < EXTRAS; i++) {
		const wh_stmt *stmt = extra_sql(m->box, m->extras, i);

		if (stmt)
			code = wh_db_script(m->box->db, stmt->text, err);
	}
	return code;
}

/* All versions that are missing.  Runs under the write lock, or one of its own where many
 * write at once: so of two the second finds the work done. */
static wherry_code migrate(void *ctx, wherry_error *err)
{
	migration *m = ctx;
	wherry_outbox *box = m->box;
	const wh_stmt *lock = box->stmt.migrate_lock;
	wherry_code code = WHERRY_OK;
	columns found;
	wh_version v;

	if (lock)
		code = wh_db_run(box->db, lock, NULL, 0, NULL, NULL, NULL, err);
	if (code == WHERRY_OK)
		code = check_owners(box, err);
	if (code == WHERRY_OK)
		code = check_payload(box, err);
	if (code == WHERRY_OK)
		code = wh_outbox_version(box, &v, err);
	if (code == WHERRY_OK)
		code = read_columns(box, box->name.ptr, box->layout.columns, &found, err);
	if (code != WHERRY_OK)
		return code;
	if (!v.found || !v.version || !found.any) {
		v.version = 0; /* also when only the table is gone */
		code = check_foreign(box, err);
		if (code != WHERRY_OK)
			return code;
	}
	m->made.from = (int)v.version;
	code = check_indexes(box, &v, err);
	if (code != WHERRY_OK)
		return code;
	m->made.repaired = v.version != m->made.from;
	m->made.to = m->made.from;
	for (int i = (int)v.version + 1;; i++) {
		const wh_stmt *stmt;
		char name[24];

		(void)snprintf(name, sizeof(name), "migrate-%d", i);
		stmt = wh_sql_find(&box->sql, name);
		if (!stmt)
			return add_extras(m, err);
		code = wh_db_script(box->db, stmt->text, err);
		if (code != WHERRY_OK)
			return wh_prefix(err, code, "%s", name);
		m->made.to = i;
	}
}

/* The layout of the table that is there; native if there is none, or of no layout. */
static wherry_code find_layout(wherry_outbox *box, const char *table, wherry_error *err)
{
	const char *payload = box->payload;
	char layout[sizeof(box->layout.name)];
	wh_version v = {.found = false};
	wherry_code code;

	box->payload = NULL; /* not every layout has a choice */
	code = wh_outbox_recognize(box, table, &v, err);
	box->payload = payload;
	if (code != WHERRY_OK)
		return code;
	memcpy(layout, box->layout.name, sizeof(layout));
	wh_outbox_unload(box);
	return wh_outbox_load(box, box->db->driver->scheme, v.found ? layout : NULL,
			      table, err);
}

wherry_code wh_outbox_make(wherry_db *db, const wh_make *how, const char *table,
			   wherry_error *err)
{
	wherry_outbox box = {.db = db, .payload = how->payload, .making = true};
	migration m = {.box = &box, .extras = how->extras};
	wherry_code code;

	if (!db)
		return wh_fail(err, WHERRY_INVALID,
			       "no connection to create the outbox on");
	if (wherry_db_in_transaction(db))
		return wh_fail(err, WHERRY_INVALID,
			       "a transaction is open: creating an outbox needs its own");
	if (how->layout)
		code = wh_outbox_load(&box, db->driver->scheme, how->layout, table, err);
	else
		code = find_layout(&box, table, err);
	if (code == WHERRY_OK && db->driver->schema_of && !*box.names.schema)
		code = wh_fail(
			err, WHERRY_NOTFOUND,
			"the search path names no schema that exists: make one with "
			"CREATE SCHEMA, and name it, as in --table shop.%s",
			table);
	if (code == WHERRY_OK)
		code = check_extras(&box, how->extras, err);
	if (code == WHERRY_OK)
		code = wh_db_transact(db, migrate, &m, err);
	if (code == WHERRY_OK && how->made)
		*how->made = m.made;
	wh_outbox_unload(&box);
	return code;
}

wherry_code wherry_outbox_init(wherry_db *db, const char *table, wherry_error *err)
{
	return wh_outbox_make(db, &(wh_make){.layout = NULL}, table, err);
}

wherry_code wh_outbox_make_sql(const char *scheme, const wh_make *how, const char *table,
			       char **out, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(256 * 1024);
	wherry_outbox box = {.payload = how->payload};
	const wh_stmt *stmt;
	const char *known;
	wherry_code code;
	char name[24];

	if (!scheme || !out)
		return wh_fail(err, WHERRY_INVALID, "no database to write SQL for");
	known = wh_db_scheme(wh_view_of(scheme));
	code = wh_outbox_load(&box, known ? known : scheme, how->layout, table, err);
	if (code == WHERRY_OK)
		code = check_extras(&box, how->extras, err);
	for (int i = 1; code == WHERRY_OK; i++) {
		(void)snprintf(name, sizeof(name), "migrate-%d", i);
		stmt = wh_sql_find(&box.sql, name);
		if (!stmt)
			break;
		wh_buf_printf(&text, "-- %s of outbox %s\nBEGIN;\n%sCOMMIT;\n", name,
			      table, stmt->text);
	}
	for (int i = 0; code == WHERRY_OK && i < EXTRAS; i++) {
		stmt = extra_sql(&box, how->extras, i);
		if (stmt)
			wh_buf_printf(&text, "-- %s of outbox %s\nBEGIN;\n%sCOMMIT;\n",
				      stmt->name, table, stmt->text);
	}
	if (code == WHERRY_OK && how->n_grants) {
		wh_buf_printf(&text, "-- rights of outbox %s\nBEGIN;\n", table);
		code = wh_outbox_grant_sql(&box, known ? known : scheme, how->grants,
					   how->n_grants, &text, err);
		wh_buf_puts(&text, "COMMIT;\n");
	}
	if (code == WHERRY_OK)
		code = wh_buf_check(&text, err);
	if (code == WHERRY_OK)
		*out = wh_buf_take(&text);
	wh_buf_clear(&text);
	wh_outbox_unload(&box);
	return code;
}

wherry_code wherry_outbox_init_sql(const char *scheme, const char *table, char **out,
				   wherry_error *err)
{
	return wh_outbox_make_sql(scheme, &(wh_make){.layout = NULL}, table, out, err);
}
