/*
 * Cron: messages at the times of schedules, one message for each time.
 *
 * A cron is a table that records, for each schedule, up to which time its ticks were made.  A
 * program that makes ticks reads and writes this record in the same transaction, by the database's
 * clock.  So several programs may run the same schedules, and a program whose clock is wrong
 * neither repeats nor loses a tick.  No tick is repeated if the database's clock is set back, or if
 * a queue has another clock (wherry_delayed_set_clock()).
 */
#ifndef WHERRY_CRON_H
#define WHERRY_CRON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/delayed.h>
#include <wherry/schedule.h>

/* One cron on one connection.  Use it and the connection from one thread at a time. */
typedef struct wherry_cron wherry_cron;

enum { WHERRY_TICK_KEY_MOST = 200 /* Longest key of a tick, in bytes. */ };

/* A tick to install; start from {0}. */
typedef struct wherry_tick {
	/* Time of the tick by its schedule, Unix time, microseconds; names the tick. */
	int64_t at_us;
	/* When it can be polled, Unix time, microseconds; 0: at_us. */
	int64_t deliver_us;
	const void *body; /* Any bytes; may be NULL if body_len is 0. */
	size_t body_len;  /* Length in bytes, or WHERRY_TEXT. */
} wherry_tick;

/* Says what to do with times of a schedule that passed while no program made its ticks. */
typedef enum wherry_catch_up {
	WHERRY_CATCH_UP_NONE, /* Skip times that are more than a minute late. */
	/* Skip them too, but if all are that late, make the last one. */
	WHERRY_CATCH_UP_LAST,
	WHERRY_CATCH_UP_ALL /* Make each of them, up to 10000 in one call. */
} wherry_catch_up;

/* Record of a schedule in a cron. */
typedef struct wherry_cron_entry {
	/* Where its ticks go: the kind of a delayed queue, or another name. */
	const char *target;
	const char *name; /* Prefix of its ticks, or another name. */
	const char *hash; /* Hash of its configuration. */
	/* Time up to which its ticks were made, Unix time, microseconds; 0: none was
	 * made. */
	int64_t until_us;
	/* False: another configuration replaced it, or it was uninstalled. */
	bool active;
	/* Text that was given to wherry_schedule_parse(); NULL: not known. */
	const char *schedule;
	/* Time zone that was given with it; NULL: not known, or a period. */
	const char *zone;
	/* Target in words, such as "delayed queue jobs"; NULL: not known. */
	const char *sends_to;
} wherry_cron_entry;

/** Called for each entry, which is borrowed for the call.  If it returns another code than
 *  WHERRY_OK, wherry_cron_list() ends and returns that code. */
typedef wherry_code (*wherry_cron_entry_fn)(void *ctx, const wherry_cron_entry *entry);

/** Called for a tick, in the transaction that records it.  at_us is the time of the tick, Unix
 *  time in microseconds.  If it returns another code than WHERRY_OK, the transaction is undone. */
typedef wherry_code (*wherry_tick_fn)(void *ctx, int64_t at_us, wherry_error *err);

WHERRY_BEGIN

/* ---- schema ---- */

/**
 * Create a cron.  Programs may repeat this, also at the same time.
 *
 * @param db    A connection with no transaction open.
 * @param name  Name of its table, by the rules of wherry_outbox_create(); NULL: "cron".
 * @param err   Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name; a table of this name that is not a cron);
 *         WHERRY_TOONEW; WHERRY_DENIED; WHERRY_READONLY; WHERRY_BUSY; WHERRY_FULL.
 *
 * Transaction: its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_create(wherry_db *db, const char *name,
							  wherry_error *err);

/** Write out the SQL of wherry_cron_create(); the caller frees *out with free().  `scheme` is the
 *  scheme of the database's URL. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_create_sql(const char *scheme,
							      const char *name,
							      char **out,
							      wherry_error *err);

/**
 * Open a cron that exists.
 *
 * @param db    Connection to its database; borrowed until wherry_cron_close().
 * @param name  Name of the cron; copied.  NULL: "cron".
 * @param out   Receives the cron; the caller closes it with wherry_cron_close().
 * @return WHERRY_OK; WHERRY_INVALID (bad name); WHERRY_NOTFOUND (no such cron); WHERRY_TOONEW;
 *         any code of a failed read.
 *
 * Blocks: for a few small reads.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_open(wherry_db *db, const char *name,
							wherry_cron **out,
							wherry_error *err);

/** Close a cron; its connection stays open.  NULL is allowed. */
WHERRY_API void wherry_cron_close(wherry_cron *cron);

/** Remove a cron.  Afterwards only wherry_cron_close() may be called with the handle. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_drop(wherry_cron *cron,
							wherry_error *err);

/* ---- names ---- */

/**
 * Write the key of a tick, "PREFIX/HASH/20240101-110000.000000000", in UTC.
 *
 * @param prefix  First part; not empty, at most 100 bytes, without '/'.
 * @param hash    Second part; not empty, at most 64 bytes, without '/'.
 * @param at_us   Time of the tick, Unix time in microseconds, in the years 1 to 9999.
 * @param out     Receives the key, which ends in NUL.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_tick_key(const char *prefix,
						       const char *hash, int64_t at_us,
						       char out[WHERRY_TICK_KEY_MOST + 1],
						       wherry_error *err);

/* ---- ticks on a delayed queue ---- */

/**
 * Install a set of ticks under a prefix and a hash.  Ticks under the prefix with another hash are
 * removed unless they are due or were polled.
 *
 * A tick whose key has a message is not changed.  A tick that is not later than the latest tick of
 * this hash may have been handled: it is installed again only if its message is gone although it is
 * due more than an hour from now.  So install ticks in the order of their times.  Ticks that were
 * removed because another hash was installed, or by wherry_cron_uninstall(), can be installed again.
 *
 * @param queue        Queue for the ticks, on the cron's connection.  Its clock decides which ticks
 *                     are due.
 * @param prefix       First part of the keys; see wherry_tick_key().
 * @param hash         Hash of the configuration that the ticks come from; see wherry_tick_key().
 * @param ticks        Ticks; n of them.  With none, only ticks of other hashes are removed.
 * @param out_created  Receives the number of ticks installed; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (a malformed prefix or hash, a time out of range, a queue on
 *         another connection); WHERRY_TOOBIG; any code of a failed write.
 *
 * Transaction: the one that is open, which a failure leaves intact; else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_install(
	wherry_cron *cron, wherry_delayed *queue, const char *prefix, const char *hash,
	const wherry_tick *ticks, size_t n, int64_t *out_created, wherry_error *err);

/**
 * Install the ticks of a schedule, from the last one installed up to `ahead_us` microseconds from
 * now, and at least the next one; at most 10000 in one call.  Ticks of that time whose message is
 * gone are installed again as wherry_cron_install() says, so a queue that was emptied gets its ticks
 * again.  Call this again before the last of them is due.  The other parameters, the codes and the
 * transaction are those of wherry_cron_install().
 *
 * @param catch_up  What to do with times that passed since the last tick.  The first call for a
 *                  schedule begins with the first time after now.
 * @param body      Body of each tick.  Ticks that are installed keep the body they have.
 * @param body_len  Length of `body` in bytes, or WHERRY_TEXT.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_install_schedule(
	wherry_cron *cron, wherry_delayed *queue, const char *prefix,
	const wherry_schedule *schedule, int64_t ahead_us, wherry_catch_up catch_up,
	const void *body, size_t body_len, int64_t *out_created, wherry_error *err);

/** Remove the ticks under a prefix and a hash, except those that were polled.  out_n receives their
 *  number; may be NULL.  Transaction: the one that is open, else its own. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_cron_uninstall(wherry_cron *cron, wherry_delayed *queue, const char *prefix,
		      const char *hash, int64_t *out_n, wherry_error *err);

/* ---- ticks for anything else ---- */

/**
 * Make the ticks of a schedule that are due: call fn for each, and record them, in one transaction.
 * fn may write on the cron's connection, for example a message to an outbox: then each tick is
 * written once, also if several programs make this call.
 *
 * A target and a name have one schedule.  A call with another schedule replaces the one before, and
 * begins with its last tick, at most a minute back.  So programs that give different schedules under
 * one name replace each other's schedule, and lose ticks.
 *
 * @param target       Where the ticks go, at most 200 bytes.
 * @param name         Name of the schedule, at most 100 bytes.
 * @param catch_up     What to do with times that passed since the last tick.
 * @param out_n        Receives the number of ticks made; may be NULL.
 * @param out_next_us  Receives the time until the next tick, microseconds; may be NULL.
 * @return WHERRY_OK; the code that fn returned; WHERRY_INVALID; any code of a failed write.
 *
 * Blocks: while another program makes ticks of the same schedule.
 * Transaction: the one that is open, which a failure leaves intact; else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_fire(
	wherry_cron *cron, const char *target, const char *name,
	const wherry_schedule *schedule, wherry_catch_up catch_up, wherry_tick_fn fn,
	void *ctx, int64_t *out_n, int64_t *out_next_us, wherry_error *err);

/* ---- for operators ---- */

/**
 * Delete the records of every schedule of a name.  A program that still makes its ticks begins with
 * the first time after now.  The messages of its ticks stay.
 *
 * @param out_n  Receives the number of records deleted; may be NULL.
 * @return WHERRY_OK, also if there is no record; WHERRY_INVALID; any code of a failed write.
 *
 * Blocks: while a program makes ticks of the name.
 * Transaction: the one that is open, else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_forget(wherry_cron *cron,
							  const char *name,
							  int64_t *out_n,
							  wherry_error *err);

/** Visit the records of the cron, in the order of target, name and hash. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_list(wherry_cron *cron,
							wherry_cron_entry_fn visit,
							void *ctx, wherry_error *err);

WHERRY_END

#endif
