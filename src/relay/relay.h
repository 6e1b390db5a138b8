/*
 * The relay inside: one steppable machine, over several files.
 *
 *     open.c          settings; opens and closes a relay, opens its database again
 *     machine.c       the step, and when to step again
 *     loop.c          waits between steps
 *     leadership.c    takes, renews, loses and gives back the lease
 *     window.c        messages in memory
 *     keys.c          ordering keys with messages in memory or held
 *     flaw.c          rows that cannot be handled
 *     dispatch.c      submits what is ready, takes receipts
 *     probe.c         which messages are tried while the destination is down
 *     refused.c       which messages the destination refused, and when
 *     settle.c        decides what becomes of a message, and writes it
 *     settle_alone.c  writes one message at a time
 *     dead_letters.c  hands what dies to another destination first
 *     handler_step.c  what a handler writes, and the acknowledgement, in one transaction
 *     hooks.c         calls the application's hook
 *     latency.c       how long messages take
 *     until_empty.c   is anything left of what was there at the start?
 *     engine/         how rows come in, and how what became of them is written
 *     hold/           where messages wait that may not be sent yet
 *
 *                      lease taken              asked to stop, or empty
 *     STANDBY ─────────────────────────► LEADING ──────────────────────► DRAINING
 *        ▲ │                                │                               │ │
 *        │ └── asked to stop ──► STOPPED    └──────── lease lost ───────────┘ │
 *        │                          ▲                      │                  │
 *        │        nothing flies     │                      ▼                  │
 *        └──────────────────────────┼─────────────────── LOST                 │
 *                                   └──────────── nothing in memory ──────────┘
 *
 *     STANDBY   holds no lease; nothing is in memory.
 *     LEADING   holds a lease that has not lapsed; reads, submits, writes.
 *     DRAINING  the same, but reads and submits nothing new.
 *     LOST      held a lease; what still flies is none of its business any more.
 *     STOPPED   done.
 */
#ifndef WH_RELAY_RELAY_H
#define WH_RELAY_RELAY_H

#include <stdatomic.h>

#include <wherry/relay.h>

#include "base/backoff.h"
#include "base/log.h"
#include "outbox/outbox.h"
#include "publish/driver.h"
#include "relay/engine/gaps.h"
#include "relay/refused.h"
#include "relay/window.h"

enum { WH_STANDBY, WH_LEADING, WH_DRAINING, WH_LOST, WH_STOPPED };

enum {
	WH_DOWN_MOST = 1000,
	WH_NOTED_MOST = 500000,
	WH_PLACES_MOST = 100000, /* likewise, where places take room, too */
	WH_PLACE_STEP = 1 << 20, /* others may come in between */
	WH_RECEIPTS = 256,
	WH_FAILED_PROBES_MOST = 64,
	WH_PROBES_MOST = 256, /* messages that probe at once */
	WH_REFUSED_MOST =
		100000 /* refused messages in memory, where rows are not written */
};

typedef struct wh_hooks wh_hooks;
struct wh_dead_letters;
struct pollfd;
typedef struct wh_streaming wh_streaming;

/* The settings a relay works by, read once. */
typedef struct wh_relay_settings {
	char name[96];
	bool competing; /* with others: rows are claimed */
	bool stream;    /* new rows come from the database's log */
	bool keep;      /* and nothing is written to them */
	bool again; /* go on after a relay that wrote nothing to rows: all leaves again */
	bool failed_only;
	bool ordered; /* per key, */
	bool strict;  /* also where lower ids may be committed late */
	bool park;
	wherry_on_done on_done;
	int64_t batch, window, window_bytes, held_keys;
	int64_t turn;      /* messages read, and acknowledged, in one round trip */
	size_t noted_most; /* ids remembered of what is held */
	int64_t claim_us;
	int64_t lease_us, renew_us, ack_delay_us, sweep_us, stop_timeout_us, timeout_us;
	int64_t retention_us, archive_retention_us, purge_every_us;
	bool archive_expired; /* or they are deleted */
	int64_t down_after;
	int32_t attempts;
	wh_backoff retry;
	wh_backoff probe;           /* of a destination that is down */
	wherry_log_level log_level; /* the least severe level that is logged */
} wh_relay_settings;

/* key-strict; see strict.c. */
typedef struct wh_strict {
	int64_t solid;      /* of ids up to here no more are committed */
	int64_t upto;       /* those that will be solid, 0: nothing is dated, */
	int64_t number;     /* when all transactions below this one have ended */
	int64_t gap_before; /* the row at which reading stopped; 0: it goes on */
	int64_t look_us;    /* when to see whether it may */
	int64_t step_us, since_us;
	bool told; /* that it takes long */
} wh_strict;

/* A share of the outbox; see partitioned.c. */
typedef struct wh_share {
	bool on;        /* the outbox is made for it */
	wh_slots slots; /* as of the last renewal */
	bool yielding;  /* it has too many, and goes on with fewer once nothing flies */
	int64_t each;   /* rows of a slot read at once */
	int told;       /* how many it said it has */
} wh_share;

struct wherry_relay {
	wh_env env;        /* its log filters records and hands them to log */
	wherry_log_fn log; /* the program's; NULL: none */
	void *log_ctx;
	wh_relay_settings set;
	wh_fsm fsm;

	wherry_config *config; /* of its own, to open things anew */
	wherry_db *db;
	wherry_outbox *box;
	wherry_publisher *pub; /* NULL while it could not be opened again */
	char *from, *to;       /* URLs; NULL: the caller's own db and publisher */
	unsigned caps;         /* of the publisher */

	/* lease */
	wherry_lease lease;
	int64_t held_until_us; /* submit nothing after this */
	int64_t renew_at_us;   /* LEADING: renew; STANDBY: try to take it */
	int64_t suspects_upto; /* until all up to here is settled, a crash is its fault */
	bool standby_logged;   /* that another relay holds the lease */

	/* reading */
	wh_window window;
	wh_keys keys;
	wh_gaps gaps;
	wh_buf key_text;  /* scratch */
	wh_buf flaw_text; /* scratch: what is wrong with a row */
	int64_t cursor;   /* all up to here is delivered, in memory, or known */
	int64_t passed;  /* the highest it has been: ids up to here are known, or holes */
	int64_t oldest;  /* transaction that may still run, as of the last read */
	int64_t running; /* and its oldest statement; see wh_horizon */
	bool sweeping;   /* reading open rows from the beginning, */
	bool touched; /* but only those that somebody changed since they were written */
	bool more;    /* there may be more behind the cursor */
	bool swept_clean;    /* the last sweep met no row but known ones */
	bool replaced;       /* ids are given again: rows below the cursor are new ones */
	int64_t again_at_us; /* when to read them, at the earliest */
	int again; /* times that rows were missing, each within a minute of the last */
	int64_t version; /* wh_db_version() before the rows being read; 0: not known */
	int64_t sweep_at_us;
	int64_t check_us; /* when to look for commits again */
	int64_t control_version;
	int64_t look_by_us; /* others committed: look for an operator's wish till then */
	int64_t open_look_us; /* others committed: when to look for open rows that reading ahead
				 does not meet; WH_NEVER */
	int64_t open_looked_us;
	bool unfenced;     /* rows were read: is the lease still ours? */
	bool reading;      /* and are being read, where all before them is fenced */
	int64_t fenced_us; /* when it was known to be so */
	bool full_logged;  /* that reading stopped at relay.held_keys */
	int64_t fits; /* rows that fitted when bodies were too large for a batch; 0: all */
	int64_t *scratch; /* ids of one batch */
	wh_strict strict;
	wh_share partitions;

	/* streaming */
	wh_streaming *streaming; /* NULL: another engine */
	int64_t order;           /* of the last entry */
	wh_places places;        /* of what is noted */
	uint64_t taking; /* the transaction whose rows are taken in; 0: they are read */

	/* claiming */
	int64_t lapse_at_us;   /* when the first claim of anybody lapses, */
	int64_t due_at_us;     /* and when the first failed row is due */
	bool sharing;          /* what is in memory had lapsed: nothing joins it */
	int64_t fresh_most;    /* then so many that had not, at most; 0: any number */
	int64_t look_again_us; /* whether there still is what lapsed */
	wh_claim_place place;
	int careful_claims; /* so many more are made carefully; see careful.c */
	bool freed;         /* keys were, perhaps of rows before that place */
	wh_held_set held;   /* the outbox's, while it is opened anew */

	/* delivering */
	wh_receipt receipts[WH_RECEIPTS];
	bool collecting; /* receipts name messages: none is freed meanwhile */
	bool advanced;   /* something became ready since the last submit */
	bool down;       /* the destination is */
	int64_t untried_id; /* Id whose recorded attempt must be removed because it was never made; 0: none. */
	int64_t probe_at_us;    /* when to try it again */
	int probes;             /* tries in vain */
	int64_t probed;         /* the last message that did: its order */
	size_t n_failed_probes; /* entries that probed in vain */
	wh_refused refused;     /* Messages that were refused, and when. */
	size_t width;           /* Messages that probe together next, if they are new. */
	bool probing;           /* No answer to the probes in flight has come yet. */
	size_t probes_left; /* Probes of this round for which there was no room yet. */
	uint32_t round;     /* Number of the last choice of probes. */
	int64_t failing
		[WH_DOWN_MOST]; /* distinct messages that failed since one succeeded */
	int n_failing;
	int64_t throttled_until_us;
	int64_t answered; /* messages taken or rejected: the destination works */
	int64_t now_us;   /* Unix time of what is being collected */

	/* writing */
	int64_t flush_at_us;      /* WH_NEVER: nothing to write */
	int64_t refused_at_us;    /* when to write again what the database refused */
	int64_t *done_ids;        /* scratch, for wh_relay_entries_most() */
	wh_view *names;           /* scratch: message ids */
	int64_t *back_ids;        /* likewise */
	wherry_failure *failures; /* likewise */
	bool *lost;               /* likewise: which of the failures were others' */
	int64_t db_retry_at_us;
	int db_failures;
	bool reopen_db;
	bool awaits_file; /* The database file was replaced or deleted: wait for the next. */
	int old_log;      /* The old file's log, for wh_db_options; 0 or -1: none. */
	int64_t purge_at_us;
	bool purge_idle; /* nothing was delivered since the last purge */

	/* ending */
	atomic_bool stop;
	int stop_fd; /* eventfd, for wherry_relay_stop */
	int64_t stop_by_us;
	unsigned target;
	int64_t target_at; /* until-empty, nothing being marked: the log's end at the start */
	int64_t target_id; /* until-empty: the highest id at the start; -1: not read yet */
	int64_t give_up_us;
	int64_t empty_check_us; /* until-empty without the lease: when to look again */
	wherry_outcome outcome;
	bool finished;

	wherry_relay_stats stats;
	struct wh_dead_letters *dead_letters; /* NULL: none are wanted */
	wh_hooks *hooks;                      /* NULL: nobody wants to be told */
};

/* wh_relay_say(r, WHERRY_LOG_WARN, "dead", wh_log_int("id", id), wh_log_note("…")): log an
 * event of this relay; see base/log.h. */
#define wh_relay_say(r, level, ...) wh_log(&(r)->env, level, "relay", __VA_ARGS__)

/* The step goes on after a database call failed, unless the failure is one to fix; the
 * next calls wait. */
wherry_code wh_relay_db_trouble(wherry_relay *r, int64_t now, wherry_code code,
				wherry_error *err);

/* relay_open.c: the database, whose connection is lost, is opened again. */
wherry_code wh_relay_reopen(wherry_relay *r, int64_t now, wherry_error *err);

/* relay_open.c: forget what came from a database file that was replaced or deleted. */
void wh_relay_replaced(wherry_relay *r, int64_t now, const char *why);

/* relay_open.c: refuse what the engine and the outbox, as it is now, do not do together. */
wherry_code wh_relay_meet(const wherry_relay *r, wherry_error *err);

/* lease.c */
wh_engine wh_relay_engine(const wherry_relay *r);
wherry_code wh_lease_step(wherry_relay *r, int64_t now, wherry_error *err);
void wh_lease_lost(wherry_relay *r, int64_t now, const char *why);
void wh_lease_forget(wherry_relay *r); /* all that is in memory: nothing flies */
wherry_code wh_lease_give_back(wherry_relay *r, int64_t now, wherry_error *err);

/* engine/table.c */
wherry_code wh_read_step(wherry_relay *r, int64_t now, wherry_error *err);
void wh_read_sweep(wherry_relay *r, int64_t now);
/* Is this row in memory?  If its id belongs to another message there, that one's row is gone:
 * it is dropped, unless the destination has it; then this row is read once that one is through,
 * and *out_later is set. */
bool wh_read_knows(wherry_relay *r, const wh_open_row *row, bool *out_later);
bool wh_read_idle(const wherry_relay *r);
int64_t wh_read_deadline(const wherry_relay *r); /* of the look for open rows */
bool wh_read_has_room(const wherry_relay *r);
bool wh_read_keys_left(const wherry_relay *r); /* may more keys be held? */
int64_t wh_read_room(const wherry_relay *r);   /* messages that still fit */
bool wh_read_worth_it(const wherry_relay *r);
bool wh_read_next(const wherry_relay *r,
		  int64_t now); /* will the next step read ahead? */

/* flaw.c: why a row cannot be handled and must die; NULL: it can.  Borrowed until the next
 * call. */
const char *wh_flaw_of(wherry_relay *r, const wh_open_row *row);
/* Leave out of a row what cannot be handled. */
void wh_flaw_trim(const wherry_relay *r, wh_open_row *row);
/* Write a row's ordering key to key_text; none, if its texts are too long. */
void wh_flaw_key(wherry_relay *r, const wh_open_row *row);

wherry_code wh_read_take_in(wherry_relay *r, const wh_open_row *row, wherry_error *err);
/* Take in a row, or note it behind its key. */
wherry_code wh_read_meet(wherry_relay *r, int64_t now, const wh_open_row *row,
			 wherry_error *err);
wherry_code wh_read_control(wherry_relay *r, int64_t now, wherry_error *err);
/* Log it if an operator's command raised the outbox's control version. */
void wh_read_notice(wherry_relay *r, int64_t version);

/* engine/partitioned.c */
wherry_code wh_partitions_open(wherry_relay *r, wherry_error *err);
wherry_code wh_partitions_join(wherry_relay *r, wherry_error *err);
void wh_partitions_begin(wherry_relay *r);

/* The share is as it was heard: say so, take what is missing, and give up what is too much
 * once it can be. */
wherry_code wh_partitions_adopt(wherry_relay *r, int64_t now, const wh_slots *heard,
				wherry_error *err);
wherry_code wh_partitions_yield(wherry_relay *r, int64_t now, wherry_error *err);

/* Are there slots that are none of its own? */
bool wh_partitions_partial(const wherry_relay *r);

/* The destination's own numbers; how many, at most WH_NUMBERS_MOST. */
size_t wh_relay_numbers(const wherry_relay *r, wh_number *out);

/* held.c */
/* While the destination is down, messages that were held fill half of the window: the rest is
 * for new ones, which are probed first. */
bool wh_noted_has_room(const wherry_relay *r);
void wh_noted_add(wherry_relay *r, wh_key *key, int64_t id, int64_t place);
wherry_code wh_noted_due(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_noted_parked(wherry_relay *r, int64_t now, wherry_error *err);
void wh_noted_look(wherry_relay *r, int64_t now);

/* stream.c: the log of commits beside the table */
wherry_code wh_streaming_open(wherry_relay *r,
			      wherry_error *err); /* once there is a box */
void wh_streaming_close(wherry_relay *r);
void wh_streaming_break(wherry_relay *r, int64_t now); /* its database is opened anew */
void wh_streaming_end(wherry_relay *r); /* the connection, and what came by it */
wherry_code wh_streaming_step(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_streaming_alive(wherry_relay *r, int64_t now, wherry_error *err);
/* What was settled moves the position: where it is the truth it is written, and told. */
wherry_code wh_streaming_settled(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_streaming_finish(wherry_relay *r, int64_t now, wherry_error *err);
/* Rows that have come, as far as that asks nothing of the database.  True: there may be more
 * of them; *out: for what to wait else. */
bool wh_streaming_meanwhile(wherry_relay *r, int64_t now, struct pollfd *out);
int64_t wh_streaming_deadline(const wherry_relay *r, int64_t now);
int wh_streaming_fd(const wherry_relay *r, short *out_events); /* -1: none */
bool wh_streaming_on(const wherry_relay *r);                   /* new rows come by it */
void wh_streaming_taken(wherry_relay *r, uint64_t number);
void wh_streaming_landed(wherry_relay *r,
			 uint64_t number);      /* a message of it needs it no more */
bool wh_streaming_knows(const wherry_relay *r); /* all that is open and nobody touched */
void wh_streaming_forget(wherry_relay *r);      /* it does not */
/* A sweep has met everything: where was the log then? */
wherry_code wh_streaming_swept(wherry_relay *r, int64_t now, wherry_error *err);
/* As wh_until_empty_step(), where nothing is marked: is all delivered that was in the log? */
wherry_code wh_streaming_until(wherry_relay *r, int64_t now, wherry_error *err);
/* Can everybody see the rows of what is settled, and of this one? */
wherry_code wh_streaming_seen(wherry_relay *r, const wh_entry *also, bool *out_all,
			      wherry_error *err);

/* After a renewal: does the first pending row come by the log? */
wherry_code wh_streaming_missing(wherry_relay *r, int64_t now, wherry_error *err);

int64_t wh_streaming_unseen(wherry_relay *r); /* some cannot: how long to wait, us */

/* keep.c: nothing is written to rows; what failed waits in memory */
wherry_code wh_unmarked_step(wherry_relay *r, int64_t now, wherry_error *err);
void wh_unmarked_failure(wherry_relay *r, wh_entry *e, int64_t now);
/* Of what is settled: what died, and that one is being tried. */
wherry_code wh_unmarked_settle(wherry_relay *r, const wh_entry *try_next,
			       wherry_error *err);
/* The same, and how far all is delivered. */
wherry_code wh_unmarked_write(wherry_relay *r, const wh_entry *try_next,
			      wherry_error *err);

/* strict.c */
wherry_code wh_strict_check(const wherry_relay *r, wherry_error *err);
void wh_strict_reset(wherry_relay *r);
/* Must reading stop before this row? */
bool wh_strict_stops(wherry_relay *r, int64_t now, int64_t id);
wherry_code wh_strict_look(wherry_relay *r, int64_t now, wherry_error *err);

/* latency.c: of a message that was delivered */
void wh_latency_note(wherry_relay *r, const wh_entry *e);

/* until.c */
wherry_code wh_until_empty_begin(wherry_relay *r, int64_t now, wherry_error *err);
wherry_code wh_until_empty_step(wherry_relay *r, int64_t now, wherry_error *err);
void wh_until_empty_finish(wherry_relay *r, wherry_outcome outcome);

/* claim.c */
wherry_code wh_claim_step(wherry_relay *r, int64_t now, wherry_error *err);
int64_t wh_claim_deadline(const wherry_relay *r, int64_t now);
wherry_code wh_claim_extend(wherry_relay *r, wherry_error *err);
void wh_claim_let_go(wherry_relay *r); /* of all that does not fly */

/* handler_step.c: the publisher is told under which lease it works; functions write there */
void wh_handlers_grant(wherry_relay *r);

/* dispatch.c */
wherry_code wh_dispatch_step(wherry_relay *r, int64_t now, wherry_error *err);
bool wh_dispatch_alone(const wherry_relay *r); /* one message at a time */
void wh_collect_step(wherry_relay *r, int64_t now);
/* While the database is at work on what is asked of it in between, the destination goes on:
 * what is ready is submitted, receipts are taken, nothing is asked of the database. */
bool wh_meanwhile_submits(const wherry_relay *r);
void wh_meanwhile_begin(wherry_relay *r);
void wh_meanwhile_end(wherry_relay *r);
void wh_publisher_lost(wherry_relay *r, int64_t now, const wherry_error *why);

/* A suspect that came back while the destination is down was not tried: that is to be put on
 * record, too. */
void wh_suspect_back(wherry_relay *r, const wh_entry *e);
wherry_code wh_suspect_step(wherry_relay *r, int64_t now, wherry_error *err);

void wh_entry_admit(wherry_relay *r, wh_entry *e); /* READY, or behind its key */
void wh_key_advance(wherry_relay *r, wh_key *key); /* the next of it may be ready */

/* A message of it comes back, and so will those that fly behind it: none of it is
 * submitted until they have landed. */
void wh_key_break(wherry_relay *r, wh_key *key);
void wh_key_landed(wherry_relay *r, wh_key *key);
/* It is held, and its messages wait in memory; so does e, if not NULL. */
void wh_key_rest(wherry_relay *r, wh_key *key, wh_entry *e);

/* settle.c */
void wh_settle_receipt(wherry_relay *r, const wh_receipt *receipt, int64_t now);
void wh_settle_poison(wherry_relay *r, wh_entry *e, int64_t now);
void wh_settle_put(wherry_relay *r, wh_entry *e, int64_t now); /* to be written */
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
/* It probed in vain: it takes no room in the window any more, so that others are read
 * that may probe, and what comes behind it in its key is left alone until it has landed. */
void wh_settle_failed_probe(wherry_relay *r, wh_entry *e);
void wh_entry_gone(wherry_relay *r,
		   wh_entry *e); /* forget it, and its key if that was all */
void wh_down(wherry_relay *r, int64_t now, const char *why);
void wh_up(wherry_relay *r);

/* probe.c */
/* Messages to probe with: up to `most` that were not refused since the destination took one.
 * Returns how many. */
size_t wh_probe_choose(wherry_relay *r, wh_entry **out, size_t most);
/* The next message to probe with where all were refused. */
wh_entry *wh_probe_next(wherry_relay *r);
/* A message was refused retriably.  True: that counts as an attempt of it.  May find that the
 * destination is down. */
bool wh_probe_refused(wherry_relay *r, const wh_entry *e, const wh_receipt *receipt,
		      int64_t now, const char *why);
/* How long a message rests whose refusal does not count. */
int64_t wh_probe_rest_us(const wherry_relay *r, int64_t now);

/* Entries that may be in memory at once. */
size_t wh_relay_entries_most(const wherry_relay *r);

#endif
