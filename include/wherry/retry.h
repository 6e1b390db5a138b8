/*
 * Retries: run a transaction again if the database fails for a temporary reason.
 *
 * Temporary reasons are a deadlock, a lost serialization race, a lock that was held for too long
 * and a server without a free connection.  A bad argument, a missing table and a duplicate key are
 * not temporary.  The remedy of a code says which it is: see wherry_code_remedy().
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
		-1, /* Value of wherry_retry_policy.retries: the first failure is final. */
	WHERRY_RETRY_ERRORS = 8 /* Most errors in a wherry_retry_report. */
};

/**
 * Called before each retry, with the failure, the number of retries that are left including this
 * one, and the delay before it in microseconds.  Return false to give up instead.
 */
typedef bool (*wherry_retry_again_fn)(void *ctx, const wherry_error *err,
				      int32_t retries_left, int64_t delay_us);

/* Number and delays of retries; start from WHERRY_RETRY_POLICY(...). */
typedef struct wherry_retry_policy {
	size_t size;        /* Set it to sizeof(wherry_retry_policy). */
	int64_t initial_us; /* Delay before the first retry, microseconds; 0: 100 ms. */
	int64_t most_us;    /* Longest delay, microseconds; 0: 5 s. */
	double factor;      /* Ratio of each delay to the one before, at least 1; 0: 2. */
	int32_t retries;    /* Most retries; 0: 5; WHERRY_NO_RETRIES: none. */
	/* Time after the call from which no retry begins, microseconds; 0: 30 s. */
	int64_t total_us;
	/* Longest try, microseconds; a longer one ends with WHERRY_TIMEOUT; 0: no
	 * limit. */
	int64_t per_try_us;
	/* Called before each retry; NULL: retry every temporary failure. */
	wherry_retry_again_fn again;
	void *again_ctx; /* First argument of `again`. */
} wherry_retry_policy;

/* In C: WHERRY_RETRY_POLICY(.retries = 3). */
#define WHERRY_RETRY_POLICY(...) WHERRY_SIZED(wherry_retry_policy, __VA_ARGS__)

/* Report of a call of wherry_retry(); start from WHERRY_RETRY_REPORT(). */
typedef struct wherry_retry_report {
	/* Set it to sizeof(wherry_retry_report). */
	size_t size;
	int32_t retries;  /* Tries after the first one. */
	int32_t n_errors; /* Number of elements of `errors`. */
	int64_t took_us;  /* Duration of the call, microseconds. */
	/* Distinct failures, the newest first. */
	wherry_error errors[WHERRY_RETRY_ERRORS];
} wherry_retry_report;

/* In C: wherry_retry_report report = WHERRY_RETRY_REPORT(). */
#define WHERRY_RETRY_REPORT()                                                            \
	{                                                                                \
		.size = sizeof(wherry_retry_report)                                      \
	}

/** Makes one try.  To fail it, fill in err and return its code: see wherry_error_set(). */
typedef wherry_code (*wherry_try_fn)(void *ctx, wherry_error *err);

WHERRY_BEGIN

/**
 * Call fn in a transaction, and commit.  If that fails for a temporary reason (the remedies RETRY
 * and ROLLBACK), roll back, wait, and try again.  A call that was interrupted on request, a
 * connection that was lost and a commit whose answer was lost are not tried again.
 *
 * @param db      Connection without an open transaction; borrowed for the call.  NULL: fn opens its
 *                own connection and transaction in each try.  Then a lost connection is tried again
 *                too, and per_try_us must be 0.
 * @param policy  Policy; borrowed for the call.  NULL: 5 retries after 100 ms, 200 ms, 400 ms,
 *                800 ms and 1.6 s, within 30 s.
 * @param fn      Makes one try; may be called several times.  It must not end the transaction.
 * @param report  Receives a report of the call, on failure too; may be NULL.
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
 * Return the code of a database's error, for your own statements in the function that wherry_retry()
 * calls.
 *
 * @param scheme    Scheme of the database's URL: "sqlite", "postgres" or "mssql".
 * @param native    The driver's own number: an extended result code of SQLite, an error number of
 *                  SQL Server; 0 on PostgreSQL.
 * @param sqlstate  Five characters; NULL on SQLite.
 * @return The code; WHERRY_INVALID for an unknown error.
 */
WHERRY_API wherry_code wherry_error_class(const char *scheme, int native,
					  const char *sqlstate);

WHERRY_END

#endif
