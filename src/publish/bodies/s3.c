/*
 * A store of bodies in S3.
 *
 * Requests have the path-style form, ENDPOINT/BUCKET/NAME, which all servers understand.
 * libcurl signs them (AWS Signature Version 4).  The signature covers the sum of the body,
 * so the server refuses a body that changed on its way.
 */
#include "publish/bodies/s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/version.h>

#include "base/text.h"
#include "base/url.h"
#include "config/settings.h"
#include "publish/certificate.h"
#include "publish/curl_start.h"
#include "publish/parts.h"

enum {
	SIGNS_HEADERS = 0x075700, /* Version of libcurl that signs all headers: 7.87. */
	CONNECT_MS = 10000
};

typedef struct s3_store {
	wh_body_store base;
	char *bucket, *prefix; /* prefix is "" or ends in '/'. */
	char *endpoint;        /* "https://s3.eu-west-1.amazonaws.com", without '/'. */
	char *region, *credentials, *ca_file;
	char sigv4[96]; /* For libcurl: "aws:amz:REGION:s3". */
	long limit_ms;
} s3_store;

/* One thread's connection. */
typedef struct hand {
	CURL *easy;
	wh_s3_keys keys;
	char error[CURL_ERROR_SIZE];
	char text[WH_S3_TEXT + 1];
	size_t read;
	const wh_upload *upload;
} hand;

/* ---- settings ---- */

static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				 "0123456789-._~";

static bool is_plain(const char *text, size_t len)
{
	return strspn(text, unreserved) >= len;
}

static wherry_code check_place(const char *place, size_t bucket_len, wherry_error *err)
{
	const char *prefix = place + bucket_len;
	bool fine = true;

	if (bucket_len < 3 || bucket_len > 63 || !is_plain(place, bucket_len))
		return wh_fail(err, WHERRY_INVALID,
			       "relay.body_store: s3: needs the name of a bucket and may "
			       "have a prefix, such as s3://shop-bodies/orders");
	for (size_t i = 0; prefix[i]; i++)
		fine &= prefix[i] == '/' || is_plain(prefix + i, 1);
	if (fine && strlen(prefix) <= 512 && !strstr(prefix, "//") &&
	    !strstr(prefix, "/."))
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_INVALID,
		"relay.body_store: the prefix of s3: may have letters, digits, '-', "
		"'_', '.', '~' and '/' between them, and at most 512 of them");
}

static const char *region_of(const wherry_config *config)
{
	const char *set = wh_config_text(config, WH_S3_REGION);
	const char *variable = secure_getenv("AWS_REGION");

	if (*set)
		return set;
	if (!variable || !*variable)
		variable = secure_getenv("AWS_DEFAULT_REGION");
	return variable && *variable ? variable : "us-east-1";
}

static wherry_code check_endpoint(const char *endpoint, wherry_error *err)
{
	size_t scheme = strncmp(endpoint, "https://", 8) == 0  ? 8
			: strncmp(endpoint, "http://", 7) == 0 ? 7
							       : 0;

	if (scheme && endpoint[scheme] && !strpbrk(endpoint + scheme, "@?#/ \t\r\n"))
		return WHERRY_OK;
	return wh_fail(err, WHERRY_INVALID,
		       "s3.endpoint: write https://HOST or https://HOST:PORT");
}

/* libcurl puts the region between colons. */
static wherry_code check_region(const char *region, wherry_error *err)
{
	size_t len = strlen(region);

	if (len && len < 64 && is_plain(region, len))
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_INVALID,
		"s3.region: '%.40s' is not the name of a region, such as eu-west-1",
		region);
}

static wherry_code check_version(wherry_error *err)
{
	const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);

	if (curl->version_num >= SIGNS_HEADERS)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_UNSUPPORTED,
		       "s3: needs libcurl 7.87 or newer, and this is %s", curl->version);
}

static void s3_close(wh_body_store *store)
{
	s3_store *s = (s3_store *)store;

	free(s->base.url);
	free(s->bucket);
	free(s->prefix);
	free(s->endpoint);
	free(s->region);
	free(s->credentials);
	free(s->ca_file);
	free(s);
}

static char *joined(const char *a, const char *b, const char *c)
{
	wh_buf text = WH_BUF_INIT(4096);

	wh_buf_puts(&text, a);
	wh_buf_puts(&text, b);
	wh_buf_puts(&text, c);
	return wh_buf_take(&text);
}

static void fill_place(s3_store *s, const char *place, size_t bucket_len)
{
	const char *prefix = place + bucket_len + strspn(place + bucket_len, "/");
	size_t len = strlen(prefix);
	wh_buf url = WH_BUF_INIT(4096);

	s->bucket = strndup(place, bucket_len);
	s->prefix = joined(prefix, len && prefix[len - 1] != '/' ? "/" : "", "");
	wh_buf_printf(&url, "s3://%s/%s", s->bucket ? s->bucket : "",
		      s->prefix ? s->prefix : "");
	s->base.url = wh_buf_take(&url);
}

static void fill_settings(s3_store *s, const wherry_config *config)
{
	const char *endpoint = wh_config_text(config, WH_S3_ENDPOINT);
	const char *ca_file = wh_config_text(config, WH_S3_CA_FILE);
	const char *region = region_of(config);

	s->endpoint = *endpoint ? strdup(endpoint)
				: joined("https://s3.", region, ".amazonaws.com");
	s->region = strdup(region);
	s->credentials = strdup(wh_config_text(config, WH_S3_CREDENTIALS));
	s->ca_file = *ca_file ? strdup(ca_file) : NULL;
	s->limit_ms = (long)(wh_delivery_limit(config) / 1000);
	(void)snprintf(s->sigv4, sizeof(s->sigv4), "aws:amz:%s:s3", region);
}

static wherry_code check_all(const char *rest, const wherry_config *config,
			     size_t *out_bucket_len, wherry_error *err)
{
	const char *endpoint = wh_config_text(config, WH_S3_ENDPOINT);
	const char *place = rest + 2;
	wherry_code code = check_version(err);

	if (code == WHERRY_OK && strncmp(rest, "//", 2) != 0)
		return check_place("", 0, err);
	if (code == WHERRY_OK) {
		*out_bucket_len = strcspn(place, "/");
		code = check_place(place, *out_bucket_len, err);
	}
	if (code == WHERRY_OK && *endpoint)
		code = check_endpoint(endpoint, err);
	if (code == WHERRY_OK)
		code = wh_s3_keys_check(wh_config_text(config, WH_S3_CREDENTIALS), err);
	return code == WHERRY_OK ? check_region(region_of(config), err) : code;
}

static wherry_code s3_check(const char *rest, const wherry_config *config,
			    wherry_error *err)
{
	wh_s3_keys keys = WH_S3_KEYS_INIT;
	const char *ca_file = wh_config_text(config, WH_S3_CA_FILE);
	size_t bucket_len;
	wherry_code code = check_all(rest, config, &bucket_len, err);

	if (code == WHERRY_OK && *ca_file)
		code = wh_pem_check("s3.ca_file", ca_file, err);
	if (code == WHERRY_OK)
		code = wh_s3_keys_read(wh_config_text(config, WH_S3_CREDENTIALS), &keys,
				       err);
	wh_s3_keys_clear(&keys);
	return code;
}

static void s3_warn(const char *rest, const wherry_config *config, wh_buf *out)
{
	(void)rest;
	if (strncmp(wh_config_text(config, WH_S3_ENDPOINT), "http://", 7) == 0)
		wh_buf_puts(out, "s3: sends bodies unencrypted: write https:// in "
				 "s3.endpoint\n");
}

static wherry_code s3_open(const char *rest, const wherry_config *config,
			   wh_body_store **out, wherry_error *err)
{
	size_t bucket_len = 0;
	wherry_code code = check_all(rest, config, &bucket_len, err);
	s3_store *s;

	if (code == WHERRY_OK)
		code = wh_curl_start(err);
	if (code != WHERRY_OK)
		return code;
	s = calloc(1, sizeof(*s));
	if (!s)
		return wh_oom(err);
	s->base.driver = &wh_body_store_s3;
	fill_place(s, rest + 2, bucket_len);
	fill_settings(s, config);
	if (!s->base.url || !s->bucket || !s->prefix || !s->endpoint || !s->region ||
	    !s->credentials) {
		s3_close(&s->base);
		return wh_oom(err);
	}
	*out = &s->base;
	return WHERRY_OK;
}

/* ---- requests ---- */

static void *s3_enter(wh_body_store *store)
{
	hand *h = calloc(1, sizeof(*h));

	(void)store;
	if (h) {
		h->keys = (wh_s3_keys)WH_S3_KEYS_INIT;
		h->easy = curl_easy_init();
	}
	return h;
}

static void s3_leave(void *arg)
{
	hand *h = arg;

	if (!h)
		return;
	curl_easy_cleanup(h->easy);
	wh_s3_keys_clear(&h->keys);
	free(h);
}

static size_t take_text(char *data, size_t size, size_t n, void *arg)
{
	hand *h = arg;
	size_t len = size * n;
	size_t room = h->read < WH_S3_TEXT ? WH_S3_TEXT - h->read : 0;
	size_t kept = len < room ? len : room;

	memcpy(h->text + (WH_S3_TEXT - room), data, kept);
	h->read += len;
	return h->read > ((size_t)1 << 20) ? 0 : len;
}

static int go_on(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const hand *h = arg;

	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return atomic_load(&h->upload->cancelled);
}

#define SET(easy, option, value) ((void)curl_easy_setopt((easy), (option), (value)))

static bool set_options(const s3_store *s, hand *h, const char *url)
{
	CURL *easy = h->easy;
	const wh_upload *upload = h->upload;

	curl_easy_reset(easy); /* Its connection stays. */
	SET(easy, CURLOPT_NOSIGNAL, 1L);
	SET(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	SET(easy, CURLOPT_PATH_AS_IS, 1L);
	SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(easy, CURLOPT_USERAGENT, "wherry/" WHERRY_VERSION);
	SET(easy, CURLOPT_TIMEOUT_MS, s->limit_ms);
	SET(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	SET(easy, CURLOPT_ERRORBUFFER, h->error);
	SET(easy, CURLOPT_WRITEFUNCTION, take_text);
	SET(easy, CURLOPT_WRITEDATA, h);
	SET(easy, CURLOPT_NOPROGRESS, 0L);
	SET(easy, CURLOPT_XFERINFOFUNCTION, go_on);
	SET(easy, CURLOPT_XFERINFODATA, h);
	SET(easy, CURLOPT_POSTFIELDS, upload->body);
	SET(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)upload->len);
	if (s->ca_file) {
		SET(easy, CURLOPT_CAINFO, s->ca_file);
		SET(easy, CURLOPT_CAPATH, NULL);
	}
	/* These copy their values, and so may fail. */
	return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "PUT") == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, s->sigv4) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_USERNAME, h->keys.id.ptr) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_PASSWORD, h->keys.secret.ptr) == CURLE_OK;
}

/* Append "NAME: VALUE".  False: no memory; the list is unchanged. */
static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
	wh_buf line = WH_BUF_INIT(SIZE_MAX / 2);
	struct curl_slist *grown;

	wh_buf_puts(&line, name);
	wh_buf_puts(&line, ": ");
	wh_buf_puts(&line, value);
	grown = line.failed ? NULL : curl_slist_append(*list, line.ptr);
	if (grown)
		*list = grown;
	if (line.ptr)
		explicit_bzero(line.ptr, line.cap);
	wh_buf_clear(&line);
	return grown;
}

static bool make_headers(const hand *h, struct curl_slist **out)
{
	return add_header(out, "content-type", h->upload->type) &&
	       add_header(out, "x-amz-content-sha256", h->upload->sha256) &&
	       (!h->keys.token.len ||
		add_header(out, "x-amz-security-token", h->keys.token.ptr));
}

static void free_headers(struct curl_slist *list)
{
	for (struct curl_slist *at = list; at; at = at->next)
		explicit_bzero(at->data, strlen(at->data)); /* It may have the token. */
	curl_slist_free_all(list);
}

static wherry_code judge(const s3_store *s, hand *h, CURLcode result, const char *name,
			 wherry_error *err)
{
	struct curl_header *region = NULL;
	wh_s3_answer answer = {.result = result,
			       .error = h->error,
			       .text = h->text,
			       .bucket = s->bucket,
			       .name = name,
			       .own_region = s->region};

	(void)curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &answer.status);
	(void)curl_easy_getinfo(h->easy, CURLINFO_SSL_VERIFYRESULT, &answer.certificate);
	if (curl_easy_header(h->easy, "x-amz-bucket-region", 0, CURLH_HEADER, -1,
			     &region) == CURLHE_OK)
		answer.region = region->value;
	return wh_s3_judge(&answer, err);
}

static wherry_code s3_put(wh_body_store *store, void *arg, const wh_upload *upload,
			  wherry_error *err)
{
	const s3_store *s = (const s3_store *)store;
	hand *h = arg;
	wh_buf url = WH_BUF_INIT(8192);
	struct curl_slist *headers = NULL;
	wherry_code code;
	CURLcode result;

	if (!h || !h->easy)
		return wh_oom(err);
	code = wh_s3_keys_read(s->credentials, &h->keys, err);
	if (code != WHERRY_OK)
		return code;
	h->upload = upload;
	h->read = 0;
	memset(h->text, 0, sizeof(h->text));
	h->error[0] = 0;
	wh_buf_printf(&url, "%s/%s/%s%s", s->endpoint, s->bucket, s->prefix,
		      upload->name);
	if (url.failed || !set_options(s, h, url.ptr) || !make_headers(h, &headers)) {
		code = wh_oom(err);
	} else {
		SET(h->easy, CURLOPT_HTTPHEADER, headers);
		result = curl_easy_perform(h->easy);
		code = judge(s, h, result, upload->name, err);
	}
	curl_easy_reset(h->easy); /* It forgets the keys. */
	free_headers(headers);
	wh_buf_clear(&url);
	return code;
}

const wh_body_store_driver wh_body_store_s3 = {
	.scheme = "s3",
	.check = s3_check,
	.warn = s3_warn,
	.open = s3_open,
	.close = s3_close,
	.enter = s3_enter,
	.leave = s3_leave,
	.put = s3_put,
};
