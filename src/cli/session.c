/*
 * The table that a command works on, of any kind.
 */
#include <string.h>

#include <wherry/subscription.h>

#include "base/url.h"
#include "cli/target.h"
#include "config/settings.h"
#include "delayed/delayed.h"
#include "inbox/groups.h"
#include "outbox/outbox.h"
#include "queue/queue.h"
#include "relay/names.h"
#include "relay/source.h"

wh_exit wh_session_connect(wh_session *s, const wh_args *args)
{
	const char *url = wh_operand(args, 0);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	*s = (wh_session){.kind = WH_KINDS, .target = args->target};
	wh_show_database(url, s->url, sizeof(s->url));
	code = wh_db_open_own(url, args->config, &s->db, &err);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_call_failed(args, code, &err);
}

const char *wh_outbox_name(const wh_args *args)
{
	return *args->table.table ? args->table.table
				  : wh_config_text(args->config, WH_RELAY_TABLE);
}

/* The name of the table that the URL names, or of the default one. */
static const char *table_of(const wh_args *args, wh_kind kind)
{
	if (kind == WH_OF_OUTBOX)
		return wh_outbox_name(args);
	if (*args->table.table || kind == WH_OF_QUEUE)
		return args->table.table;
	return kind == WH_OF_INBOX ? "inbox" : "delayed";
}

wherry_code wh_session_try(wh_session *s, const wh_args *args, wh_kind kind,
			   wherry_error *err)
{
	const char *table = table_of(args, kind), *queue = args->table.queue;
	const char *type = *args->table.type ? args->table.type : NULL;
	wherry_code code = WHERRY_UNSUPPORTED;

	s->kind = kind;
	s->table = kind == WH_OF_DELAYED ? wh_url_table(wh_operand(args, 0)) : table;
	if (kind == WH_OF_OUTBOX)
		code = *queue ? wherry_subscription_open(s->db, table, queue, &s->outbox,
							 err)
			      : wherry_outbox_open(s->db, table, &s->outbox, err);
	else if (kind == WH_OF_QUEUE)
		code = wherry_queue_open(s->db, table, &s->queue, err);
	else if (kind == WH_OF_DELAYED)
		code = wherry_delayed_open(s->db, table, queue, type, &s->delayed, err);
	else if (kind == WH_OF_DELAYED_TABLE)
		/* The table is the same whichever of its queues is opened. */
		code = wherry_delayed_open(s->db, table, "any", NULL, &s->delayed, err);
	else if (kind == WH_OF_INBOX)
		code = wherry_inbox_open(s->db, table, &s->inbox, err);
	if (code != WHERRY_OK)
		return code;
	if (s->outbox)
		s->store = &s->outbox->store;
	else if (s->queue)
		s->store = &s->queue->store;
	else if (s->delayed)
		s->store = &s->delayed->store;
	wh_report_layout(s->store ? s->store->layout.name : "native");
	if (s->outbox)
		s->store->body_max = wh_config_int(args->config, WH_OUTBOX_BODY_MAX);
	return WHERRY_OK;
}

/* There is no outbox of this name.  A command for other kinds, too, says that it has none of
 * those. */
static void explain(wh_session *s, const wh_args *args, wherry_error *err)
{
	const unsigned all = WHERRY_KIND_OUTBOX | WHERRY_KIND_QUEUE |
			     WHERRY_KIND_DELAYED | WHERRY_KIND_INBOX;
	const wh_command *command = args->command;
	wh_source source = {.store = NULL};

	if (*args->table.table && wh_is_for(command, WH_OF_INBOX)) {
		(void)wh_fail(err, WHERRY_NOTFOUND, "there is no table '%s' of Wherry",
			      s->table);
		(void)wh_repair(err, WHERRY_NOTFOUND, WHERRY_REPAIR_CREATE,
				all & ~(unsigned)WHERRY_KIND_DELAYED, s->table);
		wh_suggest(s->db, s->table, all, err);
	} else if (wh_is_for(command, WH_OF_QUEUE)) {
		(void)wh_source_open_set(s->db, args->config, &source, err);
		wh_source_close(&source);
	} else if (*args->table.table) {
		wh_suggest(s->db, s->table, WHERRY_KIND_OUTBOX | WHERRY_KIND_QUEUE, err);
	}
}

/* The table was not found: is it one of another kind, or has it another name? */
static wh_exit missing(wh_session *s, const wh_args *args, wherry_error *err)
{
	wh_exit status;

	if (s->kind == WH_OF_OUTBOX &&
	    (*args->table.queue || err->repair == WHERRY_REPAIR_DOCTOR))
		/* There is an outbox, or was. */
		return wh_call_failed(args, WHERRY_NOTFOUND, err);
	if (wh_tell_other(s->db, args, table_of(args, s->kind), &status))
		return status;
	if (s->kind == WH_OF_OUTBOX)
		explain(s, args, err);
	else if (*args->table.table)
		wh_suggest(s->db, args->table.table, wh_kind_bits[s->kind], err);
	return wh_call_failed(args, WHERRY_NOTFOUND, err);
}

wh_exit wh_session_table(wh_session *s, const wh_args *args, wh_kind kind)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	if (kind != WH_OF_OUTBOX)
		wh_report_kinds(wh_kind_bits[kind]);
	code = wh_session_try(s, args, kind, &err);
	if (code == WHERRY_OK)
		return WH_EXIT_DONE;
	return code == WHERRY_NOTFOUND ? missing(s, args, &err)
				       : wh_call_failed(args, code, &err);
}

wh_exit wh_session_open(wh_session *s, const wh_args *args, wh_kind kind)
{
	wh_exit status = wh_session_connect(s, args);

	if (status == WH_EXIT_DONE)
		status = wh_session_table(s, args, kind);
	if (status != WH_EXIT_DONE)
		wh_session_close(s);
	return status;
}

void wh_session_close(wh_session *s)
{
	wherry_outbox_close(s->outbox);
	wherry_queue_close(s->queue);
	wherry_delayed_close(s->delayed);
	wherry_inbox_close(s->inbox);
	wherry_db_close(s->db);
	wh_report_kinds(0);
	*s = (wh_session){.kind = WH_KINDS};
}
