#include "cli/cron_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "base/env.h"
#include "cron/cron.h"
#include "daemon/tick_writer.h"
#include "schedule/schedule.h"

/* A table of schedules, and a delayed queue. */
typedef struct cron_session {
	wh_session at;
	wherry_cron *cron;
	wherry_delayed *queue;
	wherry_schedule *schedule;
	const char *prefix;
} cron_session;

enum { OPENS_CRON = 1, OPENS_QUEUE = 2 };

static void leave(cron_session *s)
{
	wherry_schedule_free(s->schedule);
	wherry_delayed_close(s->queue);
	wherry_cron_close(s->cron);
	wh_session_close(&s->at);
}

/* The name of the table of schedules.  Where the URL names a delayed queue, --cron names
 * it. */
static const char *cron_of(const wh_args *args)
{
	const char *name =
		wh_arg_known(args, "cron") ? wh_arg(args, "cron") : args->table.table;

	return name && *name ? name : "cron";
}

static wh_exit enter(cron_session *s, const wh_args *args, unsigned what)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	wh_exit status;

	*s = (cron_session){.prefix = wh_operand(args, 1)};
	if (wh_arg_known(args, "cron"))
		wh_report_kinds(WHERRY_KIND_CRON | WHERRY_KIND_DELAYED);
	status = wh_session_connect(&s->at, args);
	if (status != WH_EXIT_DONE)
		return status;
	if (what & OPENS_QUEUE)
		code = wherry_schedule_parse(wh_operand(args, 2), wh_arg(args, "zone"),
					     &s->schedule, &err);
	if (code == WHERRY_OK && (what & OPENS_CRON))
		code = wherry_cron_open(s->at.db, cron_of(args), &s->cron, &err);
	if (code == WHERRY_OK && (what & OPENS_QUEUE))
		code = wherry_delayed_open(s->at.db, args->table.table, args->table.queue,
					   *args->table.type ? args->table.type : NULL,
					   &s->queue, &err);
	if (code == WHERRY_OK)
		return WH_EXIT_DONE;
	status = wh_call_failed(args, code, &err);
	leave(s);
	return status;
}

#define CRON_OPTION                                                                      \
	{                                                                                \
		"cron", "TABLE", "The table of schedules. (default cron)", NULL, 0       \
	}
#define ZONE_OPTION                                                                      \
	{                                                                                \
		"zone", "NAME",                                                          \
			"The schedule's zone, such as Europe/Berlin. (default UTC)",     \
			NULL, 0                                                          \
	}

/* ---- install ---- */

static bool take_catch_up(const wh_args *args, wherry_catch_up *out)
{
	static const char *const words[] = {"none", "last", "all"};
	const char *word = wh_arg(args, "catch-up");

	for (int i = 0; word && i < 3; i++)
		if (strcmp(word, words[i]) == 0) {
			*out = (wherry_catch_up)i;
			return true;
		}
	if (word)
		(void)wh_usage(args->command, "--catch-up %s: write none, last or all",
			       word);
	return !word;
}

static void print_installed(const wh_cron_ahead *how, bool json)
{
	char up_to[WH_LOCAL_TIME_LEN] = "";

	if (how->up_to_us)
		wh_local_time_print(how->up_to_us, 0, up_to);
	if (json)
		(void)printf("{\"installed\":%" PRId64 "%s%s%s}\n", how->created,
			     *up_to ? ",\"up_to\":\"" : "", up_to, *up_to ? "\"" : "");
	else
		(void)printf("%" PRId64 " tick%s installed%s%s%s\n", how->created,
			     wh_plural(how->created), *up_to ? ", up to " : "", up_to,
			     *up_to ? ": run it again for more" : "");
}

static wh_exit run_install(wh_args *args)
{
	const char *body = wh_arg(args, "body") ? wh_arg(args, "body") : "";
	wherry_error err = WHERRY_ERROR_INIT;
	wh_cron_ahead how = {.body = body, .body_len = strlen(body)};
	cron_session s;
	wherry_code code;
	wh_exit status;

	if (!wh_arg_duration(args, "ahead", &how.ahead_us) ||
	    !take_catch_up(args, &how.catch_up))
		return WH_EXIT_USAGE;
	status = enter(&s, args, OPENS_CRON | OPENS_QUEUE);
	if (status != WH_EXIT_DONE)
		return status;
	how.schedule = s.schedule;
	code = wh_cron_install_ahead(s.cron, s.queue, s.prefix, &how, &err);
	if (code != WHERRY_OK) {
		status = wh_call_failed(args, code, &err);
	} else {
		print_installed(&how, wh_arg_on(args, "json"));
		wh_audit(args, s.prefix, how.created);
	}
	leave(&s);
	return status;
}

static const wh_option install_options[] = {
	CRON_OPTION,
	ZONE_OPTION,
	{"body", "TEXT", "The body of each tick. (default empty)", NULL, 0},
	{"ahead", "DURATION",
	 "Install the ticks from now to this long ahead, and at least the next one; at most 10000 "
	 "at once. (default 0)",
	 NULL, 0},
	{"catch-up", "WHICH",
	 "Of the times missed since the last tick: none, last or all. (default none)",
	 NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cron_install_word = {
	.name = "cron install",
	.operands = "URL#TABLE/QUEUE PREFIX SCHEDULE",
	.synopsis = "URL#TABLE/QUEUE PREFIX SCHEDULE [--zone NAME] [--body TEXT] "
		    "[--ahead DURATION] [--catch-up WHICH] "
		    "[--cron TABLE] [--json]",
	.brief = "Install the ticks of a schedule on a delayed queue",
	.help = "Each tick is a message that can be polled at its time. Run it again before the "
		"ticks are used up; a tick that was made is not made again. Ticks under the "
		"prefix that another schedule left are removed, unless they were polled. Ticks "
		"that are installed keep their body: to change it, uninstall the schedule and "
		"install it again.\n"
		"\n"
		"Examples:\n"
		"  wherry cron install sqlite:shop.db#delayed/jobs report '0 6 * * *' "
		"--ahead 7d\n",
	.options = install_options,
	.plain = true,
	.run = run_install,
};

/* ---- uninstall ---- */

static wh_exit complain_of_none(const wh_args *args, const cron_session *s)
{
	const char *zone = wh_arg(args, "zone");
	char *database = wh_url_database(wh_operand(args, 0));
	char *cron = database ? wh_url_join(database, cron_of(args), NULL, NULL) : NULL;
	wh_buf hint = WH_BUF_INIT(64 * 1024);

	wh_buf_puts(&hint, "wherry cron list");
	wh_put_log_url(&hint, cron ? cron : "URL");
	free(cron);
	free(database);
	(void)wh_complain(
		wh_buf_str(&hint),
		"nothing is uninstalled: the queue '%s' has no schedule "
		"'%s'%s%s under the prefix '%s'; write all of them as they were "
		"installed",
		args->table.queue, wh_operand(args, 2), zone ? " in " : "",
		zone ? zone : "", s->prefix);
	wh_buf_clear(&hint);
	return WH_EXIT_FAILED;
}

static wh_exit run_uninstall(wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char hash[WHERRY_HASH_LEN + 1];
	bool found = false;
	cron_session s;
	int64_t n = 0;
	wherry_code code;
	wh_exit status;

	status = enter(&s, args, OPENS_CRON | OPENS_QUEUE);
	if (status != WH_EXIT_DONE)
		return status;
	if (!wh_confirm(args, s.at.db, &status,
			"delete the ticks of the schedule '%s' on queue '%s'",
			wh_operand(args, 2), args->table.queue)) {
		leave(&s);
		return status;
	}
	code = wherry_schedule_hash(s.schedule, hash, &err);
	if (code == WHERRY_OK)
		code = wh_cron_uninstall(s.cron, s.queue, s.prefix, hash, &n, &found,
					 &err);
	if (code != WHERRY_OK) {
		status = wh_call_failed(args, code, &err);
	} else if (!found && !n) {
		status = complain_of_none(args, &s);
	} else {
		wh_print_deleted(args, (const wh_count[]){{"uninstalled", n}, {NULL, 0}},
				 "%" PRId64 " tick%s uninstalled", n, wh_plural(n));
		wh_audit(args, s.prefix, n);
	}
	leave(&s);
	return status;
}

static const wh_option uninstall_options[] = {
	CRON_OPTION, ZONE_OPTION, WH_CONFIRM_OPTIONS, WH_JSON_OPTION, {0},
};

const wh_command wh_cron_uninstall_word = {
	.name = "cron uninstall",
	.operands = "URL#TABLE/QUEUE PREFIX SCHEDULE",
	.synopsis = "URL#TABLE/QUEUE PREFIX SCHEDULE [--zone NAME] "
		    "[--cron TABLE] " WH_CONFIRM_USAGE " [--json]",
	.brief = "Remove the ticks of a schedule, and no others",
	.help = "Write schedule and zone as they were installed. Ticks that were polled are left "
		"to their consumers.\n"
		"\n"
		"Examples:\n"
		"  wherry cron uninstall sqlite:shop.db#delayed/jobs report '0 6 * * *' --yes\n",
	.options = uninstall_options,
	.plain = true,
	.run = run_uninstall,
};

/* ---- forget ---- */

static wh_exit run_forget(wh_args *args)
{
	const char *name = wh_operand(args, 1);
	wherry_error err = WHERRY_ERROR_INIT;
	cron_session s;
	int64_t n = 0;
	wherry_code code;
	wh_exit status;

	status = enter(&s, args, OPENS_CRON);
	if (status != WH_EXIT_DONE)
		return status;
	if (!wh_confirm(args, s.at.db, &status,
			"forget which ticks of the schedules named '%s' were made",
			name)) {
		leave(&s);
		return status;
	}
	code = wherry_cron_forget(s.cron, name, &n, &err);
	if (code != WHERRY_OK) {
		status = wh_call_failed(args, code, &err);
	} else if (!n) {
		status = wh_complain(NULL, "the table '%s' has no schedule '%s'",
				     cron_of(args), name);
	} else {
		wh_print_deleted(args, (const wh_count[]){{"forgotten", n}, {NULL, 0}},
				 "%" PRId64 " schedule%s forgotten", n, wh_plural(n));
		wh_audit(args, name, n);
	}
	leave(&s);
	return status;
}

static const wh_option forget_options[] = {
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cron_forget_word = {
	.name = "cron forget",
	.operands = "URL[#NAME] NAME",
	.synopsis = "URL[#NAME] NAME " WH_CONFIRM_USAGE " [--json]",
	.brief = "Forget a schedule that was removed, or that a wrong clock silenced",
	.help = "Removes the schedules of this name from the table, with the time up to which "
		"their ticks were made. If a program still makes their ticks, it starts again "
		"with the first time after now. Messages of ticks stay where they are.\n"
		"\n"
		"Examples:\n"
		"  wherry cron forget sqlite:shop.db report --yes\n",
	.options = forget_options,
	.plain = true,
	.run = run_forget,
};

/* ---- list ---- */

enum { NAME, SCHEDULE, ZONE, SENDS_TO, NEXT, ACTIVE, UNTIL, HASH, COLUMNS };

static const wh_table_column columns[COLUMNS] = {
	[NAME] = {"NAME", 30, false, NULL},
	[SCHEDULE] = {"SCHEDULE", 30, false, NULL},
	[ZONE] = {"ZONE", 30, false, NULL},
	[SENDS_TO] = {"SENDS TO", 40, false, NULL},
	[NEXT] = {"NEXT TICK", 0, false, NULL},
	[ACTIVE] = {"ACTIVE", 0, false, NULL},
	[UNTIL] = {"MADE UNTIL", 0, false, NULL},
	[HASH] = {"HASH", 32, false, NULL},
};

/*
 * The time of the next tick, and the offset of its local time from UTC.  0: there is no
 * next tick, or it is unknown.
 *
 * If the clock was ahead, `wherry run` makes no tick until the time up to which it has
 * made them.
 */
static int64_t next_tick(const wherry_cron_entry *entry, int32_t *out_offset_s)
{
	bool fires = strcmp(entry->target, WH_TICK_TARGET) == 0;
	int64_t at_us = 0, after_us = wh_now(&wh_env_system);
	wherry_schedule *schedule = NULL;

	if (fires && entry->until_us > after_us)
		after_us = entry->until_us;

	if (entry->active && entry->schedule &&
	    wherry_schedule_parse(entry->schedule, entry->zone, &schedule, NULL) ==
		    WHERRY_OK &&
	    wherry_schedule_next(schedule, after_us, &at_us, NULL) != WHERRY_OK)
		at_us = 0;
	*out_offset_s = at_us ? wh_schedule_offset(schedule, at_us) : 0;
	wherry_schedule_free(schedule);
	return at_us;
}

static wherry_code add_row(void *ctx, const wherry_cron_entry *entry)
{
	char until[WH_LOCAL_TIME_LEN] = "-", next[WH_LOCAL_TIME_LEN] = "-";
	int32_t offset_s;
	int64_t next_us = next_tick(entry, &offset_s);

	if (entry->until_us)
		wh_local_time_print(entry->until_us, 0, until);
	if (next_us)
		wh_local_time_print(next_us, offset_s, next);
	wh_table_add(ctx, (const char *const[COLUMNS]){
				  [NAME] = entry->name,
				  [SCHEDULE] = entry->schedule ? entry->schedule : "-",
				  [ZONE] = entry->zone ? entry->zone : "-",
				  [SENDS_TO] = entry->sends_to ? entry->sends_to
							       : entry->target,
				  [NEXT] = next,
				  [ACTIVE] = entry->active ? "yes" : "no",
				  [UNTIL] = until,
				  [HASH] = entry->hash});
	return WHERRY_OK;
}

static wherry_code print_entry(void *ctx, const wherry_cron_entry *entry)
{
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);
	int32_t offset_s;

	(void)ctx;
	wh_buf_puts(&line, "{\"target\":");
	wh_buf_json(&line, entry->target, strlen(entry->target));
	wh_put_text_field(&line, "name", entry->name);
	wh_put_text_field(&line, "hash", entry->hash);
	wh_buf_puts(&line, entry->active ? ",\"active\":true" : ",\"active\":false");
	wh_put_time_field(&line, "until", entry->until_us);
	wh_put_text_field(&line, "schedule", entry->schedule);
	wh_put_text_field(&line, "zone", entry->zone);
	wh_put_text_field(&line, "sends_to", entry->sends_to);
	wh_put_time_field(&line, "next", next_tick(entry, &offset_s));
	wh_print_buf(&line, "}\n");
	wh_buf_clear(&line);
	return WHERRY_OK;
}

static wh_exit run_list(wh_args *args)
{
	bool json = wh_arg_on(args, "json");
	wherry_error err = WHERRY_ERROR_INIT;
	wh_table table;
	cron_session s;
	wh_exit status = enter(&s, args, OPENS_CRON);

	if (status != WH_EXIT_DONE)
		return status;
	wh_table_begin(&table, columns, COLUMNS);
	if (wherry_cron_list(s.cron, json ? print_entry : add_row, &table, &err) !=
	    WHERRY_OK)
		status = wh_report(&err);
	wh_table_end(&table);
	leave(&s);
	return status;
}

static const wh_option list_options[] = {
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cron_list_word = {
	.name = "cron list",
	.operands = "URL[#NAME]",
	.synopsis = "URL[#NAME] [--json]",
	.brief = "List the schedules, the next tick of each, and where it goes",
	.help = "Each schedule is a row. The active one of a name makes ticks. MADE UNTIL is the "
		"time in UTC up to which its ticks were written or installed. NEXT TICK is in the "
		"schedule's zone.\n"
		"\n"
		"Examples:\n"
		"  wherry cron list sqlite:shop.db\n",
	.options = list_options,
	.plain = true,
	.run = run_list,
};
