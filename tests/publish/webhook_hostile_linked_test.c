/*
 * https: and http: against a server that means harm: no answer crashes or holds up the relay,
 * what is kept of it is short and harmless, and a good server gets its messages afterwards.
 */
#include "webhook_site.h"

#include <unistd.h>

#include "base/text.h"

enum { NAMES_MOST = 100, NAME_MOST = 80 };

/* A reason is one short line that a terminal and a log may show. */
static void check_text(const char *kind, const char *text, size_t most)
{
	size_t len = strnlen(text, most);

	if (len == most)
		fail_msg("%s: the reason is too long", kind);
	if (!wh_utf8_valid(text, len))
		fail_msg("%s: the reason is not UTF-8: '%s'", kind, text);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		bool c1 = c == 0xc2 && (unsigned char)text[i + 1] < 0xa0;

		if (c < ' ' || c == 0x7f || c1)
			fail_msg("%s: the reason has a control character: '%s'", kind,
				 text);
	}
}

/* A message meets that answer; the next one is delivered. */
static void survives(site *s, const char *kind)
{
	int64_t began = wh_monotonic(&wh_env_system), took;
	wherry_message m = plain_message(NULL);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipt;

	(void)alarm(60);
	site_open(s);
	webhook_server_answer(s->server, kind);
	assert_int_equal(site_submit(s, &m, 1), 1);
	if (site_collect(s, &receipt, 1, &err) == WHERRY_OK) {
		check_text(kind, receipt.reason, sizeof(receipt.reason));
		if (receipt.retry_after_us < 0 ||
		    receipt.retry_after_us > 24 * 3600 * WH_SECOND)
			fail_msg("%s: again in %lld us", kind,
				 (long long)receipt.retry_after_us);
	} else {
		check_text(kind, err.message, sizeof(err.message));
	}
	took = wh_monotonic(&wh_env_system) - began;
	if (took > 20 * WH_SECOND)
		fail_msg("%s: it took %lld us", kind, (long long)took);
	webhook_server_answer(s->server, "200");
}

static size_t read_names(char names[NAMES_MOST][NAME_MOST])
{
	char command[500];
	size_t n = 0;
	FILE *list;

	(void)snprintf(command, sizeof(command), "python3 %s --hostile",
		       webhook_server_script());
	list = popen(command, "r"); /* NOLINT(cert-env33-c): a path of the tests' own */
	assert_non_null(list);
	while (n < NAMES_MOST && fscanf(list, "%79s", names[n]) == 1)
		n++;
	assert_int_equal(pclose(list), 0);
	return n;
}

static void no_answer_is_too_odd(void **state)
{
	static char names[NAMES_MOST][NAME_MOST];
	wherry_message m = plain_message(NULL);
	site *s = site_begin(NULL);
	size_t n = read_names(names);
	char kind[NAME_MOST + 8];

	assert_true(n > 50 && n < NAMES_MOST);
	site_set(s, "webhook.timeout", "1s");
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(kind, sizeof(kind), "raw %.*s", (int)sizeof(names[i]) - 1,
			       names[i]);
		survives(s, kind);
	}
	site_open(s);
	site_delivers(s, &m);
	site_end(s);
}

static void what_is_no_tls_does_no_harm(void **state)
{
	site *s = site_begin(NULL);

	site_set(s, "webhook.timeout", "1s");
	(void)snprintf(s->url, sizeof(s->url), "https://127.0.0.1:%d/", s->server->port);
	survives(s, "greet");
	survives(s, "greet silence");
	(void)snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%d/", s->server->port);
	survives(s, "greet");
	site_end(s);
}

/* The answer was 200: what comes of its body decides nothing. */
static void a_body_that_does_not_end_holds_a_message_for_seconds(void **state)
{
	static const char *const kinds[] = {"raw drip-body", "raw silent-body",
					    "raw no-body"};
	wherry_message m = plain_message(NULL);
	site *s = site_begin(NULL);

	(void)alarm(60);
	site_set(s, "webhook.timeout", "50s");
	site_open(s);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		int64_t began = wh_monotonic(&wh_env_system);

		webhook_server_answer(s->server, kinds[i]);
		assert_int_equal(site_send(s, &m).verdict, WHERRY_DELIVERED);
		assert_true(wh_monotonic(&wh_env_system) - began < 30 * WH_SECOND);
	}
	site_end(s);
}

static void a_silent_receiver_is_named_before_requests_time_out(void **state)
{
	wherry_message m = plain_message(NULL);
	site *s = site_begin(NULL);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipt;
	const char *why;
	size_t n = 0;
	int64_t began;

	(void)alarm(60);
	site_set(s, "webhook.timeout", "4s");
	site_open(s);
	webhook_server_answer(s->server, "hang");
	began = wh_monotonic(&wh_env_system);
	assert_int_equal(site_submit(s, &m, 1), 1);
	assert_null(wh_publisher_trouble(s->pub));
	do {
		site_await(s);
		WHERRY_PASS(wh_publisher_collect(s->pub, &receipt, 1, &n, &err));
		why = wh_publisher_trouble(s->pub);
	} while (!n && !why);
	assert_int_equal(n, 0);
	assert_true(wh_monotonic(&wh_env_system) - began >= 2 * WH_SECOND);
	assert_string_equal(why, "no request was answered for 2 s");
	WHERRY_PASS(site_collect(s, &receipt, 1, &err));
	webhook_server_answer(s->server, "200");
	site_delivers(s, &m);
	assert_null(wh_publisher_trouble(s->pub));
	site_end(s);
}

static void odd_frames_of_http_2_do_no_harm(void **state)
{
	static const char *const kinds[] = {"reset",       "go-away",     "odd-frame",
					    "odd-headers", "no-settings", "silence"};
	site *s = site_begin_http_2("good");
	char kind[NAME_MOST];

	site_set(s, "webhook.timeout", "1s");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		(void)snprintf(kind, sizeof(kind), "http2 %s", kinds[i]);
		survives(s, kind);
	}
	site_end(s);
}

/* The whole way: a relay, and what is kept in its outbox. */
static void a_relay_delivers_once_its_server_is_good(void **state)
{
	static const char *const kinds[] = {"raw escapes", "raw endless-body", "raw drip",
					    "raw endless-1xx", "greet"};
	char db[300], where[300];
	wherry_message m = plain_message(NULL);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outcome outcome = WHERRY_STOPPED;
	wherry_relay *relay = NULL;
	wherry_outbox *outbox = NULL;
	wherry_db *conn = NULL;
	site *s = site_begin(NULL);

	(void)snprintf(db, sizeof(db), "sqlite:%s/a.db", s->server->temp.dir);
	(void)snprintf(where, sizeof(where), "http://127.0.0.1:%d/", s->server->port);
	site_set(s, "db.create", "on");
	WHERRY_PASS(wherry_db_open(db, s->config, &conn, &err));
	WHERRY_PASS(wherry_outbox_create(conn, "outbox", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(conn, "outbox", &outbox, &err));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		m.message_id = kinds[i];
		WHERRY_PASS(wherry_outbox_enqueue(outbox, &m, WHERRY_OWN_TRANSACTION,
						  NULL, &err));
	}
	site_set(s, "webhook.timeout", "1s");
	site_set(s, "relay.timeout", "2s");
	site_set(s, "retry.base", "10ms");
	site_set(s, "retry.cap", "100ms");
	site_set(s, "retry.attempts", "1000");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		webhook_server_answer(s->server, kinds[i]);
		WHERRY_PASS(wherry_relay_open(db, where, s->config, &relay, &err));
		WHERRY_PASS(wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, &outcome, &err));
		wherry_relay_close(relay);
		assert_int_equal(outcome, WHERRY_TIMEDOUT);
	}
	webhook_server_answer(s->server, "200");
	site_set(s, "relay.timeout", "20s");
	WHERRY_PASS(wherry_relay_open(db, where, s->config, &relay, &err));
	WHERRY_PASS(wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, &outcome, &err));
	wherry_relay_close(relay);
	assert_int_equal(outcome, WHERRY_EMPTY);
	wherry_outbox_close(outbox);
	wherry_db_close(conn);
	site_end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_answer_is_too_odd),
		cmocka_unit_test(what_is_no_tls_does_no_harm),
		cmocka_unit_test(a_body_that_does_not_end_holds_a_message_for_seconds),
		cmocka_unit_test(a_silent_receiver_is_named_before_requests_time_out),
		cmocka_unit_test(odd_frames_of_http_2_do_no_harm),
		cmocka_unit_test(a_relay_delivers_once_its_server_is_good),
	};

	return site_run(tests);
}
