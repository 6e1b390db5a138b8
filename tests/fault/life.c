/*
 * A relay's whole life, with each call failing in turn that the relay or the application
 * makes: create, enqueue, deliver, retry, die, retry, deliver, stop.  Whatever fails,
 * once or for a while, all is delivered in the end, in order, and counted once.  Only a relay
 * that ends or loses its lease before it wrote what it knew may leave that to be delivered
 * again, and a failed attempt not_counted.
 */
#include "life.h"

#include "any_body.h"

#include <wherry/wherry.h>

#include "base/env.h"
#include "fault.h"

enum { MESSAGES = 10, EVENTS = 4096, STEPS = 20000, TRIES = 2000, LOG = 16 * 1024 };

/* Keys by number; 1 fails once, 4 is refused until it was retried. */
static const char keys[] = "abab-aabab";
enum { FAILS_ONCE = 1, REFUSED = 4, FIRST_PART = 8 };

typedef struct life {
	const life_target *target;
	bool lent; /* the relay works on a connection and a publisher of its caller's */
	bool unclean; /* two relays ended in mid-flight before: the next has suspects */
	bool stolen;  /* the lease is lost in the middle */
	bool letters; /* what dies leaves a letter */
	char url[200];
	wherry_config *config;
	wherry_db *db, *relay_db;
	wherry_outbox *outbox;
	wherry_publisher *pub;
	wherry_relay *relay;
	bool made; /* the outbox */
	bool retried, failed_once, robbed;
	int gave_up;                    /* relays that ended with an error */
	int64_t events[EVENTS];         /* numbers in the order of their delivery */
	int32_t attempts[MESSAGES + 1]; /* of each number, when it was delivered last */
	size_t n_events;
	char log[LOG];
	size_t log_len;
	fault_plan plan;
} life;

static life the_life;
static const life_target *the_target;

#define BROKEN(l, ...)                                                                   \
	do {                                                                             \
		print_error("failed %s with %s, %d in a row:\n", fault_where(),          \
			    wherry_code_name((l)->plan.with), (l)->plan.n);              \
		print_error("%s", (l)->log);                                             \
		fail_msg(__VA_ARGS__);                                                   \
	} while (0)

/* ---- the destination ---- */

/* Its number, which its id is not where enqueue was tried twice. */
static int64_t number_of(const wherry_message *msg)
{
	return strtol(msg->message_id + 1, NULL, 10);
}

/* Another relay takes the lease, and is gone at once. */
static void steal(life *l)
{
	l->robbed = true;
	(void)wh_db_script(l->db,
			   "UPDATE wherry_lease SET epoch = epoch + 1, "
			   "expires_at = 0, clean = 0",
			   NULL);
}

static wherry_verdict decide(void *ctx, const wherry_message *msg)
{
	life *l = ctx;

	if (l->stolen && !l->robbed && number_of(msg) == 2)
		steal(l);
	if (number_of(msg) == REFUSED && !l->retried)
		return WHERRY_REJECTED;
	if (number_of(msg) != FAILS_ONCE || l->failed_once)
		return WHERRY_DELIVERED;
	l->failed_once = true;
	return WHERRY_RETRY;
}

static void note(void *ctx, const wherry_message *msg, wherry_verdict verdict)
{
	life *l = ctx;

	if (verdict == WHERRY_DELIVERED && l->n_events < EVENTS)
		l->events[l->n_events++] = number_of(msg);
	if (verdict == WHERRY_DELIVERED)
		l->attempts[number_of(msg)] = msg->attempts;
}

static wherry_verdict answer(void *ctx, const wherry_message *msg, char *reason,
			     size_t cap)
{
	(void)snprintf(reason, cap, "the test said so");
	return decide(ctx, msg);
}

static void keep_line(void *ctx, const wherry_log_record *record)
{
	life *l = ctx;
	int n = snprintf(l->log + l->log_len, LOG - l->log_len, "%s\n", record->line);

	if (n > 0 && (size_t)n < LOG - l->log_len)
		l->log_len += (size_t)n;
}

/* ---- the application: it tries again, on a new connection where the error says so ---- */

typedef wherry_code (*action)(life *l, wherry_error *err);

static void close_db(life *l)
{
	wherry_outbox_close(l->outbox);
	wherry_db_close(l->db);
	l->outbox = NULL;
	l->db = NULL;
}

static wherry_code open_db(life *l, wherry_error *err)
{
	wh_db_options options = wh_db_options_of(l->config, fault_env);
	wherry_code code = WHERRY_OK;

	options.app_sql = true; /* these tests write to the tables themselves */
	if (!l->db)
		code = wh_db_open(l->url, &options, &l->db, err);
	if (code == WHERRY_OK && !l->made)
		code = make_any_body_as(l->db, "log", WH_UNIQUE_IDS, "outbox", err);
	l->made |= code == WHERRY_OK;
	if (code == WHERRY_OK && !l->outbox)
		code = wherry_outbox_open(l->db, "outbox", &l->outbox, err);
	return code;
}

static wherry_code enqueue(life *l, size_t from, size_t to, wherry_error *err)
{
	wherry_message msgs[MESSAGES];
	char ids[MESSAGES][24], texts[MESSAGES][2];

	for (size_t i = from; i < to; i++) {
		(void)snprintf(ids[i], sizeof(ids[i]), "m%zu", i + 1);
		(void)snprintf(texts[i], sizeof(texts[i]), "%c", keys[i]);
		msgs[i] = WHERRY_MESSAGE(.message_id = ids[i], .topic = "t");
		msgs[i].key = keys[i] == '-' ? NULL : texts[i];
		msgs[i].headers = "{\"name\": \"value\"}";
		msgs[i].body = ids[i];
		msgs[i].body_len = strlen(ids[i]);
	}
	return wherry_outbox_enqueue_many(l->outbox, msgs + from, to - from,
					  WHERRY_OWN_TRANSACTION, NULL, err);
}

static wherry_code enqueue_first(life *l, wherry_error *err)
{
	return enqueue(l, 0, FIRST_PART, err);
}

static wherry_code enqueue_more(life *l, wherry_error *err)
{
	return enqueue(l, FIRST_PART, MESSAGES, err);
}

static wherry_code retry_dead(life *l, wherry_error *err)
{
	return wherry_outbox_retry(l->outbox, &WHERRY_OUTBOX_FILTER(), NULL, err);
}

static void insist(life *l, action act)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;

	for (int i = 0; i < TRIES; i++) {
		code = open_db(l, &err);
		if (code == WHERRY_OK && act)
			code = act(l, &err);
		if (code == WHERRY_OK)
			return;
		if (wherry_code_remedy(code) == WHERRY_REMEDY_REOPEN)
			close_db(l);
		fault_clock_us += 1000;
	}
	BROKEN(l, "in vain: %s", err.message);
}

/* ---- the relay ---- */

static void close_relay(life *l)
{
	wherry_relay_close(l->relay);
	l->relay = NULL;
	for (size_t i = 0; l->lent && l->pub && i < wherry_memory_count(l->pub); i++)
		note(l, wherry_memory_get(l->pub, i), WHERRY_DELIVERED);
	wherry_publisher_close(l->pub);
	wherry_db_close(l->relay_db);
	l->pub = NULL;
	l->relay_db = NULL;
}

static wherry_code open_lent(life *l, wherry_error *err)
{
	wh_db_options options = wh_db_options_of(l->config, fault_env);
	wherry_code code = wh_db_open(l->url, &options, &l->relay_db, err);

	if (code == WHERRY_OK)
		code = wherry_publisher_open("memory:", l->config, &l->pub, err);
	if (code == WHERRY_OK)
		code = wherry_relay_open_on(l->relay_db, l->pub, l->config, &l->relay,
					    err);
	if (code == WHERRY_OK)
		wherry_memory_answer(l->pub, answer, l);
	return code;
}

static void open_relay(life *l)
{
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; i < TRIES && !l->relay; i++) {
		wherry_code code = l->lent ? open_lent(l, &err)
					   : wherry_relay_open(l->url, "fake:", l->config,
							       &l->relay, &err);

		if (code != WHERRY_OK)
			close_relay(l);
		fault_clock_us += 1000;
	}
	if (!l->relay)
		BROKEN(l, "the relay cannot be opened: %s", err.message);
	wherry_relay_log(l->relay, keep_line, l);
	wherry_relay_target(l->relay, WHERRY_UNTIL_EMPTY);
}

/* The relay may give up only where the error is one that waiting cannot mend. */
static void check_end(life *l, wherry_code code, const wherry_error *err)
{
	if (wherry_code_remedy(code) != WHERRY_REMEDY_FIX || code != l->plan.with)
		BROKEN(l, "the relay gave up: %s: %s", wherry_code_name(code),
		       err->message);
}

/* The lease of one that gave up expires by the server's clock, which is none of ours: steps
 * until then do not count. */
static bool waits_for_a_lease(const life *l)
{
	wherry_relay_stats stats;

	wherry_relay_get_stats(l->relay, &stats, sizeof(wherry_relay_stats));
	return l->target->lease && !stats.epoch;
}

/* Step through time until it is empty; where it gives up another takes over. */
static void relay_all(life *l)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool finished = false;

	open_relay(l);
	for (int i = 0; i < STEPS && !finished; i++) {
		int64_t wake_us = WH_NEVER;
		wherry_code code = wherry_relay_step(l->relay, &wake_us, &finished, &err);

		if (code != WHERRY_OK) {
			check_end(l, code, &err);
			l->gave_up++;
			close_relay(l);
			open_relay(l);
			continue;
		}
		if (!finished && wake_us == WH_NEVER)
			BROKEN(l, "the relay sleeps for ever");
		if (!finished && wake_us > fault_clock_us)
			fault_clock_us = wake_us;
		if (!finished && waits_for_a_lease(l))
			i--;
	}
	if (!finished)
		BROKEN(l, "the relay does not come to an end");
	close_relay(l);
}

/* ---- a life ---- */

static int logged(const life *l, const char *event)
{
	int n = 0;

	for (const char *at = l->log; (at = strstr(at, event)); at++)
		n++;
	return n;
}

static wherry_code leave_unclean(life *l, wherry_error *err)
{
	return wh_db_script(l->db,
			    "DELETE FROM wherry_lease; "
			    "INSERT INTO wherry_lease(outbox, number, engine, "
			    "owner, epoch, expires_at, clean, unclean, win, suspects) "
			    "VALUES ('outbox', 0, 'log', 'gone', 7, 0, 0, 1, 4, 0)",
			    err);
}

static void live(life *l)
{
	l->made = l->retried = l->failed_once = l->robbed = false;
	l->n_events = l->log_len = 0;
	l->gave_up = 0;
	l->log[0] = 0;
	l->target->make(l->url, sizeof(l->url));
	fault_rewind();
	fault_fake = (fault_destination){
		.decide = decide, .note = note, .ctx = l, .caps = WH_PUB_ORDERED};
	fault_letters = 0;
	fault_arm(l->plan);
	insist(l, enqueue_first);
	if (l->unclean)
		insist(l, leave_unclean);
	relay_all(l);
	if (l->letters && !fault_letters)
		BROKEN(l, "what died left no letter");
	if (l->unclean && !logged(l, "event=unclean-takeover"))
		BROKEN(l, "two relays ended uncleanly and left no suspects");
	l->retried = true;
	insist(l, retry_dead);
	insist(l, enqueue_more);
	relay_all(l);
	fault_disarm();
}

/* ---- what must be true in the end ---- */

/* How often a relay gave up or lost its lease.  It forgets the receipts that it had not
 * written: those messages are delivered again, and a failed attempt is not counted. */
static int unclean_ends(const life *l)
{
	return l->gave_up + logged(l, "event=lease-lost");
}

/* Each failed attempt is counted once, unless its relay ended before it had written it.
 * So is each attempt on a suspect. */
static wherry_code take_attempts(void *ctx, const wherry_row *row)
{
	life *l = ctx;
	int64_t id = number_of(row->message);
	bool down = strstr(l->log, "event=destination-down"); /* counts nothing */
	int suspected = logged(l, "event=unclean-takeover") + logged(l, "event=suspects");
	int failed = id == FAILS_ONCE;
	bool forgotten = down || unclean_ends(l) || suspected;
	int32_t attempts = l->attempts[id]; /* no row keeps those of a delivered one */

	if (row->state != WHERRY_DONE)
		BROKEN(l, "%d is %s", (int)id, wherry_state_name(row->state));
	if (attempts > failed + suspected || (!forgotten && attempts < failed))
		BROKEN(l, "%d has %d attempts, not %d", (int)id, (int)attempts,
		       failed + suspected);
	return WHERRY_OK;
}

static size_t times(const life *l, int64_t id)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_events; i++)
		n += l->events[i] == id;
	return n;
}

static size_t first_time(const life *l, int64_t id)
{
	for (size_t i = 0; i < l->n_events; i++)
		if (l->events[i] == id)
			return i;
	return l->n_events;
}

/* What died has let those of its key go before it. */
static void check_order(const life *l)
{
	for (int64_t a = 1; a <= MESSAGES; a++)
		for (int64_t b = a + 1; b <= MESSAGES; b++)
			if (keys[a - 1] == keys[b - 1] && a != REFUSED && b != REFUSED &&
			    first_time(l, a) > first_time(l, b))
				BROKEN(l, "%d was overtaken by %d", (int)a, (int)b);
}

static void check_deliveries(const life *l, bool duplicates)
{
	for (int64_t id = 1; id <= MESSAGES; id++)
		if (!times(l, id) || (times(l, id) > 1 && !duplicates))
			BROKEN(l, "%d was delivered %zu times", (int)id, times(l, id));
}

static void check_life(life *l)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t count[WHERRY_STATE_COUNT];

	WHERRY_PASS(wherry_outbox_count(l->outbox, count, &err));
	if (count[WHERRY_DONE] != MESSAGES)
		BROKEN(l, "%d are done", (int)count[WHERRY_DONE]);
	WHERRY_PASS(wherry_outbox_list(l->outbox, &WHERRY_OUTBOX_FILTER(), take_attempts,
				       l, &err));
	check_order(l);
	check_deliveries(l, l->plan.kind == FAULT_RECEIPT || unclean_ends(l));
	close_db(l);
}

/* How far apart the calls are that fail.  In the life of a relay that owns its connection each
 * call to the database and to the publisher fails. */
static int stride_of(const life *l, const fault_plan *plan)
{
	bool alike = l->lent || l->unclean || l->stolen || l->letters || plan->n > 1;
	int stride = fault_stride(alike && l->target->stride == 1 ? 5 : 1, 1);

	if (plan->kind == FAULT_MEMORY)
		stride = fault_stride(2719, 907);
	else if (plan->kind == FAULT_OWN_MEMORY)
		stride = fault_stride(199, 67);
	return fault_every() ? 1 : stride * l->target->stride;
}

/* The k-th call fails with one of the codes: `shift` says which of them begins. */
static int sweep(life *l, fault_plan plan, const wherry_code *codes, size_t n,
		 size_t shift)
{
	int tries = 0, stride = stride_of(l, &plan);

	for (l->plan = plan;; l->plan.at += stride) {
		l->plan.with = codes[((size_t)l->plan.at + shift) % n];
		live(l);
		check_life(l);
		if (!fault_hit())
			return tries;
		tries++;
	}
}

static void sweep_codes(life *l, fault_plan plan, const wherry_code *codes, size_t n)
{
	size_t sweeps = fault_every() ? n : 1;

	for (size_t shift = 0; shift < sweeps; shift++)
		assert_true(sweep(l, plan, codes, n, shift) > 10 / stride_of(l, &plan));
}

#define SWEEP(l, kind, n, ...)                                                           \
	sweep_codes((l), (fault_plan){(kind), 1, (n), WHERRY_OK},                        \
		    (const wherry_code[]){__VA_ARGS__},                                  \
		    sizeof((const wherry_code[]){__VA_ARGS__}) / sizeof(wherry_code))

/* ---- the tests ---- */

static void any_database_call_may_fail(void **state)
{
	SWEEP(*state, FAULT_DATABASE, 1, WHERRY_BUSY, WHERRY_FULL, WHERRY_INTERRUPTED,
	      WHERRY_CONFLICT, WHERRY_IO, WHERRY_CLOSED);
}

static void any_database_call_may_end_the_relay(void **state)
{
	SWEEP(*state, FAULT_DATABASE, 1, WHERRY_READONLY, WHERRY_CORRUPT);
}

static void the_database_may_fail_for_a_while(void **state)
{
	SWEEP(*state, FAULT_DATABASE, 7, WHERRY_BUSY, WHERRY_IO);
	SWEEP(*state, FAULT_DATABASE, 40, WHERRY_FULL, WHERRY_CLOSED);
}

static void the_answer_to_any_database_call_may_be_lost(void **state)
{
	SWEEP(*state, FAULT_ANSWER, 1, WHERRY_INDOUBT, WHERRY_IO, WHERRY_BUSY,
	      WHERRY_FULL, WHERRY_INTERRUPTED, WHERRY_CLOSED);
}

static void answers_may_be_lost_for_a_while(void **state)
{
	SWEEP(*state, FAULT_ANSWER, 5, WHERRY_INDOUBT, WHERRY_BUSY);
}

static void any_publisher_call_may_fail(void **state)
{
	SWEEP(*state, FAULT_PUBLISHER, 1, WHERRY_CLOSED, WHERRY_INVALID, WHERRY_BUSY);
}

static void the_publisher_may_fail_for_a_while(void **state)
{
	SWEEP(*state, FAULT_PUBLISHER, 6, WHERRY_CLOSED, WHERRY_DENIED);
}

static void receipts_may_be_lost(void **state)
{
	SWEEP(*state, FAULT_RECEIPT, 1, WHERRY_CLOSED, WHERRY_TIMEOUT);
	SWEEP(*state, FAULT_RECEIPT, 4, WHERRY_IO);
}

static void any_allocation_may_fail(void **state)
{
	SWEEP(*state, FAULT_OWN_MEMORY, 1, WHERRY_NOMEM);
	SWEEP(*state, FAULT_MEMORY, 1, WHERRY_NOMEM);
}

static void memory_may_be_gone_for_a_while(void **state)
{
	SWEEP(*state, FAULT_OWN_MEMORY, 5, WHERRY_NOMEM);
	SWEEP(*state, FAULT_MEMORY, 60, WHERRY_NOMEM);
}

/* ---- running ---- */

static int set_up(void **state)
{
	const char *const settings[][2] = {
		{"db.create", "on"},
		{"db.synchronous", "normal"},
		{"retry.base", "10ms"},
		{"retry.jitter", "off"},
		{"relay.window", "4"},
		{"relay.batch", "2"},
		{"relay.lease", the_target->lease},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	const life *like = *state;

	the_life = *like;
	the_life.target = the_target;
	WHERRY_PASS(wherry_config_new(&the_life.config, &err));
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		WHERRY_PASS(wherry_config_set(the_life.config, settings[i][0],
					      settings[i][1], &err));
	if (the_life.letters)
		WHERRY_PASS(wherry_config_set(the_life.config, "relay.dead_letters",
					      "letters:", &err));
	*state = &the_life;
	return 0;
}

static int tear_down(void **state)
{
	life *l = *state;

	fault_disarm();
	close_relay(l);
	close_db(l);
	wherry_config_free(l->config);
	l->target->drop();
	return 0;
}

static life own = {0}, lent = {.lent = true}, unclean = {.unclean = true},
	    stolen = {.stolen = true}, letters = {.letters = true};

#define TEST(test, which)                                                                \
	{                                                                                \
#which ": " #test, (test), set_up, tear_down, &(which)                   \
	}

int life_tests(const life_target *target)
{
	static const struct CMUnitTest tests[] = {
		TEST(any_database_call_may_fail, own),
		TEST(any_database_call_may_end_the_relay, own),
		TEST(the_database_may_fail_for_a_while, own),
		TEST(the_answer_to_any_database_call_may_be_lost, own),
		TEST(answers_may_be_lost_for_a_while, own),
		TEST(any_publisher_call_may_fail, own),
		TEST(the_publisher_may_fail_for_a_while, own),
		TEST(receipts_may_be_lost, own),
		TEST(any_allocation_may_fail, own),
		TEST(memory_may_be_gone_for_a_while, own),
		TEST(any_database_call_may_fail, lent),
		TEST(the_answer_to_any_database_call_may_be_lost, lent),
		TEST(any_allocation_may_fail, lent),
		TEST(memory_may_be_gone_for_a_while, lent),
		TEST(any_database_call_may_fail, unclean),
		TEST(the_answer_to_any_database_call_may_be_lost, unclean),
		TEST(any_allocation_may_fail, unclean),
		TEST(any_database_call_may_fail, stolen),
		TEST(the_answer_to_any_database_call_may_be_lost, stolen),
		TEST(any_allocation_may_fail, stolen),
		TEST(any_database_call_may_fail, letters),
		TEST(any_publisher_call_may_fail, letters),
		TEST(the_publisher_may_fail_for_a_while, letters),
		TEST(receipts_may_be_lost, letters),
		TEST(any_allocation_may_fail, letters),
		TEST(memory_may_be_gone_for_a_while, letters),
	};

	fault_set_up();
	the_target = target;
	cmocka_set_test_filter(getenv("WHERRY_ONLY")); /* for one at a debugger's hands */
	return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
