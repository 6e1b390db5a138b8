/* Durations, sizes and numbers: not negative, and untouched outputs on refusal. */
#include "fuzz.h"

#include "base/duration.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = fuzz_text(data, len);
	int64_t value = -7;
	char again[64], shown[32];

	if (wh_duration_parse(text, &value, NULL) == WHERRY_OK) {
		int64_t second = -7;

		CHECK(value >= 0);
		wh_duration_print(value, shown, sizeof(shown));
		CHECK(strlen(shown) > 1 && strlen(shown) < sizeof(shown) - 1);
		(void)snprintf(again, sizeof(again), "%lldus", (long long)value);
		if (value < INT64_MAX / 10 - 1) {
			CHECK(wh_duration_parse(again, &second, NULL) == WHERRY_OK);
			CHECK(second == value);
		}
	} else {
		CHECK(value == -7);
	}

	value = -7;
	if (wh_size_parse(text, &value, NULL) == WHERRY_OK)
		CHECK(value >= 0);
	else
		CHECK(value == -7);

	value = -7;
	if (wh_parse_int(text, &value)) {
		int64_t second = -7;

		(void)snprintf(again, sizeof(again), "%lld", (long long)value);
		CHECK(wh_parse_int(again, &second) && second == value);
	} else {
		CHECK(value == -7);
	}
	free(text);
	return 0;
}
