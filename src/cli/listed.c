#include "cli/listed.h"

#include "db/driver.h"
#include "delayed/delayed.h"
#include "outbox/outbox.h"
#include "queue/queue.h"
#include "relay/names.h"

static wherry_code read_outbox(wherry_db *db, wh_listed *t, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_outbox_status st;
	wherry_code code = wherry_outbox_open(db, t->name, &outbox, err);

	if (code != WHERRY_OK)
		return code;
	code = wherry_outbox_get_status(outbox, &st, sizeof(st), err);
	if (code == WHERRY_OK) {
		const char *relay =
			!*outbox->store.limits && st.lease_left_us > 0 ? st.owner : "";

		t->kind = "outbox";
		(void)snprintf(t->layout, sizeof(t->layout), "%s", st.layout);
		(void)snprintf(t->relay, sizeof(t->relay), "%s", relay);
		t->messages = st.count[WHERRY_PENDING] + st.count[WHERRY_PROCESSING] +
			      st.count[WHERRY_FAILED];
		t->ready = st.ready;
		t->dead = st.count[WHERRY_DEAD];
		t->oldest_ready_us = st.oldest_ready_us;
		t->delivered = st.delivered;
		t->epoch = st.epoch;
		t->paused = st.paused;
	}
	wherry_outbox_close(outbox);
	return code;
}

static wherry_code read_queue(wherry_db *db, wh_listed *t, wherry_error *err)
{
	wherry_queue *queue = NULL;
	wh_buf why = WH_BUF_INIT(64 * 1024);
	wherry_queue_status st;
	wherry_code code = wherry_queue_open(db, t->name, &queue, err);

	if (code != WHERRY_OK)
		return code;
	t->kind = "queue";
	(void)snprintf(t->layout, sizeof(t->layout), "%s", queue->store.layout.name);
	code = wherry_queue_get_status(queue, &st, sizeof(st), err);
	if (code == WHERRY_OK) {
		t->messages = st.ready + st.leased + st.waiting;
		t->ready = st.ready;
		t->dead = st.dead;
		t->oldest_ready_us = st.oldest_ready_us;
		t->paused = st.paused;
	} else if (code == WHERRY_NOTFOUND) {
		/* A queue of another program, without Wherry's table beside it, is in
		 * order: only its messages are not counted. */
		wh_put_message(&why, err);
		(void)fprintf(stderr, "%s is not counted: %s\n", t->name,
			      wh_buf_str(&why));
		wh_buf_clear(&why);
		code = WHERRY_OK;
	}
	wherry_queue_close(queue);
	return code;
}

static wherry_code read_delayed(wherry_db *db, wh_listed *t, wherry_error *err)
{
	wh_delayed_counts counts = {0};
	wherry_delayed *delayed = NULL;
	wherry_code code = wherry_delayed_open(db, t->name, "any", NULL, &delayed, err);

	if (code != WHERRY_OK)
		return code;
	t->kind = "delayed";
	(void)snprintf(t->layout, sizeof(t->layout), "%s", delayed->store.layout.name);
	code = wh_delayed_count_table(delayed, &counts, err);
	t->messages = counts.messages;
	t->ready = counts.ready;
	t->dead = counts.dead;
	wherry_delayed_close(delayed);
	return code;
}

static wherry_code read_inbox(wherry_db *db, wh_listed *t, wherry_error *err)
{
	wherry_inbox *inbox = NULL;
	wherry_code code = wherry_inbox_open(db, t->name, &inbox, err);

	if (code != WHERRY_OK)
		return code;
	t->kind = "inbox";
	(void)snprintf(t->layout, sizeof(t->layout), "native");
	code = wherry_inbox_count(inbox, &t->messages, NULL, err);
	wherry_inbox_close(inbox);
	return code;
}

static wherry_code count_entry(void *ctx, const wherry_cron_entry *entry)
{
	wh_listed *t = ctx;

	t->messages += entry->active;
	return WHERRY_OK;
}

static wherry_code read_cron(wherry_db *db, wh_listed *t, wherry_error *err)
{
	wherry_cron *cron = NULL;
	wherry_code code = wherry_cron_open(db, t->name, &cron, err);

	if (code != WHERRY_OK)
		return code;
	t->kind = "cron";
	(void)snprintf(t->layout, sizeof(t->layout), "native");
	t->messages = 0;
	code = wherry_cron_list(cron, count_entry, t, err);
	wherry_cron_close(cron);
	return code;
}

/* Read a table that may be of one of these kinds. */
static wh_exit visit_one(wherry_db *db, const char *name, bool queue, wh_listed_fn visit,
			 void *ctx)
{
	static wherry_code (*const reads[])(wherry_db *, wh_listed *, wherry_error *) = {
		read_outbox, read_delayed, read_inbox, read_cron};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_listed t = {.name = name,
		       .messages = -1,
		       .ready = -1,
		       .dead = -1,
		       .oldest_ready_us = -1,
		       .delivered = -1};
	wherry_code code = WHERRY_NOTFOUND;

	if (queue)
		code = read_queue(db, &t, &err);
	for (size_t i = 0; !queue && i < sizeof(reads) / sizeof(*reads); i++) {
		code = reads[i](db, &t, &err);
		if (code != WHERRY_NOTFOUND && code != WHERRY_INVALID &&
		    code != WHERRY_UNSUPPORTED)
			break;
	}
	if (code == WHERRY_OK)
		visit(ctx, &t);
	else if (code != WHERRY_NOTFOUND && code != WHERRY_INVALID &&
		 code != WHERRY_UNSUPPORTED)
		return wh_report(&err);
	return WH_EXIT_DONE;
}

static wh_exit visit_all(wherry_db *db, const wh_names *names, bool queues,
			 wh_listed_fn visit, void *ctx)
{
	wh_exit status = WH_EXIT_DONE;

	for (size_t i = 0; i < names->n; i++) {
		wh_exit each = visit_one(db, names->all[i], queues, visit, ctx);

		if (each != WH_EXIT_DONE)
			status = each;
	}
	return status;
}

wh_exit wh_list_tables(wherry_db *db, wh_listed_fn visit, void *ctx)
{
	wh_names others = {.n = 0}, queues = {.n = 0};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status = WH_EXIT_DONE, more;

	if (wh_names_of_others(db, &others, &err) != WHERRY_OK ||
	    wh_names_of_queues(db, &queues, &err) != WHERRY_OK)
		status = wh_report(&err);
	more = visit_all(db, &others, false, visit, ctx);
	status = more == WH_EXIT_DONE ? status : more;
	more = visit_all(db, &queues, true, visit, ctx);
	status = more == WH_EXIT_DONE ? status : more;
	wh_names_clear(&others);
	wh_names_clear(&queues);
	return status;
}
