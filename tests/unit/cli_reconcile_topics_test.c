#include "wherry_test.h"

#include <stdio.h>

#include "cli/reconcile_topics.h"

enum { MANY = 5000 };

static wherry_error err;

WHERRY_TEST(each_topic_is_there_once_in_the_order_in_which_it_came)
{
	wh_topics topics = {.n = 0};
	char name[32];

	for (int i = 0; i < 3 * MANY; i++) {
		(void)snprintf(name, sizeof(name), "topic-%d", i % MANY);
		WHERRY_PASS(wh_topics_add(&topics, name, &err));
		WHERRY_PASS(wh_topics_add(&topics, name, &err));
	}
	assert_int_equal(topics.n, MANY);
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "topic-%d", i);
		assert_string_equal(topics.names[i], name);
	}
	wh_topics_clear(&topics);
	assert_int_equal(topics.n, 0);
}

WHERRY_TEST_MAIN
