#include "base/backoff.h"

int64_t wh_backoff_delay(const wh_backoff *backoff, int attempts, const wh_env *env)
{
	int64_t delay = backoff->base_us;
	int n = attempts < 1 ? 1 : attempts;

	if (n <= backoff->immediate)
		return 0;
	n -= backoff->immediate;
	if (backoff->strategy == WH_LINEAR)
		delay = delay > backoff->cap_us / n ? backoff->cap_us : delay * n;
	for (int i = 1; backoff->strategy == WH_EXPONENTIAL && i < n; i++) {
		if (delay > backoff->cap_us / 2) {
			delay = backoff->cap_us;
			break;
		}
		delay *= 2;
	}
	if (delay > backoff->cap_us)
		delay = backoff->cap_us;
	if (backoff->jitter && delay > 0)
		delay = (int64_t)(wh_random(env) % ((uint64_t)delay + 1));
	return delay;
}
