#include "base/digest.h"

#include <openssl/evp.h>

#include "base/text.h"

/* False: libcrypto refuses the sum, has no memory, or its length is another. */
static bool digest(wh_view bytes, const EVP_MD *kind, char *out, size_t want)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned int len = 0;

	if (!EVP_Digest(bytes.ptr, bytes.len, sum, &len, kind, NULL) || 2 * len != want)
		return false;
	wh_hex(sum, len, out);
	out[want] = 0;
	return true;
}

wherry_code wh_md5(wh_view bytes, char out[WH_MD5_LEN + 1], wherry_error *err)
{
	if (!digest(bytes, EVP_md5(), out, WH_MD5_LEN))
		return wh_fail(
			err, WHERRY_UNSUPPORTED,
			"libcrypto does not compute MD5 sums here, as in FIPS mode; "
			"names in tables need them");
	return WHERRY_OK;
}

bool wh_sha256(wh_view bytes, char out[WH_SHA256_LEN + 1])
{
	return digest(bytes, EVP_sha256(), out, WH_SHA256_LEN);
}
