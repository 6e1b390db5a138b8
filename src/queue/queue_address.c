/*
 * Addresses of NServiceBus on SQL Server: TABLE, TABLE@[SCHEMA] and TABLE@[SCHEMA]@[CATALOG].
 */
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "queue/queue.h"

/* Take the part of an address before the next @ outside of brackets.  Inside brackets ]
 * is written as ]].  Moves *at behind the @. */
static wh_view take_part(const char **at)
{
	const char *begin = *at, *p = begin;
	bool open = *p == '[';
	wh_view part;

	for (int closed = 0; *p; p++) {
		closed += p > begin && *p == ']';
		if (*p == '@' && p > begin && (!open || closed % 2))
			break;
	}
	part = (wh_view){begin, (size_t)(p - begin)};
	*at = *p ? p + 1 : p;
	return part;
}

/* Append the name in a part, without brackets and with ] for ]]. */
static void put_textless(wh_buf *to, wh_view part)
{
	bool quoted = part.len > 1 && *part.ptr == '[' && part.ptr[part.len - 1] == ']';

	for (size_t i = quoted; i < part.len - quoted; i++) {
		wh_buf_putc(to, part.ptr[i]);
		if (quoted && part.ptr[i] == ']' && part.ptr[i + 1] == ']')
			i++;
	}
}

static void put_quoted(wh_buf *to, const char *name)
{
	wh_buf_putc(to, '"');
	for (; *name; name++) {
		if (*name == '"')
			wh_buf_putc(to, '"');
		wh_buf_putc(to, *name);
	}
	wh_buf_putc(to, '"');
}

wherry_code wh_queue_address(const char *address, const char *catalog, wh_buf *out,
			     wherry_error *err)
{
	wh_buf table = WH_BUF_INIT(1000), schema = WH_BUF_INIT(1000),
	       other = WH_BUF_INIT(1000);
	const char *at = address + strcspn(address, "@");
	wherry_code code = WHERRY_OK;

	wh_buf_put(&table, address, (size_t)(at - address));
	at += *at == '@';
	put_textless(&schema, take_part(&at));
	put_textless(&other, take_part(&at));
	(void)wh_buf_into(&other, out);
	(void)wh_buf_into(&schema, out);
	if (other.len && strcasecmp(wh_buf_str(&other), catalog) != 0)
		code = wh_fail(err, WHERRY_UNSUPPORTED,
			       "the queue '%.100s' is in the database '%.60s', and this "
			       "connection is to '%.60s'",
			       address, wh_buf_str(&other), catalog);
	if (schema.len) {
		put_quoted(out, wh_buf_into(&schema, out));
		wh_buf_putc(out, '.');
	}
	put_quoted(out, wh_buf_into(&table, out));
	wh_buf_clear(&table);
	wh_buf_clear(&schema);
	wh_buf_clear(&other);
	return code == WHERRY_OK ? wh_buf_check(out, err) : code;
}

wherry_code wh_queue_open_at(wherry_db *db, const char *address, const char *catalog,
			     wherry_queue **out, wherry_error *err)
{
	wh_buf name = WH_BUF_INIT(1000);
	wherry_code code = WHERRY_OK;

	if (*catalog)
		code = wh_queue_address(address, catalog, &name, err);
	else
		wh_buf_puts(&name, address);
	if (code == WHERRY_OK)
		code = wh_buf_check(&name, err);
	if (code == WHERRY_OK)
		code = wherry_queue_open(db, wh_buf_str(&name), out, err);
	wh_buf_clear(&name);
	return code;
}
