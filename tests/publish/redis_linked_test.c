/*
 * Parts of the destination redis: that need no server.
 */
#include "publish/redis/redis.h"

#include "wherry_test.h"

static const wh_redis_settings plain = {.stream = (char[]){"{topic}"},
					.limit_us = 30000000};

/* ---- names and commands ---- */

WHERRY_TEST(a_stream_is_named_by_a_template)
{
	const wherry_message m = WHERRY_MESSAGE(.topic = "orders", .key = "a {b}");
	const wherry_message none = WHERRY_MESSAGE(.topic = "orders");
	const wherry_message aggregate =
		WHERRY_MESSAGE(.topic = "orders", .aggregate_type = "order",
			       .aggregate_id = "7");
	char out[WH_REDIS_STREAM_LEN];
	char key[1024];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message large = m;

	(void)state;
	WHERRY_PASS(wh_redis_stream("{topic}", &m, out, &err));
	assert_string_equal(out, "orders");
	WHERRY_PASS(wh_redis_stream("shop:{topic}:{key}", &m, out, &err));
	assert_string_equal(out, "shop:orders:a {b}");
	WHERRY_PASS(wh_redis_stream("{key}", &none, out, &err));
	assert_string_equal(out, "_");
	WHERRY_PASS(wh_redis_stream("{key}", &aggregate, out, &err));
	assert_string_equal(out, "7");
	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = 0;
	large.key = key;
	assert_int_equal(wh_redis_stream("{key}{key}{key}{key}{key}", &large, out, &err),
			 WHERRY_INVALID);
}

/* The numbers are those of CLUSTER KEYSLOT. */
WHERRY_TEST(a_slot_is_that_of_the_text_in_braces)
{
	(void)state;
	assert_int_equal(wh_redis_slot("123456789"), 12739);
	assert_int_equal(wh_redis_slot("orders"), 105);
	assert_int_equal(wh_redis_slot("shop{orders}.a"), 105);
	assert_int_equal(wh_redis_slot("{orders}{a}"), 105);
	assert_int_not_equal(wh_redis_slot("{}orders"), 105);
	assert_int_not_equal(wh_redis_slot("{orders"), 105);
}

static const char *command_of(const wh_redis_settings *set, const wherry_message *m)
{
	static wh_buf out = WH_BUF_INIT(10000);

	wh_buf_reset(&out);
	wh_redis_put_add(&out, set, m, 1700000000000000);
	return wh_buf_str(&out);
}

WHERRY_TEST(a_message_is_one_command_with_the_fields_that_it_has)
{
	wherry_message m = WHERRY_MESSAGE(.topic = "t", .message_id = "m");
	wh_redis_settings trimmed = plain;

	(void)state;
	assert_string_equal(
		command_of(&plain, &m),
		"*9\r\n$4\r\nXADD\r\n$1\r\nt\r\n$1\r\n*\r\n$10\r\nmessage_id\r\n"
		"$1\r\nm\r\n$5\r\ntopic\r\n$1\r\nt\r\n$4\r\nbody\r\n$0\r\n\r\n");
	m.body = "a\r\nb";
	m.body_len = 4;
	m.key = "";
	m.headers = "{}";
	assert_non_null(strstr(command_of(&plain, &m), "*9\r\n"));
	assert_non_null(strstr(command_of(&plain, &m), "$4\r\na\r\nb\r\n"));
	m.headers = "{\"a\":\"b\"}";
	m.created_at_us = 1700000000000000;
	m.trace_id = "0af7651916cd43dd8448eb211c80319c";
	assert_non_null(strstr(command_of(&plain, &m), "*17\r\n"));
	assert_non_null(strstr(command_of(&plain, &m), "$11\r\ntraceparent\r\n"));
	trimmed.max_length = 1000;
	assert_non_null(
		strstr(command_of(&trimmed, &m),
		       "*20\r\n$4\r\nXADD\r\n$1\r\nt\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n"
		       "$4\r\n1000\r\n$1\r\n*\r\n"));
	trimmed.max_length = 0;
	trimmed.max_age_us = 3600000000;
	assert_non_null(strstr(command_of(&trimmed, &m),
			       "$5\r\nMINID\r\n$1\r\n~\r\n$13\r\n1699996400000\r\n"));
}

/* ---- the order of a key ---- */

enum { SOME = 12 };

typedef struct flights {
	wh_redis_flights f;
	wherry_message messages[SOME];
} flights;

static void *make(const char *key)
{
	flights *all = calloc(1, sizeof(*all));

	assert_non_null(all);
	for (size_t i = 0; i < SOME; i++)
		all->messages[i] = WHERRY_MESSAGE(.id = (int64_t)i, .topic = "t",
						  .message_id = "m", .key = key);
	return all;
}

static int set_up(void **state)
{
	*state = make("k");
	return 0;
}

static int tear_down(void **state)
{
	flights *all = *state;

	wh_redis_flights_clear(&all->f);
	free(all);
	return 0;
}

static void take(flights *all, size_t from, size_t to)
{
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = from; i < to; i++)
		WHERRY_PASS(wh_redis_take(&all->f, &plain, &all->messages[i], 1, &err));
	wh_redis_gather(&all->f, &plain);
}

/* The next unit has so many messages, from this one. */
static wh_redis_unit *unit_of(flights *all, size_t from, unsigned n)
{
	wh_redis_unit *unit = wh_redis_units_pop(&all->f.ready);

	assert_non_null(unit);
	assert_int_equal(unit->n, n);
	assert_ptr_equal(unit->first->flight.message, &all->messages[from]);
	return unit;
}

static void has_receipts(flights *all, size_t from, size_t to, wherry_verdict verdict)
{
	for (size_t i = from; i < to; i++) {
		wh_receipt receipt;

		assert_true(wh_redis_next_receipt(&all->f, &receipt));
		assert_ptr_equal(receipt.message, &all->messages[i]);
		assert_int_equal(receipt.verdict, verdict);
	}
}

static const wh_redis_verdict busy = {.verdict = WHERRY_THROTTLED, .reason = "OOM"};

WHERRY_TEST_ON(messages_of_a_key_that_wait_are_the_next_unit, flights *all, set_up,
	       tear_down)
{
	wh_redis_unit *unit;

	take(all, 0, 1);
	unit = unit_of(all, 0, 1);
	take(all, 1, 5);
	take(all, 5, 8);
	assert_null(all->f.ready.head);
	wh_redis_delivered(&all->f, unit);
	has_receipts(all, 0, 1, WHERRY_DELIVERED);
	wh_redis_gather(&all->f, &plain);
	wh_redis_delivered(&all->f, unit_of(all, 1, 7));
	has_receipts(all, 1, 8, WHERRY_DELIVERED);
	assert_int_equal(all->f.open.n, 0);
}

WHERRY_TEST_ON(behind_a_refused_message_nothing_of_its_key_is_sent, flights *all, set_up,
	       tear_down)
{
	wh_redis_unit *unit;

	take(all, 0, 3);
	unit = unit_of(all, 0, 3);
	take(all, 3, 5);
	wh_redis_failed(&all->f, unit, 1, &busy);
	take(all, 5, 7); /* The relay does not know of it yet. */
	assert_null(all->f.ready.head);
	has_receipts(all, 0, 1, WHERRY_DELIVERED);
	has_receipts(all, 1, 2, WHERRY_THROTTLED);
	has_receipts(all, 2, 7, WHERRY_RETRY);
	assert_int_equal(all->f.open.n, 0);
	take(all, 1, 4);
	wh_redis_delivered(&all->f, unit_of(all, 1, 3));
	has_receipts(all, 1, 4, WHERRY_DELIVERED);
}

WHERRY_TEST_ON(a_message_that_cannot_be_sent_is_refused_in_its_turn, flights *all, set_up,
	       tear_down)
{
	all->messages[2].headers = "[]";
	take(all, 0, 5);
	wh_redis_delivered(&all->f, unit_of(all, 0, 2));
	wh_redis_gather(&all->f, &plain);
	has_receipts(all, 0, 2, WHERRY_DELIVERED);
	has_receipts(all, 2, 3, WHERRY_REJECTED);
	has_receipts(all, 3, 5, WHERRY_RETRY);
	assert_null(all->f.ready.head);
}

WHERRY_TEST_ON(a_unit_whose_message_is_too_large_is_sent_one_by_one, flights *all, set_up,
	       tear_down)
{
	const wh_redis_verdict never = {.verdict = WHERRY_REJECTED,
					.reason = "too large"};

	take(all, 0, 3);
	wh_redis_send_alone(&all->f, unit_of(all, 0, 3));
	wh_redis_gather(&all->f, &plain);
	wh_redis_delivered(&all->f, unit_of(all, 0, 1));
	wh_redis_gather(&all->f, &plain);
	wh_redis_failed(&all->f, unit_of(all, 1, 1), 0, &never);
	has_receipts(all, 0, 1, WHERRY_DELIVERED);
	has_receipts(all, 1, 2, WHERRY_REJECTED);
	has_receipts(all, 2, 3, WHERRY_RETRY);
}

WHERRY_TEST_ON(messages_of_another_stream_are_another_unit, flights *all, set_up,
	       tear_down)
{
	all->messages[2].topic = "u";
	take(all, 0, 4);
	wh_redis_delivered(&all->f, unit_of(all, 0, 2));
	wh_redis_gather(&all->f, &plain);
	wh_redis_delivered(&all->f, unit_of(all, 2, 1));
	wh_redis_gather(&all->f, &plain);
	(void)unit_of(all, 3, 1);
}

static int set_up_keyless(void **state)
{
	*state = make(NULL);
	return 0;
}

WHERRY_TEST_ON(messages_without_a_key_wait_for_no_other, flights *all, set_up_keyless,
	       tear_down)
{
	take(all, 0, 3);
	wh_redis_failed(&all->f, unit_of(all, 0, 1), 0, &busy);
	wh_redis_delivered(&all->f, unit_of(all, 1, 1));
	(void)unit_of(all, 2, 1);
	has_receipts(all, 0, 1, WHERRY_THROTTLED);
	has_receipts(all, 1, 2, WHERRY_DELIVERED);
}

/* ---- errors ---- */

WHERRY_TEST(each_error_of_a_server_has_its_verdict)
{
	static const struct {
		const char *error;
		wh_redis_meaning alone, in_cluster;
		wherry_verdict verdict; /* Alone. */
		bool held, denied, own; /* In a cluster. */
	} rows[] = {
		{"OOM command not allowed", WH_REDIS_BUSY, WH_REDIS_ANSWERED,
		 WHERRY_THROTTLED, true, false, false},
		{"LOADING Redis is loading", WH_REDIS_BUSY, WH_REDIS_ANSWERED,
		 WHERRY_THROTTLED, true, false, false},
		{"MISCONF Redis is configured", WH_REDIS_BUSY, WH_REDIS_ANSWERED,
		 WHERRY_THROTTLED, true, false, false},
		{"NOREPLICAS Not enough", WH_REDIS_BUSY, WH_REDIS_ANSWERED,
		 WHERRY_THROTTLED, true, false, false},
		{"READONLY You can't write", WH_REDIS_LEAVE, WH_REDIS_ANSWERED,
		 WHERRY_THROTTLED, true, false, false},
		{"WRONGTYPE Operation", WH_REDIS_ANSWERED, WH_REDIS_ANSWERED,
		 WHERRY_RETRY, true, false, false},
		{"NOPERM this user has no", WH_REDIS_ANSWERED, WH_REDIS_ANSWERED,
		 WHERRY_RETRY, true, true, false},
		{"CLUSTERDOWN The cluster", WH_REDIS_ANSWERED, WH_REDIS_ANSWERED,
		 WHERRY_RETRY, true, false, false},
		{"MOVED 1 h:1", WH_REDIS_MOVED, WH_REDIS_MOVED, WHERRY_RETRY, false,
		 false, false},
		{"ASK 1 h:1", WH_REDIS_ASKED, WH_REDIS_ASKED, WHERRY_RETRY, false, false,
		 false},
		{"ERR Protocol error: invalid bulk length", WH_REDIS_ANSWERED,
		 WH_REDIS_ANSWERED, WHERRY_REJECTED, false, false, false},
		{"ERR anything else", WH_REDIS_ANSWERED, WH_REDIS_ANSWERED, WHERRY_RETRY,
		 false, false, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		wh_redis_verdict v;

		assert_int_equal(wh_redis_judge(rows[i].error, "s", NULL, false, &v),
				 rows[i].alone);
		assert_int_equal(v.verdict, rows[i].verdict);
		assert_int_equal(wh_redis_judge(rows[i].error, "s", NULL, true, &v),
				 rows[i].in_cluster);
		assert_int_equal(v.held, rows[i].held);
		assert_int_equal(v.denied, rows[i].denied);
		assert_int_equal(v.own, rows[i].own);
		assert_non_null(strstr(v.reason, rows[i].error));
	}
}

WHERRY_TEST_MAIN
