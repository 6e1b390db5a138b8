#include "cli/relays.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "store/relay_report.h"

/* As for an outbox, see on_outbox_status.c: how long a message may be ready where somebody takes messages, and
 * where nobody is seen to. */
enum { STALL_US = 15 * WH_SECOND, LATE_US = 60 * WH_SECOND };

static void take(void *ctx, const wh_holder *relay)
{
	wh_relays *out = ctx;

	if (out->n == out->cap) {
		size_t cap = out->cap ? 2 * out->cap : 4;
		wh_holder *all = realloc(out->all, cap * sizeof(*all));

		out->failed |= !all;
		if (!all)
			return;
		out->all = all;
		out->cap = cap;
	}
	/* A relay whose process has ended follows those that run. */
	if (relay->left_us > 0 && out->n > out->n_running) {
		out->all[out->n++] = out->all[out->n_running];
		out->all[out->n_running++] = *relay;
		return;
	}
	out->all[out->n++] = *relay;
	out->n_running += relay->left_us > 0;
}

wherry_code wh_relays_read(wh_store *store, wh_relays *out, wherry_error *err)
{
	wherry_code code;

	*out = (wh_relays){.unknown = !store->stmt.relays};
	code = wh_store_relays(store, take, out, err);
	return code == WHERRY_OK && out->failed ? wh_oom(err) : code;
}

void wh_relays_clear(wh_relays *relays)
{
	free(relays->all);
	*relays = (wh_relays){.n = 0};
}

const wh_holder *wh_relays_refused(const wh_relays *relays)
{
	for (size_t i = 0; i < relays->n_running; i++)
		if (strcmp(relays->all[i].state, WH_STATE_RETRYING) == 0)
			return &relays->all[i];
	return NULL;
}

static void put_running(wh_buf *text, const wh_holder *relay)
{
	char span[WH_SPAN_LEN];

	wh_put_cell(text, relay->owner, 0);
	wh_buf_puts(text, ", ");
	wh_put_cell(text, relay->state, 0);
	wh_buf_printf(text, " for %s", wh_span_text(relay->state_us, span));
	if (*relay->destination) {
		wh_buf_puts(text, ", to ");
		wh_put_cell(text, relay->destination, 0);
	}
	if (relay->delivered_us >= 0)
		wh_buf_printf(text, ", delivered %" PRId64 ", the last %s ago",
			      relay->delivered, wh_span_text(relay->delivered_us, span));
	if (relay->error_us >= 0) {
		wh_buf_printf(text, "; last error %s ago: ",
			      wh_span_text(relay->error_us, span));
		wh_put_cell(text, relay->error, 0);
	}
}

static void put_last(wh_buf *text, const wh_holder *relay)
{
	char span[WH_SPAN_LEN];

	wh_buf_puts(text, "none; the last was ");
	wh_put_cell(text, relay->owner, 0);
	if (strcmp(relay->state, WH_STATE_STOPPED) == 0)
		wh_buf_printf(text, ", stopped %s ago",
			      wh_span_text(relay->state_us, span));
	else
		wh_buf_puts(text, ", which ended without releasing its lease");
}

void wh_put_relays(wh_buf *text, const wh_relays *relays, const char *others)
{
	if (relays->n_running > 1)
		wh_buf_printf(text, "relays      %zu\n", relays->n_running);
	for (size_t i = 0; i < relays->n_running; i++) {
		wh_buf_puts(text, "relay       ");
		put_running(text, &relays->all[i]);
		wh_buf_putc(text, '\n');
	}
	if (relays->n_running)
		return;
	wh_buf_puts(text, "relay       ");
	if (relays->n)
		put_last(text, relays->all);
	else if (relays->unknown)
		wh_buf_puts(text, "not known: these tables do not say");
	else
		wh_buf_printf(text, "none so far; %s are not listed", others);
	wh_buf_putc(text, '\n');
}

static void put_relay(wh_buf *json, const wh_holder *relay)
{
	const bool ended = relay->left_us <= 0;

	wh_buf_puts(json, "{\"owner\":");
	wh_buf_json(json, relay->owner, strlen(relay->owner));
	wh_put_text_field(json, "state",
			  ended && strcmp(relay->state, WH_STATE_STOPPED) != 0
				  ? "gone"
				  : relay->state);
	wh_put_age_field(json, "state_us", relay->state_us);
	wh_put_text_field(json, "destination", relay->destination);
	wh_put_number_field(json, "delivered", relay->delivered);
	wh_put_age_field(json, "last_delivery_us", relay->delivered_us);
	wh_put_text_field(json, "last_error", relay->error);
	wh_put_age_field(json, "last_error_us", relay->error_us);
	wh_put_number_field(json, "lease_left_us", ended ? 0 : relay->left_us);
	wh_buf_putc(json, '}');
}

void wh_put_relays_field(wh_buf *json, const wh_relays *relays)
{
	wh_buf_puts(json, ",\"relays\":[");
	for (size_t i = 0; i < relays->n_running; i++) {
		wh_buf_puts(json, i ? "," : "");
		put_relay(json, &relays->all[i]);
	}
	wh_buf_puts(json, "],\"last_relay\":");
	if (relays->n && !relays->n_running)
		put_relay(json, relays->all);
	else
		wh_buf_puts(json, "null");
}

/* ---- whether all is well ---- */

/* Messages that the destination of a relay does not take: all that are open. */
static void warn_refused(wh_warned *out, const wh_facts *facts, const wh_holder *relay)
{
	wh_buf text = WH_BUF_INIT(WH_WARNING_MAX);

	wh_report_put_refusal(&text, relay->destination, relay->error, relay->state_us);
	wh_warn(out, "%s; %" PRId64 " message%s", wh_buf_str(&text), facts->open,
		facts->open == 1 ? " waits" : "s wait");
	wh_buf_clear(&text);
}

/* Has a running relay reported a delivery a moment ago, and no error since? */
static bool delivers(const wh_relays *relays)
{
	for (size_t i = 0; i < relays->n_running; i++) {
		const wh_holder *relay = &relays->all[i];

		if (relay->delivered_us >= 0 && relay->delivered_us <= STALL_US &&
		    (relay->error_us < 0 || relay->error_us >= relay->delivered_us))
			return true;
	}
	return false;
}

void wh_warn_of(wh_warned *out, const wh_facts *facts, const wh_relays *relays)
{
	const wh_holder *refused = wh_relays_refused(relays);
	/* Leased messages show that a worker receives. */
	int64_t late_us = facts->leased || delivers(relays) ? LATE_US : STALL_US;
	char span[WH_SPAN_LEN];

	if (facts->paused)
		wh_warn(out,
			"the %s is paused: relays deliver nothing until `wherry resume%s`",
			facts->what, facts->target);
	else if (refused)
		warn_refused(out, facts, refused);
	else if (facts->ready && facts->oldest_us > late_us)
		wh_warn(out,
			"the oldest message has been %s for %s: %s, or they are too slow; " WH_HOW_TO_RELAY,
			facts->state, wh_span_text(facts->oldest_us, span),
			facts->nobody);
	wh_warn_dead(out, facts->dead, facts->target);
}
