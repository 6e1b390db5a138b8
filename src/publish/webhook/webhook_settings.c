/*
 * Reads the URL and the settings webhook.*.
 */
#include "publish/webhook/webhook.h"

#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "config/secret.h"
#include "config/settings.h"
#include "publish/certificate.h"
#include "publish/parts.h"

/* ---- the URL ---- */

/* Is this place in the path or the query of the URL? */
static bool in_path(const char *url, const char *at)
{
	const char *host = strstr(url, "://");
	const char *path = host ? host + 3 + strcspn(host + 3, "/?#") : NULL;

	return path && at > path;
}

static wherry_code check_braces(const char *url, bool *out_topical, wherry_error *err)
{
	*out_topical = false;
	for (const char *at = strchr(url, '{'); at; at = strchr(at + 1, '{')) {
		if (strncmp(at, "{topic}", 7) != 0)
			return wh_fail(
				err, WHERRY_INVALID,
				"a '{' in the URL stands for nothing: {topic} does; "
				"write %%7B for a brace");
		if (!in_path(url, at))
			return wh_fail(err, WHERRY_INVALID,
				       "{topic} may stand in the path and the query of a "
				       "URL, not before");
		*out_topical = true;
	}
	return WHERRY_OK;
}

static wherry_code check_url(const char *scheme, const char *url, wherry_error *err)
{
	CURLU *parts = curl_url();
	char masked[160];
	CURLUcode rc;
	char *host = NULL;

	if (!parts)
		return wh_oom(err);
	rc = curl_url_set(parts, CURLUPART_URL, url, 0);
	if (rc == CURLUE_OK)
		rc = curl_url_get(parts, CURLUPART_HOST, &host, 0);
	curl_free(host);
	curl_url_cleanup(parts);
	if (rc == CURLUE_OUT_OF_MEMORY)
		return wh_oom(err);
	if (rc == CURLUE_OK)
		return WHERRY_OK;
	wh_url_show(url, masked, sizeof(masked));
	return wh_fail(err, WHERRY_INVALID,
		       "'%s' is not a URL to POST to (%s); it looks like "
		       "%s://example.com/hook",
		       masked, curl_url_strerror(rc), scheme);
}

static wherry_code read_url(const char *scheme, const char *rest,
			    wh_webhook_settings *out, wherry_error *err)
{
	wh_buf url = WH_BUF_INIT(16384);
	wherry_code code;

	if (strncmp(rest, "//", 2) != 0 || !rest[2] || rest[2] == '/')
		return wh_fail(err, WHERRY_INVALID,
			       "%s: needs a host, as in %s://example.com/hook", scheme,
			       scheme);
	wh_buf_printf(&url, "%s:%s", scheme, rest);
	code = wh_buf_check(&url, err);
	if (code == WHERRY_OK)
		code = check_braces(url.ptr, &out->topical, err);
	if (code == WHERRY_OK)
		code = check_url(scheme, url.ptr, err);
	if (code == WHERRY_OK)
		out->url = wh_buf_take(&url);
	wh_buf_clear(&url);
	return code;
}

/* ---- additional headers ---- */

/* Is this a header line, "Name: value", without control characters or a leading blank? */
static bool is_header(const char *line, size_t len)
{
	size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789!#$%&'*+-.^_`|~");

	if (!name || name >= len || line[name] != ':')
		return false;
	for (size_t i = name; i < len; i++)
		if ((unsigned char)line[i] < ' ' && line[i] != '\t')
			return false;
	return true;
}

static wherry_code read_headers(const char *text, wh_buf *out, wherry_error *err)
{
	wh_buf lines = WH_BUF_INIT(65536);
	wherry_code code = wh_secret_read(text, &lines, err);
	const char *line = wh_buf_str(&lines);

	(void)wh_prefix(err, code, "webhook.headers");
	for (int n = 1; code == WHERRY_OK && *line; n++) {
		size_t len = strcspn(line, "\r\n");

		if (len && !is_header(line, len))
			code = wh_fail(err, WHERRY_INVALID,
				       "webhook.headers: line %d is not 'Name: value'",
				       n);
		if (len) {
			wh_buf_put(out, line, len);
			wh_buf_putc(out, 0);
		}
		line += len;
		line += strspn(line, "\r");
		line += *line == '\n';
	}
	wh_secret_clear(&lines);
	return code == WHERRY_OK ? wh_buf_check(out, err) : code;
}

/* ---- the rest ---- */

static wherry_code read_text(const wherry_config *config, wh_setting which, char **out,
			     wherry_error *err)
{
	const char *text = wh_config_text(config, which);

	if (!*text)
		return WHERRY_OK;
	*out = strdup(text);
	return *out ? WHERRY_OK : wh_oom(err);
}

/* A missing file is an error when the destination is opened, not at the first message. */
static wherry_code read_path(const wherry_config *config, wh_setting which,
			     const char *name, char **out, wherry_error *err)
{
	wherry_code code = read_text(config, which, out, err);

	return code == WHERRY_OK && *out ? wh_pem_check(name, *out, err) : code;
}

static wherry_code read_files(const wherry_config *config, wh_webhook_settings *out,
			      wherry_error *err)
{
	wherry_code code = read_path(config, WH_WEBHOOK_CA_FILE, "webhook.ca_file",
				     &out->ca_file, err);

	if (code == WHERRY_OK)
		code = read_path(config, WH_WEBHOOK_CLIENT_CERT, "webhook.client_cert",
				 &out->cert, err);
	if (code == WHERRY_OK)
		code = read_path(config, WH_WEBHOOK_CLIENT_KEY, "webhook.client_key",
				 &out->key, err);
	if (code == WHERRY_OK && out->key && !out->cert)
		code = wh_fail(err, WHERRY_INVALID,
			       "webhook.client_key is of no use without "
			       "webhook.client_cert");
	return code;
}

static wherry_code read_secrets(const wherry_config *config, wh_webhook_settings *out,
				wherry_error *err)
{
	wherry_code code = wh_signer_new(wh_config_text(config, WH_WEBHOOK_SECRET),
					 &out->signer, err);

	if (code != WHERRY_OK)
		return wh_prefix(err, code, "webhook.secret");
	return read_headers(wh_config_text(config, WH_WEBHOOK_HEADERS), &out->headers,
			    err);
}

wherry_code wh_webhook_read(const char *scheme, const char *rest,
			    const wherry_config *config, wh_webhook_settings *out,
			    wherry_error *err)
{
	wh_webhook_settings s = {.headers = WH_BUF_INIT(65536)};
	wherry_code code;

	s.secure = strcmp(scheme, "https") == 0;
	s.limit_us = wh_config_int(config, WH_WEBHOOK_TIMEOUT);
	if (!s.limit_us)
		s.limit_us = wh_delivery_limit(config);
	s.connect_us = wh_config_int(config, WH_WEBHOOK_CONNECT_TIMEOUT);
	s.connections = (long)wh_config_int(config, WH_WEBHOOK_CONNECTIONS);
	s.streams = (long)wh_config_int(config, WH_WEBHOOK_STREAMS);
	s.http_1 = wh_config_choice(config, WH_WEBHOOK_HTTP) == 1;
	s.rate = wh_config_int(config, WH_WEBHOOK_RATE);
	s.refuse_private = wh_config_choice(config, WH_WEBHOOK_PRIVATE) == 1;
	code = read_url(scheme, rest, &s, err);
	if (code == WHERRY_OK)
		code = read_files(config, &s, err);
	if (code == WHERRY_OK)
		code = read_secrets(config, &s, err);
	if (code == WHERRY_OK)
		*out = s;
	else
		wh_webhook_forget(&s);
	return code;
}

void wh_webhook_forget(wh_webhook_settings *settings)
{
	if (settings->url)
		explicit_bzero(settings->url, strlen(settings->url));
	free(settings->url);
	free(settings->ca_file);
	free(settings->cert);
	free(settings->key);
	wh_signer_free(settings->signer);
	wh_secret_clear(&settings->headers);
	*settings = (wh_webhook_settings){.headers = WH_BUF_INIT(65536)};
}
