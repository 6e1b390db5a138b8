/*
 * Outboxes in the SQLite files of a folder.  One inotify watch of the folder hears the writers of all of them, and a file
 * is open only while it is looked at, or while a relay runs for it.  The key of a file is its inode, so a file
 * that takes the name of another one is a new one.
 *
 * An event on a file or its log means that a commit may follow; see src/db/sqlite/sqlite_watch.c.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/url.h"
#include "daemon/match_driver.h"
#include "relay/source.h"

enum {
	COMES_AND_GOES = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO,
	LOST = IN_Q_OVERFLOW | IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT,
	EVENTS_BYTES = 4096, /* At most 256 events, each of 16 bytes or more. */
	LOOK_MOST = 64
};

typedef struct file {
	char name[WH_MATCH_NAME_MOST + 1];
	int64_t key;
} file;

typedef struct files {
	wh_match_db base;
	char *url;    /* "sqlite:/srv/tenants" */
	char *folder; /* "/srv/tenants" */
	char *pattern;
	wh_match_each each;
	int fd;      /* Of inotify. */
	file *known; /* In the order of their names. */
	size_t n;
} files;

static void close_files(wh_match_db *base)
{
	files *f = (files *)base;

	if (f->fd >= 0)
		(void)close(f->fd);
	wh_match_each_close(&f->each);
	free(f->known);
	free(f->url);
	free(f->folder);
	free(f->pattern);
	free(f);
}

/* The folder of "sqlite:/srv/tenants" or "sqlite:///srv/tenants". */
static const char *folder_of(const char *url)
{
	wh_url parts;
	const char *rest;

	if (wh_url_parse(url, &parts, NULL) != WHERRY_OK)
		return "";
	rest = parts.rest.ptr;
	return strncmp(rest, "///", 3) == 0 ? rest + 2 : rest;
}

static wherry_code watch(files *f, wherry_error *err)
{
	f->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (f->fd < 0)
		return wh_fail_errno(err, errno, "cannot watch the folder '%s'",
				     f->folder);
	if (inotify_add_watch(f->fd, f->folder,
			      IN_MODIFY | COMES_AND_GOES | IN_DELETE_SELF | IN_MOVE_SELF |
				      IN_ONLYDIR) < 0)
		return wh_fail_errno(err, errno, "cannot watch the folder '%s'",
				     f->folder);
	return WHERRY_OK;
}

static wherry_code open_files(const wh_plan_relay *relay, wh_match_db **out,
			      wherry_error *err)
{
	files *f = calloc(1, sizeof(*f));
	wherry_config *config = NULL;
	wherry_code code;

	if (!f)
		return wh_oom(err);
	f->base.driver = &wh_match_files;
	f->fd = -1;
	f->pattern = strdup(relay->match.value);
	code = f->pattern ? wh_config_copy(relay->config, &config, err) : wh_oom(err);
	if (code == WHERRY_OK)
		code = wh_source_take_url(relay->from.value, config, &f->url, err);
	if (code == WHERRY_OK) {
		f->folder = strdup(folder_of(f->url));
		code = f->folder ? wh_name_parse(wh_config_text(config, WH_RELAY_TABLE),
						 false, &f->base.name, err)
				 : wh_oom(err);
	}
	if (code == WHERRY_OK)
		code = wh_match_each_open(relay, "sqlite", &f->base.name, &f->each, err);
	if (code == WHERRY_OK)
		code = watch(f, err);
	wherry_config_free(config);
	if (code == WHERRY_OK)
		*out = &f->base;
	else
		close_files(&f->base);
	return code;
}

static int files_fd(const wh_match_db *base)
{
	return ((const files *)base)->fd;
}

/* ---- the list ---- */

/* The text that SQLite puts behind the name of a database; "": the file is a database. */
static const char *suffix_of(const char *name)
{
	static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
	size_t len = strlen(name);

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		size_t n = strlen(suffixes[i]);

		if (len > n && strcmp(name + len - n, suffixes[i]) == 0)
			return name + len - n;
	}
	return "";
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const file *)a)->name, ((const file *)b)->name);
}

static int by_key(const void *a, const void *b)
{
	int64_t one = ((const wh_match_row *)a)->key,
		other = ((const wh_match_row *)b)->key;

	return (one > other) - (one < other);
}

/* Remember which file has which name. */
static wherry_code know(files *f, const wh_match_row *rows, size_t n, wherry_error *err)
{
	file *known = calloc(n + 1, sizeof(*known));

	if (!known)
		return wh_oom(err);
	for (size_t i = 0; i < n; i++) {
		memcpy(known[i].name, rows[i].schema, sizeof(known[i].name));
		known[i].key = rows[i].key;
	}
	qsort(known, n, sizeof(*known), by_name);
	free(f->known);
	f->known = known;
	f->n = n;
	return WHERRY_OK;
}

static wherry_code list_files(wh_match_db *base, wh_match_row *out, size_t most,
			      size_t *out_n, wherry_error *err)
{
	files *f = (files *)base;
	DIR *dir = opendir(f->folder);
	const struct dirent *entry;
	size_t n = 0, kept = 0;

	if (!dir)
		return wh_fail_errno(err, errno, "cannot read the folder '%s'",
				     f->folder);
	/* Only this thread reads this stream. */
	while (n < most && (entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe) */
		if ((entry->d_type != DT_REG && entry->d_type != DT_LNK &&
		     entry->d_type != DT_UNKNOWN) ||
		    *suffix_of(entry->d_name) ||
		    !wh_match_fits(f->pattern, entry->d_name))
			continue;
		out[n] = (wh_match_row){.key = (int64_t)entry->d_ino};
		(void)snprintf(out[n++].schema, sizeof(out->schema), "%s", entry->d_name);
	}
	(void)closedir(dir);
	qsort(out, n, sizeof(*out), by_key);
	for (size_t i = 0; i < n; i++) /* A file with two names is one. */
		if (!kept || out[kept - 1].key != out[i].key)
			out[kept++] = out[i];
	*out_n = kept;
	return know(f, out, kept, err);
}

/* ---- events ---- */

/* The notification that an event is; key 0: none. */
static wh_heard heard_of(const files *f, const struct inotify_event *event)
{
	const char *suffix = suffix_of(event->name);
	const file *found;
	file of;

	if (event->mask & (uint32_t)LOST)
		return (wh_heard){.key = 0, .rows = true};
	/* Shared memory is not read through the file, and looks make and remove the log. */
	if (!event->len || strcmp(suffix, "-shm") == 0 ||
	    (strcmp(suffix, "-wal") == 0 && !(event->mask & IN_MODIFY)))
		return (wh_heard){.key = 0};
	(void)snprintf(of.name, sizeof(of.name), "%s", event->name);
	of.name[strlen(of.name) - strlen(suffix)] = 0;
	if (!*suffix && (event->mask & (uint32_t)COMES_AND_GOES))
		return (wh_heard){
			.key = wh_match_fits(f->pattern, of.name) ? WH_MATCH_LIST : 0};
	found = f->n ? bsearch(&of, f->known, f->n, sizeof(of), by_name) : NULL;
	return (wh_heard){.key = found ? found->key : 0, .rows = found != NULL};
}

static size_t files_heard(wh_match_db *base, wh_heard *out, size_t most)
{
	files *f = (files *)base;
	_Alignas(struct inotify_event) char bytes[EVENTS_BYTES];
	size_t n = 0;
	ssize_t got = read(f->fd, bytes, sizeof(bytes));

	for (ssize_t at = 0; at < got && n < most;) {
		const struct inotify_event *event =
			(const struct inotify_event *)(void *)(bytes + at);
		wh_heard heard = heard_of(f, event);

		/* Each page that a commit writes is an event. */
		if ((heard.key || heard.rows) && (!n || out[n - 1].key != heard.key))
			out[n++] = heard;
		at += (ssize_t)(sizeof(*event) + event->len);
	}
	return n;
}

/* ---- looking ---- */

static char *url_of(const wh_match_db *base, const wh_match_row *row)
{
	wh_buf text = WH_BUF_INIT(8192);
	char *url;

	wh_buf_printf(&text, "%s/%s", ((const files *)base)->url, row->schema);
	url = wh_buf_check(&text, NULL) == WHERRY_OK ? wh_buf_take(&text) : NULL;
	wh_buf_clear(&text);
	return url;
}

static wherry_code look_at_files(wh_match_db *base, wh_match_row *const *rows, size_t n,
				 wherry_error *err)
{
	files *f = (files *)base;

	for (size_t i = 0; i < n; i++) {
		char *url = url_of(base, rows[i]);

		if (!url)
			return wh_oom(err);
		if (strpbrk(rows[i]->schema, "#?")) {
			rows[i]->trouble = WH_MATCH_FAILED;
			(void)snprintf(rows[i]->why, sizeof(rows[i]->why),
				       "its name has # or ?, which have a meaning in a "
				       "URL: rename it");
		} else {
			wh_match_each_look(&f->each, url, rows[i]);
		}
		free(url);
	}
	return WHERRY_OK;
}

const wh_match_driver wh_match_files = {
	.what = "file",
	.none = "no file of the folder matches; a new one is noticed",
	.none_has = "files match, and none has such an outbox of the layout log: create "
		    "them with `wherry create sqlite:FOLDER/FILE`",
	.stirs = true,
	.probe_us = 60 * WH_SECOND,
	.look_most = LOOK_MOST,
	.open = open_files,
	.close = close_files,
	.fd = files_fd,
	.list = list_files,
	.heard = files_heard,
	.look = look_at_files,
	.url = url_of,
};
