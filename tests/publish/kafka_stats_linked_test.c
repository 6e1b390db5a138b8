/*
 * kafka: what librdkafka knows of brokers, as numbers.
 */
#include "kafka_mock.h"
#include "unit/publish_fixture.h"

#include "publish/kafka/kafka.h"

static kafka_mock *mock; /* of the test that runs; NULL: not here */

static int start_mock(void **state)
{
	(void)alarm(90);
	mock = kafka_mock_start(2);
	return set_up(state);
}

static int stop_mock(void **state)
{
	if (mock)
		kafka_mock_stop(mock);
	(void)alarm(0);
	return tear_down(state);
}

static wherry_publisher *open_kafka(void)
{
	char url[1000];

	if (!mock)
		skip();
	(void)snprintf(url, sizeof(url), "kafka://%s?statistics.interval.ms=100",
		       mock->brokers);
	return open_url(url);
}

/* -1: there is no such number. */
static int64_t number_of(wherry_publisher *pub, const char *name)
{
	wh_number numbers[WH_NUMBERS_MOST];
	size_t n;

	wh_publisher_watch(pub);
	n = wh_publisher_numbers(pub, numbers);
	for (size_t i = 0; i < n; i++)
		if (strcmp(numbers[i].name, name) == 0)
			return numbers[i].value;
	return -1;
}

/* Watch until it is there, and 0 or not. */
static int64_t await_number(wherry_publisher *pub, const char *name, bool none)
{
	int64_t value;

	while ((value = number_of(pub, name)) < 0 || (value == 0) != none) {
		struct pollfd event = {.fd = ((wh_kafka *)pub)->client->fd,
				       .events = POLLIN};

		assert_true(poll(&event, 1, 30000) > 0);
	}
	return value;
}

WHERRY_TEST_WITH(who_watches_sees_brokers_and_requests, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka();
	wherry_message m = message("12345");

	assert_int_equal(number_of(pub, "kafka_sent_bytes_total"), -1);
	delivers(pub, &m);
	assert_in_range(await_number(pub, "kafka_round_trip_p99_microseconds", false), 1,
			30000000);
	assert_in_range(await_number(pub, "kafka_brokers_connected", false), 1, 2);
	assert_true(await_number(pub, "kafka_sent_bytes_total", false) > 5);
	assert_int_equal(number_of(pub, "kafka_queue_messages"), 0);
	assert_int_equal(number_of(pub, "kafka_retries_total"), 0);
	kafka_mock_tell(mock, "down 0");
	assert_int_equal(await_number(pub, "kafka_brokers_connected", true), 0);
	wherry_publisher_close(pub);
}

/* Nobody would take them in. */
WHERRY_TEST_WITH(without_watching_there_are_none, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka();
	const wh_kafka *p = (const wh_kafka *)pub;
	wherry_message m = message("x");
	wh_number numbers[WH_NUMBERS_MOST];
	size_t n;

	delivers(pub, &m);
	assert_false(p->set.watched);
	n = wh_publisher_numbers(pub, numbers);
	for (size_t i = 0; i < n; i++)
		assert_string_not_equal(numbers[i].name, "kafka_sent_bytes_total");
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(what_grows_goes_on_with_the_next_client, set_up, tear_down)
{
	static const char first[] =
		"{\"tx_bytes\":100,\"msg_cnt\":3,\"brokers\":{\"a\":{\"nodeid\":1,"
		"\"state\":\"UP\",\"txretries\":2,\"rtt\":{\"cnt\":5,\"p99\":70}},"
		"\"b\":{\"nodeid\":2,\"state\":\"DOWN\",\"rtt\":{\"cnt\":0,\"p99\":900}},"
		"\"c\":{\"nodeid\":3,\"state\":\"INIT\"},"
		"\"d\":{\"nodeid\":-1,\"state\":\"UP\",\"txretries\":1}}}";
	wh_kafka_watch watch = {0};

	wh_kafka_watch_take(&watch, first);
	assert_int_equal(watch.sent, 100);
	assert_int_equal(watch.retries, 3);
	assert_int_equal(watch.queued, 3);
	assert_int_equal(watch.rtt_us, 70);
	assert_int_equal(watch.connected, 1);
	wh_kafka_watch_take(&watch, "{\"tx_bytes\":150,\"brokers\":{}}");
	assert_int_equal(watch.sent, 150);
	wh_kafka_watch_renew(&watch);
	wh_kafka_watch_take(&watch, "{\"tx_bytes\":30,\"brokers\":{}}");
	assert_int_equal(watch.sent, 180);
	assert_int_equal(watch.retries, 3);
	wh_kafka_watch_take(&watch, "no JSON");
	assert_int_equal(watch.sent, 180);
}

int main(void)
{
	(void)cmocka_set_test_filter(getenv("WHERRY_ONLY"));
	return wherry_run_tests(NULL, NULL);
}
