/*
 * One run of a shell command.  The caller gives its stdin and reads its stderr.  A pidfd
 * reports its end, so Wherry handles no signal and reaps no other child of the
 * application.
 */
#ifndef WH_PUBLISH_COMMAND_H
#define WH_PUBLISH_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/* Bytes that are kept of a line on stderr, with the NUL. */
enum { WH_COMMAND_LINE = 500 };

/* Receives a line that a command wrote to its stderr, without its line break. */
typedef void (*wh_said_fn)(void *ctx, const char *line);

typedef struct wh_command {
	pid_t pid; /* Also the number of its process group. */
	int epoll; /* Watches its descriptors; borrowed. */
	int pidfd; /* -1: it has ended and is reaped. */
	int err;   /* Its stderr; -1: closed. */

	char last[WH_COMMAND_LINE]; /* Beginning of its last line on stderr. */
	size_t last_len;
	bool last_ended; /* The newline of this line was read. */
	wh_said_fn said; /* Called for each line; NULL: none. */
	void *said_ctx;

	int how;    /* CLD_EXITED, CLD_KILLED, CLD_DUMPED; 0: unknown. */
	int status; /* Exit status, or signal. */
} wh_command;

/*
 * Start text under /bin/sh in a separate process group.
 *
 * @param environment  Ends in NULL.
 * @param input        The command's whole stdin; copied before the command starts.
 * @param epoll        The command's descriptors are added to it, with command as data.
 * @return WHERRY_OK; WHERRY_TOOBIG: the environment is too large; else an error from
 *         wh_fail_errno().
 */
wherry_code wh_command_start(wh_command *command, char *text, char *const *environment,
			     const void *input, size_t input_len, int epoll,
			     wherry_error *err);

/* Call said for each line that a command writes to stderr, from wh_command_pump().  When
 * the command ends, said also gets a last line without a line break.  Call this directly
 * after the start. */
void wh_command_listen(wh_command *command, wh_said_fn said, void *ctx);

/* Read stderr and check for the end, without waiting.  True: the command has ended. */
bool wh_command_pump(wh_command *command);

/* Kill the command's process group, unless the command has ended. */
void wh_command_kill(wh_command *command);

/* Wait for the command's end, reap it and close its descriptors.  Kill it first, or this
 * can take long. */
void wh_command_close(wh_command *command);

#endif
