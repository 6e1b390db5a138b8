#include "log_counts.h"

#include "wherry_test.h"

#include <inttypes.h>

#include <wherry/wherry.h>

int log_counts_random(uint64_t *seed, int n)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (int)((*seed >> 33) % (uint64_t)n);
}

typedef struct ids {
	int only; /* Rows of this state; -1: of any. */
	int64_t at[2 * LOG_COUNTS_ROWS];
	size_t n;
} ids;

static wherry_code take(void *ctx, const wherry_row *row)
{
	ids *found = ctx;

	if (found->only < 0 || (int)row->state == found->only)
		found->at[found->n++] = row->message->id;
	return found->n < 2 * LOG_COUNTS_ROWS ? WHERRY_OK : WHERRY_TOOBIG;
}

static void list(wherry_outbox *outbox, wherry_outbox_filter filter, ids *out)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (!filter.limit)
		filter.limit = 1000;
	WHERRY_PASS(wherry_outbox_list(outbox, &filter, take, out, &err));
}

/* The same, a few at a time. */
static void list_pages(wherry_outbox *outbox, wherry_outbox_filter filter, ids *out)
{
	size_t before;

	filter.limit = 3;
	do {
		before = out->n;
		list(outbox, filter, out);
		if (out->n && filter.newest)
			filter.before_id = out->at[out->n - 1];
		else if (out->n)
			filter.after_id = out->at[out->n - 1];
	} while (out->n > before);
}

static void compare(const ids *wanted, const ids *got, bool newest, int state,
		    const char *name)
{
	bool same = wanted->n == got->n;

	for (size_t i = 0; same && i < got->n; i++)
		same = got->at[i] == wanted->at[newest ? got->n - 1 - i : i];
	if (same)
		return;
	for (size_t i = 0; i < wanted->n; i++)
		print_error(" %" PRId64, wanted->at[i]);
	print_error(" wanted; got");
	for (size_t i = 0; i < got->n; i++)
		print_error(" %" PRId64, got->at[i]);
	fail_msg("%s: state %d%s", name, state, newest ? ", newest first" : "");
}

static void check_state(wherry_outbox *outbox, int state, int64_t count, const char *name)
{
	const unsigned states = 1u << state;
	ids all = {.only = state};

	/* The list of all messages judges each of them alone. */
	list(outbox, WHERRY_OUTBOX_FILTER(.states = states | 1u << WHERRY_DONE), &all);
	if ((int64_t)all.n != count)
		fail_msg("%s: %zu messages of state %d, but %" PRId64 " are counted",
			 name, all.n, state, count);
	for (int newest = 0; newest < 2; newest++) {
		const wherry_outbox_filter filter =
			WHERRY_OUTBOX_FILTER(.states = states, .newest = newest != 0);
		ids whole = {.only = -1}, pages = {.only = -1};

		list(outbox, filter, &whole);
		compare(&all, &whole, newest, state, name);
		list_pages(outbox, filter, &pages);
		compare(&all, &pages, newest, state, name);
	}
}

/* A count with limits is a lower bound, and exact unless it says so. */
static void check_limits(wherry_outbox *outbox, const int64_t *count, uint64_t *seed,
			 const char *name)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_counts some;

	WHERRY_PASS(wh_outbox_count_some(
		outbox, log_counts_random(seed, 15 * LOG_COUNTS_ROWS),
		log_counts_random(seed, 15 * LOG_COUNTS_ROWS), &some, &err));
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		if (some.at_least >> i & 1 ? some.n[i] > count[i] : some.n[i] != count[i])
			fail_msg("%s: %" PRId64 " of state %d, and %" PRId64
				 " are counted with limits",
				 name, count[i], i, some.n[i]);
}

void log_counts_check(wherry_outbox *outbox, uint64_t *seed, const char *name)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t count[WHERRY_STATE_COUNT];
	wherry_outbox_status status;
	wh_backlog backlog;

	WHERRY_PASS(wherry_outbox_count(outbox, count, &err));
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		check_state(outbox, i, count[i], name);
	check_limits(outbox, count, seed, name);
	WHERRY_PASS(wherry_outbox_get_status(outbox, &status, sizeof(status), &err));
	assert_memory_equal(status.count, count, sizeof(count));
	assert_int_equal(status.at_least, 0);
	WHERRY_PASS(wh_outbox_backlog(outbox, &backlog, &err));
	assert_int_equal(backlog.pending, count[WHERRY_PENDING]);
	assert_int_equal(backlog.failed, count[WHERRY_FAILED]);
	assert_int_equal(backlog.dead, count[WHERRY_DEAD]);
}
