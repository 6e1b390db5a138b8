/*
 * A database file that is replaced, moved away or deleted while it is open.
 *
 * SQLite continues with the old file, which nobody else can open any more.  Once the
 * driver has noticed that, statements and transactions fail with WHERRY_CLOSED.  The
 * remedy is to open the database again; the application does that for a borrowed
 * connection.
 *
 * The old file's log may be left beside the new file.  SQLite would apply it to the new
 * file and destroy that, so a file beside such a log is not opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/sqlite/sqlite.h"

static bool stat_log(sqlite_db *s, char *path, size_t cap, struct stat *out)
{
	const char *full = sqlite3_db_filename(s->handle, "main");
	int n = snprintf(path, cap, "%s-wal", full ? full : "");

	return full && *full && n > 0 && (size_t)n < cap && stat(path, out) == 0;
}

void wh_sqlite_note_log(sqlite_db *s)
{
	char path[PATH_MAX];
	struct stat log;

	if (!s->base.shared && stat_log(s, path, sizeof(path), &log)) {
		s->log_dev = log.st_dev;
		s->log_ino = log.st_ino;
	}
}

void wh_sqlite_note_name(sqlite_db *s)
{
	char folder[PATH_MAX];

	if (*s->path == '/')
		s->named = strdup(s->path);
	else if (getcwd(folder, sizeof(folder)) &&
		 asprintf(&s->named, "%s/%s", folder, s->path) < 0)
		s->named = NULL;
}

/* Does the path lead to another file, or to none?  SQLite follows links once, when it
 * opens the file, and then watches the name that it found. */
static bool leads_elsewhere(const sqlite_db *s)
{
	const char *full = sqlite3_db_filename(s->handle, "main");
	struct stat opened, now;

	if (!s->named || !full || !*full || stat(full, &opened) != 0)
		return false;
	if (stat(s->named, &now) != 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
	return now.st_dev != opened.st_dev || now.st_ino != opened.st_ino;
}

bool wh_sqlite_replaced(wherry_db *db, bool look)
{
	sqlite_db *s = (sqlite_db *)db;
	int moved = 0;

	if (s->replaced || !look)
		return s->replaced;
	if (sqlite3_file_control(s->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved) ==
	    SQLITE_OK)
		s->replaced = moved != 0 || leads_elsewhere(s);
	return s->replaced;
}

wherry_code wh_sqlite_check_replaced(const sqlite_db *s, wherry_error *err)
{
	const char *full;

	if (!s->replaced)
		return WHERRY_OK;
	full = sqlite3_db_filename(s->handle, "main");
	if (s->named)
		full = s->named;
	if (full && access(full, F_OK) == 0)
		return wh_fail(err, WHERRY_CLOSED,
			       "%s: another file has taken the place of the one that was "
			       "open%s",
			       s->path,
			       s->base.shared ? ": close the connection and open it again"
					      : "");
	return wh_fail(err, WHERRY_CLOSED,
		       "%s: the file was deleted or moved away: put one in its place%s",
		       s->path, s->base.shared ? ", and open the connection again" : "");
}

/* O_PATH: opening or closing this descriptor does not affect the locks that SQLite
 * holds. */
int wh_sqlite_old_log(wherry_db *db)
{
	sqlite_db *s = (sqlite_db *)db;
	char path[PATH_MAX];
	struct stat log;
	int fd;

	if (!s->replaced || !s->log_ino || !stat_log(s, path, sizeof(path), &log))
		return -1;
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &log) == 0 && log.st_dev == s->log_dev && log.st_ino == s->log_ino)
		return fd;
	(void)close(fd);
	return -1;
}

wherry_code wh_sqlite_check_log(sqlite_db *s, int old_log, wherry_error *err)
{
	char path[PATH_MAX];
	struct stat log, old;

	if (old_log <= 0 || !stat_log(s, path, sizeof(path), &log) || !log.st_size)
		return WHERRY_OK;
	if (fstat(old_log, &old) != 0 || old.st_dev != log.st_dev ||
	    old.st_ino != log.st_ino)
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_CLOSED,
		"%s: the file was replaced, and %s-wal belongs to the old file: stop "
		"the programs that use the database, delete %s-wal and %s-shm, and "
		"put the new file in place again",
		s->path, s->path, s->path, s->path);
}
