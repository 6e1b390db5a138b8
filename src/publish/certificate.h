/*
 * Why a server's certificate was not accepted, for people.
 */
#ifndef WH_PUBLISH_CERTIFICATE_H
#define WH_PUBLISH_CERTIFICATE_H

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
