#include "cli/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/grants.h"

wh_exit wh_call_failed(const wh_args *args, wherry_code code, const wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(64 * 1024);

	if (code != WHERRY_INVALID)
		return wh_report(err);
	wh_put_message(&text, err);
	(void)wh_usage(args->command, "%s", wh_buf_str(&text));
	wh_buf_clear(&text);
	return WH_EXIT_USAGE;
}

wh_exit wh_place_open(wh_place *place, const wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	*place = (wh_place){.name = args->table.table, .target = args->target};
	code = wh_db_open_own(wh_operand(args, 0), args->config, &place->db, &err);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_call_failed(args, code, &err);
}

void wh_place_close(wh_place *place)
{
	wherry_db_close(place->db);
	place->db = NULL;
	wh_report_kinds(0);
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

/* The values of --grant. */
typedef struct grants {
	const char *all[WH_GRANTS_MOST];
	size_t n;
} grants;

/* Append the SQL that grants rights to roles. */
static wherry_code add_grants(const wh_creating *how, const grants *given,
			      const char *scheme, char **inout, wherry_error *err)
{
	const char *known = wh_db_scheme(wh_view_of(scheme));
	wh_store store = wh_store_init(NULL, how->model);
	wh_buf text = WH_BUF_INIT(512 * 1024);
	wherry_code code =
		wh_store_load(&store, known, how->layout, how->name, how->own, err);

	wh_buf_printf(&text, "%s-- rights of %s %s\nBEGIN TRANSACTION;\n", *inout,
		      how->what, how->name);
	if (code == WHERRY_OK)
		code = wh_store_grant_sql(&store, known, given->all, given->n, &text,
					  err);
	wh_buf_puts(&text, "COMMIT;\n");
	if (code == WHERRY_OK)
		code = wh_buf_check(&text, err);
	free(*inout);
	*inout = code == WHERRY_OK ? wh_buf_take(&text) : NULL;
	wh_buf_clear(&text);
	wh_store_clear(&store);
	return code;
}

static wh_exit print_sql(const wh_args *args, const wh_creating *how, const grants *given)
{
	const char *url = wh_operand(args, 0);
	size_t len = strcspn(url, ":");
	wherry_error err = WHERRY_ERROR_INIT;
	char scheme[16], *sql = NULL;
	wherry_code code;

	(void)snprintf(scheme, sizeof(scheme), "%.*s", (int)(len < 15 ? len : 15), url);
	code = how->sql(args, scheme, &sql, &err);
	if (code == WHERRY_OK && given->n)
		code = add_grants(how, given, scheme, &sql, &err);
	if (code != WHERRY_OK)
		return wh_report(&err);
	(void)fputs(sql, stdout);
	free(sql);
	return WH_EXIT_DONE;
}

static wherry_code grant(const wh_place *at, const wh_creating *how, const grants *given,
			 wherry_error *err)
{
	wh_store store = wh_store_init(at->db, how->model);
	wh_version version;
	wherry_code code;

	store.making = true; /* Look where the table was made. */
	code = wh_store_recognize(&store, how->name, how->own, &version, err);
	if (code == WHERRY_OK)
		code = wh_store_grant(&store, given->all, given->n, err);
	wh_store_clear(&store);
	return code;
}

/* Create the table, and then grant the rights on it. */
static wherry_code create(const wh_args *args, const wh_place *at, const wh_creating *how,
			  const grants *given, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (given->n)
		code = wh_store_grant_ready(at->db, how->model, how->layout, given->all,
					    given->n, err);
	if (code == WHERRY_OK)
		code = how->create(args, at, err);
	return code == WHERRY_OK && given->n ? grant(at, how, given, err) : code;
}

wh_exit wh_place_create(const wh_args *args, const wh_creating *how)
{
	wherry_error err = WHERRY_ERROR_INIT;
	grants given = {.n = 0};
	wh_place at;
	wherry_code code;
	wh_exit status;

	if (how->model && !wh_arg_grants(args, given.all, &given.n))
		return WH_EXIT_USAGE;
	if (wh_arg_on(args, "print"))
		return print_sql(args, how, &given);
	if (wherry_config_set(args->config, "db.create", "on", &err) != WHERRY_OK)
		return wh_report(&err);
	status = wh_place_open(&at, args);
	if (status != WH_EXIT_DONE)
		return status;
	code = create(args, &at, how, &given, &err);
	if (code != WHERRY_OK)
		status = wh_call_failed(args, code, &err);
	else if (wh_arg_on(args, "json"))
		(void)printf("{\"%s\":\"ready\"}\n", how->what);
	else
		how->tell(args, &at);
	wh_place_close(&at);
	return status;
}
