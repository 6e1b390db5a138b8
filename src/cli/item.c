#include "cli/item.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/date.h"
#include "base/env.h"
#include "base/json.h"
#include "base/text.h"
#include "publish/parts.h"

/* ---- the fields ---- */

enum {
	O = 1 << WH_OF_OUTBOX,
	Q = 1 << WH_OF_QUEUE,
	D = 1 << WH_OF_DELAYED,
	ALL = O | Q | D
};

/* When a field is part of the JSON. */
enum {
	ALWAYS,
	WHOLE,  /* With headers and body. */
	IF_SET, /* If it has a value. */
	WHOLE_IF_SET
};

typedef enum field_type { TEXT, NUMBER, TIME, FLAG, HEADERS, BODY } field_type;

typedef struct field {
	const char *name;  /* In JSON. */
	const char *label; /* For a person; NULL: it is not shown. */
	field_type type;
	unsigned kinds; /* The kinds that have it. */
	int when;
	size_t at; /* Offset in wh_item. */
} field;

#define AT(member) offsetof(wh_item, member)

/* clang-format off */
static const field fields[] = {
	{"id", "id:", NUMBER, ALL, ALWAYS, AT(id)},
	{"message_id", "message_id:", TEXT, O | Q, ALWAYS, AT(message_id)},
	{"topic", "topic:", TEXT, O | Q, ALWAYS, AT(topic)},
	{"key", "key:", TEXT, O | D, ALWAYS, AT(key)},
	{"aggregate_type", "aggregate_type:", TEXT, O, WHOLE_IF_SET, AT(aggregate_type)},
	{"aggregate_id", "aggregate_id:", TEXT, O, WHOLE_IF_SET, AT(aggregate_id)},
	{"trace_id", "trace_id:", TEXT, O, WHOLE_IF_SET, AT(trace_id)},
	{"correlation_id", "correlation_id:", TEXT, Q, ALWAYS, AT(correlation_id)},
	{"reply_to", "reply_to:", TEXT, Q, ALWAYS, AT(reply_to)},
	{"headers", "headers:", HEADERS, O | Q, WHOLE, AT(headers)},
	{"body", NULL, BODY, ALL, WHOLE, AT(body)},
	{"state", "state:", TEXT, ALL, ALWAYS, AT(state)},
	{"why", "why:", TEXT, ALL, IF_SET, AT(why)},
	{"attempts", "attempts:", NUMBER, ALL, ALWAYS, AT(attempts)},
	{"redelivery", NULL, FLAG, D, ALWAYS, AT(redelivery)},
	{"created_at", "created:", TIME, ALL, ALWAYS, AT(created_at)},
	{"at", "offered for:", TIME, D, ALWAYS, AT(at)},
	{"available_at", "due:", TIME, ALL, ALWAYS, AT(available_at)},
	{"expires_at", "expires:", TIME, Q, ALWAYS, AT(expires_at)},
	{"claimed_at", "claimed:", TIME, O, ALWAYS, AT(claimed_at)},
	{"processed_at", "delivered:", TIME, O, ALWAYS, AT(processed_at)},
	{"last_error", "last error:", TEXT, ALL, ALWAYS, AT(last_error)},
	{"held_by", NULL, NUMBER, O, WHOLE, AT(held_by)},
	{"parked_by", NULL, NUMBER, O, WHOLE, AT(parked_by)},
	{"token", NULL, TEXT, Q | D, IF_SET, AT(token)},
};
/* clang-format on */

enum { N_FIELDS = sizeof(fields) / sizeof(*fields) };

static const char *text_of(const wh_item *item, const field *f)
{
	return *(const char *const *)((const char *)item + f->at);
}

static int64_t number_of(const wh_item *item, const field *f)
{
	return *(const int64_t *)((const char *)item + f->at);
}

static bool flag_of(const wh_item *item, const field *f)
{
	return *(const bool *)((const char *)item + f->at);
}

/* ---- from the messages of each model ---- */

wh_item wh_item_of_row(const wherry_row *row)
{
	const wherry_message *m = row->message;

	return (wh_item){
		.kind = WH_OF_OUTBOX,
		.id = m->id,
		.message_id = m->message_id,
		.topic = m->topic,
		.key = wh_message_key(m),
		.aggregate_type = m->aggregate_type,
		.aggregate_id = m->aggregate_id,
		.trace_id = m->trace_id,
		.headers = m->headers,
		.body = m->body,
		.body_len = m->body_len,
		.state = wherry_state_name(row->state),
		.attempts = m->attempts,
		.created_at = m->created_at_us,
		.claimed_at = row->claimed_at_us,
		.available_at = row->next_retry_at_us,
		.processed_at = row->processed_at_us,
		.last_error = row->last_error,
		.held_by = row->held_by,
		.parked_by = row->parked_by,
	};
}

const char *wh_queue_state_name(wherry_state state)
{
	switch (state) {
	case WHERRY_PROCESSING:
		return "leased";
	case WHERRY_FAILED:
		return "waiting";
	case WHERRY_DEAD:
		return "dead";
	case WHERRY_PENDING:
	case WHERRY_DONE:
		break;
	}
	return "ready";
}

wh_item wh_item_of_queue(const wherry_queue_message *msg, const char *queue)
{
	return (wh_item){
		.kind = WH_OF_QUEUE,
		.id = msg->id,
		.message_id = msg->message_id,
		.topic = msg->topic ? msg->topic : queue,
		.correlation_id = msg->correlation_id,
		.reply_to = msg->reply_to,
		.headers = msg->headers,
		.body = msg->body,
		.body_len = msg->body_len,
		.state = wh_queue_state_name(msg->state),
		.attempts = msg->attempts,
		.created_at = msg->created_at_us,
		.available_at = msg->available_at_us,
		.expires_at = msg->expires_at_us,
		.last_error = msg->last_error,
		.token = msg->token,
	};
}

const char *wh_delayed_state_name(const wherry_delayed_message *msg, int64_t now_us)
{
	if (msg->state == WHERRY_DEAD || msg->state == WHERRY_PROCESSING)
		return wh_queue_state_name(msg->state);
	return msg->available_at_us > now_us ? "waiting" : "ready";
}

wh_item wh_item_of_delayed(const wherry_delayed_message *msg, int64_t now_us)
{
	return (wh_item){
		.kind = WH_OF_DELAYED,
		.id = msg->id,
		.key = msg->key,
		.body = msg->body,
		.body_len = msg->body_len,
		.state = wh_delayed_state_name(msg, now_us),
		.attempts = msg->attempts,
		.redelivery = msg->redelivery,
		.created_at = msg->created_at_us,
		.at = msg->at_us,
		.available_at = msg->available_at_us,
		.last_error = msg->last_error,
		.token = msg->token,
	};
}

/* ---- JSON ---- */

/* Headers that plain SQL wrote may be invalid: then the message cannot be delivered. */
static void put_headers(wh_buf *buf, const field *f, const char *headers)
{
	const char *text = headers && *headers ? headers : "{}";
	bool valid = wh_json_headers(text, strlen(text), NULL) == WHERRY_OK;

	if (!valid)
		text = "{}";
	wh_put_json_field(buf, f->name, text, strlen(text));
	if (!valid)
		wh_put_text_field(buf, "malformed_headers", headers);
}

static bool is_in_json(const wh_item *item, const field *f, bool whole)
{
	if (!(f->kinds & 1u << item->kind) ||
	    (!whole && (f->when == WHOLE || f->when == WHOLE_IF_SET)))
		return false;
	return f->when == ALWAYS || f->when == WHOLE ||
	       (text_of(item, f) && *text_of(item, f));
}

static void put_field(wh_buf *buf, const wh_item *item, const field *f)
{
	switch (f->type) {
	case TEXT:
		wh_put_text_field(buf, f->name, text_of(item, f));
		break;
	case NUMBER:
		wh_buf_printf(buf, ",\"%s\":%" PRId64, f->name, number_of(item, f));
		break;
	case TIME:
		wh_put_time_field(buf, f->name, number_of(item, f));
		break;
	case FLAG:
		wh_buf_printf(buf, ",\"%s\":%s", f->name,
			      flag_of(item, f) ? "true" : "false");
		break;
	case HEADERS:
		put_headers(buf, f, text_of(item, f));
		break;
	case BODY:
		wh_put_body_field(buf, item->body, item->body ? item->body_len : 0);
		break;
	}
}

void wh_put_item(wh_buf *buf, const wh_item *item, bool whole)
{
	size_t begin = buf->len;

	for (size_t i = 0; i < N_FIELDS; i++)
		if (is_in_json(item, &fields[i], whole))
			put_field(buf, item, &fields[i]);
	if (!buf->failed)
		buf->ptr[begin] = '{'; /* instead of the first comma */
	wh_buf_putc(buf, '}');
}

/* ---- text ---- */

/* Return the label of the time, whose meaning depends on the state. */
static const char *label_of_available(const wh_item *item)
{
	if (strcmp(item->state, "leased") == 0)
		return "leased until:";
	return strcmp(item->state, "dead") == 0 && item->kind == WH_OF_DELAYED ? "died:"
									       : "due:";
}

void wh_print_item(const wh_item *item, int64_t now_us)
{
	for (size_t i = 0; i < N_FIELDS; i++) {
		const field *f = &fields[i];

		if (!f->label || !(f->kinds & 1u << item->kind))
			continue;
		if (f->type == NUMBER)
			wh_print_number(f->label, number_of(item, f));
		else if (f->at == AT(available_at))
			wh_print_time(now_us, label_of_available(item),
				      item->available_at);
		else if (f->type == TIME)
			wh_print_time(now_us, f->label, number_of(item, f));
		else
			wh_print_field(f->label, text_of(item, f));
	}
	wh_print_body(item->body, item->body_len);
}

void wh_show_item(const wh_item *item, bool json, int64_t now_us)
{
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

	if (json) {
		wh_put_item(&line, item, true);
		wh_print_buf(&line, "\n");
	} else {
		wh_print_item(item, now_us);
	}
	wh_buf_clear(&line);
}

/* ---- which ones ---- */

bool wh_item_filter_read(wh_item_filter *out, const wh_args *args)
{
	*out = (wh_item_filter){.topic = wh_arg(args, "topic"),
				.key = wh_arg(args, "key"),
				.text = wh_arg(args, "text")};
	return wh_arg_states(args, "state", wh_queue_state_name, &out->states) &&
	       wh_arg_duration(args, "since", &out->since_us) &&
	       wh_arg_duration(args, "older-than", &out->older_us);
}

/* "orders*" is found in every text that begins with "orders". */
static bool is_like(const char *text, const char *pattern)
{
	size_t len = strlen(pattern);

	if (len && pattern[len - 1] == '*')
		return strncmp(text ? text : "", pattern, len - 1) == 0;
	return strcmp(text ? text : "", pattern) == 0;
}

static bool has_text(const wh_item *item, const char *text)
{
	const char *const in[] = {item->topic, item->key, item->message_id,
				  item->last_error};

	for (size_t i = 0; i < sizeof(in) / sizeof(*in); i++)
		if (in[i] && strstr(in[i], text))
			return true;
	return item->body && memmem(item->body, item->body_len, text, strlen(text));
}

static unsigned bit_of(const wh_item *item)
{
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		if (i != WHERRY_DONE &&
		    strcmp(wh_queue_state_name((wherry_state)i), item->state) == 0)
			return 1u << i;
	return 0;
}

bool wh_item_is_wanted(const wh_item *item, const wh_item_filter *filter, int64_t now_us)
{
	int64_t age_us = wh_since(now_us, item->created_at);

	/* A message that does not say when it was sent has no age. */
	if (!item->created_at && (filter->since_us || filter->older_us))
		return false;
	return (!filter->states || filter->states & bit_of(item)) &&
	       (!filter->topic || is_like(item->topic, filter->topic)) &&
	       (!filter->key || is_like(item->key, filter->key)) &&
	       (!filter->text || has_text(item, filter->text)) &&
	       (!filter->since_us || age_us <= filter->since_us) &&
	       (!filter->older_us || age_us >= filter->older_us);
}

/* ---- columns ---- */

static wh_paint paint_state(const char *state)
{
	if (strcmp(state, "dead") == 0)
		return WH_DANGER;
	return strcmp(state, "failed") == 0 ? WH_CARE : WH_PLAIN;
}

typedef enum cell { ID, STATE, ATTEMPTS, AGE, DUE, TOPIC, KEY, MESSAGE_ID, ERROR } cell;

/* clang-format off */
static const struct column {
	wh_table_column column;
	unsigned kinds;
} columns[] = {
	[ID] = {{"ID", 0, true, NULL}, ALL},
	[STATE] = {{"STATE", 0, false, paint_state}, ALL},
	[ATTEMPTS] = {{"ATTEMPTS", 0, true, NULL}, ALL},
	[AGE] = {{"AGE", 0, true, NULL}, O | Q},
	[DUE] = {{"AVAILABLE", 0, false, NULL}, D},
	[TOPIC] = {{"TOPIC", 20, false, NULL}, O | Q},
	[KEY] = {{"KEY", 20, false, NULL}, O | D},
	[MESSAGE_ID] = {{"MESSAGE_ID", 36, false, NULL}, O | Q},
	[ERROR] = {{"ERROR", 0, false, NULL}, ALL},
};
/* clang-format on */

enum { N_COLUMNS = sizeof(columns) / sizeof(*columns) };

bool wh_listing_begin(wh_listing *l, wh_kind kind, const wh_args *args)
{
	size_t n = 0;

	*l = (wh_listing){.json = wh_arg_on(args, "json"),
			  .bodies = wh_arg_on(args, "bodies"),
			  .limit = 100,
			  .now_us = wh_now(&wh_env_system)};
	if (!wh_arg_count(args, "limit", 1, 1000000000, &l->limit))
		return false;
	for (size_t i = 0; i < N_COLUMNS; i++)
		if (columns[i].kinds & 1u << kind)
			l->columns[n++] = columns[i].column;
	if (l->bodies)
		l->columns[n - 1].title = "ERROR OR BODY";
	wh_table_begin(&l->table, l->columns, n);
	return true;
}

static void add_row(wh_listing *l, const wh_item *item)
{
	char id[24], attempts[24], age[WH_SPAN_LEN], at[WH_LOCAL_TIME_LEN] = "";
	wh_buf body = WH_BUF_INIT(4096);
	const char *cells[N_COLUMNS] = {
		[ID] = id,
		[STATE] = item->state,
		[ATTEMPTS] = attempts,
		[AGE] = item->created_at
				? wh_span_text(wh_since(l->now_us, item->created_at), age)
				: "-",
		[DUE] = at,
		[TOPIC] = item->topic,
		[KEY] = item->key,
		[MESSAGE_ID] = item->message_id,
		[ERROR] = item->last_error,
	};
	const char *shown[WH_TABLE_COLUMNS];
	size_t n = 0;

	(void)snprintf(id, sizeof(id), "%" PRId64, item->id);
	(void)snprintf(attempts, sizeof(attempts), "%" PRId64, item->attempts);
	if (item->kind == WH_OF_DELAYED)
		wh_local_time_print(item->available_at, 0, at);
	if (l->bodies && !(item->last_error && *item->last_error)) {
		wh_put_body_begin(&body, item->body, item->body ? item->body_len : 0);
		cells[ERROR] = wh_buf_str(&body);
	}
	for (size_t i = 0; i < N_COLUMNS; i++)
		if (columns[i].kinds & 1u << item->kind)
			shown[n++] = cells[i] ? cells[i] : "";
	wh_table_add(&l->table, shown);
	wh_buf_clear(&body);
}

wherry_code wh_listing_add(wh_listing *l, const wh_item *item)
{
	if (l->n == l->limit) {
		l->more = true;
		return WHERRY_OK;
	}
	l->n++;
	if (l->json) {
		wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);
		wh_item shown = *item;

		shown.token = NULL; /* It is for those who polled. */
		wh_put_item(&line, &shown, l->bodies);
		wh_print_buf(&line, "\n");
		wh_buf_clear(&line);
	} else {
		add_row(l, item);
	}
	/* Stop if the reader closed the pipe. */
	return ferror(stdout) ? WHERRY_INTERRUPTED : WHERRY_OK;
}

void wh_listing_end(wh_listing *l)
{
	if (!l->json)
		wh_table_end(&l->table);
}

/* ---- the next page ---- */

void wh_put_page(wh_buf *text, const wh_args *args, const char *option, const char *value)
{
	static const char *const pages[] = {"after", "before", "limit"};

	wh_buf_printf(text, "wherry %s%s", args->command->name, args->target);
	for (size_t i = 0; i < args->n_given; i++) {
		const wh_given *g = &args->given[i];
		bool page = false;

		for (size_t k = 0; k < sizeof(pages) / sizeof(*pages); k++)
			page |= strcmp(g->option->name, pages[k]) == 0;
		if (page && strcmp(g->option->name, "limit") != 0)
			continue;
		if (page && strcmp(option, "limit") == 0)
			continue;
		wh_buf_printf(text, " --%s", g->option->name);
		if (g->value) {
			wh_buf_putc(text, ' ');
			wh_put_word(text, g->value);
		}
	}
	wh_buf_printf(text, " --%s ", option);
	wh_put_word(text, value);
}

void wh_say_more(const wh_args *args, const char *option, int64_t id)
{
	wh_buf text = WH_BUF_INIT(64 * 1024);
	char number[24];

	(void)snprintf(number, sizeof(number), "%" PRId64, id);
	wh_put_page(&text, args, option, number);
	(void)fprintf(stderr, "there are more: `%s`\n", wh_buf_str(&text));
	wh_buf_clear(&text);
}
