/*
 * https: and http: against a receiver in another process: what it gets, and what its answers
 * mean.
 */
#include "wherry_test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <wherry/wherry.h>

#include "publish/driver.h"
#include "publish/webhook.h"
#include "webhook_server.h"

enum { MOST = 256, SETTINGS_MOST = 8 };

static const char spec_secret[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/* ---- a receiver and a publisher of it ---- */

typedef struct site {
	webhook_server *server;
	wherry_config *config;
	wherry_publisher *pub;
	char url[200];
} site;

static void set(site *s, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(s->config, key, value, &err));
}

static site *begin(const char *const *args)
{
	site *s = calloc(1, sizeof(*s));
	wherry_error err = WHERRY_ERROR_INIT;

	assert_non_null(s);
	s->server = webhook_server_start(args);
	WHERRY_PASS(wherry_config_new(&s->config, &err));
	(void)snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%d/hook",
		       s->server->port);
	(void)alarm(60);
	return s;
}

/* Over TLS, with a certificate of that name, trusting the good one. */
static site *begin_tls(const char *name, const char *client)
{
	static const char *args[7];
	static char cert[300], key[300];
	char pem[64];
	site *s;

	(void)snprintf(pem, sizeof(pem), "%s.pem", name);
	(void)snprintf(cert, sizeof(cert), "%s", webhook_certificate(pem));
	(void)snprintf(pem, sizeof(pem), "%s.key", name);
	(void)snprintf(key, sizeof(key), "%s", webhook_certificate(pem));
	args[0] = "--cert";
	args[1] = cert;
	args[2] = "--key";
	args[3] = key;
	args[4] = client ? "--client-ca" : NULL;
	args[5] = client ? webhook_certificate(client) : NULL;
	args[6] = NULL;
	s = begin(args);
	(void)snprintf(s->url, sizeof(s->url), "https://127.0.0.1:%d/hook",
		       s->server->port);
	set(s, "webhook.ca_file", cert);
	return s;
}

static void open_it(site *s)
{
	wherry_error err = WHERRY_ERROR_INIT;

	wherry_publisher_close(s->pub);
	s->pub = NULL;
	WHERRY_PASS(wherry_publisher_open(s->url, s->config, &s->pub, &err));
}

static void end(site *s)
{
	wherry_publisher_close(s->pub);
	wherry_config_free(s->config);
	webhook_server_stop(s->server);
	free(s);
	(void)alarm(0);
}

/* ---- sending ---- */

static wherry_message message(const char *headers)
{
	wherry_message m = WHERRY_MESSAGE(.topic = "orders", .body = "{\"n\":1}");

	m.message_id = "msg_1";
	m.id = 7;
	m.body_len = 7;
	m.headers = headers;
	m.created_at_us = 1700000000123456;
	return m;
}

static size_t submit(site *s, const wherry_message *msgs, size_t n)
{
	const wherry_message *list[MOST];
	wherry_error err = WHERRY_ERROR_INIT;
	size_t taken = 0;

	for (size_t i = 0; i < n; i++)
		list[i] = &msgs[i];
	WHERRY_PASS(wh_publisher_submit(s->pub, list, n, &taken, &err));
	return taken;
}

static void await(site *s)
{
	struct pollfd event = {.fd = -1};
	int64_t deadline_us = wh_publisher_deadline(s->pub);
	int64_t left_us = deadline_us - wh_monotonic(&wh_env_system);

	event.fd = wh_publisher_fd(s->pub, &event.events);
	assert_true(event.fd >= 0 || deadline_us != WH_NEVER);
	if (left_us > 0)
		(void)poll(&event, event.fd >= 0,
			   left_us < 30 * WH_SECOND ? (int)(left_us / 1000) + 1 : 30000);
}

/* Until there are n receipts, or the destination fails. */
static wherry_code collect(site *s, wh_receipt *out, size_t n, wherry_error *err)
{
	for (size_t have = 0, more; have < n; have += more) {
		wherry_code code =
			wh_publisher_collect(s->pub, out + have, n - have, &more, err);

		if (code != WHERRY_OK)
			return code;
		if (have + more < n)
			await(s);
	}
	return WHERRY_OK;
}

static wh_receipt send_one(site *s, const wherry_message *msg)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipt = {0};

	assert_int_equal(submit(s, msg, 1), 1);
	WHERRY_PASS(collect(s, &receipt, 1, &err));
	assert_ptr_equal(receipt.message, msg);
	return receipt;
}

static void delivers(site *s, const wherry_message *msg)
{
	wh_receipt receipt = send_one(s, msg);

	if (receipt.verdict != WHERRY_DELIVERED)
		fail_msg("verdict %d: %s", receipt.verdict, receipt.reason);
	assert_string_equal(receipt.reason, "");
}

/* The destination's fault: the error, which names this. */
static void fails(site *s, wherry_code want, const char *text)
{
	wherry_message m = message(NULL);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipt;

	open_it(s);
	assert_int_equal(submit(s, &m, 1), 1);
	if (collect(s, &receipt, 1, &err) == WHERRY_OK)
		fail_msg("verdict %d: %s", receipt.verdict, receipt.reason);
	assert_int_equal(err.code, want);
	if (!strstr(err.message, text))
		fail_msg("'%s' lacks '%s'", err.message, text);
}

/* ---- what arrived ---- */

static json_t *the_log; /* of the last look */

static const json_t *request(site *s, size_t n)
{
	json_decref(the_log);
	the_log = webhook_server_log(s->server);
	assert_non_null(json_array_get(the_log, n));
	return json_array_get(the_log, n);
}

static size_t n_requests(site *s)
{
	json_decref(the_log);
	the_log = webhook_server_log(s->server);
	return json_array_size(the_log);
}

static const char *header(const json_t *entry, const char *name)
{
	return json_string_value(
		json_object_get(json_object_get(entry, "headers"), name));
}

static int64_t number(const json_t *entry, const char *name)
{
	return json_integer_value(json_object_get(entry, name));
}

static void has(const json_t *entry, const char *name, const char *want)
{
	const char *got = header(entry, name);

	if (!want && got)
		fail_msg("there is a %s: %s", name, got);
	if (want && (!got || strcmp(got, want) != 0))
		fail_msg("%s is '%s', not '%s'", name, got ? got : "missing", want);
}

/* ---- signatures ---- */

/* The example of the specification of Standard Webhooks. */
static void the_specifications_example_is_signed_as_it_says(void **state)
{
	static const char body[] = "{\"test\": 2432232314}";
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf out = WH_BUF_INIT(4096);
	wh_signer *signer = NULL;

	(void)state;
	WHERRY_PASS(wh_signer_new(spec_secret, &signer, &err));
	assert_true(wh_signer_sign(signer, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
				   body, sizeof(body) - 1, &out));
	assert_string_equal(wh_buf_str(&out),
			    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
	wh_signer_free(signer);
	wh_buf_clear(&out);
}

static void a_receiver_verifies_what_it_gets(void **state)
{
	static const char *const args[] = {"--secret", spec_secret, NULL};
	site *s = begin(args);
	wherry_message m = message(NULL);
	int64_t now_s = wh_now(&wh_env_system) / WH_SECOND;
	int64_t sent_s;

	(void)state;
	set(s, "webhook.secret", spec_secret);
	open_it(s);
	delivers(s, &m);
	assert_true(json_is_true(json_object_get(request(s, 0), "signed")));
	has(request(s, 0), "webhook-id", "msg_1");
	sent_s = strtol(header(request(s, 0), "webhook-timestamp"), NULL, 10);
	assert_in_range(sent_s, now_s, now_s + 60);
	set(s, "webhook.secret", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
	open_it(s);
	delivers(s, &m);
	assert_true(json_is_false(json_object_get(request(s, 1), "signed")));
	end(s);
}

static void secrets_are_replaced_one_after_the_other(void **state)
{
	static const char old[] = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
	static const char *const args[] = {"--secret", old, NULL};
	site *s = begin(args);
	wherry_message m = message(NULL);
	char path[200], text[400];
	FILE *file;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/secret", s->server->temp.dir);
	file = fopen(path, "we");
	assert_non_null(file);
	(void)fprintf(file, "%s\n", spec_secret);
	(void)fclose(file);
	(void)setenv("OLD_SECRET", old, 1);
	(void)snprintf(text, sizeof(text), "file:%s, env:OLD_SECRET", path);
	set(s, "webhook.secret", text);
	open_it(s);
	delivers(s, &m);
	assert_true(json_is_true(json_object_get(request(s, 0), "signed")));
	assert_int_equal(strlen(header(request(s, 0), "webhook-signature")), 2 * 47 + 1);
	end(s);
}

static void odd_secrets_are_refused_and_not_shown(void **state)
{
	static const char *const odd[][2] = {
		{"hunter2hunter2", "whsec_"},
		{"whsec_hunter2", "whsec_"},
		{"whsec_aHVudGVyMg==", "base64 of 16 bytes or more"},
		{"env:NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE is not set"},
		{"file:/no/such/file", "/no/such/file"},
		{" , ", "no secret"},
	};
	wherry_config *config = NULL;
	wherry_error err = WHERRY_ERROR_INIT;

	(void)state;
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
	site *s = begin(NULL);
	wherry_message m = message("{\"Content-Type\":\"text/csv\",\"x-a\":\"b\"}");

	(void)state;
	m.key = "k";
	m.aggregate_type = "order";
	m.aggregate_id = "42";
	m.attempts = 2;
	open_it(s);
	delivers(s, &m);
	assert_string_equal(json_string_value(json_object_get(request(s, 0), "request")),
			    "POST /hook HTTP/1.1");
	assert_string_equal(json_string_value(json_object_get(request(s, 0), "body")),
			    "{\"n\":1}");
	has(request(s, 0), "content-type", "text/csv");
	has(request(s, 0), "idempotency-key", "msg_1");
	has(request(s, 0), "wherry-id", "7");
	has(request(s, 0), "wherry-topic", "orders");
	has(request(s, 0), "wherry-key", "k");
	has(request(s, 0), "wherry-aggregate-type", "order");
	has(request(s, 0), "wherry-aggregate-id", "42");
	has(request(s, 0), "wherry-attempt", "3");
	has(request(s, 0), "wherry-created-at", "2023-11-14T22:13:20.123Z");
	has(request(s, 0), "x-a", "b");
	has(request(s, 0), "webhook-id", NULL);
	has(request(s, 0), "wherry-generation", NULL);
	m = message(NULL);
	m.generation = 2;
	delivers(s, &m);
	has(request(s, 1), "idempotency-key", "msg_1.2");
	has(request(s, 1), "wherry-generation", "2");
	has(request(s, 1), "content-type", "application/json");
	m.body = "\xff";
	m.body_len = 1;
	delivers(s, &m);
	has(request(s, 2), "content-type", "application/octet-stream");
	m.body = NULL;
	delivers(s, &m);
	assert_int_equal(number(request(s, 3), "length"), 0);
	end(s);
}

/* Neither ends a line, takes the place of ours, nor says who sends. */
static void a_message_cannot_forge_headers(void **state)
{
	site *s = begin(NULL);
	wherry_message m = message(
		"{\"x-a\":\"b\\r\\nx-evil: 1\",\"bad name\":\"x\",\"\":\"x\","
		"\"Authorization\":\"x\",\"Host\":\"evil\",\"content-length\":\"1\","
		"\"transfer-encoding\":\"chunked\",\"Wherry-Id\":\"1\","
		"\"webhook-signature\":\"x\",\"ce-id\":\"x\",\"connection\":\"close\","
		"\"wherry-dead-error\":\"why\",\"x-mine\":\"theirs\",\"hosts\":\"fine\"}");

	(void)state;
	m.topic = "a\r\nx-evil: 2";
	set(s, "webhook.headers", "X-Mine: ours\nAuthorization: Bearer t\n");
	open_it(s);
	delivers(s, &m);
	has(request(s, 0), "x-evil", NULL);
	has(request(s, 0), "x-a", "b  x-evil: 1");
	has(request(s, 0), "wherry-topic", "a  x-evil: 2");
	has(request(s, 0), "bad name", NULL);
	has(request(s, 0), "authorization", "Bearer t");
	has(request(s, 0), "content-length", "7");
	has(request(s, 0), "transfer-encoding", NULL);
	has(request(s, 0), "wherry-id", "7");
	has(request(s, 0), "webhook-signature", NULL);
	has(request(s, 0), "ce-id", NULL);
	has(request(s, 0), "connection", NULL);
	has(request(s, 0), "wherry-dead-error", "why");
	has(request(s, 0), "x-mine", "ours");
	has(request(s, 0), "hosts", "fine");
	assert_non_null(strstr(header(request(s, 0), "host"), "127.0.0.1"));
	end(s);
}

static void headers_too_large_or_malformed_are_rejected(void **state)
{
	site *s = begin(NULL);
	char *headers = malloc(400000);
	wherry_message m = message("[1]");

	(void)state;
	assert_non_null(headers);
	open_it(s);
	assert_int_equal(send_one(s, &m).verdict, WHERRY_REJECTED);
	memset(headers, 'x', 400000);
	memcpy(headers, "{\"a\":\"", 6);
	memcpy(headers + 399997, "\"}", 3);
	m.headers = headers;
	assert_int_equal(send_one(s, &m).verdict, WHERRY_REJECTED);
	m = message(NULL);
	delivers(s, &m);
	assert_int_equal(n_requests(s), 1);
	free(headers);
	end(s);
}

static void a_trace_goes_along(void **state)
{
	static const char parent[] =
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	site *s = begin(NULL);
	wherry_message m = message(NULL);

	(void)state;
	open_it(s);
	m.trace_id = parent;
	delivers(s, &m);
	has(request(s, 0), "traceparent", parent);
	m.trace_id = "0af7651916cd43dd8448eb211c80319c";
	delivers(s, &m);
	assert_int_equal(strncmp(header(request(s, 1), "traceparent"), parent, 36), 0);
	assert_int_equal(strlen(header(request(s, 1), "traceparent")), 55);
	m.headers = "{\"traceparent\":\"mine\"}";
	delivers(s, &m);
	has(request(s, 2), "traceparent", "mine");
	m = message(NULL);
	m.trace_id = "4711";
	delivers(s, &m);
	has(request(s, 3), "traceparent", NULL);
	end(s);
}

static void the_topic_stands_in_the_path_encoded(void **state)
{
	site *s = begin(NULL);
	wherry_message m = message(NULL);

	(void)state;
	(void)snprintf(s->url, sizeof(s->url),
		       "http://127.0.0.1:%d/a/../{topic}/b?t={topic}&x=%%7B",
		       s->server->port);
	open_it(s);
	m.topic = "or ders/\xc3\xa4?#";
	delivers(s, &m);
	assert_string_equal(json_string_value(json_object_get(request(s, 0), "request")),
			    "POST /a/../or%20ders%2F%C3%A4%3F%23/b?t=or%20ders%2F%C3%A4"
			    "%3F%23&x=%7B HTTP/1.1");
	m.topic = "..";
	assert_int_equal(send_one(s, &m).verdict, WHERRY_REJECTED);
	end(s);
}

/* ---- CloudEvents ---- */

static void a_cloud_event_in_headers(void **state)
{
	site *s = begin(NULL);
	wherry_message m = message("{\"content-type\":\"text/plain\"}");

	(void)state;
	set(s, "webhook.format", "cloudevents");
	set(s, "webhook.source", "/shop");
	open_it(s);
	m.aggregate_id = "\xc3\xa4 \"%\"";
	m.key = "k";
	delivers(s, &m);
	has(request(s, 0), "ce-specversion", "1.0");
	has(request(s, 0), "ce-id", "msg_1");
	has(request(s, 0), "ce-source", "/shop");
	has(request(s, 0), "ce-type", "orders");
	has(request(s, 0), "ce-time", "2023-11-14T22:13:20.123Z");
	has(request(s, 0), "ce-subject", "%C3%A4%20%22%25%22");
	has(request(s, 0), "ce-partitionkey", "k");
	has(request(s, 0), "content-type", "text/plain");
	assert_string_equal(json_string_value(json_object_get(request(s, 0), "body")),
			    "{\"n\":1}");
	end(s);
}

static const char *event_body(site *s, size_t n)
{
	return json_string_value(json_object_get(request(s, n), "body"));
}

static void a_cloud_event_as_one_object(void **state)
{
	static const char *const args[] = {"--secret", spec_secret, NULL};
	site *s = begin(args);
	wherry_message m = message(NULL);

	(void)state;
	set(s, "webhook.format", "cloudevents-structured");
	set(s, "webhook.secret", spec_secret);
	open_it(s);
	delivers(s, &m);
	has(request(s, 0), "content-type", "application/cloudevents+json");
	assert_string_equal(event_body(s, 0),
			    "{\"specversion\":\"1.0\",\"id\":\"msg_1\","
			    "\"source\":\"/wherry\",\"type\":\"orders\","
			    "\"time\":\"2023-11-14T22:13:20.123Z\","
			    "\"datacontenttype\":\"application/json\","
			    "\"data\":{\"n\":1}}");
	assert_true(json_is_true(json_object_get(request(s, 0), "signed")));
	m.headers = "{\"content-type\":\"text/plain\"}";
	m.body = "a\"b";
	m.body_len = 3;
	delivers(s, &m);
	assert_non_null(strstr(event_body(s, 1), "\"data\":\"a\\\"b\"}"));
	m.headers = "{\"content-type\":\"image/png\"}";
	delivers(s, &m);
	assert_non_null(strstr(event_body(s, 2), "\"data_base64\":\"YSJi\"}"));
	end(s);
}

/* ---- answers ---- */

static void each_status_means_what_it_should(void **state)
{
	static const struct {
		const char *answer;
		wherry_verdict verdict;
		int64_t wait_s;
	} answers[] = {
		{"200", WHERRY_DELIVERED, 0},
		{"201", WHERRY_DELIVERED, 0},
		{"202", WHERRY_DELIVERED, 0},
		{"204", WHERRY_DELIVERED, 0},
		{"299", WHERRY_DELIVERED, 0},
		{"400", WHERRY_REJECTED, 0},
		{"404", WHERRY_REJECTED, 0},
		{"410", WHERRY_REJECTED, 0},
		{"413", WHERRY_REJECTED, 0},
		{"422", WHERRY_REJECTED, 0},
		{"408", WHERRY_RETRY, 0},
		{"425", WHERRY_RETRY, 0},
		{"500", WHERRY_RETRY, 0},
		{"502", WHERRY_RETRY, 0},
		{"503", WHERRY_RETRY, 0},
		{"504", WHERRY_RETRY, 0},
		{"599", WHERRY_RETRY, 0},
		{"500 retry-after=9", WHERRY_RETRY, 9},
		{"500 retry-after=99999999", WHERRY_RETRY, 24L * 3600},
		{"429", WHERRY_THROTTLED, 0},
		{"429 retry-after=7", WHERRY_THROTTLED, 7},
		{"503 retry-after=7", WHERRY_THROTTLED, 7},
		{"503 retry-after=0", WHERRY_RETRY, 0},
		{"503 retry-after=-5", WHERRY_RETRY, 0},
		{"503 retry-after=Sat,_01_Jan_2000_00:00:00_GMT", WHERRY_RETRY, 0},
		{"429 retry-after=99999999", WHERRY_THROTTLED, 3600},
	};
	site *s = begin(NULL);
	wherry_message m = message(NULL);

	(void)state;
	open_it(s);
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		char headers[200];
		wh_receipt r;

		(void)snprintf(headers, sizeof(headers), "{\"x-answer\":\"%s\"}",
			       answers[i].answer);
		m.headers = headers;
		r = send_one(s, &m);
		if (r.verdict != answers[i].verdict ||
		    r.retry_after_us != answers[i].wait_s * WH_SECOND)
			fail_msg("%s: verdict %d after %lld us: %s", answers[i].answer,
				 r.verdict, (long long)r.retry_after_us, r.reason);
	}
	end(s);
}

static void a_date_says_how_long_to_wait(void **state)
{
	site *s = begin(NULL);
	time_t at = (time_t)(wh_now(&wh_env_system) / WH_SECOND) + 100;
	wherry_message m = message(NULL);
	char headers[200], date[64];
	struct tm tm;
	wh_receipt r;

	(void)state;
	assert_non_null(gmtime_r(&at, &tm));
	assert_true(strftime(date, sizeof(date), "%a,_%d_%b_%Y_%H:%M:%S_GMT", &tm));
	(void)snprintf(headers, sizeof(headers), "{\"x-answer\":\"503 retry-after=%s\"}",
		       date);
	m.headers = headers;
	open_it(s);
	r = send_one(s, &m);
	assert_int_equal(r.verdict, WHERRY_THROTTLED);
	assert_in_range(r.retry_after_us, 40 * WH_SECOND, 100 * WH_SECOND);
	end(s);
}

static void credentials_and_redirects_are_the_destinations_fault(void **state)
{
	site *s = begin(NULL);

	(void)state;
	webhook_server_answer(s->server, "401 body=who_are_you?");
	fails(s, WHERRY_DENIED, "HTTP 401: who are you?");
	webhook_server_answer(s->server, "403");
	fails(s, WHERRY_DENIED, "HTTP 403");
	webhook_server_answer(s->server, "407");
	fails(s, WHERRY_DENIED, "HTTP 407");
	webhook_server_answer(s->server, "301 location=http://127.0.0.1/there");
	fails(s, WHERRY_INVALID,
	      "redirects are not followed: give the URL it points to, "
	      "http://127.0.0.1/there");
	webhook_server_answer(s->server, "307 location=/there");
	fails(s, WHERRY_INVALID, "/there");
	webhook_server_answer(s->server, "304");
	fails(s, WHERRY_INVALID, "HTTP 304");
	assert_int_equal(n_requests(s), 6);
	end(s);
}

/* What flies is waited for: its receipts are no guess. */
static void others_have_their_receipts_before_the_destination_fails(void **state)
{
	site *s = begin(NULL);
	wherry_message m[3] = {message("{\"x-answer\":\"slow\"}"),
			       message("{\"x-answer\":\"403\"}"),
			       message("{\"x-answer\":\"slow\"}")};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[3];

	(void)state;
	open_it(s);
	assert_int_equal(submit(s, m, 3), 3);
	WHERRY_PASS(collect(s, receipts, 2, &err));
	assert_int_equal(receipts[0].verdict, WHERRY_DELIVERED);
	assert_int_equal(receipts[1].verdict, WHERRY_DELIVERED);
	assert_true(receipts[0].message != &m[1] && receipts[1].message != &m[1]);
	assert_int_equal(submit(s, m, 1), 0);
	assert_int_equal(collect(s, receipts, 1, &err), WHERRY_DENIED);
	wh_publisher_drop(s->pub);
	delivers(s, &m[0]);
	end(s);
}

/* One each of all kinds at once. */
static void verdicts_are_never_mixed_up(void **state)
{
	static const char *const answers[] = {"200", "400", "500", "429", "close", "cut"};
	static const wherry_verdict want[] = {WHERRY_DELIVERED, WHERRY_REJECTED,
					      WHERRY_RETRY,     WHERRY_THROTTLED,
					      WHERRY_UNKNOWN,   WHERRY_DELIVERED};
	site *s = begin(NULL);
	wherry_message m[60];
	char headers[60][64];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[60];
	bool seen[60] = {false};

	(void)state;
	set(s, "webhook.connections", "60");
	open_it(s);
	for (size_t i = 0; i < 60; i++) {
		(void)snprintf(headers[i], sizeof(headers[i]), "{\"x-answer\":\"%s\"}",
			       answers[i % 6]);
		m[i] = message(headers[i]);
	}
	assert_int_equal(submit(s, m, 60), 60);
	WHERRY_PASS(collect(s, receipts, 60, &err));
	for (size_t i = 0; i < 60; i++) {
		size_t n = (size_t)(receipts[i].message - m);

		assert_false(seen[n]);
		seen[n] = true;
		if (receipts[i].verdict != want[n % 6])
			fail_msg("%s: verdict %d: %s", answers[n % 6],
				 receipts[i].verdict, receipts[i].reason);
	}
	end(s);
}

static void an_answer_that_breaks_off_is_one_or_none(void **state)
{
	static const struct {
		const char *answer;
		wherry_verdict verdict;
	} answers[] = {
		{"cut", WHERRY_DELIVERED},   {"endless", WHERRY_DELIVERED},
		{"close", WHERRY_UNKNOWN},   {"half", WHERRY_UNKNOWN},
		{"garbage", WHERRY_UNKNOWN}, {"hang", WHERRY_UNKNOWN},
	};
	site *s = begin(NULL);
	wherry_message m = message(NULL);

	(void)state;
	set(s, "webhook.timeout", "1s");
	open_it(s);
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		char headers[64];
		wh_receipt r;

		(void)snprintf(headers, sizeof(headers), "{\"x-answer\":\"%s\"}",
			       answers[i].answer);
		m.headers = headers;
		r = send_one(s, &m);
		if (r.verdict != answers[i].verdict)
			fail_msg("%s: verdict %d: %s", answers[i].answer, r.verdict,
				 r.reason);
		if (r.verdict == WHERRY_UNKNOWN)
			assert_string_not_equal(r.reason, "");
	}
	end(s);
}

static void the_reason_is_the_beginning_of_the_answer_on_one_line(void **state)
{
	site *s = begin(NULL);
	wherry_message m = message(NULL);
	char answer[1200] = "422 body=", *at = answer + strlen(answer);
	wh_receipt r;

	(void)state;
	memset(at, 'x', 1000);
	memcpy(at, "no\x1b[1m_\x07good", 12);
	at[1000] = 0;
	webhook_server_answer(s->server, answer);
	open_it(s);
	r = send_one(s, &m);
	assert_int_equal(r.verdict, WHERRY_REJECTED);
	assert_int_equal(strncmp(r.reason, "HTTP 422: no [1m  goodxxx", 25), 0);
	assert_in_range(strlen(r.reason), 150, 199);
	end(s);
}

/* ---- connections ---- */

static void connections_are_used_again(void **state)
{
	site *s = begin(NULL);
	wherry_message m = message(NULL);

	(void)state;
	open_it(s);
	for (int i = 0; i < 50; i++)
		delivers(s, &m);
	assert_int_equal(number(request(s, 49), "connection"), 1);
	end(s);
}

static void no_more_requests_fly_than_there_are_connections(void **state)
{
	site *s = begin(NULL);
	wherry_message m[40];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[40];
	size_t sent = 0, done = 0;

	(void)state;
	set(s, "webhook.connections", "4");
	open_it(s);
	for (int i = 0; i < 40; i++)
		m[i] = message("{\"x-answer\":\"slow\"}");
	assert_int_equal(sent = submit(s, m, 40), 4);
	while (done < 40) {
		WHERRY_PASS(collect(s, receipts, 1, &err));
		done++;
		if (sent < 40)
			sent += submit(s, m + sent, 40 - sent);
		assert_true(sent - done <= 4);
	}
	assert_int_equal(number(request(s, 39), "most"), 4);
	for (size_t i = 0; i < 40; i++)
		assert_in_range(number(request(s, i), "connection"), 1, 4);
	end(s);
}

static void a_connection_that_was_closed_meanwhile_is_made_anew(void **state)
{
	site *s = begin(NULL);
	wherry_message m = message(NULL);

	(void)state;
	open_it(s);
	delivers(s, &m);
	webhook_server_kill(s->server);
	webhook_server_again(s->server);
	delivers(s, &m);
	end(s);
}

static void a_large_body_arrives_whole(void **state)
{
	site *s = begin(NULL);
	size_t len = 8 << 20;
	char *body = malloc(len);
	wherry_message m = message(NULL);

	(void)state;
	assert_non_null(body);
	memset(body, 'x', len);
	m.body = body;
	m.body_len = len;
	open_it(s);
	delivers(s, &m);
	assert_int_equal(number(request(s, 0), "length"), len);
	m = message("{\"x-answer\":\"400 body=early\"}");
	m.body = body;
	m.body_len = len;
	assert_int_equal(send_one(s, &m).verdict, WHERRY_REJECTED);
	free(body);
	end(s);
}

static void a_rate_holds_back_what_comes_too_early(void **state)
{
	site *s = begin(NULL);
	wherry_message m[3] = {message(NULL), message(NULL), message(NULL)};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[3];
	int64_t due_us;

	(void)state;
	set(s, "webhook.rate", "1");
	open_it(s);
	assert_int_equal(submit(s, m, 3), 1);
	due_us = wh_publisher_deadline(s->pub);
	assert_true(due_us <= wh_monotonic(&wh_env_system) + WH_SECOND);
	WHERRY_PASS(collect(s, receipts, 1, &err));
	assert_int_equal(submit(s, m + 1, 2), 0);
	due_us = wh_publisher_deadline(s->pub);
	assert_true(due_us > wh_monotonic(&wh_env_system));
	while (wh_monotonic(&wh_env_system) < due_us)
		await(s);
	assert_int_equal(submit(s, m + 1, 2), 1);
	WHERRY_PASS(collect(s, receipts, 1, &err));
	end(s);
}

static void who_is_not_there_is_not_reached(void **state)
{
	site *s = begin(NULL);

	(void)state;
	webhook_server_kill(s->server);
	fails(s, WHERRY_CLOSED, "127.0.0.1");
	(void)snprintf(s->url, sizeof(s->url), "http://no-such-host.invalid/");
	fails(s, WHERRY_CLOSED, "no-such-host.invalid");
	webhook_server_again(s->server);
	end(s);
}

static int count_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void nothing_is_left_open(void **state)
{
	site *s = begin(NULL);
	wherry_message m[8];
	int before = count_descriptors();

	(void)state;
	open_it(s);
	for (int i = 0; i < 8; i++)
		m[i] = message("{\"x-answer\":\"hang\"}");
	assert_int_equal(submit(s, m, 8), 8);
	assert_true(count_descriptors() > before);
	wherry_publisher_close(s->pub);
	s->pub = NULL;
	assert_int_equal(count_descriptors(), before);
	end(s);
}

/* ---- TLS ---- */

static void a_certificate_that_is_trusted_is_taken(void **state)
{
	site *s = begin_tls("good", NULL);
	wherry_message m = message(NULL);

	(void)state;
	open_it(s);
	delivers(s, &m);
	end(s);
}

static void other_certificates_are_refused(void **state)
{
	site *s = begin_tls("good", NULL);

	(void)state;
	set(s, "webhook.ca_file", "");
	fails(s, WHERRY_DENIED, "certificate");
	assert_int_equal(n_requests(s), 0);
	end(s);
	s = begin_tls("other", NULL);
	fails(s, WHERRY_DENIED, "127.0.0.1");
	end(s);
	s = begin_tls("expired", NULL);
	fails(s, WHERRY_DENIED, "expired");
	end(s);
}

static void a_server_may_ask_for_a_certificate(void **state)
{
	site *s = begin_tls("good", "client.pem");
	wherry_message m = message(NULL);

	(void)state;
	fails(s, WHERRY_DENIED, "SSL");
	set(s, "webhook.client_cert", webhook_certificate("client.pem"));
	open_it(s);
	delivers(s, &m);
	set(s, "webhook.client_key", webhook_certificate("client.key"));
	open_it(s);
	delivers(s, &m);
	set(s, "webhook.client_cert", webhook_certificate("other.pem"));
	set(s, "webhook.client_key", webhook_certificate("other.key"));
	fails(s, WHERRY_DENIED, "");
	end(s);
}

/* As servers of TLS 1.3 say it: once the request has left. */
static void a_certificate_refused_late_is_no_messages_fault(void **state)
{
	const wh_webhook_answer answer = {
		.result = CURLE_RECV_ERROR,
		.sent = true,
		.error = "OpenSSL SSL_read: error:0A00045C:SSL routines::tlsv13 alert "
			 "certificate required, errno 0",
		.text = "",
	};

	(void)state;
	assert_int_equal(wh_webhook_judge(&answer).code, WHERRY_DENIED);
}

static void what_speaks_no_tls_is_not_spoken_to(void **state)
{
	site *s = begin(NULL);

	(void)state;
	(void)snprintf(s->url, sizeof(s->url), "https://127.0.0.1:%d/hook",
		       s->server->port);
	set(s, "webhook.connect_timeout", "500ms");
	open_it(s);
	fails(s, WHERRY_CLOSED, "");
	assert_int_equal(n_requests(s), 0);
	end(s);
}

/* ---- HTTP/2 ---- */

static int free_port(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (const struct sockaddr *)&in, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	(void)close(fd);
	return ntohs(in.sin_port);
}

static bool answers_at(int port)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in.sin_port = htons((uint16_t)port);
	rc = connect(fd, (const struct sockaddr *)&in, sizeof(in));
	(void)close(fd);
	return rc == 0;
}

/* nghttpd, which sends back what it is sent; 0: it is not there. */
static pid_t start_http2(int port)
{
	char cert[300], key[300], number_[16];
	pid_t pid;

	if (system("command -v nghttpd >/dev/null") != 0)
		return 0;
	(void)snprintf(cert, sizeof(cert), "%s", webhook_certificate("good.pem"));
	(void)snprintf(key, sizeof(key), "%s", webhook_certificate("good.key"));
	(void)snprintf(number_, sizeof(number_), "%d", port);
	(void)fflush(stdout);
	pid = fork();
	if (!pid) {
		(void)execlp("nghttpd", "nghttpd", "-a", "127.0.0.1", "--echo-upload",
			     "-n1", number_, key, cert, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; !answers_at(port); i++)
		if (i == 1000 || poll(NULL, 0, 10) < 0)
			fail_msg("nghttpd does not start");
	return pid;
}

static void one_connection_of_http_2_carries_many_requests(void **state)
{
	int port = free_port();
	pid_t server = start_http2(port);
	site *s;
	wherry_message m[60];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[60];

	(void)state;
	if (!server)
		skip();
	s = begin(NULL);
	(void)snprintf(s->url, sizeof(s->url), "https://127.0.0.1:%d/hook", port);
	set(s, "webhook.ca_file", webhook_certificate("good.pem"));
	set(s, "webhook.connections", "1");
	set(s, "webhook.streams", "50");
	open_it(s);
	for (int i = 0; i < 60; i++)
		m[i] = message(NULL);
	assert_int_equal(submit(s, m, 60), 1); /* which asks what is spoken */
	WHERRY_PASS(collect(s, receipts, 1, &err));
	assert_int_equal(receipts[0].verdict, WHERRY_DELIVERED);
	assert_int_equal(submit(s, m, 60), 50);
	WHERRY_PASS(collect(s, receipts, 50, &err));
	for (int i = 0; i < 50; i++)
		assert_int_equal(receipts[i].verdict, WHERRY_DELIVERED);
	(void)kill(server, SIGKILL);
	(void)waitpid(server, NULL, 0);
	end(s);
}

/* ---- private addresses ---- */

static bool private_text(const char *text)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_in in = {.sin_family = AF_INET};

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
		return wh_address_private((const struct sockaddr *)&in);
	assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
	return wh_address_private((const struct sockaddr *)&in6);
}

static void private_addresses_are_known(void **state)
{
	static const char *const private[] = {
		"127.0.0.1",
		"127.255.0.1",
		"0.0.0.0",
		"10.1.2.3",
		"172.16.0.1",
		"172.31.255.255",
		"192.168.1.1",
		"169.254.169.254",
		"100.64.0.1",
		"192.0.2.1",
		"198.18.0.1",
		"224.0.0.1",
		"255.255.255.255",
		"::1",
		"::",
		"fe80::1",
		"fc00::1",
		"fd12::1",
		"ff02::1",
		"::ffff:10.0.0.1",
		"::ffff:127.0.0.1",
		"64:ff9b::a00:1",
		"2002:a00:1::",
		"2001:db8::1",
		"64:ff9b:1::1",
	};
	static const char *const public[] = {
		"1.1.1.1",     "172.15.255.255", "172.32.0.0",       "192.169.0.1",
		"100.128.0.1", "11.0.0.0",       "223.255.255.255",  "2606:4700::1111",
		"2a00::1",     "::ffff:1.1.1.1", "64:ff9b::101:101",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(private) / sizeof(*private); i++)
		if (!private_text(private[i]))
			fail_msg("%s is private", private[i]);
	for (size_t i = 0; i < sizeof(public) / sizeof(*public); i++)
		if (private_text(public[i]))
			fail_msg("%s is public", public[i]);
}

static void a_private_address_is_refused_whatever_its_name(void **state)
{
	site *s = begin(NULL);

	(void)state;
	set(s, "webhook.private_addresses", "refuse");
	fails(s, WHERRY_DENIED, "private");
	(void)snprintf(s->url, sizeof(s->url), "http://localhost:%d/", s->server->port);
	fails(s, WHERRY_DENIED, "private");
	(void)snprintf(s->url, sizeof(s->url), "http://0x7f000001:%d/", s->server->port);
	fails(s, WHERRY_DENIED, "private");
	assert_int_equal(n_requests(s), 0);
	end(s);
}

/* ---- opening ---- */

static void refuses(const char *key, const char *value, const char *url, const char *text)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub = NULL;
	wherry_config *config = NULL;

	WHERRY_PASS(wherry_config_new(&config, &err));
	if (key)
		WHERRY_PASS(wherry_config_set(config, key, value, &err));
	assert_int_not_equal(wherry_publisher_open(url, config, &pub, &err), WHERRY_OK);
	assert_null(pub);
	if (!strstr(err.message, text) || strstr(err.message, "hunter2"))
		fail_msg("'%s' lacks '%s'", err.message, text);
	wherry_config_free(config);
}

static void what_cannot_work_is_refused_when_it_is_opened(void **state)
{
	(void)state;
	refuses(NULL, NULL, "https:", "https: needs a host, as in https://example.com");
	refuses(NULL, NULL, "http:/x", "http: needs a host");
	refuses(NULL, NULL, "https:///x", "needs a host");
	refuses(NULL, NULL, "https://u:hunter2@ho st/", "is no URL to POST to");
	refuses(NULL, NULL, "https://host:99999/", "Port number");
	refuses(NULL, NULL, "https://host/{key}",
		"'{key}' in the URL stands for nothing");
	refuses(NULL, NULL, "https://{topic}.example.com/", "not before");
	refuses("webhook.headers", "no colon", "https://host/", "line 1");
	refuses("webhook.headers", "A: b\n: c", "https://host/", "line 2");
	refuses("webhook.headers", "env:NO_SUCH", "https://host/", "NO_SUCH");
	refuses("webhook.ca_file", "/no/such", "https://host/", "/no/such");
	refuses("webhook.client_cert", "/no/such", "https://host/",
		"webhook.client_cert");
	refuses("webhook.client_key", "/etc/hostname", "https://host/",
		"webhook.client_cert");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_specifications_example_is_signed_as_it_says),
		cmocka_unit_test(a_receiver_verifies_what_it_gets),
		cmocka_unit_test(secrets_are_replaced_one_after_the_other),
		cmocka_unit_test(odd_secrets_are_refused_and_not_shown),
		cmocka_unit_test(a_plain_request_has_the_body_and_says_what_it_is),
		cmocka_unit_test(a_message_cannot_forge_headers),
		cmocka_unit_test(headers_too_large_or_malformed_are_rejected),
		cmocka_unit_test(a_trace_goes_along),
		cmocka_unit_test(the_topic_stands_in_the_path_encoded),
		cmocka_unit_test(a_cloud_event_in_headers),
		cmocka_unit_test(a_cloud_event_as_one_object),
		cmocka_unit_test(each_status_means_what_it_should),
		cmocka_unit_test(a_date_says_how_long_to_wait),
		cmocka_unit_test(credentials_and_redirects_are_the_destinations_fault),
		cmocka_unit_test(others_have_their_receipts_before_the_destination_fails),
		cmocka_unit_test(verdicts_are_never_mixed_up),
		cmocka_unit_test(an_answer_that_breaks_off_is_one_or_none),
		cmocka_unit_test(the_reason_is_the_beginning_of_the_answer_on_one_line),
		cmocka_unit_test(connections_are_used_again),
		cmocka_unit_test(no_more_requests_fly_than_there_are_connections),
		cmocka_unit_test(a_connection_that_was_closed_meanwhile_is_made_anew),
		cmocka_unit_test(a_large_body_arrives_whole),
		cmocka_unit_test(a_rate_holds_back_what_comes_too_early),
		cmocka_unit_test(who_is_not_there_is_not_reached),
		cmocka_unit_test(nothing_is_left_open),
		cmocka_unit_test(a_certificate_that_is_trusted_is_taken),
		cmocka_unit_test(other_certificates_are_refused),
		cmocka_unit_test(a_server_may_ask_for_a_certificate),
		cmocka_unit_test(a_certificate_refused_late_is_no_messages_fault),
		cmocka_unit_test(what_speaks_no_tls_is_not_spoken_to),
		cmocka_unit_test(one_connection_of_http_2_carries_many_requests),
		cmocka_unit_test(private_addresses_are_known),
		cmocka_unit_test(a_private_address_is_refused_whatever_its_name),
		cmocka_unit_test(what_cannot_work_is_refused_when_it_is_opened),
	};
	int failed;

	(void)signal(SIGPIPE, SIG_IGN);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	json_decref(the_log);
	webhook_certificates_clear();
	return failed;
}
