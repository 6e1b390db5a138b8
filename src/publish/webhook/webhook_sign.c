#include "publish/webhook/webhook_sign.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/secret.h"

enum { SECRETS_MOST = 8, SECRET_LEAST = 16, SECRET_MOST = 512, DEPTH_MOST = 2 };

struct wh_signer {
	EVP_PKEY *keys[SECRETS_MOST];
	size_t n;
};

static const char prefix[] = "whsec_";

void wh_signer_free(wh_signer *signer)
{
	if (!signer)
		return;
	for (size_t i = 0; i < signer->n; i++)
		EVP_PKEY_free(signer->keys[i]);
	free(signer);
}

/* Decode base64 without blanks.  Returns the length of the result; 0: not base64. */
static size_t decode(const char *text, size_t len, unsigned char *out)
{
	int n = 0;

	if (len && len % 4 == 0 && len / 4 * 3 <= SECRET_MOST)
		n = EVP_DecodeBlock(out, (const unsigned char *)text, (int)len);
	if (n <= 0)
		return 0;
	n -= text[len - 1] == '=';
	n -= text[len - 2] == '=';
	return (size_t)n;
}

static wherry_code add_key(wh_signer *signer, const char *text, size_t len,
			   wherry_error *err)
{
	unsigned char bytes[SECRET_MOST];
	size_t n = 0;

	if (signer->n == SECRETS_MOST)
		return wh_fail(err, WHERRY_INVALID, "there are more than %d secrets",
			       SECRETS_MOST);
	if (len > sizeof(prefix) - 1 && memcmp(text, prefix, sizeof(prefix) - 1) == 0)
		n = decode(text + sizeof(prefix) - 1, len - (sizeof(prefix) - 1), bytes);
	if (n < SECRET_LEAST)
		return wh_fail(err, WHERRY_INVALID,
			       "a secret is 'whsec_' and the base64 of %d bytes or more; "
			       "make one with: echo whsec_$(openssl rand -base64 32)",
			       SECRET_LEAST);
	signer->keys[signer->n] =
		EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, bytes, n);
	explicit_bzero(bytes, sizeof(bytes));
	if (!signer->keys[signer->n])
		return wh_oom(err);
	signer->n++;
	return WHERRY_OK;
}

static wherry_code add_all(wh_signer *signer, const char *text, int depth,
			   wherry_error *err);

/* Add the secrets in an environment variable or a file. */
static wherry_code add_named(wh_signer *signer, const char *text, size_t len, int depth,
			     wherry_error *err)
{
	wh_buf value = WH_BUF_INIT(16384);
	char *name = strndup(text, len);
	wherry_code code = name ? wh_secret_read(name, &value, err) : wh_oom(err);

	if (code == WHERRY_OK)
		code = add_all(signer, wh_buf_str(&value), depth + 1, err);
	free(name);
	wh_secret_clear(&value);
	return code;
}

static bool is_name(const char *text)
{
	return wh_secret_elsewhere(text);
}

static wherry_code add_all(wh_signer *signer, const char *text, int depth,
			   wherry_error *err)
{
	static const char between[] = " ,\t\r\n";
	wherry_code code = WHERRY_OK;

	for (text += strspn(text, between); *text && code == WHERRY_OK;
	     text += strspn(text, between)) {
		size_t len = strcspn(text, between);

		code = is_name(text) && depth < DEPTH_MOST - 1
			       ? add_named(signer, text, len, depth, err)
			       : add_key(signer, text, len, err);
		text += len;
	}
	return code;
}

wherry_code wh_signer_new(const char *text, wh_signer **out, wherry_error *err)
{
	wh_signer *signer = calloc(1, sizeof(*signer));
	wherry_code code = signer ? add_all(signer, text, 0, err) : wh_oom(err);

	if (code == WHERRY_OK && !signer->n && *text)
		code = wh_fail(err, WHERRY_INVALID, "there is no secret in it");
	if (code != WHERRY_OK || !signer->n) {
		wh_signer_free(signer);
		signer = NULL;
	}
	if (code == WHERRY_OK)
		*out = signer;
	return code;
}

static bool sign_with(EVP_PKEY *key, const char *head, const void *body, size_t len,
		      wh_buf *out)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char mac[EVP_MAX_MD_SIZE];
	size_t n = sizeof(mac);
	bool ok = ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
		  EVP_DigestSignUpdate(ctx, head, strlen(head)) == 1 &&
		  EVP_DigestSignUpdate(ctx, body, len) == 1 &&
		  EVP_DigestSignFinal(ctx, mac, &n) == 1;

	EVP_MD_CTX_free(ctx);
	if (!ok)
		return false;
	wh_buf_puts(out, "v1,");
	wh_buf_base64(out, mac, n);
	return !out->failed;
}

bool wh_signer_sign(const wh_signer *signer, const char *id, int64_t unix_s,
		    const void *body, size_t len, wh_buf *out)
{
	char head[320];

	(void)snprintf(head, sizeof(head), "%s.%" PRId64 ".", id, unix_s);
	for (size_t i = 0; i < signer->n; i++) {
		if (i)
			wh_buf_putc(out, ' ');
		if (!sign_with(signer->keys[i], head, body, len, out))
			return false;
	}
	return true;
}
