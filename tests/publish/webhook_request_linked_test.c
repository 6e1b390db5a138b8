/*
 * https: and http: against a receiver in another process: what a request says, and how it is
 * signed.
 */
#include "webhook_site.h"

#include "publish/webhook/webhook_sign.h"

static const char spec_secret[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/* ---- signatures ---- */

/* The example of the specification of Standard Webhooks. */
static void the_specifications_example_is_signed_as_it_says(void **state)
{
	static const char body[] = "{\"test\": 2432232314}";
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf out = WH_BUF_INIT(4096);
	wh_signer *signer = NULL;

	WHERRY_PASS(wh_signer_new(spec_secret, &signer, &err));
	assert_true(wh_signer_sign(signer, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
				   body, sizeof(body) - 1, &out));
	assert_string_equal(wh_buf_str(&out),
			    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
	wh_signer_free(signer);
	wh_buf_clear(&out);
}

static const char private_key[] =
	"whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMi"
	"cMFs6Kvg==";
static const char private_half[] = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc=";

/* The signature v1a that the specification shows, in both forms of its key, and both schemes at
 * once. */
static void ed25519_signs_as_the_specification_says(void **state)
{
	static const char body[] = "{\"test\": 2432232314}";
	static const char v1[] = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
	static const char v1a[] =
		"v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVL"
		"Po3mNl8EM+m7TBAg==";
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf out = WH_BUF_INIT(4096);
	wh_signer *signer = NULL;
	char secrets[400], want[400];

	(void)snprintf(secrets, sizeof(secrets), "%s,%s %s", spec_secret, private_key,
		       private_half);
	(void)snprintf(want, sizeof(want), "%s %s %s", v1, v1a, v1a);
	WHERRY_PASS(wh_signer_new(secrets, &signer, &err));
	assert_true(wh_signer_sign(signer, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
				   body, sizeof(body) - 1, &out));
	assert_string_equal(wh_buf_str(&out), want);
	wh_signer_free(signer);
	wh_buf_clear(&out);
}

static void a_receiver_verifies_what_it_gets(void **state)
{
	static const char *const args[] = {"--secret", spec_secret, NULL};
	site *s = site_begin(args);
	wherry_message m = plain_message(NULL);
	int64_t now_s = wh_now(&wh_env_system) / WH_SECOND;
	int64_t sent_s;

	site_set(s, "webhook.secret", spec_secret);
	site_open(s);
	site_delivers(s, &m);
	assert_true(json_is_true(json_object_get(site_request(s, 0), "signed")));
	entry_has(site_request(s, 0), "webhook-id", "msg_1");
	sent_s = strtol(entry_header(site_request(s, 0), "webhook-timestamp"), NULL, 10);
	assert_in_range(sent_s, now_s, now_s + 60);
	site_set(s, "webhook.secret", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
	site_open(s);
	site_delivers(s, &m);
	assert_true(json_is_false(json_object_get(site_request(s, 1), "signed")));
	site_end(s);
}

/* A receiver gets the bytes that were signed, whatever the message id is; no two ids become
 * the same. */
static void a_receiver_verifies_messages_with_any_id(void **state)
{
	static const char *const args[] = {"--secret", spec_secret, NULL};
	static char long_a[400], long_b[400], plain[256];
	const char *const ids[][2] = {
		{" 7", "%207"},
		{"7 ", "7%20"},
		{"7\t", "7%09"},
		{"a\r\nx-evil: 1", "a%0D%0Ax-evil:%201"},
		{"\xc3\xa4", "%C3%A4"},
		{"\xff\x80", "%FF%80"},
		{"%207", "%25207"},
		{"", "sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852"
		     "b855"},
		{"sha256-", NULL},
		{plain, plain},
		{long_a, NULL},
		{long_b, NULL},
	};
	enum { N = sizeof(ids) / sizeof(*ids) };
	static char sent[N][300];
	site *s = site_begin(args);
	wherry_message m = plain_message(NULL);

	memset(plain, 'x', 255);
	memset(long_a, 'x', sizeof(long_a) - 1);
	memset(long_b, 'x', sizeof(long_b) - 1);
	long_b[sizeof(long_b) - 2] = 'y';
	site_set(s, "webhook.secret", spec_secret);
	site_open(s);
	for (size_t i = 0; i < N; i++) {
		m.message_id = ids[i][0];
		site_delivers(s, &m);
		if (!json_is_true(json_object_get(site_request(s, i), "signed")))
			fail_msg("'%s' is not verified", ids[i][0]);
		(void)snprintf(sent[i], sizeof(sent[i]), "%s",
			       entry_header(site_request(s, i), "webhook-id"));
		entry_has(site_request(s, i), "idempotency-key", sent[i]);
		entry_has(site_request(s, i), "x-evil", NULL);
		if (ids[i][1])
			assert_string_equal(sent[i], ids[i][1]);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(sent[i], sent[j]);
	}
	site_end(s);
}

static void secrets_are_replaced_one_after_the_other(void **state)
{
	static const char old[] = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
	static const char *const args[] = {"--secret", old, NULL};
	site *s = site_begin(args);
	wherry_message m = plain_message(NULL);
	char path[200], text[400];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/secret", s->server->temp.dir);
	file = fopen(path, "we");
	assert_non_null(file);
	(void)fprintf(file, "%s\n", spec_secret);
	(void)fclose(file);
	(void)setenv("OLD_SECRET", old, 1);
	(void)snprintf(text, sizeof(text), "file:%s, env:OLD_SECRET", path);
	site_set(s, "webhook.secret", text);
	site_open(s);
	site_delivers(s, &m);
	assert_true(json_is_true(json_object_get(site_request(s, 0), "signed")));
	assert_int_equal(strlen(entry_header(site_request(s, 0), "webhook-signature")),
			 2 * 47 + 1);
	site_end(s);
}

static void odd_secrets_are_refused_and_not_shown(void **state)
{
	static const char *const odd[][2] = {
		{"hunter2hunter2", "whsec_"},
		{"whsec_hunter2", "whsec_"},
		{"whsec_aHVudGVyMg==", "base64 of 16 bytes or more"},
		{"whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=", "is public"},
		{"whsk_aHVudGVyMg==", "base64 of the 32 bytes"},
		{"whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfpdv90Jwek95rbU9LU31Vj81lbvbcIRz"
		 "vs3iskK5sxtw==",
		 "is not the public key of its first half"},
		{"env:NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE is not set"},
		{"file:/no/such/file", "/no/such/file"},
		{" , ", "no secret"},
	};
	wherry_config *config = NULL;
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_new(&config, &err));
	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
		wherry_publisher *pub = NULL;

		WHERRY_PASS(wherry_config_set(config, "webhook.secret", odd[i][0], &err));
		assert_int_not_equal(
			wherry_publisher_open("http://localhost/", config, &pub, &err),
			WHERRY_OK);
		if (!strstr(err.message, odd[i][1]) || strstr(err.message, "hunter2") ||
		    strncmp(err.message, "webhook.secret", 14) != 0)
			fail_msg("'%s'", err.message);
	}
	wherry_config_free(config);
}

/* ---- what a request says ---- */

static void a_plain_request_has_the_body_and_says_what_it_is(void **state)
{
	site *s = site_begin(NULL);
	wherry_message m = plain_message("{\"Content-Type\":\"text/csv\",\"x-a\":\"b\"}");

	m.key = "k";
	m.aggregate_type = "order";
	m.aggregate_id = "42";
	m.attempts = 2;
	site_open(s);
	site_delivers(s, &m);
	assert_string_equal(
		json_string_value(json_object_get(site_request(s, 0), "request")),
		"POST /hook HTTP/1.1");
	assert_string_equal(
		json_string_value(json_object_get(site_request(s, 0), "body")),
		"{\"n\":1}");
	entry_has(site_request(s, 0), "content-type", "text/csv");
	entry_has(site_request(s, 0), "idempotency-key", "msg_1");
	entry_has(site_request(s, 0), "wherry-id", "7");
	entry_has(site_request(s, 0), "wherry-topic", "orders");
	entry_has(site_request(s, 0), "wherry-key", "k");
	entry_has(site_request(s, 0), "wherry-aggregate-type", "order");
	entry_has(site_request(s, 0), "wherry-aggregate-id", "42");
	entry_has(site_request(s, 0), "wherry-attempt", "3");
	entry_has(site_request(s, 0), "wherry-created-at", "2023-11-14T22:13:20.123Z");
	entry_has(site_request(s, 0), "x-a", "b");
	entry_has(site_request(s, 0), "webhook-id", NULL);
	m = plain_message(NULL);
	site_delivers(s, &m);
	entry_has(site_request(s, 1), "content-type", "application/json");
	m.body = "\xff";
	m.body_len = 1;
	site_delivers(s, &m);
	entry_has(site_request(s, 2), "content-type", "application/octet-stream");
	m.body = NULL;
	site_delivers(s, &m);
	assert_int_equal(entry_number(site_request(s, 3), "length"), 0);
	site_end(s);
}

/* Neither ends a line, takes the place of ours, nor says who sends. */
static void a_message_cannot_forge_headers(void **state)
{
	site *s = site_begin(NULL);
	wherry_message m = plain_message(
		"{\"x-a\":\"b\\r\\nx-evil: 1\",\"bad name\":\"x\",\"\":\"x\","
		"\"Authorization\":\"x\",\"Host\":\"evil\",\"content-length\":\"1\","
		"\"transfer-encoding\":\"chunked\",\"Wherry-Id\":\"1\","
		"\"webhook-signature\":\"x\",\"ce-id\":\"their own\",\"connection\":\"close\","
		"\"wherry-dead-error\":\"why\",\"x-mine\":\"theirs\",\"hosts\":\"fine\"}");

	m.topic = "a\r\nx-evil: 2";
	m.key = "Zo\xc3\xab";
	site_set(s, "webhook.headers", "X-Mine: ours\nAuthorization: Bearer t\n");
	site_open(s);
	site_delivers(s, &m);
	entry_has(site_request(s, 0), "x-evil", NULL);
	entry_has(site_request(s, 0), "x-a", "b  x-evil: 1");
	entry_has(site_request(s, 0), "wherry-topic", "a%0D%0Ax-evil:%202");
	entry_has(site_request(s, 0), "wherry-key", "Zo%C3%AB");
	entry_has(site_request(s, 0), "bad name", NULL);
	entry_has(site_request(s, 0), "authorization", "Bearer t");
	entry_has(site_request(s, 0), "content-length", "7");
	entry_has(site_request(s, 0), "transfer-encoding", NULL);
	entry_has(site_request(s, 0), "wherry-id", "7");
	entry_has(site_request(s, 0), "webhook-signature", NULL);
	entry_has(site_request(s, 0), "ce-id", "their own");
	entry_has(site_request(s, 0), "connection", NULL);
	entry_has(site_request(s, 0), "wherry-dead-error", "why");
	entry_has(site_request(s, 0), "x-mine", "ours");
	entry_has(site_request(s, 0), "hosts", "fine");
	assert_non_null(strstr(entry_header(site_request(s, 0), "host"), "127.0.0.1"));
	site_end(s);
}

/* Many receivers see all of these as HTTP_WEBHOOK_SIGNATURE and the like. */
static void a_message_cannot_forge_headers_in_the_form_of_cgi(void **state)
{
	static const char *const forged[] = {
		"webhook_signature", "Webhook_Id",
		"webhook.timestamp", "content_length",
		"CONTENT_TYPE",      "transfer_encoding",
		"idempotency_key",   "wherry_key",
		"wherry_dead_error", "x_mine",
		"user_agent",        "HOST",
		"proxy_connection",  "x.mine",
		"keep_alive",
	};
	site *s = site_begin(NULL);
	char headers[1000] = "{\"x_own\":\"b\\u0085c\\u0000\"";
	const char *name;
	json_t *sent, *value;
	wherry_message m;

	for (size_t i = 0; i < sizeof(forged) / sizeof(*forged); i++)
		(void)snprintf(headers + strlen(headers),
			       sizeof(headers) - strlen(headers), ",\"%s\":\"evil\"",
			       forged[i]);
	(void)snprintf(headers + strlen(headers), sizeof(headers) - strlen(headers), "}");
	m = plain_message(headers);
	site_set(s, "webhook.headers", "X-Mine: ours");
	site_open(s);
	if (site_send(s, &m).verdict == WHERRY_REJECTED) { /* because of the NUL */
		memmove(strstr(headers, "\\u0000"), strstr(headers, "\\u0000") + 6,
			strlen(strstr(headers, "\\u0000") + 6) + 1);
		site_delivers(s, &m);
	}
	sent = json_object_get(site_request(s, 0), "headers");
	json_object_foreach (sent, name, value)
		if (!json_is_string(value) || strstr(json_string_value(value), "evil"))
			fail_msg("%s was sent", name);
	entry_has(site_request(s, 0), "x_own", "b  c");
	entry_has(site_request(s, 0), "x-mine", "ours");
	site_end(s);
}

static void headers_too_large_or_malformed_are_rejected(void **state)
{
	site *s = site_begin(NULL);
	char *headers = malloc(400000);
	wherry_message m = plain_message("[1]");

	assert_non_null(headers);
	site_open(s);
	assert_int_equal(site_send(s, &m).verdict, WHERRY_REJECTED);
	memset(headers, 'x', 400000);
	memcpy(headers, "{\"a\":\"", 6);
	memcpy(headers + 399997, "\"}", 3);
	m.headers = headers;
	assert_int_equal(site_send(s, &m).verdict, WHERRY_REJECTED);
	m = plain_message(NULL);
	site_delivers(s, &m);
	assert_int_equal(site_requests(s), 1);
	free(headers);
	site_end(s);
}

static void a_trace_goes_along(void **state)
{
	static const char parent[] =
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	site *s = site_begin(NULL);
	wherry_message m = plain_message(NULL);

	site_open(s);
	m.trace_id = parent;
	site_delivers(s, &m);
	entry_has(site_request(s, 0), "traceparent", parent);
	m.trace_id = "0af7651916cd43dd8448eb211c80319c";
	site_delivers(s, &m);
	assert_int_equal(
		strncmp(entry_header(site_request(s, 1), "traceparent"), parent, 36), 0);
	assert_int_equal(strlen(entry_header(site_request(s, 1), "traceparent")), 55);
	m.headers = "{\"traceparent\":\"mine\"}";
	site_delivers(s, &m);
	entry_has(site_request(s, 2), "traceparent", "mine");
	m = plain_message(NULL);
	m.trace_id = "4711";
	site_delivers(s, &m);
	entry_has(site_request(s, 3), "traceparent", NULL);
	site_end(s);
}

static void the_topic_stands_in_the_path_encoded(void **state)
{
	site *s = site_begin(NULL);
	wherry_message m = plain_message(NULL);

	(void)snprintf(s->url, sizeof(s->url),
		       "http://127.0.0.1:%d/a/../{topic}/b?t={topic}&x=%%7B",
		       s->server->port);
	site_open(s);
	m.topic = "or ders/\xc3\xa4?#";
	site_delivers(s, &m);
	assert_string_equal(
		json_string_value(json_object_get(site_request(s, 0), "request")),
		"POST /a/../or%20ders%2F%C3%A4%3F%23/b?t=or%20ders%2F%C3%A4"
		"%3F%23&x=%7B HTTP/1.1");
	m.topic = "..";
	assert_int_equal(site_send(s, &m).verdict, WHERRY_REJECTED);
	site_end(s);
}

/* ---- CloudEvents ---- */

static void a_cloud_event_in_headers(void **state)
{
	site *s = site_begin(NULL);
	wherry_message m = plain_message("{\"content-type\":\"text/plain\"}");

	site_set(s, "message.format", "cloudevents");
	site_set(s, "message.source", "/shop");
	site_open(s);
	m.aggregate_id = "\xc3\xa4 \"%\"";
	m.key = "k";
	site_delivers(s, &m);
	entry_has(site_request(s, 0), "ce-specversion", "1.0");
	entry_has(site_request(s, 0), "ce-id", "msg_1");
	entry_has(site_request(s, 0), "ce-source", "/shop");
	entry_has(site_request(s, 0), "ce-type", "orders");
	entry_has(site_request(s, 0), "ce-time", "2023-11-14T22:13:20.123Z");
	entry_has(site_request(s, 0), "ce-subject", "%C3%A4%20%22%25%22");
	entry_has(site_request(s, 0), "ce-partitionkey", "k");
	entry_has(site_request(s, 0), "content-type", "text/plain");
	assert_string_equal(
		json_string_value(json_object_get(site_request(s, 0), "body")),
		"{\"n\":1}");
	site_end(s);
}

static const char *event_body(site *s, size_t n)
{
	return json_string_value(json_object_get(site_request(s, n), "body"));
}

static void a_cloud_event_as_one_object(void **state)
{
	static const char *const args[] = {"--secret", spec_secret, NULL};
	site *s = site_begin(args);
	wherry_message m = plain_message(NULL);

	site_set(s, "message.format", "cloudevents-structured");
	site_set(s, "webhook.secret", spec_secret);
	site_open(s);
	site_delivers(s, &m);
	entry_has(site_request(s, 0), "content-type", "application/cloudevents+json");
	assert_string_equal(event_body(s, 0),
			    "{\"specversion\":\"1.0\",\"id\":\"msg_1\","
			    "\"source\":\"/wherry\",\"type\":\"orders\","
			    "\"time\":\"2023-11-14T22:13:20.123Z\","
			    "\"datacontenttype\":\"application/json\","
			    "\"data\":{\"n\":1}}");
	assert_true(json_is_true(json_object_get(site_request(s, 0), "signed")));
	m.headers = "{\"content-type\":\"text/plain\"}";
	m.body = "a\"b";
	m.body_len = 3;
	site_delivers(s, &m);
	assert_non_null(strstr(event_body(s, 1), "\"data\":\"a\\\"b\"}"));
	m.headers = "{\"content-type\":\"image/png\"}";
	site_delivers(s, &m);
	assert_non_null(strstr(event_body(s, 2), "\"data_base64\":\"YSJi\"}"));
	site_end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_specifications_example_is_signed_as_it_says),
		cmocka_unit_test(ed25519_signs_as_the_specification_says),
		cmocka_unit_test(a_receiver_verifies_what_it_gets),
		cmocka_unit_test(a_receiver_verifies_messages_with_any_id),
		cmocka_unit_test(secrets_are_replaced_one_after_the_other),
		cmocka_unit_test(odd_secrets_are_refused_and_not_shown),
		cmocka_unit_test(a_plain_request_has_the_body_and_says_what_it_is),
		cmocka_unit_test(a_message_cannot_forge_headers),
		cmocka_unit_test(a_message_cannot_forge_headers_in_the_form_of_cgi),
		cmocka_unit_test(headers_too_large_or_malformed_are_rejected),
		cmocka_unit_test(a_trace_goes_along),
		cmocka_unit_test(the_topic_stands_in_the_path_encoded),
		cmocka_unit_test(a_cloud_event_in_headers),
		cmocka_unit_test(a_cloud_event_as_one_object),
	};

	return site_run(tests);
}
