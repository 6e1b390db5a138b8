/*
 * status, purge and drop on an inbox.
 */
#include "cli/on_inbox.h"
#include "cli/status.h"

#include <inttypes.h>
#include <string.h>

#include "inbox/groups.h"

/* ---- status ---- */

wh_exit wh_on_inbox_status(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0, oldest_us = 0;
	wh_buf buf = WH_BUF_INIT(WH_OUTPUT_MOST);
	char age[WH_SPAN_LEN];

	if (wherry_inbox_count(s->inbox, &n, &oldest_us, &err) != WHERRY_OK)
		return wh_report(&err);
	if (wh_arg_on(args, "json")) {
		wh_put_place(&buf, s, "native");
		wh_put_number_field(&buf, "ids", n);
		wh_put_number_field(&buf, "oldest_us", oldest_us);
		wh_print_status_json(&buf, wh_inbox_version(s->inbox),
				     &(wh_warned){.n = 0});
		return WH_EXIT_DONE;
	}
	wh_print_place(s, NULL, false);
	wh_print_line("ids", "%" PRId64 "%s%s", n, n ? ", the oldest for " : "",
		      n ? wh_span_text(oldest_us, age) : "");
	return WH_EXIT_DONE;
}

/* ---- purge, drop ---- */

wh_exit wh_on_inbox_purge(const wh_args *args, wh_session *s)
{
	int64_t age_us = 0, batch = 1000, n = 0, old = 0;
	const char *age;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	wh_exit status;

	if (!wh_arg_duration(args, "older-than", &age_us) ||
	    !wh_arg_count(args, "batch", 1, 100000, &batch))
		return WH_EXIT_USAGE;
	age = age_us ? wh_arg(args, "older-than") : "";
	code = wherry_inbox_count(s->inbox, &n, NULL, &err);
	if (code == WHERRY_OK && wh_is_dry(args))
		code = wh_inbox_count_old(s->inbox, age_us, &old, &err);
	if (code == WHERRY_OK &&
	    !wh_confirm(args, s->db, &status,
			"delete all ids of inbox '%s'%s%s%s, of %" PRId64 " id%s",
			s->table, *age ? " that were accepted longer than " : "", age,
			*age ? " ago" : "", n, wh_plural(n)))
		return status;
	n = 0;
	if (code == WHERRY_OK)
		code = wherry_inbox_purge(s->inbox, age_us, batch, 0, &n, &err);
	if (wh_is_dry(args))
		n = old;
	if (n)
		wh_audit(args, s->table, n);
	if (code != WHERRY_OK)
		return wh_report(&err);
	wh_print_deleted(args, (const wh_count[]){{"purged", n}, {NULL, 0}},
			 "%" PRId64 " id%s purged", n, wh_plural(n));
	return WH_EXIT_DONE;
}

wh_exit wh_on_inbox_drop(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status;
	int64_t n = 0;

	if (wherry_inbox_count(s->inbox, &n, NULL, &err) != WHERRY_OK)
		return wh_report(&err);
	if (!wh_confirm(args, s->db, &status, "delete inbox '%s' with %" PRId64 " id%s",
			s->table, n, wh_plural(n)))
		return status;
	if (wherry_inbox_drop(s->inbox, &err) != WHERRY_OK)
		return wh_report(&err);
	wh_audit(args, s->table, n);
	wh_print_deleted(args, (const wh_count[]){{"ids", n}, {NULL, 0}},
			 "inbox '%s' is gone, with %" PRId64 " id%s", s->table, n,
			 wh_plural(n));
	return WH_EXIT_DONE;
}
