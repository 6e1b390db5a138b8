/*
 * A made-up world in which relays must keep their promises: the real relay over the real
 * SQLite statements on a database in memory, whose clock is the world's; producers; a
 * broker at the end of connections that fail; and what may happen to any of them at any
 * moment.  One number, the seed, decides everything, so a schedule that breaks a promise
 * can be played again.
 *
 *     world.c     draws a world from a seed, and what happens in it, turn by turn
 *     store.c     the database, and its clock; the view sim_rows has each message with its state
 *     server.c    tables of other libraries, which are not on SQLite: outbox/sql; positions of PostgreSQL's log
 *     breaks.c    rules of the WAL that are broken on purpose
 *     stream.c    the WAL, and connections that read it, through a slot that stays or with one of their own
 *     process.c   relays as processes: started, paused between any two calls, killed
 *     broker.c    connections and what the destination does with what comes through them
 *     post.c      where dead letters go
 *     producer.c  messages and their transactions; operators
 *     judge.c     what must hold, after each delivery and at the end
 *
 * All is on one thread.  A process is paused inside a call by letting the others take
 * their turns from there, so relays meet each other half-way through a step.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <poll.h>
#include <sqlite3.h>

#include <wherry/wherry.h>

#include "base/env.h"
#include "publish/driver.h"

enum {
	SIM_MESSAGES = 2048,
	SIM_KEYS = 8, /* and the one above: none */
	SIM_RELAYS = 3,
	SIM_CONNECTIONS = 1024,
	SIM_FLIGHTS = 128,
	SIM_EPOCHS = 4096,
	SIM_LEASES = 16, /* rows of leases at once */
	SIM_QUESTIONS = 16,
	SIM_LOCKED = -2,
	SIM_DRAFTS = 3,
	SIM_DRAFT_ROWS = 12,
	SIM_COMMITS = SIM_MESSAGES
};

/* What there is about a message. */
typedef enum sim_kind {
	SIM_PLAIN,
	SIM_FLAKY,            /* the broker refuses it a few times */
	SIM_REJECTED,         /* … for good */
	SIM_HOPELESS,         /* … each time, as if it might take it later */
	SIM_KILLS_RELAY,      /* whoever submits it dies */
	SIM_KILLS_CONNECTION, /* the connection ends while it is in flight */
	SIM_KINDS
} sim_kind;

/* What became of the last time it was submitted, as far as its relay knows. */
typedef enum sim_outcome {
	SIM_NEW,
	SIM_IN_FLIGHT,
	SIM_TAKEN,
	SIM_REFUSED,
	SIM_LOST
} sim_outcome;

typedef struct sim_message {
	int key;   /* SIM_KEYS: none */
	int place; /* within its key, from 1 */
	sim_kind kind;
	int refusals; /* still to come, of a flaky one */
	int64_t id;   /* set by the producer where ids are taken early */
	uint32_t tx;  /* its transaction */
	bool committed;
	int charges; /* attempts that may count against it */
	int deliveries;
	int letters; /* that said it is dead */
	bool died, retried;
	bool again;          /* its relay had to read it once more */
	bool must_have_died; /* others of its key were delivered before it */
	sim_outcome last;
	int last_lease; /* number and epoch of the lease under which it was */
	int64_t committed_us, delivered_us;
	int64_t last_epoch; /* submitted last, */
	int last_by;        /* and by which relay */
} sim_message;

/* A message on its way through a connection. */
typedef struct sim_flight {
	const wherry_message *msg; /* the relay's; NULL once the relay is gone */
	int index;                 /* of our own */
	int64_t epoch;             /* of the relay that submitted it, */
	int by;                    /* which is this one */
	bool doomed;               /* behind one of its key that was refused */
	bool settled;              /* the broker decided: */
	bool silent;               /* but the answer is lost on its way */
	int64_t at_us;             /* the receipt is there */
	wherry_verdict verdict;
} sim_flight;

typedef struct sim_connection {
	wherry_publisher base;
	struct sim_world *world;
	int process;
	bool open, broken;
	sim_flight flights[SIM_FLIGHTS]; /* in the order they were taken */
	int n;
} sim_connection;

/* A relay's process: there may be one after another in its place. */
typedef struct sim_process {
	struct sim_world *world;
	wh_env env; /* the world's, for this process */
	int number;
	int life;            /* how many processes there have been in its place */
	wherry_relay *relay; /* NULL: not running */
	sqlite3 *sqlite;     /* its connection's */
	wherry_db *db;       /* that */
	bool inside;         /* it is in a call, further up the stack */
	bool crashed;        /* nothing it does has an effect any more */
	bool stopping;
	int64_t wake_us;
	int64_t paused_until_us, start_us;
} sim_process;

/* A message as a row. */
typedef struct sim_row {
	int64_t id; /* 0: the database takes one */
	int64_t created_ms;
	uint32_t tx;
	char message_id[16], aggregate_type[8], aggregate_id[16], key[16], payload[40];
	bool has_key;
} sim_row;

/* A transaction of a producer. */
typedef struct sim_draft {
	bool open;
	uint32_t xid;
	bool begun; /* in the database */
	int64_t commit_by_us;
	int rows[SIM_DRAFT_ROWS];
	int n;
} sim_draft;

/* The engine of all relays; it follows from the seed. */
typedef enum sim_engine {
	SIM_LOG,
	SIM_COMPETING, /* on a table like that of eventferry */
	SIM_UNMARKED,  /* which reads the WAL: on a table like that of Debezium */
	SIM_WAL, /* the log as PostgreSQL has it, with relay.source=wal for most relays */
	SIM_ENGINES
} sim_engine;

extern const char *const sim_engine_names[SIM_ENGINES];
sim_engine sim_engine_of(uint64_t seed);

/* A transaction in the WAL; its rows are in the table a while later. */
typedef struct sim_commit {
	int64_t at, end; /* positions: of the commit, and behind it */
	int64_t committed_us, sent_us, visible_us;
	uint32_t xid;
	bool visible;
	int rows[SIM_DRAFT_ROWS];
	int n;
} sim_commit;

/* The replication slot. */
typedef struct sim_slot {
	bool there, lost;
	int64_t made_at;          /* the end of the log then */
	int64_t confirmed, saved; /* what it was told, and what outlives the server */
	int reader;               /* process + 1; 0: none */
	int64_t reader_until_us;  /* the server takes it for alive */
} sim_slot;

/* What a schedule is like; drawn from the seed. */
typedef struct sim_plan {
	sim_engine engine;
	int relays, keys, messages, turns;
	bool ordered_publisher;
	bool ordered; /* relay.ordering = key */
	bool park, late, letters;
	bool picky; /* the broker refuses many bodies, and takes the others */
	bool busy;  /* the database takes its time, and relays do something meanwhile */
	bool seen;  /* relays of one machine can tell that a process there has ended */
	int window, attempts;
	int crash, pause, fault; /* per 10,000 calls */
	int lose, refuse;        /* per 10,000 messages */
	int bad;                 /* per 1,000 messages */
} sim_plan;

typedef struct sim_world {
	uint64_t seed, random;
	sim_plan plan;
	bool calm; /* nothing more goes wrong but for the messages themselves */
	bool loud;

	wh_env env;       /* for processes, each of which is its context */
	int64_t now_us;   /* everybody's clock, */
	int64_t ahead_us; /* by which the database's is ahead of it */

	sqlite3 *db; /* producers' and operators' */
	int ready;   /* a descriptor that can always be read */
	struct {
		const char *sql; /* by address */
		sqlite3_stmt *stmt;
	} asked[SIM_QUESTIONS];
	wherry_db *lib;
	wherry_outbox *outbox;
	wherry_config *config;

	sim_process processes[SIM_RELAYS];
	int depth; /* of processes paused inside calls */

	sim_connection *connections[SIM_CONNECTIONS];
	int n_connections;
	int64_t outage_until_us;

	sim_message messages[SIM_MESSAGES];
	int n_messages;
	sim_draft drafts[SIM_DRAFTS];
	int64_t next_id;             /* where ids are taken early */
	int place[SIM_KEYS + 1];     /* the last one given in a key */
	int delivered[SIM_KEYS + 1]; /* the place of its last first delivery */

	sim_commit log[SIM_COMMITS + 1]; /* in the order of commits */
	int n_log;
	int64_t wal_end;
	uint32_t next_xid;
	sim_slot slot;
	struct sim_stream *streams[SIM_RELAYS];

	bool expired[SIM_LEASES]
		    [SIM_EPOCHS]; /* the lease of that epoch ended uncleanly */
	int64_t calm_us;          /* since when; */
	int64_t kept_us;      /* so long a message waited then that was not refused, */
	int64_t ended_us;     /* and so long it took until the refused ones ended */
	int64_t high;         /* where the position of a log was last */
	int64_t jumped_us;    /* when the database's clock jumped last */
	int64_t jumped_epoch; /* of the lease that the clock cut short */
	bool fixed;           /* what died was mended and retried */

	/* What happened. */
	int crashes, expires, duplicates, losses, redeliveries;
	int orphans;     /* leases whose holder was seen to have ended */
	char wrong[400]; /* the first broken promise, or empty */
} sim_world;

/* Play one schedule; true if every promise was kept.  Tells of what happens on stdout if
 * loud; out->wrong says what was broken. */
bool sim_play(sim_world *out, uint64_t seed, bool loud);

/* ---- world.c ---- */

uint64_t sim_random(sim_world *w);
int sim_below(sim_world *w, int n);
bool sim_chance(sim_world *w, int in, int of); /* never once all is calm */
int64_t sim_time(sim_world *w, int64_t most_us);

/* Let the others go on for some time, as if this one stood still. */
void sim_others(sim_world *w, int64_t for_us);

void sim_say(sim_world *w, const char *fmt, ...) WH_PRINTF(2, 3);
void sim_wrong(sim_world *w, const char *fmt, ...) WH_PRINTF(2, 3);

/* ---- store.c ---- */

void sim_heap(void); /* SQLite has one of its own: heap.c */
void sim_store_open(sim_world *w);
void sim_store_close(sim_world *w);
sqlite3 *sim_store_connect(sim_world *w);
sim_world *sim_store_world(void); /* which is played now */
void sim_sql(sim_world *w, const char *sql);

/* The answer of a literal question; -1: no row; SIM_LOCKED: nobody can tell now. */
int64_t sim_number(sim_world *w, const char *sql, int64_t param);

/* How long the claim under this token on a message lasts, milliseconds; -1: none. */
int64_t sim_claim_left(sim_world *w, int index, const char *token);

/* ---- server.c ---- */

void sim_server_teach(sqlite3 *db);

/* A deliberate break of the statements of a log, which the judge must notice. */
typedef struct sim_break {
	const char *name;
	const char *what, *with; /* A text of log.sqlite.sql, and what takes its place. */
	uint64_t from;           /* A seed, not far before one that shows it. */
} sim_break;
extern const sim_break *sim_server_break; /* NULL: none */

/* A deliberate break of a rule by which rows that come by the WAL and looks at the table go together. */
typedef enum sim_wal_break {
	SIM_WHOLE,
	SIM_FORGET_POSITION, /* A row that comes is taken in although the position covers it. */
	SIM_FORGET_TAKEN, /* A look brings again what came by the WAL. */
	SIM_FORGET_ALL,   /* What came is forgotten by each look, covered or not. */
	SIM_FAIL_UNSEEN,  /* A failure is written although no statement sees the row. */
	SIM_LEAVE_NOTHING, /* A relay that ends says nothing of what the position does not cover. */
	SIM_FORGET_UNSEEN, /* An exception whose row no statement sees is not read, and is forgotten. */
	SIM_PASS_DONE, /* A look brings what an exception says is done. */
	SIM_WAL_BREAKS
} sim_wal_break;
extern const char *const sim_wal_break_names[SIM_WAL_BREAKS];
extern sim_wal_break sim_wal_broken;
void sim_server_prepare(sim_world *w);

/* ---- stream.c ---- */

struct wh_stream_options;
struct wh_stream;
wherry_code sim_stream_open(wherry_db *db, const struct wh_stream_options *options,
			    struct wh_stream **out, wherry_error *err);
int64_t sim_stream_next(const sim_world *w, const sim_process *p);
int sim_slot_reader(const sim_world *w); /* process + 1; 0: none */
bool sim_slot_end_reader(sim_world *w);
bool sim_slot_drop(sim_world *w); /* false: it is read, or not there */
void sim_server_crash(sim_world *w);

/* ---- process.c ---- */

bool sim_process_polls(const sim_process *p, int fd); /* for reading */

void sim_process_start(sim_process *p);
void sim_process_step(sim_process *p);
void sim_process_kill(sim_process *p);
bool sim_process_ready(const sim_process *p);

/* As wh_process_self() and wh_process_look(); the context is the process that asks. */
void sim_process_self(void *ctx, char out[WH_PROCESS_LEN]);
wh_process_state sim_process_look(void *ctx, const char *who);

/* A moment at which anything may happen to the process; false: it is dead. */
bool sim_moment(sim_process *p);

/* ---- broker.c ---- */

extern const char *const sim_kind_names[SIM_KINDS];
bool sim_broker_work(sim_world *w); /* false: there is none */
int64_t sim_broker_next(const sim_world *w, const sim_process *p);
void sim_broker_close(sim_world *w);
wherry_code sim_broker_open(sim_process *p, wherry_publisher **out, wherry_error *err);

/* ---- post.c ---- */

wherry_code sim_post_open(sim_process *p, wherry_publisher **out, wherry_error *err);

/* ---- producer.c ---- */

void sim_produce(sim_world *w);
void sim_produce_due(sim_world *w); /* ends transactions that must not last longer */
bool sim_produce_settle(sim_world *w);
void sim_produce_filler(sim_world *w);
void sim_operate(sim_world *w);
bool sim_operate_fix(sim_world *w);
int sim_index(const char *message_id, size_t len); /* -1: not one of ours */
void sim_row_of(const sim_world *w, int index, sim_row *out);
bool sim_streams(const sim_world *w); /* are commits in the log first? */

/* ---- judge.c ---- */

void sim_judge_fence(sim_world *w, sim_process *p, int index);
void sim_judge_submit(sim_world *w, sim_process *p, const sim_connection *c,
		      const wherry_message *msg, int index);
void sim_judge_high(sim_world *w);
void sim_judge_letter(sim_world *w, const wherry_message *msg, int index);
void sim_judge_delivery(sim_world *w, const sim_flight *f);
void sim_judge_waits(sim_world *w); /* all has come to an end */
int sim_judge_open(sim_world *w);   /* a message that is to be expected yet; -1: none */
void sim_judge_end(sim_world *w);

/* All that was committed before this position of the log may be forgotten by the server. */
void sim_judge_position(sim_world *w, int64_t position);

/* A relay reads all that was there before the stream again. */
void sim_judge_anew(sim_world *w);

#endif
