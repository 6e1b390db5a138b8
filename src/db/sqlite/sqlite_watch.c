/*
 * Noticing that another connection committed.
 *
 * An inotify event on the folder means that a commit may follow: SQLite writes its log
 * first and publishes through shared memory afterwards, without an event.  So the driver
 * reads PRAGMA data_version after 0.1, 0.2, 0.5, 1, 2, 5 … ms until 250 ms after the last
 * event.  Reading it runs no query and takes microseconds.  Without inotify, the driver
 * reads it every 50 ms.
 *
 * The driver watches the folder, never the files: closing a descriptor of the database or
 * its log would drop the locks that SQLite holds in this process.
 *
 * On a shared handle commits come through the handle itself, and data_version does not
 * show them.  There the driver compares the number of changed rows.  It includes the
 * relay's own rows, which costs the relay one look that finds nothing.
 *
 * data_version does not count the connection's own commits either.  If a statement
 * changed more rows than its own, a trigger may have inserted a message: that counts as a
 * commit.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "db/sqlite/sqlite.h"

/* Events after which the name may stand for another file, or for none. */
enum { REPLACED = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO };
enum { FIRST_LOOK_US = 100, LAST_LOOK_US = 250000, BLIND_US = 50000 };

static int64_t read_version(sqlite_db *s)
{
	int64_t version = -1;

	if (sqlite3_step(s->watch.version) == SQLITE_ROW)
		version = sqlite3_column_int64(s->watch.version, 0);
	(void)sqlite3_reset(s->watch.version);
	return version;
}

/* If the folder cannot be watched, the driver polls instead. */
static void watch_folder(sqlite_db *s)
{
	const char *full = sqlite3_db_filename(s->handle, "main");
	/* SQLite's file name is an absolute path. */
	const char *slash = full ? strrchr(full, '/') : NULL;
	char folder[PATH_MAX];

	if (!slash || strlen(slash + 1) >= sizeof(s->watch.name))
		return;
	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - full + 1), full);
	(void)snprintf(s->watch.name, sizeof(s->watch.name), "%s", slash + 1);
	s->watch.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (s->watch.fd < 0)
		return;
	if (inotify_add_watch(s->watch.fd, folder,
			      IN_MODIFY | REPLACED | IN_DELETE_SELF | IN_MOVE_SELF) < 0) {
		(void)close(s->watch.fd);
		s->watch.fd = -1;
	}
}

wherry_code wh_sqlite_watch(wherry_db *db, const wh_watch *whose, wherry_error *err)
{
	sqlite_db *s = (sqlite_db *)db;
	int rc;

	(void)whose; /* Commits to all tables of the file are noticed. */
	if (s->watch.on)
		return WHERRY_OK;
	rc = sqlite3_prepare_v3(s->handle, "PRAGMA data_version", -1,
				SQLITE_PREPARE_PERSISTENT, &s->watch.version, NULL);
	if (rc != SQLITE_OK)
		return wh_sqlite_fail(s, rc, "", err);
	watch_folder(s);
	s->watch.seen_version = read_version(s);
	s->watch.seen_changes = sqlite3_total_changes64(s->handle);
	s->watch.check_us = 0;
	s->watch.step_us = FIRST_LOOK_US;
	s->watch.on = true;
	return WHERRY_OK;
}

/* 0 for a shared handle, through which others commit. */
int64_t wh_sqlite_version(wherry_db *db)
{
	sqlite_db *s = (sqlite_db *)db;
	int64_t version = s->watch.on && !db->shared ? read_version(s) : 0;

	return version > 0 ? version : 0;
}

void wh_sqlite_unwatch(sqlite_db *s)
{
	sqlite3_finalize(s->watch.version);
	if (s->watch.fd >= 0)
		(void)close(s->watch.fd);
	s->watch.version = NULL;
	s->watch.fd = -1;
	s->watch.on = false;
}

int wh_sqlite_fd(wherry_db *db)
{
	return ((sqlite_db *)db)->watch.fd;
}

/* Is the event about the database, its log or its journal? */
static bool concerns(const sqlite_watch *w, const struct inotify_event *event)
{
	size_t len = strlen(w->name);

	return event->len && strncmp(event->name, w->name, len) == 0 &&
	       (event->name[len] == 0 || event->name[len] == '-');
}

/* May the name stand for another file now?  Returns true for an event without a name: it
 * concerns the folder itself, or reports that events were dropped. */
static bool renames(const sqlite_watch *w, const struct inotify_event *event)
{
	if (!event->len)
		return true;
	return event->mask & REPLACED && strcmp(event->name, w->name) == 0;
}

/* Read all events.  Returns true if one of them, or an overflow, concerns the
 * database. */
static bool drain(sqlite_watch *w, bool *out_renamed)
{
	_Alignas(struct inotify_event) char events[4096];
	bool any = false;
	ssize_t n;

	while ((n = read(w->fd, events, sizeof(events))) > 0) {
		for (char *p = events; p < events + n;) {
			const struct inotify_event *event = (const void *)p;

			any |= concerns(w, event) || (event->mask & IN_Q_OVERFLOW);
			*out_renamed |= renames(w, event);
			p += sizeof(*event) + event->len;
		}
	}
	return any;
}

/* 0.1, 0.2, 0.5, 1, 2, 5, … */
static int64_t next_step(int64_t step_us)
{
	int64_t lead = step_us;

	while (lead >= 10)
		lead /= 10;
	return lead == 2 ? step_us / 2 * 5 : step_us * 2;
}

static void plan_next_look(sqlite_watch *w, int64_t now_us)
{
	if (w->fd < 0) {
		w->check_us = now_us + BLIND_US;
	} else if (now_us - w->event_us >= LAST_LOOK_US) {
		w->check_us = WH_NEVER;
	} else {
		w->check_us = now_us + w->step_us;
		w->step_us = next_step(w->step_us);
	}
}

bool wh_sqlite_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us)
{
	sqlite_db *s = (sqlite_db *)db;
	sqlite_watch *w = &s->watch;
	int64_t version, changes, now_us = look->now_us;
	bool renamed = false;

	*out_next_us = WH_NEVER;
	if (!w->on)
		return false;
	if (w->fd >= 0 && drain(w, &renamed)) {
		w->event_us = now_us;
		w->step_us = FIRST_LOOK_US;
		w->check_us = now_us;
	}
	if (wh_sqlite_replaced(db, renamed)) {
		*out_next_us = now_us;
		return true;
	}
	if (now_us < w->check_us && !db->shared && !w->triggered) {
		*out_next_us = w->check_us;
		return false;
	}
	version = read_version(s);
	changes = sqlite3_total_changes64(s->handle);
	if (version == w->seen_version && !w->triggered &&
	    (!db->shared || changes == w->seen_changes)) {
		plan_next_look(w, now_us);
		*out_next_us = w->check_us;
		return false;
	}
	w->triggered = false;
	w->seen_version = version;
	w->seen_changes = changes;
	w->event_us = now_us; /* Commits come in bursts: look again soon. */
	w->step_us = FIRST_LOOK_US;
	w->check_us = now_us;
	*out_next_us = now_us;
	return true;
}
