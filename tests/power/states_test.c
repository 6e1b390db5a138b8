/*
 * The power fails at every moment of a run, and what the disk may then hold is opened.
 *
 * WHERRY_POWER_SEED: which runs, as printed; WHERRY_POWER_RUNS: how many of each plan (1).
 */
#include "run.h"

enum {
	STEPS = 130, /* of a run */
	STATES = 500 /* to look at, about */
};

static const char *const moods[DISK_MOODS] = {"none", "all", "ordered", "wild"};

/* One state of the disk, and what is found in it. */
typedef struct ruin {
	const power_run *run;
	uint64_t seed;
	size_t moment;
	disk_mood mood;
	char folder[80], path[120];
	sqlite3 *db;
	bool there[POWER_MESSAGES]; /* in the ledger */
	bool told[POWER_MESSAGES];  /* delivered, before the loss or after */
	int last[POWER_KEYS];       /* told of each key */
	bool disorder;
} ruin;

static void found(const ruin *s, bool holds, const char *sentence)
{
	if (holds)
		return;
	print_error(
		"does not hold: %s\n"
		"  plan %s, WHERRY_POWER_SEED=%llu, after %zu of %zu notes, mood %s\n",
		sentence, s->run->plan->name, (unsigned long long)s->seed, s->moment,
		disk_length(s->run->disk), moods[s->mood]);
	fail();
}

/* ---- what was told ---- */

static void tell(ruin *s, int number)
{
	const power_message *m = &s->run->messages[number];

	if (s->told[number])
		return;
	s->told[number] = true;
	if (m->key == POWER_KEYS || !s->there[number])
		return;
	s->disorder = s->disorder || m->n < s->last[m->key];
	s->last[m->key] = m->n;
}

static void tell_the_past(ruin *s)
{
	for (int i = 0; i < s->run->n_deliveries; i++)
		if (s->run->deliveries[i].moment <= s->moment)
			tell(s, s->run->deliveries[i].message);
}

/* ---- what is there ---- */

static void check_sound(const ruin *s)
{
	char text[80];

	power_text(s->db, "PRAGMA integrity_check", text, sizeof(text));
	if (strcmp(text, "ok") != 0)
		print_error("%s\n", text);
	found(s, strcmp(text, "ok") == 0, "the database is sound");
}

/* All tables are as they were after one of the commits; not before the last that was to
 * be on disk, and not after the one that was under way. */
static void check_past(const ruin *s)
{
	const power_shot *shots = s->run->shots;
	uint64_t hash = power_hash(s->db);
	int i = 0, from = 0, n = s->run->n_shots;

	for (i = 0; i < n && shots[i].moment <= s->moment; i++)
		if (shots[i].full)
			from = i;
	n = i < n ? i + 1 : n;
	for (i = from; i < n && shots[i].hash != hash; i++)
		;
	if (i == n) {
		for (i = 0; i < s->run->n_shots && shots[i].hash != hash; i++)
			;
		print_error("it is as after commit %d, not %d to %d\n",
			    i < s->run->n_shots ? i : -1, from, n - 1);
		found(s, false, "the database is as it was after a commit");
	}
}

static void read_ledger(ruin *s)
{
	sqlite3_stmt *stmt = NULL;

	assert_int_equal(
		sqlite3_prepare_v2(s->db, "SELECT id FROM ledger", -1, &stmt, NULL),
		SQLITE_OK);
	while (sqlite3_step(stmt) == SQLITE_ROW)
		s->there[sqlite3_column_int(stmt, 0)] = true;
	assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
}

static void check_transactions(const ruin *s)
{
	static int rows[POWER_TXS];
	bool gap = false;

	memset(rows, 0, sizeof(rows));
	for (int i = 0; i < s->run->n_messages; i++)
		rows[s->run->messages[i].tx] += s->there[i];
	for (int i = 0; i < s->run->n_txs; i++) {
		const power_tx *tx = &s->run->txs[i];
		bool returned = tx->ended <= s->moment;

		found(s, !rows[i] || rows[i] == tx->n,
		      "a transaction is there whole or not");
		found(s, !rows[i] || tx->committed, "what was rolled back is not there");
		found(s, rows[i] || !tx->committed || !tx->full || !returned,
		      "what was committed with FULL is there");
		found(s, !rows[i] || !gap,
		      "what is there was committed before what is not");
		gap = gap || (tx->committed && !rows[i]);
	}
}

/* Messages that a query names by their message_id. */
static void for_each(ruin *s, const char *sql, const char *sentence,
		     bool (*holds)(const ruin *s, int number))
{
	sqlite3_stmt *stmt = NULL;

	assert_int_equal(sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL), SQLITE_OK);
	while (sqlite3_step(stmt) == SQLITE_ROW)
		found(s, holds(s, sqlite3_column_int(stmt, 0)), sentence);
	assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
}

static bool never(const ruin *s, int number)
{
	return false;
}

static bool was_told(const ruin *s, int number)
{
	return s->told[number];
}

static void check_messages(ruin *s)
{
	for_each(s, "SELECT message_id FROM outbox EXCEPT SELECT id FROM ledger",
		 "a message is there just when its business row is", never);
	for_each(s, "SELECT id FROM ledger EXCEPT SELECT message_id FROM outbox",
		 "only what was delivered is purged", was_told);
	for_each(
		s,
		"SELECT message_id FROM outbox WHERE id <= (SELECT high FROM outbox_progress) "
		"AND id NOT IN (SELECT id FROM outbox_exception)",
		"what is done was delivered", was_told);
}

/* With FULL, a message that left is known at home. */
static void check_unborn(const ruin *s)
{
	for (int i = 0; i < s->run->n_messages; i++)
		found(s,
		      !s->told[i] || s->there[i] ||
			      !s->run->txs[s->run->messages[i].tx].full,
		      "nothing was delivered that was not committed for good");
}

/* ---- afterwards ---- */

static wherry_verdict take(void *ctx, const wherry_message *msg, char *reason, size_t cap)
{
	tell(ctx, (int)strtol(msg->message_id, NULL, 10));
	return WHERRY_DELIVERED;
}

static void relay_the_rest(ruin *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_filter dead = WHERRY_OUTBOX_FILTER();
	wherry_outcome outcome;
	wherry_publisher *pub;
	wherry_relay *relay;
	wherry_outbox *outbox;
	wherry_db *db;
	char url[140];

	(void)snprintf(url, sizeof(url), "sqlite:%s", s->path);
	WHERRY_PASS(wherry_config_set(s->run->config, "db.synchronous", "normal", &err));
	WHERRY_PASS(wherry_db_open(url, s->run->config, &db, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	WHERRY_PASS(wherry_outbox_resume(outbox, &err));
	WHERRY_PASS(wherry_outbox_retry(outbox, &dead, NULL, &err));
	WHERRY_PASS(wherry_publisher_open("memory:", s->run->config, &pub, &err));
	wherry_memory_answer(pub, take, s);
	WHERRY_PASS(wherry_relay_open_on(db, pub, s->run->config, &relay, &err));
	WHERRY_PASS(wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, &outcome, &err));
	found(s, outcome == WHERRY_EMPTY, "a relay finds an end");
	wherry_relay_close(relay);
	wherry_publisher_close(pub);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
}

static void check_delivered(const ruin *s)
{
	for (int i = 0; i < s->run->n_messages; i++)
		found(s, !s->there[i] || s->told[i], "all that is there is delivered");
	found(s, !s->disorder, "the order of each key is kept");
}

/* ---- one state, and all of them ---- */

static void check_state(power_run *run, uint64_t seed, size_t moment, disk_mood mood,
			uint64_t *random)
{
	static ruin s;
	bool born = false; /* the tables are there */

	memset(&s, 0, sizeof(s));
	s.run = run;
	s.seed = seed;
	s.moment = moment;
	s.mood = mood;
	(void)snprintf(s.folder, sizeof(s.folder), "%s", run->temp.dir);
	(void)snprintf(s.path, sizeof(s.path), "%s/power.db", s.folder);
	disk_lose(run->disk, moment, mood, random, s.folder);
	assert_int_equal(sqlite3_open(s.path, &s.db), SQLITE_OK);
	check_sound(&s);
	check_past(&s);
	if (power_number(s.db,
			 "SELECT count(*) FROM sqlite_schema WHERE name = 'ledger'")) {
		read_ledger(&s);
		tell_the_past(&s);
		check_transactions(&s);
		check_messages(&s);
		check_unborn(&s);
		born = true;
	}
	assert_int_equal(sqlite3_close(s.db), SQLITE_OK);
	if (born && disk_pick(random, 3) == 0) { /* the slowest part */
		relay_the_rest(&s);
		check_delivered(&s);
	}
}

static size_t count_syncs(const power_run *run)
{
	size_t n = 0;

	for (size_t at = 0; at < disk_length(run->disk); at++)
		n += disk_kind_at(run->disk, at) >= DISK_SYNC;
	return n;
}

/* Around the syncs, and here and there in between; returns how many. */
static size_t check_all(power_run *run, uint64_t seed)
{
	size_t n = 0, length = disk_length(run->disk), syncs = count_syncs(run);
	uint64_t random = seed;

	for (size_t at = 0; at <= length; at++) {
		bool sync = at < length && disk_kind_at(run->disk, at) >= DISK_SYNC;
		size_t one_in = sync ? syncs * 4 / (STATES * 3) : length * 4 / STATES;

		if (one_in && disk_pick(&random, one_in) != 0)
			continue;
		for (size_t times = 1 + (!one_in ? disk_pick(&random, 2) : 0); times;
		     times--, n++) {
			size_t mood = disk_pick(&random, DISK_MOODS + 4);

			check_state(run, seed, at,
				    mood < DISK_MOODS ? (disk_mood)mood : DISK_WILD,
				    &random);
		}
	}
	return n;
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static power_run run;

static int clear_run(void **state)
{
	power_clear(&run); /* what a failure left */
	return 0;
}

static void lose_power(const power_plan *plan)
{
	uint64_t seed = number_of("WHERRY_POWER_SEED", wh_random(&wh_env_system) >> 32);
	uint64_t runs = number_of("WHERRY_POWER_RUNS", 1);

	for (uint64_t i = 0; i < runs; i++, seed++) {
		size_t n;

		power_record(&run, plan, seed, STEPS);
		n = check_all(&run, seed);
		print_message("# %s, WHERRY_POWER_SEED=%llu: %d commits, %d deliveries, "
			      "%zu notes, %zu states\n",
			      plan->name, (unsigned long long)seed, run.n_shots,
			      run.n_deliveries, disk_length(run.disk), n);
		power_clear(&run);
	}
}

static void a_power_loss_takes_no_full_commit(void **state)
{
	static const power_plan plan = {"wal-full", true, "FULL", "full", "full"};

	lose_power(&plan);
}

static void a_power_loss_takes_only_the_last_normal_commits(void **state)
{
	static const power_plan plan = {"wal-normal", true, "NORMAL", "normal", "normal"};

	lose_power(&plan);
}

static void a_full_commit_secures_the_normal_ones_before_it(void **state)
{
	static const power_plan plan = {"wal-mixed", true, "NORMAL", "normal", "full"};

	lose_power(&plan);
}

static void a_power_loss_takes_no_commit_of_a_rollback_journal(void **state)
{
	static const power_plan plan = {"journal", false, "EXTRA", "full", "full"};

	lose_power(&plan);
}

#define POWER_TEST(test) cmocka_unit_test_teardown(test, clear_run)

int main(void)
{
	const struct CMUnitTest tests[] = {
		POWER_TEST(a_power_loss_takes_no_full_commit),
		POWER_TEST(a_power_loss_takes_only_the_last_normal_commits),
		POWER_TEST(a_full_commit_secures_the_normal_ones_before_it),
		POWER_TEST(a_power_loss_takes_no_commit_of_a_rollback_journal),
	};

	return cmocka_run_group_tests_name("power", tests, NULL, NULL);
}
