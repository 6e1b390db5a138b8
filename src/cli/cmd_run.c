#include "cli/commands.h"

#include "cli/target.h"
#include "daemon/daemon.h"

/* One call a line, so that threads do not mix theirs. */
static void put(const char *line)
{
	(void)fputs(line, stderr);
}

static wh_exit run(wh_args *args)
{
	return (wh_exit)wh_daemon_run(wh_plan_file(wh_operand(args, 0)), put);
}

const wh_command wh_cmd_run = {
	.name = "run",
	.operands = "[FILE]",
	.synopsis = "[FILE]",
	.brief = "Run all relays and entries of cron of a file, and watch them",
	.help = "FILE is " WH_PLAN_FILE
		" in this folder or in /etc/wherry unless named. Each relay has its own thread; "
		"one that fails is started again, after a while that grows to 30 "
		"seconds, and the others go on. It runs until SIGTERM or SIGINT, "
		"finishes what is in flight, and ends; a second signal ends it at once. "
		"SIGHUP reads the file again. The log goes to standard error, one event a "
		"line.\n"
		"\n"
		"A relay with match: 'tenant_*' stands for the outboxes of all schemas of that "
		"pattern, on PostgreSQL; on SQLite, of the files of a folder. These come and go "
		"while it runs, and share a few connections.\n"
		"\n"
		"An entry of the list cron writes a message to an outbox, a queue or a delayed "
		"queue at each time of a schedule. Any number of daemons may run the same file: "
		"each message is written once. The entry needs the table that `wherry create --kind "
		"cron` makes.\n"
		"\n"
		"With http: {listen: 127.0.0.1:9464} in the file it answers /healthz, "
		"/readyz and /metrics.\n"
		"\n"
		"Examples:\n"
		"  wherry config --sample > wherry.yaml\n"
		"  wherry check && wherry run\n"
		"  wherry run /etc/wherry/wherry.yaml\n",
	.plain = true,
	.run = run,
};
