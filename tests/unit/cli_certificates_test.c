/*
 * Where the program finds certificates if OpenSSL was built for another distribution.
 */
#include "wherry_test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/x509.h>

#include "cli/certificates.h"

/* Make an empty file below root, and the folders above it. */
static void make(const char *root, const char *name)
{
	char path[300];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s%s", root, name);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		(void)mkdir(path, 0755);
		*at = '/';
	}
	file = fopen(path, "we");
	assert_non_null(file);
	(void)fclose(file);
}

static void in_a_root(void (*test)(const char *root))
{
	char root[] = "/tmp/wherry-certificates-XXXXXX", command[80];

	(void)unsetenv("SSL_CERT_FILE");
	(void)unsetenv("SSL_CERT_DIR");
	assert_non_null(mkdtemp(root));
	test(root);
	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): the test's own name
}

static void expect_fedoras(const char *root)
{
	assert_null(wh_certificates_find(root));
	make(root, "/etc/ssl/ca-bundle.pem");
	assert_string_equal(wh_certificates_find(root), "/etc/ssl/ca-bundle.pem");
	make(root, "/etc/pki/tls/certs/ca-bundle.crt");
	assert_string_equal(wh_certificates_find(root),
			    "/etc/pki/tls/certs/ca-bundle.crt");
}

WHERRY_TEST(the_systems_certificates_are_found)
{
	in_a_root(expect_fedoras);
}

static void expect_own(const char *root)
{
	make(root, "/etc/pki/tls/certs/ca-bundle.crt");
	make(root, X509_get_default_cert_file());
	assert_null(wh_certificates_find(root));
}

WHERRY_TEST(where_openssl_finds_them_itself_nothing_is_changed)
{
	in_a_root(expect_own);
}

static void expect_named(const char *root)
{
	make(root, "/etc/pki/tls/certs/ca-bundle.crt");
	(void)setenv("SSL_CERT_DIR", "/own", 1);
	assert_null(wh_certificates_find(root));
	(void)unsetenv("SSL_CERT_DIR");
	(void)setenv("SSL_CERT_FILE", "/own.pem", 1);
	assert_null(wh_certificates_find(root));
}

WHERRY_TEST(certificates_that_the_user_names_are_left_alone)
{
	in_a_root(expect_named);
}

WHERRY_TEST_MAIN
