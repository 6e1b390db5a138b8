#include "db/postgres/pgoutput.h"

#include <assert.h>
#include <string.h>

/* Time between the Unix epoch (1970) and PostgreSQL's (2000). */
#define EPOCH_US (INT64_C(946684800) * 1000000)

/* Reads a message field by field.  It remembers the first field that is cut off or
 * invalid; every later field is 0 or empty.  So one check at the end is enough. */
typedef struct reader {
	const char *bytes;
	size_t len, at;
	const char *field; /* Name of the field that failed; NULL: none. */
	/* Bytes that the field should have; 0: its value `odd` is invalid. */
	size_t wanted;
	uint64_t odd;
} reader;

static const char *take(reader *r, size_t n, const char *field)
{
	const char *bytes = r->bytes + r->at;

	if (r->field)
		return NULL;
	if (n > r->len - r->at) {
		r->field = field;
		r->wanted = n;
		return NULL;
	}
	r->at += n;
	return bytes;
}

/* Numbers are in network byte order. */
static uint64_t take_number(reader *r, size_t n, const char *field)
{
	const char *bytes = take(r, n, field);
	uint64_t number = 0;

	for (size_t i = 0; bytes && i < n; i++)
		number = number << 8 | (uint8_t)bytes[i];
	return number;
}

static uint8_t take_byte(reader *r, const char *field)
{
	return (uint8_t)take_number(r, 1, field);
}

static uint32_t take_oid(reader *r, const char *field)
{
	return (uint32_t)take_number(r, 4, field);
}

static int64_t take_time(reader *r, const char *field)
{
	return (int64_t)(take_number(r, 8, field) + (uint64_t)EPOCH_US);
}

/* Fail because a field has an invalid value. */
static void refuse(reader *r, uint64_t odd, const char *field)
{
	if (r->field)
		return;
	r->field = field;
	r->wanted = 0;
	r->odd = odd;
}

/* A text that ends in NUL. */
static wh_view take_text(reader *r, const char *field)
{
	size_t left = r->len - r->at;
	const char *bytes = r->bytes + r->at;
	const char *end = left ? memchr(bytes, 0, left) : NULL;
	size_t len = end ? (size_t)(end - bytes) : left;

	bytes = take(r, len + 1, field);
	return (wh_view){bytes, bytes ? len : 0};
}

/* Bytes after their length.  A length above INT32_MAX is larger than any message. */
static wh_view take_data(reader *r, const char *field)
{
	uint32_t len = (uint32_t)take_number(r, 4, field);
	const char *bytes = take(r, len, field);

	return (wh_view){bytes, bytes ? len : 0};
}

/* The number of entries that follow; at most INT16_MAX or INT32_MAX, as it has a sign. */
static unsigned take_count(reader *r, size_t size, const char *field)
{
	uint64_t n = take_number(r, size, field);

	if (n > (size == 2 ? INT16_MAX : INT32_MAX))
		refuse(r, n, field);
	return r->field ? 0 : (unsigned)n;
}

static wh_pgo_column take_column(reader *r)
{
	wh_pgo_column column;
	uint8_t flags = take_byte(r, "the flags of a column");

	if (flags > 1)
		refuse(r, flags, "the flags of a column");
	column.key = flags == 1;
	column.name = take_text(r, "the name of a column");
	column.type = take_oid(r, "the type of a column");
	column.typmod = (int32_t)take_number(r, 4, "the type of a column");
	return column;
}

static wh_pgo_value take_value(reader *r)
{
	wh_pgo_value value = {.form = (wh_pgo_form)take_byte(r, "the form of a value")};

	switch (value.form) {
	case WH_PGO_NULL:
	case WH_PGO_UNCHANGED:
		break;
	case WH_PGO_TEXT:
	case WH_PGO_BINARY:
		value.data = take_data(r, "a value");
		break;
	default:
		refuse(r, value.form, "the form of a value");
	}
	return value;
}

/* ---- lists: checked once while decoding, and read again by the caller ---- */

typedef enum list_of { COLUMNS, VALUES, OIDS } list_of;

static void take_entry(reader *r, list_of what)
{
	switch (what) {
	case COLUMNS:
		(void)take_column(r);
		break;
	case VALUES:
		(void)take_value(r);
		break;
	case OIDS:
		(void)take_oid(r, "the oid of a table");
		break;
	}
}

static wh_pgo_list take_list(reader *r, unsigned n, list_of what)
{
	size_t start = r->at;

	for (unsigned i = 0; i < n && !r->field; i++)
		take_entry(r, what);
	return (wh_pgo_list){{r->bytes + start, r->at - start}, n};
}

static wh_pgo_list take_row(reader *r)
{
	return take_list(r, take_count(r, 2, "the number of values"), VALUES);
}

static reader resume(const wh_pgo_list *list)
{
	return (reader){.bytes = list->rest.ptr, .len = list->rest.len};
}

static void move_on(wh_pgo_list *list, const reader *r)
{
	assert(!r->field);
	list->rest = (wh_view){r->bytes + r->at, r->len - r->at};
	list->n--;
}

bool wh_pgo_next_column(wh_pgo_list *columns, wh_pgo_column *out)
{
	reader r = resume(columns);

	if (!columns->n)
		return false;
	*out = take_column(&r);
	move_on(columns, &r);
	return true;
}

bool wh_pgo_next_value(wh_pgo_list *values, wh_pgo_value *out)
{
	reader r = resume(values);

	if (!values->n)
		return false;
	*out = take_value(&r);
	move_on(values, &r);
	return true;
}

bool wh_pgo_next_oid(wh_pgo_list *oids, uint32_t *out)
{
	reader r = resume(oids);

	if (!oids->n)
		return false;
	*out = take_oid(&r, "the oid of a table");
	move_on(oids, &r);
	return true;
}

void wh_pgo_find(wh_pgo_list columns, const char *const *names, size_t n, int *out_at)
{
	wh_pgo_column column;

	for (size_t i = 0; i < n; i++)
		out_at[i] = -1;
	for (int at = 0; wh_pgo_next_column(&columns, &column); at++)
		for (size_t i = 0; i < n; i++)
			if (wh_view_eq(column.name, wh_view_of(names[i])))
				out_at[i] = at;
}

void wh_pgo_pick(wh_pgo_list row, const int *at, size_t n, wh_pgo_value *out)
{
	wh_pgo_value value;

	for (size_t i = 0; i < n; i++)
		out[i] = (wh_pgo_value){.form = WH_PGO_NULL};
	for (int place = 0; wh_pgo_next_value(&row, &value); place++)
		for (size_t i = 0; i < n; i++)
			if (at[i] == place)
				out[i] = value;
}

/* ---- the messages ---- */

static void take_begin(reader *r, wh_pgo_message *m)
{
	m->lsn = take_number(r, 8, "the position of the commit");
	m->at_us = take_time(r, "the time of the commit");
	m->xid = (uint32_t)take_number(r, 4, "the number of the transaction");
}

static void take_commit(reader *r, wh_pgo_message *m)
{
	m->flags = take_byte(r, "the flags");
	if (m->flags)
		refuse(r, m->flags, "the flags");
	m->lsn = take_number(r, 8, "the position of the commit");
	m->end_lsn = take_number(r, 8, "the position behind the transaction");
	m->at_us = take_time(r, "the time of the commit");
}

static void take_origin(reader *r, wh_pgo_message *m)
{
	m->lsn = take_number(r, 8, "the position at the origin");
	m->name = take_text(r, "the name of the origin");
}

static void take_relation(reader *r, wh_pgo_message *m)
{
	m->oid = take_oid(r, "the oid of the table");
	m->schema = take_text(r, "the schema of the table");
	m->name = take_text(r, "the name of the table");
	m->identity = (char)take_byte(r, "the replica identity");
	m->columns = take_list(r, take_count(r, 2, "the number of columns"), COLUMNS);
}

static void take_type(reader *r, wh_pgo_message *m)
{
	m->oid = take_oid(r, "the oid of the type");
	m->schema = take_text(r, "the schema of the type");
	m->name = take_text(r, "the name of the type");
}

/* The type byte before a row: K or O for an old row, N for a new one. */
static char take_letter(reader *r, const char *allowed)
{
	uint8_t letter = take_byte(r, "the kind of a row");

	if (!letter || !strchr(allowed, letter))
		refuse(r, letter, "the kind of a row");
	return (char)letter;
}

static void take_change(reader *r, wh_pgo_message *m)
{
	const char *allowed = m->kind == WH_PGO_INSERT   ? "N"
			      : m->kind == WH_PGO_UPDATE ? "NKO"
							 : "KO";
	char letter;

	m->oid = take_oid(r, "the oid of the table");
	letter = take_letter(r, allowed);
	if (letter != 'N') {
		m->old_kind = letter;
		m->old = take_row(r);
		if (m->kind == WH_PGO_DELETE)
			return;
		(void)take_letter(r, "N");
	}
	m->row = take_row(r);
}

static void take_truncate(reader *r, wh_pgo_message *m)
{
	unsigned n = take_count(r, 4, "the number of tables");

	m->flags = take_byte(r, "the flags");
	m->tables = take_list(r, n, OIDS);
}

static void take_logical(reader *r, wh_pgo_message *m)
{
	m->flags = take_byte(r, "the flags");
	m->lsn = take_number(r, 8, "the position");
	m->name = take_text(r, "the prefix");
	m->content = take_data(r, "the content");
}

static const struct {
	wh_pgo_kind kind;
	const char *name;
	void (*take)(reader *r, wh_pgo_message *m);
} kinds[] = {
	{WH_PGO_BEGIN, "begin", take_begin},
	{WH_PGO_COMMIT, "commit", take_commit},
	{WH_PGO_ORIGIN, "origin", take_origin},
	{WH_PGO_RELATION, "relation", take_relation},
	{WH_PGO_TYPE, "type", take_type},
	{WH_PGO_INSERT, "insert", take_change},
	{WH_PGO_UPDATE, "update", take_change},
	{WH_PGO_DELETE, "delete", take_change},
	{WH_PGO_TRUNCATE, "truncate", take_truncate},
	{WH_PGO_LOGICAL, "logical message", take_logical},
};

static const size_t n_kinds = sizeof(kinds) / sizeof(*kinds);

#define HINT "is the slot's plugin pgoutput, at version 1 of its protocol?"

static wherry_code check(const reader *r, const char *name, wherry_error *err)
{
	if (!r->field && r->at == r->len)
		return WHERRY_OK;
	if (!r->field)
		return wh_fail(
			err, WHERRY_CORRUPT,
			"the message '%s' of the slot ends at byte %zu, but %zu were "
			"sent: " HINT,
			name, r->at, r->len);
	if (!r->wanted)
		return wh_fail(
			err, WHERRY_CORRUPT,
			"the message '%s' of the slot: %s, before byte %zu of %zu, "
			"cannot be %llu: " HINT,
			name, r->field, r->at, r->len, (unsigned long long)r->odd);
	return wh_fail(err, WHERRY_CORRUPT,
		       "the message '%s' of the slot: %s wants %zu bytes at byte %zu of "
		       "%zu: " HINT,
		       name, r->field, r->wanted, r->at, r->len);
}

wherry_code wh_pgo_decode(const void *bytes, size_t len, wh_pgo_message *out,
			  wherry_error *err)
{
	reader r = {.bytes = bytes, .len = len, .at = 1};
	wh_pgo_message m = {.kind = WH_PGO_BEGIN};
	wherry_code code;
	uint8_t kind;
	size_t i = 0;

	if (!len)
		return wh_fail(err, WHERRY_CORRUPT,
			       "the slot sent a message of no bytes: " HINT);
	kind = (uint8_t)*r.bytes;
	m.kind = (wh_pgo_kind)kind;
	while (i < n_kinds && kinds[i].kind != m.kind)
		i++;
	if (i == n_kinds)
		return wh_fail(
			err, WHERRY_UNSUPPORTED,
			"the slot sent a message of the unknown kind %u ('%c'), %zu "
			"bytes long: " HINT,
			kind, kind > ' ' && kind < 127 ? kind : '?', len);
	kinds[i].take(&r, &m);
	code = check(&r, kinds[i].name, err);
	if (code == WHERRY_OK)
		*out = m;
	return code;
}
