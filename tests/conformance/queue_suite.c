#include "queue_suite.h"

#include "queue/queue.h"

static const queue_calls library = {
	.send = wherry_queue_send,
	.send_many = wherry_queue_send_many,
	.cancel = wherry_queue_cancel,
	.receive = wherry_queue_receive,
	.ack = wherry_queue_ack,
	.nack = wherry_queue_nack,
	.extend = wherry_queue_extend,
	.dead_letter = wherry_queue_dead_letter,
};

queue_calls queue_does;

wherry_db *queue_connect(queue_fixture *f)
{
	wherry_db *db = f->backend->connect(f->place);

	assert_non_null(db);
	return db;
}

static queue_fixture *make_queue(const outbox_backend *backend, const char *layout,
				 bool lowered)
{
	static const char owned;
	const wherry_queue_options how = WHERRY_QUEUE_OPTIONS(.layout = layout);
	const void *recipe = lowered ? (const void *)backend : layout ? layout : &owned;
	queue_fixture *f = calloc(1, sizeof(*f));
	wherry_error err = WHERRY_ERROR_INIT;
	bool again;

	assert_non_null(f);
	queue_does = backend->queue ? *backend->queue : library;
	f->backend = backend;
	f->layout = layout;
	again = suite_enter(backend, recipe, &f->place);
	f->db = queue_connect(f);
	if (!again)
		WHERRY_PASS(wherry_queue_create(f->db, "jobs", &how, &err));
	if (!again && lowered) {
		backend->lower(f->place, &wh_queue_model, "jobs");
		assert_true(backend->disconnect(f->db));
		f->db = queue_connect(f);
	}
	if (!again)
		suite_note(backend, recipe, f->place);
	WHERRY_PASS(wherry_queue_open(f->db, "jobs", &f->queue, &err));
	return f;
}

queue_fixture *queue_fixture_make(const outbox_backend *backend)
{
	return make_queue(backend, NULL, false);
}

queue_fixture *queue_fixture_make_layout(const outbox_backend *backend,
					 const char *layout)
{
	return make_queue(backend, layout, false);
}

void queue_fixture_drop(queue_fixture *f)
{
	wherry_queue_close(f->queue);
	assert_true(f->backend->disconnect(f->db));
	f->backend->drop(f->place);
	free(f);
}

static const char *layout_of_suite;

static int make_owner(void **state)
{
	*state = make_queue(*state, layout_of_suite, false);
	return 0;
}

static int make(void **state)
{
	const outbox_backend *backend = *state;

	*state = make_queue(backend, layout_of_suite, backend->lower && !layout_of_suite);
	return 0;
}

static int drop(void **state)
{
	queue_fixture_drop(*state);
	return 0;
}

wherry_queue *queue_again(queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;

	WHERRY_PASS(wherry_queue_open(f->db, "jobs", &queue, &err));
	return queue;
}

static void run_raw(queue_fixture *f, const char *sql, char *out, size_t cap)
{
	if (!f->backend->raw(f->place, f->db, sql, out, cap)) {
		print_error("%s\n", sql);
		fail();
	}
}

void queue_raw(queue_fixture *f, const char *fmt, ...)
{
	char sql[4096];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(sql, sizeof(sql), fmt, args);
	va_end(args);
	run_raw(f, sql, NULL, 0);
}

const char *queue_text(queue_fixture *f, const char *fmt, ...)
{
	char sql[4096];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(sql, sizeof(sql), fmt, args);
	va_end(args);
	f->text[0] = 0;
	run_raw(f, sql, f->text, sizeof(f->text));
	return f->text;
}

int64_t queue_int(queue_fixture *f, const char *fmt, ...)
{
	char sql[4096], text[64] = "";
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(sql, sizeof(sql), fmt, args);
	va_end(args);
	run_raw(f, sql, text, sizeof(text));
	return strtoll(text, NULL, 10);
}

int64_t queue_send_so(queue_fixture *f, int number, int64_t delay_us, int64_t expires_us)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char body[16];
	int64_t id = 0;

	(void)snprintf(body, sizeof(body), "%d", number);
	const wherry_queue_message msg =
		WHERRY_QUEUE_MESSAGE(.body = body, .body_len = strlen(body),
				     .delay_us = delay_us, .expires_us = expires_us);
	WHERRY_PASS(queue_does.send(f->queue, &msg, &id, &err));
	assert_true(id > 0);
	return id;
}

int64_t queue_send(queue_fixture *f, int number)
{
	return queue_send_so(f, number, 0, 0);
}

void queue_look_at_all(queue_fixture *f)
{
	f->queue->scan_start.next_full_us = 0;
	f->queue->due_first = false; /* So in the next look they are first. */
}

void queue_minute(queue_fixture *f)
{
	queue_look_at_all(f);
	if (f->layout)
		queue_raw(f, "UPDATE jobs_received SET available_at = available_at - "
			     "interval '1 min'; UPDATE \"jobs.Delayed\" SET due = due - "
			     "interval '1 min'; UPDATE jobs SET expires = expires - "
			     "interval '1 min'");
	else
		queue_raw(f, "UPDATE jobs SET available_at = available_at - 60000, "
			     "expires_at = expires_at - 60000");
}

wherry_code queue_note(void *ctx, const wherry_queue_message *msg)
{
	queue_got *got = ctx;
	size_t len = strlen(got->bodies);

	assert_true(got->n < 64);
	got->ids[got->n] = msg->id;
	got->attempts[got->n] = msg->attempts;
	(void)snprintf(got->token, sizeof(got->token), "%s",
		       msg->token ? msg->token : "");
	(void)snprintf(got->bodies + len, sizeof(got->bodies) - len, "%s%.*s",
		       got->n++ ? " " : "", (int)msg->body_len, (const char *)msg->body);
	return WHERRY_OK;
}

queue_got queue_receive(wherry_queue *queue, wherry_receive_mode mode, int64_t limit)
{
	const wherry_receive_options options =
		WHERRY_RECEIVE_OPTIONS(.mode = mode, .limit = limit,
				       .lease_us = 60000000);
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got = {.n = 0};
	int64_t n = -7;

	WHERRY_PASS(queue_does.receive(queue, &options, queue_note, &got, &n, &err));
	assert_int_equal(n, got.n);
	return got;
}

queue_got queue_lease(wherry_queue *queue, int64_t limit, const char *bodies)
{
	queue_got got = queue_receive(queue, WHERRY_LEASE, limit);

	assert_string_equal(got.bodies, bodies);
	return got;
}

void queue_takes(queue_fixture *f, int64_t limit, const char *bodies)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	got = queue_receive(f->queue, WHERRY_ATOMIC, limit);
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	assert_string_equal(got.bodies, bodies);
}

void queue_ack(wherry_queue *queue, const queue_got *got)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(
		queue_does.ack(queue, got->token, got->ids, (size_t)got->n, &n, &err));
	assert_int_equal(n, got->n);
}

void queue_counts(queue_fixture *f, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status s;
	char text[100];

	WHERRY_PASS(wherry_queue_get_status(f->queue, &s, sizeof(s), &err));
	(void)snprintf(text, sizeof(text), "%lld %lld %lld %lld", (long long)s.ready,
		       (long long)s.leased, (long long)s.waiting, (long long)s.dead);
	assert_string_equal(text, wanted);
}

int queue_suite_run(const outbox_backend *const *backends, size_t n_backends,
		    const struct CMUnitTest *more, size_t n_more)
{
	return queue_suite_run_layout(NULL, backends, n_backends, more, n_more);
}

int queue_suite_run_layout(const char *layout, const outbox_backend *const *backends,
			   size_t n_backends, const struct CMUnitTest *more,
			   size_t n_more)
{
	static const queue_case *const suites[] = {
		queue_send_cases,   queue_receive_cases, queue_settle_cases,
		queue_schema_cases, queue_claim_cases,   queue_topics_cases};
	enum { OF_WORKERS = 3 }; /* So many are about what workers call. */
	static struct CMUnitTest tests[500];
	static char names[500][120];
	size_t n = 0;

	layout_of_suite = layout;
	cmocka_set_test_filter(getenv("WHERRY_ONLY")); /* for one at a debugger's hands */
	for (size_t b = 0; b < n_backends; b++)
		for (size_t s = 0; s < sizeof(suites) / sizeof(*suites); s++)
			for (const queue_case *c = suites[s]; c->name; c++) {
				if ((c->several && !backends[b]->several) ||
				    (c->models && backends[b]->lacks & NEEDS_MODELS) ||
				    (c->native && layout) ||
				    (backends[b]->queue &&
				     (s >= OF_WORKERS || c->owner ||
				      suite_skips(backends[b]->queue->skips, c->name))))
					continue;
				(void)snprintf(names[n], sizeof(names[n]), "%s: %s",
					       backends[b]->name, c->name);
				tests[n] = (struct CMUnitTest){
					names[n], c->run, c->owner ? make_owner : make,
					drop, (void *)(uintptr_t)backends[b]};
				n++;
			}
	n = wherry_test_part(tests, n);
	for (size_t i = 0; i < n_more; i++)
		tests[n++] = more[i];
	cmocka_set_test_filter(getenv("WHERRY_ONLY")); /* for one at a debugger's hands */
	return wherry_run_group(layout ? layout : "queue", tests, n, NULL, NULL);
}
