#include "suite.h"

#include "outbox/outbox.h"
#include "store/versions.h"

enum { MINUTE_US = 60 * 1000000 };

/* Made by the build from tests/store. */
extern const wh_sql_file test_sql_files[];

static const store_backend *backend;

static int set_up(void **state)
{
	*state = backend->make();
	return *state ? 0 : -1;
}

static int tear_down(void **state)
{
	backend->drop(*state);
	return 0;
}

/* ---- a layout on several databases ---- */

static const char *const note_layouts[] = {"notes", NULL};
static const wh_model notes = {
	"outbox", note_layouts, test_sql_files, wh_outbox_groups, WHERRY_KIND_OUTBOX,
	NULL,     NULL};

/* What was claimed, as "topic payload, topic payload". */
typedef struct list {
	char text[200];
	size_t len;
	int64_t ids[10];
	int64_t n;
} list;

static void add(list *l, int64_t id, const char *topic, wh_view body)
{
	assert_true(l->n < 10);
	l->ids[l->n] = id;
	l->len +=
		(size_t)snprintf(l->text + l->len, sizeof(l->text) - l->len, "%s%s %.*s",
				 l->n++ ? ", " : "", topic, (int)body.len, body.ptr);
}

static wherry_code take_message(void *ctx, const wherry_message *msg)
{
	add(ctx, msg->id, msg->topic, (wh_view){msg->body, msg->body_len});
	return WHERRY_OK;
}

static void send(wherry_outbox *outbox, const char *topic)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_message msg =
		WHERRY_MESSAGE(.topic = topic, .body = "{}", .body_len = 2);

	WHERRY_PASS(
		wherry_outbox_enqueue(outbox, &msg, WHERRY_OWN_TRANSACTION, NULL, &err));
}

static void a_layout_may_be_on_several_databases(void **state)
{
	static const wherry_claim_options two = {
		.size = sizeof(wherry_claim_options), .limit = 2, .lasts_us = MINUTE_US};
	const wh_make how = {.model = &notes, .layout = "notes"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_lease a = {.epoch = 0};
	list first = {.n = 0}, rest = {.n = 0};
	int64_t n = 0;

	WHERRY_PASS(wh_outbox_make(*state, &how, "notes", &err));
	WHERRY_PASS(wh_outbox_make(*state, &(wh_make){.model = &notes}, "notes", &err));
	WHERRY_PASS(wh_outbox_open_model(*state, &notes, "notes", &outbox, &err));
	assert_string_equal(outbox->store.layout.name, "notes");
	send(outbox, "one");
	send(outbox, "two");
	send(outbox, "three");
	WHERRY_PASS(wherry_outbox_join(outbox, "a", MINUTE_US, &a, &err));
	WHERRY_PASS(
		wherry_outbox_claim(outbox, &a, &two, take_message, &first, NULL, &err));
	assert_string_equal(first.text, "one {}, two {}");
	WHERRY_PASS(wherry_outbox_done(outbox, &a, first.ids, 2, &n, &err));
	assert_int_equal(n, 2);
	WHERRY_PASS(
		wherry_outbox_claim(outbox, &a, &two, take_message, &rest, NULL, &err));
	assert_string_equal(rest.text, "three {}");
	wherry_outbox_close(outbox);
}

static void what_a_layout_has_no_statements_for_is_refused(void **state)
{
	const wh_make how = {.model = &notes, .layout = "notes"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_lease lease;
	int64_t n = -7;

	WHERRY_PASS(wh_outbox_make(*state, &how, "notes", &err));
	WHERRY_PASS(wh_outbox_open_model(*state, &notes, "notes", &outbox, &err));
	WHERRY_FAILS(WHERRY_UNSUPPORTED,
		     wherry_outbox_lease(outbox, "a", MINUTE_US, 1, &lease, &err));
	assert_non_null(strstr(err.message, "layout notes"));
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_outbox_pause(outbox, &err));
	WHERRY_PASS(wherry_outbox_purge(outbox, 0, 1, 0, &n, &err));
	assert_int_equal(n, 0);
	wherry_outbox_close(outbox);
}

/* ---- a second model ---- */

static const char *const task_layouts[] = {"native", NULL};
static const wh_group no_groups[] = {{NULL, NULL, 0}};
static const wh_model tasks = {"tasks", task_layouts, test_sql_files, no_groups, 0,
			       NULL,    NULL};

static void open_tasks(wherry_db *db, wh_store *out)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_version v;

	*out = wh_store_init(db, &tasks);
	out->making = true;
	WHERRY_PASS(wh_store_load(out, db->driver->scheme, NULL, "task", NULL, &err));
	WHERRY_PASS(wh_db_script(db, wh_sql_find(&out->sql, "migrate-1")->text, &err));
	WHERRY_PASS(wh_store_version(out, &v, &err));
	WHERRY_PASS(wh_store_check(out, &v, &err));
	WHERRY_PASS(
		wh_db_script(db,
			     "INSERT INTO task(message_id, topic, payload) VALUES "
			     "('m1', 'mow', '1'), ('m2', 'dig', '2'), ('m3', 'sow', '3')",
			     &err));
}

static wherry_code take_task(void *ctx, int64_t id, const wh_row *row, wherry_error *err)
{
	enum { TOPIC = 6, PAYLOAD = 12 };

	add(ctx, id, wh_row_text(row, TOPIC), wh_row_bytes(row, PAYLOAD));
	return WHERRY_OK;
}

static void claims(wh_store *store, const wherry_lease *lease, int64_t limit,
		   bool expired, const char *wanted, list *out)
{
	const wherry_claim_options options =
		WHERRY_CLAIM_OPTIONS(.limit = limit, .lasts_us = MINUTE_US);
	const wh_claim_ask ask = {.lease = lease,
				  .options = &options,
				  .text_most = 1000,
				  .body_most = 1000,
				  .visit = take_task,
				  .ctx = out};
	wherry_error err = WHERRY_ERROR_INIT;
	bool more;

	*out = (list){.n = 0};
	if (expired)
		WHERRY_PASS(wh_store_claim_expired(store, &ask, &err));
	else
		WHERRY_PASS(wh_store_claim(store, &ask, &more, &err));
	assert_string_equal(out->text, wanted);
}

static wherry_lease join(wh_store *store, const char *owner)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {.epoch = 0};

	WHERRY_PASS(wh_store_join_as(store, owner, MINUTE_US, &lease, &err));
	return lease;
}

static int64_t settle(wh_store *store, const wherry_lease *lease, const wh_settlement *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_settled settled = {.n = -7};

	WHERRY_PASS(wh_store_settle(store, lease, s, &settled, &err));
	return settled.n;
}

static void another_model_is_claimed_by_the_same_functions(void **state)
{
	wh_store store;
	wherry_lease a, b;
	const wherry_failure failure = WHERRY_FAILURE(.id = 2, .error = "no spade");
	wh_settlement s = {.n_done = 0};
	list of_a, of_b;

	open_tasks(*state, &store);
	a = join(&store, "a");
	b = join(&store, "b");
	claims(&store, &a, 2, false, "mow 1, dig 2", &of_a);
	claims(&store, &b, 2, false, "sow 3", &of_b);
	claims(&store, &b, 2, false, "", &of_b);
	s.done = of_a.ids;
	s.n_done = 1;
	s.failed = &failure;
	s.n_failed = 1;
	assert_int_equal(settle(&store, &b, &s), 0); /* these are a's */
	assert_int_equal(settle(&store, &a, &s), 2);
	claims(&store, &b, 2, false, "dig 2", &of_b); /* due at once */
	wh_store_clear(&store);
}

static void claims_that_expired_are_taken_over(void **state)
{
	wh_store store;
	wherry_lease a, b;
	wherry_error err = WHERRY_ERROR_INIT;
	wh_settlement s = {.n_done = 1};
	list of_a, of_b;
	int64_t n = -7;

	open_tasks(*state, &store);
	a = join(&store, "a");
	b = join(&store, "b");
	claims(&store, &a, 1, false, "mow 1", &of_a);
	claims(&store, &b, 1, true, "", &of_b);
	WHERRY_PASS(wh_store_extend(&store, &a, of_a.ids, NULL, 1, MINUTE_US, &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(
		wh_db_script(*state, "UPDATE task SET until = 1 WHERE state = 1", &err));
	claims(&store, &b, 1, true, "mow 1", &of_b);
	WHERRY_FAILS(WHERRY_STALE,
		     wh_store_extend(&store, &a, of_a.ids, NULL, 1, MINUTE_US, &n, &err));
	s.done = of_a.ids;
	assert_int_equal(settle(&store, &a, &s), 0);
	assert_int_equal(settle(&store, &b, &s), 1);
	wh_store_clear(&store);
}

static void errors_name_the_model(void **state)
{
	wh_store store;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;

	open_tasks(*state, &store);
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wh_store_lease_as(&store, WH_POSITIONS, "a",
							   MINUTE_US, 1, &lease, &err));
	assert_non_null(strstr(err.message, "tasks 'task' has the layout native"));
	wh_store_unload(&store);
	WHERRY_FAILS(WHERRY_INVALID, wh_store_load(&store, store.db->driver->scheme,
						   "nope", "task", NULL, &err));
	assert_non_null(strstr(err.message, "there is no layout 'nope': write native"));
	wh_store_clear(&store);
}

int store_suite_run(const char *name, const store_backend *which)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_layout_may_be_on_several_databases,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_a_layout_has_no_statements_for_is_refused, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			another_model_is_claimed_by_the_same_functions, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(claims_that_expired_are_taken_over,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(errors_name_the_model, set_up, tear_down),
	};

	backend = which;
	return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
