/*
 * A private nats-server with JetStream, on a free port of the loopback, with its files in a
 * temporary folder.  It ends with the test.
 */
#ifndef NATS_SERVER_H
#define NATS_SERVER_H

#include "child_server.h"

/* Start it with further lines of configuration.  NULL: nats-server is not installed. */
child_server *nats_server_start(const char *lines);

/* Start it again at the same port with the same files. */
void nats_server_again(child_server *server, const char *lines);

#endif
