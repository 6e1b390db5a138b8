/*
 * wherry delayed create, offer, drop and drop-table.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "cli/delayed_session.h"
#include "delayed/delayed.h"

/* ---- create ---- */

static wherry_code make_sql(const wh_args *args, const char *scheme, char **out,
			    wherry_error *err)
{
	return wherry_delayed_create_sql(scheme, wh_delayed_table(args),
					 wh_arg(args, "layout"), out, err);
}

static wherry_code make(const wh_args *args, const wh_place *at, wherry_error *err)
{
	return wherry_delayed_create(at->db, wh_delayed_table(args),
				     wh_arg(args, "layout"), err);
}

static void tell(const wh_args *args, const wh_place *at)
{
	(void)at;
	(void)printf("the table '%s' of delayed queues is ready\n",
		     wh_delayed_table(args));
}

static wh_exit run_create(wh_args *args)
{
	wh_delayed_stmts own;

	return wh_place_create(args, &(wh_creating){.what = "delayed",
						    .name = wh_delayed_table(args),
						    .layout = wh_arg(args, "layout"),
						    .model = &wh_delayed_model,
						    .own = &own,
						    .sql = make_sql,
						    .create = make,
						    .tell = tell});
}

static const wh_option create_options[] = {
	{"layout", "LAYOUT",
	 "native, funfix: the table of the JVM library DelayedQueue, or funfix-old: that of its "
	 "predecessor on SQL Server. (default: that of an "
	 "existing table, else native)",
	 NULL, 0},
	{"grant", "ROLE=KIND",
	 "Give a role of the database exactly the rights that it needs on the table, and "
	 "revoke its other rights on it. KIND is sender, receiver or operator. On "
	 "PostgreSQL and SQL Server.",
	 NULL, WH_REPEAT},
	{"print", NULL, "Print the SQL, and change nothing.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_delayed_create = {
	.name = "delayed create",
	.operands = "URL[#TABLE]",
	.synopsis =
		"URL[#TABLE] [--layout LAYOUT] [--grant ROLE=KIND]... [--print] [--json]",
	.brief = "Create a table for delayed queues, or bring it up to date",
	.help = "Doing it twice is fine. A table holds any number of queues, which need not be "
		"created. With the layout funfix the table is shared with programs of the JVM "
		"library DelayedQueue.\n"
		"\n"
		"Examples:\n"
		"  wherry delayed create sqlite:shop.db\n"
		"  wherry delayed create sqlite:shop.db#reminders\n"
		"  wherry delayed create postgres://shop@db/shop#reminders --layout funfix\n"
		"  wherry delayed create postgres://shop@db/shop --grant web=sender\n",
	.options = create_options,
	.plain = true,
	.run = run_create,
};

/* ---- offer ---- */

static wh_exit offer(const wh_args *args, wh_delayed_session *s,
		     const wherry_delayed_message *msg)
{
	static const char *const names[] = {"created", "updated", "ignored"};
	wherry_offer_outcome outcome = WHERRY_IGNORED;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wherry_delayed_offer(s->delayed, msg, &outcome, &err);

	if (code != WHERRY_OK)
		return wh_call_failed(args, code, &err);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"outcome\":\"%s\"}\n", names[outcome]);
	else
		(void)printf("%s\n", names[outcome]);
	return WH_EXIT_DONE;
}

static wh_exit read_time(const wh_args *args, wherry_delayed_message *msg)
{
	const char *at = wh_arg(args, "at");
	wherry_error err = WHERRY_ERROR_INIT;

	if (at && wh_arg(args, "in"))
		return wh_usage(args->command,
				"--in and --at are given: only one of them");
	if (!wh_arg_duration(args, "in", &msg->delay_us))
		return WH_EXIT_USAGE;
	if (at && wh_time_parse(at, &msg->at_us, &err) != WHERRY_OK)
		return wh_usage(args->command, "--at: %s", err.message);
	if (at && msg->at_us <= 0)
		return wh_usage(args->command, "--at %s: give a time after 1970", at);
	return WH_EXIT_DONE;
}

static wh_exit work_offer(const wh_args *args, wh_delayed_session *s)
{
	enum {
		READ_MOST = 4 * WH_BODY_MAX
	}; /* so that the library can say how long it is */
	const char *text = wh_arg(args, "body");
	wh_buf body = WH_BUF_INIT(READ_MOST);
	wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.key = wh_arg(args, "key"),
				       .if_absent = wh_arg_on(args, "if-absent"));
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status = read_time(args, &msg);

	if (status == WH_EXIT_DONE && strcmp(text, "-") == 0)
		status = wh_read_file(&body, "-");
	else
		wh_buf_puts(&body, text);
	if (status == WH_EXIT_DONE && wh_buf_check(&body, &err) != WHERRY_OK)
		status = wh_complain(NULL, "the body is over %d bytes, the limit is %d",
				     READ_MOST, WH_BODY_MAX);
	msg.body = wh_buf_str(&body);
	msg.body_len = body.len;
	if (status == WH_EXIT_DONE)
		status = offer(args, s, &msg);
	wh_buf_clear(&body);
	return status;
}

static wh_exit run_offer(wh_args *args)
{
	return wh_with_delayed(args, work_offer);
}

static const wh_option offer_options[] = {
	{"key", "KEY", "The key of the message. A key has one message at most.", NULL,
	 WH_REQUIRED},
	{"body", "TEXT", "The body of the message; - reads it from standard input.", NULL,
	 WH_REQUIRED},
	{"in", "DURATION", "It is due this long from now, such as 5s. (default now)",
	 NULL, 0},
	{"at", "TIME", "It is due at this time, such as 2026-03-29T02:30:00Z.", NULL, 0},
	{"if-absent", NULL, "Leave a message that the key has alone.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_delayed_offer_word = {
	.name = "delayed offer",
	.operands = "URL#TABLE/QUEUE",
	.synopsis = "URL#TABLE/QUEUE --key KEY --body TEXT [--in DURATION|--at TIME] "
		    "[--if-absent] [--json]",
	.brief = "Create or replace the message of a key",
	.help = "Prints created, updated or ignored. A message with the same body and time is "
		"ignored. If a consumer has the message that is replaced, its "
		"acknowledgement changes nothing.\n"
		"\n"
		"Examples:\n"
		"  wherry delayed offer sqlite:shop.db#delayed/mail --key order-7 --body remind --in 1h\n"
		"  wherry delayed offer sqlite:shop.db#delayed/mail --key order-7 --body - --at 2026-12-24T18:00:00Z\n",
	.options = offer_options,
	.plain = true,
	.run = run_offer,
};

/* ---- drop ---- */

static wh_exit work_drop(const wh_args *args, wh_delayed_session *s)
{
	const char *key = wh_arg(args, "key");
	wherry_error err = WHERRY_ERROR_INIT;
	bool found = false;
	wh_exit status;
	int64_t n = 0;
	wherry_code code;

	if (!wh_confirm(
		    args, &status,
		    key ? "delete the message of key '%s' of delayed queue '%s'"
			: "delete all messages of delayed queue '%s', except dead ones",
		    key ? key : s->queue, s->queue))
		return status;
	code = key ? wherry_delayed_drop_key(s->delayed, key, &found, &err)
		   : wherry_delayed_drop_all(s->delayed, WHERRY_DELAYED_DROP_ALL, &n,
					     &err);
	if (code != WHERRY_OK)
		return wh_call_failed(args, code, &err);
	if (key && !found)
		return wh_complain(NULL, "delayed queue '%s' has no message of key '%s'",
				   s->queue, key);
	return wh_delayed_changed(args, s, key ? 1 : n, "dropped");
}

static wh_exit run_drop(wh_args *args)
{
	if (!wh_arg(args, "key") == !wh_arg_on(args, "all"))
		return wh_usage(args->command, "name a message with --key, or say --all");
	return wh_with_delayed(args, work_drop);
}

static const wh_option drop_options[] = {
	{"key", "KEY", "The key of the message.", NULL, 0},
	{"all", NULL, "Every message of the queue, except dead ones.", NULL, 0},
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_delayed_drop_word = {
	.name = "delayed drop",
	.operands = "URL#TABLE/QUEUE",
	.synopsis = "URL#TABLE/QUEUE --key KEY|--all " WH_CONFIRM_USAGE " [--json]",
	.brief = "Drop messages, also those that consumers have",
	.help = "It asks. Messages of other queues stay.\n"
		"\n"
		"Examples:\n"
		"  wherry delayed drop sqlite:shop.db#delayed/mail --key order-7 --yes\n"
		"  wherry delayed drop sqlite:shop.db#delayed/mail --all --yes\n",
	.options = drop_options,
	.plain = true,
	.run = run_drop,
};

/* ---- drop-table ---- */

static wh_exit work_drop_table(const wh_args *args, wh_delayed_session *s)
{
	const char *table = wh_delayed_table(args);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status;
	int64_t n = 0;

	if (wh_delayed_count_table(s->delayed, &n, &err) != WHERRY_OK)
		return wh_report(&err);
	if (!wh_confirm(args, &status,
			"delete the table '%s' of delayed queues with %" PRId64
			" message%s",
			table, n, wh_plural(n)))
		return status;
	if (wherry_delayed_drop(s->delayed, &err) != WHERRY_OK)
		return wh_report(&err);
	wh_audit(args->command->name, wh_operand(args, 0), table, n);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"messages\":%" PRId64 "}\n", n);
	else
		(void)printf("the table '%s' of delayed queues is gone, with %" PRId64
			     " message%s\n",
			     table, n, wh_plural(n));
	return WH_EXIT_DONE;
}

static wh_exit run_drop_table(wh_args *args)
{
	return wh_with_delayed_table(args, work_drop_table);
}

static const wh_option drop_table_options[] = {
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_delayed_drop_table_word = {
	.name = "delayed drop-table",
	.operands = "URL[#NAME]",
	.synopsis = "URL[#NAME] " WH_CONFIRM_USAGE " [--json]",
	.brief = "Remove a table with all its delayed queues",
	.help = "Says how many messages of all queues would be lost, dead ones too, and asks.\n"
		"\n"
		"Examples:\n"
		"  wherry delayed drop-table sqlite:shop.db#reminders --yes\n",
	.options = drop_table_options,
	.plain = true,
	.run = run_drop_table,
};
