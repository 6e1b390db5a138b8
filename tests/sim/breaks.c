/*
 * Rules of the WAL of a log that are broken on purpose: each function here is linked in place of one of the
 * relay's, and does what that does unless its rule is the broken one.
 */
#include "outbox/stream.h"
#include "relay/engine/feed.h"
#include "sim.h"

const char *const sim_wal_break_names[SIM_WAL_BREAKS] = {
	[SIM_WHOLE] = "none",
	[SIM_FORGET_POSITION] = "a row that comes is not compared with the position",
	[SIM_FORGET_TAKEN] = "a look does not know what came",
	[SIM_FORGET_ALL] = "what came is forgotten before it is covered",
	[SIM_FAIL_UNSEEN] = "a failure is written although its row is not visible",
	[SIM_LEAVE_NOTHING] = "a relay that ends does not say what is delivered",
	[SIM_FORGET_UNSEEN] =
		"a relay that begins knows no exceptions whose rows are not visible",
	[SIM_PASS_DONE] = "what an exception says is done is taken in",
};

sim_wal_break sim_wal_broken;

bool __real_wh_position_covers(const wh_position *at, int64_t id, uint64_t tx);
bool __wrap_wh_position_covers(const wh_position *at, int64_t id, uint64_t tx);
bool __wrap_wh_position_covers(const wh_position *at, int64_t id, uint64_t tx)
{
	return sim_wal_broken != SIM_FORGET_POSITION &&
	       __real_wh_position_covers(at, id, tx);
}

bool __real_wh_feed_met(wherry_relay *r, int64_t id, wh_view message_id);
bool __wrap_wh_feed_met(wherry_relay *r, int64_t id, wh_view message_id);
bool __wrap_wh_feed_met(wherry_relay *r, int64_t id, wh_view message_id)
{
	return __real_wh_feed_met(r, id, message_id) &&
	       sim_wal_broken != SIM_FORGET_TAKEN;
}

bool __real_wh_taken_looked(wh_taken *t, const wh_position *read, bool all);
bool __wrap_wh_taken_looked(wh_taken *t, const wh_position *read, bool all);
bool __wrap_wh_taken_looked(wh_taken *t, const wh_position *read, bool all)
{
	if (sim_wal_broken != SIM_FORGET_ALL)
		return __real_wh_taken_looked(t, read, all);
	t->n = 0;
	return false;
}

wherry_code __real_wh_feed_unseen(wherry_relay *r, int64_t *ids, size_t *inout_n,
				  wherry_error *err);
wherry_code __wrap_wh_feed_unseen(wherry_relay *r, int64_t *ids, size_t *inout_n,
				  wherry_error *err);
wherry_code __wrap_wh_feed_unseen(wherry_relay *r, int64_t *ids, size_t *inout_n,
				  wherry_error *err)
{
	if (sim_wal_broken != SIM_FAIL_UNSEEN)
		return __real_wh_feed_unseen(r, ids, inout_n, err);
	*inout_n = 0;
	return WHERRY_OK;
}

wherry_code __real_wh_wal_leave_done(wh_wal *wal, const wherry_lease *lease,
				     const int64_t *ids, size_t n, wherry_error *err);
wherry_code __wrap_wh_wal_leave_done(wh_wal *wal, const wherry_lease *lease,
				     const int64_t *ids, size_t n, wherry_error *err);
wherry_code __wrap_wh_wal_leave_done(wh_wal *wal, const wherry_lease *lease,
				     const int64_t *ids, size_t n, wherry_error *err)
{
	return sim_wal_broken == SIM_LEAVE_NOTHING
		       ? WHERRY_OK
		       : __real_wh_wal_leave_done(wal, lease, ids, n, err);
}

bool __real_wh_log_passed(const wherry_relay *r, int64_t id);
bool __wrap_wh_log_passed(const wherry_relay *r, int64_t id);
bool __wrap_wh_log_passed(const wherry_relay *r, int64_t id)
{
	return sim_wal_broken != SIM_PASS_DONE && __real_wh_log_passed(r, id);
}
