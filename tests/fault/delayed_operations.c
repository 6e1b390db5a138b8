/*
 * The public operations on delayed queues; "later" of the template has messages that are due,
 * leased, waiting and dead.
 */
#include "operations.h"

static wherry_code see(void *ctx, const wherry_delayed_message *m)
{
	world *w = ctx;
	int n = snprintf(w->rows + w->rows_len, sizeof(w->rows) - w->rows_len,
			 "%d %d %d %s %.*s|", (int)m->id, (int)m->state, (int)m->attempts,
			 m->key, (int)m->body_len, (const char *)m->body);

	if (n > 0 && (size_t)n < sizeof(w->rows) - w->rows_len)
		w->rows_len += (size_t)n;
	return WHERRY_OK;
}

static void see_nothing(world *w)
{
	w->rows_len = 0;
}

/* ---- schema ---- */

static wherry_code delayed_create(world *w, wherry_error *err)
{
	return wherry_delayed_create(w->db, "other", NULL, err);
}

static wherry_code delayed_create_sql(world *w, wherry_error *err)
{
	return wherry_delayed_create_sql("sqlite", NULL, NULL, (char **)&w->out.made,
					 err);
}

static void drop_text(world *w)
{
	free(w->out.made);
}

static wherry_code delayed_open(world *w, wherry_error *err)
{
	return wherry_delayed_open(w->db, "later", "jobs", NULL,
				   (wherry_delayed **)&w->out.made, err);
}

static void drop_delayed(world *w)
{
	wherry_delayed_close(w->out.made);
}

static wherry_code delayed_drop(world *w, wherry_error *err)
{
	return wherry_delayed_drop(w->delayed, err);
}

/* ---- producers ---- */

#define MESSAGE(key_)                                                                    \
	WHERRY_DELAYED_MESSAGE(.key = (key_), .body = "new", .body_len = 3,              \
			       .at_us = 1900000000000000)

static void begin(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	see_nothing(w);
	WHERRY_PASS(wherry_db_begin(w->db, &err));
	WHERRY_PASS(wherry_delayed_offer(w->delayed, &MESSAGE("first"), NULL, &err));
}

static wherry_code delayed_offer(world *w, wherry_error *err)
{
	wherry_offer_outcome became = WHERRY_CREATED;
	wherry_code code = wherry_delayed_offer(w->delayed, &MESSAGE("a"), &became, err);

	if (code == WHERRY_OK)
		w->out.number[0] = became;
	return code;
}

static wherry_code delayed_offer_many(world *w, wherry_error *err)
{
	const wherry_delayed_message many[] = {MESSAGE("x"), MESSAGE("b"), MESSAGE("x")};
	wherry_offer_outcome became[3];
	wherry_code code = wherry_delayed_offer_many(w->delayed, many, 3, became, err);

	for (int i = 0; code == WHERRY_OK && i < 3; i++)
		w->out.number[i] = became[i];
	return code;
}

static wherry_code offer_b(void *ctx, wherry_error *err)
{
	return wherry_delayed_offer(((world *)ctx)->delayed, &MESSAGE("b"), NULL, err);
}

static wherry_code retry(world *w, wherry_error *err)
{
	const wherry_retry_policy policy =
		WHERRY_RETRY_POLICY(.retries = WHERRY_NO_RETRIES);

	return wherry_retry(w->db, &policy, offer_b, w, NULL, err);
}

/* ---- consumers ---- */

static wherry_code delayed_poll(world *w, wherry_error *err)
{
	const wherry_poll_options options =
		WHERRY_POLL_OPTIONS(.limit = 2, .max_attempts = 3);

	return wherry_delayed_poll(w->delayed, &options, see, w, w->out.number, err);
}

static wherry_code delayed_wait(world *w, wherry_error *err)
{
	bool any = false;
	wherry_code code = wherry_delayed_wait(w->delayed, 0, &any, err);

	if (code == WHERRY_OK)
		w->out.number[0] = any;
	return code;
}

static const char *const leased[] = {"2.1700000000000.tk", "3.1700000000000.tk"};
static const char *const mixed[] = {"2.1700000000000.tk", "1.1700000000000:1700000000000",
				    "4.1600000000000:1600000000000"};

static wherry_code note(world *w, wherry_code code, const wherry_ack_outcome *out, int n)
{
	for (int i = 0; code == WHERRY_OK && i < n; i++)
		w->out.number[i] = out[i];
	return code;
}

static wherry_code delayed_ack(world *w, wherry_error *err)
{
	wherry_ack_outcome out[3];

	return note(w, wherry_delayed_ack(w->delayed, mixed, 3, out, err), out, 3);
}

static wherry_code delayed_nack(world *w, wherry_error *err)
{
	wherry_ack_outcome out[2];

	return note(w,
		    wherry_delayed_nack(w->delayed, leased, 2, 1000000, "no", out, err),
		    out, 2);
}

static wherry_code delayed_extend(world *w, wherry_error *err)
{
	wherry_ack_outcome out[2];

	return note(w, wherry_delayed_extend(w->delayed, leased, 2, 1000000, out, err),
		    out, 2);
}

static wherry_code delayed_dead_letter(world *w, wherry_error *err)
{
	wherry_ack_outcome out[2];

	return note(w,
		    wherry_delayed_dead_letter(w->delayed, leased, 2, "never", out, err),
		    out, 2);
}

/* ---- by key ---- */

static wherry_code delayed_read(world *w, wherry_error *err)
{
	return wherry_delayed_read(w->delayed, "b", see, w, NULL, err);
}

static wherry_code delayed_contains(world *w, wherry_error *err)
{
	bool found = false;
	wherry_code code = wherry_delayed_contains(w->delayed, "b", &found, err);

	if (code == WHERRY_OK)
		w->out.number[0] = found;
	return code;
}

static wherry_code delayed_drop_key(world *w, wherry_error *err)
{
	return wherry_delayed_drop_key(w->delayed, "b", NULL, err);
}

static wherry_code delayed_drop_many(world *w, wherry_error *err)
{
	return wherry_delayed_drop_many(w->delayed, &WHERRY_DELAYED_FILTER(.prefix = "a"),
					w->out.number, err);
}

static wherry_code delayed_drop_all(world *w, wherry_error *err)
{
	return wherry_delayed_drop_all(w->delayed, WHERRY_DELAYED_DROP_ALL, w->out.number,
				       err);
}

/* ---- operators ---- */

static wherry_code delayed_list(world *w, wherry_error *err)
{
	return wherry_delayed_list(w->delayed, NULL, see, w, err);
}

static wherry_code delayed_list_dead(world *w, wherry_error *err)
{
	return wherry_delayed_list_dead(w->delayed, 0, 0, see, w, err);
}

static wherry_code delayed_get_status(world *w, wherry_error *err)
{
	wherry_delayed_status s;
	wherry_code code = wherry_delayed_get_status(w->delayed, &s, sizeof(s), err);

	if (code == WHERRY_OK) {
		w->out.number[0] = s.due;
		w->out.number[1] = s.leased;
		w->out.number[2] = s.waiting;
		w->out.number[3] = s.dead;
	}
	return code;
}

static wherry_code delayed_retry(world *w, wherry_error *err)
{
	return wherry_delayed_retry(w->delayed, 0, w->out.number, err);
}

static wherry_code delayed_purge_dead(world *w, wherry_error *err)
{
	return wherry_delayed_purge_dead(w->delayed, 0, w->out.number, err);
}

static wherry_code delayed_pause(world *w, wherry_error *err)
{
	return wherry_delayed_pause(w->delayed, err);
}

static wherry_code delayed_resume(world *w, wherry_error *err)
{
	return wherry_delayed_resume(w->delayed, err);
}

/* clang-format off */
const operation delayed_operations[] = {
	{"delayed_create", delayed_create, NULL, NULL, NULL, 0},
	{"delayed_create_sql", delayed_create_sql, NULL, drop_text, NULL, 0},
	{"delayed_open", delayed_open, NULL, drop_delayed, NULL, 0},
	{"delayed_offer", delayed_offer, NULL, NULL, NULL, 0},
	{"delayed_offer in a transaction", delayed_offer, begin, NULL, NULL, OPERATION_JOINS},
	{"delayed_offer on a borrowed handle", delayed_offer, NULL, NULL, NULL, OPERATION_BORROWS},
	{"delayed_offer_many", delayed_offer_many, NULL, NULL, NULL, 0},
	{"delayed_offer_many in a transaction", delayed_offer_many, begin, NULL, NULL, OPERATION_JOINS},
	{"retry", retry, NULL, NULL, NULL, OPERATION_ONCE},
	{"delayed_poll", delayed_poll, see_nothing, NULL, NULL, OPERATION_ONCE},
	{"delayed_poll in a transaction", delayed_poll, begin, NULL, NULL, OPERATION_JOINS},
	{"delayed_wait", delayed_wait, NULL, NULL, NULL, 0},
	{"delayed_ack", delayed_ack, NULL, NULL, NULL, 0},
	{"delayed_ack in a transaction", delayed_ack, begin, NULL, NULL, OPERATION_JOINS},
	{"delayed_nack", delayed_nack, NULL, NULL, NULL, 0},
	{"delayed_extend", delayed_extend, NULL, NULL, NULL, 0},
	{"delayed_dead_letter", delayed_dead_letter, NULL, NULL, NULL, 0},
	{"delayed_read", delayed_read, see_nothing, NULL, NULL, 0},
	{"delayed_contains", delayed_contains, NULL, NULL, NULL, 0},
	{"delayed_drop_key", delayed_drop_key, NULL, NULL, NULL, 0},
	{"delayed_drop_many", delayed_drop_many, NULL, NULL, NULL, 0},
	{"delayed_drop_all", delayed_drop_all, NULL, NULL, NULL, 0},
	{"delayed_list", delayed_list, see_nothing, NULL, NULL, 0},
	{"delayed_list_dead", delayed_list_dead, see_nothing, NULL, NULL, 0},
	{"delayed_get_status", delayed_get_status, NULL, NULL, NULL, 0},
	{"delayed_retry", delayed_retry, NULL, NULL, NULL, OPERATION_PARTLY},
	{"delayed_purge_dead", delayed_purge_dead, NULL, NULL, NULL, 0},
	{"delayed_pause", delayed_pause, NULL, NULL, NULL, 0},
	{"delayed_resume", delayed_resume, NULL, NULL, NULL, 0},
	{"delayed_drop", delayed_drop, NULL, NULL, NULL, 0},
};
/* clang-format on */
const size_t n_delayed_operations =
	sizeof(delayed_operations) / sizeof(*delayed_operations);
