/*
 * The bench: what Wherry does, beside the least that a C program with sqlite3, or libpq,
 * must do.
 *
 *     plan.c     which sides there are, and which figures come of them
 *     plan_postgres.c  the same, on PostgreSQL
 *     plan_mssql.c     and on SQL Server
 *     plan_stream.c    and of a relay that reads the WAL
 *     run.c      runs sides: each in a process of its own, in turn, on a fresh database
 *     place.c    where the databases are: a folder, or a private server
 *     load.c     messages made of real data
 *     wherry.c   Wherry's sides
 *     handlers.c functions that handle messages, of both
 *     http.c     posting to a web server, of both
 *     raw.c      the other sides: sqlite3 alone
 *     postgres.c the other sides on PostgreSQL: libpq alone
 *     kafka.c    both sides to Kafka, the other being librdkafka alone
 *     stream.c   a relay that reads the WAL, and pg_recvlogical
 *     plan_queues.c    and of queues and delayed queues
 *     queues.c   Wherry's sides of these
 *     delayed.c  and how late, how idle and how fast polls of delayed queues are
 *     hand.c     the other sides: a table of one's own, on SQLite or PostgreSQL
 *     functions.c SQL functions, and the statements that a program writes by hand
 *     odbc.c     the other sides on SQL Server: ODBC alone
 *     watch.c    what a process costs: memory, processor, SQL statements
 *     growth.c   how cost grows: another mode, with growth_show.c for its table and chart
 *     text.c, svg.c, json.c  show, draw, save and compare
 *
 * A side is one way of doing a piece of work; it answers with numbers.  The sides of a
 * group take turns, A B C A B C …, so that whatever else the machine does meets all of
 * them.  A figure is one number of Wherry's side beside the same number of another.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stdio.h>

#include <wherry/db.h>
#include <wherry/message.h>

#include "base/error.h"

enum {
	BENCH_RUNS_MOST = 99,
	BENCH_VALUES = 4,     /* numbers that a side answers with, at most */
	BENCH_SIDES_MOST = 5, /* in a group */
	BENCH_GROUPS_MOST = 64,
	BENCH_FIGURES_MOST = 112,
	BENCH_BATCH = 1000,     /* messages read and acknowledged at once: relay.batch */
	BENCH_CONNECTIONS = 64, /* to a web server, on both sides */
	BENCH_THREADS = 8,      /* that handle: handlers.threads */
	BENCH_BODY = 200        /* bytes of a queue's message */
};

#define BENCH_CONNECTIONS_TEXT "64"

/* What is done with a queue, per_transaction messages at once. */
typedef enum bench_queue {
	BENCH_SEND,
	BENCH_TAKE, /* delete by the transaction that receives */
	BENCH_LEASE /* and acknowledge */
} bench_queue;

/* What a side is to do. */
typedef struct bench_job {
	const char *url;  /* the database: an initialised outbox, its own copy */
	const char *to;   /* where it is drained to; NULL: null: */
	const char *data; /* the file that bodies are made of */
	int64_t messages;
	int relays; /* that run beside, each on a subscription of its own */
	int rate;   /* messages a second, for the latency */
	int batch;  /* relay.batch, the window being four of them; 0: as they are */
	int keys;   /* how many different ones; 0: none */
	int body;   /* bytes, about */
	bool full;  /* synchronous=FULL, else NORMAL */
	int64_t per_transaction;
	int64_t seconds; /* to idle */
	bool handle;     /* by threads, */
	int64_t work_us; /* each message taking so long, */
	bool step;       /* or writing a row with its acknowledgement */
	bool bare;       /* PostgreSQL: into a table with a primary key alone, */
	bool asleep;     /* without the trigger, */
	bool crowded;    /* while other transactions stay open */
	bool stream;     /* the table of Debezium, and the WAL */
	bool wal;        /* our table, and the WAL */

	bench_queue queue;
	bool delayed; /* a delayed queue */
	int function; /* which case of functions.c */

	/* libpq: between reading n messages and marking them.  NULL: nothing is done. */
	wherry_code (*between)(void *ctx, int64_t n, wherry_error *err);
	void *ctx;
} bench_job;

/* Do the job in this process, which ends afterwards. */
typedef wherry_code (*bench_fn)(const bench_job *job, double out[BENCH_VALUES],
				wherry_error *err);

typedef struct bench_side {
	const char *name;
	bench_fn run;
	bench_job job;
	char url[300];   /* what job.url is */
	int64_t backlog; /* messages that wait at the start */
	bool wanted;     /* by a figure that was asked for */
	double runs[BENCH_VALUES][BENCH_RUNS_MOST];
	int n_runs;
} bench_side;

typedef struct bench_group {
	bench_side sides[BENCH_SIDES_MOST];
	int n;
	int runs; /* a warm-up not counted */
	bool warm_up;
	bool at_once; /* the sides need no turns: they mostly wait */
	bool logical; /* the server's log tells of rows, which makes it longer */
} bench_group;

/* One line of the result. */
typedef struct bench_figure {
	char name[64];  /* what --only selects */
	char label[64]; /* for people; FULL and NORMAL share it */
	const char *unit;
	int digits;
	bench_side *ours, *theirs; /* theirs NULL: the number is derived */
	const char *against;       /* what theirs is */
	double derived;            /* theirs, where it is not measured */
	int value;                 /* which one of the sides' */
	double at_least;           /* the target: of the ratio; 0: none */
	double at_most;            /* the target: of our number; 0: none */
	bool full;                 /* measured with synchronous=FULL */
	bool headline;             /* stands in docs/benchmarks.md */
	bool wanted;

	/* Once measured. */
	bool measured;
	double our_number, their_number; /* medians */
	double ratio, least, most; /* median, least and most of ours / theirs, by turn */
	bool compared;
	double was; /* the saved run's ratio, or our number where the target is one */
} bench_figure;

typedef struct bench_options {
	int64_t messages, runs, seconds;
	const char *only; /* NULL: all */
	const char *data;
	const char *save, *compare, *svg; /* files; NULL: not */
	const char
		*mssql; /* the URL of an empty database on SQL Server; NULL: not there */
	bool list, json, markdown, postgres, growth;
} bench_options;

typedef struct bench {
	bench_options options;
	bench_group groups[BENCH_GROUPS_MOST];
	int n_groups;
	bench_figure figures[BENCH_FIGURES_MOST];
	int n_figures;
} bench;

/* plan.c */
void bench_plan(bench *b); /* from the options */
bench_group *bench_add_group(bench *b, int runs, bool warm_up);
bench_side *bench_add_side(bench_group *g, const char *name, bench_fn run,
			   const bench_job *job);
bench_figure *bench_add_figure(bench *b, bench_side *ours, bench_side *theirs,
			       const char *unit, int digits);
void bench_name_figure(bench_figure *f, const char *fmt, ...) WH_PRINTF(2, 3);
int64_t bench_at_least_one(int64_t n);
void bench_plan_http(bench *b, bool full); /* on either database */

/* plan_postgres.c, plan_mssql.c, plan_stream.c, plan_queues.c */
void bench_plan_postgres(bench *b);
void bench_plan_mssql(bench *b); /* in a build with WHERRY_ODBC */
void bench_plan_stream(bench *b);
void bench_plan_queues(bench *b); /* on any database */

/* functions.c */
void bench_plan_functions(bench *b);

void bench_evaluate(bench *b,
		    const bench_group *group); /* its figures, once it has run */
bool bench_met(const bench_figure *f);         /* its target */

/* run.c: run all groups that are wanted; done() is called after each. */
wherry_code bench_run(bench *b, void (*done)(bench *b, const bench_group *group),
		      wherry_error *err);

/* Do one job in a separate process. */
wherry_code bench_in_child(const char *what, bench_fn run, const bench_job *job,
			   double out[BENCH_VALUES], wherry_error *err);

/* place.c: databases by name. */
typedef struct bench_place {
	bool postgres, logical;
	const char
		*mssql; /* the URL of its only database, which is emptied for each side */
	char dir[256];  /* "": none yet */
	int server;     /* the end of a pipe that keeps it alive */
} bench_place;

wherry_code bench_place_open(bench_place *place, const bench_options *options,
			     bool logical, wherry_error *err);
void bench_place_url(const bench_place *place, const char *name, char *out, size_t cap);
bool bench_place_has(const bench_place *place, const char *name);
wherry_code bench_place_new(const bench_place *place, const char *name,
			    wherry_error *err);
wherry_code bench_place_copy(const bench_place *place, const char *from, const char *to,
			     wherry_error *err);
void bench_place_close(bench_place *place);

/* load.c: messages with numbers from 0. */
typedef struct bench_load bench_load;
wherry_code bench_load_open(const bench_job *job, bench_load **out, wherry_error *err);
wherry_message bench_load_get(const bench_load *load, int64_t number); /* borrowed */
void bench_load_close(bench_load *load);

/* wherry.c */
wherry_code bench_make_backlog(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err);
wherry_code bench_wherry_drain(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err);
/* Make an outbox whose bodies are bytes, as those of the other side are. */
wherry_code bench_init(wherry_db *db, const char *table, bool stream, wherry_error *err);

wherry_code bench_wherry_enqueue(const bench_job *job, double out[BENCH_VALUES],
				 wherry_error *err);
wherry_code bench_wherry_latency(const bench_job *job, double out[BENCH_VALUES],
				 wherry_error *err);
wherry_code bench_wherry_idle(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err);

/* postgres.c */
struct pg_conn;
struct pg_result;

/* Clear the result of a command.  IO, with libpq's message: it failed. */
wherry_code bench_libpq_check(struct pg_conn *conn, struct pg_result *res,
			      wherry_error *err);
wherry_code bench_libpq_drain(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err);
wherry_code bench_libpq_enqueue(const bench_job *job, double out[BENCH_VALUES],
				wherry_error *err);
wherry_code bench_libpq_fill(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err);
wherry_code bench_libpq_latency(const bench_job *job, double out[BENCH_VALUES],
				wherry_error *err);
wherry_code bench_watch_drain(
	const bench_job *job, double out[BENCH_VALUES],
	wherry_error *err); /* Wherry's, and what it costs the server */
wherry_code bench_watch_idle(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err);

/* kafka.c: out[2] is how long it took, in ms */
wherry_code bench_kafka_wherry(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err);
wherry_code bench_kafka_alone(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err);

/* stream.c */
wherry_code bench_stream_drain(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err);
wherry_code bench_receive(const bench_job *job, double out[BENCH_VALUES],
			  wherry_error *err);

/* raw.c */
wherry_code bench_raw_drain(const bench_job *job, double out[BENCH_VALUES],
			    wherry_error *err);
wherry_code bench_raw_step(const bench_job *job, double out[BENCH_VALUES],
			   wherry_error *err);
wherry_code bench_raw_enqueue(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err);
wherry_code bench_raw_latency(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err);
wherry_code bench_raw_idle(const bench_job *job, double out[BENCH_VALUES],
			   wherry_error *err);

/* wherry.c: both sides of the latency have the same producer; raw_take NULL: a relay. */
struct wh_bench;
wherry_code bench_latency(const bench_job *job,
			  wherry_code (*raw_take)(struct wh_bench *b, wherry_error *err),
			  double out[BENCH_VALUES], wherry_error *err);

/* What a handler writes to. */
#define BENCH_HANDLED "CREATE TABLE IF NOT EXISTS handled(id INTEGER PRIMARY KEY)"

/* handlers.c: Wherry's side, and the threads of the other */
wherry_code bench_wherry_handle(const bench_job *job, double out[BENCH_VALUES],
				wherry_error *err);
typedef struct bench_pool bench_pool;
bench_pool *bench_pool_open(int64_t work_us); /* NULL: no memory */
void bench_pool_handle(bench_pool *pool, int n);
void bench_pool_close(bench_pool *pool);

/* http.c: posting, in a build with WHERRY_HTTP */
wherry_code bench_wherry_post(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err);
wherry_code bench_curl_post(const bench_job *job, double out[BENCH_VALUES],
			    wherry_error *err);
wherry_code bench_libpq_post(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err);

/* hand.c */
wherry_code bench_hand_queue(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err);
/* A message's number, which is the key of a delayed one, and filling. */
void bench_write_body(int64_t number, char out[BENCH_BODY + 1]);

/* odbc.c, in a build with WHERRY_ODBC */
wherry_code bench_odbc_drain(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err);
wherry_code bench_odbc_backlog(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err);
wherry_code bench_odbc_queue(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err);
wherry_code bench_odbc_claim(const char *url, wherry_error *err); /* is it empty? */
wherry_code bench_odbc_clear(const char *url, wherry_error *err);

/* queues.c */
wherry_code bench_wherry_queue(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err);

/* delayed.c */
/* out: how late half of the messages came at most, and 99 of 100, ms */
wherry_code bench_delayed_lateness(const bench_job *job, double out[BENCH_VALUES],
				   wherry_error *err);
wherry_code bench_delayed_idle(const bench_job *job, double out[BENCH_VALUES],
			       wherry_error *err);
wherry_code bench_delayed_polls(const bench_job *job, double out[BENCH_VALUES],
				wherry_error *err);

/* watch.c */
double bench_memory_mb(void);      /* the most this process ever had in memory */
void bench_watch_statements(void); /* count those of connections opened from now on */
int64_t bench_statements(void);    /* so far; PRAGMA data_version is not a query */
double bench_rate(int64_t n, int64_t began_us); /* a second, since then */

/* text.c */
void bench_print(const bench_figure *f, FILE *to);
void bench_print_legend(const bench *b, FILE *to);
void bench_print_markdown(const bench *b, FILE *to);
void bench_format(double number, int digits, char *out, size_t cap); /* 12,345 */

/* growth.c, growth_show.c */
typedef enum bench_axis {
	BENCH_BACKLOG, /* messages to deliver */
	BENCH_DONE,    /* delivered ones, not yet vacuumed, beside them */
	BENCH_HELD,    /* keys whose first message failed */
	BENCH_RELAYS,  /* of as many outboxes, idle */
	BENCH_AXES
} bench_axis;

enum { BENCH_STEPS = 4 /* values of an axis, at most */ };

typedef struct bench_point {
	bench_axis axis;
	bool postgres;
	int64_t value;     /* how many of what the axis counts */
	double rate;       /* messages a second; 0: none are delivered */
	double memory_mb;  /* the most that the relay's process had */
	double statements; /* for 1000 messages; of one idle relay, in ten seconds */
} bench_point;

typedef struct bench_points {
	bench_point all[2 * BENCH_AXES * BENCH_STEPS];
	int n;
} bench_points;

wherry_code bench_growth(const bench_options *options, wherry_error *err);
void bench_print_point(const bench_point *p, FILE *to); /* NULL: the heading */
wherry_code bench_write_growth(const bench_points *points, const char *path,
			       wherry_error *err);

/* json.c */
wherry_code bench_write_json(const bench *b, const char *path, wherry_error *err);
wherry_code bench_compare(bench *b, const char *path, wherry_error *err);

/* svg.c */
wherry_code bench_write_svg(const bench *b, const char *path, wherry_error *err);

#endif
