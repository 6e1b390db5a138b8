/*
 * Every destination, with each allocation failing in turn while it is opened, given
 * messages and asked for receipts: all of them are delivered, none is refused for want of
 * memory, and each is as it would have been.
 */
#include "fault.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

enum { MESSAGES = 3, TURNS = 2000, TEXT = 8192 };

/* Where to, and what a line of the file has that the messages end up in. */
typedef struct destination {
	const char *url; /* the file's path comes behind it */
	const char *lines[MESSAGES];
} destination;

static const destination file = {
	"file:", {"\"body\":{\"a\":[1,2]},", "\"body\":\"two\",", "\"body\":3,"}};
static const destination command = {"exec:{ cat; echo; } >>",
				    {"{\"a\":[1,2]}", "\"two\"", "3"}};
static const destination memory = {"memory:", {NULL}};
static const destination nothing = {"null:", {NULL}};

typedef struct delivery {
	const destination *to;
	wherry_temp temp;
	char url[400];
	wherry_publisher *pub;
	wherry_message msgs[MESSAGES];
	bool delivered[MESSAGES], taken[MESSAGES];
	fault_plan plan;
} delivery;

static void fill(wherry_message *msgs)
{
	static const char *const bodies[MESSAGES] = {"{\"a\":[1,2]}", "\"two\"", "3"};

	for (int i = 0; i < MESSAGES; i++) {
		msgs[i] = WHERRY_MESSAGE(.message_id = "m", .topic = "t", .id = i + 1);
		msgs[i].headers = "{\"a long name of one\":\"and its value\"}";
		msgs[i].body = bodies[i];
		msgs[i].body_len = strlen(bodies[i]);
	}
}

/* As a relay that owns it: after an error it is closed, and what was in flight is
 * submitted again. */
static void lose(delivery *d, wherry_code code, const wherry_error *err)
{
	if (code != WHERRY_NOMEM || err->code != code || !*err->message)
		fail_msg("%s: failed %s: %s: %s", d->url, fault_where(),
			 wherry_code_name(code), err->message);
	wherry_publisher_close(d->pub);
	d->pub = NULL;
	memset(d->taken, 0, sizeof(d->taken));
}

static void take_receipts(delivery *d, const wh_receipt *receipts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t which = (size_t)(receipts[i].message - d->msgs);

		assert_true(which < MESSAGES && d->taken[which]);
		if (receipts[i].verdict != WHERRY_DELIVERED)
			fail_msg("%s: failed %s: message %zu: verdict %d: %s", d->url,
				 fault_where(), which + 1, (int)receipts[i].verdict,
				 receipts[i].reason);
		d->delivered[which] = true;
	}
}

static void await(wherry_publisher *pub)
{
	struct pollfd event = {.fd = -1};

	event.fd = wh_publisher_fd(pub, &event.events);
	if (event.fd >= 0)
		(void)poll(&event, 1, 30000);
}

/* Submit the first that is neither delivered nor in flight, and collect. */
static void turn(delivery *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[MESSAGES];
	wherry_code code = WHERRY_OK;
	size_t n = 0;

	if (!d->pub)
		code = wherry_publisher_open(d->url, NULL, &d->pub, &err);
	for (int i = 0; code == WHERRY_OK && i < MESSAGES; i++) {
		const wherry_message *msg = &d->msgs[i];

		if (d->delivered[i])
			continue;
		if (!d->taken[i])
			code = wh_publisher_submit(d->pub, &msg, 1, &n, &err);
		d->taken[i] |= n == 1;
		break; /* one at a time, so that their order in the file is known */
	}
	n = 0;
	if (code == WHERRY_OK)
		code = wh_publisher_collect(d->pub, receipts, MESSAGES, &n, &err);
	if (code == WHERRY_OK)
		take_receipts(d, receipts, n);
	if (code == WHERRY_OK && !n)
		await(d->pub);
	if (code != WHERRY_OK)
		lose(d, code, &err);
}

/* Only whole lines, each as it should be; what was given up may be there twice. */
static void check_file(const delivery *d)
{
	char text[TEXT] = "", *line = text;
	int fd = open(d->temp.path, O_RDONLY | O_CLOEXEC), all = 0;

	assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	(void)close(fd);
	for (char *end; (end = strchr(line, '\n')); line = end + 1) {
		int which = 0;

		*end = 0;
		for (int i = 0; i < MESSAGES; i++)
			which |= (strstr(line, d->to->lines[i]) != NULL) << i;
		if (!which)
			fail_msg("failed %s: wrote '%s'", fault_where(), line);
		all |= which;
	}
	assert_int_equal(all, (1 << MESSAGES) - 1);
	assert_int_equal(*line, 0);
}

static bool deliver(delivery *d)
{
	int left = MESSAGES;

	memset(d->delivered, 0, sizeof(d->delivered));
	memset(d->taken, 0, sizeof(d->taken));
	(void)unlink(d->temp.path);
	fault_rewind();
	fault_arm(d->plan);
	for (int i = 0; i < TURNS && left; i++) {
		turn(d);
		left = MESSAGES;
		for (int m = 0; m < MESSAGES; m++)
			left -= d->delivered[m];
	}
	fault_disarm();
	if (left)
		fail_msg("%s: failed %s: %d are not delivered", d->url, fault_where(),
			 left);
	wherry_publisher_close(d->pub);
	d->pub = NULL;
	if (d->to->lines[0])
		check_file(d);
	return fault_hit();
}

static void sweep(void **state, int n)
{
	const destination *to = *state;
	delivery d = {.to = to};
	const char *path = wherry_temp_make(&d.temp, "out");

	(void)snprintf(d.url, sizeof(d.url), "%s%s", to->url, to->lines[0] ? path : "");
	fill(d.msgs);
	d.plan = (fault_plan){FAULT_MEMORY, 1, n, WHERRY_NOMEM};
	while (deliver(&d))
		d.plan.at++;
	assert_true(d.plan.at > 1);
	wherry_temp_clear(&d.temp);
}

static void any_allocation_may_fail(void **state)
{
	sweep(state, 1);
}

static void memory_may_be_gone_for_a_while(void **state)
{
	sweep(state, 12);
}

#define TEST(test, to)                                                                   \
	{                                                                                \
#to ": " #test, (test), NULL, NULL, (void *)(uintptr_t) & (to)           \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(any_allocation_may_fail, file),
		TEST(any_allocation_may_fail, command),
		TEST(any_allocation_may_fail, memory),
		TEST(any_allocation_may_fail, nothing),
		TEST(memory_may_be_gone_for_a_while, file),
		TEST(memory_may_be_gone_for_a_while, command),
		TEST(memory_may_be_gone_for_a_while, memory),
		TEST(memory_may_be_gone_for_a_while, nothing),
	};

	fault_set_up();
	return cmocka_run_group_tests_name("publishers", tests, NULL, NULL);
}
