#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/url.h"
#include "cli/cli.h"
#include "publish/parts.h"

enum { LINE_MAX_BYTES = 4096, NAME_LEN = 256 };

static void write_record(void *ctx, const wherry_log_record *record)
{
	wh_buf line = WH_BUF_INIT(LINE_MAX_BYTES);
	char time[WH_TIME_LEN];

	(void)ctx;
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

void wh_audit(const char *action, const char *url, const char *table, int64_t rows)
{
	const wh_env env = {.log = write_record};
	char who[2 * NAME_LEN], where[200];

	write_who(who, sizeof(who));
	wh_url_show(url, where, sizeof(where));
	wh_log(&env, WHERRY_LOG_INFO, "cli", "operator", wh_log_text("action", action),
	       wh_log_text("from", where), wh_log_text("table", table),
	       wh_log_int("rows", rows), wh_log_text("by", who));
}
