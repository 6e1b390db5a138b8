/*
 * The plan of `wherry run`: wherry.yaml, read and checked.
 *
 *     relays:
 *       - name: orders
 *         from: postgres://shop@db/shop
 *         to: kafka://broker:9092
 *         retry: {attempts: 10}
 *         outbox: {table: billing.outbox}
 *     cron:
 *       - name: nightly
 *         database: postgres://shop@db/shop
 *         at: 30 2 * * *
 *         zone: Europe/Berlin
 *         outbox: {topic: reports}
 *
 * A relay with the key `match` stands for the outboxes of all schemas of that pattern, and
 * `connections` says how many of them may be relayed at once.
 *
 * A relay's keys are settings.  The settings relay.* have their short names; the others
 * are in a mapping named after their group.  `defaults` has settings for all relays.  In
 * any value, ${env:NAME}, ${file:PATH} and ${credential:NAME} are replaced by the text
 * that they refer to.
 */
#ifndef WH_DAEMON_PLAN_H
#define WH_DAEMON_PLAN_H

#include <stdio.h>

#include <wherry/cron.h>
#include <wherry/log.h>

#include "base/buf.h"
#include "config/settings.h"

/* A value as written in the file, and with its references replaced. */
typedef struct wh_plan_text {
	char *raw;   /* With its ${…}; NULL: not in the file. */
	char *value; /* Without. */
} wh_plan_text;

typedef struct wh_plan_relay {
	char *name;
	wh_plan_text from, to;
	wh_plan_text match; /* Of schemas, "tenant_*"; NULL: it is one relay. */
	/* A query that lists databases of the server; NULL: the outboxes are in one.  match has "*" then, unless the
	 * file has another pattern. */
	wh_plan_text databases;
	int64_t connections; /* With match: most relays that run at once; 0: the default. */
	wherry_config *config;
	char *raw[WH_SETTING_COUNT]; /* Settings as written; NULL: not in the file. */
	bool broken;                 /* A problem of it was reported. */
} wh_plan_relay;

/* The kind of target that an entry's messages are written to. */
typedef enum wh_tick_to {
	WH_TO_OUTBOX,
	WH_TO_QUEUE,
	WH_TO_DELAYED,
	WH_TICK_TARGETS
} wh_tick_to;

/* The keys of a target that have one value. */
typedef enum wh_tick_field {
	WH_TICK_TABLE, /* Of the outbox or the delayed queue. */
	WH_TICK_NAME,  /* Of the queue or the delayed queue. */
	WH_TICK_TYPE,  /* Of the bodies in the delayed queue. */
	WH_TICK_TOPIC,
	WH_TICK_KEY,
	WH_TICK_BODY,
	WH_TICK_FIELDS
} wh_tick_field;

typedef struct wh_plan_header {
	char *name;
	wh_plan_text value;
} wh_plan_header;

/* An entry of the list cron: a message at the times of a schedule. */
typedef struct wh_plan_cron {
	char *name;
	/* raw is a URL or the name of a relay; value is a URL. */
	wh_plan_text database;
	wh_plan_text at, zone;     /* zone: NULL means UTC. */
	wherry_schedule *schedule; /* Made from at and zone. */
	wh_plan_text table;        /* Where ticks are remembered; NULL: "cron". */
	wherry_catch_up catch_up;
	wh_tick_to to;
	wh_plan_text field[WH_TICK_FIELDS]; /* NULL: not in the file. */
	wh_plan_header *headers;
	size_t n_headers;
	char *headers_json;          /* NULL: no headers. */
	wherry_config *config;       /* Settings of its connection: the group db. */
	char *raw[WH_SETTING_COUNT]; /* Settings as written; NULL: not in the file. */
} wh_plan_cron;

typedef struct wh_plan {
	char *path;
	wh_plan_text listen; /* ADDRESS:PORT; NULL: no HTTP. */
	wh_plan_text token;  /* Token that HTTP requests must have; NULL: none. */
	wh_plan_text hosts;  /* Names that HTTP requests may have in Host; NULL: none. */
	bool log_json;
	wherry_log_level log_level;
	int64_t server_connections; /* Most connections of relays with match to one server; 0: the default. */
	wh_plan_relay *relays;
	size_t n_relays;
	wh_plan_cron *crons;
	size_t n_crons;
} wh_plan;

#define WH_PLAN_FILE "wherry.yaml" /* The default file. */

enum { WH_PLAN_CONNECTIONS = 4, WH_PLAN_CONNECTIONS_MOST = 100 }; /* Default and limit. */

/* Of server_connections: the default, the limit, and what each relay with match has at least. */
enum {
	WH_PLAN_SERVER_CONNECTIONS = 40,
	WH_PLAN_SERVER_MOST = 10000,
	WH_PLAN_SERVER_LEAST = 2
};

enum { WH_PLAN_NAME = 40, WH_PLAN_RELAYS = 1000, WH_PLAN_KEYS = 200 };

/*
 * Read a file.
 *
 * @param problems  Receives a line for each problem, "FILE:LINE:COLUMN: …".
 * @return WHERRY_OK; WHERRY_INVALID: problems says why; else err says why.
 */
wherry_code wh_plan_read(const char *path, wh_plan *out, wh_buf *problems,
			 wherry_error *err);
void wh_plan_clear(wh_plan *plan);

/* Read a file as wh_plan_read() does, but keep what was understood if it is INVALID.
 * Clear *out in any case. */
wherry_code wh_plan_read_most(const char *path, wh_plan *out, wh_buf *problems,
			      wherry_error *err);
/* "schemas": where the outboxes of a relay with match are. */
const char *wh_plan_places(const wh_plan_relay *relay);
/* Does the relay have match, and are its outboxes in the files of a folder? */
bool wh_plan_in_files(const wh_plan_relay *relay);
/* Put a schema's name where {schema} stands in a destination.  The caller frees *out.
 * INVALID: the name has characters that would change the rest. */
wherry_code wh_plan_fill(const char *to, const char *schema, char **out,
			 wherry_error *err);
bool wh_plan_has_schema(const char *to);

/* ---- plan_server.c ---- */

/* Do both URLs name the same hosts and port? */
bool wh_plan_same_server(const char *a, const char *b);
/* How many relays with match of the plan read from the server of this URL. */
size_t wh_plan_on_server(const wh_plan *plan, const char *url);

void wh_plan_relay_clear(wh_plan_relay *relay);

/* ---- plan_entry.c ---- */

void wh_plan_cron_clear(wh_plan_cron *entry);

/* Are two entries the same? */
bool wh_plan_cron_same(const wh_plan_cron *a, const wh_plan_cron *b);

/* "outbox", "queue" or "delayed". */
const char *wh_tick_to_name(wh_tick_to to);

/* The key of a field in the target's mapping: "topic". */
const char *wh_tick_field_name(wh_tick_field field);

/* Can such a target have this field, or headers? */
bool wh_tick_has(wh_tick_to to, wh_tick_field field);
bool wh_tick_has_headers(wh_tick_to to);

/* "none", "last" or "all". */
const char *wh_catch_up_name(wherry_catch_up catch_up);

/* The value of a field: from the file, or its default; NULL: it has none. */
const char *wh_plan_cron_field(const wh_plan_cron *entry, wh_tick_field field);

/* May this setting be in the file?  A few have no meaning for a daemon. */
bool wh_plan_has(const char *key);

/* Have all settings the same values? */
bool wh_plan_same_settings(const wherry_config *a, const wherry_config *b);

/* Are two relays the same? */
bool wh_plan_same(const wh_plan_relay *a, const wh_plan_relay *b);

/* Write the plan as YAML.  Secrets are masked unless the file only refers to them.
 * Settings with their default values are comments. */
void wh_plan_print(const wh_plan *plan, wh_buf *out);

/* Write a sample file with every setting and its meaning. */
void wh_plan_sample(wh_buf *out);

/* Can only this machine reach "ADDRESS:PORT"? */
bool wh_listen_loopback(const char *listen);

/*
 * May a request have this text in Host?  An address, localhost and the given names may be
 * there.
 *
 * @param host   "NAME", "NAME:PORT", "[ADDRESS]:PORT".
 * @param names  Separated by blanks or commas; NULL: none.
 */
bool wh_listen_host_known(const char *host, const char *names);

/* Split "ADDRESS:PORT" or "[ADDRESS]:PORT". */
wherry_code wh_listen_parse(const char *text, char address[64], uint16_t *out_port,
			    wherry_error *err);

/* ---- plan_secret.c ---- */

/* Replace each ${env:NAME}, ${file:PATH} and ${credential:NAME} in text.  "$${" becomes
 * "${".  The caller frees *out. */
wherry_code wh_expand(const char *text, char **out, wherry_error *err);

/* The value of a setting for printing: as written if it refers to a secret, "***" if it
 * is a secret. */
const char *wh_shown(const char *key, const char *raw);

#endif
