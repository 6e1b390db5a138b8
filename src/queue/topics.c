/*
 * Topics: a published message is sent to every queue that has subscribed to its topic.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "queue/queue.h"

enum { PUBLISH_PARAMS = 8 };

struct wherry_topics {
	wherry_db *db; /* borrowed */
	wh_sql sql;
	char schema[WH_NAME_MOST + 1]; /* "": the database has none */
	bool named;                    /* The caller named the schema. */
	/* Name of the database, if addresses contain it; else "". */
	char catalog[129];
	bool own;    /* Wherry's table of subscriptions exists. */
	bool routed; /* NServiceBus's table of subscriptions exists. */

	/* Queues that publish_to_each() has opened, with their names. */
	struct opened {
		char *name;
		wherry_queue *queue;
	} * queues;
	size_t n_queues;
};

static const wh_stmt *find(const wherry_topics *topics, const char *name)
{
	return wh_sql_find(&topics->sql, name);
}

/* Does the statement of this name return a number above 0?  *out is false if the database
 * has no such statement. */
static wherry_code ask(wherry_topics *topics, const char *name, const wh_param *params,
		       size_t n_params, bool *out, wherry_error *err)
{
	const wh_stmt *stmt = find(topics, name);
	int64_t n = 0;
	wherry_code code = WHERRY_OK;

	if (stmt)
		code = wh_db_run(topics->db, stmt, params, n_params, wh_take_int, &n,
				 NULL, err);
	if (code == WHERRY_OK)
		*out = n > 0;
	return code;
}

static wherry_code take_catalog(void *ctx, const wh_row *row, wherry_error *err)
{
	wherry_topics *topics = ctx;
	const char *name = wh_row_text(row, 0);

	(void)err;
	(void)snprintf(topics->catalog, sizeof(topics->catalog), "%s", name ? name : "");
	return WHERRY_OK;
}

static wherry_code load(wherry_topics *topics, const char *schema, wherry_error *err)
{
	const char *scheme = topics->db->driver->scheme;
	const char *text = wh_sql_embedded("queue", "topics", scheme);
	wh_sql_names names = {.dialect = scheme, .table = "", .payload = ""};
	wherry_code code = WHERRY_OK;

	if (!text)
		return wh_fail(err, WHERRY_UNSUPPORTED, "no topics on '%.20s:'", scheme);
	if (schema && !topics->db->driver->connection.schema_of)
		return wh_fail(err, WHERRY_INVALID, "'%.20s:' has no schemas", scheme);
	if (schema && strlen(schema) > WH_NAME_MOST)
		return wh_fail(err, WHERRY_INVALID, "a schema has at most %d bytes",
			       WH_NAME_MOST);
	topics->named = schema != NULL;
	if (schema)
		(void)snprintf(topics->schema, sizeof(topics->schema), "%s", schema);
	else
		code = wh_db_only_schema_of(topics->db, "wherry_subscription",
					    topics->schema, sizeof(topics->schema), err);
	if (*topics->schema)
		names.schema = topics->schema;
	if (code == WHERRY_OK)
		code = wh_sql_parse_as(text, &names, &topics->sql, err);
	if (code == WHERRY_OK)
		code = ask(topics, "exists", NULL, 0, &topics->own, err);
	if (code == WHERRY_OK)
		code = ask(topics, "routing-exists", NULL, 0, &topics->routed, err);
	if (code == WHERRY_OK && topics->routed && find(topics, "catalog"))
		code = wh_db_run(topics->db, find(topics, "catalog"), NULL, 0,
				 take_catalog, topics, NULL, err);
	if (code == WHERRY_OK && !topics->own && !topics->routed)
		code = wh_repair(err,
				 wh_fail(err, WHERRY_NOTFOUND,
					 "there are no queues in this %s",
					 schema ? "schema" : "database"),
				 WHERRY_REPAIR_CREATE, WHERRY_KIND_QUEUE, NULL);
	return code;
}

wherry_code wherry_topics_open(wherry_db *db, const char *schema, wherry_topics **out,
			       wherry_error *err)
{
	wh_error_clear(err);
	wherry_topics *topics;
	wherry_code code;

	if (!db || !out)
		return wh_fail(err, WHERRY_INVALID, "no connection to open topics on");
	topics = calloc(1, sizeof(*topics));
	if (!topics)
		return wh_oom(err);
	topics->db = db;
	code = load(topics, schema, err);
	if (code != WHERRY_OK) {
		wherry_topics_close(topics);
		return code;
	}
	*out = topics;
	return WHERRY_OK;
}

void wherry_topics_close(wherry_topics *topics)
{
	if (!topics)
		return;
	for (size_t i = 0; i < topics->n_queues; i++) {
		wherry_queue_close(topics->queues[i].queue);
		free(topics->queues[i].name);
	}
	free(topics->queues);
	if (topics->sql.n)
		wh_db_forget(topics->db, &topics->sql);
	wh_sql_clear(&topics->sql);
	free(topics);
}

/* ---- subscriptions ---- */

static wherry_code check(const wherry_topics *topics, const char *topic,
			 wherry_error *err)
{
	const wh_field field = {"the topic", topic, WH_FIELD_MOST};

	if (!topics)
		return wh_fail(err, WHERRY_INVALID, "no topics are open");
	if (!topic || !*topic)
		return wh_fail(err, WHERRY_INVALID, "the topic is empty");
	return wh_fields_check(&field, 1, err);
}

static wherry_code no_queue(const wherry_topics *topics, const char *queue,
			    wherry_error *err)
{
	char name[2 * WH_NAME_MOST + 2];

	(void)snprintf(name, sizeof(name), "%s%s%s", topics->named ? topics->schema : "",
		       topics->named ? "." : "", queue);
	return wh_repair(err,
			 wh_fail(err, WHERRY_NOTFOUND,
				 "there is no queue '%.100s' to subscribe", queue),
			 WHERRY_REPAIR_CREATE, WHERRY_KIND_QUEUE, name);
}

wherry_code wherry_topics_subscribe(wherry_topics *topics, const char *topic,
				    const char *queue, wherry_error *err)
{
	wh_error_clear(err);
	const wh_param params[] = {WH_TEXT_PARAM("queue", wh_view_of(queue)),
				   WH_TEXT_PARAM("topic", wh_view_of(topic))};
	bool own = false, routed = false;
	wherry_code code = check(topics, topic, err);

	if (code == WHERRY_OK && topics->own)
		code = ask(topics, "queue-exists", params, 1, &own, err);
	if (code == WHERRY_OK && !own && topics->routed)
		code = ask(topics, "routed-queue-exists", params, 1, &routed, err);
	if (code != WHERRY_OK)
		return code;
	if (!own && !routed)
		return no_queue(topics, queue ? queue : "", err);
	return wh_db_run(topics->db, find(topics, own ? "subscribe" : "route"), params, 2,
			 NULL, NULL, NULL, err);
}

wherry_code wherry_topics_unsubscribe(wherry_topics *topics, const char *topic,
				      const char *queue, wherry_error *err)
{
	wh_error_clear(err);
	const wh_param params[] = {WH_TEXT_PARAM("topic", wh_view_of(topic)),
				   WH_TEXT_PARAM("queue", wh_view_of(queue))};
	int64_t changed = 0;
	wherry_code code = check(topics, topic, err);

	if (code == WHERRY_OK && topics->own)
		code = wh_db_run(topics->db, find(topics, "unsubscribe"), params, 2, NULL,
				 NULL, &changed, err);
	if (code == WHERRY_OK && !changed && topics->routed)
		code = wh_db_run(topics->db, find(topics, "unroute"), params, 2, NULL,
				 NULL, &changed, err);
	if (code == WHERRY_OK && !changed)
		code = wh_fail(err, WHERRY_NOTFOUND,
			       "queue '%.100s' has not subscribed to '%.100s'",
			       queue ? queue : "", topic);
	return code;
}

/* Subscriptions that were read, copied so that they outlive the statement. */
typedef struct subscriptions {
	wh_arena arena;
	struct subscription {
		const char *topic, *queue;
		bool routed; /* The queue is an address of NServiceBus. */
	} * all;
	size_t n;
	bool routed; /* The rows that are being read are routed. */
} subscriptions;

static wherry_code take_subscription(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_view topic = wh_row_bytes(row, 0), queue = wh_row_bytes(row, 1);
	subscriptions *list = ctx;
	struct subscription one, *grown;

	one.routed = list->routed;
	one.topic = wh_arena_copy(&list->arena, topic.ptr, topic.len);
	one.queue = wh_arena_copy(&list->arena, queue.ptr, queue.len);
	if (!one.topic || !one.queue)
		return wh_oom(err);
	/* n is 0 or a power of 2: the array is full. */
	if ((list->n & (list->n - 1)) == 0) {
		grown = realloc(list->all, (list->n ? 2 * list->n : 1) * sizeof(*grown));
		if (!grown)
			return wh_oom(err);
		list->all = grown;
	}
	list->all[list->n++] = one;
	return wh_row_check(row, err);
}

static void clear(subscriptions *list)
{
	wh_arena_clear(&list->arena);
	free(list->all);
}

/* Read Wherry's subscriptions, if `own` is set, and those of NServiceBus.  A table that
 * does not exist is skipped. */
static wherry_code read_subscriptions(wherry_topics *topics, const char *topic, bool own,
				      subscriptions *out, wherry_error *err)
{
	const wh_param param = WH_TEXT_PARAM("topic", wh_view_of(topic));
	wherry_code code = WHERRY_OK;

	if (own && topics->own)
		code = wh_db_run(topics->db, find(topics, "subscriptions"), &param, 1,
				 take_subscription, out, NULL, err);
	out->routed = true;
	if (code == WHERRY_OK && topics->routed)
		code = wh_db_run(topics->db, find(topics, "routes"), &param, 1,
				 take_subscription, out, NULL, err);
	return code;
}

wherry_code wherry_topics_list(wherry_topics *topics, const char *topic,
			       wherry_subscription_fn visit, void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	subscriptions list = {.n = 0};
	wherry_code code;

	if (!topics || !visit)
		return wh_fail(err, WHERRY_INVALID,
			       "no topics are open, or nobody sees subscriptions");
	code = read_subscriptions(topics, topic, true, &list, err);
	for (size_t i = 0; code == WHERRY_OK && i < list.n; i++) {
		code = visit(ctx, list.all[i].topic, list.all[i].queue);
		if (code != WHERRY_OK)
			(void)wh_fail(err, code, "stopped by the caller's function");
	}
	clear(&list);
	return code;
}

/* ---- publishing ---- */

typedef struct publishing {
	wherry_topics *topics;
	const char *topic;
	wherry_queue_message message;
	char made[WH_UUID_LEN + 1];
	int64_t n;
} publishing;

static wherry_code publish_at_once(void *ctx, wherry_error *err)
{
	publishing *p = ctx;
	const wherry_queue_message *m = &p->message;
	const wh_param params[PUBLISH_PARAMS] = {
		WH_TEXT_PARAM("topic", wh_view_of(p->topic)),
		WH_BLOB_PARAM("body", wh_queue_body(m)),
		WH_TEXT_PARAM("headers", wh_view_of(m->headers ? m->headers : "{}")),
		WH_INT_PARAM("delay", wh_ms(m->delay_us)),
		WH_INT_PARAM("ttl", wh_ms(m->expires_us)),
		WH_TEXT_PARAM("correlation_id", wh_view_of(m->correlation_id)),
		WH_TEXT_PARAM("reply_to", wh_view_of(m->reply_to)),
		WH_TEXT_PARAM("message_id", wh_view_of(m->message_id)),
	};

	return wh_db_run(p->topics->db, find(p->topics, "publish"), params,
			 PUBLISH_PARAMS, wh_take_int, &p->n, NULL, err);
}

/* Open the queue of a subscription, or return it if it is open already. */
static wherry_code open_queue(wherry_topics *topics, const struct subscription *s,
			      wherry_queue **out, wherry_error *err)
{
	const char *name = s->queue;
	struct opened *grown, one;
	wherry_code code;

	for (size_t i = 0; i < topics->n_queues; i++)
		if (strcmp(topics->queues[i].name, name) == 0) {
			*out = topics->queues[i].queue;
			return WHERRY_OK;
		}
	grown = realloc(topics->queues, (topics->n_queues + 1) * sizeof(*grown));
	if (grown)
		topics->queues = grown;
	one.name = strdup(name);
	if (!grown || !one.name) {
		free(one.name);
		return wh_oom(err);
	}
	code = wh_queue_open_at(topics->db, name, s->routed ? topics->catalog : "",
				&one.queue, err);
	if (code != WHERRY_OK) {
		free(one.name);
		return code;
	}
	topics->queues[topics->n_queues++] = one;
	*out = one.queue;
	return WHERRY_OK;
}

static wherry_code publish_to_each(void *ctx, wherry_error *err)
{
	publishing *p = ctx;
	subscriptions list = {.n = 0};
	bool own = !find(p->topics, "publish");
	wherry_code code = read_subscriptions(p->topics, p->topic, own, &list, err);

	p->message.topic = p->topic;
	for (size_t i = 0; code == WHERRY_OK && i < list.n; i++) {
		wherry_queue *queue = NULL;

		code = open_queue(p->topics, &list.all[i], &queue, err);
		if (code == WHERRY_OK)
			code = wherry_queue_send(queue, &p->message, NULL, err);
	}
	p->n += (int64_t)list.n;
	clear(&list);
	return code;
}

static wherry_code publish(void *ctx, wherry_error *err)
{
	publishing *p = ctx;
	bool at_once = find(p->topics, "publish") && p->topics->own;
	wherry_code code;

	p->n = 0;
	code = at_once ? publish_at_once(p, err) : WHERRY_OK;

	if (code == WHERRY_OK && (p->topics->routed || !find(p->topics, "publish")))
		code = publish_to_each(p, err);
	return code;
}

wherry_code wherry_topics_publish(wherry_topics *topics, const char *topic,
				  const wherry_queue_message *msg, int64_t *out_n,
				  wherry_error *err)
{
	wh_error_clear(err);
	publishing p = {.topics = topics, .topic = topic};
	bool one;
	wherry_code code = check(topics, topic, err);

	if (code == WHERRY_OK && !msg)
		code = wh_fail(err, WHERRY_INVALID, "no message to publish");
	if (code == WHERRY_OK)
		code = wh_queue_read_message(msg, &p.message, err);
	if (code == WHERRY_OK)
		code = wh_queue_check_message(&p.message, err);
	if (code != WHERRY_OK)
		return code;
	if (!p.message.message_id || !*p.message.message_id) {
		wh_uuid7_now(topics->db->env, p.made);
		p.message.message_id = p.made;
	}
	/* A single statement needs no transaction around it. */
	one = find(topics, "publish") && !topics->routed;
	code = one && !wherry_db_in_transaction(topics->db)
		       ? publish(&p, err)
		       : wh_db_transact(topics->db, publish, &p, err);
	if (code == WHERRY_OK && out_n)
		*out_n = p.n;
	return code;
}
