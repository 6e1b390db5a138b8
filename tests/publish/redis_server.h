/*
 * A private redis-server on a free port of the loopback, with its files in a temporary folder.
 * It ends with the test.
 */
#ifndef REDIS_SERVER_H
#define REDIS_SERVER_H

#include <hiredis/hiredis.h>

#include "child_server.h"

/* Start it with further lines of configuration.  It keeps its data with appendfsync always.
 * NULL: redis-server is not installed. */
child_server *redis_server_start(const char *lines);

/* Start it again at the same port with the same files. */
void redis_server_again(child_server *server, const char *lines);

/* Send a command, and return the reply, which the caller frees.  An error fails the test. */
redisReply *redis_ask(const child_server *server, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same without the reply. */
#define redis_do(...) freeReplyObject(redis_ask(__VA_ARGS__))

#endif
