#include "operations.h"

#include <wherry/sqlite.h>

#include "log/subscription.h"
#include "outbox/outbox.h"

/* Deep enough that no text is empty: what Jansson and SQLite take is part of it. */
#define MESSAGE(id_)                                                                     \
	WHERRY_MESSAGE(.message_id = (id_), .topic = "orders", .key = "k",               \
		       .headers = "{\"a long name\": \"a value that is long\"}",         \
		       .trace_id = "tr", .body = "{\"a\": 1}", .body_len = 8)

/* ---- settings and connections ---- */

static wherry_code config_new(world *w, wherry_error *err)
{
	return wherry_config_new((wherry_config **)&w->out.made, err);
}

static void drop_config(world *w)
{
	wherry_config_free(w->out.made);
}

static wherry_code config_set(world *w, wherry_error *err)
{
	return wherry_config_set(w->config, "relay.name", "a name", err);
}

static wherry_code db_open(world *w, wherry_error *err)
{
	return wherry_db_open(w->url, w->config, (wherry_db **)&w->out.made, err);
}

static void drop_db(world *w)
{
	wherry_db_close(w->out.made);
}

static wherry_code sqlite_borrow(world *w, wherry_error *err)
{
	return wherry_sqlite_borrow(w->handle, (wherry_db **)&w->out.made, err);
}

static wherry_code db_begin(world *w, wherry_error *err)
{
	return wherry_db_begin(w->db, err);
}

static void roll_back(world *w)
{
	wherry_db_rollback(w->db);
}

static void begin(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	wherry_db_rollback(w->db);
	WHERRY_PASS(wherry_db_begin(w->db, &err));
}

static void begin_and_enqueue(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	begin(w);
	WHERRY_PASS(wherry_outbox_enqueue(w->outbox, &MESSAGE("first"), 0, NULL, &err));
}

static wherry_code db_commit(world *w, wherry_error *err)
{
	return wherry_db_commit(w->db, err);
}

/* ---- headers ---- */

static wherry_code headers_add(world *w, wherry_error *err)
{
	char *headers = NULL;
	wherry_code code =
		wherry_headers_add(&headers, "tenant", "a value that is long", err);

	if (code == WHERRY_OK)
		w->out.made = headers;
	return code;
}

/* ---- schema ---- */

static wherry_code outbox_create(world *w, wherry_error *err)
{
	return wherry_outbox_create(w->db, "events", NULL, err);
}

static wherry_code outbox_create_again(world *w, wherry_error *err)
{
	return wherry_outbox_create(w->db, "outbox", NULL, err);
}

static wherry_code outbox_create_sql(world *w, wherry_error *err)
{
	return wherry_outbox_create_sql("sqlite", "events", NULL, (char **)&w->out.made,
					err);
}

static void drop_text(world *w)
{
	free(w->out.made);
}

static wherry_code outbox_open(world *w, wherry_error *err)
{
	return wherry_outbox_open(w->db, "outbox", (wherry_outbox **)&w->out.made, err);
}

static void drop_box(world *w)
{
	wherry_outbox_close(w->out.made);
}

/* ---- producers ---- */

static wherry_code outbox_enqueue(world *w, wherry_error *err)
{
	return wherry_outbox_enqueue(w->outbox, &MESSAGE("one"), WHERRY_OWN_TRANSACTION,
				     w->out.number, err);
}

static wherry_code outbox_enqueue_many(world *w, wherry_error *err)
{
	const wherry_message many[] = {MESSAGE("one"), MESSAGE("two"), MESSAGE("three")};

	return wherry_outbox_enqueue_many(w->outbox, many, 3, WHERRY_OWN_TRANSACTION,
					  w->out.number, err);
}

/* ---- operators ---- */

static wherry_code see_row(void *ctx, const wherry_row *row)
{
	const wherry_message *m = row->message;
	world *w = ctx;
	int n = snprintf(w->rows + w->rows_len, sizeof(w->rows) - w->rows_len,
			 "%d %d %s %s %s %s %.*s|", (int)m->id, (int)row->state,
			 m->message_id, m->topic, m->key ? m->key : "-", m->headers,
			 (int)m->body_len, (const char *)m->body);

	if (n > 0 && (size_t)n < sizeof(w->rows) - w->rows_len)
		w->rows_len += (size_t)n;
	return WHERRY_OK;
}

static wherry_code outbox_status(world *w, wherry_error *err)
{
	return wherry_outbox_get_status(w->outbox, &w->out.status,
					sizeof(wherry_outbox_status), err);
}

static wherry_code outbox_count(world *w, wherry_error *err)
{
	return wherry_outbox_count(w->outbox, w->out.number, err);
}

static wherry_code outbox_oldest_ready(world *w, wherry_error *err)
{
	return wherry_outbox_oldest_ready(w->outbox, w->out.number, err);
}

static wherry_code outbox_list(world *w, wherry_error *err)
{
	w->rows_len = 0;
	return wherry_outbox_list(w->outbox, &WHERRY_OUTBOX_FILTER(), see_row, w, err);
}

static wherry_code outbox_show(world *w, wherry_error *err)
{
	w->rows_len = 0;
	return wherry_outbox_show(w->outbox, "m2", see_row, w, err);
}

static wherry_code outbox_retry(world *w, wherry_error *err)
{
	return wherry_outbox_retry(w->outbox, &WHERRY_OUTBOX_FILTER(), w->out.number,
				   err);
}

static wherry_code outbox_discard(world *w, wherry_error *err)
{
	return wherry_outbox_discard(w->outbox, "m2", err);
}

static wherry_code outbox_pause(world *w, wherry_error *err)
{
	return wherry_outbox_pause(w->outbox, err);
}

static wherry_code outbox_resume(world *w, wherry_error *err)
{
	return wherry_outbox_resume(w->outbox, err);
}

static wherry_code outbox_purge(world *w, wherry_error *err)
{
	return wherry_outbox_purge(w->outbox, 0, 1, 0, NULL, err);
}

/* ---- relays ---- */

static wherry_code outbox_lease(world *w, wherry_error *err)
{
	return wherry_outbox_lease(w->outbox, "me", 1000000, 8, &w->out.lease, err);
}

static void take_lease(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (!w->lease.epoch)
		WHERRY_PASS(wherry_outbox_lease(w->outbox, "me", 1000000, 8, &w->lease,
						&err));
	w->out.lease = w->lease;
}

static wherry_code outbox_join(world *w, wherry_error *err)
{
	return wherry_outbox_join(w->outbox, "me", 1000000, &w->out.lease, err);
}

static void no_lease(world *w)
{
	w->out.lease = (wherry_lease){.token = "mine"}; /* the same in every world */
}

static void join_lease(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (!w->lease.epoch)
		WHERRY_PASS(
			wherry_outbox_join(w->outbox, "me", 1000000, &w->lease, &err));
	w->rows_len = 0;
}

static wherry_code see_claimed(void *ctx, const wherry_message *msg)
{
	return see_row(ctx, &(wherry_row){.message = msg});
}

static const wherry_claim_options claim_options = {
	.size = sizeof(wherry_claim_options), .limit = 10, .lasts_us = 1000000};

static wherry_code outbox_claim(world *w, wherry_error *err)
{
	w->rows_len = 0;
	return wherry_outbox_claim(w->outbox, &w->lease, &claim_options, see_claimed, w,
				   w->out.number, err);
}

static wherry_code outbox_claim_expired(world *w, wherry_error *err)
{
	w->rows_len = 0;
	return wherry_outbox_claim_expired(w->outbox, &w->lease, &claim_options,
					   see_claimed, w, w->out.number, err);
}

static void claim_some(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t count[WHERRY_STATE_COUNT];

	join_lease(w);
	WHERRY_PASS(wherry_outbox_count(w->outbox, count, &err));
	if (count[WHERRY_PENDING]) {
		WHERRY_PASS(wherry_outbox_claim(w->outbox, &w->lease, &claim_options,
						see_claimed, w, NULL, &err));
		WHERRY_PASS(wherry_outbox_claim_expired(w->outbox, &w->lease,
							&claim_options, see_claimed, w,
							NULL, &err));
	}
	w->rows_len = 0;
}

static wherry_code outbox_extend(world *w, wherry_error *err)
{
	const int64_t id = 3;

	return wherry_outbox_extend(w->outbox, &w->lease, &id, 1, 1000000, w->out.number,
				    err);
}

static wherry_code outbox_renew(world *w, wherry_error *err)
{
	return wherry_outbox_renew(w->outbox, &w->out.lease, err);
}

static wherry_code outbox_release(world *w, wherry_error *err)
{
	return wherry_outbox_release(w->outbox, &w->lease, err);
}

static const int64_t open_ids[] = {1, 2, 3};

static wherry_code outbox_done(world *w, wherry_error *err)
{
	return wherry_outbox_done(w->outbox, &w->lease, open_ids, 3, w->out.number, err);
}

static wherry_code outbox_fail(world *w, wherry_error *err)
{
	const wherry_failure failures[] = {
		WHERRY_FAILURE(.id = 1, .delay_us = 1000000, .error = "not now"),
		WHERRY_FAILURE(.id = 2, .dead = true, .error = "never"),
	};

	return wherry_outbox_fail(w->outbox, &w->lease, failures, 2, err);
}

static wherry_code outbox_requeue(world *w, wherry_error *err)
{
	return wherry_outbox_requeue(w->outbox, &w->lease, open_ids, 3, err);
}

static wherry_code outbox_try(world *w, wherry_error *err)
{
	return wherry_outbox_try(w->outbox, &w->lease, 1, err);
}

static wherry_code outbox_reap(world *w, wherry_error *err)
{
	return wherry_outbox_reap(w->outbox, 0, w->out.number, err);
}

/* ---- a log ---- */

static wherry_code position_read(world *w, wherry_error *err)
{
	wh_position at = WH_POSITION_START;
	wh_share share = {.mask = UINT64_MAX};
	wherry_code code;

	wh_error_clear(err);
	code = wh_progress_read(&w->outbox->store, &share, &at, err);
	if (code == WHERRY_OK)
		w->out.number[0] = at.high;
	wh_position_clear(&at);
	return code;
}

static wherry_code position_write(world *w, wherry_error *err)
{
	const int64_t held[] = {5, 7};
	wh_position at = {.high = 7};
	wh_share share = {.mask = UINT64_MAX, .rows = 1};
	const wh_progress progress = {.at = &at, .held = held, .n_held = 2};

	wh_error_clear(err);
	return wh_progress_write(&w->outbox->store, &w->lease, &share, &progress, err);
}

/* ---- publishers and relays ---- */

static wherry_code publisher_open(world *w, wherry_error *err)
{
	return wherry_publisher_open(w->url, w->config, (wherry_publisher **)&w->out.made,
				     err);
}

static wherry_code never_open(const char *rest, const wherry_config *config,
			      void **out_state, wherry_error *err)
{
	return wherry_error_set(err, WHERRY_UNSUPPORTED, NULL);
}

static void never_close(void *state)
{
}

static wherry_code never_submit(void *state, const wherry_message *const *messages,
				size_t n, size_t *out_taken, wherry_error *err)
{
	return wherry_error_set(err, WHERRY_UNSUPPORTED, NULL);
}

static wherry_code never_collect(void *state, wherry_receipt *out, size_t cap,
				 size_t *out_n, wherry_error *err)
{
	return wherry_error_set(err, WHERRY_UNSUPPORTED, NULL);
}

static wherry_code publisher_register(world *w, wherry_error *err)
{
	static const wherry_setting settings[] = {{"never.a", "text", "", "", ""},
						  {"never.b", "text", "", "", ""},
						  {NULL, NULL, NULL, NULL, NULL}};
	static const wherry_publisher_driver never = {
		.version = WHERRY_PUBLISHER_VERSION,
		.scheme = "never",
		.settings = settings,
		.open = never_open,
		.close = never_close,
		.submit = never_submit,
		.collect = never_collect,
	};

	return wherry_publisher_register(w->config, &never, err);
}

static void drop_publisher(world *w)
{
	wherry_publisher_close(w->out.made);
}

static wherry_code relay_open(world *w, wherry_error *err)
{
	return wherry_relay_open(w->url, "null:", w->config,
				 (wherry_relay **)&w->out.made, err);
}

static wherry_code relay_open_on(world *w, wherry_error *err)
{
	return wherry_relay_open_on(w->db, w->pub, w->config,
				    (wherry_relay **)&w->out.made, err);
}

static void drop_relay(world *w)
{
	wherry_relay_close(w->out.made);
}

static void see_event(void *ctx, const wherry_event *event)
{
}

static wherry_code relay_hook(world *w, wherry_error *err)
{
	wherry_relay *relay = NULL;
	wherry_code code = wherry_relay_open_on(w->db, w->pub, w->config, &relay, err);

	if (code == WHERRY_OK)
		code = wherry_relay_hook(relay, 0, see_event, w, err);
	wherry_relay_close(relay);
	return code;
}

/* ---- handlers ---- */

static wherry_code handlers_open(world *w, wherry_error *err)
{
	return wherry_handlers_open(w->url, w->config, (wherry_publisher **)&w->out.made,
				    err);
}

static wherry_verdict handle(void *ctx, wherry_call *call)
{
	return WHERRY_DELIVERED;
}

/* In place of the world's publisher, which is closed with it. */
static void make_handlers(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	wherry_publisher_close(w->pub);
	WHERRY_PASS(wherry_handlers_open(NULL, w->config, &w->pub, &err));
	WHERRY_PASS(wherry_handlers_on(w->pub, "orders", handle, NULL, &err));
}

static wherry_code handlers_on(world *w, wherry_error *err)
{
	return wherry_handlers_on(w->pub, "t", handle, NULL, err);
}

static wherry_code handlers_once(world *w, wherry_error *err)
{
	return wherry_handlers_once(w->pub, "t", handle, NULL, err);
}

static wherry_code handlers_others(world *w, wherry_error *err)
{
	return wherry_handlers_others(w->pub, handle, NULL, err);
}

static wherry_code handlers_off(world *w, wherry_error *err)
{
	return wherry_handlers_off(w->pub, "orders", err);
}

static wherry_code handlers_use(world *w, wherry_error *err)
{
	return wherry_handlers_use(w->pub, handle, NULL, err);
}

static wherry_code handlers_set_threads(world *w, wherry_error *err)
{
	return wherry_handlers_set_threads(w->pub, 3, err);
}

/* ---- all of them ---- */

/* clang-format off */
const operation operations[] = {
	{"config_new", config_new, NULL, drop_config, NULL, 0},
	{"config_set", config_set, NULL, NULL, NULL, 0},
	{"db_open", db_open, NULL, drop_db, NULL, 0},
	{"db_begin", db_begin, roll_back, roll_back, NULL, 0},
	{"db_commit", db_commit, begin_and_enqueue, NULL, NULL, OPERATION_ONCE},
	{"sqlite_borrow", sqlite_borrow, NULL, drop_db, NULL, OPERATION_BORROWS},
	{"headers_add", headers_add, NULL, drop_text, NULL, 0},
	{"outbox_create", outbox_create, NULL, NULL, NULL, 0},
	{"outbox_create of one that is there", outbox_create_again, NULL, NULL, NULL, 0},
	{"outbox_create_sql", outbox_create_sql, NULL, drop_text, NULL, 0},
	{"outbox_open", outbox_open, NULL, drop_box, NULL, 0},
	{"outbox_enqueue", outbox_enqueue, NULL, NULL, NULL, 0},
	{"outbox_enqueue in a transaction", outbox_enqueue, begin_and_enqueue, NULL, NULL, OPERATION_JOINS},
	{"outbox_enqueue on a borrowed handle", outbox_enqueue, NULL, NULL, NULL, OPERATION_BORROWS},
	{"outbox_enqueue_many", outbox_enqueue_many, NULL, NULL, NULL, 0},
	{"outbox_enqueue_many in a transaction", outbox_enqueue_many, begin_and_enqueue, NULL, NULL, OPERATION_JOINS},
	{"outbox_enqueue_many in a borrowed one", outbox_enqueue_many, begin_and_enqueue, NULL, NULL, OPERATION_JOINS | OPERATION_BORROWS},
	{"outbox_get_status", outbox_status, NULL, NULL, NULL, 0},
	{"outbox_count", outbox_count, NULL, NULL, NULL, 0},
	{"outbox_oldest_ready", outbox_oldest_ready, NULL, NULL, NULL, 0},
	{"outbox_list", outbox_list, NULL, NULL, NULL, 0},
	{"outbox_show", outbox_show, NULL, NULL, NULL, 0},
	{"outbox_retry", outbox_retry, NULL, NULL, NULL, 0},
	{"outbox_discard", outbox_discard, NULL, NULL, NULL, 0},
	{"outbox_retry in a transaction", outbox_retry, begin_and_enqueue, NULL, NULL, OPERATION_JOINS},
	{"outbox_pause", outbox_pause, NULL, NULL, NULL, 0},
	{"outbox_resume", outbox_resume, NULL, NULL, NULL, 0},
	{"outbox_purge", outbox_purge, NULL, NULL, NULL, OPERATION_PARTLY},
	{"outbox_lease", outbox_lease, NULL, NULL, NULL, 0},
	{"outbox_renew", outbox_renew, take_lease, NULL, NULL, 0},
	{"outbox_release", outbox_release, take_lease, NULL, NULL, 0},
	{"outbox_done", outbox_done, take_lease, NULL, NULL, 0},
	{"outbox_fail", outbox_fail, take_lease, NULL, NULL, 0},
	{"outbox_requeue", outbox_requeue, take_lease, NULL, NULL, 0},
	{"outbox_try", outbox_try, take_lease, NULL, NULL, 0},
	{"outbox_join", outbox_join, no_lease, NULL, NULL, OPERATION_CLAIMS},
	{"outbox_claim", outbox_claim, join_lease, NULL, NULL, OPERATION_CLAIMS | OPERATION_ONCE},
	{"outbox_claim_expired", outbox_claim_expired, join_lease, NULL, NULL, OPERATION_CLAIMS | OPERATION_ONCE},
	{"outbox_extend", outbox_extend, claim_some, NULL, NULL, OPERATION_CLAIMS},
	{"outbox_done of claims", outbox_done, claim_some, NULL, NULL, OPERATION_CLAIMS},
	{"outbox_fail of claims", outbox_fail, claim_some, NULL, NULL, OPERATION_CLAIMS},
	{"outbox_requeue of claims", outbox_requeue, claim_some, NULL, NULL, OPERATION_CLAIMS},
	{"outbox_reap", outbox_reap, NULL, NULL, NULL, OPERATION_CLAIMS},
	{"A relay's read of a position", position_read, NULL, NULL, NULL, 0},
	{"A relay's write of a position", position_write, take_lease, NULL, NULL, 0},
	{"publisher_register", publisher_register, NULL, NULL, NULL, 0},
	{"publisher_open of stdout", publisher_open, NULL, drop_publisher, "stdout:", 0},
	{"publisher_open of file", publisher_open, NULL, drop_publisher, "file:", 0},
	{"publisher_open of exec", publisher_open, NULL, drop_publisher, "exec:true", 0},
	{"publisher_open of memory", publisher_open, NULL, drop_publisher, "memory:", 0},
	{"publisher_open of null", publisher_open, NULL, drop_publisher, "null:", 0},
	{"relay_open", relay_open, NULL, drop_relay, NULL, 0},
	{"relay_open_on", relay_open_on, NULL, drop_relay, NULL, 0},
	{"relay_hook", relay_hook, NULL, NULL, NULL, 0},
	{"handlers_open", handlers_open, NULL, drop_publisher, NULL, 0},
	{"handlers_on", handlers_on, make_handlers, NULL, NULL, 0},
	{"handlers_once", handlers_once, make_handlers, NULL, NULL, 0},
	{"handlers_others", handlers_others, make_handlers, NULL, NULL, 0},
	{"handlers_off", handlers_off, make_handlers, NULL, NULL, 0},
	{"handlers_use", handlers_use, make_handlers, NULL, NULL, 0},
	{"handlers_set_threads", handlers_set_threads, make_handlers, NULL, NULL, 0},
};
/* clang-format on */
const size_t n_operations = sizeof(operations) / sizeof(*operations);
