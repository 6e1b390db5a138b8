#include "cli/reconcile.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "publish/parts.h"

enum { PAGE = 1000, SLOT_TEXT = WH_STORED_TOPIC + WH_STORED_SLOT };

/* Messages that were made shortly before the period, so that they are known if the destination says a later time. */
static const int64_t margin_us = INT64_C(10) * 60 * 1000000;

/* ---- what the outbox acknowledged ---- */

static bool in_period(const wh_period *period, int64_t us)
{
	return us >= period->since_us && us < period->until_us;
}

static wherry_code take_period(void *ctx, const wh_period_row *row, wherry_error *err)
{
	wh_reconcile *r = ctx;
	wh_reconciled *n = &r->n;
	const wherry_message *message = row->message;
	bool done = row->state == WHERRY_DONE;
	bool asked = in_period(&r->period, message->created_at_us);
	wherry_code code;

	n->settling += done && message->created_at_us >= r->period.until_us;
	n->waiting += asked && !done && row->state != WHERRY_DEAD;
	if (!*message->message_id) {
		n->nameless += asked && done;
		return WHERRY_OK;
	}
	code = wh_id_set_add(&r->ids, wh_view_of(message->message_id), message->id,
			     asked && done, err);
	if (code == WHERRY_OK && asked && done) {
		n->compared++;
		code = wh_topics_add(&r->topics, message->topic, err);
	}
	if (code == WHERRY_TOOBIG)
		(void)wh_prefix(err, code,
				"compare a shorter time with --since and --until");
	return code;
}

/* Read the ids of the period, and of a margin around it. */
static wherry_code read_outbox(wh_reconcile *r, wherry_error *err)
{
	wh_period all = {r->period.since_us - margin_us, INT64_MAX / 2};
	wh_kept kept = {0, 0, 0};
	wherry_code code = wh_outbox_first_kept(r->outbox, &kept, err);

	if (code == WHERRY_OK && kept.first > 1 && kept.delivered_us > r->period.since_us)
		r->kept_us = kept.delivered_us;
	if (all.since_us < 0)
		all.since_us = 0;
	if (code == WHERRY_OK)
		code = wh_outbox_visit_period(r->outbox, &all, take_period, r, err);
	wh_id_set_sort(&r->ids);
	return code;
}

/* ---- what the destination holds ---- */

static wh_view slot_text(char out[SLOT_TEXT], wh_view topic, wh_view slot)
{
	size_t n = topic.len < WH_STORED_TOPIC - 1 ? topic.len : WH_STORED_TOPIC - 1;
	size_t m = slot.len < WH_STORED_SLOT - 1 ? slot.len : WH_STORED_SLOT - 1;

	memcpy(out, topic.ptr, n);
	out[n] = 0;
	memcpy(out + n + 1, slot.ptr, m);
	return (wh_view){out, n + 1 + m};
}

static wherry_code take_stored(void *ctx, const wh_stored *stored, wherry_error *err)
{
	wh_reconcile *r = ctx;
	char text[SLOT_TEXT];
	wh_id_entry *entry = NULL;

	if (!stored->id.ptr || !wh_id_set_see(&r->ids, stored->id)) {
		r->n.unknown += in_period(&r->period, stored->at_us);
		return WHERRY_OK;
	}
	if (r->back->tied_us == stored->at_us &&
	    wh_id_set_find(&r->ids, stored->id, &entry) &&
	    (!r->tied || wh_id_number(entry) < r->tied))
		r->tied = wh_id_number(entry);
	if (!stored->slot.ptr || !stored->topic.ptr ||
	    !wh_id_set_find(&r->ids, stored->id, &entry))
		return WHERRY_OK;
	return wh_id_set_add(&r->slots, slot_text(text, stored->topic, stored->slot),
			     wh_id_number(entry), false, err);
}

static wherry_code read_destination(wh_reconcile *r, wherry_error *err)
{
	const wh_readback_ask ask = {r->topics.names, r->topics.n, r->period.since_us,
				     &wh_env_system};
	wherry_code code =
		r->inbox ? wh_reconcile_open_inbox(r, &ask, &r->back, err)
			 : wh_readback_open(r->to, r->config, &ask, &r->back, err);

	if (code == WHERRY_OK)
		code = r->back->driver->read(r->back, take_stored, r, err);
	wh_id_set_sort(&r->slots);
	if (r->back)
		wh_buf_puts(&r->notes, wh_buf_into(&r->back->notes, &r->notes));
	return code;
}

/* ---- what is missing ---- */

/* Entries of one id stand together.  Count those that are there, and collect the numbers of the others. */
static wherry_code collect(wh_reconcile *r, wherry_error *err)
{
	const wh_id_entry *all = r->ids.entries;

	r->missing = calloc((size_t)r->n.compared + 1, sizeof(*r->missing));
	if (!r->missing)
		return wh_oom(err);
	for (size_t i = 0; i < r->ids.n; i++) {
		bool alone = (i == 0 || all[i - 1].high != all[i].high) &&
			     (i + 1 == r->ids.n || all[i + 1].high != all[i].high);

		if (!wh_id_marked(&all[i]))
			continue;
		if (!wh_id_seen(&all[i])) {
			r->missing[r->n_missing++] = wh_id_number(&all[i]);
			continue;
		}
		r->n.there++;
		r->n.twice += alone && wh_id_seen(&all[i]) > 1;
	}
	return WHERRY_OK;
}

static int compare_numbers(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Did the destination remove the message because it was among its oldest? */
static bool is_expired(const wh_reconcile *r, const wherry_message *message,
		       const wh_edge *edge)
{
	wh_id_entry *entry = NULL;

	if (!edge->removed || edge->empty)
		return edge->removed;
	if (r->tied && edge->first_us == r->back->tied_us)
		return message->id < r->tied;
	if (*edge->first && wh_id_set_find(&r->ids, wh_view_of(edge->first), &entry))
		return message->id < wh_id_number(entry);
	return message->created_at_us < edge->first_us;
}

/* Is a later message of its slot there? */
static bool is_compacted(const wh_reconcile *r, const wherry_message *message,
			 const wh_edge *edge)
{
	char text[SLOT_TEXT];
	wh_id_entry *entry = NULL;
	size_t n;

	if (!edge->compacts || !*edge->slot)
		return false;
	n = wh_id_set_find(
		&r->slots,
		slot_text(text, wh_view_of(edge->topic), wh_view_of(edge->slot)), &entry);
	return n && wh_id_number(&entry[n - 1]) > message->id;
}

typedef struct judging {
	wh_reconcile *r;
	size_t n;       /* Numbers that stay in the list. */
	size_t visited; /* Rows. */
	int64_t until_us;
} judging;

static wherry_code judge(void *ctx, const wh_period_row *row, wherry_error *err)
{
	judging *j = ctx;
	wh_reconcile *r = j->r;
	const wherry_message *message = row->message;
	wh_edge edge;

	(void)err;
	j->visited++;
	if (row->state != WHERRY_DONE) { /* Somebody has changed that since. */
		r->n.compared--;
		r->n.waiting++;
		return WHERRY_OK;
	}
	r->back->driver->edge(r->back, message, &edge);
	if (is_compacted(r, message, &edge)) {
		r->n.compacted++;
		return WHERRY_OK;
	}
	if (is_expired(r, message, &edge)) {
		r->n.expired++;
		if (!r->with_expired)
			return WHERRY_OK;
	}
	r->n.missing++;
	r->visit(r->ctx, message);
	if (message->created_at_us < j->until_us)
		r->missing[j->n++] = message->id;
	else
		r->n.recent++;
	return WHERRY_OK;
}

wherry_code wh_reconcile_judge(wh_reconcile *r, wherry_error *err)
{
	judging j = {.r = r, .until_us = wh_now(&wh_env_system) - r->back->recent_us};
	wherry_code code = collect(r, err);
	size_t n_found = r->n_missing;

	qsort(r->missing, n_found, sizeof(*r->missing), compare_numbers);
	for (size_t i = 0; code == WHERRY_OK && i < n_found; i += PAGE) {
		size_t n = n_found - i < PAGE ? n_found - i : PAGE;

		code = wh_outbox_visit_numbers(r->outbox, &r->missing[i], n, judge, &j,
					       err);
	}
	/* Messages that were purged meanwhile are not compared. */
	if (code == WHERRY_OK)
		r->n.compared -= (int64_t)(n_found - j.visited);
	r->n_missing = j.n;
	return code;
}

wherry_code wh_reconcile_compare(wh_reconcile *r, wherry_error *err)
{
	wherry_code code = wh_outbox_can_reconcile(r->outbox, err);

	r->notes = (wh_buf)WH_BUF_INIT(1 << 20);
	r->ids = r->slots = (wh_id_set)WH_ID_SET_INIT(WH_RECONCILE_MOST);
	if (code == WHERRY_OK && !r->inbox)
		code = wh_readback_can(r->to, r->config, err);
	if (code == WHERRY_OK)
		code = read_outbox(r, err);
	if (code == WHERRY_OK && r->n.compared)
		code = read_destination(r, err);
	return code;
}

wherry_code wh_reconcile_deliver(wh_reconcile *r, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < r->n_missing; i += PAGE) {
		size_t n = r->n_missing - i < PAGE ? r->n_missing - i : PAGE;
		int64_t changed = 0;

		code = wh_outbox_deliver_again(r->outbox, &r->missing[i], n, &changed,
					       err);
		r->n.again += changed;
	}
	return code;
}

void wh_reconcile_clear(wh_reconcile *r)
{
	free(r->missing);
	r->missing = NULL;
	wh_readback_close(r->back);
	wh_id_set_clear(&r->ids);
	wh_id_set_clear(&r->slots);
	wh_topics_clear(&r->topics);
	wh_buf_clear(&r->notes);
}
