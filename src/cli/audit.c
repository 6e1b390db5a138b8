#include <pwd.h>
#include <stdio.h>
#include <syslog.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/url.h"
#include "cli/cli.h"
#include "publish/parts.h"

enum { LINE_MAX_BYTES = 4096, NAME_LEN = 256 };

/* Write the record to standard error, where a script or a service keeps it.  On a terminal it
 * would stand between the answers that people read, and go to syslog instead. */
static void write_record(void *ctx, const wherry_log_record *record)
{
	wh_buf line = WH_BUF_INIT(LINE_MAX_BYTES);
	char time[WH_TIME_LEN];

	(void)ctx;
	if (isatty(STDERR_FILENO)) {
		openlog("wherry", LOG_PID, LOG_USER);
		syslog(LOG_NOTICE, "%s", record->line);
		closelog();
		return;
	}
	wh_time_print(wh_now(&wh_env_system), time);
	wh_log_line(&line, &(wh_log_head){.time = time}, record);
	(void)fputs(wh_buf_str(&line), stderr);
	wh_buf_clear(&line);
}

/* Write who runs the program, such as "alice@host".  A user without a name is written as
 * a number. */
static void write_who(char *out, size_t cap)
{
	struct passwd entry, *found = NULL;
	char text[1024], host[NAME_LEN] = "";

	if (gethostname(host, sizeof(host) - 1) != 0)
		(void)snprintf(host, sizeof(host), "unknown");
	if (getpwuid_r(getuid(), &entry, text, sizeof(text), &found) == 0 && found)
		(void)snprintf(out, cap, "%.200s@%s", found->pw_name, host);
	else
		(void)snprintf(out, cap, "%ld@%s", (long)getuid(), host);
}

/* The beginning of each record: what was done, where, and by whom. */
typedef struct begin {
	char who[2 * NAME_LEN], where[200];
} begin;

static begin begin_record(const char *url)
{
	begin b = {.who = ""};

	write_who(b.who, sizeof(b.who));
	wh_url_show(url, b.where, sizeof(b.where));
	return b;
}

void wh_audit(const wh_args *args, const char *table, int64_t rows)
{
	const wh_env env = {.log = write_record};
	const begin b = begin_record(wh_operand(args, 0));

	if (wh_is_dry(args))
		return;
	wh_log(&env, WHERRY_LOG_INFO, "cli", "operator",
	       wh_log_text("action", args->command->name), wh_log_text("from", b.where),
	       wh_log_text("table", table), wh_log_int("rows", rows),
	       wh_log_text("by", b.who));
}

void wh_audit_message(const wh_args *args, const char *table, const wh_gone *gone)
{
	const wh_env env = {.log = write_record};
	const begin b = begin_record(wh_operand(args, 0));

	if (wh_is_dry(args))
		return;
	wh_log(&env, WHERRY_LOG_INFO, "cli", "operator",
	       wh_log_text("action", args->command->name), wh_log_text("from", b.where),
	       wh_log_text("table", table), wh_log_int("id", gone->id),
	       wh_log_text("state", gone->state), wh_log_text("topic", gone->topic),
	       wh_log_text("message_id", gone->message_id), wh_log_text("by", b.who));
}
