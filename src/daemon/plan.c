/*
 * wherry.yaml.  libyaml makes the tree, which knows the line and column of each value; the
 * table of settings says what may stand where.
 */
#include "daemon/plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/text.h"
#include "db/driver.h"
#include "publish/driver.h"

enum { FILE_MAX = 1024 * 1024, PROBLEMS_MAX = 20 };

typedef struct reading {
	const char *path;
	yaml_document_t doc;
	wh_plan *plan;
	wh_buf *problems;
	int n_problems;
} reading;

/* ---- what is wrong, and where ---- */

WH_PRINTF(3, 4)
static void problem(reading *r, yaml_mark_t at, const char *fmt, ...)
{
	char text[400];
	va_list args;

	if (r->n_problems++ >= PROBLEMS_MAX)
		return;
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	wh_buf_printf(r->problems, "%s:%zu:%zu: %s\n", r->path, at.line + 1,
		      at.column + 1, text);
}

/* Words that may stand in one place, for "did you mean". */
typedef struct words {
	const char *const *fixed; /* ended by NULL */
	const char *group;        /* and settings of it; NULL: none */
	bool all_groups;          /* and the groups themselves */
} words;

enum { WORDS_MAX = 200, WORD_LEN = 64 };

/* "relay.batch" in the group "relay" is "batch"; NULL: it is of another. */
static const char *within(const char *key, const char *group)
{
	size_t n = strlen(group);

	return strncmp(key, group, n) == 0 && key[n] == '.' ? key + n + 1 : NULL;
}

bool wh_plan_has(const char *key)
{
	return strcmp(key, "relay.name") != 0 && strcmp(key, "relay.timeout") != 0 &&
	       strcmp(key, "db.create") != 0;
}

/* The i-th group besides "relay"; its length in *len. */
static const char *group_at(size_t i, size_t *len)
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

static void unknown_key(reading *r, const yaml_node_t *key, const char *text,
			const words *w)
{
	const wherry_setting *table = wherry_config_table();
	list *known = calloc(1, sizeof(*known));
	const char *near = NULL, *word;
	size_t len;

	if (known) {
		for (size_t i = 0; w->fixed && w->fixed[i]; i++)
			list_add(known, w->fixed[i], strlen(w->fixed[i]));
		for (size_t i = 0; w->group && table[i].key; i++)
			if ((word = within(table[i].key, w->group)) &&
			    wh_plan_has(table[i].key))
				list_add(known, word, strlen(word));
		for (size_t i = 0; w->all_groups && (word = group_at(i, &len)); i++)
			list_add(known, word, len);
		near = wh_nearest(text, list_at, known);
	}
	problem(r, key->start_mark, "unknown key '%.60s'%s%s%s", text,
		near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	free(known);
}

/* ---- the tree ---- */

static yaml_node_t *node(reading *r, int index)
{
	return yaml_document_get_node(&r->doc, index);
}

/* A scalar's text; NULL, and a problem, where there is none. */
static const char *scalar(reading *r, const yaml_node_t *n, const char *what)
{
	const char *text = (const char *)n->data.scalar.value;

	if (n->type != YAML_SCALAR_NODE) {
		problem(r, n->start_mark, "%s is one value, and this is a %s", what,
			n->type == YAML_MAPPING_NODE ? "mapping" : "list");
		return NULL;
	}
	if (strlen(text) != n->data.scalar.length) {
		problem(r, n->start_mark, "%s has a NUL character", what);
		return NULL;
	}
	return text;
}

typedef void (*visit_fn)(reading *r, void *ctx, const yaml_node_t *key, const char *name,
			 const yaml_node_t *value);

/* Each pair of a mapping; a key that comes twice is a problem. */
static void each_pair(reading *r, const yaml_node_t *map, const char *what,
		      visit_fn visit, void *ctx)
{
	const yaml_node_pair_t *first = map->data.mapping.pairs.start;

	if (map->type == YAML_SCALAR_NODE && !map->data.scalar.length)
		return; /* all of it is commented out */
	if (map->type != YAML_MAPPING_NODE) {
		problem(r, map->start_mark, "%s is a mapping of keys to values", what);
		return;
	}
	for (const yaml_node_pair_t *p = first; p < map->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = node(r, p->key);
		const char *name = scalar(r, key, "a key");
		bool twice = false;

		for (const yaml_node_pair_t *q = first; name && q < p; q++) {
			const yaml_node_t *other = node(r, q->key);

			twice = twice || (other->type == YAML_SCALAR_NODE &&
					  strcmp((const char *)other->data.scalar.value,
						 name) == 0);
		}
		if (twice)
			problem(r, key->start_mark, "'%.60s' stands here twice", name);
		else if (name)
			visit(r, ctx, key, name, node(r, p->value));
	}
}

static bool take_text(reading *r, const yaml_node_t *value, const char *what,
		      wh_plan_text *out)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *text = scalar(r, value, what);

	if (!text)
		return false;
	if (wh_expand(text, &out->value, &err) != WHERRY_OK) {
		problem(r, value->start_mark, "%s: %s", what, err.message);
		return false;
	}
	out->raw = strdup(text);
	return out->raw != NULL;
}

/* ---- settings ---- */

/* YAML has more words for on and off. */
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

static void take_setting(reading *r, wh_plan_relay *relay, size_t which,
			 const yaml_node_t *value)
{
	const wherry_setting *s = &wherry_config_table()[which];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_plan_text text = {NULL, NULL};

	if (take_text(r, value, s->key, &text)) {
		if (wherry_config_set(relay->config, s->key,
				      switch_word(s->type, text.value),
				      &err) != WHERRY_OK) {
			problem(r, value->start_mark, "%s", err.message);
		} else {
			free(relay->raw[which]);
			relay->raw[which] = text.raw;
			text.raw = NULL;
		}
	}
	free(text.raw);
	free(text.value);
}

/* The setting of a group by its name there; -1: there is none. */
static int setting_of(const char *group, const char *name)
{
	const wherry_setting *table = wherry_config_table();

	for (int i = 0; table[i].key; i++) {
		const char *word = within(table[i].key, group);

		if (word && strcmp(word, name) == 0 && wh_plan_has(table[i].key))
			return i;
	}
	return -1;
}

static bool is_group(const char *name)
{
	const char *group;
	size_t len;

	for (size_t i = 0; (group = group_at(i, &len)); i++)
		if (strlen(name) == len && memcmp(group, name, len) == 0)
			return true;
	return false;
}

typedef struct in_group {
	wh_plan_relay *relay;
	const char *group;
} in_group;

static void visit_group(reading *r, void *ctx, const yaml_node_t *key, const char *name,
			const yaml_node_t *value)
{
	const in_group *g = ctx;
	int which = setting_of(g->group, name);

	if (which >= 0)
		take_setting(r, g->relay, (size_t)which, value);
	else
		unknown_key(r, key, name, &(words){NULL, g->group, false});
}

/* A key of a relay that is a setting, or a group of them. */
static bool visit_settings(reading *r, wh_plan_relay *relay, const char *name,
			   const yaml_node_t *value)
{
	int which = setting_of("relay", name);

	if (which >= 0) {
		take_setting(r, relay, (size_t)which, value);
		return true;
	}
	if (!is_group(name))
		return false;
	each_pair(r, value, name, visit_group, &(in_group){relay, name});
	return true;
}

/* ---- a relay ---- */

static bool name_valid(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				"0123456789_.-");

	return n && !name[n] && n <= WH_PLAN_NAME;
}

static void take_name(reading *r, wh_plan_relay *relay, const yaml_node_t *value)
{
	const char *name = scalar(r, value, "name");

	if (!name)
		return;
	if (!name_valid(name)) {
		problem(r, value->start_mark,
			"a relay's name has letters, digits, '_', '.' and '-', up to %d "
			"of them",
			WH_PLAN_NAME);
		return;
	}
	for (size_t i = 0; i < r->plan->n_relays; i++)
		if (r->plan->relays[i].name && strcmp(r->plan->relays[i].name, name) == 0)
			problem(r, value->start_mark,
				"another relay is called '%s', too: numbers and log lines "
				"are told apart by the name",
				name);
	relay->name = strdup(name);
}

typedef wherry_code (*known_fn)(const char *url, wherry_error *err);

static void take_url(reading *r, const yaml_node_t *value, const char *what,
		     known_fn known, wh_plan_text *out)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (take_text(r, value, what, out) && known(out->value, &err) != WHERRY_OK)
		problem(r, value->start_mark, "%s: %s", what, err.message);
}

static const char *const relay_words[] = {"name", "from", "to", NULL};

static void visit_relay(reading *r, void *ctx, const yaml_node_t *key, const char *name,
			const yaml_node_t *value)
{
	wh_plan_relay *relay = ctx;

	if (strcmp(name, "name") == 0)
		take_name(r, relay, value);
	else if (strcmp(name, "from") == 0)
		take_url(r, value, "from", wh_db_known, &relay->from);
	else if (strcmp(name, "to") == 0)
		take_url(r, value, "to", wh_publisher_known, &relay->to);
	else if (!visit_settings(r, relay, name, value))
		unknown_key(r, key, name, &(words){relay_words, "relay", true});
}

void wh_plan_relay_clear(wh_plan_relay *relay)
{
	free(relay->name);
	free(relay->from.raw);
	free(relay->from.value);
	free(relay->to.raw);
	free(relay->to.value);
	wherry_config_free(relay->config);
	for (size_t i = 0; i < WH_SETTING_COUNT; i++)
		free(relay->raw[i]);
}

static void check_relay(reading *r, const wh_plan_relay *relay, yaml_mark_t at,
			int problems_before)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (r->n_problems > problems_before)
		return; /* one thing at a time */
	if (!relay->name)
		problem(r, at, "a relay needs a name");
	if (!relay->from.value)
		problem(r, at, "a relay needs 'from', a database: sqlite:shop.db");
	if (!relay->to.value)
		problem(r, at, "a relay needs 'to', a destination: stdout:");
	if (wh_config_check(relay->config, &err) != WHERRY_OK)
		problem(r, at, "%s", err.message);
}

/* What `defaults` says, unless the relay says otherwise: it comes first. */
static void take_relay(reading *r, const yaml_node_t *value, const yaml_node_t *defaults)
{
	wh_plan_relay relay = {.name = NULL};
	int before = r->n_problems;
	wherry_error err = WHERRY_ERROR_INIT;
	wh_plan_relay *grown = reallocarray(r->plan->relays, r->plan->n_relays + 1,
					    sizeof(*r->plan->relays));

	if (grown)
		r->plan->relays = grown;
	if (!grown || wherry_config_new(&relay.config, &err) != WHERRY_OK) {
		problem(r, value->start_mark, "out of memory");
		return;
	}
	for (const yaml_node_pair_t *p = defaults ? defaults->data.mapping.pairs.start
						  : NULL;
	     p && p < defaults->data.mapping.pairs.top; p++)
		(void)visit_settings(r, &relay,
				     (const char *)node(r, p->key)->data.scalar.value,
				     node(r, p->value));
	each_pair(r, value, "a relay", visit_relay, &relay);
	check_relay(r, &relay, value->start_mark, before);
	r->plan->relays[r->plan->n_relays++] = relay;
}

/* ---- the file ---- */

static void take_log(reading *r, const yaml_node_t *value, bool level)
{
	static const char *const levels[] = {"error", "warning", "info", "debug"};
	const char *text = scalar(r, value, level ? "level" : "format");

	if (!text)
		return;
	if (!level && (strcmp(text, "json") == 0 || strcmp(text, "text") == 0)) {
		r->plan->log_json = *text == 'j';
		return;
	}
	for (int i = 0; level && i < 4; i++)
		if (strcmp(text, levels[i]) == 0) {
			r->plan->log_level = i;
			return;
		}
	problem(r, value->start_mark, "'%.40s' is none of: %s", text,
		level ? "error, warning, info, debug" : "text, json");
}

static void visit_log(reading *r, void *ctx, const yaml_node_t *key, const char *name,
		      const yaml_node_t *value)
{
	static const char *const known[] = {"format", "level", NULL};

	(void)ctx;
	if (strcmp(name, "format") == 0 || strcmp(name, "level") == 0)
		take_log(r, value, *name == 'l');
	else
		unknown_key(r, key, name, &(words){known, NULL, false});
}

static void visit_http(reading *r, void *ctx, const yaml_node_t *key, const char *name,
		       const yaml_node_t *value)
{
	static const char *const known[] = {"listen", "token", NULL};
	wherry_error err = WHERRY_ERROR_INIT;
	char address[64];
	uint16_t port;

	(void)ctx;
	if (strcmp(name, "token") == 0) {
		if (take_text(r, value, "token", &r->plan->token) &&
		    !*r->plan->token.value)
			problem(r, value->start_mark, "token is empty");
	} else if (strcmp(name, "listen") != 0) {
		unknown_key(r, key, name, &(words){known, NULL, false});
	} else if (take_text(r, value, "listen", &r->plan->listen) &&
		   wh_listen_parse(r->plan->listen.value, address, &port, &err) !=
			   WHERRY_OK) {
		problem(r, value->start_mark, "%s", err.message);
	}
}

/* Here only that they are known; each relay takes them. */
static void visit_default(reading *r, void *ctx, const yaml_node_t *key, const char *name,
			  const yaml_node_t *value)
{
	if (!visit_settings(r, ctx, name, value))
		unknown_key(r, key, name, &(words){NULL, "relay", true});
}

typedef struct top {
	const yaml_node_t *http, *log, *defaults, *relays;
} top;

static void visit_top(reading *r, void *ctx, const yaml_node_t *key, const char *name,
		      const yaml_node_t *value)
{
	static const char *const known[] = {"http", "log", "defaults", "relays", NULL};
	top *t = ctx;
	const yaml_node_t **places[] = {&t->http, &t->log, &t->defaults, &t->relays};

	for (size_t i = 0; known[i]; i++)
		if (strcmp(name, known[i]) == 0) {
			*places[i] = value;
			return;
		}
	unknown_key(r, key, name, &(words){known, NULL, false});
}

/* False: they cannot be used. */
static bool check_defaults(reading *r, const yaml_node_t *defaults)
{
	wh_plan_relay trial = {.name = NULL};
	wherry_error err = WHERRY_ERROR_INIT;
	int before = r->n_problems;

	if (wherry_config_new(&trial.config, &err) != WHERRY_OK) {
		problem(r, defaults->start_mark, "%s", err.message);
		return false;
	}
	each_pair(r, defaults, "defaults", visit_default, &trial);
	wh_plan_relay_clear(&trial);
	return r->n_problems == before;
}

static void take_relays(reading *r, const yaml_node_t *relays,
			const yaml_node_t *defaults)
{
	if (relays->type != YAML_SEQUENCE_NODE) {
		problem(r, relays->start_mark, "relays is a list: each begins with '-'");
		return;
	}
	if (relays->data.sequence.items.top == relays->data.sequence.items.start)
		problem(r, relays->start_mark, "relays has none");
	for (const yaml_node_item_t *i = relays->data.sequence.items.start;
	     i < relays->data.sequence.items.top; i++)
		if (r->plan->n_relays < WH_PLAN_RELAYS)
			take_relay(r, node(r, *i), defaults);
	if (relays->data.sequence.items.top - relays->data.sequence.items.start >
	    WH_PLAN_RELAYS)
		problem(r, relays->start_mark, "more than %d relays", WH_PLAN_RELAYS);
}

static void take_document(reading *r)
{
	const yaml_node_t *root = yaml_document_get_root_node(&r->doc);
	yaml_mark_t begin = {0, 0, 0};
	top t = {NULL, NULL, NULL, NULL};

	if (!root) {
		problem(r, begin, "the file is empty: see `wherry config --sample`");
		return;
	}
	each_pair(r, root, "the file", visit_top, &t);
	if (t.http)
		each_pair(r, t.http, "http", visit_http, NULL);
	if (t.log)
		each_pair(r, t.log, "log", visit_log, NULL);
	if (t.defaults && !check_defaults(r, t.defaults))
		t.defaults = NULL;
	if (t.relays)
		take_relays(r, t.relays, t.defaults);
	else if (root->type == YAML_MAPPING_NODE)
		problem(r, root->start_mark, "there are no relays");
	if (t.http && !r->plan->listen.value && !r->n_problems)
		problem(r, t.http->start_mark, "http needs listen: 127.0.0.1:9464");
	if (t.http && r->plan->listen.value && !r->plan->token.value && !r->n_problems &&
	    !wh_listen_loopback(r->plan->listen.value))
		problem(r, t.http->start_mark,
			"http.listen %s is heard beyond this machine: give it a token, "
			"token: ${file:PATH}",
			r->plan->listen.value);
}

static wherry_code parse(reading *r, FILE *file, wherry_error *err)
{
	yaml_parser_t parser;
	bool fine;

	if (!yaml_parser_initialize(&parser))
		return wh_oom(err);
	yaml_parser_set_input_file(&parser, file);
	fine = yaml_parser_load(&parser, &r->doc);
	if (fine) {
		take_document(r);
		yaml_document_delete(&r->doc);
	} else {
		problem(r, parser.problem_mark, "%s%s%s",
			parser.problem ? parser.problem : "no YAML",
			parser.context ? " " : "", parser.context ? parser.context : "");
	}
	yaml_parser_delete(&parser);
	return WHERRY_OK;
}

/* Its size, so that nobody waits for a device, or fills memory. */
static wherry_code check_size(FILE *file, const char *path, wherry_error *err)
{
	long size;

	if (fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
		return wh_fail_errno(err, errno, "cannot read %.150s", path);
	if (size > FILE_MAX)
		return wh_fail(err, WHERRY_TOOBIG, "%.150s has more than 1 MB", path);
	rewind(file);
	return WHERRY_OK;
}

wherry_code wh_plan_read(const char *path, wh_plan *out, wh_buf *problems,
			 wherry_error *err)
{
	wh_plan plan = {.log_level = 2};
	reading r = {.path = path, .plan = &plan, .problems = problems};
	FILE *file = fopen(path, "re");
	wherry_code code;

	if (!file)
		return wh_fail_errno(err, errno, "cannot read %.150s", path);
	plan.path = strdup(path);
	code = plan.path ? check_size(file, path, err) : wh_oom(err);
	if (code == WHERRY_OK)
		code = parse(&r, file, err);
	(void)fclose(file);
	if (code == WHERRY_OK && r.n_problems > PROBLEMS_MAX)
		wh_buf_printf(problems, "%s: and %d more\n", path,
			      r.n_problems - PROBLEMS_MAX);
	if (code == WHERRY_OK && r.n_problems)
		code = wh_fail(err, WHERRY_INVALID, "%.150s cannot be used", path);
	if (code == WHERRY_OK)
		*out = plan;
	else
		wh_plan_clear(&plan);
	return code;
}

void wh_plan_clear(wh_plan *plan)
{
	for (size_t i = 0; i < plan->n_relays; i++)
		wh_plan_relay_clear(&plan->relays[i]);
	free(plan->relays);
	free(plan->path);
	free(plan->listen.raw);
	free(plan->listen.value);
	free(plan->token.raw);
	free(plan->token.value);
	*plan = (wh_plan){.path = NULL};
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

bool wh_plan_same(const wh_plan_relay *a, const wh_plan_relay *b)
{
	return strcmp(a->name, b->name) == 0 &&
	       strcmp(a->from.value, b->from.value) == 0 &&
	       strcmp(a->to.value, b->to.value) == 0 &&
	       wh_plan_same_settings(a->config, b->config);
}
