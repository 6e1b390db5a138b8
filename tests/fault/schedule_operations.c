/*
 * The public operations on schedules, which use no database, and on crons; "cron" of the template
 * is empty.
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

static wherry_code schedule_hash(world *w, wherry_error *err)
{
	wherry_schedule *schedule = NULL;
	wherry_code code = wherry_schedule_parse("@daily", NULL, &schedule, err);

	if (code == WHERRY_OK)
		code = wherry_schedule_hash(schedule, (char *)w->out.number, err);
	wherry_schedule_free(schedule);
	return code;
}

static wherry_code tick_key(world *w, wherry_error *err)
{
	char key[WHERRY_TICK_KEY_MOST + 1] = "";
	wherry_code code = wherry_tick_key("prefix", "hash", 1, key, err);

	memcpy(w->out.number, key, 100);
	return code;
}

/* ---- crons ---- */

static wherry_code cron_create(world *w, wherry_error *err)
{
	return wherry_cron_create(w->db, "other", err);
}

static wherry_code cron_create_sql(world *w, wherry_error *err)
{
	return wherry_cron_create_sql("sqlite", NULL, (char **)&w->out.made, err);
}

static void drop_text(world *w)
{
	free(w->out.made);
}

static wherry_code cron_open(world *w, wherry_error *err)
{
	return wherry_cron_open(w->db, NULL, (wherry_cron **)&w->out.made, err);
}

static void drop_cron(world *w)
{
	wherry_cron_close(w->out.made);
}

static wherry_code cron_drop(world *w, wherry_error *err)
{
	return wherry_cron_drop(w->cron, err);
}

static wherry_code cron_install(world *w, wherry_error *err)
{
	static const wherry_tick ticks[] = {{1000000, 0, "a", 1}, {2000000, 0, "b", 1}};

	return wherry_cron_install(w->cron, w->delayed, "p", "A", ticks, 2,
				   &w->out.number[0], err);
}

static void install_before(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(cron_install(w, &err));
	w->out.number[0] = 0;
}

static wherry_code cron_install_schedule(world *w, wherry_error *err)
{
	wherry_schedule *schedule = NULL;
	wherry_code code = wherry_schedule_parse("@every 36500d", NULL, &schedule, err);

	if (code == WHERRY_OK)
		code = wherry_cron_install_schedule(w->cron, w->delayed, "p", schedule, 0,
						    WHERRY_CATCH_UP_LAST, "x", 1,
						    &w->out.number[0], err);
	wherry_schedule_free(schedule);
	return code;
}

static wherry_code cron_forget(world *w, wherry_error *err)
{
	return wherry_cron_forget(w->cron, "p", &w->out.number[0], err);
}

static wherry_code cron_uninstall(world *w, wherry_error *err)
{
	return wherry_cron_uninstall(w->cron, w->delayed, "p", "A", &w->out.number[0],
				     err);
}

static wherry_code make_tick(void *ctx, int64_t at_us, wherry_error *err)
{
	return WHERRY_OK;
}

static wherry_code cron_fire(world *w, wherry_error *err)
{
	wherry_schedule *schedule = NULL;
	wherry_code code = wherry_schedule_parse("@every 36500d", NULL, &schedule, err);

	if (code == WHERRY_OK)
		code = wherry_cron_fire(w->cron, "t", "n", schedule, WHERRY_CATCH_UP_ALL,
					make_tick, NULL, &w->out.number[0], NULL, err);
	wherry_schedule_free(schedule);
	return code;
}

static wherry_code see(void *ctx, const wherry_cron_entry *entry)
{
	world *w = ctx;

	w->out.number[0]++;
	w->out.number[1] = entry->until_us;
	return WHERRY_OK;
}

static void see_nothing(world *w)
{
	install_before(w);
	w->out.number[0] = w->out.number[1] = 0;
}

static wherry_code cron_list(world *w, wherry_error *err)
{
	w->out.number[0] = w->out.number[1] = 0;
	return wherry_cron_list(w->cron, see, w, err);
}

/* clang-format off */
const operation schedule_operations[] = {
	{"schedule_parse", schedule_parse, NULL, drop_schedule, NULL, 0},
	{"schedule_next", schedule_next, NULL, NULL, NULL, 0},
	{"schedule_hash", schedule_hash, NULL, NULL, NULL, 0},
	{"tick_key", tick_key, NULL, NULL, NULL, 0},
	{"cron_create", cron_create, NULL, NULL, NULL, 0},
	{"cron_create_sql", cron_create_sql, NULL, drop_text, NULL, 0},
	{"cron_open", cron_open, NULL, drop_cron, NULL, 0},
	{"cron_install", cron_install, NULL, NULL, NULL, 0},
	{"cron_install_schedule", cron_install_schedule, NULL, NULL, NULL, 0},
	{"cron_forget", cron_forget, install_before, NULL, NULL, 0},
	{"cron_uninstall", cron_uninstall, install_before, NULL, NULL, 0},
	{"cron_fire", cron_fire, NULL, NULL, NULL, 0},
	{"cron_list", cron_list, see_nothing, NULL, NULL, 0},
	{"cron_drop", cron_drop, NULL, NULL, NULL, 0},
};
/* clang-format on */
const size_t n_schedule_operations =
	sizeof(schedule_operations) / sizeof(*schedule_operations);
