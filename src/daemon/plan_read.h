/*
 * Reading wherry.yaml.  libyaml makes the tree, which knows the line and column of each value.
 *
 *     plan.c        the file: http, log, relays
 *     plan_relay.c  one relay, and checks of several
 *     plan_tree.c   the tree, and reports of wrong values
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

/* ---- plan_relay.c ---- */

/* False: they cannot be used. */
bool wh_plan_defaults(wh_reading *r, const yaml_node_t *defaults);

/* defaults may be NULL. */
void wh_plan_take_relays(wh_reading *r, const yaml_node_t *relays,
			 const yaml_node_t *defaults);

#endif
