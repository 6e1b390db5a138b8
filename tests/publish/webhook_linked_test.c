/*
 * https: and http: against a receiver in another process: what its answers mean, and how
 * connections are used.
 */
#include "webhook_site.h"

#include <fcntl.h>
#include <time.h>

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
		{"404", WHERRY_RETRY, 0},
		{"405", WHERRY_RETRY, 0},
		{"410", WHERRY_RETRY, 0},
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
	site *s = site_begin(NULL);
	wherry_message m = plain_message(NULL);

	site_open(s);
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		char headers[200];
		wh_receipt r;

		(void)snprintf(headers, sizeof(headers), "{\"x-answer\":\"%s\"}",
			       answers[i].answer);
		m.headers = headers;
		r = site_send(s, &m);
		if (r.verdict != answers[i].verdict ||
		    r.retry_after_us != answers[i].wait_s * WH_SECOND)
			fail_msg("%s: verdict %d after %lld us: %s", answers[i].answer,
				 r.verdict, (long long)r.retry_after_us, r.reason);
	}
	site_end(s);
}

static void a_date_says_how_long_to_wait(void **state)
{
	site *s = site_begin(NULL);
	time_t at = (time_t)(wh_now(&wh_env_system) / WH_SECOND) + 100;
	wherry_message m = plain_message(NULL);
	char headers[200], date[64];
	struct tm tm;
	wh_receipt r;

	assert_non_null(gmtime_r(&at, &tm));
	assert_true(strftime(date, sizeof(date), "%a,_%d_%b_%Y_%H:%M:%S_GMT", &tm));
	(void)snprintf(headers, sizeof(headers), "{\"x-answer\":\"503 retry-after=%s\"}",
		       date);
	m.headers = headers;
	site_open(s);
	r = site_send(s, &m);
	assert_int_equal(r.verdict, WHERRY_THROTTLED);
	/* libcurl reads a clock that may be a tick behind, and counts whole seconds. */
	assert_in_range(r.retry_after_us, 40 * WH_SECOND, 101 * WH_SECOND);
	/* The receiver's clock is 40 s behind that date, whatever ours says. */
	m.headers = "{\"x-answer\":\"503 date=Sat,_01_Jan_2050_00:00:00_GMT "
		    "retry-after=Sat,_01_Jan_2050_00:00:40_GMT\"}";
	assert_int_equal(site_send(s, &m).retry_after_us, 40 * WH_SECOND);
	/* Seconds since 1970, where a duration belongs. */
	(void)snprintf(headers, sizeof(headers),
		       "{\"x-answer\":\"503 retry-after=%lld\"}", (long long)at);
	m.headers = headers;
	assert_in_range(site_send(s, &m).retry_after_us, 1, 101 * WH_SECOND);
	site_end(s);
}

static void credentials_paths_and_redirects_may_be_the_destinations_fault(void **state)
{
	site *s = site_begin(NULL);

	webhook_server_answer(s->server, "401 body=who_are_you?");
	site_denies(s, "HTTP 401: who are you?");
	webhook_server_answer(s->server, "403");
	site_denies(s, "HTTP 403");
	webhook_server_answer(s->server, "407");
	site_denies(s, "HTTP 407");
	webhook_server_answer(s->server, "404");
	site_denies(s, "HTTP 404");
	webhook_server_answer(s->server, "405");
	site_denies(s, "HTTP 405");
	webhook_server_answer(s->server, "410");
	site_denies(s, "HTTP 410");
	webhook_server_answer(s->server, "301 location=http://127.0.0.1/there");
	site_denies(s, "redirects are not followed: give the URL it points to, on "
		       "http://127.0.0.1 ");
	webhook_server_answer(s->server, "307 location=/there");
	site_denies(s, ", on http");
	webhook_server_answer(s->server, "304");
	site_denies(s, "HTTP 304");
	assert_int_equal(site_requests(s), 9);
	site_end(s);
}

/* A refusal of one message takes no other along. */
static void others_are_delivered_beside_one_that_is_denied(void **state)
{
	site *s = site_begin(NULL);
	wherry_message m[3] = {plain_message("{\"x-answer\":\"slow\"}"),
			       plain_message("{\"x-answer\":\"403\"}"),
			       plain_message("{\"x-answer\":\"slow\"}")};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[3];

	site_open(s);
	assert_int_equal(site_submit(s, m, 3), 3);
	WHERRY_PASS(site_collect(s, receipts, 3, &err));
	for (size_t i = 0; i < 3; i++) {
		bool denied = receipts[i].message == &m[1];

		assert_int_equal(receipts[i].verdict,
				 denied ? WHERRY_RETRY : WHERRY_DELIVERED);
		assert_int_equal(receipts[i].denied, denied);
	}
	site_delivers(s, &m[0]);
	site_end(s);
}

/* One each of all kinds at once. */
static void verdicts_are_never_mixed_up(void **state)
{
	static const char *const answers[] = {"200", "400", "500", "429", "close", "cut"};
	static const wherry_verdict want[] = {WHERRY_DELIVERED, WHERRY_REJECTED,
					      WHERRY_RETRY,     WHERRY_THROTTLED,
					      WHERRY_UNKNOWN,   WHERRY_DELIVERED};
	site *s = site_begin(NULL);
	wherry_message m[60];
	char headers[60][64];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[60];
	bool seen[60] = {false};

	site_set(s, "webhook.connections", "60");
	site_open(s);
	for (size_t i = 0; i < 60; i++) {
		(void)snprintf(headers[i], sizeof(headers[i]), "{\"x-answer\":\"%s\"}",
			       answers[i % 6]);
		m[i] = plain_message(headers[i]);
	}
	assert_int_equal(site_submit(s, m, 60), 60);
	WHERRY_PASS(site_collect(s, receipts, 60, &err));
	for (size_t i = 0; i < 60; i++) {
		size_t n = (size_t)(receipts[i].message - m);

		assert_false(seen[n]);
		seen[n] = true;
		if (receipts[i].verdict != want[n % 6])
			fail_msg("%s: verdict %d: %s", answers[n % 6],
				 receipts[i].verdict, receipts[i].reason);
	}
	site_end(s);
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
	site *s = site_begin(NULL);
	wherry_message m = plain_message(NULL);

	site_set(s, "webhook.timeout", "1s");
	site_open(s);
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		char headers[64];
		wh_receipt r;

		(void)snprintf(headers, sizeof(headers), "{\"x-answer\":\"%s\"}",
			       answers[i].answer);
		m.headers = headers;
		r = site_send(s, &m);
		if (r.verdict != answers[i].verdict)
			fail_msg("%s: verdict %d: %s", answers[i].answer, r.verdict,
				 r.reason);
		if (r.verdict == WHERRY_UNKNOWN)
			assert_string_not_equal(r.reason, "");
	}
	site_end(s);
}

static void the_reason_is_the_beginning_of_the_answer_on_one_line(void **state)
{
	site *s = site_begin(NULL);
	wherry_message m = plain_message(NULL);
	char answer[1200] = "422 body=", *at = answer + strlen(answer);
	wh_receipt r;

	memset(at, 'x', 1000);
	memcpy(at, "no\x1b[1m_\x07good", 12);
	at[1000] = 0;
	webhook_server_answer(s->server, answer);
	site_open(s);
	r = site_send(s, &m);
	assert_int_equal(r.verdict, WHERRY_REJECTED);
	assert_int_equal(strncmp(r.reason, "HTTP 422: no [1m  goodxxx", 25), 0);
	assert_in_range(strlen(r.reason), 150, 199);
	site_end(s);
}

/* ---- connections ---- */

static void connections_are_used_again(void **state)
{
	site *s = site_begin(NULL);
	wherry_message m = plain_message(NULL);

	site_open(s);
	for (int i = 0; i < 50; i++)
		site_delivers(s, &m);
	assert_int_equal(entry_number(site_request(s, 49), "connection"), 1);
	site_end(s);
}

static void no_more_requests_fly_than_there_are_connections(void **state)
{
	site *s = site_begin(NULL);
	wherry_message m[40];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[40];
	size_t sent = 0, done = 0;

	site_set(s, "webhook.connections", "4");
	site_open(s);
	for (int i = 0; i < 40; i++)
		m[i] = plain_message("{\"x-answer\":\"slow\"}");
	assert_int_equal(sent = site_submit(s, m, 40), 4);
	while (done < 40) {
		WHERRY_PASS(site_collect(s, receipts, 1, &err));
		done++;
		if (sent < 40)
			sent += site_submit(s, m + sent, 40 - sent);
		assert_true(sent - done <= 4);
	}
	assert_int_equal(entry_number(site_request(s, 39), "most"), 4);
	for (size_t i = 0; i < 40; i++)
		assert_in_range(entry_number(site_request(s, i), "connection"), 1, 4);
	site_end(s);
}

static void a_connection_that_was_closed_meanwhile_is_made_anew(void **state)
{
	site *s = site_begin(NULL);
	wherry_message m = plain_message(NULL);

	site_open(s);
	site_delivers(s, &m);
	webhook_server_kill(s->server);
	webhook_server_again(s->server);
	site_delivers(s, &m);
	site_end(s);
}

static void a_large_body_arrives_whole(void **state)
{
	site *s = site_begin(NULL);
	size_t len = 8 << 20;
	char *body = malloc(len);
	wherry_message m = plain_message(NULL);

	assert_non_null(body);
	memset(body, 'x', len);
	m.body = body;
	m.body_len = len;
	site_open(s);
	site_delivers(s, &m);
	assert_int_equal(entry_number(site_request(s, 0), "length"), len);
	m = plain_message("{\"x-answer\":\"400 body=early\"}");
	m.body = body;
	m.body_len = len;
	assert_int_equal(site_send(s, &m).verdict, WHERRY_REJECTED);
	free(body);
	site_end(s);
}

static void a_rate_holds_back_what_comes_too_early(void **state)
{
	site *s = site_begin(NULL);
	wherry_message m[3] = {plain_message(NULL), plain_message(NULL),
			       plain_message(NULL)};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[3];
	int64_t due_us;

	site_set(s, "webhook.rate", "1");
	site_open(s);
	assert_int_equal(site_submit(s, m, 3), 1);
	due_us = wh_publisher_deadline(s->pub);
	assert_true(due_us <= wh_monotonic(&wh_env_system) + WH_SECOND);
	WHERRY_PASS(site_collect(s, receipts, 1, &err));
	assert_int_equal(site_submit(s, m + 1, 2), 0);
	due_us = wh_publisher_deadline(s->pub);
	assert_true(due_us > wh_monotonic(&wh_env_system));
	while (wh_monotonic(&wh_env_system) < due_us)
		site_await(s);
	assert_int_equal(site_submit(s, m + 1, 2), 1);
	WHERRY_PASS(site_collect(s, receipts, 1, &err));
	site_end(s);
}

static void who_is_not_there_is_not_reached(void **state)
{
	site *s = site_begin(NULL);

	webhook_server_kill(s->server);
	site_fails(s, WHERRY_CLOSED, "127.0.0.1");
	(void)snprintf(s->url, sizeof(s->url), "http://no-such-host.invalid/");
	site_fails(s, WHERRY_CLOSED, "no-such-host.invalid");
	webhook_server_again(s->server);
	site_end(s);
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
	site *s = site_begin(NULL);
	wherry_message m[8];
	int before = count_descriptors();

	site_open(s);
	for (int i = 0; i < 8; i++)
		m[i] = plain_message("{\"x-answer\":\"hang\"}");
	assert_int_equal(site_submit(s, m, 8), 8);
	assert_true(count_descriptors() > before);
	wherry_publisher_close(s->pub);
	s->pub = NULL;
	assert_int_equal(count_descriptors(), before);
	site_end(s);
}

/* ---- numbers ---- */

static int64_t counted(const site *s, const char *name)
{
	wh_number numbers[WH_NUMBERS_MOST];
	size_t n = wh_publisher_numbers(s->pub, numbers);

	for (size_t i = 0; i < n; i++)
		if (strcmp(numbers[i].name, name) == 0)
			return numbers[i].value;
	fail_msg("there is no %s", name);
	return -1;
}

static void answers_are_counted_by_class(void **state)
{
	static const char *const answers[] = {"200", "204", "400",   "422", "408",
					      "429", "500", "close", "hang"};
	site *s = site_begin(NULL);
	wherry_message m = plain_message("{\"x-answer\":\"307 location=/there\"}");
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipt;

	site_set(s, "webhook.timeout", "1s");
	site_open(s);
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		wherry_message one;
		char headers[64];

		(void)snprintf(headers, sizeof(headers), "{\"x-answer\":\"%s\"}",
			       answers[i]);
		one = plain_message(headers);
		(void)site_send(s, &one);
	}
	assert_int_equal(site_submit(s, &m, 1), 1);
	WHERRY_PASS(site_collect(s, &receipt, 1, &err));
	assert_true(receipt.denied);
	assert_int_equal(counted(s, "webhook_answers_total{class=\"2xx\"}"), 2);
	assert_int_equal(counted(s, "webhook_answers_total{class=\"3xx\"}"), 1);
	assert_int_equal(counted(s, "webhook_answers_total{class=\"4xx\"}"), 3);
	assert_int_equal(counted(s, "webhook_answers_total{class=\"429\"}"), 1);
	assert_int_equal(counted(s, "webhook_answers_total{class=\"5xx\"}"), 1);
	assert_int_equal(counted(s, "webhook_timeouts_total"), 1);
	assert_int_equal(counted(s, "webhook_unanswered_total"), 1);
	webhook_server_kill(s->server);
	wh_publisher_drop(s->pub);
	assert_int_equal(site_submit(s, &m, 1), 1);
	assert_int_equal(site_collect(s, &receipt, 1, &err), WHERRY_CLOSED);
	assert_int_equal(counted(s, "webhook_unanswered_total"), 2);
	webhook_server_again(s->server);
	site_end(s);
}

static void what_is_sent_over_which_connections_is_counted(void **state)
{
	site *s = site_begin(NULL);
	wherry_message m = plain_message(NULL);

	site_open(s);
	assert_int_equal(counted(s, "webhook_connections_total"), 0);
	for (int i = 0; i < 10; i++)
		site_delivers(s, &m);
	assert_int_equal(counted(s, "webhook_connections_total"), 1);
	assert_int_equal(counted(s, "webhook_reused_total"), 9);
	assert_int_equal(counted(s, "webhook_bytes_total"),
			 10 * entry_number(site_request(s, 9), "length"));
	webhook_server_kill(s->server);
	webhook_server_again(s->server);
	site_delivers(s, &m);
	assert_int_equal(counted(s, "webhook_connections_total"), 2);
	site_end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_status_means_what_it_should),
		cmocka_unit_test(a_date_says_how_long_to_wait),
		cmocka_unit_test(
			credentials_paths_and_redirects_may_be_the_destinations_fault),
		cmocka_unit_test(others_are_delivered_beside_one_that_is_denied),
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
		cmocka_unit_test(answers_are_counted_by_class),
		cmocka_unit_test(what_is_sent_over_which_connections_is_counted),
	};

	return site_run(tests);
}
