/*
 * The inbox: which messages a consumer has handled.
 */
#include <wherry/inbox.h>

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "inbox/groups.h"
#include "store/fields.h"
#include "store/making.h"
#include "store/purge.h"

enum { ID_MOST = 1024, IDS_MAX = 64 * 1024 * 1024 };

struct wherry_inbox {
	wh_store store;     /* The part that every model has. */
	wh_inbox_stmts own; /* Statements that only inboxes have. */
};

static const char *const layouts[] = {"native", NULL};

static const char *const roles[] = {"consumer", "operator", NULL};

const wh_model wh_inbox_model = {"inbox",           layouts, NULL, wh_inbox_groups,
				 WHERRY_KIND_INBOX, roles,   NULL};

int wh_inbox_version(const wherry_inbox *inbox)
{
	return inbox->store.version;
}

static const char *name_of(const char *name)
{
	return name ? name : "inbox";
}

/* If code is NOTFOUND, set a message that says what is missing and how to create it.
 * Returns code. */
static wherry_code failed(const wherry_inbox *inbox, wherry_code code, wherry_error *err)
{
	return wh_store_missing(inbox->store.model, inbox->store.name.ptr, code, err);
}

/* ---- schema ---- */

wherry_code wherry_inbox_create(wherry_db *db, const char *name, wherry_error *err)
{
	wh_error_clear(err);
	wh_inbox_stmts own;

	return wh_store_create(db,
			       &(wh_making){.model = &wh_inbox_model,
					    .name = name_of(name),
					    .own = &own},
			       err);
}

wherry_code wherry_inbox_create_sql(const char *scheme, const char *name, char **out,
				    wherry_error *err)
{
	wh_error_clear(err);
	wh_inbox_stmts own;

	return wh_store_create_sql(scheme,
				   &(wh_making){.model = &wh_inbox_model,
						.name = name_of(name),
						.own = &own},
				   out, err);
}

wherry_code wherry_inbox_open(wherry_db *db, const char *name, wherry_inbox **out,
			      wherry_error *err)
{
	wh_error_clear(err);
	wh_version v = {.found = false};
	wherry_inbox *inbox;
	wherry_code code;

	if (!db || !out)
		return wh_fail(err, WHERRY_INVALID, "no connection to open the inbox on");
	inbox = calloc(1, sizeof(*inbox));
	if (!inbox)
		return wh_oom(err);
	inbox->store = wh_store_init(db, &wh_inbox_model);
	code = wh_store_recognize(&inbox->store, name_of(name), &inbox->own, &v, err);
	if (code == WHERRY_OK)
		code = wh_store_check(&inbox->store, &v, err);
	if (code != WHERRY_OK) {
		wherry_inbox_close(inbox);
		return code;
	}
	*out = inbox;
	return WHERRY_OK;
}

void wherry_inbox_close(wherry_inbox *inbox)
{
	if (!inbox)
		return;
	wh_store_clear(&inbox->store);
	free(inbox);
}

wherry_code wherry_inbox_drop(wherry_inbox *inbox, wherry_error *err)
{
	wh_error_clear(err);
	if (!inbox)
		return wh_fail(err, WHERRY_INVALID, "no inbox to drop");
	return failed(inbox, wh_store_drop(&inbox->store, err), err);
}

/* ---- accepting ---- */

static wherry_code check(const wherry_inbox *inbox, const char *consumer,
			 const char *message_id, wherry_error *err)
{
	const wh_field fields[] = {
		{"consumer", consumer, WH_FIELD_MOST},
		{"message id", message_id, ID_MOST},
	};

	if (!inbox || !message_id || !*message_id)
		return wh_fail(err, WHERRY_INVALID, "no inbox, or no message id");
	return wh_fields_check(fields, 2, err);
}

static wherry_code check_transaction(const wherry_inbox *inbox, wherry_error *err)
{
	if (wherry_db_in_transaction(inbox->store.db))
		return WHERRY_OK;
	return wh_fail(err, WHERRY_INVALID,
		       "no transaction is open: a message is accepted by the transaction "
		       "that handles it");
}

/* The parameters of "accept" and "forget". */
static void name_row(const char *consumer, const char *message_id, wh_param out[2])
{
	out[0] = WH_TEXT_PARAM("consumer", wh_view_of(consumer ? consumer : ""));
	out[1] = WH_TEXT_PARAM("message_id", wh_view_of(message_id));
}

wherry_code wherry_inbox_accept(wherry_inbox *inbox, const char *consumer,
				const char *message_id, bool *out_new, wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = check(inbox, consumer, message_id, err);
	wh_param params[2];
	int64_t n = 0;

	if (code == WHERRY_OK)
		code = check_transaction(inbox, err);
	if (code != WHERRY_OK)
		return code;
	name_row(consumer, message_id, params);
	code = wh_db_run(inbox->store.db, inbox->own.accept, params, 2, NULL, NULL, &n,
			 err);
	if (code != WHERRY_OK)
		return failed(inbox, code, err);
	if (out_new)
		*out_new = n == 1;
	return WHERRY_OK;
}

/* A message id, and its index among the ids that the caller gave. */
typedef struct item {
	const char *id;
	size_t place;
} item;

typedef struct many {
	item *items; /* Sorted by id, then by place. */
	size_t n;
	bool *news; /* Was the id accepted now?  In the caller's order. */
} many;

static int compare(const void *a, const void *b)
{
	const item *x = a, *y = b;
	int order = strcmp(x->id, y->id);

	if (order)
		return order;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* The statement returns each new id once: of equal ids only the first one is new. */
static wherry_code take_new(void *ctx, const wh_row *row, wherry_error *err)
{
	const char *id = wh_row_text(row, 0);
	many *m = ctx;
	size_t low = 0, high = m->n;

	while (id && low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(m->items[middle].id, id) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!id || low == m->n || strcmp(m->items[low].id, id) != 0)
		return wh_fail(err, WHERRY_CORRUPT,
			       "the inbox returned an id that was not accepted");
	m->news[m->items[low].place] = true;
	return WHERRY_OK;
}

static wherry_code accept_all(wherry_inbox *inbox, const char *consumer, many *m,
			      wherry_error *err)
{
	wh_buf ids = WH_BUF_INIT(IDS_MAX);
	wh_param params[2] = {
		WH_TEXT_PARAM("consumer", wh_view_of(consumer ? consumer : ""))};
	wherry_code code;

	wh_buf_putc(&ids, '[');
	for (size_t i = 0; i < m->n; i++) {
		if (i)
			wh_buf_putc(&ids, ',');
		wh_buf_json(&ids, m->items[i].id, strlen(m->items[i].id));
	}
	wh_buf_putc(&ids, ']');
	code = wh_buf_check(&ids, err);
	params[1] = WH_TEXT_PARAM("ids", ((wh_view){ids.ptr, ids.len}));
	if (code == WHERRY_OK)
		code = wh_db_run(inbox->store.db, inbox->own.accept_many, params, 2,
				 take_new, m, NULL, err);
	wh_buf_clear(&ids);
	return code;
}

wherry_code wherry_inbox_accept_many(wherry_inbox *inbox, const char *consumer,
				     const char *const *message_ids, size_t n,
				     bool *out_new, wherry_error *err)
{
	wh_error_clear(err);
	many m = {.n = n};
	wherry_code code = WHERRY_OK;

	if (!inbox || (n && (!message_ids || !out_new)))
		return wh_fail(err, WHERRY_INVALID,
			       "no inbox, no ids, or no place for the answers");
	for (size_t i = 0; code == WHERRY_OK && i < n; i++) {
		code = check(inbox, consumer, message_ids[i], err);
		if (code != WHERRY_OK)
			return wh_prefix(err, code, "message %zu", i);
	}
	code = check_transaction(inbox, err);
	if (code != WHERRY_OK || !n)
		return code;
	m.items = calloc(n, sizeof(*m.items));
	m.news = calloc(n, sizeof(*m.news));
	if (m.items && m.news) {
		for (size_t i = 0; i < n; i++)
			m.items[i] = (item){message_ids[i], i};
		qsort(m.items, n, sizeof(*m.items), compare);
		code = failed(inbox, accept_all(inbox, consumer, &m, err), err);
		if (code == WHERRY_OK)
			memcpy(out_new, m.news, n * sizeof(*out_new));
	} else {
		code = wh_oom(err);
	}
	free(m.items);
	free(m.news);
	return code;
}

/* ---- for operators ---- */

wherry_code wherry_inbox_forget(wherry_inbox *inbox, const char *consumer,
				const char *message_id, wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code = check(inbox, consumer, message_id, err);
	wh_param params[2];
	int64_t n = 0;

	if (code != WHERRY_OK)
		return code;
	name_row(consumer, message_id, params);
	code = wh_db_run(inbox->store.db, inbox->own.forget, params, 2, NULL, NULL, &n,
			 err);
	if (code != WHERRY_OK)
		return failed(inbox, code, err);
	return n ? WHERRY_OK
		 : wh_fail(err, WHERRY_NOTFOUND,
			   "consumer '%s' has not accepted message '%s' in inbox '%s'",
			   consumer ? consumer : "", message_id, inbox->store.name.ptr);
}

wherry_code wherry_inbox_purge(wherry_inbox *inbox, int64_t older_than_us, int64_t batch,
			       int64_t max_rows, int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	if (!inbox)
		return wh_fail(err, WHERRY_INVALID, "no inbox to purge");
	return wh_store_purge(&inbox->store, inbox->own.purge_accepted, older_than_us,
			      batch, max_rows, NULL, out_n, err);
}

wherry_code wh_inbox_count_old(wherry_inbox *inbox, int64_t older_than_us, int64_t *out_n,
			       wherry_error *err)
{
	const wh_param age = WH_INT_PARAM("age", wh_ms(older_than_us));

	return wh_store_ask(&inbox->store, inbox->own.count_old, &age, 1, out_n, err);
}

typedef struct counting {
	int64_t n, oldest_us;
} counting;

static wherry_code take_count(void *ctx, const wh_row *row, wherry_error *err)
{
	counting *out = ctx;

	(void)err;
	*out = (counting){wh_row_int(row, 0), wh_us(wh_row_int(row, 1))};
	return WHERRY_OK;
}

wherry_code wherry_inbox_count(wherry_inbox *inbox, int64_t *out_n,
			       int64_t *out_oldest_us, wherry_error *err)
{
	wh_error_clear(err);
	counting c = {.n = 0};
	wherry_code code;

	if (!inbox)
		return wh_fail(err, WHERRY_INVALID, "no inbox to count");
	code = wh_db_run(inbox->store.db, inbox->own.count, NULL, 0, take_count, &c, NULL,
			 err);
	if (code != WHERRY_OK)
		return failed(inbox, code, err);
	if (out_n)
		*out_n = c.n;
	if (out_oldest_us)
		*out_oldest_us = c.oldest_us;
	return WHERRY_OK;
}

/* ---- what was accepted ---- */

typedef struct accepted {
	wh_accepted_fn visit;
	void *ctx;
} accepted;

static wherry_code take_accepted(void *ctx, const wh_row *row, wherry_error *err)
{
	const accepted *a = ctx;
	wherry_code code = wh_row_check(row, err);

	return code == WHERRY_OK ? a->visit(a->ctx, wh_row_bytes(row, 0),
					    wh_us(wh_row_int(row, 1)), err)
				 : code;
}

wherry_code wh_inbox_visit_accepted(wherry_inbox *inbox, const char *consumer,
				    int64_t since_us, wh_accepted_fn visit, void *ctx,
				    wherry_error *err)
{
	const wh_param params[] = {WH_TEXT_PARAM("consumer", wh_view_of(consumer)),
				   WH_INT_PARAM("since", wh_ms(since_us))};
	accepted a = {visit, ctx};

	if (!inbox->own.accepted)
		return wh_store_cannot(&inbox->store, "whose ids cannot be listed", err);
	return failed(inbox,
		      wh_db_run(inbox->store.db, inbox->own.accepted, params, 2,
				take_accepted, &a, NULL, err),
		      err);
}

wherry_code wh_inbox_visit_oldest(wherry_inbox *inbox, const char *consumer,
				  wh_accepted_fn visit, void *ctx, wherry_error *err)
{
	const wh_param param = WH_TEXT_PARAM("consumer", wh_view_of(consumer));
	accepted a = {visit, ctx};

	if (!inbox->own.oldest_accepted)
		return wh_store_cannot(&inbox->store, "whose ids cannot be listed", err);
	return failed(inbox,
		      wh_db_run(inbox->store.db, inbox->own.oldest_accepted, &param, 1,
				take_accepted, &a, NULL, err),
		      err);
}
