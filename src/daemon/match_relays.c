/*
 * The relays of a set of outboxes, and the queue of outboxes that wait for one.
 */
#include "daemon/match_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/url.h"

enum {
	TURN_US = WH_SECOND,   /* Time of a relay while other outboxes wait. */
	BRIEF_IDLE_US = 20000, /* Such a relay ends when it is idle for so long. */
	NEAR = 32,             /* Outboxes at the beginning of the queue. */
	PASSED_US = 100000,    /* For so long the first of them lets others go first. */
	UNUSED_US = 10 * WH_SECOND /* Until a connection that nobody uses is closed. */
};

/* ---- what relays hand on ---- */

/* A destination or a connection says something, maybe between two relays. */
static void log_record(void *ctx, const wherry_log_record *record)
{
	const wh_matches *m = ctx;

	if (wh_line_wanted(&m->daemon->log, record->level))
		wh_line_record(&m->daemon->log, m->plan.name, record);
}

wherry_code wh_match_make_slots(wh_matches *m, wherry_error *err)
{
	m->n_slots =
		m->plan.connections ? (size_t)m->plan.connections : WH_PLAN_CONNECTIONS;
	m->slots = calloc(m->n_slots, sizeof(*m->slots));
	if (!m->slots)
		return wh_oom(err);
	atomic_store(&m->most, 1);
	for (size_t i = 0; i < m->n_slots; i++) {
		m->slots[i].brief.env = wh_env_system;
		m->slots[i].brief.env.log = log_record;
		m->slots[i].brief.env.log_ctx = m;
		m->slots[i].brief.own_db =
			wh_plan_in_files(&m->plan) || m->plan.databases.value;
		m->slots[i].brief.own_pub = wh_plan_has_schema(m->plan.to.value);
	}
	return WHERRY_OK;
}

/* One that has a connection, if there is one; NULL: as many relays run as may. */
static wh_match_slot *free_slot(wh_matches *m)
{
	wh_match_slot *found = NULL;
	size_t most = atomic_load(&m->most);

	for (size_t i = 0; i < m->n_slots && i < most; i++)
		if (!m->slots[i].busy &&
		    (!found || (m->slots[i].brief.db && !found->brief.db)))
			found = &m->slots[i];
	return found;
}

int64_t wh_match_close_unused(wh_matches *m, int64_t now)
{
	int64_t at = WH_NEVER;

	for (size_t i = 0; i < m->n_slots; i++) {
		wh_match_slot *slot = &m->slots[i];

		if (slot->busy || (!slot->brief.db && !slot->brief.pub))
			continue;
		if (now - slot->left_us >= UNUSED_US)
			wh_brief_clear(&slot->brief);
		else
			at = wh_sooner(at, slot->left_us + UNUSED_US);
	}
	return at;
}

void wh_match_free_slots(wh_matches *m)
{
	for (size_t i = 0; i < m->n_slots; i++)
		wh_brief_clear(&m->slots[i].brief);
	free(m->slots);
	m->slots = NULL;
	m->n_slots = 0;
}

/* ---- the queue ---- */

void wh_match_want(wh_matches *m, wh_match *o)
{
	o->stage = WH_WANTED;
	o->next = NULL;
	if (!m->first)
		m->first_us = wh_monotonic(&wh_env_system);
	o->yielded = false;
	*m->last = o;
	m->last = &o->next;
	m->n_waiting++;
	atomic_store(&m->crowded, true);
}

void wh_match_leave_queue(wh_matches *m, wh_match *o)
{
	if (o == m->first)
		m->first_us = wh_monotonic(&wh_env_system);
	for (wh_match **at = &m->first; *at; at = &(*at)->next)
		if (*at == o) {
			*at = o->next;
			if (!*at)
				m->last = at;
			m->n_waiting--;
			break;
		}
	atomic_store(&m->crowded, m->n_waiting > 0);
}

/* Take the first one whose last relay had this connection: the server knows its tables there.  If there is none
 * near the beginning of the queue, or the first one was passed over for a while, take that: a turn may be long. */
static wh_match *take_for(wh_matches *m, wh_match *first, const wh_match_slot *slot,
			  int64_t now)
{
	int n = slot->brief.db && now - m->first_us < PASSED_US ? NEAR : 0;
	wh_match *found = first;

	for (wh_match *o = first; o && n--; o = o->next)
		if (o->slot == slot) {
			found = o;
			break;
		}
	wh_match_leave_queue(m, found);
	return found;
}

/* ---- a relay ---- */

/* A name as relay.table takes it: in double quotes, and encoded as in a URL. */
static void put_quoted(wh_buf *out, const char *name)
{
	wh_buf_putc(out, '"');
	for (const unsigned char *p = (const unsigned char *)name; *p; p++)
		if (*p == '"')
			wh_buf_puts(out, "\"\"");
		else if (strchr("%/#", *p))
			wh_buf_printf(out, "%%%02X", *p);
		else
			wh_buf_putc(out, (char)*p);
	wh_buf_putc(out, '"');
}

static wherry_code copy_text(const wh_plan_text *from, wh_plan_text *to)
{
	to->raw = strdup(from->raw);
	to->value = strdup(from->value);
	return to->raw && to->value ? WHERRY_OK : WHERRY_NOMEM;
}

static wherry_code fill_to(const wh_plan_text *from, const char *schema, wh_plan_text *to,
			   wherry_error *err)
{
	wherry_code code = wh_plan_fill(from->raw, schema, &to->raw, err);

	return code == WHERRY_OK ? wh_plan_fill(from->value, schema, &to->value, err)
				 : code;
}

/* The relay of one outbox. */
static wherry_code plan_of(const wh_matches *m, const wh_match *o, wh_plan_relay *out,
			   wherry_error *err)
{
	char *its = wh_match_url(m->db, &o->row);
	wh_plan_text from = {its ? its : wh_url_database(m->plan.from.value), NULL};
	const char *table = its ? wh_url_table(m->plan.from.value) : NULL;
	wh_buf text = WH_BUF_INIT(1024);
	wherry_code code;

	from.value = from.raw;
	*out = (wh_plan_relay){.name = NULL};
	wh_buf_printf(&text, "%s/%s", m->plan.name, o->row.schema);
	out->name = wh_buf_take(&text);
	if (its) {
		wh_buf_puts(&text, table ? table : "");
	} else {
		put_quoted(&text, o->row.schema);
		wh_buf_putc(&text, '.');
		put_quoted(&text, wh_match_table(m->db));
	}
	code = out->name && from.raw && copy_text(&from, &out->from) == WHERRY_OK
		       ? wh_config_copy(m->plan.config, &out->config, err)
		       : wh_oom(err);
	if (code == WHERRY_OK)
		code = fill_to(&m->plan.to, o->row.schema, &out->to, err);
	if (code == WHERRY_OK && text.len)
		code = wherry_config_set(out->config, "relay.table", wh_buf_str(&text),
					 err);
	free(from.raw);
	wh_buf_clear(&text);
	if (code != WHERRY_OK)
		wh_plan_relay_clear(out);
	return code;
}

/* ---- relays ---- */

static void start_one(wh_matches *m, wh_match *o, wh_match_slot *slot, int64_t now)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wh_turn turn = {&slot->brief, &m->crowded};
	wh_plan_relay relay;
	wherry_code code = plan_of(m, o, &relay, &err);

	slot->brief.purges = now >= o->upkeep_us;
	/* Now and then, and when something is wrong, all is asked again. */
	slot->brief.known = o->known;
	if (slot->brief.purges || o->failures)
		slot->brief.known = (wh_outbox_known){0};
	if (code == WHERRY_OK) {
		code = wh_pipeline_start(&relay, &m->daemon->log, m->wake, &turn,
					 &o->pipeline, &err);
		if (code != WHERRY_OK)
			wh_plan_relay_clear(&relay);
	}
	if (code != WHERRY_OK) {
		wh_match_rest(o, now);
		wh_match_fail(m, o, err.message, now);
		return;
	}
	o->stage = WH_AWAKE;
	o->slot = slot;
	slot->busy = true;
	o->began_us = now;
	o->stopping = false;
	m->n_awake++;
}

void wh_match_start_relays(wh_matches *m, int64_t now)
{
	wh_match *first;

	while (m->db && (first = m->first) && !atomic_load(&m->stop)) {
		wh_match_slot *slot = free_slot(m);

		if (!slot)
			break;
		start_one(m, take_for(m, first, slot, now), slot, now);
	}
}

/* Other outboxes wait: let relays end that are idle, or whose time is over. */
void wh_match_hurry(wh_matches *m, int64_t now)
{
	size_t n = m->n_waiting;

	for (size_t i = 0; i < m->n && n; i++) {
		wh_match *o = m->all[i];
		wh_pipeline_view view;

		if (o->stage != WH_AWAKE || o->stopping)
			continue;
		wh_pipeline_look(o->pipeline, &view);
		if (now - o->began_us < TURN_US &&
		    (view.idle_us == WH_NEVER || now - view.idle_us < BRIEF_IDLE_US))
			continue;
		wh_pipeline_stop(o->pipeline);
		o->stopping = true;
		n--;
	}
}

void wh_match_add_stats(wherry_relay_stats *sum, const wherry_relay_stats *of)
{
	sum->delivered += of->delivered;
	sum->retried += of->retried;
	sum->dead += of->dead;
	sum->stale += of->stale;
	sum->in_flight += of->in_flight;
	sum->window += of->window;
	sum->held_keys += of->held_keys;
	sum->parked_keys += of->parked_keys;
	sum->latency_us += of->latency_us;
	sum->down |= of->down;
	for (int i = 0; i < WHERRY_LATENCY_CLASSES; i++)
		sum->latency[i] += of->latency[i];
	for (int i = 0; i < WHERRY_CODE_COUNT; i++)
		sum->errors[i] += of->errors[i];
}

/* Its purge is due when what it delivered is old enough. */
static void plan_upkeep(const wh_matches *m, wh_match *o, int64_t now)
{
	int64_t keep_us = wh_config_int(m->plan.config, WH_OUTBOX_RETENTION);

	if (now >= o->upkeep_us)
		o->upkeep_us = wh_later(now, wh_match_around(2 * WH_MATCH_UPKEEP_US));
	if (keep_us < WH_MATCH_PROBE_US)
		keep_us = WH_MATCH_PROBE_US;
	if (wh_config_int(m->plan.config, WH_OUTBOX_RETENTION))
		o->upkeep_us = wh_sooner(o->upkeep_us, wh_later(now, keep_us));
}

static void take_ended(wh_matches *m, wh_match *o, int64_t now)
{
	wh_pipeline_view view;
	int64_t settled;

	wh_pipeline_look(o->pipeline, &view);
	wh_pipeline_free(o->pipeline);
	o->pipeline = NULL;
	o->known = o->slot->brief.known;
	o->slot->busy = false;
	o->slot->left_us = now;
	m->n_awake--;
	settled = view.stats.delivered + view.stats.retried + view.stats.dead;
	view.stats.down = false;
	wh_match_add_stats(&m->ended, &view.stats);
	m->restarts += view.restarts;
	wh_match_rest(o, now);
	if (m->db && wh_match_stirs(m->db)) /* Writers were not heard meanwhile. */
		wh_match_stir(o, now);
	if (view.restarts && !o->stopping) {
		wh_match_fail(m, o, view.why, now);
	} else if (settled || !o->row.found.rows) {
		o->failures = 0;
		o->why[0] = 0;
	} else {
		wh_match_fail(m, o, "", now);
	}
	if (now >= o->upkeep_us || view.stats.delivered)
		plan_upkeep(m, o, now);
	/* A busy one: whether there is more, its next turn finds out. */
	if (m->n_waiting && view.stats.delivered && !*o->why) {
		o->row.found = (wh_match_found){.due_us = -1};
		wh_match_want(m, o);
	}
}

void wh_match_take_ended(wh_matches *m, int64_t now)
{
	for (size_t i = 0; i < m->n && m->n_awake; i++)
		if (m->all[i]->stage == WH_AWAKE &&
		    wh_pipeline_ended(m->all[i]->pipeline))
			take_ended(m, m->all[i], now);
}
