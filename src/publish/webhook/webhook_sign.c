#include "publish/webhook/webhook_sign.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/secret.h"

enum {
	SECRETS_MOST = 8,
	SECRET_LEAST = 16,
	SECRET_MOST = 512,
	DEPTH_MOST = 2,
	SEED = 32, /* Bytes of a private key of Ed25519, and of a public one. */
	HEAD_MOST = 320
};

struct wh_signer {
	EVP_PKEY *keys[SECRETS_MOST];
	bool asymmetric[SECRETS_MOST]; /* Ed25519. */
	size_t n;
};

static const char symmetric_prefix[] = "whsec_", private_prefix[] = "whsk_",
		  public_prefix[] = "whpk_";

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

/* Length of the prefix if the text begins with it, else 0. */
static size_t begins(const char *text, size_t len, const char *prefix)
{
	size_t n = strlen(prefix);

	return len > n && memcmp(text, prefix, n) == 0 ? n : 0;
}

/* A private key is 32 bytes, or 64 with the public key behind them. */
static wherry_code read_private(const unsigned char *bytes, size_t n, EVP_PKEY **out,
				wherry_error *err)
{
	unsigned char public[SEED];
	size_t len = sizeof(public);
	EVP_PKEY *key;

	if (n != SEED && n != (size_t)2 * SEED)
		return wh_fail(
			err, WHERRY_INVALID,
			"a private key is 'whsk_' and the base64 of the 32 bytes of "
			"an Ed25519 key, or of these and its public key; make one "
			"with: echo whsk_$(openssl genpkey -algorithm ed25519 "
			"-outform DER | tail -c 32 | base64)");
	key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, bytes, SEED);
	if (!key || EVP_PKEY_get_raw_public_key(key, public, &len) != 1) {
		EVP_PKEY_free(key);
		return wh_oom(err);
	}
	if (n > SEED && memcmp(public, bytes + SEED, SEED) != 0) {
		EVP_PKEY_free(key);
		return wh_fail(err, WHERRY_INVALID,
			       "the second half of a whsk_ key is not the public key of "
			       "its first half");
	}
	*out = key;
	return WHERRY_OK;
}

static wherry_code read_key(const char *text, size_t len, bool *out_asymmetric,
			    EVP_PKEY **out, wherry_error *err)
{
	unsigned char bytes[SECRET_MOST];
	size_t skip = begins(text, len, private_prefix), n;
	wherry_code code = WHERRY_OK;

	if (begins(text, len, public_prefix))
		return wh_fail(err, WHERRY_INVALID,
			       "a whpk_ key is public and verifies; the relay signs with "
			       "the whsk_ key that it belongs to");
	*out_asymmetric = skip > 0;
	if (!skip)
		skip = begins(text, len, symmetric_prefix);
	n = skip ? decode(text + skip, len - skip, bytes) : 0;
	if (*out_asymmetric) {
		code = read_private(bytes, n, out, err);
	} else if (n < SECRET_LEAST) {
		code = wh_fail(err, WHERRY_INVALID,
			       "a secret is 'whsec_' and the base64 of %d bytes or more; "
			       "make one with: echo whsec_$(openssl rand -base64 32)",
			       SECRET_LEAST);
	} else {
		*out = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, bytes, n);
		code = *out ? WHERRY_OK : wh_oom(err);
	}
	explicit_bzero(bytes, sizeof(bytes));
	return code;
}

static wherry_code add_key(wh_signer *signer, const char *text, size_t len,
			   wherry_error *err)
{
	wherry_code code;

	if (signer->n == SECRETS_MOST)
		return wh_fail(err, WHERRY_INVALID, "there are more than %d secrets",
			       SECRETS_MOST);
	code = read_key(text, len, &signer->asymmetric[signer->n],
			&signer->keys[signer->n], err);
	signer->n += code == WHERRY_OK;
	return code;
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

/* Ed25519 signs its text in one call, so head and body are put together. */
static bool sign_alone(EVP_PKEY *key, const char *head, const void *body, size_t len,
		       wh_buf *out)
{
	wh_buf whole = WH_BUF_INIT(SIZE_MAX / 2);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char signature[2 * SEED];
	size_t n = sizeof(signature);
	bool ok;

	wh_buf_puts(&whole, head);
	wh_buf_put(&whole, body, len);
	ok = ctx && !whole.failed &&
	     EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 &&
	     EVP_DigestSign(ctx, signature, &n, (const unsigned char *)whole.ptr,
			    whole.len) == 1;
	EVP_MD_CTX_free(ctx);
	wh_buf_clear(&whole);
	if (!ok)
		return false;
	wh_buf_puts(out, "v1a,");
	wh_buf_base64(out, signature, n);
	return !out->failed;
}

bool wh_signer_sign(const wh_signer *signer, const char *id, int64_t unix_s,
		    const void *body, size_t len, wh_buf *out)
{
	char head[HEAD_MOST];

	(void)snprintf(head, sizeof(head), "%s.%" PRId64 ".", id, unix_s);
	for (size_t i = 0; i < signer->n; i++) {
		if (i)
			wh_buf_putc(out, ' ');
		if (!(signer->asymmetric[i] ? sign_alone : sign_with)(
			    signer->keys[i], head, body, len, out))
			return false;
	}
	return true;
}
