#include "relay_handlers.h"

#include "any_body.h"
#include "relay_log.h"

#include <time.h>

static handlers_fixture the_fixture;
static const handlers_base *base;

/* ---- set up ---- */

void handlers_set(handlers_fixture *f, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(f->config, key, value, &err));
}

int handlers_set_up(void **state)
{
	static const char *const settings[][2] = {
		{"db.create", "on"},       {"db.synchronous", "normal"},
		{"retry.base", "1ms"},     {"retry.cap", "5ms"},
		{"retry.jitter", "off"},   {"relay.timeout", "2m"},
		{"handlers.threads", "4"}, {"relay.stop_timeout", "5s"},
	};
	handlers_fixture *f = &the_fixture;
	wherry_error err = WHERRY_ERROR_INIT;

	memset(f, 0, sizeof(*f));
	f->base = base;
	(void)pthread_mutex_init(&f->lock, NULL);
	(void)pthread_cond_init(&f->changed, NULL);
	WHERRY_PASS(wherry_config_new(&f->config, &err));
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		handlers_set(f, settings[i][0], settings[i][1]);
	base->make(f->url, sizeof(f->url));
	WHERRY_PASS(wherry_db_open(f->url, f->config, &f->db, &err));
	WHERRY_PASS(make_any_body_as(f->db, "log", 0, "outbox", &err));
	WHERRY_PASS(wh_db_script(f->db, base->log_views, &err));
	WHERRY_PASS(wherry_outbox_open(f->db, "outbox", &f->outbox, &err));
	handlers_sql(f, "CREATE TABLE orders(id bigint, topic text)");
	*state = f;
	return 0;
}

static void close_relay(handlers_fixture *f)
{
	if (f->relay)
		wherry_relay_get_stats(f->relay, &f->stats, sizeof(wherry_relay_stats));
	wherry_relay_close(f->relay);
	wherry_db_close(f->relay_db);
	f->relay = NULL;
	f->relay_db = NULL;
}

int handlers_tear_down(void **state)
{
	handlers_fixture *f = *state;

	handlers_open_gate(f);
	close_relay(f);
	wherry_publisher_close(f->pub);
	wherry_outbox_close(f->outbox);
	wherry_db_close(f->db);
	wherry_config_free(f->config);
	base->drop();
	(void)pthread_mutex_destroy(&f->lock);
	(void)pthread_cond_destroy(&f->changed);
	return 0;
}

void handlers_pool(handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_handlers_open(f->url, f->config, &f->pub, &err));
}

void handlers_relay(handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_open(f->url, f->config, &f->relay_db, &err));
	WHERRY_PASS(
		wherry_relay_open_on(f->relay_db, f->pub, f->config, &f->relay, &err));
}

void handlers_on(handlers_fixture *f, const char *topic, wherry_handler_fn fn)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_handlers_on(f->pub, topic, fn, f, &err));
}

/* ---- the database ---- */

void handlers_put(handlers_fixture *f, const char *topic, const char *keys)
{
	wherry_error err = WHERRY_ERROR_INIT;

	for (; *keys; keys++) {
		const char key[2] = {*keys, 0};
		wherry_message msg =
			WHERRY_MESSAGE(.topic = topic, .key = *keys == '-' ? NULL : key,
				       .body = "{}", .body_len = 2);

		WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION,
						  NULL, &err));
	}
}

void handlers_text(handlers_fixture *f, const char *sql, char *out, size_t cap)
{
	char translated[1000];

	relay_log_translate(sql, translated, sizeof(translated));
	if (f->base->sql(f->db, translated, out, cap))
		return;
	print_error("%s: %s\n", sql, out);
	fail();
}

void handlers_sql(handlers_fixture *f, const char *sql)
{
	char why[256];

	handlers_text(f, sql, why, sizeof(why));
}

int64_t handlers_number(handlers_fixture *f, const char *sql)
{
	char text[32];

	handlers_text(f, sql, text, sizeof(text));
	return strtoll(text, NULL, 10);
}

/* ---- running ---- */

wherry_outcome handlers_run(handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outcome outcome = WHERRY_STOPPED;

	if (!f->relay)
		handlers_relay(f);
	WHERRY_PASS(wherry_relay_run(f->relay, WHERRY_UNTIL_EMPTY, &outcome, &err));
	close_relay(f);
	return outcome;
}

bool handlers_step(handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool finished = false;
	int64_t wake_us = 0, soon_us;

	WHERRY_PASS(wherry_relay_step(f->relay, &wake_us, &finished, &err));
	soon_us = wherry_relay_clock(f->relay) + 5000;
	if (!finished)
		wherry_relay_wait(f->relay, wake_us < soon_us ? wake_us : soon_us);
	return finished;
}

void handlers_turn(handlers_fixture *f, int64_t by_us, const char *what, int line,
		   const char *file)
{
	if (wherry_relay_clock(f->relay) >= by_us) {
		print_error("waited in vain for: %s\n", what);
		_fail(file, line);
	}
	(void)handlers_step(f);
}

/* ---- for handlers ---- */

static size_t place_of(const wherry_message *msg)
{
	return msg->key ? (unsigned char)msg->key[0] % 128 : 0;
}

void handlers_enter(handlers_fixture *f, wherry_call *call)
{
	const wherry_message *msg = wherry_call_message(call);
	handlers_call *c;
	size_t place = place_of(msg);

	(void)pthread_mutex_lock(&f->lock);
	if (f->n_calls < HANDLERS_CALLS) {
		c = &f->calls[f->n_calls++];
		c->id = msg->id;
		c->attempt = wherry_call_attempt(call);
		c->last = wherry_call_is_last(call);
		(void)snprintf(c->key, sizeof(c->key), "%.15s", msg->key ? msg->key : "");
		(void)snprintf(c->topic, sizeof(c->topic), "%.31s", msg->topic);
	}
	f->at_once++;
	if (f->at_once > f->most)
		f->most = f->at_once;
	f->overlapped |= place && f->running[place] > 0;
	f->running[place]++;
	(void)pthread_cond_broadcast(&f->changed);
	(void)pthread_mutex_unlock(&f->lock);
}

void handlers_leave(handlers_fixture *f, wherry_call *call)
{
	(void)pthread_mutex_lock(&f->lock);
	f->at_once--;
	f->running[place_of(wherry_call_message(call))]--;
	(void)pthread_cond_broadcast(&f->changed);
	(void)pthread_mutex_unlock(&f->lock);
}

void handlers_wait(handlers_fixture *f)
{
	(void)pthread_mutex_lock(&f->lock);
	f->waiting++;
	while (!f->open)
		(void)pthread_cond_wait(&f->changed, &f->lock);
	f->waiting--;
	(void)pthread_mutex_unlock(&f->lock);
}

void handlers_open_gate(handlers_fixture *f)
{
	(void)pthread_mutex_lock(&f->lock);
	f->open = true;
	(void)pthread_cond_broadcast(&f->changed);
	(void)pthread_mutex_unlock(&f->lock);
}

size_t handlers_seen(handlers_fixture *f)
{
	size_t n;

	(void)pthread_mutex_lock(&f->lock);
	n = f->n_calls;
	(void)pthread_mutex_unlock(&f->lock);
	return n;
}

int handlers_waiting(handlers_fixture *f)
{
	int n;

	(void)pthread_mutex_lock(&f->lock);
	n = f->waiting;
	(void)pthread_mutex_unlock(&f->lock);
	return n;
}

bool handlers_call_sql(handlers_fixture *f, wherry_db *db, const char *sql)
{
	char why[256];

	return f->base->sql(db, sql, why, sizeof(why));
}

wherry_verdict handlers_write(handlers_fixture *f, wherry_call *call)
{
	const wherry_message *msg = wherry_call_message(call);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	char sql[128], why[256];

	if (wherry_call_begin(call, &db, &err) != WHERRY_OK) {
		(void)pthread_mutex_lock(&f->lock);
		(void)snprintf(f->why, sizeof(f->why), "%s: %s",
			       wherry_code_name(err.code), err.message);
		(void)pthread_mutex_unlock(&f->lock);
		wherry_call_reason(call, err.message);
		return WHERRY_RETRY;
	}
	(void)snprintf(sql, sizeof(sql), "INSERT INTO orders VALUES (%lld, '%.30s')",
		       (long long)msg->id, msg->topic);
	if (!f->base->sql(db, sql, why, sizeof(why))) {
		wherry_call_reason(call, why);
		return WHERRY_RETRY;
	}
	return WHERRY_DELIVERED;
}

wherry_verdict handlers_deliver(void *ctx, wherry_call *call)
{
	handlers_enter(ctx, call);
	handlers_leave(ctx, call);
	return WHERRY_DELIVERED;
}

/* ---- all of them ---- */

static bool runs(const char *test)
{
	for (size_t i = 0; base->except && base->except[i]; i++)
		if (strcmp(base->except[i], test) == 0)
			return false;
	return true;
}

int handlers_suite(const handlers_base *on, const handlers_test *own)
{
	const handlers_test *const parts[] = {handlers_call_tests, handlers_step_tests,
					      handlers_hook_tests, own};
	static struct CMUnitTest all[200];
	static char names[200][128];
	const char *only = getenv("WHERRY_ONLY");
	size_t n = 0;

	base = on;
	for (size_t p = 0; p < sizeof(parts) / sizeof(*parts); p++) {
		for (const handlers_test *t = parts[p]; t && t->name; t++) {
			if ((only && !strstr(t->name, only)) || !runs(t->name))
				continue;
			(void)snprintf(names[n], sizeof(names[n]), "%s: %.80s",
				       base->name, t->name);
			all[n] = (struct CMUnitTest){names[n], t->run, handlers_set_up,
						     handlers_tear_down, NULL};
			n++;
		}
	}
	return wherry_run_group("handlers", all, n, NULL, NULL);
}
