/*
 * MD5 sums, as names that are stored have them; they protect nothing.
 */
#ifndef WH_BASE_MD5_H
#define WH_BASE_MD5_H

#include "base/buf.h"

#define WH_MD5_LEN 32

/* Write the sum of the bytes in lower-case hexadecimal, with a NUL.
 * UNSUPPORTED: the system's libcrypto refuses MD5. */
wherry_code wh_md5(wh_view bytes, char out[WH_MD5_LEN + 1], wherry_error *err);

#endif
