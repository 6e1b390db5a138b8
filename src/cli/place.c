#include "cli/target.h"
#include "db/driver.h"

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
