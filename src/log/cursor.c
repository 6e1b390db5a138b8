#include "log/cursor.h"

#include <stdlib.h>
#include <string.h>

#include "store/store.h"

/* The snapshot before all transactions. */
#define NOTHING_SEEN "1:1:"

/* Columns of the statements that read. */
enum { ID, AT, VISIBLE, NOW, MANY, RESTORED };

/* ---- positions ---- */

void wh_position_clear(wh_position *at)
{
	free(at->seen);
	free(at->until);
	*at = WH_POSITION_START;
}

static char *copy_text(const char *text, bool *ok)
{
	char *copy = text ? strdup(text) : NULL;

	*ok = *ok && (!text || copy);
	return copy;
}

wherry_code wh_position_copy(wh_position *out, const wh_position *from, wherry_error *err)
{
	bool ok = true;

	*out = (wh_position){.high = from->high, .late = from->late};
	out->seen = copy_text(from->seen, &ok);
	out->until = copy_text(from->until, &ok);
	if (ok)
		return WHERRY_OK;
	wh_position_clear(out);
	return wh_oom(err);
}

/* Read digits, and skip the character behind them. */
static uint64_t take_number(const char **at)
{
	uint64_t n = 0;

	for (; **at >= '0' && **at <= '9'; ++*at)
		n = n * 10 + (uint64_t)(**at - '0');
	if (**at)
		++*at;
	return n;
}

uint64_t wh_snapshot_xmin(const char *snapshot)
{
	return take_number(&snapshot);
}

uint64_t wh_snapshot_xmax(const char *snapshot)
{
	(void)take_number(&snapshot);
	return take_number(&snapshot);
}

bool wh_snapshot_sees(const char *snapshot, uint64_t tx)
{
	uint64_t xmin = take_number(&snapshot), xmax = take_number(&snapshot);

	if (tx < xmin || tx >= xmax)
		return tx < xmin;
	while (*snapshot)
		if (take_number(&snapshot) == tx)
			return false;
	return true;
}

bool wh_position_covers(const wh_position *at, int64_t id, uint64_t tx)
{
	if (id > at->high)
		return false;
	if (wh_snapshot_sees(at->seen ? at->seen : NOTHING_SEEN, tx))
		return true;
	return at->until && id <= at->late && wh_snapshot_sees(at->until, tx);
}

static void replace(wh_position *at, wh_position *by)
{
	wh_position_clear(at);
	*at = *by;
	*by = WH_POSITION_START;
}

/* ---- opening and closing ---- */

static wherry_code find(wh_cursor *c, const wh_sql *sql, wherry_error *err)
{
	c->look = wh_sql_find(sql, "read-log");
	c->now = wh_sql_find(sql, "log-end");
	c->late_start = wh_sql_find(sql, "late-start");
	c->late_page = wh_sql_find(sql, "late-page");
	c->renumber = wh_sql_find(sql, "renumber");
	if (c->look && c->now && !c->late_start == !c->late_page &&
	    !c->late_start == !c->renumber)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_INVALID, "a statement of the cursor is missing");
}

wherry_code wh_cursor_open_layout(wherry_db *db, const wh_sql *sql, wh_cursor **out,
				  wherry_error *err)
{
	wh_cursor *c = calloc(1, sizeof(*c));
	wherry_code code;

	if (!c)
		return wh_oom(err);
	c->db = db;
	code = find(c, sql, err);
	if (code == WHERRY_OK)
		*out = c;
	else
		wh_cursor_close(c);
	return code;
}

wherry_code wh_cursor_open(wherry_db *db, const char *schema, const char *table,
			   wh_cursor **out, wherry_error *err)
{
	const char *text = wh_sql_embedded("log", "cursor", db->driver->scheme);
	const wh_sql_names names = {
		.dialect = db->driver->scheme, .schema = schema, .table = table};
	wh_sql sql = {0};
	wherry_code code;

	if (!text)
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "'%s:' has no cursor over a log yet", db->driver->scheme);
	code = wh_sql_parse_as(text, &names, &sql, err);
	if (code == WHERRY_OK)
		code = wh_cursor_open_layout(db, &sql, out, err);
	if (code == WHERRY_OK)
		(*out)->own = sql;
	else
		wh_sql_clear(&sql);
	return code;
}

void wh_cursor_close(wh_cursor *c)
{
	if (!c)
		return;
	if (c->own.n)
		wh_db_forget(c->db, &c->own);
	wh_sql_clear(&c->own);
	free(c);
}

/* ---- reading ---- */

/* A statement that reads, and what its rows say. */
typedef struct reading {
	wh_position next; /* The position behind the rows that were visited. */
	wh_log_fn visit;
	void *ctx;
	bool begun;    /* The first row was read, which is not one of the log. */
	int64_t n;     /* Rows that were visited. */
	bool many;     /* More rows are late than a look may return. */
	bool restored; /* A transaction has a number that it cannot have here. */
	bool cut;      /* There was no room for a row. */
	bool inside;   /* That row was with_last. */
} reading;

/* Replace *out by a copy of a text column; NULL stays NULL. */
static wherry_code take_text(const wh_row *row, int column, char **out, wherry_error *err)
{
	bool ok = true;

	free(*out);
	*out = copy_text(wh_row_text(row, column), &ok);
	return ok ? WHERRY_OK : wh_oom(err);
}

static wherry_code take_head(reading *r, const wh_row *row, wherry_error *err)
{
	r->many = wh_row_int(row, MANY) != 0;
	r->restored = wh_row_int(row, RESTORED) != 0;
	return take_text(row, NOW, &r->next.seen, err);
}

static wherry_code take_row(void *ctx, const wh_row *row, wherry_error *err)
{
	reading *r = ctx;
	const wh_log_row out = {.id = wh_row_int(row, ID),
				.at = wh_row_int(row, AT),
				.with_last = r->n && wh_row_int(row, AT) == r->next.high,
				.row = row};
	wherry_code code = wh_row_check(row, err);

	if (code == WHERRY_OK && !r->begun) {
		r->begun = true;
		return take_head(r, row, err);
	}
	if (code != WHERRY_OK || r->restored)
		return code;
	if (!wh_row_int(row, VISIBLE)) { /* The rows before it were read. */
		r->restored = true;
		return WHERRY_OK;
	}
	code = r->visit(r->ctx, &out, err);
	r->cut = code == WHERRY_INTERRUPTED;
	r->inside = r->cut && out.with_last;
	if (code != WHERRY_OK)
		return code;
	r->n++;
	if (out.at > r->next.high)
		r->next.high = out.at;
	r->next.late = out.id;
	return WHERRY_OK;
}

static wh_view seen_of(const wh_position *at)
{
	return wh_view_of(at->seen ? at->seen : NOTHING_SEEN);
}

static wherry_code take_snapshot(void *ctx, const wh_row *row, wherry_error *err)
{
	return take_text(row, 0, ctx, err);
}

wherry_code wh_cursor_renumber(wh_cursor *c, wh_position *at, wherry_error *err)
{
	const wh_param params[] = {
		WH_INT_PARAM("high", at->high),
		WH_TEXT_PARAM("seen", seen_of(at)),
		WH_TEXT_PARAM("until", wh_view_of(at->until)),
		WH_INT_PARAM("late", at->late),
	};
	wh_position next = {.high = at->high};
	wherry_code code;

	if (!c->renumber)
		return WHERRY_OK;
	code = wh_db_run(c->db, c->renumber, params, 4, take_snapshot, &next.seen, NULL,
			 err);
	if (code == WHERRY_OK && !next.seen)
		code = wh_fail(err, WHERRY_CORRUPT, "no snapshot was returned");
	if (code == WHERRY_OK)
		replace(at, &next);
	wh_position_clear(&next);
	return code;
}

/* Begin a round, which reads up to the snapshot of the look that found too many rows. */
static wherry_code begin_round(wh_cursor *c, wh_position *at, char **until,
			       wherry_error *err)
{
	const wh_param params[] = {WH_INT_PARAM("high", at->high),
				   WH_TEXT_PARAM("seen", seen_of(at))};
	int64_t start = 0;
	wherry_code code = wh_db_run(c->db, c->late_start, params, 2, wh_take_int, &start,
				     NULL, err);

	if (code != WHERRY_OK)
		return code;
	at->until = *until;
	at->late = start;
	*until = NULL;
	return WHERRY_OK;
}

/* Run a statement that reads.  It has not failed if a visit ended it, or if it met a row that the
 * database cannot send: the next read begins there. */
static wherry_code run(const wh_cursor *c, const wh_stmt *stmt, wh_param *params,
		       size_t n, reading *r, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;

	r->begun = false;
	memcpy(params + n, c->limits, c->n_limits * sizeof(*params));
	code = wh_db_run(c->db, stmt, params, n + c->n_limits, take_row, r, NULL, &why);
	if (code == WHERRY_INTERRUPTED && r->cut)
		return WHERRY_OK;
	r->cut = r->n && wh_db_about_row(c->db, code, &why);
	if (r->cut)
		return WHERRY_OK;
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

/* Read the next page of a round.  *out_ended: it was the last one. */
static wherry_code read_page(wh_cursor *c, wh_position *at, int64_t limit, reading *r,
			     bool *out_ended, wherry_error *err)
{
	wh_param params[5 + WH_LOG_LIMITS] = {
		WH_INT_PARAM("high", at->high),
		WH_TEXT_PARAM("seen", seen_of(at)),
		WH_TEXT_PARAM("until", wh_view_of(at->until)),
		WH_INT_PARAM("late", at->late),
		WH_INT_PARAM("limit", limit),
	};
	wherry_code code = run(c, c->late_page, params, 5, r, err);

	if (code != WHERRY_OK || r->restored)
		return code;
	*out_ended = r->n < limit && !r->cut;
	at->late = r->next.late;
	if (!*out_ended)
		return WHERRY_OK;
	free(at->seen);
	at->seen = at->until;
	at->until = NULL;
	at->late = 0;
	return WHERRY_OK;
}

static wherry_code look(wh_cursor *c, wh_position *at, int64_t limit, reading *r,
			wherry_error *err)
{
	wh_param all[3 + WH_LOG_LIMITS] = {
		WH_INT_PARAM("high", at->high),
		WH_INT_PARAM("limit", limit),
		WH_TEXT_PARAM("seen", seen_of(at)),
	};

	return run(c, c->look, all, 3, r, err);
}

/* The look ended before a row.  If that can be a late one, the others are read in a round. */
static wherry_code stop_before(wh_cursor *c, wh_position *at, reading *r)
{
	if (!r->n)
		return WHERRY_OK;
	if (c->late_page && r->next.late <= at->high) {
		at->until = r->next.seen;
		at->late = r->next.late;
		r->next.seen = NULL;
		return WHERRY_OK;
	}
	r->next.late = 0;
	r->next.high -= r->inside;
	replace(at, &r->next);
	return WHERRY_OK;
}

/* One look, or one page of a round.  *out_again: nothing was visited, and there may be rows. */
static wherry_code step(wh_cursor *c, wh_position *at, int64_t limit, reading *r,
			wh_log_event *event, bool *out_again, wherry_error *err)
{
	bool in_round = at->until != NULL;
	wherry_code code;

	*out_again = false;
	code = in_round ? read_page(c, at, limit, r, out_again, err)
			: look(c, at, limit, r, err);
	if (code != WHERRY_OK)
		return code;
	if (r->restored && !r->n) {
		*event = c->renumber ? WH_LOG_RESTORED : WH_LOG_REPLACED;
		*out_again = !c->renumber;
		if (!c->renumber)
			wh_position_clear(at);
		return WHERRY_OK;
	}
	if (in_round)
		return WHERRY_OK;
	if (r->cut)
		return stop_before(c, at, r);
	if (r->many) {
		*out_again = true;
		return begin_round(c, at, &r->next.seen, err);
	}
	*out_again = r->restored; /* The rows before the first such row were visited. */
	r->next.late = 0;
	replace(at, &r->next);
	return WHERRY_OK;
}

wherry_code wh_cursor_read(wh_cursor *c, wh_position *at, int64_t limit, wh_log_fn visit,
			   void *ctx, wh_log_found *out, wherry_error *err)
{
	wh_log_found found = {.event = WH_LOG_SAME};
	wh_position work;
	wherry_code code = wh_position_copy(&work, at, err);
	bool again = code == WHERRY_OK, cut = false;
	int64_t n = 0;

	while (code == WHERRY_OK && again && !n && !cut) {
		reading r = {.visit = visit, .ctx = ctx};

		r.next.high = work.high;
		r.next.late = work.late;
		code = step(c, &work, limit, &r, &found.event, &again, err);
		n = r.n;
		cut = r.cut;
		wh_position_clear(&r.next);
	}
	found.more = again || cut || work.until || n >= limit;
	if (code == WHERRY_OK) {
		replace(at, &work);
		*out = found;
	}
	wh_position_clear(&work);
	return code;
}

/* ---- other positions ---- */

static wherry_code take_position(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_position *out = ctx;

	out->high = wh_row_int(row, 0);
	return take_text(row, 1, &out->seen, err);
}

static wherry_code position_now(wh_cursor *c, const wh_param *high, wh_position *out,
				wherry_error *err)
{
	wh_position_clear(out);
	return wh_db_run(c->db, c->now, high, 1, take_position, out, NULL, err);
}

wherry_code wh_cursor_end(wh_cursor *c, wh_position *out, wherry_error *err)
{
	const wh_param none = {.name = "high", .type = WH_NULL};

	return position_now(c, &none, out, err);
}

wherry_code wh_cursor_after(wh_cursor *c, int64_t id, wh_position *out, wherry_error *err)
{
	const wh_param high = WH_INT_PARAM("high", id);

	return position_now(c, &high, out, err);
}
