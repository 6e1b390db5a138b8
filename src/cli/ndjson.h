/*
 * Lines of JSON: reads them with a limit of their length, and reads values by JSON
 * pointers.
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
	size_t most;    /* Limit of a line, in bytes. */
	int64_t number; /* Number of the last line read, from 1. */
	int64_t bytes;  /* Bytes read so far. */
	wh_buf line;
} wh_lines;

/* Read the next line that is not blank, without its line break.  *out is borrowed until
 * the next call; at the end of the file out->ptr is NULL.  TOOBIG: the line is longer
 * than `most`; another code: the file could not be read. */
wherry_code wh_lines_next(wh_lines *lines, wh_view *out, wherry_error *err);

/*
 * Append the value that a JSON pointer names in a valid line.  A number or boolean is
 * appended as the line has it, so that no digit is lost.
 *
 * @return WHERRY_OK; WHERRY_INVALID: there is no such member, or it is null, an object,
 *         an array or a string with a NUL.
 */
wherry_code wh_line_pick(wh_view line, const char *pointer, wh_buf *out,
			 wherry_error *err);

#endif
