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

typedef struct version {
	bool found;
	int64_t version;
	int64_t min_program;
} version;

static wherry_code take_version(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(version *)ctx = (version){true, wh_row_int(row, 0), wh_row_int(row, 1)};
	return WHERRY_OK;
}

static wherry_code read_version(wherry_outbox *box, const char *table, version *out,
				wherry_error *err)
{
	wh_param name = WH_TEXT_PARAM("name", wh_view_of(table));
	int64_t exists = 0;
	wherry_code code;

	*out = (version){0};
	code = wh_db_run(box->db, box->stmt.schema_exists, NULL, 0, wh_take_int, &exists,
			 NULL, err);
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
			table, (int)out->version, (int)(out->min_program / 10000),
			(int)(out->min_program / 100 % 100),
			(int)(out->min_program % 100), WHERRY_VERSION);
	return WHERRY_OK;
}

wherry_code wh_outbox_check(wherry_outbox *box, wherry_error *err)
{
	version v;
	wherry_code code = read_version(box, box->name.ptr, &v, err);

	if (code != WHERRY_OK)
		return code;
	if (!v.found)
		return wh_outbox_missing(box->name.ptr, WHERRY_NOTFOUND, err);
	box->version = (int)v.version;
	return WHERRY_OK;
}

/* Which of the columns an outbox must have a table has, as bits. */
typedef struct columns {
	unsigned has;
	bool any;
} columns;

enum { STATUS = 4 }; /* the last one, which an archive does not have */

static const char *const required[] = {"id",      "message_id", "topic",
				       "payload", "status",     NULL};

static wherry_code take_column(void *ctx, const wh_row *row, wherry_error *err)
{
	columns *found = ctx;

	(void)err;
	found->any = true;
	for (int i = 0; required[i]; i++)
		if (strcmp(wh_row_text(row, 0), required[i]) == 0)
			found->has |= 1u << i;
	return WHERRY_OK;
}

static wherry_code read_columns(wherry_outbox *box, const char *table, columns *out,
				wherry_error *err)
{
	wh_param name = WH_TEXT_PARAM("name", wh_view_of(table));

	*out = (columns){0};
	return wh_db_run(box->db, box->stmt.columns, &name, 1, take_column, out, NULL,
			 err);
}

/* A table of that name that is something else must not be touched; nor one that has the
 * name of the archive, such as an outbox "a_archive" when "a" is to be made. */
static wherry_code check_foreign(wherry_outbox *box, const char *table, wherry_error *err)
{
	char archive[WH_IDENT_MAX + sizeof("_archive")];
	columns found;
	wherry_code code;

	if (strncasecmp(table, "wherry_", 7) == 0)
		return wh_fail(err, WHERRY_INVALID,
			       "'%s': names that begin with wherry_ are Wherry's own",
			       table);
	code = read_columns(box, table, &found, err);
	if (code != WHERRY_OK)
		return code;
	for (int i = 0; found.any && required[i]; i++)
		if (!(found.has >> i & 1))
			return wh_fail(
				err, WHERRY_INVALID,
				"there is a table '%s' that is no outbox: it has no column "
				"'%s'; choose another name with --table",
				table, required[i]);
	(void)snprintf(archive, sizeof(archive), "%s_archive", table);
	code = read_columns(box, archive, &found, err);
	if (code == WHERRY_OK && found.any && found.has != (1u << STATUS) - 1)
		return wh_fail(err, WHERRY_INVALID,
			       "there is a table '%s' that is no archive of outbox '%s'; "
			       "choose another name with --table",
			       archive, table);
	return code;
}

typedef struct migration {
	wherry_outbox *box;
	const char *table;
} migration;

/* All versions that are missing.  Runs under the write lock, so that of two at once the
 * second finds the work done. */
static wherry_code migrate(void *ctx, wherry_error *err)
{
	migration *m = ctx;
	wherry_code code;
	columns found;
	version v;

	code = read_version(m->box, m->table, &v, err);
	if (code == WHERRY_OK)
		code = read_columns(m->box, m->table, &found, err);
	if (code != WHERRY_OK)
		return code;
	if (!v.found || !found.any) {
		v.version = 0; /* also when only the table is gone */
		code = check_foreign(m->box, m->table, err);
		if (code != WHERRY_OK)
			return code;
	}
	for (int i = (int)v.version + 1;; i++) {
		const wh_stmt *stmt;
		char name[24];

		(void)snprintf(name, sizeof(name), "migrate-%d", i);
		stmt = wh_sql_find(&m->box->sql, name);
		if (!stmt)
			return WHERRY_OK;
		code = wh_db_script(m->box->db, stmt->text, err);
		if (code != WHERRY_OK)
			return wh_prefix(err, code, "%s", name);
	}
}

wherry_code wherry_outbox_init(wherry_db *db, const char *table, wherry_error *err)
{
	wherry_outbox box = {.db = db};
	migration m = {&box, table};
	wherry_code code;

	if (!db)
		return wh_fail(err, WHERRY_INVALID,
			       "no connection to create the outbox on");
	if (wherry_db_in_transaction(db))
		return wh_fail(err, WHERRY_INVALID,
			       "a transaction is open: creating an outbox needs its own");
	code = wh_outbox_load(&box, db->driver->scheme, table, err);
	if (code == WHERRY_OK)
		code = wh_db_transact(db, migrate, &m, err);
	wh_db_forget(db, &box.sql);
	wh_sql_clear(&box.sql);
	return code;
}

wherry_code wherry_outbox_init_sql(const char *scheme, const char *table, char **out,
				   wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(256 * 1024);
	wherry_outbox box = {0};
	const wh_stmt *stmt;
	wherry_code code;
	char name[24];

	if (!scheme || !out)
		return wh_fail(err, WHERRY_INVALID, "no database to write SQL for");
	code = wh_outbox_load(&box, scheme, table, err);
	for (int i = 1; code == WHERRY_OK; i++) {
		(void)snprintf(name, sizeof(name), "migrate-%d", i);
		stmt = wh_sql_find(&box.sql, name);
		if (!stmt)
			break;
		wh_buf_printf(&text, "-- %s of outbox %s\nBEGIN;\n%sCOMMIT;\n", name,
			      table, stmt->text);
	}
	if (code == WHERRY_OK)
		code = wh_buf_check(&text, err);
	if (code == WHERRY_OK)
		*out = wh_buf_take(&text);
	wh_buf_clear(&text);
	wh_sql_clear(&box.sql);
	return code;
}
