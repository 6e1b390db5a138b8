#include "cli/commands.h"

#include <inttypes.h>

#include "cli/queue_session.h"
#include "inbox/groups.h"

/* The inbox that a URL names; the standard one if it names none. */
typedef struct inbox_session {
	wh_place at;
	wherry_inbox *inbox;
	const char *name;
} inbox_session;

static const char *name_of(const wh_place *at)
{
	return *at->name ? at->name : "inbox";
}

static void leave(inbox_session *s)
{
	wherry_inbox_close(s->inbox);
	wh_place_close(&s->at);
}

static wh_exit enter(inbox_session *s, const wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	wh_exit status;

	*s = (inbox_session){.inbox = NULL};
	status = wh_place_open(&s->at, args);
	if (status != WH_EXIT_DONE)
		return status;
	s->name = name_of(&s->at);
	code = wherry_inbox_open(s->at.db, s->name, &s->inbox, &err);
	if (code == WHERRY_OK)
		return WH_EXIT_DONE;
	status = WH_EXIT_FAILED;
	if (code != WHERRY_NOTFOUND || !wh_tell_other(s->at.db, args, s->name))
		status = wh_call_failed(args, code, &err);
	leave(s);
	return status;
}

/* ---- create ---- */

static wherry_code make_sql(const wh_args *args, const char *scheme, char **out,
			    wherry_error *err)
{
	return wherry_inbox_create_sql(
		scheme, *args->table.table ? args->table.table : NULL, out, err);
}

static wherry_code make(const wh_args *args, const wh_place *at, wherry_error *err)
{
	(void)args;
	return wherry_inbox_create(at->db, name_of(at), err);
}

static void tell(const wh_args *args, const wh_place *at)
{
	(void)args;
	(void)printf("inbox '%s' is ready\n", name_of(at));
}

static wh_exit run_create(wh_args *args)
{
	const char *name = args->table.table;
	wh_inbox_stmts own;

	return wh_place_create(args, &(wh_creating){.what = "inbox",
						    .name = *name ? name : "inbox",
						    .model = &wh_inbox_model,
						    .own = &own,
						    .sql = make_sql,
						    .create = make,
						    .tell = tell});
}

static const wh_option create_options[] = {
	{"grant", "ROLE=KIND",
	 "Give a role of the database exactly the rights that it needs on the inbox, and "
	 "revoke its other rights on it. KIND is consumer or operator. On PostgreSQL and "
	 "SQL Server.",
	 NULL, WH_REPEAT},
	{"print", NULL, "Print the SQL, and change nothing.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

static const wh_command create = {
	.name = "inbox create",
	.operands = "URL[#NAME]",
	.synopsis = "URL[#NAME] [--grant ROLE=KIND]... [--print] [--json]",
	.brief = "Create an inbox, or bring it up to date",
	.help = "On PostgreSQL it also makes the function wherry_accept(message_id), which "
		"returns true for a new message.\n"
		"\n"
		"Examples:\n"
		"  wherry inbox create sqlite:shop.db\n"
		"  wherry inbox create sqlite:shop.db --print\n"
		"  wherry inbox create postgres://shop@db/shop --grant web=consumer\n",
	.options = create_options,
	.plain = true,
	.run = run_create,
};

/* ---- status ---- */

static wh_exit run_status(wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0, oldest_us = 0;
	char age[WH_SPAN_LEN];
	inbox_session s;
	wh_exit status = enter(&s, args);

	if (status != WH_EXIT_DONE)
		return status;
	if (wherry_inbox_count(s.inbox, &n, &oldest_us, &err) != WHERRY_OK)
		status = wh_report(&err);
	else if (wh_arg_on(args, "json"))
		(void)printf("{\"ids\":%" PRId64 ",\"oldest_seconds\":%.3f}\n", n,
			     (double)oldest_us / 1e6);
	else
		(void)printf("%" PRId64 " id%s%s%s\n", n, wh_plural(n),
			     n ? ", the oldest for " : "",
			     n ? wh_span_text(oldest_us, age) : "");
	leave(&s);
	return status;
}

static const wh_option status_options[] = {
	WH_JSON_OPTION,
	{0},
};

static const wh_command status_word = {
	.name = "inbox status",
	.operands = "URL[#NAME]",
	.synopsis = "URL[#NAME] [--json]",
	.brief = "Count the ids that an inbox keeps",
	.help = "Examples:\n"
		"  wherry inbox status sqlite:shop.db\n",
	.options = status_options,
	.plain = true,
	.run = run_status,
};

/* ---- forget, purge, drop ---- */

static wh_exit run_forget(wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	inbox_session s;
	wh_exit status;

	if (!wh_confirm(
		    args, &status,
		    "forget message '%s', so that it is handled again if it is delivered again",
		    wh_arg(args, "message")))
		return status;
	status = enter(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	if (wherry_inbox_forget(s.inbox, wh_arg(args, "consumer"),
				wh_arg(args, "message"), &err) != WHERRY_OK) {
		status = wh_report(&err);
	} else {
		if (wh_arg_on(args, "json"))
			(void)printf("{\"forgotten\":1}\n");
		else
			(void)printf("message '%s' is new again\n",
				     wh_arg(args, "message"));
		wh_audit(args->command->name, wh_operand(args, 0), s.name, 1);
	}
	leave(&s);
	return status;
}

static const wh_option forget_options[] = {
	{"message", "ID", "The message id.", NULL, WH_REQUIRED},
	{"consumer", "NAME", "Who accepted it.", NULL, 0},
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

static const wh_command forget = {
	.name = "inbox forget",
	.operands = "URL[#NAME]",
	.synopsis =
		"URL[#NAME] --message ID [--consumer NAME] " WH_CONFIRM_USAGE " [--json]",
	.brief = "Make a message new again",
	.help = "The consumer handles it once more when it is delivered again.\n"
		"\n"
		"Examples:\n"
		"  wherry inbox forget sqlite:shop.db --message order-7\n",
	.options = forget_options,
	.plain = true,
	.run = run_forget,
};

static wh_exit run_purge(wh_args *args)
{
	int64_t age_us = 0, batch = 1000, n = 0;
	const char *age;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	inbox_session s;
	wh_exit status;

	if (!wh_arg_duration(args, "older-than", &age_us) ||
	    !wh_arg_count(args, "batch", 1, 100000, &batch))
		return WH_EXIT_USAGE;
	age = age_us ? wh_arg(args, "older-than") : "";
	status = enter(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	code = wherry_inbox_count(s.inbox, &n, NULL, &err);
	if (code == WHERRY_OK &&
	    !wh_confirm(args, &status,
			"delete all ids of inbox '%s'%s%s%s; it has %" PRId64 " id%s",
			s.name, *age ? " that were accepted longer than " : "", age,
			*age ? " ago" : "", n, wh_plural(n))) {
		leave(&s);
		return status;
	}
	n = 0;
	if (code == WHERRY_OK)
		code = wherry_inbox_purge(s.inbox, age_us, batch, 0, &n, &err);
	if (n)
		wh_audit(args->command->name, wh_operand(args, 0), s.name, n);
	if (code != WHERRY_OK)
		status = wh_report(&err);
	else if (wh_arg_on(args, "json"))
		(void)printf("{\"purged\":%" PRId64 "}\n", n);
	else
		(void)printf("%" PRId64 " id%s purged\n", n, wh_plural(n));
	leave(&s);
	return status;
}

static const wh_option purge_options[] = {
	{"older-than", "AGE", "Accepted longer ago than this, such as 30d.", NULL,
	 WH_REQUIRED},
	{"batch", "N", "Ids in one transaction. (1 to 100000; default 1000)", NULL, 0},
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

static const wh_command purge = {
	.name = "inbox purge",
	.operands = "URL[#NAME]",
	.synopsis =
		"URL[#NAME] --older-than AGE [--batch N] " WH_CONFIRM_USAGE " [--json]",
	.brief = "Delete ids that were accepted long ago",
	.help = "A message that is delivered again after that counts as new: keep ids for "
		"longer than anybody can retry a message. It asks.\n"
		"\n"
		"Examples:\n"
		"  wherry inbox purge sqlite:shop.db --older-than 30d --yes\n",
	.options = purge_options,
	.plain = true,
	.run = run_purge,
};

static wh_exit drop_inbox(const wh_args *args, const inbox_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status;
	int64_t n = 0;

	if (wherry_inbox_count(s->inbox, &n, NULL, &err) != WHERRY_OK)
		return wh_report(&err);
	if (!wh_confirm(args, &status, "delete inbox '%s' with %" PRId64 " id%s", s->name,
			n, wh_plural(n)))
		return status;
	if (wherry_inbox_drop(s->inbox, &err) != WHERRY_OK)
		return wh_report(&err);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"ids\":%" PRId64 "}\n", n);
	else
		(void)printf("inbox '%s' is gone\n", s->name);
	wh_audit(args->command->name, wh_operand(args, 0), s->name, n);
	return WH_EXIT_DONE;
}

static wh_exit run_drop(wh_args *args)
{
	inbox_session s;
	wh_exit status = enter(&s, args);

	if (status != WH_EXIT_DONE)
		return status;
	status = drop_inbox(args, &s);
	leave(&s);
	return status;
}

static const wh_option drop_options[] = {
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

static const wh_command drop = {
	.name = "inbox drop",
	.operands = "URL[#NAME]",
	.synopsis = "URL[#NAME] " WH_CONFIRM_USAGE " [--json]",
	.brief = "Remove an inbox",
	.help = "Every message counts as new afterwards.\n"
		"\n"
		"Examples:\n"
		"  wherry inbox drop sqlite:shop.db --yes\n",
	.options = drop_options,
	.plain = true,
	.run = run_drop,
};

static const wh_command *const words[] = {
	&create, &status_word, &forget, &purge, &drop, NULL,
};

const wh_command wh_cmd_inbox = {
	.name = "inbox",
	.operands = "",
	.synopsis = "COMMAND URL[#NAME] ...",
	.brief = "Keep the ids of messages that a consumer has handled",
	.help = "A consumer accepts a message's id in the transaction of its writes, and leaves "
		"out the writes of an id that it has seen: so each message takes effect exactly "
		"once.\n"
		"\n"
		"Examples:\n"
		"  wherry inbox create sqlite:shop.db\n"
		"  wherry inbox purge sqlite:shop.db --older-than 30d --yes\n",
	.plain = true,
	.words = words,
};
