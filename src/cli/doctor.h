/*
 * What `wherry doctor` looks at: a table of checks, each a statement in the database's
 * doctor-*.sql, and what its rows mean.
 */
#ifndef WH_CLI_DOCTOR_H
#define WH_CLI_DOCTOR_H

#include "cli/cli.h"
#include "db/sql.h"
#include "outbox/name.h"

typedef enum wh_level { WH_WELL, WH_WARN, WH_BAD } wh_level;

typedef struct wh_finding {
	const char *check; /* its name */
	wh_level level;
	char *what;   /* one sentence; owned */
	char *advice; /* what to do, "" if nothing; owned */
} wh_finding;

enum { WH_FINDINGS = 200 };

typedef struct wh_doctor {
	const wh_session *session; /* borrowed */
	int64_t older_us;          /* what takes longer than this is worth telling */
	int64_t poll_us;           /* how often a relay looks unless woken */
	wh_name names;
	wh_sql sql;
	wh_finding findings[WH_FINDINGS];
	size_t n;
} wh_doctor;

/* On failure there is nothing to clear. */
wherry_code wh_doctor_begin(wh_doctor *d, wherry_error *err);
void wh_doctor_clear(wh_doctor *d);

/* Make every check. */
void wh_doctor_check(wh_doctor *d);

/* Why has this message not left?  Made last, since it points at what was found. */
wherry_code wh_doctor_message(wh_doctor *d, const char *ident, wherry_error *err);

const char *wh_level_name(wh_level level);

#endif
