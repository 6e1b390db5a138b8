/*
 * https: and http: what is not spoken to, and how: certificates, HTTP/2, private addresses,
 * what is refused when it is opened.
 */
#include "child_server.h"
#include "webhook_site.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "publish/webhook/webhook.h"

/* ---- TLS ---- */

static void a_certificate_that_is_trusted_is_taken(void **state)
{
	site *s = site_begin_tls("good", NULL);
	wherry_message m = plain_message(NULL);

	site_open(s);
	site_delivers(s, &m);
	site_end(s);
}

static void other_certificates_are_refused(void **state)
{
	site *s = site_begin_tls("good", NULL);

	site_set(s, "webhook.ca_file", "");
	site_fails(s, WHERRY_DENIED,
		   "an authority that is not known here: if it is your "
		   "own, name it with webhook.ca_file");
	assert_int_equal(site_requests(s), 0);
	site_end(s);
	s = site_begin_tls("other", NULL);
	site_fails(s, WHERRY_DENIED, "for another host name: use a name that");
	site_end(s);
	s = site_begin_tls("expired", NULL);
	site_fails(s, WHERRY_DENIED, "has expired: renew it there");
	site_end(s);
}

static void a_server_may_ask_for_a_certificate(void **state)
{
	site *s = site_begin_tls("good", "client.pem");
	wherry_message m = plain_message(NULL);

	site_fails(s, WHERRY_DENIED, "SSL");
	site_set(s, "webhook.client_cert", webhook_certificate("client.pem"));
	site_open(s);
	site_delivers(s, &m);
	site_set(s, "webhook.client_key", webhook_certificate("client.key"));
	site_open(s);
	site_delivers(s, &m);
	site_set(s, "webhook.client_cert", webhook_certificate("other.pem"));
	site_set(s, "webhook.client_key", webhook_certificate("other.key"));
	site_fails(s, WHERRY_DENIED, "");
	site_end(s);
}

/* As servers of TLS 1.3 say it: once the request has left. */
static void a_certificate_refused_late_is_no_messages_fault(void **state)
{
	const wh_webhook_answer answer = {
		.result = CURLE_RECV_ERROR,
		.sent = true,
		.error = "OpenSSL SSL_read: error:0A00045C:SSL routines::tlsv13 alert "
			 "certificate required, errno 0",
		.text = "",
	};

	assert_int_equal(wh_webhook_judge(&answer).code, WHERRY_DENIED);
}

static void what_speaks_no_tls_is_not_spoken_to(void **state)
{
	site *s = site_begin(NULL);

	(void)snprintf(s->url, sizeof(s->url), "https://127.0.0.1:%d/hook",
		       s->server->port);
	site_set(s, "webhook.connect_timeout", "500ms");
	site_open(s);
	site_fails(s, WHERRY_CLOSED, "");
	assert_int_equal(site_requests(s), 0);
	site_end(s);
}

/* ---- HTTP/2 ---- */

static bool answers_at(int port)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in.sin_port = htons((uint16_t)port);
	rc = connect(fd, (const struct sockaddr *)&in, sizeof(in));
	(void)close(fd);
	return rc == 0;
}

/* nghttpd, which sends back what it is sent; 0: it is not there. */
static pid_t start_http2(int port)
{
	char cert[300], key[300], number_[16];
	pid_t pid;

	if (system("command -v nghttpd >/dev/null") != 0)
		return 0;
	(void)snprintf(cert, sizeof(cert), "%s", webhook_certificate("good.pem"));
	(void)snprintf(key, sizeof(key), "%s", webhook_certificate("good.key"));
	(void)snprintf(number_, sizeof(number_), "%d", port);
	(void)fflush(stdout);
	pid = fork();
	if (!pid) {
		(void)execlp("nghttpd", "nghttpd", "-a", "127.0.0.1", "--echo-upload",
			     "-n1", number_, key, cert, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; !answers_at(port); i++)
		if (i == 1000 || poll(NULL, 0, 10) < 0)
			fail_msg("nghttpd does not start");
	return pid;
}

static void one_connection_of_http_2_carries_many_requests(void **state)
{
	int port = child_server_port();
	pid_t server = start_http2(port);
	site *s;
	wherry_message m[60];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[60];

	if (!server)
		skip();
	s = site_begin(NULL);
	(void)snprintf(s->url, sizeof(s->url), "https://127.0.0.1:%d/hook", port);
	site_set(s, "webhook.ca_file", webhook_certificate("good.pem"));
	site_set(s, "webhook.connections", "1");
	site_set(s, "webhook.streams", "50");
	site_open(s);
	for (int i = 0; i < 60; i++)
		m[i] = plain_message(NULL);
	assert_int_equal(site_submit(s, m, 60), 1); /* which asks what is spoken */
	WHERRY_PASS(site_collect(s, receipts, 1, &err));
	assert_int_equal(receipts[0].verdict, WHERRY_DELIVERED);
	assert_int_equal(site_submit(s, m, 60), 50);
	WHERRY_PASS(site_collect(s, receipts, 50, &err));
	for (int i = 0; i < 50; i++)
		assert_int_equal(receipts[i].verdict, WHERRY_DELIVERED);
	(void)kill(server, SIGKILL);
	(void)waitpid(server, NULL, 0);
	site_end(s);
}

/* ---- private addresses ---- */

static bool private_text(const char *text)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_in in = {.sin_family = AF_INET};

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
		return wh_address_private((const struct sockaddr *)&in);
	assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
	return wh_address_private((const struct sockaddr *)&in6);
}

/* A connection that goes silent is not used again, though its TCP lives. */
static void a_silent_connection_of_http_2_is_replaced(void **state)
{
	static const wherry_verdict want[] = {WHERRY_DELIVERED, WHERRY_UNKNOWN,
					      WHERRY_DELIVERED};
	site *s = site_begin_http_2("good");
	wherry_message m = plain_message(NULL);

	webhook_server_answer(s->server, "http2 once");
	site_set(s, "webhook.timeout", "700ms");
	site_open(s);
	for (int i = 0; i < 3; i++) {
		wh_receipt receipt = site_send(s, &m);

		if (receipt.verdict != want[i])
			fail_msg("message %d: %d, %s", i, receipt.verdict,
				 receipt.reason);
	}
	site_end(s);
}

/* What was in flight may have been answered, and comes again; nothing else does. */
static void a_receiver_that_resets_requests_of_http_2_gets_http_1(void **state)
{
	enum { N = 20 };
	site *s = site_begin_http_2("good");
	wherry_message m[N];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[N];

	for (int i = 0; i < N; i++)
		m[i] = plain_message(NULL);
	webhook_server_answer(s->server, "http2 early");
	site_set(s, "webhook.connections", "8");
	site_open(s);
	site_delivers(s, m);
	assert_int_equal(site_submit(s, m, N), N);
	WHERRY_PASS(site_collect(s, receipts, N, &err));
	for (int i = 0; i < N; i++) {
		assert_int_equal(receipts[i].verdict, WHERRY_UNKNOWN);
		assert_non_null(strstr(receipts[i].reason, "over HTTP/1.1"));
	}
	assert_int_equal(site_requests(s), 0);
	for (size_t sent = 0, n; sent < N; sent += n) {
		n = site_submit(s, m + sent, N - sent);
		assert_in_range(n, 1, 8);
		WHERRY_PASS(site_collect(s, receipts, n, &err));
		for (size_t i = 0; i < n; i++)
			if (receipts[i].verdict != WHERRY_DELIVERED)
				fail_msg("%s", receipts[i].reason);
	}
	assert_int_equal(site_requests(s), N);
	site_end(s);
}

static void private_addresses_are_known(void **state)
{
	static const char *const private[] = {
		"127.0.0.1",
		"127.255.0.1",
		"0.0.0.0",
		"10.1.2.3",
		"172.16.0.1",
		"172.31.255.255",
		"192.168.1.1",
		"169.254.169.254",
		"100.64.0.1",
		"192.0.2.1",
		"198.18.0.1",
		"224.0.0.1",
		"255.255.255.255",
		"::1",
		"::",
		"fe80::1",
		"fc00::1",
		"fd12::1",
		"ff02::1",
		"::ffff:10.0.0.1",
		"::ffff:127.0.0.1",
		"64:ff9b::a00:1",
		"2002:a00:1::",
		"2001:db8::1",
		"64:ff9b:1::1",
	};
	static const char *const public[] = {
		"1.1.1.1",     "172.15.255.255", "172.32.0.0",       "192.169.0.1",
		"100.128.0.1", "11.0.0.0",       "223.255.255.255",  "2606:4700::1111",
		"2a00::1",     "::ffff:1.1.1.1", "64:ff9b::101:101",
	};

	for (size_t i = 0; i < sizeof(private) / sizeof(*private); i++)
		if (!private_text(private[i]))
			fail_msg("%s is private", private[i]);
	for (size_t i = 0; i < sizeof(public) / sizeof(*public); i++)
		if (private_text(public[i]))
			fail_msg("%s is public", public[i]);
}

static void a_private_address_is_refused_whatever_its_name(void **state)
{
	site *s = site_begin(NULL);

	site_set(s, "webhook.private_addresses", "refuse");
	site_fails(s, WHERRY_DENIED, "private");
	(void)snprintf(s->url, sizeof(s->url), "http://localhost:%d/", s->server->port);
	site_fails(s, WHERRY_DENIED, "private");
	(void)snprintf(s->url, sizeof(s->url), "http://0x7f000001:%d/", s->server->port);
	site_fails(s, WHERRY_DENIED, "private");
	assert_int_equal(site_requests(s), 0);
	site_end(s);
}

/* ---- opening ---- */

static void refuses(const char *key, const char *value, const char *url, const char *text)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub = NULL;
	wherry_config *config = NULL;

	WHERRY_PASS(wherry_config_new(&config, &err));
	if (key)
		WHERRY_PASS(wherry_config_set(config, key, value, &err));
	assert_int_not_equal(wherry_publisher_open(url, config, &pub, &err), WHERRY_OK);
	assert_null(pub);
	if (!strstr(err.message, text) || strstr(err.message, "hunter2"))
		fail_msg("'%s' lacks '%s'", err.message, text);
	wherry_config_free(config);
}

static void what_cannot_work_is_refused_when_it_is_opened(void **state)
{
	refuses(NULL, NULL, "https:", "https: needs a host, as in https://example.com");
	refuses(NULL, NULL, "http:/x", "http: needs a host");
	refuses(NULL, NULL, "https:///x", "needs a host");
	refuses(NULL, NULL, "https://u:hunter2@ho st/", "is not a URL to POST to");
	refuses(NULL, NULL, "https://host:99999/", "Port number");
	refuses(NULL, NULL, "https://host/{key}", "a '{' in the URL stands for nothing");
	refuses(NULL, NULL, "https://{topic}.example.com/", "not before");
	refuses("webhook.headers", "no colon", "https://host/", "line 1");
	refuses("webhook.headers", "A: b\n: c", "https://host/", "line 2");
	refuses("webhook.headers", "env:NO_SUCH", "https://host/", "NO_SUCH");
	refuses("webhook.ca_file", "/no/such", "https://host/", "/no/such");
	refuses("webhook.client_cert", "/no/such", "https://host/",
		"webhook.client_cert");
	refuses("webhook.ca_file", "/dev/null", "https://host/",
		"webhook.ca_file: '/dev/null' is not a PEM file");
	refuses("webhook.client_key", webhook_certificate("client.key"), "https://host/",
		"webhook.client_cert");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_certificate_that_is_trusted_is_taken),
		cmocka_unit_test(other_certificates_are_refused),
		cmocka_unit_test(a_server_may_ask_for_a_certificate),
		cmocka_unit_test(a_certificate_refused_late_is_no_messages_fault),
		cmocka_unit_test(what_speaks_no_tls_is_not_spoken_to),
		cmocka_unit_test(one_connection_of_http_2_carries_many_requests),
		cmocka_unit_test(a_silent_connection_of_http_2_is_replaced),
		cmocka_unit_test(a_receiver_that_resets_requests_of_http_2_gets_http_1),
		cmocka_unit_test(private_addresses_are_known),
		cmocka_unit_test(a_private_address_is_refused_whatever_its_name),
		cmocka_unit_test(what_cannot_work_is_refused_when_it_is_opened),
	};

	return site_run(tests);
}
