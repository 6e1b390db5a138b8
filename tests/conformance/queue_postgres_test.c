/*
 * The queue on PostgreSQL, on connections of its own and on the application's.
 */
#include "queue_suite.h"

#include "postgres/backends.h"
#include "postgres/server.h"
#include "queue/queue.h"

/* A statement of the queue with values in the place of $1 and $2. */
static void fill_in(const char *stmt, const char *first, const char *second, char *out,
		    size_t cap)
{
	size_t n = 0;

	for (const char *p = stmt; *p; p++) {
		const char *value = *p != '$' ? NULL : p[1] == '1' ? first : second;

		if (value) {
			n += (size_t)snprintf(out + n, cap - n, "%s", value);
			p++;
		} else {
			out[n++] = *p;
		}
		assert_true(n + 1 < cap);
	}
	out[n] = 0;
}

/* The index of leased rows keeps an entry for each row that was acknowledged, until it is vacuumed:
 * an acknowledgement that walks over it takes longer and longer.  The planner would choose it where
 * its statistics know of no leased row. */
static void a_settlement_reads_no_rows_but_its_own(void **state)
{
	queue_fixture *f = queue_fixture_make(&outbox_postgres_own);
	char sql[2048];
	const char *plan;

	(void)state;
	queue_raw(f, "INSERT INTO jobs(body) SELECT '1' FROM generate_series(1, 20000);"
		     "ANALYZE jobs");
	assert_string_equal(f->queue->own.ack->params[0], "ids");
	fill_in(f->queue->own.ack->text, "'[1,2,3]'", "'tk'", sql, sizeof(sql));
	plan = queue_text(f, "EXPLAIN (FORMAT JSON) %s", sql);
	assert_non_null(strstr(plan, "jobs_pkey"));
	assert_null(strstr(plan, "jobs_timed"));
	queue_fixture_drop(f);
}

int main(void)
{
	static const outbox_backend *const backends[] = {&outbox_postgres_own,
							 &outbox_postgres_borrowed};

	static const struct CMUnitTest more[] = {
		cmocka_unit_test(a_settlement_reads_no_rows_but_its_own),
	};

	if (!postgres_start())
		return 0;
	return queue_suite_run(backends, sizeof(backends) / sizeof(*backends), more,
			       sizeof(more) / sizeof(*more));
}
