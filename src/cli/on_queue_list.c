/*
 * list on a queue.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "cli/on_queue.h"

enum { ID, STATE, ATTEMPTS, AGE, TOPIC, MESSAGE_ID, ERROR, COLUMNS, PAGE = 100 };

static wh_paint paint_state(const char *state)
{
	return strcmp(state, "dead") == 0 ? WH_DANGER : WH_PLAIN;
}

static const wh_table_column columns[COLUMNS] = {
	[ID] = {"ID", 0, true, NULL},
	[STATE] = {"STATE", 0, false, paint_state},
	[ATTEMPTS] = {"ATTEMPTS", 0, true, NULL},
	[AGE] = {"AGE", 0, true, NULL},
	[TOPIC] = {"TOPIC", 20, false, NULL},
	[MESSAGE_ID] = {"MESSAGE_ID", 36, false, NULL},
	[ERROR] = {"ERROR", 0, false, NULL},
};

typedef struct listing {
	const wh_queue_session *session;
	wh_table table;
	bool json, more;
	int64_t n, limit;
	int64_t now_us;
	int64_t last_read, last_shown; /* Ids of messages. */
	size_t read;                   /* Messages read of this page. */

	/* Which messages to list; NULL, 0: all. */
	unsigned states;
	const char *topic, *text;
	int64_t since_us, older_us;
} listing;

static bool has(const char *text, size_t len, const char *part)
{
	return text && memmem(text, len, part, strlen(part));
}

static bool has_text(const listing *l, const wherry_queue_message *msg)
{
	const char *const fields[] = {wh_queue_topic(l->session, msg), msg->message_id,
				      msg->last_error};

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (fields[i] && strstr(fields[i], l->text))
			return true;
	return has(msg->body, msg->body_len, l->text);
}

/* "orders*" names all topics that begin with "orders". */
static bool has_topic(const listing *l, const wherry_queue_message *msg)
{
	const char *topic = wh_queue_topic(l->session, msg);
	size_t len = strlen(l->topic);

	return len && l->topic[len - 1] == '*' ? strncmp(topic, l->topic, len - 1) == 0
					       : strcmp(topic, l->topic) == 0;
}

static bool is_wanted(const listing *l, const wherry_queue_message *msg)
{
	int64_t age_us = wh_since(l->now_us, msg->created_at_us);

	/* A message that does not say when it was sent has no age. */
	if (!msg->created_at_us && (l->since_us || l->older_us))
		return false;
	return (!l->topic || has_topic(l, msg)) && (!l->text || has_text(l, msg)) &&
	       (!l->since_us || age_us <= l->since_us) &&
	       (!l->older_us || age_us >= l->older_us);
}

static void print_json(const listing *l, const wherry_queue_message *msg)
{
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

	wh_buf_printf(&line, "{\"id\":%" PRId64, msg->id);
	wh_put_text_field(&line, "message_id", msg->message_id);
	wh_put_text_field(&line, "topic", wh_queue_topic(l->session, msg));
	wh_put_text_field(&line, "correlation_id", msg->correlation_id);
	wh_put_text_field(&line, "reply_to", msg->reply_to);
	wh_put_time_field(&line, "created_at", msg->created_at_us);
	wh_buf_printf(&line, ",\"attempts\":%" PRId32, msg->attempts);
	wh_put_text_field(&line, "state", wh_queue_state_name(msg->state));
	wh_put_time_field(&line, "available_at", msg->available_at_us);
	wh_put_time_field(&line, "expires_at", msg->expires_at_us);
	wh_put_text_field(&line, "last_error", msg->last_error);
	wh_buf_putc(&line, '}');
	wh_print_buf(&line, "\n");
	wh_buf_clear(&line);
}

static void add_row(listing *l, const wherry_queue_message *msg)
{
	char id[24], attempts[16], age[WH_SPAN_LEN];
	const char *cells[COLUMNS] = {
		[ID] = id,
		[STATE] = wh_queue_state_name(msg->state),
		[ATTEMPTS] = attempts,
		[AGE] = msg->created_at_us
				? wh_span_text(wh_since(l->now_us, msg->created_at_us),
					       age)
				: "-",
		[TOPIC] = wh_queue_topic(l->session, msg),
		[MESSAGE_ID] = msg->message_id ? msg->message_id : "",
		[ERROR] = msg->last_error ? msg->last_error : "",
	};

	(void)snprintf(id, sizeof(id), "%" PRId64, msg->id);
	(void)snprintf(attempts, sizeof(attempts), "%" PRId32, msg->attempts);
	wh_table_add(&l->table, cells);
}

/* Show a message if it is wanted.  One more than the limit sets l->more. */
static wherry_code visit(void *ctx, const wherry_queue_message *msg)
{
	listing *l = ctx;

	l->read++;
	l->last_read = msg->id;
	if (l->more || !is_wanted(l, msg))
		return WHERRY_OK;
	if (l->n == l->limit) {
		l->more = true;
		return WHERRY_OK;
	}
	l->n++;
	l->last_shown = msg->id;
	if (l->json)
		print_json(l, msg);
	else
		add_row(l, msg);
	return ferror(stdout) ? WHERRY_INTERRUPTED : WHERRY_OK;
}

/* List messages in the order of their ids, page by page. */
static wherry_code list_states(listing *l, unsigned states, int64_t after,
			       wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	l->last_read = after;
	l->read = PAGE;
	while (code == WHERRY_OK && l->read == PAGE && !l->more) {
		l->read = 0;
		code = wherry_queue_peek(l->session->queue,
					 &WHERRY_QUEUE_FILTER(.states = states,
							      .after_id = l->last_read,
							      .limit = PAGE),
					 visit, l, err);
	}
	return code;
}

static void say_more(const wh_args *args, const listing *l, bool by_id)
{
	if (!l->n && !l->json)
		(void)fprintf(stderr, "no messages\n");
	if (l->more && by_id)
		(void)fprintf(stderr, "there are more: --after %" PRId64 "\n",
			      l->last_shown);
	else if (l->more)
		(void)fprintf(stderr,
			      "there are more: `wherry list%s --limit %" PRId64 "`\n",
			      args->target, 10 * l->limit);
}

static wh_exit list(const wh_args *args, listing *l, int64_t after)
{
	const unsigned dead = 1u << WHERRY_DEAD, others = 1u << WHERRY_PENDING |
							  1u << WHERRY_PROCESSING |
							  1u << WHERRY_FAILED;
	bool by_id = l->states || wh_arg_on(args, "all") || wh_arg(args, "after");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = list_states(l, by_id ? l->states : dead, after, &err);

	if (!by_id && code == WHERRY_OK && !l->more)
		code = list_states(l, others, 0, &err);
	if (!l->json)
		wh_table_end(&l->table);
	if (code != WHERRY_OK && !ferror(stdout))
		return wh_report(&err);
	say_more(args, l, by_id);
	return WH_EXIT_DONE;
}

wh_exit wh_on_queue_list(const wh_args *args)
{
	static const wh_without refused[] = {
		{"key", "a queue has no keys: choose messages by --topic or --text"},
		{"archived", "a queue has no archive: messages that were received are "
			     "deleted"},
		{"before", "a queue is listed in its order: page with --after ID"},
		{NULL, NULL}};
	wh_queue_session s;
	listing l = {.session = &s,
		     .json = wh_arg_on(args, "json"),
		     .limit = 100,
		     .now_us = wh_now(&wh_env_system),
		     .topic = wh_arg(args, "topic"),
		     .text = wh_arg(args, "text")};
	int64_t after = 0;
	wh_exit status;

	if (!wh_on_queue_allows(args, refused) ||
	    !wh_arg_states(args, "state", wh_queue_state_name, &l.states) ||
	    !wh_arg_duration(args, "since", &l.since_us) ||
	    !wh_arg_duration(args, "older-than", &l.older_us) ||
	    !wh_arg_count(args, "after", 0, INT64_MAX, &after) ||
	    !wh_arg_count(args, "limit", 1, 1000000000, &l.limit))
		return WH_EXIT_USAGE;
	status = wh_on_queue_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	wh_table_begin(&l.table, columns, COLUMNS);
	status = list(args, &l, after);
	wh_queue_session_close(&s);
	return status;
}
