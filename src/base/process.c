#include "base/process.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

/* Fields of /proc/PID/stat. */
typedef struct process_stat {
	/* 'Z': the process has ended, and its parent has not read its status. */
	char state;
	int64_t n_threads; /* Number of threads that have not ended. */
	int64_t began;     /* Start time, in ticks since boot. */
} process_stat;

static bool read_file(const char *path, char *out, size_t cap)
{
	FILE *file = fopen(path, "re");
	size_t n;

	if (!file)
		return false;
	n = fread(out, 1, cap - 1, file);
	(void)fclose(file);
	out[n] = 0;
	return n > 0;
}

/* Read the nth field after the process's name.  The name may contain spaces and ends at
 * the last ')'. */
static bool field(const char *stat, int nth, int64_t *out)
{
	const char *at = strrchr(stat, ')');
	char number[24];

	for (int i = 0; at && i < nth; i++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return false;
	(void)snprintf(number, sizeof(number), "%.*s", (int)strcspn(at, " \n"), at);
	return wh_parse_int(number, out);
}

static bool read_stat(int64_t pid, process_stat *out)
{
	/* STATE counts bytes from the ')', the others fields. */
	enum { STATE = 2, THREADS = 18, BEGAN = 20 };
	char path[64], text[1024];
	const char *name;

	(void)snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
	if (!read_file(path, text, sizeof(text)))
		return false;
	name = strrchr(text, ')');
	if (!name || strlen(name) <= STATE)
		return false;
	out->state = name[STATE];
	return field(text, THREADS, &out->n_threads) && field(text, BEGAN, &out->began);
}

/* The inode of a namespace; 0: there is none. */
static long long namespace_of(const char *kind)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	return stat(path, &st) == 0 ? (long long)st.st_ino : 0;
}

/* Write the part of the identity that is equal for processes that can see each other:
 * "boot:pids:times:". */
static bool write_place(char out[WH_PROCESS_LEN])
{
	char boot[64];
	long long pids = namespace_of("pid");

	if (!pids || !read_file("/proc/sys/kernel/random/boot_id", boot, sizeof(boot)))
		return false;
	boot[strcspn(boot, "\n")] = 0;
	(void)snprintf(out, WH_PROCESS_LEN, "%s:%lld:%lld:", boot, pids,
		       namespace_of("time"));
	return true;
}

void wh_process_self(char out[WH_PROCESS_LEN])
{
	process_stat st;
	size_t len;

	*out = 0;
	if (!read_stat(getpid(), &st) || !write_place(out))
		return;
	len = strlen(out);
	(void)snprintf(out + len, WH_PROCESS_LEN - len, "%lld:%lld", (long long)getpid(),
		       (long long)st.began);
}

/* Split the identity of a process that this process can see into process id and start
 * time.  False: it cannot see the process. */
static bool take_apart(const char *who, int64_t *out_pid, int64_t *out_began)
{
	char place[WH_PROCESS_LEN], rest[WH_PROCESS_LEN], *colon;
	size_t len;

	if (!write_place(place))
		return false;
	len = strlen(place);
	if (strncmp(who, place, len) != 0)
		return false;
	(void)snprintf(rest, sizeof(rest), "%s", who + len);
	colon = strchr(rest, ':');
	if (!colon)
		return false;
	*colon = 0;
	return wh_parse_int(rest, out_pid) && wh_parse_int(colon + 1, out_began) &&
	       *out_pid > 0 && *out_pid <= INT32_MAX;
}

/* kill() also finds processes that /proc hides from other users (hidepid). */
wh_process_state wh_process_look(const char *who)
{
	process_stat st;
	int64_t pid, began;

	if (!take_apart(who, &pid, &began))
		return WH_PROCESS_UNKNOWN;
	if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
		return WH_PROCESS_ENDED;
	if (!read_stat(pid, &st))
		return WH_PROCESS_LIVES;
	return st.began != began || (st.state == 'Z' && st.n_threads <= 1)
		       ? WH_PROCESS_ENDED
		       : WH_PROCESS_LIVES;
}
