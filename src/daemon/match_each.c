/*
 * Looks at outboxes of which each is in a separate database: opens one, asks, and closes it, so that a thousand of them
 * that rest have no connection.
 */
#include <string.h>

#include "daemon/match_driver.h"
#include "outbox/outbox.h"

enum { BUSY_US = 20000 }; /* A writer that has the database is waited for so long. */

static wherry_code parse(wh_match_each *each, wherry_error *err)
{
	const wh_sql_names names = {.dialect = each->dialect,
				    .schema = *each->schema ? each->schema : NULL,
				    .table = each->name.table,
				    .payload = "bytea",
				    .topic = WH_SUBSCRIPTION_OF_RELAYS};
	const char *text = wh_sql_embedded("outbox", "matched", each->dialect);

	return text ? wh_sql_parse_as(text, &names, &each->sql, err)
		    : wh_fail(err, WHERRY_INVALID, "matched.%s.sql is missing",
			      each->dialect);
}

wherry_code wh_match_each_open(const wh_plan_relay *relay, const char *dialect,
			       const wh_name *name, wh_match_each *out, wherry_error *err)
{
	out->options = wh_db_options_of(relay->config, &wh_env_system);
	out->options.create = false;
	out->options.busy_timeout_us = BUSY_US;
	out->dialect = dialect;
	out->name = *name;
	memcpy(out->schema, name->schema, sizeof(out->schema));
	return parse(out, err);
}

void wh_match_each_close(wh_match_each *each)
{
	wh_sql_clear(&each->sql);
}

static wherry_code take_counts(void *ctx, const wh_row *row, wherry_error *err)
{
	int64_t *counts = ctx;

	(void)err;
	counts[0] = wh_row_int(row, 0);
	counts[1] = wh_row_int(row, 1);
	return WHERRY_OK;
}

/* The schema of the table in this database. */
static wherry_code find_schema(wh_match_each *each, wherry_db *db, wherry_error *err)
{
	char schema[WH_NAME_MOST + 1];
	wherry_code code;

	if (*each->name.schema || !db->driver->connection.schema_of)
		return WHERRY_OK;
	code = wh_db_schema_of(db, each->name.table, false, schema, sizeof(schema), err);
	if (code != WHERRY_OK || strcmp(schema, each->schema) == 0)
		return code;
	memcpy(each->schema, schema, sizeof(schema));
	wh_sql_clear(&each->sql);
	code = parse(each, err);
	if (code != WHERRY_OK) /* Then the next look parses them again. */
		(void)snprintf(each->schema, sizeof(each->schema), "/");
	return code;
}

static void set_trouble(wh_match_row *row, wh_match_trouble trouble, const char *why)
{
	row->trouble = trouble;
	(void)snprintf(row->why, sizeof(row->why), "%.*s", (int)sizeof(row->why) - 1,
		       why);
}

/* Is the outbox there, and of the layout log? */
static wherry_code find_outbox(wh_match_each *each, wherry_db *db, wh_match_row *row,
			       wherry_error *err)
{
	const wh_stmt *is_log = wh_sql_find(&each->sql, "is-log");
	int64_t counts[2] = {0, 0}, log[2] = {0, 0};
	wherry_code code = wh_db_run(db, wh_sql_find(&each->sql, "has"), NULL, 0,
				     take_counts, counts, NULL, err);

	if (code == WHERRY_OK && counts[1])
		code = wh_db_run(db, is_log, NULL, 0, take_counts, log, NULL, err);
	if (code == WHERRY_OK && !log[0])
		set_trouble(
			row, WH_MATCH_NONE,
			counts[0] ? "its table is not an outbox of the layout log: name "
				    "it in a relay without match"
				  : "it has no such outbox: create it with `wherry "
				    "create`, or narrow the pattern");
	return code;
}

static wherry_code ask(wh_match_each *each, wherry_db *db, wh_match_row *row,
		       wherry_error *err)
{
	wherry_code code = find_schema(each, db, err);

	if (code == WHERRY_OK)
		code = find_outbox(each, db, row, err);
	if (code == WHERRY_OK && row->trouble == WH_MATCH_FINE)
		code = wh_db_run(db, wh_sql_find(&each->sql, "look"), NULL, 0,
				 wh_match_take_found, row, NULL, err);
	wh_db_forget(db, &each->sql);
	return code;
}

void wh_match_each_look(wh_match_each *each, const char *url, wh_match_row *row)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	wherry_code code = wh_db_open(url, &each->options, &db, &err);

	if (code == WHERRY_OK)
		code = ask(each, db, row, &err);
	wherry_db_close(db);
	if (code != WHERRY_OK)
		set_trouble(row, code == WHERRY_BUSY ? WH_MATCH_LOCKED : WH_MATCH_FAILED,
			    err.message);
}
