#include "publish/certificate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/x509_vfy.h>

enum { PEM_MOST = 4 << 20 }; /* A list of all authorities has about 250 KB. */

bool wh_pem_has(const char *text, size_t len)
{
	static const char mark[] = "-----BEGIN ";

	return memmem(text, len, mark, sizeof(mark) - 1);
}

wherry_code wh_pem_fail(const char *name, const char *path, wherry_error *err)
{
	return wh_fail(
		err, WHERRY_INVALID,
		"%s: '%.100s' is not a PEM file, which has a line such as "
		"-----BEGIN CERTIFICATE-----: name the file with the certificate or "
		"key",
		name, path);
}

wherry_code wh_pem_check(const char *name, const char *path, wherry_error *err)
{
	FILE *file = fopen(path, "re");
	char *text = file ? malloc(PEM_MOST) : NULL;
	size_t n = text ? fread(text, 1, PEM_MOST, file) : 0;
	wherry_code code = WHERRY_OK;

	if (!file || (text && ferror(file)))
		code = wh_fail_errno(err, errno, "%s: cannot read '%.120s'", name, path);
	else if (!text)
		code = wh_oom(err);
	else if (!wh_pem_has(text, n))
		code = wh_pem_fail(name, path, err);
	if (text)
		explicit_bzero(text, n); /* It may be a key. */
	free(text);
	if (file)
		(void)fclose(file);
	return code;
}

const long wh_certificate_of_another = X509_V_ERR_HOSTNAME_MISMATCH;

const char *wh_certificate_cause(long error, const char *authority)
{
	switch (error) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		return "its certificate has expired: renew it there, or set the clock here";
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return "its certificate is not valid yet: set the clock here, or there";
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return "its certificate is for another host name: use a name that the "
		       "certificate has";
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
		return authority;
	default:
		return NULL;
	}
}
