/*
 * Completes the commands that error messages advise, with the words that name the
 * database and the table of a relay or an entry of cron.
 */
#include <stdlib.h>
#include <string.h>

#include "base/advice.h"
#include "base/url.h"
#include "daemon/plan.h"

static void add(wh_advice *advice, const char *command, const char *url)
{
	wh_buf words = WH_BUF_INIT(4096);

	wh_put_table_url(&words, url);
	wh_advice_add(advice, command, wh_buf_str(&words));
	wh_buf_clear(&words);
}

/* Add a command for a table whose name is not in the URL; NULL: it has the default
 * name. */
static void add_table(wh_advice *advice, const char *command, const char *url,
		      const char *table)
{
	char *joined = table ? wh_url_join(url, table, NULL, NULL) : NULL;

	add(advice, command, joined ? joined : url);
	free(joined);
}

void wh_plan_relay_advise(const wh_plan_relay *relay, wherry_error *err)
{
	const char *from = relay->from.value, *table = wh_url_table(from);
	wh_advice advice = {.words = ""};

	if (table && strchr(table, '/')) {
		add(&advice, "wherry delayed create", from);
	} else {
		add(&advice, "wherry init", from);
		add(&advice, "wherry queue create", from);
	}
	wh_advise(&advice, err);
}

void wh_plan_cron_advise(const wh_plan_cron *entry, wherry_error *err)
{
	static const char *const makers[] = {[WH_TO_OUTBOX] = "wherry init",
					     [WH_TO_QUEUE] = "wherry queue create",
					     [WH_TO_DELAYED] = "wherry delayed create"};
	const char *url = entry->database.value;
	wh_advice advice = {.words = ""};

	add_table(&advice, makers[entry->to], url,
		  wh_plan_cron_field(entry, entry->to == WH_TO_QUEUE ? WH_TICK_NAME
								     : WH_TICK_TABLE));
	add_table(&advice, "wherry cron create", url, entry->table.value);
	wh_advise(&advice, err);
}
