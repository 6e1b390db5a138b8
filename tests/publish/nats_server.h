/*
 * A private nats-server with JetStream, on a free port of the loopback, with its files in a
 * temporary folder.  It ends with the test.
 */
#ifndef NATS_SERVER_H
#define NATS_SERVER_H

#include "wherry_test.h"

typedef struct nats_server {
	int port;
	pid_t pid;        /* 0: it does not run. */
	wherry_temp temp; /* Its configuration; its folder has all its files. */
	char url[64];     /* nats://127.0.0.1:PORT */
} nats_server;

/* Start it with further lines of configuration.  NULL: nats-server is not installed. */
nats_server *nats_server_start(const char *lines);
void nats_server_stop(nats_server *server);

void nats_server_kill(nats_server *server);
/* Start it again at the same port with the same files. */
void nats_server_again(nats_server *server, const char *lines);
void nats_server_freeze(nats_server *server);
void nats_server_thaw(nats_server *server);

#endif
