/*
 * A message as NATS has it: headers and body.
 */
#include "publish/nats/nats.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "publish/parts.h"

/* A name ends at a colon, a header at a line break. */
static bool is_name(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (name[i] <= ' ' || name[i] == ':' || name[i] == 0x7f)
			return false;
	return len > 0;
}

static wherry_code check_given(const char *name, json_t *value, wherry_error *err)
{
	const char *text = json_string_value(value);

	if (!is_name(name))
		return wh_fail(
			err, WHERRY_INVALID,
			"header '%.40s': the name of a header in NATS has no blanks, "
			"colons or characters beyond ASCII",
			name);
	if (strncasecmp(name, "Nats-", 5) == 0)
		return wh_fail(err, WHERRY_INVALID,
			       "header '%.40s': headers that begin with Nats- are "
			       "instructions to the server, which a message may not give",
			       name);
	if (text && (strpbrk(text, "\r\n") || strlen(text) != json_string_length(value)))
		return wh_fail(err, WHERRY_INVALID,
			       "header '%.40s' has a line break or a NUL, which a header "
			       "in NATS cannot have",
			       name);
	return WHERRY_OK;
}

/* False: out of memory. */
static bool put(natsMsg *to, const char *name, const char *value)
{
	return !value || !*value || natsMsgHeader_Set(to, name, value) == NATS_OK;
}

static wherry_code put_given(natsMsg *to, const char *headers, wherry_error *err)
{
	json_t *object;
	const char *name;
	json_t *value;
	wherry_code code = wh_json_headers(headers, strlen(headers), err);

	if (code != WHERRY_OK)
		return code;
	object = json_loads(headers, JSON_ALLOW_NUL, NULL);
	if (!object)
		return wh_oom(err);
	json_object_foreach (object, name, value) {
		const char *text = json_string_value(value);

		code = check_given(name, value, err);
		if (code == WHERRY_OK &&
		    natsMsgHeader_Set(to, name, text ? text : "") != NATS_OK)
			code = wh_oom(err);
		if (code != WHERRY_OK)
			break;
	}
	json_decref(object);
	return code;
}

static bool has(natsMsg *to, const char *name)
{
	const char *value;

	return natsMsgHeader_Get(to, name, &value) == NATS_OK;
}

/* The message's own traceparent goes first. */
static bool put_trace(natsMsg *to, const wherry_message *msg)
{
	char parent[WH_TRACEPARENT_LEN];

	if (!put(to, "trace-id", msg->trace_id))
		return false;
	if (has(to, "traceparent") || !wh_traceparent(msg, parent))
		return true;
	return put(to, "traceparent", parent);
}

static bool put_fields(natsMsg *to, const wh_nats_settings *set,
		       const wherry_message *msg)
{
	if (!put(to, "Nats-Msg-Id", msg->message_id) ||
	    !put(to, "Nats-Expected-Stream", set->stream) ||
	    !put(to, "topic", msg->topic) || !put(to, "key", msg->key) ||
	    !put(to, "aggregate-type", msg->aggregate_type) ||
	    !put(to, "aggregate-id", msg->aggregate_id) || !put_trace(to, msg))
		return false;
	if (!msg->body_len || !wh_json_valid(msg->body, msg->body_len) ||
	    has(to, "content-type"))
		return true;
	return put(to, "content-type", "application/json");
}

/* Fields of the message become headers too, so they may not have line breaks either. */
static wherry_code check_fields(const wherry_message *msg, wherry_error *err)
{
	const struct {
		const char *name, *value;
	} fields[] = {{"message_id", msg->message_id},
		      {"topic", msg->topic},
		      {"key", msg->key},
		      {"aggregate_type", msg->aggregate_type},
		      {"aggregate_id", msg->aggregate_id},
		      {"trace_id", msg->trace_id}};

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (fields[i].value && strpbrk(fields[i].value, "\r\n"))
			return wh_fail(
				err, WHERRY_INVALID,
				"%s has a line break, which a header in NATS cannot "
				"have",
				fields[i].name);
	return WHERRY_OK;
}

wherry_code wh_nats_message(const wh_nats_settings *set, const wherry_message *msg,
			    const char *subject, const char *reply, natsMsg **out,
			    wherry_error *err)
{
	const char *headers = wh_message_headers(msg);
	natsMsg *made = NULL;
	wherry_code code = check_fields(msg, err);

	if (code == WHERRY_OK && msg->body_len > INT32_MAX)
		code = wh_fail(err, WHERRY_INVALID, "its body has %zu bytes",
			       msg->body_len);
	if (code == WHERRY_OK &&
	    natsMsg_Create(&made, subject, reply, msg->body_len ? msg->body : "",
			   (int)msg->body_len) != NATS_OK)
		code = wh_oom(err);
	if (code == WHERRY_OK && strcmp(headers, "{}") != 0)
		code = put_given(made, headers, err);
	if (code == WHERRY_OK && !put_fields(made, set, msg))
		code = wh_oom(err);
	if (code == WHERRY_OK)
		*out = made;
	else
		natsMsg_Destroy(made);
	return code;
}
