#include "cli/commands.h"

#include <inttypes.h>
#include <string.h>

#include "cli/item.h"
#include "cli/on_delayed.h"
#include "cli/on_queue.h"
#include "outbox/outbox.h"

typedef struct listing {
	wh_listing to;
	int64_t last; /* Id of the last row shown. */
} listing;

/* Show a row.  The statement reads one row more than the limit. */
static wherry_code visit(void *ctx, const wherry_row *row)
{
	wh_item item = wh_item_of_row(row);
	listing *l = ctx;

	if (l->to.n < l->to.limit)
		l->last = row->message->id;
	return wh_listing_add(&l->to, &item);
}

/* States in the order of the listing: dead and failed messages come first, then waiting
 * ones. */
static const unsigned by_urgency[] = {
	1u << WHERRY_DEAD | 1u << WHERRY_FAILED,
	1u << WHERRY_PROCESSING | 1u << WHERRY_PENDING,
};

static wherry_code list_by_urgency(wh_session *s, wherry_outbox_filter filter, listing *l,
				   wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; i < 2 && code == WHERRY_OK && !l->to.more; i++) {
		filter.states = by_urgency[i];
		filter.limit = l->to.limit - l->to.n + 1;
		code = wherry_outbox_list(s->outbox, &filter, visit, l, err);
	}
	return code;
}

static void say_more(const wh_args *args, const wherry_outbox_filter *filter,
		     const listing *l)
{
	if (!l->to.n && !l->to.json)
		(void)fprintf(
			stderr, "no messages%s\n",
			filter->states
				? ""
				: " that are not delivered; --all shows the others");
	if (!l->to.more)
		return;
	if (!filter->states)
		wh_say_more(args, "limit", 10 * l->to.limit);
	else
		wh_say_more(args, filter->newest ? "before" : "after", l->last);
}

static wh_exit list(const wh_args *args, wh_session *s,
		    const wherry_outbox_filter *filter, listing *l)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = filter->states
				   ? wherry_outbox_list(s->outbox, filter, visit, l, &err)
				   : list_by_urgency(s, *filter, l, &err);

	wh_listing_end(&l->to);
	if (code != WHERRY_OK && !ferror(stdout))
		return wh_report(&err);
	say_more(args, filter, l);
	return WH_EXIT_DONE;
}

/* "orders*" names all topics that begin with "orders". */
static void take_topic(const wh_args *args, wherry_outbox_filter *out, char *prefix,
		       size_t cap)
{
	const char *topic = wh_arg(args, "topic");
	size_t len = topic ? strlen(topic) : 0;

	if (!len || topic[len - 1] != '*' || len > cap) {
		out->topic = topic;
		return;
	}
	memcpy(prefix, topic, len - 1);
	prefix[len - 1] = 0;
	out->topic_prefix = prefix;
}

/* A page of explicit ids, or of named states, is in order of ids. */
static bool read_filter(const wh_args *args, wherry_outbox_filter *out, listing *l)
{
	const unsigned all = (1u << WHERRY_STATE_COUNT) - 1;

	out->key = wh_arg(args, "key");
	out->text = wh_arg(args, "text");
	if (!wh_arg_states(args, "state", wherry_state_name, &out->states) ||
	    !wh_arg_duration(args, "since", &out->since_us) ||
	    !wh_arg_duration(args, "older-than", &out->older_us) ||
	    !wh_arg_count(args, "after", 0, INT64_MAX, &out->after_id) ||
	    !wh_arg_count(args, "before", 1, INT64_MAX, &out->before_id))
		return false;
	if (wh_arg(args, "after") && wh_arg(args, "before")) {
		(void)wh_usage(args->command,
			       "--after lists upwards, --before downwards: "
			       "give one of them");
		return false;
	}
	out->newest = !wh_arg(args, "after");
	if (!out->states &&
	    (wh_arg_on(args, "all") || wh_arg(args, "after") || wh_arg(args, "before")))
		out->states = all;
	out->limit = l->to.limit + 1;
	return true;
}

static wh_exit run_on_outbox(const wh_args *args, wh_session *s)
{
	wherry_outbox_filter filter = WHERRY_OUTBOX_FILTER(.topic = NULL);
	char prefix[256];
	listing l = {.last = 0};

	if (!wh_listing_begin(&l.to, WH_OF_OUTBOX, args) ||
	    !read_filter(args, &filter, &l))
		return WH_EXIT_USAGE;
	take_topic(args, &filter, prefix, sizeof(prefix));
	return list(args, s, &filter, &l);
}

static const wh_without of_queue[] = {
	{"key", "a queue has no keys: choose messages by --topic or --text"},
	{"before", "a queue is listed in its order: page with --after ID"},
	{NULL, NULL}};

static const wh_without of_delayed[] = {
	{"topic", "messages of a delayed queue have keys: --key KEY"},
	{"before", "a delayed queue is listed by key: page with --after KEY"},
	{NULL, NULL}};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run_on_outbox},
	[WH_OF_QUEUE] = {.run = wh_on_queue_list, .without = of_queue},
	[WH_OF_DELAYED] = {.run = wh_on_delayed_list, .without = of_delayed},
	[WH_OF_INBOX] = {.use = "status"},
};

static const wh_option options[] = {
	{"all", NULL, "Messages in every state, delivered ones too.", NULL, 0},
	{"state", "STATES", "Only messages in these states, such as failed,dead.", NULL,
	 0},
	{"topic", "TOPIC",
	 "Only this topic, or with a * at its end all topics that begin so: 'orders.*'.",
	 NULL, 0},
	{"key", "KEY",
	 "Only this key, or this aggregate id where there is no key. Of a delayed queue with a * "
	 "at its end all keys that begin so.",
	 NULL, 0},
	{"text", "TEXT",
	 "Only messages with this text in topic, key, message id, last error or body. It "
	 "reads every message in the states that are listed.",
	 NULL, 0},
	{"since", "AGE", "Only messages written at most this long ago, such as 1h.", NULL,
	 0},
	{"older-than", "AGE", "Only messages written at least this long ago.", NULL, 0},
	{"before", "ID", "Only ids below this one: the next page.", NULL, 0},
	{"after", "ID",
	 "Only ids above this one, the oldest first. Of a delayed queue a key, of its dead messages an "
	 "id.",
	 NULL, 0},
	{"limit", "N", "At most this many. (default 100)", NULL, 0},
	{"bodies", NULL, "With headers and bodies.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_list = {
	.name = "list",
	.operands = "URL",
	.synopsis =
		"URL [--all] [--state STATES] [--topic TOPIC] [--key KEY] [--text TEXT] "
		"[--since AGE] [--older-than AGE] [--before ID] "
		"[--after ID] [--limit N] [--bodies] [--json]",
	.brief = "List messages: problems first, then the newest",
	.help = "Lists the messages of an outbox that are not delivered: dead and failed ones "
		"first, then those that are being delivered or wait, the newest first. --all or "
		"--state lists messages in those states by id, the newest first.\n"
		"\n"
		"Of a queue it lists dead messages first, then the others in the order of the "
		"queue; of a delayed queue in the order of their keys. Their states are ready, "
		"leased, waiting and dead. Nothing is locked: those who receive do not notice.\n"
		"\n"
		"On a terminal a row is cut to the width of the terminal; in a pipe it is "
		"whole. With --json, each message is one object on a line. --bodies shows the "
		"first 200 bytes of a body where there is no error, and all of it in JSON.\n"
		"\n"
		"Examples:\n"
		"  wherry list sqlite:shop.db\n"
		"  wherry list sqlite:shop.db --state dead --topic 'orders.*'\n"
		"  wherry list sqlite:shop.db --all --key customer-7 --since 1h\n"
		"  wherry list sqlite:shop.db --text 'connection refused'\n"
		"  wherry list sqlite:shop.db#jobs --state dead,waiting\n"
		"  wherry list sqlite:shop.db#delayed/mail --key 'order-*'\n",
	.options = options,
	.kinds = kinds,
};
