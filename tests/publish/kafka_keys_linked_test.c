/*
 * kafka: which messages of a key may be in flight together.
 */
#include "unit/publish_fixture.h"

#include "publish/kafka/kafka.h"

static wh_kafka_keys keys;

static int begin(void **state)
{
	wh_kafka_keys_clear(&keys);
	keys.renew_us = 0;
	wh_kafka_keys_age(&keys, 1);
	return 0;
}

static int end(void **state)
{
	wh_kafka_keys_clear(&keys);
	return 0;
}

static wh_kafka_job of(uint64_t key, uint64_t place)
{
	return (wh_kafka_job){.key_hash = key, .place = place};
}

static bool in_flight(wh_kafka_job *job)
{
	bool now = false;

	assert_true(wh_kafka_key_enter(&keys, job, &now));
	return now;
}

/* How many are in flight, now that it is done with. */
static size_t behind(const wh_kafka_job *job, int32_t partition)
{
	size_t n = 0;

	for (wh_kafka_job *next = wh_kafka_key_leave(&keys, job, partition); next;
	     next = next->behind)
		n++;
	return n;
}

WHERRY_TEST_WITH(the_first_of_a_key_is_in_flight_alone, begin, end)
{
	wh_kafka_job a = of(7, 1), b = a, c = a, d = a, other = of(8, 1);

	assert_true(in_flight(&a));
	assert_false(in_flight(&b));
	assert_false(in_flight(&c));
	assert_true(in_flight(&other));
	assert_int_equal(behind(&a, 0), 2);
	assert_true(in_flight(&d));
	assert_int_equal(behind(&b, 0) + behind(&c, 0) + behind(&d, 0), 0);
}

WHERRY_TEST_WITH(one_that_fails_proves_nothing, begin, end)
{
	wh_kafka_job a = of(7, 1), b = a, c = a;

	assert_true(in_flight(&a));
	assert_false(in_flight(&b));
	assert_false(in_flight(&c));
	assert_int_equal(behind(&a, RD_KAFKA_PARTITION_UA), 1);
	assert_int_equal(behind(&b, 0), 1);
	assert_int_equal(behind(&c, 0), 0);
}

/* A partition of another topic has not heard of this producer. */
WHERRY_TEST_WITH(each_place_is_proven_for_itself, begin, end)
{
	wh_kafka_job a = of(7, 1), b = of(7, 2), c = b, d = b, e = a;

	assert_true(in_flight(&a));
	assert_int_equal(behind(&a, 0), 0);
	assert_true(in_flight(&b));
	assert_false(in_flight(&c));
	assert_int_equal(behind(&b, 0), 1);
	assert_true(in_flight(&d));
	assert_false(in_flight(&e));
	assert_int_equal(behind(&c, 0), 0);
	assert_int_equal(behind(&d, 0), 1);
	assert_int_equal(behind(&e, 0), 0);
}

WHERRY_TEST_WITH(after_an_hour_it_is_proven_again, begin, end)
{
	wh_kafka_job a = of(7, 1), b = a, c = a, d = a;

	assert_true(in_flight(&a));
	assert_int_equal(behind(&a, 0), 0);
	wh_kafka_keys_age(&keys, 3600 * WH_SECOND);
	assert_true(in_flight(&b));
	assert_true(in_flight(&c));
	assert_int_equal(behind(&b, 0) + behind(&c, 0), 0);
	wh_kafka_keys_age(&keys, 3600 * WH_SECOND + 1);
	assert_true(in_flight(&b));
	assert_false(in_flight(&d));
	assert_int_equal(behind(&b, 0), 1);
	assert_int_equal(behind(&d, 0), 0);
}

/* A topic that has grown has partitions that have not heard of it, also of other keys. */
WHERRY_TEST_WITH(another_partition_is_proven_anew, begin, end)
{
	wh_kafka_job a = of(7, 1), b = a, c = of(8, 1), d = c, e = c;

	assert_true(in_flight(&a));
	assert_false(wh_kafka_key_proves(&keys, &a, 0));
	assert_int_equal(behind(&a, 0), 0);
	assert_true(in_flight(&c));
	assert_int_equal(behind(&c, 1), 0);
	assert_true(in_flight(&b));
	assert_true(wh_kafka_key_proves(&keys, &b, 0));
	assert_false(wh_kafka_key_proves(&keys, &b, 2));
	assert_int_equal(behind(&b, 2), 0);
	assert_true(in_flight(&d));
	assert_false(wh_kafka_key_proves(&keys, &d, 1));
	assert_false(in_flight(&e));
	assert_int_equal(behind(&d, 3), 1);
	assert_true(wh_kafka_key_proves(&keys, &e, 3));
	assert_int_equal(behind(&e, 3), 0);
}

/* Keys share what is remembered. */
WHERRY_TEST_WITH(what_is_in_flight_keeps_its_proof, begin, end)
{
	wh_kafka_job a = of(7, 1), b = a, c = a;
	wh_kafka_job other = of(7 + WH_KAFKA_BUCKETS, 2);

	assert_true(in_flight(&a));
	assert_int_equal(behind(&a, 0), 0);
	assert_true(in_flight(&b));
	assert_true(in_flight(&c));
	assert_true(in_flight(&other));
	assert_int_equal(behind(&other, 4), 0);
	assert_true(wh_kafka_key_proves(&keys, &b, 0));
	assert_int_equal(behind(&b, RD_KAFKA_PARTITION_UA), 0);
	assert_int_equal(behind(&c, RD_KAFKA_PARTITION_UA), 0);
	assert_true(in_flight(&a));
	assert_false(wh_kafka_key_proves(&keys, &a, 0));
	assert_false(in_flight(&b));
	assert_int_equal(behind(&a, 0), 1);
	assert_int_equal(behind(&b, 0), 0);
}

WHERRY_TEST_WITH(what_has_no_key_waits_for_nothing, begin, end)
{
	wh_kafka_job a = of(0, 0), b = a;

	assert_true(in_flight(&a));
	assert_true(in_flight(&b));
	assert_int_equal(behind(&a, 0) + behind(&b, 0), 0);
	assert_false(wh_kafka_key_proves(&keys, &a, 0));
}

int main(void)
{
	(void)cmocka_set_test_filter(getenv("WHERRY_ONLY"));
	return wherry_run_tests(NULL, NULL);
}
