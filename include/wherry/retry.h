/*
 * Retries: run a transaction again while the database fails for a reason that passes.
 *
 * A deadlock, a lost serialization race, a lock that was held for too long and a server without
 * a free connection pass.  A bad argument, a missing table or a duplicate key does not.  The
 * remedy of a code says which: see wherry_code_remedy().
 */
#ifndef WHERRY_RETRY_H
#define WHERRY_RETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/db.h>
#include <wherry/error.h>
#include <wherry/message.h>

enum {
	WHERRY_NO_RETRIES =
		-1, /* wherry_retry_policy.retries: the first failure is final */
	WHERRY_RETRY_ERRORS = 8 /* errors in a wherry_retry_report, at most */
};

/**
 * Called before each retry, with the failure, the number of retries that are left including this
 * one, and the delay that comes first.  Return false to give up instead.
 */
typedef bool (*wherry_retry_again_fn)(void *ctx, const wherry_error *err,
				      int32_t retries_left, int64_t delay_us);

/* When to try again; start from WHERRY_RETRY_POLICY(...). */
typedef struct wherry_retry_policy {
	size_t size;        /* sizeof(wherry_retry_policy), so that it can grow */
	int64_t initial_us; /* delay before the first retry; 0: 100 ms */
	int64_t most_us;    /* longest delay; 0: 5 s */
	double factor; /* each delay is this many times the one before, at least 1; 0: 2 */
	int32_t retries;    /* at most this many; 0: 5; WHERRY_NO_RETRIES: none */
	int64_t total_us;   /* no retry begins later than this after the call; 0: 30 s */
	int64_t per_try_us; /* end a try that takes longer, with WHERRY_TIMEOUT; 0: never */
	wherry_retry_again_fn again; /* NULL: retry every failure that passes */
	void *again_ctx;
} wherry_retry_policy;

/* WHERRY_RETRY_POLICY(.retries = 3), in C */
#define WHERRY_RETRY_POLICY(...) WHERRY_SIZED(wherry_retry_policy, __VA_ARGS__)

/* How a call went; start from WHERRY_RETRY_REPORT(). */
typedef struct wherry_retry_report {
	size_t size;      /* sizeof(wherry_retry_report), so that it can grow */
	int32_t retries;  /* tries after the first one */
	int32_t n_errors; /* failures in `errors` */
	int64_t took_us;
	wherry_error errors[WHERRY_RETRY_ERRORS]; /* newest first; equal ones once */
} wherry_retry_report;

/* wherry_retry_report report = WHERRY_RETRY_REPORT(); in C */
#define WHERRY_RETRY_REPORT()                                                            \
	{                                                                                \
		.size = sizeof(wherry_retry_report)                                      \
	}

/** One try.  Another code than WHERRY_OK, with err filled, fails it: see wherry_error_set(). */
typedef wherry_code (*wherry_try_fn)(void *ctx, wherry_error *err);

WHERRY_BEGIN

/**
 * Call fn in a transaction, and commit.  If that fails for a reason that passes (the remedies
 * RETRY and ROLLBACK), roll back, wait, and do it again.  A call that was interrupted on request,
 * a connection that was lost and a commit whose answer was lost are not tried again.
 *
 * @param db      With no transaction open; borrowed.  NULL: fn opens its own connection and
 *                transaction each time.  Then a lost connection is tried again as well, and
 *                per_try_us must be 0.
 * @param policy  NULL: 5 retries after 100 ms, 200 ms, 400 ms …, within 30 s.
 * @param fn      May be called several times.  It must not end the transaction.
 * @param report  Receives how the call went, on failure too; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (a policy out of range; a transaction is open); else the code
 *         of the last failure, whose message begins with "giving up after N retries".
 *
 * Blocks: for the tries and the delays between them.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_retry(wherry_db *db,
						    const wherry_retry_policy *policy,
						    wherry_try_fn fn, void *ctx,
						    wherry_retry_report *report,
						    wherry_error *err);

/**
 * Return what an error of a database means, for statements of your own in fn.
 *
 * @param scheme    Of the database, as in its URL: "sqlite", "postgres", "mssql".
 * @param native    The driver's own number: an extended result code of SQLite, an error number of
 *                  SQL Server; 0 on PostgreSQL.
 * @param sqlstate  Five characters; NULL on SQLite.
 * @return The code; WHERRY_INVALID for an error that is none of those known.
 */
WHERRY_API wherry_code wherry_error_class(const char *scheme, int native,
					  const char *sqlstate);

WHERRY_END

#endif
