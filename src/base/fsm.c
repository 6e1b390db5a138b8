#include "base/fsm.h"

#include <stdlib.h>

void wh_fsm_move(wh_fsm *fsm, int to, const wh_env *env, const char *why)
{
	const wh_fsm_state *from = &fsm->states[fsm->state];

	if (!(from->next & WH_BIT(to))) {
		wh_log(env, WH_LOG_ERROR, fsm->part, "event=bug from=%s to=%s why=\"%s\"",
		       from->name, fsm->states[to].name, why);
		abort();
	}
	wh_log(env, WH_LOG_DEBUG, fsm->part, "event=state from=%s to=%s why=\"%s\"",
	       from->name, fsm->states[to].name, why);
	fsm->state = to;
}
