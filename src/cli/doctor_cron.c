/*
 * doctor on the schedules that the table "cron" of the same database remembers.
 */
#include "cli/doctor.h"

#include <stdlib.h>
#include <string.h>

#include <wherry/cron.h>

#include "base/env.h"
#include "daemon/tick_writer.h"

enum { SENTENCE_MAX = 1000 };

/* The clock was set back if ticks were made up to a later time than this. */
#define AHEAD_US (60 * WH_SECOND)

typedef struct look {
	wh_doctor *d;
	int64_t now_us;
	int64_t n_active;
} look;

static void add(const look *l, wh_level level, char *what, const char *advice)
{
	wh_doctor_add(l->d, "cron", level, what, strdup(advice));
}

static char *sentence(const wherry_cron_entry *entry, const char *middle, int64_t us,
		      const char *end)
{
	wh_buf text = WH_BUF_INIT(SENTENCE_MAX);
	char span[WH_SPAN_LEN], *taken;

	wh_buf_printf(&text, "schedule %.100s: %s %s%s", entry->name, middle,
		      wh_span_text(us, span), end);
	taken = wh_buf_take(&text);
	wh_buf_clear(&text);
	return taken;
}

/* Check an entry of wherry.yaml.  A daemon advances its time twice a minute even if no
 * tick is due. */
static void check_entry(const look *l, const wherry_cron_entry *entry)
{
	int64_t behind_us = l->now_us - entry->until_us;

	if (behind_us > WH_TICKS_GONE_US)
		add(l, WH_BAD,
		    sentence(entry, "no `wherry run` has made its ticks for", behind_us,
			     ""),
		    "start the daemon, or read its log and /readyz; if the entry was "
		    "removed from wherry.yaml, ignore this");
	else if (-behind_us > AHEAD_US)
		add(l, WH_BAD,
		    sentence(entry, "its ticks were made up to a time that is",
			     -behind_us,
			     " ahead of the database's clock, which was set back: it "
			     "makes no tick until then"),
		    "set the clock; or set until_ms of the row in the table cron to the "
		    "present time, and the ticks since then are made");
}

/* Check a schedule whose ticks are installed on a delayed queue. */
static void check_installed(const look *l, const wherry_cron_entry *entry)
{
	int64_t behind_us = l->now_us - entry->until_us;

	if (behind_us > 0)
		add(l, WH_WARN,
		    sentence(entry, "its last tick was due", behind_us,
			     " ago, and no later one is installed"),
		    "run `wherry cron install` again, more often or with a longer "
		    "--ahead; or `wherry cron uninstall` the schedule");
}

static wherry_code take_entry(void *ctx, const wherry_cron_entry *entry)
{
	static const char installed[] = "delayed ";
	look *l = ctx;

	if (!entry->active)
		return WHERRY_OK;
	l->n_active++;
	if (strcmp(entry->target, WH_TICK_TARGET) == 0)
		check_entry(l, entry);
	else if (strncmp(entry->target, installed, strlen(installed)) == 0)
		check_installed(l, entry);
	return WHERRY_OK;
}

void wh_doctor_cron(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_cron *cron = NULL;
	look l = {.d = d};
	size_t before = d->n;
	wherry_code code = wherry_cron_open(d->session->db, NULL, &cron, &err);

	if (code == WHERRY_NOTFOUND)
		return; /* There is no table "cron": no schedules are used. */
	if (code == WHERRY_OK)
		code = wh_doctor_now(d, &l.now_us, &err);
	if (code == WHERRY_OK)
		code = wherry_cron_list(cron, take_entry, &l, &err);
	if (code != WHERRY_OK)
		wh_doctor_could_not(d, "cron", &err);
	else if (d->n == before && l.n_active)
		wh_doctor_add(d, "cron", WH_WELL,
			      strdup("the ticks of every active schedule are made"),
			      strdup(""));
	wherry_cron_close(cron);
}
