/*
 * wherry delayed create.
 */
#include "cli/delayed_session.h"
#include "delayed/delayed.h"

static wherry_code make_sql(const wh_args *args, const char *scheme, char **out,
			    wherry_error *err)
{
	return wherry_delayed_create_sql(scheme, wh_delayed_table(args),
					 wh_arg(args, "layout"), out, err);
}

static wherry_code make(const wh_args *args, const wh_place *at, wherry_error *err)
{
	return wherry_delayed_create(at->db, wh_delayed_table(args),
				     wh_arg(args, "layout"), err);
}

static void tell(const wh_args *args, const wh_place *at)
{
	(void)at;
	(void)printf("the table '%s' of delayed queues is ready\n",
		     wh_delayed_table(args));
}

static wh_exit run_create(wh_args *args)
{
	wh_delayed_stmts own;

	return wh_place_create(args, &(wh_creating){.what = "delayed",
						    .name = wh_delayed_table(args),
						    .layout = wh_arg(args, "layout"),
						    .model = &wh_delayed_model,
						    .own = &own,
						    .sql = make_sql,
						    .create = make,
						    .tell = tell});
}

static const wh_option create_options[] = {
	{"layout", "LAYOUT",
	 "native, funfix: the table of the JVM library DelayedQueue, or funfix-old: that of its "
	 "predecessor on SQL Server. (default: that of an "
	 "existing table, else native)",
	 NULL, 0},
	{"grant", "ROLE=KIND",
	 "Give a role of the database exactly the rights that it needs on the table, and "
	 "revoke its other rights on it. KIND is sender, receiver or operator. On "
	 "PostgreSQL and SQL Server.",
	 NULL, WH_REPEAT},
	{"print", NULL, "Print the SQL, and change nothing.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_delayed_create = {
	.name = "delayed create",
	.operands = "URL[#TABLE]",
	.synopsis =
		"URL[#TABLE] [--layout LAYOUT] [--grant ROLE=KIND]... [--print] [--json]",
	.brief = "Create a table for delayed queues, or bring it up to date",
	.help = "Doing it twice is fine. A table holds any number of queues, which need not be "
		"created. With the layout funfix the table is shared with programs of the JVM "
		"library DelayedQueue.\n"
		"\n"
		"Examples:\n"
		"  wherry delayed create sqlite:shop.db\n"
		"  wherry delayed create sqlite:shop.db#reminders\n"
		"  wherry delayed create postgres://shop@db/shop#reminders --layout funfix\n"
		"  wherry delayed create postgres://shop@db/shop --grant web=sender\n",
	.options = create_options,
	.plain = true,
	.run = run_create,
};
