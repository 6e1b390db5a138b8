#include "cli/deadline.h"

#include "base/env.h"

enum { PAUSE_US = 20000 };

wh_deadline wh_deadline_in(int64_t us)
{
	return (wh_deadline){wh_later(wh_monotonic(&wh_env_system), us), us};
}

bool wh_deadline_is_ahead(wh_deadline *deadline)
{
	int64_t left_us = wh_since(deadline->end_us, wh_monotonic(&wh_env_system));

	if (left_us > 0)
		wh_sleep(&wh_env_system, left_us < PAUSE_US ? left_us : PAUSE_US);
	deadline->left_us = wh_since(deadline->end_us, wh_monotonic(&wh_env_system));
	return deadline->left_us > 0;
}
