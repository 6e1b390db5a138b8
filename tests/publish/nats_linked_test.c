/*
 * Parts of the destination nats: that need no server.
 */
#include "publish/nats/nats.h"

#include "wherry_test.h"

#include <stdlib.h>
#include <unistd.h>

/* The pair that NATS's documentation shows. */
static const char seed[] = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
static const char public[] = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

WHERRY_TEST(a_seed_yields_its_public_key)
{
	char out[WH_NATS_KEY_LEN];
	wherry_error err = WHERRY_ERROR_INIT;

	(void)state;
	WHERRY_PASS(wh_nats_public_key(seed, out, &err));
	assert_string_equal(out, public);
}

WHERRY_TEST(a_damaged_seed_is_refused_and_not_repeated)
{
	char text[sizeof(seed)], out[WH_NATS_KEY_LEN] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(seed) - 1; i++) {
		wherry_error err = WHERRY_ERROR_INIT;

		memcpy(text, seed, sizeof(seed));
		text[i] = text[i] == 'A' ? 'B' : 'A';
		/* The last character has bits that stand for nothing. */
		if (i + 2 >= sizeof(seed))
			continue;
		assert_int_equal(wh_nats_public_key(text, out, &err), WHERRY_INVALID);
		assert_null(strstr(err.message, text));
	}
	assert_string_equal(out, "");
	assert_int_equal(wh_nats_public_key(public, out, NULL), WHERRY_INVALID);
	assert_int_equal(wh_nats_public_key("", out, NULL), WHERRY_INVALID);
}

WHERRY_TEST(a_file_of_credentials_has_a_jwt_and_a_seed)
{
	static const char before[] =
		"-----BEGIN NATS USER JWT-----\r\neyJ0.eyJq.sig\r\n"
		"------END NATS USER JWT------\r\n\r\n*** IMPORTANT ***\r\n\r\n"
		"-----BEGIN USER NKEY SEED-----\r\n";
	wherry_error err = WHERRY_ERROR_INIT;
	char text[400], *jwt = NULL, *found = NULL;

	(void)state;
	(void)snprintf(text, sizeof(text), "%s%s\r\n------END USER NKEY SEED------\r\n",
		       before, seed);
	WHERRY_PASS(wh_nats_credentials(text, &jwt, &found, &err));
	assert_string_equal(jwt, "eyJ0.eyJq.sig");
	assert_string_equal(found, seed);
	free(jwt);
	free(found);
	assert_int_equal(wh_nats_credentials("/etc/shop.creds", &jwt, &found, &err),
			 WHERRY_INVALID);
	assert_non_null(strstr(err.message, "file:PATH"));
	assert_int_equal(wh_nats_credentials(before, &jwt, &found, NULL), WHERRY_INVALID);
}

static void subject_is(const char *template, const char *topic, const char *key,
		       const char *subject)
{
	const wherry_message msg = WHERRY_MESSAGE(.topic = topic, .key = key);
	char out[WH_NATS_SUBJECT_LEN];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wh_nats_subject(template, &msg, out, &err);

	assert_int_equal(code, subject ? WHERRY_OK : WHERRY_INVALID);
	if (subject)
		assert_string_equal(out, subject);
}

WHERRY_TEST(a_subject_is_made_from_topic_and_key)
{
	(void)state;
	subject_is("{topic}", "orders.paid", NULL, "orders.paid");
	subject_is("{topic}.{key}", "orders.paid", "7", "orders.paid.7");
	subject_is("shop.{key}.x", "orders", "a.b", "shop.a%2Eb.x");
	subject_is("{topic}.{key}", "orders", NULL, "orders._");
	subject_is("{topic}", "a b*>%\t", NULL, "a%20b%2A%3E%25%09");
	subject_is("{topic}", "Zürich", NULL, "Zürich");
}

WHERRY_TEST(what_no_subject_can_be_is_refused)
{
	static char long_topic[WH_NATS_SUBJECT_LEN + 1];

	(void)state;
	memset(long_topic, 'x', WH_NATS_SUBJECT_LEN);
	subject_is("{topic}", "a..b", NULL, NULL);
	subject_is("{topic}", ".a", NULL, NULL);
	subject_is("{topic}", "a.", NULL, NULL);
	subject_is("{topic}", "$SYS.x", NULL, NULL);
	subject_is("{topic}", long_topic, NULL, NULL);
	long_topic[WH_NATS_SUBJECT_LEN - 1] = 0;
	subject_is("{topic}", long_topic, NULL, long_topic);
}

WHERRY_TEST(a_template_that_makes_no_subject_is_refused)
{
	static const char *const bad[] = {"a..b",  "{id}", "a b", "a.*",     "a.>",
					  "$JS.x", "a/b",  "a?b", "{topic}."};

	(void)state;
	assert_int_equal(wh_nats_template_check("orders.{topic}.{key}", NULL), WHERRY_OK);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(wh_nats_template_check(bad[i], NULL), WHERRY_INVALID);
}

static void refused(wherry_message msg, const char *why)
{
	const wh_nats_settings set = {.subject = NULL};
	wherry_error err = WHERRY_ERROR_INIT;
	natsMsg *out = NULL;

	msg.topic = "a";
	assert_int_equal(wh_nats_message(&set, &msg, "a", "b", &out, &err),
			 WHERRY_INVALID);
	assert_null(out);
	if (!strstr(err.message, why))
		fail_msg("%s", err.message);
}

WHERRY_TEST(a_message_cannot_write_headers_of_its_own_making)
{
	(void)state;
	assert_int_equal(wh_nats_start(NULL), WHERRY_OK);
	refused(WHERRY_MESSAGE(.headers = "{\"a\":\"b\\r\\nNats-Rollup: all\"}"),
		"a line break");
	refused(WHERRY_MESSAGE(.headers = "{\"a:b\":\"c\"}"), "no blanks");
	refused(WHERRY_MESSAGE(.headers = "{\"\":\"c\"}"), "no blanks");
	refused(WHERRY_MESSAGE(.headers = "{\"nats-expected-last-sequence\":\"c\"}"),
		"instructions");
	refused(WHERRY_MESSAGE(.message_id = "x\r\nNats-Rollup: all"), "message_id has");
	refused(WHERRY_MESSAGE(.key = "x\ny"), "key has a line break");
	refused(WHERRY_MESSAGE(.headers = "[]"), "");
}

/* The verdict on the answer that a server gave. */
static wh_flight judged(const char *text)
{
	wh_nats_answer answer = wh_nats_answer_read(text, strlen(text));
	wh_flight flight = {.message = NULL};

	wh_nats_judge(&flight, &answer, "orders");
	free(answer.text);
	return flight;
}

static void error_means(int code, int number, wherry_verdict verdict, bool held)
{
	char text[200];
	wh_flight flight;

	(void)snprintf(text, sizeof(text),
		       "{\"error\":{\"code\":%d,\"err_code\":%d,\"description\":\"it is "
		       "so\"},\"stream\":\"A\",\"seq\":0}",
		       code, number);
	flight = judged(text);
	assert_int_equal(flight.verdict, verdict);
	assert_int_equal(flight.held, held);
	assert_non_null(strstr(flight.reason, "it is so"));
	free(flight.reason);
}

WHERRY_TEST(each_answer_has_its_verdict)
{
	wh_flight flight;

	(void)state;
	assert_int_equal(judged("{\"stream\":\"A\",\"seq\":1}").verdict,
			 WHERRY_DELIVERED);
	assert_int_equal(
		judged("{\"stream\":\"A\",\"seq\":1,\"duplicate\":true}").verdict,
		WHERRY_DELIVERED);
	error_means(503, 10077, WHERRY_RETRY, true);
	error_means(400, 10060, WHERRY_RETRY, true);
	error_means(400, 10054, WHERRY_REJECTED, false);
	error_means(503, 12345, WHERRY_RETRY, true);
	error_means(429, 12345, WHERRY_THROTTLED, false);
	error_means(400, 12345, WHERRY_RETRY, false);
	flight = judged("pong");
	assert_int_equal(flight.verdict, WHERRY_UNKNOWN);
	free(flight.reason);
	flight = judged("{\"seq\":1}");
	assert_int_equal(flight.verdict, WHERRY_UNKNOWN);
	free(flight.reason);
}

/* The usual answer is read without a parser.  All others must mean what JSON says. */
WHERRY_TEST(an_answer_that_is_nearly_the_usual_one_is_parsed)
{
	static const struct {
		const char *text;
		wh_nats_outcome outcome;
	} answers[] = {
		{"{\"stream\":\"ORDERS\", \"seq\":9}", WH_NATS_STORED},
		{"{\"stream\":\"A\",  \"seq\": 123456789012345678}", WH_NATS_STORED},
		{"{\"stream\":\"\",\"seq\":1}", WH_NATS_STORED},
		{"{\"stream\":\"\\u00e4\",\"seq\":1}", WH_NATS_STORED},
		{"{\"stream\":\"\xc3\xa4\",\"seq\":1}", WH_NATS_STORED},
		{"{\"stream\":\"A\",\"domain\":\"hub\",\"seq\":1}", WH_NATS_STORED},
		{"{\"stream\":\"A\", \"seq\":1,\"duplicate\": true}", WH_NATS_DOUBLED},
		{"{\"stream\":\"A\",\"seq\":1,\"error\":{\"code\":503}}",
		 WH_NATS_REFUSED},
		{"{\"stream\":\"A\",\"seq\":01}", WH_NATS_STRANGE},
		{"{\"stream\":\"A\",\"seq\":1.5}", WH_NATS_STRANGE},
		{"{\"stream\":\"A\",\"seq\":}", WH_NATS_STRANGE},
		{"{\"stream\":\"A\",\"seq\":1}x", WH_NATS_STRANGE},
		{"{\"stream\":\"A\",\"seq\":1", WH_NATS_STRANGE},
		{"{\"stream\":\"\xff\",\"seq\":1}", WH_NATS_STRANGE},
		{"{\"stream\":\"A", WH_NATS_STRANGE},
		{"", WH_NATS_STRANGE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		size_t len = strlen(answers[i].text);
		char *exactly =
			malloc(len ? len : 1); /* So that asan sees a read behind it. */
		wh_nats_answer answer;

		assert_non_null(exactly);
		memcpy(exactly, answers[i].text, len);
		answer = wh_nats_answer_read(exactly, len);
		if (answer.outcome != answers[i].outcome)
			fail_msg("%s: outcome %d", answers[i].text, answer.outcome);
		free(answer.text);
		free(exactly);
	}
}

WHERRY_TEST(a_late_answer_finds_no_message)
{
	wh_nats_jobs jobs = {NULL, 0, 0};
	wh_nats_job first = {.token = 0}, second = {.token = 0};

	(void)state;
	assert_true(wh_nats_jobs_add(&jobs, &first));
	assert_ptr_equal(wh_nats_jobs_find(&jobs, first.token), &first);
	wh_nats_jobs_remove(&jobs, &first);
	assert_true(wh_nats_jobs_add(&jobs, &second));
	assert_null(wh_nats_jobs_find(&jobs, first.token));
	assert_ptr_equal(wh_nats_jobs_find(&jobs, second.token), &second);
	assert_null(wh_nats_jobs_find(&jobs, 0));
	assert_null(wh_nats_jobs_find(&jobs, INT64_MAX));
	assert_null(wh_nats_jobs_find(&jobs, -1));
	wh_nats_jobs_clear(&jobs);
}

static void url_is_refused(const char *rest, const char *key, const char *value,
			   const char *why)
{
	wherry_config *config = NULL;
	wherry_error err = WHERRY_ERROR_INIT;
	wh_nats_settings *set = NULL;

	WHERRY_PASS(wherry_config_new(&config, NULL));
	if (key)
		WHERRY_PASS(wherry_config_set(config, key, value, &err));
	assert_int_not_equal(wh_nats_settings_read(false, rest, config, &set, &err),
			     WHERRY_OK);
	if (!strstr(err.message, why))
		fail_msg("%s", err.message);
	wherry_config_free(config);
}

static void with_a_certificate_url_is_refused(const char *rest, const char *why)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----\n";
	char path[] = "/tmp/wherry-pem.XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, begin, strlen(begin)), strlen(begin));
	assert_int_equal(close(fd), 0);
	url_is_refused(rest, "nats.ca_file", path, why);
	assert_int_equal(unlink(path), 0);
}

WHERRY_TEST(a_url_or_a_setting_that_cannot_be_is_refused)
{
	(void)state;
	url_is_refused("host", NULL, NULL, "needs servers");
	url_is_refused("//", NULL, NULL, "needs servers");
	url_is_refused("//a,,b", NULL, NULL, "needs servers");
	url_is_refused("//u:p@host", NULL, NULL, "nats.password=env:NAME");
	url_is_refused("//host/a?b=c", NULL, NULL, "settings nats.*");
	url_is_refused("//host", "nats.user", "shop", "need each other");
	url_is_refused("//host", "nats.seed", "SUX", "nats.seed");
	url_is_refused("//host", "nats.credentials", "SUX", "nats.credentials");
	url_is_refused("//host", "nats.token", "env:WHERRY_NOWHERE", "WHERRY_NOWHERE");
	url_is_refused("//host", "nats.ca_file", "/nowhere", "nats.ca_file");
	url_is_refused("//host", "nats.ca_file", "/dev/null", "is not a PEM file");
	with_a_certificate_url_is_refused("//host", "nats+tls://");
	url_is_refused("//host", "nats.create_stream", "a.>", "nats.stream");
	url_is_refused("//host", "nats.stream", "a.b", "no blanks");
}

WHERRY_TEST_MAIN
