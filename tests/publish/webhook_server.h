/*
 * The receiver tests/webhook/server.py, in a process of its own.
 */
#ifndef WEBHOOK_SERVER_H
#define WEBHOOK_SERVER_H

#include "wherry_test.h"

#include <jansson.h>

typedef struct webhook_server {
	wherry_temp temp; /* its log, and what a test puts there */
	const char *const *args;
	pid_t pid; /* 0: it was killed */
	FILE *in, *out;
	int port;
} webhook_server;

/* args: of the command line, ends with NULL; outlives it.  Given. */
webhook_server *webhook_server_start(const char *const *args);
const char *webhook_server_script(void); /* Its path. */
void webhook_server_stop(webhook_server *server);

void webhook_server_kill(webhook_server *server);
void webhook_server_again(webhook_server *server); /* at the same port, with its log */

/* What it answers from now on, as --answer says it. */
void webhook_server_answer(webhook_server *server, const char *answer);

/* The requests so far, in their order; given. */
json_t *webhook_server_log(const webhook_server *server);

/* A folder with certificates that openssl made, once for all: good, expired and other.pem
 * with their keys, for 127.0.0.1 but for other; client.pem with its key in it. */
const char *webhook_certificate(const char *name);
void webhook_certificates_clear(void);

#endif
