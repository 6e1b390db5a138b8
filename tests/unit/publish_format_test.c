/*
 * The formats of messages (settings message.*), on the destination memory:.
 */
#include "wherry_test.h"

#include <wherry/wherry.h>

#include "publish/driver.h"

typedef struct bench {
	wherry_config *config;
	wherry_publisher *pub;
	wh_receipt receipt; /* The last one. */
} bench;

static int begin(void **state)
{
	static bench b;

	b = (bench){NULL, NULL, {0}};
	*state = &b;
	return wherry_config_new(&b.config, NULL) == WHERRY_OK ? 0 : -1;
}

static int end(void **state)
{
	bench *b = *state;

	wherry_publisher_close(b->pub);
	wherry_config_free(b->config);
	return 0;
}

static void set(bench *b, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(b->config, key, value, &err));
}

static const char *standard_of(const char *key)
{
	const wherry_setting *row = wherry_config_table();

	while (strcmp(row->key, key) != 0)
		row++;
	return row->standard;
}

static void open_it(bench *b)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_publisher_open("memory:", b->config, &b->pub, &err));
}

/* Send messages one after the other, and expect this verdict of each. */
static void send_it(bench *b, const wherry_message *msg, wherry_verdict verdict)
{
	wherry_error err = WHERRY_ERROR_INIT;
	size_t n = 0;

	if (!b->pub)
		open_it(b);
	WHERRY_PASS(wh_publisher_submit(b->pub, &msg, 1, &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wh_publisher_collect(b->pub, &b->receipt, 1, &n, &err));
	assert_int_equal(n, 1);
	assert_ptr_equal(b->receipt.message, msg);
	if (b->receipt.verdict != verdict)
		fail_msg("verdict %d: %s", (int)b->receipt.verdict, b->receipt.reason);
}

static const wherry_message *sends(bench *b, const wherry_message *msg)
{
	send_it(b, msg, WHERRY_DELIVERED);
	return wherry_memory_get(b->pub, wherry_memory_count(b->pub) - 1);
}

static void rejects(bench *b, const wherry_message *msg, const char *why)
{
	send_it(b, msg, WHERRY_REJECTED);
	if (!strstr(b->receipt.reason, why))
		fail_msg("'%s' lacks '%s'", b->receipt.reason, why);
}

static void refuses_setting(bench *b, const char *key, const char *value, const char *why)
{
	wherry_error err = WHERRY_ERROR_INIT;

	set(b, key, value);
	assert_int_equal(wherry_publisher_open("memory:", b->config, &b->pub, &err),
			 WHERRY_INVALID);
	assert_null(b->pub);
	assert_int_equal(wh_publisher_check("memory:", b->config, NULL), WHERRY_INVALID);
	if (!strstr(err.message, why) || !strstr(err.message, key))
		fail_msg("'%s' lacks '%s'", err.message, why);
}

static void has_body(const wherry_message *msg, const void *body, size_t len)
{
	assert_int_equal(msg->body_len, len);
	assert_memory_equal(msg->body, body, len);
}

static wherry_message order(const char *headers, const char *body)
{
	wherry_message m = WHERRY_MESSAGE(.topic = "orders", .message_id = "m1",
					  .aggregate_type = "order", .aggregate_id = "9",
					  .key = "k", .headers = headers, .body = body);

	m.body_len = strlen(body);
	m.created_at_us = 1700000000123000;
	return m;
}

/* ---- raw ---- */

WHERRY_TEST_ON(without_a_setting_the_message_itself_is_handed_over, bench *b, begin, end)
{
	open_it(b);
	assert_ptr_equal(b->pub->driver, &wh_publisher_memory);
}

WHERRY_TEST_ON(a_raw_body_passes_byte_for_byte, bench *b, begin, end)
{
	static const char body[] = "\0\xff\r\n{";
	wherry_message m = order("{\"a\":\"b\"}", "");
	const wherry_message *got;

	set(b, "message.topic", "shop.{topic}");
	m.body = body;
	m.body_len = sizeof(body);
	got = sends(b, &m);
	has_body(got, body, sizeof(body));
	assert_string_equal(got->topic, "shop.orders");
	assert_string_equal(got->headers, "{\"a\":\"b\"}");
	assert_string_equal(got->key, "k");
}

/* ---- templates and header mapping ---- */

WHERRY_TEST_ON(templates_name_fields_and_headers, bench *b, begin, end)
{
	wherry_message m = order("{\"tenant\":\"acme\"}", "x");
	const wherry_message *got;

	set(b, "message.topic", "{header:tenant}.{aggregate_type}.{topic}");
	set(b, "message.key", "{aggregate_id}/{key}/{message_id}");
	got = sends(b, &m);
	assert_string_equal(got->topic, "acme.order.orders");
	assert_string_equal(got->key, "9/k/m1");
	assert_int_equal(b->pub->driver->caps & WH_PUB_ORDERED, 0);
}

WHERRY_TEST_ON(a_message_that_lacks_a_value_is_dead_and_no_other, bench *b, begin, end)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message m = order(NULL, "x"), with = order("{\"tenant\":\"t\"}", "y");
	const wherry_message *both[] = {&m, &with};
	wh_receipt receipts[2];
	size_t n = 0;

	set(b, "message.topic", "{header:tenant}");
	rejects(b, &m, "message.topic={header:tenant}: the message has no header tenant");
	assert_string_equal(sends(b, &with)->topic, "t");
	m.headers = "{\"tenant\":null}";
	rejects(b, &m, "no header tenant");
	m.headers = "{\"tenant\":";
	rejects(b, &m, "");
	/* Nothing is taken behind it until its receipt was given. */
	WHERRY_PASS(wh_publisher_submit(b->pub, both, 2, &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wh_publisher_submit(b->pub, both + 1, 1, &n, &err));
	assert_int_equal(n, 0);
	assert_int_equal(wh_publisher_deadline(b->pub), 0);
	WHERRY_PASS(wh_publisher_collect(b->pub, receipts, 2, &n, &err));
	assert_int_equal(n, 1);
	assert_int_equal(receipts[0].verdict, WHERRY_REJECTED);
	assert_string_equal(sends(b, &with)->topic, "t");
}

WHERRY_TEST_ON(headers_are_dropped_renamed_and_added, bench *b, begin, end)
{
	wherry_message m = order("{\"x-a\":\"1\",\"x-b\":\"2\",\"user\":\"\\u00e4\\\"\","
				 "\"n\":null}",
				 "x");

	set(b, "message.headers",
	    "drop x-*;rename user userid\n add env  {topic} of {header:user} ;; "
	    "rename none other; drop missing");
	assert_string_equal(sends(b, &m)->headers,
			    "{\"n\":null,\"userid\":\"\xc3\xa4\\\"\","
			    "\"env\":\"orders of \xc3\xa4\\\"\"}");
}

WHERRY_TEST_ON(two_headers_of_one_name_are_refused, bench *b, begin, end)
{
	wherry_message m = order("{\"a\":\"1\",\"b\":\"2\"}", "x");

	set(b, "message.headers", "rename a b");
	rejects(b, &m, "has a header 'b' already; drop it first");
	m.headers = "{\"a\":\"1\"}";
	assert_string_equal(sends(b, &m)->headers, "{\"b\":\"1\"}");
}

WHERRY_TEST_ON(odd_settings_are_refused, bench *b, begin, end)
{
	static const char *const all[][3] = {
		{"message.topic", "{tpoic}", "'tpoic' in braces stands for nothing"},
		{"message.topic", "a}", "stands for nothing"},
		{"message.key", "{", "stands for nothing"},
		{"message.key", "{header:}", "stands for nothing"},
		{"message.headers", "dorp a", "'dorp a' is not a rule"},
		{"message.headers", "drop", "is not a rule"},
		{"message.headers", "drop a b", "is not a rule"},
		{"message.headers", "rename a", "is not a rule"},
		{"message.headers", "rename a b c", "is not a rule"},
		{"message.headers", "add a;b", "is not a rule"},
		{"message.headers", "add a {x}", "stands for nothing"},
		{"message.placement", "type:header:a", "add message.format=debezium"},
		{"message.source", "/shop", "add message.format=cloudevents"},
		{"message.type", "x", "add message.format=cloudevents"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		refuses_setting(b, all[i][0], all[i][1], all[i][2]);
		set(b, all[i][0], standard_of(all[i][0]));
	}
	set(b, "message.format", "debezium");
	refuses_setting(b, "message.type", "{a{b}}", "stands for nothing");
	set(b, "message.type", standard_of("message.type"));
	refuses_setting(b, "message.placement", "type", "'type' is not COLUMN:header");
	refuses_setting(b, "message.placement", "typ:header", "'typ:header' is not");
	refuses_setting(b, "message.placement", "type:partition", "is not COLUMN");
	refuses_setting(b, "message.placement", "type:header:", "is not COLUMN");
	refuses_setting(b, "message.placement", "type:header:a:b", "is not COLUMN");
	set(b, "message.placement", "");
	set(b, "message.format", "cloudevents");
	refuses_setting(b, "message.source", "", "must not be empty");
}

/* ---- CloudEvents ---- */

static const char trace[] = "0af7651916cd43dd8448eb211c80319c";

WHERRY_TEST_ON(a_cloud_event_has_its_attributes_as_headers, bench *b, begin, end)
{
	wherry_message m =
		order("{\"tracestate\":\"a=b\",\"baggage\":\"c=d\"}", "{\"n\":1}");
	const wherry_message *got;

	set(b, "message.format", "cloudevents");
	set(b, "message.source", "/shop");
	set(b, "message.type", "com.shop.{topic}");
	set(b, "message.topic", "t");
	m.trace_id = trace;
	got = sends(b, &m);
	has_body(got, "{\"n\":1}", 7);
	assert_string_equal(
		got->headers,
		"{\"tracestate\":\"a=b\",\"baggage\":\"c=d\",\"ce-specversion\":\"1.0\","
		"\"ce-id\":\"m1\",\"ce-source\":\"/shop\",\"ce-type\":\"com.shop.orders\","
		"\"ce-time\":\"2023-11-14T22:13:20.123Z\",\"ce-subject\":\"9\","
		"\"ce-partitionkey\":\"k\",\"ce-traceparent\":"
		"\"00-0af7651916cd43dd8448eb211c80319c-08a98b07b5509b6b-01\","
		"\"ce-tracestate\":\"a=b\",\"content-type\":\"application/json\"}");
}

WHERRY_TEST_ON(a_structured_cloud_event_is_one_object, bench *b, begin, end)
{
	wherry_message m = order("{\"Content-Type\":\"text/plain\",\"a\":\"b\"}", "x\"y");
	const wherry_message *got;

	set(b, "message.format", "cloudevents-structured");
	m.created_at_us = 0;
	m.aggregate_id = NULL;
	got = sends(b, &m);
	assert_string_equal(got->headers, "{\"a\":\"b\",\"content-type\":\"application/"
					  "cloudevents+json\"}");
	assert_string_equal(
		got->body,
		"{\"specversion\":\"1.0\",\"id\":\"m1\",\"source\":\"/wherry\","
		"\"type\":\"orders\",\"partitionkey\":\"k\","
		"\"datacontenttype\":\"text/plain\",\"data\":\"x\\\"y\"}");
}

WHERRY_TEST_ON(no_message_forges_an_attribute, bench *b, begin, end)
{
	static const char *const names[] = {"ce-id", "CE-Source", "ce_type", "Ce.Time"};
	wherry_message m = order(NULL, "x");
	char headers[64];

	set(b, "message.format", "cloudevents");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		(void)snprintf(headers, sizeof(headers), "{\"%s\":\"x\"}", names[i]);
		m.headers = headers;
		rejects(b, &m, "collides with the header 'ce-");
		assert_non_null(strstr(b->receipt.reason, names[i]));
	}
	m.headers = "{\"ce-comexample\":\"an extension\"}";
	(void)sends(b, &m);
}

WHERRY_TEST_ON(what_cloudevents_forbids_is_dead, bench *b, begin, end)
{
	wherry_message m = order(NULL, "x");

	set(b, "message.format", "cloudevents");
	m.message_id = NULL;
	rejects(b, &m, "would have no id");
	m.message_id = "m";
	m.aggregate_id = "a\nb";
	rejects(b, &m, "the attribute subject of the CloudEvent would have a control");
	m.aggregate_id = "a\xc2\x85";
	rejects(b, &m, "the attribute subject");
	m.aggregate_id = "\xc3\xa4";
	(void)sends(b, &m);
}

/* An error would concern the destination, and hold up all messages. */
WHERRY_TEST_ON(text_that_is_not_utf8_is_the_messages_fault, bench *b, begin, end)
{
	wherry_message m = order(NULL, "x");

	set(b, "message.format", "cloudevents");
	m.message_id = "\xff";
	rejects(b, &m, "the value of the header 'ce-id' is not UTF-8");
	wherry_publisher_close(b->pub);
	b->pub = NULL;
	set(b, "message.format", "raw");
	set(b, "message.headers", "add a {message_id}");
	rejects(b, &m, "add a: the value is not UTF-8");
}

/* ---- Debezium ---- */

WHERRY_TEST_ON(debezium_routes_by_aggregate_and_sends_a_json_string, bench *b, begin, end)
{
	wherry_message m = order("{\"a\":\"b\"}", "{\"n\": \"\\u00e4\"}");
	const wherry_message *got;

	set(b, "message.format", "debezium");
	set(b, "message.placement", "type:header:eventType,aggregatetype:header");
	set(b, "message.type", "{topic}.paid");
	got = sends(b, &m);
	assert_string_equal(got->topic, "outbox.event.order");
	assert_string_equal(got->headers,
			    "{\"a\":\"b\",\"id\":\"m1\",\"eventType\":\"orders.paid\","
			    "\"aggregatetype\":\"order\"}");
	assert_string_equal(got->body, "\"{\\\"n\\\": \\\"\\\\u00e4\\\"}\"");
	m.headers = "{\"ID\":\"x\"}";
	rejects(b, &m, "its header 'ID' collides with the header 'id'");
	m.headers = NULL;
	m.body = "\xff";
	m.body_len = 1;
	rejects(b, &m, "its body is not text");
	m.aggregate_type = "";
	rejects(b, &m, "has no aggregate_type");
}

WHERRY_TEST_ON(expanded_objects_stand_there_themselves, bench *b, begin, end)
{
	wherry_message m = order(NULL, "[1, {\"a\":2}]");
	const wherry_message *got;

	set(b, "message.format", "debezium-expanded");
	set(b, "message.topic", "{topic}");
	got = sends(b, &m);
	assert_string_equal(got->topic, "orders");
	assert_string_equal(got->body, "[1, {\"a\":2}]");
	m.body = "42"; /* Debezium expands only objects and arrays. */
	m.body_len = 2;
	assert_string_equal(sends(b, &m)->body, "\"42\"");
	m.body = "{bad";
	m.body_len = 4;
	rejects(b, &m, "its body is not JSON");
}

WHERRY_TEST_ON(columns_in_the_envelope_stand_beside_the_payload, bench *b, begin, end)
{
	wherry_message m = order(NULL, "{}");

	set(b, "message.format", "debezium-expanded");
	set(b, "message.placement",
	    "type:envelope:eventType, key:envelope id:envelope:e\"v, aggregateid:header:a");
	assert_string_equal(sends(b, &m)->body,
			    "{\"payload\":{},\"eventType\":\"orders\",\"key\":\"k\","
			    "\"e\\\"v\":\"m1\"}");
	m.body = NULL;
	m.body_len = 0;
	assert_non_null(strstr(sends(b, &m)->body, "{\"payload\":null,"));
}

/* ---- the registry's framing ---- */

WHERRY_TEST_ON(a_schema_id_stands_before_the_body, bench *b, begin, end)
{
	wherry_message m = order(NULL, "{}");

	set(b, "message.schema_id", "16909060");
	has_body(sends(b, &m), "\0\1\2\3\4{}", 7);
	m.body_len = 0;
	has_body(sends(b, &m), "\0\1\2\3\4", 5);
	m.body = NULL;
	assert_int_equal(sends(b, &m)->body_len, 0);
}

WHERRY_TEST_ON(a_framed_event_does_not_claim_to_be_json, bench *b, begin, end)
{
	wherry_message m = order(NULL, "{}");
	const wherry_message *got;

	set(b, "message.schema_id", "7");
	set(b, "message.format", "cloudevents");
	got = sends(b, &m);
	has_body(got, "\0\0\0\0\7{}", 7);
	assert_non_null(
		strstr(got->headers, "\"content-type\":\"application/octet-stream\""));
	m.headers = "{\"content-type\":\"application/avro\"}";
	assert_non_null(strstr(sends(b, &m)->headers, "application/avro"));
}

/* ---- the publisher in front ---- */

WHERRY_TEST_ON(messages_in_flight_are_forgotten_with_drop, bench *b, begin, end)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message m[3] = {order(NULL, "1"), order("{", "2"), order(NULL, "3")};
	const wherry_message *all[] = {&m[0], &m[1], &m[2]};
	wh_receipt receipts[3];
	size_t n = 0;

	set(b, "message.format", "cloudevents");
	open_it(b);
	WHERRY_PASS(wh_publisher_submit(b->pub, all, 3, &n, &err));
	assert_int_equal(n, 2);
	wh_publisher_drop(b->pub);
	WHERRY_PASS(wh_publisher_collect(b->pub, receipts, 3, &n, &err));
	assert_int_equal(n, 0);
	(void)sends(b, all[2]);
}

WHERRY_TEST_ON(a_dead_letter_destination_gets_the_message_as_it_was, bench *b, begin, end)
{
	wherry_error err = WHERRY_ERROR_INIT;

	set(b, "message.format", "cloudevents");
	WHERRY_PASS(wh_publisher_open_raw("memory:", b->config, &wh_env_system, &b->pub,
					  &err));
	assert_ptr_equal(b->pub->driver, &wh_publisher_memory);
}

WHERRY_TEST_MAIN
