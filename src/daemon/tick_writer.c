/*
 * Writes the messages of an entry of cron.
 */
#include "daemon/tick_writer.h"

#include <string.h>

#include "base/env.h"
#include "base/text.h"

enum { WORDS_MAX = 1000 };

static const char *field_of(const wh_tick_writer *w, wh_tick_field field)
{
	return wh_plan_cron_field(w->plan, field);
}

static wherry_code write_to_outbox(const wh_tick_writer *w, const char *key,
				   wherry_error *err)
{
	/* Tables whose message ids are UUIDs make the id. */
	const wherry_message msg =
		WHERRY_MESSAGE(.message_id = w->outbox->layout.uuid ? NULL : key,
			       .topic = field_of(w, WH_TICK_TOPIC),
			       .key = field_of(w, WH_TICK_KEY),
			       .headers = w->plan->headers_json,
			       .body = field_of(w, WH_TICK_BODY),
			       .body_len = WHERRY_TEXT);
	wherry_code code = wherry_outbox_enqueue(w->outbox, &msg, 0, NULL, err);

	if (code != WHERRY_DUPLICATE)
		return code;
	wh_error_clear(err);
	return WHERRY_OK; /* The message of this tick was already written. */
}

static wherry_code write_to_queue(const wh_tick_writer *w, const char *key,
				  wherry_error *err)
{
	const wherry_queue_message msg =
		WHERRY_QUEUE_MESSAGE(.message_id = key, .headers = w->plan->headers_json,
				     .body = field_of(w, WH_TICK_BODY),
				     .body_len = WHERRY_TEXT);

	return wherry_queue_send(w->queue, &msg, NULL, err);
}

/* If the file sets a key, a tick replaces the message of the tick before. */
static wherry_code write_to_delayed(const wh_tick_writer *w, const char *key,
				    int64_t at_us, wherry_error *err)
{
	const char *own = field_of(w, WH_TICK_KEY);
	const wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.key = own ? own : key,
				       .body = field_of(w, WH_TICK_BODY),
				       .body_len = WHERRY_TEXT, .at_us = at_us);

	return wherry_delayed_offer(w->delayed, &msg, NULL, err);
}

static wherry_code write_tick(void *ctx, int64_t at_us, wherry_error *err)
{
	wh_tick_writer *w = ctx;
	char key[WHERRY_TICK_KEY_MOST + 1];
	wherry_code code = wherry_tick_key(w->plan->name, w->hash, at_us, key, err);

	if (code == WHERRY_OK && w->outbox)
		code = write_to_outbox(w, key, err);
	else if (code == WHERRY_OK && w->queue)
		code = write_to_queue(w, key, err);
	else if (code == WHERRY_OK)
		code = write_to_delayed(w, key, at_us, err);
	w->last_us = at_us;
	return code;
}

/* Write a message, and roll back. */
static wherry_code try_to_write(wh_tick_writer *w, wherry_error *err)
{
	wherry_code code = wh_db_begin(w->db, err);

	if (code != WHERRY_OK)
		return code;
	code = write_tick(w, WH_SECOND, err);
	wherry_db_rollback(w->db);
	return code;
}

static wherry_code open_target(wh_tick_writer *w, wherry_error *err)
{
	const char *name = field_of(w, WH_TICK_NAME);

	switch (w->plan->to) {
	case WH_TO_OUTBOX:
		return wherry_outbox_open(w->db, field_of(w, WH_TICK_TABLE), &w->outbox,
					  err);
	case WH_TO_QUEUE:
		return wherry_queue_open(w->db, name, &w->queue, err);
	case WH_TO_DELAYED:
	case WH_TICK_TARGETS:
		break;
	}
	return wherry_delayed_open(w->db, field_of(w, WH_TICK_TABLE), name,
				   field_of(w, WH_TICK_TYPE), &w->delayed, err);
}

wherry_code wh_tick_writer_open(wh_tick_writer *w, const wh_plan_cron *plan,
				wherry_db *db, wherry_error *err)
{
	wherry_code code;

	*w = (wh_tick_writer){.plan = plan, .db = db};
	code = wherry_schedule_hash(plan->schedule, w->hash, err);
	if (code == WHERRY_OK)
		code = wherry_cron_open(db, plan->table.value, &w->cron, err);
	if (code == WHERRY_OK)
		code = open_target(w, err);
	if (code == WHERRY_OK)
		code = try_to_write(w, err);
	if (code != WHERRY_OK)
		wh_tick_writer_close(w);
	return code;
}

void wh_tick_writer_close(wh_tick_writer *w)
{
	wherry_delayed_close(w->delayed);
	wherry_queue_close(w->queue);
	wherry_outbox_close(w->outbox);
	wherry_cron_close(w->cron);
	w->delayed = NULL;
	w->queue = NULL;
	w->outbox = NULL;
	w->cron = NULL;
}

/* Append a name, cut if it is long. */
static void put_name(wh_buf *text, const char *before, const char *name)
{
	enum { SHOWN = 100 };

	wh_buf_puts(text, before);
	wh_buf_put(text, name, wh_utf8_cut(name, strlen(name), SHOWN));
}

/* Append a description of the target. */
static void put_target(const wh_tick_writer *w, wh_buf *text)
{
	if (w->outbox) {
		put_name(text, "outbox ", w->outbox->store.name.ptr);
		put_name(text, ", topic ", field_of(w, WH_TICK_TOPIC));
	} else {
		put_name(text, w->queue ? "queue " : "delayed queue ",
			 field_of(w, WH_TICK_NAME));
	}
}

wherry_code wh_tick_writer_fire(wh_tick_writer *w, bool takes, wh_cron_turn *out,
				wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(WORDS_MAX);
	wherry_code code;

	put_target(w, &text);
	*out = (wh_cron_turn){.target = WH_TICK_TARGET,
			      .name = w->plan->name,
			      .sends_to = wh_buf_str(&text),
			      .schedule = w->plan->schedule,
			      .catch_up = w->plan->catch_up,
			      .fn = write_tick,
			      .ctx = w,
			      .yields = !takes,
			      .gone_after_us = WH_TICKS_GONE_US};
	code = wh_buf_check(&text, err);
	if (code == WHERRY_OK)
		code = wh_cron_fire(w->cron, out, err);
	out->sends_to = NULL;
	wh_buf_clear(&text);
	return code;
}
