/*
 * Crons: tables that remember up to which time the ticks of each schedule were made.
 */
#include "cron/cron.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/date.h"
#include "delayed/delayed.h"
#include "schedule/schedule.h"
#include "store/making.h"

enum { VERSION = 2 }; /* Version of the table's schema. */

static const char *const layouts[] = {"native", NULL};

static const char *const roles[] = {"operator", NULL};

const wh_model wh_cron_model = {.name = "cron",
				.layouts = layouts,
				.groups = wh_cron_groups,
				.kind = WHERRY_KIND_CRON,
				.roles = roles};

static const char *name_of(const char *name)
{
	return name ? name : "cron";
}

wherry_code wh_cron_failed(const wherry_cron *cron, wherry_code code, wherry_error *err)
{
	return wh_store_missing(cron->store.model, cron->store.name.ptr, code, err);
}

/* ---- schema ---- */

wherry_code wherry_cron_create(wherry_db *db, const char *name, wherry_error *err)
{
	wh_error_clear(err);
	wh_cron_stmts own;

	return wh_store_create(
		db,
		&(wh_making){.model = &wh_cron_model, .name = name_of(name), .own = &own},
		err);
}

wherry_code wherry_cron_create_sql(const char *scheme, const char *name, char **out,
				   wherry_error *err)
{
	wh_error_clear(err);
	wh_cron_stmts own;

	return wh_store_create_sql(
		scheme,
		&(wh_making){.model = &wh_cron_model, .name = name_of(name), .own = &own},
		out, err);
}

wherry_code wherry_cron_open(wherry_db *db, const char *name, wherry_cron **out,
			     wherry_error *err)
{
	wh_error_clear(err);
	wh_version v = {.found = false};
	wherry_cron *cron;
	wherry_code code;

	if (!db || !out)
		return wh_fail(err, WHERRY_INVALID, "no connection to open the cron on");
	cron = calloc(1, sizeof(*cron));
	if (!cron)
		return wh_oom(err);
	cron->store = wh_store_init(db, &wh_cron_model);
	code = wh_store_recognize(&cron->store, name_of(name), &cron->own, &v, err);
	if (code == WHERRY_OK)
		code = wh_store_check(&cron->store, &v, err);
	if (code == WHERRY_OK && cron->store.version < VERSION)
		code = wh_store_remake(
			&cron->store,
			wh_fail(err, WHERRY_INVALID,
				"an older version of Wherry made the cron '%s'",
				name_of(name)),
			err);
	if (code != WHERRY_OK) {
		wherry_cron_close(cron);
		return code;
	}
	*out = cron;
	return WHERRY_OK;
}

void wherry_cron_close(wherry_cron *cron)
{
	if (!cron)
		return;
	wh_store_clear(&cron->store);
	free(cron);
}

wherry_code wherry_cron_drop(wherry_cron *cron, wherry_error *err)
{
	wh_error_clear(err);
	if (!cron)
		return wh_fail(err, WHERRY_INVALID, "no cron to drop");
	return wh_cron_failed(cron, wh_store_drop(&cron->store, err), err);
}

/* ---- what is remembered ---- */

enum { GIVEN = 3, GIVEN_MORE = 4 };

static void give(const wh_cron_place *place, wh_param out[GIVEN_MORE])
{
	out[0] = WH_TEXT_PARAM("target", wh_view_of(place->target));
	out[1] = WH_TEXT_PARAM("name", wh_view_of(place->name));
	out[2] = WH_TEXT_PARAM("hash", wh_view_of(place->hash));
}

static wh_param now_param(const wh_cron_place *place)
{
	if (place->queue)
		return wh_delayed_now_param(place->queue);
	return (wh_param){.name = "now", .type = WH_NULL};
}

static wherry_code take_look(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_cron_place *place = ctx;

	(void)err;
	place->until_us = wh_us(wh_row_int(row, 0));
	place->active = wh_row_int(row, 1) != 0;
	place->now_us = wh_us(wh_row_int(row, 2));
	return WHERRY_OK;
}

wherry_code wh_cron_look(wh_cron_place *place, wherry_error *err)
{
	const wherry_cron *cron = place->cron;
	wh_param params[GIVEN_MORE];
	wherry_code code;

	give(place, params);
	params[GIVEN] = now_param(place);
	code = wh_db_run(cron->store.db, cron->own.remember, params, GIVEN, NULL, NULL,
			 NULL, err);
	if (code == WHERRY_OK)
		code = wh_db_run(cron->store.db, cron->own.look, params, GIVEN_MORE,
				 take_look, place, NULL, err);
	return wh_cron_failed(cron, code, err);
}

static wh_param words(const char *name, const char *text)
{
	wh_view view = {NULL, 0};

	return WH_TEXT_PARAM(name, text ? wh_view_of(text) : view);
}

wherry_code wh_cron_advance(wh_cron_place *place, int64_t until_us, wherry_error *err)
{
	const wherry_cron *cron = place->cron;
	const wherry_schedule *schedule = place->schedule;
	const char *zone =
		schedule && schedule->zone ? wh_zone_name(schedule->zone) : NULL;
	wh_param params[GIVEN + 4];

	give(place, params);
	params[GIVEN] = WH_INT_PARAM("until", until_us / 1000);
	params[GIVEN + 1] = words("schedule", schedule ? schedule->text : NULL);
	params[GIVEN + 2] = words("zone", zone);
	params[GIVEN + 3] = words("sends_to", place->sends_to);
	return wh_db_run(cron->store.db, cron->own.advance, params,
			 sizeof(params) / sizeof(*params), NULL, NULL, NULL, err);
}

wherry_code wh_cron_retire(const wh_cron_place *place, int64_t until_us, int64_t *out_n,
			   wherry_error *err)
{
	const wherry_cron *cron = place->cron;
	wh_param params[GIVEN_MORE];

	give(place, params);
	params[GIVEN] =
		WH_INT_PARAM("until", until_us > 0 ? wh_floor_div(until_us, 1000) : 0);
	return wh_db_run(cron->store.db, cron->own.retire, params, GIVEN_MORE, NULL, NULL,
			 out_n, err);
}

wherry_code wh_cron_retire_others(const wh_cron_place *place, wherry_error *err)
{
	const wherry_cron *cron = place->cron;
	wh_param params[GIVEN_MORE];

	give(place, params);
	return wh_db_run(cron->store.db, cron->own.retire_others, params, GIVEN, NULL,
			 NULL, NULL, err);
}

static wherry_code take_other(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_view hash = wh_row_bytes(row, 0);
	wh_cron_other *out = ctx;

	if (wh_row_check(row, err) != WHERRY_OK)
		return WHERRY_NOMEM;
	(void)snprintf(out->hash, sizeof(out->hash), "%.*s", (int)hash.len, hash.ptr);
	out->until_us = wh_us(wh_row_int(row, 1));
	return WHERRY_OK;
}

wherry_code wh_cron_active(const wh_cron_place *place, wh_cron_other *out,
			   wherry_error *err)
{
	const wherry_cron *cron = place->cron;
	wh_param params[GIVEN_MORE];

	out->hash[0] = 0;
	give(place, params);
	return wh_db_run(cron->store.db, cron->own.active, params, GIVEN, take_other, out,
			 NULL, err);
}

wherry_code wherry_cron_forget(wherry_cron *cron, const char *name, int64_t *out_n,
			       wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code;
	wh_param param;
	int64_t n = 0;

	if (!cron || !name)
		return wh_fail(err, WHERRY_INVALID, "no cron, or no name to forget");
	param = WH_TEXT_PARAM("name", wh_view_of(name));
	code = wh_db_run(cron->store.db, cron->own.forget, &param, 1, NULL, NULL, &n,
			 err);
	if (code == WHERRY_OK && out_n)
		*out_n = n;
	return wh_cron_failed(cron, code, err);
}

/* ---- listing ---- */

/* Entries that were read, copied so that they outlive the statement. */
typedef struct entries {
	wh_arena arena;
	wherry_cron_entry *all;
	size_t n;
} entries;

static wherry_code take_entry(void *ctx, const wh_row *row, wherry_error *err)
{
	entries *list = ctx;
	enum { TARGET, NAME, HASH, UNTIL, ACTIVE, SCHEDULE, ZONE, SENDS_TO, COLUMNS };
	const char *texts[COLUMNS] = {NULL};
	wherry_cron_entry *grown;

	for (int i = 0; i < COLUMNS; i++) {
		wh_view text = wh_row_bytes(row, i);

		if (i == UNTIL || i == ACTIVE || (i > ACTIVE && !text.ptr))
			continue;
		texts[i] = wh_arena_copy(&list->arena, text.ptr, text.len);
		if (!texts[i])
			return wh_oom(err);
	}
	/* n is 0 or a power of 2: the array is full. */
	if ((list->n & (list->n - 1)) == 0) {
		grown = realloc(list->all, (list->n ? 2 * list->n : 1) * sizeof(*grown));
		if (!grown)
			return wh_oom(err);
		list->all = grown;
	}
	list->all[list->n++] =
		(wherry_cron_entry){.target = texts[TARGET],
				    .name = texts[NAME],
				    .hash = texts[HASH],
				    .until_us = wh_us(wh_row_int(row, UNTIL)),
				    .active = wh_row_int(row, ACTIVE) != 0,
				    .schedule = texts[SCHEDULE],
				    .zone = texts[ZONE],
				    .sends_to = texts[SENDS_TO]};
	return wh_row_check(row, err);
}

wherry_code wherry_cron_list(wherry_cron *cron, wherry_cron_entry_fn visit, void *ctx,
			     wherry_error *err)
{
	wh_error_clear(err);
	entries list = {.n = 0};
	wherry_code code;

	if (!cron || !visit)
		return wh_fail(err, WHERRY_INVALID,
			       "no cron is open, or nobody sees its entries");
	code = wh_db_run(cron->store.db, cron->own.list, NULL, 0, take_entry, &list, NULL,
			 err);
	code = wh_cron_failed(cron, code, err);
	for (size_t i = 0; code == WHERRY_OK && i < list.n; i++) {
		code = visit(ctx, &list.all[i]);
		if (code != WHERRY_OK)
			(void)wh_fail(err, code, "stopped by the caller's function");
	}
	wh_arena_clear(&list.arena);
	free(list.all);
	return code;
}
