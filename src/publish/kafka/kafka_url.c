/*
 * kafka://HOST:PORT,HOST:PORT?NAME=VALUE&NAME=VALUE
 *
 * Names are librdkafka's, except those in own[].  A value that begins with env:, file: or
 * credential: is read from there, so that a URL need not contain secrets.
 */
#include "publish/kafka/kafka.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/secret.h"
#include "config/settings.h"
#include "publish/parts.h"

enum { SECRET_MAX = 64 * 1024, ERROR_LEN = 200, MESSAGE_MAX = 1000000 };

/* Values that replace librdkafka's defaults. */
static const struct {
	const char *name, *value;
} defaults[] = {
	{"client.id", "wherry"},
	{"enable.idempotence", "true"},
	{"partitioner", "murmur2_random"}, /* The Java client's. */
	{"compression.type", "lz4"},
	{"linger.ms", "1"},
	/* More make requests smaller.  A broker thread that has nothing to send while messages
	 * of several partitions wait uses a whole processor unless a request waits too. */
	{"max.in.flight.requests.per.connection", "2"},
	{"socket.nagle.disable", "true"},
	{"socket.keepalive.enable", "true"},
	{"reconnect.backoff.max.ms", "1000"},
	{"topic.metadata.propagation.max.ms", "5000"},
	{"queue.buffering.max.kbytes", "16384"},
	{"ssl.endpoint.identification.algorithm", "https"},
	{"log.connection.close", "false"},
};

/* ---- text ---- */

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode percent-encoding.  The caller frees the result; NULL: out of memory. */
static char *decode(const char *text, size_t len)
{
	char *out = malloc(len + 1);
	size_t n = 0;

	for (size_t i = 0; out && i < len; i++) {
		int high = text[i] == '%' && i + 2 < len ? hex(text[i + 1]) : -1;
		int low = high >= 0 ? hex(text[i + 2]) : -1;

		if (low >= 0) {
			out[n++] = (char)(high * 16 + low);
			i += 2;
		} else {
			out[n++] = text[i];
		}
	}
	if (out)
		out[n] = 0;
	return out;
}

/* ---- secrets ---- */

static wherry_code read_secret(const char *name, const char *path, char **out,
			       wherry_error *err)
{
	FILE *file = fopen(path, "re");
	wherry_code code = WHERRY_OK;
	char *text;
	size_t n;

	if (!file)
		return wh_fail_errno(err, errno, "%s: cannot read '%.80s'", name, path);
	text = malloc(SECRET_MAX + 1);
	n = text ? fread(text, 1, SECRET_MAX + 1, file) : 0;
	if (!text)
		code = wh_oom(err);
	else if (ferror(file))
		code = wh_fail_errno(err, errno, "%s: cannot read '%.80s'", name, path);
	else if (n > SECRET_MAX)
		code = wh_fail(err, WHERRY_TOOBIG, "%s: '%.80s' is over %d bytes", name,
			       path, SECRET_MAX);
	(void)fclose(file);
	if (code != WHERRY_OK) {
		free(text);
		return code;
	}
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	text[n] = 0;
	*out = text;
	return WHERRY_OK;
}

wherry_code wh_kafka_secret(const char *name, const char *text, char **out,
			    wherry_error *err)
{
	const char *value = text;

	if (strncmp(text, "file:", 5) == 0)
		return read_secret(name, text + 5, out, err);
	if (strncmp(text, "credential:", 11) == 0) {
		wh_buf credential = WH_BUF_INIT(SECRET_MAX);
		wherry_code code = wh_secret_read(text, &credential, err);

		*out = code == WHERRY_OK ? wh_buf_take(&credential) : NULL;
		wh_buf_clear(&credential);
		(void)wh_prefix(err, code, "%.60s", name);
		return code == WHERRY_OK && !*out ? wh_oom(err) : code;
	}
	if (strncmp(text, "env:", 4) == 0) {
		value = getenv(text + 4); // NOLINT(concurrency-mt-unsafe): nobody sets it
		if (!value)
			return wh_fail(err, WHERRY_NOTFOUND,
				       "%s: the environment has no %.80s", name,
				       text + 4);
	}
	*out = strdup(value);
	return *out ? WHERRY_OK : wh_oom(err);
}

/* ---- names ---- */

static const char *const own[] = {"topic", "topic.prefix", "create",
				  "sasl.oauthbearer.token"};

enum { OWN_COUNT = sizeof(own) / sizeof(*own) };

/* The i-th name that is known; lines: names from librdkafka's table. */
static const char *known_at(const void *ctx, size_t i)
{
	const char *const *lines = ctx;

	return i < OWN_COUNT ? own[i] : lines[i - OWN_COUNT];
}

/* Cut the names out of librdkafka's table, where they are the first column.  The result
 * ends in NULL. */
static const char **first_column(char *text)
{
	size_t n = 0, most = strlen(text) / 2 + 2;
	const char **names = calloc(most, sizeof(*names));

	for (char *line = text; names && line && *line && n < most - 1;) {
		char *end = line + strcspn(line, "\n");
		size_t len = strcspn(line, " |\n");

		if (len && islower((unsigned char)*line)) {
			names[n++] = line;
			line[len] = 0;
		}
		line = end[0] ? end + 1 : NULL;
	}
	return names;
}

/* The most similar known name; "": none is similar.  The text may then be a piece of a
 * password with an & in it, which errors must not repeat. */
static void nearest_name(const char *name, char out[80])
{
	char *text = NULL;
	size_t len = 0;
	FILE *file = open_memstream(&text, &len);
	const char **names = NULL;
	const char *near = NULL;

	if (file) {
		rd_kafka_conf_properties_show(file);
		(void)fclose(file);
		names = text ? first_column(text) : NULL;
	}
	if (names)
		near = wh_nearest(name, known_at, names);
	(void)snprintf(out, 80, "%s", near ? near : "");
	free(names);
	free(text);
}

static wherry_code unknown_name(const char *name, wherry_error *err)
{
	char near[80];

	nearest_name(name, near);
	if (!*near)
		return wh_fail(
			err, WHERRY_INVALID,
			"kafka: a parameter of the URL is unknown; librdkafka's "
			"CONFIGURATION.md lists what there is, and an & in a value "
			"is %%26");
	return wh_fail(err, WHERRY_INVALID,
		       "kafka: has no parameter '%.60s'; did you mean '%s'? librdkafka's "
		       "CONFIGURATION.md lists what there is",
		       name, near);
}

static wherry_code no_value(const char *name, wherry_error *err)
{
	char near[80];

	nearest_name(name, near);
	return wh_fail(err, WHERRY_INVALID,
		       "%s%.60s%s has no value: parameters are NAME=VALUE, with & "
		       "between them, and an & in a value is %%26",
		       *near ? "'" : "a parameter of the URL", *near ? name : "",
		       *near ? "'" : "");
}

/* ---- parameters ---- */

static wherry_code keep(char **place, const char *value, wherry_error *err)
{
	free(*place);
	*place = strdup(value);
	return *place ? WHERRY_OK : wh_oom(err);
}

/* partitions:3,replication:1 */
static wherry_code read_create(wh_kafka_settings *set, const char *value,
			       wherry_error *err)
{
	int partitions = 0, replication = 1;

	for (const char *at = value; *at;) {
		size_t len = strcspn(at, ",");
		const char *colon = memchr(at, ':', len);
		char number[12] = "";
		int64_t n = 0;

		if (colon)
			(void)snprintf(number, sizeof(number), "%.*s",
				       (int)(at + len - colon - 1), colon + 1);
		if (!colon || !wh_parse_int(number, &n) || n < 1 || n > 100000)
			break;
		if (strncmp(at, "partitions:", 11) == 0)
			partitions = (int)n;
		else if (strncmp(at, "replication:", 12) == 0)
			replication = (int)n;
		else
			break;
		at += len + (at[len] == ',');
		if (!*at && partitions) {
			set->partitions = partitions;
			set->replication = replication;
			return WHERRY_OK;
		}
	}
	return wh_fail(err, WHERRY_INVALID,
		       "create=%.40s: say create=partitions:3,replication:1", value);
}

static wherry_code read_limit(wh_kafka_settings *set, const wherry_config *config,
			      const char *name, const char *value, wherry_error *err)
{
	int64_t ms, claim_us = wh_config_int(config, WH_RELAY_CLAIM_TIMEOUT);

	if (!wh_parse_int(value, &ms) || ms < 1 || ms > INT32_MAX)
		return wh_fail(err, WHERRY_INVALID,
			       "%s=%.20s: a number of milliseconds, from 1", name, value);
	if (ms * 1000 >= claim_us)
		return wh_fail(err, WHERRY_INVALID,
			       "%s (%lld ms) must be shorter than relay.claim_timeout "
			       "(%lld ms): a claim must outlive its delivery",
			       name, (long long)ms, (long long)(claim_us / 1000));
	set->limit_us = ms * 1000;
	return WHERRY_OK;
}

static wherry_code set_property(wh_kafka_settings *set, const char *name,
				const char *value, wherry_error *err)
{
	char why[ERROR_LEN] = "";

	switch (rd_kafka_conf_set(set->conf, name, value, why, sizeof(why))) {
	case RD_KAFKA_CONF_OK:
		return WHERRY_OK;
	case RD_KAFKA_CONF_UNKNOWN:
		return unknown_name(name, err);
	case RD_KAFKA_CONF_INVALID:
	default:
		break;
	}
	/* librdkafka's text quotes the value, which may be a secret. */
	if (strstr(name, "password") || strstr(name, "secret") || strstr(name, ".pem") ||
	    strncmp(name, "sasl.", 5) == 0)
		return wh_fail(err, WHERRY_INVALID, "%s: librdkafka refuses it", name);
	return wh_fail(err, WHERRY_INVALID, "%.60s: %s", name, why);
}

static wherry_code set_parameter(wh_kafka_settings *set, const wherry_config *config,
				 const char *name, const char *value, wherry_error *err)
{
	wherry_code code;

	if (strcmp(name, "topic") == 0)
		return keep(&set->topic, value, err);
	if (strcmp(name, "topic.prefix") == 0)
		return keep(&set->prefix, value, err);
	if (strcmp(name, "create") == 0)
		return read_create(set, value, err);
	if (strncmp(name, "transaction", strlen("transaction")) == 0)
		return wh_fail(
			err, WHERRY_INVALID,
			"%.60s: the relay sends without transactions, and "
			"enable.idempotence=true prevents duplicates from retries: "
			"leave it out",
			name);
	if (strcmp(name, "delivery.timeout.ms") == 0 ||
	    strcmp(name, "message.timeout.ms") == 0)
		return read_limit(set, config, name, value, err);
	if (strcmp(name, "bootstrap.servers") == 0 ||
	    strcmp(name, "metadata.broker.list") == 0)
		return wh_fail(err, WHERRY_INVALID,
			       "%s: name the brokers in front, as in "
			       "kafka://host1:9092,host2:9092",
			       name);
	if (strcmp(name, "delivery.report.only.error") == 0)
		return wh_fail(err, WHERRY_INVALID,
			       "%s: without reports nothing would count as delivered",
			       name);
	code = wh_kafka_allow(config, name, value, err);
	return code == WHERRY_OK ? set_property(set, name, value, err) : code;
}

/* One NAME=VALUE of len bytes. */
static wherry_code read_parameter(wh_kafka_settings *set, const wherry_config *config,
				  const char *text, size_t len, wherry_error *err)
{
	const char *equals = memchr(text, '=', len);
	size_t name_len = equals ? (size_t)(equals - text) : len;
	char *name = decode(text, name_len), *written = NULL, *value = NULL;
	wherry_code code = WHERRY_OK;

	if (equals)
		written = decode(equals + 1, len - name_len - 1);
	if (!name || (equals && !written))
		code = wh_oom(err);
	else if (!equals)
		code = no_value(name, err);
	else if (!wh_may_read(wh_config_text(config, WH_KAFKA_SECRETS), written))
		code = wh_fail(err, WHERRY_DENIED,
			       "%.60s: may not be read from there: set "
			       "kafka.secrets=%.60s if those who write this URL may read "
			       "it",
			       name, written);
	else if (strcmp(name, "sasl.oauthbearer.token") == 0)
		code = keep(&set->token, written, err); /* Read when a token is due. */
	else
		code = wh_kafka_secret(name, written, &value, err);
	if (code == WHERRY_OK && value)
		code = set_parameter(set, config, name, value, err);
	free(value);
	free(written);
	free(name);
	return code;
}

static wherry_code read_brokers(wh_kafka_settings *set, const char *from, size_t len,
				wherry_error *err)
{
	if (!len || memchr(from, '@', len) || memchr(from, '/', len))
		return wh_fail(err, WHERRY_INVALID,
			       "kafka: needs brokers, as in kafka://host1:9092,host2:9092"
			       "?topic=orders; user and password are parameters: "
			       "sasl.username, sasl.password=env:NAME");
	set->brokers = strndup(from, len);
	return set->brokers ? set_property(set, "bootstrap.servers", set->brokers, err)
			    : wh_oom(err);
}

/* ---- parameters that follow from others ---- */

/* The value of a property; "": it is not set. */
static void get(const wh_kafka_settings *set, const char *name, char *out, size_t cap)
{
	size_t size = cap;

	*out = 0;
	if (rd_kafka_conf_get(set->conf, name, out, &size) != RD_KAFKA_CONF_OK)
		*out = 0;
}

/* Do the parameters of the URL have a name with this beginning? */
static bool names(const char *parameters, const char *beginning)
{
	size_t len = strlen(beginning);

	for (const char *at = parameters; *at; at += strcspn(at, "&")) {
		at += *at == '&';
		if (strncmp(at, beginning, len) == 0)
			return true;
	}
	return false;
}

/* Use TLS for credentials unless the URL chooses another security.protocol. */
static wherry_code choose_security(wh_kafka_settings *set, const char *parameters,
				   wherry_error *err)
{
	bool sasl = names(parameters, "sasl.");

	if (sasl && !names(parameters, "sasl.mechanism"))
		return wh_fail(err, WHERRY_INVALID,
			       "sasl.mechanism is missing: PLAIN, SCRAM-SHA-256, "
			       "SCRAM-SHA-512 or OAUTHBEARER");
	if (names(parameters, "security.protocol"))
		return WHERRY_OK;
	if (sasl)
		return set_property(set, "security.protocol", "sasl_ssl", err);
	if (names(parameters, "ssl."))
		return set_property(set, "security.protocol", "ssl", err);
	return WHERRY_OK;
}

static wherry_code conclude(wh_kafka_settings *set, const char *parameters,
			    wherry_error *err)
{
	wherry_code code = choose_security(set, parameters, err);
	char text[32];
	int64_t number;

	get(set, "enable.idempotence", text, sizeof(text));
	set->ordered = strcmp(text, "true") == 0;
	if (code == WHERRY_OK && set->ordered)
		code = set_property(set, "enable.gapless.guarantee", "true", err);
	if (code == WHERRY_OK)
		code = set_property(set, "message.timeout.ms", "0", err);
	get(set, "message.max.bytes", text, sizeof(text));
	set->message_max = wh_parse_int(text, &number) ? (size_t)number : MESSAGE_MAX;
	set->interval = names(parameters, "statistics.interval.ms");
	get(set, "sasl.oauthbearer.method", text, sizeof(text));
	set->oidc = strcmp(text, "oidc") == 0;
	return code;
}

wherry_code wh_kafka_settings_read(const char *rest, const wherry_config *config,
				   wh_kafka_settings *out, wherry_error *err)
{
	wh_kafka_settings set = {.conf = rd_kafka_conf_new()};
	const char *hosts = rest + (strncmp(rest, "//", 2) == 0 ? 2 : 0);
	size_t hosts_len = strcspn(hosts, "?");
	const char *parameters = hosts + hosts_len + (hosts[hosts_len] == '?');
	wherry_code code = WHERRY_OK;

	set.limit_us = wh_delivery_limit(config);
	for (size_t i = 0; i < sizeof(defaults) / sizeof(*defaults); i++)
		if (code == WHERRY_OK)
			code = set_property(&set, defaults[i].name, defaults[i].value,
					    err);
	if (code == WHERRY_OK)
		code = read_brokers(&set, hosts, hosts_len, err);
	for (const char *at = parameters; code == WHERRY_OK && *at;) {
		size_t len = strcspn(at, "&");

		if (len)
			code = read_parameter(&set, config, at, len, err);
		at += len + (at[len] == '&');
	}
	if (code == WHERRY_OK)
		code = conclude(&set, parameters, err);
	if (code == WHERRY_OK)
		code = wh_kafka_promise(&set, err);
	if (code == WHERRY_OK)
		*out = set;
	else
		wh_kafka_settings_clear(&set);
	return code;
}

const char *wh_kafka_topic_of(const wh_kafka_settings *set, const wherry_message *msg,
			      char *buf, size_t cap)
{
	const char *name = set->topic ? set->topic : msg->topic;

	if (!set->prefix)
		return name;
	(void)snprintf(buf, cap, "%s%s", set->prefix, name);
	return buf;
}

void wh_kafka_settings_clear(wh_kafka_settings *set)
{
	if (set->conf)
		rd_kafka_conf_destroy(set->conf);
	free(set->brokers);
	free(set->topic);
	free(set->prefix);
	free(set->token);
	*set = (wh_kafka_settings){0};
}
