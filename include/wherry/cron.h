/*
 * Cron: messages at the times of schedules, each of them once.
 *
 * A cron is a table that remembers, for each schedule, up to which time its ticks were made.
 * A program that makes ticks reads and writes this memory in the same transaction, by the database's
 * clock.  So several programs may run the same schedules, and a program whose clock is wrong
 * neither repeats nor loses a tick.  Nor is a tick repeated if the database's clock is set back, or
 * if a queue has another clock (wherry_delayed_set_clock()).
 */
#ifndef WHERRY_CRON_H
#define WHERRY_CRON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/delayed.h>
#include <wherry/schedule.h>

/* One cron on one connection.  One thread at a time, as its connection. */
typedef struct wherry_cron wherry_cron;

enum { WHERRY_TICK_KEY_MOST = 200 /* of a tick's key, bytes */ };

/* A tick to install; start from {0}. */
typedef struct wherry_tick {
	int64_t at_us;      /* its time by the schedule, Unix time: names the tick */
	int64_t deliver_us; /* when it can be polled, Unix time; 0: at_us */
	const void *body;   /* any bytes; may be NULL if body_len is 0 */
	size_t body_len;    /* bytes, or WHERRY_TEXT */
} wherry_tick;

/* What happens to the times of a schedule that passed while nobody made its ticks. */
typedef enum wherry_catch_up {
	WHERRY_CATCH_UP_NONE, /* skip those that are more than a minute late */
	WHERRY_CATCH_UP_LAST, /* the same, but if all are that late, make the last one */
	WHERRY_CATCH_UP_ALL   /* make each of them, up to 10000 in one call */
} wherry_catch_up;

/* What a cron remembers of a schedule. */
typedef struct wherry_cron_entry {
	const char *
		target; /* what its ticks go to: the kind of a delayed queue, or another name */
	const char *name; /* the prefix of its ticks, or another name */
	const char *hash; /* of its configuration */
	int64_t until_us; /* Unix time up to which its ticks were made; 0: none was */
	bool active; /* false: another configuration took its place, or it was uninstalled */
	/* The rest is NULL where it is not known. */
	const char *schedule; /* as it was given to wherry_schedule_parse() */
	const char *zone;     /* that it was given; NULL also for a period */
	const char *sends_to; /* in words: "delayed queue jobs" */
} wherry_cron_entry;

/** Called for each entry, which is borrowed for the call.  Another code than WHERRY_OK ends the
 *  call that visits, which then returns that code. */
typedef wherry_code (*wherry_cron_entry_fn)(void *ctx, const wherry_cron_entry *entry);

/** Called for a tick, in the transaction that remembers it; at_us: Unix time.  Another code than
 *  WHERRY_OK undoes the transaction. */
typedef wherry_code (*wherry_tick_fn)(void *ctx, int64_t at_us, wherry_error *err);

WHERRY_BEGIN

/* ---- schema ---- */

/**
 * Create a cron; doing it twice is fine, also at once.
 *
 * @param db    A connection with no transaction open.
 * @param name  Of its table, as of wherry_outbox_init(); NULL: "cron".
 * @param err   Details on failure; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (bad name; a table of this name that is not a cron);
 *         WHERRY_TOONEW; WHERRY_DENIED; WHERRY_READONLY; WHERRY_BUSY; WHERRY_FULL.
 *
 * Transaction: its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_create(wherry_db *db, const char *name,
							  wherry_error *err);

/** Write out the SQL of wherry_cron_create(): *out is given, free() it.
 *  scheme: the database, as in its URL. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_create_sql(const char *scheme,
							      const char *name,
							      char **out,
							      wherry_error *err);

/**
 * Open a cron that exists.
 *
 * @param db    Its connection; borrowed until wherry_cron_close().
 * @param name  Its name; copied.  NULL: "cron".
 * @param out   Receives the cron; given, close with wherry_cron_close().
 * @return WHERRY_OK; WHERRY_INVALID (bad name); WHERRY_NOTFOUND (no such cron); WHERRY_TOONEW;
 *         what a read can fail with.
 *
 * Blocks: for a few small reads.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_open(wherry_db *db, const char *name,
							wherry_cron **out,
							wherry_error *err);

/** Close a cron; its connection stays open.  NULL is fine. */
WHERRY_API void wherry_cron_close(wherry_cron *cron);

/** Remove a cron.  The handle stays open, and is good for wherry_cron_close() alone. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_drop(wherry_cron *cron,
							wherry_error *err);

/* ---- names ---- */

/**
 * Write the key of a tick, "PREFIX/HASH/20240101-110000.000000000", in UTC.
 *
 * @param prefix  Not empty, at most 100 bytes, without '/'.
 * @param hash    The same, at most 64 bytes.
 * @param at_us   Unix time, in the years 1 to 9999.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_tick_key(const char *prefix,
						       const char *hash, int64_t at_us,
						       char out[WHERRY_TICK_KEY_MOST + 1],
						       wherry_error *err);

/* ---- ticks on a delayed queue ---- */

/**
 * Install a set of ticks under a prefix and a hash.  Ticks under the prefix with another hash are
 * removed if they are not due yet.  Those that are due, or that were polled, are left alone.
 *
 * A tick whose key has a message already is left as it is.  A tick that is not later than the latest
 * one of this hash may be done: it is installed again only if its message is gone although it is due
 * more than an hour from now.  So install ticks in the order of their times.
 * Ticks that were removed because another hash was installed, or by wherry_cron_uninstall(), can be
 * installed again.
 *
 * @param queue        On the cron's connection.  Its clock decides what is due.
 * @param prefix       See wherry_tick_key().
 * @param hash         Of the configuration that the ticks come from; see wherry_tick_key().
 * @param ticks        n of them; none is fine: then only ticks of other hashes go.
 * @param out_created  Receives how many were installed; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (a prefix, hash or time that is none; a queue on another
 *         connection); WHERRY_TOOBIG; what a write can fail with.
 *
 * Transaction: the one that is open, which is intact after a failure; else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_install(
	wherry_cron *cron, wherry_delayed *queue, const char *prefix, const char *hash,
	const wherry_tick *ticks, size_t n, int64_t *out_created, wherry_error *err);

/**
 * Install the ticks of a schedule from where it was left up to `ahead_us` from now, and at least
 * the next one; at most 10000 in one call.  Ticks up to `ahead_us` from now whose message is gone are
 * installed again as wherry_cron_install() says, so a queue that was emptied has its ticks again.
 * Call it again before they are used up; the rest as wherry_cron_install().
 *
 * @param catch_up  For times that passed since the last tick.  The first call for a schedule
 *                  begins with the first time after now.
 * @param body      Of each tick.  Ticks that are installed keep theirs until they are uninstalled.
 * @param body_len  Bytes, or WHERRY_TEXT.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_install_schedule(
	wherry_cron *cron, wherry_delayed *queue, const char *prefix,
	const wherry_schedule *schedule, int64_t ahead_us, wherry_catch_up catch_up,
	const void *body, size_t body_len, int64_t *out_created, wherry_error *err);

/** Remove the ticks under a prefix and a hash, and no others; what was polled is left alone.
 *  out_n: how many; may be NULL.  Transaction: the one that is open, else its own. */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_cron_uninstall(wherry_cron *cron, wherry_delayed *queue, const char *prefix,
		      const char *hash, int64_t *out_n, wherry_error *err);

/* ---- ticks for anything else ---- */

/**
 * Make the ticks of a schedule that are due: call fn for each, and remember them, in one
 * transaction.  fn may write on the cron's connection, such as a message for an outbox: then each
 * tick is written once, however many programs call this.
 *
 * A target and name have one schedule.  A call with another schedule takes the place of the one
 * before, and begins where that one was left, at most a minute back.  So programs that give
 * different schedules under one name take turns, and lose ticks.
 *
 * @param target       What the ticks are for, at most 200 bytes.
 * @param name         Of the schedule, at most 100 bytes.
 * @param catch_up     See wherry_cron_install_schedule().
 * @param out_n        Receives how many ticks were made; may be NULL.
 * @param out_next_us  Receives the time until the next one, microseconds; may be NULL.
 * @return WHERRY_OK; what fn returned; WHERRY_INVALID; what a write can fail with.
 *
 * Blocks: while another program makes ticks of the same schedule.
 * Transaction: the one that is open, which is intact after a failure; else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_fire(
	wherry_cron *cron, const char *target, const char *name,
	const wherry_schedule *schedule, wherry_catch_up catch_up, wherry_tick_fn fn,
	void *ctx, int64_t *out_n, int64_t *out_next_us, wherry_error *err);

/* ---- for operators ---- */

/**
 * Forget every schedule of a name.  A program that still makes its ticks starts again, with the first
 * time after now.  Messages of ticks stay.
 *
 * @param out_n  Receives how many schedules were forgotten; may be NULL.
 * @return WHERRY_OK, also if there is none; WHERRY_INVALID; what a write can fail with.
 *
 * Blocks: while a program makes ticks of the name.
 * Transaction: the one that is open, else its own.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_forget(wherry_cron *cron,
							  const char *name,
							  int64_t *out_n,
							  wherry_error *err);

/** Visit what the cron remembers, by target, name and hash. */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_cron_list(wherry_cron *cron,
							wherry_cron_entry_fn visit,
							void *ctx, wherry_error *err);

WHERRY_END

#endif
