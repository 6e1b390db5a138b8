/*
 * Repairs the end of a file of lines, where a crash may have left a part of a line.
 */
#ifndef WH_PUBLISH_TAIL_H
#define WH_PUBLISH_TAIL_H

#include "base/error.h"

/*
 * Make the file end in a whole line.
 *
 * A complete last line without a newline gets the newline.  A line that a crash has torn
 * is cut off, and so are zeros that a power loss left: its message was never acknowledged
 * and is delivered again.  A file that ends in anything else is refused (INVALID), so
 * that a wrong path does not destroy data.
 *
 * @param fd  Open for reading and appending; no other process writes to it.
 */
wherry_code wh_tail_mend(int fd, const char *path, wherry_error *err);

#endif
