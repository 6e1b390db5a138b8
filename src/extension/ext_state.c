/*
 * Outboxes and queues that a connection has opened, and the end of them.
 */
#include "extension/extension.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

/* Most outboxes and queues that one connection keeps open; the oldest is closed for the next. */
enum { MOST_OPENED = 64 };

struct ext_opened {
	ext_opened *next;
	ext_kind kind;
	void *thing;
	char *names[3];
};

/* ---- what is open ---- */

static void close_thing(ext_kind kind, void *thing)
{
	switch (kind) {
	case EXT_OUTBOX:
	case EXT_SUBSCRIPTION:
		wherry_outbox_close(thing);
		break;
	case EXT_QUEUE:
		wherry_queue_close(thing);
		break;
	case EXT_TOPICS:
		wherry_topics_close(thing);
		break;
	case EXT_DELAYED:
		wherry_delayed_close(thing);
		break;
	case EXT_INBOX:
		wherry_inbox_close(thing);
		break;
	case EXT_KINDS:
		break;
	}
}

static void forget(ext_opened *o)
{
	if (!o)
		return;
	close_thing(o->kind, o->thing);
	for (int i = 0; i < 3; i++)
		free(o->names[i]);
	free(o);
}

void wh_ext_close(ext_state *ext)
{
	while (ext->first) {
		ext_opened *o = ext->first;

		ext->first = o->next;
		forget(o);
	}
	ext->n_opened = 0;
	wherry_db_close(ext->db);
	ext->db = NULL;
	ext->anchored = false;
}

/* Borrow the connection.  Prepared statements may be kept only if wherry_receive is connected. */
static wherry_code borrow(ext_state *ext, wherry_error *err)
{
	sqlite3_stmt *stmt = NULL;

	if (ext->db)
		return WHERRY_OK;
	(void)sqlite3_prepare_v2(ext->handle, "SELECT 1 FROM main.wherry_receive('')", -1,
				 &stmt, NULL);
	(void)sqlite3_finalize(stmt);
	if (!ext->anchored)
		return wh_fail(
			err, WHERRY_INVALID,
			"the database has a table or view named wherry_receive, which hides "
			"the function: rename it");
	return wherry_sqlite_borrow(ext->handle, &ext->db, err);
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static wherry_code open_thing(wherry_db *db, ext_kind kind, const char *const names[3],
			      void **out, wherry_error *err)
{
	union {
		wherry_outbox *outbox;
		wherry_queue *queue;
		wherry_topics *topics;
		wherry_delayed *delayed;
		wherry_inbox *inbox;
	} made;
	wherry_code code = WHERRY_INVALID;

	switch (kind) {
	case EXT_OUTBOX:
		code = wherry_outbox_open(db, names[0], &made.outbox, err);
		*out = code == WHERRY_OK ? made.outbox : NULL;
		break;
	case EXT_SUBSCRIPTION:
		code = wherry_subscription_open(db, names[0], names[1], &made.outbox,
						err);
		*out = code == WHERRY_OK ? made.outbox : NULL;
		break;
	case EXT_QUEUE:
		code = wherry_queue_open(db, names[0], &made.queue, err);
		*out = code == WHERRY_OK ? made.queue : NULL;
		break;
	case EXT_TOPICS:
		code = wherry_topics_open(db, NULL, &made.topics, err);
		*out = code == WHERRY_OK ? made.topics : NULL;
		break;
	case EXT_DELAYED:
		code = wherry_delayed_open(db, names[0], names[1], names[2],
					   &made.delayed, err);
		*out = code == WHERRY_OK ? made.delayed : NULL;
		break;
	case EXT_INBOX:
		code = wherry_inbox_open(db, names[0], &made.inbox, err);
		*out = code == WHERRY_OK ? made.inbox : NULL;
		break;
	case EXT_KINDS:
		break;
	}
	return code;
}

/* Close the one that was opened first, if there are as many as may be. */
static void make_room(ext_state *ext)
{
	ext_opened **at = &ext->first;

	if (ext->n_opened < MOST_OPENED || !*at)
		return;
	while ((*at)->next)
		at = &(*at)->next;
	forget(*at);
	*at = NULL;
	ext->n_opened--;
}

void *wh_ext_open(ext_state *ext, ext_kind kind, const char *first, const char *second,
		  const char *third, wherry_error *err)
{
	const char *const names[3] = {first, second, third};
	ext_opened *o;

	for (o = ext->first; o; o = o->next)
		if (o->kind == kind && same(o->names[0], first) &&
		    same(o->names[1], second) && same(o->names[2], third))
			return o->thing;
	if (borrow(ext, err) != WHERRY_OK)
		return NULL;
	make_room(ext);
	o = calloc(1, sizeof(*o));
	for (int i = 0; o && i < 3; i++)
		if (names[i] && !(o->names[i] = strdup(names[i]))) {
			o->kind = EXT_KINDS;
			forget(o);
			o = NULL;
		}
	if (!o) {
		(void)wh_oom(err);
		return NULL;
	}
	o->kind = kind;
	if (open_thing(ext->db, kind, names, &o->thing, err) != WHERRY_OK) {
		o->kind = EXT_KINDS;
		forget(o);
		return NULL;
	}
	o->next = ext->first;
	ext->first = o;
	ext->n_opened++;
	return o->thing;
}

/* A statement of the caller's that writes, such as the INSERT that fires a trigger, is a
 * transaction although no BEGIN was. */
wherry_code wh_ext_check_open(const ext_state *ext, const char *function,
			      wherry_error *err)
{
	if (!ext->began && (!sqlite3_get_autocommit(ext->handle) ||
			    sqlite3_txn_state(ext->handle, "main") == SQLITE_TXN_WRITE))
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_INVALID,
		"no transaction is open, so %s() would commit by itself: run BEGIN "
		"IMMEDIATE first, and COMMIT after your own rows",
		function);
}

/* ---- the lock for writing ---- */

static const char *path_of(const ext_state *ext)
{
	const char *path = sqlite3_db_filename(ext->handle, "main");

	return path && *path ? path : ":memory:";
}

static wherry_code exec(const ext_state *ext, const char *sql, wherry_error *err)
{
	int rc = sqlite3_exec(ext->handle, sql, NULL, NULL, NULL);

	if (rc == SQLITE_OK)
		return WHERRY_OK;
	if (strstr(sqlite3_errmsg(ext->handle), "SQL statements in progress"))
		return wh_fail(
			err, WHERRY_INVALID,
			"%s: a statement that writes is running: call the function "
			"with a separate SELECT",
			path_of(ext));
	if ((rc & 0xff) == SQLITE_BUSY)
		return wh_fail_native(err, WHERRY_BUSY,
				      sqlite3_extended_errcode(ext->handle),
				      "%s: another connection is writing, or holds the "
				      "file locked",
				      path_of(ext));
	return wh_fail_native(err, WHERRY_INVALID, rc, "%s: %s", path_of(ext),
			      sqlite3_errmsg(ext->handle));
}

wherry_code wh_ext_lock(const ext_state *ext, ext_lock *out, wherry_error *err)
{
	int state = sqlite3_txn_state(ext->handle, "main");
	wherry_error why = WHERRY_ERROR_INIT;

	*out = (ext_lock){.read = state == SQLITE_TXN_READ,
			  .open = !sqlite3_get_autocommit(ext->handle)};
	if (!out->open || state == SQLITE_TXN_WRITE)
		return WHERRY_OK;
	/* A statement that may write takes the lock, also if it changes no row.  Without that table the
	 * operation says what is wrong. */
	if (exec(ext, "DELETE FROM main.wherry_schema WHERE 0", &why) != WHERRY_BUSY)
		return WHERRY_OK;
	*err = why;
	return why.code;
}

wherry_code wh_ext_begin(ext_state *ext, ext_lock *out, wherry_error *err)
{
	wherry_code code = wh_ext_lock(ext, out, err);

	if (code != WHERRY_OK || out->open ||
	    sqlite3_txn_state(ext->handle, "main") == SQLITE_TXN_WRITE)
		return code;
	code = exec(ext, "BEGIN IMMEDIATE", err);
	ext->began = code == WHERRY_OK;
	return code;
}

wherry_code wh_ext_end(ext_state *ext, wherry_code code, wherry_error *err)
{
	if (!ext->began)
		return code;
	ext->began = false;
	if (code == WHERRY_OK)
		code = exec(ext, "COMMIT", err);
	/* SQLite may have rolled back. */
	if (!sqlite3_get_autocommit(ext->handle))
		(void)exec(ext, "ROLLBACK", NULL);
	return code;
}

void wh_ext_explain(const ext_state *ext, const ext_lock *lock, wherry_error *err)
{
	if (!lock->read || (err->native & 0xff) != SQLITE_BUSY)
		return;
	(void)wh_fail_native(
		err, err->code, err->native,
		lock->open
			? "%s: another connection is writing or has written, and this "
			  "transaction has read before: ROLLBACK, and begin it with "
			  "BEGIN IMMEDIATE"
			: "%s: another connection is writing or has written, and "
			  "this connection is still reading: run BEGIN IMMEDIATE before, "
			  "and COMMIT afterwards",
		path_of(ext));
}

/* ---- what functions open ---- */

wherry_code wh_ext_open_queue(const ext_call *call, wherry_queue **out, wherry_error *err)
{
	const char *name;
	wherry_code code = wh_ext_need(call, 0, "the queue", &name, err);

	if (code != WHERRY_OK)
		return code;
	*out = wh_ext_open(call->ext, EXT_QUEUE, name, NULL, NULL, err);
	return *out ? WHERRY_OK : err->code;
}

wherry_code wh_ext_open_topics(const ext_call *call, wherry_topics **out,
			       wherry_error *err)
{
	*out = wh_ext_open(call->ext, EXT_TOPICS, NULL, NULL, NULL, err);
	return *out ? WHERRY_OK : err->code;
}

wherry_code wh_ext_open_delayed(const ext_call *call, int type, wherry_delayed **out,
				wherry_error *err)
{
	const char *queue, *kind = wh_ext_text(call, type),
			   *table = wh_ext_text(call, type + 1);
	wherry_code code = wh_ext_need(call, 0, "the queue", &queue, err);

	if (code != WHERRY_OK)
		return code;
	*out = wh_ext_open(call->ext, EXT_DELAYED, table ? table : "delayed", queue,
			   kind ? kind : "bytes", err);
	return *out ? WHERRY_OK : err->code;
}

const char *wh_ext_offer_outcome(wherry_offer_outcome outcome)
{
	static const char *const names[] = {
		[WHERRY_CREATED] = "created",
		[WHERRY_UPDATED] = "updated",
		[WHERRY_IGNORED] = "ignored",
	};

	return names[outcome];
}

/* ---- the end ---- */

void wh_ext_unuse(void *state)
{
	ext_state *ext = state;

	if (--ext->n_users > 0)
		return;
	wh_ext_close(ext);
	free(ext);
}
