#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"

static bool scheme_char(char c, bool first)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
		return true;
	return !first && ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.');
}

wherry_code wh_url_parse(const char *text, wh_url *out, wherry_error *err)
{
	size_t n = 0;

	while (scheme_char(text[n], n == 0))
		n++;
	if (n == 0 || text[n] != ':')
		/* Show only its beginning: the text may be a misplaced secret. */
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.*s%s' is not a URL: write a scheme and a colon first, as in "
			"sqlite:shop.db or stdout:",
			(int)wh_utf8_cut(text, strlen(text), 8), text,
			strlen(text) > 8 ? "…" : "");
	out->scheme = (wh_view){text, n};
	out->rest = wh_view_of(text + n + 1);
	return WHERRY_OK;
}

/* ---- percent-encoding ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Read a byte, percent-encoded or not, and move *text behind it. */
static char take_byte(const char **text)
{
	const char *s = *text;
	int high = *s == '%' ? hex_digit(s[1]) : -1;
	int low = high >= 0 ? hex_digit(s[2]) : -1;

	*text += low >= 0 ? 3 : 1;
	return low >= 0 ? (char)(high * 16 + low) : *s;
}

/* ---- parameters ---- */

/* The value of a parameter, up to the next one or the end; NULL: the URL does not have
 * it. */
static const char *find_parameter(const char *url, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = strchr(url, '?'); at; at = strchr(at + 1, '&'))
		if (strncmp(at + 1, name, len) == 0 && at[1 + len] == '=')
			return at + 1 + len + 1;
	return NULL;
}

/* Remove "NAME=VALUE", whose value begins at `value`, and one "?" or "&". */
static void remove_parameter(char *url, const char *name, const char *value)
{
	char *begin = url + (value - url) - strlen(name) - 1;
	char *end = begin + strcspn(begin, "&");

	if (*end)
		end++; /* The next parameter takes its place. */
	else
		begin--;
	memmove(begin, end, strlen(end) + 1);
}

char *wh_url_decode(const char *value, size_t len, bool *out_fine)
{
	char *out = malloc(len + 1);
	const char *end = value + len;
	size_t n = 0;

	*out_fine = true;
	while (out && value < end) {
		bool escaped = *value == '%';
		const char *before = value;

		out[n] = take_byte(&value);
		if (!out[n++] || (escaped && value != before + 3) || value > end)
			*out_fine = false;
	}
	if (out)
		out[n] = 0;
	return out;
}

wherry_code wh_url_take(char *url, const char *name, char **out_value, wherry_error *err)
{
	const char *value = find_parameter(url, name);
	char *decoded;
	bool fine;

	*out_value = NULL;
	if (!value)
		return WHERRY_OK;
	decoded = wh_url_decode(value, strcspn(value, "&"), &fine);
	if (!decoded)
		return wh_oom(err);
	if (!fine) {
		free(decoded);
		return wh_fail(
			err, WHERRY_INVALID,
			"the value of '%s' in the URL is badly encoded: write %%25 "
			"for %%",
			name);
	}
	remove_parameter(url, name, value);
	*out_value = decoded;
	return WHERRY_OK;
}

/* Does the parameter occur again after this? */
static bool is_repeated(const char *parameter, size_t len)
{
	for (const char *at = strchr(parameter, '&'); at; at = strchr(at + 1, '&'))
		if (strncmp(at + 1, parameter, len + 1) == 0)
			return true;
	return false;
}

static const char *parameter_at(const void *ctx, size_t i)
{
	return ((const char *const *)ctx)[i];
}

static wherry_code check_parameter(const char *const *known, const char *url,
				   const char *at, wherry_error *err)
{
	bool file =
		strncmp(url, "sqlite:", 7) == 0 && strncmp(url, "sqlite:file:", 12) != 0;
	size_t len = strcspn(at, "=&");
	char name[32];
	const char *near;

	if (len >= sizeof(name) || at[len] != '=')
		return WHERRY_OK;
	memcpy(name, at, len);
	name[len] = 0;
	near = wh_nearest(name, parameter_at, known);
	if (near && strcmp(near, name) == 0)
		return is_repeated(at, len)
			       ? wh_fail(err, WHERRY_INVALID,
					 "the URL has the parameter '%s' twice", name)
			       : WHERRY_OK;
	if (near)
		return wh_fail(err, WHERRY_INVALID,
			       "the URL has a parameter '%s': did you mean '%s'?", name,
			       near);
	if (!file)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_INVALID,
		       "the URL has a parameter '%s'; known are %s and %s", name,
		       known[0], known[1]);
}

wherry_code wh_url_check_parameters(const char *url, const char *const *known,
				    wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (const char *at = strchr(url, '?'); code == WHERRY_OK && at;
	     at = strchr(at + 1, '&'))
		code = check_parameter(known, url, at + 1, err);
	return code;
}

/* ---- the name of a table ---- */

const char *wh_url_table(const char *url)
{
	const char *at = strrchr(url, '#');

	return at && !strpbrk(at, "@:?&=;") ? at + 1 : NULL;
}

char *wh_url_database(const char *url)
{
	const char *table = wh_url_table(url);

	return table ? strndup(url, (size_t)(table - 1 - url)) : strdup(url);
}

/* Append a part of a name, encoded. */
static void put_part(wh_buf *out, char before, const char *part)
{
	wh_buf_putc(out, before);
	for (; *part; part++)
		if (strchr("#/@:?&=;%\"' \\", *part) || (unsigned char)*part < ' ')
			wh_buf_printf(out, "%%%02X", (unsigned char)*part);
		else
			wh_buf_putc(out, *part);
}

char *wh_url_join(const char *database, const char *table, const char *queue,
		  const char *type)
{
	wh_buf url = WH_BUF_INIT(64 * 1024);

	wh_buf_puts(&url, database);
	put_part(&url, '#', table);
	if (queue)
		put_part(&url, '/', queue);
	if (queue && type)
		put_part(&url, '/', type);
	return wh_buf_take(&url);
}

/* Decode the part of a name up to a slash, and move *name behind it. */
static wherry_code take_part(const char **name, char *out, size_t cap, wherry_error *err)
{
	size_t len = strcspn(*name, "/");
	wherry_code code = WHERRY_OK;
	bool fine;
	char *part = wh_url_decode(*name, len, &fine);

	if (!part)
		return wh_oom(err);
	if (!fine)
		code = wh_fail(err, WHERRY_INVALID,
			       "the name '%.60s' is badly encoded: write %%25 for %%",
			       *name);
	else if (strlen(part) >= cap)
		code = wh_fail(err, WHERRY_TOOBIG,
			       "the name '%.40s…' has %zu bytes, the limit is %zu", part,
			       strlen(part), cap - 1);
	else
		memcpy(out, part, strlen(part) + 1);
	free(part);
	*name += len;
	return code;
}

wherry_code wh_table_name_read(const char *name, wh_table_name *out, wherry_error *err)
{
	const char *at = name;
	wherry_code code = take_part(&at, out->table, sizeof(out->table), err);
	bool queue = *at == '/', type;

	*out->queue = *out->type = 0;
	if (code == WHERRY_OK && queue)
		code = (at++, take_part(&at, out->queue, sizeof(out->queue), err));
	type = *at == '/';
	if (code == WHERRY_OK && type)
		code = (at++, take_part(&at, out->type, sizeof(out->type), err));
	if (code == WHERRY_OK &&
	    (*at || !*out->table || (queue && !*out->queue) || (type && !*out->type)))
		code = wh_fail(err, WHERRY_INVALID,
			       "'#%.80s' names no table: write #NAME, or #TABLE/QUEUE "
			       "for a delayed queue",
			       name);
	return code;
}

/* ---- masking ---- */

typedef struct masked {
	char *out;
	size_t cap, n;
} masked;

static void put(masked *m, const char *text, size_t len)
{
	size_t room = m->cap - m->n - 1;

	len = len < room ? len : room;
	memcpy(m->out + m->n, text, len);
	m->n += len;
	m->out[m->n] = 0;
}

static bool is_port(const char *text, const char *end)
{
	return strspn(text, "0123456789") == (size_t)(end - text);
}

/* Find the ':' before and the '@' after the password in the text after "://"; false: no
 * password.  A password should be percent-encoded.  One that is not is found too, unless
 * its beginning can be a port. */
static bool find_password(const char *host, const char **colon, const char **at)
{
	const char *end = host + strcspn(host, "/?# \t\r\n");

	*colon = memchr(host, ':', (size_t)(end - host));
	*at = memrchr(host, '@', (size_t)(end - host));
	if (*at)
		return *colon && *colon < *at;
	if (!*colon || *host == '[' || is_port(*colon + 1, end))
		return false;
	*at = strrchr(end, '@');
	return *at != NULL;
}

/* Does the name of a parameter end in a word for a secret? */
static bool names_secret(const char *name, const char *end)
{
	static const char *const words[] = {"password", "passwd", "pwd",     "passphrase",
					    "secret",   "token",  "api_key", "apikey",
					    "pem",      "seed"};
	/* These only as whole words: sslkey=client.key names a file. */
	static const char *const whole[] = {"key",  "sig",  "signature",
					    "code", "auth", "credential"};
	char tail[16];
	size_t n = 0;

	while (name < end) {
		char c = take_byte(&name);

		if (n == sizeof(tail))
			memmove(tail, tail + 1, --n);
		tail[n++] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t len = strlen(words[i]);

		if (n >= len && memcmp(tail + n - len, words[i], len) == 0)
			return true;
	}
	for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
		size_t len = strlen(whole[i]);

		if (n >= len && memcmp(tail + n - len, whole[i], len) == 0 &&
		    (n == len || !scheme_char(tail[n - len - 1], true)) &&
		    (n == len || tail[n - len - 1] != '_'))
			return true;
	}
	return false;
}

/* Append a parameter "NAME=", with its value masked if the name is one of a secret.
 * Returns the rest.  Only & ends a value, since masking too much is better than too
 * little. */
static const char *put_parameter(masked *m, const char *name)
{
	const char *equals = name + strcspn(name, "=?&;#: \t\r\n");

	if (*equals != '=' || !names_secret(name, equals))
		return name;
	put(m, name, (size_t)(equals + 1 - name));
	put(m, "***", 3);
	return equals + 1 + strcspn(equals + 1, "&");
}

/* ---- the form for logs ---- */

static bool has_scheme(const char *text, const char *const *schemes)
{
	for (; *schemes; schemes++)
		if (strncmp(text, *schemes, strlen(*schemes)) == 0)
			return true;
	return false;
}

/* The end of a word of a shell command, which may be quoted.  A quote that is not closed
 * takes the rest. */
static const char *shell_word_end(const char *text)
{
	while (*text && !strchr(" \t\n;|&<>()", *text)) {
		if (*text == '\\' && text[1])
			text++;
		else if (*text == '"' || *text == '\'')
			text = strchrnul(text + 1, *text);
		text += *text != 0;
	}
	return text;
}

/* The name of the program that a shell command runs; empty if it is not a plain word. */
static wh_view program_of(const char *command)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./+-";
	const char *word = command + strspn(command, " \t\n"), *end, *slash;

	for (;;) { /* Skip NAME=value before the program. */
		size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz"
					"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

		if (!n || word[n] != '=')
			break;
		word = shell_word_end(word);
		word += strspn(word, " \t\n");
	}
	end = shell_word_end(word);
	if (word + strspn(word, plain) != end)
		end = word;
	slash = memrchr(word, '/', (size_t)(end - word));
	if (slash)
		word = slash + 1;
	return (wh_view){word, (size_t)(end - word)};
}

void wh_url_show_command(const char *command, char *out, size_t cap)
{
	wh_view program = program_of(command);
	masked m = {out, cap, 0};

	*out = 0;
	put(&m, program.len ? program.ptr : "…", program.len ? program.len : strlen("…"));
}

/* Is each of "host:port,host:port" well-formed?  A part of a password usually is not. */
static bool hosts_valid(wh_view hosts)
{
	const char *end = hosts.ptr + hosts.len;

	for (const char *at = hosts.ptr; at < end;) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		const char *colon, *host_end = comma ? comma : end;

		colon = *at == '[' ? memchr(at, ']', (size_t)(host_end - at)) : at;
		if (!colon)
			return false;
		colon = memchr(colon, ':', (size_t)(host_end - colon));
		for (const char *s = at; s < (colon ? colon : host_end); s++)
			if (!scheme_char(*s, false) && !strchr("_[]:%", *s))
				return false;
		if (colon && !is_port(colon + 1, host_end))
			return false;
		at = comma ? comma + 1 : end;
	}
	return true;
}

wh_view wh_url_hosts(const char *rest)
{
	const char *begin = strncmp(rest, "//", 2) == 0 ? rest + 2 : rest;
	const char *end = begin + strcspn(begin, "/?# \t\r\n");
	const char *at = memrchr(begin, '@', (size_t)(end - begin));
	wh_view hosts = {at ? at + 1 : begin, 0};

	hosts.len = (size_t)(end - hosts.ptr);
	return strchr(end, '@') || !hosts_valid(hosts) ? (wh_view){NULL, 0} : hosts;
}

void wh_url_show(const char *text, char *out, size_t cap)
{
	static const char *const remote[] = {
		"postgres:",       "postgresql:",      "mssql:", "http:",
		"https:",          "kafka:",           "amqp:",  "amqps:",
		"nats:",           "nats+tls:",        "redis:", "rediss:",
		"redis+sentinel:", "rediss+sentinel:", NULL};
	static const char *const local[] = {
		"sqlite:", "file:", "stdout:", "memory:", "null:", NULL};
	wh_view shown = {NULL, 0};
	masked m = {out, cap, 0};
	const char *rest;
	size_t len = 0;

	*out = 0;
	while (scheme_char(text[len], len == 0))
		len++;
	if (!len || text[len] != ':') {
		put(&m, "…", strlen("…"));
		return;
	}
	rest = text + len + 1;
	put(&m, text, len + 1);
	if (has_scheme(text, remote)) {
		put(&m, "//", 2);
		shown = wh_url_hosts(rest);
	} else if (has_scheme(text, local)) {
		const char *table =
			strncmp(text, "sqlite:", 7) == 0 ? wh_url_table(rest) : NULL;

		shown = (wh_view){rest, strcspn(rest, "?")};
		if (table && (size_t)(table - 1 - rest) < shown.len)
			shown.len = (size_t)(table - 1 - rest);
	} else if (strncmp(text, "exec:", 5) == 0) {
		shown = program_of(rest);
		if (!shown.len)
			shown.ptr = NULL;
	}
	put(&m, shown.ptr ? shown.ptr : "…", shown.ptr ? shown.len : strlen("…"));
}

/* Mask a connection string with a password completely: "odbc:DSN=shop;Pwd=x". */
static bool mask_odbc(const char *text, masked *m)
{
	if (strncmp(text, "odbc:", 5) != 0 ||
	    (!strcasestr(text, "pwd") && !strcasestr(text, "password")))
		return false;
	put(m, "odbc:***", 8);
	return true;
}

/* Mask the whole rest where any of it may be secret:
 * https://hooks.example.com/T0/B0/XXXX. */
static bool mask_rest(const char *text, char *out, size_t cap)
{
	static const char *const schemes[] = {"http:", "https:", "exec:", NULL};
	size_t len;

	if (!has_scheme(text, schemes))
		return false;
	wh_url_show(text, out, cap);
	len = strlen(out);
	if (strcmp(text, out) != 0 &&
	    (strncmp(text, out, len) != 0 || strcmp(text + len, "/") != 0)) {
		masked m = {out, cap, len};

		put(&m, *text == 'e' ? " ***" : "/***", 4);
	}
	return true;
}

void wh_url_mask(const char *text, char *out, size_t cap)
{
	masked m = {out, cap, 0};

	if (mask_rest(text, out, cap))
		return;
	*out = 0;
	if (mask_odbc(text, &m))
		return;
	while (*text) {
		const char *colon, *at;

		if (strncmp(text, "://", 3) == 0) {
			if (find_password(text + 3, &colon, &at)) {
				put(&m, text, (size_t)(colon + 1 - text));
				put(&m, "***", 3);
				text = at;
				continue;
			}
			put(&m, text, 3);
			text += 3;
			continue;
		}
		put(&m, text, 1);
		text = strchr("?&;#: \t\r\n", *text) ? put_parameter(&m, text + 1)
						     : text + 1;
	}
}

/* ---- URLs for people ---- */

/* Remove each parameter with a masked value, "KEY=***", so that libpq looks for the
 * password elsewhere. */
static void drop_masked_parameters(char *url)
{
	char *at;

	while ((at = strstr(url, "=***"))) {
		char *end = at + strlen("=***"), *begin = at;

		while (begin > url && !strchr("?&", *begin))
			begin--;
		if (begin == url)
			return;
		if (*end == '&')
			begin++, end++;
		memmove(begin, end, strlen(end) + 1);
	}
}

/* Is this the URL of a database, whose part behind a # is the name of a table? */
static bool is_of_database(const char *url)
{
	static const char *const schemes[] = {
		"sqlite:", "postgres:", "postgresql:", "mssql:"};

	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
		if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
			return true;
	return false;
}

char *wh_url_without_secrets(const char *url)
{
	/* A masked value would take the name of the table with it. */
	const char *table = is_of_database(url) ? wh_url_table(url) : NULL;
	char *database = table ? wh_url_database(url) : strdup(url);
	size_t cap = 4 * strlen(url) + 16;
	char *out = database ? malloc(cap) : NULL, *at;

	if (out) {
		wh_url_mask(database, out, cap);
		at = strstr(out, ":***@");
		if (at)
			memmove(at, at + strlen(":***"), strlen(at + strlen(":***")) + 1);
		drop_masked_parameters(out);
	}
	if (out && table)
		(void)snprintf(out + strlen(out), cap - strlen(out), "#%s", table);
	free(database);
	return out;
}
