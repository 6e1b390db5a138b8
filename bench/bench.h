/*
 * The bench: what Wherry does, beside the least that a C program with sqlite3, or libpq,
 * must do.
 *
 *     plan.c     which sides there are, and which figures come of them
 *     run.c      runs sides: each in a process of its own, in turn, on a fresh database
 *     place.c    where the databases are: a folder, or a private server
 *     load.c     messages made of real data
 *     wherry.c   Wherry's sides
 *     handlers.c functions that handle messages, of both
 *     http.c     posting to a web server, of both
 *     raw.c      the other sides: sqlite3 alone
 *     postgres.c the other sides on PostgreSQL: libpq alone
 *     amqp.c     both sides to RabbitMQ, the other being librabbitmq alone
 *     kafka.c    both sides to Kafka, the other being librdkafka alone
 *     nats.c     both sides to NATS, the other being libnats alone
 *     redis.c    both sides to Redis, the other being hiredis alone
 *     stream.c   a relay that reads the WAL, and pg_recvlogical
 *     queues.c   Wherry's sides of queues and delayed queues
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
#include <wherry/relay.h>

#include "base/error.h"

/* Sides have the parameters of their table. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum {
	BENCH_RUNS_MOST = 99,
	BENCH_VALUES = 4,     /* numbers that a side answers with, at most */
	BENCH_SIDES_MOST = 5, /* in a group */
	BENCH_GROUPS_MOST = 96,
	BENCH_FIGURES_MOST = 160,
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
	void (*between)(void *ctx, int64_t n);
	void *ctx;
} bench_job;

/* Do the job in this process, which ends afterwards, or at once when something fails, and fill
 * out[BENCH_VALUES].  So a side closes only what must be closed while it is timed. */
typedef void bench_work(const bench_job *job, double *out);

typedef struct bench_side {
	const char *name;
	bench_work *run;
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
	char name[80];  /* what --only selects */
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
void bench_evaluate(bench *b,
		    const bench_group *group); /* its figures, once it has run */
bool bench_met(const bench_figure *f);         /* its target */

/* run.c: run all groups that are wanted; done() is called after each. */
wherry_code bench_run(bench *b, void (*done)(bench *b, const bench_group *group),
		      wherry_error *err);

/* Do one job in a separate process. */
wherry_code bench_in_child(const char *what, bench_work *run, const bench_job *job,
			   double *out, wherry_error *err);

/* In the process of a side: end it, with a message. */
_Noreturn void bench_die(const char *fmt, ...) WH_PRINTF(1, 2);
/* End it if the code is one of failure; the message is that of bench_error. */
extern wherry_error bench_error;
void bench_must(wherry_code code);
void *bench_alloc(size_t n, size_t size); /* zeros */
/* A process that ends with this one. */
int bench_fork(void);
void bench_kill(int pid);
/* A script that prints a line, which is stored, when its server has begun, and ends it when its standard
 * input does: when this process ends, too. */
typedef struct bench_server {
	int in, pid;
} bench_server;

bench_server bench_serve(const char *script, char *line, size_t cap);
/* It may remove files first. */
void bench_serve_end(const bench_server *server);
/* End it if other numbers of messages were handled than the job has. */
void bench_must_be_all(const bench_job *job, int64_t n);

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
bench_load *bench_load_open(const bench_job *job);
wherry_message bench_load_get(const bench_load *load, int64_t number); /* borrowed */

/* wherry.c */
bench_work bench_make_backlog, bench_wherry_drain, bench_wherry_enqueue,
	bench_wherry_latency, bench_wherry_idle;

wherry_config *bench_config(const bench_job *job); /* as the job has the settings */
void bench_set(wherry_config *config, const char *name, const char *value);
wherry_db *bench_open(const bench_job *job, const wherry_config *config);
/* Run a relay until nothing is left.  Returns how many messages it delivered. */
int64_t bench_relay(wherry_relay *relay);
/* Make an outbox whose bodies are bytes, as those of the other side are. */
wherry_code bench_init(wherry_db *db, const char *table, bool stream, wherry_error *err);

/* postgres.c */
bench_work bench_libpq_drain, bench_libpq_enqueue, bench_libpq_fill, bench_libpq_latency;
bench_work bench_watch_drain; /* Wherry's, and what it costs the server */
bench_work bench_watch_idle;

struct pg_conn;
struct pg_result;
struct pg_conn *bench_libpq_open(const char *url);
/* Clear the result of a command, which must not have failed. */
void bench_libpq_check(struct pg_conn *conn, struct pg_result *res);
void bench_libpq_run(struct pg_conn *conn, const char *sql);
void bench_libpq_prepare(struct pg_conn *conn, const char *name, const char *sql);

/* kafka.c: out[2] is how long it took, in ms */
bench_work bench_kafka_wherry, bench_kafka_alone;

/* amqp.c */
bench_work bench_amqp_wherry, bench_amqp_alone;

/* nats.c */
bench_work bench_nats_wherry, bench_nats_alone;

/* redis.c */
bench_work bench_redis_wherry, bench_redis_alone;

/* stream.c */
bench_work bench_stream_drain, bench_receive;

/* raw.c */
bench_work bench_raw_drain, bench_raw_step, bench_raw_enqueue, bench_raw_latency,
	bench_raw_idle;

/* wherry.c: both sides of the latency have the same producer; raw_take NULL: a relay. */
struct wh_bench;
void bench_latency(const bench_job *job,
		   wherry_code (*raw_take)(struct wh_bench *b, wherry_error *err),
		   double *out);

/* What a handler writes to. */
#define BENCH_HANDLED "CREATE TABLE IF NOT EXISTS handled(id INTEGER PRIMARY KEY)"

/* handlers.c: Wherry's side, and the threads of the other */
bench_work bench_wherry_handle;
typedef struct bench_pool bench_pool;
bench_pool *bench_pool_open(int64_t work_us);
void bench_pool_handle(bench_pool *pool, int n);

/* http.c: posting, in a build with WHERRY_HTTP */
bench_work bench_wherry_post, bench_curl_post, bench_libpq_post;

/* hand.c */
bench_work bench_hand_queue;
/* A message's number, which is the key of a delayed one, and filling. */
void bench_write_body(int64_t number, char out[BENCH_BODY + 1]);

/* odbc.c, in a build with WHERRY_ODBC */
bench_work bench_odbc_drain, bench_odbc_backlog, bench_odbc_queue;
wherry_code bench_odbc_claim(const char *url, wherry_error *err); /* is it empty? */
wherry_code bench_odbc_clear(const char *url, wherry_error *err);

/* queues.c */
bench_work bench_wherry_queue;

/* delayed.c */
/* out: how late half of the messages came at most, and 99 of 100, ms */
bench_work bench_delayed_lateness;
bench_work bench_delayed_idle, bench_delayed_polls;

/* functions.c */
const char *bench_function(int i); /* its name; NULL: there are no more */
bench_work bench_function_call, bench_function_by_hand;

/* watch.c */
double bench_memory_mb(void);      /* the most this process ever had in memory */
void bench_watch_statements(void); /* count those of connections opened from now on */
int64_t bench_statements(void);    /* so far; PRAGMA data_version is not a query */
int64_t bench_now(void);           /* monotonic, microseconds */
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
