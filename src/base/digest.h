/*
 * MD5 and SHA-256 sums, in lower-case hexadecimal with a NUL.
 */
#ifndef WH_BASE_DIGEST_H
#define WH_BASE_DIGEST_H

#include "base/buf.h"

#define WH_MD5_LEN 32
#define WH_SHA256_LEN 64

/* For stored names that contain an MD5 sum; it is not used for security.  UNSUPPORTED: the
 * system's libcrypto refuses MD5. */
wherry_code wh_md5(wh_view bytes, char out[WH_MD5_LEN + 1], wherry_error *err);

/* False: no memory. */
bool wh_sha256(wh_view bytes, char out[WH_SHA256_LEN + 1]);

#endif
