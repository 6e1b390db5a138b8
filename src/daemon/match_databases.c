/*
 * Outboxes of the databases of a PostgreSQL server that a query lists.  A database is open only while it is looked at, or
 * while a relay runs for it, since listening would take a connection to each.  The server counts the rows that are
 * written to each database; this connection reads these counters once a second, and a database with another number is
 * looked at.  The key of a database is its oid.
 */
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "daemon/match_driver.h"
#include "db/driver.h"
#include "relay/source.h"

enum { HEAR_US = WH_SECOND, PROBE_US = 300 * WH_SECOND, LOOK_MOST = 4 };

/* The rows that were written to a database. */
typedef struct counted {
	int64_t key, rows;
} counted;

typedef struct databases {
	wh_match_db base;
	char *url; /* Of the database that the query runs in. */
	wherry_db *db;
	wh_match_each each;
	wh_stmt list, counters;
	bool has_list, has_counters;
	counted *counts; /* In the order of their keys. */
	size_t n;
	int64_t hear_us; /* When to read the counters again. */
	/* Of one reading: where to write what was heard. */
	wh_heard *heard;
	size_t n_heard, most;
	size_t most_rows; /* Of a list. */
	wh_match_row *rows;
	char *match;
} databases;

static void close_databases(wh_match_db *base)
{
	databases *d = (databases *)base;
	const wh_sql list = {.stmts = &d->list, .n = 1},
		     counters = {.stmts = &d->counters, .n = 1};

	if (d->db && d->has_list)
		wh_db_forget(d->db, &list);
	if (d->db && d->has_counters)
		wh_db_forget(d->db, &counters);
	wherry_db_close(d->db);
	if (d->has_list)
		wh_stmt_clear(&d->list);
	if (d->has_counters)
		wh_stmt_clear(&d->counters);
	wh_match_each_close(&d->each);
	free(d->counts);
	free(d->match);
	free(d->url);
	free(d);
}

/* The query as a part of another one, in which it has no semicolon at its end. */
static wherry_code make_list(databases *d, const char *query, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(64 * 1024);
	size_t len = strlen(query);
	wherry_code code;

	while (len && strchr(" \t\r\n;", query[len - 1]))
		len--;
	wh_buf_printf(
		&text,
		"SELECT d.datname::text, d.oid::bigint FROM pg_database AS d WHERE "
		"d.datallowconn AND d.datname::text IN (SELECT q.name::text FROM (%.*s\n) AS "
		"q(name)) ORDER BY 2",
		(int)len, query);
	code = wh_buf_check(&text, err);
	if (code == WHERRY_OK)
		code = wh_stmt_make("postgres", "databases", wh_buf_str(&text), &d->list,
				    err);
	d->has_list = code == WHERRY_OK;
	wh_buf_clear(&text);
	return code;
}

static wherry_code make_counters(databases *d, wherry_error *err)
{
	wherry_code code = wh_stmt_make(
		"postgres", "counters",
		"SELECT datid::bigint, (tup_inserted + tup_updated + tup_deleted)::bigint "
		"FROM pg_stat_database WHERE datid <> 0 ORDER BY 1",
		&d->counters, err);

	d->has_counters = code == WHERRY_OK;
	return code;
}

static wherry_code connect_to(databases *d, const wh_plan_relay *relay, wherry_error *err)
{
	wh_db_options options = wh_db_options_of(relay->config, &wh_env_system);
	wherry_code code;

	options.create = false;
	options.app_sql = true; /* The query is the operator's. */
	code = wh_db_open(d->url, &options, &d->db, err);
	return code == WHERRY_OK
		       ? wh_db_script(d->db, "SET default_transaction_read_only = on",
				      err)
		       : code;
}

static wherry_code open_databases(const wh_plan_relay *relay, wh_match_db **out,
				  wherry_error *err)
{
	databases *d = calloc(1, sizeof(*d));
	wherry_config *config = NULL;
	wherry_code code;

	if (!d)
		return wh_oom(err);
	d->base.driver = &wh_match_databases;
	d->match = strdup(relay->match.value);
	code = d->match ? wh_config_copy(relay->config, &config, err) : wh_oom(err);
	if (code == WHERRY_OK)
		code = wh_source_take_url(relay->from.value, config, &d->url, err);
	if (code == WHERRY_OK)
		code = wh_name_parse(wh_config_text(config, WH_RELAY_TABLE), true,
				     &d->base.name, err);
	if (code == WHERRY_OK)
		code = wh_match_each_open(relay, "postgres", &d->base.name, &d->each,
					  err);
	if (code == WHERRY_OK)
		code = make_list(d, relay->databases.value, err);
	if (code == WHERRY_OK)
		code = make_counters(d, err);
	if (code == WHERRY_OK)
		code = connect_to(d, relay, err);
	wherry_config_free(config);
	if (code == WHERRY_OK)
		*out = &d->base;
	else
		close_databases(&d->base);
	return code;
}

static int databases_fd(const wh_match_db *base)
{
	(void)base;
	return -1;
}

/* ---- the list ---- */

static wherry_code take_database(void *ctx, const wh_row *row, wherry_error *err)
{
	databases *d = ctx;
	wh_match_row *to = &d->rows[d->n_heard];

	(void)err;
	if (d->n_heard == d->most_rows || !wh_match_fits(d->match, wh_row_text(row, 0)))
		return WHERRY_OK;
	*to = (wh_match_row){.key = wh_row_int(row, 1)};
	(void)snprintf(to->schema, sizeof(to->schema), "%s", wh_row_text(row, 0));
	d->n_heard++;
	return WHERRY_OK;
}

static wherry_code list_databases(wh_match_db *base, wh_match_row *out, size_t most,
				  size_t *out_n, wherry_error *err)
{
	databases *d = (databases *)base;
	wherry_code code;

	d->rows = out;
	d->most_rows = most;
	d->n_heard = 0;
	code = wh_db_run(d->db, &d->list, NULL, 0, take_database, d, NULL, err);
	*out_n = d->n_heard;
	d->rows = NULL;
	return code;
}

/* ---- counters ---- */

static int by_key(const void *a, const void *b)
{
	int64_t one = ((const counted *)a)->key, other = ((const counted *)b)->key;

	return (one > other) - (one < other);
}

static wherry_code take_counter(void *ctx, const wh_row *row, wherry_error *err)
{
	databases *d = ctx;
	counted now = {wh_row_int(row, 0), wh_row_int(row, 1)}, *grown;
	counted *known =
		d->n ? bsearch(&now, d->counts, d->n, sizeof(now), by_key) : NULL;

	if (known && known->rows == now.rows)
		return WHERRY_OK;
	if (d->n_heard == d->most)
		return WHERRY_OK; /* It is still another one the next time. */
	d->heard[d->n_heard++] = (wh_heard){.key = now.key, .rows = true};
	if (known) {
		known->rows = now.rows;
		return WHERRY_OK;
	}
	grown = reallocarray(d->counts, d->n + 1, sizeof(*grown));
	if (!grown)
		return wh_oom(err);
	d->counts = grown;
	d->counts[d->n++] = now;
	qsort(d->counts, d->n, sizeof(*d->counts), by_key);
	return WHERRY_OK;
}

static size_t databases_heard(wh_match_db *base, wh_heard *out, size_t most)
{
	databases *d = (databases *)base;
	int64_t now = wh_monotonic(&wh_env_system);

	if (now < d->hear_us)
		return 0;
	d->heard = out;
	d->most = most;
	d->n_heard = 0;
	if (wh_db_run(d->db, &d->counters, NULL, 0, take_counter, d, NULL, NULL) !=
	    WHERRY_OK) {
		out[0] = (wh_heard){.key = 0};
		d->n_heard = 1;
	}
	d->hear_us = d->n_heard == most ? now : now + HEAR_US;
	d->heard = NULL;
	return d->n_heard;
}

/* ---- looking ---- */

/* The URL with another database, as a parameter, which counts more than the path. */
static char *url_of(const wh_match_db *base, const wh_match_row *row)
{
	const char *url = ((const databases *)base)->url;
	wh_buf text = WH_BUF_INIT(8192);
	char *out;

	wh_buf_printf(&text, "%s%sdbname=", url, strchr(url, '?') ? "&" : "?");
	for (const unsigned char *p = (const unsigned char *)row->schema; *p; p++)
		if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			   "_-.",
			   *p))
			wh_buf_putc(&text, (char)*p);
		else
			wh_buf_printf(&text, "%%%02X", *p);
	out = wh_buf_check(&text, NULL) == WHERRY_OK ? wh_buf_take(&text) : NULL;
	wh_buf_clear(&text);
	return out;
}

static wherry_code look_at_databases(wh_match_db *base, wh_match_row *const *rows,
				     size_t n, wherry_error *err)
{
	databases *d = (databases *)base;

	for (size_t i = 0; i < n; i++) {
		char *url = url_of(base, rows[i]);

		if (!url)
			return wh_oom(err);
		wh_match_each_look(&d->each, url, rows[i]);
		free(url);
	}
	return WHERRY_OK;
}

const wh_match_driver wh_match_databases = {
	.what = "database",
	.none = "the query lists no database that exists and matches; it runs again every "
		"five seconds",
	.none_has = "databases match, and none has such an outbox of the layout log: "
		    "create them with `wherry create`",
	.look_most = LOOK_MOST,
	.hear_us = HEAR_US,
	.probe_us = PROBE_US,
	.open = open_databases,
	.close = close_databases,
	.fd = databases_fd,
	.list = list_databases,
	.heard = databases_heard,
	.look = look_at_databases,
	.url = url_of,
};
