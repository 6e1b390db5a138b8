/*
 * A private redis-server on a free port of the loopback, with its files in a temporary folder.
 * It ends with the test.
 */
#ifndef REDIS_SERVER_H
#define REDIS_SERVER_H

#include <hiredis/hiredis.h>

#include "wherry_test.h"

typedef struct redis_server {
	int port;
	pid_t pid;        /* 0: it does not run. */
	wherry_temp temp; /* Its configuration; its folder has all its files. */
	char url[64];     /* redis://127.0.0.1:PORT */
} redis_server;

/* Start it with further lines of configuration.  It keeps its data with appendfsync always.
 * NULL: redis-server is not installed. */
redis_server *redis_server_start(const char *lines);
void redis_server_stop(redis_server *server);

void redis_server_kill(redis_server *server);
/* Start it again at the same port with the same files. */
void redis_server_again(redis_server *server, const char *lines);
void redis_server_freeze(redis_server *server);
void redis_server_thaw(redis_server *server);

/* Send a command, and return the reply, which the caller frees.  An error fails the test. */
redisReply *redis_ask(const redis_server *server, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same without the reply. */
#define redis_do(...) freeReplyObject(redis_ask(__VA_ARGS__))

#endif
