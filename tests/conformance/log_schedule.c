/*
 * A schedule is a random order of single statements of several writers: transactions that commit
 * out of the order of their ids, that stay open, roll back, use savepoints or are prepared; ids
 * taken long before they are used, ids written by hand below the position, sequences set back,
 * rows deleted and changed by their owner, the table truncated, restored on a server whose
 * numbers of transactions are others, or to an earlier time.  A reader reads between any two of
 * them, and may die before it stores its position.
 *
 * The judge knows what committed when.  Every message is read once, none that was not committed,
 * those of a key in the order of their commits, and none later than the next read because of
 * another one's transaction, except on SQL Server.
 */
#include "conformance/log_schedule.h"

#include "wherry_test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	MESSAGES = 400,
	KEYS = 3,
	AHEAD = 3, /* Ids that a writer holds. */
	OPEN_MOST = 24,
	TURNS = 90
};

typedef enum fate { ABSENT, OPEN, COMMITTED, GONE } fate;

/* A message: what the judge knows of it.  Its body is its index. */
typedef struct message {
	fate fate;
	int64_t id;
	int key;
	int inserted, committed; /* Turns. */
	int read;                /* Its place among all that was read; 0: not read. */
} message;

typedef struct writer {
	bool in_transaction, prepared;
	int mine[OPEN_MOST], n;
	int savepoint; /* Messages before it; -1: none. */
	int64_t ahead[AHEAD];
	int n_ahead;
	int wrote; /* Turn of the first row of the open transaction; 0: none. */
} writer;

/* What a restore to an earlier time brings back. */
typedef struct past {
	bool there;
	wh_position at;
	message all[MESSAGES];
	int n;
} past;

const char *const log_break_names[LOG_BREAKS] = {
	"nothing",
	"late rows of transactions that were open are not looked for",
	"late rows of transactions that began later are not looked for",
	"the snapshot of the position stays that of the look before",
	"the snapshot of the position is taken after the rows were read",
	"of many late rows only the first are read",
	"a round reads rows that became visible after it began",
	"a position is an id",
	"rows wait for the oldest transaction",
	"a restored table is read as it is",
	"rows above the position do not wait for a round",
	"a restored position is not read again",
	"rows behind an open transaction do not wait for it",
	"the horizon is newer than what the rows are read from",
	"the row at the position is read again",
	"of many rows those with the lowest ids are read first",
	"the position of a consumer covers what its transaction writes",
	"of a restored table the rows of one reader alone are kept",
};

static struct {
	const log_world *world;
	uint64_t random;
	log_break broken;
	wherry_db *db;
	wh_cursor *cursor;
	wh_position at;
	message all[MESSAGES];
	int n, turn, reads;
	writer writers[LOG_WRITERS + 1];
	int names;
	int visited[MESSAGES], n_visited;
	bool meanwhile; /* Others wrote during the look. */
	bool moved;     /* The table was restored, and nobody has read it. */
	int pauses;
	int room; /* Rows that the reader takes in one read; -1: all. */
	past past;
	const char *fault;
	char fault_text[200];
} w;

unsigned log_chance(unsigned n)
{
	w.random ^= w.random >> 12; /* xorshift64* */
	w.random ^= w.random << 25;
	w.random ^= w.random >> 27;
	return (unsigned)((w.random * 2685821657736338717U) >> 33) % n;
}

#define chance log_chance

static int number_of(const writer *x)
{
	return (int)(x - w.writers);
}

static void fault(const char *what, int i)
{
	if (w.fault)
		return;
	(void)snprintf(w.fault_text, sizeof(w.fault_text),
		       "turn %d: message %d (id %" PRId64 "): %s", w.turn, i,
		       i >= 0 ? w.all[i].id : 0, what);
	w.fault = w.fault_text;
}

/* ---- writers ---- */

static void commit_all(writer *x, fate how)
{
	for (int i = 0; i < x->n; i++) {
		w.all[x->mine[i]].fate = how;
		w.all[x->mine[i]].committed = w.turn;
	}
	x->n = x->wrote = 0;
	x->in_transaction = x->prepared = false;
	x->savepoint = -1;
}

static int64_t choose_id(writer *x)
{
	int64_t id;
	int i;

	if (!chance(24)) /* By hand. */
		return -1 - w.n;
	if (!x->n_ahead || chance(2))
		return w.world->next_id(number_of(x));
	i = (int)chance((unsigned)x->n_ahead);
	id = x->ahead[i];
	x->ahead[i] = x->ahead[--x->n_ahead];
	return id;
}

static void insert(writer *x)
{
	message *m = &w.all[w.n];

	if (w.n == MESSAGES || x->n == OPEN_MOST)
		return;
	*m = (message){.fate = OPEN,
		       .key = (int)chance(KEYS),
		       .id = choose_id(x),
		       .inserted = w.turn};
	if (!w.world->insert(number_of(x), m->id, m->key, w.n)) {
		m->fate = ABSENT; /* A sequence that was set back gives ids twice. */
		return;
	}
	x->mine[x->n++] = w.n++;
	if (!x->wrote)
		x->wrote = w.turn;
	if (!x->in_transaction)
		commit_all(x, COMMITTED);
}

static void end(writer *x, bool commits)
{
	w.world->end(number_of(x), commits);
	commit_all(x, commits ? COMMITTED : GONE);
}

static void prepare(writer *x)
{
	w.world->prepare(number_of(x), w.names++);
	x->prepared = true;
	x->savepoint = -1;
}

static void back_to_savepoint(writer *x)
{
	w.world->back(number_of(x));
	while (x->n > x->savepoint)
		w.all[x->mine[--x->n]].fate = GONE;
}

static void take_ids_ahead(writer *x)
{
	while (x->n_ahead < AHEAD)
		x->ahead[x->n_ahead++] = w.world->next_id(number_of(x));
}

static void write_step(writer *x)
{
	unsigned what = chance(16);

	if (x->prepared) {
		if (!chance(6))
			end(x, chance(3) != 0);
	} else if (!x->in_transaction && what < 7) {
		w.world->start(number_of(x));
		x->in_transaction = true;
	} else if (what == 7) {
		take_ids_ahead(x);
	} else if (what == 8 && x->in_transaction && x->savepoint < 0) {
		w.world->savepoint(number_of(x));
		x->savepoint = x->n;
	} else if (what == 9 && x->savepoint >= 0) {
		back_to_savepoint(x);
	} else if (what < 12 && x->in_transaction) {
		end(x, what < 11 || chance(2));
	} else if (what == 12 && x->in_transaction && x->n) {
		prepare(x);
	} else {
		insert(x);
		if (x->in_transaction && !chance(8)) /* A large transaction. */
			for (int i = 0; i < 6; i++)
				insert(x);
	}
}

void log_meanwhile(void)
{
	if (chance(3))
		return;
	for (int n = 0; n < 4; n++)
		write_step(&w.writers[chance(LOG_WRITERS)]);
	w.meanwhile = true;
}

static void end_all(void)
{
	for (int i = 0; i < LOG_WRITERS; i++)
		if (w.writers[i].in_transaction)
			end(&w.writers[i], chance(4) != 0);
}

/* ---- the reader ---- */

static void visit(int64_t id, int i)
{
	if (w.all[i].fate != COMMITTED)
		fault("it was read, and is not committed", i);
	if (!w.world->versions && w.n_visited &&
	    w.all[w.visited[w.n_visited - 1]].id >= id)
		fault("it was not read in the order of ids", i);
	w.visited[w.n_visited++] = i;
}

static wherry_code take(void *ctx, const wh_log_row *row, wherry_error *err)
{
	if (w.n_visited == w.room)
		return wh_fail(err, WHERRY_INTERRUPTED, "no room");
	visit(row->id, atoi(wh_row_text(row->row, WH_LOG_MESSAGE + 2)));
	return WHERRY_OK;
}

static void judge_order(int i)
{
	const message *m = &w.all[i];

	for (int j = 0; j < w.n; j++) {
		const message *earlier = &w.all[j];

		if (earlier->fate == COMMITTED && earlier->key == m->key &&
		    earlier->committed < m->inserted &&
		    (earlier->id < m->id || w.world->versions) && !earlier->read)
			fault("it was read before an earlier message of its key", i);
	}
}

static void store(void)
{
	for (int k = 0; k < w.n_visited; k++) {
		int i = w.visited[k];

		if (w.all[i].read)
			fault("it was read twice", i);
		judge_order(i);
		w.all[i].read = ++w.reads;
	}
}

/* Does it wait for a transaction that wrote before it? */
static bool is_held(const message *m)
{
	for (int i = 0; w.world->versions && i < LOG_WRITERS; i++)
		if (w.writers[i].wrote && w.writers[i].wrote <= m->inserted)
			return true;
	return false;
}

/* A message that should have been read; -1: none. */
static int unread(void)
{
	for (int i = 0; i < w.n; i++)
		if (w.all[i].fate == COMMITTED && !w.all[i].read && !is_held(&w.all[i]))
			return i;
	return -1;
}

static void judge_delay(void)
{
	int i = unread();

	if (i >= 0)
		fault("it is committed, and was not read", i);
}

/* Rows got new versions: they are read again, in an order of their own. */
static void expect_again(const log_rows *rows)
{
	for (int i = 0; w.world->versions && i < w.n; i++) {
		message *m = &w.all[i];

		if (m->fate != COMMITTED || !w.world->has(i, rows))
			continue;
		m->read = 0;
		m->inserted = m->committed = w.turn;
	}
}

static void forget_ids(void)
{
	for (int i = 0; i <= LOG_WRITERS; i++)
		w.writers[i].n_ahead = 0;
}

static void restore_elsewhere(void)
{
	const log_rows all = {.which = LOG_ALL_ROWS};

	end_all();
	if (!w.world->move(&w.at, chance(3)))
		return;
	w.moved = true;
	forget_ids();
	expect_again(&all);
}

static void renumber(bool crashes)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_position next;

	WHERRY_PASS(wh_position_copy(&next, &w.at, &err));
	WHERRY_PASS(wherry_db_begin(w.db, &err));
	WHERRY_PASS(wh_cursor_renumber(w.cursor, &next, &err));
	if (crashes) {
		wherry_db_rollback(w.db);
		wh_position_clear(&next);
		return;
	}
	WHERRY_PASS(wherry_db_commit(w.db, &err));
	wh_position_clear(&w.at);
	w.at = next;
}

/* What a reader that is broken does with the position that a look gave it. */
static void spoil(wh_position *next, const wh_position *old)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_position now = WH_POSITION_START;

	if (w.broken == LOG_OLD_SNAPSHOT) {
		free(next->seen);
		next->seen = old->seen ? strdup(old->seen) : NULL;
	} else if (w.broken == LOG_NEW_SNAPSHOT || w.broken == LOG_IDS_ALONE) {
		WHERRY_PASS(wh_cursor_after(w.cursor, next->high, &now, &err));
		free(next->seen);
		next->seen = strdup(now.seen);
		wh_position_clear(&now);
	}
}

/* The consumer's transaction, which also writes.  False: all that is committed was read. */
static bool consume_some(int64_t limit, bool crashes)
{
	writer *x = &w.writers[LOG_CONSUMER];
	/* A reader sees a restored table before anybody writes with an old id. */
	bool writes = !chance(3) && !w.moved;

	w.n_visited = 0;
	w.world->start(LOG_CONSUMER);
	x->in_transaction = true;
	if (!chance(4))
		take_ids_ahead(x);
	w.moved = w.moved && crashes;
	if (writes)
		insert(x);
	for (int n = 0; writes && n < 4; n++)
		write_step(&w.writers[chance(LOG_WRITERS)]);
	w.world->consume(limit, visit);
	if (writes)
		insert(x);
	end(x, !crashes);
	if (crashes)
		return true;
	store();
	if (w.n_visited || writes)
		return true;
	if (unread() >= 0 && w.world->pause && w.pauses--) {
		w.world->pause();
		return consume_some(limit, false);
	}
	judge_delay();
	return false;
}

/* False: all that is committed was read. */
static bool read_some(int64_t limit, bool crashes)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_log_found found = {.event = WH_LOG_SAME};
	wh_position next;

	if (w.world->consume)
		return consume_some(limit, crashes);
	w.n_visited = 0;
	w.meanwhile = false;
	w.room = w.world->versions || chance(4) ? -1 : (int)chance(8);
	WHERRY_PASS(wh_position_copy(&next, &w.at, &err));
	WHERRY_PASS(wh_cursor_read(w.cursor, &next, limit, take, NULL, &found, &err));
	if (found.event == WH_LOG_RESTORED && w.broken != LOG_NO_RENUMBER) {
		wh_position_clear(&next);
		renumber(crashes);
		return true;
	}
	if (w.broken == LOG_NEW_SNAPSHOT && !chance(3)) /* Others commit between. */
		for (int i = 0; i < LOG_WRITERS; i++)
			if (w.writers[i].in_transaction)
				end(&w.writers[i], true);
	spoil(&next, &w.at);
	if (crashes) {
		wh_position_clear(&next);
		return true;
	}
	store();
	wh_position_clear(&w.at);
	w.at = next;
	if (found.more || w.meanwhile || w.broken == LOG_NEW_SNAPSHOT)
		return found.more || w.meanwhile;
	if (unread() >= 0 && w.world->pause && w.pauses--) {
		w.world->pause();
		return read_some(limit, false);
	}
	judge_delay();
	return false;
}

/* ---- the owner ---- */

static void lose_rows(const log_rows *rows)
{
	end_all();
	forget_ids();
	for (int i = 0; i < w.n; i++)
		if (w.all[i].fate == COMMITTED && !w.all[i].read && w.world->has(i, rows))
			w.all[i].fate = GONE;
	w.world->lose(rows);
}

/* Rows are changed and deleted; sequences give ids again, or begin again at 1. */
static void own_step(void)
{
	log_rows rows = {.which = LOG_ALL_ROWS};

	switch (chance(4)) {
	case 0:
		if (w.writers[0].in_transaction)
			break;
		w.world->change();
		rows = (log_rows){.which = LOG_REMAINDER, .by = 3, .remainder = 1};
		expect_again(&rows);
		break;
	case 1:
		rows = (log_rows){
			.which = LOG_REMAINDER, .by = 5, .remainder = (int)chance(5)};
		lose_rows(&rows);
		break;
	case 2:
		lose_rows(&rows);
		w.world->set_last_id(0);
		break;
	default:
		rows.which = LOG_ABOVE;
		rows.above = w.world->last_id() - 1 - (int64_t)chance(6);
		if (rows.above < 0)
			break;
		lose_rows(&rows);
		w.world->set_last_id(rows.above);
		break;
	}
}

/* ---- to an earlier time ---- */

static void keep_past(void)
{
	wherry_error err = WHERRY_ERROR_INIT;

	end_all();
	wh_position_clear(&w.past.at);
	WHERRY_PASS(wh_position_copy(&w.past.at, &w.at, &err));
	memcpy(w.past.all, w.all, sizeof(w.all));
	w.past.n = w.n;
	w.past.there = true;
	w.world->keep();
}

/* Messages that came since are gone, and those that were read since are not read. */
static void go_back(void)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_position next;

	end_all();
	w.world->go_back();
	forget_ids();
	for (int i = 0; i < w.n; i++) {
		if (i < w.past.n)
			w.all[i] = w.past.all[i];
		else if (w.all[i].fate == COMMITTED)
			w.all[i].fate = GONE;
	}
	if (w.broken == LOG_MEMORY)
		return;
	WHERRY_PASS(wh_position_copy(&next, &w.past.at, &err));
	wh_position_clear(&w.at);
	w.at = next;
}

/* ---- a schedule ---- */

static void write_before(void)
{
	for (int n = (int)chance(8); n > 0; n--) {
		message *m = &w.all[w.n];

		*m = (message){.fate = COMMITTED,
			       .key = (int)chance(KEYS),
			       .id = w.world->next_id(0)};
		w.world->before(m->id, m->key, w.n++);
	}
}

static void set_up(const log_world *world, uint64_t seed, log_break what)
{
	wherry_error err = WHERRY_ERROR_INIT;

	memset(&w, 0, sizeof(w));
	w.world = world;
	w.random = seed * 0x9E3779B97F4A7C15U + 1;
	w.broken = what;
	w.turn = 1;
	w.pauses = what == LOG_WHOLE ? 2000 : 5;
	for (int i = 0; i <= LOG_WRITERS; i++)
		w.writers[i] = (writer){.savepoint = -1};
	world->begin(seed, &w.db);
	if (world->before)
		write_before();
	if (!world->consume)
		WHERRY_PASS(wh_cursor_open(w.db, NULL, "log", &w.cursor, &err));
	world->spoil(w.cursor, what);
}

static void tear_down(void)
{
	for (int i = 0; i < LOG_WRITERS; i++)
		if (w.writers[i].in_transaction)
			end(&w.writers[i], false);
	wh_position_clear(&w.at);
	wh_position_clear(&w.past.at);
	wh_cursor_close(w.cursor);
	w.cursor = NULL;
}

static void disaster(void)
{
	if (!chance(8)) {
		restore_elsewhere();
		/* Before anybody writes with an old id; see wh_cursor_renumber(). */
		if (!chance(3))
			(void)read_some(1 + chance(4), true);
		(void)read_some(1 + chance(4), false);
		w.past.there = false;
	} else if (w.world->keep && !w.past.there) {
		keep_past();
	} else if (w.world->keep && !chance(3)) {
		go_back();
	}
}

const char *log_play(const log_world *world, uint64_t seed, log_break what)
{
	set_up(world, seed, what);
	for (; w.turn < TURNS && !w.fault; w.turn++) {
		unsigned who = chance(LOG_WRITERS * 3 + 3);

		if (who < LOG_WRITERS * 3)
			write_step(&w.writers[who % LOG_WRITERS]);
		else if (who < LOG_WRITERS * 3 + 2)
			(void)read_some(1 + chance(4), !chance(8));
		else if (!chance(3))
			own_step();
		else
			disaster();
	}
	end_all();
	for (int i = 0; i < MESSAGES && !w.fault; i++, w.turn++)
		if (!read_some(5, false))
			break;
	judge_delay();
	tear_down();
	return w.fault;
}

static uint64_t first_seed = 1, last_seed; /* 0: none was taken. */

bool log_take_seeds(int argc, char **argv)
{
	char *end;

	if (argc < 2)
		return false;
	first_seed = strtoull(argv[1], &end, 10);
	last_seed = strncmp(end, "..", 2) == 0 ? strtoull(end + 2, NULL, 10) : first_seed;
	return true;
}

void log_play_seeds(const log_world *world, uint64_t most)
{
	uint64_t last = last_seed ? last_seed : most;

	for (uint64_t seed = first_seed; seed <= last; seed++) {
		const char *found = log_play(world, seed, LOG_WHOLE);

		if (found)
			fail_msg("seed %" PRIu64 ": %s", seed, found);
	}
}

static bool applies(const log_world *world, log_break b)
{
	bool of_versions = b >= LOG_NO_HORIZON;

	if (b == LOG_MEMORY)
		return world->keep;
	if (b == LOG_OWN_SEEN)
		return world->consume;
	if (b == LOG_RENUMBER_OWN)
		return world->consume && !world->versions;
	if (world->consume && !world->versions)
		return b == LOG_NO_XIP || b == LOG_NO_XMAX || b == LOG_NO_ROUND ||
		       b == LOG_NO_ROUND_END || b == LOG_HORIZON;
	if (b == LOG_LATE_HORIZON && world->undisturbed)
		return false;
	return b == LOG_NO_RENUMBER || of_versions == world->versions;
}

int log_play_breaks(const log_world *world, uint64_t most)
{
	int missed = 0;

	for (log_break b = LOG_WHOLE + 1; b < LOG_BREAKS; b++) {
		const char *found = NULL;
		uint64_t seed = 1;

		if (!applies(world, b))
			continue;
		for (; !found && seed <= most; seed++)
			found = log_play(world, seed, b);
		print_message("# %s: %s (%" PRIu64 " schedules)\n", log_break_names[b],
			      found ? found : "NOT NOTICED", seed - 1);
		missed += !found;
	}
	return missed;
}
