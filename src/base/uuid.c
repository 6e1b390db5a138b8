#include "base/uuid.h"

void wh_uuid7(int64_t unix_ms, uint64_t random_a, uint64_t random_b,
	      char out[WH_UUID_LEN + 1])
{
	static const char digit[] = "0123456789abcdef";
	uint64_t half[2];
	char *to = out;

	half[0] = (uint64_t)unix_ms << 16 | 0x7000 | (random_a & 0xfff);
	half[1] = (random_b & 0x3fffffffffffffffu) | 0x8000000000000000u;
	for (unsigned i = 0; i < 32; i++) {
		if (i == 8 || i == 12 || i == 16 || i == 20)
			*to++ = '-';
		*to++ = digit[half[i / 16] >> (60 - 4 * (i % 16)) & 15];
	}
	*to = 0;
}

void wh_uuid7_next(const wh_env *env, uint64_t *inout_random, char out[WH_UUID_LEN + 1])
{
	int64_t now_us = wh_now(env);

	*inout_random = *inout_random ? *inout_random + 1 : wh_random(env);
	wh_uuid7(now_us / 1000, (uint64_t)(now_us % 1000) * 4096 / 1000, *inout_random,
		 out);
}

void wh_uuid7_now(const wh_env *env, char out[WH_UUID_LEN + 1])
{
	uint64_t random = 0;

	wh_uuid7_next(env, &random, out);
}
