/*
 * status on an outbox.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "cli/doctor.h"
#include "cli/relays.h"
#include "outbox/stream.h"
#include "publish/parts.h"
#include "store/engines.h"
#include "store/relay_report.h"

enum {
	SOON_US = 2 * WH_SECOND, /* A ready message has usually been delivered by then. */
	/* A relay renews its lease, and reports, every 10 s or more often. */
	STALL_US = 15 * WH_SECOND,
	LATE_US = 60 * WH_SECOND,
	STREAM_NEAR =
		16 * 1024 * 1024 /* Bytes of WAL that a relay is behind as a rule. */
};

/* A subscription stands still if its position has not moved for so long, and messages are behind it. */
#define STILL_US (3600 * (int64_t)WH_SECOND)

/* Look at the replication slot.  A failure is ignored, since the outbox may not be
 * streamed. */
static void look_at_log(const wh_session *s, const wherry_config *config,
			wh_wal_watched *out)
{
	wh_wal *wal = NULL;

	*out = (wh_wal_watched){.any = false};
	if (wh_wal_open(s->outbox, wherry_config_get(config, "stream.slot"),
			wherry_config_get(config, "stream.publication"), &wal,
			NULL) != WHERRY_OK)
		return;
	(void)wh_wal_watch(wal, out, NULL);
	wh_wal_close(wal);
}

static const char no_session[] = ", no session of the database";

/* Append how long messages have waited, such as " for 3s (as the oldest row says)". */
static void put_lag(wh_buf *out, const wh_wal_lag *lag)
{
	static const char *const sayings[][2] = {
		{"rows", "as the oldest row says"},
		{"reader", "as its reader says"},
		{"slot", "as long as nobody reads it"},
		{"relay", "as long as the last relay is gone"},
	};
	char span[WH_SPAN_LEN];

	for (size_t i = 0; lag->by && i < sizeof(sayings) / sizeof(*sayings); i++)
		if (strcmp(lag->by, sayings[i][0]) == 0)
			wh_buf_printf(out, " for %s (%s)", wh_span_text(lag->us, span),
				      sayings[i][1]);
}

static void print_stream(const wh_wal_watched *st)
{
	wh_buf lag = WH_BUF_INIT(200);

	if (!st->any)
		return;
	if (st->state.lost)
		(void)printf("stream      %s: the server gave its WAL up\n", st->slot);
	put_lag(&lag, &st->lag);
	if (st->state.has_slot && !st->state.lost)
		(void)printf("stream      %s, %" PRId64 " bytes behind%s, %" PRId64
			     " kept, %s\n",
			     st->slot, st->behind, wh_buf_str(&lag), st->state.retained,
			     st->state.reader ? "being read" : "read by nobody");
	wh_buf_clear(&lag);
	if (st->dead)
		(void)printf("dead        %" PRId64 " in wherry_dead\n", st->dead);
}

static void put_stream(wh_buf *buf, const wh_wal_watched *st)
{
	if (!st->any) {
		wh_buf_puts(buf, ",\"stream\":null");
		return;
	}
	wh_buf_puts(buf, ",\"stream\":{\"slot\":");
	wh_buf_json(buf, st->slot, strlen(st->slot));
	wh_buf_printf(buf,
		      ",\"lost\":%s,\"reader\":%" PRId64 ",\"behind_bytes\":%" PRId64
		      ",\"behind_us\":%" PRId64 ",\"behind_by\":\"%s\""
		      ",\"retained_bytes\":%" PRId64 ",\"dead\":%" PRId64 "}",
		      st->state.lost ? "true" : "false", st->state.reader, st->behind,
		      st->lag.us, st->lag.by ? st->lag.by : "", st->state.retained,
		      st->dead);
}

/* Facts about the outbox, for the first lines. */
typedef struct facts {
	const wh_session *s;
	const wherry_outbox_status *st;
	const wh_wal_watched *stream;
	const wh_subscriptions *subscriptions;
	bool known; /* The tables say which relay works. */
	bool running; /* A relay holds the lease, and its process is not known to be gone. */
	bool silent;  /* It has the lease, and no session of the database. */
	bool returns; /* None has the lease, which ended a moment ago: the last one may be about to connect again. */
	int64_t ended_us; /* Then: when it ended. */
	bool watched; /* None does, and a daemon waits for messages and then starts one. */
	/* Rows do not say which messages are delivered, but how far the WAL was read does. */
	bool keeps;
	int64_t open; /* Messages that are neither done nor dead; if it keeps, 1 or 0. */
	bool ready;   /* A message could be delivered now. */
	int64_t waits_us; /* The oldest one has waited for so long. */
	bool failing; /* The relay's last report has an error after its last delivery. */
	bool delivers; /* The relay reported a delivery a moment ago, and no error since. */
	int64_t others_open; /* Messages that are open in other subscriptions. */
} facts;

static facts facts_of(const wh_session *s, const wherry_outbox_status *st,
		      const wh_wal_watched *stream)
{
	bool failing = st->error_us >= 0 && wh_report_is_failure(st->error) &&
		       (st->delivered_us < 0 || st->error_us < st->delivered_us);

	bool keeps = stream->any && (s->outbox->layout.streams ||
				     !wh_engine_marks(wh_engine_of(st->engine)));
	int64_t open = st->count[WHERRY_PENDING] + st->count[WHERRY_PROCESSING] +
		       st->count[WHERRY_FAILED];

	return (facts){
		.s = s,
		.st = st,
		.stream = stream,
		.known = !*s->outbox->store.limits,
		.running = st->lease_left_us > 0,
		.watched = st->lease_left_us <= 0 && wh_outbox_is_watched(s->outbox),
		.keeps = keeps,
		.open = keeps ? stream->lag.us > 0 : open,
		.ready = keeps ? stream->lag.us > 0 : st->ready > 0,
		.waits_us = keeps ? stream->lag.us : st->oldest_ready_us,
		.failing = failing,
		.delivers =
			!failing && st->delivered_us >= 0 && st->delivered_us <= STALL_US,
	};
}

/* A relay whose machine is gone, or that loses its connection while a server fails over. */
static wherry_code look_for_session(facts *f, wherry_error *err)
{
	wh_store *store = &f->s->outbox->store;
	wh_holder holder = WH_HOLDER_NONE;
	bool silent = false;
	wherry_code code = wh_store_holder(store, &holder, err);

	if (code == WHERRY_OK)
		code = wh_is_silent(f->s, f->st, &silent, err);
	f->silent = f->running && silent;
	f->returns = !f->running && wh_holder_may_return(store, &holder);
	f->ended_us = holder.ended_us ? holder.ended_us : holder.state_us;
	return code;
}

static void warn_silent(const facts *f, wh_warned *out)
{
	char span[WH_SPAN_LEN];

	wh_warn(out,
		"relay %s has no session of the database, and its lease holds for %s more: "
		"it connects again, or another relay takes over in seconds; if none stands "
		"by, " WH_HOW_TO_RELAY,
		f->st->owner, wh_span_text(f->st->lease_left_us, span));
}

/* The database went back, or another server leads, and a relay has found that messages may be missing. */
static void warn_went_back(const facts *f, wh_warned *out)
{
	char span[WH_SPAN_LEN];

	if (strncmp(f->st->error, WH_WENT_BACK, strlen(WH_WENT_BACK)) == 0 &&
	    f->st->error_us < STILL_US)
		wh_warn(out,
			"%s ago the relay began again: %s; compare consumers with the "
			"database: see docs/guide/failover.md",
			wh_span_text(f->st->error_us, span), f->st->error);
}

/* Warn that the destination refuses all open messages. */
static void warn_refused(const facts *f, wh_warned *out)
{
	wh_buf text = WH_BUF_INIT(WH_WARNING_MAX);

	wh_report_put_refusal(&text, f->st->destination, f->st->error, f->st->state_us);
	if (f->keeps)
		wh_warn(out, "%s", wh_buf_str(&text));
	else
		wh_warn(out, "%s; %" PRId64 " message%s", wh_buf_str(&text), f->open,
			f->open == 1 ? " waits" : "s wait");
	wh_buf_clear(&text);
}

/* Warn that ready messages wait, though a relay has the lease. */
static void warn_stalled(const facts *f, wh_warned *out)
{
	char span[WH_SPAN_LEN], last[WH_SPAN_LEN];

	(void)wh_span_text(f->waits_us, span);
	if (f->failing)
		wh_warn(out,
			"the oldest message has been ready for %s, and deliveries fail: %s",
			span, f->st->error);
	else if (f->delivers || !f->known || f->st->delivered_us < 0)
		wh_warn(out,
			"the oldest message has been ready for %s: the relay or its "
			"destination is too slow, or it waits for a transaction: "
			"`wherry doctor%s`",
			span, f->s->target);
	else
		wh_warn(out,
			"the oldest message has been ready for %s, and the relay delivered "
			"its last one %s ago: it waits for its destination or for a "
			"transaction: `wherry doctor%s`",
			span, wh_span_text(f->st->delivered_us, last), f->s->target);
}

/* Warn about messages that failed and wait for their next attempt. */
static void warn_failed(const facts *f, wh_warned *out)
{
	int64_t n = f->st->count[WHERRY_FAILED];

	if (*f->st->error)
		wh_warn(out,
			"%" PRId64
			" message%s failed and %s tried again; the last error: %s",
			n, n == 1 ? " has" : "s have", n == 1 ? "is" : "are",
			f->st->error);
	else
		wh_warn(out,
			"%" PRId64
			" message%s failed and %s tried again: `wherry list%s --state failed`",
			n, n == 1 ? " has" : "s have", n == 1 ? "is" : "are",
			f->s->target);
}

/* Warn about dead messages.  Some layouts cannot list or retry them. */
static void warn_dead(const facts *f, wh_warned *out)
{
	int64_t apart = f->stream->dead;

	wh_warn_dead(out, f->st->count[WHERRY_DEAD], f->s->target);
	if (apart)
		wh_warn(out,
			"%" PRId64 " message%s dead, in the table wherry_dead, with the "
			"reason of each",
			apart, apart == 1 ? " is" : "s are");
}

/* Has the oldest ready message waited for longer than its relay needs? */
static bool is_late(const facts *f)
{
	return f->ready && f->waits_us > (f->delivers ? LATE_US : STALL_US);
}

/* Does a message wait for what was found, whether others are delivered or not?  Or may it wait for what the
 * role must not see? */
static bool stands_still(const facts *f, const wh_finding *found)
{
	return found->level == WH_BAD ||
	       (found->level == WH_WARN &&
		(strcmp(found->check, "row-locks") == 0 ||
		 (strcmp(found->check, "unseen") == 0 && is_late(f))));
}

/* Warn of what doctor finds that lets no message be committed, or some not be delivered. */
static void warn_still(const facts *f, const wherry_config *config, wh_warned *out)
{
	wh_doctor d = {
		.session = f->s,
		.store = &f->s->outbox->store,
		.config = config,
		.gone = WH_BUF_INIT(0),
		.older_us = LATE_US,
	};

	if (wh_doctor_begin(&d, NULL) != WHERRY_OK)
		return;
	wh_doctor_check_still(&d, wh_engine_reads_log(wh_engine_of(f->st->engine)));
	for (size_t i = 0; i < d.n; i++)
		if (stands_still(f, &d.findings[i]))
			wh_warn(out, "%s: %s", d.findings[i].what, d.findings[i].advice);
	wh_doctor_clear(&d);
}

/* Collect the warnings, which are printed first. */
static void look(const facts *f, wh_warned *out)
{
	const wherry_outbox_status *st = f->st;
	char span[WH_SPAN_LEN];

	if (st->paused)
		wh_warn(out,
			"the outbox is paused: nothing is delivered until `wherry resume%s`",
			f->s->target);
	else if (st->lease_left_us > WH_LEASE_MOST_US)
		wh_warn(out,
			"the lease of %s ends in %s, later than any relay's: if that relay "
			"is gone, no other leads until then; `wherry doctor%s` says what "
			"to do",
			st->owner, wh_span_text(st->lease_left_us, span), f->s->target);
	else if (f->silent && f->ready && f->waits_us > SOON_US)
		warn_silent(f, out);
	else if (wh_is_refused(st))
		warn_refused(f, out);
	else if (f->stream->state.lost)
		wh_warn(out,
			"the server gave up the WAL of the replication slot %s: "
			"no relay that reads the WAL can go on",
			f->stream->slot);
	else if (f->open && f->returns)
		wh_warn(out,
			"no relay holds the lease: that of %s ended %s ago, and it connects "
			"again if it runs",
			st->owner, wh_span_text(f->ended_us, span));
	else if (f->open && !f->running && f->known && (!f->watched || is_late(f)))
		wh_warn(out, "no relay is running: " WH_HOW_TO_RELAY);
	else if (is_late(f))
		warn_stalled(f, out);
	else if (st->count[WHERRY_FAILED])
		warn_failed(f, out);
	warn_went_back(f, out);
	warn_dead(f, out);
}

/* ---- the other subscriptions ---- */

/* Messages that it has not passed are not deleted, of whatever topic, so this is said first. */
static void look_at_still(const facts *f, const wh_subscription_at *at, wh_warned *out)
{
	const char *only = f->s->outbox->subscription;
	char span[WH_SPAN_LEN];

	if ((*only && strcmp(only, at->name) != 0) || at->kept_us < STILL_US ||
	    at->moved_us < STILL_US)
		return;
	(void)wh_span_text(at->moved_us < at->kept_us ? at->moved_us : at->kept_us, span);
	if (at->status.paused)
		wh_warn(out,
			"subscription '%s' is paused and has not moved for %s: all messages "
			"behind it are kept",
			at->name, span);
	else if (at->status.lease_left_us > 0)
		wh_warn(out,
			"subscription '%s' has not moved for %s, and all messages behind it "
			"are kept: its relay makes no progress",
			at->name, span);
	else
		wh_warn(out,
			"nobody has read subscription '%s' for %s, and all messages behind it "
			"are kept: relay it, or `wherry drop` it",
			at->name, span);
}

static void look_at_all_still(const facts *f, wh_warned *out)
{
	for (int i = 0; i < f->subscriptions->n; i++)
		look_at_still(f, &f->subscriptions->at[i], out);
}

/* Consumers may read it without a relay, but do not let messages wait for long. */
static void look_at_other(facts *f, const wh_subscription_at *at, wh_warned *out)
{
	const wherry_outbox_status *st = &at->status;
	int64_t dead = st->count[WHERRY_DEAD];
	char span[WH_SPAN_LEN];

	if (strcmp(at->name, WH_SUBSCRIPTION_OF_RELAYS) == 0)
		return;
	f->others_open += st->count[WHERRY_PENDING] + st->count[WHERRY_PROCESSING] +
			  st->count[WHERRY_FAILED];
	if (at->kept_us >= STILL_US && at->moved_us >= STILL_US)
		; /* It is named already. */
	else if (st->paused)
		wh_warn(out, "subscription '%s' is paused", at->name);
	else if (st->ready && st->oldest_ready_us > STALL_US)
		wh_warn(out,
			"the oldest message of subscription '%s' has been ready for %s, and "
			"%s: `wherry status%s/%s`",
			at->name, wh_span_text(st->oldest_ready_us, span),
			st->lease_left_us > 0 ? "its relay is too slow, or waits"
					      : "no relay reads it",
			f->s->target, at->name);
	if (dead)
		wh_warn(out, "%" PRId64 " message%s dead in subscription '%s'", dead,
			dead == 1 ? " is" : "s are", at->name);
}

/* Of an outbox, and not of one subscription of it. */
static void look_at_others(facts *f, wh_warned *out)
{
	if (!*f->s->outbox->subscription)
		for (int i = 0; i < f->subscriptions->n; i++)
			look_at_other(f, &f->subscriptions->at[i], out);
}

/* The text about relays that share the outbox. */
typedef struct holders {
	bool json;
	int n;
	wh_buf text;
} holders;

static void put_holder(void *ctx, const wh_partition_holder *who)
{
	holders *s = ctx;
	char span[WH_SPAN_LEN];

	if (s->json) {
		wh_buf_puts(&s->text, s->n ? ",{\"owner\":" : "{\"owner\":");
		wh_buf_json(&s->text, who->owner, strlen(who->owner));
		wh_buf_printf(&s->text,
			      ",\"partitions\":%d,\"epoch\":%" PRId64
			      ",\"lease_left_us\":%" PRId64 ",\"connected\":%s}",
			      who->n, who->epoch, who->left_us,
			      who->silent ? "false" : "true");
	} else {
		wh_buf_printf(&s->text, "partitions  %d of %d: ", who->n, WH_PARTITIONS);
		wh_put_cell(&s->text, who->owner, 0);
		wh_buf_printf(&s->text, ", epoch %" PRId64 ", lease for %s more%s\n",
			      who->epoch, wh_span_text(who->left_us, span),
			      who->silent ? no_session : "");
	}
	s->n++;
}

/* Print the warnings, or that all is well.  All is well only if a message that is
 * committed now will be delivered (tests/system/standing_still.sh). */
static void print_health(const facts *f, const wh_warned *w)
{
	const char *all = f->open || f->others_open || f->stream->behind > STREAM_NEAR
				  ? "no message has waited for long"
				  : "every message is delivered";
	char span[WH_SPAN_LEN];

	wh_print_warned(w);
	if (w->n)
		return;
	if (!f->known && !f->running && !f->stream->state.reader)
		(void)printf("%s; these tables do not say whether a relay is running\n",
			     all);
	else if (f->silent)
		(void)printf("%s; relay %s has no session of the database: it connects "
			     "again, or another relay takes over in seconds\n",
			     all, f->st->owner);
	else if (f->returns)
		(void)printf(
			"%s; no relay holds the lease, which ended %s ago: its relay "
			"connects again if it runs\n",
			all, wh_span_text(f->ended_us, span));
	else if (f->known && !f->running && !f->watched)
		(void)printf("%s; no relay is running\n", all);
	else if (f->ready && !f->keeps && !f->delivers && f->waits_us > SOON_US)
		(void)printf(
			"the oldest message has been ready for %s, and the relay has "
			"not yet reported its delivery\n",
			wh_span_text(f->waits_us, span));
	else
		wh_print_well(f->open ? "messages are being delivered" : all);
}

/* Print the relay's report in the row of its lease. */
static void print_report(const wherry_outbox_status *st)
{
	char span[WH_SPAN_LEN];

	if (*st->state && st->lease_left_us > 0)
		wh_print_line("state", "%s for %s", st->state,
			      wh_span_text(st->state_us, span));
	else if (*st->state && strcmp(st->state, WH_STATE_STOPPED) != 0)
		wh_print_line("state", "it ended without releasing its lease");
	if (*st->destination)
		wh_print_line("destination", "%s", st->destination);
	if (st->delivered_us >= 0)
		wh_print_line("delivered", "%" PRId64 " by this relay, the last %s ago",
			      st->delivered, wh_span_text(st->delivered_us, span));
	if (st->error_us >= 0)
		wh_print_line(wh_report_is_failure(st->error) ? "last error" : "notice",
			      "%s ago: %s", wh_span_text(st->error_us, span), st->error);
}

static void print_others(const facts *f)
{
	wh_buf text = WH_BUF_INIT(WH_OUTPUT_MOST);

	wh_put_subscriptions(&text, f->subscriptions, false);
	wh_put_schedules(&text, f->s->db, false);
	wh_print_buf(&text, "");
	wh_buf_clear(&text);
}

static void print_text(const facts *f, const wh_warned *w, holders *partitions)
{
	const wh_session *s = f->s;
	const wherry_outbox_status *st = f->st;
	char span[WH_SPAN_LEN];

	print_health(f, w);
	wh_print_place(s, NULL, st->paused);
	if (!f->known)
		wh_print_line("layout", "%s: %s", st->layout, s->outbox->store.limits);
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		(void)printf("%-10s  %" PRId64 "%s\n", wherry_state_name((wherry_state)i),
			     st->count[i], wh_or_more(st, (wherry_state)i));
	wh_print_ready(st->ready, st->oldest_ready_us);
	if (partitions->n)
		wh_print_buf(&partitions->text, "");
	else if (f->running)
		wh_print_line("relay", "%s, epoch %" PRId64 ", lease for %s more%s",
			      st->owner, st->epoch, wh_span_text(st->lease_left_us, span),
			      f->silent ? no_session : "");
	else if (f->watched)
		wh_print_line("relay",
			      "none; a daemon waits for messages, and then starts one");
	else if (st->epoch)
		wh_print_line("relay", "none; the last was %s, epoch %" PRId64, st->owner,
			      st->epoch);
	else
		wh_print_line("relay", f->known ? "none so far"
						: "not known: these tables do not say");
	print_report(st);
	print_stream(f->stream);
	print_others(f);
}

static void set_text(char *to, size_t size, const char *text)
{
	size_t n = strnlen(text, size - 1);

	memcpy(to, text, n);
	to[n] = '\0';
}

/* Append the relays: those that share the outbox, or the one that leads or led last. */
static void put_relays(wh_buf *buf, const facts *f, holders *partitions)
{
	const wherry_outbox_status *st = f->st;
	wh_holder relay = WH_HOLDER_NONE;
	const wh_relays relays = {
		.all = &relay, .n = st->epoch > 0, .n_running = st->lease_left_us > 0};

	if (partitions->n) {
		wh_buf_printf(buf, ",\"relays\":[%s],\"last_relay\":null",
			      wh_buf_into(&partitions->text, buf));
		return;
	}
	set_text(relay.owner, sizeof(relay.owner), st->owner);
	set_text(relay.state, sizeof(relay.state),
		 f->silent ? "disconnected" : st->state);
	set_text(relay.destination, sizeof(relay.destination), st->destination);
	set_text(relay.error, sizeof(relay.error), st->error);
	relay.left_us = st->lease_left_us;
	relay.state_us = st->state_us;
	relay.delivered = st->delivered;
	relay.delivered_us = st->delivered_us;
	relay.error_us = st->error_us;
	wh_put_relays_field(buf, &relays);
}

static void print_json(const facts *f, const wh_warned *w, holders *partitions)
{
	const wh_session *s = f->s;
	const wherry_outbox_status *st = f->st;
	wh_buf buf = WH_BUF_INIT(WH_OUTPUT_MOST);

	wh_put_place(&buf, s, st->layout);
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		wh_put_number_field(&buf, wherry_state_name((wherry_state)i),
				    st->count[i]);
	wh_put_number_field(&buf, "ready", st->ready);
	wh_put_number_field(&buf, "oldest_ready_us", st->oldest_ready_us);
	wh_buf_printf(&buf, ",\"paused\":%s", st->paused ? "true" : "false");
	wh_put_number_field(&buf, "epoch", st->epoch);
	wh_put_at_least(&buf, st);
	put_relays(&buf, f, partitions);
	put_stream(&buf, f->stream);
	wh_buf_puts(&buf, ",\"subscriptions\":[");
	wh_put_subscriptions(&buf, f->subscriptions, true);
	wh_buf_puts(&buf, "],\"schedules\":[");
	wh_put_schedules(&buf, s->db, true);
	wh_buf_puts(&buf, "]");
	wh_print_status_json(&buf, st->schema_version, w);
}

wh_exit wh_on_outbox_status(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status st;
	wh_warned w = {.n = 0};
	holders partitions = {.json = wh_arg_on(args, "json"),
			      .text = WH_BUF_INIT(WH_OUTPUT_MOST)};
	wh_subscriptions subscriptions = {0};
	wh_wal_watched stream;
	wh_exit status = WH_EXIT_DONE;

	if (wherry_outbox_get_status(s->outbox, &st, sizeof(wherry_outbox_status),
				     &err) != WHERRY_OK ||
	    wh_partitions_list(&s->outbox->store, put_holder, &partitions, &err) !=
		    WHERRY_OK ||
	    wh_outbox_probe(s->outbox, &err) != WHERRY_OK) {
		status = wh_report(&err);
	} else {
		facts f;

		look_at_log(s, args->config, &stream);
		f = facts_of(s, &st, &stream);
		if (wh_read_subscriptions(s, &st, &subscriptions, &err) != WHERRY_OK &&
		    !partitions.json)
			(void)wh_report(&err);
		f.subscriptions = &subscriptions;
		f.running |= partitions.n > 0;
		if (look_for_session(&f, &err) != WHERRY_OK && !partitions.json)
			(void)wh_report(&err);
		look_at_all_still(&f, &w);
		warn_still(&f, args->config, &w);
		look(&f, &w);
		look_at_others(&f, &w);
		if (partitions.json)
			print_json(&f, &w, &partitions);
		else
			print_text(&f, &w, &partitions);
	}
	wh_free_subscriptions(&subscriptions);
	wh_buf_clear(&partitions.text);
	return status;
}
