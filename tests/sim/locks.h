/*
 * A model of SQL Server's locks on the rows of an outbox; see locks_test.c.
 */
#ifndef SIM_LOCKS_H
#define SIM_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ROWS = 96,
	KEYS = 5,
	PROCESSES = 9,
	RUN = 6,
	TURNS = 6000,
	LIMIT = 4,
	CLAIM_LASTS = 120
};

/* What a claim may leave out. */
typedef enum broken {
	NOTHING,
	NO_NOLOCK,   /* It looks for earlier rows among the committed ones alone. */
	NO_READPAST, /* It waits for rows that others have locked. */
	NO_UPDLOCK,  /* It does not lock the rows that it has chosen. */
	NO_CHECK, /* It does not look again, after it has locked its rows, what stands before them. */
	NO_QUIET, /* A message dies without the lock that keeps claims away. */
	MOVES,    /* It looks in indexes whose entries move when a state changes. */
	BREAKS
} broken;

/* A row, and its entries in the indexes. */
typedef enum part { ROW, PENDING, OPEN, BUSY, PARTS } part;
typedef enum mode { NONE, S, U, X } mode;
typedef enum state { ABSENT, WAITS, CLAIMED, DONE, FAILED, DEAD } state;

typedef struct row {
	int key;
	state status;
	bool there[PARTS];
	int token;         /* whose claim; -1: nobody's */
	int expires;       /* turn */
	int claimed, died; /* turns */
	mode held[PARTS][PROCESSES];
	int complete; /* Turn in which the INSERT that made it ended; 0: it has not. */
	bool open_tx; /* Its transaction has not ended. */
	bool delivered;
} row;

typedef struct change {
	int id, key, token, expires;
	state status;
	bool there[PARTS];
} change;

typedef enum role { PRODUCER, CLAIMER, OPERATOR } role;

typedef struct process {
	role role;
	int at;                      /* The step that comes next. */
	int began;                   /* Turn in which its claim did. */
	int i, j;                    /* Counters of it. */
	int ids[RUN + LIMIT * 4], n; /* Rows that it works on. */
	int first_blocked[KEYS];
	bool locked[RUN + LIMIT * 4];
	int waits_for; /* -1: nobody */
	int patience;  /* Turns until it goes on. */
	bool commits, dies;
	change undo[96];
	int n_undo;
} process;

struct locks {
	row rows[ROWS];
	process all[PROCESSES];
	int n_ids, turn, deadlocks, claims, deliveries, held_back, passed;
	uint64_t random;
	mode claims_lock[PROCESSES]; /* of sp_getapplock: S or X */
	broken broken;
	int stalled; /* Turns in which no claim was made though one could be. */
	char wrong[160];
};

extern struct locks locks;

/* Below n. */
unsigned locks_chance(unsigned n);
/* The number of a process. */
int locks_me(const process *p);
/* A promise was broken. */
void locks_fail(const char *what, int id, int other);
/* The process that has a lock in the way; -1: nobody. */
int locks_in_the_way(const mode *held, int who, mode wanted);
/* False: it waits, p->waits_for. */
bool locks_get(mode *held, process *p, mode wanted);
/* Of an entry of a row. */
bool locks_lock(process *p, int id, part which, mode wanted);
/* READPAST with a lock that is given back at once: is it committed, and unlocked? */
bool locks_can_read(const process *p, int id, part which);
/* All of them. */
void locks_let_go(process *p);
/* Before a row is changed, for a roll-back. */
void locks_note(process *p, int id);
void locks_begin(process *p);
void locks_roll_back(process *p);
void locks_commit(process *p);

void locks_step(process *p); /* One step of what it does. */
bool locks_is_open(const row *r);

#endif
