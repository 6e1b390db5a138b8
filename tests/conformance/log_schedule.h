/*
 * Random schedules for a cursor over a log, and the judge of what it reads; the same on a real
 * server and on a model of one.
 */
#ifndef WHERRY_TEST_LOG_SCHEDULE_H
#define WHERRY_TEST_LOG_SCHEDULE_H

#include "log/cursor.h"

/* The last writer is the consumer; see log_world.consume. */
enum { LOG_WRITERS = 5, LOG_CONSUMER = LOG_WRITERS };

/* The deliberate breaks of the reader. */
typedef enum log_break {
	LOG_WHOLE,
	LOG_NO_XIP,  /* Late rows of transactions that were open are not looked for. */
	LOG_NO_XMAX, /* Late rows of transactions that began later are not. */
	LOG_OLD_SNAPSHOT, /* The snapshot of the position stays that of the look before. */
	LOG_NEW_SNAPSHOT, /* It is taken after the rows were read. */
	LOG_NO_ROUND,     /* Of many late rows only the first are read. */
	LOG_NO_ROUND_END, /* A round reads rows that became visible after it began. */
	LOG_IDS_ALONE,    /* A position is an id. */
	LOG_HORIZON,      /* Rows wait for the oldest transaction. */
	LOG_NO_RENUMBER,  /* A restored table is read as it is. */
	LOG_FRESH_FIRST,  /* Rows above the position do not wait for a round. */
	LOG_MEMORY,       /* A restored position is not read again. */
	/* Of a reader of row versions. */
	LOG_NO_HORIZON,   /* Rows behind an open transaction do not wait for it. */
	LOG_LATE_HORIZON, /* The horizon is newer than what the rows are read from. */
	LOG_LAST_AGAIN,   /* The row at the position is read again. */
	LOG_BY_ID,        /* Of many rows those with the lowest ids are read first. */
	/* Of a consumer. */
	LOG_OWN_SEEN, /* A position covers what its transaction writes itself. */
	LOG_RENUMBER_OWN, /* Of a restored table the unread rows of one reader alone are kept. */
	LOG_BREAKS
} log_break;

extern const char *const log_break_names[LOG_BREAKS];

/* Which rows their owner deletes: all, those above an id, or those whose id has a remainder. */
typedef struct log_rows {
	enum { LOG_ALL_ROWS, LOG_ABOVE, LOG_REMAINDER } which;
	int64_t above;
	int by, remainder;
} log_rows;

/* What writers do.  A writer is a number; each has a connection. */
typedef struct log_world {
	/* SQL Server: rows are read in the order of their versions, wait for open transactions that
	 * wrote before them, and are read again after their owner changed them. */
	bool versions;
	/* Nobody writes between two statements of the reader: log_meanwhile() is not called. */
	bool undisturbed;
	/* In place of a cursor: in the transaction of the writer LOG_CONSUMER, consume at most `limit`
	 * messages.  NULL: a cursor reads. */
	void (*consume)(int64_t limit, void (*take)(int64_t id, int body));
	/* Wait a little for transactions of others, which rows may wait for; NULL: there are none. */
	void (*pause)(void);
	/* An empty table, a sequence at 1, and no transaction; *out is the reader's. */
	void (*begin)(uint64_t seed, wherry_db **out);
	/* Write a message that was there before transactions had numbers in the table.  NULL: there are none. */
	void (*before)(int64_t id, int key, int body);
	void (*spoil)(const wh_cursor *cursor, log_break what);
	void (*start)(int writer);
	void (*end)(int writer, bool commits);
	/* Also end(), later. */
	void (*prepare)(int writer, int name);
	void (*savepoint)(int writer);
	void (*back)(int writer); /* To the savepoint. */
	int64_t (*next_id)(int writer);
	/* False: the id is taken.  No transaction is open: one for this row alone. */
	bool (*insert)(int writer, int64_t id, int key, int body);
	/* No transaction is open. */
	bool (*has)(int body, const log_rows *rows);
	void (*lose)(const log_rows *rows);
	void (*change)(void);     /* Rows whose id has the remainder 1 of 3. */
	int64_t (*last_id)(void); /* Of the sequence; 0: begin again. */
	void (*set_last_id)(int64_t id);
	/* Restore the table on a server whose transactions or row versions have other numbers.  at: the
	 * position, which is restored with it.  False: cannot be done now. */
	bool (*move)(wh_position *at, unsigned how);
	/* Keep the whole state, and go back to it.  NULL: the world cannot. */
	void (*keep)(void);
	void (*go_back)(void);
} log_world;

/* Below n; of the schedule that is played. */
unsigned log_chance(unsigned n);

/* Writers do something between two statements of the reader. */
void log_meanwhile(void);

/* Play a schedule.  Returns the fault that was found, until the next call; NULL: none. */
const char *log_play(const log_world *world, uint64_t seed, log_break what);

/* Play the schedules of the seeds 1 to `most`, or of those that were taken, and fail at the first
 * fault. */
void log_play_seeds(const log_world *world, uint64_t most);

/* Take seeds from the argument FIRST..LAST of a program.  False: it has none. */
bool log_take_seeds(int argc, char **argv);

/* Play each break until a schedule notices it, at most `most` schedules.  Returns how many breaks
 * were not noticed, which it prints. */
int log_play_breaks(const log_world *world, uint64_t most);

#endif
