/*
 * kafka: topics that are held, and how much is remembered of topics.
 */
#include "unit/publish_fixture.h"

#include "publish/kafka/kafka.h"

enum { MINUTE_US = 60000000 };

WHERRY_TEST(a_message_that_tries_a_held_topic_may_be_submitted_again)
{
	wh_kafka_places all = {.n = 0};

	assert_true(wh_kafka_place_failed(&all, "t", 1, "no right", 1000));
	assert_in_range(wh_kafka_place_rest_us(&all, "t", 1, 2000, MINUTE_US), 1,
			MINUTE_US);
	assert_int_equal(wh_kafka_place_rest_us(&all, "t", 5, MINUTE_US, MINUTE_US), 0);
	assert_in_range(wh_kafka_place_rest_us(&all, "t", 6, MINUTE_US + 1, MINUTE_US), 1,
			MINUTE_US);
	assert_int_equal(wh_kafka_place_rest_us(&all, "t", 5, MINUTE_US + 1, MINUTE_US),
			 0);
	assert_true(wh_kafka_place_took(&all, "t", 0, MINUTE_US + 2));
	assert_int_equal(wh_kafka_place_rest_us(&all, "t", 6, MINUTE_US + 3, MINUTE_US),
			 0);
	wh_kafka_places_clear(&all);
}

/* The topic may be made at any moment. */
WHERRY_TEST(a_topic_that_failed_often_is_tried_again_within_seconds)
{
	wh_kafka_places all = {.n = 0};
	int64_t now = 1000;

	for (int i = 0; i < 40; i++) {
		(void)wh_kafka_place_failed(&all, "t", 1, "no topic", now);
		now += MINUTE_US / 15;
		assert_int_equal(wh_kafka_place_rest_us(&all, "t", 1, now, MINUTE_US), 0);
	}
	wh_kafka_places_clear(&all);
}

/* A producer writes any topics. */
WHERRY_TEST(any_number_of_topics_needs_no_more_memory)
{
	wh_kafka_places all = {.n = 0};
	char topic[24];

	for (int i = 0; i < 3 * WH_KAFKA_PLACES_MOST; i++) {
		(void)snprintf(topic, sizeof(topic), "t%d", i);
		if (i % 3 == 0)
			(void)wh_kafka_place_failed(&all, topic, i + 1, "no right", 1000);
		else if (i % 3 == 1)
			(void)wh_kafka_place_took(&all, topic, i % 7, 1000);
		else
			(void)wh_kafka_place_rejected(&all, topic);
		assert_in_range(all.n, 1, WH_KAFKA_PLACES_MOST + 1);
	}
	/* The last ones are known. */
	assert_true(wh_kafka_place_rest_us(&all, "t49149", 0, 1001, MINUTE_US) > 0);
	wh_kafka_places_clear(&all);
}

WHERRY_TEST_MAIN
