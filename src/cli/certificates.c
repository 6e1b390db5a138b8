/*
 * The libraries of the tarball were built on one distribution and run on all, and OpenSSL looks
 * for certificates where it was built to look.  OpenSSL, and with it libpq, libcurl and
 * librdkafka, read SSL_CERT_FILE.
 */
#include "cli/certificates.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <openssl/x509.h>

static const char *const files[] = {
	"/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL */
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* RHEL, Amazon Linux */
	"/etc/ssl/ca-bundle.pem",                            /* openSUSE */
	"/etc/ssl/cert.pem"};

static bool is_there(const char *root, const char *name)
{
	char path[300];
	int len = snprintf(path, sizeof(path), "%s%s", root, name);

	return len > 0 && (size_t)len < sizeof(path) && access(path, R_OK) == 0;
}

const char *wh_certificates_find(const char *root)
{
	if (secure_getenv(X509_get_default_cert_file_env()) ||
	    secure_getenv(X509_get_default_cert_dir_env()) ||
	    is_there(root, X509_get_default_cert_file()) ||
	    is_there(root, X509_get_default_cert_dir()))
		return NULL;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (is_there(root, files[i]))
			return files[i];
	return NULL;
}

void wh_certificates_use(void)
{
	const char *file = wh_certificates_find("");

	if (file) // NOLINTNEXTLINE(concurrency-mt-unsafe): the process has one thread
		(void)setenv(X509_get_default_cert_file_env(), file, 1);
}
