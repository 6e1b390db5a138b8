#include "publish/certificate.h"

#include <stddef.h>

#include <openssl/x509_vfy.h>

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
