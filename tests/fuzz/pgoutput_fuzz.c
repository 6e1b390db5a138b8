/* Messages of pgoutput: what is decoded gives the same bytes again, and lies within them; a
 * message that ends early or late is refused, and what is refused changes nothing. */
#include "fuzz.h"
#include "fuzz/pgoutput.h"

static const char *const names[] = {"id", "topic", "payload", ""};
enum { N_NAMES = sizeof(names) / sizeof(*names) };

static void check_refused(const uint8_t *data, size_t len)
{
	wh_pgo_message m, before;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	memset(&m, 0x5a, sizeof(m));
	before = m;
	code = wh_pgo_decode(data, len, &m, &err);
	CHECK(code == WHERRY_CORRUPT || code == WHERRY_UNSUPPORTED);
	CHECK(code == err.code && *err.message && !strpbrk(err.message, "\n\r\033"));
	CHECK(memcmp(&m, &before, sizeof(m)) == 0);
}

static void check_same(const wh_pgo_message *m, const uint8_t *data, size_t len)
{
	wh_buf again = WH_BUF_INIT(len);

	pgoutput_write(&again, m);
	CHECK(wh_buf_check(&again, NULL) == WHERRY_OK);
	CHECK(again.len == len && memcmp(again.ptr, data, len) == 0);
	wh_buf_clear(&again);
}

/* A copy of its own of the first bytes, so that a sanitizer sees their end. */
static void check_cut(const uint8_t *data, size_t len, size_t cut)
{
	uint8_t *copy = malloc(len + 1);

	if (!copy)
		abort();
	memcpy(copy, data, len);
	copy[len] = 'n';
	copy = realloc(copy, cut ? cut : 1);
	if (!copy)
		abort();
	check_refused(copy, cut);
	free(copy);
}

static void check_found(const wh_pgo_message *m)
{
	wh_pgo_list columns = m->columns;
	wh_pgo_column column;
	int at[N_NAMES];

	wh_pgo_find(columns, names, N_NAMES, at);
	for (int place = 0; wh_pgo_next_column(&columns, &column); place++)
		for (size_t i = 0; i < N_NAMES; i++)
			CHECK(at[i] != place ||
			      wh_view_eq(column.name, wh_view_of(names[i])));
	for (size_t i = 0; i < N_NAMES; i++)
		CHECK(at[i] >= -1 && at[i] < (int)m->columns.n);
}

static void check_picked(wh_pgo_list row)
{
	static const int at[] = {0, -1, 3, 0, INT16_MAX};
	wh_pgo_value picked[5], value;

	wh_pgo_pick(row, at, 5, picked);
	CHECK(picked[1].form == WH_PGO_NULL && !picked[1].data.ptr);
	CHECK(picked[0].form == picked[3].form &&
	      picked[0].data.ptr == picked[3].data.ptr);
	CHECK(row.n > 3 || picked[2].form == WH_PGO_NULL);
	if (wh_pgo_next_value(&row, &value))
		CHECK(picked[0].form == value.form &&
		      wh_view_eq(picked[0].data, value.data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	wh_pgo_message m;

	if (wh_pgo_decode(data, len, &m, NULL) != WHERRY_OK) {
		check_refused(data, len);
		return 0;
	}
	check_same(&m, data, len);
	check_found(&m);
	check_picked(m.row);
	check_picked(m.old);
	for (size_t cut = 0; cut < len; cut += 1 + cut / 64)
		check_cut(data, len, cut);
	check_cut(data, len, len - 1);
	check_cut(data, len, len + 1);
	return 0;
}
