/*
 * No commit is missed by a relay that falls asleep.
 *
 * A writer on a thread of its own commits about when the relay takes the sleeper's lock,
 * looks for the last time and sleeps.  The relay's clock stands while it sleeps, and all
 * that goes by it is an hour away: what does not wake it is not delivered.
 *
 * WHERRY_WAKING_INSERTS: how many for each test, 800 unless said otherwise.
 */
#include "wherry_test.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include <wherry/wherry.h>

#include "base/env.h"
#include "db/driver.h"
#include "postgres/server.h"

enum { RELAYS_MOST = 2, BOUND_MS = 60000, ASLEEP_US = 60 * 1000000 };

typedef struct sleeper {
	wherry_db *db;
	wherry_publisher *pub;
	wherry_relay *relay;
	int64_t wake_us;
} sleeper;

/* What the writer does next: wait, write, wait, commit. */
typedef struct job {
	int table;
	bool repeatable;
	int64_t before_ns, between_ns;
} job;

typedef struct waking {
	postgres_place place;
	wherry_config *config;
	sleeper sleepers[RELAYS_MOST];
	int n_sleepers;
	int64_t offset_us; /* by which the relays' clock is ahead */
	wh_env env;
	uint64_t random;
	pthread_t thread;
	sem_t go;
	job job;
	atomic_bool end, failed;
	atomic_long committed;
	long asleep,
		awake; /* inserts that were delivered by one that slept, or did not */
} waking;

static const char *const tables[RELAYS_MOST] = {"outbox", "other"};

/* ---- time ---- */

static int64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int64_t waking_now(void *ctx)
{
	return now_ns() / 1000 + ((waking *)ctx)->offset_us;
}

static int64_t waking_wall(void *ctx)
{
	return wh_now(&wh_env_system);
}

static uint64_t waking_random(void *ctx)
{
	waking *k = ctx;

	k->random = k->random * 6364136223846793005u + 1442695040888963407u;
	return k->random >> 11;
}

static void waking_sleep(void *ctx, int64_t us)
{
	((waking *)ctx)->offset_us += us;
}

/* Shorter than a thread can be put to sleep. */
static void spin(int64_t ns)
{
	int64_t by = now_ns() + ns;

	while (now_ns() < by)
		;
}

/* ---- the writer ---- */

static bool write_one(PGconn *conn, const job *j)
{
	static const char *const begin[] = {
		"BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"};
	char sql[120];
	bool done;

	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO %s(topic, partition_key, payload) "
		       "VALUES ('t', 'k', '{}')",
		       tables[j->table]);
	if (!j->repeatable && !j->between_ns) {
		spin(j->before_ns);
		return postgres_exec(conn, sql, NULL, 0);
	}
	done = postgres_exec(conn, begin[j->repeatable], NULL, 0);
	spin(j->before_ns);
	done = done && postgres_exec(conn, sql, NULL, 0);
	spin(j->between_ns);
	return done && postgres_exec(conn, "COMMIT", NULL, 0);
}

static void *writer(void *arg)
{
	waking *k = arg;
	PGconn *conn = PQconnectdb(k->place.url);

	while (sem_wait(&k->go) == 0 && !k->end) {
		if (!write_one(conn, &k->job))
			k->failed = true;
		k->committed++;
	}
	PQfinish(conn);
	return NULL;
}

/* ---- the relays ---- */

static void open_sleeper(waking *k, int i)
{
	wh_db_options options = wh_db_options_of(k->config, &k->env);
	wherry_error err = WHERRY_ERROR_INIT;
	sleeper *s = &k->sleepers[i];

	WHERRY_PASS(wherry_config_set(k->config, "relay.table", tables[i], &err));
	WHERRY_PASS(wh_db_open(k->place.url, &options, &s->db, &err));
	WHERRY_PASS(wherry_outbox_create(s->db, tables[i], NULL, &err));
	WHERRY_PASS(wherry_publisher_open("null:", k->config, &s->pub, &err));
	WHERRY_PASS(wherry_relay_open_on(s->db, s->pub, k->config, &s->relay, &err));
}

static long delivered(const waking *k)
{
	wherry_relay_stats stats;
	long n = 0;

	for (int i = 0; i < k->n_sleepers; i++) {
		wherry_relay_get_stats(k->sleepers[i].relay, &stats,
				       sizeof(wherry_relay_stats));
		n += stats.delivered;
	}
	return n;
}

/* Each does what it can at once; when the first wants to be stepped again. */
static int64_t step_all(waking *k)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t wake_us = WH_NEVER;
	bool finished;

	for (int i = 0; i < k->n_sleepers; i++) {
		sleeper *s = &k->sleepers[i];

		WHERRY_PASS(wherry_relay_step(s->relay, &s->wake_us, &finished, &err));
		assert_false(finished);
		if (s->wake_us < wake_us)
			wake_us = s->wake_us;
	}
	return wake_us;
}

/* Until a descriptor says so. */
static bool wait_asleep(const waking *k)
{
	struct pollfd fds[RELAYS_MOST * WHERRY_RELAY_FDS];
	size_t n = 0;

	for (int i = 0; i < k->n_sleepers; i++)
		n += wherry_relay_fds(k->sleepers[i].relay, fds + n);
	return poll(fds, n, BOUND_MS) > 0;
}

/* Step until so much is delivered; true: one was asleep in between. */
static bool step_until(waking *k, long n)
{
	bool slept = false;

	while (delivered(k) < n) {
		int64_t wake_us = step_all(k), left_us = wake_us - waking_now(k);

		if (delivered(k) >= n || left_us <= 0)
			continue;
		if (left_us < ASLEEP_US) {
			k->offset_us += left_us;
			continue;
		}
		slept = true;
		if (!wait_asleep(k))
			fail_msg("message %ld waits, %ld are committed", n, k->committed);
	}
	return slept;
}

/* How long it takes to fall asleep; *out_n: that much is delivered. */
static int64_t fall_asleep(waking *k)
{
	int64_t began = now_ns();

	for (;;) {
		int64_t left_us = step_all(k) - waking_now(k);

		if (left_us >= ASLEEP_US)
			return now_ns() - began;
		if (left_us > 0)
			k->offset_us += left_us;
	}
}

/* ---- a test ---- */

static void set_up(waking *k)
{
	static const char *const settings[][2] = {
		{"db.create", "on"},   {"db.synchronous", "normal"},
		{"relay.lease", "1h"}, {"relay.idle_interval", "1h"},
		{"relay.sweep", "1h"}, {"relay.purge_every", "1h"},
	};
	wherry_error err = WHERRY_ERROR_INIT;

	postgres_make(&k->place);
	k->random = (uint64_t)now_ns();
	k->env = (wh_env){
		.now_us = waking_wall,
		.monotonic_us = waking_now,
		.random = waking_random,
		.sleep_us = waking_sleep,
		.ctx = k,
	};
	WHERRY_PASS(wherry_config_new(&k->config, &err));
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		WHERRY_PASS(wherry_config_set(k->config, settings[i][0], settings[i][1],
					      &err));
	for (int i = 0; i < k->n_sleepers; i++)
		open_sleeper(k, i);
	assert_int_equal(sem_init(&k->go, 0, 0), 0);
	assert_int_equal(pthread_create(&k->thread, NULL, writer, k), 0);
}

static void tear_down(waking *k)
{
	k->end = true;
	(void)sem_post(&k->go);
	(void)pthread_join(k->thread, NULL);
	(void)sem_destroy(&k->go);
	for (int i = 0; i < k->n_sleepers; i++) {
		wherry_relay_close(k->sleepers[i].relay);
		wherry_publisher_close(k->sleepers[i].pub);
		wherry_db_close(k->sleepers[i].db);
	}
	wherry_config_free(k->config);
	postgres_drop(&k->place);
}

static int64_t up_to(waking *k, int64_t most)
{
	return (int64_t)(waking_random(k) % (uint64_t)(most + 1));
}

static long inserts(void)
{
	const char *text = getenv("WHERRY_WAKING_INSERTS");
	long n = text ? strtol(text, NULL, 10) : 0;

	return n > 0 ? n : 800;
}

/* The isolation of a transaction: 0 READ COMMITTED, 1 REPEATABLE READ, 2 either. */
static void run(int n_sleepers, int isolation)
{
	static waking k;
	int64_t lasts_ns;
	long n = inserts();

	k = (waking){.n_sleepers = n_sleepers};
	set_up(&k);
	(void)fall_asleep(&k);
	k.asleep = k.awake = 0;
	lasts_ns = 1000000;
	for (long i = 1; i <= n; i++) {
		bool slept;

		k.job = (job){
			.table = (int)up_to(&k, n_sleepers - 1),
			.repeatable = isolation == 2 ? up_to(&k, 1) : isolation,
			.before_ns = up_to(&k, lasts_ns),
			.between_ns = up_to(&k, 2) ? 0 : up_to(&k, lasts_ns / 2),
		};
		(void)sem_post(&k.go);
		slept = step_until(&k, i);
		k.asleep += slept;
		k.awake += !slept;
		if (i % 16 == 0) /* so that about half come too late to be found awake */
			lasts_ns = 3 * fall_asleep(&k) / 2;
		assert_false(k.failed);
	}
	print_message("# %ld inserts: %ld met a relay awake, %ld asleep\n", n, k.awake,
		      k.asleep);
	assert_int_equal(delivered(&k), n);
	assert_true(k.awake > 0 && k.asleep > 0); /* both, or it was not the moment */
	tear_down(&k);
}

WHERRY_TEST(an_insert_in_read_committed_never_waits_for_the_poll)
{
	run(1, 0);
}

WHERRY_TEST(an_insert_in_repeatable_read_never_waits_for_the_poll)
{
	run(1, 1);
}

WHERRY_TEST(an_insert_never_waits_where_two_relays_fall_asleep)
{
	run(2, 2);
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
