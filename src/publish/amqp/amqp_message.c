/*
 * A message as AMQP has it: exchange, routing key and properties.
 */
#include "publish/amqp/amqp.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "publish/parts.h"

static const char priority_header[] = "wherry-priority";
static const char expiration_header[] = "wherry-expiration";

enum { PROPERTIES_ROOM = 4096 }; /* For what a header frame has beside the headers. */

/* ---- where it goes ---- */

/* False: it is longer than a name may be. */
static bool render(const char *template, const wherry_message *msg,
		   char out[WH_AMQP_NAME_MAX + 1])
{
	const char *key = wh_message_key(msg);
	size_t n = 0;

	while (*template) {
		const char *text = template;
		wh_part part = wh_template_part(&template);
		size_t len = 1;

		if (part == WH_PART_TOPIC || part == WH_PART_KEY) {
			text = part == WH_PART_TOPIC ? msg->topic : key;
			text = text ? text : "";
			len = strlen(text);
		}
		if (n + len > WH_AMQP_NAME_MAX)
			return false;
		memcpy(out + n, text, len);
		n += len;
	}
	out[n] = 0;
	return true;
}

wherry_code wh_amqp_route_of(const wh_amqp_settings *set, const wherry_message *msg,
			     wh_amqp_route *out, wherry_error *err)
{
	if (!render(set->exchange, msg, out->exchange))
		return wh_fail(err, WHERRY_INVALID,
			       "the name of its exchange is longer than %d bytes",
			       WH_AMQP_NAME_MAX);
	if (!render(set->routing_key, msg, out->key))
		return wh_fail(err, WHERRY_INVALID,
			       "its routing key is longer than %d bytes",
			       WH_AMQP_NAME_MAX);
	return WHERRY_OK;
}

/* ---- properties ---- */

static void set_text(amqp_basic_properties_t *p, amqp_bytes_t *place, amqp_flags_t flag,
		     const char *text)
{
	*place = amqp_cstring_bytes(text);
	p->_flags |= flag;
}

/* Headers that are properties in AMQP.  False: it is not one of them. */
static bool put_property(amqp_basic_properties_t *p, const char *name, const char *text)
{
	if (strcmp(name, "content-type") == 0)
		set_text(p, &p->content_type, AMQP_BASIC_CONTENT_TYPE_FLAG, text);
	else if (strcmp(name, "content-encoding") == 0)
		set_text(p, &p->content_encoding, AMQP_BASIC_CONTENT_ENCODING_FLAG, text);
	else if (strcmp(name, "correlation-id") == 0)
		set_text(p, &p->correlation_id, AMQP_BASIC_CORRELATION_ID_FLAG, text);
	else if (strcmp(name, "reply-to") == 0)
		set_text(p, &p->reply_to, AMQP_BASIC_REPLY_TO_FLAG, text);
	else
		return false;
	return true;
}

static wherry_code put_number(amqp_basic_properties_t *p, const char *name,
			      const char *text, wherry_error *err)
{
	bool priority = strcmp(name, priority_header) == 0;
	int64_t number;

	if (!text || !wh_parse_int(text, &number) || number < 0 ||
	    number > (priority ? UINT8_MAX : INT32_MAX))
		return wh_fail(err, WHERRY_INVALID,
			       "header %s: '%.40s' is not a number%s", name,
			       text ? text : "null",
			       priority ? " from 0 to 255" : " of milliseconds");
	if (priority) {
		p->priority = (uint8_t)number;
		p->_flags |= AMQP_BASIC_PRIORITY_FLAG;
	} else {
		set_text(p, &p->expiration, AMQP_BASIC_EXPIRATION_FLAG, text);
	}
	return WHERRY_OK;
}

/* ---- headers ---- */

static amqp_table_entry_t *find(wh_amqp_record *record, const char *name)
{
	const amqp_table_t *table = &record->properties.headers;
	size_t len = strlen(name);

	for (int i = 0; i < table->num_entries; i++)
		if (table->entries[i].key.len == len &&
		    memcmp(table->entries[i].key.bytes, name, len) == 0)
			return &table->entries[i];
	return NULL;
}

/* Set a header; text NULL: to nothing. */
static wherry_code put(wh_amqp_record *record, const char *name, const char *text,
		       wherry_error *err)
{
	amqp_table_t *table = &record->properties.headers;
	amqp_table_entry_t *entry = find(record, name);

	if (strlen(name) > WH_AMQP_NAME_MAX)
		return wh_fail(err, WHERRY_INVALID,
			       "a header's name is longer than %d bytes",
			       WH_AMQP_NAME_MAX);
	if (!entry && table->num_entries == WH_AMQP_HEADERS_MAX)
		return wh_fail(err, WHERRY_INVALID, "it has more than %d headers",
			       WH_AMQP_HEADERS_MAX);
	if (!entry)
		entry = &table->entries[table->num_entries++];
	entry->key = amqp_cstring_bytes(name);
	entry->value.kind = text ? AMQP_FIELD_KIND_UTF8 : AMQP_FIELD_KIND_VOID;
	if (text)
		entry->value.value.bytes = amqp_cstring_bytes(text);
	return WHERRY_OK;
}

static wherry_code put_given(wh_amqp_record *record, const char *headers,
			     wherry_error *err)
{
	wherry_code code = wh_json_headers(headers, strlen(headers), err);
	const char *name;
	json_t *value;

	if (code != WHERRY_OK)
		return code;
	record->json = json_loads(headers, JSON_ALLOW_NUL, NULL);
	if (!record->json)
		return wh_oom(err);
	json_object_foreach ((json_t *)record->json, name, value) {
		const char *text = json_string_value(value);

		if (strcmp(name, priority_header) == 0 ||
		    strcmp(name, expiration_header) == 0)
			code = put_number(&record->properties, name, text, err);
		else if (!text || !put_property(&record->properties, name, text))
			code = put(record, name, text, err);
		if (code != WHERRY_OK)
			break;
	}
	return code;
}

/* Headers from fields of the message replace the application's headers of that name. */
static wherry_code put_fields(wh_amqp_record *record, const wherry_message *msg,
			      wherry_error *err)
{
	const struct {
		const char *name, *text;
	} fields[] = {{"topic", msg->topic},
		      {"key", wh_message_key(msg)},
		      {"aggregate-type", msg->aggregate_type},
		      {"aggregate-id", msg->aggregate_id},
		      {"trace-id", msg->trace_id}};
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (code == WHERRY_OK && fields[i].text && *fields[i].text)
			code = put(record, fields[i].name, fields[i].text, err);
	if (code == WHERRY_OK && !find(record, "traceparent") &&
	    wh_traceparent(msg, record->trace))
		code = put(record, "traceparent", record->trace, err);
	return code;
}

/* librabbitmq sends the method before it finds that the header does not fit. */
static wherry_code check_size(const wh_amqp_record *record, size_t frame_max,
			      wherry_error *err)
{
	const amqp_basic_properties_t *p = &record->properties;
	const amqp_bytes_t texts[] = {p->content_type, p->content_encoding,
				      p->correlation_id, p->reply_to, p->message_id};
	size_t len = PROPERTIES_ROOM;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (texts[i].len > WH_AMQP_NAME_MAX)
			return wh_fail(err, WHERRY_TOOBIG,
				       "a property is longer than %d bytes: "
				       "content-type, content-encoding, correlation-id, "
				       "reply-to or the message id",
				       WH_AMQP_NAME_MAX);
	for (int i = 0; i < p->headers.num_entries; i++) {
		const amqp_table_entry_t *e = &p->headers.entries[i];

		len += e->key.len + 8;
		if (e->value.kind == AMQP_FIELD_KIND_UTF8)
			len += e->value.value.bytes.len;
	}
	if (len <= frame_max)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_TOOBIG,
		       "its headers are larger than a frame of the broker (%zu bytes)",
		       frame_max);
}

wherry_code wh_amqp_record_fill(const wherry_message *msg, size_t frame_max,
				wh_amqp_record *out, wherry_error *err)
{
	amqp_basic_properties_t *p = &out->properties;
	const char *headers = wh_message_headers(msg);
	wherry_code code = WHERRY_OK;

	memset(p, 0, sizeof(*p));
	out->json = NULL;
	p->headers.entries = out->headers;
	p->_flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG |
		    AMQP_BASIC_HEADERS_FLAG;
	p->delivery_mode = AMQP_DELIVERY_PERSISTENT;
	p->timestamp = (uint64_t)(msg->created_at_us / WH_SECOND);
	if (msg->message_id)
		set_text(p, &p->message_id, AMQP_BASIC_MESSAGE_ID_FLAG, msg->message_id);
	if (strcmp(headers, "{}") != 0)
		code = put_given(out, headers, err);
	if (code == WHERRY_OK)
		code = put_fields(out, msg, err);
	if (code == WHERRY_OK && !(p->_flags & AMQP_BASIC_CONTENT_TYPE_FLAG) &&
	    msg->body_len && wh_json_valid(msg->body, msg->body_len))
		set_text(p, &p->content_type, AMQP_BASIC_CONTENT_TYPE_FLAG,
			 "application/json");
	if (code == WHERRY_OK)
		code = check_size(out, frame_max, err);
	if (code != WHERRY_OK)
		wh_amqp_record_clear(out);
	return code;
}

void wh_amqp_record_clear(wh_amqp_record *record)
{
	json_decref(record->json);
	record->json = NULL;
}
