#include "base/env.h"

#include <sys/random.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
	struct timespec t = {0};

	(void)clock_gettime(id, &t);
	return (int64_t)t.tv_sec * WH_SECOND + t.tv_nsec / 1000;
}

static int64_t system_now(void *ctx)
{
	(void)ctx;
	return read_clock(CLOCK_REALTIME);
}

/* CLOCK_BOOTTIME: a lease also expires while the machine is suspended. */
static int64_t system_monotonic(void *ctx)
{
	(void)ctx;
	return read_clock(CLOCK_BOOTTIME);
}

/* For jitter and ids, not for secrets.  Falls back to the clock if the kernel has no
 * random bytes. */
static uint64_t system_random(void *ctx)
{
	uint64_t value;

	(void)ctx;
	if (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value))
		value = (uint64_t)read_clock(CLOCK_MONOTONIC) * 0x9e3779b97f4a7c15u;
	return value;
}

static void system_sleep(void *ctx, int64_t us)
{
	struct timespec t = {us / WH_SECOND, us % WH_SECOND * 1000};

	(void)ctx;
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static void system_self(void *ctx, char out[WH_PROCESS_LEN])
{
	(void)ctx;
	wh_process_self(out);
}

static wh_process_state system_look(void *ctx, const char *who)
{
	(void)ctx;
	return wh_process_look(who);
}

const wh_env wh_env_system = {
	.now_us = system_now,
	.monotonic_us = system_monotonic,
	.random = system_random,
	.sleep_us = system_sleep,
	.process_self = system_self,
	.process_look = system_look,
};

int64_t wh_now(const wh_env *env)
{
	return env->now_us(env->ctx);
}

int64_t wh_monotonic(const wh_env *env)
{
	return env->monotonic_us(env->ctx);
}

uint64_t wh_random(const wh_env *env)
{
	return env->random(env->ctx);
}

void wh_sleep(const wh_env *env, int64_t us)
{
	env->sleep_us(env->ctx, us);
}

void wh_self(const wh_env *env, char out[WH_PROCESS_LEN])
{
	*out = 0;
	if (env->process_self)
		env->process_self(env->ctx, out);
}

wh_process_state wh_look_at_process(const wh_env *env, const char *who)
{
	return env->process_look ? env->process_look(env->ctx, who) : WH_PROCESS_UNKNOWN;
}

int64_t wh_later(int64_t a_us, int64_t b_us)
{
	return a_us > WH_NEVER - b_us ? WH_NEVER : a_us + b_us;
}

int64_t wh_since(int64_t a_us, int64_t b_us)
{
	int64_t span;

	if (__builtin_sub_overflow(a_us, b_us, &span))
		return a_us < b_us ? -INT64_MAX : INT64_MAX;
	return span == INT64_MIN ? -INT64_MAX : span;
}

int64_t wh_us(int64_t ms)
{
	if (ms > INT64_MAX / 1000)
		return INT64_MAX;
	return ms < INT64_MIN / 1000 ? INT64_MIN : ms * 1000;
}

int32_t wh_clamp32(int64_t n)
{
	if (n > INT32_MAX)
		return INT32_MAX;
	return n < INT32_MIN ? INT32_MIN : (int32_t)n;
}
