/*
 * wherry create, for subscriptions of an outbox.
 */
#include "cli/create.h"
#include "cli/target.h"

#include <wherry/subscription.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "outbox/outbox.h"
#include "store/grants.h"

/* False: it printed that a kind has no rights on one subscription. */
static bool are_consumers(const wh_args *args, const wh_grants *grants)
{
	for (size_t i = 0; i < grants->n; i++) {
		const char *kind = strrchr(grants->all[i], '=');

		if (!kind || strcmp(kind, "=consumer") != 0) {
			(void)wh_usage(args->command,
				       "--grant %s: on one subscription write "
				       "ROLE=consumer; grant others on the outbox",
				       grants->all[i]);
			return false;
		}
	}
	return true;
}

/* Give roles this subscription alone. */
static wherry_code grant(wherry_outbox *outbox, const wh_grants *grants,
			 wherry_error *err)
{
	return grants->n
		       ? wh_store_grant_topic(&outbox->store, grants->all, grants->n, err)
		       : WHERRY_OK;
}

/* The id of the last message that is delivered by the old topics. */
static wherry_code change_topics(wherry_outbox *outbox, const char *topics,
				 int64_t *out_last, wherry_error *err)
{
	wherry_code code = wherry_subscription_set_topics(outbox, topics, err);

	return code == WHERRY_OK ? wh_store_ask(&outbox->store, outbox->own.subscribed,
						NULL, 0, out_last, err)
				 : code;
}

static wherry_code suggest_yes(wherry_error *err)
{
	const size_t len = strlen(err->message);

	(void)snprintf(err->message + len, sizeof(err->message) - len,
		       ": add --yes to change them for the messages behind its position; "
		       "none before it is delivered again, unless you `wherry seek`");
	return WHERRY_DUPLICATE;
}

static wherry_code create(const wh_args *args, wherry_db *db, const wh_grants *grants,
			  int64_t *out_last, wherry_error *err)
{
	const char *topics = wh_arg(args, "topics");
	const wherry_subscription_options options =
		WHERRY_SUBSCRIPTION_OPTIONS(.topics = topics,
					    .from = wh_arg(args, "from"));
	const char *table = args->table.table, *name = args->table.queue;
	wherry_outbox *outbox = NULL;
	wherry_code code = wh_store_grant_ready(db, &wh_outbox_model, NULL, grants->all,
						grants->n, err);
	bool change;

	if (code == WHERRY_OK)
		code = wherry_subscription_create(db, table, name, &options, err);
	change = code == WHERRY_DUPLICATE && topics && wh_arg_on(args, "yes");
	if (code == WHERRY_DUPLICATE && topics && !change)
		return suggest_yes(err);
	/* A grant says nothing of topics. */
	if (change || (code == WHERRY_DUPLICATE && grants->n))
		code = WHERRY_OK;
	if (code == WHERRY_OK && (change || grants->n))
		code = wherry_subscription_open(db, table, name, &outbox, err);
	if (code == WHERRY_OK && change)
		code = change_topics(outbox, topics, out_last, err);
	if (code == WHERRY_OK)
		code = grant(outbox, grants, err);
	wherry_outbox_close(outbox);
	return code;
}

static void print_done(const wh_args *args, int64_t last)
{
	const char *table = args->table.table, *name = args->table.queue;

	if (wh_arg_on(args, "json"))
		(void)printf("{\"outbox\":\"%s\",\"subscription\":\"%s\"}\n", table,
			     name);
	else if (last >= 0)
		(void)printf("subscription '%s' of outbox '%s' has other topics now for "
			     "the messages behind its position, %" PRId64
			     "; those before it are not delivered again\n",
			     name, table, last);
	else
		(void)printf(
			"subscription '%s' of outbox '%s' is ready: `wherry help relay` "
			"shows how to deliver it\n",
			name, table);
}

wh_exit wh_create_subscription(wh_args *args)
{
	static const wh_without of_outboxes[] = {
		{"layout", "an outbox has it, and not a subscription"},
		{"payload", "an outbox has it, and not a subscription"},
		{"partitions", "an outbox has it, and not a subscription"},
		{"unique-ids", "an outbox has it, and not a subscription"},
		{"segments", "an outbox has it, and not a subscription"},
		{"stream", "an outbox has it, and not a subscription"},
		{"print", "a subscription is a row that the command writes"},
		{NULL, NULL},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	wh_grants grants;
	int64_t last = -1;
	wherry_code code;

	if (!wh_allows(args, of_outboxes) || !wh_arg_grants(args, &grants) ||
	    !are_consumers(args, &grants))
		return WH_EXIT_USAGE;
	code = wh_db_open_own(wh_operand(args, 0), args->config, &db, &err);
	if (code == WHERRY_OK)
		code = create(args, db, &grants, &last, &err);
	wherry_db_close(db);
	if (code == WHERRY_INVALID)
		return wh_usage(args->command, "%s", err.message);
	if (code != WHERRY_OK)
		return wh_report(&err);
	print_done(args, last);
	wh_audit(args, args->table.table, 0);
	return WH_EXIT_DONE;
}
