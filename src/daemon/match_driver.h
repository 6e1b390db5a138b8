/*
 * The kinds of places in which a set of outboxes may be: the schemas of a database, the files of a folder.
 */
#ifndef WH_DAEMON_MATCH_DRIVER_H
#define WH_DAEMON_MATCH_DRIVER_H

#include "daemon/match_look.h"

typedef struct wh_match_driver {
	const char *what; /* One such place, as a field of the log: "schema". */
	/* No place matches; places match, and none has an outbox. */
	const char *none, *none_has;
	bool exact; /* Writers notify after their commit, and the session with the lock hears all of them. */
	bool stirs; /* A notification means that a commit may follow: several looks do. */
	int64_t hear_us; /* heard() is called so often; 0: fd() says when. */
	int64_t probe_us; /* Between two looks at an outbox about which nothing is heard. */
	size_t look_most; /* Most outboxes to look at in one turn of the thread. */

	wherry_code (*open)(const wh_plan_relay *relay, wh_match_db **out,
			    wherry_error *err);
	void (*close)(wh_match_db *m);
	int (*fd)(const wh_match_db *m);
	wherry_code (*list)(wh_match_db *m, wh_match_row *out, size_t most, size_t *out_n,
			    wherry_error *err);
	/* NULL: all are listened to. */
	wherry_code (*listen)(wh_match_db *m, const int64_t *keys, size_t n, bool on,
			      wherry_error *err);
	size_t (*heard)(wh_match_db *m, wh_heard *out, size_t most);
	/* NULL: there are no such locks. */
	wherry_code (*sleep)(wh_match_db *m, wh_match_row *const *rows, size_t n,
			     wherry_error *err);
	wherry_code (*wake)(wh_match_db *m, wh_match_row *const *rows, size_t n,
			    wherry_error *err);
	wherry_code (*look)(wh_match_db *m, wh_match_row *const *rows, size_t n,
			    wherry_error *err);
	/* The URL of the database of one outbox; NULL: all are in one. */
	char *(*url)(const wh_match_db *m, const wh_match_row *row);
} wh_match_driver;

struct wh_match_db {
	const wh_match_driver *driver;
	wh_name name; /* Of the outbox; its schema is empty. */
};

extern const wh_match_driver wh_match_schemas, wh_match_files, wh_match_databases;

/* Does a name match the pattern? */
bool wh_match_fits(const char *pattern, const char *name);

/* Visit the row of "look"; ctx is the wh_match_row. */
wherry_code wh_match_take_found(void *ctx, const wh_row *row, wherry_error *err);

/* ---- match_each.c: outboxes of which each is in a separate database ---- */

typedef struct wh_match_each {
	wh_db_options options;
	const char *dialect;
	wh_name name; /* Its schema may be empty: the database says it. */
	wh_sql sql;   /* The statements, of the last schema. */
	char schema[WH_NAME_MOST + 1];
} wh_match_each;

wherry_code wh_match_each_open(const wh_plan_relay *relay, const char *dialect,
			       const wh_name *name, wh_match_each *out,
			       wherry_error *err);
void wh_match_each_close(wh_match_each *each);

/* Open the database, look into its outbox, and close it again. */
void wh_match_each_look(wh_match_each *each, const char *url, wh_match_row *row);

#endif
