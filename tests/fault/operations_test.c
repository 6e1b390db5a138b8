/*
 * Every public operation, with each call that it makes failing in turn: it says so and
 * has done nothing, or all of it; and then it works.
 */
#include "operations.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <wherry/sqlite.h>

enum { DIGEST = 32 * 1024, DATABASE_MOST = 1024 * 1024, PATTERN = 0xa5 };

static const char *const tables[] = {
	"sqlite_schema",
	"wherry_schema",
	"wherry_outbox",
	"wherry_lease",
	"outbox",
	"outbox_progress",
	"outbox_exception",
	"bus",
	"bus_archive",
	"jobs",
	"inbox",
	"later",
	"later_dead",
	"wherry_subscription",
	NULL,
};

/* A database with rows in every state, as bytes to begin from. */
static struct {
	wherry_temp temp;
	char *bytes;
	size_t len;
	char digest[DIGEST];
} template;

/* ---- what is in the database ---- */

static void add_row(char *out, size_t *len, sqlite3_stmt *stmt)
{
	for (int i = 0; i < sqlite3_column_count(stmt); i++) {
		/* Who holds a lease is a random token. */
		bool random = strcmp(sqlite3_column_name(stmt, i), "members") == 0;
		const char *text =
			random ? "~" : (const char *)sqlite3_column_text(stmt, i);
		int n = snprintf(out + *len, DIGEST - *len, "%s|", text ? text : "~");

		assert_true(n >= 0 && (size_t)n < DIGEST - *len);
		*len += (size_t)n;
	}
	out[(*len)++] = '\n';
	out[*len] = 0;
}

/* Is the file as it was copied, and nothing written behind it? */
static bool is_template(const char *path)
{
	static char bytes[DATABASE_MOST];
	char wal[192];
	struct stat st;
	bool same;
	int fd;

	(void)snprintf(wal, sizeof(wal), "%s-wal", path);
	if (stat(wal, &st) == 0 && st.st_size > 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	same = read(fd, bytes, sizeof(bytes)) == (ssize_t) template.len &&
	       memcmp(bytes, template.bytes, template.len) == 0;
	(void)close(fd);
	return same;
}

/* All that is committed, as text. */
static void read_digest(const world *w, char *out)
{
	sqlite3 *handle = NULL;
	size_t len = 0;

	assert_int_equal(sqlite3_open(w->temp->path, &handle), SQLITE_OK);
	for (int i = 0; tables[i]; i++) {
		sqlite3_stmt *stmt = NULL;
		char sql[80];

		(void)snprintf(sql, sizeof(sql), "SELECT * FROM %s ORDER BY 1, 2",
			       tables[i]);
		if (sqlite3_prepare_v2(handle, sql, -1, &stmt, NULL) != SQLITE_OK)
			continue; /* dropped, as sqlite_schema says */
		while (sqlite3_step(stmt) == SQLITE_ROW)
			add_row(out, &len, stmt);
		assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
	}
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

/* The same; of the template it is read once. */
static void digest(const world *w, char *out)
{
	if (!is_template(w->temp->path)) {
		read_digest(w, out);
		return;
	}
	if (!*template.digest)
		read_digest(w, template.digest);
	memcpy(out, template.digest, DIGEST);
}

/* ---- the template ---- */

static const char fill[] =
	"INSERT INTO outbox(message_id, topic, partition_key, created_at, payload) VALUES"
	" ('m1', 't', 'k', 1700000000000, '{}'), ('m2', 't', 'k', 1700000000000, '{}'),"
	" ('m3', 't', 'l', 1700000000000, '{}'), ('m4', 't', NULL, 1700000000000, '{}'),"
	" ('m5', 't', 'l', 1700000000000, '{}'), ('m6', 'u', NULL, 1700000000000, '{}'),"
	" ('m7', 't', 'l', 1700000000000, '{}');"
	"UPDATE outbox_progress SET high = CASE subscription WHEN 'relay' THEN 4 ELSE 7 END;"
	"INSERT INTO outbox_exception(subscription, id, state, attempts, next_retry_at,"
	"  changed_at, claim_token) VALUES ('relay', 1, 0, 0, NULL, 1700000000000, ''),"
	" ('relay', 2, 1, 1, NULL, 1700000000000, 'epoch:0'),"
	" ('relay', 3, 3, 1, 1700000000000, 1700000000000, ''),"
	" ('relay', 6, 4, 5, NULL, 1700000000000, ''),"
	" ('audit', 3, 2, 0, NULL, 1700000000000, '');"
	"INSERT INTO bus(id, type, payload, occurred_at, status, keep_alive, next_retry_at) VALUES"
	" ('m1', 't', '{}', '2026-01-01T00:00:00.000Z', 'created', NULL, NULL),"
	" ('m2', 't', '{}', '2026-01-01T00:00:00.000Z', 'active', '2026-01-01T00:00:00.000Z', NULL),"
	" ('m3', 't', '{}', '2026-01-01T00:00:00.000Z', 'failed', NULL, '2020-01-01T00:00:00.000Z');"
	"UPDATE wherry_outbox SET paused_at = 1700000000000;"
	"INSERT INTO jobs(id, message_id, headers, state, attempts, available_at,"
	"  expires_at, lease_token, created_at, body) VALUES"
	" (1, 'j1', '{}', 0, 0, NULL, NULL, NULL, 1700000000000, '1'),"
	" (2, 'j2', '{}', 1, 1, 1700000000000, NULL, 'tk', 1700000000000, '2'),"
	" (3, 'j3', '{}', 1, 2, 1700000000000, NULL, 'tk', 1700000000000, '3'),"
	" (4, 'j4', '{}', 3, 1, 1700000000000, NULL, NULL, 1700000000000, '4'),"
	" (5, 'j5', '{}', 4, 5, NULL, NULL, NULL, 1700000000000, '5'),"
	" (6, 'j6', '{}', 0, 0, NULL, 1700000000000, NULL, 1700000000000, '6'),"
	" (7, 'j7', '[]', 0, 0, NULL, NULL, NULL, 1700000000000, x'ff');"
	"INSERT INTO inbox(consumer, message_id, accepted_at) VALUES"
	" ('', 'm1', 1700000000000), ('', 'm2', 1700000000000),"
	" ('c', 'm1', 1700000000000);"
	"INSERT INTO later(id, pKey, pKind, payload, scheduledAt, scheduledAtInitially,"
	"  lockUuid, createdAt, attempts) VALUES"
	" (1, 'a', '26effe269621b8b7c04672fb7ecec9e2', x'31', 1700000000000,"
	"  1700000000000, NULL, 1700000000000, 0),"
	" (2, 'b', '26effe269621b8b7c04672fb7ecec9e2', x'32', 1700000000000,"
	"  1600000000000, 'tk', 1700000000000, 1),"
	" (3, 'c', '26effe269621b8b7c04672fb7ecec9e2', x'33', 1700000000001,"
	"  1600000000000, 'tk', 1700000000000, 5),"
	" (4, 'd', '26effe269621b8b7c04672fb7ecec9e2', x'34', 9700000000000,"
	"  9700000000000, NULL, 1700000000000, 0);"
	"INSERT INTO later_dead VALUES"
	" (5, 'e', '26effe269621b8b7c04672fb7ecec9e2', x'35', 1700000000000,"
	"  1700000000000, 5, 1700000000000, 'no route'),"
	" (6, 'f', '26effe269621b8b7c04672fb7ecec9e2', x'36', 1700000000000,"
	"  1700000000000, 5, 1700000000000, NULL);"
	"INSERT INTO wherry_subscription VALUES ('paid', 'jobs');";

static int make_template(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;
	struct stat st;
	char url[160];
	int fd;

	fault_rewind();
	(void)snprintf(url, sizeof(url), "sqlite:%s",
		       wherry_temp_make(&template.temp, "shop.db"));
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.create", "on", &err));
	WHERRY_PASS(wherry_db_open(url, config, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_queue_create(db, "jobs", NULL, &err));
	WHERRY_PASS(wherry_inbox_create(db, NULL, &err));
	WHERRY_PASS(wherry_delayed_create(db, "later", NULL, &err));
	WHERRY_PASS(wherry_cron_create(db, NULL, &err));
	WHERRY_PASS(wherry_outbox_create(
		db, "bus", &WHERRY_OUTBOX_OPTIONS(.layout = "event-bus"), &err));
	WHERRY_PASS(wherry_subscription_create(db, "outbox", "audit", NULL, &err));
	WHERRY_PASS(wh_db_script(db, fill, &err));
	wherry_db_close(db);
	wherry_config_free(config);
	fd = open(template.temp.path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	template.len = (size_t)st.st_size;
	template.bytes = malloc(template.len);
	assert_true(template.len < DATABASE_MOST);
	assert_int_equal(read(fd, template.bytes, template.len), template.len);
	(void)close(fd);
	return 0;
}

static int drop_template(void **state)
{
	free(template.bytes);
	wherry_temp_clear(&template.temp);
	return 0;
}

static void copy_template(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, template.bytes, template.len), template.len);
	(void)close(fd);
}

/* ---- a world, which is a database with all that is open on it ---- */

static void open_borrowed(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	assert_int_equal(sqlite3_open(w->temp->path, &w->handle), SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(w->handle, &w->db, &err));
}

static void open_own(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_open(w->url, w->config, &w->db, &err));
}

static bool is_of(const operation *op, const char *model)
{
	return strncmp(op->name, model, strlen(model)) == 0;
}

static void make_world(world *w, wherry_temp *temp, const operation *op)
{
	wherry_error err = WHERRY_ERROR_INIT;

	*w = (world){.temp = temp};
	fault_rewind();
	copy_template(temp->path);
	(void)snprintf(w->url, sizeof(w->url), "sqlite:%s", temp->path);
	WHERRY_PASS(wherry_config_new(&w->config, &err));
	if (op->flags & OPERATION_BORROWS)
		open_borrowed(w);
	else
		open_own(w);
	fault_trace(&w->db);
	WHERRY_PASS(wherry_outbox_open(w->db,
				       op->flags & OPERATION_CLAIMS ? "bus" : "outbox",
				       &w->outbox, &err));
	if (is_of(op, "queue_") || is_of(op, "topics_"))
		WHERRY_PASS(wherry_queue_open(w->db, "jobs", &w->queue, &err));
	if (is_of(op, "inbox_"))
		WHERRY_PASS(wherry_inbox_open(w->db, NULL, &w->inbox, &err));
	if (is_of(op, "cron_"))
		WHERRY_PASS(wherry_cron_open(w->db, NULL, &w->cron, &err));
	if (is_of(op, "delayed_") || is_of(op, "retry") || is_of(op, "cron_"))
		WHERRY_PASS(wherry_delayed_open(w->db, "later", "jobs", NULL, &w->delayed,
						&err));
	WHERRY_PASS(wherry_publisher_open("null:", w->config, &w->pub, &err));
	if (op->url)
		(void)snprintf(w->url, sizeof(w->url), "%s", op->url);
	if (op->url && strcmp(op->url, "file:") == 0)
		(void)snprintf(w->url, sizeof(w->url), "file:%s/out", temp->dir);
}

static void drop_world(world *w)
{
	char path[192];

	wherry_publisher_close(w->pub);
	wherry_outbox_close(w->outbox);
	wherry_inbox_close(w->inbox);
	wherry_cron_close(w->cron);
	wherry_delayed_close(w->delayed);
	wherry_queue_close(w->queue);
	wherry_db_close(w->db);
	wherry_config_free(w->config);
	if (w->handle)
		assert_int_equal(sqlite3_close(w->handle), SQLITE_OK);
	(void)snprintf(path, sizeof(path), "%s-wal", w->temp->path);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s-shm", w->temp->path);
	(void)unlink(path);
}

/* ---- one run ---- */

static wherry_code run(const operation *op, world *w, const fault_plan *plan,
		       outcome *before, wherry_error *err)
{
	wherry_code code;

	memset(&w->out, PATTERN, sizeof(w->out));
	if (op->ready)
		op->ready(w);
	memcpy(before, &w->out, sizeof(*before));
	(void)wherry_error_set(err, WHERRY_FULL, "of an earlier call");
	if (plan)
		fault_arm(*plan);
	code = op->run(w, err);
	fault_disarm();
	if (code == WHERRY_OK && op->drop) {
		op->drop(w);
		w->out.made = NULL; /* another address each time */
	}
	return code;
}

static bool same_lease(const wherry_lease *a, const wherry_lease *b)
{
	return a->epoch == b->epoch && a->lasts_us == b->lasts_us &&
	       a->suspects == b->suspects && a->number == b->number &&
	       a->paused == b->paused && a->control_version == b->control_version &&
	       a->first_open == b->first_open && a->last_open == b->last_open;
}

static bool same_status(const wherry_outbox_status *a, const wherry_outbox_status *b)
{
	return memcmp(a->count, b->count, sizeof(a->count)) == 0 &&
	       a->oldest_ready_us == b->oldest_ready_us && a->ready == b->ready &&
	       a->epoch == b->epoch && a->lease_left_us == b->lease_left_us &&
	       a->schema_version == b->schema_version;
}

/* But for padding. */
static bool same_outcome(const outcome *a, const outcome *b)
{
	return memcmp(a->number, b->number, sizeof(a->number)) == 0 &&
	       a->made == b->made && same_lease(&a->lease, &b->lease) &&
	       same_status(&a->status, &b->status);
}

/* What a run without faults does. */
typedef struct reference {
	outcome out;
	char rows[sizeof(((world *)NULL)->rows)];
	char before[DIGEST], after[DIGEST];
	char aside[DIGEST]; /* JOINS: what else is in the transaction alone */
} reference;

static void commit(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_commit(w->db, &err));
}

static void learn(const operation *op, wherry_temp *temp, reference *ref)
{
	wherry_error err;
	outcome before;
	world w;

	make_world(&w, temp, op);
	if (op->ready)
		op->ready(&w);
	digest(&w, ref->before);
	if (op->flags & OPERATION_JOINS)
		commit(&w);
	digest(&w, ref->aside);
	drop_world(&w);
	make_world(&w, temp, op);
	WHERRY_PASS(run(op, &w, NULL, &before, &err));
	assert_int_equal(err.code, WHERRY_OK);
	assert_string_equal(err.message, "");
	if (op->flags & OPERATION_JOINS)
		commit(&w);
	digest(&w, ref->after);
	ref->out = w.out;
	memcpy(ref->rows, w.rows, sizeof(ref->rows));
	drop_world(&w);
}

#define CHECK(condition, text)                                                           \
	do {                                                                             \
		if (!(condition))                                                        \
			fail_msg("%s: failed %s: %s; %s: %s", op->name, fault_where(),   \
				 (text), wherry_code_name(code), err->message);          \
	} while (0)

static const char *committed(const world *w)
{
	static char text[DIGEST];

	digest(w, text);
	return text;
}

/* It succeeded, though perhaps something failed on its way. */
static void check_success(const operation *op, world *w, const reference *ref,
			  wherry_code code, const wherry_error *err)
{
	CHECK(same_outcome(&w->out, &ref->out), "another result");
	CHECK(strcmp(w->rows, ref->rows) == 0, "other rows");
	CHECK(err->code == WHERRY_OK && !*err->message, "an error is told all the same");
	if (op->flags & OPERATION_JOINS)
		commit(w);
	CHECK(strcmp(committed(w), ref->after) == 0, "another database than usual");
}

/* It failed: nothing is done, or all where only the answer was lost. */
static void check_failure(const operation *op, world *w, const reference *ref,
			  const fault_plan *plan, wherry_code code,
			  const wherry_error *err)
{
	bool partly = op->flags & OPERATION_PARTLY, joins = op->flags & OPERATION_JOINS;
	const char *now;

	CHECK(fault_hit(), "failed without a fault");
	CHECK(strncmp(w->rows, ref->rows, w->rows_len) == 0, "other rows");
	CHECK(code == plan->with, "another code");
	CHECK(err->code == code && *err->message, "no error was told");
	if (joins && wherry_db_in_transaction(w->db)) {
		commit(w);
		now = committed(w);
		CHECK(strcmp(now, ref->aside) == 0 || (plan->kind == FAULT_ANSWER &&
						       strcmp(now, ref->after) == 0),
		      "the transaction is not as it was");
		return;
	}
	CHECK(!wherry_db_in_transaction(w->db), "a transaction is left open");
	now = committed(w);
	CHECK(partly || strcmp(now, ref->before) == 0 ||
		      (plan->kind == FAULT_ANSWER && strcmp(now, ref->after) == 0),
	      "done in part");
	wherry_db_rollback(w->db); /* as its application would */
}

/* Once more, without faults. */
static void check_again(const operation *op, world *w, const reference *ref)
{
	bool joins = op->flags & OPERATION_JOINS, partly = op->flags & OPERATION_PARTLY;
	wherry_error why = WHERRY_ERROR_INIT, *err = &why;
	operation alone = *op;
	outcome before;
	wherry_code code;

	if (joins) { /* its transaction may have been committed: begin another */
		alone.ready = NULL;
		code = wherry_db_begin(w->db, err);
		CHECK(code == WHERRY_OK, "no transaction can be begun afterwards");
	}
	code = run(&alone, w, NULL, &before, err);
	CHECK(code == WHERRY_OK, "it does not work afterwards");
	CHECK(joins || strcmp(committed(w), ref->after) == 0,
	      "afterwards the database is another");
	CHECK(joins || partly || same_outcome(&w->out, &ref->out),
	      "afterwards another result");
	wherry_db_rollback(w->db);
}

/* Whatever became of it, the connection works. */
static void check_connection(const operation *op, world *w)
{
	wherry_error why = WHERRY_ERROR_INIT, *err = &why;
	int64_t before[WHERRY_STATE_COUNT], after[WHERRY_STATE_COUNT];
	wherry_code code = wherry_outbox_count(w->outbox, before, err);

	CHECK(code == WHERRY_OK, "the connection does not work afterwards");
	code = wherry_outbox_enqueue(
		w->outbox, &WHERRY_MESSAGE(.topic = "after", .body = "{}", .body_len = 2),
		WHERRY_OWN_TRANSACTION, NULL, err);
	CHECK(code == WHERRY_OK, "nothing can be added afterwards");
	CHECK(!wherry_db_in_transaction(w->db), "a transaction is open afterwards");
	code = wherry_outbox_count(w->outbox, after, err);
	CHECK(code == WHERRY_OK && after[WHERRY_PENDING] == before[WHERRY_PENDING] + 1,
	      "what is added afterwards is not there");
}

/* Returns false once no call was left to fail. */
static bool try_one(const operation *op, wherry_temp *temp, const reference *ref,
		    const fault_plan *plan)
{
	wherry_error why, *err = &why;
	outcome before;
	wherry_code code;
	world w;

	make_world(&w, temp, op);
	code = run(op, &w, plan, &before, err);
	if (code == WHERRY_OK) {
		check_success(op, &w, ref, code, err);
	} else {
		CHECK(plan->kind != FAULT_UNDONE, "the transaction was not begun again");
		CHECK(memcmp(&w.out, &before, sizeof(before)) == 0 ||
			      op->flags & OPERATION_PARTLY,
		      "an output was touched");
		check_failure(op, &w, ref, plan, code, err);
		if (plan->kind != FAULT_ANSWER)
			check_again(op, &w, ref);
	}
	check_connection(op, &w);
	drop_world(&w);
	return fault_hit();
}

/* The k-th call fails with one of the codes: `shift` says which of them begins. */
static void sweep(const operation *op, fault_plan plan, const wherry_code *codes,
		  size_t n, size_t shift)
{
	wherry_temp temp;
	reference *ref = calloc(1, sizeof(*ref));
	int stride = plan.kind == FAULT_MEMORY ? fault_stride(307, 43) : 1;
	int each = plan.kind == FAULT_MEMORY ? fault_stride(3, 16) : 1;
	bool more = true;

	assert_non_null(ref);
	wherry_temp_make(&temp, "shop.db");
	learn(op, &temp, ref);
	for (; more; plan.at += plan.at < each ? 1 : stride) {
		plan.with = codes[((size_t)plan.at + shift) % n];
		more = try_one(op, &temp, ref, &plan);
	}
	wherry_temp_clear(&temp);
	free(ref);
}

static void sweep_codes(const operation *op, fault_plan plan, const wherry_code *codes,
			size_t n)
{
	size_t sweeps = fault_every() ? n : 1;

	for (size_t shift = 0; shift < sweeps; shift++)
		sweep(op, plan, codes, n, shift);
}

#define SWEEP(op, kind, n, ...)                                                          \
	sweep_codes((op), (fault_plan){(kind), 1, (n), WHERRY_OK},                       \
		    (const wherry_code[]){__VA_ARGS__},                                  \
		    sizeof((const wherry_code[]){__VA_ARGS__}) / sizeof(wherry_code))

/* ---- the tests ---- */

static void each_database_call_fails(void **state)
{
	SWEEP(*state, FAULT_DATABASE, 1, WHERRY_BUSY, WHERRY_FULL, WHERRY_IO,
	      WHERRY_INTERRUPTED, WHERRY_CLOSED, WHERRY_CORRUPT);
	SWEEP(*state, FAULT_DATABASE, FAULT_ALL, WHERRY_BUSY, WHERRY_IO);
}

/* A caller may pass no error. */
WHERRY_CASE(each_database_call_fails_and_nobody_asks_why, const operation *op)
{
	fault_plan plan = {FAULT_DATABASE, 1, 1, WHERRY_BUSY};
	wherry_temp temp;
	bool more = true;

	wherry_temp_make(&temp, "shop.db");
	for (; more; plan.at++) {
		outcome before;
		wherry_code code;
		world w;

		make_world(&w, &temp, op);
		code = run(op, &w, &plan, &before, NULL);
		if (code != WHERRY_OK && code != plan.with)
			fail_msg("%s: failed %s: %s", op->name, fault_where(),
				 wherry_code_name(code));
		more = fault_hit();
		wherry_db_rollback(w.db);
		check_connection(op, &w);
		drop_world(&w);
	}
	wherry_temp_clear(&temp);
}

static void each_answer_is_lost(void **state)
{
	SWEEP(*state, FAULT_ANSWER, 1, WHERRY_INDOUBT, WHERRY_IO, WHERRY_BUSY);
	SWEEP(*state, FAULT_ANSWER, FAULT_ALL, WHERRY_CLOSED);
}

/* A deadlock undoes the transaction at each of its statements, and at its commit. */
static void each_transaction_is_undone(void **state)
{
	SWEEP(*state, FAULT_UNDONE, 1, WHERRY_CONFLICT);
	SWEEP(*state, FAULT_UNDONE, 3, WHERRY_CONFLICT);
}

static void each_allocation_fails(void **state)
{
	SWEEP(*state, FAULT_MEMORY, 1, WHERRY_NOMEM);
}

static void no_memory_is_left_from_each_allocation_on(void **state)
{
	SWEEP(*state, FAULT_MEMORY, FAULT_ALL, WHERRY_NOMEM);
}

static const struct {
	const char *name;
	void (*run)(void **state);
} tests_of_each[] = {
	{"each database call fails", each_database_call_fails},
	{"nobody asks why a database call fails",
	 each_database_call_fails_and_nobody_asks_why},
	{"each answer is lost", each_answer_is_lost},
	{"each transaction is undone", each_transaction_is_undone},
	{"each allocation fails", each_allocation_fails},
	{"no memory is left from each allocation on",
	 no_memory_is_left_from_each_allocation_on},
};

enum { TESTS_OF_EACH = sizeof(tests_of_each) / sizeof(*tests_of_each) };

static struct CMUnitTest *tests; /* TESTS_OF_EACH for each operation */
static char (*names)[160];
static size_t n_tests;

static void make_room(size_t n)
{
	tests = calloc(n * TESTS_OF_EACH, sizeof(*tests));
	names = calloc(n * TESTS_OF_EACH, sizeof(*names));
	if (!tests || !names)
		abort();
}

static void add_tests(const operation *op)
{
	const char *only = getenv("WHERRY_ONLY"); /* for one at a debugger's hands */

	for (size_t j = 0; j < TESTS_OF_EACH; j++) {
		char *name = names[n_tests];

		/* It is the application's transaction, or the caller begins again. */
		if (tests_of_each[j].run == each_transaction_is_undone &&
		    op->flags & (OPERATION_JOINS | OPERATION_ONCE))
			continue;
		(void)snprintf(name, sizeof(names[0]),
			       "%.50s works or changes nothing when %.44s", op->name,
			       tests_of_each[j].name);
		tests[n_tests] = (struct CMUnitTest){name, tests_of_each[j].run, NULL,
						     NULL, (void *)(uintptr_t)op};
		n_tests += !only || strstr(name, only);
	}
}

int main(void)
{
	int status;

	fault_set_up();
	make_room(n_operations + n_queue_operations + n_inbox_operations +
		  n_subscription_operations + n_schedule_operations +
		  n_delayed_operations);
	for (size_t i = 0; i < n_operations; i++)
		add_tests(&operations[i]);
	for (size_t i = 0; i < n_queue_operations; i++)
		add_tests(&queue_operations[i]);
	for (size_t i = 0; i < n_inbox_operations; i++)
		add_tests(&inbox_operations[i]);
	for (size_t i = 0; i < n_subscription_operations; i++)
		add_tests(&subscription_operations[i]);
	for (size_t i = 0; i < n_schedule_operations; i++)
		add_tests(&schedule_operations[i]);
	for (size_t i = 0; i < n_delayed_operations; i++)
		add_tests(&delayed_operations[i]);
	status = _cmocka_run_group_tests("operations", tests, n_tests, make_template,
					 drop_template);
	free(tests);
	free(names);
	return status;
}
