/*
 * The public operations on inboxes; "inbox" of the template has three ids.
 */
#include "operations.h"

static wherry_code inbox_create(world *w, wherry_error *err)
{
	return wherry_inbox_create(w->db, "other", err);
}

static wherry_code inbox_create_sql(world *w, wherry_error *err)
{
	return wherry_inbox_create_sql("sqlite", NULL, (char **)&w->out.made, err);
}

static void drop_text(world *w)
{
	free(w->out.made);
}

static wherry_code inbox_open(world *w, wherry_error *err)
{
	return wherry_inbox_open(w->db, NULL, (wherry_inbox **)&w->out.made, err);
}

static void drop_inbox(world *w)
{
	wherry_inbox_close(w->out.made);
}

static wherry_code inbox_drop(world *w, wherry_error *err)
{
	return wherry_inbox_drop(w->inbox, err);
}

/* In a transaction, which has accepted one message before. */
static void begin(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool new = false;

	WHERRY_PASS(wherry_db_begin(w->db, &err));
	WHERRY_PASS(wherry_inbox_accept(w->inbox, NULL, "first", &new, &err));
}

static wherry_code inbox_accept(world *w, wherry_error *err)
{
	bool new = false;
	wherry_code code = wherry_inbox_accept(w->inbox, "c", "m2", &new, err);

	if (code == WHERRY_OK)
		w->out.number[0] = new;
	return code;
}

static wherry_code inbox_accept_many(world *w, wherry_error *err)
{
	static const char *const ids[] = {"m9", "m1", "m8"};
	bool new[3] = {false};
	wherry_code code = wherry_inbox_accept_many(w->inbox, NULL, ids, 3, new, err);

	for (int i = 0; code == WHERRY_OK && i < 3; i++)
		w->out.number[i] = new[i];
	return code;
}

static wherry_code inbox_forget(world *w, wherry_error *err)
{
	return wherry_inbox_forget(w->inbox, "c", "m1", err);
}

static wherry_code inbox_purge(world *w, wherry_error *err)
{
	return wherry_inbox_purge(w->inbox, 1000000, 2, 0, NULL, err);
}

static wherry_code inbox_count(world *w, wherry_error *err)
{
	return wherry_inbox_count(w->inbox, w->out.number, NULL, err);
}

/* clang-format off */
const operation inbox_operations[] = {
	{"inbox_create", inbox_create, NULL, NULL, NULL, 0},
	{"inbox_create_sql", inbox_create_sql, NULL, drop_text, NULL, 0},
	{"inbox_open", inbox_open, NULL, drop_inbox, NULL, 0},
	{"inbox_accept", inbox_accept, begin, NULL, NULL, OPERATION_JOINS},
	{"inbox_accept_many", inbox_accept_many, begin, NULL, NULL, OPERATION_JOINS},
	{"inbox_forget", inbox_forget, NULL, NULL, NULL, 0},
	{"inbox_purge", inbox_purge, NULL, NULL, NULL, OPERATION_PARTLY},
	{"inbox_count", inbox_count, NULL, NULL, NULL, 0},
	{"inbox_drop", inbox_drop, NULL, NULL, NULL, 0},
};
/* clang-format on */
const size_t n_inbox_operations = sizeof(inbox_operations) / sizeof(*inbox_operations);
