/*
 * The relay inside: one steppable machine, over several files.
 *
 *     open.c          opens and closes a relay with its settings; reopens its database
 *     source.c        opens the table whose messages are delivered
 *     machine.c       the step, and when the next step is due
 *     loop.c          steps, and waits between steps
 *     brief.c         hands a connection from one brief relay to the next
 *     leadership.c    takes, renews, loses and gives back the lease
 *     operator.c      notices pause, resume and other commands of operators
 *     intake.c        takes rows into memory
 *     window.c        the messages in memory
 *     stages.c        moves a message from stage to stage, and updates its key
 *     keys.c          ordering keys with messages in memory, and held or parked keys
 *     dispatch.c      submits ready messages, collects receipts
 *     probe.c         decides whether the destination is down, and chooses the probes
 *     refused.c       remembers which messages the destination refused, and when
 *     settle.c        decides the result of a message, and writes it
 *     settle_alone.c  writes the results of one message at a time
 *     dead_letters.c  hands a message that dies to the dead-letter destination first
 *     handler_step.c  commits a handler's writes with the acknowledgement of its message
 *     hooks.c         calls the application's hook
 *     latency.c       measures how long messages take
 *     self_report.c   reports the relay's state in its lease, and failures in the log
 *     until_empty.c   ends a run when what was open at its start is delivered or dead
 *     engine/         how rows come in, and how results are written
 *     hold/           where the messages of a held key wait
 *
 *                      lease taken              asked to stop, or empty
 *     STANDBY ─────────────────────────► LEADING ──────────────────────► DRAINING
 *        ▲ │                                │                               │ │
 *        │ └── asked to stop ──► STOPPED    └──────── lease lost ───────────┘ │
 *        │                          ▲                      │                  │
 *        │        nothing in flight │                      ▼                  │
 *        └──────────────────────────┼─────────────────── LOST                 │
 *                                   └──────────── nothing in memory ──────────┘
 *
 *     STANDBY   holds no lease; nothing is in memory.
 *     LEADING   holds a lease that has not expired; reads, submits, writes.
 *     DRAINING  holds the lease; collects receipts and writes, reads and submits nothing.
 *     LOST      lost its lease; waits until nothing is in flight, and ignores receipts.
 *     STOPPED   the run has ended.
 */
#ifndef WH_RELAY_RELAY_H
#define WH_RELAY_RELAY_H

#include <pthread.h>
#include <stdatomic.h>

#include <wherry/relay.h>

#include "base/backoff.h"
#include "base/log.h"
#include "outbox/outbox.h"
#include "publish/driver.h"
#include "relay/refused.h"
#include "relay/source.h"
#include "relay/window.h"
#include "store/relay_report.h"
#include "store/sessions.h"

enum { WH_STANDBY, WH_LEADING, WH_DRAINING, WH_LOST, WH_STOPPED };

enum {
	WH_DOWN_MOST = 1000,
	WH_NOTED_MOST = 500000,
	WH_RECEIPTS = 256,
	WH_FAILED_PROBES_MOST = 64,
	WH_PROBES_MOST = 256, /* Messages that probe together. */
};

typedef struct wh_hooks wh_hooks;
struct wh_dead_letters;
struct pollfd;

/* The settings a relay works by, read once.  See src/config/settings.c. */
typedef struct wh_relay_settings {
	char name[96];
	bool ordered; /* Messages of one key are delivered in order. */
	bool park;    /* A dead message parks its key. */
	int64_t batch, window, window_bytes, held_keys;
	int64_t round_trip; /* Most messages to read, or to acknowledge, in one round trip. */
	size_t noted_most; /* Most ids to note, over all held keys. */
	int64_t claim_us;
	int64_t lasts_us; /* Time from a renewal until the lease or the claims expire. */
	int64_t lease_us, renew_us, ack_delay_us, sweep_us, stop_timeout_us, timeout_us;
	int64_t retention_us, purge_every_us;
	/* Different messages that must fail in a row until the destination is down. */
	int64_t down_after;
	int32_t attempts;
	wh_backoff retry;
	wh_backoff probe; /* Delays between probes of a destination that is down. */
	/* How long a message is tried that the destination refuses while it takes no other. */
	int64_t alone_us;
	wherry_log_level log_level; /* The least severe level that is logged. */
} wh_relay_settings;

/* The destination's health; see probe.c. */
typedef struct wh_destination {
	bool down;
	bool stuck;          /* The publisher says what keeps its messages in flight. */
	bool probing;        /* Probes were submitted, and none was answered yet. */
	int64_t probe_at_us; /* When to probe again. */
	int probes; /* Calls of wh_down() since the destination was up; sets the delay. */
	int64_t probed; /* Place of the last message that probed alone. */
	/* New messages in the next round of probes, at most WH_PROBES_MOST. */
	size_t width;
	/* Probes of this round that the publisher has not taken yet. */
	size_t probes_left;
	uint32_t round;   /* Number of the last round of probes. */
	int64_t answered; /* Messages that the destination took, or rejected for good. */
	int64_t taken;    /* Messages that the destination took. */
	int64_t n_rejected; /* Messages it has rejected since it last took one. */
	wh_refused refused; /* Messages that the destination refused, and when. */
	int64_t failing
		[WH_DOWN_MOST]; /* Ids of messages that failed since it last answered. */
	int n_failing;
	/* A message would have died, but untried ones may show that the destination refuses all:
	 * they are submitted before those that it refused. */
	bool doubts;
	int n_doubts; /* Refusals since it last took one that kept a message from dying;
			 sets the delay. */
	/* No message dies before this time unless the destination took another one. */
	int64_t next_death_us;
	bool hurried; /* The relay took its lease after relays that ended uncleanly. */
	size_t n_failed_probes; /* Messages in memory with wh_entry.failed_probe set. */
	/* Submit nothing before this time: the destination asked for a pause. */
	int64_t throttled_until_us;
} wh_destination;

/* Memory for the lists of one settlement. */
typedef struct wh_scratch {
	size_t most;              /* Entries that there is room for. */
	int64_t *done_ids;        /* Ids of delivered messages. */
	wh_view *names;           /* The message ids of the ids above. */
	int64_t *back_ids;        /* Ids of messages to give back. */
	wh_view *back_names;      /* The message ids of the ids above. */
	wherry_failure *failures; /* Messages that failed or died. */
	bool *lost;               /* For each of these failures: its row was not found. */
} wh_scratch;

/*
 * Things that a brief relay opens and the next one on the same thread uses, for another outbox.  A brief relay runs
 * only while there is work, and another connection listens for its outbox: it looks for rows, and
 * neither listens nor sleeps.
 */
typedef struct wh_brief {
	wh_env env;            /* Of both; does not change. */
	wherry_db *db;         /* NULL: none is open. */
	wherry_publisher *pub; /* NULL: none is open. */
	wh_lineage lineage;    /* Of the server. */
	char holder[40];       /* Token of the last lease, whose lock the session has. */
	bool own_pub;          /* Each relay has another destination. */
	bool own_db;           /* Each relay has another database. */
	bool purges;           /* The next relay purges at once. */
	wh_outbox_known
		known;  /* Of the outbox of the next relay, and then of the last one. */
	wh_sql pattern; /* Of the statements of the layout; empty: none was needed yet. */
	bool asked;     /* The relay has tried to take its lease. */
} wh_brief;

struct wherry_relay {
	wh_env env;        /* env.log filters records by level and passes them to log. */
	wherry_log_fn log; /* The application's log function; NULL: none. */
	void *log_ctx;
	wh_relay_settings set;
	wh_fsm fsm; /* WH_STANDBY to WH_STOPPED. */

	/* A copy, for reopening the database and the destination. */
	wherry_config *config;
	wherry_db *db;    /* NULL while the database cannot be reopened. */
	wh_source source; /* The table of messages to deliver; closed while db is NULL. */
	wh_store *store;  /* source.store, for statements that every model has. */
	const char *model; /* Name of its model; stays when the table is closed. */
	/* source.outbox, for the engines that read an outbox; NULL for other models. */
	wherry_outbox *outbox;
	/* NULL from the loss of its connection until it is reopened. */
	wherry_publisher *pub;
	char *from, *to; /* URLs; NULL: db and pub belong to the caller. */
	unsigned caps;   /* Capabilities of the publisher. */
	wh_brief *brief; /* NULL: it is not brief. */

	/* The engine; see engine/engine.h. */
	const struct wh_engine_driver *engine;
	void *state; /* The state of this engine. */

	/* The lease. */
	wherry_lease lease;
	int64_t held_until_us; /* Submit nothing after this time. */
	int64_t renew_at_us; /* LEADING: when to renew; STANDBY: when to try to take it. */
	/* Messages up to this id, or WAL position, may have ended the last relay. */
	int64_t suspects_upto;
	/* Most suspects that are tried together.  1: each alone, after its attempt was recorded. */
	size_t suspect_group;
	/* No suspect is left, and the lease does not say so yet: submit nothing. */
	bool suspicion_ended;
	char leader_process[WH_PROCESS_LEN]; /* STANDBY: the leader's process. */
	int64_t leader_look_us; /* STANDBY: when to see whether that process has ended. */
	/* The sessions of other relays, and when to look at them again; WH_NEVER: they have no lease. */
	wh_sessions sessions;
	int64_t sessions_at_us;
	/* stats.delivered when the lease was taken, or when it last gained partitions. */
	int64_t delivered_before;
	int64_t counted_from; /* stats.delivered when the lease was taken. */
	bool standby_logged;  /* The log says that another relay holds the lease. */
	bool elsewhere;       /* STANDBY: the leader delivers to another destination. */
	/* Rows were read since the lease was last verified: verify it before
	 * the next submit. */
	bool lease_unverified;
	/* Rows come from the WAL, where they are before a synchronous standby has them: verify the lease by a
	 * commit, which waits for that standby and so for all commits before. */
	bool waits_for_standbys;
	/* When the lease was last verified, in this session of the database; below 0: not yet. */
	int64_t fenced_us;

	/* Messages in memory. */
	wh_window window;
	wh_keys keys;
	int64_t version;       /* wh_db_version() before the current read; 0: unknown. */
	wh_buf key_text;       /* Scratch: an ordering key. */
	wh_buf row_check_text; /* Scratch: what is wrong with a row. */
	int64_t *batch_ids;    /* Scratch: ids of one batch. */

	/* Commits of other connections. */
	int64_t check_us; /* When to look for commits of other connections again. */
	int64_t control_version; /* Last control version that the relay saw. */

	/* Delivering. */
	wh_destination destination;
	wh_receipt receipts[WH_RECEIPTS];
	/* Receipts are being processed.  They point to messages: free none. */
	bool collecting;
	/* Since the last submit, a message became ready or the publisher got room. */
	bool advanced;
	/* Id whose recorded attempt must be removed because it was never made;
	 * 0: none. */
	int64_t untried_id;
	int64_t now_us; /* Unix time at which the current receipts were collected. */

	/* Writing. */
	wh_scratch scratch;
	/* When to write settled messages; WH_NEVER: there are none. */
	int64_t flush_at_us;
	int64_t told_locked; /* Message whose locked row was logged last. */
	/* Until then, look whether others have locked rows before writing to them. */
	int64_t locks_until_us;
	int64_t suspects_at_us; /* When to look again which rows of suspects are locked. */
	int64_t unwritable_at_us; /* When to retry writes that the database refused. */
	int64_t db_retry_at_us;   /* Ask nothing of the database before this time. */
	int db_failures;          /* Failed database calls in a row. */
	/* Since when no step has done all that was due, because the database failed;
	 * WH_NEVER: the last one did.  And the last error. */
	int64_t trouble_us;
	char trouble[200];
	bool reopen_db;     /* The database connection must be reopened. */
	wh_lineage lineage; /* Of the server that was opened last. */
	/* Since messages in memory were read, another server leads, or the server began again. */
	bool moved, restarted;
	/* The database file was replaced or deleted: wait for a new one. */
	bool awaits_file;
	/* Descriptor of the old database file's log, for wh_db_options; 0 or -1: none. */
	int old_log;
	int64_t purge_at_us;
	int64_t purge_after; /* The last purge was full and ended at this id; 0: it was not. */
	/* The last purge removed nothing, and nothing was written since. */
	bool purge_idle;

	/* The relay's report, which it writes into the row of its lease. */
	wh_relay_report report;
	/* When the lease, and with it the report, was last written. */
	int64_t reported_us;
	int64_t failure_log_us;  /* Log no failure before this time. */
	int64_t failure_wait_us; /* Pause after the next failure that is logged. */
	int64_t n_unlogged;      /* Failures not logged since the last one that was. */

	/* Ending. */
	atomic_bool stop;
	int stop_fd;         /* An eventfd, for wherry_relay_stop(). */
	int64_t stop_by_us;  /* DRAINING: when to stop although messages are in flight. */
	bool stop_timed_out; /* It stopped then; its lease is left to expire. */
	unsigned target;     /* Flags of wherry_relay_target(). */
	/* Until empty: the highest open id at the start; -1: not read yet. */
	int64_t target_id;
	/* Until empty: when relay.timeout ends; WH_NEVER: it is not set. */
	int64_t give_up_us;
	int64_t empty_check_us; /* Until empty: when to check again for open messages. */
	wherry_outcome outcome;

	wherry_relay_stats stats;
	struct {
		pthread_mutex_t lock;
		wherry_relay_stats stats; /* As of the end of the last step. */
	} shown;                          /* Read by any thread. */
	struct wh_dead_letters
		*dead_letters; /* NULL: no dead-letter destination is set. */
	wh_hooks *hooks;       /* NULL: the application set no hook. */
};

/* wh_relay_say(r, WHERRY_LOG_WARN, "dead", wh_log_int("id", id), wh_log_note("…")): log an
 * event of this relay; see base/log.h. */
#define wh_relay_say(r, level, ...) wh_log(&(r)->env, level, "relay", __VA_ARGS__)

/*
 * open.c: open a relay.
 *
 * @param brief  NULL: it is not brief.  Borrowed until the relay is closed.
 */
wherry_code wh_relay_open(const char *from, const char *to, const wherry_config *config,
			  wh_brief *brief, wherry_relay **out, wherry_error *err);
void wh_brief_clear(wh_brief *brief); /* Close what is open. */

/* brief.c: take over what an earlier relay left; open the table; leave what works to the next one, and close the
 * rest. */
void wh_brief_take(wherry_relay *r);
wherry_code wh_brief_open_table(wherry_relay *r, wherry_error *err);
bool wh_brief_leaves_pub(const wherry_relay *r);
bool wh_brief_leaves_db(const wherry_relay *r);
void wh_brief_leave_db(wherry_relay *r);

/* The environment of what the relay opens. */
const wh_env *wh_relay_env(const wherry_relay *r);

/* until_empty.c: has a relay that leads nothing in memory and nothing to do soon, or does it stand
 * by? */
bool wh_relay_is_idle(const wherry_relay *r, int64_t now);

/* open.c: reopen the database after its connection was lost. */
wherry_code wh_relay_reopen(wherry_relay *r, int64_t now, wherry_error *err);

/* open.c: forget what came from a database file that was replaced or deleted. */
void wh_relay_replaced(wherry_relay *r, int64_t now, const char *why);

/* open.c: fail if the engine or a setting does not work with the outbox as it is now. */
wherry_code wh_relay_meet(const wherry_relay *r, wherry_error *err);

/* machine.c: has another connection committed something that may concern this relay?
 * Sets r->check_us. */
bool wh_relay_woken(wherry_relay *r, int64_t now);

/* leadership.c */
wherry_code wh_lease_step(wherry_relay *r, int64_t now, wherry_error *err);
/* The lease is lost: move to the state LOST.  The caller then returns WHERRY_STALE. */
void wh_lease_lost(wherry_relay *r, int64_t now, const char *why);
/* The database lacks what this relay has read: give the lease back and begin again.  Returns WHERRY_STALE. */
wherry_code wh_lease_begin_again(wherry_relay *r, int64_t now, const char *why,
				 wherry_error *err);
/* Renew the lease now. */
wherry_code wh_lease_renew(wherry_relay *r, int64_t now, wherry_error *err);
/* May messages be submitted under the lease? */
bool wh_lease_allows(const wherry_relay *r, int64_t now);
/* Must the lease be verified before messages are submitted, since the session may have ended? */
bool wh_lease_is_doubtful(const wherry_relay *r, int64_t now);
/* The database was opened again: show there that this relay holds its lease. */
wherry_code wh_lease_resume(wherry_relay *r, int64_t now, wherry_error *err);
/* Forget all messages and keys in memory.  Call it only while nothing is in flight. */
void wh_lease_forget(wherry_relay *r);
/* The most messages that are suspects if this relay ends uncleanly: its window; up to a limit, if each is
 * tried alone.  If the message that ends relays is behind them, it is a suspect after further ends. */
int64_t wh_suspects_most(const wherry_relay *r);
wherry_code wh_lease_give_back(wherry_relay *r, int64_t now, wherry_error *err);

/* operator.c */
wherry_code wh_operator_look(wherry_relay *r, int64_t now, wherry_error *err);
void wh_operator_note(wherry_relay *r, int64_t version);
void wh_operator_pause(wherry_relay *r, bool paused);

/* intake.c */
/* Is this row in memory?  If another message in memory has its id, the row of that
 * message is gone.  If that message is READY or WAITING, it is dropped, and the answer is
 * false.  Otherwise the answer is true, and *out_later is set: read this row when that
 * message has left memory. */
bool wh_intake_knows(wherry_relay *r, const wh_open_row *row, bool *out_later);
/* Forget a message that is READY or WAITING. */
void wh_intake_drop(wherry_relay *r, wh_entry *e);
/* Take a row into memory.  wh_row_key() must have written its ordering key to
 * r->key_text. */
wherry_code wh_intake_add(wherry_relay *r, const wh_open_row *row, wherry_error *err);
bool wh_intake_has_room(const wherry_relay *r);
bool wh_intake_has_room_again(const wherry_relay *r); /* For rows that are read again. */
size_t wh_bytes_again(const wherry_relay *r);         /* See wh_window.bytes_again. */
bool wh_intake_keys_left(const wherry_relay *r);      /* May another key be held? */
int64_t wh_intake_room(const wherry_relay *r);        /* Messages that still fit. */

/* Write a row's ordering key to r->key_text; empty if it has none, or too long a one. */
wherry_code wh_row_key(wherry_relay *r, const wh_open_row *row,
		       wherry_error *err) WHERRY_MUST_USE;

/* When to ask again whether rows are visible that were not: see wh_engine_driver.unseen. */
enum { WH_UNSEEN_US = 10000 };

/* A statement waited too long for a lock: see wh_settle_pass_locked(). */
void wh_settle_locked_out(wherry_relay *r, int64_t now);

/* latency.c: write the destination's own counters to out.  Returns how many: at most
 * WH_NUMBERS_MOST. */
size_t wh_relay_numbers(const wherry_relay *r, wh_number *out);

/* latency.c: count the time that a delivered message took. */
void wh_latency_note(wherry_relay *r, const wh_entry *e);

/* self_report.c */
void wh_report_init(wherry_relay *r);
/* The state as text; "standby" without a lease. */
const char *wh_report_state(const wherry_relay *r);
/* Call it before the lease is taken, renewed or given back. */
void wh_report_update(wherry_relay *r);
/* Put the reason of a failed delivery into the report. */
void wh_report_error(wherry_relay *r, int64_t now, const char *why);
/* Put the reason of a failed delivery into the report.  Log it too, unless a failure
 * was logged a short while ago.  e: the message; NULL: the connection to the
 * destination failed. */
void wh_report_failure(wherry_relay *r, const wh_entry *e, int64_t now, const char *why);
/* The destination went down or came up: renew the lease soon, which writes the report. */
void wh_report_soon(wherry_relay *r, int64_t now);

/* until_empty.c */
wherry_code wh_until_empty_begin(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_until_empty_step(wherry_relay *r, int64_t now, wherry_error *err);
void wh_until_empty_finish(wherry_relay *r, wherry_outcome outcome);

/* handler_step.c: give the publisher the lease under which handlers write. */
void wh_handlers_grant(wherry_relay *r);

/* dispatch.c */
wherry_code wh_dispatch_step(wherry_relay *r, int64_t now, wherry_error *err);
/* True: do not submit all ready messages, but only probes or one suspect. */
bool wh_dispatch_alone(const wherry_relay *r);
void wh_collect_step(wherry_relay *r, int64_t now);
/* May ready messages be submitted while the database works? */
bool wh_meanwhile_submits(const wherry_relay *r);
/* The engine gives up a part of the outbox, so that nothing new may be submitted. */
bool wh_relay_yields(const wherry_relay *r);
/* From begin to end, the relay uses each wait for the database: it submits ready
 * messages and collects receipts, and asks nothing of the database. */
void wh_meanwhile_begin(wherry_relay *r);
void wh_meanwhile_end(wherry_relay *r);

/* The destination answered about a message: if it was a suspect that was tried, there is one suspect
 * less. */
void wh_suspect_answered(wherry_relay *r, const wh_entry *e);
/* A suspect came back because the connection was lost: remove its recorded attempt, which
 * was not made. */
wherry_code wh_suspect_step(wherry_relay *r, wherry_error *err);

/* stages.c: the only way to change a message's stage. */
void wh_entry_move(wherry_relay *r, wh_entry *e, wh_stage to);

/* May only one message of a key be in flight? */
bool wh_one_per_key(const wherry_relay *r);

/* Make a message READY, or let it wait behind others of its key. */
void wh_entry_admit(wherry_relay *r, wh_entry *e);
/* Make waiting messages of the key READY, as far as they may be submitted now. */
void wh_key_advance(wherry_relay *r, wh_key *key);

/* A message of the key came back undelivered.  Submit no other message of the key
 * until the later ones in flight have come back too. */
void wh_key_break(wherry_relay *r, wh_key *key);
/* A message of the key left the stage IN_FLIGHT.  After the last one, the key is not
 * broken any more. */
void wh_key_landed(wherry_relay *r, wh_key *key);
/* Move READY messages of the key back to its queue. */
void wh_key_queue(wherry_relay *r, wh_key *key);

/* settle.c */
void wh_settle_receipt(wherry_relay *r, const wh_receipt *receipt, int64_t now);
void wh_settle_poison(wherry_relay *r, wh_entry *e, int64_t now);
/* Queue a message whose result is known to be written. */
void wh_settle_put(wherry_relay *r, wh_entry *e, int64_t now);
/* A message failed or died: hold its key until that is written.  Later messages of the
 * key leave memory; see wh_hold.leave. */
void wh_settle_held(wherry_relay *r, wh_entry *e, int64_t now);
/* Monotonic time at which a failed message is due again. */
int64_t wh_failure_due(const wh_entry *e, int64_t now);
/* Write a settlement to the rows.  Meanwhile the relay submits and collects. */
wherry_code wh_settle_write(wherry_relay *r, const wh_settlement *s, wh_settled *out,
			    wherry_error *err);
/* Give back a claimed message that was not tried. */
void wh_settle_back(wherry_relay *r, wh_entry *e);
/* How often to purge while messages are delivered. */
int64_t wh_purge_every_us(const wherry_relay *r);

/* Write the results of settled messages, and the attempt of try_next: the message that
 * is submitted alone next, or NULL. */
wherry_code wh_settle_flush(wherry_relay *r, int64_t now, wh_entry *try_next,
			    wherry_error *err);
/* If an earlier message of its key came back before it, take this one back too, and
 * count no attempt.  False: no earlier one came back. */
bool wh_settle_behind(wherry_relay *r, wh_entry *e);
/* The connection was lost while this message probed.  It takes no room in the window
 * any more, so that other messages are read that may probe.  Later messages of its key
 * leave memory. */
void wh_settle_failed_probe(wherry_relay *r, wh_entry *e);
/* Forget a message, and its key if the relay knows nothing else about the key. */
void wh_entry_gone(wherry_relay *r, wh_entry *e);

/* probe.c: the destination cannot be reached, or takes no message: it is down. */
void wh_down(wherry_relay *r, int64_t now, const char *why);
/* The destination took or rejected one message: it is up. */
void wh_up(wherry_relay *r);
size_t wh_failed_probes(const wherry_relay *r); /* Failed probes in memory. */
/* Choose up to `most` messages to probe with that were not refused since the
 * destination last took one.  Returns how many. */
size_t wh_probe_choose(wherry_relay *r, wh_entry **out, size_t most);
/* The next message to probe with, if all in memory were refused. */
wh_entry *wh_probe_next(wherry_relay *r);
/* The first ready message whose row was not locked when the relay last looked; if all were, the
 * first. */
wh_entry *wh_probe_unlocked(wherry_relay *r, int64_t now);
/* A message was refused and may be tried again.  True: the refusal counts as an
 * attempt.  May find that the destination is down. */
bool wh_probe_refused(wherry_relay *r, const wh_entry *e, const wh_receipt *receipt,
		      int64_t now, const char *why);
/* This message was refused, and its attempts are used up.  False: the destination may refuse
 * all, so that it must not die yet. */
bool wh_probe_may_die(wherry_relay *r, const wh_entry *e, int64_t now);
/* A message was rejected.  True: the destination may reject every message, so this one
 * must not die yet. */
bool wh_probe_rejects_all(wherry_relay *r, const wh_entry *e, const wh_receipt *receipt);
/* How long a message waits whose refusal does not count as an attempt. */
int64_t wh_probe_rest_us(const wherry_relay *r, int64_t now);

/* Most messages that may be in memory at once. */
size_t wh_relay_entries_most(const wherry_relay *r);

#endif
