/*
 * Files with certificates, and why a server's certificate was not accepted, for people.
 */
#ifndef WH_PUBLISH_CERTIFICATE_H
#define WH_PUBLISH_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Has the text a certificate or a key in PEM?  It need not be a valid one. */
bool wh_pem_has(const char *text, size_t len);

/* Refuse a file that cannot be read, or has neither a certificate nor a key.  name: of the setting. */
wherry_code wh_pem_check(const char *name, const char *path, wherry_error *err);
wherry_code wh_pem_fail(const char *name, const char *path, wherry_error *err);

/* OpenSSL's number for a certificate of another host. */
extern const long wh_certificate_of_another;

/*
 * The cause and what to do, by OpenSSL's number of the error; NULL: it is none of the usual
 * ones.
 *
 * @param authority  What to do if the authority is not known.
 */
const char *wh_certificate_cause(long error, const char *authority);

#endif
