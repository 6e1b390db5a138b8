/*
 * The schedules that a cron of the same database remembers, for `wherry status`.
 */
#include "cli/commands.h"

#include <inttypes.h>
#include <string.h>

#include <wherry/cron.h>

#include "base/date.h"

typedef struct listing {
	bool json;
	int n;
	wh_buf *out;
} listing;

static void put_words(wh_buf *out, const char *before, const char *text)
{
	if (!text)
		return;
	wh_buf_puts(out, before);
	wh_put_cell(out, text, 0);
}

static wherry_code put_entry(void *ctx, const wherry_cron_entry *entry)
{
	char until[WH_LOCAL_TIME_LEN] = "-";
	listing *l = ctx;

	if (!entry->active)
		return WHERRY_OK;
	if (entry->until_us)
		wh_local_time_print(entry->until_us, 0, until);
	if (l->json) {
		wh_buf_puts(l->out, l->n ? ",{\"name\":" : "{\"name\":");
		wh_buf_json(l->out, entry->name, strlen(entry->name));
		wh_put_text_field(l->out, "target", entry->target);
		wh_put_text_field(l->out, "schedule", entry->schedule);
		wh_put_text_field(l->out, "zone", entry->zone);
		wh_put_text_field(l->out, "sends_to", entry->sends_to);
		wh_put_time_field(l->out, "until", entry->until_us);
		wh_buf_putc(l->out, '}');
	} else {
		wh_buf_puts(l->out, "schedule    ");
		wh_put_cell(l->out, entry->name, 0);
		put_words(l->out, ": ", entry->schedule);
		put_words(l->out, " ", entry->zone);
		put_words(l->out, entry->schedule ? ", to " : ": ",
			  entry->sends_to ? entry->sends_to : entry->target);
		wh_buf_printf(l->out, ", ticks made until %s\n", until);
	}
	l->n++;
	return WHERRY_OK;
}

void wh_put_schedules(wh_buf *out, wherry_db *db, bool json)
{
	listing l = {.json = json, .out = out};
	wherry_cron *cron = NULL;

	if (wherry_cron_open(db, NULL, &cron, NULL) == WHERRY_OK)
		(void)!wherry_cron_list(cron, put_entry, &l, NULL);
	wherry_cron_close(cron);
}
