/*
 * TLS between buffers.  OpenSSL never touches the socket, since it would raise SIGPIPE.
 */
#include "publish/redis/redis.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "publish/certificate.h"

struct wh_redis_tls {
	SSL_CTX *ctx;
	SSL *ssl;
	BIO *in, *out; /* Of ssl. */
};

/* The text of OpenSSL's last error. */
static void describe(char *out, size_t cap)
{
	unsigned long code = ERR_peek_last_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;

	(void)snprintf(out, cap, "%s", reason ? reason : "the connection ended");
	ERR_clear_error();
}

static wherry_code fail(const wh_redis_tls *tls, wherry_error *err)
{
	unsigned long code = ERR_peek_last_error();
	long verified = SSL_get_verify_result(tls->ssl);
	const char *cause = NULL;
	char text[120];

	if (verified != X509_V_OK)
		cause = wh_certificate_cause(
			verified, "nobody whom this machine trusts has signed its "
				  "certificate: name its authority as redis.ca_file");
	if (cause)
		return wh_fail(err, WHERRY_CLOSED, "no TLS: %s", cause);
	if (ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER) {
		ERR_clear_error();
		return wh_fail(err, WHERRY_INVALID,
			       "it does not speak TLS: configure it there, or write "
			       "redis:// for rediss://");
	}
	if (ERR_GET_REASON(code) == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED ||
	    ERR_GET_REASON(code) == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE) {
		describe(text, sizeof(text));
		return wh_fail(err, WHERRY_DENIED,
			       "no TLS: %s; it may want a certificate of the client: set "
			       "redis.client_cert and redis.client_key",
			       text);
	}
	describe(text, sizeof(text));
	return wh_fail(err, WHERRY_CLOSED, "no TLS: %s", text);
}

static wherry_code bad_file(const char *name, const char *path, wherry_error *err)
{
	char text[120];

	describe(text, sizeof(text));
	return wh_fail(err, WHERRY_INVALID, "%s: '%.120s' cannot be used: %s", name, path,
		       text);
}

static wherry_code read_files(wh_redis_tls *tls, const wh_redis_settings *set,
			      wherry_error *err)
{
	if (set->ca_file
		    ? SSL_CTX_load_verify_locations(tls->ctx, set->ca_file, NULL) != 1
		    : SSL_CTX_set_default_verify_paths(tls->ctx) != 1)
		return bad_file("redis.ca_file", set->ca_file ? set->ca_file : "", err);
	if (set->cert && SSL_CTX_use_certificate_chain_file(tls->ctx, set->cert) != 1)
		return bad_file("redis.client_cert", set->cert, err);
	if (set->key &&
	    SSL_CTX_use_PrivateKey_file(tls->ctx, set->key, SSL_FILETYPE_PEM) != 1)
		return bad_file("redis.client_key", set->key, err);
	return WHERRY_OK;
}

static bool expect_host(SSL *ssl, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];
	char name[256]; /* OpenSSL's macro takes no const. */

	if (inet_pton(AF_INET, host, address) == 1 ||
	    inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	(void)snprintf(name, sizeof(name), "%s", host);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

wherry_code wh_redis_tls_new(const wh_redis_settings *set, const char *host,
			     wh_redis_tls **out, wherry_error *err)
{
	wh_redis_tls *tls = calloc(1, sizeof(*tls));
	wherry_code code = WHERRY_OK;

	if (!tls)
		return wh_oom(err);
	ERR_clear_error();
	tls->ctx = SSL_CTX_new(TLS_client_method());
	if (tls->ctx)
		code = read_files(tls, set, err);
	if (code == WHERRY_OK && tls->ctx) {
		(void)SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION);
		SSL_CTX_set_verify(tls->ctx,
				   set->verify == WH_REDIS_VERIFY_NONE ? SSL_VERIFY_NONE
								       : SSL_VERIFY_PEER,
				   NULL);
		tls->ssl = SSL_new(tls->ctx);
		tls->in = BIO_new(BIO_s_mem());
		tls->out = BIO_new(BIO_s_mem());
	}
	if (code == WHERRY_OK &&
	    (!tls->ssl || !tls->in || !tls->out ||
	     (set->verify == WH_REDIS_VERIFY_HOST && !expect_host(tls->ssl, host))))
		code = wh_oom(err);
	if (code != WHERRY_OK) {
		if (!tls->ssl || !tls->in || !tls->out) {
			(void)BIO_free(tls->in);
			(void)BIO_free(tls->out);
			tls->in = tls->out = NULL;
		} else {
			SSL_set_bio(tls->ssl, tls->in, tls->out);
		}
		wh_redis_tls_free(tls);
		return code;
	}
	SSL_set_bio(tls->ssl, tls->in, tls->out);
	SSL_set_connect_state(tls->ssl);
	*out = tls;
	return WHERRY_OK;
}

void wh_redis_tls_free(wh_redis_tls *tls)
{
	if (!tls)
		return;
	SSL_free(tls->ssl);
	SSL_CTX_free(tls->ctx);
	free(tls);
}

wherry_code wh_redis_tls_feed(wh_redis_tls *tls, const char *bytes, size_t n,
			      wherry_error *err)
{
	return BIO_write(tls->in, bytes, (int)n) == (int)n ? WHERRY_OK : wh_oom(err);
}

/* Is a result that is not positive only that more bytes are needed? */
static bool wants_more(const wh_redis_tls *tls, int result)
{
	int error = SSL_get_error(tls->ssl, result);

	return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

wherry_code wh_redis_tls_shake(wh_redis_tls *tls, bool *out_done, wherry_error *err)
{
	int result;

	ERR_clear_error();
	result = SSL_do_handshake(tls->ssl);
	*out_done = result == 1;
	return result == 1 || wants_more(tls, result) ? WHERRY_OK : fail(tls, err);
}

wherry_code wh_redis_tls_write(wh_redis_tls *tls, const char *bytes, size_t n,
			       wherry_error *err)
{
	while (n) {
		int part = n > INT_MAX ? INT_MAX : (int)n, result;

		ERR_clear_error();
		result = SSL_write(tls->ssl, bytes, part);
		if (result <= 0)
			return fail(tls, err);
		bytes += result;
		n -= (size_t)result;
	}
	return WHERRY_OK;
}

wherry_code wh_redis_tls_read(wh_redis_tls *tls, char *bytes, size_t cap, size_t *out_n,
			      wherry_error *err)
{
	int result;

	*out_n = 0;
	ERR_clear_error();
	result = SSL_read(tls->ssl, bytes, (int)cap);
	if (result > 0)
		*out_n = (size_t)result;
	return result > 0 || wants_more(tls, result) ? WHERRY_OK : fail(tls, err);
}

void wh_redis_tls_drain(wh_redis_tls *tls, wh_buf *out)
{
	char bytes[16384];
	int n;

	while ((n = BIO_read(tls->out, bytes, sizeof(bytes))) > 0)
		wh_buf_put(out, bytes, (size_t)n);
}
