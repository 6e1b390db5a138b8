#include "delayed_suite.h"

#include "delayed/delayed.h"

#define T0_US (1704103200LL * 1000000) /* 2024-01-01 10:00:00 UTC */

static const delayed_calls library = {
	.offer = wherry_delayed_offer,
	.offer_many = wherry_delayed_offer_many,
	.poll = wherry_delayed_poll,
	.ack = wherry_delayed_ack,
	.nack = wherry_delayed_nack,
	.extend = wherry_delayed_extend,
	.dead_letter = wherry_delayed_dead_letter,
	.drop_key = wherry_delayed_drop_key,
};

delayed_calls delayed_does;

static int64_t clock_of(void *ctx)
{
	return ((delayed_fixture *)ctx)->now_us;
}

static delayed_fixture *make_delayed(const outbox_backend *backend, const char *layout,
				     bool lowered)
{
	static const char owned;
	const void *recipe = lowered ? (const void *)backend : layout ? layout : &owned;
	delayed_fixture *f = calloc(1, sizeof(*f));
	wherry_error err = WHERRY_ERROR_INIT;
	bool again;

	assert_non_null(f);
	delayed_does = backend->delayed ? *backend->delayed : library;
	f->backend = backend;
	f->layout = layout;
	again = suite_enter(backend, recipe, &f->place);
	f->db = backend->connect(f->place);
	assert_non_null(f->db);
	f->now_us = T0_US;
	if (!again)
		WHERRY_PASS(wherry_delayed_create(f->db, "later", layout, &err));
	if (!again && lowered) {
		backend->lower(f->place, &wh_delayed_model, "later");
		assert_true(backend->disconnect(f->db));
		f->db = backend->connect(f->place);
		assert_non_null(f->db);
	}
	if (!again)
		suite_note(backend, recipe, f->place);
	WHERRY_PASS(wherry_delayed_open(f->db, "later", "my-queue", "java.lang.String",
					&f->queue, &err));
	wherry_delayed_set_clock(f->queue, clock_of, f);
	return f;
}

delayed_fixture *delayed_fixture_make(const outbox_backend *backend, const char *layout)
{
	return make_delayed(backend, layout, false);
}

static const char *layout_of_suite;

static int make_owner(void **state)
{
	*state = make_delayed(*state, layout_of_suite, false);
	return 0;
}

/* Who does not own the tables has what `--grant` gives; tables of other programs have no grants. */
static int make(void **state)
{
	const outbox_backend *backend = *state;

	*state = make_delayed(backend, layout_of_suite,
			      backend->lower && !layout_of_suite);
	return 0;
}

int delayed_fixture_drop(void **state)
{
	delayed_fixture *f = *state;

	wherry_delayed_close(f->queue);
	assert_true(f->backend->disconnect(f->db));
	f->backend->drop(f->place);
	free(f);
	return 0;
}

void delayed_raw(delayed_fixture *f, const char *sql)
{
	if (!f->backend->raw(f->place, f->db, sql, NULL, 0)) {
		print_error("%s\n", sql);
		fail();
	}
}

int64_t delayed_int(delayed_fixture *f, const char *sql)
{
	char text[64] = "";

	if (!f->backend->raw(f->place, f->db, sql, text, sizeof(text))) {
		print_error("%s\n", sql);
		fail();
	}
	return strtoll(text, NULL, 10);
}

void delayed_pass(delayed_fixture *f, double seconds)
{
	f->now_us += (int64_t)(seconds * SECOND_US);
}

static wherry_offer_outcome offer(delayed_fixture *f, const char *key, const char *text,
				  double seconds, bool if_absent)
{
	const wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.key = key, .body = text, .body_len = WHERRY_TEXT,
				       .at_us =
					       f->now_us + (int64_t)(seconds * SECOND_US),
				       .if_absent = if_absent);
	wherry_offer_outcome outcome = WHERRY_IGNORED;
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(delayed_does.offer(f->queue, &msg, &outcome, &err));
	return outcome;
}

wherry_offer_outcome delayed_offer(delayed_fixture *f, const char *key, const char *text,
				   double seconds)
{
	return offer(f, key, text, seconds, false);
}

wherry_offer_outcome delayed_offer_absent(delayed_fixture *f, const char *key,
					  const char *text, double seconds)
{
	return offer(f, key, text, seconds, true);
}

static void append(char *to, size_t cap, const char *text, size_t len)
{
	size_t used = strlen(to);

	(void)snprintf(to + used, cap - used, "%s%.*s", used ? " " : "", (int)len, text);
}

wherry_code delayed_note(void *ctx, const wherry_delayed_message *msg)
{
	delayed_got *got = ctx;

	assert_true(got->n < 300);
	(void)snprintf(got->tokens[got->n], sizeof(got->tokens[0]), "%s",
		       msg->token ? msg->token : "");
	got->attempts[got->n] = msg->attempts;
	got->redelivery[got->n++] = msg->redelivery;
	append(got->text, sizeof(got->text), msg->body, msg->body_len);
	append(got->keys, sizeof(got->keys), msg->key, strlen(msg->key));
	return WHERRY_OK;
}

const delayed_got *delayed_polls(delayed_fixture *f, int64_t limit, const char *bodies)
{
	static delayed_got got;
	const wherry_poll_options options =
		WHERRY_POLL_OPTIONS(.limit = limit, .lease_us = 5 * SECOND_US);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	got = (delayed_got){.n = 0};
	WHERRY_PASS(delayed_does.poll(f->queue, &options, delayed_note, &got, &n, &err));
	assert_int_equal(n, got.n);
	assert_string_equal(got.text, bodies);
	return &got;
}

const char *delayed_body(delayed_fixture *f, const char *key)
{
	static delayed_got got;
	wherry_error err = WHERRY_ERROR_INIT;
	bool found = false;

	got = (delayed_got){.n = 0};
	WHERRY_PASS(wherry_delayed_read(f->queue, key, delayed_note, &got, &found, &err));
	assert_int_equal(found, got.n);
	return found ? got.text : NULL;
}

bool delayed_has(delayed_fixture *f, const char *key)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool found = false;

	WHERRY_PASS(wherry_delayed_contains(f->queue, key, &found, &err));
	return found;
}

void delayed_acks(delayed_fixture *f, const char *token, wherry_ack_outcome wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_ack_outcome outcome;

	WHERRY_PASS(delayed_does.ack(f->queue, &token, 1, &outcome, &err));
	assert_int_equal(outcome, wanted);
}

void delayed_counts(delayed_fixture *f, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_status s;
	char text[100];

	WHERRY_PASS(wherry_delayed_get_status(f->queue, &s, sizeof(s), &err));
	(void)snprintf(text, sizeof(text), "%lld %lld %lld %lld", (long long)s.due,
		       (long long)s.leased, (long long)s.waiting, (long long)s.dead);
	assert_string_equal(text, wanted);
}

static bool is_listed(const char *const *names, const char *name)
{
	for (; names && *names; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

int delayed_suite_run(const char *layout, const char *const *lacks,
		      const outbox_backend *const *backends, size_t n_backends,
		      const struct CMUnitTest *more, size_t n_more)
{
	static const delayed_case *const suites[] = {
		delayed_offer_cases, delayed_poll_cases,    delayed_settle_cases,
		delayed_keys_cases,  delayed_dead_cases,    delayed_races_cases,
		delayed_wait_cases,  delayed_defects_cases, delayed_retry_cases};
	enum { OF_WORKERS = 6 }; /* So many are about what workers call. */
	static struct CMUnitTest tests[500];
	static char names[500][160];
	size_t n = 0;

	layout_of_suite = layout;
	for (size_t b = 0; b < n_backends; b++)
		for (size_t s = 0; s < sizeof(suites) / sizeof(*suites); s++)
			for (const delayed_case *c = suites[s]; c->name; c++) {
				if ((c->several && !backends[b]->several) ||
				    (backends[b]->delayed &&
				     (s >= OF_WORKERS || c->owner ||
				      suite_skips(backends[b]->delayed->skips, c->name))))
					continue;
				(void)snprintf(names[n], sizeof(names[n]), "%s: %s",
					       backends[b]->name, c->name);
				if (is_listed(lacks, c->name) ||
				    is_listed(lacks, names[n]))
					continue;
				tests[n] = (struct CMUnitTest){
					names[n], c->run, c->owner ? make_owner : make,
					delayed_fixture_drop,
					(void *)(uintptr_t)backends[b]};
				n++;
			}
	n = wherry_test_part(tests, n);
	for (size_t i = 0; i < n_more; i++)
		tests[n++] = more[i];
	cmocka_set_test_filter(getenv("WHERRY_ONLY")); /* for one at a debugger's hands */
	return wherry_run_group("delayed", tests, n, NULL, NULL);
}
