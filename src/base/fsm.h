/*
 * State machines as tables: the only writer of a state checks that the move is allowed.
 */
#ifndef WH_BASE_FSM_H
#define WH_BASE_FSM_H

#include "base/env.h"

#define WH_BIT(state) (1u << (state))

typedef struct wh_fsm_state {
	const char *name;
	unsigned next; /* WH_BIT() of each state that may follow */
} wh_fsm_state;

typedef struct wh_fsm {
	const wh_fsm_state *states;
	const char *part; /* for the log */
	int state;
} wh_fsm;

/* Move, log it, and abort the program if the table does not allow it: a relay in a state
 * it cannot be in could lose a message, and restarting is its recovery. */
void wh_fsm_move(wh_fsm *fsm, int to, const wh_env *env, const char *why);

#endif
