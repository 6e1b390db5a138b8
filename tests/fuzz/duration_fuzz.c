/* Durations, sizes and numbers: not negative, untouched outputs on refusal; what is
 * printed is read as what it says. */
#include "fuzz.h"

#include "base/duration.h"
#include "base/text.h"

/* Printing rounds; what was rounded is read and printed as it stands.  Printed parts have
 * a blank in between, which is not read. */
static void check_print(int64_t us)
{
	char shown[32], again[32], joined[32];
	int64_t back = -7, off;
	size_t n = 0;

	wh_duration_print(us, shown, sizeof(shown));
	for (const char *s = shown; *s; s++)
		if (*s != ' ')
			joined[n++] = *s;
	joined[n] = 0;
	CHECK(wh_duration_parse(joined, &back, NULL) == WHERRY_OK);
	wh_duration_print(back, again, sizeof(again));
	CHECK(strcmp(again, shown) == 0);
	off = back > us ? back - us : us - back;
	CHECK(off <= us / 20 && (us >= 1000 || off == 0));
}

static void check_duration(const char *text)
{
	int64_t value = -7, second = -7;
	char again[64];

	if (wh_duration_parse(text, &value, NULL) != WHERRY_OK) {
		CHECK(value == -7);
		return;
	}
	CHECK(value >= 0);
	(void)snprintf(again, sizeof(again), "%lldus", (long long)value);
	CHECK(wh_duration_parse(again, &second, NULL) == WHERRY_OK);
	CHECK(second == value);
	check_print(value);
}

static void check_size(const char *text)
{
	int64_t value = -7, second = -7;
	char again[64];

	if (wh_size_parse(text, &value, NULL) != WHERRY_OK) {
		CHECK(value == -7);
		return;
	}
	CHECK(value >= 0);
	(void)snprintf(again, sizeof(again), "%lldB", (long long)value);
	CHECK(wh_size_parse(again, &second, NULL) == WHERRY_OK && second == value);
}

static void check_int(const char *text)
{
	int64_t value = -7, second = -7;
	char again[64];

	if (!wh_parse_int(text, &value)) {
		CHECK(value == -7);
		return;
	}
	(void)snprintf(again, sizeof(again), "%lld", (long long)value);
	CHECK(wh_parse_int(again, &second) && second == value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = fuzz_text(data, len);
	uint64_t any = 0;

	check_duration(text);
	check_size(text);
	check_int(text);
	for (size_t i = 0; i < len && i < 8; i++)
		any = any << 8 | data[i];
	check_print((int64_t)(any >> 1));
	free(text);
	return 0;
}
