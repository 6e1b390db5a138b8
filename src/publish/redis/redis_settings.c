/*
 * redis://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?stream=TEMPLATE
 * redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DATABASE?stream=TEMPLATE
 *
 * and the settings redis.*.
 */
#include "publish/redis/redis.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/url.h"
#include "config/secret.h"
#include "config/settings.h"
#include "publish/certificate.h"
#include "publish/parts.h"

enum { PORT = 6379, PORT_SENTINEL = 26379, SECRET_MAX = 4096, DATABASES_MOST = 1000000 };

static const char *const known[] = {"stream", NULL};

static void forget(char **text)
{
	if (*text)
		explicit_bzero(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

void wh_redis_settings_clear(wh_redis_settings *set)
{
	free(set->master);
	free(set->stream);
	free(set->user);
	forget(&set->password);
	free(set->sentinel_user);
	forget(&set->sentinel_password);
	free(set->ca_file);
	free(set->cert);
	free(set->key);
	*set = (wh_redis_settings){0};
}

/* ---- the URL ---- */

static wherry_code bad_url(bool sentinel, wherry_error *err)
{
	return wh_fail(err, WHERRY_INVALID, "redis: the URL is not %s",
		       sentinel ? "like redis+sentinel://host1:26379,host2:26379/master"
				: "like redis://host:6379/0?stream={topic}");
}

/* USER:PASSWORD; the user may be empty. */
static wherry_code read_user(wh_redis_settings *set, const char *text, size_t len,
			     wherry_error *err)
{
	const char *colon = memchr(text, ':', len);
	size_t user_len = colon ? (size_t)(colon - text) : len;
	wherry_code code = WHERRY_OK;

	if (user_len)
		code = wh_decode_part("redis", text, user_len, &set->user, err);
	if (code == WHERRY_OK && colon)
		code = wh_decode_part("redis", colon + 1, len - user_len - 1,
				      &set->password, err);
	return code;
}

static bool is_host(const char *text, size_t len)
{
	if (!len || len >= WH_REDIS_HOST_LEN)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr(".-_:%", text[i]))
			return false;
	return true;
}

static wherry_code read_host(wh_redis_settings *set, bool sentinel, const char *text,
			     size_t len, wherry_error *err)
{
	const char *end = text + len;
	const char *bracket = len && *text == '[' ? memchr(text, ']', len) : NULL;
	const char *from = bracket ? bracket + 1 : text;
	const char *colon = memchr(from, ':', (size_t)(end - from));
	const char *stop = colon ? colon : end;
	int64_t port = sentinel ? PORT_SENTINEL : PORT;
	char number[8] = "";
	wh_redis_host *host = &set->hosts[set->n_hosts];

	if (bracket) {
		if (stop != bracket + 1)
			return bad_url(sentinel, err);
		text++;
		stop = bracket;
	}
	if (colon)
		(void)snprintf(number, sizeof(number), "%.*s", (int)(end - colon - 1),
			       colon + 1);
	if (set->n_hosts == WH_REDIS_HOSTS || !is_host(text, (size_t)(stop - text)) ||
	    (colon && (!wh_parse_int(number, &port) || port < 1 || port > 65535)))
		return bad_url(sentinel, err);
	memcpy(host->name, text, (size_t)(stop - text));
	host->name[stop - text] = 0;
	host->port = (int)port;
	set->n_hosts++;
	return WHERRY_OK;
}

static wherry_code read_hosts(wh_redis_settings *set, bool sentinel, const char *text,
			      size_t len, wherry_error *err)
{
	const char *end = text + len;
	wherry_code code;

	for (;;) {
		const char *comma = memchr(text, ',', (size_t)(end - text));

		code = read_host(set, sentinel, text,
				 (size_t)((comma ? comma : end) - text), err);
		if (code != WHERRY_OK || !comma)
			return code;
		text = comma + 1;
	}
}

/* MASTER/DATABASE, or DATABASE. */
static wherry_code read_path(wh_redis_settings *set, bool sentinel, const char *path,
			     wherry_error *err)
{
	size_t len = strcspn(path, "/?#");
	char number[12];
	wherry_code code = WHERRY_OK;

	if (sentinel) {
		if (!len)
			return bad_url(sentinel, err);
		code = wh_decode_part("redis", path, len, &set->master, err);
		path += len + (path[len] == '/');
		len = strcspn(path, "/?#");
	}
	if (code != WHERRY_OK || !len)
		return code;
	(void)snprintf(number, sizeof(number), "%.*s", (int)len, path);
	if (path[len] == '/' || !wh_parse_int(number, &set->number) || set->number < 0 ||
	    set->number > DATABASES_MOST)
		return wh_fail(err, WHERRY_INVALID,
			       "redis: '%.20s' is not the number of a database; the name "
			       "of the stream is a parameter: ?stream={topic}",
			       number);
	return WHERRY_OK;
}

static wherry_code read_place(wh_redis_settings *set, bool sentinel, const char *rest,
			      wherry_error *err)
{
	const char *begin = rest + 2, *at;
	size_t len;
	wherry_code code = WHERRY_OK;

	if (strncmp(rest, "//", 2) != 0)
		return bad_url(sentinel, err);
	len = strcspn(begin, "/?#");
	at = memrchr(begin, '@', len);
	if (at) {
		code = read_user(set, begin, (size_t)(at - begin), err);
		len -= (size_t)(at + 1 - begin);
		begin = at + 1;
	}
	if (code == WHERRY_OK)
		code = read_hosts(set, sentinel, begin, len, err);
	begin += len;
	if (code == WHERRY_OK && (sentinel || *begin == '/'))
		code = read_path(set, sentinel, begin + (*begin == '/'), err);
	return code;
}

static wherry_code read_stream(wh_redis_settings *set, char *url, wherry_error *err)
{
	wherry_code code = wh_url_take(url, "stream", &set->stream, err);

	if (code == WHERRY_OK && strpbrk(url, "?#"))
		return wh_fail(err, WHERRY_INVALID,
			       "redis: the URL has only the parameter stream; others are "
			       "the settings redis.*");
	if (code == WHERRY_OK && !set->stream)
		set->stream = strdup("{topic}");
	if (code == WHERRY_OK && !set->stream)
		return wh_oom(err);
	if (code == WHERRY_OK && !*set->stream)
		return wh_fail(err, WHERRY_INVALID,
			       "redis: the name of the stream is "
			       "empty: write ?stream={topic}");
	for (const char *at = set->stream; code == WHERRY_OK && *at;)
		if (wh_template_part(&at) == WH_PART_UNKNOWN)
			return wh_fail(err, WHERRY_INVALID,
				       "stream: a '{' stands for nothing: {topic} and "
				       "{key} do");
	return code;
}

/* ---- the settings ---- */

static wherry_code copy(const wherry_config *config, wh_setting which, char **out,
			wherry_error *err)
{
	const char *text = wh_config_text(config, which);

	if (!*text)
		return WHERRY_OK;
	free(*out);
	*out = strdup(text);
	return *out ? WHERRY_OK : wh_oom(err);
}

static wherry_code read_secret(const wherry_config *config, wh_setting which,
			       const char *name, char **out, wherry_error *err)
{
	const char *from = wh_config_text(config, which);
	wh_buf text = WH_BUF_INIT(SECRET_MAX);
	wherry_code code;

	if (!*from)
		return WHERRY_OK;
	forget(out);
	code = wh_secret_read(from, &text, err);
	if (code == WHERRY_OK && !(*out = strdup(wh_buf_str(&text))))
		code = wh_oom(err);
	wh_secret_clear(&text);
	return code == WHERRY_OK ? code : wh_prefix(err, code, "%s", name);
}

static wherry_code read_file(const wherry_config *config, wh_setting which,
			     const char *name, char **out, wherry_error *err)
{
	wherry_code code = copy(config, which, out, err);

	return code == WHERRY_OK && *out ? wh_pem_check(name, *out, err) : code;
}

static wherry_code read_tls(wh_redis_settings *set, const wherry_config *config,
			    wherry_error *err)
{
	wherry_code code =
		read_file(config, WH_REDIS_CA_FILE, "redis.ca_file", &set->ca_file, err);

	set->verify = (wh_redis_verify)wh_config_choice(config, WH_REDIS_VERIFY);
	if (code == WHERRY_OK)
		code = read_file(config, WH_REDIS_CLIENT_CERT, "redis.client_cert",
				 &set->cert, err);
	if (code == WHERRY_OK)
		code = read_file(config, WH_REDIS_CLIENT_KEY, "redis.client_key",
				 &set->key, err);
	if (code == WHERRY_OK && !set->cert != !set->key)
		code = wh_fail(err, WHERRY_INVALID,
			       "redis.client_cert and redis.client_key need each other");
	if (code == WHERRY_OK && !set->secure && (set->ca_file || set->cert))
		code = wh_fail(err, WHERRY_INVALID,
			       "redis.ca_file and redis.client_cert have a meaning with "
			       "TLS only: write rediss:// for redis://");
	return code;
}

static wherry_code needs_password(const char *user, const char *password,
				  wherry_error *err)
{
	return wh_fail(err, WHERRY_INVALID,
		       "redis.%s needs a password: set redis.%s=env:NAME", user,
		       password);
}

static wherry_code read_users(wh_redis_settings *set, bool sentinel,
			      const wherry_config *config, wherry_error *err)
{
	wherry_code code = copy(config, WH_REDIS_USER, &set->user, err);

	if (code == WHERRY_OK)
		code = read_secret(config, WH_REDIS_PASSWORD, "redis.password",
				   &set->password, err);
	if (code == WHERRY_OK && sentinel)
		code = copy(config, WH_REDIS_SENTINEL_USER, &set->sentinel_user, err);
	if (code == WHERRY_OK && sentinel)
		code = read_secret(config, WH_REDIS_SENTINEL_PASSWORD,
				   "redis.sentinel_password", &set->sentinel_password,
				   err);
	if (code == WHERRY_OK && set->user && !set->password)
		return needs_password("user", "password", err);
	if (code == WHERRY_OK && set->sentinel_user && !set->sentinel_password)
		return needs_password("sentinel_user", "sentinel_password", err);
	if (code == WHERRY_OK && !sentinel &&
	    (wh_config_is_own(config, WH_REDIS_SENTINEL_USER) ||
	     wh_config_is_own(config, WH_REDIS_SENTINEL_PASSWORD)))
		return wh_fail(err, WHERRY_INVALID,
			       "redis.sentinel_user and redis.sentinel_password are for "
			       "sentinels: write redis+sentinel://HOST:26379/MASTER, or "
			       "redis.user and redis.password");
	return code;
}

static wherry_code read_limits(wh_redis_settings *set, const wherry_config *config,
			       wherry_error *err)
{
	set->max_length = wh_config_int(config, WH_REDIS_MAX_LENGTH);
	set->max_age_us = wh_config_int(config, WH_REDIS_MAX_AGE);
	set->replicas = wh_config_int(config, WH_REDIS_REPLICAS);
	set->limit_us = wh_delivery_limit(config);
	if (set->max_length && set->max_age_us)
		return wh_fail(err, WHERRY_INVALID,
			       "redis.max_length and redis.max_age exclude each other: "
			       "XADD takes one of MAXLEN and MINID");
	return WHERRY_OK;
}

wherry_code wh_redis_settings_read(bool secure, bool sentinel, const char *rest,
				   const wherry_config *config, wh_redis_settings *out,
				   wherry_error *err)
{
	wh_redis_settings set = {.secure = secure};
	char *url = strdup(rest);
	wherry_code code = url ? WHERRY_OK : wh_oom(err);

	if (code == WHERRY_OK)
		code = read_place(&set, sentinel, url, err);
	if (code == WHERRY_OK)
		code = wh_url_check_parameters(url, known, err);
	if (code == WHERRY_OK)
		code = read_stream(&set, url, err);
	if (code == WHERRY_OK)
		code = read_users(&set, sentinel, config, err);
	if (code == WHERRY_OK)
		code = read_tls(&set, config, err);
	if (code == WHERRY_OK)
		code = read_limits(&set, config, err);
	forget(&url);
	if (code == WHERRY_OK)
		*out = set;
	else
		wh_redis_settings_clear(&set);
	return code;
}
