/*
 * wherry create, for queues, delayed queues, inboxes and tables of schedules.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/create.h"
#include "cron/cron.h"
#include "delayed/delayed.h"
#include "inbox/groups.h"
#include "queue/queue.h"
#include "store/grants.h"

/* A table that is created. */
typedef struct making {
	const struct making_kind *kind;
	const wh_args *args;
	const char *name;   /* Of the table. */
	const char *layout; /* NULL: that of an existing table, else native. */
	wh_grants grants;
	union {
		wh_queue_stmts queue;
		wh_delayed_stmts delayed;
		wh_inbox_stmts inbox;
		wh_cron_stmts cron;
	} own; /* Receives the model's own statements. */
} making;

/* How a kind of table is created. */
typedef struct making_kind {
	const wh_model *model;
	const char *
		standard; /* The name of a table whose URL has none; NULL: it needs one. */
	/* Make the SQL that creates the table in a database of this scheme; free() *out. */
	wherry_code (*sql)(const making *m, const char *scheme, char **out,
			   wherry_error *err);
	wherry_code (*create)(const making *m, wherry_db *db, wherry_error *err);
	const char *what,
		*of; /* Words before and after the name of a table that is ready. */
} making_kind;

/* ---- each kind ---- */

static wherry_queue_options queue_options(const making *m)
{
	return WHERRY_QUEUE_OPTIONS(.layout = m->layout,
				    .payload = wh_arg(m->args, "payload"));
}

static wherry_code queue_sql(const making *m, const char *scheme, char **out,
			     wherry_error *err)
{
	const wherry_queue_options how = queue_options(m);

	return wherry_queue_create_sql(scheme, m->name, &how, out, err);
}

static wherry_code create_queue(const making *m, wherry_db *db, wherry_error *err)
{
	const wherry_queue_options how = queue_options(m);

	return wherry_queue_create(db, m->name, &how, err);
}

static wherry_code delayed_sql(const making *m, const char *scheme, char **out,
			       wherry_error *err)
{
	return wherry_delayed_create_sql(scheme, m->name, m->layout, out, err);
}

static wherry_code create_delayed(const making *m, wherry_db *db, wherry_error *err)
{
	return wherry_delayed_create(db, m->name, m->layout, err);
}

static wherry_code inbox_sql(const making *m, const char *scheme, char **out,
			     wherry_error *err)
{
	return wherry_inbox_create_sql(scheme, m->name, out, err);
}

static wherry_code create_inbox(const making *m, wherry_db *db, wherry_error *err)
{
	return wherry_inbox_create(db, m->name, err);
}

static wherry_code cron_sql(const making *m, const char *scheme, char **out,
			    wherry_error *err)
{
	return wherry_cron_create_sql(scheme, m->name, out, err);
}

static wherry_code create_cron(const making *m, wherry_db *db, wherry_error *err)
{
	return wherry_cron_create(db, m->name, err);
}

static const making_kind *kind_of(unsigned bit)
{
	static const struct {
		unsigned bit;
		making_kind kind;
	} kinds[] = {
		{WHERRY_KIND_QUEUE,
		 {&wh_queue_model, NULL, queue_sql, create_queue, "queue", ""}},
		{WHERRY_KIND_DELAYED,
		 {&wh_delayed_model, "delayed", delayed_sql, create_delayed, "the table",
		  " of delayed queues"}},
		{WHERRY_KIND_INBOX,
		 {&wh_inbox_model, "inbox", inbox_sql, create_inbox, "inbox", ""}},
		{WHERRY_KIND_CRON,
		 {&wh_cron_model, "cron", cron_sql, create_cron, "the table",
		  " of schedules"}},
	};
	size_t i = 0;

	while (kinds[i].bit != bit)
		i++;
	return &kinds[i].kind;
}

/* ---- rights ---- */

/* Append the SQL that grants rights to roles. */
static wherry_code add_grants(making *m, const char *scheme, char **inout,
			      wherry_error *err)
{
	const char *known = wh_db_scheme(wh_view_of(scheme));
	wh_store store = wh_store_init(NULL, m->kind->model);
	wh_buf text = WH_BUF_INIT(512 * 1024);
	wherry_code code = wh_store_load(&store, known, m->layout, m->name, &m->own, err);

	wh_buf_printf(&text, "%s-- rights of %s\nBEGIN TRANSACTION;\n", *inout, m->name);
	if (code == WHERRY_OK)
		code = wh_store_grant_sql(&store, known, m->grants.all, m->grants.n,
					  &text, err);
	wh_buf_puts(&text, "COMMIT;\n");
	if (code == WHERRY_OK)
		code = wh_buf_check(&text, err);
	free(*inout);
	*inout = code == WHERRY_OK ? wh_buf_take(&text) : NULL;
	wh_buf_clear(&text);
	wh_store_clear(&store);
	return code;
}

static wherry_code grant(making *m, wherry_db *db, wherry_error *err)
{
	wh_store store = wh_store_init(db, m->kind->model);
	wh_version version;
	wherry_code code;

	store.making = true; /* Look where the table was made. */
	code = wh_store_recognize(&store, m->name, &m->own, &version, err);
	if (code == WHERRY_OK)
		code = wh_store_grant(&store, m->grants.all, m->grants.n, err);
	wh_store_clear(&store);
	return code;
}

/* ---- the command ---- */

static wh_exit print_sql(making *m)
{
	const char *url = wh_operand(m->args, 0);
	size_t len = strcspn(url, ":");
	wherry_error err = WHERRY_ERROR_INIT;
	char scheme[16], *sql = NULL;
	wherry_code code;

	(void)snprintf(scheme, sizeof(scheme), "%.*s", (int)(len < 15 ? len : 15), url);
	code = m->kind->sql(m, scheme, &sql, &err);
	if (code == WHERRY_OK && m->grants.n)
		code = add_grants(m, scheme, &sql, &err);
	if (code != WHERRY_OK)
		return wh_report(&err);
	(void)fputs(sql, stdout);
	free(sql);
	return WH_EXIT_DONE;
}

/* Create the table, and then grant the rights on it. */
static wherry_code create(making *m, wherry_db *db, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (m->grants.n)
		code = wh_store_grant_ready(db, m->kind->model, m->layout, m->grants.all,
					    m->grants.n, err);
	if (code == WHERRY_OK)
		code = m->kind->create(m, db, err);
	return code == WHERRY_OK && m->grants.n ? grant(m, db, err) : code;
}

static void print_done(const making *m, unsigned kind)
{
	wh_buf text = WH_BUF_INIT(WH_OUTPUT_MOST);

	if (wh_arg_on(m->args, "json")) {
		wh_put_created(&text, m->args, kind, m->name);
		wh_buf_putc(&text, '}');
	} else {
		wh_buf_printf(&text, "%s '%s'%s is ready", m->kind->what, m->name,
			      m->kind->of);
		if (kind == WHERRY_KIND_QUEUE)
			wh_buf_printf(&text, ": `wherry send%s '{}'` sends a message",
				      m->args->target);
	}
	wh_print_buf(&text, "\n");
	wh_buf_clear(&text);
}

wh_exit wh_create_table(wh_args *args, unsigned kind)
{
	making m = {.kind = kind_of(kind),
		    .args = args,
		    .name = args->table.table,
		    .layout = wh_arg(args, "layout")};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	wh_exit status;
	wh_session at;

	if (!*m.name && m.kind->standard)
		m.name = m.kind->standard;
	if (!wh_arg_grants(args, &m.grants))
		return WH_EXIT_USAGE;
	if (wh_arg_on(args, "print"))
		return print_sql(&m);
	status = wh_session_connect(&at, args);
	if (status != WH_EXIT_DONE)
		return status;
	code = create(&m, at.db, &err);
	if (code != WHERRY_OK) {
		status = wh_call_failed(args, code, &err);
	} else {
		print_done(&m, kind);
		wh_audit(args, m.name, 0);
	}
	wh_session_close(&at);
	return status;
}
