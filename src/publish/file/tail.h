/*
 * The end of a file of lines: a crash may have left half a line there.
 */
#ifndef WH_PUBLISH_TAIL_H
#define WH_PUBLISH_TAIL_H

#include "base/error.h"

/*
 * Make the file end in a whole line.
 *
 * A last line without its newline is either whole, and gets the newline, or torn by a
 * crash, and is cut off, as are zeros that a power loss left: its message was never
 * acknowledged and comes again.  A file that ends in something else is refused (INVALID),
 * so that a wrong path costs nobody his data.
 *
 * @param fd  Open for reading and appending; no other process writes to it.
 */
wherry_code wh_tail_mend(int fd, const char *path, wherry_error *err);

#endif
