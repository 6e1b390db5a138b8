/*
 * doctor: what relays say in their reports, and whether a table on which all relays work is paused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "cli/doctor.h"
#include "cli/relays.h"
#include "store/relay_report.h"

static void check_paused(wh_doctor *d, const char *what)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t control_version;
	bool paused = false;

	if (wh_store_control(d->store, &paused, &control_version, &err) != WHERRY_OK)
		wh_doctor_could_not(d, "paused", &err);
	else if (paused)
		wh_doctor_add(
			d, "paused", WH_BAD,
			wh_doctor_sentence("the %s is paused: relays deliver nothing",
					   what),
			wh_doctor_sentence("`wherry resume%s`", d->session->target));
	else
		wh_doctor_add(d, "paused", WH_WELL,
			      wh_doctor_sentence("the %s is not paused", what),
			      strdup(""));
}

static void check_destination(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf text = WH_BUF_INIT(WH_SENTENCE_MAX);
	const wh_holder *refused;
	wh_relays relays;

	if (wh_relays_read(d->store, &relays, &err) != WHERRY_OK) {
		wh_doctor_could_not(d, "destination", &err);
	} else if ((refused = wh_relays_refused(&relays))) {
		wh_report_put_refusal(&text, refused->destination, refused->error,
				      refused->state_us);
		wh_doctor_add(d, "destination", WH_BAD, wh_buf_take(&text),
			      strdup("repair the destination: messages lose no attempts "
				     "meanwhile"));
	} else {
		wh_doctor_add(d, "destination", WH_WELL,
			      strdup("no relay says that its destination refuses"),
			      strdup(""));
	}
	wh_buf_clear(&text);
	wh_relays_clear(&relays);
}

/* ---- servers ---- */

typedef struct servers {
	wh_doctor *d;
	bool found;
} servers;

static void take_server(void *ctx, const wh_holder *relay)
{
	enum { DAY_H = 24 };
	servers *s = ctx;
	char span[WH_SPAN_LEN];

	if (!wh_report_is_of_server(relay->error) || relay->error_us < 0 ||
	    relay->error_us > DAY_H * 3600 * WH_SECOND)
		return;
	s->found = true;
	wh_doctor_add(
		s->d, "other-server", WH_WARN,
		wh_doctor_sentence("relay %s found %s ago: %s", relay->owner,
				   wh_span_text(relay->error_us, span), relay->error),
		strdup("if replication is asynchronous, or a copy was restored, compare "
		       "consumers with the database: see docs/guide/failover.md"));
}

/* ---- destinations that may lose messages ---- */

/* The command that repairs what a report says, such as "min.insync.replicas=1 of the topic orders".  Without
 * one the relay's log has it. */
static char *put_repair(const wh_holder *relay)
{
	static const char prefix[] = "kafka://";
	const char *topic = strstr(relay->error, WH_OF_TOPIC);
	bool one = strstr(relay->error, "min.insync.replicas=1") != NULL;
	size_t len;
	bool unclean = strstr(relay->error, "unclean.leader.election.enable=true");

	if (!topic || !(one || unclean) ||
	    strlen(relay->error) == sizeof(relay->error) - 1 ||
	    strlen(relay->destination) == sizeof(relay->destination) - 1 ||
	    strncmp(relay->destination, prefix, strlen(prefix)) != 0)
		return strdup("the relay's log (event=unsafe-topic) has the command");
	topic += strlen(WH_OF_TOPIC);
	len = strcspn(topic, ",");
	return wh_doctor_sentence(
		"`kafka-configs.sh --bootstrap-server %s --alter --entity-type topics "
		"--entity-name %.*s --add-config %s%s%s`%s",
		relay->destination + strlen(prefix), (int)len, topic,
		one ? "min.insync.replicas=2" : "", one && unclean ? "," : "",
		unclean ? "unclean.leader.election.enable=false" : "",
		topic[len] ? "; the relay's log (event=unsafe-topic) names the others"
			   : "");
}

static void take_unsafe(void *ctx, const wh_holder *relay)
{
	servers *s = ctx;
	char span[WH_SPAN_LEN];

	if (strncmp(relay->error, WH_MAY_LOSE, strlen(WH_MAY_LOSE)) != 0 ||
	    relay->error_us < 0)
		return;
	s->found = true;
	wh_doctor_add(s->d, "unsafe-topic", WH_WARN,
		      wh_doctor_sentence("relay %s found %s ago: %s", relay->owner,
					 wh_span_text(relay->error_us, span),
					 relay->error),
		      put_repair(relay));
}

/* ---- all relays ---- */

static wherry_code each_relay(const wh_doctor *d, wh_holder_fn fn, void *s,
			      wherry_error *err)
{
	wh_holder holder = WH_HOLDER_NONE;
	wherry_code code;

	if (d->store->stmt.relays)
		return wh_store_relays(d->store, fn, s, err);
	code = wh_store_holder(d->store, &holder, err);
	if (code == WHERRY_OK)
		fn(s, &holder);
	return code;
}

void wh_doctor_unsafe(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	servers s = {d, false};
	wherry_code code = each_relay(d, take_unsafe, &s, &err);

	if (code != WHERRY_OK)
		wh_doctor_could_not(d, "unsafe-topic", &err);
	else if (!s.found)
		wh_doctor_add(d, "unsafe-topic", WH_WELL,
			      strdup("no relay says that its destination may lose "
				     "delivered messages"),
			      strdup(""));
}

/* ---- relays that ended ---- */

typedef struct ended {
	bool runs;      /* A relay holds a lease. */
	wh_holder last; /* The one that failed last; error_us -1: none has. */
} ended;

static void take_ended(void *ctx, const wh_holder *relay)
{
	ended *e = ctx;
	bool delivered_since =
		relay->delivered_us >= 0 && relay->delivered_us < relay->error_us;

	e->runs |= relay->left_us > 0;
	if (relay->error_us >= 0 && *relay->error && !delivered_since &&
	    wh_report_is_failure(relay->error) &&
	    (e->last.error_us < 0 || relay->error_us < e->last.error_us))
		e->last = *relay;
}

void wh_doctor_last_error(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	ended e = {.last = WH_HOLDER_NONE};
	char span[WH_SPAN_LEN];
	wherry_code code = each_relay(d, take_ended, &e, &err);

	if (code != WHERRY_OK)
		wh_doctor_could_not(d, "last-error", &err);
	else if (e.runs || e.last.error_us < 0)
		wh_doctor_add(d, "last-error", WH_WELL,
			      strdup("no relay ended with an error"), strdup(""));
	else
		wh_doctor_add(
			d, "last-error", WH_WARN,
			wh_doctor_sentence(
				"the last relay, %s, could not deliver, %s ago: %s%s%s",
				e.last.owner, wh_span_text(e.last.error_us, span),
				e.last.error, *e.last.destination ? ", to " : "",
				e.last.destination),
			strdup("remove the cause, then start a relay: " WH_HOW_TO_RELAY));
}

void wh_doctor_servers(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	servers s = {d, false};
	wherry_code code;

	if (!d->store->stmt.lineage)
		return;
	code = each_relay(d, take_server, &s, &err);
	if (code != WHERRY_OK)
		wh_doctor_could_not(d, "other-server", &err);
	else if (!s.found)
		wh_doctor_add(d, "other-server", WH_WELL,
			      strdup("no relay found another server in the last day"),
			      strdup(""));
}

void wh_doctor_relays(wh_doctor *d, const char *what)
{
	check_paused(d, what);
	check_destination(d);
}
