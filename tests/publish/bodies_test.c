/*
 * What the publisher around a destination promises while large bodies are stored: order, and
 * nothing lost if the store or the destination fails.
 */
#include "wherry_test.h"

#include <dirent.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <wherry/wherry.h>

#include "publish/driver.h"

/* ---- a destination that keeps the order of keys and fails one message ---- */

enum { MOST = 300 };

typedef struct inner {
	const wherry_message *queue[MOST];
	size_t head, n;
	int64_t got[MOST]; /* Ids, in the order in which they were submitted. */
	size_t n_got;
	int64_t failing; /* 0: none. */
} inner;

static inner at_hand;

static wherry_code inner_open(const char *rest, const wherry_config *config,
			      void **out_state, wherry_error *err)
{
	at_hand = (inner){.n_got = 0};
	*out_state = &at_hand;
	return WHERRY_OK;
}

static void inner_close(void *state)
{
}

static wherry_code inner_submit(void *state, const wherry_message *const *messages,
				size_t n, size_t *out_taken, wherry_error *err)
{
	inner *in = state;

	for (size_t i = 0; i < n; i++) {
		assert_true(in->n < MOST && in->n_got < MOST);
		in->got[in->n_got++] = messages[i]->id;
		in->queue[in->n++] = messages[i];
	}
	*out_taken = n;
	return WHERRY_OK;
}

static wherry_code inner_collect(void *state, wherry_receipt *out, size_t cap,
				 size_t *out_n, wherry_error *err)
{
	inner *in = state;

	while (*out_n < cap && in->head < in->n) {
		const wherry_message *msg = in->queue[in->head++];

		out[(*out_n)++] = (wherry_receipt){.message = msg,
						   .verdict = msg->id == in->failing
								      ? WHERRY_RETRY
								      : WHERRY_DELIVERED};
	}
	return WHERRY_OK;
}

static void inner_drop(void *state)
{
	inner *in = state;

	in->head = in->n = 0;
}

static int64_t inner_deadline(void *state)
{
	const inner *in = state;

	return in->head < in->n ? 0 : WHERRY_PUBLISHER_NEVER;
}

static const wherry_publisher_driver driver = {
	.version = WHERRY_PUBLISHER_VERSION,
	.capabilities = WHERRY_PUBLISHER_ORDERED,
	.scheme = "inner",
	.open = inner_open,
	.close = inner_close,
	.submit = inner_submit,
	.collect = inner_collect,
	.drop = inner_drop,
	.deadline_us = inner_deadline,
};

/* ---- the tests of the publisher around it ---- */

typedef struct fixture {
	wherry_temp temp;
	wherry_publisher *pub;
	wherry_message msgs[MOST];
	wh_receipt receipts[MOST]; /* By id. */
	size_t n_receipts;
} fixture;

static size_t files_in(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *item;
	size_t n = 0;

	while (dir && (item = readdir(dir)))
		n += *item->d_name != '.';
	if (dir)
		(void)closedir(dir);
	return n;
}

static int open_one(void **state)
{
	fixture *f = calloc(1, sizeof(*f));
	wherry_config *config;
	char url[300];

	assert_non_null(f);
	(void)snprintf(url, sizeof(url), "file:%s", wherry_temp_make(&f->temp, "bodies"));
	assert_int_equal(mkdir(f->temp.path, 0700), 0);
	assert_int_equal(wherry_config_new(&config, NULL), WHERRY_OK);
	assert_int_equal(wherry_publisher_register(config, &driver, NULL), WHERRY_OK);
	assert_int_equal(wherry_config_set(config, "relay.body_store", url, NULL),
			 WHERRY_OK);
	assert_int_equal(wherry_config_set(config, "relay.body_store_above", "1KB", NULL),
			 WHERRY_OK);
	assert_int_equal(wherry_publisher_open("inner:", config, &f->pub, NULL),
			 WHERRY_OK);
	wherry_config_free(config);
	*state = f;
	return 0;
}

static int close_one(void **state)
{
	fixture *f = *state;

	wherry_publisher_close(f->pub);
	wherry_temp_clear(&f->temp);
	free(f);
	return 0;
}

static char big[4096];

/* Make message `id` of a key, with a large body or a small one. */
static void make_message(fixture *f, int id, const char *key, bool large)
{
	static char ids[MOST][8];

	memset(big, 'x', sizeof(big));
	(void)snprintf(ids[id], sizeof(ids[id]), "m%d", id);
	wherry_message_init(&f->msgs[id]);
	f->msgs[id].id = id;
	f->msgs[id].message_id = ids[id];
	f->msgs[id].topic = "t";
	f->msgs[id].key = key;
	f->msgs[id].body = large ? big : "{}";
	f->msgs[id].body_len = large ? sizeof(big) : 2;
}

/* Submit the messages from..to, and return how many were taken. */
static size_t submit(fixture *f, int from, int to)
{
	const wherry_message *msgs[MOST];
	size_t taken = 0, n = 0;

	for (int i = from; i <= to; i++)
		msgs[n++] = &f->msgs[i];
	assert_int_equal(wh_publisher_submit(f->pub, msgs, n, &taken, NULL), WHERRY_OK);
	return taken;
}

/* Collect until `n` receipts are there. */
static void collect(fixture *f, size_t n)
{
	while (f->n_receipts < n) {
		wh_receipt some[MOST];
		size_t got = 0;
		struct pollfd fd = {.fd = wh_publisher_fd(f->pub, &fd.events)};

		if (wh_publisher_deadline(f->pub) > 0)
			(void)poll(&fd, 1, 20000);
		assert_int_equal(wh_publisher_collect(f->pub, some, MOST, &got, NULL),
				 WHERRY_OK);
		for (size_t i = 0; i < got; i++)
			f->receipts[some[i].message->id] = some[i];
		f->n_receipts += got;
	}
}

static void got(const int64_t *ids, size_t n)
{
	assert_int_equal(at_hand.n_got, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(at_hand.got[i], ids[i]);
}

#define GOT(...)                                                                         \
	got((const int64_t[]){__VA_ARGS__},                                              \
	    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* 1 to 3 of a key, the second of them large, and 4 of another key. */
static void make_four(fixture *f)
{
	make_message(f, 1, "k", false);
	make_message(f, 2, "k", true);
	make_message(f, 3, "k", false);
	make_message(f, 4, "other", false);
}

WHERRY_TEST_ON(messages_behind_an_upload_wait_and_those_of_other_keys_do_not, fixture *f,
	       open_one, close_one)
{
	make_four(f);
	assert_int_equal(submit(f, 1, 4), 4);
	GOT(1, 4);
	collect(f, 4);
	GOT(1, 4, 2, 3);
	for (int i = 1; i <= 4; i++) {
		assert_int_equal(f->receipts[i].verdict, WHERRY_DELIVERED);
		assert_ptr_equal(f->receipts[i].message, &f->msgs[i]);
	}
	assert_int_equal(files_in(f->temp.path), 1);
}

WHERRY_TEST_ON(a_failed_upload_brings_its_message_and_those_behind_it_back, fixture *f,
	       open_one, close_one)
{
	assert_int_equal(rmdir(f->temp.path), 0);
	make_four(f);
	assert_int_equal(submit(f, 1, 4), 4);
	collect(f, 4);
	GOT(1, 4);
	assert_int_equal(f->receipts[2].verdict, WHERRY_RETRY);
	assert_true(f->receipts[2].held);
	assert_true(f->receipts[2].retry_after_us > 0);
	assert_non_null(strstr(f->receipts[2].reason, "No such file or directory"));
	assert_int_equal(f->receipts[3].verdict, WHERRY_RETRY);
	assert_false(f->receipts[3].held);
	assert_int_equal(f->receipts[4].verdict, WHERRY_DELIVERED);
	assert_int_equal(mkdir(f->temp.path, 0700), 0);
	assert_int_equal(submit(f, 2, 3), 2);
	collect(f, 6);
	GOT(1, 4, 2, 3);
	assert_int_equal(f->receipts[2].verdict, WHERRY_DELIVERED);
	assert_false(f->receipts[2].held);
	assert_int_equal(f->receipts[3].verdict, WHERRY_DELIVERED);
}

WHERRY_TEST_ON(a_failed_message_brings_those_back_that_wait_behind_it, fixture *f,
	       open_one, close_one)
{
	at_hand.failing = 1;
	make_four(f);
	assert_int_equal(submit(f, 1, 4), 4);
	collect(f, 4);
	GOT(1, 4);
	for (int i = 1; i <= 3; i++)
		assert_int_equal(f->receipts[i].verdict, WHERRY_RETRY);
	assert_int_equal(f->receipts[4].verdict, WHERRY_DELIVERED);
	at_hand.failing = 0;
	assert_int_equal(submit(f, 1, 3), 3);
	collect(f, 7);
	GOT(1, 4, 1, 2, 3);
}

WHERRY_TEST_ON(what_was_dropped_gets_no_receipt_and_can_be_submitted_again, fixture *f,
	       open_one, close_one)
{
	make_four(f);
	assert_int_equal(submit(f, 1, 4), 4);
	wh_publisher_drop(f->pub);
	assert_int_equal(submit(f, 2, 3), 2);
	collect(f, 2);
	assert_int_equal(f->receipts[2].verdict, WHERRY_DELIVERED);
	assert_int_equal(f->receipts[3].verdict, WHERRY_DELIVERED);
	GOT(1, 4, 2, 3);
}

WHERRY_TEST_ON(more_large_messages_than_are_uploaded_at_once_keep_their_order, fixture *f,
	       open_one, close_one)
{
	enum { N = 200 };
	int next = 1;

	for (int i = 1; i <= N; i++)
		make_message(f, i, i % 3 ? "a" : "b", i % 2);
	while (next <= N) {
		next += (int)submit(f, next, N);
		if (next <= N)
			collect(f, f->n_receipts + 1);
	}
	collect(f, N);
	assert_int_equal(files_in(f->temp.path), N / 2);
	for (size_t i = 0, a = 0, b = 0; i < N; i++) {
		size_t id = (size_t)at_hand.got[i], *last = id % 3 ? &a : &b;

		assert_int_equal(f->receipts[id].verdict, WHERRY_DELIVERED);
		assert_true(id > *last);
		*last = id;
	}
}

WHERRY_TEST_ON(messages_without_a_key_do_not_wait_for_each_other, fixture *f, open_one,
	       close_one)
{
	make_message(f, 1, NULL, true);
	make_message(f, 2, NULL, false);
	assert_int_equal(submit(f, 1, 2), 2);
	GOT(2);
	collect(f, 2);
	GOT(2, 1);
}

WHERRY_TEST_ON(closing_ends_uploads_that_run, fixture *f, open_one, close_one)
{
	for (int i = 1; i <= 60; i++)
		make_message(f, i, NULL, true);
	assert_int_equal(submit(f, 1, 60), 60);
}

WHERRY_TEST_MAIN
