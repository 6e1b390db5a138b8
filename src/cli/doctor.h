/*
 * `wherry doctor`: a table of checks (doctor_checks.c).  Each is a statement in the database's
 * doctor.*.sql, with the meaning of its rows.
 */
#ifndef WH_CLI_DOCTOR_H
#define WH_CLI_DOCTOR_H

#include "cli/cli.h"
#include "db/sql.h"
#include "store/store.h"

typedef enum wh_level { WH_WELL, WH_WARN, WH_BAD } wh_level;

typedef struct wh_finding {
	const char *check; /* Name of the check. */
	wh_level level;
	char *what;   /* One sentence; owned. */
	char *advice; /* Advice; "": none; owned. */
} wh_finding;

/* Flags of a check. */
enum {
	WH_CHECK_NATIVE = 1,    /* Only for Wherry's own tables. */
	WH_CHECK_TABLE = 2,     /* The check waits if somebody keeps the table locked. */
	WH_CHECK_STREAM = 4,    /* Only if relays read the WAL, or did. */
	WH_CHECK_QUEUE = 8,     /* One of outboxes that queues have, too. */
	WH_CHECK_OF_TABLE = 16, /* The check needs the table. */
	/* If it finds something bad, no message can be committed, or none is delivered; if
	 * something else, some are not: `wherry status` makes it, too. */
	WH_CHECK_STILL = 32,
	WH_CHECK_ADOPT =
		64, /* `wherry adopt` repairs what it finds of an adopted table. */
	WH_CHECK_WAKES =
		128 /* Of each kind of table, if Wherry's leases are beside it. */
};

/*
 * A check, which is a statement of the same name.  In its sentences, $1 to $8 are a row's
 * columns, and ~1 to ~8 are the columns as durations.  $u names the outbox behind "wherry
 * COMMAND", with a blank before it.  $d is the command that opens the database's shell, $l the option --layout if
 * the table needs it.
 */
typedef struct wh_check {
	const char *name; /* If the database lacks the statement, the check is skipped. */
	unsigned flags;
	const char *none;    /* Sentence if there is no row: all is well. */
	const char *well;    /* Sentence for a row of level 0. */
	const char *trouble; /* Sentence for a row of another level. */
	const char *worse;   /* Sentence for a row of level 2; NULL: use `trouble`. */
	const char *advice;
} wh_check;

extern const wh_check wh_checks[];
extern const size_t wh_n_checks;

enum {
	WH_FINDINGS = 200,
	WH_SENTENCE_MAX = 4096 /* Bytes of a finding's sentence. */
};

typedef struct wh_doctor {
	const wh_session *session; /* Borrowed. */
	/* Store of the outbox or queue; borrowed; NULL: there is none. */
	wh_store *store;
	const struct wh_session *on; /* The queue; NULL: it is not a queue. */
	/* The delayed queue; NULL: it is not a delayed queue. */
	const struct wh_session *delayed;
	const wherry_config *config; /* Borrowed. */
	int64_t older_us; /* Microseconds; the checks report what takes longer. */
	int64_t poll_us;  /* How often a relay polls if nothing wakes it, microseconds. */
	wh_name names;
	bool streamed; /* Relays read the WAL, or did. */
	/* Names of the publication and the replication slot, of a log as its relays' slots begin; "": none. */
	char slot[64], publication[64];
	/* Names of the columns that the stream reads, between commas. */
	char columns[256];
	/* Processes of leases that ran on this machine and have ended, one on a line, and a
	 * line feed before the first.  A lease without a process is left out, so no line
	 * is empty. */
	wh_buf gone;
	/* How long messages of the stream have waited, microseconds. */
	int64_t behind_us;
	int64_t dead_apart; /* Messages in wherry_dead. */
	char source[140]; /* The table of another program; "": the outbox has its own. */
	wh_sql sql;
	wh_finding findings[WH_FINDINGS];
	size_t n;
	bool lost; /* A finding was not added: it is too long, or there are too many. */
} wh_doctor;

/* Load the checks.  On failure there is nothing to clear. */
wherry_code wh_doctor_begin(wh_doctor *d, wherry_error *err);
void wh_doctor_clear(wh_doctor *d);

/* If there is no outbox, add a finding about what else the database has.  False: it has
 * nothing of Wherry's. */
bool wh_doctor_others(wh_doctor *d);

/* Make all checks and add their findings. */
void wh_doctor_check(wh_doctor *d);

/* Make the checks of WH_CHECK_STILL for the outbox, and add their findings.  streams: the
 * relay that leads reads the WAL. */
void wh_doctor_check_still(wh_doctor *d, bool streams);

/* Check the schedules in the table "cron", if there is one. */
void wh_doctor_cron(wh_doctor *d);

/* Add that a check could not be made.  All checks for which the role lacks rights are one
 * finding. */
void wh_doctor_could_not(wh_doctor *d, const char *check, const wherry_error *err);

/* Format a sentence for wh_doctor_add(); NULL: out of memory. */
char *wh_doctor_sentence(const char *fmt, ...) WH_PRINTF(1, 2);

/* Add a finding, which takes over what and advice.  If one of them is NULL, nothing is
 * added. */
void wh_doctor_add(wh_doctor *d, const char *check, wh_level level, char *what,
		   char *advice);

/* Read the clock that leases use: the database's, or this machine's for tables of another
 * program. */
wherry_code wh_doctor_now(wh_doctor *d, int64_t *out_us, wherry_error *err);

const char *wh_level_name(wh_level level);

/* Run a statement of the checks with the values that they all may use.  ident: "ident", for the
 * statements about one message; NULL: none. */
wherry_code wh_doctor_run(wh_doctor *d, const wh_stmt *stmt, const char *ident,
			  wh_row_fn fn, void *ctx, wherry_error *err);

/* ---- doctor_message.c ---- */

/* Add why this message is not delivered.  Call it last, since it refers to other
 * findings. */
wherry_code wh_doctor_message(wh_doctor *d, const char *ident, wherry_error *err);

/* ---- doctor_relays.c ---- */

/* Check whether relays say that another server leads, or that the database went back. */
void wh_doctor_servers(wh_doctor *d);

/* Check whether relays say that their destinations may lose messages that they took. */
void wh_doctor_unsafe(wh_doctor *d);

/* If no relay runs, check whether the last one could not deliver. */
void wh_doctor_last_error(wh_doctor *d);

/* The rest is for queues and delayed queues. */

/* Check whether the queue is paused, and the destinations of its relays.  what: "queue",
 * for example. */
void wh_doctor_relays(wh_doctor *d, const char *what);

#endif
