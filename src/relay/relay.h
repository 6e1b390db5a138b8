/*
 * The relay inside: one steppable machine, over several files.
 *
 *     open.c          settings; opens and closes a relay, opens its database again
 *     source.c        opens the table of messages to deliver
 *     machine.c       the step, and when to step again
 *     loop.c          waits between steps
 *     leadership.c    takes, renews, loses and gives back the lease
 *     operator.c      looks for what operators changed
 *     intake.c        takes rows into memory
 *     window.c        messages in memory
 *     stages.c        moves messages from stage to stage, and keys along
 *     keys.c          ordering keys with messages in memory or held
 *     places.c        the order of messages that wait, where it is not that of ids
 *     flaw.c          rows that cannot be handled
 *     dispatch.c      submits what is ready, takes receipts
 *     probe.c         is the destination down, and which messages are tried meanwhile
 *     refused.c       which messages the destination refused, and when
 *     settle.c        decides what becomes of a message, and writes it
 *     settle_alone.c  writes one message at a time
 *     dead_letters.c  hands what dies to another destination first
 *     handler_step.c  what a handler writes, and the acknowledgement, in one transaction
 *     hooks.c         calls the application's hook
 *     latency.c       how long messages take
 *     self_report.c   what the relay says of itself in the lease, and of failures in the log
 *     until_empty.c   is anything left of what was there at the start?
 *     engine/         how rows come in, and how what became of them is written
 *     hold/           where messages wait that may not be sent yet
 *
 *                      lease taken              asked to stop, or empty
 *     STANDBY ─────────────────────────► LEADING ──────────────────────► DRAINING
 *        ▲ │                                │                               │ │
 *        │ └── asked to stop ──► STOPPED    └──────── lease lost ───────────┘ │
 *        │                          ▲                      │                  │
 *        │        all has landed    │                      ▼                  │
 *        └──────────────────────────┼─────────────────── LOST                 │
 *                                   └──────────── nothing in memory ──────────┘
 *
 *     STANDBY   holds no lease; nothing is in memory.
 *     LEADING   holds a lease that has not expired; reads, submits, writes.
 *     DRAINING  the same, but reads and submits nothing new.
 *     LOST      lost its lease; waits until nothing is in flight, and ignores the receipts.
 *     STOPPED   done.
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

enum { WH_STANDBY, WH_LEADING, WH_DRAINING, WH_LOST, WH_STOPPED };

enum {
	WH_DOWN_MOST = 1000,
	WH_NOTED_MOST = 500000,
	WH_PLACES_MOST = 100000, /* The same, where places take room, too. */
	WH_PLACE_STEP = 1 << 20, /* Between two places: room for others. */
	WH_RECEIPTS = 256,
	WH_FAILED_PROBES_MOST = 64,
	WH_PROBES_MOST = 256, /* messages that probe at once */
};

typedef struct wh_hooks wh_hooks;
struct wh_dead_letters;
struct pollfd;

/* The settings a relay works by, read once.  See src/config/settings.c. */
typedef struct wh_relay_settings {
	char name[96];
	bool redeliver; /* Go on after a relay that wrote nothing to rows: all is sent again. */
	bool failed_only; /* Claim only messages that failed. */
	bool ordered;     /* Messages of a key are delivered in order, */
	bool strict;      /* also where lower ids may be committed late. */
	bool park;        /* A dead message parks its key. */
	wherry_on_done on_done;
	int64_t batch, window, window_bytes, held_keys;
	int64_t turn;      /* Messages to read, or to acknowledge, in one round trip. */
	size_t noted_most; /* Ids to note behind held keys, at most. */
	int64_t claim_us;
	int64_t lasts_us; /* How long a lease, or a claim, lasts. */
	int64_t lease_us, renew_us, ack_delay_us, sweep_us, stop_timeout_us, timeout_us;
	int64_t retention_us, archive_retention_us, purge_every_us;
	bool archive_expired; /* Expired messages are archived, not deleted. */
	int64_t down_after; /* Messages that fail before the destination counts as down. */
	int32_t attempts;
	wh_backoff retry;
	wh_backoff probe;           /* Between probes of a destination that is down. */
	wherry_log_level log_level; /* The least severe level that is logged. */
} wh_relay_settings;

/* The destination's health; see probe.c. */
typedef struct wh_destination {
	bool down;
	bool probing;        /* No answer to the probes in flight has come yet. */
	int64_t probe_at_us; /* When to probe again. */
	int probes;          /* Probes since it went down that it did not take. */
	int64_t probed;      /* Place of the last message that probed alone. */
	size_t width;        /* Messages that probe together next, if they are new. */
	size_t probes_left;  /* Probes of this round for which there was no room yet. */
	uint32_t round;      /* Number of the last choice of probes. */
	int64_t answered;    /* Messages that it took or rejected. */
	int64_t taken;       /* Messages that it took. */
	int64_t n_rejected;  /* Messages that it rejected since it took one. */
	wh_refused refused;  /* Messages that it refused, and when. */
	int64_t failing
		[WH_DOWN_MOST]; /* Ids of messages that failed since it took one. */
	int n_failing;
	size_t n_failed_probes; /* Messages in memory that probed and were not taken. */
	int64_t throttled_until_us; /* It asked for a pause until then. */
} wh_destination;

/* Room for the lists of one acknowledgement. */
typedef struct wh_scratch {
	size_t most;              /* Entries that there is room for. */
	int64_t *done_ids;        /* Delivered messages, */
	wh_view *names;           /* and their message ids. */
	int64_t *back_ids;        /* Messages to give back, */
	wh_view *back_names;      /* and their message ids. */
	wherry_failure *failures; /* Messages that failed or died; */
	bool *lost;               /* whether the row of each was not there. */
} wh_scratch;

struct wherry_relay {
	wh_env env;        /* Its log filters records and hands them to log. */
	wherry_log_fn log; /* The program's; NULL: none. */
	void *log_ctx;
	wh_relay_settings set;
	wh_fsm fsm; /* WH_STANDBY to WH_STOPPED. */

	wherry_config *config; /* A copy, to open things again. */
	wherry_db *db;         /* NULL while it could not be opened again. */
	wh_source source;      /* The table of messages to deliver; the same. */
	wh_store *store;       /* Its store, which is all that the core looks at. */
	wherry_outbox *box;    /* Its outbox, for the engines that read one; NULL: it is
				  another model's. */
	wherry_publisher *pub; /* The same. */
	char *from, *to;       /* URLs; NULL: the caller's own db and publisher. */
	unsigned caps;         /* The publisher's. */

	/* The engine; see engine/engine.h. */
	const struct wh_engine_driver *engine;
	void *state; /* The engine's own. */

	/* The lease. */
	wherry_lease lease;
	int64_t held_until_us; /* Submit nothing after this time. */
	int64_t renew_at_us; /* LEADING: when to renew; STANDBY: when to try to take it. */
	int64_t suspects_upto; /* Messages up to this id, or position of the log, may have ended
				* the last relay. */
	char leader_process[WH_PROCESS_LEN]; /* STANDBY: of the relay that leads. */
	int64_t leader_look_us; /* STANDBY: when to see whether that process has ended. */
	int64_t published_before; /* Messages delivered when the lease was taken, or grew. */
	int64_t counted_from;     /* Messages delivered when the lease was taken. */
	bool standby_logged;      /* It is logged that another relay holds the lease. */
	bool unfenced; /* Rows were read since the lease was last verified: verify it before
			      anything is submitted. */
	bool reading; /* Rows are being read; all that were read before are fenced. */
	int64_t fenced_us; /* When the lease was last verified. */

	/* Messages in memory. */
	wh_window window;
	wh_keys keys;
	int64_t version;  /* wh_db_version() before the rows being read; 0: not known. */
	wh_buf key_text;  /* Scratch: an ordering key. */
	wh_buf flaw_text; /* Scratch: what is wrong with a row. */
	int64_t *batch_ids; /* Scratch: ids of one batch. */

	/* Commits of others. */
	int64_t check_us;        /* When to look for commits again. */
	int64_t control_version; /* The outbox's: operators' commands raise it. */

	/* Delivering. */
	wh_destination destination;
	wh_receipt receipts[WH_RECEIPTS];
	bool collecting; /* Receipts that name messages are at hand: free none of these. */
	bool advanced;   /* A message became ready since the last submit. */
	int64_t untried_id; /* Id whose recorded attempt must be removed because it was never
			       made; 0: none. */
	int64_t now_us;     /* Unix time of the receipts at hand. */

	/* Writing. */
	wh_scratch scratch;
	int64_t flush_at_us;      /* When to acknowledge; WH_NEVER: there is nothing. */
	int64_t unwritable_at_us; /* When to write again what the database refused. */
	int64_t db_retry_at_us;   /* When the database may be asked again. */
	int db_failures;          /* Failures of it in a row. */
	bool reopen_db;           /* Its connection must be opened again. */
	bool awaits_file; /* The database file was replaced or deleted: wait for the next. */
	int old_log;      /* The old file's log, for wh_db_options; 0 or -1: none. */
	int64_t purge_at_us;
	bool purge_idle; /* Nothing was delivered since the last purge. */

	/* Its report in the row of the lease. */
	wh_relay_report report;
	int64_t reported_us;    /* When the lease, and with it the report, was written. */
	int64_t failure_log_us; /* Until then failures are not logged. */
	int64_t failure_wait_us; /* How long that lasts the next time. */
	int64_t n_unlogged;      /* Failures since one was logged. */

	/* Ending. */
	atomic_bool stop;
	int stop_fd;        /* An eventfd, for wherry_relay_stop(). */
	int64_t stop_by_us; /* DRAINING: until when. */
	unsigned target;    /* Flags of wherry_relay_target(). */
	int64_t target_id; /* Until empty: the highest id at the start; -1: not read yet. */
	int64_t give_up_us;     /* Until empty: relay.timeout ends. */
	int64_t empty_check_us; /* Until empty: when to look again. */
	wherry_outcome outcome;

	wherry_relay_stats stats;
	struct {
		pthread_mutex_t lock;
		wherry_relay_stats stats; /* As of the end of the last step. */
	} shown;                          /* Read by any thread. */
	struct wh_dead_letters
		*dead_letters; /* NULL: dead letters are handed to nobody. */
	wh_hooks *hooks;       /* NULL: there is no hook. */
};

/* wh_relay_say(r, WHERRY_LOG_WARN, "dead", wh_log_int("id", id), wh_log_note("…")): log an
 * event of this relay; see base/log.h. */
#define wh_relay_say(r, level, ...) wh_log(&(r)->env, level, "relay", __VA_ARGS__)

/* open.c: the database, whose connection is lost, is opened again. */
wherry_code wh_relay_reopen(wherry_relay *r, int64_t now, wherry_error *err);

/* open.c: forget what came from a database file that was replaced or deleted. */
void wh_relay_replaced(wherry_relay *r, int64_t now, const char *why);

/* open.c: refuse what the engine and the outbox, as it is now, do not do together. */
wherry_code wh_relay_meet(const wherry_relay *r, wherry_error *err);

/* machine.c: has anyone committed something that concerns this relay?  Sets check_us. */
bool wh_relay_woken(wherry_relay *r, int64_t now);

/* leadership.c */
wherry_code wh_lease_step(wherry_relay *r, int64_t now, wherry_error *err);
/* The lease is lost.  The caller returns WHERRY_STALE. */
void wh_lease_lost(wherry_relay *r, int64_t now, const char *why);
void wh_lease_forget(wherry_relay *r); /* all that is in memory: nothing is in flight */
wherry_code wh_lease_give_back(wherry_relay *r, int64_t now, wherry_error *err);

/* operator.c */
wherry_code wh_operator_look(wherry_relay *r, int64_t now, wherry_error *err);
void wh_operator_note(wherry_relay *r, int64_t version);
void wh_operator_pause(wherry_relay *r, bool paused);

/* intake.c */
/* Is this row in memory?  If its id belongs to another message there, that one's row is gone:
 * it is dropped, unless the destination has it; then this row is read once that one is through,
 * and *out_later is set. */
bool wh_intake_knows(wherry_relay *r, const wh_open_row *row, bool *out_later);
/* Take a row into memory. */
wherry_code wh_intake_add(wherry_relay *r, const wh_open_row *row, wherry_error *err);
int64_t wh_intake_place(wherry_relay *r, int64_t id); /* in the order of delivery */
bool wh_intake_has_room(const wherry_relay *r);
bool wh_intake_keys_left(const wherry_relay *r); /* may more keys be held? */
int64_t wh_intake_room(const wherry_relay *r);   /* messages that still fit */

/* flaw.c: why a row cannot be handled and must die; NULL: it can.  Borrowed until the next
 * call. */
const char *wh_flaw_of(wherry_relay *r, const wh_open_row *row);
/* Leave out of a row what cannot be handled. */
void wh_flaw_trim(const wherry_relay *r, wh_open_row *row);
/* Write a row's ordering key to key_text; none, if its texts are too long. */
void wh_flaw_key(wherry_relay *r, const wh_open_row *row);

/* The destination's own numbers; how many, at most WH_NUMBERS_MOST. */
size_t wh_relay_numbers(const wherry_relay *r, wh_number *out);

/* latency.c: of a message that was delivered */
void wh_latency_note(wherry_relay *r, const wh_entry *e);

/* self_report.c */
void wh_report_init(wherry_relay *r);
const char *wh_report_state(const wherry_relay *r); /* also "standby" */
void wh_report_update(wherry_relay *r); /* before the lease is taken or renewed */
/* Note why a delivery failed. */
void wh_report_error(wherry_relay *r, int64_t now, const char *why);
/* The same, and log it unless that was done a short while ago.  e: the message; NULL: the
 * connection to the destination failed. */
void wh_report_failure(wherry_relay *r, const wh_entry *e, int64_t now, const char *why);
/* The destination went down, or is up again: have that written soon. */
void wh_report_soon(wherry_relay *r, int64_t now);

/* until_empty.c */
wherry_code wh_until_empty_begin(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_until_empty_step(wherry_relay *r, int64_t now, wherry_error *err);
void wh_until_empty_finish(wherry_relay *r, wherry_outcome outcome);

/* handler_step.c: give the publisher the lease under which handlers write. */
void wh_handlers_grant(wherry_relay *r);

/* dispatch.c */
wherry_code wh_dispatch_step(wherry_relay *r, int64_t now, wherry_error *err);
bool wh_dispatch_alone(const wherry_relay *r); /* one message at a time */
void wh_collect_step(wherry_relay *r, int64_t now);
/* While the database is at work on what is asked of it in between, the destination goes on:
 * what is ready is submitted, receipts are taken, nothing is asked of the database. */
bool wh_meanwhile_submits(const wherry_relay *r);
bool wh_relay_yields(const wherry_relay *r); /* nothing new may be submitted */
void wh_meanwhile_begin(wherry_relay *r);
void wh_meanwhile_end(wherry_relay *r);
void wh_publisher_lost(wherry_relay *r, int64_t now, const wherry_error *why);

/* A suspect that came back while the destination is down was not tried: that is to be put on
 * record, too. */
void wh_suspect_back(wherry_relay *r, const wh_entry *e);
wherry_code wh_suspect_step(wherry_relay *r, wherry_error *err);

/* stages.c: the only way to change a message's stage. */
void wh_entry_move(wherry_relay *r, wh_entry *e, wh_stage to);

/* May only one message of a key be in flight? */
bool wh_one_per_key(const wherry_relay *r);

void wh_entry_admit(wherry_relay *r, wh_entry *e); /* READY, or behind its key */
void wh_key_advance(wherry_relay *r, wh_key *key); /* the next of it may be ready */

/* A message of it comes back, and so will those in flight behind it: no message of the key is
 * submitted until they have. */
void wh_key_break(wherry_relay *r, wh_key *key);
void wh_key_landed(wherry_relay *r, wh_key *key);
/* Messages of the key that are ready wait in its queue again. */
void wh_key_queue(wherry_relay *r, wh_key *key);

/* settle.c */
void wh_settle_receipt(wherry_relay *r, const wh_receipt *receipt, int64_t now);
void wh_settle_poison(wherry_relay *r, wh_entry *e, int64_t now);
void wh_settle_put(wherry_relay *r, wh_entry *e, int64_t now); /* to be written */
/* It failed or died: its key is held until that is written, and what follows is left alone. */
void wh_settle_held(wherry_relay *r, wh_entry *e, int64_t now);
/* When a failed message is due again. */
int64_t wh_failure_due(const wh_entry *e, int64_t now);
/* Write to the rows, while the destination goes on. */
wherry_code wh_settle_write(wherry_relay *r, const wh_settlement *s, wh_settled *out,
			    wherry_error *err);
void wh_settle_back(wherry_relay *r, wh_entry *e); /* claimed, and not tried after all */
wherry_code wh_settle_flush(wherry_relay *r, int64_t now, wh_entry *try_next,
			    wherry_error *err);
/* An acknowledgement that is due and can travel with a read: taken from what is settled, and
 * afterwards forgotten there if it was written. */
typedef struct wh_ride {
	wh_settlement s;
	size_t n; /* entries */
	wh_ack ack;
} wh_ride;

bool wh_settle_rides(const wherry_relay *r, int64_t now); /* is there one? */
bool wh_settle_ride(wherry_relay *r, int64_t now, wh_ride *out);
void wh_settle_rode(wherry_relay *r, const wh_ride *ride, int64_t now);

/* Undelivered behind one of its key that failed before it: take it back, uncounted. */
bool wh_settle_behind(wherry_relay *r, wh_entry *e);
/* A probe was not taken.  The message takes no room in the window any more, so that others are
 * read that may probe.  Later messages of its key are left alone until its receipt is in. */
void wh_settle_failed_probe(wherry_relay *r, wh_entry *e);
void wh_entry_gone(wherry_relay *r,
		   wh_entry *e); /* forget it, and its key if that was all */

/* probe.c: the destination cannot be reached or takes nothing; it takes something again */
void wh_down(wherry_relay *r, int64_t now, const char *why);
void wh_up(wherry_relay *r);
size_t wh_failed_probes(const wherry_relay *r); /* in memory, beside the window */
/* Messages to probe with: up to `most` that were not refused since the destination took one.
 * Returns how many. */
size_t wh_probe_choose(wherry_relay *r, wh_entry **out, size_t most);
/* The next message to probe with where all were refused. */
wh_entry *wh_probe_next(wherry_relay *r);
/* A message was refused retriably.  True: that counts as an attempt of it.  May find that the
 * destination is down. */
bool wh_probe_refused(wherry_relay *r, const wh_entry *e, const wh_receipt *receipt,
		      int64_t now, const char *why);
/* A message was rejected.  True: it may be that the destination rejects every message, so that
 * this one must not die yet. */
bool wh_probe_rejects_all(wherry_relay *r, const wh_entry *e, const wh_receipt *receipt);
/* How long a message rests whose refusal does not count. */
int64_t wh_probe_rest_us(const wherry_relay *r, int64_t now);

/* The earlier of two times. */
static inline int64_t wh_sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Entries that may be in memory at once. */
size_t wh_relay_entries_most(const wherry_relay *r);

#endif
