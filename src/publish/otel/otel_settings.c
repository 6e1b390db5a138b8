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

static const char endpoint_name[] = "OTEL_EXPORTER_OTLP_ENDPOINT";

static const char *variable(const char *name)
{
	const char *value = secure_getenv(name);

	return value ? value : "";
}

enum { DAY_MS = 86400000 };

static bool is_milliseconds(const char *text, int64_t *out_ms)
{
	return wh_parse_int(text, out_ms) && *out_ms > 0 && *out_ms <= DAY_MS;
}

/* A variable in milliseconds; otherwise the default. */
static int64_t milliseconds(const char *name, int64_t standard_us)
{
	int64_t ms;

	return is_milliseconds(variable(name), &ms) ? ms * 1000 : standard_us;
}

/* Does the URL end in the path of spans or metrics, which is added to it? */
static size_t base_len(const char *url, size_t len)
{
	static const char *const paths[] = {"/v1/traces", "/v1/metrics"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		size_t n = strlen(paths[i]);

		if (len > n && memcmp(url + len - n, paths[i], n) == 0)
			return len - n;
	}
	return len;
}

static bool has_host(const char *url)
{
	size_t scheme = strncmp(url, "http://", 7) == 0    ? 7
			: strncmp(url, "https://", 8) == 0 ? 8
							   : 0;

	return scheme && url[scheme] && !strchr("/:", url[scheme]);
}

static wherry_code read_endpoint(const wherry_config *config, wh_otel_settings *out,
				 wherry_error *err)
{
	const char *set = wh_config_text(config, WH_OTEL_ENDPOINT);
	const char *url = *set ? set : variable(endpoint_name);
	const char *name = *set ? "otel.endpoint" : endpoint_name;
	size_t len = strlen(url), base;

	if (!len || strcmp(variable("OTEL_SDK_DISABLED"), "true") == 0)
		return WHERRY_OK;
	if (!has_host(url) || strpbrk(url, " \t\r\n@?#"))
		return wh_fail(
			err, WHERRY_INVALID,
			"%s: write http://HOST:4318 or https://HOST:4318, without a "
			"user",
			name);
	while (url[len - 1] == '/')
		len--;
	base = base_len(url, len);
	if (base < len)
		return wh_fail(err, WHERRY_INVALID,
			       "%s: %.*s is added to it: write %s=%.*s", name,
			       (int)(len - base), url + base, name,
			       (int)(base < 120 ? base : 120), url);
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

/* ---- sampling ---- */

static const char by_parent[] = "parentbased_";

/* The name of a sampler without parentbased_. */
static const char *sampler_name(const char *name)
{
	size_t n = sizeof(by_parent) - 1;

	return strncmp(name, by_parent, n) == 0 ? name + n : name;
}

static const struct {
	const char *name;
	wh_sampler sampler;
} samplers[] = {
	{"always_on", WH_SAMPLE_ALL},
	{"always_off", WH_SAMPLE_NONE},
	{"traceidratio", WH_SAMPLE_RATIO},
};

/* False: no sampler has this name. */
static bool find_sampler(const char *name, wh_sampler *out)
{
	for (size_t i = 0; i < sizeof(samplers) / sizeof(*samplers); i++)
		if (strcmp(sampler_name(name), samplers[i].name) == 0) {
			*out = samplers[i].sampler;
			return true;
		}
	return false;
}

/* False: the text is not a ratio. */
static bool find_ratio(const char *text, double *out)
{
	char *end = NULL;
	double ratio = *text ? strtod(text, &end) : 1;

	if ((end && *end) || !(ratio >= 0 && ratio <= 1))
		return false;
	*out = ratio;
	return true;
}

/* An unknown sampler, as the specification asks, is as if none were named. */
static void read_sampler(wh_otel_settings *out)
{
	const char *name = variable("OTEL_TRACES_SAMPLER");

	out->by_parent = true;
	out->sampler = WH_SAMPLE_ALL;
	out->ratio = 1;
	(void)find_ratio(variable("OTEL_TRACES_SAMPLER_ARG"), &out->ratio);
	if (find_sampler(name, &out->sampler))
		out->by_parent = sampler_name(name) != name;
}

/* ---- what has no effect ---- */

static void warn_of(wh_buf *out, const char *name, const char *value, const char *what)
{
	wh_buf_printf(out, "%s=%.60s: %s\n", name, value, what);
}

/* Collectors take JSON where they take protobuf over HTTP. */
static void warn_protocol(wh_buf *out, const char *name)
{
	const char *value = variable(name);

	if (*value && strcmp(value, "http/json") != 0 &&
	    strcmp(value, "http/protobuf") != 0)
		warn_of(out, name, value,
			"it is ignored: JSON over HTTP is sent; let the endpoint name the "
			"collector's port for HTTP, usually 4318, and set this variable "
			"to http/json");
}

static void warn_milliseconds(wh_buf *out, const char *name)
{
	const char *value = variable(name);
	int64_t ms;

	if (*value && !is_milliseconds(value, &ms))
		warn_of(out, name, value,
			"it is ignored: write milliseconds, such as 5000");
}

static void warn_sampler(wh_buf *out)
{
	static const char arg[] = "OTEL_TRACES_SAMPLER_ARG";
	const char *name = variable("OTEL_TRACES_SAMPLER");
	wh_sampler sampler;
	double ratio;

	if (*name && !find_sampler(name, &sampler))
		warn_of(out, "OTEL_TRACES_SAMPLER", name,
			"it is ignored, as if it were parentbased_always_on; known are "
			"always_on, always_off and traceidratio, each also with "
			"parentbased_ before it");
	if (*variable(arg) && !find_ratio(variable(arg), &ratio))
		warn_of(out, arg, variable(arg),
			"it is ignored, as if it were 1; write a ratio from 0 to 1, such "
			"as 0.1");
}

static void warn_endpoints(wh_buf *out)
{
	static const char *const others[] = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
					     "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"};

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (*variable(others[i]))
			wh_buf_printf(
				out,
				"%s is ignored: spans and metrics go to the paths "
				"/v1/traces and /v1/metrics of otel.endpoint or %s\n",
				others[i], endpoint_name);
}

static void warn_variables(wh_buf *out)
{
	warn_protocol(out, "OTEL_EXPORTER_OTLP_PROTOCOL");
	warn_protocol(out, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL");
	warn_protocol(out, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL");
	warn_sampler(out);
	warn_milliseconds(out, "OTEL_BSP_SCHEDULE_DELAY");
	warn_milliseconds(out, "OTEL_METRIC_EXPORT_INTERVAL");
	warn_milliseconds(out, "OTEL_EXPORTER_OTLP_TIMEOUT");
}

void wh_otel_settings_warn(const wherry_config *config, wh_buf *out)
{
	static const wh_setting needy[] = {WH_OTEL_HEADERS, WH_OTEL_SERVICE};
	bool off = strcmp(variable("OTEL_SDK_DISABLED"), "true") == 0;

	if (off)
		return;
	warn_endpoints(out);
	if (*wh_config_text(config, WH_OTEL_ENDPOINT) || *variable(endpoint_name)) {
		warn_variables(out);
		return;
	}
	for (size_t i = 0; i < sizeof(needy) / sizeof(*needy); i++)
		if (wh_config_is_own(config, needy[i]))
			wh_buf_printf(out,
				      "%s has no effect: nothing is sent without "
				      "otel.endpoint, such as http://localhost:4318\n",
				      wherry_config_table()[needy[i]].key);
}

/* ---- all ---- */

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
