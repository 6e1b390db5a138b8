#include "base/md5.h"

#include <openssl/evp.h>

wherry_code wh_md5(wh_view bytes, char out[WH_MD5_LEN + 1], wherry_error *err)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned int len = 0;

	if (!EVP_Digest(bytes.ptr, bytes.len, sum, &len, EVP_md5(), NULL) ||
	    2 * len != WH_MD5_LEN)
		return wh_fail(
			err, WHERRY_UNSUPPORTED,
			"libcrypto does not compute MD5 sums here, as in FIPS mode; "
			"names in tables need them");
	for (unsigned int i = 0; i < len; i++) {
		out[2 * i] = digits[sum[i] >> 4];
		out[2 * i + 1] = digits[sum[i] & 15];
	}
	out[WH_MD5_LEN] = 0;
	return WHERRY_OK;
}
