/*
 * A queue as a destination has each message once, whatever is delivered again; and what is said
 * where the queue or the inbox is missing.
 */
#include "queue_places.h"

#include "postgres/server.h"

static void on_sqlite(void (*test)(queue_place *place))
{
	char url[256];
	queue_place *place = queue_place_sqlite(url, sizeof(url));

	test(place);
	queue_place_stop(place);
}

static void on_postgres(void (*test)(queue_place *place))
{
	queue_place place = {.db = NULL};
	char url[160];

	postgres_enter(url, sizeof(url));
	queue_place_make(&place, url);
	test(&place);
	queue_place_clear(&place);
	postgres_leave();
}

WHERRY_TEST(a_message_that_is_delivered_twice_arrives_once)
{
	on_sqlite(queue_place_delivers_once);
	on_postgres(queue_place_delivers_once);
}

WHERRY_TEST(key_and_trace_id_are_headers_in_the_queue)
{
	on_sqlite(queue_place_carries_key_and_trace);
	on_postgres(queue_place_carries_key_and_trace);
}

WHERRY_TEST(old_ids_are_purged_from_the_inbox_where_the_url_says_so)
{
	on_sqlite(queue_place_purges_its_inbox);
	on_postgres(queue_place_purges_its_inbox);
}

/* What a relay with this destination says when it fails. */
static void fails(const char *to, wherry_code wanted, const char *why)
{
	const wherry_message msg = WHERRY_MESSAGE(.message_id = "m-1", .topic = "t",
						  .body = "{}", .body_len = 2);
	const wherry_message *list[] = {&msg};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub = NULL;
	wherry_code code = WHERRY_OK;
	size_t n = 0;
	wh_receipt receipt;

	WHERRY_PASS(wherry_publisher_open(to, NULL, &pub, &err));
	WHERRY_PASS(wh_publisher_submit(pub, list, 1, &n, &err));
	for (n = 0; code == WHERRY_OK && !n;) {
		code = wh_publisher_collect(pub, &receipt, 1, &n, &err);
		wh_sleep(&wh_env_system, 1000);
	}
	assert_int_equal(code, wanted);
	assert_non_null(strstr(err.message, why));
	wh_publisher_drop(pub); /* and works again */
	WHERRY_PASS(wh_publisher_submit(pub, list, 1, &n, &err));
	wherry_publisher_close(pub);
}

static void what_is_missing(queue_place *place)
{
	const char *mark = strchr(place->url, '?') ? "&" : "?";
	char to[300];

	(void)snprintf(to, sizeof(to), "%s#none", place->url);
	fails(to, WHERRY_NOTFOUND, "there is no queue 'none'");
	(void)snprintf(to, sizeof(to), "%s%sinbox=none#jobs", place->url, mark);
	fails(to, WHERRY_NOTFOUND, "there is no inbox 'none'");
}

WHERRY_TEST(a_queue_or_an_inbox_that_is_missing_is_named)
{
	on_sqlite(what_is_missing);
	on_postgres(what_is_missing);
}

WHERRY_TEST(a_url_without_a_queue_is_refused)
{
	static const char *const urls[] = {"sqlite:a.db",
					   "sqlite:a.db#",
					   "sqlite:a.db#%zz",
					   "sqlite:a.db#%00",
					   "sqlite:a.db?inbox_retention=7#a",
					   "sqlite:a.db?inbox_retention=0s#a"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub = NULL;

	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++)
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_publisher_open(urls[i], NULL, &pub, &err));
	WHERRY_FAILS(WHERRY_INVALID, wh_publisher_check(urls[0], NULL, &err));
	assert_non_null(strstr(err.message, "add #NAME"));
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
