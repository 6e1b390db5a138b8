/*
 * An entry of cron: the words for it in wherry.yaml, its defaults, and whether two are the same.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/plan.h"
#include "schedule/schedule.h"

static const char *const target_names[] = {"outbox", "queue", "delayed"};
static const char *const field_names[WH_TICK_FIELDS] = {"table", "name", "type",
							"topic", "key",  "body"};
static const char *const catch_ups[] = {"none", "last", "all"};

/* Which fields a target has, and their defaults. */
static const struct {
	bool has[WH_TICK_FIELDS], headers;
	const char *standard[WH_TICK_FIELDS];
} targets[] = {
	[WH_TO_OUTBOX] =
		{.has = {[WH_TICK_TABLE] = true,
			 [WH_TICK_TOPIC] = true,
			 [WH_TICK_KEY] = true,
			 [WH_TICK_BODY] = true},
		 .headers = true,
		 .standard = {[WH_TICK_TABLE] = "outbox", [WH_TICK_BODY] = "{}"}},
	[WH_TO_QUEUE] = {.has = {[WH_TICK_NAME] = true, [WH_TICK_BODY] = true},
			 .headers = true,
			 .standard = {[WH_TICK_BODY] = "{}"}},
	[WH_TO_DELAYED] = {.has = {[WH_TICK_TABLE] = true,
				   [WH_TICK_NAME] = true,
				   [WH_TICK_TYPE] = true,
				   [WH_TICK_KEY] = true,
				   [WH_TICK_BODY] = true},
			   .standard = {[WH_TICK_TABLE] = "delayed",
					[WH_TICK_TYPE] = "bytes",
					[WH_TICK_BODY] = "{}"}},
};

const char *wh_tick_to_name(wh_tick_to to)
{
	return target_names[to];
}

const char *wh_tick_field_name(wh_tick_field field)
{
	return field_names[field];
}

const char *wh_catch_up_name(wherry_catch_up catch_up)
{
	return catch_ups[catch_up];
}

const char *wh_plan_cron_field(const wh_plan_cron *entry, wh_tick_field field)
{
	const char *given = entry->field[field].value;

	return given ? given : targets[entry->to].standard[field];
}

bool wh_tick_has(wh_tick_to to, wh_tick_field field)
{
	return targets[to].has[field];
}

bool wh_tick_has_headers(wh_tick_to to)
{
	return targets[to].headers;
}

/* ---- comparing ---- */

/* Has the tz database changed since the first schedule was made? */
static bool same_zone(const wherry_schedule *a, const wherry_schedule *b)
{
	return a && b ? wh_zone_same(a->zone, b->zone) : a == b;
}

static bool same_text(const wh_plan_text *a, const wh_plan_text *b)
{
	return a->value && b->value ? strcmp(a->value, b->value) == 0
				    : a->value == b->value;
}

bool wh_plan_cron_same(const wh_plan_cron *a, const wh_plan_cron *b)
{
	bool same = strcmp(a->name, b->name) == 0 && a->to == b->to &&
		    a->catch_up == b->catch_up && a->n_headers == b->n_headers &&
		    same_text(&a->database, &b->database) && same_text(&a->at, &b->at) &&
		    same_text(&a->zone, &b->zone) && same_text(&a->table, &b->table) &&
		    same_zone(a->schedule, b->schedule) &&
		    wh_plan_same_settings(a->config, b->config);

	for (int i = 0; same && i < WH_TICK_FIELDS; i++)
		same = same_text(&a->field[i], &b->field[i]);
	for (size_t i = 0; same && i < a->n_headers; i++)
		same = strcmp(a->headers[i].name, b->headers[i].name) == 0 &&
		       same_text(&a->headers[i].value, &b->headers[i].value);
	return same;
}

static void free_text(wh_plan_text *text)
{
	free(text->raw);
	free(text->value);
	*text = (wh_plan_text){NULL, NULL};
}

void wh_plan_cron_clear(wh_plan_cron *entry)
{
	free(entry->name);
	free_text(&entry->database);
	free_text(&entry->at);
	free_text(&entry->zone);
	free_text(&entry->table);
	for (int i = 0; i < WH_TICK_FIELDS; i++)
		free_text(&entry->field[i]);
	for (size_t i = 0; i < entry->n_headers; i++) {
		free(entry->headers[i].name);
		free_text(&entry->headers[i].value);
	}
	free(entry->headers);
	free(entry->headers_json);
	wherry_schedule_free(entry->schedule);
	wherry_config_free(entry->config);
	for (size_t i = 0; i < WH_SETTING_COUNT; i++)
		free(entry->raw[i]);
	*entry = (wh_plan_cron){.name = NULL};
}
