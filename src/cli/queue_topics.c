#include "cli/queue_session.h"

#include <inttypes.h>
#include <string.h>

typedef wh_exit (*work)(const wh_args *args, wherry_topics *topics);

static void say_nobody(const wh_args *args, const char *topic)
{
	wh_buf text = WH_BUF_INIT(4096);

	wh_buf_printf(&text, "%s NAME ", args->target ? args->target : "");
	wh_put_word(&text, topic);
	(void)fprintf(
		stderr,
		"no queue has subscribed to '%s': `wherry queue subscribe%s` lets one "
		"get it\n",
		topic, wh_buf_str(&text));
	wh_buf_clear(&text);
}

static wh_exit with_topics(const wh_args *args, work run)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;
	wh_place at;
	wh_exit status = wh_place_open(&at, args);

	if (status != WH_EXIT_DONE)
		return status;
	status = wherry_topics_open(at.db, NULL, &topics, &err) == WHERRY_OK
			 ? run(args, topics)
			 : wh_report(&err);
	wherry_topics_close(topics);
	wh_place_close(&at);
	return status;
}

/* ---- subscribe, unsubscribe ---- */

static wh_exit subscribe(const wh_args *args, wherry_topics *topics)
{
	const char *queue = wh_operand(args, 1), *topic = wh_operand(args, 2);
	wherry_error err = WHERRY_ERROR_INIT;

	if (wherry_topics_subscribe(topics, topic, queue, &err) != WHERRY_OK)
		return wh_report(&err);
	(void)printf("queue '%s' gets what is published to '%s'\n", queue, topic);
	return WH_EXIT_DONE;
}

static wh_exit run_subscribe(wh_args *args)
{
	return with_topics(args, subscribe);
}

const wh_command wh_queue_subscribe_word = {
	.name = "queue subscribe",
	.operands = "URL NAME TOPIC",
	.synopsis = "URL NAME TOPIC",
	.brief = "Let a queue get what is published to a topic",
	.help = "Doing it twice is fine.\n"
		"\n"
		"Examples:\n"
		"  wherry queue subscribe sqlite:shop.db jobs orders.placed\n",
	.plain = true,
	.run = run_subscribe,
};

static wh_exit unsubscribe(const wh_args *args, wherry_topics *topics)
{
	const char *queue = wh_operand(args, 1), *topic = wh_operand(args, 2);
	wherry_error err = WHERRY_ERROR_INIT;

	if (wherry_topics_unsubscribe(topics, topic, queue, &err) != WHERRY_OK)
		return wh_report(&err);
	(void)printf("queue '%s' gets nothing more that is published to '%s'\n", queue,
		     topic);
	return WH_EXIT_DONE;
}

static wh_exit run_unsubscribe(wh_args *args)
{
	return with_topics(args, unsubscribe);
}

const wh_command wh_queue_unsubscribe_word = {
	.name = "queue unsubscribe",
	.operands = "URL NAME TOPIC",
	.synopsis = "URL NAME TOPIC",
	.brief = "Take a subscription back",
	.help = "Messages that are in the queue stay there.\n"
		"\n"
		"Examples:\n"
		"  wherry queue unsubscribe sqlite:shop.db jobs orders.placed\n",
	.plain = true,
	.run = run_unsubscribe,
};

/* ---- subscriptions ---- */

typedef struct listing {
	wh_table table;
	bool json;
} listing;

static wherry_code show(void *ctx, const char *topic, const char *queue)
{
	const char *cells[] = {topic, queue};
	listing *l = ctx;

	if (l->json) {
		wh_buf line = WH_BUF_INIT(64 * 1024);

		wh_buf_puts(&line, "{\"topic\":");
		wh_buf_json(&line, topic, strlen(topic));
		wh_put_text_field(&line, "queue", queue);
		wh_buf_puts(&line, "}");
		(void)puts(wh_buf_str(&line));
		wh_buf_clear(&line);
	} else {
		wh_table_add(&l->table, cells);
	}
	return ferror(stdout) ? WHERRY_INTERRUPTED : WHERRY_OK;
}

static wh_exit subscriptions(const wh_args *args, wherry_topics *topics)
{
	static const wh_table_column columns[] = {{"TOPIC", 60, false, NULL},
						  {"QUEUE", 0, false, NULL}};
	wherry_error err = WHERRY_ERROR_INIT;
	listing l = {.json = wh_arg_on(args, "json")};
	wherry_code code;

	wh_table_begin(&l.table, columns, 2);
	code = wherry_topics_list(topics, wh_arg(args, "topic"), show, &l, &err);
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
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_subscriptions_word = {
	.name = "queue subscriptions",
	.operands = "URL",
	.synopsis = "URL [--topic TOPIC] [--json]",
	.brief = "List which queues get which topics",
	.help = "Examples:\n"
		"  wherry queue subscriptions sqlite:shop.db\n",
	.options = subscriptions_options,
	.plain = true,
	.run = run_subscriptions,
};

/* ---- publish ---- */

static wh_exit publish(const wh_args *args, wherry_topics *topics)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_outgoing out;
	wh_exit status = wh_outgoing_read(&out, args, wh_operand(args, 2));
	int64_t n = 0;

	if (status == WH_EXIT_DONE &&
	    wherry_topics_publish(topics, wh_operand(args, 1), &out.msg, &n, &err) !=
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
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_publish_word = {
	.name = "queue publish",
	.operands = "URL TOPIC [BODY]",
	.synopsis = "URL TOPIC [BODY|--from FILE] [--header NAME=VALUE]... [--id ID] "
		    "[--correlation-id ID] [--reply-to ADDRESS] [--in DURATION] "
		    "[--expires DURATION] [--json]",
	.brief = "Send a message to every queue that has subscribed to a topic",
	.help = "All of these queues get it, or none of them.\n"
		"\n"
		"Examples:\n"
		"  wherry queue publish sqlite:shop.db orders.placed '{\"order\":7}'\n",
	.options = publish_options,
	.plain = true,
	.run = run_publish,
};
