/*
 * The settings of a command, and its first operand: the URL of a database or a table, a name of wherry.yaml,
 * @NAME, or nothing if WHERRY_URL is set.
 */
#include "cli/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "config/settings.h"
#include "db/driver.h"
#include "relay/source.h"

/* ---- settings ---- */

/* Set a setting from "KEY=VALUE". */
static bool take_set(wh_args *args, const char *text)
{
	const char *equals = strchr(text, '=');
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	char *key;

	if (!equals) {
		(void)wh_usage(args->command,
			       "--set %s: write KEY=VALUE, as in relay.lease=10s", text);
		return false;
	}
	key = strndup(text, (size_t)(equals - text));
	code = key ? wherry_config_set(args->config, key, equals + 1, &err)
		   : wh_oom(&err);
	free(key);
	if (code != WHERRY_OK)
		(void)wh_usage(args->command, "%s", err.message);
	return code == WHERRY_OK;
}

bool wh_apply_option(wh_args *args, const wh_option *option, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (value && strcmp(option->name, "set") == 0)
		return take_set(args, value);
	if (!option->setting)
		return true;
	if (wherry_config_set(args->config, option->setting, value ? value : "on",
			      &err) == WHERRY_OK)
		return true;
	(void)wh_usage(args->command, "--%s: %s", option->name, err.message);
	return false;
}

/* ---- the outbox: by URL, by name, or by WHERRY_URL ---- */

static void insert_operand(wh_args *args, size_t at, char *word)
{
	memmove(args->operands + at + 1, args->operands + at,
		(args->n_operands - at) * sizeof(*args->operands));
	args->operands[at] = word;
	args->n_operands++;
}

/* Use the settings of wherry.yaml, and set those of the command line again, which
 * override them. */
static bool take_settings(wh_args *args, wh_named *named)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *plain = args->config;

	args->config = named->config;
	named->config = plain;
	if (args->command->preset &&
	    wherry_config_set(args->config, args->command->preset, "on", &err) !=
		    WHERRY_OK) {
		(void)wh_report(&err);
		return false;
	}
	for (size_t i = 0; i < args->n_given; i++)
		if (!wh_apply_option(args, args->given[i].option, args->given[i].value))
			return false;
	return true;
}

static bool unknown_name(const wh_args *args, const char *name, const wh_named *named,
			 wherry_code code)
{
	const char *where = named->looked_in ? named->looked_in : "wherry.yaml";

	if (code == WHERRY_NOTFOUND)
		(void)wh_usage(
			args->command,
			"'%s' is not a database URL, such as sqlite:%s or "
			"postgres://HOST/%s, and %s",
			name, name, name,
			named->looked_in
				? "wherry.yaml has no relay of that name"
				: "there is no wherry.yaml with a relay of that name");
	else
		(void)wh_usage(args->command, "relay '%s' of %s cannot be used", name,
			       where);
	return false;
}

/* Does the command have the destination of the relay as its second operand? */
static bool has_to(const wh_args *args)
{
	return strcmp(args->command->operands, "FROM TO") == 0 ||
	       strcmp(args->command->operands, "URL [TO]") == 0;
}

/* Replace the name of a relay in wherry.yaml by its source, and for the commands `relay`
 * and `reconcile` by its destination, too. */
static bool take_name(wh_args *args, const char *shown)
{
	bool relay = has_to(args);
	const char *name = args->operands[0];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_named named;
	wherry_code code = wh_named_find(name, relay, &named, &err);
	bool fine;

	if (code != WHERRY_OK)
		return unknown_name(args, name, &named, code);
	fine = take_settings(args, &named);
	args->from = named.from;
	args->operands[0] = args->from;
	named.from = NULL;
	if (relay && args->n_operands == 1 && named.to) {
		args->to = named.to;
		named.to = NULL;
		insert_operand(args, 1, args->to);
	}
	args->target = wh_target_words(shown);
	wh_named_clear(&named);
	return fine;
}

/* Does the operand name a database or a table?  If not, WHERRY_URL names it. */
static bool names_table(const char *operand)
{
	char *database = strchr(operand, ':') ? wh_url_database(operand) : NULL;
	bool found = database && wh_db_known(database, NULL) == WHERRY_OK;
	wh_named named = {.from = NULL};

	free(database);
	if (*operand == '@' || found)
		return true;
	found = wh_named_find(operand, false, &named, NULL) == WHERRY_OK;
	wh_named_clear(&named);
	return found;
}

/* Refuse `wherry relay URL#NAME` if WHERRY_URL is set.  The table could be the source, or
 * the destination for the outbox in WHERRY_URL: the command line must name both. */
static bool refuse_lone_table(const wh_args *args, const char *standard)
{
	char *table = wh_url_without_secrets(args->operands[0]);
	char *from = wh_url_without_secrets(standard);
	wh_buf words = WH_BUF_INIT(64 * 1024);

	wh_buf_puts(&words, "`wherry relay ");
	wh_put_word(&words, from ? from : "URL");
	wh_buf_putc(&words, ' ');
	wh_put_word(&words, table ? table : "URL");
	(void)wh_usage(args->command,
		       "a queue can be FROM or TO, and WHERRY_URL is set: %s` fills "
		       "it; to deliver its messages, write a destination after it",
		       wh_buf_str(&words));
	wh_buf_clear(&words);
	free(from);
	free(table);
	return false;
}

/* ---- @NAME ---- */

/* The URL of the table @NAME in the database of WHERRY_URL, which can be a name of
 * wherry.yaml; the caller frees it.  NULL: it printed what is wrong. */
static char *url_of(const wh_args *args, const char *at_name, const char *standard)
{
	wh_named named = {.from = NULL};
	wh_buf url = WH_BUF_INIT(64 * 1024);
	char *database, *joined;
	wherry_code code = WHERRY_OK;

	if (!standard) {
		(void)wh_usage(args->command,
			       "'%s' is a table of the database in WHERRY_URL, which is "
			       "not set: write the URL, as in sqlite:shop.db#%s",
			       at_name, at_name + 1);
		return NULL;
	}
	if (!strchr(standard, ':'))
		code = wh_named_find(standard, false, &named, NULL);
	if (code != WHERRY_OK) {
		(void)unknown_name(args, standard, &named, code);
		wh_named_clear(&named);
		return NULL;
	}
	database = wh_url_database(named.from ? named.from : standard);
	wh_buf_printf(&url, "%s#%s", database ? database : "", at_name + 1);
	joined = database ? wh_buf_take(&url) : NULL;
	if (!joined)
		(void)wh_complain(NULL, "out of memory");
	wh_buf_clear(&url);
	free(database);
	wh_named_clear(&named);
	return joined;
}

/* Replace the operand @NAME by its URL, which *out owns. */
static bool take_at_name(wh_args *args, size_t i, const char *standard, char **out)
{
	*out = url_of(args, args->operands[i], standard);
	if (*out)
		args->operands[i] = *out;
	return *out;
}

static bool is_table(const char *operand)
{
	return *operand == '@' || (strchr(operand, ':') && wh_url_table(operand));
}

static bool find_target(wh_args *args)
{
	char *standard = secure_getenv("WHERRY_URL");
	bool relay = strncmp(args->command->operands, "FROM", 4) == 0, inserted;
	char *shown;

	if (!relay && strncmp(args->command->operands, "URL", 3) != 0)
		return true;
	if (standard && !*standard)
		standard = NULL;
	inserted = standard && (!args->n_operands || !names_table(args->operands[0]));
	if (relay && standard && args->n_operands == 1 && !inserted &&
	    is_table(args->operands[0]))
		return refuse_lone_table(args, standard);
	if (inserted)
		insert_operand(args, 0, (char *)standard);
	if (!args->n_operands)
		return true; /* check_operands() refuses this. */
	if (relay && args->n_operands > 1 && *args->operands[1] == '@' &&
	    !take_at_name(args, 1, standard, &args->to))
		return false;
	if (*args->operands[0] == '@') {
		args->target = wh_target_words(args->operands[0]);
		return take_at_name(args, 0, standard, &args->from);
	}
	if (!strchr(args->operands[0], ':'))
		return take_name(args, inserted ? NULL : args->operands[0]);
	shown = inserted ? NULL : wh_url_without_secrets(args->operands[0]);
	args->target = wh_target_words(shown);
	free(shown);
	return true;
}

/* ---- the table that the URL names ---- */

static bool read_table(wh_args *args)
{
	const char *name =
		args->n_operands && args->target ? wh_url_table(args->operands[0]) : NULL;
	wherry_error err = WHERRY_ERROR_INIT;
	char *database = NULL;
	bool fine;

	if (!name)
		return true;
	fine = wh_table_name_read(name, &args->table, &err) == WHERRY_OK &&
	       wh_source_take_url(args->operands[0], args->config, &database, &err) ==
		       WHERRY_OK;
	free(database);
	if (!fine)
		(void)wh_usage(args->command, "%s", err.message);
	return fine;
}

/* Print what the first operand is to be: `form` is what follows URL in the help. */
static void say_form(const wh_args *args, const char *form, bool delayed)
{
	const wh_command *command = args->command;
	size_t len = strcspn(command->operands, " ");

	if (!*args->target && *form == '#')
		(void)wh_usage(command,
			       "%s needs %.*s, such as %s for a table of the database in "
			       "WHERRY_URL",
			       command->name, (int)len, command->operands,
			       delayed ? "@delayed/mail" : "@jobs");
	else
		(void)wh_usage(command, "%s needs %.*s, such as %s", command->name,
			       (int)len, command->operands,
			       delayed        ? "sqlite:shop.db#delayed/mail"
			       : *form == '#' ? "sqlite:shop.db#jobs"
			       : *form == '[' ? "sqlite:shop.db#jobs, without a /"
					      : "sqlite:shop.db, without a #");
}

/* Does the URL name what the first operand is to be?
 *
 *     URL              the database, or of commands that are not plain any table
 *     URL#NAME         a table
 *     URL[#NAME]       a table, or the default
 *     URL[#TABLE]      the same; the name of a delayed queue in it is ignored
 *     URL#TABLE/QUEUE  a delayed queue
 *
 * For a database, a table that WHERRY_URL or a name of wherry.yaml implies is ignored.
 */
static bool check_table(const wh_args *args)
{
	const wh_command *command = args->command;
	bool url = strncmp(command->operands, "URL", 3) == 0;
	const char *form = command->operands + (url ? 3 : 0);
	bool table = *args->table.table, queue = *args->table.queue;
	bool delayed = strncmp(form, "#TABLE/", 7) == 0;

	if (!args->target || !url || (*form != '#' && *form != '[' && !command->plain))
		return true;
	if (command->kinds && table) /* wh_run_for_kind() sees whether it is for them. */
		return true;
	if (delayed        ? queue
	    : *form == '#' ? table && !queue
	    : *form == '[' ? !queue || strncmp(form, "[#TABLE", 7) == 0
			   : !table || !strpbrk(args->target, ":@"))
		return true;
	say_form(args, form, delayed);
	return false;
}

bool wh_take_target(wh_args *args)
{
	return find_target(args) && read_table(args) && check_table(args);
}
