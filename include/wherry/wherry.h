/*
 * Wherry: transactional messaging on the database you already run.
 *
 * Includes all headers of libwherry except wherry/sqlite.h, wherry/postgres.h and wherry/odbc.h,
 * which join the application's own transactions on these databases.
 */
#ifndef WHERRY_WHERRY_H
#define WHERRY_WHERRY_H

#include <wherry/config.h>
#include <wherry/cron.h>
#include <wherry/db.h>
#include <wherry/delayed.h>
#include <wherry/error.h>
#include <wherry/handlers.h>
#include <wherry/inbox.h>
#include <wherry/log.h>
#include <wherry/message.h>
#include <wherry/lease.h>
#include <wherry/outbox.h>
#include <wherry/publisher.h>
#include <wherry/queue.h>
#include <wherry/relay.h>
#include <wherry/retry.h>
#include <wherry/schedule.h>
#include <wherry/subscription.h>
#include <wherry/version.h>

#endif
