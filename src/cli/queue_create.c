/*
 * wherry queue create.
 */
#include "cli/queue_session.h"
#include "queue/queue.h"

static wherry_queue_options making(const wh_args *args)
{
	return WHERRY_QUEUE_OPTIONS(.layout = wh_arg(args, "layout"),
				    .payload = wh_arg(args, "payload"));
}

static wherry_code make_sql(const wh_args *args, const char *scheme, char **out,
			    wherry_error *err)
{
	const wherry_queue_options how = making(args);

	return wherry_queue_create_sql(scheme, args->table.table, &how, out, err);
}

static wherry_code make(const wh_args *args, const wh_place *at, wherry_error *err)
{
	const wherry_queue_options how = making(args);

	return wherry_queue_create(at->db, at->name, &how, err);
}

static void tell(const wh_args *args, const wh_place *at)
{
	(void)args;
	(void)printf("queue '%s' is ready: `wherry send%s '{}'` sends a message\n",
		     at->name, at->target);
}

static wh_exit run_create(wh_args *args)
{
	wh_queue_stmts own;

	return wh_place_create(args, &(wh_creating){.what = "queue",
						    .name = args->table.table,
						    .layout = wh_arg(args, "layout"),
						    .model = &wh_queue_model,
						    .own = &own,
						    .sql = make_sql,
						    .create = make,
						    .tell = tell});
}

static const wh_option create_options[] = {
	{"layout", "LAYOUT",
	 "native; or nservicebus, on PostgreSQL and SQL Server. (default: that of an existing table, else native)",
	 NULL, 0},
	{"payload", "TYPE",
	 "The type of the column of bodies: on PostgreSQL json, jsonb, text or bytea, on "
	 "SQL Server text or bytea. (default json, on SQL Server text)",
	 NULL, 0},
	{"grant", "ROLE=KIND",
	 "Give a role of the database exactly the rights that it needs on the queue, and "
	 "revoke its other rights on the tables. KIND is sender, receiver or operator. On "
	 "PostgreSQL and SQL Server.",
	 NULL, WH_REPEAT},
	{"print", NULL, "Print the SQL, and change nothing.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_create = {
	.name = "queue create",
	.operands = "URL#NAME",
	.synopsis =
		"URL#NAME [--layout LAYOUT] [--payload TYPE] [--grant ROLE=KIND]... [--print] "
		"[--json]",
	.brief = "Create a queue, or bring it up to date",
	.help = "Doing it twice is fine. With the layout nservicebus the queue is shared with "
		"endpoints of NServiceBus, on its own tables.\n"
		"\n"
		"Examples:\n"
		"  wherry queue create sqlite:shop.db#jobs\n"
		"  wherry queue create postgres://shop@db/shop#jobs --grant web=sender\n"
		"  wherry queue create postgres://shop@db/shop#orders --layout nservicebus\n"
		"  wherry queue create sqlite:shop.db#jobs --print\n",
	.options = create_options,
	.plain = true,
	.run = run_create,
};
