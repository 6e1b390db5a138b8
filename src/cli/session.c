#include "cli/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "config/settings.h"
#include "outbox/outbox.h"

static wh_exit refuse_delayed(const wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char *words = NULL;
	wh_exit status;

	if (wh_delayed_words(wh_operand(args, 0), &words, &err) != WHERRY_OK)
		return wh_usage(args->command, "%s", err.message);
	status = wh_usage(args->command,
			  "the URL names a delayed queue, and this is for outboxes; "
			  "`wherry delayed count%s` shows what is in it",
			  words);
	free(words);
	return status;
}

wh_exit wh_session_open(wh_session *s, const wh_args *args)
{
	const char *url = wh_operand(args, 0);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	*s = (wh_session){.table = wherry_config_get(args->config, "outbox.table"),
			  .target = args->target};
	if (wh_url_is_of(url, "queue"))
		return wh_refuse_queue(args);
	if (wh_url_is_of(url, "delayed"))
		return refuse_delayed(args);
	wh_url_mask(url, s->url, sizeof(s->url));
	code = wh_db_open_own(url, args->config, &s->db, &err);
	if (code == WHERRY_OK)
		code = wherry_outbox_open(s->db, s->table, &s->box, &err);
	if (code == WHERRY_OK) {
		s->box->store.body_max = wh_config_int(args->config, WH_OUTBOX_BODY_MAX);
		return WH_EXIT_DONE;
	}
	wh_session_close(s);
	/* A scheme or a name that cannot be is the command line's fault. */
	if (code == WHERRY_INVALID)
		return wh_usage(args->command, "%s", err.message);
	return wh_report(&err);
}

void wh_session_close(wh_session *s)
{
	wherry_outbox_close(s->box);
	wherry_db_close(s->db);
	s->box = NULL;
	s->db = NULL;
}
