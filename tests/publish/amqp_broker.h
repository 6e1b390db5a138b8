/*
 * A private RabbitMQ (tests/amqp/server.sh), which lives as long as the test's process.
 */
#ifndef AMQP_BROKER_H
#define AMQP_BROKER_H

#include "wherry_test.h"

#include <amqp.h>
#include <stdbool.h>

typedef struct amqp_broker {
	FILE *in, *out;
	int port, tls_port;
	char folder[128];
	amqp_connection_state_t conn; /* Of amqp_broker_open(); NULL: there is none. */
} amqp_broker;

/* The only one of this process; NULL: RabbitMQ is not installed. */
amqp_broker *amqp_broker_get(void);

/* As the lines in server.sh say. */
void amqp_broker_tell(amqp_broker *broker, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A connection for the test itself, with channel 1. */
void amqp_broker_open(amqp_broker *broker);
void amqp_broker_close(amqp_broker *broker);

/* Make a durable queue again, without messages.  most: it refuses more; -1: no limit. */
void amqp_broker_queue(amqp_broker *broker, const char *name, int most);

/* Take a message.  False: the queue is empty.  The caller destroys it. */
bool amqp_broker_take(amqp_broker *broker, const char *queue, bool keep,
		      amqp_message_t *out);

#endif
