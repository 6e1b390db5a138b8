#include "wherry_test.h"

#include <pthread.h>

#include "base/duration.h"
#include "base/text.h"
#include "config/settings.h"

static int make(void **state)
{
	wherry_config *config = NULL;

	if (wherry_config_new(&config, NULL) != WHERRY_OK)
		return -1;
	*state = config;
	return 0;
}

static int drop(void **state)
{
	wherry_config_free(*state);
	return 0;
}

WHERRY_TEST_WITH(every_default_is_accepted_by_its_own_bounds, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int n = 0;

	for (const wherry_setting *s = wherry_config_table(); s->key; s++, n++) {
		int64_t before = wh_config_int(NULL, (wh_setting)n);

		WHERRY_PASS(wherry_config_set(*state, s->key, s->standard, &err));
		assert_true(wh_config_int(*state, (wh_setting)n) == before);
	}
	assert_int_equal(n, WH_SETTING_COUNT);
	WHERRY_PASS(wh_config_check(*state, &err));
	WHERRY_PASS(wh_config_check(NULL, &err));
}

WHERRY_TEST_WITH(every_row_of_the_table_is_complete, make, drop)
{
	for (const wherry_setting *s = wherry_config_table(); s->key; s++) {
		assert_non_null(strchr(s->key, '.'));
		assert_true(strlen(s->help) > 8);
		assert_int_equal(s->help[strlen(s->help) - 1], '.');
		assert_non_null(s->standard);
		assert_non_null(s->range);
		if (strcmp(s->type, "text") == 0 || strcmp(s->type, "switch") == 0)
			assert_string_equal(s->range, "");
		else
			assert_string_not_equal(s->range, "");
		for (const wherry_setting *t = wherry_config_table(); t != s; t++)
			assert_string_not_equal(s->key, t->key);
	}
}

/* "1s to 1h" in the units that the row is written in. */
static bool parse(const wherry_setting *s, const char *text, int64_t *out)
{
	if (strcmp(s->type, "duration") == 0)
		return wh_duration_parse(text, out, NULL) == WHERRY_OK;
	if (strcmp(s->type, "size") == 0)
		return wh_size_parse(text, out, NULL) == WHERRY_OK;
	return strcmp(s->type, "number") == 0 && wh_parse_int(text, out);
}

WHERRY_TEST_WITH(bounds_hold_and_one_beyond_them_is_refused, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int tried = 0;

	for (const wherry_setting *s = wherry_config_table(); s->key; s++) {
		char least[20], most[20], text[40];
		const char *unit = strcmp(s->type, "duration") == 0 ? "us"
				   : strcmp(s->type, "size") == 0   ? "B"
								    : "";
		int64_t low = 0, high = 0;
		const char *to = strstr(s->range, " to ");

		if (!to || strcmp(s->type, "choice") == 0)
			continue;
		(void)snprintf(least, sizeof(least), "%.*s", (int)(to - s->range),
			       s->range);
		(void)snprintf(most, sizeof(most), "%s", to + 4);
		assert_true(parse(s, least, &low) && parse(s, most, &high));
		assert_true(low < high);
		WHERRY_PASS(wherry_config_set(*state, s->key, least, &err));
		WHERRY_PASS(wherry_config_set(*state, s->key, most, &err));
		(void)snprintf(text, sizeof(text), "%lld%s", (long long)high + 1, unit);
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_config_set(*state, s->key, text, &err));
		assert_non_null(strstr(err.message, s->key));
		assert_non_null(strstr(err.message, most));
		if (low > 0) {
			(void)snprintf(text, sizeof(text), "%lld%s", (long long)low - 1,
				       unit);
			WHERRY_FAILS(WHERRY_INVALID,
				     wherry_config_set(*state, s->key, text, &err));
		}
		assert_string_equal(wherry_config_get(*state, s->key), most);
		tried++;
	}
	assert_true(tried > 15);
}

/* Of each setting but texts, which their readers refuse: words that no setting of its kind takes. */
WHERRY_TEST_WITH(a_wrong_value_is_answered_with_the_setting_and_one_that_works, make,
		 drop)
{
	static const char *const wrong[] = {"", "nope", "1e3", "ON", "12x", "-1y"};
	static const struct {
		const char *type, *works;
	} kinds[] = {
		{"duration", "30s"}, {"size", "64KB"},         {"number", NULL},
		{"choice", NULL},    {"switch", "on nor off"},
	};
	wherry_error err = WHERRY_ERROR_INIT;

	for (const wherry_setting *s = wherry_config_table(); s->key; s++) {
		const char *works =
			strcmp(s->type, "choice") == 0 ? s->range : s->standard;

		if (strcmp(s->type, "text") == 0)
			continue;
		for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
			if (strcmp(kinds[i].type, s->type) == 0 && kinds[i].works)
				works = kinds[i].works;
		for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
			WHERRY_FAILS(WHERRY_INVALID,
				     wherry_config_set(*state, s->key, wrong[i], &err));
			if (strncmp(err.message, s->key, strlen(s->key)) != 0 ||
			    !strstr(err.message, works))
				fail_msg("%s=%s: %s", s->key, wrong[i], err.message);
		}
	}
}

/* A setting that has no effect names what to add. */
WHERRY_TEST_WITH(a_setting_without_the_one_that_it_needs_is_refused, make, drop)
{
	static const char *const rows[][3] = {
		{"message.source", "/shop", "add message.format=cloudevents"},
		{"relay.body_store_above", "1MB", "add relay.body_store=file:/"},
		{"s3.endpoint", "https://h", "add relay.body_store=s3://BUCKET/PREFIX"},
		{"nats.replicas", "3", "add nats.create_stream=orders.>"},
	};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		WHERRY_PASS(wherry_config_set(*state, rows[i][0], rows[i][1], &err));
		WHERRY_FAILS(WHERRY_INVALID, wh_config_check(*state, &err));
		assert_non_null(strstr(err.message, rows[i][0]));
		assert_non_null(strstr(err.message, rows[i][2]));
		wh_config_share(*state);
		WHERRY_PASS(wh_config_check(*state, &err));
	}
}

WHERRY_TEST_WITH(every_word_of_a_choice_is_accepted, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int which = 0, tried = 0;

	for (const wherry_setting *s = wherry_config_table(); s->key; s++, which++) {
		char words[100], *word, *rest;
		int place = 0;

		if (strcmp(s->type, "choice") != 0)
			continue;
		(void)snprintf(words, sizeof(words), "%s", s->range);
		for (word = strtok_r(words, ", ", &rest); word;
		     word = strtok_r(NULL, ", ", &rest)) {
			WHERRY_PASS(wherry_config_set(*state, s->key, word, &err));
			assert_int_equal(wh_config_choice(*state, (wh_setting)which),
					 place++);
		}
		WHERRY_FAILS(WHERRY_INVALID, wherry_config_set(*state, s->key, "", &err));
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_config_set(*state, s->key, "nope", &err));
		assert_non_null(strstr(err.message, s->range));
		tried += place;
	}
	assert_true(tried > 5);
}

WHERRY_TEST_WITH(settings_are_read_back_as_written, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	assert_string_equal(wherry_config_get(*state, "relay.lease"), "30s");
	WHERRY_PASS(wherry_config_set(*state, "relay.lease", "1m30s", &err));
	assert_string_equal(wherry_config_get(*state, "relay.lease"), "1m30s");
	assert_int_equal(wh_config_int(*state, WH_RELAY_LEASE), 90000000);
	assert_int_equal(wh_config_int(NULL, WH_RELAY_LEASE), 30000000);

	WHERRY_PASS(wherry_config_set(*state, "retry.jitter", "off", &err));
	assert_false(wh_config_switch(*state, WH_RETRY_JITTER));
	WHERRY_PASS(wherry_config_set(*state, "retry.jitter", "on", &err));
	assert_true(wh_config_switch(*state, WH_RETRY_JITTER));

	WHERRY_PASS(wherry_config_set(*state, "relay.table", "shop", &err));
	assert_string_equal(wh_config_text(*state, WH_RELAY_TABLE), "shop");
	assert_string_equal(wh_config_text(NULL, WH_RELAY_NAME), "");
}

WHERRY_TEST_WITH(the_value_is_copied, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char text[] = "shop";

	WHERRY_PASS(wherry_config_set(*state, "relay.table", text, &err));
	text[0] = 'x';
	assert_string_equal(wherry_config_get(*state, "relay.table"), "shop");
}

WHERRY_TEST_WITH(a_refused_value_changes_nothing, make, drop)
{
	static const char *const rows[] = {"5", "", "x", "-1s", "0s", "2h", "30 s"};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(*state, "relay.lease", "20s", &err));
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_config_set(*state, "relay.lease", rows[i], &err));
		assert_ptr_equal(strstr(err.message, "relay.lease: "), err.message);
		assert_string_equal(wherry_config_get(*state, "relay.lease"), "20s");
	}
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_config_set(*state, "retry.jitter", "yes", &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_config_set(*state, "relay.batch", "1.5", &err));
}

WHERRY_TEST_WITH(an_unknown_key_is_answered_with_the_nearest, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_config_set(*state, "relay.leese", "30s", &err));
	assert_non_null(strstr(err.message, "did you mean 'relay.lease'?"));
	WHERRY_FAILS(WHERRY_INVALID, wherry_config_set(*state, "retention", "7d", &err));
	assert_non_null(strstr(err.message, "did you mean 'outbox.retention'?"));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_config_set(*state, "zzzzzzzzzzzz", "1", &err));
	assert_null(strstr(err.message, "did you mean"));
	assert_null(wherry_config_get(*state, "relay.leese"));
}

WHERRY_TEST_WITH(missing_arguments_are_refused, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_INVALID, wherry_config_set(NULL, "relay.lease", "30s", &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_config_set(*state, NULL, "30s", &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_config_set(*state, "relay.lease", NULL, &err));
	assert_null(wherry_config_get(*state, NULL));
	wherry_config_free(NULL);
}

WHERRY_TEST_WITH(a_claim_must_outlive_its_delivery, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(*state, "relay.delivery_timeout", "59s", &err));
	WHERRY_PASS(wh_config_check(*state, &err));
	WHERRY_PASS(wherry_config_set(*state, "relay.delivery_timeout", "60s", &err));
	WHERRY_FAILS(WHERRY_INVALID, wh_config_check(*state, &err));
	assert_non_null(strstr(err.message, "relay.claim_timeout"));
}

WHERRY_TEST_WITH(a_claim_must_outlive_its_call, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(*state, "handlers.timeout", "59s", &err));
	WHERRY_PASS(wh_config_check(*state, &err));
	WHERRY_PASS(wherry_config_set(*state, "handlers.timeout", "60s", &err));
	WHERRY_FAILS(WHERRY_INVALID, wh_config_check(*state, &err));
	assert_non_null(strstr(err.message, "handlers.timeout"));
}

WHERRY_TEST_WITH(a_copy_has_the_same_values, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *copy = NULL;

	WHERRY_PASS(wherry_config_set(*state, "relay.lease", "7s", &err));
	WHERRY_PASS(wherry_config_set(*state, "relay.name", "me", &err));
	WHERRY_PASS(wh_config_copy(*state, &copy, &err));
	WHERRY_PASS(wherry_config_set(*state, "relay.lease", "8s", &err));
	assert_int_equal(wh_config_int(copy, WH_RELAY_LEASE), 7000000);
	assert_string_equal(wh_config_text(copy, WH_RELAY_NAME), "me");
	assert_int_equal(wh_config_int(copy, WH_RELAY_IDLE_INTERVAL), 10000000);
	wherry_config_free(copy);
	WHERRY_PASS(wh_config_copy(NULL, &copy, &err));
	assert_int_equal(wh_config_int(copy, WH_RELAY_LEASE), 30000000);
	wherry_config_free(copy);
}

static void *read_table(void *ctx)
{
	int *n = ctx;

	for (const wherry_setting *s = wherry_config_table(); s->key; s++)
		*n += s->help != NULL && s->range != NULL;
	return NULL;
}

WHERRY_TEST_WITH(threads_may_read_the_table_at_once, make, drop)
{
	pthread_t threads[4];
	int counts[4] = {0};

	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, read_table, &counts[i]), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(counts[i], WH_SETTING_COUNT);
	}
}

WHERRY_TEST_MAIN
