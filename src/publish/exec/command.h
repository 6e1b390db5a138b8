/*
 * One run of a shell command.  Its stdin is given, its stderr is read, and a descriptor of
 * the process says when it has ended: so no signal is handled, and no other child of the
 * application is reaped.
 */
#ifndef WH_PUBLISH_COMMAND_H
#define WH_PUBLISH_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

enum { WH_COMMAND_LINE = 500 }; /* bytes of a line on stderr that are kept, with a NUL */

/* Receives a line that a command wrote to its stderr, without its line break. */
typedef void (*wh_said_fn)(void *ctx, const char *line);

typedef struct wh_command {
	pid_t pid; /* of its process group too */
	int epoll; /* where its descriptors are watched; borrowed */
	int pidfd; /* -1: it is over, and reaped */
	int err;   /* its stderr; -1: closed */

	char last[WH_COMMAND_LINE]; /* the beginning of the last line on its stderr */
	size_t last_len;
	bool last_ended; /* its newline was seen */
	wh_said_fn said; /* NULL: nobody listens */
	void *said_ctx;

	int how;    /* CLD_EXITED, CLD_KILLED, CLD_DUMPED; 0: nobody knows */
	int status; /* exit status or signal */
} wh_command;

/*
 * Start text under /bin/sh in a separate process group.
 *
 * @param environment  Ends in NULL.
 * @param input        Its stdin, there as a whole before it starts; copied.
 * @param epoll        Its descriptors are added there, each with *command as its data.
 * @return WHERRY_OK; WHERRY_TOOBIG (the environment is); what wh_fail_errno() makes of it.
 */
wherry_code wh_command_start(wh_command *command, char *text, char *const *environment,
			     const void *input, size_t input_len, int epoll,
			     wherry_error *err);

/* Have a function called for each line on the stderr of a command that was just started:
 * while it is pumped, and for a last line without a line break when it is over. */
void wh_command_listen(wh_command *command, wh_said_fn said, void *ctx);

/* Read and look whether it is over, without waiting.  True: it is. */
bool wh_command_pump(wh_command *command);

/* Kill it and what it started, unless it is over. */
void wh_command_kill(wh_command *command);

/* Reap it, which waits unless it was killed, and close its descriptors. */
void wh_command_close(wh_command *command);

#endif
