/*
 * amqp://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST?NAME=VALUE&NAME=VALUE
 *
 * The names are those of RabbitMQ's own URLs, and exchange, routing_key, mandatory and
 * password.  The value of password may name a source, so that a URL need not contain it.
 */
#include "publish/amqp/amqp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/url.h"
#include "config/secret.h"
#include "config/settings.h"
#include "publish/certificate.h"
#include "publish/parts.h"

#define GUEST "guest" /* The user and the password of a URL without them. */

enum { PORT = 5672, PORT_TLS = 5671, HEARTBEAT_S = 20, SECRET_MAX = 4096 };

static const char *const known[] = {"exchange",   "routing_key", "mandatory",
				    "password",   "heartbeat",   "auth_mechanism",
				    "cacertfile", "certfile",    "keyfile",
				    "verify",     NULL};

static const char example[] = "amqp://user@host:5672/vhost?exchange=orders";

/* ---- in front of the parameters ---- */

static wherry_code read_host(wh_amqp_settings *set, const char *text, size_t len,
			     wherry_error *err)
{
	wh_amqp_host *host = &set->hosts[set->n_hosts];
	const char *bracket = *text == '[' ? memchr(text, ']', len) : NULL;
	const char *from = bracket ? bracket : text;
	const char *colon = memchr(from, ':', len - (size_t)(from - text));
	size_t name_len = colon ? (size_t)(colon - text) : len;
	int64_t port = set->secure ? PORT_TLS : PORT;
	char number[8] = "";

	if (colon)
		(void)snprintf(number, sizeof(number), "%.*s", (int)(len - name_len - 1),
			       colon + 1);
	if (!name_len || set->n_hosts == WH_AMQP_HOSTS ||
	    (colon && (!wh_parse_int(number, &port) || port < 1 || port > 65535)))
		return wh_fail(err, WHERRY_INVALID,
			       "amqp: needs up to %d hosts, as in %s", WH_AMQP_HOSTS,
			       example);
	if (bracket) {
		text++;
		name_len -= 2;
	}
	host->name = strndup(text, name_len);
	host->port = (int)port;
	set->n_hosts++;
	return host->name ? WHERRY_OK : wh_oom(err);
}

static wherry_code read_hosts(wh_amqp_settings *set, const char *text, size_t len,
			      wherry_error *err)
{
	const char *end = text + len;
	wherry_code code = WHERRY_OK;

	do {
		const char *comma = memchr(text, ',', (size_t)(end - text));
		const char *stop = comma ? comma : end;

		code = read_host(set, text, (size_t)(stop - text), err);
		text = comma ? comma + 1 : end;
	} while (code == WHERRY_OK && text < end);
	return code;
}

static wherry_code read_user(wh_amqp_settings *set, const char *text, size_t len,
			     wherry_error *err)
{
	const char *colon = memchr(text, ':', len);
	wherry_code code = wh_decode_part(
		"amqp", text, colon ? (size_t)(colon - text) : len, &set->user, err);

	if (code == WHERRY_OK && colon)
		code = wh_decode_part("amqp", colon + 1, (size_t)(text + len - colon - 1),
				      &set->password, err);
	return code;
}

/* //USER:PASSWORD@HOSTS/VHOST */
static wherry_code read_place(wh_amqp_settings *set, const char *rest, wherry_error *err)
{
	const char *begin = rest + 2;
	size_t len;
	const char *at;
	wherry_code code = WHERRY_OK;

	if (strncmp(rest, "//", 2) != 0)
		return wh_fail(err, WHERRY_INVALID, "amqp: needs a host, as in %s",
			       example);
	len = strcspn(begin, "/?#");
	at = memrchr(begin, '@', len);
	if (at) {
		code = read_user(set, begin, (size_t)(at - begin), err);
		len -= (size_t)(at + 1 - begin);
		begin = at + 1;
	}
	if (code == WHERRY_OK)
		code = read_hosts(set, begin, len, err);
	begin += len;
	if (code != WHERRY_OK || *begin != '/')
		return code;
	len = strcspn(begin + 1, "?#");
	if (memchr(begin + 1, '/', len))
		return wh_fail(err, WHERRY_INVALID,
			       "amqp: write %%2F for a / in the name of a vhost");
	/* "/" is the usual vhost.  RabbitMQ reads an empty one literally, and has none. */
	return len ? wh_decode_part("amqp", begin + 1, len, &set->vhost, err) : WHERRY_OK;
}

/* ---- parameters ---- */

static wherry_code check_template(const char *name, const char *text, wherry_error *err)
{
	while (*text)
		if (wh_template_part(&text) == WH_PART_UNKNOWN)
			return wh_fail(err, WHERRY_INVALID,
				       "%s: a '{' stands for nothing: {topic} and {key} "
				       "do",
				       name);
	return WHERRY_OK;
}

static wherry_code read_template(char *url, const char *name, char **out,
				 wherry_error *err)
{
	char *value = NULL;
	wherry_code code = wh_url_take(url, name, &value, err);

	if (code == WHERRY_OK && value)
		code = check_template(name, value, err);
	if (code == WHERRY_OK && value) {
		free(*out);
		*out = value;
		return WHERRY_OK;
	}
	free(value);
	return code;
}

/* One of two words. */
static wherry_code read_choice(char *url, const char *name, const char *yes,
			       const char *no, bool *out, wherry_error *err)
{
	char *value = NULL;
	wherry_code code = wh_url_take(url, name, &value, err);

	if (code == WHERRY_OK && value && strcmp(value, yes) != 0 &&
	    strcmp(value, no) != 0)
		code = wh_fail(err, WHERRY_INVALID, "%s=%.20s: %s or %s", name, value,
			       yes, no);
	else if (code == WHERRY_OK && value)
		*out = strcmp(value, yes) == 0;
	free(value);
	return code;
}

static wherry_code read_heartbeat(char *url, int *out, wherry_error *err)
{
	char *value = NULL;
	wherry_code code = wh_url_take(url, "heartbeat", &value, err);
	int64_t seconds;

	if (code == WHERRY_OK && value) {
		if (wh_parse_int(value, &seconds) && seconds >= 1 && seconds <= 3600)
			*out = (int)seconds;
		else
			code = wh_fail(err, WHERRY_INVALID,
				       "heartbeat=%.20s: a number of seconds, 1 to 3600",
				       value);
	}
	free(value);
	return code;
}

static wherry_code read_file(char *url, const char *name, char **out, wherry_error *err)
{
	wherry_code code = wh_url_take(url, name, out, err);

	return code == WHERRY_OK && *out ? wh_pem_check(name, *out, err) : code;
}

static wherry_code read_password(char *url, const wherry_config *config, char **out,
				 wherry_error *err)
{
	wh_buf secret = WH_BUF_INIT(SECRET_MAX);
	char *value = NULL;
	wherry_code code = wh_url_take(url, "password", &value, err);

	if (code == WHERRY_OK && value) {
		if (!wh_may_read(wh_config_text(config, WH_AMQP_SECRETS), value))
			code = wh_fail(err, WHERRY_DENIED,
				       "password: may not be read from there: set "
				       "amqp.secrets=%.60s if those who write this URL "
				       "may read it",
				       value);
		else
			code = wh_prefix(err, wh_secret_read(value, &secret, err),
					 "password");
		if (code == WHERRY_OK) {
			free(*out);
			*out = strdup(wh_buf_str(&secret));
			code = *out ? WHERRY_OK : wh_oom(err);
		}
	}
	if (value)
		explicit_bzero(value, strlen(value));
	free(value);
	wh_secret_clear(&secret);
	return code;
}

static const char *known_at(const void *ctx, size_t i)
{
	(void)ctx;
	return known[i];
}

/* The text may be a piece of a password with an & in it, which errors must not repeat. */
static wherry_code refuse_unknown(const char *url, wherry_error *err)
{
	const char *at = strchr(url, '?');
	char name[40];
	const char *near;

	if (!at || !at[1])
		return WHERRY_OK;
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 1, "=&"), at + 1);
	near = wh_nearest(name, known_at, NULL);
	return wh_fail(err, WHERRY_INVALID,
		       "amqp: a parameter of the URL is unknown%s%s%s; there are "
		       "exchange, routing_key, mandatory, password, heartbeat, "
		       "auth_mechanism, cacertfile, certfile, keyfile and verify",
		       near ? "; did you mean '" : "", near ? near : "", near ? "'" : "");
}

static wherry_code read_parameters(wh_amqp_settings *set, char *url,
				   const wherry_config *config, wherry_error *err)
{
	wherry_code code = read_template(url, "exchange", &set->exchange, err);

	if (code == WHERRY_OK)
		code = read_template(url, "routing_key", &set->routing_key, err);
	if (code == WHERRY_OK)
		code = read_choice(url, "mandatory", "on", "off", &set->mandatory, err);
	if (code == WHERRY_OK)
		code = read_choice(url, "verify", "verify_peer", "verify_none",
				   &set->verify, err);
	if (code == WHERRY_OK)
		code = read_choice(url, "auth_mechanism", "external", "plain",
				   &set->external, err);
	if (code == WHERRY_OK)
		code = read_heartbeat(url, &set->heartbeat_s, err);
	if (code == WHERRY_OK)
		code = read_file(url, "cacertfile", &set->ca_file, err);
	if (code == WHERRY_OK)
		code = read_file(url, "certfile", &set->cert, err);
	if (code == WHERRY_OK)
		code = read_file(url, "keyfile", &set->key, err);
	if (code == WHERRY_OK)
		code = read_password(url, config, &set->password, err);
	return code == WHERRY_OK ? refuse_unknown(url, err) : code;
}

static wherry_code check_tls(const wh_amqp_settings *set, wherry_error *err)
{
	if (!set->secure && (set->ca_file || set->cert || set->key || !set->verify))
		return wh_fail(err, WHERRY_INVALID,
			       "cacertfile, certfile, keyfile and verify are for amqps:");
	if (!set->key != !set->cert)
		return wh_fail(err, WHERRY_INVALID, "certfile and keyfile go together");
	return WHERRY_OK;
}

static wherry_code check_external(const wh_amqp_settings *set, wherry_error *err)
{
	if (!set->external)
		return WHERRY_OK;
	if (!set->cert)
		return wh_fail(err, WHERRY_INVALID,
			       "auth_mechanism=external logs in with a certificate: use "
			       "amqps: and add certfile= and keyfile=");
	if (strcmp(set->user, GUEST) != 0 || strcmp(set->password, GUEST) != 0)
		return wh_fail(err, WHERRY_INVALID,
			       "auth_mechanism=external: the certificate names the "
			       "user, so leave user and password out of the URL");
	return WHERRY_OK;
}

static bool set_defaults(wh_amqp_settings *set)
{
	set->user = strdup(GUEST);
	set->password = strdup(GUEST);
	set->vhost = strdup("/");
	set->exchange = strdup("");
	set->routing_key = strdup("{topic}");
	return set->user && set->password && set->vhost && set->exchange &&
	       set->routing_key;
}

wherry_code wh_amqp_settings_read(bool secure, const char *rest,
				  const wherry_config *config, wh_amqp_settings *out,
				  wherry_error *err)
{
	wh_amqp_settings set = {.secure = secure,
				.verify = true,
				.mandatory = true,
				.heartbeat_s = HEARTBEAT_S,
				.limit_us = wh_delivery_limit(config)};
	char *url = strdup(rest);
	wherry_code code = url && set_defaults(&set) ? WHERRY_OK : wh_oom(err);

	if (code == WHERRY_OK)
		code = read_place(&set, url, err);
	if (code == WHERRY_OK)
		code = wh_url_check_parameters(url, known, err);
	if (code == WHERRY_OK)
		code = read_parameters(&set, url, config, err);
	if (code == WHERRY_OK)
		code = check_tls(&set, err);
	if (code == WHERRY_OK)
		code = check_external(&set, err);
	if (url)
		explicit_bzero(url, strlen(url));
	free(url);
	if (code == WHERRY_OK)
		*out = set;
	else
		wh_amqp_settings_clear(&set);
	return code;
}

void wh_amqp_settings_clear(wh_amqp_settings *set)
{
	for (size_t i = 0; i < set->n_hosts; i++)
		free(set->hosts[i].name);
	if (set->password)
		explicit_bzero(set->password, strlen(set->password));
	free(set->user);
	free(set->password);
	free(set->vhost);
	free(set->exchange);
	free(set->routing_key);
	free(set->ca_file);
	free(set->cert);
	free(set->key);
	*set = (wh_amqp_settings){0};
}
