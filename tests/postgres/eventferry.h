/*
 * The table of eventferry as its packages make it, how tests that know the native table look
 * at it, and its statements: those of its store at PostgreSQL, with their parameters filled in.
 */
#ifndef WHERRY_TEST_EVENTFERRY_H
#define WHERRY_TEST_EVENTFERRY_H

/* What its migration creates, for a table named "outbox". */
extern const char eventferry_tables[];

/* A view of it, "native", with the columns of the native table, and wherry_clock. */
extern const char eventferry_views[];

/* Its claim, for printf: its timeout in milliseconds, and how many. */
#define EVENTFERRY_CLAIM                                                                 \
	"WITH due AS (SELECT o.id FROM outbox o WHERE (o.status = 0 "                    \
	"OR (o.status = 3 AND (o.next_retry_at IS NULL OR o.next_retry_at <= now())) "   \
	"OR (o.status = 1 AND o.claimed_at <= now() - %d * interval '1 millisecond')) "  \
	"AND NOT EXISTS (SELECT 1 FROM outbox e WHERE e.aggregate_id = o.aggregate_id "  \
	"AND e.id < o.id AND e.status IN (0, 1, 3)) "                                    \
	"ORDER BY o.id LIMIT %d FOR UPDATE SKIP LOCKED) "                                \
	"UPDATE outbox SET status = 1, claimed_at = now() FROM due "                     \
	"WHERE outbox.id = due.id RETURNING outbox.id"

/* What its acknowledgements set, by a list of ids and nothing else. */
extern const char eventferry_done[], eventferry_requeue[];

#endif
