/*
 * kafka: with transactional.id, on librdkafka's mock cluster, which takes part in
 * transactions and hides nothing.  What readers see is in tests/system, on a broker that
 * does.
 */
#include "kafka_mock.h"
#include "unit/publish_fixture.h"

#include "publish/kafka/kafka.h"

enum { SEVERAL = 10, END_TXN = 26, ADD_PARTITIONS = 24 };

static kafka_mock *mock; /* of the test that runs; NULL: not here */

static int start_mock(void **state)
{
	(void)alarm(90);
	mock = kafka_mock_start(1);
	return set_up(state);
}

static int stop_mock(void **state)
{
	if (mock)
		kafka_mock_stop(mock);
	(void)alarm(0);
	return tear_down(state);
}

static wherry_publisher *open_kafka(const char *parameters)
{
	char url[1000];

	if (!mock)
		skip();
	(void)snprintf(url, sizeof(url), "kafka://%s?transactional.id=shop%s",
		       mock->brokers, parameters);
	return open_url(url);
}

static void assert_name(wherry_publisher *pub, const char *want)
{
	const wh_kafka *p = (const wh_kafka *)pub;
	char name[64] = "";
	size_t size = sizeof(name);

	assert_non_null(p->client);
	assert_int_equal(rd_kafka_conf_get(rd_kafka_conf(p->client->rk),
					   "transactional.id", name, &size),
			 RD_KAFKA_CONF_OK);
	assert_string_equal(name, want);
}

static void a_producer_has_the_number_of_its_lease(void **state)
{
	wherry_publisher *pub = open_kafka("");
	wh_grant grant = {.number = 3, .epoch = 1};
	wherry_message m = message("x");

	(void)state;
	delivers(pub, &m);
	assert_name(pub, "shop");
	wh_publisher_grant(pub, &grant);
	delivers(pub, &m);
	assert_name(pub, "shop-3");
	grant.number = 4;
	wh_publisher_grant(pub, &grant);
	delivers(pub, &m);
	assert_name(pub, "shop-4");
	wherry_publisher_close(pub);
}

/* Somebody else may have had it in between. */
static void a_new_epoch_gets_a_new_producer(void **state)
{
	wherry_publisher *pub = open_kafka("");
	wh_grant grant = {.number = 1, .epoch = 1};
	wherry_message m = message("x");
	wh_kafka_stats first, same, other;

	(void)state;
	wh_publisher_grant(pub, &grant);
	delivers(pub, &m);
	wh_kafka_stats_get(pub, &first);
	wh_publisher_grant(pub, &grant);
	delivers(pub, &m);
	wh_kafka_stats_get(pub, &same);
	assert_int_equal(same.clients, first.clients);
	grant.epoch = 2;
	wh_publisher_grant(pub, &grant);
	delivers(pub, &m);
	wh_kafka_stats_get(pub, &other);
	assert_int_equal(other.clients, first.clients + 1);
	wherry_publisher_close(pub);
}

static void what_comes_meanwhile_is_in_the_next_transaction(void **state)
{
	wherry_publisher *pub = open_kafka("");
	const wherry_message *all[SEVERAL];
	wherry_message m[SEVERAL];
	wh_receipt receipts[SEVERAL];
	wh_kafka_stats stats;

	(void)state;
	for (int i = 0; i < SEVERAL; i++) {
		m[i] = numbered(i);
		all[i] = &m[i];
	}
	assert_int_equal(submit(pub, all, SEVERAL), SEVERAL);
	collect(pub, receipts, SEVERAL);
	for (int i = 0; i < SEVERAL; i++)
		assert_int_equal(receipts[i].verdict, WHERRY_DELIVERED);
	wh_kafka_stats_get(pub, &stats);
	assert_in_range(stats.transactions, 1, 2);
	is_idle(pub);
	wherry_publisher_close(pub);
}

static void a_commit_that_nobody_answers_is_unknown(void **state)
{
	wherry_publisher *pub = open_kafka("&delivery.timeout.ms=500");
	wherry_message m = message("x");
	wh_receipt receipt;

	(void)state;
	delivers(pub, &m);
	kafka_mock_tell(mock, "slow 1 %d 100000 100", END_TXN);
	submit_one(pub, &m);
	collect(pub, &receipt, 1);
	assert_int_equal(receipt.verdict, WHERRY_UNKNOWN);
	assert_non_null(strstr(receipt.reason, "perhaps written"));
	wherry_publisher_close(pub);
}

/* What the destination fails with when a message is in flight. */
static void fails_with(const char *command, wherry_code want, const char *text)
{
	wherry_publisher *pub = open_kafka("");
	wherry_message m = message("x");
	wherry_error err = WHERRY_ERROR_INIT;

	delivers(pub, &m);
	kafka_mock_tell(mock, "%s", command);
	submit_one(pub, &m);
	assert_int_equal(collect_error(pub, &err), want);
	if (!strstr(err.message, text))
		fail_msg("%s", err.message);
	wherry_publisher_close(pub);
}

static void who_is_fenced_is_told_to_look_at_the_lease(void **state)
{
	(void)state;
	fails_with("errors 26 INVALID_PRODUCER_EPOCH 1", WHERRY_STALE, "taken");
	fails_with("errors 24 INVALID_PRODUCER_EPOCH 1", WHERRY_STALE, "taken");
}

static void a_refused_commit_is_the_destinations(void **state)
{
	(void)state;
	fails_with("errors 26 TRANSACTIONAL_ID_AUTHORIZATION_FAILED 1", WHERRY_DENIED,
		   "rights");
	fails_with("errors 26 INVALID_TXN_STATE 1", WHERRY_CLOSED, "");
	fails_with("errors 24 INVALID_PRODUCER_ID_MAPPING 1", WHERRY_CLOSED, "");
}

/* Of the next two partitions that are to take part. */
static void refuse_the_second(void)
{
	kafka_mock_tell(mock, "errors %d 0 1", ADD_PARTITIONS);
	kafka_mock_tell(mock, "errors %d TOPIC_AUTHORIZATION_FAILED 1", ADD_PARTITIONS);
}

/* The first is with the brokers when the second, for another topic, may not take part. */
static void what_was_sent_is_not_charged_for_a_topic_without_rights(void **state)
{
	wherry_publisher *pub = open_kafka("");
	wherry_message good = numbered(1), bad = numbered(2);
	const wherry_message *both[] = {&good, &bad};
	wh_receipt receipts[2];

	(void)state;
	good.key = bad.key = "k"; /* so that the second waits for the first */
	bad.topic = "secret";
	refuse_the_second();
	assert_int_equal(submit(pub, both, 2), 2);
	collect(pub, receipts, 2);
	assert_int_equal(receipts[0].verdict, WHERRY_THROTTLED);
	assert_int_equal(receipts[1].verdict, WHERRY_THROTTLED);
	refuse_the_second();
	assert_int_equal(submit(pub, both, 2), 2);
	collect(pub, receipts, 2);
	assert_ptr_equal(receipts[0].message, &good);
	assert_int_equal(receipts[0].verdict, WHERRY_DELIVERED);
	assert_ptr_equal(receipts[1].message, &bad);
	assert_int_equal(receipts[1].verdict, WHERRY_RETRY);
	assert_non_null(strstr(receipts[1].reason, "topic secret: "));
	wherry_publisher_close(pub);
}

static void what_passes_is_not_told(void **state)
{
	static const char *const errors[] = {"COORDINATOR_NOT_AVAILABLE",
					     "CONCURRENT_TRANSACTIONS",
					     "COORDINATOR_LOAD_IN_PROGRESS"};
	wherry_publisher *pub = open_kafka("");
	wherry_message m = message("x");

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		kafka_mock_tell(mock, "errors %d %s 1", ADD_PARTITIONS, errors[i]);
		kafka_mock_tell(mock, "errors %d %s 1", END_TXN, errors[i]);
		delivers(pub, &m);
	}
	wherry_publisher_close(pub);
}

#define KAFKA(name) cmocka_unit_test_setup_teardown(name, start_mock, stop_mock)

int main(void)
{
	const struct CMUnitTest tests[] = {
		KAFKA(a_producer_has_the_number_of_its_lease),
		KAFKA(a_new_epoch_gets_a_new_producer),
		KAFKA(what_comes_meanwhile_is_in_the_next_transaction),
		KAFKA(a_commit_that_nobody_answers_is_unknown),
		KAFKA(who_is_fenced_is_told_to_look_at_the_lease),
		KAFKA(a_refused_commit_is_the_destinations),
		KAFKA(what_was_sent_is_not_charged_for_a_topic_without_rights),
		KAFKA(what_passes_is_not_told),
	};

	(void)cmocka_set_test_filter(getenv("WHERRY_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
