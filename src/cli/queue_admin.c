#include "cli/queue_session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "queue/queue.h"

/* ---- create, drop ---- */

static wherry_queue_options making(const wh_args *args)
{
	return WHERRY_QUEUE_OPTIONS(.layout = wh_arg(args, "layout"),
				    .payload = wh_arg(args, "payload"));
}

static wherry_code make_sql(const wh_args *args, const char *scheme, char **out,
			    wherry_error *err)
{
	const wherry_queue_options how = making(args);

	return wherry_queue_create_sql(scheme, args->table.table, &how, out, err);
}

static wherry_code make(const wh_args *args, const wh_place *at, wherry_error *err)
{
	const wherry_queue_options how = making(args);

	return wherry_queue_create(at->db, at->name, &how, err);
}

static void tell(const wh_args *args, const wh_place *at)
{
	(void)args;
	(void)printf("queue '%s' is ready: `wherry queue send%s '{}'` sends a message\n",
		     at->name, at->target);
}

static wh_exit run_create(wh_args *args)
{
	wh_queue_stmts own;

	return wh_place_create(args, &(wh_creating){.what = "queue",
						    .name = args->table.table,
						    .layout = wh_arg(args, "layout"),
						    .model = &wh_queue_model,
						    .own = &own,
						    .sql = make_sql,
						    .create = make,
						    .tell = tell});
}

static const wh_option create_options[] = {
	{"layout", "LAYOUT",
	 "native; or nservicebus, on PostgreSQL and SQL Server. (default: that of an existing table, else native)",
	 NULL, 0},
	{"payload", "TYPE",
	 "The type of the column of bodies: on PostgreSQL json, jsonb, text or bytea, on "
	 "SQL Server text or bytea. (default json, on SQL Server text)",
	 NULL, 0},
	{"grant", "ROLE=KIND",
	 "Give a role of the database exactly the rights that it needs on the queue, and "
	 "revoke its other rights on the tables. KIND is sender, receiver or operator. On "
	 "PostgreSQL and SQL Server.",
	 NULL, WH_REPEAT},
	{"print", NULL, "Print the SQL, and change nothing.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_create = {
	.name = "queue create",
	.operands = "URL#NAME",
	.synopsis =
		"URL#NAME [--layout LAYOUT] [--payload TYPE] [--grant ROLE=KIND]... [--print] "
		"[--json]",
	.brief = "Create a queue, or bring it up to date",
	.help = "Doing it twice is fine. With the layout nservicebus the queue is shared with "
		"endpoints of NServiceBus, on its own tables.\n"
		"\n"
		"Examples:\n"
		"  wherry queue create sqlite:shop.db#jobs\n"
		"  wherry queue create postgres://shop@db/shop#jobs --grant web=sender\n"
		"  wherry queue create postgres://shop@db/shop#orders --layout nservicebus\n"
		"  wherry queue create sqlite:shop.db#jobs --print\n",
	.options = create_options,
	.plain = true,
	.run = run_create,
};

static wh_exit drop(const wh_args *args, wh_queue_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status st;
	wh_exit status;
	int64_t n;

	if (wherry_queue_get_status(s->queue, &st, sizeof(st), &err) != WHERRY_OK)
		return wh_report(&err);
	n = st.ready + st.leased + st.waiting + st.dead;
	if (!wh_confirm(args, &status, "delete queue '%s' with %" PRId64 " message%s",
			s->at.name, n, wh_plural(n)))
		return status;
	if (wherry_queue_drop(s->queue, &err) != WHERRY_OK)
		return wh_report(&err);
	wh_audit(args->command->name, wh_operand(args, 0), s->at.name, n);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"messages\":%" PRId64 "}\n", n);
	else
		(void)printf("queue '%s' is gone, with %" PRId64 " message%s\n",
			     s->at.name, n, wh_plural(n));
	return WH_EXIT_DONE;
}

static wh_exit with_queue(const wh_args *args,
			  wh_exit (*work)(const wh_args *args, wh_queue_session *s))
{
	wh_queue_session s;
	wh_exit status = wh_queue_session_open(&s, args);

	if (status != WH_EXIT_DONE)
		return status;
	status = work(args, &s);
	wh_queue_session_close(&s);
	return status;
}

static wh_exit run_drop(wh_args *args)
{
	return with_queue(args, drop);
}

static const wh_option drop_options[] = {
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_drop = {
	.name = "queue drop",
	.operands = "URL#NAME",
	.synopsis = "URL#NAME " WH_CONFIRM_USAGE " [--json]",
	.brief = "Remove a queue and all its messages",
	.help = "Says how many messages would be lost, and asks.\n"
		"\n"
		"Examples:\n"
		"  wherry queue drop sqlite:shop.db#jobs --yes\n",
	.options = drop_options,
	.plain = true,
	.run = run_drop,
};

/* ---- length ---- */

static wh_exit show_length(const wh_args *args, wh_queue_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status st;
	char age[WH_SPAN_LEN];

	if (wherry_queue_get_status(s->queue, &st, sizeof(st), &err) != WHERRY_OK)
		return wh_report(&err);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"ready\":%" PRId64 ",\"leased\":%" PRId64
			     ",\"waiting\":%" PRId64 ",\"dead\":%" PRId64
			     ",\"oldest_ready_seconds\":%.3f}\n",
			     st.ready, st.leased, st.waiting, st.dead,
			     (double)st.oldest_ready_us / 1e6);
	else
		(void)printf("ready    %" PRId64 "%s%s\nleased   %" PRId64
			     "\nwaiting  %" PRId64 "\ndead     %" PRId64 "\n",
			     st.ready, st.ready ? ", the oldest for " : "",
			     st.ready ? wh_span_text(st.oldest_ready_us, age) : "",
			     st.leased, st.waiting, st.dead);
	return WH_EXIT_DONE;
}

static wh_exit run_length(wh_args *args)
{
	return with_queue(args, show_length);
}

static const wh_option length_options[] = {
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_length_word = {
	.name = "queue length",
	.operands = "URL#NAME",
	.synopsis = "URL#NAME [--json]",
	.brief = "Count the messages of a queue",
	.help = "Ready messages can be received now. Leased ones were received and not "
		"acknowledged. Waiting ones are delayed or will be tried again. Dead ones need "
		"a person.\n"
		"\n"
		"Examples:\n"
		"  wherry queue length sqlite:shop.db#jobs\n",
	.options = length_options,
	.plain = true,
	.run = run_length,
};

/* ---- peek, errors ---- */

enum { ID, STATE, ATTEMPTS, MESSAGE_ID, TEXT, COLUMNS };

static const wh_table_column columns[COLUMNS] = {
	[ID] = {"ID", 0, true, NULL},
	[STATE] = {"STATE", 0, false, NULL},
	[ATTEMPTS] = {"ATTEMPTS", 0, true, NULL},
	[MESSAGE_ID] = {"MESSAGE_ID", 36, false, NULL},
	[TEXT] = {"BODY OR ERROR", 0, false, NULL},
};

typedef struct listing {
	wh_queue_session *session;
	wh_table table;
	bool json;
	int64_t n;
} listing;

static wherry_code show(void *ctx, const wherry_queue_message *msg)
{
	listing *l = ctx;
	wh_buf body = WH_BUF_INIT(4096);
	char id[24], attempts[16];
	const char *cells[COLUMNS] = {[ID] = id,
				      [STATE] = wh_queue_state_name(msg->state),
				      [ATTEMPTS] = attempts,
				      [MESSAGE_ID] = msg->message_id};

	l->n++;
	if (l->json) {
		wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

		wh_put_queue_message(&line, l->session, msg);
		wh_print_buf(&line, "");
		wh_buf_clear(&line);
		return ferror(stdout) ? WHERRY_INTERRUPTED : WHERRY_OK;
	}
	(void)snprintf(id, sizeof(id), "%" PRId64, msg->id);
	(void)snprintf(attempts, sizeof(attempts), "%" PRId32, msg->attempts);
	wh_put_body_begin(&body, msg->body, msg->body ? msg->body_len : 0);
	cells[TEXT] =
		msg->last_error && *msg->last_error ? msg->last_error : wh_buf_str(&body);
	wh_table_add(&l->table, cells);
	wh_buf_clear(&body);
	return WHERRY_OK;
}

static wh_exit list(const wh_args *args, unsigned states)
{
	wherry_queue_filter filter = WHERRY_QUEUE_FILTER(.states = states, .limit = 100);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_queue_session s;
	listing l = {.session = &s, .json = wh_arg_on(args, "json")};
	wherry_code code;
	wh_exit status;

	if (!wh_arg_count(args, "limit", 1, INT64_MAX, &filter.limit) ||
	    !wh_arg_count(args, "after", 0, INT64_MAX, &filter.after_id))
		return WH_EXIT_USAGE;
	status = wh_queue_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	wh_table_begin(&l.table, columns, COLUMNS);
	code = wherry_queue_peek(s.queue, &filter, show, &l, &err);
	if (!l.json)
		wh_table_end(&l.table);
	if (code != WHERRY_OK && !ferror(stdout))
		status = wh_report(&err);
	else if (!l.n && !l.json)
		(void)fprintf(stderr, "no messages\n");
	wh_queue_session_close(&s);
	return status;
}

static const wh_option list_options[] = {
	{"limit", "N", "At most this many. (default 100)", NULL, 0},
	{"after", "ID", "Only ids above this one: the next page.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

static wh_exit run_peek(wh_args *args)
{
	return list(args, 0);
}

const wh_command wh_queue_peek_word = {
	.name = "queue peek",
	.operands = "URL#NAME",
	.synopsis = "URL#NAME [--limit N] [--after ID] [--json]",
	.brief = "Look at messages without receiving them",
	.help = "It locks nothing: receivers that work meanwhile do not notice. The table shows "
		"the first 200 bytes of a body, with a newline as \\n and other control characters as "
		"\\u001b. --json has all of it.\n"
		"\n"
		"Examples:\n"
		"  wherry queue peek sqlite:shop.db#jobs --limit 10\n",
	.options = list_options,
	.plain = true,
	.run = run_peek,
};

static wh_exit run_errors(wh_args *args)
{
	return list(args, 1u << WHERRY_DEAD);
}

const wh_command wh_queue_errors_word = {
	.name = "queue errors",
	.operands = "URL#NAME",
	.synopsis = "URL#NAME [--limit N] [--after ID] [--json]",
	.brief = "List the dead messages of a queue, with their errors",
	.help = "`wherry queue retry` makes them ready again.\n"
		"\n"
		"Examples:\n"
		"  wherry queue errors sqlite:shop.db#jobs\n",
	.options = list_options,
	.plain = true,
	.run = run_errors,
};

/* ---- retry, purge ---- */

static wh_exit changed(const wh_args *args, const wh_queue_session *s, int64_t n,
		       const char *what)
{
	if (n)
		wh_audit(args->command->name, wh_operand(args, 0), s->at.name, n);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"%s\":%" PRId64 "}\n", what, n);
	else
		(void)printf("%" PRId64 " message%s %s\n", n, wh_plural(n), what);
	return WH_EXIT_DONE;
}

static wh_exit retry_dead(const wh_args *args, wh_queue_session *s)
{
	const char *text = wh_operand(args, 1);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0, n = 0;

	if (text && (!wh_parse_int(text, &id) || id <= 0))
		return wh_usage(args->command, "'%s' is not an id", text);
	if (wherry_queue_retry(s->queue, id, &n, &err) != WHERRY_OK)
		return wh_report(&err);
	return changed(args, s, n, "retried");
}

static wh_exit run_retry(wh_args *args)
{
	if (!wh_operand(args, 1) == !wh_arg_on(args, "all"))
		return wh_usage(args->command, "name a message by its id, or say --all");
	return with_queue(args, retry_dead);
}

static const wh_option retry_options[] = {
	{"all", NULL, "Every dead message.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_retry_word = {
	.name = "queue retry",
	.operands = "URL#NAME [ID]",
	.synopsis = "URL#NAME ID|--all [--json]",
	.brief = "Make dead messages ready again",
	.help = "They take their old places, and no attempt is counted.\n"
		"\n"
		"Examples:\n"
		"  wherry queue retry sqlite:shop.db#jobs --all\n",
	.options = retry_options,
	.plain = true,
	.run = run_retry,
};

static wh_exit purge(const wh_args *args, wh_queue_session *s)
{
	unsigned states = wh_arg_on(args, "dead") ? 1u << WHERRY_DEAD : 0;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status st;
	wh_exit status;
	int64_t n = 0;

	if (wherry_queue_get_status(s->queue, &st, sizeof(st), &err) != WHERRY_OK)
		return wh_report(&err);
	n = st.dead + (states ? 0 : st.ready + st.waiting);
	if (!wh_confirm(args, &status,
			"delete %" PRId64
			" %smessage%s of queue '%s', none of them leased",
			n, states ? "dead " : "", wh_plural(n), s->at.name))
		return status;
	n = 0;
	if (wherry_queue_purge(s->queue, states, 1000, &n, &err) != WHERRY_OK)
		return wh_report(&err);
	return changed(args, s, n, "deleted");
}

static wh_exit run_purge(wh_args *args)
{
	return with_queue(args, purge);
}

static const wh_option purge_options[] = {
	{"dead", NULL, "Only dead messages.", NULL, 0},
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_purge_word = {
	.name = "queue purge",
	.operands = "URL#NAME",
	.synopsis = "URL#NAME [--dead] " WH_CONFIRM_USAGE " [--json]",
	.brief = "Delete the messages of a queue",
	.help = "Messages that are leased stay.\n"
		"\n"
		"Examples:\n"
		"  wherry queue purge sqlite:shop.db#jobs --dead --yes\n",
	.options = purge_options,
	.plain = true,
	.run = run_purge,
};
