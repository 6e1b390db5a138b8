#include "cli/commands.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/url.h"
#include "cli/target.h"
#include "daemon/plan.h"
#include "publish/driver.h"

enum { PROBLEMS_TEXT = 64 * 1024 };

/* Warn of values that are valid but unsafe. */
static void warn(const char *path, const wh_plan_relay *relay)
{
	const char *dead = wh_config_text(relay->config, WH_RELAY_DEAD_LETTERS);
	wh_buf text = WH_BUF_INIT(PROBLEMS_TEXT);

	wh_publisher_warn(relay->to.value, relay->config, &text);
	if (*dead)
		wh_publisher_warn(dead, relay->config, &text);
	wh_publisher_warn_settings(relay->config, &text);
	for (const char *line = wh_buf_str(&text); *line; line += strcspn(line, "\n") + 1)
		(void)fprintf(stderr, "%s: warning: relay %s: %.*s\n", path, relay->name,
			      (int)strcspn(line, "\n"), line);
	wh_buf_clear(&text);
}

/* Does the file itself have it?  What a reference stands for is elsewhere. */
static bool shows_password(const wh_plan_text *url)
{
	char *bare;
	bool shows;

	if (!url->raw || strstr(url->raw, "${"))
		return false;
	bare = wh_url_without_secrets(url->value);
	shows = bare && strcmp(bare, url->value) != 0;
	free(bare);
	return shows;
}

static bool has_password(const wh_plan *plan)
{
	for (size_t i = 0; i < plan->n_relays; i++)
		if (shows_password(&plan->relays[i].from) ||
		    shows_password(&plan->relays[i].to))
			return true;
	return false;
}

/* Warn if users of the machine who should not may write or read the file. */
static void warn_of_mode(const char *path, const wh_plan *plan)
{
	struct stat st;

	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	if (st.st_mode & S_IWOTH)
		(void)fprintf(
			stderr,
			"%s: warning: every user of this machine may write it, and so "
			"decide what relays run: chmod o-w\n",
			path);
	if (st.st_mode & S_IROTH && has_password(plan))
		(void)fprintf(
			stderr,
			"%s: warning: it has a password, and every user of this machine "
			"may read it: chmod o-r\n",
			path);
}

static wh_exit run(wh_args *args)
{
	const char *path = wh_plan_file(wh_operand(args, 0));
	wh_buf problems = WH_BUF_INIT(PROBLEMS_TEXT);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_plan plan;
	wherry_code code = wh_plan_read(path, &plan, &problems, &err);

	if (problems.len)
		(void)fputs(wh_buf_str(&problems), stderr);
	wh_buf_clear(&problems);
	if (code != WHERRY_OK)
		return wh_report(&err);
	warn_of_mode(path, &plan);
	for (size_t i = 0; i < plan.n_relays; i++)
		warn(path, &plan.relays[i]);
	(void)printf("%s: %zu relay%s", path, plan.n_relays,
		     wh_plural((int64_t)plan.n_relays));
	if (plan.n_crons)
		(void)printf(", %zu entr%s of cron", plan.n_crons,
			     plan.n_crons == 1 ? "y" : "ies");
	(void)printf(", fine\n");
	wh_plan_clear(&plan);
	return WH_EXIT_DONE;
}

const wh_command wh_cmd_check = {
	.name = "check",
	.operands = "[FILE]",
	.synopsis = "[FILE]",
	.brief = "Say whether a file for `wherry run` can be used",
	.help = "FILE is " WH_PLAN_FILE
		" in this folder or in /etc/wherry unless named. Each thing that is wrong is a line, "
		"FILE:LINE:COLUMN: what; nothing is connected to. It warns of destinations that "
		"get passwords unencrypted, or whose certificates are not verified.\n"
		"\n"
		"Examples:\n"
		"  wherry check /etc/wherry/wherry.yaml\n",
	.plain = true,
	.run = run,
};
