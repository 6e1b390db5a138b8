/*
 * The table entry of each command; commands.c lists them.
 */
#ifndef WH_CLI_COMMANDS_H
#define WH_CLI_COMMANDS_H

#include "cli/cli.h"

extern const wh_command wh_cmd_adopt;
extern const wh_command wh_cmd_reconcile;
extern const wh_command wh_cmd_create;
extern const wh_command wh_cmd_queue;
extern const wh_command wh_cmd_inbox;
extern const wh_command wh_cmd_cron;
extern const wh_command wh_cmd_enqueue;
extern const wh_command wh_cmd_send;
extern const wh_command wh_cmd_receive;
extern const wh_command wh_cmd_offer;
extern const wh_command wh_cmd_poll;
extern const wh_command wh_cmd_ack;
extern const wh_command wh_cmd_nack;
extern const wh_command wh_cmd_relay;
extern const wh_command wh_cmd_run;
extern const wh_command wh_cmd_check;
extern const wh_command wh_cmd_completion;
extern const wh_command wh_cmd_config;
extern const wh_command wh_cmd_status;
extern const wh_command wh_cmd_list;
extern const wh_command wh_cmd_show;
extern const wh_command wh_cmd_doctor;
extern const wh_command wh_cmd_drop;
extern const wh_command wh_cmd_seek;
extern const wh_command wh_cmd_tables;
extern const wh_command wh_cmd_top;
extern const wh_command wh_cmd_retry;
extern const wh_command wh_cmd_discard;
extern const wh_command wh_cmd_purge;
extern const wh_command wh_cmd_pause;
extern const wh_command wh_cmd_resume;
extern const wh_command wh_cmd_bench;
extern const wh_command wh_cmd_help;
extern const wh_command wh_cmd_version;

#endif
