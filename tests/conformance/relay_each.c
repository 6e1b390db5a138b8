#include "relay_each.h"

#include "delayed/delayed.h"
#include "queue/queue.h"
#include "store/leases.h"

static int64_t left(relay_fixture *f)
{
	return relay_number(f, "SELECT count(*) FROM outbox WHERE status <> 2");
}

static void set_paused(relay_fixture *f, bool on)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (f->queue)
		WHERRY_PASS(on ? wherry_queue_pause(f->queue, &err)
			       : wherry_queue_resume(f->queue, &err));
	else
		WHERRY_PASS(on ? wherry_delayed_pause(f->delayed, &err)
			       : wherry_delayed_resume(f->delayed, &err));
}

static bool is_paused(relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_status delayed;
	wherry_queue_status queue;

	if (f->queue) {
		WHERRY_PASS(
			wherry_queue_get_status(f->queue, &queue, sizeof(queue), &err));
		return queue.paused;
	}
	WHERRY_PASS(
		wherry_delayed_get_status(f->delayed, &delayed, sizeof(delayed), &err));
	return delayed.paused;
}

void a_paused_queue_is_not_relayed_until_it_is_resumed(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	set_paused(f, true);
	assert_true(is_paused(f));
	relay_put(f, "--");
	relay_start(f, &f->a);
	relay_quiet(f, &f->a);
	assert_true(relay_stats(&f->a).paused);
	assert_int_equal(left(f), 2);
	set_paused(f, false);
	RELAY_ASLEEP_UNTIL(f, &f->a, left(f) == 0);
	set_paused(f, true);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_stats(&f->a).paused);
	relay_put(f, "-");
	relay_quiet(f, &f->a);
	assert_int_equal(left(f), 1);
	set_paused(f, false);
	assert_false(is_paused(f));
}

enum { RELAYS = 4 };

typedef struct shown {
	wh_holder all[RELAYS];
	size_t n, n_running;
} shown;

static void note_relay(void *ctx, const wh_holder *relay)
{
	shown *s = ctx;

	assert_true(s->n < RELAYS);
	s->all[s->n++] = *relay;
	s->n_running += relay->left_us > 0;
}

static shown relays_of(relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	shown s = {.n = 0};

	WHERRY_PASS(wh_store_relays(f->queue ? &f->queue->store : &f->delayed->store,
				    note_relay, &s, &err));
	return s;
}

void each_relay_of_a_queue_is_shown(void **state)
{
	relay_fixture *f = *state;
	shown s = relays_of(f);

	assert_int_equal(s.n, 0);
	relay_set(f, "relay.name", "one");
	relay_start(f, &f->a);
	relay_quiet(f, &f->a);
	relay_set(f, "relay.name", "two");
	relay_start(f, &f->b);
	relay_quiet(f, &f->b);
	s = relays_of(f);
	assert_int_equal(s.n_running, 2);
	assert_string_equal(s.all[0].state, "leading");
	assert_string_not_equal(s.all[0].owner, s.all[1].owner);

	relay_stop(f, &f->a);
	s = relays_of(f);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.n_running, 1);
	assert_string_equal(s.all[0].owner, "two");
	assert_string_equal(s.all[1].owner, "one");
	assert_string_equal(s.all[1].state, "stopped");

	relay_set(f, "relay.name", "three"); /* It takes the row of the one that ended. */
	relay_start(f, &f->a);
	relay_quiet(f, &f->a);
	s = relays_of(f);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.n_running, 2);
	assert_int_equal(s.all[0].error_us, -1);
	assert_int_equal(s.all[0].delivered_us, -1);
}

void a_relay_of_a_queue_says_that_its_destination_refuses(void **state)
{
	relay_fixture *f = *state;
	shown s;

	relay_set(f, "relay.idle_interval", "1h"); /* what changes is written at once */
	f->why = "connection refused";
	relay_put(f, "--");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, left(f) == 0);
	f->every = WHERRY_RETRY;
	relay_put(f, "--------");
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).down);
	f->offset_us += 2 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, strcmp(relays_of(f).all[0].state, "retrying") == 0);
	s = relays_of(f);
	assert_string_equal(s.all[0].destination, "memory:");
	assert_string_equal(s.all[0].error, "connection refused");
	assert_true(s.all[0].error_us >= 0 && s.all[0].state_us >= 0);
	assert_int_equal(s.all[0].delivered, 2);
	f->every = WHERRY_DELIVERED;
	RELAY_UNTIL(f, &f->a, left(f) == 0);
	f->offset_us += 2 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, strcmp(relays_of(f).all[0].state, "leading") == 0);
	relay_put(f, "-"); /* after the last renewal: the relay writes it when it stops */
	RELAY_UNTIL(f, &f->a, left(f) == 0);
	relay_stop(f, &f->a);
	s = relays_of(f);
	assert_int_equal(s.n_running, 0);
	assert_string_equal(s.all[0].state, "stopped");
	assert_int_equal(s.all[0].delivered, 11);
	assert_string_equal(s.all[0].error, "connection refused");
	assert_true(s.all[0].error_us >= 0 && s.all[0].delivered_us >= 0);
}
