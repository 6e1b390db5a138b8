/*
 * status on a delayed queue.
 */
#include "cli/on_delayed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "cli/relays.h"

typedef struct glance {
	const wh_session *session;
	wherry_delayed_status st;
	wh_relays relays;
	wh_warned warned;
} glance;

static void look(glance *g)
{
	const wherry_delayed_status *st = &g->st;
	char advice[WH_WARNING_MAX];

	(void)snprintf(advice, sizeof(advice),
		       "`wherry list%s --state dead` shows why; remove the cause, then "
		       "`wherry retry%s --all`",
		       g->session->target, g->session->target);
	wh_warn_of(&g->warned,
		   &(wh_facts){.what = "delayed queue",
			       .target = g->session->target,
			       .state = "due",
			       .nobody = "no consumer or relay polls",
			       .dead_advice = advice,
			       .paused = st->paused,
			       .ready = st->due,
			       .oldest_us = st->oldest_due_us,
			       .leased = st->leased,
			       .open = st->due + st->leased,
			       .dead = st->dead},
		   &g->relays);
}

static const char *well(const wherry_delayed_status *st)
{
	if (st->due)
		return "messages are due";
	if (st->leased)
		return "messages are being handled";
	return st->waiting ? "no message is due" : "no message waits";
}

static void print_text(const glance *g)
{
	const wherry_delayed_status *st = &g->st;
	/* Otherwise a lease ends at that time. */
	bool is_ahead = st->waiting && st->next_us > 0;
	wh_buf relays = WH_BUF_INIT(WH_OUTPUT_MOST);
	char span[WH_SPAN_LEN];

	wh_print_warned(&g->warned, well(st));
	(void)printf("table       %s in %s%s\n", g->session->table, g->session->url,
		     st->paused ? " (paused)" : "");
	if (strcmp(st->layout, "native") != 0)
		(void)printf("layout      %s\n", st->layout);
	(void)printf("ready       %" PRId64 "%s%s\n", st->due,
		     st->due ? ", the first for " : "",
		     st->due ? wh_span_text(st->oldest_due_us, span) : "");
	(void)printf("leased      %" PRId64 "\n", st->leased);
	(void)printf("waiting     %" PRId64 "%s%s\n", st->waiting,
		     is_ahead ? ", the next can be polled in " : "",
		     is_ahead ? wh_span_text(st->next_us, span) : "");
	(void)printf("dead        %" PRId64 "\n", st->dead);
	wh_put_relays(&relays, &g->relays, "consumers that poll");
	wh_print_buf(&relays, "");
	wh_buf_clear(&relays);
}

static void print_json(const glance *g)
{
	const wherry_delayed_status *st = &g->st;
	wh_buf buf = WH_BUF_INIT(WH_OUTPUT_MOST);

	wh_buf_puts(&buf, "{\"table\":");
	wh_buf_json(&buf, g->session->table, strlen(g->session->table));
	wh_put_text_field(&buf, "kind", "delayed");
	wh_put_text_field(&buf, "layout", st->layout);
	wh_buf_printf(&buf,
		      ",\"ready\":%" PRId64 ",\"leased\":%" PRId64 ",\"waiting\":%" PRId64
		      ",\"dead\":%" PRId64 ",\"oldest_ready_us\":%" PRId64,
		      st->due, st->leased, st->waiting, st->dead, st->oldest_due_us);
	wh_put_age_field(&buf, "next_us", st->next_us);
	wh_buf_printf(&buf, ",\"paused\":%s", st->paused ? "true" : "false");
	wh_put_relays_field(&buf, &g->relays);
	wh_buf_printf(&buf, ",\"schema_version\":%d,\"warnings\":", st->schema_version);
	wh_put_warned(&buf, &g->warned);
	wh_buf_putc(&buf, '}');
	wh_print_buf(&buf, "\n");
	wh_buf_clear(&buf);
}

wh_exit wh_on_delayed_status(const wh_args *args, wh_session *s)
{
	glance g = {.session = s};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code =
		wherry_delayed_get_status(s->delayed, &g.st, sizeof(g.st), &err);

	if (code == WHERRY_OK)
		code = wh_relays_read(s->store, &g.relays, &err);
	if (code == WHERRY_OK) {
		look(&g);
		if (wh_arg_on(args, "json"))
			print_json(&g);
		else
			print_text(&g);
	}
	wh_relays_clear(&g.relays);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}
