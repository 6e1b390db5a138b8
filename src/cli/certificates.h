/*
 * Finds the system's certificates for an OpenSSL that was built for another system.
 */
#ifndef WH_CLI_CERTIFICATES_H
#define WH_CLI_CERTIFICATES_H

/* The file of the system's certificates, which SSL_CERT_FILE should name; NULL: OpenSSL finds
 * certificates itself, or the user named some, or there are none.  root comes before each
 * name: "" but in tests. */
const char *wh_certificates_find(const char *root);

/* Set SSL_CERT_FILE if that is needed.  Call it while the process has one thread. */
void wh_certificates_use(void);

#endif
