#include "cli/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "config/settings.h"
#include "relay/names.h"
#include "relay/source.h"

/* Print a failure and close the session.  An invalid scheme or name is an error of the
 * command line. */
static wh_exit fail(wh_session *s, const wh_args *args, wherry_code code,
		    const wherry_error *err)
{
	wh_session_close(s);
	return wh_call_failed(args, code, err);
}

wh_exit wh_session_connect(wh_session *s, const wh_args *args)
{
	const char *url = wh_operand(args, 0);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	*s = (wh_session){.table = wh_outbox_name(args), .target = args->target};
	wh_show_database(url, s->url, sizeof(s->url));
	code = wh_db_open_own(url, args->config, &s->db, &err);
	return code == WHERRY_OK ? WH_EXIT_DONE : fail(s, args, code, &err);
}

const char *wh_outbox_name(const wh_args *args)
{
	return *args->table.table ? args->table.table
				  : wh_config_text(args->config, WH_RELAY_TABLE);
}

/* There is no outbox of this name: is it that of another table? */
static wh_exit explain(wh_session *s, const wh_args *args, wherry_error *err)
{
	const wh_for_kind *kinds = args->command->kinds;
	const unsigned all = WHERRY_KIND_OUTBOX | WHERRY_KIND_QUEUE |
			     WHERRY_KIND_DELAYED | WHERRY_KIND_INBOX;
	wh_source source = {.store = NULL};
	wh_exit status;

	if (!wh_tell_other(s->db, args, s->table, &status)) {
		if (*args->table.table && kinds && kinds[WH_OF_INBOX].run) {
			(void)wh_fail(err, WHERRY_NOTFOUND,
				      "there is no table '%s' of Wherry", s->table);
			(void)wh_repair(err, WHERRY_NOTFOUND, WHERRY_REPAIR_CREATE,
					WHERRY_KIND_OUTBOX | WHERRY_KIND_QUEUE |
						WHERRY_KIND_INBOX,
					s->table);
			wh_suggest(s->db, s->table, all, err);
		} else if (kinds && kinds[WH_OF_QUEUE].run) {
			/* It says that there is neither an outbox nor a queue. */
			(void)wh_source_open_set(s->db, args->config, &source, err);
			wh_source_close(&source);
		} else if (*args->table.table) {
			wh_suggest(s->db, s->table,
				   WHERRY_KIND_OUTBOX | WHERRY_KIND_QUEUE, err);
		}
		status = wh_call_failed(args, WHERRY_NOTFOUND, err);
	}
	wh_session_close(s);
	return status;
}

wh_exit wh_session_open(wh_session *s, const wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status = wh_session_connect(s, args);
	wherry_code code;

	if (status != WH_EXIT_DONE)
		return status;
	code = wherry_outbox_open(s->db, s->table, &s->outbox, &err);
	if (code == WHERRY_NOTFOUND)
		return explain(s, args, &err);
	if (code != WHERRY_OK)
		return fail(s, args, code, &err);
	wh_report_layout(s->outbox->store.layout.name);
	s->outbox->store.body_max = wh_config_int(args->config, WH_OUTBOX_BODY_MAX);
	return WH_EXIT_DONE;
}

void wh_session_close(wh_session *s)
{
	wherry_outbox_close(s->outbox);
	wherry_db_close(s->db);
	s->outbox = NULL;
	s->db = NULL;
}
