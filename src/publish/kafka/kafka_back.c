/*
 * Reading topics back: every partition from the period's beginning to its end at the start, by a consumer without a
 * group, so that it needs the right Read on the topics alone and commits nothing.
 *
 * It reads uncommitted records too.  The relay sends without transactions, so its records are never uncommitted; but one that lies
 * behind another producer's open transaction would look missing.
 */
#include "publish/kafka/kafka.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "publish/parts.h"
#include "publish/readback.h"

enum { ASK_MS = 15000, POLL_MS = 200, SILENCE_MS = 60000, BATCH = 1000, ERROR_LEN = 200 };

/* Clocks of producers, databases and brokers differ. */
static const int64_t margin_ms = 10 * 60 * 1000;

typedef struct part {
	int64_t from, end; /* Offsets: what is read, up to end. */
	int64_t low;       /* The first offset that is left. */
	bool done, begun;
	bool seen; /* A record was read: first and first_us are of the first one. */
	char first[WH_STORED_ID];
	int64_t first_us;
} part;

typedef struct topic {
	char *name;
	rd_kafka_topic_t *handle;
	part *parts;
	int n;
	bool compacts;
} topic;

typedef struct back {
	wh_readback base;
	wh_kafka_settings set;
	rd_kafka_t *rk;
	rd_kafka_queue_t *queue;
	topic *topics;
	size_t n_topics;
	size_t open; /* Partitions that are not read to their end. */
	bool murmur; /* Keys choose partitions as in the Java client. */
} back;

static wherry_code fail(rd_kafka_resp_err_t error, const char *name, wherry_error *err)
{
	char why[ERROR_LEN];

	if (error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
		return wh_fail_native(
			err, WHERRY_DENIED, error,
			"kafka: no right to read topic '%.100s': `kafka-acls --add "
			"--allow-principal User:NAME --operation Read --topic %.60s` "
			"gives it",
			name, name);
	wh_kafka_describe(error, why, sizeof(why));
	return wh_fail_native(err, WHERRY_CLOSED, error, "kafka: topic '%.100s': %s",
			      name, why);
}

/* ---- a consumer ---- */

static void quiet(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
	(void)rk;
	(void)level;
	(void)facility;
	(void)text;
}

static void give_token(rd_kafka_t *rk, const char *config, void *opaque)
{
	(void)config;
	wh_kafka_client_authorize(&(wh_kafka_client){.rk = rk}, opaque);
}

static wherry_code start(back *b, wherry_error *err)
{
	static const char *const properties[][2] = {
		{"enable.auto.commit", "false"},
		{"enable.partition.eof", "true"},
		{"enable.auto.offset.store", "false"},
		{"auto.offset.reset", "error"},
		{"isolation.level", "read_uncommitted"},
		{"queued.max.messages.kbytes", "16384"},
		{"statistics.interval.ms", "0"},
		{"log.queue", "false"}};
	rd_kafka_conf_t *conf = rd_kafka_conf_dup(b->set.conf);
	char why[ERROR_LEN] = "";
	rd_kafka_error_t *error;

	for (size_t i = 0; i < sizeof(properties) / sizeof(*properties); i++)
		(void)rd_kafka_conf_set(conf, properties[i][0], properties[i][1], why,
					sizeof(why));
	rd_kafka_conf_set_log_cb(conf, quiet);
	rd_kafka_conf_set_opaque(conf, &b->set);
	if (b->set.oidc)
		rd_kafka_conf_enable_sasl_queue(conf, 1);
	else
		rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, give_token);
	b->rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
	if (!b->rk) {
		rd_kafka_conf_destroy(conf);
		return wh_fail(err, WHERRY_INVALID, "kafka: %s", why);
	}
	error = b->set.oidc ? rd_kafka_sasl_background_callbacks_enable(b->rk) : NULL;
	if (error)
		rd_kafka_error_destroy(error);
	(void)rd_kafka_poll(b->rk, 0); /* A token may be due. */
	b->queue = rd_kafka_queue_new(b->rk);
	return b->queue ? WHERRY_OK : wh_oom(err);
}

/* ---- which topics and partitions there are ---- */

static wherry_code add_topic(back *b, const char *name, wherry_error *err)
{
	topic *topics;

	for (size_t i = 0; i < b->n_topics; i++)
		if (strcmp(b->topics[i].name, name) == 0)
			return WHERRY_OK;
	topics = realloc(b->topics, (b->n_topics + 1) * sizeof(*topics));
	if (!topics)
		return wh_oom(err);
	b->topics = topics;
	topics[b->n_topics] = (topic){.name = strdup(name)};
	if (!topics[b->n_topics].name)
		return wh_oom(err);
	b->n_topics++;
	return WHERRY_OK;
}

static wherry_code list_topics(back *b, const wh_readback_ask *ask, wherry_error *err)
{
	char buf[WH_STORED_TOPIC];
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < ask->n_topics; i++) {
		const wherry_message message = {.size = sizeof(message),
						.topic = ask->topics[i]};

		code = add_topic(
			b, wh_kafka_topic_of(&b->set, &message, buf, sizeof(buf)), err);
	}
	return code;
}

/* Ask for the partitions of a topic.  A topic that does not exist has none. */
static wherry_code count_parts(back *b, topic *t, wherry_error *err)
{
	const struct rd_kafka_metadata *found = NULL;
	rd_kafka_resp_err_t error;

	t->handle = rd_kafka_topic_new(b->rk, t->name, NULL);
	if (!t->handle)
		return fail(rd_kafka_last_error(), t->name, err);
	error = rd_kafka_metadata(b->rk, 0, t->handle, &found, ASK_MS);
	if (!error && found->topic_cnt)
		error = found->topics[0].err;
	if (error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
	    error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC) {
		wh_buf_printf(&b->base.notes, "kafka: topic '%s' does not exist\n",
			      t->name);
		error = RD_KAFKA_RESP_ERR_NO_ERROR;
	} else if (!error) {
		t->n = found->topics[0].partition_cnt;
	}
	if (found)
		rd_kafka_metadata_destroy(found);
	if (error)
		return fail(error, t->name, err);
	t->parts = calloc((size_t)t->n + 1, sizeof(*t->parts));
	return t->parts ? WHERRY_OK : wh_oom(err);
}

/* ---- where the period begins, and where the partitions end ---- */

static wherry_code find_ends(back *b, topic *t, wherry_error *err)
{
	rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;

	for (int i = 0; !error && i < t->n; i++)
		error = rd_kafka_query_watermark_offsets(
			b->rk, t->name, i, &t->parts[i].low, &t->parts[i].end, ASK_MS);
	return error ? fail(error, t->name, err) : WHERRY_OK;
}

static wherry_code find_starts(back *b, topic *t, int64_t since_us, wherry_error *err)
{
	rd_kafka_topic_partition_list_t *list =
		rd_kafka_topic_partition_list_new(t->n ? t->n : 1);
	int64_t at_ms = since_us / 1000 - margin_ms;
	rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;

	for (int i = 0; i < t->n; i++)
		rd_kafka_topic_partition_list_add(list, t->name, i)->offset =
			at_ms > 0 ? at_ms : 0;
	if (t->n)
		error = rd_kafka_offsets_for_times(b->rk, list, ASK_MS);
	for (int i = 0; !error && i < list->cnt; i++) {
		const rd_kafka_topic_partition_t *one = &list->elems[i];
		part *p = &t->parts[one->partition];

		error = one->err;
		p->from = one->offset < 0 ? p->end : one->offset; /* None is as young. */
		if (p->from < p->low)
			p->from = p->low;
	}
	rd_kafka_topic_partition_list_destroy(list);
	return error ? fail(error, t->name, err) : WHERRY_OK;
}

/* ---- does a topic keep the last message of each key only? ---- */

static bool config_compacts(const rd_kafka_ConfigResource_t *resource)
{
	size_t n = 0;
	const rd_kafka_ConfigEntry_t **entries =
		rd_kafka_ConfigResource_configs(resource, &n);

	for (size_t i = 0; i < n; i++) {
		const char *value = rd_kafka_ConfigEntry_value(entries[i]);

		if (strcmp(rd_kafka_ConfigEntry_name(entries[i]), "cleanup.policy") == 0)
			return value && strstr(value, "compact");
	}
	return false;
}

static void take_configs(back *b, rd_kafka_event_t *event, size_t asked)
{
	const rd_kafka_DescribeConfigs_result_t *result =
		event ? rd_kafka_event_DescribeConfigs_result(event) : NULL;
	size_t n = 0;
	const rd_kafka_ConfigResource_t **all =
		result ? rd_kafka_DescribeConfigs_result_resources(result, &n) : NULL;
	bool known = n == asked;

	for (size_t i = 0; i < n; i++) {
		known = known && !rd_kafka_ConfigResource_error(all[i]);
		for (size_t j = 0; j < b->n_topics; j++)
			if (strcmp(b->topics[j].name,
				   rd_kafka_ConfigResource_name(all[i])) == 0)
				b->topics[j].compacts = config_compacts(all[i]);
	}
	for (size_t j = 0; j < b->n_topics; j++)
		b->base.compacts |= b->topics[j].compacts;
	if (!known)
		wh_buf_puts(&b->base.notes,
			    "kafka: the brokers do not say whether the topics are "
			    "compacted, which needs the right DescribeConfigs: what "
			    "compaction has removed is listed as missing\n");
}

/* Optional: brokers may refuse to answer. */
static void ask_configs(back *b)
{
	rd_kafka_ConfigResource_t **ask = calloc(b->n_topics + 1, sizeof(*ask));
	rd_kafka_queue_t *answers = rd_kafka_queue_new(b->rk);
	rd_kafka_AdminOptions_t *options =
		rd_kafka_AdminOptions_new(b->rk, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
	rd_kafka_event_t *event = NULL;
	size_t n = 0;

	for (size_t i = 0; ask && i < b->n_topics; i++)
		if (b->topics[i].n)
			ask[n++] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC,
							       b->topics[i].name);
	if (n && options && answers) {
		(void)rd_kafka_AdminOptions_set_request_timeout(options, ASK_MS / 3, NULL,
								0);
		rd_kafka_DescribeConfigs(b->rk, ask, n, options, answers);
		event = rd_kafka_queue_poll(answers, ASK_MS);
		take_configs(b, event, n);
	}
	if (event)
		rd_kafka_event_destroy(event);
	if (options)
		rd_kafka_AdminOptions_destroy(options);
	if (answers)
		rd_kafka_queue_destroy(answers);
	for (size_t i = 0; i < n; i++)
		rd_kafka_ConfigResource_destroy(ask[i]);
	free(ask);
}

/* ---- reading ---- */

static wherry_code begin_parts(back *b, wherry_error *err)
{
	for (size_t i = 0; i < b->n_topics; i++)
		for (int j = 0; j < b->topics[i].n; j++) {
			part *p = &b->topics[i].parts[j];

			if (p->from >= p->end)
				continue;
			if (rd_kafka_consume_start_queue(b->topics[i].handle, j, p->from,
							 b->queue) != 0)
				return fail(rd_kafka_last_error(), b->topics[i].name,
					    err);
			p->begun = true;
			b->open++;
		}
	return WHERRY_OK;
}

static part *part_of(back *b, const rd_kafka_message_t *record, const topic **out)
{
	const char *name = record->rkt ? rd_kafka_topic_name(record->rkt) : "";

	for (size_t i = 0; i < b->n_topics; i++)
		if (strcmp(b->topics[i].name, name) == 0 && record->partition >= 0 &&
		    record->partition < b->topics[i].n) {
			*out = &b->topics[i];
			return &b->topics[i].parts[record->partition];
		}
	return NULL;
}

static void finish(back *b, part *p)
{
	b->open -= !p->done;
	p->done = true;
}

static wherry_code take_error(back *b, const rd_kafka_message_t *record, part *p,
			      wherry_error *err)
{
	if (record->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
		if (p)
			finish(b, p);
		return WHERRY_OK;
	}
	/* Others pass: librdkafka connects again, and SILENCE_MS bounds it. */
	if (record->err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
	    record->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
	    record->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE ||
	    record->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
	    record->err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION ||
	    record->err == RD_KAFKA_RESP_ERR__FATAL)
		return fail(record->err,
			    record->rkt ? rd_kafka_topic_name(record->rkt) : "", err);
	return WHERRY_OK;
}

static wherry_code take_record(back *b, rd_kafka_message_t *record, wh_stored_fn visit,
			       void *ctx, wherry_error *err)
{
	const topic *t = NULL;
	part *p = part_of(b, record, &t);
	rd_kafka_headers_t *headers = NULL;
	rd_kafka_timestamp_type_t type;
	const void *id = NULL;
	size_t len = 0;
	wh_stored stored;

	if (record->err)
		return take_error(b, record, p, err);
	if (!p || p->done)
		return WHERRY_OK;
	if (record->offset >= p->end) {
		finish(b, p);
		return WHERRY_OK;
	}
	if (rd_kafka_message_headers(record, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
		(void)rd_kafka_header_get_last(headers, "message-id", &id, &len);
	stored = (wh_stored){
		.id = {id, len},
		.topic = wh_view_of(t->name),
		.slot = {t->compacts ? record->key : NULL, record->key_len},
		.at_us = rd_kafka_message_timestamp(record, &type) * 1000,
	};
	if (!p->seen) {
		p->seen = true;
		p->first_us = stored.at_us;
		(void)snprintf(p->first, sizeof(p->first), "%.*s", (int)len,
			       id ? (const char *)id : "");
	}
	if (record->offset == p->end - 1)
		finish(b, p);
	return visit(ctx, &stored, err);
}

static wherry_code read_all(wh_readback *base, wh_stored_fn visit, void *ctx,
			    wherry_error *err)
{
	back *b = (back *)base;
	rd_kafka_message_t **batch = calloc(BATCH, sizeof(*batch));
	wherry_code code = batch ? begin_parts(b, err) : wh_oom(err);
	int silent_ms = 0;

	while (code == WHERRY_OK && b->open) {
		ssize_t n = rd_kafka_consume_batch_queue(b->queue, POLL_MS, batch, BATCH);

		(void)rd_kafka_poll(b->rk, 0);
		silent_ms = n > 0 ? 0 : silent_ms + POLL_MS;
		if (silent_ms >= SILENCE_MS)
			code = wh_fail(err, WHERRY_CLOSED,
				       "kafka: %s has sent nothing for %d seconds, and "
				       "%zu partition%s not read",
				       b->set.brokers, SILENCE_MS / 1000, b->open,
				       b->open == 1 ? " is" : "s are");
		for (ssize_t i = 0; i < n; i++) {
			if (code == WHERRY_OK)
				code = take_record(b, batch[i], visit, ctx, err);
			rd_kafka_message_destroy(batch[i]);
		}
	}
	free(batch);
	return code;
}

/* ---- what the brokers removed ---- */

/* Is the edge of a partition later than another one? */
static bool is_later(const part *p, bool empty, const wh_edge *other)
{
	if (!other->removed)
		return true;
	if (empty || other->empty)
		return empty && !other->empty;
	return p->first_us > other->first_us;
}

/* Take the edge of a partition, if it is later than the one in *out. */
static void take_edge(const part *p, wh_edge *out)
{
	bool empty = !p->seen;

	if (p->low == 0 || p->from > p->low || !is_later(p, empty, out))
		return;
	out->removed = true;
	out->empty = empty;
	out->first_us = p->first_us;
	(void)snprintf(out->first, sizeof(out->first), "%s", p->first);
}

/* The partition of a message; -1: not known, it may be in any. */
static int partition_of(const back *b, const topic *t, const wherry_message *message)
{
	wh_kafka_record record;
	const char *key = wh_message_key(message);
	int partition = -1;

	if (wh_kafka_record_fill(message, &record, NULL) != WHERRY_OK)
		return -1;
	if (record.partition >= 0)
		partition = record.partition;
	else if (b->murmur && key)
		partition = rd_kafka_msg_partitioner_murmur2(t->handle, key, strlen(key),
							     t->n, NULL, NULL);
	rd_kafka_headers_destroy(record.headers);
	return partition < t->n ? partition : -1;
}

static void edge(wh_readback *base, const wherry_message *message, wh_edge *out)
{
	back *b = (back *)base;
	char buf[WH_STORED_TOPIC];
	const char *name = wh_kafka_topic_of(&b->set, message, buf, sizeof(buf));
	const char *key = wh_message_key(message);

	*out = (wh_edge){.removed = false};
	(void)snprintf(out->topic, sizeof(out->topic), "%s", name);
	(void)snprintf(out->slot, sizeof(out->slot), "%s", key ? key : "");
	for (size_t i = 0; i < b->n_topics; i++) {
		const topic *t = &b->topics[i];
		int partition;

		if (strcmp(t->name, name) != 0 || !t->n)
			continue;
		out->compacts = t->compacts;
		partition = partition_of(b, t, message);
		for (int j = 0; j < t->n; j++)
			if (partition < 0 || partition == j)
				take_edge(&t->parts[j], out);
	}
}

/* ---- opening and closing ---- */

static void close_back(wh_readback *base)
{
	back *b = (back *)base;

	for (size_t i = 0; i < b->n_topics; i++) {
		topic *t = &b->topics[i];

		for (int j = 0; j < t->n; j++)
			if (t->parts && t->parts[j].begun)
				(void)rd_kafka_consume_stop(t->handle, j);
		if (t->handle)
			rd_kafka_topic_destroy(t->handle);
		free(t->parts);
		free(t->name);
	}
	free(b->topics);
	if (b->queue)
		rd_kafka_queue_destroy(b->queue);
	if (b->rk)
		rd_kafka_destroy(b->rk);
	wh_kafka_settings_clear(&b->set);
	wh_buf_clear(&b->base.notes);
	free(b);
}

static bool has_murmur(const back *b)
{
	char text[40] = "";
	size_t size = sizeof(text);

	return rd_kafka_conf_get(b->set.conf, "partitioner", text, &size) ==
		       RD_KAFKA_CONF_OK &&
	       strncmp(text, "murmur2", 7) == 0;
}

static wherry_code open_back(const char *rest, const wherry_config *config,
			     const wh_readback_ask *ask, wh_readback **out,
			     wherry_error *err)
{
	back *b = calloc(1, sizeof(*b));
	wherry_code code;

	if (!b)
		return wh_oom(err);
	b->base = (wh_readback){.driver = &wh_readback_kafka,
				.notes = WH_BUF_INIT(64 * 1024)};
	code = wh_kafka_settings_read(rest, config, &b->set, err);
	if (code == WHERRY_OK) {
		b->murmur = has_murmur(b);
		code = start(b, err);
	}
	if (code == WHERRY_OK)
		code = list_topics(b, ask, err);
	for (size_t i = 0; code == WHERRY_OK && i < b->n_topics; i++) {
		code = count_parts(b, &b->topics[i], err);
		if (code == WHERRY_OK)
			code = find_ends(b, &b->topics[i], err);
		if (code == WHERRY_OK)
			code = find_starts(b, &b->topics[i], ask->since_us, err);
	}
	if (code == WHERRY_OK)
		ask_configs(b);
	if (code == WHERRY_OK)
		*out = &b->base;
	else
		close_back(&b->base);
	return code;
}

const wh_readback_driver wh_readback_kafka = {
	.open = open_back,
	.read = read_all,
	.edge = edge,
	.close = close_back,
};
