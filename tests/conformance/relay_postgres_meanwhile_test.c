/*
 * What a relay does while PostgreSQL reads and writes.
 */
#include "relay_suite.h"

#include <unistd.h>

#include "postgres/server.h"

typedef struct course {
	relay_fixture *f;
	int rows;        /* met since it was armed, -1: it is not; or reads */
	int64_t done[2]; /* after the first acknowledgement: in all, and of the lowest */
	int pipe[2];
} course;

/* Another one takes over at the first row that is read, of which this one hears behind the
 * last; meanwhile it is let go on. */
static void take_over(void *ctx)
{
	course *c = ctx;
	wherry_db *db = c->f->a.db;

	if (c->rows < 0 || !db->meanwhile)
		return;
	if (c->rows++ == 0)
		relay_steal(c->f);
	db->meanwhile(db->meanwhile_ctx, c->pipe[0], WH_NEVER);
}

static void what_is_being_read_waits_for_the_fence_behind_it(void **state)
{
	relay_fixture *f = *state;
	course c = {.f = f, .rows = -1};

	assert_int_equal(pipe(c.pipe), 0);
	assert_int_equal(write(c.pipe[1], "", 1), 1);
	relay_hourly(f);
	relay_wrap(f, &(wh_trace){.ctx = &c, .row = take_over});
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_quiet(f, &f->a);
	c.rows = 0;
	relay_put(f, "bcd");
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=lease-lost"));
	assert_true(c.rows >= 3);
	c.rows = -1;
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 1);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 3);
	(void)close(c.pipe[0]);
	(void)close(c.pipe[1]);
}

static wherry_code look(void *ctx, const char *op, const char *what, wherry_code code,
			int64_t took_us, wherry_error *err)
{
	course *c = ctx;

	(void)op;
	(void)took_us;
	(void)err;
	if (strncmp(what, "ack-mark", 8) != 0 || c->done[0])
		return code;
	c->done[0] = relay_count(c->f, WHERRY_DONE);
	c->done[1] = relay_number(c->f, "SELECT count(*) FROM outbox WHERE status = 2 "
					"AND id <= 4");
	return code;
}

/* Six in flight, of which four are written at once. */
static relay_fake *six_in_flight(relay_fixture *f, course *c)
{
	relay_fake *fake;

	relay_set(f, "relay.batch", "4");
	relay_set(f, "relay.window", "12");
	relay_set(f, "relay.ack_delay", "1s");
	relay_wrap(f, &(wh_trace){.after = look, .ctx = c});
	fake = relay_use_fake(f, &f->a, 0);
	fake->by_hand = true;
	relay_put(f, "abcdef");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 6);
	return fake;
}

/* Whatever the order of the receipts: neighbours cost the server least. */
static void the_lowest_ids_are_acknowledged_first(void **state)
{
	relay_fixture *f = *state;
	course c = {.f = f};
	relay_fake *fake = six_in_flight(f, &c);

	for (int64_t id = 5; id <= 6; id++)
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	for (int64_t id = 1; id <= 4; id++)
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 6);
	assert_int_equal(c.done[0], 4);
	assert_int_equal(c.done[1], 4);
}

static void a_failure_waits_for_no_lower_ids(void **state)
{
	relay_fixture *f = *state;
	course c = {.f = f};
	relay_fake *fake = six_in_flight(f, &c);

	for (int64_t id = 1; id <= 6; id++)
		assert_true(relay_fake_answer(fake, id,
					      id < 6 ? WHERRY_DELIVERED : WHERRY_RETRY));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	assert_int_equal(relay_attempts(f, 6), 1);
	assert_int_equal(c.done[0], 0); /* all were written in that one transaction */
}

enum { READS = 10 };

/* How many are done when the table is read once more. */
static wherry_code note_read(void *ctx, const char *op, const char *what,
			     wherry_code code, int64_t took_us, wherry_error *err)
{
	course *c = ctx;

	(void)op;
	(void)took_us;
	(void)err;
	if ((strcmp(what, "read") == 0 || strcmp(what, "sweep") == 0) &&
	    ++c->rows == READS)
		c->done[0] = relay_count(c->f, WHERRY_DONE);
	return code;
}

/* As long as there is more to read, no acknowledgement needs a round trip for itself. */
static void acknowledgements_go_with_the_next_read(void **state)
{
	relay_fixture *f = *state;
	course c = {.f = f};

	relay_hourly(f);
	relay_set(f, "relay.batch", "4");
	relay_set(f, "relay.ack_delay", "0");
	for (int i = 0; i < READS; i++)
		relay_put(f, "abcd");
	relay_wrap(f, &(wh_trace){.after = note_read, .ctx = &c});
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4 * READS);
	assert_in_range(c.done[0], 4, 4 * READS - 4);
}

static const relay_test own[] = {
	RELAY_TEST(what_is_being_read_waits_for_the_fence_behind_it, 0),
	RELAY_TEST(the_lowest_ids_are_acknowledged_first, 0),
	RELAY_TEST(a_failure_waits_for_no_lower_ids, 0),
	RELAY_TEST(acknowledgements_go_with_the_next_read, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "postgres",
			.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
			.make = postgres_enter,
			.again = postgres_enter_again,
			.note = postgres_note_here,
			.drop = postgres_leave,
			.own = own,
			.own_only = true,
		},
	};

	if (!postgres_start())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
