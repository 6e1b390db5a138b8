/*
 * Reads settings and names in wherry.yaml.  The table of settings says which keys are
 * allowed.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/plan_read.h"

/* Replace YAML's other words for on and off. */
static const char *switch_word(const char *type, const char *text)
{
	if (strcmp(type, "switch") != 0)
		return text;
	if (strcmp(text, "true") == 0 || strcmp(text, "yes") == 0)
		return "on";
	if (strcmp(text, "false") == 0 || strcmp(text, "no") == 0)
		return "off";
	return text;
}

static void take(wh_reading *r, const wh_plan_settings *to, size_t which,
		 const yaml_node_t *value)
{
	const wherry_setting *s = &wherry_config_table()[which];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_plan_text text = {NULL, NULL};

	r->setting_at[which] = value->start_mark;
	if (wh_plan_take(r, value, s->key, &text)) {
		if (wherry_config_set(to->config, s->key,
				      switch_word(s->type, text.value),
				      &err) != WHERRY_OK) {
			wh_plan_problem(r, value->start_mark, "%s", err.message);
		} else {
			free(to->raw[which]);
			to->raw[which] = text.raw;
			text.raw = NULL;
		}
	}
	free(text.raw);
	free(text.value);
}

/* The index of a setting by its name in its group; -1: there is none. */
static int setting_of(const char *group, const char *name)
{
	const wherry_setting *table = wherry_config_table();

	for (int i = 0; table[i].key; i++) {
		const char *word = wh_plan_within(table[i].key, group);

		if (word && strcmp(word, name) == 0 && wh_plan_has(table[i].key))
			return i;
	}
	return -1;
}

static bool is_group(const char *name)
{
	const char *group;
	size_t len;

	for (size_t i = 0; (group = wh_plan_group(i, &len)); i++)
		if (strlen(name) == len && memcmp(group, name, len) == 0)
			return true;
	return false;
}

typedef struct in_group {
	const wh_plan_settings *to;
	const char *group;
} in_group;

static void visit_group(wh_reading *r, void *ctx, const yaml_node_t *key,
			const char *name, const yaml_node_t *value)
{
	const in_group *g = ctx;
	int which = setting_of(g->group, name);

	if (which >= 0)
		take(r, g->to, (size_t)which, value);
	else
		wh_plan_unknown(r, key, name, &(wh_plan_words){NULL, g->group, false});
}

void wh_plan_take_group(wh_reading *r, const wh_plan_settings *to, const char *group,
			const yaml_node_t *value)
{
	wh_plan_each(r, value, group, visit_group, &(in_group){to, group});
}

bool wh_plan_take_setting(wh_reading *r, const wh_plan_settings *to, const char *name,
			  const yaml_node_t *value)
{
	int which = setting_of("relay", name);

	if (which >= 0) {
		take(r, to, (size_t)which, value);
		return true;
	}
	if (!is_group(name))
		return false;
	wh_plan_take_group(r, to, name, value);
	return true;
}

bool wh_plan_same_settings(const wherry_config *a, const wherry_config *b)
{
	for (int i = 0; i < WH_SETTING_COUNT; i++)
		if (wh_plan_has(wherry_config_table()[i].key) &&
		    strcmp(wh_config_text(a, (wh_setting)i),
			   wh_config_text(b, (wh_setting)i)) != 0)
			return false;
	return true;
}

/* ---- names ---- */

const char *wh_plan_take_name(wh_reading *r, const yaml_node_t *value, const char *what)
{
	const char *name = wh_plan_scalar(r, value, "name");
	size_t n;

	if (!name)
		return NULL;
	n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			 "0123456789_.-");
	if (n && !name[n] && n <= WH_PLAN_NAME)
		return name;
	wh_plan_problem(r, value->start_mark,
			"%s has letters, digits, '_', '.' and '-', up to %d of them",
			what, WH_PLAN_NAME);
	return NULL;
}
