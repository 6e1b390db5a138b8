#include "cli/commands.h"

/* In the order of the help: as they are met in use. */
const wh_command *const wh_commands[] = {
	&wh_cmd_create,
	&wh_cmd_adopt,
	&wh_cmd_enqueue,
	&wh_cmd_relay,
	&wh_cmd_run,
	&wh_cmd_check,
	&wh_cmd_config,
	&wh_cmd_status,
	&wh_cmd_tables,
	&wh_cmd_top,
	&wh_cmd_list,
	&wh_cmd_show,
	&wh_cmd_doctor,
	&wh_cmd_retry,
	&wh_cmd_discard,
	&wh_cmd_purge,
	&wh_cmd_pause,
	&wh_cmd_resume,
	&wh_cmd_seek,
	&wh_cmd_reconcile,
	&wh_cmd_drop,
	&wh_cmd_send,
	&wh_cmd_receive,
	&wh_cmd_offer,
	&wh_cmd_poll,
	&wh_cmd_ack,
	&wh_cmd_nack,
	&wh_cmd_queue,
	&wh_cmd_inbox,
	&wh_cmd_cron,
	&wh_cmd_bench,
	&wh_cmd_help,
	&wh_cmd_completion,
	&wh_cmd_version,
	NULL,
};

bool wh_is_for(const wh_command *command, wh_kind kind)
{
	return command->kinds && command->kinds[kind].run;
}
