/*
 * kafka: on librdkafka's mock cluster: records, partitions, errors.  What every
 * destination must do is in publisher_suite.c.
 */
#include "kafka_mock.h"
#include "unit/publish_fixture.h"

#include "publish/kafka/kafka.h"

enum { SEVERAL = 10 };

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
	(void)snprintf(url, sizeof(url), "kafka://%s%s%s", mock->brokers,
		       *parameters ? "?" : "", parameters);
	return open_url(url);
}

static const char *text_of(const json_t *record, const char *name)
{
	return json_string_value(json_object_get(record, name));
}

static int64_t number_of(const json_t *record, const char *name)
{
	return json_integer_value(json_object_get(record, name));
}

/* What the destination fails with when it is given a message. */
static wherry_error error_of(wherry_publisher *pub)
{
	wherry_message m = message("x");
	const wherry_message *msg = &m;
	wherry_error err = WHERRY_ERROR_INIT;
	size_t taken;

	if (wh_publisher_submit(pub, &msg, 1, &taken, &err) == WHERRY_OK)
		(void)collect_error(pub, &err);
	return err;
}

/* ---- records ---- */

static void assert_header(const json_t *record, const char *name, const char *want)
{
	const char *value = kafka_mock_header(record, name);

	if (!want && value)
		fail_msg("header %s: %s", name, value);
	if (want && (!value || strcmp(value, want) != 0))
		fail_msg("header %s: %s, not %s", name, value ? value : "is missing",
			 want);
}

WHERRY_TEST_WITH(a_record_has_all_that_the_message_has, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("");
	wherry_message m = message("{\"a\":1}");
	json_t *all, *record;

	m.id = 7;
	m.key = "customer-1";
	m.aggregate_type = "order";
	m.aggregate_id = "42";
	m.created_at_us = 1700000000123456;
	m.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
	m.headers = "{\"tenant\":\"a\\u00e4\",\"none\":null,\"message-id\":\"forged\"}";
	delivers(pub, &m);
	wherry_publisher_close(pub);
	all = kafka_mock_read(mock, "t");
	assert_int_equal(json_array_size(all), 1);
	record = json_array_get(all, 0);
	assert_string_equal(text_of(record, "key"), "customer-1");
	assert_string_equal(text_of(record, "payload"), "{\"a\":1}");
	assert_int_equal(number_of(record, "ts"), 1700000000123);
	assert_header(record, "tenant", "a\xc3\xa4");
	assert_header(record, "message-id", "m");
	assert_header(record, "aggregate-type", "order");
	assert_header(record, "aggregate-id", "42");
	assert_header(record, "content-type", "application/json");
	assert_header(record, "trace-id", "4bf92f3577b34da6a3ce929d0e0e4736");
	assert_header(record, "traceparent",
		      "00-4bf92f3577b34da6a3ce929d0e0e4736-af63e04c8601f358-01");
	json_decref(all);
}

WHERRY_TEST_WITH(a_record_has_nothing_that_the_message_has_not, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("");
	wherry_message m = message("no json");
	json_t *all, *record;

	delivers(pub, &m);
	wherry_publisher_close(pub);
	all = kafka_mock_read(mock, "t");
	record = json_array_get(all, 0);
	assert_true(json_is_null(json_object_get(record, "key")));
	assert_int_equal(json_array_size(json_object_get(record, "headers")), 2);
	json_decref(all);
}

WHERRY_TEST_WITH(a_body_of_null_is_a_tombstone_and_an_empty_one_is_not, start_mock,
		 stop_mock)
{
	wherry_publisher *pub = open_kafka("");
	wherry_message empty = message(""), null = message("");
	json_t *all;

	kafka_mock_tell(mock, "topic t 1");
	null.body = NULL;
	empty.key = null.key = "k";
	delivers(pub, &empty);
	delivers(pub, &null);
	wherry_publisher_close(pub);
	all = kafka_mock_read(mock, "t");
	assert_int_equal(json_array_size(all), 2);
	assert_string_equal(text_of(json_array_get(all, 0), "payload"), "");
	assert_true(json_is_null(json_object_get(json_array_get(all, 1), "payload")));
	json_decref(all);
}

WHERRY_TEST_WITH(the_applications_trace_and_type_win, start_mock, stop_mock)
{
	static const char parent[] =
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	wherry_publisher *pub = open_kafka("");
	wherry_message own = message("{}"), given = message("{}");
	json_t *all;

	own.aggregate_id = "k";
	own.trace_id = parent;
	given.aggregate_id = "k";
	given.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
	given.headers = "{\"traceparent\":\"theirs\",\"content-type\":\"text/x\"}";
	delivers(pub, &own);
	delivers(pub, &given);
	wherry_publisher_close(pub);
	all = kafka_mock_read(mock, "t");
	assert_string_equal(text_of(json_array_get(all, 0), "key"), "k");
	assert_header(json_array_get(all, 0), "traceparent", parent);
	assert_header(json_array_get(all, 1), "traceparent", "theirs");
	assert_header(json_array_get(all, 1), "content-type", "text/x");
	json_decref(all);
}

WHERRY_TEST_WITH(topics_can_be_prefixed_or_all_be_one, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("topic.prefix=shop%2E");
	wherry_message m = message("x");
	json_t *all;

	delivers(pub, &m);
	wherry_publisher_close(pub);
	pub = open_kafka("topic=events");
	delivers(pub, &m);
	wherry_publisher_close(pub);
	all = kafka_mock_read(mock, "shop.t");
	assert_int_equal(json_array_size(all), 1);
	json_decref(all);
	all = kafka_mock_read(mock, "events");
	assert_int_equal(json_array_size(all), 1);
	json_decref(all);
}

/* The mock cluster makes topics by itself, and none when it is asked to: what is to go
 * there goes there all the same. */
WHERRY_TEST_WITH(where_no_topic_can_be_made_messages_say_what_they_meet, start_mock,
		 stop_mock)
{
	wherry_publisher *pub = open_kafka("create=partitions:3,replication:1&"
					   "delivery.timeout.ms=2000");
	wherry_message first = message("1"), second = message("2");
	json_t *all;

	first.key = second.key = "k";
	delivers(pub, &first);
	delivers(pub, &second);
	wherry_publisher_close(pub);
	all = kafka_mock_read(mock, "t");
	assert_int_equal(json_array_size(all), 2);
	json_decref(all);
}

/* ---- partitions ---- */

/* The published test vectors of Kafka's Java client for murmur2. */
static const struct {
	const char *key;
	int32_t hash;
} vectors[] = {
	{"21", -973932308},
	{"foobar", -790332482},
	{"a-little-bit-long-string", -985981536},
	{"a-little-bit-longer-string", -1486304829},
	{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
	{"abc", 479470107},
};

WHERRY_TEST_WITH(keys_go_to_the_partitions_that_java_chooses, start_mock, stop_mock)
{
	enum { N = sizeof(vectors) / sizeof(*vectors), PARTITIONS = 97 };
	wherry_publisher *pub = open_kafka("");
	json_t *all, *record;
	size_t i;

	kafka_mock_tell(mock, "topic t %d", PARTITIONS);
	for (i = 0; i < N; i++) {
		wherry_message m = message("x");

		m.key = vectors[i].key;
		delivers(pub, &m);
	}
	wherry_publisher_close(pub);
	all = kafka_mock_read(mock, "t");
	assert_int_equal(json_array_size(all), N);
	json_array_foreach (all, i, record) {
		size_t v = 0;

		while (strcmp(vectors[v].key, text_of(record, "key")) != 0)
			v++;
		assert_int_equal(number_of(record, "partition"),
				 (vectors[v].hash & 0x7fffffff) % PARTITIONS);
	}
	json_decref(all);
}

WHERRY_TEST_WITH(a_header_may_name_the_partition, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("");
	wherry_message m = message("x");
	json_t *all;

	kafka_mock_tell(mock, "topic t 8");
	for (int i = 0; i < 8; i++) {
		char headers[64];

		(void)snprintf(headers, sizeof(headers), "{\"wherry-partition\":\"%d\"}",
			       i);
		m.key = "always the same";
		m.headers = headers;
		delivers(pub, &m);
	}
	wherry_publisher_close(pub);
	all = kafka_mock_read(mock, "t");
	assert_int_equal(json_array_size(all), 8);
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(number_of(json_array_get(all, i), "offset"), 0);
		assert_header(json_array_get(all, i), "wherry-partition", NULL);
	}
	json_decref(all);
}

/* What becomes of one message alone. */
static wh_receipt fate_of(wherry_publisher *pub, const wherry_message *msg)
{
	wh_receipt receipt;

	submit_one(pub, msg);
	collect(pub, &receipt, 1);
	return receipt;
}

WHERRY_TEST_WITH(a_partition_that_is_not_there_is_tried_again, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("");
	wherry_message m = message("x");
	wh_receipt receipt;

	delivers(pub, &m);
	m.headers = "{\"wherry-partition\":\"100\"}";
	receipt = fate_of(pub, &m);
	assert_int_equal(receipt.verdict, WHERRY_RETRY);
	assert_non_null(strstr(receipt.reason, "fewer partitions"));
	m.headers = "{\"wherry-partition\":\"-1\"}";
	receipt = fate_of(pub, &m);
	assert_int_equal(receipt.verdict, WHERRY_REJECTED);
	assert_non_null(strstr(receipt.reason, "'-1' is not a partition number"));
	wherry_publisher_close(pub);
}

/* ---- order ---- */

/* Of ten messages of a key, by turns to two topics. */
static void make_by_turns(wherry_message *m, const wherry_message **all)
{
	for (int i = 0; i < SEVERAL; i++) {
		m[i] = numbered(i);
		m[i].key = "k";
		m[i].topic = i % 2 ? "odd" : "even";
		all[i] = &m[i];
	}
}

WHERRY_TEST_WITH(a_key_keeps_its_order_across_topics, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("topic.metadata.propagation.max.ms=100");
	const wherry_message *all[SEVERAL];
	wherry_message m[SEVERAL];
	wh_receipt receipts[SEVERAL];
	json_t *there;

	make_by_turns(m, all);
	assert_int_equal(submit(pub, all, SEVERAL), SEVERAL);
	collect(pub, receipts, SEVERAL);
	for (int i = 0; i < SEVERAL; i++) {
		assert_ptr_equal(receipts[i].message, &m[i]);
		assert_int_equal(receipts[i].verdict, WHERRY_DELIVERED);
	}
	/* The first cannot be sent: so is none behind it, though it could be. */
	kafka_mock_tell(mock, "topic-error nowhere UNKNOWN_TOPIC_OR_PART");
	m[0].topic = "nowhere";
	assert_int_equal(submit(pub, all, SEVERAL), SEVERAL);
	collect(pub, receipts, SEVERAL);
	assert_int_equal(receipts[0].verdict, WHERRY_RETRY);
	for (int i = 1; i < SEVERAL; i++)
		assert_int_equal(receipts[i].verdict, WHERRY_THROTTLED);
	wherry_publisher_close(pub);
	there = kafka_mock_read(mock, "odd");
	assert_int_equal(json_array_size(there), SEVERAL / 2);
	json_decref(there);
}

WHERRY_TEST_WITH(without_idempotence_one_of_a_key_is_in_flight, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("enable.idempotence=false");
	wherry_message m = message("x");

	assert_int_equal(pub->driver->caps & WH_PUB_ORDERED, 0);
	delivers(pub, &m);
	wherry_publisher_close(pub);
	pub = open_kafka("");
	assert_int_equal(pub->driver->caps & WH_PUB_ORDERED, WH_PUB_ORDERED);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(any_compression_arrives_whole, start_mock, stop_mock)
{
	static const char *const codecs[] = {"none", "gzip", "snappy", "lz4", "zstd"};
	enum { N = sizeof(codecs) / sizeof(*codecs) };
	static char body[20000];
	wherry_message m = message("");
	json_t *all;

	memset(body, 'a', sizeof(body) - 1);
	m.body = body;
	m.body_len = sizeof(body) - 1;
	m.key = "k";
	for (size_t i = 0; i < N; i++) {
		char parameter[40];
		wherry_publisher *pub;

		(void)snprintf(parameter, sizeof(parameter), "compression.type=%s",
			       codecs[i]);
		pub = open_kafka(parameter);
		delivers(pub, &m);
		wherry_publisher_close(pub);
	}
	all = kafka_mock_read(mock, "t");
	assert_int_equal(json_array_size(all), N);
	for (size_t i = 0; i < N; i++)
		assert_string_equal(text_of(json_array_get(all, i), "payload"), body);
	json_decref(all);
}

/* ---- what brokers answer ---- */

static const struct {
	const char *error;      /* to the next request that writes */
	wherry_verdict verdict; /* of the one message in it, */
	wherry_code code;       /* unless it is the destination's error */
} answers[] = {
	{"MSG_SIZE_TOO_LARGE", WHERRY_REJECTED, WHERRY_OK},
	/* As long as the topic took no other, it may reject all. */
	{"INVALID_RECORD", WHERRY_RETRY, WHERRY_OK},
	{"POLICY_VIOLATION", WHERRY_RETRY, WHERRY_OK},
	{"INVALID_TIMESTAMP", WHERRY_RETRY, WHERRY_OK},
	{"THROTTLING_QUOTA_EXCEEDED", WHERRY_THROTTLED, WHERRY_OK},
	{"TOPIC_AUTHORIZATION_FAILED", WHERRY_RETRY, WHERRY_OK},
	{"CLUSTER_AUTHORIZATION_FAILED", 0, WHERRY_DENIED},
	{"INVALID_REQUIRED_ACKS", 0, WHERRY_INVALID},
	{"UNSUPPORTED_COMPRESSION_TYPE", 0, WHERRY_INVALID},
	{"UNSUPPORTED_VERSION", 0, WHERRY_INVALID},
	/* What passes is not told. */
	{"LEADER_NOT_AVAILABLE", WHERRY_DELIVERED, WHERRY_OK},
	{"NOT_LEADER_FOR_PARTITION", WHERRY_DELIVERED, WHERRY_OK},
	{"NOT_ENOUGH_REPLICAS", WHERRY_DELIVERED, WHERRY_OK},
	{"NOT_ENOUGH_REPLICAS_AFTER_APPEND", WHERRY_DELIVERED, WHERRY_OK},
	{"REQUEST_TIMED_OUT", WHERRY_DELIVERED, WHERRY_OK},
	{"UNKNOWN_TOPIC_OR_PART", WHERRY_DELIVERED, WHERRY_OK},
	{"KAFKA_STORAGE_ERROR", WHERRY_DELIVERED, WHERRY_OK},
	{"_TRANSPORT", WHERRY_DELIVERED, WHERRY_OK}, /* the connection breaks */
};

WHERRY_TEST_WITH(each_answer_is_told_for_what_it_is, start_mock, stop_mock)
{
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		wherry_publisher *pub = open_kafka("");
		wherry_message m = message("x");
		wh_receipt receipt;

		kafka_mock_tell(mock, "errors 0 %s 1", answers[i].error);
		m.id = 1;
		if (answers[i].code) {
			wherry_error err = error_of(pub);

			if (err.code != answers[i].code)
				fail_msg("%s: %s", answers[i].error, err.message);
		} else {
			receipt = fate_of(pub, &m);
			if (receipt.verdict != answers[i].verdict)
				fail_msg("%s: verdict %d, %s", answers[i].error,
					 receipt.verdict, receipt.reason);
		}
		wherry_publisher_close(pub);
	}
}

/* Conditions of a topic, each of which a few messages meet while others are taken. */
static const struct {
	const char *name;
	const char *command; /* For the mock, about the topic "secret". */
	const char *reason;
} conditions[] = {
	{"a missing right", "errors 0 TOPIC_AUTHORIZATION_FAILED 1", "rights"},
	{"a missing topic", "topic-error secret UNKNOWN_TOPIC_OR_PART", "topic secret"},
	{"times that are refused", "errors 0 INVALID_TIMESTAMP 1", "clocks"},
	{"records that are refused", "errors 0 INVALID_RECORD 1", ""},
};

static void assert_fate(const char *name, wherry_publisher *pub,
			const wherry_message *msg, bool held, const char *reason)
{
	wh_receipt receipt = fate_of(pub, msg);

	if (receipt.verdict != WHERRY_RETRY || receipt.held != held ||
	    !strstr(receipt.reason, reason))
		fail_msg("%s: verdict %d, held %d: %s", name, receipt.verdict,
			 receipt.held, receipt.reason);
}

WHERRY_TEST_WITH(a_condition_of_a_topic_counts_against_no_message, start_mock, stop_mock)
{
	enum { DOUBTED = 2 }; /* from here on the message may be to blame */

	for (size_t i = 0; i < sizeof(conditions) / sizeof(*conditions); i++) {
		wherry_publisher *pub;
		wherry_message good = numbered(1), bad = numbered(2), next = numbered(3);

		bad.topic = next.topic = "secret";
		if (i) {
			kafka_mock_stop(mock);
			mock = kafka_mock_start(1);
		}
		pub = open_kafka(
			"delivery.timeout.ms=8000&topic.metadata.propagation.max.ms=100");
		delivers(pub, &good);
		for (int n = 1; i >= DOUBTED && n < 3; n++) {
			kafka_mock_tell(mock, "%s", conditions[i].command);
			assert_fate(conditions[i].name, pub, &bad, false, "");
		}
		kafka_mock_tell(mock, "%s", conditions[i].command);
		assert_fate(conditions[i].name, pub, &bad, true, conditions[i].reason);
		/* The next one is not even sent, and says why. */
		assert_fate(conditions[i].name, pub, &next, true, "is held");
		assert_fate(conditions[i].name, pub, &next, true, conditions[i].reason);
		delivers(pub, &good);
		wherry_publisher_close(pub);
	}
}

/* A topic without rights among others is not the end of all. */
WHERRY_TEST_WITH(a_topic_without_rights_harms_no_others, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("");
	wherry_message good = message("good"), bad = message("bad");
	wh_receipt receipt;

	delivers(pub, &good);
	kafka_mock_tell(mock, "errors 0 TOPIC_AUTHORIZATION_FAILED 1");
	bad.topic = "secret";
	receipt = fate_of(pub, &bad);
	assert_int_equal(receipt.verdict, WHERRY_RETRY);
	assert_true(receipt.held);
	assert_non_null(strstr(receipt.reason, "rights"));
	delivers(pub, &good);
	wherry_publisher_close(pub);
}

/* Ten messages in one request, which is refused: who is to blame shows when each is sent
 * in a request of its own. */
WHERRY_TEST_WITH(a_refused_request_is_not_held_against_all_its_messages, start_mock,
		 stop_mock)
{
	wherry_publisher *pub = open_kafka("linger.ms=200");
	const wherry_message *all[SEVERAL];
	wherry_message m[SEVERAL];
	wh_receipt receipts[SEVERAL];
	size_t rejected = 0, delivered = 0;

	kafka_mock_tell(mock, "topic t 1");
	for (int i = 0; i < SEVERAL; i++) {
		m[i] = numbered(i + 1);
		m[i].key = "k";
		all[i] = &m[i];
	}
	delivers(pub, &m[0]); /* the first of a key goes alone */
	kafka_mock_tell(mock, "errors 0 INVALID_RECORD 2");
	assert_int_equal(submit(pub, all, SEVERAL), SEVERAL);
	collect(pub, receipts, SEVERAL);
	for (int i = 0; i < SEVERAL; i++) {
		assert_ptr_equal(receipts[i].message, &m[i]);
		assert_int_equal(receipts[i].verdict, WHERRY_THROTTLED);
	}
	assert_int_equal(submit(pub, all, SEVERAL), SEVERAL);
	collect(pub, receipts, SEVERAL);
	for (int i = 0; i < SEVERAL; i++)
		rejected += receipts[i].verdict == WHERRY_REJECTED;
	assert_int_equal(rejected, 1);
	assert_int_equal(receipts[0].verdict, WHERRY_REJECTED);
	for (int i = 1; i < SEVERAL; i++)
		assert_int_equal(receipts[i].verdict, WHERRY_THROTTLED);
	assert_int_equal(submit(pub, all + 1, SEVERAL - 1), SEVERAL - 1);
	collect(pub, receipts, SEVERAL - 1);
	for (int i = 0; i < SEVERAL - 1; i++)
		delivered += receipts[i].verdict == WHERRY_DELIVERED;
	assert_int_equal(delivered, SEVERAL - 1);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(what_is_late_is_unknown_and_what_was_not_sent_is_retried, start_mock,
		 stop_mock)
{
	wherry_publisher *pub = open_kafka("delivery.timeout.ms=400");
	wherry_message well = message("well"), stuck = message("stuck");
	const wherry_message *both[] = {&stuck, &well};
	wh_receipt receipts[2];

	kafka_mock_tell(mock, "topic nobody 1");
	kafka_mock_tell(mock, "leader nobody 0 -1");
	stuck.topic = "nobody";
	assert_int_equal(submit(pub, both, 2), 2);
	collect(pub, receipts, 2);
	assert_ptr_equal(receipts[0].message, &well);
	assert_int_equal(receipts[0].verdict, WHERRY_DELIVERED);
	assert_ptr_equal(receipts[1].message, &stuck);
	assert_int_equal(receipts[1].verdict, WHERRY_RETRY);
	assert_true(receipts[1].held); /* Its partition took no other one. */
	assert_non_null(strstr(receipts[1].reason, "not acknowledged within 400ms"));
	wherry_publisher_close(pub);
}

/* The first request is answered, the other never is. */
WHERRY_TEST_WITH(our_own_purge_is_no_cause, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("delivery.timeout.ms=700");
	wherry_message m[2] = {message("x"), message("y")};
	const wherry_message *both[] = {&m[0], &m[1]};
	wh_receipt receipts[2];

	kafka_mock_tell(mock, "topic one 1");
	kafka_mock_tell(mock, "topic two 1");
	kafka_mock_tell(mock, "slow 1 0 0 1");
	kafka_mock_tell(mock, "slow 1 0 100000 100");
	m[0].topic = "one";
	m[1].topic = "two";
	assert_int_equal(submit(pub, both, 2), 2);
	collect(pub, receipts, 2);
	assert_int_equal(receipts[0].verdict, WHERRY_DELIVERED);
	assert_int_equal(receipts[1].verdict, WHERRY_UNKNOWN);
	if (!strstr(receipts[1].reason, "not acknowledged within 700ms") ||
	    strstr(receipts[1].reason, "Purged"))
		fail_msg("%s", receipts[1].reason);
	wherry_publisher_close(pub);
}

/* Messages behind slow ones could be late. */
WHERRY_TEST_WITH(while_deliveries_are_slow_no_more_are_taken, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("delivery.timeout.ms=4000");
	wherry_message m[3] = {message("x"), message("y"), message("z")};
	const wherry_message *all[] = {&m[0], &m[1], &m[2]};
	wh_receipt receipts[3];

	kafka_mock_tell(mock, "topic one 1");
	kafka_mock_tell(mock, "topic two 1");
	m[0].topic = m[2].topic = "one";
	m[1].topic = "two";
	kafka_mock_tell(mock, "slow 1 0 600 1");
	kafka_mock_tell(mock, "slow 1 0 1500 1");
	assert_int_equal(submit(pub, all, 2), 2);
	collect(pub, receipts, 1);
	assert_int_equal(receipts[0].verdict, WHERRY_DELIVERED);
	assert_int_equal(submit(pub, all + 2, 1), 0);
	collect(pub, receipts + 1, 1);
	assert_int_equal(receipts[1].verdict, WHERRY_DELIVERED);
	delivers(pub, &m[2]);
	wherry_publisher_close(pub);
}

/* Brokers were gone, and take nothing since they are back. */
WHERRY_TEST_WITH(a_broker_that_refuses_is_not_down, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("");
	const wh_kafka *p = (const wh_kafka *)pub;
	wherry_message m = message("x");
	wh_receipt receipt;
	size_t n;

	delivers(pub, &m);
	kafka_mock_tell(mock, "down 0");
	kafka_mock_tell(mock, "errors 0 MSG_SIZE_TOO_LARGE 100");
	submit_one(pub, &m);
	while (!p->stats.down) {
		wherry_error err = WHERRY_ERROR_INIT;

		await(pub);
		WHERRY_PASS(wh_publisher_collect(pub, &receipt, 1, &n, &err));
		assert_int_equal(n, 0);
	}
	kafka_mock_tell(mock, "up 0");
	collect(pub, &receipt, 1);
	assert_int_equal(receipt.verdict, WHERRY_REJECTED);
	assert_false(p->stats.down);
	wherry_publisher_close(pub);
}

/* ---- brokers that cannot be used ---- */

WHERRY_TEST_WITH(a_wrong_address_is_told_with_its_cause, set_up, tear_down)
{
	wherry_publisher *pub = open_url("kafka://127.0.0.1:1");
	wherry_error err = error_of(pub);

	assert_int_equal(err.code, WHERRY_CLOSED);
	assert_non_null(strstr(err.message, "127.0.0.1:1"));
	assert_non_null(strstr(err.message, "Connection refused"));
	wherry_publisher_close(pub);
	pub = open_url("kafka://no-such-host.invalid:9092");
	err = error_of(pub);
	assert_int_equal(err.code, WHERRY_CLOSED);
	assert_non_null(strstr(err.message, "no-such-host.invalid"));
	wherry_publisher_close(pub);
}

/* The mock cluster speaks neither. */
WHERRY_TEST_WITH(a_broker_that_speaks_no_tls_or_sasl_is_told, start_mock, stop_mock)
{
	static const char *const parameters[] = {
		"security.protocol=ssl",
		"security.protocol=sasl_plaintext&sasl.mechanism=PLAIN&sasl.username=u&"
		"sasl.password=secret",
	};

	for (size_t i = 0; i < 2; i++) {
		wherry_publisher *pub = open_kafka(parameters[i]);
		wherry_error err = error_of(pub);

		if (err.code != WHERRY_DENIED && err.code != WHERRY_CLOSED)
			fail_msg("%s: %s", wherry_code_name(err.code), err.message);
		assert_null(strstr(err.message, "secret"));
		wherry_publisher_close(pub);
	}
}

/* ---- numbers ---- */

WHERRY_TEST_WITH(what_was_done_is_counted, start_mock, stop_mock)
{
	wherry_publisher *pub = open_kafka("");
	wherry_message m = message("12345");
	wh_kafka_stats stats;

	delivers(pub, &m);
	submit_one(pub, &m);
	wh_kafka_stats_get(pub, &stats);
	assert_int_equal(stats.delivered, 1);
	assert_int_equal(stats.bytes, 5);
	assert_int_equal(stats.in_flight, 1);
	assert_int_equal(stats.clients, 1);
	assert_true(stats.last_delivery_us > 0);
	wherry_publisher_close(pub);
}

int main(void)
{
	(void)cmocka_set_test_filter(getenv("WHERRY_ONLY"));
	return wherry_run_tests(NULL, NULL);
}
