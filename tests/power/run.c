#include "run.h"

#include "config/settings.h"
#include "db/trace.h"

static power_run *of(void *ctx)
{
	return ctx;
}

static size_t pick(power_run *run, size_t n)
{
	return disk_pick(&run->random, n);
}

/* ---- clock and randomness ---- */

static int64_t run_now(void *ctx)
{
	return disk_clock_us(of(ctx)->disk);
}

static uint64_t run_random(void *ctx)
{
	return disk_random(&of(ctx)->random);
}

static void run_sleep(void *ctx, int64_t us)
{
	disk_pass(of(ctx)->disk, us);
}

/* ---- looking into a database ---- */

void power_sql(sqlite3 *handle, const char *sql)
{
	char *why = NULL;

	if (sqlite3_exec(handle, sql, NULL, NULL, &why) == SQLITE_OK)
		return;
	print_error("%s: %s\n", sql, why ? why : "out of memory");
	sqlite3_free(why);
	fail();
}

static sqlite3_stmt *prepare(sqlite3 *handle, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v2(handle, sql, -1, &stmt, NULL) != SQLITE_OK) {
		print_error("%s: %s\n", sql, sqlite3_errmsg(handle));
		fail();
	}
	return stmt;
}

int64_t power_number(sqlite3 *handle, const char *sql)
{
	char text[32];

	power_text(handle, sql, text, sizeof(text));
	return strtoll(text, NULL, 10);
}

void power_text(sqlite3 *handle, const char *sql, char *out, size_t cap)
{
	sqlite3_stmt *stmt = prepare(handle, sql);

	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	(void)snprintf(out, cap, "%s", (const char *)sqlite3_column_text(stmt, 0));
	assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
}

/* FNV-1a */
static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * 0x100000001b3u;
	return (hash ^ len) * 0x100000001b3u;
}

static uint64_t hash_rows(sqlite3 *handle, const char *sql, uint64_t hash)
{
	sqlite3_stmt *stmt = prepare(handle, sql);

	while (sqlite3_step(stmt) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(stmt); i++) {
			const void *bytes = sqlite3_column_blob(stmt, i);
			int type = sqlite3_column_type(stmt, i);

			hash = mix(hash, &type, sizeof(type));
			hash = mix(hash, bytes, (size_t)sqlite3_column_bytes(stmt, i));
		}
		hash = mix(hash, "\n", 1);
	}
	assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
	return hash;
}

uint64_t power_hash(sqlite3 *handle)
{
	sqlite3_stmt *tables =
		prepare(handle, "SELECT name FROM sqlite_schema WHERE type = 'table' "
				"AND name NOT LIKE 'sqlite_stat%' ORDER BY name");
	uint64_t hash = 0xcbf29ce484222325u;

	hash = hash_rows(handle,
			 "SELECT type, name, sql FROM sqlite_schema ORDER BY name", hash);
	while (sqlite3_step(tables) == SQLITE_ROW) {
		char sql[200];

		(void)snprintf(sql, sizeof(sql), "SELECT * FROM \"%s\"",
			       (const char *)sqlite3_column_text(tables, 0));
		hash = hash_rows(handle, sql, hash);
	}
	assert_int_equal(sqlite3_finalize(tables), SQLITE_OK);
	return hash;
}

/* After a commit, perhaps: what is there now? */
static void shoot(power_run *run, bool full)
{
	int64_t version = power_number(run->watcher, "PRAGMA data_version");

	if (run->n_shots && version == run->seen)
		return;
	run->seen = version;
	assert_true(run->n_shots < POWER_SHOTS);
	run->shots[run->n_shots++] = (power_shot){
		.hash = power_hash(run->watcher),
		.moment = disk_length(run->disk),
		.full = full,
	};
}

/* ---- connections ---- */

static wherry_code after_call(void *ctx, const char *op, const char *what,
			      wherry_code code, int64_t took_us, wherry_error *err)
{
	const power_side *side = ctx;

	if (!wherry_db_in_transaction(side->inner))
		shoot(side->run, side->full);
	return code;
}

static sqlite3 *open_plain(const power_run *run)
{
	sqlite3 *handle = NULL;

	assert_int_equal(sqlite3_open(run->temp.path, &handle), SQLITE_OK);
	return handle;
}

/* A connection of Wherry's own.  One that is opened while another reads the file cannot put
 * it into WAL mode. */
static void open_side(power_run *run, power_side *side, const char *synchronous)
{
	wh_trace trace = {.after = after_call, .ctx = side};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_db_options options;

	side->run = run;
	side->full = strcmp(synchronous, "full") == 0;
	WHERRY_PASS(wherry_config_set(run->config, "db.synchronous", synchronous, &err));
	options = wh_db_options_of(run->config, &run->env);
	if (!run->plan->wal)
		power_sql(run->watcher, "BEGIN; SELECT count(*) FROM sqlite_schema");
	WHERRY_PASS(wh_db_open(run->url, &options, &side->inner, &err));
	if (!run->plan->wal)
		power_sql(run->watcher, "COMMIT");
	WHERRY_PASS(wh_db_script(side->inner, "PRAGMA wal_autocheckpoint=12", &err));
	WHERRY_PASS(wh_db_trace(side->inner, &trace, &side->db, &err));
}

static void open_app(power_run *run)
{
	char sql[80];

	run->app = open_plain(run);
	(void)snprintf(sql, sizeof(sql),
		       "PRAGMA synchronous=%s; PRAGMA wal_autocheckpoint=20",
		       run->plan->synchronous);
	power_sql(run->app, sql);
}

static wherry_verdict answer(void *ctx, const wherry_message *msg, char *reason,
			     size_t cap)
{
	power_run *run = of(ctx);
	int number = (int)strtol(msg->message_id, NULL, 10);

	(void)snprintf(reason, cap, "the seed said so");
	switch (pick(run, 60)) {
	case 0:
	case 1:
	case 2:
		return WHERRY_RETRY;
	case 3:
		return WHERRY_REJECTED;
	case 4:
		return WHERRY_THROTTLED;
	default:
		break;
	}
	assert_true(run->n_deliveries < POWER_MESSAGES * 2);
	run->deliveries[run->n_deliveries++] =
		(power_delivery){number, disk_length(run->disk)};
	return WHERRY_DELIVERED;
}

static void open_relay(power_run *run)
{
	wherry_error err = WHERRY_ERROR_INIT;

	open_side(run, &run->relays, run->plan->relay);
	WHERRY_PASS(wherry_publisher_open("memory:", run->config, &run->pub, &err));
	wherry_memory_answer(run->pub, answer, run);
	WHERRY_PASS(wherry_relay_open_on(run->relays.db, run->pub, run->config,
					 &run->relay, &err));
}

static void close_relay(power_run *run)
{
	wherry_relay_close(run->relay);
	wherry_publisher_close(run->pub);
	wherry_db_close(run->relays.db);
}

static void open_all(power_run *run)
{
	wherry_error err = WHERRY_ERROR_INIT;

	open_side(run, &run->own, run->plan->own);
	WHERRY_PASS(wherry_outbox_open(run->own.db, "outbox", &run->outbox, &err));
	open_app(run);
	open_relay(run);
}

/* The last to close the file deletes its log. */
static void close_all(power_run *run)
{
	close_relay(run);
	wherry_outbox_close(run->outbox);
	wherry_db_close(run->own.db);
	shoot(run, false);
	assert_int_equal(sqlite3_close(run->app), SQLITE_OK);
}

/* ---- producers ---- */

static void put_row(power_run *run, const power_message *m, const char *id, size_t fill)
{
	char sql[400], key[16] = "NULL";

	if (m->key < POWER_KEYS)
		(void)snprintf(key, sizeof(key), "'%d'", m->key);
	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO outbox(message_id, topic, partition_key, payload) "
		       "VALUES ('%s', 'power', %s, printf('%%0*d', %d, 7))",
		       id, key, (int)fill + 1);
	power_sql(run->app, sql);
}

static void put_own(power_run *run, const power_message *m, const char *id, size_t fill)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message msg = WHERRY_MESSAGE(.topic = "power", .message_id = id);
	static char body[8192];
	char key[16];

	memset(body, 'x', sizeof(body));
	(void)snprintf(key, sizeof(key), "%d", m->key);
	msg.key = m->key < POWER_KEYS ? key : NULL;
	msg.body = body;
	msg.body_len = fill;
	WHERRY_PASS(wherry_outbox_enqueue(run->outbox, &msg, 0, NULL, &err));
}

/* A business row beside its message, by one kind of producer or the other. */
static void send(power_run *run, bool own)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int number = run->n_messages++;
	power_message *m = &run->messages[number];
	size_t fill = pick(run, 12) ? pick(run, 200) : pick(run, 8000);
	char id[24], sql[160];

	assert_true(number < POWER_MESSAGES);
	m->tx = run->n_txs - 1;
	m->key = (int)pick(run, POWER_KEYS + 1);
	m->n = ++run->next[m->key];
	run->txs[m->tx].n++;
	(void)snprintf(id, sizeof(id), "%d", number);
	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO ledger(id, tx, k, n) VALUES ('%s', %d, %d, %d)", id,
		       m->tx, m->key, m->n);
	if (own) {
		WHERRY_PASS(wh_db_script(run->own.db, sql, &err));
		put_own(run, m, id, fill);
	} else {
		put_row(run, m, id, fill);
		power_sql(run->app, sql);
	}
}

static void transact(power_run *run)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool own = pick(run, 2), keep = pick(run, 5) != 0;
	int before[POWER_KEYS + 1];
	power_tx *tx = &run->txs[run->n_txs++];

	assert_true(run->n_txs <= POWER_TXS);
	memcpy(before, run->next, sizeof(before));
	if (own)
		WHERRY_PASS(wherry_db_begin(run->own.db, &err));
	else
		power_sql(run->app, "BEGIN IMMEDIATE");
	for (size_t i = 1 + pick(run, 5); i; i--)
		send(run, own);
	if (own && keep)
		WHERRY_PASS(wherry_db_commit(run->own.db, &err));
	else if (own)
		wherry_db_rollback(run->own.db);
	else
		power_sql(run->app, keep ? "COMMIT" : "ROLLBACK");
	tx->full = own ? run->own.full : strcmp(run->plan->synchronous, "NORMAL") != 0;
	tx->committed = keep;
	tx->ended = disk_length(run->disk);
	shoot(run, tx->full);
	if (!keep)
		memcpy(run->next, before, sizeof(before));
}

/* ---- the others ---- */

static void step_relay(power_run *run)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t wake_us;
	bool finished;

	for (size_t i = 1 + pick(run, 6); i; i--) {
		WHERRY_PASS(wherry_relay_step(run->relay, &wake_us, &finished, &err));
		disk_pass(run->disk, (int64_t)pick(run, 60000));
	}
}

static void operate(power_run *run)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_filter all = WHERRY_OUTBOX_FILTER();

	switch (pick(run, 6)) {
	case 0:
		WHERRY_PASS(wherry_outbox_pause(run->outbox, &err));
		step_relay(run);
		WHERRY_PASS(wherry_outbox_resume(run->outbox, &err));
		break;
	case 1:
	case 2:
	case 3:
		WHERRY_PASS(wherry_outbox_retry(run->outbox, &all, NULL, &err));
		break;
	default:
		WHERRY_PASS(wherry_outbox_purge(run->outbox, 0,
						1 + (int64_t)pick(run, 20),
						(int64_t)pick(run, 60), NULL, &err));
	}
}

/* Sometimes while somebody reads, so that not all of the log can be taken over. */
static void checkpoint(power_run *run)
{
	static const char *const kinds[] = {"PASSIVE", "FULL", "RESTART", "TRUNCATE"};
	bool reading = run->plan->wal && pick(run, 2);
	char sql[60];

	if (reading)
		power_sql(run->watcher, "BEGIN; SELECT count(*) FROM outbox");
	if (reading)
		transact(run);
	(void)snprintf(sql, sizeof(sql), "PRAGMA wal_checkpoint(%s)",
		       kinds[pick(run, 4)]);
	power_sql(run->app, sql);
	if (reading)
		power_sql(run->watcher, "COMMIT");
	shoot(run, false);
}

static void go_on(power_run *run)
{
	size_t what = pick(run, 100);

	if (what < 45)
		transact(run);
	else if (what < 86)
		step_relay(run);
	else if (what < 91)
		operate(run);
	else if (what < 96)
		checkpoint(run);
	else if (what < 98) {
		close_relay(run);
		open_relay(run);
	} else {
		close_all(run);
		open_all(run);
	}
	disk_pass(run->disk, (int64_t)pick(run, 100000));
}

/* ---- the run ---- */

/* In memory where that can be: no power fails but the one that is made up. */
static void make_folder(power_run *run)
{
	wherry_temp *temp = &run->temp;

	(void)snprintf(temp->dir, sizeof(temp->dir), "/dev/shm/wherry-test-XXXXXX");
	if (mkdtemp(temp->dir))
		(void)snprintf(temp->path, sizeof(temp->path), "%s/power.db", temp->dir);
	else
		(void)wherry_temp_make(temp, "power.db");
	(void)snprintf(run->url, sizeof(run->url), "sqlite:%s", temp->path);
}

static void set_up(power_run *run)
{
	static const char *const settings[][2] = {
		{"db.create", "on"},          {"db.busy_timeout", "0"},
		{"relay.window", "12"},       {"relay.batch", "5"},
		{"relay.lease", "2s"},        {"relay.idle_interval", "100ms"},
		{"relay.ack_delay", "0"},     {"relay.sweep", "1s"},
		{"relay.purge_every", "1s"},  {"outbox.retention", "4s"},
		{"retry.base", "50ms"},       {"retry.cap", "400ms"},
		{"relay.down_after", "1000"}, {"relay.on_dead", "park"},
	};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_new(&run->config, &err));
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		WHERRY_PASS(wherry_config_set(run->config, settings[i][0], settings[i][1],
					      &err));
	run->env = (wh_env){
		.now_us = run_now,
		.monotonic_us = run_now,
		.random = run_random,
		.sleep_us = run_sleep,
		.ctx = run,
	};
	make_folder(run);
}

/* The tables, too, are made before the eyes of the watcher. */
static void begin(power_run *run)
{
	wherry_error err = WHERRY_ERROR_INIT;

	run->watcher = open_plain(run);
	shoot(run, false);
	if (!run->plan->wal) {
		open_app(run);
		power_sql(run->app, "CREATE TABLE first(n)");
		shoot(run, true);
		assert_int_equal(sqlite3_close(run->app), SQLITE_OK);
	}
	open_side(run, &run->own, run->plan->own);
	WHERRY_PASS(wherry_outbox_create(run->own.db, "outbox", NULL, &err));
	WHERRY_PASS(wh_db_script(run->own.db,
				 "CREATE TABLE ledger(id TEXT PRIMARY KEY, tx INTEGER, "
				 "k INTEGER, n INTEGER)",
				 &err));
	wherry_db_close(run->own.db);
	open_all(run);
}

void power_record(power_run *run, const power_plan *plan, uint64_t seed, int steps)
{
	char mode[16];

	memset(run, 0, sizeof(*run));
	run->plan = plan;
	run->random = seed;
	set_up(run);
	run->disk = disk_record(seed ^ 0x5bd1e995u);
	begin(run);
	for (int i = 0; i < steps; i++)
		go_on(run);
	power_text(run->watcher, "PRAGMA journal_mode", mode, sizeof(mode));
	assert_string_equal(mode, plan->wal ? "wal" : "delete");
	close_all(run);
	assert_int_equal(sqlite3_close(run->watcher), SQLITE_OK);
	disk_stop(run->disk);
}

void power_clear(power_run *run)
{
	if (!run->disk)
		return;
	disk_stop(run->disk);
	disk_free(run->disk);
	run->disk = NULL;
	wherry_config_free(run->config);
	wherry_temp_clear(&run->temp);
}
