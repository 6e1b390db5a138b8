/*
 * wherry create, for outboxes.
 */
#include "cli/create.h"
#include "cli/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/url.h"
#include "outbox/stream.h"
#include "store/grants.h"

/* Append the command line with the layout. */
static void put_with_layout(wh_buf *text, const wh_args *args, const char *layout)
{
	wh_buf_printf(text, ": run `wherry create%s", args->target);
	for (size_t i = 0; i < args->n_given; i++) {
		wh_buf_printf(text, " --%s", args->given[i].option->name);
		if (!args->given[i].option->value)
			continue;
		wh_buf_putc(text, ' ');
		wh_put_word(text, args->given[i].value);
	}
	wh_buf_printf(text, " --layout %s`", layout);
}

/* An invalid URL or name is an error of the command line. */
static wh_exit fail(const wh_args *args, const wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(64 * 1024);
	wh_exit status;

	if (err->code != WHERRY_INVALID)
		return wh_report(err);
	wh_buf_puts(&text, err->message);
	if (*err->layout)
		put_with_layout(&text, args, err->layout);
	status = wh_usage(args->command, "%s", wh_buf_str(&text));
	wh_buf_clear(&text);
	return status;
}

static wh_make making(const wh_args *args, const wh_grants *grants, int64_t segments)
{
	return (wh_make){
		.grants = grants->all,
		.n_grants = grants->n,
		.layout = wh_arg(args, "layout"),
		.payload = wh_arg(args, "payload"),
		.segments = segments,
		.extras = (wh_arg_on(args, "partitions") ? WH_PARTITIONS_SHARED : 0) |
			  (wh_arg_on(args, "unique-ids") ? WH_UNIQUE_IDS : 0) |
			  (segments ? WH_SEGMENTS : 0) |
			  (wh_arg_on(args, "stream") ? WH_STREAMED : 0),
	};
}

/* Open the database to find out what it lacks.  *out stays NULL if it does not exist,
 * the URL is only a scheme, or --all is given: then everything is lacking. */
static wherry_code open_to_compare(const wh_args *args, const wh_url *url,
				   wherry_db **out, wherry_error *err)
{
	wh_db_options options = wh_db_options_of(args->config, &wh_env_system);
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;

	if (wh_arg_on(args, "all") || !url->rest.len || *url->rest.ptr == '#')
		return WHERRY_OK;
	options.create = false;
	code = wh_db_open(wh_operand(args, 0), &options, out, &why);
	if (code == WHERRY_OK || code == WHERRY_NOTFOUND)
		return WHERRY_OK;
	return wh_fail(err, code, "%s; --print --all prints all of it without looking",
		       why.message);
}

static wh_exit print_sql(const wh_args *args, wh_make *how, const char *table)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char scheme[32], *sql = NULL;
	wherry_db *db = NULL;
	wherry_code code;
	wh_url url;

	code = wh_url_parse(wh_operand(args, 0), &url, &err);
	if (code == WHERRY_OK)
		code = open_to_compare(args, &url, &db, &err);
	if (code == WHERRY_OK) {
		how->lacking = db;
		(void)snprintf(scheme, sizeof(scheme), "%.*s", (int)url.scheme.len,
			       url.scheme.ptr);
		code = wh_outbox_make_sql(scheme, how, table, &sql, &err);
	}
	wherry_db_close(db);
	if (code != WHERRY_OK)
		return fail(args, &err);
	(void)fputs(sql, stdout);
	free(sql);
	return WH_EXIT_DONE;
}

static const char *what_was_done(const wh_made *made)
{
	if (!made->from)
		return "made";
	if (made->from != made->to)
		return "upgraded";
	return made->repaired ? "repaired" : "unchanged";
}

static void put_done(wh_buf *text, const wh_made *made, const char *table,
		     const char *url)
{
	wh_buf_printf(text, "outbox '%s' is ready in %s: ", table, url);
	if (!made->from)
		wh_buf_puts(text, "it was made");
	else if (made->from != made->to)
		wh_buf_printf(text, "it was upgraded from version %d to %d", made->from,
			      made->to);
	else if (made->repaired)
		wh_buf_puts(text, "what was missing was added");
	else
		wh_buf_puts(text, "it was there, and is up to date");
}

static void print_done(const wh_args *args, const wh_made *made, const char *table)
{
	wh_buf text = WH_BUF_INIT(WH_OUTPUT_MOST);
	char url[200];

	wh_show_database(wh_operand(args, 0), url, sizeof(url));
	if (wh_arg_on(args, "json")) {
		wh_put_created(&text, args, WHERRY_KIND_OUTBOX, table);
		wh_buf_printf(&text, ",\"did\":\"%s\",\"from\":%d,\"to\":%d}",
			      what_was_done(made), made->from, made->to);
	} else {
		put_done(&text, made, table, url);
	}
	wh_print_buf(&text, "\n");
	wh_buf_clear(&text);
}

/* Create the slot, unless a relay without marks has left its position: it would take the
 * new slot for its own, and leave out what was committed before. */
static wherry_code make_slot(wh_wal *wal, wherry_error *err)
{
	wh_wal_stored position = {0};
	wherry_code code = wh_wal_read_stored(wal, &position, err);

	if (code == WHERRY_OK && position.known && strcmp(position.slot, wal->slot) == 0)
		code = wh_wal_gone(wal, position.at, err);
	return code == WHERRY_OK ? wh_wal_make(wal, err) : code;
}

/* Create the publication of a log, whose relays make their own slots. */
static wherry_code publish(const wh_args *args, wherry_outbox *outbox, wh_made *made,
			   wherry_error *err)
{
	wh_wal_state state = {0};
	wh_wal *wal = NULL;
	wherry_code code = wh_wal_open_log(
		outbox, wherry_config_get(args->config, "stream.publication"), &wal, err);

	if (code == WHERRY_OK)
		code = wh_wal_publish_again(wal, err);
	if (code == WHERRY_OK)
		code = wh_wal_look(wal, &state, err);
	if (code == WHERRY_OK && !state.published)
		code = wh_wal_publish(wal, err);
	made->repaired = made->repaired || !state.published;
	wh_wal_close(wal);
	return code;
}

/* Create the publication, the replication slot, and the tables that a relay without marks
 * needs. */
static wherry_code make_stream(const wh_args *args, wherry_db *db, const char *table,
			       wh_made *made, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wh_wal_state state = {0};
	wh_wal *wal = NULL;
	wherry_code code = wh_outbox_open_made(db, table, &outbox, err);

	if (code == WHERRY_OK && outbox->store.stmt.read_log) {
		code = publish(args, outbox, made, err);
		wherry_outbox_close(outbox);
		return code;
	}
	if (code == WHERRY_OK)
		code = wh_wal_open(outbox, wherry_config_get(args->config, "stream.slot"),
				   wherry_config_get(args->config, "stream.publication"),
				   &wal, err);
	if (code == WHERRY_OK)
		code = wh_wal_publish_again(wal, err);
	if (code == WHERRY_OK)
		code = wh_wal_look(wal, &state, err);
	if (code == WHERRY_OK)
		code = wh_wal_check(wal, &state, err);
	if (code == WHERRY_OK && !state.published)
		code = wh_wal_publish(wal, err);
	if (code == WHERRY_OK)
		code = wh_wal_tables(wal, err);
	if (code == WHERRY_OK && !state.has_slot)
		code = make_slot(wal, err);
	made->repaired = made->repaired || !state.published || !state.has_slot;
	wh_wal_close(wal);
	wherry_outbox_close(outbox);
	return code;
}

/* Check that the table has its columns.  Add it to the publication again: it may have been
 * dropped and created again. */
static wherry_code publish_again(const wh_args *args, wherry_db *db, const char *table,
				 wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wh_wal *wal = NULL;
	wherry_code code = wh_outbox_open_made(db, table, &outbox, err);

	if (code == WHERRY_OK)
		code = wh_outbox_probe(outbox, err);
	if (code == WHERRY_OK &&
	    wh_wal_open(outbox, "", wherry_config_get(args->config, "stream.publication"),
			&wal, NULL) == WHERRY_OK)
		code = wh_wal_publish_again(wal, err);
	wh_wal_close(wal);
	wherry_outbox_close(outbox);
	return code;
}

/* Check --grant before anything is created. */
static wherry_code check_grants(const wh_args *args, const wh_make *how,
				wherry_error *err)
{
	char scheme[32];
	wh_url url;
	wherry_code code = wh_url_parse(wh_operand(args, 0), &url, err);

	if (code != WHERRY_OK)
		return code;
	(void)snprintf(scheme, sizeof(scheme), "%.*s", (int)url.scheme.len,
		       url.scheme.ptr);
	return wh_store_grant_check(&wh_outbox_model, scheme, how->grants, how->n_grants,
				    err);
}

/* Grant the roles their rights on the tables as they are now. */
static wherry_code grant(wherry_db *db, const wh_make *how, const char *table,
			 wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_code code = wh_outbox_open_made(db, table, &outbox, err);

	if (code == WHERRY_OK)
		code = wh_store_grant(&outbox->store, how->grants, how->n_grants, err);
	wherry_outbox_close(outbox);
	return code;
}

wh_exit wh_create_outbox(wh_args *args)
{
	static const wh_without of_subscriptions[] = {
		{"topics", "name a subscription, as in sqlite:shop.db#outbox/audit"},
		{"from", "name a subscription, as in sqlite:shop.db#outbox/audit"},
		{"yes", "name a subscription, as in sqlite:shop.db#outbox/audit"},
		{NULL, NULL},
	};
	const char *table = wh_outbox_name(args);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t segments = 0;
	wherry_db *db = NULL;
	wherry_code code;
	wh_grants grants;
	wh_made made = {0};
	wh_make how;

	if (!wh_allows(args, of_subscriptions) || !wh_arg_grants(args, &grants))
		return WH_EXIT_USAGE;
	if (!wh_arg_count(args, "segments", WH_SEGMENT_LEAST, WH_SEGMENT_MOST, &segments))
		return WH_EXIT_USAGE;
	how = making(args, &grants, segments);
	if (how.layout && strcmp(how.layout, "adopted") == 0)
		return wh_usage(
			args->command,
			"--layout adopted: `wherry adopt` reads a table of another program as an outbox");
	how.made = &made;
	if (wh_arg_on(args, "print"))
		return print_sql(args, &how, table);
	code = check_grants(args, &how, &err);
	if (code == WHERRY_OK)
		code = wh_db_open_own(wh_operand(args, 0), args->config, &db, &err);
	if (code == WHERRY_OK)
		code = wh_store_grant_ready(db, &wh_outbox_model, how.layout, how.grants,
					    how.n_grants, &err);
	if (code == WHERRY_OK)
		code = wh_outbox_make(db, &how, table, &err);
	if (code == WHERRY_OK && wh_arg_on(args, "stream"))
		code = make_stream(args, db, table, &made, &err);
	else if (code == WHERRY_OK)
		code = publish_again(args, db, table, &err);
	if (code == WHERRY_OK && how.n_grants)
		code = grant(db, &how, table, &err);
	wherry_db_close(db);
	if (code != WHERRY_OK)
		return fail(args, &err);
	print_done(args, &made, table);
	wh_audit(args, table, 0);
	return WH_EXIT_DONE;
}
