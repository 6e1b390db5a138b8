/*
 * Reads the entries of the list `cron` in wherry.yaml.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/plan_read.h"

/* ---- reading ---- */

/* The entry that is being read. */
typedef struct reading_cron {
	wh_plan_cron *entry;
	wh_cron_places at;
	int n_targets;
} reading_cron;

static void take_text(wh_reading *r, const yaml_node_t *value, const char *what,
		      wh_plan_text *out, yaml_mark_t *at)
{
	*at = value->start_mark;
	(void)wh_plan_take(r, value, what, out);
}

static void take_name(wh_reading *r, wh_plan_cron *entry, const yaml_node_t *value)
{
	const char *name = wh_plan_take_name(r, value, "the name of an entry");

	if (!name)
		return;
	for (size_t i = 0; i < r->plan->n_crons; i++)
		if (r->plan->crons[i].name && strcmp(r->plan->crons[i].name, name) == 0)
			wh_plan_problem(
				r, value->start_mark,
				"another entry of cron is called '%s', too: give each its "
				"own name, by which the database remembers its ticks",
				name);
	entry->name = strdup(name);
	if (!entry->name)
		wh_plan_problem(r, value->start_mark, "out of memory");
}

static const wh_plan_relay *relay_called(const wh_plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->n_relays; i++)
		if (plan->relays[i].name && strcmp(plan->relays[i].name, name) == 0)
			return &plan->relays[i];
	return NULL;
}

/* Take a URL, or the name of a relay, which stands for the URL of its database. */
static void take_database(wh_reading *r, reading_cron *c, const yaml_node_t *value)
{
	wh_plan_text *text = &c->entry->database;
	wherry_error err = WHERRY_ERROR_INIT;
	const wh_plan_relay *relay;
	char *url = NULL;

	c->at.database = value->start_mark;
	if (!wh_plan_take(r, value, "database", text))
		return;
	relay = relay_called(r->plan, text->value);
	if (relay && !relay->from.value)
		return; /* The relay's problem was reported. */
	if (!relay && !strchr(text->value, ':'))
		wh_plan_problem(
			r, value->start_mark,
			"database: no relay is called '%.40s': write the name of a "
			"relay of this file, or a URL such as sqlite:shop.db",
			text->value);
	else if (wh_plan_source(relay ? relay->from.value : text->value, &url, &err) !=
		 WHERRY_OK)
		wh_plan_problem(r, value->start_mark, "database: %s", err.message);
	free(text->value);
	text->value = url;
}

static void take_catch_up(wh_reading *r, wh_plan_cron *entry, const yaml_node_t *value)
{
	const char *text = wh_plan_scalar(r, value, "catch_up");

	for (int i = 0; text && i < 3; i++)
		if (strcmp(text, wh_catch_up_name((wherry_catch_up)i)) == 0) {
			entry->catch_up = (wherry_catch_up)i;
			return;
		}
	if (text)
		wh_plan_problem(r, value->start_mark,
				"catch_up: write none, last or all, not '%.40s'", text);
}

/* ---- the target ---- */

static void visit_header(wh_reading *r, void *ctx, const yaml_node_t *key,
			 const char *name, const yaml_node_t *value)
{
	wh_plan_cron *entry = ctx;
	wh_plan_header *grown = reallocarray(entry->headers, entry->n_headers + 1,
					     sizeof(*entry->headers));
	wh_plan_header added = {.name = strdup(name)};
	wherry_error err = WHERRY_ERROR_INIT;

	if (grown)
		entry->headers = grown;
	if (!grown || !added.name) {
		wh_plan_problem(r, key->start_mark, "out of memory");
		free(added.name);
		return;
	}
	if (wh_plan_take(r, value, name, &added.value) &&
	    wherry_headers_add(&entry->headers_json, name, added.value.value, &err) !=
		    WHERRY_OK)
		wh_plan_problem(r, key->start_mark, "headers: %s", err.message);
	entry->headers[entry->n_headers++] = added;
}

static void unknown_field(wh_reading *r, wh_tick_to to, const yaml_node_t *key,
			  const char *name)
{
	const char *known[WH_TICK_FIELDS + 2] = {NULL};
	size_t n = 0;

	for (int i = 0; i < WH_TICK_FIELDS; i++)
		if (wh_tick_has(to, (wh_tick_field)i))
			known[n++] = wh_tick_field_name((wh_tick_field)i);
	if (wh_tick_has_headers(to))
		known[n++] = "headers";
	wh_plan_unknown(r, key, name, &(wh_plan_words){known, NULL, false});
}

static void visit_target(wh_reading *r, void *ctx, const yaml_node_t *key,
			 const char *name, const yaml_node_t *value)
{
	reading_cron *c = ctx;
	wh_plan_cron *entry = c->entry;

	for (int i = 0; i < WH_TICK_FIELDS; i++)
		if (wh_tick_has(entry->to, (wh_tick_field)i) &&
		    strcmp(name, wh_tick_field_name((wh_tick_field)i)) == 0) {
			take_text(r, value, name, &entry->field[i], &c->at.field[i]);
			return;
		}
	if (wh_tick_has_headers(entry->to) && strcmp(name, "headers") == 0)
		wh_plan_each(r, value, "headers", visit_header, entry);
	else
		unknown_field(r, entry->to, key, name);
}

static void take_target(wh_reading *r, reading_cron *c, wh_tick_to to,
			const yaml_node_t *value)
{
	if (c->n_targets++)
		return; /* More than one target is reported later. */
	c->entry->to = to;
	c->at.target = value->start_mark;
	for (int i = 0; i < WH_TICK_FIELDS; i++)
		c->at.field[i] = value->start_mark;
	wh_plan_each(r, value, wh_tick_to_name(to), visit_target, c);
}

/* ---- an entry ---- */

static void visit_cron(wh_reading *r, void *ctx, const yaml_node_t *key, const char *name,
		       const yaml_node_t *value)
{
	static const char *const known[] = {"name",  "database", "at",     "zone",
					    "table", "catch_up", "outbox", "queue",
					    "db",    "delayed",  NULL};
	reading_cron *c = ctx;
	wh_plan_cron *entry = c->entry;
	const wh_plan_settings settings = {entry->config, entry->raw};

	for (int i = 0; i < WH_TICK_TARGETS; i++)
		if (strcmp(name, wh_tick_to_name((wh_tick_to)i)) == 0) {
			take_target(r, c, (wh_tick_to)i, value);
			return;
		}
	if (strcmp(name, "name") == 0)
		take_name(r, entry, value);
	else if (strcmp(name, "database") == 0)
		take_database(r, c, value);
	else if (strcmp(name, "at") == 0)
		take_text(r, value, name, &entry->at, &c->at.at);
	else if (strcmp(name, "zone") == 0)
		take_text(r, value, name, &entry->zone, &c->at.zone);
	else if (strcmp(name, "table") == 0)
		take_text(r, value, name, &entry->table, &c->at.table);
	else if (strcmp(name, "catch_up") == 0)
		take_catch_up(r, entry, value);
	else if (strcmp(name, "db") == 0)
		wh_plan_take_group(r, &settings, name, value);
	else
		wh_plan_unknown(r, key, name, &(wh_plan_words){known, NULL, false});
}

/* Take the group db of `defaults`.  It comes first, so that the entry's group db
 * overrides it. */
static void take_defaults(wh_reading *r, wh_plan_cron *entry, const yaml_node_t *defaults)
{
	const yaml_node_pair_t *p = defaults ? defaults->data.mapping.pairs.start : NULL;
	const wh_plan_settings settings = {entry->config, entry->raw};

	for (; p && p < defaults->data.mapping.pairs.top; p++)
		if (strcmp((const char *)wh_plan_node(r, p->key)->data.scalar.value,
			   "db") == 0)
			wh_plan_take_group(r, &settings, "db", wh_plan_node(r, p->value));
}

static void take_cron(wh_reading *r, const yaml_node_t *value,
		      const yaml_node_t *defaults)
{
	wh_plan_cron entry = {.name = NULL};
	reading_cron c = {.entry = &entry};
	yaml_mark_t at = value->start_mark;
	int before = r->n_problems;
	wherry_error err = WHERRY_ERROR_INIT;
	wh_plan_cron *grown = reallocarray(r->plan->crons, r->plan->n_crons + 1,
					   sizeof(*r->plan->crons));

	if (grown)
		r->plan->crons = grown;
	if (!grown || wherry_config_new(&entry.config, &err) != WHERRY_OK) {
		wh_plan_problem(r, at, "out of memory");
		return;
	}
	c.at = (wh_cron_places){at, at, at, at, at, at, {{0, 0, 0}}};
	take_defaults(r, &entry, defaults);
	wh_plan_each(r, value, "an entry of cron", visit_cron, &c);
	if (r->n_problems == before)
		wh_plan_check_cron(r, &entry, c.n_targets, &c.at);
	r->plan->crons[r->plan->n_crons++] = entry;
}

void wh_plan_take_crons(wh_reading *r, const yaml_node_t *crons,
			const yaml_node_t *defaults)
{
	const yaml_node_item_t *first = crons->data.sequence.items.start;

	if (crons->type != YAML_SEQUENCE_NODE) {
		wh_plan_problem(r, crons->start_mark,
				"cron is a list: each entry begins with '-'");
		return;
	}
	if (crons->data.sequence.items.top == first)
		wh_plan_problem(r, crons->start_mark, "cron has no entries");
	for (const yaml_node_item_t *i = first; i < crons->data.sequence.items.top; i++)
		if (i - first < WH_PLAN_RELAYS)
			take_cron(r, wh_plan_node(r, *i), defaults);
	if (crons->data.sequence.items.top - first > WH_PLAN_RELAYS)
		wh_plan_problem(r, crons->start_mark, "cron has more than %d entries",
				WH_PLAN_RELAYS);
}
