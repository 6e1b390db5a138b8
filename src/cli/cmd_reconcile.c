#include "cli/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "base/duration.h"
#include "base/env.h"
#include "cli/reconcile.h"
#include "publish/parts.h"

enum { SHOWN_MOST = 100, RECENT_S = WH_RECONCILE_RECENT_US / 1000000 };

static const wh_table_column columns[] = {
	{.title = "ID", .right = true},   {.title = "MESSAGE ID", .most = 40},
	{.title = "TOPIC", .most = 30},   {.title = "KEY", .most = 30},
	{.title = "CREATED", .most = 30},
};

typedef struct listing {
	bool json;
	int64_t n;
	wh_table table;
} listing;

/* ---- the missing messages ---- */

static void add_json(listing *l, const wherry_message *message)
{
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

	wh_buf_printf(&line, "%s{\"id\":%" PRId64, l->n ? "," : "", message->id);
	wh_put_text_field(&line, "message_id", message->message_id);
	wh_put_text_field(&line, "topic", message->topic);
	wh_put_text_field(&line, "key", wh_message_key(message));
	wh_put_time_field(&line, "created_at", message->created_at_us);
	wh_buf_putc(&line, '}');
	wh_print_buf(&line, "");
	wh_buf_clear(&line);
}

static void add_row(listing *l, const wherry_message *message)
{
	const char *key = wh_message_key(message);
	char id[24], created[WH_TIME_LEN];

	(void)snprintf(id, sizeof(id), "%" PRId64, message->id);
	wh_time_print(message->created_at_us, created);
	wh_table_add(&l->table,
		     (const char *const[]){id, message->message_id, message->topic,
					   key ? key : "", created});
}

static void visit(void *ctx, const wherry_message *message)
{
	listing *l = ctx;

	if (l->json)
		add_json(l, message);
	else if (l->n < SHOWN_MOST)
		add_row(l, message);
	l->n++;
}

/* ---- the result ---- */

static void put_json(const wh_args *args, const wh_session *s, const wh_reconcile *r)
{
	const wh_reconciled *n = &r->n;
	const wh_count counts[] = {
		{"compared", n->compared},   {"there", n->there},
		{"missing", n->missing},     {"twice", n->twice},
		{"expired", n->expired},     {"compacted", n->compacted},
		{"unknown", n->unknown},     {"waiting", n->waiting},
		{"without_id", n->nameless}, {"recent", n->recent},
	};
	wh_buf out = WH_BUF_INIT(WH_OUTPUT_MOST);
	const char *note = wh_buf_str(&r->notes);

	wh_buf_puts(&out, "]");
	wh_put_text_field(&out, "subscription", s->store->topic);
	wh_put_time_field(&out, "since", r->period.since_us);
	wh_put_time_field(&out, "until", r->period.until_us);
	wh_put_time_field(&out, "kept_since", r->kept_us);
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		wh_buf_printf(&out, ",\"%s\":%" PRId64, counts[i].name, counts[i].n);
	if (wh_arg_on(args, "yes"))
		wh_buf_printf(&out, ",\"again\":%" PRId64, n->again);
	wh_buf_puts(&out, ",\"notes\":[");
	for (; *note; note += strcspn(note, "\n") + 1) {
		if (note != wh_buf_str(&r->notes))
			wh_buf_putc(&out, ',');
		wh_buf_json(&out, note, strcspn(note, "\n"));
	}
	wh_buf_puts(&out, "]}");
	wh_print_buf(&out, "\n");
	wh_buf_clear(&out);
}

static void line(const char *name, int64_t n, const char *what)
{
	(void)printf("%-10s %" PRId64 "%s\n", name, n, what);
}

static void put_counts(const wh_reconcile *r)
{
	const wh_reconciled *n = &r->n;

	line("compared", n->compared, " delivered messages of the outbox");
	line("there", n->there, "");
	line("missing", n->missing, "");
	if (n->expired)
		line("expired", n->expired,
		     r->with_expired
			     ? ", and counted as missing (--with-expired)"
			     : ": older than what is still there, so retention may "
			       "have removed them; if something else did, "
			       "--with-expired counts them as missing");
	if (n->compacted)
		line("compacted", n->compacted, ": a later message of the key is there");
	if (n->twice)
		line("twice", n->twice, ": there more than once");
	if (n->unknown)
		line("unknown", n->unknown,
		     ": there, and not in this outbox; other programs may write them");
	if (n->waiting)
		line("waiting", n->waiting, ": not delivered yet, so not compared");
	if (n->nameless)
		line("no id", n->nameless, ": without a message id, so not compared");
}

/* Append what an operator must know to judge the numbers. */
static void add_notes(const wh_args *args, wh_session *s, wh_reconcile *r)
{
	wherry_outbox_status status = {.destination = ""};
	char to[200], time[WH_TIME_LEN];

	if (r->kept_us) {
		wh_time_print(r->kept_us, time);
		wh_buf_printf(&r->notes,
			      "the outbox has no delivered message from before %s: those "
			      "that were purged (outbox.retention) cannot be compared\n",
			      time);
	}
	if (r->n.recent)
		wh_buf_printf(&r->notes,
			      "%" PRId64 " of the missing messages are so new that the "
			      "destination would take them for duplicates; run this "
			      "again later\n",
			      r->n.recent);
	if (!r->to || wh_outbox_look(s->outbox, &status, NULL) != WHERRY_OK)
		return;
	wh_url_show(r->to, to, sizeof(to));
	if (*status.destination && strcmp(status.destination, to) != 0)
		wh_buf_printf(&r->notes,
			      "the relay of this subscription delivers to %s, and %s "
			      "was read\n",
			      status.destination, to);
	else if (r->n.missing && !r->n.there)
		wh_buf_printf(&r->notes,
			      "none is there: does the relay of%s deliver to %s?\n",
			      *args->target ? args->target : " WHERRY_URL", to);
}

static void put_notes(const wh_reconcile *r)
{
	const char *note = wh_buf_str(&r->notes);

	for (; *note; note += strcspn(note, "\n") + 1)
		(void)fprintf(stderr, "note: %.*s\n", (int)strcspn(note, "\n"), note);
}

/* Print what was done about the missing messages, or what --yes would do. */
static void put_end(const wh_args *args, const wh_reconcile *r)
{
	int64_t n = (int64_t)r->n_missing;

	if (wh_arg_on(args, "yes") && r->n.missing)
		(void)printf("%" PRId64
			     " message%s pending again: the relay delivers %s, "
			     "and no others\n",
			     r->n.again, r->n.again == 1 ? " is" : "s are",
			     r->n.again == 1 ? "it" : "them");
	else if (n)
		(void)fprintf(stderr,
			      "--yes would make %" PRId64 " message%s pending again, and "
			      "the relay would deliver %s: nothing was changed\n",
			      n, wh_plural(n), n == 1 ? "it" : "them");
}

static wh_exit conclude(const wh_args *args, wh_session *s, wh_reconcile *r, listing *l)
{
	add_notes(args, s, r);
	if (l->json) {
		put_json(args, s, r);
	} else {
		if (l->n > SHOWN_MOST)
			(void)printf("… and %" PRId64 " more: --json lists all\n",
				     l->n - SHOWN_MOST);
		if (l->n)
			(void)putchar('\n');
		put_counts(r);
		put_end(args, r);
		put_notes(r);
	}
	if (!r->n.missing || (wh_arg_on(args, "yes") && !r->n.recent))
		return WH_EXIT_DONE;
	return WH_EXIT_MISSING;
}

/* ---- the command ---- */

/* A time, or how long ago. */
static bool read_time(const wh_args *args, const char *name, int64_t now_us,
		      int64_t *out_us)
{
	const char *text = wh_arg(args, name);
	int64_t span_us = 0;

	if (!text || wh_time_parse(text, out_us, NULL) == WHERRY_OK)
		return true;
	if (wh_duration_parse(text, &span_us, NULL) == WHERRY_OK) {
		*out_us = now_us - span_us;
		return true;
	}
	(void)wh_usage(args->command,
		       "--%s %s: write a time, such as 2026-11-25T10:00:00Z, or how long "
		       "ago, such as 2h",
		       name, text);
	return false;
}

static bool read_args(const wh_args *args, wh_reconcile *r)
{
	int64_t now_us = wh_now(&wh_env_system);
	int64_t settled_us = now_us - WH_RECONCILE_RECENT_US;

	r->to = wh_operand(args, 1);
	r->inbox = wh_arg(args, "inbox");
	r->consumer = wh_arg(args, "consumer");
	r->with_expired = wh_arg_on(args, "with-expired");
	r->period.until_us = settled_us;
	if (!r->to && !r->inbox) {
		(void)wh_usage(args->command,
			       "name the destination as the relay has it, such as "
			       "kafka://broker:9092, or an inbox by --inbox");
		return false;
	}
	if (r->consumer && !r->inbox) {
		(void)wh_usage(args->command, "--consumer is of an inbox: give --inbox");
		return false;
	}
	if (!read_time(args, "since", now_us, &r->period.since_us) ||
	    !read_time(args, "until", now_us, &r->period.until_us))
		return false;
	if (r->period.until_us >= settled_us) {
		r->period.until_us = settled_us;
		r->settling = true;
	}
	if (r->period.since_us < r->period.until_us)
		return true;
	(void)wh_usage(args->command,
		       "--since must be before --until, and at least %d seconds ago",
		       RECENT_S);
	return false;
}

/* Nothing of the period is kept: a result without a missing message would mislead. */
static wh_exit refuse_empty(const wh_args *args, const wh_session *s,
			    const wh_reconcile *r)
{
	if (r->settling && r->n.settling)
		return wh_complain(
			NULL,
			"outbox '%s' has delivered %" PRId64
			" message%s of that time, made in the last %d seconds, which are "
			"left out because they may still be acknowledged: run this again "
			"in %d seconds",
			s->table, r->n.settling, wh_plural(r->n.settling), RECENT_S,
			RECENT_S);
	return wh_complain(
		NULL,
		"outbox '%s' has no delivered message of that time, so nothing can be "
		"compared: delivered messages are kept for outbox.retention, and `wherry "
		"list%s --all` shows what is there",
		s->table, args->target);
}

static wh_exit run_on_outbox(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	listing l = {.json = wh_arg_on(args, "json")};
	wh_reconcile r = {
		.outbox = s->outbox, .config = args->config, .visit = visit, .ctx = &l};
	wherry_code code;
	wh_exit status;
	bool empty;

	if (!read_args(args, &r))
		return WH_EXIT_USAGE;
	if (!l.json)
		wh_table_begin(&l.table, columns, sizeof(columns) / sizeof(*columns));
	code = wh_reconcile_compare(&r, &err);
	empty = !r.n.compared && !r.n.waiting && !r.n.nameless;
	if (code == WHERRY_OK && l.json && !empty)
		(void)fputs("{\"messages\":[", stdout);
	if (code == WHERRY_OK && r.n.compared)
		code = wh_reconcile_judge(&r, &err);
	if (!l.json)
		wh_table_end(&l.table);
	if (code == WHERRY_OK && wh_arg_on(args, "yes"))
		code = wh_reconcile_deliver(&r, &err);
	if (r.n.again)
		wh_audit(args, s->table, r.n.again);
	if (code != WHERRY_OK)
		status = wh_call_failed(args, code, &err);
	else if (empty)
		status = refuse_empty(args, s, &r);
	else
		status = conclude(args, s, &r, &l);
	wh_reconcile_clear(&r);
	return status;
}

static const wh_option options[] = {
	{"since", "T",
	 "Compare messages that were made from then on: a time, or how long ago.", NULL,
	 WH_REQUIRED},
	{"until", "T", "And before then. (default five seconds ago)", NULL, 0},
	{"inbox", "URL", "Read the inbox of the receiver, and not the destination.", NULL,
	 0},
	{"consumer", "NAME", "The consumer whose messages the inbox is asked for.", NULL,
	 0},
	{"with-expired", NULL,
	 "Count messages as missing that are older than what the destination still has.",
	 NULL, 0},
	{"yes", NULL, "Deliver the missing messages again, and no others.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

#define DELETED                                                                          \
	{                                                                                \
		.why = "messages that were handled are deleted at once, so there is "    \
		       "nothing to compare"                                              \
	}

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run_on_outbox},
	[WH_OF_QUEUE] = DELETED,
	[WH_OF_DELAYED] = DELETED,
	[WH_OF_DELAYED_TABLE] = DELETED,
};

const wh_command wh_cmd_reconcile = {
	.name = "reconcile",
	.operands = "URL [TO]",
	.synopsis = "URL TO --since T [--until T] [--inbox URL [--consumer NAME]] "
		    "[--with-expired] [--yes] [--json]",
	.brief = "Find delivered messages that the destination has lost",
	.help = "Reads back what the destination TO holds, compares it with what the outbox "
		"acknowledged, and lists what is missing. With --yes these messages are pending "
		"again: the relay delivers them, in order per key, and no others. TO and its "
		"settings are those of the relay; URL can be the name of a relay in wherry.yaml. "
		"Kafka, NATS and Redis can be read back. For other destinations, --inbox names the inbox "
		"of the receiver.\n"
		"\n"
		"The exit status is 0 if nothing is missing, or all that is missing is delivered "
		"again, and 6 if messages are missing.\n"
		"\n"
		"Examples:\n"
		"  wherry reconcile sqlite:shop.db kafka://broker:9092 --since 2h\n"
		"  wherry reconcile sqlite:shop.db#outbox/audit nats://host:4222 \\\n"
		"    --since 2026-11-25T10:00:00Z --until 2026-11-25T11:00:00Z --yes\n"
		"  wherry reconcile sqlite:shop.db --inbox postgres://host/db#inbox --since 1d\n",
	.options = options,
	.kinds = kinds,
};
