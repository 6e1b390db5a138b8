/*
 * nats://HOST:PORT,HOST:PORT/SUBJECT, and the settings nats.*.
 */
#include "publish/nats/nats.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/secret.h"
#include "config/settings.h"
#include "publish/certificate.h"
#include "publish/parts.h"

enum { SECRET_MAX = 64 * 1024, PEM_MAX = 1 << 20, SERVERS_MOST = 64 };

static void forget(char **text)
{
	if (*text)
		explicit_bzero(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

static void settings_free(wh_nats_settings *set)
{
	for (size_t i = 0; i < set->n_servers; i++)
		free(set->servers[i]);
	free(set->servers);
	free(set->hosts);
	free(set->subject);
	free(set->stream);
	free(set->create);
	free(set->user);
	forget(&set->password);
	forget(&set->token);
	forget(&set->jwt);
	forget(&set->seed);
	free(set->ca);
	free(set->cert);
	forget(&set->key);
	free(set);
}

wh_nats_settings *wh_nats_settings_share(wh_nats_settings *set)
{
	atomic_fetch_add(&set->refs, 1);
	return set;
}

void wh_nats_settings_leave(wh_nats_settings *set)
{
	if (set && atomic_fetch_sub(&set->refs, 1) == 1)
		settings_free(set);
}

/* ---- the URL ---- */

static wherry_code bad_hosts(const wh_nats_settings *set, wherry_error *err)
{
	const char *scheme = set->secure ? "nats+tls" : "nats";

	return wh_fail(
		err, WHERRY_INVALID,
		"%s: needs servers, and perhaps a subject, as in "
		"%s://host1:4222,host2:4222/orders.{key}; user and password are the "
		"settings nats.user and nats.password=env:NAME",
		scheme, scheme);
}

static bool is_host(const char *text, size_t len)
{
	if (!len || *text == ':')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr(".-_:[]%", text[i]))
			return false;
	return true;
}

static wherry_code add_server(wh_nats_settings *set, const char *host, size_t len,
			      wherry_error *err)
{
	char **servers = realloc(set->servers, (set->n_servers + 1) * sizeof(*servers));
	wh_buf url = WH_BUF_INIT(512);

	if (!servers)
		return wh_oom(err);
	set->servers = servers;
	wh_buf_printf(&url, "%s://%.*s", set->secure ? "tls" : "nats", (int)len, host);
	servers[set->n_servers] = wh_buf_take(&url);
	if (!servers[set->n_servers])
		return bad_hosts(set, err);
	set->n_servers++;
	return WHERRY_OK;
}

static wherry_code read_url(wh_nats_settings *set, const char *rest, wherry_error *err)
{
	const char *hosts = rest + 2, *subject;
	size_t len;
	wherry_code code = WHERRY_OK;

	if (strncmp(rest, "//", 2) != 0)
		return bad_hosts(set, err);
	len = strcspn(hosts, "/?#");
	for (const char *at = hosts; code == WHERRY_OK;) {
		size_t n = strcspn(at, ",/?#");

		if (!is_host(at, n) || set->n_servers == SERVERS_MOST)
			return bad_hosts(set, err);
		code = add_server(set, at, n, err);
		if (at[n] != ',')
			break;
		at += n + 1;
	}
	if (code != WHERRY_OK)
		return code;
	subject = hosts + len + (hosts[len] == '/');
	set->hosts = strndup(hosts, len);
	set->subject = strdup(*subject ? subject : "{topic}");
	return set->hosts && set->subject ? wh_nats_template_check(set->subject, err)
					  : wh_oom(err);
}

/* ---- the settings ---- */

/* Copy a text; an empty one is left out. */
static wherry_code copy(const wherry_config *config, wh_setting which, char **out,
			wherry_error *err)
{
	const char *text = wh_config_text(config, which);

	if (!*text)
		return WHERRY_OK;
	*out = strdup(text);
	return *out ? WHERRY_OK : wh_oom(err);
}

/* Read what `from` names; see wh_secret_read(). */
static wherry_code take(const char *from, size_t most, const char *name, char **out,
			wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(most);
	wherry_code code = wh_secret_read(from, &text, err);

	if (code == WHERRY_OK && !(*out = strdup(wh_buf_str(&text))))
		code = wh_oom(err);
	wh_secret_clear(&text);
	return code == WHERRY_OK ? code : wh_prefix(err, code, "%s", name);
}

static wherry_code read_secret(const wherry_config *config, wh_setting which,
			       const char *name, char **out, wherry_error *err)
{
	const char *text = wh_config_text(config, which);

	return *text ? take(text, SECRET_MAX, name, out, err) : WHERRY_OK;
}

static wherry_code read_pem(const wherry_config *config, wh_setting which,
			    const char *name, char **out, wherry_error *err)
{
	const char *path = wh_config_text(config, which);
	wh_buf from = WH_BUF_INIT(SECRET_MAX);
	wherry_code code;

	if (!*path)
		return WHERRY_OK;
	wh_buf_printf(&from, "file:%s", path);
	code = take(wh_buf_str(&from), PEM_MAX, name, out, err);
	wh_buf_clear(&from);
	if (code == WHERRY_OK && !wh_pem_has(*out, strlen(*out)))
		code = wh_pem_fail(name, path, err);
	return code;
}

static wherry_code read_files(wh_nats_settings *set, const wherry_config *config,
			      wherry_error *err)
{
	wherry_code code =
		read_pem(config, WH_NATS_CA_FILE, "nats.ca_file", &set->ca, err);

	if (code == WHERRY_OK)
		code = read_pem(config, WH_NATS_CLIENT_CERT, "nats.client_cert",
				&set->cert, err);
	if (code == WHERRY_OK)
		code = read_pem(config, WH_NATS_CLIENT_KEY, "nats.client_key", &set->key,
				err);
	if (code == WHERRY_OK && !set->cert != !set->key)
		code = wh_fail(err, WHERRY_INVALID,
			       "nats.client_cert and nats.client_key need each other");
	if (code == WHERRY_OK && !set->secure && (set->ca || set->cert))
		code = wh_fail(
			err, WHERRY_INVALID,
			"nats.ca_file and nats.client_cert have a meaning with TLS "
			"only: write nats+tls://");
	return code;
}

static wherry_code read_keys(wh_nats_settings *set, const wherry_config *config,
			     wherry_error *err)
{
	char *text = NULL, public[WH_NATS_KEY_LEN];
	wherry_code code =
		read_secret(config, WH_NATS_CREDENTIALS, "nats.credentials", &text, err);

	if (code == WHERRY_OK && text) {
		code = wh_nats_credentials(text, &set->jwt, &set->seed, err);
		if (code != WHERRY_OK)
			(void)wh_prefix(err, code, "nats.credentials");
	}
	forget(&text);
	if (code != WHERRY_OK || set->seed)
		return code;
	code = read_secret(config, WH_NATS_SEED, "nats.seed", &set->seed, err);
	if (code != WHERRY_OK || !set->seed)
		return code;
	code = wh_nats_public_key(set->seed, public, err);
	return code == WHERRY_OK ? code : wh_prefix(err, code, "nats.seed");
}

/* A server takes one kind of credentials. */
static wherry_code check_kinds(const wherry_config *config, const wh_nats_settings *set,
			       wherry_error *err)
{
	int kinds = !!*wh_config_text(config, WH_NATS_CREDENTIALS) +
		    !!*wh_config_text(config, WH_NATS_SEED) + !!set->token +
		    (set->user || set->password);

	if (kinds > 1)
		return wh_fail(err, WHERRY_INVALID,
			       "set one of nats.credentials, nats.seed, nats.token, and "
			       "nats.user with nats.password");
	if (!set->user != !set->password)
		return wh_fail(err, WHERRY_INVALID,
			       "nats.user and nats.password need each other: set "
			       "nats.user=NAME and nats.password=env:NAME");
	return WHERRY_OK;
}

static wherry_code read_credentials(wh_nats_settings *set, const wherry_config *config,
				    wherry_error *err)
{
	wherry_code code = copy(config, WH_NATS_USER, &set->user, err);

	if (code == WHERRY_OK)
		code = read_secret(config, WH_NATS_PASSWORD, "nats.password",
				   &set->password, err);
	if (code == WHERRY_OK)
		code = read_secret(config, WH_NATS_TOKEN, "nats.token", &set->token, err);
	if (code == WHERRY_OK)
		code = read_keys(set, config, err);
	return code == WHERRY_OK ? check_kinds(config, set, err) : code;
}

static wherry_code read_stream(wh_nats_settings *set, const wherry_config *config,
			       wherry_error *err)
{
	wherry_code code = copy(config, WH_NATS_STREAM, &set->stream, err);

	if (code == WHERRY_OK)
		code = copy(config, WH_NATS_CREATE_STREAM, &set->create, err);
	if (code != WHERRY_OK)
		return code;
	set->replicas = wh_config_int(config, WH_NATS_REPLICAS);
	if (set->stream && strpbrk(set->stream, " \t\r\n.*>/\\"))
		return wh_fail(err, WHERRY_INVALID,
			       "nats.stream: the name of a stream, such as ORDERS, has "
			       "no blanks, dots, slashes, * and >");
	if (set->create && !set->stream)
		return wh_fail(err, WHERRY_INVALID,
			       "nats.create_stream needs the name of the stream, "
			       "nats.stream");
	return WHERRY_OK;
}

wherry_code wh_nats_settings_read(bool secure, const char *rest,
				  const wherry_config *config, wh_nats_settings **out,
				  wherry_error *err)
{
	wh_nats_settings *set = calloc(1, sizeof(*set));
	wherry_code code;

	if (!set)
		return wh_oom(err);
	atomic_init(&set->refs, 1);
	set->secure = secure;
	set->limit_us = wh_delivery_limit(config);
	code = read_url(set, rest, err);
	if (code == WHERRY_OK)
		code = read_stream(set, config, err);
	if (code == WHERRY_OK)
		code = read_credentials(set, config, err);
	if (code == WHERRY_OK)
		code = read_files(set, config, err);
	if (code == WHERRY_OK)
		*out = set;
	else
		settings_free(set);
	return code;
}

void wh_nats_warn(const char *rest, const wherry_config *config, wh_buf *out)
{
	wh_nats_settings *set;

	if (wh_nats_settings_read(false, rest, config, &set, NULL) != WHERRY_OK)
		return;
	if (set->password || set->token)
		wh_buf_puts(out,
			    "nats: sends nats.password or nats.token and all messages "
			    "unencrypted: use nats+tls:\n");
	wh_nats_settings_leave(set);
}
