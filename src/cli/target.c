/*
 * The outbox that a command works on: named by its URL, by a relay of wherry.yaml, or by
 * WHERRY_URL; and the words that name it again in the commands that Wherry prints.
 */
#include "cli/target.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/settings.h"
#include "daemon/plan.h"
#include "db/driver.h"

static const char *const plan_files[] = {WH_PLAN_FILE, "/etc/wherry/" WH_PLAN_FILE};

enum { N_PLAN_FILES = sizeof(plan_files) / sizeof(*plan_files) };

/* ---- wherry.yaml ---- */

static bool is_name(const char *word)
{
	return !strchr(word, ':') && !strchr(word, '/');
}

static wh_plan_relay *find_relay(const wh_plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->n_relays; i++)
		if (plan->relays[i].name && strcmp(plan->relays[i].name, name) == 0)
			return &plan->relays[i];
	return NULL;
}

static char *copy_of(const char *text)
{
	return text ? strdup(text) : NULL;
}

/* A relay with a pattern stands for many outboxes, and names none. */
static bool is_pattern(const char *path, const wh_plan_relay *relay)
{
	if (!relay || !relay->match.value)
		return false;
	(void)fprintf(
		stderr,
		"wherry: relay '%s' of %s stands for the outboxes of all %s that match '%s': "
		"name one of them, as in %s\n",
		relay->name, path, wh_plan_places(relay), relay->match.value,
		wh_plan_in_files(relay)  ? "sqlite:FOLDER/FILE"
		: relay->databases.value ? "postgres://HOST/DATABASE"
					 : "URL#SCHEMA.outbox");
	return true;
}

/* Take the relay's URLs and settings. */
static void take_relay(wh_named *out, wh_plan_relay *relay)
{
	out->from = copy_of(relay->from.value);
	out->to = copy_of(relay->to.value);
	out->config = relay->config;
	relay->config = NULL;
}

wherry_code wh_named_find(const char *name, bool strict, wh_named *out, wherry_error *err)
{
	wh_buf problems = WH_BUF_INIT(64 * 1024);
	wherry_code code = WHERRY_NOTFOUND;

	*out = (wh_named){.from = NULL};
	for (size_t i = 0; i < N_PLAN_FILES && is_name(name) && !out->from; i++) {
		wh_plan plan = {.path = NULL};
		wh_plan_relay *relay;

		if (access(plan_files[i], F_OK) != 0)
			continue;
		out->looked_in = plan_files[i];
		wh_buf_reset(&problems);
		(void)wh_plan_read_most(plan_files[i], &plan, &problems, err);
		relay = find_relay(&plan, name);
		code = relay ? WHERRY_INVALID : WHERRY_NOTFOUND;
		if (is_pattern(plan_files[i], relay))
			;
		else if (relay && relay->from.value && !(strict && relay->broken))
			take_relay(out, relay);
		else if (relay)
			(void)fputs(wh_buf_str(&problems), stderr);
		wh_plan_clear(&plan);
		if (relay)
			break;
	}
	wh_buf_clear(&problems);
	return out->from ? WHERRY_OK : code;
}

void wh_named_clear(wh_named *named)
{
	free(named->from);
	free(named->to);
	wherry_config_free(named->config);
	*named = (wh_named){.from = NULL};
}

const char *wh_plan_file(const char *named)
{
	for (size_t i = 0; i < N_PLAN_FILES && !named; i++)
		if (access(plan_files[i], F_OK) == 0)
			named = plan_files[i];
	return named ? named : plan_files[0];
}

/* ---- what follows the command's name ---- */

char *wh_target_words(const char *shown)
{
	wh_buf text = WH_BUF_INIT(64 * 1024);
	char *words;

	if (shown) {
		wh_buf_putc(&text, ' ');
		wh_put_word(&text, shown);
	}
	words = text.len ? wh_buf_take(&text) : strdup("");
	wh_buf_clear(&text);
	return words;
}

void wh_put_table_of(wh_buf *text, const char *target, const char *url, const char *table)
{
	/* " @jobs" and "" stand for tables of WHERRY_URL's database. */
	bool known = !*target || target[1] == '@';
	char *database = known ? strdup("") : wh_url_database(url);
	char *joined = database ? wh_url_join(database, table, NULL, NULL) : NULL;

	if (joined && known)
		*joined = '@';
	if (joined && known) {
		wh_buf_putc(text, ' ');
		wh_put_word(text, joined);
	} else {
		wh_put_log_url(text, joined ? joined : "URL");
	}
	free(joined);
	free(database);
}

void wh_show_database(const char *url, char *out, size_t cap)
{
	char *database = wh_url_database(url);

	wh_url_mask(database ? database : "", out, cap);
	free(database);
}
