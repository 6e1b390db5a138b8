/*
 * State machines as tables.  wh_fsm_move() is the only function that sets a state, and
 * checks that the table allows the move.
 */
#ifndef WH_BASE_FSM_H
#define WH_BASE_FSM_H

#include "base/env.h"

#define WH_BIT(state) (1u << (state))

typedef struct wh_fsm_state {
	const char *name;
	unsigned next; /* WH_BIT() of each state that may follow. */
} wh_fsm_state;

typedef struct wh_fsm {
	const wh_fsm_state *states;
	const char *part; /* Part of the program, for the log. */
	int state;
} wh_fsm;

/* Move to a state and log it.  Aborts the program if the table does not allow the move: a
 * relay in an impossible state could lose a message, and recovers by restarting. */
void wh_fsm_move(wh_fsm *fsm, int to, const wh_env *env, const char *why);

#endif
