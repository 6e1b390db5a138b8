#include "cli/commands.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "cli/on_delayed.h"
#include "cli/on_queue.h"
#include "outbox/stream.h"
#include "publish/parts.h"
#include "store/relay_report.h"

enum { WARNINGS_MAX = 4, WARNING_MAX = 600, LATE_US = 60 * WH_SECOND };

typedef struct warnings {
	char text[WARNINGS_MAX][WARNING_MAX];
	size_t n;
} warnings;

WH_PRINTF(2, 3)
static void warn(warnings *w, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(w->text[w->n++], sizeof(w->text[0]), fmt, args);
	va_end(args);
}

/* Look at the replication slot.  A failure is ignored, since the outbox may not be
 * streamed. */
static void look_at_log(const wh_session *s, const wherry_config *config,
			wh_wal_watched *out)
{
	wh_wal *wal = NULL;

	*out = (wh_wal_watched){.any = false};
	if (wh_wal_open(s->box, wherry_config_get(config, "stream.slot"),
			wherry_config_get(config, "stream.publication"), &wal,
			NULL) != WHERRY_OK)
		return;
	(void)wh_wal_watch(wal, out, NULL);
	wh_wal_close(wal);
}

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

/* Warn that the destination refuses all open messages. */
static void warn_refused(const wherry_status *st, warnings *out)
{
	wh_buf text = WH_BUF_INIT(WARNING_MAX);
	int64_t waiting = st->count[WHERRY_PENDING] + st->count[WHERRY_PROCESSING] +
			  st->count[WHERRY_FAILED];

	wh_report_put_refusal(&text, st->destination, st->error, st->state_us);
	warn(out, "%s; %" PRId64 " message%s", wh_buf_str(&text), waiting,
	     waiting == 1 ? " waits" : "s wait");
	wh_buf_clear(&text);
}

/* Collect the warnings, which are printed first. */
static void look(const wh_session *s, const wherry_status *st, warnings *out)
{
	char span[WH_SPAN_LEN];

	if (st->paused)
		warn(out,
		     "the outbox is paused: nothing is delivered until `wherry resume%s`",
		     s->target);
	else if (wh_is_refused(st))
		warn_refused(st, out);
	else if (st->ready && !st->lease_left_us && !*s->box->store.limits)
		warn(out, "no relay is running: start one with `wherry relay%s TO`",
		     s->target);
	else if (st->ready && st->oldest_ready_us > LATE_US)
		warn(out,
		     "the oldest message has been ready for %s: the relay or its "
		     "destination is too slow",
		     wh_span_text(st->oldest_ready_us, span));
	if (st->count[WHERRY_DEAD])
		warn(out,
		     "%" PRId64
		     " message%s dead: look with `wherry list%s --state dead`, "
		     "then `wherry retry%s ID`",
		     st->count[WHERRY_DEAD],
		     st->count[WHERRY_DEAD] == 1 ? " is" : "s are", s->target, s->target);
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
			      ",\"lease_left_us\":%" PRId64 "}",
			      who->n, who->epoch, who->left_us);
	} else {
		wh_buf_printf(&s->text,
			      "partitions  %d of %d: %s, epoch %" PRId64
			      ", lease for %s more\n",
			      who->n, WH_PARTITIONS, who->owner, who->epoch,
			      wh_span_text(who->left_us, span));
	}
	s->n++;
}

/* Print the warnings, or that all is well. */
static void print_health(const wh_session *s, const wherry_status *st, const warnings *w)
{
	for (size_t i = 0; i < w->n; i++)
		(void)printf("%swarning%s     %s\n", wh_painted(WH_CARE),
			     wh_painted(WH_PLAIN), w->text[i]);
	if (w->n)
		return;
	(void)printf("%sall is well%s", wh_painted(WH_GOOD), wh_painted(WH_PLAIN));
	if (!st->ready && !st->count[WHERRY_FAILED] && !st->count[WHERRY_PROCESSING])
		(void)printf(": every message is delivered\n");
	else if (st->lease_left_us > 0 || *s->box->store.limits)
		(void)printf(": messages are being delivered\n");
	else
		(void)printf(": no message is ready\n");
}

/* Print the relay's report in the row of its lease. */
static void print_report(const wherry_status *st)
{
	char span[WH_SPAN_LEN];
	wh_buf error = WH_BUF_INIT(WARNING_MAX);

	if (*st->state && st->lease_left_us > 0)
		(void)printf("state       %s for %s\n", st->state,
			     wh_span_text(st->state_us, span));
	else if (*st->state && strcmp(st->state, WH_STATE_STOPPED) != 0)
		(void)printf("state       it ended without giving its lease back\n");
	if (*st->destination)
		(void)printf("destination %s\n", st->destination);
	if (st->delivered_us >= 0)
		(void)printf("delivered   %" PRId64 " by this relay, the last %s ago\n",
			     st->delivered, wh_span_text(st->delivered_us, span));
	if (st->error_us >= 0) {
		wh_put_cell(&error, st->error, 0);
		(void)printf("last error  %s ago: %s\n", wh_span_text(st->error_us, span),
			     wh_buf_str(&error));
	}
	wh_buf_clear(&error);
}

static void print_schedules(const wh_session *s)
{
	wh_buf text = WH_BUF_INIT(64 * 1024);

	wh_put_schedules(&text, s->db, false);
	(void)fputs(wh_buf_str(&text), stdout);
	wh_buf_clear(&text);
}

static void print_text(const wh_session *s, const wherry_status *st,
		       const wh_wal_watched *stream, const warnings *w,
		       holders *partitions)
{
	char span[WH_SPAN_LEN];

	print_health(s, st, w);
	(void)printf("table       %s in %s%s\n", s->table, s->url,
		     st->paused ? " (paused)" : "");
	if (*s->box->store.limits)
		(void)printf("layout      %s: %s\n", st->layout, s->box->store.limits);
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		(void)printf("%-10s  %" PRId64 "\n", wherry_state_name((wherry_state)i),
			     st->count[i]);
	if (st->archived)
		(void)printf("archived    %" PRId64 "\n", st->archived);
	(void)printf("ready       %" PRId64, st->ready);
	if (st->ready)
		(void)printf(", the oldest for %s",
			     wh_span_text(st->oldest_ready_us, span));
	if (partitions->n)
		(void)printf("\n%s", wh_buf_str(&partitions->text));
	else if (st->lease_left_us > 0)
		(void)printf("\nrelay       %s, epoch %" PRId64 ", lease for %s more\n",
			     st->owner, st->epoch, wh_span_text(st->lease_left_us, span));
	else if (st->epoch)
		(void)printf("\nrelay       none; the last was %s, epoch %" PRId64 "\n",
			     st->owner, st->epoch);
	else if (*s->box->store.limits)
		(void)printf("\nrelay       not known: these tables do not say\n");
	else
		(void)printf("\nrelay       none so far\n");
	print_report(st);
	print_stream(stream);
	print_schedules(s);
}

static void put_text(wh_buf *buf, const char *text)
{
	wh_buf_json(buf, text, strlen(text));
}

/* Append the relay's state, or that of the last relay if none runs. */
static void put_report(wh_buf *buf, const wherry_status *st)
{
	bool gone = st->lease_left_us <= 0 && *st->state &&
		    strcmp(st->state, WH_STATE_STOPPED) != 0;

	wh_buf_puts(buf, ",\"state\":");
	put_text(buf, gone ? "gone" : st->state);
	wh_put_age_field(buf, "state_us", st->state_us);
	wh_buf_puts(buf, ",\"destination\":");
	put_text(buf, st->destination);
	wh_buf_printf(buf, ",\"delivered\":%" PRId64, st->delivered);
	wh_put_age_field(buf, "last_delivery_us", st->delivered_us);
	wh_buf_puts(buf, ",\"last_error\":");
	put_text(buf, st->error);
	wh_put_age_field(buf, "last_error_us", st->error_us);
}

static void put_relay(wh_buf *buf, const wherry_status *st)
{
	put_report(buf, st);
	if (st->lease_left_us <= 0) {
		wh_buf_printf(buf, ",\"epoch\":%" PRId64 ",\"relay\":null", st->epoch);
		return;
	}
	wh_buf_printf(buf, ",\"epoch\":%" PRId64 ",\"relay\":{\"owner\":", st->epoch);
	put_text(buf, st->owner);
	wh_buf_puts(buf, ",\"engine\":");
	put_text(buf, st->engine);
	wh_buf_printf(buf, ",\"lease_left_us\":%" PRId64 "}", st->lease_left_us);
}

static void print_json(const wh_session *s, const wherry_status *st,
		       const wh_wal_watched *stream, const warnings *w,
		       holders *partitions)
{
	wh_buf buf = WH_BUF_INIT(64 * 1024);

	wh_buf_puts(&buf, "{\"table\":");
	put_text(&buf, s->table);
	wh_buf_puts(&buf, ",\"layout\":");
	put_text(&buf, st->layout);
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		wh_buf_printf(&buf, ",\"%s\":%" PRId64,
			      wherry_state_name((wherry_state)i), st->count[i]);
	wh_buf_printf(&buf,
		      ",\"archived\":%" PRId64 ",\"ready\":%" PRId64
		      ",\"oldest_ready_us\":%" PRId64 ",\"paused\":%s",
		      st->archived, st->ready, st->oldest_ready_us,
		      st->paused ? "true" : "false");
	put_relay(&buf, st);
	if (partitions->n)
		wh_buf_printf(&buf, ",\"partitions\":[%s]",
			      wh_buf_str(&partitions->text));
	put_stream(&buf, stream);
	wh_buf_puts(&buf, ",\"schedules\":[");
	wh_put_schedules(&buf, s->db, true);
	wh_buf_puts(&buf, "]");
	wh_buf_printf(&buf, ",\"schema_version\":%d,\"warnings\":[", st->schema_version);
	for (size_t i = 0; i < w->n; i++) {
		wh_buf_puts(&buf, i ? "," : "");
		put_text(&buf, w->text[i]);
	}
	wh_buf_puts(&buf, "]}");
	(void)puts(wh_buf_str(&buf));
	wh_buf_clear(&buf);
}

static wh_exit show(const wh_args *args, void *session)
{
	wh_session *s = session;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_status st;
	warnings w = {.n = 0};
	holders partitions = {.json = wh_arg_on(args, "json"),
			      .text = WH_BUF_INIT(64 * 1024)};
	wh_wal_watched stream;
	wh_exit status = WH_EXIT_DONE;

	if (wherry_outbox_status(s->box, &st, sizeof(wherry_status), &err) != WHERRY_OK ||
	    wh_partitions_list(&s->box->store, put_holder, &partitions, &err) !=
		    WHERRY_OK) {
		status = wh_report(&err);
	} else {
		look(s, &st, &w);
		look_at_log(s, args->config, &stream);
		if (partitions.json)
			print_json(s, &st, &stream, &w, &partitions);
		else
			print_text(s, &st, &stream, &w, &partitions);
	}
	wh_buf_clear(&partitions.text);
	return status;
}

/* Print the status of a session once. */
typedef wh_exit (*show_fn)(const wh_args *args, void *session);

/* Print the status repeatedly, until interrupted or the reader closes the pipe.  A
 * terminal shows only the last status. */
static wh_exit watch(const wh_args *args, show_fn print, void *session, int64_t every_us)
{
	bool terminal = wh_terminal_width(STDOUT_FILENO) > 0;
	wh_exit status = WH_EXIT_DONE;

	while (status == WH_EXIT_DONE && !ferror(stdout)) {
		if (terminal)
			(void)fputs("\033[H\033[2J", stdout);
		status = print(args, session);
		if (!terminal && !wh_arg_on(args, "json"))
			(void)putchar('\n');
		if (fflush(stdout) != 0)
			return WH_EXIT_FAILED;
		wh_sleep(&wh_env_system, every_us);
	}
	return status;
}

static wh_exit once_or_watch(const wh_args *args, show_fn print, void *session,
			     int64_t every_us)
{
	return wh_arg_on(args, "watch") || wh_arg(args, "every")
		       ? watch(args, print, session, every_us)
		       : print(args, session);
}

static wh_exit run_on_queue(const wh_args *args, int64_t every_us)
{
	wh_queue_session s;
	wh_exit status = wh_on_queue_open(&s, args);

	if (status != WH_EXIT_DONE)
		return status;
	status = once_or_watch(args, wh_on_queue_status, &s, every_us);
	wh_queue_session_close(&s);
	return status;
}

static wh_exit run_on_delayed(const wh_args *args, int64_t every_us)
{
	wh_on_delayed s;
	wh_exit status = wh_on_delayed_open(&s, args);

	if (status != WH_EXIT_DONE)
		return status;
	status = once_or_watch(args, wh_on_delayed_status, &s, every_us);
	wh_on_delayed_close(&s);
	return status;
}

static wh_exit run(wh_args *args)
{
	int64_t every_us = 2 * WH_SECOND;
	wh_exit status;
	wh_session s;

	if (!wh_arg_duration(args, "every", &every_us))
		return WH_EXIT_USAGE;
	if (wh_is_on_queue(args))
		return run_on_queue(args, every_us);
	if (wh_is_on_delayed(args))
		return run_on_delayed(args, every_us);
	status = wh_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	status = once_or_watch(args, show, &s, every_us);
	wh_session_close(&s);
	return status;
}

static const wh_option options[] = {
	{"watch", NULL, "Show it again and again, until it is interrupted.", NULL, 0},
	{"every", "D", "How often, with --watch. (default: 2s)", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_status = {
	.name = "status",
	.operands = "URL",
	.synopsis = "URL [--watch] [--every D] [--json]",
	.brief = "Say whether all is well, and count the messages by state",
	.help = "The first lines say what is wrong, or that all is well. A message is pending "
		"until it is delivered, processing while a relay tries it alone, and done "
		"afterwards. It is failed until its next attempt is due, and dead when it "
		"needs a person. Archived messages were moved to the archive. Ready messages "
		"could be delivered now. Schedules are those of the table cron, if the "
		"database has one.\n"
		"\n"
		"With the URL of a queue it counts the messages of the queue: ready, leased, "
		"waiting and dead; and says which relays work on it. With that of a delayed "
		"queue the messages are due, leased, waiting or dead.\n"
		"\n"
		"Examples:\n"
		"  wherry status sqlite:shop.db\n"
		"  wherry status sqlite:shop.db --watch\n"
		"  wherry status sqlite:shop.db --json | jq .ready\n"
		"  wherry status 'queue+sqlite:shop.db?queue=jobs'\n"
		"  wherry status 'delayed+sqlite:shop.db?delayed=mail'\n",
	.options = options,
	.run = run,
};
