#include "cli/delayed_session.h"

#include <inttypes.h>
#include <string.h>

#include "delayed/delayed.h"
#include "relay/names.h"

const char *wh_delayed_table(const wh_args *args)
{
	return *args->table.table ? args->table.table : "delayed";
}

static wh_exit with(const wh_args *args, const char *queue, wh_delayed_work work)
{
	wh_delayed_session s = {.queue = queue};
	const char *type = *args->table.type ? args->table.type : NULL;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	wh_exit status;

	wh_report_kinds(WHERRY_KIND_DELAYED);
	status = wh_place_open(&s.at, args);
	if (status != WH_EXIT_DONE)
		return status;
	/* The table is the same whichever of its queues is opened. */
	code = wherry_delayed_open(s.at.db, wh_delayed_table(args), queue ? queue : "any",
				   queue ? type : NULL, &s.delayed, &err);
	if (code == WHERRY_OK)
		wh_report_layout(s.delayed->store.layout.name);
	if (code == WHERRY_OK)
		status = work(args, &s);
	else if (code != WHERRY_NOTFOUND ||
		 !wh_tell_other(s.at.db, args, wh_delayed_table(args), &status)) {
		if (code == WHERRY_NOTFOUND && *args->table.table)
			wh_suggest(s.at.db, args->table.table, WHERRY_KIND_DELAYED, &err);
		status = wh_call_failed(args, code, &err);
	}
	wherry_delayed_close(s.delayed);
	wh_place_close(&s.at);
	return status;
}

wh_exit wh_with_delayed(const wh_args *args, wh_delayed_work work)
{
	return with(args, args->table.queue, work);
}

wh_exit wh_with_delayed_table(const wh_args *args, wh_delayed_work work)
{
	return with(args, NULL, work);
}
