/* Settings, "key=value": what is accepted reads back, what is refused changes nothing. */
#include "fuzz.h"

#include <wherry/config.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *key = fuzz_text(data, len);
	char *value = strchr(key, '=');
	wherry_config *config = NULL;
	wherry_error err = WHERRY_ERROR_INIT;
	const char *before;

	if (wherry_config_new(&config, &err) != WHERRY_OK)
		abort();
	if (value)
		*value++ = 0;
	before = wherry_config_get(config, key);
	if (wherry_config_set(config, key, value, &err) == WHERRY_OK) {
		CHECK(value && strcmp(wherry_config_get(config, key), value) == 0);
	} else {
		CHECK(wherry_config_get(config, key) == before);
		CHECK(*err.message && !strpbrk(err.message, "\n\r\033"));
	}
	wherry_config_free(config);
	free(key);
	return 0;
}
