/*
 * kafka: which settings of a topic let it lose messages.
 */
#include "unit/publish_fixture.h"

#include "publish/kafka/kafka.h"

static wh_kafka_safety of(int replicas, const char *in_sync, const char *unclean)
{
	wh_kafka_safety safety = {.replicas = replicas};

	wh_kafka_safety_read(&safety, "retention.ms", "1");
	wh_kafka_safety_read(&safety, "min.insync.replicas", in_sync);
	wh_kafka_safety_read(&safety, "unclean.leader.election.enable", unclean);
	return safety;
}

static void assert_shown(const wh_kafka_safety *safety, const char *topic,
			 const char *want)
{
	char text[WH_KAFKA_NOTICE];

	assert_false(wh_kafka_is_safe(safety));
	wh_kafka_safety_show(safety, topic, text, sizeof(text));
	assert_string_equal(text, want);
}

WHERRY_TEST(a_topic_is_safe_with_two_replicas_in_sync_and_clean_elections)
{
	wh_kafka_safety safe = of(3, "2", "false"), strict = of(5, "4", "false");
	wh_kafka_safety single = of(1, "1", "true"), unread = of(3, NULL, NULL);

	assert_true(wh_kafka_is_safe(&safe));
	assert_true(wh_kafka_is_safe(&strict));
	/* Nothing that could be set makes one replica safe. */
	assert_true(wh_kafka_is_safe(&single));
	assert_true(wh_kafka_is_safe(&unread));
}

WHERRY_TEST(a_topic_that_can_lose_messages_is_shown_with_its_settings)
{
	wh_kafka_safety one = of(2, "1", "false"), unclean = of(3, "2", "true"),
			both = of(3, "1", "true");

	assert_shown(&one, "orders", "min.insync.replicas=1 of the topic orders");
	assert_shown(&unclean, "orders",
		     "unclean.leader.election.enable=true of the topic orders");
	assert_shown(&both, "a.b",
		     "min.insync.replicas=1 and unclean.leader.election.enable=true of "
		     "the topic a.b");
}

WHERRY_TEST_MAIN
