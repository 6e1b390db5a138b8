/*
 * Creating, opening and removing tables of delayed queues.
 */
#include "delayed/delayed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/text.h"
#include "store/making.h"

static const char *const layouts[] = {"native", "funfix", "funfix-old", NULL};

static const char *const roles[] = {"sender", "receiver", "operator", NULL};

const wh_model wh_delayed_model = {
	"delayed queue",     layouts, NULL,     wh_delayed_groups,
	WHERRY_KIND_DELAYED, roles,   "delayed"};

void wherry_delayed_message_init(wherry_delayed_message *msg)
{
	*msg = (wherry_delayed_message){.size = sizeof(*msg)};
}

wherry_code wh_delayed_failed(const wherry_delayed *delayed, wherry_code code,
			      wherry_error *err)
{
	if (code == WHERRY_NOTFOUND && delayed->store.sql.n && !delayed->store.stmt.drop)
		return wh_store_remake(
			&delayed->store,
			wh_fail(err, code,
				"the table '%s' is missing, or one of those that Wherry "
				"needs beside it",
				delayed->store.name.ptr),
			err);
	return wh_store_missing(delayed->store.model, delayed->store.name.ptr, code, err);
}

wh_param wh_delayed_kind_param(const wherry_delayed *delayed)
{
	return WH_TEXT_PARAM("kind", wh_view_of(delayed->kind));
}

wh_param wh_delayed_now_param(const wherry_delayed *delayed)
{
	if (!delayed->now_us)
		return (wh_param){.name = "now", .type = WH_NULL};
	return WH_INT_PARAM("now", delayed->now_us(delayed->clock_ctx) / 1000);
}

int64_t wh_delayed_delay_ms(const wherry_delayed *delayed, int64_t delay_us)
{
	return wh_ms(delay_us) + (delay_us > 0 && !delayed->now_us);
}

wh_param wh_delayed_error_param(const char *error)
{
	wh_view text = {error, 0};

	if (error)
		text.len = wh_utf8_cut(error, strlen(error), WH_DELAYED_ERROR_MOST);
	return WH_TEXT_PARAM("error", text);
}

wherry_code wh_delayed_check_key(const char *key, wherry_error *err)
{
	const wh_field field = {"key", key, 4 * WH_DELAYED_KEY_MOST};
	size_t characters = 0;
	wherry_code code;

	if (!key || !*key)
		return wh_fail(err, WHERRY_INVALID, "a delayed message needs a key");
	code = wh_fields_check(&field, 1, err);
	for (const char *p = key; code == WHERRY_OK && *p; p++)
		characters += (*p & 0xc0) != 0x80;
	if (code == WHERRY_OK && characters > WH_DELAYED_KEY_MOST)
		return wh_fail(err, WHERRY_TOOBIG,
			       "the key has %zu characters, the limit is %d", characters,
			       WH_DELAYED_KEY_MOST);
	return code;
}

static const char *name_of(const char *name)
{
	return name ? name : "delayed";
}

wherry_code wherry_delayed_create(wherry_db *db, const char *name, const char *layout,
				  wherry_error *err)
{
	wh_error_clear(err);
	wh_delayed_stmts own;

	return wh_store_create(db,
			       &(wh_making){.model = &wh_delayed_model,
					    .layout = layout,
					    .name = name_of(name),
					    .own = &own},
			       err);
}

wherry_code wherry_delayed_create_sql(const char *scheme, const char *name,
				      const char *layout, char **out, wherry_error *err)
{
	wh_error_clear(err);
	wh_delayed_stmts own;

	return wh_store_create_sql(scheme,
				   &(wh_making){.model = &wh_delayed_model,
						.layout = layout,
						.name = name_of(name),
						.own = &own},
				   out, err);
}

static wherry_code make_kind(wherry_delayed *delayed, const char *queue, const char *type,
			     wherry_error *err)
{
	const wh_field fields[] = {
		{"name of the queue", queue, WH_FIELD_MOST},
		{"type", type, WH_FIELD_MOST},
	};
	char text[2 * WH_FIELD_MOST + 2];
	wherry_code code = wh_fields_check(fields, 2, err);

	if (code != WHERRY_OK)
		return code;
	(void)snprintf(text, sizeof(text), "%s|%s", queue, type ? type : "bytes");
	return wh_md5(wh_view_of(text), delayed->kind, err);
}

wherry_code wherry_delayed_open(wherry_db *db, const char *name, const char *queue,
				const char *type, wherry_delayed **out, wherry_error *err)
{
	wh_error_clear(err);
	wh_version v = {.found = false};
	wherry_delayed *delayed;
	wherry_code code;

	if (!db || !out)
		return wh_fail(err, WHERRY_INVALID,
			       "no connection to open the delayed queue on, or no place "
			       "for it");
	if (!queue || !*queue)
		return wh_fail(err, WHERRY_INVALID, "a delayed queue needs a name");
	delayed = calloc(1, sizeof(*delayed));
	if (!delayed)
		return wh_oom(err);
	delayed->store = wh_store_init(db, &wh_delayed_model);
	delayed->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (delayed->bell < 0) {
		code = wh_fail_errno(err, errno, "no eventfd for a delayed queue");
		wherry_delayed_close(delayed);
		return code;
	}
	code = make_kind(delayed, queue, type, err);
	delayed->queue = strdup(queue);
	if (code == WHERRY_OK && !delayed->queue)
		code = wh_oom(err);
	delayed->store.topic = delayed->queue;
	delayed->store.kind = delayed->kind;
	if (code == WHERRY_OK)
		code = wh_store_recognize(&delayed->store, name_of(name), &delayed->own,
					  &v, err);
	if (code == WHERRY_OK)
		code = wh_store_check(&delayed->store, &v, err);
	if (code == WHERRY_OK)
		code = wh_store_call(&delayed->store, ':', delayed->kind, err);
	if (code != WHERRY_OK) {
		wherry_delayed_close(delayed);
		return code;
	}
	delayed->store.limits =
		"one message for each key, no order; relays compete, and consumers may "
		"poll beside them";
	*out = delayed;
	return WHERRY_OK;
}

void wherry_delayed_close(wherry_delayed *delayed)
{
	if (!delayed)
		return;
	wh_store_clear(&delayed->store);
	if (delayed->bell >= 0)
		(void)close(delayed->bell);
	free(delayed->queue);
	free(delayed);
}

wherry_code wherry_delayed_drop(wherry_delayed *delayed, wherry_error *err)
{
	wh_error_clear(err);
	if (!delayed)
		return wh_fail(err, WHERRY_INVALID, "no delayed queue to drop");
	return wh_delayed_failed(delayed, wh_store_drop(&delayed->store, err), err);
}

void wh_delayed_came_back(wherry_delayed *delayed, int64_t at_ms)
{
	if (at_ms <= delayed->after_ms)
		delayed->scan_start.next_full_us = 0;
}

void wherry_delayed_set_clock(wherry_delayed *delayed, int64_t (*now_us)(void *ctx),
			      void *ctx)
{
	wh_delayed_came_back(delayed, INT64_MIN);
	delayed->now_us = now_us;
	delayed->clock_ctx = ctx;
}

const char *wherry_delayed_kind(const wherry_delayed *delayed)
{
	return delayed->kind;
}
