/*
 * A message as Kafka's record: key, partition and headers.
 */
#include "publish/kafka/kafka.h"

#include <jansson.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "publish/parts.h"

static const char partition_header[] = "wherry-partition";

static bool has(const rd_kafka_headers_t *headers, const char *name)
{
	const void *value;
	size_t len;

	return rd_kafka_header_get_last(headers, name, &value, &len) ==
	       RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* False: out of memory. */
static bool add(rd_kafka_headers_t *headers, const char *name, const char *value)
{
	return rd_kafka_header_add(headers, name, -1, value, -1) ==
	       RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* Set a header from a field of the message.  It replaces the application's header of that
 * name. */
static bool put(rd_kafka_headers_t *headers, const char *name, const char *value)
{
	if (!value || !*value)
		return true;
	(void)rd_kafka_header_remove(headers, name);
	return add(headers, name, value);
}

static bool put_trace(rd_kafka_headers_t *headers, const wherry_message *msg)
{
	char parent[WH_TRACEPARENT_LEN];

	if (!put(headers, "trace-id", msg->trace_id))
		return false;
	if (has(headers, "traceparent") || !wh_traceparent(msg, parent))
		return true;
	return add(headers, "traceparent", parent);
}

static bool put_fields(rd_kafka_headers_t *headers, const wherry_message *msg)
{
	if (!put(headers, "message-id", msg->message_id) ||
	    !put(headers, "aggregate-type", msg->aggregate_type) ||
	    !put(headers, "aggregate-id", msg->aggregate_id) || !put_trace(headers, msg))
		return false;
	if (has(headers, "content-type") || !msg->body_len ||
	    !wh_json_valid(msg->body, msg->body_len))
		return true;
	return add(headers, "content-type", "application/json");
}

static wherry_code read_partition(const json_t *value, int32_t *out, wherry_error *err)
{
	const char *text = json_string_value(value);
	int64_t number;

	if (!text || !wh_parse_int(text, &number) || number < 0 || number > INT32_MAX)
		return wh_fail(err, WHERRY_INVALID,
			       "header %s: '%.40s' is not a partition number",
			       partition_header, text ? text : "null");
	*out = (int32_t)number;
	return WHERRY_OK;
}

static wherry_code put_given(wh_kafka_record *record, const char *headers,
			     wherry_error *err)
{
	json_t *object = json_loads(headers, JSON_ALLOW_NUL, NULL);
	/* The caller found it valid. */
	wherry_code code = object ? WHERRY_OK : wh_oom(err);
	const char *name;
	json_t *value;

	json_object_foreach (object, name, value) {
		const char *text = json_string_value(value);

		if (code != WHERRY_OK)
			break;
		if (strcmp(name, partition_header) == 0)
			code = read_partition(value, &record->partition, err);
		else if (rd_kafka_header_add(record->headers, name, -1, text,
					     text ? (ssize_t)json_string_length(value)
						  : 0) != RD_KAFKA_RESP_ERR_NO_ERROR)
			code = wh_oom(err);
	}
	json_decref(object);
	return code;
}

wherry_code wh_kafka_record_fill(const wherry_message *msg, wh_kafka_record *out,
				 wherry_error *err)
{
	const char *headers = wh_message_headers(msg);
	wh_kafka_record record = {wh_message_key(msg), NULL, RD_KAFKA_PARTITION_UA};
	wherry_code code = WHERRY_OK;
	bool any = strcmp(headers, "{}") != 0;

	if (any)
		code = wh_json_headers(headers, strlen(headers), err);
	if (code != WHERRY_OK)
		return code;
	record.headers = rd_kafka_headers_new(8);
	if (any)
		code = put_given(&record, headers, err);
	if (code == WHERRY_OK && !put_fields(record.headers, msg))
		code = wh_oom(err);
	if (code == WHERRY_OK)
		*out = record;
	else
		rd_kafka_headers_destroy(record.headers);
	return code;
}
