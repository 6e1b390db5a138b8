/*
 * The public operations on schedules, which use no database.
 */
#include "operations.h"

static wherry_code schedule_parse(world *w, wherry_error *err)
{
	return wherry_schedule_parse("30 2 * * MON-FRI", "Europe/Berlin",
				     (wherry_schedule **)&w->out.made, err);
}

static void drop_schedule(world *w)
{
	wherry_schedule_free(w->out.made);
}

static wherry_code schedule_next(world *w, wherry_error *err)
{
	wherry_schedule *schedule = NULL;
	wherry_code code = wherry_schedule_parse("@daily", NULL, &schedule, err);

	if (code == WHERRY_OK)
		code = wherry_schedule_next(schedule, 0, w->out.number, err);
	wherry_schedule_free(schedule);
	return code;
}

/* clang-format off */
const operation schedule_operations[] = {
	{"schedule_parse", schedule_parse, NULL, drop_schedule, NULL, 0},
	{"schedule_next", schedule_next, NULL, NULL, NULL, 0},
};
/* clang-format on */
const size_t n_schedule_operations =
	sizeof(schedule_operations) / sizeof(*schedule_operations);
