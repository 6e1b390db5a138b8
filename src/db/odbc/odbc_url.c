/*
 * Converts mssql://user@host:port/database?driver=… to a connection string for the ODBC
 * driver manager.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "config/secret.h"
#include "db/odbc/odbc.h"

/* Append "key=value;", with the value in braces so that it may contain any character. */
static void put_pair(wh_buf *out, const char *key, const char *value, size_t len)
{
	wh_buf_printf(out, "%s={", key);
	for (size_t i = 0; i < len; i++) {
		if (value[i] == '}')
			wh_buf_putc(out, '}');
		wh_buf_putc(out, value[i]);
	}
	wh_buf_puts(out, "};");
}

static bool is_freetds(const char *driver)
{
	return strcasestr(driver, "tds");
}

/* ---- the parts of a URL ---- */

typedef struct parts {
	char *user, *password, *host, *port, *database;
	char *driver, *encrypt, *trust, *authentication, *subnets;
	wh_buf secret;
} parts;

static void clear_parts(parts *p)
{
	if (p->password)
		explicit_bzero(p->password, strlen(p->password));
	free(p->user);
	free(p->password);
	free(p->host);
	free(p->port);
	free(p->database);
	free(p->driver);
	free(p->encrypt);
	free(p->trust);
	free(p->authentication);
	free(p->subnets);
	wh_secret_clear(&p->secret);
}

/* Remove the known parameters from url, and refuse others. */
static wherry_code take_parameters(char *url, parts *p, wherry_error *err)
{
	char *named = NULL;
	wherry_code code = wh_url_take(url, "driver", &p->driver, err);

	if (code == WHERRY_OK)
		code = wh_url_take(url, "encrypt", &p->encrypt, err);
	if (code == WHERRY_OK)
		code = wh_url_take(url, "trust_server_certificate", &p->trust, err);
	if (code == WHERRY_OK)
		code = wh_url_take(url, "authentication", &p->authentication, err);
	if (code == WHERRY_OK)
		code = wh_url_take(url, "multi_subnet_failover", &p->subnets, err);
	if (code == WHERRY_OK)
		code = wh_url_take(url, "password", &named, err);
	if (code == WHERRY_OK && named)
		code = wh_secret_read(named, &p->secret, err);
	if (named)
		explicit_bzero(named, strlen(named));
	free(named);
	if (code == WHERRY_OK && strchr(url, '?'))
		return wh_fail(
			err, WHERRY_INVALID,
			"mssql: the parameter '%.*s' is not known; known are driver, "
			"encrypt, trust_server_certificate, authentication, "
			"multi_subnet_failover and password",
			(int)strcspn(strchr(url, '?') + 1, "=&"), strchr(url, '?') + 1);
	return code;
}

/* Percent-decode into *out. */
static wherry_code decode(const char *what, const char *text, size_t len, char **out,
			  wherry_error *err)
{
	wh_buf as_parameter = WH_BUF_INIT(64 * 1024);
	wherry_code code;

	wh_buf_printf(&as_parameter, "?%s=%.*s", what, (int)len, text);
	code = wh_buf_check(&as_parameter, err);
	if (code == WHERRY_OK)
		code = wh_url_take(as_parameter.ptr, what, out, err);
	wh_secret_clear(&as_parameter);
	return code;
}

/* Split off "user:password@"; both are optional. */
static wherry_code split_user(const char **rest, parts *p, wherry_error *err)
{
	const char *end = *rest + strcspn(*rest, "/?");
	const char *at = memrchr(*rest, '@', (size_t)(end - *rest)), *colon;
	wherry_code code;

	if (!at)
		return WHERRY_OK;
	colon = memchr(*rest, ':', (size_t)(at - *rest));
	code = decode("user", *rest, (size_t)((colon ? colon : at) - *rest), &p->user,
		      err);
	if (code == WHERRY_OK && colon)
		code = decode("password", colon + 1, (size_t)(at - colon - 1),
			      &p->password, err);
	*rest = at + 1;
	return code;
}

/* Split "host:port/database"; an IPv6 address is in brackets. */
static wherry_code split_host(const char *rest, parts *p, wherry_error *err)
{
	const char *end = rest + strcspn(rest, "/?");
	const char *close = *rest == '[' ? memchr(rest, ']', (size_t)(end - rest)) : NULL;
	const char *begin = close ? rest + 1 : rest;
	const char *port =
		memchr(close ? close : rest, ':', (size_t)(end - (close ? close : rest)));
	const char *host_end = close ? close : port ? port : end;
	wherry_code code =
		decode("host", begin, (size_t)(host_end - begin), &p->host, err);

	if (code == WHERRY_OK && port)
		code = decode("port", port + 1, (size_t)(end - port - 1), &p->port, err);
	if (code == WHERRY_OK && *end == '/')
		code = decode("database", end + 1, strcspn(end + 1, "?"), &p->database,
			      err);
	if (code != WHERRY_OK)
		return code;
	if (!*p->host || !p->database || !*p->database)
		return wh_fail(err, WHERRY_INVALID,
			       "mssql: needs a host and a database, as in "
			       "mssql://shop@db1/shop");
	if (p->port && (!*p->port || strlen(p->port) > 5 ||
			strspn(p->port, "0123456789") != strlen(p->port)))
		return wh_fail(err, WHERRY_INVALID, "mssql: the port is not a number");
	if (strchr(p->host, '\\'))
		return wh_fail(err, WHERRY_INVALID,
			       "mssql: name the port of a named instance, as in "
			       "mssql://shop@db1:1533/shop");
	return WHERRY_OK;
}

/* Read a switch; *out: 1 or 0, -1 if the URL does not set it. */
static wherry_code read_switch(const char *name, const char *value, int *out,
			       wherry_error *err)
{
	*out = -1;
	if (!value)
		return WHERRY_OK;
	if (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0) {
		*out = *value == 'y';
		return WHERRY_OK;
	}
	return wh_fail(err, WHERRY_INVALID, "mssql: %s is yes or no", name);
}

/* ---- the connection string ---- */

static void put_server(wh_buf *out, const parts *p, bool freetds)
{
	char server[300];

	if (freetds) {
		put_pair(out, "Server", p->host, strlen(p->host));
		wh_buf_printf(out, "Port=%s;TDS_Version=7.4;ClientCharset=UTF-8;",
			      p->port ? p->port : "1433");
		return;
	}
	(void)snprintf(server, sizeof(server), "tcp:%.255s,%s", p->host,
		       p->port ? p->port : "1433");
	put_pair(out, "Server", server, strlen(server));
}

/* A connection string cannot make FreeTDS verify a certificate. */
static wherry_code put_tls(wh_buf *out, const parts *p, bool freetds, wherry_error *err)
{
	int encrypt, trust;
	wherry_code code = read_switch("encrypt", p->encrypt, &encrypt, err);

	if (code == WHERRY_OK)
		code = read_switch("trust_server_certificate", p->trust, &trust, err);
	if (code != WHERRY_OK)
		return code;
	if (!freetds) {
		wh_buf_printf(out, "Encrypt=%s;TrustServerCertificate=%s;",
			      encrypt ? "yes" : "no", trust == 1 ? "yes" : "no");
		return WHERRY_OK;
	}
	if (encrypt && trust != 1)
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "mssql: FreeTDS does not verify the server's certificate: "
			       "take Microsoft's driver, or add "
			       "trust_server_certificate=yes or encrypt=no");
	wh_buf_printf(out, "Encryption=%s;", encrypt ? "require" : "off");
	return WHERRY_OK;
}

/* Options that only Microsoft's driver knows: a login of Microsoft Entra, and all addresses of a listener. */
static wherry_code put_microsoft(wh_buf *out, const parts *p, bool freetds,
				 wherry_error *err)
{
	int subnets;
	wherry_code code =
		read_switch("multi_subnet_failover", p->subnets, &subnets, err);

	if (code == WHERRY_OK && freetds && (p->authentication || subnets == 1))
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "mssql: FreeTDS knows neither authentication nor "
			       "multi_subnet_failover: take Microsoft's driver");
	if (code == WHERRY_OK && p->authentication)
		put_pair(out, "Authentication", p->authentication,
			 strlen(p->authentication));
	if (code == WHERRY_OK && subnets == 1)
		wh_buf_puts(out, "MultiSubnetFailover=Yes;");
	return code;
}

static void put_user(wh_buf *out, const parts *p, bool freetds)
{
	const char *password = p->secret.len ? p->secret.ptr : p->password;

	if (p->user && *p->user) {
		put_pair(out, "UID", p->user, strlen(p->user));
		if (password || !p->authentication)
			put_pair(out, "PWD", password ? password : "",
				 password ? strlen(password) : 0);
	} else if (!freetds && !p->authentication) {
		wh_buf_puts(out, "Trusted_Connection=yes;");
	}
	wh_buf_puts(out, "APP=wherry;");
}

static wherry_code read_parts(const char *rest, parts *p, wherry_error *err)
{
	char *url;
	const char *at;
	wherry_code code;

	if (strncmp(rest, "//", 2) != 0)
		return wh_fail(err, WHERRY_INVALID,
			       "mssql: is followed by //, as in mssql://shop@db1/shop");
	url = strdup(rest + 2);
	if (!url)
		return wh_oom(err);
	at = url;
	code = take_parameters(url, p, err);
	if (code == WHERRY_OK)
		code = split_user(&at, p, err);
	if (code == WHERRY_OK)
		code = split_host(at, p, err);
	explicit_bzero(url, strlen(url));
	free(url);
	return code;
}

wherry_code wh_odbc_mssql_string(const char *rest, const char *installed, wh_buf *out,
				 char *name, size_t cap, wherry_error *err)
{
	parts p = {.secret = WH_BUF_INIT(4096)};
	wherry_code code = read_parts(rest, &p, err);
	const char *driver = p.driver ? p.driver : installed;

	if (code == WHERRY_OK && !driver)
		code = wh_fail(
			err, WHERRY_NOTFOUND,
			"mssql: no ODBC driver for SQL Server is installed: install "
			"Microsoft's, or tdsodbc; odbcinst -q -d lists them");
	if (code == WHERRY_OK) {
		put_pair(out, "Driver", driver, strlen(driver));
		put_server(out, &p, is_freetds(driver));
		put_pair(out, "Database", p.database, strlen(p.database));
		put_user(out, &p, is_freetds(driver));
		code = put_microsoft(out, &p, is_freetds(driver), err);
	}
	if (code == WHERRY_OK)
		code = put_tls(out, &p, is_freetds(driver), err);
	if (code == WHERRY_OK)
		code = wh_buf_check(out, err);
	if (code == WHERRY_OK)
		(void)snprintf(name, cap, "%.60s on %.60s", p.database, p.host);
	clear_parts(&p);
	return code;
}
