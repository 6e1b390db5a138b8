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

enum { TRACE_LEN = 32, PARENT_LEN = 55 };

static bool is_hex(const char *text, size_t len)
{
	return strspn(text, "0123456789abcdef") >= len;
}

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

/* Set traceparent, "00-TRACE-SPAN-01", from a trace_id that is one, or that is a bare
 * trace id.  Any span id will do, but each message should have a different one. */
static bool put_trace(rd_kafka_headers_t *headers, const wherry_message *msg)
{
	const char *trace = msg->trace_id;
	size_t len = trace ? strlen(trace) : 0;
	char parent[PARENT_LEN + 1];

	if (!len || !put(headers, "trace-id", trace))
		return !len;
	if (has(headers, "traceparent"))
		return true;
	if (len == PARENT_LEN && trace[2] == '-' && trace[35] == '-' &&
	    trace[52] == '-' && is_hex(trace + 3, TRACE_LEN))
		return add(headers, "traceparent", trace);
	if (len != TRACE_LEN || !is_hex(trace, TRACE_LEN))
		return true;
	(void)snprintf(parent, sizeof(parent), "00-%s-%016llx-01", trace,
		       (unsigned long long)msg->id | 1ULL << 63);
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
