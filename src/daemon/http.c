/*
 * /healthz, /readyz and /metrics.
 *
 * A connection carries one request.  A client has a few seconds to send its request, and
 * some more to take the answer, however slowly it sends.  When many connections are open,
 * a new one ends the oldest that have sent no request.  So other clients cannot keep
 * /healthz from being answered.  See http_guard.c.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/daemon.h"
#include "daemon/http_guard.h"

enum { ANSWER_MAX = 16 * 1024 * 1024, TIMEOUT_S = 10 };

struct wh_http {
	struct MHD_Daemon *server;
	wh_daemon *daemon;
	wh_backlogs *backlogs;
	char *token; /* NULL: requests need none. */
	char *hosts; /* Names that a request may have in Host; NULL: none. */
	wh_http_guard *guard;
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status,
			      const char *type, wh_buf *text)
{
	size_t len = text->len;
	char *body = wh_buf_take(text);
	struct MHD_Response *response;
	enum MHD_Result sent;

	if (!body)
		return MHD_NO;
	response = MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_FREE);
	if (!response)
		free(body);
	if (!response)
		return MHD_NO;
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL,
				      "no-store");
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	if (status == MHD_HTTP_UNAUTHORIZED)
		(void)MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
					      "Bearer");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW,
					      "GET, HEAD");
	sent = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return sent;
}

/* Compare in a time that depends only on the length of a, the text from the request. */
static bool same_secret(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	unsigned char differ = n != m;

	for (size_t i = 0; i < n; i++)
		differ |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
	return !differ;
}

static bool allowed(const wh_http *http, struct MHD_Connection *connection)
{
	const char *given;

	if (!http->token)
		return true;
	given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
					    MHD_HTTP_HEADER_AUTHORIZATION);
	return given && strncmp(given, "Bearer ", 7) == 0 &&
	       same_secret(given + 7, http->token);
}

/*
 * A web page on another host can let its name resolve to this machine, and a browser here
 * then sends us requests for the page.  Such a request has the page's name in Host.  An
 * address cannot resolve to another one, so addresses are allowed, and so is localhost.
 */
static bool host_known(const wh_http *http, struct MHD_Connection *connection)
{
	const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
						       MHD_HTTP_HEADER_HOST);

	return !host || wh_listen_host_known(host, http->hosts);
}

static enum MHD_Result serve(wh_http *http, struct MHD_Connection *connection,
			     const char *path)
{
	static const char plain[] = "text/plain; charset=utf-8";
	wh_buf text = WH_BUF_INIT(ANSWER_MAX);
	char why[240];
	bool fine;

	if (strcmp(path, "/healthz") == 0) {
		fine = wh_daemon_alive(http->daemon, why);
		wh_buf_printf(&text, "%s\n", fine ? "ok" : why);
	} else if (strcmp(path, "/readyz") == 0) {
		fine = wh_daemon_ready(http->daemon, &text);
	} else if (strcmp(path, "/metrics") == 0) {
		wh_metrics_write(http->daemon, http->backlogs, &text);
		return answer(connection, MHD_HTTP_OK,
			      "text/plain; version=0.0.4; charset=utf-8", &text);
	} else {
		wh_buf_puts(&text, "there are /healthz, /readyz and /metrics\n");
		return answer(connection, MHD_HTTP_NOT_FOUND, plain, &text);
	}
	return answer(connection, fine ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
		      plain, &text);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection,
				  const char *path, const char *method,
				  const char *version, const char *body, size_t *body_len,
				  void **state)
{
	wh_http *http = ctx;
	wh_buf text = WH_BUF_INIT(200);

	(void)version;
	(void)body;
	(void)state;
	*body_len = 0;
	wh_http_guard_asked(http->guard, connection);
	if (!host_known(http, connection)) {
		wh_buf_puts(&text,
			    "this host is not known: ask for an address, or add the "
			    "name to http.hosts in wherry.yaml\n");
		return answer(connection, MHD_HTTP_FORBIDDEN, "text/plain", &text);
	}
	if (!allowed(http, connection)) {
		wh_buf_puts(&text, "give the token: Authorization: Bearer TOKEN\n");
		return answer(connection, MHD_HTTP_UNAUTHORIZED, "text/plain", &text);
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		wh_buf_puts(&text, "only GET and HEAD\n");
		return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain",
			      &text);
	}
	return serve(http, connection, path);
}

/* Make the address to bind.  MHD knows its length from the family. */
static void make_address(const char *address, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
	} else {
		(void)inet_pton(AF_INET6, address, &v6->sin6_addr);
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
	}
}

static void release(wh_http *http)
{
	wh_http_guard_free(http->guard);
	free(http->token);
	free(http->hosts);
	free(http);
}

static wherry_code make(const wh_plan *plan, wh_http **out, wherry_error *err)
{
	wh_http *http = calloc(1, sizeof(*http));
	wherry_code code = http ? wh_http_guard_new(&http->guard, err) : wh_oom(err);

	if (code == WHERRY_OK && plan->token.value) {
		http->token = strdup(plan->token.value);
		code = http->token ? WHERRY_OK : wh_oom(err);
	}
	if (code == WHERRY_OK && plan->hosts.value) {
		http->hosts = strdup(plan->hosts.value);
		code = http->hosts ? WHERRY_OK : wh_oom(err);
	}
	if (code == WHERRY_OK)
		*out = http;
	else if (http)
		release(http);
	return code;
}

wherry_code wh_http_start(const wh_plan *plan, wh_daemon *d, wh_backlogs *b,
			  wh_http **out, wherry_error *err)
{
	struct sockaddr_storage where;
	char address[64];
	uint16_t port;
	wh_http *http = NULL;
	unsigned flags = MHD_USE_AUTO_INTERNAL_THREAD;
	wherry_code code = wh_listen_parse(plan->listen.value, address, &port, err);

	if (code != WHERRY_OK)
		return code;
	make_address(address, port, &where);
	if (where.ss_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	code = make(plan, &http, err);
	if (code != WHERRY_OK)
		return code;
	http->daemon = d;
	http->backlogs = b;
	errno = 0;
	http->server = MHD_start_daemon(
		flags, port, NULL, NULL, on_request, http, MHD_OPTION_SOCK_ADDR, &where,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)WH_HTTP_CONNECTIONS,
		MHD_OPTION_NOTIFY_CONNECTION, wh_http_guard_notify, http->guard,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_END);
	if (!http->server) {
		int number = errno;

		release(http);
		if (number == EADDRINUSE)
			return wh_fail(err, WHERRY_BUSY,
				       "another program listens at %s: end it, or set "
				       "http.listen to another port",
				       plan->listen.value);
		return wh_fail_errno(err, number ? number : EIO, "cannot listen at %s",
				     plan->listen.value);
	}
	*out = http;
	return WHERRY_OK;
}

uint16_t wh_http_port(const wh_http *http)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(http->server, MHD_DAEMON_INFO_BIND_PORT);

	return info ? info->port : 0;
}

void wh_http_stop(wh_http *http)
{
	if (!http)
		return;
	MHD_stop_daemon(http->server);
	release(http);
}
