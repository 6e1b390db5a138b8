/*
 * Structs of the public interface that may grow.  They are exchanged with programs that
 * were compiled with an older or a newer header.
 */
#ifndef WH_BASE_SIZED_H
#define WH_BASE_SIZED_H

#include <stddef.h>

#include <wherry/error.h>

/*
 * Read a struct that begins with its size.  Members that an older program does not have
 * become zero in *out.  Members that this library does not know must be zero.
 *
 * @param own    Size of *out.
 * @param least  Bytes that the struct has had since its first version.
 * @param name   Name of the struct, for the error: "filter".
 * @param macro  What sets the size, for the error: "WHERRY_OUTBOX_FILTER".
 * @return WHERRY_OK; WHERRY_INVALID: the size is below `least`; WHERRY_UNSUPPORTED: a
 *         member that this library does not know is set.
 */
wherry_code wh_sized_read(void *out, size_t own, const void *given, size_t least,
			  const char *name, const char *macro, wherry_error *err);

/* Write a struct to a caller that has room for `room` bytes.  Bytes after ours become
 * zero. */
void wh_sized_write(void *out, size_t room, const void *ours, size_t own);

#endif
