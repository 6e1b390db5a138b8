#include "base/fsm.h"

#include <stdlib.h>

#include "base/log.h"

void wh_fsm_move(wh_fsm *fsm, int to, const wh_env *env, const char *why)
{
	const wh_fsm_state *from = &fsm->states[fsm->state];

	if (!(from->next & WH_BIT(to))) {
		wh_log(env, WHERRY_LOG_ERROR, fsm->part, "bug",
		       wh_log_text("from", from->name),
		       wh_log_text("to", fsm->states[to].name), wh_log_text("why", why));
		abort();
	}
	wh_log(env, WHERRY_LOG_DEBUG, fsm->part, "state", wh_log_text("from", from->name),
	       wh_log_text("to", fsm->states[to].name), wh_log_text("why", why));
	fsm->state = to;
}
