/*
 * What `wherry run` is to do: wherry.yaml, read and checked.
 *
 *     relays:
 *       - name: orders
 *         from: postgres://shop@db/shop
 *         to: kafka://broker:9092
 *         on_done: delete
 *         retry: {attempts: 10}
 *         outbox: {table: billing.outbox}
 *     cron:
 *       - name: nightly
 *         database: postgres://shop@db/shop
 *         at: 30 2 * * *
 *         zone: Europe/Berlin
 *         outbox: {topic: reports}
 *
 * A relay's keys are the settings: those of relay.* by their own names, the others in a
 * mapping named after their group.  `defaults` has the same for all relays.  In any value
 * ${env:NAME} and ${file:PATH} stand for what is found there.
 */
#ifndef WH_DAEMON_PLAN_H
#define WH_DAEMON_PLAN_H

#include <stdio.h>

#include <wherry/cron.h>
#include <wherry/log.h>

#include "base/buf.h"
#include "config/settings.h"

/* A value as it was written, and what it means. */
typedef struct wh_plan_text {
	char *raw;   /* with its ${…}; NULL: not there */
	char *value; /* without */
} wh_plan_text;

typedef struct wh_plan_relay {
	char *name;
	wh_plan_text from, to;
	wherry_config *config;
	char *raw[WH_SETTING_COUNT]; /* settings as written; NULL: not there */
	bool broken;                 /* something about it is wrong */
} wh_plan_relay;

/* What the ticks of an entry are written to. */
typedef enum wh_tick_to {
	WH_TO_OUTBOX,
	WH_TO_QUEUE,
	WH_TO_DELAYED,
	WH_TICK_TARGETS
} wh_tick_to;

/* The keys of such a target that have one value. */
typedef enum wh_tick_field {
	WH_TICK_TABLE, /* of the outbox or the delayed queue */
	WH_TICK_NAME,  /* of the queue or the delayed queue */
	WH_TICK_TYPE,  /* of the delayed queue's bodies */
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
	wh_plan_text
		database; /* As written a URL or the name of a relay; the value is a URL. */
	wh_plan_text at, zone;     /* zone: NULL is UTC */
	wherry_schedule *schedule; /* that they are */
	wh_plan_text table;        /* of the cron; NULL: "cron" */
	wherry_catch_up catch_up;
	wh_tick_to to;
	wh_plan_text field[WH_TICK_FIELDS]; /* NULL: not there */
	wh_plan_header *headers;
	size_t n_headers;
	char *headers_json;          /* NULL: there are none */
	wherry_config *config;       /* of its connection: the group db */
	char *raw[WH_SETTING_COUNT]; /* settings as written; NULL: not there */
} wh_plan_cron;

typedef struct wh_plan {
	char *path;
	wh_plan_text listen; /* ADDRESS:PORT; NULL: no HTTP */
	wh_plan_text token;  /* what HTTP asks for; NULL: nothing */
	wh_plan_text hosts;  /* names that HTTP requests may ask for; NULL: none */
	bool log_json;
	wherry_log_level log_level;
	wh_plan_relay *relays;
	size_t n_relays;
	wh_plan_cron *crons;
	size_t n_crons;
} wh_plan;

#define WH_PLAN_FILE "wherry.yaml" /* unless another is named */

enum { WH_PLAN_NAME = 40, WH_PLAN_RELAYS = 1000, WH_PLAN_KEYS = 200 };

/*
 * Read a file.
 *
 * @param problems  Receives a line for each thing that is wrong, "FILE:LINE:COLUMN: …".
 * @return WHERRY_OK; WHERRY_INVALID, and problems say why; else err does.
 */
wherry_code wh_plan_read(const char *path, wh_plan *out, wh_buf *problems,
			 wherry_error *err);
void wh_plan_clear(wh_plan *plan);

/* The same, but *out is to be cleared in any case: with WHERRY_INVALID it has what was
 * understood. */
wherry_code wh_plan_read_most(const char *path, wh_plan *out, wh_buf *problems,
			      wherry_error *err);
void wh_plan_relay_clear(wh_plan_relay *relay);

/* ---- plan_entry.c ---- */

void wh_plan_cron_clear(wh_plan_cron *entry);

/* Do two entries do the same? */
bool wh_plan_cron_same(const wh_plan_cron *a, const wh_plan_cron *b);

/* "outbox", "queue" or "delayed". */
const char *wh_tick_to_name(wh_tick_to to);

/* The key of a field in its mapping: "topic". */
const char *wh_tick_field_name(wh_tick_field field);

/* Has such a target this field, or headers? */
bool wh_tick_has(wh_tick_to to, wh_tick_field field);
bool wh_tick_has_headers(wh_tick_to to);

/* "none", "last" or "all". */
const char *wh_catch_up_name(wherry_catch_up catch_up);

/* What a field of the target is: as the file says, or its default; NULL: it has none. */
const char *wh_plan_cron_field(const wh_plan_cron *entry, wh_tick_field field);

/* May this setting stand there?  A few mean nothing to a daemon. */
bool wh_plan_has(const char *key);

/* Do they set the same? */
bool wh_plan_same_settings(const wherry_config *a, const wherry_config *b);

/* Do two relays do the same? */
bool wh_plan_same(const wh_plan_relay *a, const wh_plan_relay *b);

/* The plan as YAML, secrets as they were written or masked; every setting, those that are
 * defaults as comments. */
void wh_plan_print(const wh_plan *plan, wh_buf *out);

/* A file with every setting and what it means. */
void wh_plan_sample(wh_buf *out);

/* Is it on this machine alone that "ADDRESS:PORT" is heard? */
bool wh_listen_loopback(const char *listen);

/*
 * May a request have this in Host?  An address, localhost, or one of names.
 *
 * @param host   "NAME", "NAME:PORT", "[ADDRESS]:PORT".
 * @param names  With blanks or commas between them; NULL: none.
 */
bool wh_listen_host_known(const char *host, const char *names);

/* Split "ADDRESS:PORT" or "[ADDRESS]:PORT". */
wherry_code wh_listen_parse(const char *text, char address[64], uint16_t *out_port,
			    wherry_error *err);

/* ---- plan_advice.c ---- */

/* Add the words that name the database and the table to the commands that an error's message
 * advises. */
void wh_plan_relay_advise(const wh_plan_relay *relay, wherry_error *err);
void wh_plan_cron_advise(const wh_plan_cron *entry, wherry_error *err);

/* ---- secret.c ---- */

/* text with each ${env:NAME} and ${file:PATH} replaced; "$${" is "${".  *out is given. */
wherry_code wh_expand(const char *text, char **out, wherry_error *err);

/* The value of a setting fit to be shown: as written where it refers to a secret, "***"
 * where it is one. */
const char *wh_shown(const char *key, const char *raw);

#endif
