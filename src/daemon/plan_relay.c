/*
 * Reads the relays of wherry.yaml, and `defaults`, which applies to all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/url.h"
#include "daemon/plan_read.h"
#include "db/driver.h"
#include "publish/driver.h"
#include "relay/source.h"
#include "store/name.h"

/* ---- a relay ---- */

static void take_name(wh_reading *r, wh_plan_relay *relay, const yaml_node_t *value)
{
	const char *name = wh_plan_take_name(r, value, "a relay's name");

	if (!name)
		return;
	for (size_t i = 0; i < r->plan->n_relays; i++)
		if (r->plan->relays[i].name && strcmp(r->plan->relays[i].name, name) == 0)
			wh_plan_problem(
				r, value->start_mark,
				"another relay is called '%s', too: give each relay its own "
				"name, which metrics and log lines show",
				name);
	relay->name = strdup(name);
	if (!relay->name)
		wh_plan_problem(r, value->start_mark, "out of memory");
}

typedef wherry_code (*known_fn)(const char *url, wherry_error *err);

static void take_url(wh_reading *r, const yaml_node_t *value, const char *what,
		     known_fn known, wh_plan_text *out, yaml_mark_t *at)
{
	wherry_error err = WHERRY_ERROR_INIT;

	*at = value->start_mark;
	if (wh_plan_take(r, value, what, out) && known(out->value, &err) != WHERRY_OK)
		wh_plan_problem(r, value->start_mark, "%s: %s", what, err.message);
}

wherry_code wh_plan_source(const char *url, char **out_database, wherry_error *err)
{
	wherry_config *config = NULL;
	char *database = NULL;
	wherry_code code = wherry_config_new(&config, err);

	if (code == WHERRY_OK)
		code = wh_source_take_url(url, config, &database, err);
	if (code == WHERRY_OK)
		code = wh_db_known(database, err);
	wherry_config_free(config);
	if (code == WHERRY_OK && out_database)
		*out_database = database;
	else
		free(database);
	return code;
}

/* As wh_plan_source(), without the URL of the database. */
static wherry_code source_known(const char *url, wherry_error *err)
{
	return wh_plan_source(url, NULL, err);
}

/* The most relays of a pattern that run at once. */
static void take_connections(wh_reading *r, wh_plan_relay *relay,
			     const yaml_node_t *value)
{
	const char *text = wh_plan_scalar(r, value, "connections");

	if (text && (!wh_parse_int(text, &relay->connections) || relay->connections < 1 ||
		     relay->connections > WH_PLAN_CONNECTIONS_MOST))
		wh_plan_problem(r, value->start_mark,
				"connections is a number from 1 to %d, not '%.40s'",
				WH_PLAN_CONNECTIONS_MOST, text);
}

static const char *const relay_words[] = {"name",      "from",        "to", "match",
					  "databases", "connections", NULL};

static void visit_relay(wh_reading *r, void *ctx, const yaml_node_t *key,
			const char *name, const yaml_node_t *value)
{
	wh_plan_relay *relay = ctx;
	const wh_plan_settings settings = {relay->config, relay->raw};

	if (strcmp(name, "name") == 0)
		take_name(r, relay, value);
	else if (strcmp(name, "from") == 0)
		take_url(r, value, "from", source_known, &relay->from, &r->from_at);
	else if (strcmp(name, "to") == 0)
		take_url(r, value, "to", wh_publisher_known, &relay->to, &r->to_at);
	else if (strcmp(name, "match") == 0)
		(void)wh_plan_take(r, value, "match", &relay->match);
	else if (strcmp(name, "databases") == 0)
		(void)wh_plan_take(r, value, "databases", &relay->databases);
	else if (strcmp(name, "connections") == 0)
		take_connections(r, relay, value);
	else if (!wh_plan_take_setting(r, &settings, name, value))
		wh_plan_unknown(r, key, name,
				&(wh_plan_words){relay_words, "relay", true});
}

void wh_plan_relay_clear(wh_plan_relay *relay)
{
	free(relay->name);
	free(relay->from.raw);
	free(relay->from.value);
	free(relay->to.raw);
	free(relay->to.value);
	free(relay->match.raw);
	free(relay->match.value);
	free(relay->databases.raw);
	free(relay->databases.value);
	wherry_config_free(relay->config);
	for (size_t i = 0; i < WH_SETTING_COUNT; i++)
		free(relay->raw[i]);
}

/* The position of the setting whose key the message begins with; otherwise `at`. */
static yaml_mark_t place_of(const wh_reading *r, const char *message, yaml_mark_t at)
{
	const wherry_setting *table = wherry_config_table();

	for (size_t i = 0; table[i].key; i++) {
		size_t n = strlen(table[i].key);

		if (strncmp(message, table[i].key, n) == 0 && strchr(": ", message[n]))
			return r->setting_at[i];
	}
	return at;
}

static bool is_sqlite(const wh_plan_text *url)
{
	wh_url parts;
	const char *scheme =
		url->value && wh_url_parse(url->value, &parts, NULL) == WHERRY_OK
			? wh_db_scheme(parts.scheme)
			: NULL;

	return scheme && strcmp(scheme, "sqlite") == 0;
}

bool wh_plan_in_files(const wh_plan_relay *relay)
{
	return relay->match.value && is_sqlite(&relay->from);
}

/* They stand in a destination for the name of the schema, the file or the database of each outbox. */
static const char *const marks[] = {"{schema}", "{file}", "{database}"};

enum { N_MARKS = sizeof(marks) / sizeof(*marks) };

static size_t place_of_set(const wh_plan_relay *relay)
{
	return relay->databases.value ? 2 : wh_plan_in_files(relay);
}

const char *wh_plan_places(const wh_plan_relay *relay)
{
	static const char *const places[N_MARKS] = {"schemas", "files", "databases"};

	return places[place_of_set(relay)];
}

/* The first mark in a text; NULL: there is none. */
static const char *find_mark(const char *text, size_t *out_len)
{
	const char *first = NULL;

	for (size_t i = 0; i < N_MARKS; i++) {
		const char *at = strstr(text, marks[i]);

		if (at && (!first || at < first)) {
			first = at;
			*out_len = strlen(marks[i]);
		}
	}
	return first;
}

bool wh_plan_has_schema(const char *to)
{
	return find_mark(to, &(size_t){0});
}

/* The name of a schema must not lead to another folder or add to a command. */
static bool is_plain(const char *schema)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789_-.";

	return *schema && *schema != '.' && *schema != '-' &&
	       !schema[strspn(schema, plain)];
}

wherry_code wh_plan_fill(const char *to, const char *schema, char **out,
			 wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(64 * 1024);
	const char *at;
	size_t len = 0;
	wherry_code code;

	if (wh_plan_has_schema(to) && !is_plain(schema))
		return wh_fail(
			err, WHERRY_INVALID,
			"the name '%.60s' cannot stand in 'to' for {schema}, {file} or "
			"{database}: it must have only letters, digits, _ - and ., and begin with "
			"a letter, a digit or _",
			schema);
	for (; (at = find_mark(to, &len)) != NULL; to = at + len) {
		wh_buf_put(&text, to, (size_t)(at - to));
		wh_buf_puts(&text, schema);
	}
	wh_buf_puts(&text, to);
	code = wh_buf_check(&text, err);
	if (code == WHERRY_OK)
		*out = wh_buf_take(&text);
	wh_buf_clear(&text);
	return code;
}

static void check_destination(wh_reading *r, const wh_plan_relay *relay, const char *url,
			      const char *what, yaml_mark_t at)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (wh_publisher_check(url, relay->config, &err) != WHERRY_OK)
		wh_plan_problem(r, place_of(r, err.message, at), "%s: %s", what,
				err.message);
}

static void check_to(wh_reading *r, const wh_plan_relay *relay)
{
	char *filled = NULL;

	if (!relay->match.value) {
		if (wh_plan_has_schema(relay->to.value))
			wh_plan_problem(
				r, r->to_at,
				"to: {schema} stands for the schema of each outbox "
				"of a relay with match, {file} for its file, {database} "
				"for its database, and this relay has one outbox: write its name, or add "
				"match: 'tenant_*'");
		else
			check_destination(r, relay, relay->to.value, "to", r->to_at);
		return;
	}
	for (size_t i = 0; i < N_MARKS; i++)
		if (i != place_of_set(relay) && strstr(relay->to.value, marks[i])) {
			wh_plan_problem(
				r, r->to_at,
				"to: %s has no meaning for a pattern of %s: write "
				"%s",
				marks[i], wh_plan_places(relay),
				marks[place_of_set(relay)]);
			return;
		}
	if (wh_plan_fill(relay->to.value, "schema", &filled, NULL) == WHERRY_OK)
		check_destination(r, relay, filled, "to", r->to_at);
	free(filled);
}

/* Is it certain that the table of the relay is an outbox?  A table that is named may be a queue, which
 * cannot be known without a connection. */
static bool is_outbox(const wh_plan_relay *relay)
{
	return !strchr(relay->from.value, '#');
}

/* Report another relay of the same outbox with another destination: each message goes to
 * only one of them.  Relays that share a queue may have several.  If a table that is named is an outbox, the relay that
 * stands by says so when it runs. */
static void check_neighbours(wh_reading *r, const wh_plan_relay *relay)
{
	for (size_t i = 0; i < r->plan->n_relays; i++) {
		const wh_plan_relay *other = &r->plan->relays[i];

		if (other->name && other->from.value && other->to.value &&
		    !other->match.value && !relay->match.value && is_outbox(relay) &&
		    is_outbox(other) &&
		    strcmp(other->from.value, relay->from.value) == 0 &&
		    strcmp(other->to.value, relay->to.value) != 0)
			wh_plan_problem(r, r->to_at,
					"relay '%s' delivers from the same outbox to "
					"another destination, and each message is "
					"delivered once: give this one a subscription, "
					"with from: URL#outbox/NAME",
					other->name);
	}
}

/* Report relay.source=wal on a database whose log no relay reads.  Whether the table is an outbox that can be read so is not
 * known without a connection: `wherry doctor` says it. */
static void check_source(wh_reading *r, const wh_plan_relay *relay)
{
	wh_url parts;
	const char *scheme;

	if (wh_config_choice(relay->config, WH_RELAY_SOURCE) == 0 ||
	    wh_url_parse(relay->from.value, &parts, NULL) != WHERRY_OK)
		return;
	scheme = wh_db_scheme(parts.scheme);
	if (scheme && strcmp(scheme, "postgres") != 0)
		wh_plan_problem(r, r->setting_at[WH_RELAY_SOURCE],
				"relay.source is wal, which relays read on PostgreSQL "
				"alone, and 'from' is %s: write source: table",
				scheme);
}

/* Why a table's name does not suit a pattern of schemas; NULL: it does. */
static const char *unfit(const char *table)
{
	wh_table_name parts;
	wh_name name;

	if (wh_table_name_read(table, &parts, NULL) != WHERRY_OK)
		return NULL; /* Reported elsewhere. */
	if (*parts.queue)
		return "it names a subscription or a queue";
	if (wh_name_parse(parts.table, true, &name, NULL) == WHERRY_OK && *name.schema)
		return "it names a schema";
	return NULL;
}

static bool same_text(const wh_plan_text *a, const wh_plan_text *b)
{
	return a->value && b->value ? strcmp(a->value, b->value) == 0
				    : a->value == b->value;
}

/* Report another relay with the same pattern: an outbox has one destination. */
static void check_same_match(wh_reading *r, const wh_plan_relay *relay, yaml_mark_t at)
{
	for (size_t i = 0; i < r->plan->n_relays; i++) {
		const wh_plan_relay *other = &r->plan->relays[i];

		if (other->name && other->match.value && other->from.value &&
		    same_text(&other->databases, &relay->databases) &&
		    strcmp(other->match.value, relay->match.value) == 0 &&
		    strcmp(other->from.value, relay->from.value) == 0)
			wh_plan_problem(r, at,
					"relay '%s' has the same match: each message is "
					"delivered once, to one destination",
					other->name);
	}
}

static void check_match(wh_reading *r, const wh_plan_relay *relay, yaml_mark_t at)
{
	const char *table = wh_url_table(relay->from.value), *match = relay->match.value,
		   *why;
	const char *scheme;
	wh_url parts;

	scheme = wh_url_parse(relay->from.value, &parts, NULL) == WHERRY_OK
			 ? wh_db_scheme(parts.scheme)
			 : NULL;
	why = relay->databases.value
		      ? NULL
		      : unfit(table ? table
				    : wh_config_text(relay->config, WH_RELAY_TABLE));
	if (!scheme || (strcmp(scheme, "postgres") != 0 && strcmp(scheme, "sqlite") != 0))
		wh_plan_problem(r, at,
				"match is a pattern of schemas of PostgreSQL or of the "
				"files of a folder of SQLite, and 'from' is %s: write a "
				"relay for each outbox",
				scheme ? scheme : "another database");
	else if (relay->databases.value &&
		 (strcmp(scheme, "postgres") != 0 || !strstr(relay->from.value, "://")))
		wh_plan_problem(
			r, at,
			"databases is a query of PostgreSQL that lists databases of "
			"the server, and 'from' is the URL of one of them, as in "
			"postgres://HOST/postgres");
	else if (!strpbrk(match, "*?"))
		wh_plan_problem(
			r, at,
			wh_plan_in_files(relay)
				? "match '%.60s' has no * and no ?: for the outbox of one "
				  "file write it into 'from', as in sqlite:FOLDER/%.60s"
				: "match '%.60s' has no * and no ?: for the outbox of one "
				  "schema write it into 'from', as in URL#%.60s.outbox",
			match, match);
	else if (strpbrk(match, "[]{}\\/"))
		wh_plan_problem(
			r, at,
			"match '%.60s' is a pattern in which * stands for any text "
			"and ? for one character; it has no brackets, braces or "
			"slashes",
			match);
	else if (why)
		wh_plan_problem(r, at,
				"match says where the outboxes are, and %s is "
				"'%.60s': %s; write the name of the table alone",
				table ? "the table of 'from'" : "table",
				table ? table
				      : wh_config_text(relay->config, WH_RELAY_TABLE),
				why);
	else if (wh_config_choice(relay->config, WH_RELAY_SOURCE) != 0)
		wh_plan_problem(r, r->setting_at[WH_RELAY_SOURCE],
				"a relay with match reads tables: write source: table");
	else
		check_same_match(r, relay, at);
}

static void check_relay(wh_reading *r, const wh_plan_relay *relay, yaml_mark_t at,
			int problems_before)
{
	const char *dead_letters = wh_config_text(relay->config, WH_RELAY_DEAD_LETTERS);
	wherry_error err = WHERRY_ERROR_INIT;

	if (r->n_problems > problems_before)
		return; /* Report these problems first. */
	if (!relay->name)
		wh_plan_problem(r, at, "a relay needs a name");
	if (!relay->from.value)
		wh_plan_problem(r, at,
				"a relay needs 'from', a database: sqlite:shop.db");
	if (!relay->to.value)
		wh_plan_problem(r, at, "a relay needs 'to', a destination: stdout:");
	if (wh_config_check(relay->config, &err) != WHERRY_OK)
		wh_plan_problem(r, place_of(r, err.message, at), "%s", err.message);
	if (r->n_problems > problems_before || !relay->from.value || !relay->to.value)
		return;
	check_source(r, relay);
	if (relay->match.value)
		check_match(r, relay, at);
	else if (relay->connections)
		wh_plan_problem(r, at,
				"connections is for a relay with match, which relays the "
				"outboxes of many schemas");
	check_to(r, relay);
	if (*dead_letters)
		check_destination(r, relay, dead_letters, "dead_letters",
				  r->setting_at[WH_RELAY_DEAD_LETTERS]);
	check_neighbours(r, relay);
}

/* Read a relay.  The settings of `defaults` come first, so that the relay's settings
 * override them. */
static void take_relay(wh_reading *r, const yaml_node_t *value,
		       const yaml_node_t *defaults)
{
	wh_plan_relay relay = {.name = NULL};
	wh_plan_settings settings;
	int before = r->n_problems;
	wherry_error err = WHERRY_ERROR_INIT;
	wh_plan_relay *grown = reallocarray(r->plan->relays, r->plan->n_relays + 1,
					    sizeof(*r->plan->relays));

	if (grown)
		r->plan->relays = grown;
	if (!grown || wherry_config_new(&relay.config, &err) != WHERRY_OK) {
		wh_plan_problem(r, value->start_mark, "out of memory");
		return;
	}
	settings = (wh_plan_settings){relay.config, relay.raw};
	r->from_at = r->to_at = value->start_mark;
	for (size_t i = 0; i < WH_SETTING_COUNT; i++)
		r->setting_at[i] = value->start_mark;
	for (const yaml_node_pair_t *p = defaults ? defaults->data.mapping.pairs.start
						  : NULL;
	     p && p < defaults->data.mapping.pairs.top; p++)
		(void)wh_plan_take_setting(
			r, &settings,
			(const char *)wh_plan_node(r, p->key)->data.scalar.value,
			wh_plan_node(r, p->value));
	wh_config_share(relay.config);
	wh_plan_each(r, value, "a relay", visit_relay, &relay);
	if (relay.databases.value && !relay.match.value) {
		relay.match = (wh_plan_text){strdup("*"), strdup("*")};
		if (!relay.match.raw || !relay.match.value)
			wh_plan_problem(r, value->start_mark, "out of memory");
	}
	check_relay(r, &relay, value->start_mark, before);
	relay.broken = r->n_problems > before;
	r->plan->relays[r->plan->n_relays++] = relay;
}

/* Only check that the settings are valid: each relay takes them later. */
static void visit_default(wh_reading *r, void *ctx, const yaml_node_t *key,
			  const char *name, const yaml_node_t *value)
{
	wh_plan_relay *trial = ctx;
	const wh_plan_settings to = {trial->config, trial->raw};

	if (!wh_plan_take_setting(r, &to, name, value))
		wh_plan_unknown(r, key, name, &(wh_plan_words){NULL, "relay", true});
}

bool wh_plan_defaults(wh_reading *r, const yaml_node_t *defaults)
{
	wh_plan_relay trial = {.name = NULL};
	wherry_error err = WHERRY_ERROR_INIT;
	int before = r->n_problems;

	if (wherry_config_new(&trial.config, &err) != WHERRY_OK) {
		wh_plan_problem(r, defaults->start_mark, "%s", err.message);
		return false;
	}
	wh_plan_each(r, defaults, "defaults", visit_default, &trial);
	wh_plan_relay_clear(&trial);
	return r->n_problems == before && defaults->type == YAML_MAPPING_NODE;
}

void wh_plan_take_relays(wh_reading *r, const yaml_node_t *relays,
			 const yaml_node_t *defaults)
{
	if (relays->type != YAML_SEQUENCE_NODE) {
		wh_plan_problem(r, relays->start_mark,
				"relays is a list: each begins with '-'");
		return;
	}
	if (relays->data.sequence.items.top == relays->data.sequence.items.start)
		wh_plan_problem(r, relays->start_mark, "relays has none");
	for (const yaml_node_item_t *i = relays->data.sequence.items.start;
	     i < relays->data.sequence.items.top; i++)
		if (r->plan->n_relays < WH_PLAN_RELAYS)
			take_relay(r, wh_plan_node(r, *i), defaults);
	if (relays->data.sequence.items.top - relays->data.sequence.items.start >
	    WH_PLAN_RELAYS)
		wh_plan_problem(r, relays->start_mark, "more than %d relays",
				WH_PLAN_RELAYS);
}
