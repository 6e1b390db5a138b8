/*
 * Lines of JSON: reading them with a bound, and taking out of one what a pointer names.
 */
#ifndef WH_CLI_NDJSON_H
#define WH_CLI_NDJSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"

typedef struct wh_lines {
	FILE *file;
	size_t most;    /* bytes of one line */
	int64_t number; /* of the line read last, from 1 */
	int64_t bytes;  /* read so far */
	wh_buf line;
} wh_lines;

/* The next line that is not blank, without its end, borrowed until the next call; *out is
 * absent at the end of the file.  TOOBIG: over `most`; IO and the like: the file. */
wherry_code wh_lines_next(wh_lines *lines, wh_view *out, wherry_error *err);

/*
 * Append the text of what a JSON pointer names in a valid line: a string as it is, a
 * number or boolean as it is written there, so that no digit is lost.
 *
 * INVALID: there is no such member, or it is null, an object or an array; or the string
 * holds a NUL.
 */
wherry_code wh_line_pick(wh_view line, const char *pointer, wh_buf *out,
			 wherry_error *err);

#endif
