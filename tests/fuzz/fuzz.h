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

#include <wherry/message.h>

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

/* The bytes up to the next `end`, which is passed over, as fuzz_text(). */
static inline char *fuzz_next(const uint8_t **data, size_t *len, char end)
{
	size_t n = 0;
	char *text;

	while (n < *len && (*data)[n] != (uint8_t)end)
		n++;
	text = fuzz_text(*data, n);
	n += n < *len;
	*data += n;
	*len -= n;
	return text;
}

/* A message of fields that end in NUL, in the order below; the rest is its body. */
enum { FUZZ_FIELDS = 7 };

typedef struct fuzz_message {
	char *field[FUZZ_FIELDS];
	wherry_message message; /* a field that is empty may be NULL */
} fuzz_message;

static inline void fuzz_message_read(fuzz_message *f, const uint8_t *data, size_t len)
{
	unsigned absent = len ? *data : 0; /* bit i: an empty field is NULL, not "" */
	const char *text[FUZZ_FIELDS];

	for (unsigned i = 0; i < FUZZ_FIELDS; i++) {
		f->field[i] = fuzz_next(&data, &len, 0);
		text[i] = *f->field[i] || !(absent >> i & 1) ? f->field[i] : NULL;
	}
	wherry_message_init(&f->message);
	f->message.topic = text[0];
	f->message.message_id = text[1];
	f->message.key = text[2];
	f->message.aggregate_type = text[3];
	f->message.aggregate_id = text[4];
	f->message.trace_id = text[5];
	f->message.headers = text[6];
	f->message.body = len ? data : NULL;
	f->message.body_len = len;
	for (size_t i = 0; i < len && i < 8; i++)
		f->message.id = f->message.id << 7 | (data[i] & 0x7f);
	f->message.created_at_us = f->message.id;
	f->message.attempts = (int32_t)(len % 5);
}

static inline void fuzz_message_clear(fuzz_message *f)
{
	for (size_t i = 0; i < FUZZ_FIELDS; i++)
		free(f->field[i]);
}

#endif
