/*
 * The tree that libyaml makes of wherry.yaml: values with their places, and reports of wrong
 * values.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "daemon/plan_read.h"

bool wh_plan_has(const char *key)
{
	return strcmp(key, "relay.name") != 0 && strcmp(key, "relay.timeout") != 0 &&
	       strcmp(key, "relay.table") != 0 && strcmp(key, "db.create") != 0;
}

enum { WORDS_MAX = 200, WORD_LEN = 64 };

/* ---- what is wrong, and where ---- */

void wh_plan_problem(wh_reading *r, yaml_mark_t at, const char *fmt, ...)
{
	char text[400];
	va_list args;

	if (r->n_problems++ >= WH_PROBLEMS_MAX)
		return;
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	for (char *c = text; *c; c++) /* Keep it one line, without escape sequences. */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	wh_buf_printf(r->problems, "%s:%zu:%zu: %s\n", r->path, at.line + 1,
		      at.column + 1, text);
}

const char *wh_plan_within(const char *key, const char *group)
{
	size_t n = strlen(group);

	return strncmp(key, group, n) == 0 && key[n] == '.' ? key + n + 1 : NULL;
}

const char *wh_plan_group(size_t i, size_t *len)
{
	const wherry_setting *table = wherry_config_table();

	for (size_t k = 0; table[k].key; k++) {
		size_t n = strcspn(table[k].key, ".");

		if (k && strncmp(table[k].key, table[k - 1].key, n + 1) == 0)
			continue;
		if (strncmp(table[k].key, "relay.", 6) == 0)
			continue;
		if (i-- == 0) {
			*len = n;
			return table[k].key;
		}
	}
	return NULL;
}

typedef struct list {
	char words[WORDS_MAX][WORD_LEN];
	size_t n;
} list;

static void list_add(list *l, const char *word, size_t len)
{
	if (l->n < WORDS_MAX)
		(void)snprintf(l->words[l->n++], WORD_LEN, "%.*s", (int)len, word);
}

static const char *list_at(const void *ctx, size_t i)
{
	const list *l = ctx;

	return i < l->n ? l->words[i] : NULL;
}

/* The first setting of that name in another group than "relay"; NULL: there is none. */
static const char *place_of(const char *text)
{
	const wherry_setting *table = wherry_config_table();

	for (size_t i = 0; table[i].key; i++) {
		const char *point = strchr(table[i].key, '.');

		if (point && strcmp(point + 1, text) == 0 && wh_plan_has(table[i].key) &&
		    strncmp(table[i].key, "relay.", 6) != 0)
			return table[i].key;
	}
	return NULL;
}

void wh_plan_unknown(wh_reading *r, const yaml_node_t *key, const char *text,
		     const wh_plan_words *w)
{
	const wherry_setting *table = wherry_config_table();
	list *known = r->n_problems < WH_PROBLEMS_MAX ? calloc(1, sizeof(*known)) : NULL;
	const char *near = NULL, *word, *place;
	size_t len;

	if (known) {
		for (size_t i = 0; w->fixed && w->fixed[i]; i++)
			list_add(known, w->fixed[i], strlen(w->fixed[i]));
		for (size_t i = 0; w->group && table[i].key; i++)
			if ((word = wh_plan_within(table[i].key, w->group)) &&
			    wh_plan_has(table[i].key))
				list_add(known, word, strlen(word));
		for (size_t i = 0; w->all_groups && (word = wh_plan_group(i, &len)); i++)
			list_add(known, word, len);
		near = wh_nearest(text, list_at, known);
	}
	if (!near && (place = place_of(text)) != NULL)
		wh_plan_problem(r, key->start_mark,
				"unknown key '%.60s'; it belongs under '%.*s' of a relay",
				text, (int)strcspn(place, "."), place);
	else
		wh_plan_problem(r, key->start_mark, "unknown key '%.60s'%s%s%s", text,
				near ? "; did you mean '" : "", near ? near : "",
				near ? "'?" : "");
	free(known);
}

/* ---- the tree ---- */

yaml_node_t *wh_plan_node(wh_reading *r, int index)
{
	return yaml_document_get_node(&r->doc, index);
}

const char *wh_plan_scalar(wh_reading *r, const yaml_node_t *n, const char *what)
{
	const char *text = (const char *)n->data.scalar.value;

	if (n->type != YAML_SCALAR_NODE) {
		wh_plan_problem(r, n->start_mark, "%s is one value, and this is a %s",
				what, n->type == YAML_MAPPING_NODE ? "mapping" : "list");
		return NULL;
	}
	if (strlen(text) != n->data.scalar.length) {
		wh_plan_problem(r, n->start_mark, "%s has a NUL character", what);
		return NULL;
	}
	return text;
}

void wh_plan_each(wh_reading *r, const yaml_node_t *map, const char *what,
		  wh_visit_fn visit, void *ctx)
{
	const yaml_node_pair_t *first = map->data.mapping.pairs.start;

	if (map->type == YAML_SCALAR_NODE && !map->data.scalar.length)
		return; /* All keys are commented out. */
	if (map->type != YAML_MAPPING_NODE) {
		wh_plan_problem(r, map->start_mark, "%s is a mapping of keys to values",
				what);
		return;
	}
	if (map->data.mapping.pairs.top - first > WH_PLAN_KEYS) {
		wh_plan_problem(r, map->start_mark, "%s has more than %d keys", what,
				WH_PLAN_KEYS);
		return;
	}
	for (const yaml_node_pair_t *p = first; p < map->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = wh_plan_node(r, p->key);
		const char *name = wh_plan_scalar(r, key, "a key");
		bool twice = false;

		for (const yaml_node_pair_t *q = first; name && q < p; q++) {
			const yaml_node_t *other = wh_plan_node(r, q->key);

			twice = twice || (other->type == YAML_SCALAR_NODE &&
					  strcmp((const char *)other->data.scalar.value,
						 name) == 0);
		}
		if (twice)
			wh_plan_problem(r, key->start_mark, "'%.60s' stands here twice",
					name);
		else if (name)
			visit(r, ctx, key, name, wh_plan_node(r, p->value));
	}
}

bool wh_plan_take(wh_reading *r, const yaml_node_t *value, const char *what,
		  wh_plan_text *out)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *text = wh_plan_scalar(r, value, what);

	if (!text)
		return false;
	if (wh_expand(text, &out->value, &err) != WHERRY_OK) {
		wh_plan_problem(r, value->start_mark, "%s: %s", what, err.message);
		return false;
	}
	out->raw = strdup(text);
	if (!out->raw)
		wh_plan_problem(r, value->start_mark, "%s: out of memory", what);
	return out->raw != NULL;
}
