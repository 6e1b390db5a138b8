/*
 * Completes the commands that error messages advise, with the words that name the
 * database and the table of a relay or an entry of cron.
 */
#include <stdlib.h>
#include <string.h>

#include "base/advice.h"
#include "base/url.h"
#include "daemon/plan.h"

static void add(wh_advice *advice, const char *command, const char *url,
		const char *option, const char *name)
{
	wh_buf words = WH_BUF_INIT(4096);

	wh_put_log_url(&words, url);
	wh_buf_puts(&words, option);
	if (name) {
		wh_buf_putc(&words, ' ');
		wh_put_word(&words, name);
	}
	wh_advice_add(advice, command, wh_buf_str(&words));
	wh_buf_clear(&words);
}

/* Add a table, which needs an option unless it has its default name. */
static void add_table(wh_advice *advice, const char *command, const char *url,
		      const char *option, const char *table, const char *standard)
{
	bool other = table && strcmp(table, standard) != 0;

	add(advice, command, url, other ? option : "", other ? table : NULL);
}

static void add_queue(wh_advice *advice, const char *from, const char *model)
{
	char *url = NULL, *name = NULL, *table = NULL, *type = NULL;

	if (wh_url_split(from, model, &url, &name, NULL) != WHERRY_OK || !url)
		return;
	if (strcmp(model, "queue") == 0)
		add(advice, "wherry queue create", url, "", name);
	else if (wh_url_take(url, "table", &table, NULL) == WHERRY_OK &&
		 wh_url_take(url, "type", &type, NULL) == WHERRY_OK)
		add_table(advice, "wherry delayed create", url, " --table", table,
			  "delayed");
	free(type);
	free(table);
	free(name);
	free(url);
}

void wh_plan_relay_advise(const wh_plan_relay *relay, wherry_error *err)
{
	const char *from = relay->from.value;
	wh_advice advice = {.words = ""};

	add_queue(&advice, from, "queue");
	add_queue(&advice, from, "delayed");
	if (!advice.n)
		add_table(&advice, "wherry init", from, " --table",
			  wh_config_text(relay->config, WH_OUTBOX_TABLE), "outbox");
	wh_advise(&advice, err);
}

void wh_plan_cron_advise(const wh_plan_cron *entry, wherry_error *err)
{
	const char *url = entry->database.value;
	wh_advice advice = {.words = ""};

	if (entry->to == WH_TO_QUEUE)
		add(&advice, "wherry queue create", url, "",
		    wh_plan_cron_field(entry, WH_TICK_NAME));
	else if (entry->to == WH_TO_DELAYED)
		add_table(&advice, "wherry delayed create", url, " --table",
			  wh_plan_cron_field(entry, WH_TICK_TABLE), "delayed");
	else
		add_table(&advice, "wherry init", url, " --table",
			  wh_plan_cron_field(entry, WH_TICK_TABLE), "outbox");
	add_table(&advice, "wherry cron create", url, " --cron", entry->table.value,
		  "cron");
	wh_advise(&advice, err);
}
