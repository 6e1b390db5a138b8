#include "publisher_suite.h"

#include <signal.h>

enum { FEW = 60, FEW_KEYS = 6, BAD = 20 };

/* ---- the fixture ---- */

void suite_messages(publisher_fixture *f, size_t n, size_t n_keys)
{
	static char ids[MESSAGES_MOST][24], keys[MESSAGES_MOST][24];

	assert_true(n <= MESSAGES_MOST);
	f->n = n;
	f->n_keys = n_keys;
	for (size_t i = 0; i < n; i++) {
		wherry_message m = WHERRY_MESSAGE(.topic = "conformance");

		(void)snprintf(ids[i], sizeof(ids[i]), "m-%zu", i);
		(void)snprintf(f->texts[i], sizeof(f->texts[i]), "%zu is the number", i);
		m.id = (int64_t)i + 1;
		m.message_id = ids[i];
		m.body = f->texts[i];
		m.body_len = strlen(f->texts[i]);
		m.created_at_us = 1700000000000000;
		if (n_keys) {
			(void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i % n_keys);
			m.key = keys[i];
		}
		f->messages[i] = m;
	}
	memset(f->legs, 0, sizeof(f->legs));
	f->n_over = f->n_errors = f->n_denied = 0;
}

void suite_set(publisher_fixture *f, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(f->config, key, value, &err));
}

void suite_open(publisher_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_publisher_open(f->url, f->config, &f->pub, &err));
}

static void doom(publisher_fixture *f, publisher_fate fate, size_t n)
{
	f->backend->doom(f->place, fate, &f->messages[n], f->doomed, DOOMED_CAP);
}

static int set_up(void **state)
{
	publisher_fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	f->backend = *state;
	f->doomed = malloc(DOOMED_CAP);
	*state = f;
	(void)alarm(90); /* whatever hangs, hangs here */
	if (!f->doomed || wherry_config_new(&f->config, NULL) != WHERRY_OK)
		return -1;
	f->place = f->backend->start(f->url, sizeof(f->url));
	if (f->place && f->backend->prepare)
		f->backend->prepare(f->place, f->config);
	return 0;
}

static int tear_down(void **state)
{
	publisher_fixture *f = *state;

	wherry_publisher_close(f->pub);
	if (f->place)
		f->backend->stop(f->place);
	wherry_config_free(f->config);
	free(f->doomed);
	free(f);
	(void)alarm(0);
	return 0;
}

static publisher_fixture *begin(void **state)
{
	publisher_fixture *f = *state;

	if (!f->place)
		skip();
	return f;
}

static size_t many(const publisher_fixture *f)
{
	return f->backend->many ? f->backend->many : 1000;
}

/* ---- receipts ---- */

static void all_were_delivered_at_once(publisher_fixture *f)
{
	assert_int_equal(f->n_errors, 0);
	for (size_t n = 0; n < f->n; n++)
		for (int verdict = WHERRY_DELIVERED; verdict <= WHERRY_UNKNOWN; verdict++)
			assert_int_equal(f->legs[n].receipts[verdict],
					 verdict == WHERRY_DELIVERED);
	suite_arrivals(f);
}

static void is_idle(publisher_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipt;
	short events;
	size_t n;

	WHERRY_PASS(wh_publisher_collect(f->pub, &receipt, 1, &n, &err));
	assert_int_equal(n, 0);
	assert_int_equal(wh_publisher_fd(f->pub, &events), -1);
	assert_int_equal(wh_publisher_deadline(f->pub), WH_NEVER);
}

static void every_message_taken_yields_exactly_one_receipt(void **state)
{
	publisher_fixture *f = begin(state);

	suite_messages(f, many(f), 10);
	suite_course(f);
	all_were_delivered_at_once(f);
	is_idle(f);
}

static void messages_without_a_key_need_no_order(void **state)
{
	publisher_fixture *f = begin(state);

	suite_messages(f, many(f) / 4, 0);
	suite_course(f);
	all_were_delivered_at_once(f);
	is_idle(f);
}

static void one_key_alone_keeps_its_order(void **state)
{
	publisher_fixture *f = begin(state);

	suite_messages(f, many(f) / 4, 1);
	suite_course(f);
	all_were_delivered_at_once(f);
}

static void nothing_in_flight_means_nothing_to_wait_for(void **state)
{
	publisher_fixture *f = begin(state);

	suite_open(f);
	is_idle(f);
	suite_messages(f, 1, 1);
	suite_course(f);
	is_idle(f);
}

/* Taken messages are as many as it can hold: the others are offered again. */
static void it_takes_what_it_can_and_no_more(void **state)
{
	publisher_fixture *f = begin(state);
	const wherry_message *all[MESSAGES_MOST];
	wherry_error err = WHERRY_ERROR_INIT;
	size_t taken = 0;

	suite_messages(f, many(f), many(f));
	for (size_t n = 0; n < f->n; n++)
		all[n] = &f->messages[n];
	suite_open(f);
	WHERRY_PASS(wh_publisher_submit(f->pub, all, f->n, &taken, &err));
	assert_in_range(taken, 1, f->n);
	for (size_t n = 0; n < taken; n++)
		f->legs[n].stage = LEG_IN_FLIGHT;
	suite_course(f);
	all_were_delivered_at_once(f);
}

/* ---- verdicts ---- */

static const wherry_verdict verdicts[FATE_COUNT] = {
	[FATE_REJECTED] = WHERRY_REJECTED, [FATE_OVERSIZED] = WHERRY_REJECTED,
	[FATE_RETRY] = WHERRY_RETRY,       [FATE_THROTTLED] = WHERRY_THROTTLED,
	[FATE_UNKNOWN] = WHERRY_UNKNOWN,
};

/* The first receipt of a message that is sent by itself, once one other has arrived. */
static void alone(void **state, publisher_fate fate)
{
	publisher_fixture *f = begin(state);
	const wherry_message *msg = &f->messages[1];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipt;
	size_t n = 0;

	suite_set(f, "relay.delivery_timeout", fate == FATE_UNKNOWN ? "1s" : "30s");
	suite_messages(f, 1, 1);
	suite_course(f);
	suite_messages(f, 2, 2);
	doom(f, fate, 1);
	f->n = 0; /* for suite_wait() */
	WHERRY_PASS(wh_publisher_submit(f->pub, &msg, 1, &n, &err));
	assert_int_equal(n, 1);
	for (n = 0; !n; suite_wait(f))
		WHERRY_PASS(wh_publisher_collect(f->pub, &receipt, 1, &n, &err));
	assert_ptr_equal(receipt.message, msg);
	if (receipt.verdict != verdicts[fate])
		fail_msg("verdict %d: %s", receipt.verdict, receipt.reason);
	if (receipt.verdict != WHERRY_THROTTLED)
		assert_string_not_equal(receipt.reason, "");
	/* A body store does not help if the headers are too large. */
	if (fate == FATE_OVERSIZED && !strstr(receipt.reason, "relay.body_store=file:") &&
	    !strstr(receipt.reason, "headers too large"))
		fail_msg("it does not name relay.body_store: %s", receipt.reason);
}

static void a_rejected_message_is_rejected(void **state)
{
	alone(state, FATE_REJECTED);
}

static void an_oversized_message_is_rejected(void **state)
{
	alone(state, FATE_OVERSIZED);
}

static void a_message_to_be_tried_later_is_retried(void **state)
{
	alone(state, FATE_RETRY);
}

static void a_throttled_message_is_throttled(void **state)
{
	alone(state, FATE_THROTTLED);
}

static void a_message_without_an_answer_is_unknown(void **state)
{
	alone(state, FATE_UNKNOWN);
}

/* One among many: nobody else is charged for it, and it is for what it did. */
static void among_others(void **state, publisher_fate fate)
{
	publisher_fixture *f = begin(state);
	publisher_leg *bad = &f->legs[BAD];

	suite_set(f, "relay.delivery_timeout", fate == FATE_UNKNOWN ? "1s" : "30s");
	suite_messages(f, FEW, FEW_KEYS);
	doom(f, fate, BAD);
	f->bad = BAD + 1;
	suite_course(f);
	assert_int_equal(f->n_errors, 0);
	for (size_t n = 0; n < f->n; n++) {
		const publisher_leg *leg = &f->legs[n];

		if (leg == bad)
			continue;
		if (leg->last.verdict != WHERRY_DELIVERED)
			fail_msg("message %zu: verdict %d: %s", n, leg->last.verdict,
				 leg->last.reason);
		assert_int_equal(leg->receipts[WHERRY_REJECTED], 0);
		assert_int_equal(leg->receipts[WHERRY_RETRY], 0);
		assert_int_equal(leg->receipts[WHERRY_UNKNOWN], 0);
	}
	assert_int_equal(bad->receipts[WHERRY_DELIVERED], 0);
	if (bad->last.verdict != verdicts[fate])
		fail_msg("verdict %d: %s", bad->last.verdict, bad->last.reason);
	suite_arrivals(f);
}

static void a_rejected_message_takes_no_others_along(void **state)
{
	among_others(state, FATE_REJECTED);
}

static void an_oversized_message_takes_no_others_along(void **state)
{
	among_others(state, FATE_OVERSIZED);
}

static void a_message_to_be_tried_later_takes_no_others_along(void **state)
{
	among_others(state, FATE_RETRY);
}

static void a_message_without_an_answer_takes_no_others_along(void **state)
{
	among_others(state, FATE_UNKNOWN);
}

/* ---- the destination ---- */

static bool is_transient(wherry_code code)
{
	return code == WHERRY_CLOSED || code == WHERRY_IO || code == WHERRY_TIMEOUT;
}

static void revive_after_an_error(publisher_fixture *f)
{
	if (f->n_errors || f->n_denied) {
		f->meanwhile = NULL;
		f->backend->play(f->place, PLAY_WELL);
	}
}

/* Or: a retry, of each message, which a relay takes for the same when five have failed. */
static void one_that_cannot_be_reached_is_nobodys_fault(void **state)
{
	publisher_fixture *f = begin(state);

	suite_messages(f, FEW, FEW_KEYS);
	f->backend->play(f->place, PLAY_KILLED);
	f->meanwhile = revive_after_an_error;
	suite_course(f);
	/* A server that starts may know no users yet when it lets a client in. */
	assert_true(is_transient(f->first_error.code));
	for (size_t n = 0; n < f->n; n++)
		assert_int_equal(f->legs[n].receipts[WHERRY_DELIVERED], 1);
	suite_arrivals(f);
}

/* Or: a retry, of each message, that says so. */
static void credentials_that_are_refused_are_nobodys_fault(void **state)
{
	publisher_fixture *f = begin(state);

	suite_messages(f, FEW, FEW_KEYS);
	f->backend->play(f->place, PLAY_DENIES);
	f->meanwhile = revive_after_an_error;
	suite_course(f);
	assert_true(f->n_denied || f->error.code == WHERRY_DENIED);
	for (size_t n = 0; n < f->n; n++) {
		assert_int_equal(f->legs[n].receipts[WHERRY_DELIVERED], 1);
		assert_int_equal(f->legs[n].receipts[WHERRY_REJECTED], 0);
	}
	suite_arrivals(f);
}

/* It dies when the first have been delivered, and comes back a little later. */
static void kill_and_revive(publisher_fixture *f)
{
	static int64_t back_us;

	if (!f->n_over) {
		back_us = 0;
	} else if (!back_us) {
		f->backend->play(f->place, PLAY_KILLED);
		back_us = wh_later(wh_monotonic(&wh_env_system), 300000);
	} else if (wh_monotonic(&wh_env_system) >= back_us) {
		f->meanwhile = NULL;
		f->backend->play(f->place, PLAY_WELL);
	}
}

static void a_server_killed_in_mid_flight_loses_nothing(void **state)
{
	publisher_fixture *f = begin(state);

	suite_messages(f, many(f), 10);
	f->meanwhile = kill_and_revive;
	suite_course(f);
	if (f->meanwhile) /* all had been answered when it died */
		f->backend->play(f->place, PLAY_WELL);
	for (size_t n = 0; n < f->n; n++)
		if (f->legs[n].last.verdict != WHERRY_DELIVERED)
			fail_msg("message %zu: verdict %d: %s", n,
				 f->legs[n].last.verdict, f->legs[n].last.reason);
	suite_arrivals(f);
}

/* ---- giving up ---- */

/* Hand over some that nobody answers. */
static void hang(publisher_fixture *f)
{
	const wherry_message *some[FEW];
	wherry_error err = WHERRY_ERROR_INIT;
	size_t taken = 0;

	suite_messages(f, 1, 1);
	suite_course(f); /* connected */
	f->backend->play(f->place, PLAY_HANGS);
	suite_messages(f, FEW, FEW);
	for (size_t n = 0; n < f->n; n++)
		some[n] = &f->messages[n];
	WHERRY_PASS(wh_publisher_submit(f->pub, some, f->n, &taken, &err));
	assert_in_range(taken, 1, f->n);
	for (size_t n = 0; n < taken; n++)
		f->legs[n].stage = LEG_IN_FLIGHT;
	suite_wait(f);
}

static void closing_waits_for_no_answer(void **state)
{
	publisher_fixture *f = begin(state);

	suite_set(f, "relay.claim_timeout", "1h");
	hang(f);
	wherry_publisher_close(f->pub); /* or the alarm rings */
	f->pub = NULL;
	assert_int_equal(f->n_over, 0);
}

static void after_a_drop_messages_are_taken_anew(void **state)
{
	publisher_fixture *f = begin(state);

	suite_set(f, "relay.claim_timeout", "1h");
	hang(f);
	if (f->pub->driver->drop) {
		wh_publisher_drop(f->pub);
	} else { /* as a relay does then */
		wherry_publisher_close(f->pub);
		suite_open(f);
	}
	memset(f->texts, 0xee, sizeof(f->texts)); /* nobody looks at them again */
	memset(f->messages, 0xee, sizeof(f->messages));
	is_idle(f);
	f->backend->play(f->place, PLAY_WELL);
	suite_messages(f, FEW, FEW);
	suite_course(f);
	for (size_t n = 0; n < f->n; n++)
		assert_int_equal(f->legs[n].receipts[WHERRY_DELIVERED], 1);
	suite_arrivals(f);
}

static void what_is_cancelled_has_its_receipts_soon(void **state)
{
	publisher_fixture *f = begin(state);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[FEW];
	size_t n, left = 0;

	suite_set(f, "relay.claim_timeout", "1h");
	hang(f);
	for (size_t i = 0; i < f->n; i++)
		left += f->legs[i].stage == LEG_IN_FLIGHT;
	wh_publisher_cancel(f->pub);
	for (; left; left -= n) { /* or the alarm rings */
		WHERRY_PASS(wh_publisher_collect(f->pub, receipts, FEW, &n, &err));
		for (size_t i = 0; i < n; i++)
			assert_int_not_equal(receipts[i].verdict, WHERRY_REJECTED);
		if (n < left)
			suite_wait(f);
	}
	is_idle(f);
}

/* ---- running ---- */

typedef struct suite_case {
	const char *name;
	void (*run)(void **state);
	unsigned plays, alone, mixed; /* what the back end must be able to do */
	bool cancels;
} suite_case;

/* clang-format off */
#define ALWAYS(test) {.name = #test, .run = test}
#define CASE(test, ...) {.name = #test, .run = test, __VA_ARGS__}

static const suite_case cases[] = {
	ALWAYS(every_message_taken_yields_exactly_one_receipt),
	ALWAYS(messages_without_a_key_need_no_order),
	ALWAYS(one_key_alone_keeps_its_order),
	ALWAYS(nothing_in_flight_means_nothing_to_wait_for),
	ALWAYS(it_takes_what_it_can_and_no_more),
	CASE(a_rejected_message_is_rejected, .alone = 1 << FATE_REJECTED),
	CASE(an_oversized_message_is_rejected, .alone = 1 << FATE_OVERSIZED),
	CASE(a_message_to_be_tried_later_is_retried, .alone = 1 << FATE_RETRY),
	CASE(a_throttled_message_is_throttled, .alone = 1 << FATE_THROTTLED),
	CASE(a_message_without_an_answer_is_unknown, .alone = 1 << FATE_UNKNOWN),
	CASE(a_rejected_message_takes_no_others_along, .mixed = 1 << FATE_REJECTED),
	CASE(an_oversized_message_takes_no_others_along, .mixed = 1 << FATE_OVERSIZED),
	CASE(a_message_to_be_tried_later_takes_no_others_along, .mixed = 1 << FATE_RETRY),
	CASE(a_message_without_an_answer_takes_no_others_along, .mixed = 1 << FATE_UNKNOWN),
	CASE(one_that_cannot_be_reached_is_nobodys_fault, .plays = 1 << PLAY_KILLED),
	CASE(credentials_that_are_refused_are_nobodys_fault, .plays = 1 << PLAY_DENIES),
	CASE(a_server_killed_in_mid_flight_loses_nothing, .plays = 1 << PLAY_KILLED),
	CASE(closing_waits_for_no_answer, .plays = 1 << PLAY_HANGS),
	CASE(after_a_drop_messages_are_taken_anew, .plays = 1 << PLAY_HANGS),
	CASE(what_is_cancelled_has_its_receipts_soon, .plays = 1 << PLAY_HANGS, .cancels = true),
};
/* clang-format on */

enum { CASES = sizeof(cases) / sizeof(*cases), BACKENDS_MOST = 8, NAME_MOST = 128 };

static bool can(const publisher_backend *backend, const suite_case *c)
{
	return !(c->plays & ~backend->plays) && !(c->alone & ~backend->alone) &&
	       !(c->mixed & ~backend->mixed) && (!c->cancels || backend->cancels);
}

int publisher_suite_run(const publisher_backend *const *backends, size_t n)
{
	static struct CMUnitTest tests[CASES * BACKENDS_MOST];
	static char names[CASES * BACKENDS_MOST][NAME_MOST];
	const char *only = getenv("WHERRY_ONLY");
	size_t n_tests = 0;

	(void)signal(SIGPIPE, SIG_IGN);
	for (size_t b = 0; b < n && b < BACKENDS_MOST; b++)
		for (size_t c = 0; c < CASES; c++) {
			char *name = names[n_tests];

			(void)snprintf(name, NAME_MOST, "%s: %s", backends[b]->name,
				       cases[c].name);
			if (!can(backends[b], &cases[c]) || (only && !strstr(name, only)))
				continue;
			tests[n_tests++] = (struct CMUnitTest){
				.name = name,
				.test_func = cases[c].run,
				.setup_func = set_up,
				.teardown_func = tear_down,
				.initial_state = (void *)(uintptr_t)backends[b],
			};
		}
	return wherry_run_group("publishers", tests, n_tests, NULL, NULL);
}
