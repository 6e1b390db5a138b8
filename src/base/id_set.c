#include "base/id_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"

enum { UUID_LEN = 36, NUMBER_BITS = 62, CAP_FIRST = 1024 };

static const uint64_t number_mask = (UINT64_C(1) << NUMBER_BITS) - 1;

/* ---- an id as bits ---- */

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Read hexadecimal digits, 16 of them into each number, and pass over dashes.  False: there is something else. */
static bool read_hex(const char *text, size_t len, uint64_t out[2])
{
	size_t digits = 0;

	out[0] = out[1] = 0;
	for (size_t i = 0; i < len && digits < 32; i++) {
		int digit = hex(text[i]);

		if (text[i] == '-')
			continue;
		if (digit < 0)
			return false;
		out[digits / 16] = out[digits / 16] << 4 | (uint64_t)digit;
		digits++;
	}
	return digits == 32;
}

/* A UUID as Wherry writes it, in lower case: another text means another id. */
static bool is_uuid(wh_view id)
{
	static const size_t dashes[] = {8, 13, 18, 23};
	size_t n = 0;

	if (id.len != UUID_LEN)
		return false;
	for (size_t i = 0; i < id.len; i++)
		n += id.ptr[i] == '-';
	for (size_t i = 0; i < 4; i++)
		if (id.ptr[dashes[i]] != '-')
			return false;
	return n == 4;
}

/* Spread the bits: UUIDs of one time begin with the same ones.  No two numbers become the same. */
static uint64_t spread(uint64_t bits)
{
	bits ^= bits >> 33;
	bits *= UINT64_C(0xff51afd7ed558ccd);
	bits ^= bits >> 33;
	bits *= UINT64_C(0xc4ceb9fe1a85ec53);
	return bits ^ bits >> 33;
}

static bool reduce(wh_view id, wh_id_entry *out)
{
	char sum[WH_SHA256_LEN + 1];
	uint64_t bits[2];

	if (!is_uuid(id) || !read_hex(id.ptr, id.len, bits)) {
		if (!wh_sha256(id, sum) || !read_hex(sum, WH_SHA256_LEN, bits))
			return false;
	}
	out->low = spread(bits[1]);
	out->high = spread(bits[0] ^ out->low);
	out->low &= ~UINT64_C(1);
	return true;
}

/* ---- filling ---- */

static wherry_code grow(wh_id_set *set, wherry_error *err)
{
	size_t cap = set->cap ? set->cap + set->cap / 2 : CAP_FIRST;
	wh_id_entry *entries = realloc(set->entries, cap * sizeof(*entries));

	if (!entries)
		return wh_oom(err);
	set->entries = entries;
	set->cap = cap;
	return WHERRY_OK;
}

wherry_code wh_id_set_add(wh_id_set *set, wh_view id, int64_t number, bool marked,
			  wherry_error *err)
{
	wh_id_entry entry;
	wherry_code code = WHERRY_OK;

	if (set->most && set->n >= set->most)
		return wh_fail(err, WHERRY_TOOBIG, "there are more than %zu messages",
			       set->most);
	if (number < 0 || number > WH_ID_NUMBER_MOST)
		return wh_fail(err, WHERRY_TOOBIG,
			       "the id %lld of a message is too large",
			       (long long)number);
	if (!reduce(id, &entry))
		return wh_oom(err);
	if (set->n == set->cap)
		code = grow(set, err);
	if (code != WHERRY_OK)
		return code;
	entry.low |= marked;
	entry.number = (uint64_t)number;
	set->entries[set->n++] = entry;
	set->sorted = false;
	return WHERRY_OK;
}

static int compare_ids(const wh_id_entry *a, const wh_id_entry *b)
{
	uint64_t low_a = a->low >> 1, low_b = b->low >> 1;

	if (a->high != b->high)
		return a->high < b->high ? -1 : 1;
	return low_a < low_b ? -1 : low_a > low_b;
}

static int compare(const void *a, const void *b)
{
	const wh_id_entry *one = a, *other = b;
	int order = compare_ids(one, other);
	int64_t x = wh_id_number(one), y = wh_id_number(other);

	return order ? order : x < y ? -1 : x > y;
}

void wh_id_set_sort(wh_id_set *set)
{
	if (set->n)
		qsort(set->entries, set->n, sizeof(*set->entries), compare);
	set->sorted = true;
}

/* ---- asking ---- */

/* The bits are spread evenly, so an entry is near the place that its bits name. */
static size_t guess(const wh_id_set *set, const wh_id_entry *entry)
{
	return (size_t)((entry->high >> 32) * (uint64_t)set->n >> 32);
}

/* The first entry that is not below this one; set->n: there is none. */
static size_t lower_bound(const wh_id_set *set, const wh_id_entry *entry)
{
	size_t from = guess(set, entry), to = from, step = 8;

	while (from && compare_ids(&set->entries[from - 1], entry) >= 0) {
		from = from > step ? from - step : 0;
		step *= 2;
	}
	step = 8;
	while (to < set->n && compare_ids(&set->entries[to], entry) < 0) {
		to = set->n - to > step ? to + step : set->n;
		step *= 2;
	}
	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (compare_ids(&set->entries[middle], entry) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

size_t wh_id_set_find(const wh_id_set *set, wh_view id, wh_id_entry **out)
{
	wh_id_entry entry;
	size_t at, n = 0;

	if (!set->n || !set->sorted || !reduce(id, &entry))
		return 0;
	at = lower_bound(set, &entry);
	while (at + n < set->n && compare_ids(&set->entries[at + n], &entry) == 0)
		n++;
	if (n && out)
		*out = &set->entries[at];
	return n;
}

bool wh_id_set_see(wh_id_set *set, wh_view id)
{
	wh_id_entry *entry = NULL;
	size_t n = wh_id_set_find(set, id, &entry);

	for (size_t i = 0; i < n; i++)
		if (wh_id_seen(&entry[i]) < WH_ID_SEEN_MOST)
			entry[i].number += UINT64_C(1) << NUMBER_BITS;
	return n > 0;
}

bool wh_id_marked(const wh_id_entry *entry)
{
	return entry->low & 1;
}

int64_t wh_id_number(const wh_id_entry *entry)
{
	return (int64_t)(entry->number & number_mask);
}

int wh_id_seen(const wh_id_entry *entry)
{
	return (int)(entry->number >> NUMBER_BITS);
}

void wh_id_set_clear(wh_id_set *set)
{
	free(set->entries);
	*set = (wh_id_set)WH_ID_SET_INIT(set->most);
}
