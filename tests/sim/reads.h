/*
 * A model of an outbox on SQL Server that producers write and one exclusive relay reads; see
 * reads_test.c.
 */
#ifndef SIM_READS_H
#define SIM_READS_H

#include "relay/engine/gaps.h"

enum {
	IDS = 120, /* of one game; the first is 1 */
	NO_KEY = 0,
	KEYS = 5, /* with NO_KEY */
	BATCH = 4,
	RUN = 3, /* Rows of a transaction, at most. */
	NOBODY = -1,
	PRODUCERS = 4,
	RELAY = PRODUCERS,
	REMNANT, /* An acknowledgement that a crashed relay left open. */
	OPERATOR,
	PROCESSES
};

/* The deliberate breaks. */
typedef enum broken {
	NOTHING,
	NO_LOOK,      /* It does not look for rows that it has passed over. */
	NO_GAP_LOOK,  /* It looks for them ahead, and not in its gaps. */
	NO_CHECK,     /* It does not look whether the rows of free entries are free. */
	NO_AGAIN,     /* It does not choose again without the keys that wait. */
	ONE_AGAIN,    /* It chooses again only once. */
	FULL_EXPIRES, /* Gaps expire after a read that returned as many rows as it may. */
	LATE_OLDEST,  /* They expire by the oldest transaction after the read. */
	DATED_AT_ONCE, /* They are dated when they are seen. */
	CHANGES,       /* Somebody else changes pending rows: a limit, see the page. */
	BREAKS
} broken;

/* A row, and its entry in the index of pending rows. */
typedef enum part { ROW, ENTRY, PARTS } part;

typedef struct row {
	int key;
	bool there[PARTS];
	int held[PARTS];      /* The process that has an exclusive lock on it; NOBODY. */
	bool committed, done; /* done: acknowledged */
	int64_t complete;     /* When its INSERT ended; 0: it has not. */
	bool delivered;
	bool in_memory; /* The relay delivered it and has not acknowledged it. */
	bool was_free;  /* It could leave when the read began. */
	int waited;     /* Reads since it could leave. */
} row;

/* A process, and its transaction. */
typedef struct process {
	int at; /* The step that comes next. */
	int ids[IDS], n, i;
	int64_t version; /* The first row version of its transaction; 0: none. */
	int horizons;    /* How many the relay noted since it took its last id. */
	int patience;    /* Turns until it goes on. */
	bool commits;
} process;

typedef enum relay_step {
	ACKNOWLEDGE,
	BEGIN,
	CHOOSE,
	CHECK,
	LOOK,
	DROP,
	RETURN,
	HORIZON,
	FINISH,
	DELIVER
} relay_step;

/* The memory of the relay, and the read that it is making. */
typedef struct relay {
	wh_gaps gaps;
	int64_t cursor, highest, oldest, running;
	relay_step at;
	bool sweeping;

	int64_t after;
	int limit, room;  /* Rows that it asks for, and that it has room for. */
	int rounds;       /* Of choosing. */
	bool holes_first; /* In which order the server reads gaps and what is ahead. */
	int scan, pos;    /* Which of the two it is reading, and the id that it is at. */
	int ahead;        /* Rows chosen there. */
	bool chosen[IDS + 1];
	bool locked[IDS + 1];          /* The rows of free entries that are not free. */
	bool full, found;              /* found: such a row, in this round */
	int passed[KEYS], waits[KEYS]; /* Ids; 0: none. */
	int64_t looked;                /* When the last look began. */
	int rows;                      /* returned */
	bool stopped;                  /* There was no room for all of them. */
	int taken[BATCH], n_taken, n_delivered;
	int64_t new_oldest, new_next;
} relay;

struct reads {
	row rows[IDS + 1];
	process all[PROCESSES];
	relay relay;
	uint64_t random;
	int64_t now;  /* steps */
	int64_t dbts; /* The last row version. */
	int n_ids, hot_key;
	broken broken;
	bool crashes, sweeps; /* Does the relay crash, and does it sweep in between? */
	bool long_open;       /* Do transactions stay open for long? */
	bool closing;         /* No transaction begins any more. */
	int stalled; /* Reads that delivered nothing though something could leave. */
	long n_reads, n_delivered, n_passed, n_again, n_expired, n_crashes;
	char wrong[160];
};

extern struct reads reads;

/* Below n. */
unsigned reads_chance(unsigned n);
/* A promise was broken. */
void reads_fail(const char *what, int id, int other);
/* READPAST with a lock that is given back at once: is it there, and unlocked? */
bool reads_can_read(int id, part which);
/* A process, or NOBODY, has a row and its entry. */
void reads_lock(int who, int id);
/* The transaction of a process writes a row. */
void reads_take_version(process *p);
/* MIN_ACTIVE_ROWVERSION(): the lowest of an open transaction, or the next one. */
int64_t reads_oldest(void);
/* The relay asks for row versions. An INSERT that took its id before the last time that it asked
 * takes its row version first: no server stops one for two reads in the model. */
void reads_before_horizon(void);
void reads_after_horizon(void);

/* When a read begins: note which messages could leave. */
void reads_note_free(void);
/* When the rows of a read were delivered. */
void reads_judge_progress(void);
/* Before a message is delivered. */
void reads_judge_order(int id);
/* When all transactions have ended and the relay has had time. */
void reads_judge_end(void);

void reads_step(int who); /* One step of a process that is not the relay. */
void reads_relay_begin(void);
void reads_relay_step(void);
/* Will it read a row with this id? */
bool reads_relay_asks_for(int id);

#endif
