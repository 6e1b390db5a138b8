#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/driver.h"

wh_exit wh_call_failed(const wh_args *args, wherry_code code, const wherry_error *err)
{
	return code == WHERRY_INVALID ? wh_usage(args->command, "%s", err->message)
				      : wh_report(err);
}

static void set_target(wh_place *place, const wh_args *args)
{
	wh_buf target = WH_BUF_INIT(sizeof(place->target));

	wh_buf_puts(&target, args->target ? args->target : "");
	if (*place->name) {
		wh_buf_putc(&target, ' ');
		wh_put_word(&target, place->name);
	}
	(void)snprintf(place->target, sizeof(place->target), "%s", wh_buf_str(&target));
	wh_buf_clear(&target);
	wh_report_target(place->target);
}

wh_exit wh_place_open(wh_place *place, const wh_args *args)
{
	const char *name = wh_operand(args, 1);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	*place = (wh_place){.name = name ? name : ""};
	set_target(place, args);
	code = wh_db_open_own(wh_operand(args, 0), args->config, &place->db, &err);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_call_failed(args, code, &err);
}

void wh_place_close(wh_place *place)
{
	wherry_db_close(place->db);
	place->db = NULL;
	wh_report_target("");
}

bool wh_arg_grants(const wh_args *args, const char **out, size_t *out_n)
{
	const char *value;
	size_t at = 0;

	for (*out_n = 0; (value = wh_arg_next(args, "grant", &at));
	     out[(*out_n)++] = value)
		if (*out_n == WH_GRANTS_MOST) {
			(void)wh_usage(args->command, "more than %d times --grant",
				       WH_GRANTS_MOST);
			return false;
		}
	return true;
}

wh_exit wh_print_sql(const wh_args *args, wh_sql_fn make)
{
	const char *url = wh_operand(args, 0);
	size_t len = strcspn(url, ":");
	wherry_error err = WHERRY_ERROR_INIT;
	char scheme[16], *sql = NULL;

	(void)snprintf(scheme, sizeof(scheme), "%.*s", (int)(len < 15 ? len : 15), url);
	if (make(args, scheme, &sql, &err) != WHERRY_OK)
		return wh_report(&err);
	(void)fputs(sql, stdout);
	free(sql);
	return WH_EXIT_DONE;
}

wh_exit wh_place_create(const wh_args *args, const wh_creating *how)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_place at;
	wherry_code code;
	wh_exit status;

	if (wh_arg_on(args, "print"))
		return wh_print_sql(args, how->sql);
	if (wherry_config_set(args->config, "db.create", "on", &err) != WHERRY_OK)
		return wh_report(&err);
	status = wh_place_open(&at, args);
	if (status != WH_EXIT_DONE)
		return status;
	code = how->create(args, &at, how->ctx, &err);
	if (code != WHERRY_OK)
		status = wh_call_failed(args, code, &err);
	else if (wh_arg_on(args, "json"))
		(void)printf("{\"%s\":\"ready\"}\n", how->what);
	else
		how->tell(args, &at);
	wh_place_close(&at);
	return status;
}
