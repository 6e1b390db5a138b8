#include "webhook_site.h"

#include <poll.h>
#include <signal.h>

enum { MOST = 256 };

void site_set(site *s, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(s->config, key, value, &err));
}

site *site_begin(const char *const *args)
{
	site *s = calloc(1, sizeof(*s));
	wherry_error err = WHERRY_ERROR_INIT;

	assert_non_null(s);
	s->server = webhook_server_start(args);
	WHERRY_PASS(wherry_config_new(&s->config, &err));
	(void)snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%d/hook",
		       s->server->port);
	(void)alarm(60);
	return s;
}

static site *begin_tls(const char *name, const char *client, const char *flag)
{
	static const char *args[7];
	static char cert[300], key[300];
	char pem[64];
	site *s;

	(void)snprintf(pem, sizeof(pem), "%s.pem", name);
	(void)snprintf(cert, sizeof(cert), "%s", webhook_certificate(pem));
	(void)snprintf(pem, sizeof(pem), "%s.key", name);
	(void)snprintf(key, sizeof(key), "%s", webhook_certificate(pem));
	args[0] = "--cert";
	args[1] = cert;
	args[2] = "--key";
	args[3] = key;
	args[4] = client ? "--client-ca" : flag;
	args[5] = client ? webhook_certificate(client) : NULL;
	args[6] = NULL;
	s = site_begin(args);
	(void)snprintf(s->url, sizeof(s->url), "https://127.0.0.1:%d/hook",
		       s->server->port);
	site_set(s, "webhook.ca_file", cert);
	return s;
}

site *site_begin_tls(const char *name, const char *client)
{
	return begin_tls(name, client, NULL);
}

site *site_begin_http_2(const char *name)
{
	return begin_tls(name, NULL, "--http2");
}

void site_open(site *s)
{
	wherry_error err = WHERRY_ERROR_INIT;

	wherry_publisher_close(s->pub);
	s->pub = NULL;
	WHERRY_PASS(wherry_publisher_open(s->url, s->config, &s->pub, &err));
}

void site_end(site *s)
{
	wherry_publisher_close(s->pub);
	wherry_config_free(s->config);
	webhook_server_stop(s->server);
	free(s);
	(void)alarm(0);
}

/* ---- sending ---- */

wherry_message plain_message(const char *headers)
{
	wherry_message m = WHERRY_MESSAGE(.topic = "orders", .body = "{\"n\":1}");

	m.message_id = "msg_1";
	m.id = 7;
	m.body_len = 7;
	m.headers = headers;
	m.created_at_us = 1700000000123456;
	return m;
}

size_t site_submit(site *s, const wherry_message *msgs, size_t n)
{
	const wherry_message *list[MOST];
	wherry_error err = WHERRY_ERROR_INIT;
	size_t taken = 0;

	for (size_t i = 0; i < n; i++)
		list[i] = &msgs[i];
	WHERRY_PASS(wh_publisher_submit(s->pub, list, n, &taken, &err));
	return taken;
}

void site_await(site *s)
{
	struct pollfd event = {.fd = -1};
	int64_t deadline_us = wh_publisher_deadline(s->pub);
	int64_t left_us = deadline_us - wh_monotonic(&wh_env_system);

	event.fd = wh_publisher_fd(s->pub, &event.events);
	assert_true(event.fd >= 0 || deadline_us != WH_NEVER);
	if (left_us > 0)
		(void)poll(&event, event.fd >= 0,
			   left_us < 30 * WH_SECOND ? (int)(left_us / 1000) + 1 : 30000);
}

wherry_code site_collect(site *s, wh_receipt *out, size_t n, wherry_error *err)
{
	for (size_t have = 0, more; have < n; have += more) {
		wherry_code code =
			wh_publisher_collect(s->pub, out + have, n - have, &more, err);

		if (code != WHERRY_OK)
			return code;
		if (have + more < n)
			site_await(s);
	}
	return WHERRY_OK;
}

wh_receipt site_send(site *s, const wherry_message *msg)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipt = {0};

	assert_int_equal(site_submit(s, msg, 1), 1);
	WHERRY_PASS(site_collect(s, &receipt, 1, &err));
	assert_ptr_equal(receipt.message, msg);
	return receipt;
}

void site_delivers(site *s, const wherry_message *msg)
{
	wh_receipt receipt = site_send(s, msg);

	if (receipt.verdict != WHERRY_DELIVERED)
		fail_msg("verdict %d: %s", receipt.verdict, receipt.reason);
	assert_string_equal(receipt.reason, "");
}

void site_fails(site *s, wherry_code want, const char *text)
{
	wherry_message m = plain_message(NULL);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipt;

	site_open(s);
	assert_int_equal(site_submit(s, &m, 1), 1);
	if (site_collect(s, &receipt, 1, &err) == WHERRY_OK)
		fail_msg("verdict %d: %s", receipt.verdict, receipt.reason);
	assert_int_equal(err.code, want);
	if (!strstr(err.message, text))
		fail_msg("'%s' lacks '%s'", err.message, text);
}

void site_denies(site *s, const char *text)
{
	wherry_message m = plain_message(NULL);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipt;

	site_open(s);
	assert_int_equal(site_submit(s, &m, 1), 1);
	WHERRY_PASS(site_collect(s, &receipt, 1, &err));
	assert_int_equal(receipt.verdict, WHERRY_RETRY);
	assert_true(receipt.denied);
	if (!strstr(receipt.reason, text))
		fail_msg("'%s' lacks '%s'", receipt.reason, text);
}

/* ---- what arrived ---- */

static json_t *the_log; /* of the last look */

const json_t *site_request(site *s, size_t n)
{
	json_decref(the_log);
	the_log = webhook_server_log(s->server);
	assert_non_null(json_array_get(the_log, n));
	return json_array_get(the_log, n);
}

size_t site_requests(site *s)
{
	json_decref(the_log);
	the_log = webhook_server_log(s->server);
	return json_array_size(the_log);
}

const char *entry_header(const json_t *entry, const char *name)
{
	return json_string_value(
		json_object_get(json_object_get(entry, "headers"), name));
}

int64_t entry_number(const json_t *entry, const char *name)
{
	return json_integer_value(json_object_get(entry, name));
}

void entry_has(const json_t *entry, const char *name, const char *want)
{
	const char *got = entry_header(entry, name);

	if (!want && got)
		fail_msg("there is a %s: %s", name, got);
	if (want && (!got || strcmp(got, want) != 0))
		fail_msg("%s is '%s', not '%s'", name, got ? got : "missing", want);
}

int site_run_tests(const struct CMUnitTest *tests, size_t n)
{
	int failed;

	(void)signal(SIGPIPE, SIG_IGN);
	failed = _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
	json_decref(the_log);
	webhook_certificates_clear();
	return failed;
}
