/*
 * status on a queue and on a delayed queue.
 */
#include <inttypes.h>

#include "cli/on_delayed.h"
#include "cli/on_queue.h"
#include "cli/relays.h"

/* Words for the messages of a kind of queue. */
typedef struct words {
	const char *what;   /* The kind. */
	const char *state;  /* State of messages that can be taken now. */
	const char *nobody; /* Why they may wait. */
	const char *others; /* Receivers that are not listed. */
	const char *well;   /* That messages can be taken. */
	const char *none;   /* That none can be, and some wait. */
} words;

static const words of_queue = {"queue",
			       "ready",
			       "no worker or relay receives",
			       "workers that receive",
			       "messages are ready to be received",
			       "no message is ready"};
static const words of_delayed = {"delayed queue",
				 "due",
				 "no consumer or relay polls",
				 "consumers that poll",
				 "messages are due",
				 "no message is due"};

typedef struct glance {
	const wh_session *session;
	const words *words;
	const char *layout; /* Borrowed. */
	int schema_version;
	bool paused;
	int64_t ready, leased, waiting, dead;
	int64_t expired;   /* Messages of these that receivers delete. */
	int64_t oldest_us; /* Time that the oldest ready message has waited. */
	/* Time until a message can be taken; 0: now; -1: no message waits or is leased. */
	int64_t next_us;
	wh_relays relays;
	wh_warned warned;
} glance;

static void look(glance *g)
{
	wh_warn_of(&g->warned,
		   &(wh_facts){.what = g->words->what,
			       .target = g->session->target,
			       .state = g->words->state,
			       .nobody = g->words->nobody,
			       .paused = g->paused,
			       .ready = g->ready,
			       .oldest_us = g->oldest_us,
			       .leased = g->leased,
			       .open = g->ready + g->leased + g->waiting,
			       .dead = g->dead},
		   &g->relays);
}

static const char *well(const glance *g)
{
	if (g->ready)
		return g->words->well;
	if (g->leased)
		return "messages are being handled";
	return g->waiting ? g->words->none : "no message waits";
}

static void print_text(const glance *g)
{
	/* Otherwise a lease ends at that time. */
	bool is_ahead = g->waiting && !g->ready && !g->leased && g->next_us >= 0;
	wh_buf relays = WH_BUF_INIT(WH_OUTPUT_MOST);
	char span[WH_SPAN_LEN];

	wh_print_warned(&g->warned);
	if (!g->warned.n)
		wh_print_well(well(g));
	wh_print_place(g->session, g->layout, g->paused);
	wh_print_ready(g->ready, g->oldest_us);
	(void)printf("leased      %" PRId64 "\nwaiting     %" PRId64
		     "%s%s\ndead        %" PRId64 "\n",
		     g->leased, g->waiting, is_ahead ? ", the next is due in " : "",
		     is_ahead ? wh_span_text(g->next_us, span) : "", g->dead);
	if (g->expired)
		(void)printf("expired     %" PRId64 " of these, which receivers delete\n",
			     g->expired);
	wh_put_relays(&relays, &g->relays, g->words->others);
	wh_print_buf(&relays, "");
	wh_buf_clear(&relays);
}

static void print_json(const glance *g)
{
	wh_buf buf = WH_BUF_INIT(WH_OUTPUT_MOST);

	wh_put_place(&buf, g->session, g->layout);
	wh_put_number_field(&buf, "ready", g->ready);
	wh_put_number_field(&buf, "leased", g->leased);
	wh_put_number_field(&buf, "waiting", g->waiting);
	wh_put_number_field(&buf, "dead", g->dead);
	if (g->words == &of_queue)
		wh_put_number_field(&buf, "expired", g->expired);
	wh_put_number_field(&buf, "oldest_ready_us", g->oldest_us);
	wh_put_age_field(&buf, "next_us", g->next_us);
	wh_buf_printf(&buf, ",\"paused\":%s", g->paused ? "true" : "false");
	wh_put_relays_field(&buf, &g->relays);
	wh_print_status_json(&buf, g->schema_version, &g->warned);
}

/* Print what was read of the table. */
static wh_exit show(const wh_args *args, glance *g, wherry_code code, wherry_error *err)
{
	if (code == WHERRY_OK)
		code = wh_relays_read(g->session->store, &g->relays, err);
	if (code == WHERRY_OK) {
		look(g);
		if (wh_arg_on(args, "json"))
			print_json(g);
		else
			print_text(g);
	}
	wh_relays_clear(&g->relays);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(err);
}

wh_exit wh_on_queue_status(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status st;
	int64_t next_us = -1;
	wherry_code code = wherry_queue_get_status(s->queue, &st, sizeof(st), &err);
	glance g = {.session = s, .words = &of_queue};

	if (code == WHERRY_OK)
		code = wherry_queue_next_due(s->queue, &next_us, &err);
	if (code == WHERRY_OK)
		g = (glance){.session = s,
			     .words = &of_queue,
			     .layout = st.layout,
			     .schema_version = st.schema_version,
			     .paused = st.paused,
			     .ready = st.ready,
			     .leased = st.leased,
			     .waiting = st.waiting,
			     .dead = st.dead,
			     .expired = st.expired,
			     .oldest_us = st.oldest_ready_us,
			     .next_us = next_us};
	return show(args, &g, code, &err);
}

wh_exit wh_on_delayed_status(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_status st;
	wherry_code code = wherry_delayed_get_status(s->delayed, &st, sizeof(st), &err);
	glance g = {.session = s, .words = &of_delayed};

	if (code == WHERRY_OK)
		g = (glance){.session = s,
			     .words = &of_delayed,
			     .layout = st.layout,
			     .schema_version = st.schema_version,
			     .paused = st.paused,
			     .ready = st.due,
			     .leased = st.leased,
			     .waiting = st.waiting,
			     .dead = st.dead,
			     .oldest_us = st.oldest_due_us,
			     .next_us = st.next_us};
	return show(args, &g, code, &err);
}
