#include <inttypes.h>
#include <string.h>

#include "cli/on_queue.h"
#include "cli/outgoing.h"
#include "cli/target.h"
#include "db/driver.h"
#include "store/name.h"

/* The topics of a schema, and the queue that the URL names in it. */
typedef struct place {
	wherry_db *db;
	wherry_topics *topics;
	/* schema "": the only one of the search path; table "": no queue is named. */
	wh_name name;
} place;

typedef wh_exit (*work)(const wh_args *args, const place *at);

static void say_nobody(const wh_args *args, const char *topic)
{
	wh_buf text = WH_BUF_INIT(4096), name = WH_BUF_INIT(1000);

	if (wh_arg(args, "schema"))
		wh_buf_printf(&name, "%s.", wh_arg(args, "schema"));
	wh_buf_puts(&name, "NAME");
	wh_put_table_of(&text, args->target, wh_operand(args, 0),
			wh_buf_into(&name, &text));
	wh_buf_putc(&text, ' ');
	wh_put_word(&text, topic);
	(void)fprintf(
		stderr,
		"no queue has subscribed to '%s': `wherry queue subscribe%s` lets one "
		"get it\n",
		topic, wh_buf_str(&text));
	wh_buf_clear(&name);
	wh_buf_clear(&text);
}

/* Open the topics of the schema that --schema or the queue's name contains. */
static wherry_code open_topics(const wh_args *args, wherry_db *db, place *out,
			       wherry_error *err)
{
	const char *schema = wh_arg_known(args, "schema") ? wh_arg(args, "schema") : NULL;
	wherry_code code = WHERRY_OK;

	if (strstr(args->command->operands, "NAME"))
		code = wh_name_parse(args->table.table,
				     db->driver->connection.schema_of != NULL, &out->name,
				     err);
	/* A queue that is named without a schema gets the topics beside its table. */
	if (code == WHERRY_OK && !schema && *out->name.table && !*out->name.schema)
		code = wh_db_schema_of(db, out->name.table, false, out->name.schema,
				       sizeof(out->name.schema), err);
	if (!schema && *out->name.schema)
		schema = out->name.schema;
	if (code == WHERRY_OK)
		code = wherry_topics_open(db, schema, &out->topics, err);
	if (code == WHERRY_OK && schema && schema != out->name.schema)
		(void)snprintf(out->name.schema, sizeof(out->name.schema), "%s", schema);
	return code;
}

static wh_exit with_topics(const wh_args *args, work run)
{
	wherry_error err = WHERRY_ERROR_INIT;
	place topics = {.topics = NULL};
	wherry_code code;
	wh_session at;
	wh_exit status = wh_session_connect(&at, args);

	if (status != WH_EXIT_DONE)
		return status;
	topics.db = at.db;
	code = open_topics(args, at.db, &topics, &err);
	status =
		code == WHERRY_OK ? run(args, &topics) : wh_call_failed(args, code, &err);
	wherry_topics_close(topics.topics);
	wh_session_close(&at);
	return status;
}

/* ---- subscribe, unsubscribe ---- */

static wh_exit subscribe(const wh_args *args, const place *at)
{
	const char *topic = wh_operand(args, 1);
	wherry_error err = WHERRY_ERROR_INIT;

	if (wherry_topics_subscribe(at->topics, topic, at->name.table, &err) != WHERRY_OK)
		return wh_report(&err);
	(void)printf("queue '%s' gets what is published to '%s'\n", args->table.table,
		     topic);
	return WH_EXIT_DONE;
}

static wh_exit run_subscribe(wh_args *args)
{
	return with_topics(args, subscribe);
}

const wh_command wh_queue_subscribe_word = {
	.name = "queue subscribe",
	.operands = "URL#NAME TOPIC",
	.synopsis = "URL#NAME TOPIC",
	.brief = "Let a queue get what is published to a topic",
	.help = "Doing it twice is fine.\n"
		"\n"
		"Examples:\n"
		"  wherry queue subscribe sqlite:shop.db#jobs orders.placed\n",
	.plain = true,
	.run = run_subscribe,
};

static wh_exit unsubscribe(const wh_args *args, const place *at)
{
	const char *topic = wh_operand(args, 1);
	wherry_error err = WHERRY_ERROR_INIT;

	if (wherry_topics_unsubscribe(at->topics, topic, at->name.table, &err) !=
	    WHERRY_OK)
		return wh_report(&err);
	(void)printf("queue '%s' gets nothing more that is published to '%s'\n",
		     args->table.table, topic);
	return WH_EXIT_DONE;
}

static wh_exit run_unsubscribe(wh_args *args)
{
	return with_topics(args, unsubscribe);
}

const wh_command wh_queue_unsubscribe_word = {
	.name = "queue unsubscribe",
	.operands = "URL#NAME TOPIC",
	.synopsis = "URL#NAME TOPIC",
	.brief = "Take a subscription back",
	.help = "Messages that are in the queue stay there.\n"
		"\n"
		"Examples:\n"
		"  wherry queue unsubscribe sqlite:shop.db#jobs orders.placed\n",
	.plain = true,
	.run = run_unsubscribe,
};

/* ---- subscriptions ---- */

#define SCHEMA_OPTION                                                                                       \
	{                                                                                                   \
		"schema", "SCHEMA",                                                                         \
			"The schema of the queues. (default: the only one of the search path with queues)", \
			NULL, 0                                                                             \
	}

typedef struct listing {
	wh_table table;
	bool json;
	/* Schema of the topics; "": the database has no schemas. */
	char schema[WH_NAME_MOST + 1];
} listing;

static wherry_code show(void *ctx, const char *topic, const char *queue)
{
	const char *cells[] = {topic, queue};
	listing *l = ctx;
	wh_name name;

	/* An address of NServiceBus on PostgreSQL has the schema, and quotes. */
	if (*queue == '"' && wh_name_parse(queue, true, &name, NULL) == WHERRY_OK &&
	    strcmp(name.schema, l->schema) == 0)
		queue = cells[1] = name.table;
	if (l->json) {
		wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

		wh_buf_puts(&line, "{\"topic\":");
		wh_buf_json(&line, topic, strlen(topic));
		wh_put_text_field(&line, "queue", queue);
		wh_buf_puts(&line, "}");
		wh_print_buf(&line, "\n");
		wh_buf_clear(&line);
	} else {
		wh_table_add(&l->table, cells);
	}
	return ferror(stdout) ? WHERRY_INTERRUPTED : WHERRY_OK;
}

static wh_exit subscriptions(const wh_args *args, const place *at)
{
	static const wh_table_column columns[] = {{"TOPIC", 60, false, NULL},
						  {"QUEUE", 0, false, NULL}};
	wherry_error err = WHERRY_ERROR_INIT;
	listing l = {.json = wh_arg_on(args, "json")};
	wherry_code code = WHERRY_OK;

	wh_table_begin(&l.table, columns, 2);
	if (*at->name.schema)
		(void)snprintf(l.schema, sizeof(l.schema), "%s", at->name.schema);
	else
		code = wh_db_only_schema_of(at->db, "wherry_subscription", l.schema,
					    sizeof(l.schema), &err);
	if (code == WHERRY_OK)
		code = wherry_topics_list(at->topics, wh_arg(args, "topic"), show, &l,
					  &err);
	if (!l.json)
		wh_table_end(&l.table);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

static wh_exit run_subscriptions(wh_args *args)
{
	return with_topics(args, subscriptions);
}

static const wh_option subscriptions_options[] = {
	{"topic", "TOPIC", "Only this topic.", NULL, 0},
	SCHEMA_OPTION,
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_subscriptions_word = {
	.name = "queue subscriptions",
	.operands = "URL",
	.synopsis = "URL [--topic TOPIC] [--schema SCHEMA] [--json]",
	.brief = "List which queues get which topics",
	.help = "Examples:\n"
		"  wherry queue subscriptions sqlite:shop.db\n",
	.options = subscriptions_options,
	.plain = true,
	.run = run_subscriptions,
};

/* ---- publish ---- */

static wh_exit publish(const wh_args *args, const place *at)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_outgoing out;
	wh_exit status = wh_outgoing_read(&out, args, 2);
	int64_t n = 0;

	if (status == WH_EXIT_DONE &&
	    wherry_topics_publish(at->topics, wh_operand(args, 1), &out.msg, &n, &err) !=
		    WHERRY_OK)
		status = wh_report(&err);
	if (status == WH_EXIT_DONE && wh_arg_on(args, "json"))
		(void)printf("{\"queues\":%" PRId64 "}\n", n);
	else if (status == WH_EXIT_DONE)
		(void)printf("published to %" PRId64 " queue%s\n", n, wh_plural(n));
	if (status == WH_EXIT_DONE && !n && !wh_arg_on(args, "json"))
		say_nobody(args, wh_operand(args, 1));
	wh_outgoing_clear(&out);
	return status;
}

static wh_exit run_publish(wh_args *args)
{
	return with_topics(args, publish);
}

static const wh_option publish_options[] = {
	WH_SEND_OPTIONS,
	SCHEMA_OPTION,
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_publish_word = {
	.name = "queue publish",
	.operands = "URL TOPIC [BODY]",
	.synopsis = "URL TOPIC " WH_BODY_USAGE " [--header NAME=VALUE]... [--id ID] "
		    "[--correlation-id ID] [--reply-to ADDRESS] [--in DURATION] "
		    "[--expires DURATION] [--schema SCHEMA] [--json]",
	.brief = "Send a message to every queue that has subscribed to a topic",
	.help = "All of these queues get it, or none of them.\n"
		"\n"
		"Examples:\n"
		"  wherry queue publish sqlite:shop.db orders.placed '{\"order\":7}'\n",
	.options = publish_options,
	.plain = true,
	.run = run_publish,
};
