/*
 * A command applied to the table that the URL names, by the kind of that table.
 */
#include "cli/cli.h"

/* How many kinds is the command for whose names look alike in a URL? */
static int n_alike(const wh_command *command)
{
	int n = 0;

	for (int i = 0; i < WH_KINDS; i++)
		n += i != WH_OF_DELAYED && wh_is_for(command, (wh_kind)i);
	return n;
}

/* The kind to which the command is applied; WH_KINDS: the database says it. */
static wh_kind choose(const wh_args *args)
{
	const wh_command *command = args->command;
	int first = 0;

	if (*args->table.queue) /* A delayed queue, or a subscription of an outbox. */
		return wh_is_for(command, WH_OF_OUTBOX) ? WH_KINDS : WH_OF_DELAYED;
	if (*args->table.table && n_alike(command) != 1)
		return WH_KINDS;
	while (first < WH_KINDS && !wh_is_for(command, (wh_kind)first))
		first++;
	return (wh_kind)first;
}

/* If the table is not found, opening it as one of the first kind says so. */
static wh_kind look_up(const wh_args *args, wh_session *s)
{
	wh_kind kind = wh_kind_of(s->db, args->table.table), first = 0;

	if (*args->table.queue && kind == WH_KINDS)
		return wh_is_for(args->command, WH_OF_DELAYED) ? WH_OF_DELAYED
							       : WH_OF_OUTBOX;
	if (*args->table.queue)
		return kind == WH_OF_OUTBOX ? WH_OF_OUTBOX : WH_OF_DELAYED;
	while (!wh_is_for(args->command, first))
		first++;
	return kind == WH_KINDS ? first : kind;
}

static wh_exit refuse(const wh_args *args, wh_kind kind)
{
	const wh_without *without = args->command->kinds[kind].without;

	if (!wh_is_for(args->command, kind))
		return wh_refuse_kind(args, kind);
	if (kind == WH_OF_DELAYED && !*args->table.queue)
		return wh_usage(args->command,
				"%s needs %s, such as "
				"sqlite:shop.db#delayed/mail",
				args->command->name, args->command->operands);
	return !without || wh_allows(args, without) ? WH_EXIT_DONE : WH_EXIT_USAGE;
}

wh_exit wh_run_for_kind(const wh_args *args)
{
	wh_session s = {.kind = WH_KINDS};
	wh_kind kind = choose(args);
	wh_exit status = kind == WH_KINDS ? wh_session_connect(&s, args) : WH_EXIT_DONE;

	if (status != WH_EXIT_DONE)
		return status;
	kind = kind == WH_KINDS ? look_up(args, &s) : kind;
	status = refuse(args, kind);
	if (status == WH_EXIT_DONE && !s.db)
		status = wh_session_connect(&s, args);
	if (status == WH_EXIT_DONE && !args->command->kinds[kind].opens)
		status = wh_session_table(&s, args, kind);
	if (status == WH_EXIT_DONE)
		status = args->command->kinds[kind].run(args, &s);
	wh_session_close(&s);
	return status;
}
