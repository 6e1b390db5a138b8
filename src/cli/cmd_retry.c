#include "cli/again.h"
#include "cli/commands.h"
#include "cli/on_delayed.h"
#include "cli/on_queue.h"

#include <string.h>

static bool read_states(const wh_args *args, const wherry_outbox_filter *filter,
			unsigned *out)
{
	const unsigned dead = 1u << WHERRY_DEAD, failed = 1u << WHERRY_FAILED;
	const char *state = wh_arg(args, "state");

	/* A message that is named is retried whether it is dead or waits for an attempt. */
	*out = filter->ident ? dead | failed : dead;
	if (!state || strcmp(state, "dead") == 0)
		*out = state ? dead : *out;
	else if (strcmp(state, "failed") == 0)
		*out = failed;
	else if (strcmp(state, "all") == 0)
		*out = dead | failed;
	else
		return false;
	return true;
}

static wherry_code take_state(void *ctx, const wherry_row *row)
{
	*(wherry_state *)ctx = row->state;
	return WHERRY_OK;
}

/* Print why the message that was named was not changed. */
static wh_exit explain(wh_session *s, const char *ident)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_state state = WHERRY_PENDING;

	if (wherry_outbox_show(s->outbox, ident, take_state, &state, &err) != WHERRY_OK)
		return wh_report(&err);
	return wh_complain(NULL, "message %s is %s, not dead or failed", ident,
			   wherry_state_name(state));
}

static wh_exit retry(const wh_args *args, wh_session *s,
		     const wherry_outbox_filter *filter)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status = WH_EXIT_DONE;
	int64_t n = 0;

	if (wherry_outbox_retry(s->outbox, filter, &n, &err) != WHERRY_OK)
		status = wh_report(&err);
	else if (!n && filter->ident)
		status = explain(s, filter->ident);
	else
		wh_print_retried(args, n, "pending");
	if (n)
		wh_audit(args, s->table, n);
	return status;
}

static wh_exit run_on_outbox(const wh_args *args, wh_session *s)
{
	wherry_outbox_filter filter;

	if (!wh_again_filter(args, &filter))
		return WH_EXIT_USAGE;
	if (!read_states(args, &filter, &filter.states))
		return wh_usage(args->command, "--state %s: write dead, failed or all",
				wh_arg(args, "state"));
	return retry(args, s, &filter);
}

static const wh_option options[] = {
	{"all", NULL, "Every one that is in the state.", NULL, 0},
	{"topic", "TOPIC", "Those of this topic.", NULL, 0},
	{"key", "KEY", "Those of this key, or this aggregate id where there is no key.",
	 NULL, 0},
	{"state", "STATE", "dead, failed or all. (default dead; with an ID, all)", NULL,
	 0},
	WH_JSON_OPTION,
	{0},
};

static const wh_without of_queue[] = {
	{"key", "a queue has no keys: choose messages by ID or --topic"}, {NULL, NULL}};

static const wh_without of_delayed[] = {
	{"topic", "a delayed queue has no topics: choose messages by ID"},
	{"key", "choose dead messages by ID"},
	{NULL, NULL}};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run_on_outbox},
	[WH_OF_QUEUE] = {.run = wh_on_queue_retry, .without = of_queue},
	[WH_OF_DELAYED] = {.run = wh_on_delayed_retry, .without = of_delayed},
};

const wh_command wh_cmd_retry = {
	.name = "retry",
	.operands = "URL [ID]",
	.synopsis = "URL ID|--all|--topic TOPIC|--key KEY [--state STATE] [--json]",
	.brief = "Make dead messages pending again",
	.help = "Their attempts are counted from none again; of one key they are delivered "
		"in order. With --state failed, those that wait for their next attempt "
		"need not wait. Dead messages of a queue are ready again in their old places. "
		"Those of a delayed queue can be polled at once; one stays dead if its key has "
		"another message by now.\n"
		"\n"
		"Examples:\n"
		"  wherry retry sqlite:shop.db 42\n"
		"  wherry retry sqlite:shop.db --topic orders\n"
		"  wherry retry sqlite:shop.db --all --state failed\n"
		"  wherry retry sqlite:shop.db#delayed/mail --all\n",
	.options = options,
	.kinds = kinds,
};
