/*
 * Checks an entry of cron: makes its schedule, and reports what no table could store.
 */
#include <string.h>

#include "daemon/plan_read.h"
#include "db/driver.h"
#include "delayed/delayed.h"
#include "queue/queue.h"
#include "store/fields.h"
#include "store/name.h"

/* Report what an entry needs and lacks.  False: something is missing. */
static bool check_needed(wh_reading *r, const wh_plan_cron *entry, int n_targets,
			 yaml_mark_t at)
{
	int before = r->n_problems;

	if (!entry->name)
		wh_plan_problem(r, at, "an entry of cron needs a name");
	if (!entry->database.value)
		wh_plan_problem(
			r, at,
			"an entry of cron needs 'database', a URL or the name of a "
			"relay: sqlite:shop.db");
	if (!entry->at.value)
		wh_plan_problem(r, at,
				"an entry of cron needs 'at', a schedule: '30 2 * * *', "
				"@daily, '12:00, 18:00' or '@every 15m'");
	if (!n_targets)
		wh_plan_problem(r, at,
				"an entry of cron needs a target: outbox: {topic: …}, "
				"queue: {name: …} or delayed: {name: …}");
	if (n_targets > 1)
		wh_plan_problem(r, at,
				"an entry of cron has one target, and this one has %d: "
				"write an entry for each",
				n_targets);
	return r->n_problems == before;
}

/* Make the schedule.  An error concerns the zone if the text is valid without the
 * zone. */
static void make_schedule(wh_reading *r, wh_plan_cron *entry,
			  const wh_cron_places *places)
{
	wherry_error err = WHERRY_ERROR_INIT, other = WHERRY_ERROR_INIT;
	wherry_schedule *alone = NULL;
	bool of_zone;

	if (wherry_schedule_parse(entry->at.value, entry->zone.value, &entry->schedule,
				  &err) == WHERRY_OK)
		return;
	of_zone = entry->zone.value && wherry_schedule_parse(entry->at.value, NULL,
							     &alone, &other) == WHERRY_OK;
	wherry_schedule_free(alone);
	wh_plan_problem(r, of_zone ? places->zone : places->at, "%s: %s",
			of_zone ? "zone" : "at", err.message);
}

static void check_table(wh_reading *r, const wh_plan_cron *entry, const char *what,
			const char *name, yaml_mark_t at)
{
	wh_view scheme = {entry->database.value, strcspn(entry->database.value, ":")};
	const char *kind = wh_db_scheme(scheme);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_name parsed;

	if (name && wh_name_parse(name, kind && strcmp(kind, "sqlite") != 0, &parsed,
				  &err) != WHERRY_OK)
		wh_plan_problem(r, at, "%s: %s", what, err.message);
}

/* Report a missing field that the target needs. */
static void need(wh_reading *r, const wh_plan_cron *entry, wh_tick_field field,
		 const wh_cron_places *places)
{
	const char *value = wh_plan_cron_field(entry, field);

	if (!value || !*value)
		wh_plan_problem(r, places->field[field], "%s needs '%s'",
				wh_tick_to_name(entry->to), wh_tick_field_name(field));
}

/* Report texts that no table can store. */
static void check_texts(wh_reading *r, const wh_plan_cron *entry,
			const wh_cron_places *places)
{
	static const size_t most[WH_TICK_FIELDS] = {
		[WH_TICK_NAME] = WH_FIELD_MOST,
		[WH_TICK_TYPE] = WH_FIELD_MOST,
		[WH_TICK_TOPIC] = WH_FIELD_MOST,
		[WH_TICK_KEY] = WH_KEY_MOST,
	};
	const wh_field headers = {"headers", entry->headers_json, WH_HEADERS_MOST};
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; i < WH_TICK_FIELDS; i++) {
		const wh_field field = {wh_tick_field_name((wh_tick_field)i),
					entry->field[i].value, most[i]};

		if (most[i] && wh_fields_check(&field, 1, &err) != WHERRY_OK)
			wh_plan_problem(r, places->field[i], "%s", err.message);
	}
	if (wh_fields_check(&headers, 1, &err) != WHERRY_OK)
		wh_plan_problem(r, places->target, "%s", err.message);
	if (entry->to == WH_TO_DELAYED && entry->field[WH_TICK_KEY].value &&
	    wh_delayed_check_key(entry->field[WH_TICK_KEY].value, &err) != WHERRY_OK)
		wh_plan_problem(r, places->field[WH_TICK_KEY], "%s", err.message);
}

static void check_target(wh_reading *r, const wh_plan_cron *entry,
			 const wh_cron_places *places)
{
	bool queue = entry->to == WH_TO_QUEUE;

	need(r, entry, entry->to == WH_TO_OUTBOX ? WH_TICK_TOPIC : WH_TICK_NAME, places);
	check_texts(r, entry, places);
	check_table(r, entry, queue ? "name" : "table",
		    wh_plan_cron_field(entry, queue ? WH_TICK_NAME : WH_TICK_TABLE),
		    places->field[queue ? WH_TICK_NAME : WH_TICK_TABLE]);
	check_table(r, entry, "table", entry->table.value, places->table);
}

void wh_plan_check_cron(wh_reading *r, wh_plan_cron *entry, int n_targets,
			const wh_cron_places *places)
{
	if (!check_needed(r, entry, n_targets, places->entry))
		return;
	make_schedule(r, entry, places);
	check_target(r, entry, places);
}
