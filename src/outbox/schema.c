/*
 * Creating and migrating an outbox.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/sized.h"
#include "outbox/outbox.h"
#include "store/grants.h"

typedef struct migration {
	wherry_outbox *outbox;
	const wh_make *how;
	unsigned extras;
	wh_made made;
} migration;

/* Optional parts, and the statements that add them and say whether they are there. */
static const struct {
	unsigned extra;
	wh_ask ask;
	const char *add, *ready;
} parts[] = {
	/* First, since it makes the table again. */
	{WH_SEGMENTS, WH_ASK_CREATE_SEGMENTS, "add-segments", "segmented"},
	{WH_PARTITIONS_SHARED, WH_ASK_CREATE_PARTITIONS, "add-partitions",
	 "partitions-ready"},
	{WH_UNIQUE_IDS, WH_ASK_CREATE_UNIQUE, "add-unique", "unique-ids"},
	{WH_STREAMED, WH_ASK_CREATE_STREAM, NULL, NULL},
};

enum { PARTS = sizeof(parts) / sizeof(*parts) };

/* Refuse optional parts that the layout does not support. */
static wherry_code check_extras(const wherry_outbox *outbox, const wh_make *how,
				wherry_error *err)
{
	const unsigned both = WH_SEGMENTS | WH_UNIQUE_IDS;
	wherry_code code = WHERRY_OK;

	if ((how->extras & both) == both)
		return wh_fail(err, WHERRY_INVALID,
			       "message ids cannot be unique in segments: leave "
			       "--unique-ids or --segments out");
	if (how->extras & WH_SEGMENTS &&
	    (how->segments < WH_SEGMENT_LEAST || how->segments > WH_SEGMENT_MOST))
		return wh_fail(err, WHERRY_INVALID,
			       "write how many ids a segment has: %d to %" PRId64,
			       WH_SEGMENT_LEAST, WH_SEGMENT_MOST);
	for (int i = 0; code == WHERRY_OK && i < PARTS; i++)
		if (how->extras & parts[i].extra)
			code = wh_meet_check(outbox->layout.home, parts[i].ask, err);
	return code;
}

/* Refuse what the server lacks. */
static wherry_code check_server(const wherry_outbox *outbox, const wh_make *how,
				wherry_error *err)
{
	if (!(how->extras & (WH_PARTITIONS_SHARED | WH_SEGMENTS)) ||
	    wh_db_has(outbox->store.db, WH_DB_SIGNALS))
		return wh_outbox_check_server(outbox, err);
	return wh_fail(
		err, WHERRY_UNSUPPORTED,
		"this server lacks advisory locks, under which relays share keys and "
		"make segments: leave --partitions and --segments out; further "
		"relays stand by");
}

/* The SQL of the i-th optional part; NULL: not requested, or nothing to create for it. */
static const wh_stmt *extra_sql(const wherry_outbox *outbox, unsigned extras, int i)
{
	return extras & parts[i].extra && parts[i].add
		       ? wh_sql_find(&outbox->store.sql, parts[i].add)
		       : NULL;
}

/* Set what the script reads. */
static wherry_code set_segments(migration *m, wherry_error *err)
{
	char sql[80];

	if (!(m->extras & WH_SEGMENTS))
		return WHERRY_OK;
	(void)snprintf(sql, sizeof(sql), "SET LOCAL wherry.segments = '%" PRId64 "';",
		       m->how->segments);
	return wh_db_script(m->outbox->store.db, sql, err);
}

static wherry_code add_extra(migration *m, int i, wherry_error *err)
{
	const wh_stmt *stmt = extra_sql(m->outbox, m->extras, i);
	int64_t there = 0;
	wherry_code code;

	if (!stmt)
		return WHERRY_OK;
	code = wh_store_ask(&m->outbox->store,
			    wh_sql_find(&m->outbox->store.sql, parts[i].ready), NULL, 0,
			    &there, err);
	if (code == WHERRY_OK)
		code = wh_db_script(m->outbox->store.db, stmt->text, err);
	m->made.repaired = m->made.repaired || !there;
	return code;
}

static wherry_code add_extras(migration *m, wherry_error *err)
{
	wherry_code code = set_segments(m, err);

	for (int i = 0; code == WHERRY_OK && i < PARTS; i++)
		code = add_extra(m, i, err);
	return code;
}

/* Run all missing migrations.  The write lock, or a separate lock on a database with
 * several writers, serialises callers: a second caller finds nothing left to do. */
static wherry_code migrate(void *ctx, wherry_error *err)
{
	migration *m = ctx;
	wherry_code code = wh_store_begin_making(&m->outbox->store, err);

	m->made = (wh_made){.from = 0};
	if (code == WHERRY_OK)
		code = wh_store_check_payload(&m->outbox->store, err);
	if (code == WHERRY_OK)
		code = wh_store_migrate(&m->outbox->store, &m->made, err);
	if (code == WHERRY_OK)
		code = add_extras(m, err);
	return code == WHERRY_OK && m->how->also
		       ? m->how->also(m->how->ctx, m->outbox, !m->made.from, err)
		       : code;
}

/* Load the layout of the existing table; that of a new one if there is no table, or one of no
 * known layout. */
static wherry_code find_layout(wherry_outbox *outbox, const char *table,
			       wherry_error *err)
{
	const char *payload = outbox->store.payload;
	char layout[sizeof(outbox->store.layout.name)];
	wh_version v = {.found = false};
	wherry_code code;

	/* Some layouts refuse a type of bodies, so look without it. */
	outbox->store.payload = NULL;
	code = wh_store_recognize(&outbox->store, table, &outbox->own, &v, err);
	outbox->store.payload = payload;
	if (code != WHERRY_OK)
		return code;
	memcpy(layout, outbox->store.layout.name, sizeof(layout));
	wh_store_unload(&outbox->store);
	return wh_outbox_load(outbox, outbox->store.db->driver->scheme,
			      v.found ? layout : NULL, table, err);
}

wherry_code wh_outbox_make(wherry_db *db, const wh_make *how, const char *table,
			   wherry_error *err)
{
	wherry_outbox outbox = {
		.store = wh_outbox_store(db, how->model ? how->model : &wh_outbox_model)};
	migration m = {.outbox = &outbox, .how = how, .extras = how->extras};
	wherry_code code;

	if (!db)
		return wh_fail(err, WHERRY_INVALID,
			       "no connection to create the outbox on");
	if (wherry_db_in_transaction(db))
		return wh_fail(err, WHERRY_INVALID,
			       "a transaction is open: creating an outbox needs its own");
	outbox.store.payload = how->payload;
	outbox.store.making = true;
	if (how->layout)
		code = wh_outbox_load(&outbox, db->driver->scheme, how->layout, table,
				      err);
	else
		code = find_layout(&outbox, table, err);
	if (code == WHERRY_OK)
		code = wh_outbox_check_old(&outbox, err);
	if (code == WHERRY_OK)
		code = wh_store_can_make(&outbox.store, table, err);
	if (code == WHERRY_OK)
		code = check_extras(&outbox, how, err);
	if (code == WHERRY_OK)
		code = check_server(&outbox, how, err);
	if (code == WHERRY_OK)
		code = wh_db_transact(db, migrate, &m, err);
	if (code == WHERRY_OK && how->made)
		*how->made = m.made;
	wh_store_clear(&outbox.store);
	return code;
}

static wherry_code read_how(const wherry_outbox_options *given, wh_make *out,
			    wherry_error *err)
{
	wherry_outbox_options own = {.layout = NULL};
	wherry_code code = given ? wh_sized_read(&own, sizeof(own), given,
						 offsetof(wherry_outbox_options, payload),
						 "options", "WHERRY_OUTBOX_OPTIONS", err)
				 : WHERRY_OK;

	*out = (wh_make){.layout = own.layout,
			 .payload = own.payload,
			 .segments = own.segments,
			 .extras = (own.partitions ? WH_PARTITIONS_SHARED : 0u) |
				   (own.unique_ids ? WH_UNIQUE_IDS : 0u) |
				   (own.segments ? WH_SEGMENTS : 0u)};
	return code;
}

wherry_code wherry_outbox_create(wherry_db *db, const char *table,
				 const wherry_outbox_options *options, wherry_error *err)
{
	wh_error_clear(err);
	wh_make how;
	wherry_code code = read_how(options, &how, err);

	return code == WHERRY_OK ? wh_outbox_make(db, &how, table, err) : code;
}

/* Read which version the tables have. */
static wherry_code look(wherry_outbox *outbox, int *out_version, wherry_error *err)
{
	wherry_code code = wh_store_migrated(&outbox->store, out_version, err);

	return code == WHERRY_OK && *out_version
		       ? wh_store_check_payload(&outbox->store, err)
		       : code;
}

static void put_script(wh_buf *to, const wh_stmt *stmt, const char *table)
{
	if (stmt)
		wh_buf_printf(to, "-- %s of outbox %s\nBEGIN TRANSACTION;\n%sCOMMIT;\n",
			      stmt->name, table, stmt->text);
}

/* Append the requested SQL.  The layout of `outbox` is loaded. */
static wherry_code put_sql(wherry_outbox *outbox, const char *scheme, const wh_make *how,
			   const char *table, wh_buf *text, wherry_error *err)
{
	int version = 0;
	wherry_code code = WHERRY_OK;

	if (how->lacking)
		code = look(outbox, &version, err);
	if (code != WHERRY_OK)
		return code;
	wh_store_later_sql(&outbox->store, table, version, text);
	if (how->extras & WH_SEGMENTS)
		wh_buf_printf(text, "SET wherry.segments = '%" PRId64 "';\n",
			      how->segments);
	for (int i = 0; i < PARTS; i++)
		put_script(text, extra_sql(outbox, how->extras, i), table);
	if (how->n_grants) {
		wh_buf_printf(text, "-- rights of outbox %s\nBEGIN TRANSACTION;\n",
			      table);
		code = wh_store_grant_sql(&outbox->store, scheme, how->grants,
					  how->n_grants, text, err);
		wh_buf_puts(text, "COMMIT;\n");
	}
	if (code == WHERRY_OK && !text->len)
		wh_buf_printf(text, "-- outbox %s is there and lacks nothing\n", table);
	return code == WHERRY_OK ? wh_buf_check(text, err) : code;
}

wherry_code wh_outbox_make_sql(const char *scheme, const wh_make *how, const char *table,
			       char **out, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(256 * 1024);
	wherry_outbox outbox = {.store = wh_outbox_store(how->lacking, &wh_outbox_model)};
	const char *known;
	wherry_code code;

	if (!scheme || !out)
		return wh_fail(err, WHERRY_INVALID, "no database to write SQL for");
	outbox.store.payload = how->payload;
	outbox.store.making = how->lacking != NULL;
	known = wh_db_scheme(wh_view_of(scheme));
	if (how->lacking && !how->layout)
		code = find_layout(&outbox, table, err);
	else
		code = wh_outbox_load(&outbox, known ? known : scheme, how->layout, table,
				      err);
	if (code == WHERRY_OK)
		code = check_extras(&outbox, how, err);
	if (code == WHERRY_OK)
		code = put_sql(&outbox, known ? known : scheme, how, table, &text, err);
	if (code == WHERRY_OK)
		*out = wh_buf_take(&text);
	wh_buf_clear(&text);
	wh_store_clear(&outbox.store);
	return code;
}

wherry_code wherry_outbox_create_sql(const char *scheme, const char *table,
				     const wherry_outbox_options *options, char **out,
				     wherry_error *err)
{
	wh_error_clear(err);
	wh_make how;
	wherry_code code = read_how(options, &how, err);

	return code == WHERRY_OK ? wh_outbox_make_sql(scheme, &how, table, out, err)
				 : code;
}
