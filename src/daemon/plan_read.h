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

enum { WH_PROBLEMS_MAX = 20 }; /* Most problems that are reported. */

typedef struct wh_reading {
	const char *path;
	yaml_document_t doc;
	wh_plan *plan;
	wh_buf *problems;
	int n_problems;
	/* Positions of the values of the relay that is being read. */
	yaml_mark_t from_at, to_at, setting_at[WH_SETTING_COUNT];
} wh_reading;

/* ---- plan_tree.c ---- */

WH_PRINTF(3, 4)
void wh_plan_problem(wh_reading *r, yaml_mark_t at, const char *fmt, ...);

/* The keys that one place allows, for "did you mean". */
typedef struct wh_plan_words {
	const char *const *fixed; /* Ends in NULL. */
	const char *group;        /* Also the settings of this group; NULL: none. */
	bool all_groups;          /* Also the names of all groups. */
} wh_plan_words;

void wh_plan_unknown(wh_reading *r, const yaml_node_t *key, const char *text,
		     const wh_plan_words *w);

/* The name of a setting in its group: "batch" for "relay.batch" and "relay".  NULL: the
 * setting is in another group. */
const char *wh_plan_within(const char *key, const char *group);

/* The i-th group except "relay"; its length in *len. */
const char *wh_plan_group(size_t i, size_t *len);

yaml_node_t *wh_plan_node(wh_reading *r, int index);

/* A scalar's text.  NULL, with a problem reported: it is not a scalar. */
const char *wh_plan_scalar(wh_reading *r, const yaml_node_t *n, const char *what);

typedef void (*wh_visit_fn)(wh_reading *r, void *ctx, const yaml_node_t *key,
			    const char *name, const yaml_node_t *value);

/* Visit each pair of a mapping.  Report a key that occurs twice. */
void wh_plan_each(wh_reading *r, const yaml_node_t *map, const char *what,
		  wh_visit_fn visit, void *ctx);

/* Take a value, and replace its references.  False: it failed, and a problem was reported
 * unless memory is short. */
bool wh_plan_take(wh_reading *r, const yaml_node_t *value, const char *what,
		  wh_plan_text *out);

/* ---- plan_settings.c ---- */

/* Receives settings: a configuration, and WH_SETTING_COUNT texts as written. */
typedef struct wh_plan_settings {
	wherry_config *config;
	char **raw;
} wh_plan_settings;

/* Take a key of a relay that is a setting or a group of settings.  False: it is
 * neither. */
bool wh_plan_take_setting(wh_reading *r, const wh_plan_settings *to, const char *name,
			  const yaml_node_t *value);

/* Take the settings of one group. */
void wh_plan_take_group(wh_reading *r, const wh_plan_settings *to, const char *group,
			const yaml_node_t *value);

/* Take a name that metrics and log lines can show.  NULL, with a problem reported: it is
 * not valid.  what: "a relay's name". */
const char *wh_plan_take_name(wh_reading *r, const yaml_node_t *value, const char *what);

/* ---- plan_relay.c ---- */

/* Check `defaults`.  False: they cannot be used. */
bool wh_plan_defaults(wh_reading *r, const yaml_node_t *defaults);

/* Fail if a relay or an entry of cron cannot read from this URL.  out_database receives
 * the URL of the database, which the caller frees; it may be NULL. */
wherry_code wh_plan_source(const char *url, char **out_database, wherry_error *err);

/* defaults may be NULL. */
void wh_plan_take_relays(wh_reading *r, const yaml_node_t *relays,
			 const yaml_node_t *defaults);

/* ---- plan_cron.c ---- */

/* Call it after wh_plan_take_relays(): an entry may name a relay instead of a database.
 * defaults may be NULL. */
void wh_plan_take_crons(wh_reading *r, const yaml_node_t *crons,
			const yaml_node_t *defaults);

/* ---- plan_cron_check.c ---- */

/* Positions of an entry's keys; for a missing key the position of the entry. */
typedef struct wh_cron_places {
	yaml_mark_t entry, database, at, zone, table, target, field[WH_TICK_FIELDS];
} wh_cron_places;

/* Make the schedule of an entry, and report its problems. */
void wh_plan_check_cron(wh_reading *r, wh_plan_cron *entry, int n_targets,
			const wh_cron_places *places);

#endif
