/*
 * Settings come before the standard variables of OpenTelemetry.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/text.h"
#include "config/secret.h"
#include "config/settings.h"
#include "publish/otel/otel.h"

static const char *variable(const char *name)
{
	const char *value = secure_getenv(name);

	return value ? value : "";
}

/* A variable in milliseconds; otherwise the default. */
static int64_t milliseconds(const char *name, int64_t standard_us)
{
	int64_t ms;

	return wh_parse_int(variable(name), &ms) && ms > 0 && ms <= 86400000
		       ? ms * 1000
		       : standard_us;
}

static wherry_code read_endpoint(const wherry_config *config, wh_otel_settings *out,
				 wherry_error *err)
{
	const char *set = wh_config_text(config, WH_OTEL_ENDPOINT);
	const char *url = *set ? set : variable("OTEL_EXPORTER_OTLP_ENDPOINT");
	size_t len = strlen(url);

	if (!len || strcmp(variable("OTEL_SDK_DISABLED"), "true") == 0)
		return WHERRY_OK;
	if ((strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) ||
	    strpbrk(url, " \t\r\n@?#"))
		return wh_fail(
			err, WHERRY_INVALID,
			"%s: write http://HOST:4318 or https://HOST:4318, without a "
			"user",
			*set ? "otel.endpoint" : "OTEL_EXPORTER_OTLP_ENDPOINT");
	while (url[len - 1] == '/')
		len--;
	out->endpoint = strndup(url, len);
	return out->endpoint ? WHERRY_OK : wh_oom(err);
}

static int hex_value(char c)
{
	if (wh_is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Append text without its percent-encoding. */
static void put_decoded(wh_buf *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		int high = text[i] == '%' && i + 2 < len ? hex_value(text[i + 1]) : -1;
		int low = high < 0 ? -1 : hex_value(text[i + 2]);

		if (low < 0) {
			wh_buf_putc(out, text[i]);
		} else {
			wh_buf_putc(out, (char)(high * 16 + low));
			i += 2;
		}
	}
}

static bool is_name(const char *text, size_t len)
{
	return len && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789-_.") >= len;
}

/* Read "name=value,name=value" into lines. */
static wherry_code parse_headers(const char *text, wh_buf *out, const char *from,
				 wherry_error *err)
{
	while (*text) {
		size_t name, len, begin;

		text += strspn(text, " ");
		len = strcspn(text, ",");
		name = strcspn(text, "=");
		begin = out->len;
		if (name >= len || !is_name(text, name))
			return wh_fail(
				err, WHERRY_INVALID,
				"%s: write NAME=VALUE, with commas between several",
				from);
		wh_buf_put(out, text, name);
		wh_buf_puts(out, ": ");
		put_decoded(out, text + name + 1, len - name - 1);
		wh_buf_putc(out, 0);
		if (!out->failed && (strpbrk(out->ptr + begin, "\r\n") ||
				     strlen(out->ptr + begin) + 1 != out->len - begin))
			return wh_fail(err, WHERRY_INVALID,
				       "%s: a value has a line break or NUL", from);
		text += len + (text[len] == ',');
	}
	return wh_buf_check(out, err);
}

static wherry_code read_headers(const wherry_config *config, wh_otel_settings *out,
				wherry_error *err)
{
	const char *set = wh_config_text(config, WH_OTEL_HEADERS);
	wh_buf text = WH_BUF_INIT(65536);
	wherry_code code;

	if (!*set)
		return parse_headers(variable("OTEL_EXPORTER_OTLP_HEADERS"),
				     &out->headers, "OTEL_EXPORTER_OTLP_HEADERS", err);
	code = wh_secret_read(set, &text, err);
	if (code == WHERRY_OK)
		code = parse_headers(wh_buf_str(&text), &out->headers, "otel.headers",
				     err);
	else
		code = wh_prefix(err, code, "otel.headers");
	wh_secret_clear(&text);
	return code;
}

/* An unknown sampler, as the specification asks, is as if none were named. */
static void read_sampler(wh_otel_settings *out)
{
	static const char by_parent[] = "parentbased_";
	const char *name = variable("OTEL_TRACES_SAMPLER");
	const char *arg = variable("OTEL_TRACES_SAMPLER_ARG");
	bool parent = strncmp(name, by_parent, sizeof(by_parent) - 1) == 0;
	char *end = NULL;
	double ratio = *arg ? strtod(arg, &end) : 1;

	out->by_parent = true;
	out->sampler = WH_SAMPLE_ALL;
	out->ratio = (end && *end) || !(ratio >= 0 && ratio <= 1) ? 1 : ratio;
	name += parent ? sizeof(by_parent) - 1 : 0;
	if (strcmp(name, "always_off") == 0)
		out->sampler = WH_SAMPLE_NONE;
	else if (strcmp(name, "traceidratio") == 0)
		out->sampler = WH_SAMPLE_RATIO;
	else if (strcmp(name, "always_on") != 0)
		return;
	out->by_parent = parent;
}

wherry_code wh_otel_settings_read(const wherry_config *config, wh_otel_settings *out,
				  wherry_error *err)
{
	const char *service = wh_config_text(config, WH_OTEL_SERVICE);
	wherry_code code;

	*out = (wh_otel_settings){.headers = WH_BUF_INIT(65536)};
	code = read_endpoint(config, out, err);
	if (code != WHERRY_OK || !out->endpoint)
		return code;
	if (!*service)
		service = variable("OTEL_SERVICE_NAME");
	code = read_headers(config, out, err);
	out->service = strdup(*service ? service : "wherry");
	if (code == WHERRY_OK && !out->service)
		code = wh_oom(err);
	read_sampler(out);
	out->spans_us = milliseconds("OTEL_BSP_SCHEDULE_DELAY", 5 * WH_SECOND);
	out->metrics_us = milliseconds("OTEL_METRIC_EXPORT_INTERVAL", 60 * WH_SECOND);
	out->limit_ms =
		(long)(milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", 10 * WH_SECOND) / 1000);
	if (code != WHERRY_OK)
		wh_otel_settings_clear(out);
	return code;
}

bool wh_otel_settings_equal(const wh_otel_settings *a, const wh_otel_settings *b)
{
	/* The rest comes from variables, and is the same in one program. */
	return strcmp(a->endpoint, b->endpoint) == 0 &&
	       strcmp(a->service, b->service) == 0 && a->headers.len == b->headers.len &&
	       (!a->headers.len ||
		memcmp(a->headers.ptr, b->headers.ptr, a->headers.len) == 0);
}

void wh_otel_settings_clear(wh_otel_settings *settings)
{
	free(settings->endpoint);
	free(settings->service);
	wh_secret_clear(&settings->headers);
	settings->endpoint = settings->service = NULL;
}
