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
	const char *check; /* its name */
	wh_level level;
	char *what;   /* one sentence; owned */
	char *advice; /* what to do, "" if nothing; owned */
} wh_finding;

/* Flags of a check. */
enum {
	WH_CHECK_NATIVE = 1,   /* of the native layout only */
	WH_CHECK_TABLE = 2,    /* it waits for the table, if somebody keeps it locked */
	WH_CHECK_STREAM = 4,   /* only where the engine stream is, or was, in use */
	WH_CHECK_QUEUE = 8,    /* a check of the native layout that queues have, too */
	WH_CHECK_OF_TABLE = 16 /* it concerns the table, which must be there */
};

/*
 * A check, which is a statement of the same name.  In sentences $1 to $8 are a row's columns,
 * ~1 to ~8 the same as lengths of time, $u names the outbox behind "wherry COMMAND", with a
 * blank before it, and $d is the database's own shell.
 */
typedef struct wh_check {
	const char *name; /* one that a database lacks is passed over */
	unsigned flags;
	const char *none;    /* there is no row: well */
	const char *well;    /* a row of level 0 */
	const char *trouble; /* of the others */
	const char *worse;   /* of level 2; NULL: as trouble */
	const char *advice;
} wh_check;

extern const wh_check wh_checks[];
extern const size_t wh_n_checks;

enum { WH_FINDINGS = 200 };

typedef struct wh_doctor {
	const wh_session *session; /* borrowed; of a queue it has no outbox */
	wh_store *store; /* of the outbox or queue; borrowed; NULL: there is none */
	const struct wh_queue_session *on;   /* the queue; NULL: it is none */
	const struct wh_on_delayed *delayed; /* the delayed queue; NULL: it is none */
	const wherry_config *config;         /* borrowed */
	int64_t older_us; /* what takes longer than this is worth telling */
	int64_t poll_us;  /* how often a relay looks unless woken */
	wh_name names;
	bool streamed;                  /* the engine stream is, or was, in use */
	char slot[64], publication[64]; /* of that engine; "": there is no such log */
	char columns[256];              /* that it reads, by name, between commas */
	int64_t behind_us;              /* how long its messages have waited */
	wh_sql sql;
	wh_finding findings[WH_FINDINGS];
	size_t n;
} wh_doctor;

/* On failure there is nothing to clear. */
wherry_code wh_doctor_begin(wh_doctor *d, wherry_error *err);
void wh_doctor_clear(wh_doctor *d);

/* Where there is no outbox: add what else the database has; false: nothing. */
bool wh_doctor_others(wh_doctor *d);

/* Make every check. */
void wh_doctor_check(wh_doctor *d);

/* The checks of the schedules that the table "cron" remembers, if there is one. */
void wh_doctor_cron(wh_doctor *d);

/* Why has this message not left?  Made last, since it points at what was found. */
wherry_code wh_doctor_message(wh_doctor *d, const char *ident, wherry_error *err);

/* Add that a check could not be made; all those that the role may not make are one finding. */
void wh_doctor_could_not(wh_doctor *d, const char *check, const wherry_error *err);

/* A sentence for wh_doctor_add(); NULL: out of memory. */
char *wh_doctor_sentence(const char *fmt, ...) WH_PRINTF(1, 2);

/* Add a finding.  what and advice are taken; NULL: out of memory, and nothing is added. */
void wh_doctor_add(wh_doctor *d, const char *check, wh_level level, char *what,
		   char *advice);

/* The time by the clock that leases go by: the database's, or this machine's where the tables of
 * another program are relayed. */
wherry_code wh_doctor_now(wh_doctor *d, int64_t *out_us, wherry_error *err);

const char *wh_level_name(wh_level level);

/* ---- doctor_relays.c: what queues and delayed queues share ---- */

/* The checks of whether it is paused, and of its relays' destinations.  what: "queue". */
void wh_doctor_relays(wh_doctor *d, const char *what);

#endif
