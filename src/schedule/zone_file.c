#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "schedule/zone.h"

enum {
	NAMES_MAX = 1048576, /* Bytes of tzdata.zi, which has 0.1 MB. */
	NEAR_LEAST = 5       /* Bytes: a shorter name is an abbreviation such as PST. */
};

static const char standard_folder[] = "/usr/share/zoneinfo";

/* The file that `zic` writes for UTC. */
static const char utc[] = "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
			  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\4"
			  "\0\0\0\0\0\0UTC\0"
			  "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
			  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\4"
			  "\0\0\0\0\0\0UTC\0"
			  "\nUTC0\n";

static const char *folder(void)
{
	const char *named = secure_getenv("TZDIR");

	return named && *named ? named : standard_folder;
}

/* Is the name made of words of letters, digits, _ + and -, with slashes between the
 * words?  So no name leaves the folder. */
static bool is_name(const char *name)
{
	size_t len = strlen(name), word = 0;

	if (!len || len > WH_ZONE_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = name[i];
		bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c >= '0' && c <= '9') || c == '_' || c == '+' || c == '-';

		if (!fine && (c != '/' || !word))
			return false;
		word = fine ? word + 1 : 0;
	}
	return word > 0;
}

/* Append a file of the folder to out.  NOTFOUND: there is no such file, or it is not a
 * regular one. */
static wherry_code read_file(const char *name, wh_buf *out, wherry_error *err)
{
	char path[4096], part[4096];
	struct stat st;
	ssize_t n = 0;
	int fd = -1, failed = 0;

	if (snprintf(path, sizeof(path), "%s/%s", folder(), name) < (int)sizeof(path))
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	else
		errno = ENAMETOOLONG;
	if (fd < 0 || fstat(fd, &st) != 0)
		failed = errno;
	else if (!S_ISREG(st.st_mode))
		failed = ENOENT;
	while (!failed && !out->failed && (n = read(fd, part, sizeof(part))) > 0)
		wh_buf_put(out, part, (size_t)n);
	if (!failed && n < 0)
		failed = errno;
	if (fd >= 0)
		(void)close(fd);
	if (failed)
		return wh_fail_errno(err, failed, "cannot read '%.160s'", path);
	return wh_buf_check(out, err);
}

/* ---- the nearest name ---- */

typedef struct names {
	char *text; /* Each name ends with a NUL. */
	size_t len;
} names;

/* A position in the names.  wh_nearest() asks for names in order, so *at is the last one
 * returned. */
typedef struct cursor {
	const names *names;
	const char **at;
} cursor;

static const char *name_at(const void *ctx, size_t i)
{
	const cursor *c = ctx;
	const char *end = c->names->text + c->names->len;

	if (i == 0)
		*c->at = c->names->text;
	else if (*c->at < end)
		*c->at += strlen(*c->at) + 1;
	return *c->at < end ? *c->at : NULL;
}

/* tzdata.zi has lines "Z NAME …" and "L TARGET NAME". */
static void keep_names(const char *line, wh_buf *out)
{
	const char *name = line;
	size_t len;

	if (*line != 'Z' && *line != 'L')
		return;
	for (int words = *line == 'Z' ? 1 : 2; words > 0; words--) {
		name += strcspn(name, " \n");
		name += *name == ' ';
	}
	len = strcspn(name, " \n");
	wh_buf_put(out, name, len);
	wh_buf_putc(out, 0);
}

static wherry_code unknown(const char *name, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(NAMES_MAX), kept = WH_BUF_INIT(NAMES_MAX);
	const char *near = NULL, *at = NULL;
	names list;
	cursor c = {&list, &at};

	if (strlen(name) >= NEAR_LEAST &&
	    read_file("tzdata.zi", &text, NULL) == WHERRY_OK) {
		for (const char *line = wh_buf_str(&text); line;
		     line = strchr(line, '\n'), line = line ? line + 1 : NULL)
			keep_names(line, &kept);
		list = (names){kept.ptr, kept.len};
		if (!kept.failed && kept.len)
			near = wh_nearest(name, name_at, &c);
	}
	if (near)
		(void)wh_fail(err, WHERRY_INVALID,
			      "there is no time zone '%.64s'; did you mean '%s'?", name,
			      near);
	else
		(void)wh_fail(
			err, WHERRY_INVALID,
			"there is no time zone '%.64s': write a name of the tz database, "
			"such as Europe/Berlin or UTC",
			name);
	wh_buf_clear(&text);
	wh_buf_clear(&kept);
	return WHERRY_INVALID;
}

/* ---- fixed offsets ---- */

/* Is the name Z, or +HH:MM or -HH:MM up to 18 hours, as the JVM writes an offset from UTC?  */
static bool is_offset(const char *name, int *out_minutes)
{
	int hour, minute;

	*out_minutes = 0;
	if (strcmp(name, "Z") == 0)
		return true;
	if (strlen(name) != 6 || !strchr("+-", name[0]) ||
	    strspn(name + 1, "0123456789:") != 5 || name[3] != ':' ||
	    memchr(name + 1, ':', 2) || memchr(name + 4, ':', 2))
		return false;
	hour = (name[1] - '0') * 10 + name[2] - '0';
	minute = (name[4] - '0') * 10 + name[5] - '0';
	*out_minutes = (hour * 60 + minute) * (name[0] == '-' ? -1 : 1);
	return minute < 60 && hour * 60 + minute <= 18 * 60;
}

/* Read the file of UTC with another rule at its end, whose offset has the other sign. */
static wherry_code read_offset(const char *name, int minutes, wh_zone **out,
			       wherry_error *err)
{
	wh_buf file = WH_BUF_INIT(WH_ZONE_FILE_MAX);
	int away = minutes < 0 ? -minutes : minutes;
	wherry_code code;

	wh_buf_put(&file, utc, sizeof(utc) - sizeof("UTC0\n"));
	wh_buf_printf(&file, "<%s>%c%02d:%02d\n", "fixed", minutes < 0 ? '+' : '-',
		      away / 60, away % 60);
	code = wh_buf_check(&file, err);
	if (code == WHERRY_OK)
		code = wh_zone_read(name, file.ptr, file.len, out, err);
	wh_buf_clear(&file);
	return code;
}

/* ---- loading ---- */

/* Does the name mean another zone on another machine? */
static bool is_local(const char *name)
{
	return strcmp(name, "localtime") == 0 || strcmp(name, "posixrules") == 0;
}

static wherry_code not_found(const char *name, wherry_error *err)
{
	struct stat st;

	if (stat(folder(), &st) != 0)
		return wh_fail(
			err, WHERRY_NOTFOUND,
			"there is no time zone database in '%.80s' to find '%.64s' in: "
			"install the package tzdata, or set TZDIR",
			folder(), name);
	return unknown(name, err);
}

wherry_code wh_zone_load(const char *name, wh_zone **out, wherry_error *err)
{
	wh_buf file = WH_BUF_INIT(WH_ZONE_FILE_MAX);
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;
	int minutes;

	if (!name || strcmp(name, "UTC") == 0)
		return wh_zone_read("UTC", utc, sizeof(utc) - 1, out, err);
	if (is_offset(name, &minutes))
		return read_offset(name, minutes, out, err);
	if (!is_name(name) || is_local(name))
		return unknown(name, err);
	code = read_file(name, &file, &why);
	if (code == WHERRY_OK)
		code = wh_zone_read(name, file.ptr, file.len, out, err);
	else if (code == WHERRY_NOTFOUND)
		code = not_found(name, err);
	else if (code == WHERRY_TOOBIG)
		code = wh_fail(
			err, WHERRY_CORRUPT,
			"the file of time zone '%s' is longer than %d bytes: install "
			"the package tzdata again",
			name, WH_ZONE_FILE_MAX);
	else
		code = wh_fail(err, code, "%s", why.message);
	wh_buf_clear(&file);
	return code;
}
