/*
 * A fuzz target: LLVMFuzzerTestOneInput() gets any bytes and calls a parser with them.
 * CHECK() is what must hold then.
 */
#ifndef WHERRY_FUZZ_H
#define WHERRY_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define CHECK(what)                                                                      \
	do {                                                                             \
		if (!(what)) {                                                           \
			(void)fprintf(stderr, "not so: %s\n", #what);                    \
			abort();                                                         \
		}                                                                        \
	} while (0)

/* The bytes as text, up to their first NUL; to be freed. */
static inline char *fuzz_text(const uint8_t *data, size_t len)
{
	char *text = malloc(len + 1);

	if (!text)
		abort();
	if (len)
		memcpy(text, data, len);
	text[len] = 0;
	return text;
}

#endif
