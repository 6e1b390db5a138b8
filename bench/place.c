/*
 * Where the databases of a bench are: files in a folder of their own, or a private server,
 * which lives as long as this process.
 *
 * On SQL Server it is one database, which must be empty at first, and is emptied for each side.
 *
 * The private server syncs what is committed.  It does not vacuum by itself, or it would do so
 * while one of the sides is timed.
 */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_CAP = 512 };

#define QUIET "&options=-cclient_min_messages%3Dwarning"

/* ---- files ---- */

static wherry_code make_dir(bench_place *place, wherry_error *err)
{
	const char *parent = secure_getenv("TMPDIR");

	(void)snprintf(place->dir, sizeof(place->dir), "%.200s/wherry-bench-XXXXXX",
		       parent && *parent ? parent : "/tmp");
	if (mkdtemp(place->dir))
		return WHERRY_OK;
	wh_fail_errno(err, errno, "%s", place->dir);
	*place->dir = 0;
	return err->code;
}

static void remove_dir(const char *dir)
{
	char path[PATH_CAP];
	struct dirent **entries = NULL;
	int n = scandir(dir, &entries, NULL, NULL);

	for (int i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%.240s/%.250s", dir,
			       entries[i]->d_name);
		(void)unlink(path);
		free(entries[i]);
	}
	free(entries);
	(void)rmdir(dir);
}

static bool copy_bytes(int from, int to)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) != 0)
		return false;
	while (at < st.st_size)
		if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
			return false;
	return fsync(to) == 0; /* or the disk would do it while a side is timed */
}

static void path_of(const bench_place *place, const char *name, const char *end,
		    char *out)
{
	(void)snprintf(out, PATH_CAP, "%.250s/%.200s.db%s", place->dir, name, end);
}

static wherry_code copy_file(const bench_place *place, const char *from, const char *to,
			     wherry_error *err)
{
	static const char *const ends[] = {"", "-wal", "-shm"};
	char path[PATH_CAP];
	bool ok;
	int in, out;

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		path_of(place, to, ends[i], path);
		(void)unlink(path);
	}
	path_of(place, from, "", path);
	in = open(path, O_RDONLY | O_CLOEXEC);
	path_of(place, to, "", path);
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ok = in >= 0 && out >= 0 && copy_bytes(in, out);
	if (!ok)
		(void)wh_fail_errno(err, errno, "cannot copy %s", from);
	if (in >= 0)
		(void)close(in);
	if (out >= 0)
		(void)close(out);
	return ok ? WHERRY_OK : WHERRY_IO;
}

/* ---- a server ---- */

static void be_server(const bench_place *place, int in, int out)
{
	if (dup2(in, 0) >= 0 && dup2(out, 1) >= 0)
		(void)execl("/bin/bash", "bash", BENCH_SERVER, "fsync=on",
			    place->logical ? "wal_level=logical" : "wal_level=replica",
			    "full_page_writes=on", "shared_buffers=512MB",
			    "max_wal_size=8GB", "checkpoint_timeout=30min",
			    "max_connections=120", (char *)NULL);
	_exit(1);
}

/* It prints its folder when it is ready, and ends with its standard input. */
static wherry_code start_server(bench_place *place, wherry_error *err)
{
	int in[2], out[2];
	ssize_t n = 0, got;
	pid_t child;

	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		return wh_fail_errno(err, errno, "no pipe");
	child = fork();
	if (child == 0)
		be_server(place, in[0], out[1]);
	(void)close(in[0]);
	(void)close(out[1]);
	while ((got = read(out[0], place->dir + n, sizeof(place->dir) - 1 - (size_t)n)) >
	       0)
		n += got;
	(void)close(out[0]);
	place->dir[n] = 0;
	place->dir[strcspn(place->dir, "\n")] = 0;
	place->server = in[1];
	if (*place->dir)
		return WHERRY_OK;
	(void)close(in[1]);
	return wh_fail(err, WHERRY_NOTFOUND,
		       "no PostgreSQL server could be started: install postgresql");
}

/* True when it gives a row, or was no query. */
static bool ask(const bench_place *place, const char *database, const char *sql,
		wherry_error *err)
{
	char quiet[PATH_CAP + sizeof(QUIET)], url[PATH_CAP];
	PGresult *res;
	PGconn *conn;
	bool ok;

	bench_place_url(place, database, url, sizeof(url));
	(void)snprintf(quiet, sizeof(quiet), "%s%s", url, QUIET);
	conn = PQconnectdb(quiet);
	res = PQexec(conn, sql);
	ok = PQresultStatus(res) == PGRES_COMMAND_OK || PQntuples(res) > 0;
	if (!ok)
		(void)wh_fail(err, WHERRY_IO, "%s: %s", database, PQerrorMessage(conn));
	PQclear(res);
	PQfinish(conn);
	return ok;
}

/* A database with slots cannot be dropped, and one that is read no slot: who reads it is
 * gone, but its server process may not have noticed. */
#define DROP_SLOTS                                                                       \
	"DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_replication_slots WHERE active) LOOP " \
	"PERFORM pg_sleep(0.01); END LOOP; PERFORM pg_drop_replication_slot(slot_name) " \
	"FROM pg_replication_slots; END $$"

static wherry_code copy_database(const bench_place *place, const char *from,
				 const char *to, wherry_error *err)
{
	char drop[128], create[256];

	(void)snprintf(drop, sizeof(drop), "DROP DATABASE IF EXISTS %.60s (FORCE)", to);
	(void)snprintf(create, sizeof(create),
		       "CREATE DATABASE %.60s TEMPLATE %.60s STRATEGY file_copy", to,
		       from);
	if (!ask(place, "postgres", DROP_SLOTS, err) ||
	    !ask(place, from, "VACUUM ANALYZE", err) ||
	    !ask(place, "postgres", drop, err) || !ask(place, "postgres", create, err) ||
	    !ask(place, "postgres", "CHECKPOINT", err))
		return WHERRY_IO;
	return WHERRY_OK;
}

static bool has_database(const bench_place *place, const char *name)
{
	char sql[128];

	(void)snprintf(sql, sizeof(sql),
		       "SELECT 1 FROM pg_database WHERE datname = '%.60s'", name);
	return ask(place, "postgres", sql, NULL);
}

static wherry_code new_database(const bench_place *place, const char *name,
				wherry_error *err)
{
	char sql[128];

	(void)snprintf(sql, sizeof(sql), "CREATE DATABASE %.60s", name);
	return ask(place, "postgres", sql, err) ? WHERRY_OK : WHERRY_IO;
}

/* ---- a database on SQL Server ---- */

#ifndef WHERRY_ODBC
wherry_code bench_odbc_claim(const char *url, wherry_error *err)
{
	return wh_fail(err, WHERRY_INVALID, "--mssql needs a build with WHERRY_ODBC");
}

wherry_code bench_odbc_clear(const char *url, wherry_error *err)
{
	return bench_odbc_claim(url, err);
}
#endif

/* ---- any ---- */

wherry_code bench_place_open(bench_place *place, const bench_options *options,
			     bool logical, wherry_error *err)
{
	place->postgres = options->postgres;
	place->mssql = options->mssql;
	place->logical = logical;
	place->server = -1;
	if (!place->mssql)
		return place->postgres ? start_server(place, err) : make_dir(place, err);
	(void)snprintf(place->dir, sizeof(place->dir), "mssql");
	return bench_odbc_claim(place->mssql, err);
}

void bench_place_url(const bench_place *place, const char *name, char *out, size_t cap)
{
	char path[PATH_CAP];

	path_of(place, name, "", path);
	if (place->mssql)
		(void)snprintf(out, cap, "%s", place->mssql);
	else if (place->postgres)
		(void)snprintf(out, cap, "postgres://wherry@/%s?host=%s", name,
			       place->dir);
	else
		(void)snprintf(out, cap, "sqlite:%s", path);
}

bool bench_place_has(const bench_place *place, const char *name)
{
	char path[PATH_CAP];

	if (place->mssql)
		return false;
	path_of(place, name, "", path);
	return place->postgres ? has_database(place, name) : access(path, F_OK) == 0;
}

wherry_code bench_place_new(const bench_place *place, const char *name, wherry_error *err)
{
	if (place->mssql)
		return bench_odbc_clear(place->mssql, err);
	return place->postgres ? new_database(place, name, err) : WHERRY_OK;
}

wherry_code bench_place_copy(const bench_place *place, const char *from, const char *to,
			     wherry_error *err)
{
	if (place->mssql) /* they are the same */
		return WHERRY_OK;
	return place->postgres ? copy_database(place, from, to, err)
			       : copy_file(place, from, to, err);
}

void bench_place_close(bench_place *place)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (place->mssql && *place->dir)
		(void)bench_odbc_clear(place->mssql, &err);
	else if (place->postgres && place->server >= 0)
		(void)close(place->server);
	else if (*place->dir)
		remove_dir(place->dir);
	place->server = -1;
	*place->dir = 0;
}
