/*
 * A private server of a broker on a free port of the loopback, with its files in a temporary
 * folder.  It ends with the test.
 */
#ifndef CHILD_SERVER_H
#define CHILD_SERVER_H

#include "wherry_test.h"

typedef struct child_server {
	int port;
	pid_t pid;        /* 0: it does not run. */
	wherry_temp temp; /* Its configuration; its folder has all its files. */
	char url[64];     /* SCHEME://127.0.0.1:PORT */
} child_server;

/* A port of the loopback that nobody listens on. */
int child_server_port(void);

/* A server that does not run yet, whose configuration has this name. */
child_server *child_server_new(const char *scheme, const char *configuration);

/* Run the program with these arguments, the last of them NULL, until the server answers. */
void child_server_run(child_server *server, const char *program, const char *const *words,
		      bool (*answers)(const child_server *server));

void child_server_kill(child_server *server);
void child_server_freeze(child_server *server);
void child_server_thaw(child_server *server);
void child_server_stop(child_server *server); /* Kill and free it. */

#endif
