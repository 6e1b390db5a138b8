#include "relay_suite.h"

#include "any_body.h"

#include "log_line.h"

#include "base/env.h"
#include "config/settings.h"
#include "delayed/delayed.h"
#include "outbox/outbox.h"
#include "queue/queue.h"

static relay_fixture the_fixture;

/* ---- the clock ---- */

static int64_t fixture_now(void *ctx)
{
	(void)ctx;
	return wh_now(&wh_env_system);
}

int64_t relay_now(const relay_fixture *f)
{
	if (f->frozen_us)
		return f->frozen_us;
	return wh_monotonic(&wh_env_system) + f->offset_us;
}

static int64_t fixture_monotonic(void *ctx)
{
	return relay_now(ctx);
}

static uint64_t fixture_random(void *ctx)
{
	relay_fixture *f = ctx;

	f->random = f->random * 6364136223846793005u + 1442695040888963407u;
	return f->random >> 11;
}

static void fixture_sleep(void *ctx, int64_t us)
{
	relay_fixture *f = ctx;

	f->offset_us += us;
}

/* ---- answers ---- */

void relay_answers(relay_fixture *f, int64_t id, wherry_verdict verdict, int times)
{
	f->what[id] = verdict;
	f->times[id] = times;
}

/* Rowids are used again where delivered rows leave the table. */
static int64_t number_of(void *ctx, const wherry_message *msg)
{
	const relay_fixture *f = ctx;

	return f->target->numbers || (f->target->tables && !f->target->keeps_ids)
		       ? strtoll(msg->message_id, NULL, 10)
		       : msg->id;
}

static const char *key_of(const relay_fixture *f, const wherry_message *msg)
{
	const char *key = f->target->numbers ? msg->aggregate_id : msg->key;

	return key ? key : "";
}

static wherry_verdict decide(void *ctx, const wherry_message *msg)
{
	relay_fixture *f = ctx;
	int64_t id = number_of(f, msg);

	if (f->asked)
		f->asked(f, msg);
	if (id <= 0 || id >= RELAY_IDS || !f->times[id])
		return f->every;
	if (f->times[id] > 0)
		f->times[id]--;
	return f->what[id];
}

static void note(void *ctx, const wherry_message *msg, wherry_verdict verdict)
{
	relay_fixture *f = ctx;
	relay_event *e = &f->events[f->n_events];

	if (f->n_events == RELAY_EVENTS)
		return;
	*e = (relay_event){
		.id = number_of(f, msg),
		.at_us = relay_now(f),
		.attempts = msg->attempts,
		.verdict = verdict,
		.body_len = msg->body_len,
	};
	(void)snprintf(e->key, sizeof(e->key), "%.15s", key_of(f, msg));
	(void)snprintf(e->topic, sizeof(e->topic), "%.15s", msg->topic);
	f->n_events++;
}

static wherry_verdict answer(void *ctx, const wherry_message *msg, char *reason,
			     size_t cap)
{
	const relay_fixture *f = ctx;
	wherry_verdict verdict = decide(ctx, msg);

	if (verdict != WHERRY_DELIVERED)
		(void)snprintf(reason, cap, "%s", f->why ? f->why : "the test said so");
	note(ctx, msg, verdict);
	return verdict;
}

static void keep_line(void *ctx, const wherry_log_record *record)
{
	relay_fixture *f = ctx;
	int n = snprintf(f->log + f->log_len, sizeof(f->log) - f->log_len, "%d %s %s\n",
			 (int)record->level, record->part, record->line);
	json_t *fields = log_line_parse(record->line);

	assert_non_null(fields);
	assert_int_equal(json_object_size(fields), record->n_fields + 1);
	json_decref(fields);
	if (n > 0 && (size_t)n < sizeof(f->log) - f->log_len)
		f->log_len += (size_t)n;
}

/* ---- opening and closing ---- */

void relay_set(relay_fixture *f, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(f->config, key, value, &err));
}

bool relay_on_log(const relay_fixture *f)
{
	return f->target->adopt ||
	       (f->target->layout && strcmp(f->target->layout, "log") == 0);
}

void relay_hourly(relay_fixture *f)
{
	relay_set(f, "relay.lease", "1h");
	relay_set(f, "relay.idle_interval", "1h");
	relay_set(f, "relay.sweep", "1h");
}

/* app_sql: the tests' own SQL runs on it, so that it keeps the search path of the URL. */
static wherry_db *connect(relay_fixture *f, bool app_sql)
{
	wh_db_options options = wh_db_options_of(f->config, &f->env);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	if (f->target->connect)
		return f->target->connect(&options);
	options.app_sql = app_sql;
	WHERRY_PASS(wh_db_open(f->url, &options, &db, &err));
	return db;
}

void relay_connect(relay_fixture *f, relay_side *side)
{
	if (!side->db)
		side->db = connect(f, false);
}

relay_fake *relay_use_fake(relay_fixture *f, relay_side *side, unsigned caps)
{
	relay_fake *fake = relay_fake_open(caps);

	assert_non_null(fake);
	fake->decide = decide;
	fake->note = note;
	fake->number = number_of;
	fake->ctx = f;
	side->fake = fake;
	side->pub = &fake->base;
	return fake;
}

void relay_wrap(relay_fixture *f, const wh_trace *trace)
{
	wherry_error err = WHERRY_ERROR_INIT;

	relay_connect(f, &f->a);
	WHERRY_PASS(wh_db_trace(f->a.db, trace, &f->a.db, &err));
}

void relay_start(relay_fixture *f, relay_side *side)
{
	wherry_error err = WHERRY_ERROR_INIT;

	relay_connect(f, side);
	if (!side->pub) {
		WHERRY_PASS(
			wherry_publisher_open("memory:", f->config, &side->pub, &err));
		wherry_memory_answer(side->pub, answer, f);
	}
	WHERRY_PASS(
		wherry_relay_open_on(side->db, side->pub, f->config, &side->relay, &err));
	wherry_relay_log(side->relay, keep_line, f);
	side->finished = false;
	side->wake_us = 0;
}

void relay_start_by_url(relay_fixture *f, relay_side *side)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_relay_open(f->url, "memory:", f->config, &side->relay, &err));
	wherry_relay_log(side->relay, keep_line, f);
	side->finished = false;
	side->wake_us = 0;
}

void relay_stream(relay_fixture *f, relay_side *side)
{
	f->log_len = 0;
	*f->log = 0;
	relay_start(f, side);
	RELAY_UNTIL(f, side, relay_logged(f, "event=streaming"));
}

void relay_vanish(relay_side *side)
{
	wherry_relay_close(side->relay);
	side->relay = NULL;
	if (side->fake) {
		relay_fake_drop(side->fake);
	} else {
		wherry_publisher_close(side->pub);
		side->pub = NULL;
	}
}

void relay_kill(relay_fixture *f, relay_side *side)
{
	relay_vanish(side);
	relay_sql(f, "UPDATE wherry_lease SET expires_at = 0, clean = 0");
}

void relay_stop(relay_fixture *f, relay_side *side)
{
	wherry_relay_stop(side->relay);
	RELAY_UNTIL(f, side, side->finished);
	wherry_relay_close(side->relay);
	side->relay = NULL;
}

static void disconnect(const relay_fixture *f, wherry_db *db)
{
	if (f->target->disconnect)
		f->target->disconnect(wh_db_untrace(db));
	else
		wherry_db_close(db);
}

static void close_side(const relay_fixture *f, relay_side *side)
{
	wherry_relay_close(side->relay);
	wherry_publisher_close(side->pub);
	disconnect(f, side->db);
	*side = (relay_side){0};
}

static void make_tables(const relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (f->target->queue)
		WHERRY_PASS(wherry_queue_create(f->other, "jobs", NULL, &err));
	if (f->target->delayed)
		WHERRY_PASS(wherry_delayed_create(f->other, "later", f->target->layout,
						  &err));
	if (f->target->adopt)
		f->target->adopt(f->other);
	else if (f->target->tables)
		WHERRY_PASS(wh_db_script(f->other, f->target->tables, &err));
	else
		WHERRY_PASS(make_any_body_as(
			f->other, f->target->delayed ? NULL : f->target->layout,
			f->target->extras, "outbox", &err));
	if (f->target->views)
		WHERRY_PASS(wh_db_script(f->other, f->target->views, &err));
}

static void open_all(relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool again;

	again = f->target->again && f->target->again(f->target, f->url, sizeof(f->url));
	if (!again && f->target->make)
		f->target->make(f->url, sizeof(f->url));
	else if (!again)
		(void)snprintf(f->url, sizeof(f->url), "%s", f->target->url);
	if (f->target->in_file)
		(void)snprintf(f->url, sizeof(f->url), "%s%s", f->target->url,
			       wherry_temp_make(&f->temp, "shop.db"));
	if (f->target->is & RELAY_OTHERS) {
		f->other = connect(f, true);
	} else {
		relay_connect(f, &f->a);
		f->other = f->a.db;
	}
	if (!again)
		make_tables(f);
	f->n_put = 0;
	if (f->target->queue)
		WHERRY_PASS(wherry_queue_open(f->other, "jobs", &f->queue, &err));
	else if (f->target->delayed)
		WHERRY_PASS(wherry_delayed_open(f->other, "later", "jobs", NULL,
						&f->delayed, &err));
	else
		WHERRY_PASS(wherry_outbox_open(f->other, "outbox", &f->outbox, &err));
	if (f->target->lower)
		f->target->lower(f->queue     ? &wh_queue_model
				 : f->delayed ? &wh_delayed_model
					      : &wh_outbox_model,
				 f->queue     ? "jobs"
				 : f->delayed ? "later"
					      : "outbox",
				 f->url, sizeof(f->url));
	if (!again && f->target->note)
		f->target->note(f->target);
}

static void close_all(relay_fixture *f)
{
	bool apart = f->target->is & RELAY_OTHERS;

	wherry_relay_close(f->a.relay); /* before its connection */
	wherry_relay_close(f->b.relay);
	wherry_relay_close(f->c.relay);
	f->a.relay = f->b.relay = f->c.relay = NULL;
	wherry_outbox_close(f->outbox);
	wherry_queue_close(f->queue);
	wherry_delayed_close(f->delayed);
	if (apart)
		disconnect(f, f->other);
	close_side(f, &f->a);
	close_side(f, &f->b);
	close_side(f, &f->c);
	f->outbox = NULL;
	f->queue = NULL;
	f->delayed = NULL;
	f->other = NULL;
	if (f->target->drop)
		f->target->drop();
	if (*f->temp.dir)
		wherry_temp_clear(&f->temp);
	*f->temp.dir = 0;
}

void relay_fresh(relay_fixture *f)
{
	close_all(f);
	f->n_events = f->log_len = 0;
	memset(f->times, 0, sizeof(f->times));
	f->every = WHERRY_DELIVERED;
	f->asked = NULL;
	f->why = NULL;
	open_all(f);
}

/* Fast, so that a test takes milliseconds; and without chance. */
static int set_up(void **state)
{
	static const char *const settings[][2] = {
		{"db.create", "on"},          {"db.synchronous", "normal"},
		{"db.busy_timeout", "100ms"}, {"retry.base", "1ms"},
		{"retry.cap", "10ms"},        {"retry.jitter", "off"},
		{"log.level", "debug"},
	};
	relay_fixture *f = &the_fixture;
	wherry_error err = WHERRY_ERROR_INIT;

	memset(f, 0, sizeof(*f));
	f->every = WHERRY_DELIVERED;
	f->target = *state;
	relay_be_patient(f->target->patience_us);
	f->env = (wh_env){
		.now_us = fixture_now,
		.monotonic_us = fixture_monotonic,
		.random = fixture_random,
		.sleep_us = fixture_sleep,
		.ctx = f,
	};
	WHERRY_PASS(wherry_config_new(&f->config, &err));
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		relay_set(f, settings[i][0], settings[i][1]);
	if (f->target->setting)
		relay_set(f, f->target->setting, "on");
	if (f->target->source)
		relay_set(f, "relay.source", f->target->source);
	if (f->target->queue)
		relay_set(f, "relay.table", "jobs");
	if (f->target->delayed)
		relay_set(f, "relay.table", "later/jobs");
	open_all(f);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	relay_fixture *f = *state;

	if (f->target->check)
		f->target->check(f);
	close_all(f);
	wherry_config_free(f->config);
	return 0;
}

/* ---- producers and operators ---- */

static void send(relay_fixture *f, size_t n)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_message msgs[256];

	for (size_t i = 0; i < n; i++)
		msgs[i] = WHERRY_QUEUE_MESSAGE(.topic = "t", .body = "{}", .body_len = 2);
	WHERRY_PASS(wherry_queue_send_many(f->queue, msgs, n, NULL, &err));
}

/* Each has its own key, since a key has one message. */
static void offer(relay_fixture *f, size_t n)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_message msgs[256];
	char keys[256][24];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "%lld", (long long)++f->n_put);
		msgs[i] = WHERRY_DELAYED_MESSAGE(.key = keys[i], .body = "{}",
						 .body_len = 2);
	}
	WHERRY_PASS(wherry_delayed_offer_many(f->delayed, msgs, n, NULL, &err));
}

void relay_put(relay_fixture *f, const char *keys)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message msgs[256];
	char texts[256][2], numbers[256][24];
	size_t n = strlen(keys);

	assert_true(n <= 256);
	if (f->target->put) {
		f->target->put(f, keys);
		return;
	}
	if (f->queue) {
		send(f, n);
		return;
	}
	if (f->delayed) {
		offer(f, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		texts[i][0] = keys[i];
		texts[i][1] = 0;
		msgs[i] = WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2);
		msgs[i].key = keys[i] == '-' ? NULL : texts[i];
		if (f->target->tables && !f->target->keeps_ids) {
			(void)snprintf(numbers[i], sizeof(numbers[i]), "%lld",
				       (long long)++f->n_put);
			msgs[i].message_id = numbers[i];
			msgs[i].key = NULL;
		}
	}
	WHERRY_PASS(wherry_outbox_enqueue_many(f->outbox, msgs, n, WHERRY_OWN_TRANSACTION,
					       NULL, &err));
}

static void translate(const relay_fixture *f, const char *sql, char *out, size_t cap)
{
	if (f->target->translate)
		f->target->translate(sql, out, cap);
	else
		(void)snprintf(out, cap, "%s", sql);
}

void relay_sql(relay_fixture *f, const char *sql)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char text[4096];

	translate(f, sql, text, sizeof(text));
	WHERRY_PASS(wh_db_script(f->other, text, &err));
}

static wherry_code take_number(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(int64_t *)ctx = wh_row_int(row, 0);
	return WHERRY_OK;
}

int64_t relay_number(relay_fixture *f, const char *sql)
{
	char name[] = "number", text[512];
	wh_stmt stmt = {.name = name, .text = text};
	wh_sql all = {.stmts = &stmt, .n = 1};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t number = 0;

	translate(f, sql, text, sizeof(text));
	WHERRY_PASS(
		wh_db_run(f->other, &stmt, NULL, 0, take_number, &number, NULL, &err));
	wh_db_forget(f->other, &all);
	return number;
}

static wherry_code take_row(void *ctx, const wherry_row *row)
{
	static wherry_message message; /* until the next row is shown */
	wherry_row *out = ctx;

	message = *row->message;
	*out = (wherry_row){.message = &message, .state = row->state};
	return WHERRY_OK;
}

static wherry_row show(relay_fixture *f, int64_t id)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_row row = {0};
	char ident[24];

	(void)snprintf(ident, sizeof(ident), "%lld", (long long)id);
	WHERRY_PASS(wherry_outbox_show(f->outbox, ident, take_row, &row, &err));
	return row;
}

/* Commands know all messages: those of an outbox from which rows that are done do not go. */
static bool shows_all(const relay_fixture *f)
{
	return f->outbox && !f->target->hides_done;
}

/* A column of a message. */
static int64_t look(relay_fixture *f, const char *column, int64_t id)
{
	char sql[100];

	(void)snprintf(sql, sizeof(sql), "SELECT %s FROM outbox WHERE id = %lld", column,
		       (long long)id);
	return relay_number(f, sql);
}

wherry_state relay_state(relay_fixture *f, int64_t id)
{
	return shows_all(f) ? show(f, id).state : (wherry_state)look(f, "status", id);
}

bool relay_is_log(const relay_fixture *f)
{
	return f->target->adopt ||
	       (f->target->layout && strcmp(f->target->layout, "log") == 0);
}

int relay_attempts(relay_fixture *f, int64_t id)
{
	if (!f->outbox)
		return (int)look(f, "attempts", id);
	/* A log keeps nothing of a message that is delivered: how it was sent the last time. */
	if (relay_is_log(f) && relay_state(f, id) == WHERRY_DONE)
		for (size_t i = f->n_events; i--;)
			if (f->events[i].id == id)
				return f->events[i].attempts;
	return show(f, id).message->attempts;
}

int64_t relay_count(relay_fixture *f, wherry_state state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t count[WHERRY_STATE_COUNT];
	char sql[80];

	(void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM outbox WHERE status = %d",
		       (int)state);
	if (!shows_all(f))
		return relay_number(f, sql);
	WHERRY_PASS(wherry_outbox_count(f->outbox, count, &err));
	return count[state];
}

int64_t relay_retry(relay_fixture *f, unsigned states)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_filter filter = WHERRY_OUTBOX_FILTER(.states = states);
	int64_t n = 0;

	if (f->queue)
		WHERRY_PASS(wherry_queue_retry(f->queue, 0, &n, &err));
	else if (f->delayed)
		WHERRY_PASS(wherry_delayed_retry(f->delayed, 0, &n, &err));
	else
		WHERRY_PASS(wherry_outbox_retry(f->outbox, &filter, &n, &err));
	return n;
}

void relay_expire(relay_fixture *f)
{
	relay_sql(f, "UPDATE wherry_lease SET expires_at = 0");
}

void relay_steal(relay_fixture *f)
{
	relay_sql(f, "UPDATE wherry_lease SET owner = 'thief', epoch = epoch + 1, "
		     "expires_at = (SELECT ms FROM wherry_clock) + 3600000");
}

/* ---- running ---- */

/* The thread sanitizer can find nothing in a test without threads. */
static bool concerns_this_build(const relay_test *test)
{
#ifdef __SANITIZE_THREAD__
	return test->needs & RELAY_THREADS;
#else
	(void)test;
	return true;
#endif
}

static bool runs(const relay_target *target, const relay_test *test, unsigned needs)
{
	unsigned is = target->is | RELAY_THREADS | (target->polls ? 0 : RELAY_WOKEN);

	if ((test->needs & ~is) || !concerns_this_build(test))
		return false;
	for (size_t i = 0; target->except && target->except[i]; i++)
		if (strcmp(target->except[i], test->name) == 0)
			return false;
	for (size_t i = 0; (needs & ~target->is) && target->also && target->also[i]; i++)
		if (strcmp(target->also[i], test->name) == 0)
			return true;
	return !(needs & ~target->is);
}

static size_t add_tests(struct CMUnitTest *out, char (*names)[128],
			const relay_target *target, const relay_test *tests,
			unsigned needs)
{
	const char *only = getenv("WHERRY_ONLY"); /* for one at a debugger's hands */
	size_t n = 0;

	for (; tests->name; tests++) {
		relay_target *initial = (relay_target *)(uintptr_t)target;

		if (!runs(target, tests, needs) || (only && !strstr(tests->name, only)))
			continue;
		(void)snprintf(names[n], sizeof(names[n]), "%.20s: %.100s", target->name,
			       tests->name);
		out[n] = (struct CMUnitTest){names[n], tests->run, set_up, tear_down,
					     initial};
		n++;
	}
	return n;
}

int relay_suite(const relay_target *targets, size_t n_targets)
{
	static const struct {
		const relay_test *tests;
		unsigned needs; /* of all of them */
	} parts[] = {
		{relay_order_tests, RELAY_KEYS},
		{relay_window_tests, RELAY_LEASE},
		{relay_failure_tests, RELAY_LEASE},
		{relay_dead_tests, RELAY_LEASE},
		{relay_rows_tests, RELAY_LEASE},
		{relay_letters_tests, RELAY_LEASE},
		{relay_down_tests, RELAY_LEASE},
		{relay_lease_tests, RELAY_LEASE},
		{relay_stop_tests, RELAY_LEASE},
		{relay_suspect_tests, RELAY_LEASE},
		{relay_wake_tests, RELAY_LEASE},
		{relay_empty_tests, RELAY_LEASE},
		{relay_fault_tests, RELAY_LEASE},
		{relay_competing_tests, 0},
		{relay_expiry_tests, 0},
		{relay_replaced_tests, RELAY_LEASE | RELAY_KEYS | RELAY_OTHERS},
		{relay_replaced_claims_tests, RELAY_KEYS | RELAY_OTHERS},
	};
	enum { MOST = 1000 };
	static struct CMUnitTest tests[MOST];
	static char names[MOST][128];
	size_t n = 0;

	for (size_t t = 0; t < n_targets; t++)
		for (size_t p = 0;
		     !targets[t].own_only && p < sizeof(parts) / sizeof(*parts); p++)
			if (parts[p].needs || !targets[t].leads)
				n += add_tests(tests + n, names + n, &targets[t],
					       parts[p].tests, parts[p].needs);
	n = wherry_test_part(tests, n);
	for (size_t t = 0; t < n_targets; t++)
		if (targets[t].own)
			n += add_tests(tests + n, names + n, &targets[t], targets[t].own,
				       0);
	return wherry_run_group("relay", tests, n, NULL, NULL);
}
