/*
 * The messages of a period and their states in a log, to compare them with the destination; and to deliver some of them
 * again.  Layouts other than `log` and `adopted` lack this, and SQL Server does.
 */
#ifndef WH_OUTBOX_PERIOD_H
#define WH_OUTBOX_PERIOD_H

#include "outbox/outbox.h"

typedef struct wh_period {
	int64_t since_us,
		until_us; /* Messages that were made from then on, and before then.  Unix time. */
} wh_period;

/* A message of the period.  Texts are valid during the visit. */
typedef struct wh_period_row {
	wherry_state state;
	const wherry_message *message; /* No body. */
} wh_period_row;

typedef wherry_code (*wh_period_fn)(void *ctx, const wh_period_row *row,
				    wherry_error *err);

/* UNSUPPORTED: the layout, or this database, lacks the statements. */
wherry_code wh_outbox_can_reconcile(const wherry_outbox *outbox, wherry_error *err);

typedef struct wh_kept {
	int64_t first; /* The lowest number of a message that the outbox has, whatever its state; 0: it is empty. */
	int64_t delivered; /* The lowest of those that the subscription has delivered; 0: there is none. */
	int64_t delivered_us; /* When that one was made. */
} wh_kept;

/* Find the oldest messages that the outbox still has. */
wherry_code wh_outbox_first_kept(wherry_outbox *outbox, wh_kept *out, wherry_error *err);

/* Visit the messages of the period that the subscription has, in the order of their numbers.  They have a number, a message
 * id, a topic and a time. */
wherry_code wh_outbox_visit_period(wherry_outbox *outbox, const wh_period *period,
				   wh_period_fn visit, void *ctx, wherry_error *err);

/* Visit these messages, in the order of their numbers, with key and headers too.  Messages that are gone are left out. */
wherry_code wh_outbox_visit_numbers(wherry_outbox *outbox, const int64_t *numbers,
				    size_t n, wh_period_fn visit, void *ctx,
				    wherry_error *err);

/* Make these messages pending if they were delivered, in one transaction, and let relays look for them. */
wherry_code wh_outbox_deliver_again(wherry_outbox *outbox, const int64_t *numbers,
				    size_t n, int64_t *out_n, wherry_error *err);

#endif
