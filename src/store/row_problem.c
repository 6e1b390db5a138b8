#include "store/row_problem.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

/* The texts of a row by their columns, and their limits in bytes. */
#define TEXTS(X)                                                                         \
	X(message_id, WH_TEXT_MOST)                                                      \
	X(topic, WH_TEXT_MOST)                                                           \
	X(aggregate_type, WH_TEXT_MOST)                                                  \
	X(aggregate_id, WH_TEXT_MOST)                                                    \
	X(key, WH_TEXT_MOST)                                                             \
	X(headers, WH_TEXT_MOST)                                                         \
	X(trace_id, WH_TEXT_MOST)

/* A server sends the beginning of a text that is over its limit, one character more than
 * the limit: so nothing that a producer writes is a signal. */
static bool too_long(wh_view text, int64_t most)
{
	return (int64_t)text.len > most;
}

/* True: the text has a flaw, which is written to why. */
static bool text_flaw(wh_buf *why, const char *name, wh_view text, int64_t most)
{
	if (!text.len)
		return false;
	if (too_long(text, most))
		wh_buf_printf(why, "%s is longer than its limit of %" PRId64 " bytes",
			      name, most);
	else if (memchr(text.ptr, 0, text.len))
		wh_buf_printf(why, "%s has a NUL character", name);
	else if (!wh_utf8_valid(text.ptr, text.len))
		wh_buf_printf(why, "%s is not UTF-8", name);
	else
		return false;
	return true;
}

static bool is_adopted(const wh_store *store)
{
	return strcmp(store->layout.name, "adopted") == 0;
}

static bool number_flaw(const wh_store *store, const wh_open_row *row, bool own_id,
			wh_buf *why)
{
	if (row->unreadable)
		wh_buf_printf(why, "the row cannot be read: %s", row->unreadable);
	else if (is_adopted(store) && !row->message_id.ptr) /* See log/failing.h. */
		wh_buf_printf(why, "the row cannot be read: %.*s", (int)row->trace_id.len,
			      row->trace_id.ptr ? row->trace_id.ptr : "");
	else if (row->id <= 0 && own_id && !store->layout.by_claim)
		wh_buf_printf(why, "id is %" PRId64 ": ids begin at 1", row->id);
	else if (row->odd)
		wh_buf_printf(why, "%s is not an integer", row->odd);
	else if (row->attempts < 0 || row->attempts > WH_COUNT_MOST)
		wh_buf_printf(why, "attempts is %" PRId32 ", the limit is %d",
			      row->attempts, WH_COUNT_MOST);
	else if (row->created_at_us < 0 || row->created_at_us >= WH_TIME_MOST_US)
		wh_buf_puts(why, "created_at is not between the years 1970 and 9999");
	else
		return false;
	return true;
}

/* Did a server leave out the body because it is too long? */
static bool body_withheld(const wh_store *store, const wh_open_row *row, wh_view body)
{
	const wh_db_driver *driver = store->db->driver;

	return !body.ptr && row->row && row->row->driver == driver->row &&
	       driver->late_commits;
}

static bool body_flaw(const wh_store *store, const wh_open_row *row, wh_buf *why)
{
	wh_view body = wh_open_body(row);

	if (body_withheld(store, row, body))
		wh_buf_printf(why,
			      "payload is over its limit of %" PRId64
			      " bytes (setting body_max), or NULL",
			      store->body_max);
	else if ((int64_t)body.len > store->body_max)
		wh_buf_printf(why,
			      "payload is %zu bytes, the limit is %" PRId64
			      " (setting body_max)",
			      body.len, store->body_max);
	else
		return false;
	return true;
}

/* The column of a field: Wherry's own tables call the key's column partition_key. */
static const char *column_of(const wh_store *store, const char *field)
{
	bool native = strcmp(store->layout.name, "native") == 0 ||
		      strcmp(store->layout.name, "log") == 0 || is_adopted(store);

	return native && strcmp(field, "key") == 0 ? "partition_key" : field;
}

bool wh_row_problem(const wh_store *store, const wh_open_row *row, bool own_id,
		    wh_buf *why)
{
	bool flawed = number_flaw(store, row, own_id, why);

#define X(field, most)                                                                   \
	flawed = flawed || text_flaw(why, column_of(store, #field), row->field, most);
	TEXTS(X)
#undef X
	return flawed || body_flaw(store, row, why);
}

static wh_view trim(wh_view text, int64_t most)
{
	bool fine =
		text.len && !too_long(text, most) && wh_utf8_valid(text.ptr, text.len);

	return !text.len || fine ? text : (wh_view){"", 0};
}

void wh_row_trim(const wh_store *store, wh_open_row *row)
{
#define X(field, most) row->field = trim(row->field, most);
	TEXTS(X)
#undef X
	if (!row->topic.ptr)
		row->topic = (wh_view){"", 0};
	row->no_body = row->no_body || (int64_t)wh_open_body(row).len > store->body_max;
}
