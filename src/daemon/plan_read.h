/*
 * Reading wherry.yaml.  libyaml makes the tree, which knows the line and column of each value.
 *
 *     plan.c           the file: http, log, relays, cron
 *     plan_relay.c     one relay, and checks of several
 *     plan_cron.c      entries of cron; plan_cron_check.c checks them, plan_entry.c has their words
 *     plan_settings.c  settings, and names
 *     plan_tree.c      the tree, and reports of wrong values
 */
#ifndef WH_DAEMON_PLAN_READ_H
#define WH_DAEMON_PLAN_READ_H

#include <yaml.h>

#include "daemon/plan.h"

enum { WH_PROBLEMS_MAX = 20 }; /* that are reported */

typedef struct wh_reading {
	const char *path;
	yaml_document_t doc;
	wh_plan *plan;
	wh_buf *problems;
	int n_problems;
	/* Of the relay that is being read: where things stand. */
	yaml_mark_t from_at, to_at, setting_at[WH_SETTING_COUNT];
} wh_reading;

/* ---- plan_tree.c ---- */

WH_PRINTF(3, 4)
void wh_plan_problem(wh_reading *r, yaml_mark_t at, const char *fmt, ...);

/* Words that may stand in one place, for "did you mean". */
typedef struct wh_plan_words {
	const char *const *fixed; /* ended by NULL */
	const char *group;        /* and settings of it; NULL: none */
	bool all_groups;          /* and the groups themselves */
} wh_plan_words;

void wh_plan_unknown(wh_reading *r, const yaml_node_t *key, const char *text,
		     const wh_plan_words *w);

/* "relay.batch" in the group "relay" is "batch"; NULL: it is of another. */
const char *wh_plan_within(const char *key, const char *group);

/* The i-th group except "relay"; its length in *len. */
const char *wh_plan_group(size_t i, size_t *len);

yaml_node_t *wh_plan_node(wh_reading *r, int index);

/* A scalar's text; NULL, and a problem, where there is none. */
const char *wh_plan_scalar(wh_reading *r, const yaml_node_t *n, const char *what);

typedef void (*wh_visit_fn)(wh_reading *r, void *ctx, const yaml_node_t *key,
			    const char *name, const yaml_node_t *value);

/* Each pair of a mapping; a key that comes twice is a problem. */
void wh_plan_each(wh_reading *r, const yaml_node_t *map, const char *what,
		  wh_visit_fn visit, void *ctx);

/* A value with its secrets; false, and a problem, where there is none. */
bool wh_plan_take(wh_reading *r, const yaml_node_t *value, const char *what,
		  wh_plan_text *out);

/* ---- plan_settings.c ---- */

/* Where settings go: a configuration, and their texts as written, WH_SETTING_COUNT of them. */
typedef struct wh_plan_settings {
	wherry_config *config;
	char **raw;
} wh_plan_settings;

/* A key of a relay that is a setting, or a group of settings; false: it is neither. */
bool wh_plan_take_setting(wh_reading *r, const wh_plan_settings *to, const char *name,
			  const yaml_node_t *value);

/* The settings of one group. */
void wh_plan_take_group(wh_reading *r, const wh_plan_settings *to, const char *group,
			const yaml_node_t *value);

/* A name that metrics and log lines can show; NULL, and a problem, if it is not one.
 * what: "a relay's name". */
const char *wh_plan_take_name(wh_reading *r, const yaml_node_t *value, const char *what);

/* ---- plan_relay.c ---- */

/* False: they cannot be used. */
bool wh_plan_defaults(wh_reading *r, const yaml_node_t *defaults);

/* May a relay, or an entry of cron, connect to this?  Receives the URL of the database, which
 * is the caller's to free; may be NULL. */
wherry_code wh_plan_source(const char *url, char **out_database, wherry_error *err);

/* defaults may be NULL. */
void wh_plan_take_relays(wh_reading *r, const yaml_node_t *relays,
			 const yaml_node_t *defaults);

/* ---- plan_cron.c ---- */

/* After the relays, whose names may stand for databases.  defaults may be NULL. */
void wh_plan_take_crons(wh_reading *r, const yaml_node_t *crons,
			const yaml_node_t *defaults);

/* ---- plan_cron_check.c ---- */

/* Where the keys of an entry stand; its own place where a key is missing. */
typedef struct wh_cron_places {
	yaml_mark_t entry, database, at, zone, table, target, field[WH_TICK_FIELDS];
} wh_cron_places;

/* Make the schedule and the headers of an entry, and report what is wrong with it. */
void wh_plan_check_cron(wh_reading *r, wh_plan_cron *entry, int n_targets,
			const wh_cron_places *places);

#endif
