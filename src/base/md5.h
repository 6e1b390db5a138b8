/*
 * MD5 sums, for stored names that contain them.  They are not used for security.
 */
#ifndef WH_BASE_MD5_H
#define WH_BASE_MD5_H

#include "base/buf.h"

#define WH_MD5_LEN 32

/* Write the MD5 sum in lower-case hexadecimal, with a NUL.  UNSUPPORTED: the system's
 * libcrypto refuses MD5. */
wherry_code wh_md5(wh_view bytes, char out[WH_MD5_LEN + 1], wherry_error *err);

#endif
