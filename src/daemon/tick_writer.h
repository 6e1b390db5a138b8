/*
 * One entry of cron on one connection: its memory of ticks, and the outbox, queue or delayed
 * queue that its messages go to.
 */
#ifndef WH_DAEMON_TICK_WRITER_H
#define WH_DAEMON_TICK_WRITER_H

#include "cron/cron.h"
#include "daemon/plan.h"
#include "delayed/delayed.h"
#include "outbox/outbox.h"
#include "queue/queue.h"

/* What the memory of a cron calls the target of every entry of wherry.yaml.  The name of an entry
 * tells them apart, so an entry whose target is changed goes on where it was. */
#define WH_TICK_TARGET "wherry run"

/* If an entry has not been looked at for so long, no daemon makes its ticks. */
#define WH_TICKS_GONE_US (90 * WH_SECOND)

typedef struct wh_tick_writer {
	const wh_plan_cron *plan;
	wherry_db *db;
	wherry_cron *cron;
	/* One of them, as plan->to says. */
	wherry_outbox *box;
	wherry_queue *queue;
	wherry_delayed *delayed;
	char hash[WHERRY_HASH_LEN + 1]; /* of the schedule */
	int64_t last_us;                /* Unix time of the tick that was written last */
} wh_tick_writer;

/*
 * Open the tables on a connection, and see whether the message can be written: it is, and the
 * transaction is rolled back.  So a message that the table refuses is an error now, and not at
 * its time.
 *
 * @param db  Borrowed until wh_tick_writer_close().
 */
wherry_code wh_tick_writer_open(wh_tick_writer *w, const wh_plan_cron *plan,
				wherry_db *db, wherry_error *err);
void wh_tick_writer_close(wh_tick_writer *w);

/*
 * Write the messages of the ticks that are due, and remember their ticks, in one transaction.  Call
 * it at least every 30 s.
 *
 * @param takes  Make this schedule the active one of its name.  Otherwise it yields to
 *               another one whose ticks somebody makes: see wh_cron_turn.
 */
wherry_code wh_tick_writer_fire(wh_tick_writer *w, bool takes, wh_cron_turn *out,
				wherry_error *err);

#endif
