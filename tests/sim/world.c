#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sim.h"

enum { CALM_TURNS = 200000 };

/* ---- chance ---- */

uint64_t sim_random(sim_world *w)
{
	uint64_t z = (w->random += 0x9e3779b97f4a7c15U); /* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
	return z ^ (z >> 31);
}

int sim_below(sim_world *w, int n)
{
	return (int)(sim_random(w) % (uint64_t)n);
}

bool sim_chance(sim_world *w, int in, int of)
{
	return !w->calm && sim_below(w, of) < in;
}

int64_t sim_time(sim_world *w, int64_t most_us)
{
	return 1 + (int64_t)(sim_random(w) % (uint64_t)most_us);
}

/* ---- telling ---- */

void sim_say(sim_world *w, const char *fmt, ...)
{
	va_list args;

	if (!w->loud)
		return;
	printf("# %lld.%06lld %*s", (long long)(w->now_us / WH_SECOND % 1000),
	       (long long)(w->now_us % WH_SECOND), 2 * w->depth, "");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

void sim_wrong(sim_world *w, const char *fmt, ...)
{
	va_list args;

	if (*w->wrong)
		return;
	va_start(args, fmt);
	(void)vsnprintf(w->wrong, sizeof(w->wrong), fmt, args);
	va_end(args);
	sim_say(w, "WRONG: %s", w->wrong);
}

/* ---- the plan ---- */

static void set(sim_world *w, const char *key, const char *fmt, ...) WH_PRINTF(3, 4);
static void set(sim_world *w, const char *key, const char *fmt, ...)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char value[64];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(value, sizeof(value), fmt, args);
	va_end(args);
	sim_say(w, "%s = %s", key, value);
	if (wherry_config_set(w->config, key, value, &err) != WHERRY_OK)
		sim_wrong(w, "%s", err.message);
}

/* One of several, so that extremes are met as often as what is usual. */
static int one_of(sim_world *w, int a, int b, int c)
{
	int which = sim_below(w, 3);

	return which == 0 ? a : which == 1 ? b : c;
}

const char *const sim_engine_names[SIM_ENGINES] = {
	[SIM_LOG] = "log",
	[SIM_COMPETING] = "competing",
	[SIM_UNMARKED] = "unmarked",
	[SIM_WAL] = "wal",
};

sim_engine sim_engine_of(uint64_t seed)
{
	return (sim_engine)(seed / 6 %
			    SIM_ENGINES); /* its lowest digits say other things */
}

static void draw_plan(sim_world *w)
{
	sim_plan *plan = &w->plan;

	plan->relays = 1 + sim_below(w, SIM_RELAYS);
	plan->keys = one_of(w, 1, 3, SIM_KEYS);
	plan->messages = one_of(w, 20, 60, 150);
	plan->turns = one_of(w, 100, 300, 700);
	plan->ordered_publisher = sim_below(w, 2);
	plan->ordered = sim_below(w, 8) > 0;
	plan->park = sim_below(w, 3) == 0;
	plan->engine = sim_engine_of(w->seed);
	plan->late = plan->engine == SIM_UNMARKED || plan->engine == SIM_WAL;
	plan->window = 1 + sim_below(w, one_of(w, 3, 20, 60));
	plan->attempts = 2 + sim_below(w, 4);
	plan->crash = one_of(w, 0, 5, 40);
	plan->pause = one_of(w, 0, 20, 100);
	plan->fault = one_of(w, 0, 0, 100);
	plan->lose = one_of(w, 0, 50, 500);
	plan->refuse = one_of(w, 0, 100, 1500);
	plan->bad = one_of(w, 0, 20, 150);
	plan->letters = w->seed % 3 == 1;
	plan->picky = w->seed / 30 % 4 == 1;
	if (plan->picky) /* a window full of what is refused may keep others */
		plan->window += 8;
	if (plan->engine != SIM_LOG)
		plan->park = false;
	plan->busy = w->seed % 2;
	plan->seen = w->seed / 120 % 2;
}

static void draw_settings(sim_world *w)
{
	const sim_plan *plan = &w->plan;

	set(w, "log.level", "%s", "debug");
	set(w, "relay.window", "%d", plan->window);
	set(w, "relay.batch", "%d", 1 + sim_below(w, plan->window));
	set(w, "relay.ordering", "%s", plan->ordered ? "key" : "none");
	set(w, "relay.on_dead", "%s", plan->park ? "park" : "skip");
	set(w, "stream.topic", "%s", "{}"); /* as it is */
	set(w, "relay.lease", "%dms", one_of(w, 500, 1000, 5000));
	set(w, "relay.claim_timeout", "%dms", one_of(w, 1000, 2000, 10000));
	set(w, "relay.sweep", "%dms", one_of(w, 100, 5000, 60000));
	set(w, "relay.ack_delay", "%dms", one_of(w, 0, 2, 100));
	set(w, "relay.down_after", "%d", 5 + sim_below(w, 5));
	set(w, "relay.held_keys", "%d", plan->picky ? 1000 : one_of(w, 1, 3, 1000));
	set(w, "relay.stop_timeout", "%dms", one_of(w, 1, 200, 5000));
	set(w, "relay.window_bytes", "%dKB", one_of(w, 64, 1024, 16384));
	set(w, "retry.attempts", "%d", plan->attempts);
	set(w, "retry.base", "%dms", one_of(w, 1, 50, 1000));
	set(w, "retry.cap", "5s");
	set(w, "outbox.retention", "%ds", one_of(w, 0, 1, 3600));
	set(w, "relay.purge_every", "1s");
}

/* ---- mishaps ---- */

static sim_process *any_process(sim_world *w)
{
	return &w->processes[sim_below(w, w->plan.relays)];
}

static void stop(sim_process *p)
{
	if (!p->relay || p->inside)
		return;
	sim_say(p->world, "relay %d is asked to stop", p->number);
	wherry_relay_stop(p->relay);
	p->stopping = true;
	p->wake_us = p->world->now_us;
}

static void stand_still(sim_process *p)
{
	sim_world *w = p->world;

	p->paused_until_us = w->now_us + sim_time(w, one_of(w, 10000, 900000, 8000000));
	sim_say(w, "relay %d is paused", p->number);
}

/* Leases and retries are by the database's clock, which is set back, */
static void jump_back(sim_world *w)
{
	w->ahead_us -= sim_time(w, 2000000);
	sim_say(w, "the database's clock jumps back");
}

/* or forward. */
static void jump(sim_world *w)
{
	w->ahead_us += sim_time(w, 2000000);
	w->jumped_us = w->now_us;
	w->jumped_epoch = sim_number(w, "SELECT epoch FROM wherry_lease", 0);
	if (w->jumped_epoch < 0)
		w->jumped_epoch = INT64_MAX; /* who knows whose */
	sim_say(w, "the database's clock jumps");
}

static void trouble_server(sim_world *w)
{
	if (sim_below(w, 2))
		sim_server_crash(w);
	else
		(void)sim_slot_end_reader(w);
}

static void mishap(sim_world *w)
{
	switch (sim_below(w, 10)) {
	case 0:
		if (w->plan.crash)
			sim_process_kill(any_process(w));
		break;
	case 1:
		stop(any_process(w));
		break;
	case 2:
	case 3:
		if (w->plan.pause)
			stand_still(any_process(w));
		break;
	case 4:
		if (w->plan.refuse && w->now_us > w->outage_until_us + 3 * WH_SECOND) {
			w->outage_until_us = w->now_us + sim_time(w, 3000000);
			sim_say(w, "the broker goes away");
		}
		break;
	case 5:
		if (w->plan.pause && !w->plan.late && sim_below(w, 4) == 0)
			jump(w);
		else if (w->plan.pause && sim_below(w, 4) == 0)
			jump_back(w);
		break;
	case 6:
		if (sim_streams(w) && w->plan.fault)
			trouble_server(w);
		break;
	default:
		if (sim_below(w, 3) == 0)
			sim_operate(w);
	}
}

/* ---- turns ---- */

static int64_t next_event(const sim_world *w)
{
	int64_t at = WH_NEVER;

	for (int i = 0; i < w->plan.relays; i++) {
		const sim_process *p = &w->processes[i];
		int64_t due = p->relay ? p->wake_us : p->start_us;

		if (p->inside)
			continue;
		if (p->relay && sim_broker_next(w, p) < due)
			due = sim_broker_next(w, p);
		if (p->relay && sim_stream_next(w, p) < due)
			due = sim_stream_next(w, p);
		if (due < p->paused_until_us)
			due = p->paused_until_us;
		if (due < at)
			at = due;
	}
	for (int i = 0; w->plan.engine == SIM_WAL && i < w->n_log; i++)
		if (!w->log[i].visible && w->log[i].visible_us < at)
			at = w->log[i].visible_us;
	return at;
}

static void step_one(sim_world *w)
{
	int from = sim_below(w, w->plan.relays);

	for (int i = 0; i < w->plan.relays; i++) {
		sim_process *p = &w->processes[(from + i) % w->plan.relays];

		if (p->inside || w->now_us < p->paused_until_us)
			continue;
		if (!p->relay && w->now_us >= p->start_us) {
			sim_process_start(p);
			return;
		}
		if (p->relay && (sim_process_ready(p) || sim_chance(w, 1, 10))) {
			sim_process_step(p);
			return;
		}
	}
}

/* Nothing is to be done until then. */
static void pass_time(sim_world *w, int64_t until_us)
{
	int64_t next = next_event(w), most = w->now_us + WH_SECOND;

	if (next > most)
		next = most;
	if (next > until_us)
		next = until_us;
	if (next > w->now_us)
		w->now_us = next;
}

static void turn(sim_world *w, int64_t until_us)
{
	int roll = sim_below(w, 100);

	w->now_us += sim_time(w, 50);
	sim_produce_due(w);
	if (roll < 50) {
		step_one(w);
	} else if (roll < 80) {
		if (!sim_broker_work(w))
			pass_time(w, until_us);
	} else if (roll < 92 && !w->calm) {
		sim_produce(w);
	} else if (!w->calm) {
		mishap(w);
	}
}

void sim_others(sim_world *w, int64_t for_us)
{
	int64_t until_us = w->now_us + for_us;

	for (int i = 0; i < 200 && w->now_us < until_us && !*w->wrong; i++)
		turn(w, until_us);
	if (w->now_us < until_us)
		w->now_us = until_us;
	sim_produce_due(w);
}

/* Everybody works, nothing fails any more: all comes to an end. */
static void calm_down(sim_world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t filler_us = w->now_us;
	int open;

	sim_say(w, "all is calm now");
	w->calm = true;
	w->calm_us = w->now_us;
	w->outage_until_us = 0;
	if (!sim_produce_settle(w))
		sim_wrong(w, "a transaction does not end");
	if (wherry_outbox_resume(w->outbox, &err) != WHERRY_OK)
		sim_wrong(w, "resume: %s", err.message);
	for (int i = 0; i < CALM_TURNS && !*w->wrong; i++) {
		turn(w, WH_NEVER);
		if (i % 16 == 0 && sim_judge_open(w) < 0) {
			sim_judge_waits(w);
			return;
		}
		if (w->now_us > filler_us) {
			filler_us = w->now_us + sim_time(w, 6 * WH_SECOND);
			sim_produce_filler(w);
		}
	}
	open = (int)sim_judge_open(w);
	sim_wrong(w, "it does not come to an end: %d (%s) is open, in state %d", open,
		  open < 0 ? "" : sim_kind_names[w->messages[open].kind],
		  (int)sim_number(
			  w, "SELECT status FROM sim_rows WHERE message_id = 'm' || ?",
			  open));
}

/* ---- one schedule ---- */

static int64_t now_us(void *ctx)
{
	return ((sim_process *)ctx)->world->now_us;
}

static uint64_t random_number(void *ctx)
{
	return sim_random(((sim_process *)ctx)->world);
}

static void sleep_us(void *ctx, int64_t us)
{
	((sim_process *)ctx)->world->now_us += us;
}

static void set_up(sim_world *w, uint64_t seed, bool loud)
{
	wherry_error err = WHERRY_ERROR_INIT;

	*w = (sim_world){.seed = seed,
			 .random = seed,
			 .loud = loud,
			 .next_id = 1,
			 .next_xid = 1,
			 .wal_end = 1000};
	w->now_us = 1700000000 * WH_SECOND;
	draw_plan(w);
	w->env = (wh_env){
		.now_us = now_us,
		.monotonic_us = now_us,
		.random = random_number,
		.sleep_us = sleep_us,
		.process_self = w->plan.seen ? sim_process_self : NULL,
		.process_look = w->plan.seen ? sim_process_look : NULL,
	};
	if (wherry_config_new(&w->config, &err) != WHERRY_OK)
		sim_wrong(w, "%s", err.message);
	draw_settings(w);
	sim_store_open(w);
	w->ready = eventfd(1, EFD_CLOEXEC);
	if (w->ready < 0)
		sim_wrong(w, "no descriptor is left");
	for (int i = 0; i < SIM_RELAYS; i++)
		w->processes[i] = (sim_process){.world = w, .number = i};
	/* Relays that read the WAL find some transactions that are committed and not visible yet. */
	for (int i = 0; w->plan.engine == SIM_WAL && i < SIM_RELAYS; i++)
		w->processes[i].start_us = w->now_us + sim_time(w, 300000);
}

static void tear_down(sim_world *w)
{
	for (int i = 0; i < SIM_RELAYS; i++)
		sim_process_kill(&w->processes[i]);
	sim_broker_close(w);
	sim_store_close(w);
	(void)close(w->ready);
	wherry_config_free(w->config);
}

bool sim_play(sim_world *w, uint64_t seed, bool loud)
{
	set_up(w, seed, loud);
	for (int i = 0; i < w->plan.turns && !*w->wrong; i++)
		turn(w, WH_NEVER);
	if (!*w->wrong)
		calm_down(w);
	if (!*w->wrong)
		sim_judge_end(w);
	if (!*w->wrong && (w->plan.park || sim_below(w, 2)) && sim_operate_fix(w)) {
		calm_down(w);
		if (!*w->wrong)
			sim_judge_end(w);
	}
	tear_down(w);
	return !*w->wrong;
}
