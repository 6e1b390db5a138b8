#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/sized.h"
#include "base/text.h"
#include "base/uuid.h"
#include "outbox/outbox.h"

static bool is_uuid(const char *text)
{
	for (size_t i = 0; i < WH_UUID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (!text[i] || !strchr(dash ? "-" : "0123456789abcdefABCDEF", text[i]))
			return false;
	}
	return !text[WH_UUID_LEN];
}

static wh_view body_of(const wherry_message *msg)
{
	return (wh_view){msg->body ? msg->body : "", msg->body_len};
}

static wherry_code check_body(const wherry_outbox *outbox, wh_view body,
			      wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	int column = 0;

	if (*outbox->store.payload_type ||
	    !(outbox->store.layout.json || outbox->layout.jsonb))
		return wh_store_check_body(&outbox->store, outbox->store.payload_type,
					   body, err);
	if (wh_json_check(body.ptr, body.len, &column, &why) == WHERRY_OK)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_INVALID,
		       "outbox '%s' has the layout %s, whose payloads are JSON, and "
		       "this body is not (%.80s): send it as a JSON string, or use "
		       "an outbox of Wherry's own layout",
		       outbox->store.name.ptr, outbox->store.layout.name, why.message);
}

/* Refuse fields that the layout has no column for: they would be lost. */
static wherry_code check_layout(const wherry_outbox *outbox, const wherry_message *msg,
				wherry_error *err)
{
	if (!outbox->own.enqueue)
		return wh_fail(
			err, WHERRY_UNSUPPORTED,
			"outbox '%s' is a table of another program, which alone writes its messages",
			outbox->store.name.ptr);

	struct {
		const char *name, *text;
	} fields[] = {
		{"key", msg->key},
		{"aggregate_type", msg->aggregate_type},
		{"aggregate_id", msg->aggregate_id},
		{"trace_id", msg->trace_id},
	};
	bool headers =
		msg->headers && strspn(msg->headers, " \t\r\n{}") != strlen(msg->headers);

	if (!outbox->store.layout.ordered)
		for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
			if (fields[i].text && *fields[i].text)
				return wh_fail(
					err, WHERRY_INVALID,
					"outbox '%s' has the layout %s, which has no "
					"column for %s: put it into the body, or use an "
					"outbox of Wherry's own layout",
					outbox->store.name.ptr, outbox->store.layout.name,
					fields[i].name);
	if (!outbox->store.layout.ordered && headers)
		return wh_fail(
			err, WHERRY_INVALID,
			"outbox '%s' has the layout %s, which has no column for "
			"headers: put them into the body, or use an outbox of Wherry's own layout",
			outbox->store.name.ptr, outbox->store.layout.name);
	if (outbox->layout.uuid && msg->message_id && *msg->message_id &&
	    !is_uuid(msg->message_id))
		return wh_fail(
			err, WHERRY_INVALID,
			"outbox '%s' has the layout %s, whose message ids are UUIDs, "
			"and '%.40s' is none: leave it out, or use an outbox of Wherry's own layout",
			outbox->store.name.ptr, outbox->store.layout.name,
			msg->message_id);
	return check_body(outbox, body_of(msg), err);
}

static wherry_code check_message(const wherry_outbox *outbox, const wherry_message *msg,
				 wherry_error *err)
{
	const wh_field fields[] = {
		{"message_id", msg->message_id, WH_FIELD_MOST},
		{"topic", msg->topic, WH_FIELD_MOST},
		{"aggregate_type", msg->aggregate_type, WH_FIELD_MOST},
		{"aggregate_id", msg->aggregate_id, WH_FIELD_MOST},
		{"key", msg->key, WH_KEY_MOST},
		{"trace_id", msg->trace_id, WH_FIELD_MOST},
		{"headers", msg->headers, WH_HEADERS_MOST},
	};
	wherry_code code;

	if (!msg->topic || !*msg->topic)
		return wh_fail(err, WHERRY_INVALID, "a message needs a topic");
	if (!msg->body && msg->body_len)
		return wh_fail(err, WHERRY_INVALID, "a message needs a body");
	if (msg->body_len > (uint64_t)outbox->store.body_max)
		return wh_fail(err, WHERRY_TOOBIG,
			       "the body is %zu bytes, the limit is %" PRId64
			       " (setting outbox.body_max)",
			       msg->body_len, outbox->store.body_max);
	code = wh_fields_check(fields, sizeof(fields) / sizeof(*fields), err);
	if (code == WHERRY_OK && msg->headers)
		code = wh_json_headers(msg->headers, strlen(msg->headers), err);
	return code == WHERRY_OK ? check_layout(outbox, msg, err) : code;
}

/* Copy a message of the caller, which may have been compiled with an older header.  Set
 * the length of its body. */
static wherry_code read_message(const void *given, wherry_message *out, wherry_error *err)
{
	wherry_code code =
		wh_sized_read(out, sizeof(*out), given, offsetof(wherry_message, id),
			      "message", "WHERRY_MESSAGE or wherry_message_init", err);

	if (code == WHERRY_OK && out->body && out->body_len == WHERRY_TEXT)
		out->body_len = strlen(out->body);
	return code;
}

/* Bodies that are stored as bytea are always passed as blobs. */
static wh_param body_param(const wherry_outbox *outbox, wh_view body)
{
	return strcmp(outbox->store.payload_type, "bytea") == 0
		       ? WH_BLOB_PARAM("payload", body)
		       : wh_body_param("payload", body);
}

/* Insert one message.  *out_id is 0 if its message id is a duplicate. */
static wherry_code insert(wherry_outbox *outbox, const wherry_message *msg,
			  unsigned flags, uint64_t *random, int64_t *out_id,
			  wherry_error *err)
{
	const wh_env *env = outbox->store.db->env;
	char made[WH_UUID_LEN + 1];
	const char *message_id = msg->message_id;
	const char *key = msg->key && *msg->key ? msg->key : NULL;
	int64_t changed = 0;
	wherry_code code = check_message(outbox, msg, err);

	if (code != WHERRY_OK)
		return code;
	if (!message_id || !*message_id) {
		wh_uuid7_next(env, random, made);
		message_id = made;
	}
	const wh_param params[] = {
		WH_TEXT_PARAM("message_id", wh_view_of(message_id)),
		WH_TEXT_PARAM("topic", wh_view_of(msg->topic)),
		WH_TEXT_PARAM("aggregate_type",
			      wh_view_of(msg->aggregate_type ? msg->aggregate_type : "")),
		WH_TEXT_PARAM("aggregate_id",
			      wh_view_of(msg->aggregate_id ? msg->aggregate_id : "")),
		WH_TEXT_PARAM("key", wh_view_of(key)),
		WH_TEXT_PARAM("headers", wh_view_of(msg->headers ? msg->headers : "{}")),
		WH_TEXT_PARAM("trace_id", wh_view_of(msg->trace_id)),
		body_param(outbox, body_of(msg)),
	};
	if ((flags & WHERRY_LOCK_KEY) && outbox->own.lock_key)
		code = wh_db_run(outbox->store.db, outbox->own.lock_key, params,
				 sizeof(params) / sizeof(*params), NULL, NULL, NULL, err);
	if (code == WHERRY_OK)
		code = wh_db_run(outbox->store.db,
				 outbox->asks_once ? outbox->own.enqueue_once
						   : outbox->own.enqueue,
				 params, sizeof(params) / sizeof(*params), NULL, NULL,
				 &changed, err);
	if (code == WHERRY_OK)
		*out_id = changed ? wh_db_last_id(outbox->store.db) : 0;
	return wh_store_missing(outbox->store.model, outbox->store.name.ptr, code, err);
}

typedef struct work {
	wherry_outbox *outbox;
	const wherry_message *msgs;
	size_t n;
	unsigned flags;
	int64_t *ids;    /* Receives the n ids. */
	uint64_t random; /* Of the last message id that was made; see wh_uuid7_next(). */
} work;

static wherry_code insert_all(void *ctx, wherry_error *err)
{
	work *w = ctx;
	const char *at = (const char *)w->msgs;

	for (size_t i = 0; i < w->n; i++, at += w->msgs->size) {
		wherry_message msg;
		int64_t id = 0;
		wherry_code code = read_message(at, &msg, err);

		if (code == WHERRY_OK)
			code = insert(w->outbox, &msg, w->flags, &w->random, &id, err);

		if (code != WHERRY_OK)
			return w->n > 1 ? wh_prefix(err, code, "message %zu", i) : code;
		w->ids[i] = id;
	}
	return WHERRY_OK;
}

/*
 * Insert the messages, all or none.  Several messages need a transaction, or a savepoint
 * in the caller's.  One message needs neither in the caller's transaction, unless a
 * failed statement aborts it.
 */
static wherry_code run(work *w, wherry_error *err)
{
	wherry_db *db = w->outbox->store.db;

	if (wherry_db_in_transaction(db))
		return w->n == 1 && !db->driver->failure_spreads
			       ? insert_all(w, err)
			       : wh_db_transact(db, insert_all, w, err);
	if (w->flags & WHERRY_OWN_TRANSACTION)
		return wh_db_transact(db, insert_all, w, err);
	return wh_fail(
		err, WHERRY_INVALID,
		"no transaction is open: enqueue belongs into the transaction of the "
		"business change (or pass WHERRY_OWN_TRANSACTION)");
}

wherry_code wherry_outbox_enqueue(wherry_outbox *outbox, const wherry_message *msg,
				  unsigned flags, int64_t *out_id, wherry_error *err)
{
	wh_error_clear(err);
	int64_t id = 0;
	work w = {outbox, msg, 1, flags, &id, 0};
	wherry_code code;

	if (!outbox || !msg)
		return wh_fail(err, WHERRY_INVALID,
			       "no outbox, or no message to enqueue");
	code = run(&w, err);
	if (code != WHERRY_OK)
		return code;
	if (!id)
		return wh_fail(err, WHERRY_DUPLICATE,
			       "a message with id '%.100s' is in the outbox already",
			       msg->message_id);
	if (out_id)
		*out_id = id;
	return WHERRY_OK;
}

wherry_code wherry_outbox_enqueue_many(wherry_outbox *outbox, const wherry_message *msgs,
				       size_t n, unsigned flags, int64_t *out_ids,
				       wherry_error *err)
{
	wh_error_clear(err);
	work w = {outbox, msgs, n, flags, NULL, 0};
	wherry_code code;

	if (!outbox || (!msgs && n))
		return wh_fail(err, WHERRY_INVALID,
			       "no outbox, or no messages to enqueue");
	if (!n)
		return WHERRY_OK;
	w.ids = calloc(n, sizeof(*w.ids));
	if (!w.ids)
		return wh_oom(err);
	code = run(&w, err);
	if (code == WHERRY_OK && out_ids)
		memcpy(out_ids, w.ids, n * sizeof(*out_ids));
	free(w.ids);
	return code;
}
