/*
 * The commands "wherry cron …" that work on a database.
 */
#ifndef WH_CLI_CRON_WORDS_H
#define WH_CLI_CRON_WORDS_H

#include "cli/cli.h"

extern const wh_command wh_cron_install_word;
extern const wh_command wh_cron_uninstall_word;
extern const wh_command wh_cron_forget_word;
extern const wh_command wh_cron_list_word;

#endif
