/*
 * list on a queue.
 */
#include <inttypes.h>

#include "cli/item.h"
#include "cli/on_queue.h"

enum { PAGE = 100 };

typedef struct listing {
	const wh_session *session;
	wh_listing to;
	wh_item_filter filter;
	int64_t last_read, last_shown; /* Ids of messages. */
	size_t read;                   /* Messages read of this page. */
} listing;

/* Show a message if it is wanted. */
static wherry_code visit(void *ctx, const wherry_queue_message *msg)
{
	listing *l = ctx;
	wh_item item = wh_item_of_queue(msg, l->session->table);

	l->read++;
	l->last_read = msg->id;
	if (l->to.more || !wh_item_is_wanted(&item, &l->filter, l->to.now_us))
		return WHERRY_OK;
	if (l->to.n < l->to.limit)
		l->last_shown = msg->id;
	return wh_listing_add(&l->to, &item);
}

/* List messages in the order of their ids, page by page. */
static wherry_code list_states(listing *l, unsigned states, int64_t after,
			       wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	l->last_read = after;
	l->read = PAGE;
	while (code == WHERRY_OK && l->read == PAGE && !l->to.more) {
		l->read = 0;
		code = wherry_queue_peek(l->session->queue,
					 &WHERRY_QUEUE_FILTER(.states = states,
							      .after_id = l->last_read,
							      .limit = PAGE),
					 visit, l, err);
	}
	return code;
}

static wherry_code take_state(void *ctx, const wherry_queue_message *msg)
{
	*(wherry_state *)ctx = msg->state;
	return WHERRY_OK;
}

/* Is the message of this id dead?  One that is gone was not: dead ones stay. */
static bool is_dead(const listing *l, const char *id)
{
	wherry_state state = WHERRY_PENDING;

	return wherry_queue_show(l->session->queue, id, take_state, &state, NULL) ==
		       WHERRY_OK &&
	       state == WHERRY_DEAD;
}

/* List dead messages first, then the others, unless the states are named.  A later page goes
 * on in the same order. */
static wherry_code list_all(listing *l, const char *from, int64_t after,
			    wherry_error *err)
{
	const unsigned dead = 1u << WHERRY_DEAD, others = 1u << WHERRY_PENDING |
							  1u << WHERRY_PROCESSING |
							  1u << WHERRY_FAILED;
	bool among_dead = !from || is_dead(l, from);
	wherry_code code = among_dead ? list_states(l, dead, after, err) : WHERRY_OK;

	if (code == WHERRY_OK && !l->to.more)
		code = list_states(l, others, among_dead ? 0 : after, err);
	return code;
}

static wh_exit list(const wh_args *args, listing *l, int64_t after)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool by_id = l->filter.states || wh_arg_on(args, "all");
	wherry_code code = by_id ? list_states(l, l->filter.states, after, &err)
				 : list_all(l, wh_arg(args, "after"), after, &err);

	wh_listing_end(&l->to);
	if (code != WHERRY_OK && !ferror(stdout))
		return wh_report(&err);
	if (!l->to.n && !l->to.json)
		(void)fprintf(stderr, "no messages\n");
	if (l->to.more)
		wh_say_more(args, "after", l->last_shown);
	return WH_EXIT_DONE;
}

wh_exit wh_on_queue_list(const wh_args *args, wh_session *s)
{
	listing l = {.session = s};
	int64_t after = 0;

	if (!wh_listing_begin(&l.to, WH_OF_QUEUE, args) ||
	    !wh_item_filter_read(&l.filter, args) ||
	    !wh_arg_count(args, "after", 0, INT64_MAX, &after))
		return WH_EXIT_USAGE;
	return list(args, &l, after);
}
