/*
 * RabbitMQ's answers, each to the message that it concerns.
 */
#include "amqp_broker.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>

#include <wherry/wherry.h>

#include "publish/driver.h"

enum { MOST = 40, LONGEST_US = 30000000 };

typedef struct fixture {
	amqp_broker *broker;
	wherry_publisher *pub;
	wherry_message messages[MOST];
	char ids[MOST][16];
	wh_receipt receipts[MOST];
	bool over[MOST];
	size_t n, n_over;
} fixture;

static fixture f;

static int set_up(void **state)
{
	(void)alarm(120);
	f = (fixture){.broker = amqp_broker_get()};
	return 0;
}

static int tear_down(void **state)
{
	wherry_publisher_close(f.pub);
	if (f.broker)
		amqp_broker_close(f.broker);
	(void)alarm(0);
	return 0;
}

static void begin(const char *rest)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char url[300];

	if (!f.broker)
		skip();
	(void)snprintf(url, sizeof(url), "amqp://127.0.0.1:%d%s", f.broker->port, rest);
	WHERRY_PASS(wherry_publisher_open(url, NULL, &f.pub, &err));
}

static wherry_message *add(const char *topic)
{
	wherry_message m = WHERRY_MESSAGE(.topic = topic, .body = "{}", .body_len = 2);

	assert_true(f.n < MOST);
	(void)snprintf(f.ids[f.n], sizeof(f.ids[f.n]), "m-%zu", f.n);
	m.id = (int64_t)f.n + 1;
	m.message_id = f.ids[f.n];
	f.messages[f.n] = m;
	return &f.messages[f.n++];
}

static void submit(void)
{
	const wherry_message *all[MOST];
	wherry_error err = WHERRY_ERROR_INIT;
	size_t taken;

	for (size_t i = 0; i < f.n; i++)
		all[i] = &f.messages[i];
	WHERRY_PASS(wh_publisher_submit(f.pub, all, f.n, &taken, &err));
	assert_int_equal(taken, f.n);
}

static void collect(void)
{
	wh_receipt receipts[MOST];
	wherry_error err = WHERRY_ERROR_INIT;
	struct pollfd event = {.fd = wh_publisher_fd(f.pub, &event.events)};
	size_t n;

	(void)poll(&event, 1, 20);
	WHERRY_PASS(wh_publisher_collect(f.pub, receipts, MOST, &n, &err));
	for (size_t i = 0; i < n; i++) {
		size_t at = (size_t)(receipts[i].message - f.messages);

		assert_true(at < f.n && !f.over[at]);
		f.over[at] = true;
		f.receipts[at] = receipts[i];
		f.n_over++;
	}
}

static void collect_all(void)
{
	int64_t end = wh_later(wh_monotonic(&wh_env_system), LONGEST_US);

	while (f.n_over < f.n) {
		assert_true(wh_monotonic(&wh_env_system) < end);
		collect();
	}
}

static void course(void)
{
	submit();
	collect_all();
}

static void is(size_t at, wherry_verdict verdict, const char *reason)
{
	const wh_receipt *r = &f.receipts[at];

	if (r->verdict != verdict || !strstr(r->reason, reason))
		fail_msg("message %zu: verdict %d: %s", at, r->verdict, r->reason);
}

/* How often a message arrived in a queue. */
static size_t count(const char *queue, size_t at)
{
	amqp_message_t msg;
	size_t n = 0;

	while (amqp_broker_take(f.broker, queue, true, &msg)) {
		n += msg.properties.message_id.len == strlen(f.ids[at]) &&
		     memcmp(msg.properties.message_id.bytes, f.ids[at],
			    strlen(f.ids[at])) == 0;
		amqp_destroy_message(&msg);
	}
	amqp_broker_close(f.broker);
	return n;
}

static void make_exchange(const char *name, const char *queue)
{
	amqp_broker_open(f.broker);
	(void)amqp_exchange_declare(f.broker->conn, 1, amqp_cstring_bytes(name),
				    amqp_cstring_bytes("fanout"), 0, 1, 0, 0,
				    amqp_empty_table);
	(void)amqp_queue_bind(f.broker->conn, 1, amqp_cstring_bytes(queue),
			      amqp_cstring_bytes(name), amqp_empty_bytes,
			      amqp_empty_table);
}

WHERRY_TEST_WITH(a_missing_exchange_holds_its_messages_and_no_others, set_up, tear_down)
{
	begin("?exchange={topic}");
	amqp_broker_queue(f.broker, "q", -1);
	make_exchange("shop", "q");
	for (int i = 0; i < 20; i++)
		(void)add(i % 5 == 3 ? "none" : "shop");
	course();
	for (size_t i = 0; i < f.n; i++) {
		if (i % 5 != 3) {
			is(i, WHERRY_DELIVERED, "");
			assert_int_equal(count("q", i), 1);
			continue;
		}
		is(i, WHERRY_RETRY, "no exchange 'none' in vhost '/'");
		assert_true(f.receipts[i].held && f.receipts[i].denied);
		assert_true(f.receipts[i].retry_after_us > 0);
	}
}

WHERRY_TEST_WITH(an_exchange_that_goes_loses_no_message, set_up, tear_down)
{
	begin("?exchange={topic}");
	amqp_broker_queue(f.broker, "q", -1);
	make_exchange("shop", "q");
	make_exchange("gone", "q");
	(void)add("shop");
	(void)add("gone");
	course();
	is(1, WHERRY_DELIVERED, "");
	(void)amqp_exchange_delete(f.broker->conn, 1, amqp_cstring_bytes("gone"), 0);
	amqp_broker_queue(f.broker, "q", -1);
	make_exchange("shop", "q");
	f.n = f.n_over = 0;
	memset(f.over, 0, sizeof(f.over));
	for (int i = 0; i < 30; i++)
		(void)add(i == 12 ? "gone" : "shop");
	course();
	for (size_t i = 0; i < f.n; i++) {
		if (i == 12) {
			is(i, WHERRY_RETRY, "no exchange 'gone'");
			continue;
		}
		is(i, WHERRY_DELIVERED, "");
		assert_true(count("q", i) >= 1);
	}
}

WHERRY_TEST_WITH(a_message_that_comes_back_is_the_right_one, set_up, tear_down)
{
	begin("");
	amqp_broker_queue(f.broker, "q", -1);
	for (int i = 0; i < 20; i++)
		(void)add(i == 7 || i == 15 ? "nowhere" : "q");
	course();
	for (size_t i = 0; i < f.n; i++)
		if (i == 7 || i == 15) {
			is(i, WHERRY_REJECTED,
			   "NO_ROUTE: no queue takes it from exchange '' with routing "
			   "key 'nowhere'");
			assert_true(f.receipts[i].denied);
		} else {
			is(i, WHERRY_DELIVERED, "");
		}
}

WHERRY_TEST_WITH(a_full_queue_holds_up_no_other, set_up, tear_down)
{
	begin("");
	amqp_broker_queue(f.broker, "q", -1);
	amqp_broker_queue(f.broker, "full", 3);
	for (int i = 0; i < 20; i++)
		(void)add(i % 2 ? "full" : "q");
	course();
	for (size_t i = 0; i < f.n; i++)
		if (i % 2 && i / 2 >= 3) {
			is(i, WHERRY_RETRY, "a queue is full");
			assert_true(f.receipts[i].held);
		} else {
			is(i, WHERRY_DELIVERED, "");
		}
}

WHERRY_TEST_WITH(what_cannot_be_sent_is_refused_before_it_is, set_up, tear_down)
{
	static char large[140000], headers[140100], name[300], names[400];

	memset(large, 'x', sizeof(large) - 1);
	memset(name, 't', sizeof(name) - 1);
	(void)snprintf(headers, sizeof(headers), "{\"a\":\"%s\"}", large);
	(void)snprintf(names, sizeof(names), "{\"%s\":\"a\"}", name);
	begin("?routing_key={topic}");
	amqp_broker_queue(f.broker, "q", -1);
	(void)add("q");
	add("q")->headers = headers;
	add("q")->headers = names;
	add("q")->headers = "{\"wherry-expiration\":\"soon\"}";
	(void)add(name);
	(void)add("q");
	course();
	is(0, WHERRY_DELIVERED, "");
	is(1, WHERRY_REJECTED, "larger than a frame");
	is(2, WHERRY_REJECTED, "longer than 255 bytes");
	is(3, WHERRY_REJECTED, "'soon' is not a number of milliseconds");
	is(4, WHERRY_REJECTED, "routing key is longer");
	is(5, WHERRY_DELIVERED, "");
	assert_int_equal(count("q", 5), 1);
}

WHERRY_TEST_WITH(the_next_host_is_tried, set_up, tear_down)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char url[100];

	if (!f.broker)
		skip();
	(void)snprintf(url, sizeof(url),
		       "amqp://guest:guest@127.0.0.1:1,localhost:%d/%%2f",
		       f.broker->port);
	WHERRY_PASS(wherry_publisher_open(url, NULL, &f.pub, &err));
	amqp_broker_queue(f.broker, "q", -1);
	(void)add("q");
	course();
	is(0, WHERRY_DELIVERED, "");
}

WHERRY_TEST_WITH(a_broker_without_memory_is_waited_for, set_up, tear_down)
{
	const char *trouble = NULL;
	const wherry_message *next;
	wherry_error err = WHERRY_ERROR_INIT;
	size_t taken;

	begin("");
	amqp_broker_queue(f.broker, "q", -1);
	amqp_broker_tell(f.broker, "ctl set_vm_memory_high_watermark 0.000001");
	for (int i = 0; i < 20; i++)
		(void)add("q");
	next = add("q");
	f.n--;
	submit();
	while (f.n_over < f.n && !trouble) { /* It may read some before it stops. */
		collect();
		trouble = wh_publisher_trouble(f.pub);
	}
	if (trouble)
		assert_non_null(strstr(trouble, "the broker takes no messages now"));
	while (f.n_over == f.n && !trouble) { /* It says so with the first message. */
		WHERRY_PASS(wh_publisher_submit(f.pub, &next, 1, &taken, &err));
		f.n += taken;
		collect();
		trouble = wh_publisher_trouble(f.pub);
	}
	if (f.n_over < f.n) { /* One may be taken while it is blocked, no more. */
		WHERRY_PASS(wh_publisher_submit(f.pub, &next, 1, &taken, &err));
		assert_int_equal(taken, 0);
	}
	amqp_broker_tell(f.broker, "ctl set_vm_memory_high_watermark 0.6");
	collect_all();
	for (size_t i = 0; i < f.n; i++) {
		is(i, WHERRY_DELIVERED, "");
		assert_int_equal(count("q", i), 1);
	}
}

WHERRY_TEST_WITH(a_missing_right_concerns_its_exchange_alone, set_up, tear_down)
{
	begin("?exchange={topic}");
	amqp_broker_queue(f.broker, "q", -1);
	make_exchange("shop", "q");
	make_exchange("closed", "q");
	amqp_broker_tell(f.broker, "ctl set_permissions guest '.*' '^shop$' '.*'");
	for (int i = 0; i < 10; i++)
		(void)add(i % 2 ? "closed" : "shop");
	course();
	amqp_broker_tell(f.broker, "ctl set_permissions guest '.*' '.*' '.*'");
	for (size_t i = 0; i < f.n; i++)
		if (i % 2) {
			is(i, WHERRY_RETRY,
			   "access to exchange 'closed' in vhost '/' refused");
			assert_true(f.receipts[i].held && f.receipts[i].denied);
		} else {
			is(i, WHERRY_DELIVERED, "");
		}
}

/* ---- closing ---- */

static size_t threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

/* OpenSSL is cleaned up when the process ends, and no thread may use it then. */
static void close_while_it_waits(const char *scheme, int64_t most_us)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
	socklen_t len = sizeof(at);
	wherry_error err = WHERRY_ERROR_INIT;
	size_t before = threads();
	char url[80], byte;
	int64_t began;

	assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	(void)snprintf(url, sizeof(url), "%s://127.0.0.1:%d", scheme, ntohs(at.sin_port));
	WHERRY_PASS(wherry_publisher_open(url, NULL, &f.pub, &err));
	(void)add("q");
	submit();
	fd = accept(listener, NULL, NULL);
	assert_int_equal(read(fd, &byte, 1), 1); /* It waits for an answer. */
	began = wh_monotonic(&wh_env_system);
	wherry_publisher_close(f.pub);
	f.pub = NULL;
	assert_true(wh_monotonic(&wh_env_system) - began < most_us);
	assert_int_equal(threads(), before);
	(void)close(fd);
	(void)close(listener);
}

WHERRY_TEST_WITH(closing_ends_the_thread_that_logs_in, set_up, tear_down)
{
	close_while_it_waits("amqp", 3000000);
}

WHERRY_TEST_WITH(closing_waits_for_the_thread_that_connects_by_tls, set_up, tear_down)
{
	close_while_it_waits("amqps", 10000000);
}

WHERRY_TEST_MAIN
