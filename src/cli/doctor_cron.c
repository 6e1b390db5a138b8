/*
 * doctor on the schedules that the table "cron" of the same database remembers.
 */
#include "cli/doctor.h"

#include <stdlib.h>
#include <string.h>

#include <wherry/cron.h>
#include <wherry/delayed.h>

#include "base/env.h"
#include "daemon/tick_writer.h"

enum { SENTENCE_MAX = 1000 };

/* How the targets of installed schedules begin: "delayed TABLE KIND". */
static const char installed[] = "delayed ";

/* The clock was set back if ticks were made up to a later time than this. */
#define AHEAD_US (60 * WH_SECOND)

typedef struct look {
	wh_doctor *d;
	int64_t now_us;
	int64_t n_active;
} look;

/* Add a finding.  Its advice is `advice`, the command that forgets the entry, and
 * `then`. */
static void add(const look *l, const wherry_cron_entry *entry, wh_level level, char *what,
		const char *advice, const char *then)
{
	wh_buf text = WH_BUF_INIT(SENTENCE_MAX);
	char *taken;

	wh_buf_printf(&text, "%s `wherry cron forget ", advice);
	wh_put_word(&text, l->d->session->url);
	wh_buf_putc(&text, ' ');
	wh_put_word(&text, entry->name);
	wh_buf_printf(&text, " --yes`%s", then);
	taken = wh_buf_take(&text);
	wh_buf_clear(&text);
	wh_doctor_add(l->d, "cron", level, what, taken);
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
	int64_t behind_us = wh_since(l->now_us, entry->until_us);

	if (behind_us > WH_TICKS_GONE_US)
		add(l, entry, WH_BAD,
		    sentence(entry, "no `wherry run` has made its ticks for", behind_us,
			     ""),
		    "start the daemon, or read its log and /readyz; if the entry was "
		    "removed from wherry.yaml:",
		    "");
	else if (-behind_us > AHEAD_US)
		add(l, entry, WH_BAD,
		    sentence(entry, "its ticks were made up to a time that is",
			     -behind_us,
			     " ahead of the database's clock, which was set back: it "
			     "makes no tick until then"),
		    "set the clock; or", ", and it begins with the first time after now");
}

static wherry_code count_tick(void *ctx, const wherry_delayed_message *msg)
{
	(void)msg;
	++*(int64_t *)ctx;
	return WHERRY_OK;
}

/* Open the queue of an installed schedule.  NULL: it cannot be opened, or the entry does
 * not say which queue it is. */
static wherry_delayed *open_queue(const look *l, const wherry_cron_entry *entry)
{
	static const char before[] = "delayed queue ";
	const char *table = entry->target + strlen(installed);
	const char *kind = strrchr(table, ' ');
	wherry_delayed *queue = NULL;
	char *name;

	if (!kind || !entry->sends_to ||
	    strncmp(entry->sends_to, before, strlen(before)) != 0)
		return NULL;
	name = strndup(table, (size_t)(kind - table));
	if (name &&
	    wherry_delayed_open(l->d->session->db, name, entry->sends_to + strlen(before),
				NULL, &queue, NULL) == WHERRY_OK &&
	    strcmp(wherry_delayed_kind(queue), kind + 1) != 0) {
		wherry_delayed_close(queue);
		queue = NULL;
	}
	free(name);
	return queue;
}

/* Have the messages of all ticks been removed?  If that is unknown, no. */
static bool is_emptied(const look *l, const wherry_cron_entry *entry)
{
	wherry_delayed *queue = open_queue(l, entry);
	wh_buf prefix = WH_BUF_INIT(SENTENCE_MAX);
	wherry_delayed_filter filter = WHERRY_DELAYED_FILTER(.limit = 1);
	int64_t n = 0;
	wherry_code code = WHERRY_NOTFOUND;

	wh_buf_printf(&prefix, "%s/%s/", entry->name, entry->hash);
	filter.prefix = wh_buf_str(&prefix);
	if (queue && wh_buf_check(&prefix, NULL) == WHERRY_OK)
		code = wherry_delayed_list(queue, &filter, count_tick, &n, NULL);
	wherry_delayed_close(queue);
	wh_buf_clear(&prefix);
	return code == WHERRY_OK && !n;
}

/* Check a schedule whose ticks are installed on a delayed queue. */
static void check_installed(const look *l, const wherry_cron_entry *entry)
{
	int64_t behind_us = wh_since(l->now_us, entry->until_us);

	if (-behind_us > AHEAD_US && is_emptied(l, entry))
		add(l, entry, WH_BAD,
		    sentence(entry, "ticks were installed for the next", -behind_us,
			     ", but the queue has none of their messages"),
		    "run `wherry cron install` again; if the schedule is not wanted any "
		    "more:",
		    "");
	else if (behind_us > 0)
		add(l, entry, WH_WARN,
		    sentence(entry, "its last tick was due", behind_us,
			     " ago, and no later one is installed"),
		    "run `wherry cron install` again, more often or with a longer "
		    "--ahead; if the schedule is not wanted any more:",
		    "");
}

static wherry_code take_entry(void *ctx, const wherry_cron_entry *entry)
{
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
