/*
 * librdkafka's mock cluster in a process of its own (kafka_mock_linked_main.c), read back
 * by kcat.
 */
#ifndef KAFKA_MOCK_H
#define KAFKA_MOCK_H

#include "wherry_test.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct kafka_mock {
	pid_t pid;
	FILE *in, *out;
	char brokers[256]; /* "127.0.0.1:40001" */
} kafka_mock;

/* NULL: it or kcat is not there. */
kafka_mock *kafka_mock_start(int n_brokers);
void kafka_mock_stop(kafka_mock *mock);

/* As the lines in kafka_mock_linked_main.c say. */
void kafka_mock_tell(kafka_mock *mock, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* What is in a topic: an array of kcat's objects, in order of offset in each partition:
 * partition, offset, key, payload, headers (name, value, name, value, …).  Given. */
json_t *kafka_mock_read(const kafka_mock *mock, const char *topic);

/* The value of a record's header; NULL: it has none.  Borrowed. */
const char *kafka_mock_header(const json_t *record, const char *name);

#endif
