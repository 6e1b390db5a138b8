/*
 * Destinations of the application: what is refused when one is registered, its settings, and what
 * becomes of a driver that does not keep its contract.
 */
#include "publish_fixture.h"

#include "config/settings.h"

/* ---- a driver that does as it is told ---- */

static struct {
	size_t taken, n; /* what submit and collect say */
	wherry_code code;
	wherry_receipt receipt;
	int closed;
} plan;

static wherry_code my_open(const char *rest, const wherry_config *config,
			   void **out_state, wherry_error *err)
{
	if (strcmp(rest, "no") == 0)
		return wherry_error_set(err, WHERRY_NOTFOUND, "there is\nnobody");
	*out_state = &plan;
	return WHERRY_OK;
}

static void my_close(void *state)
{
	assert_ptr_equal(state, &plan);
	plan.closed++;
}

static wherry_code my_submit(void *state, const wherry_message *const *messages, size_t n,
			     size_t *out_taken, wherry_error *err)
{
	assert_int_equal(*out_taken, 0);
	*out_taken = plan.taken;
	return plan.code;
}

static wherry_code my_collect(void *state, wherry_receipt *out, size_t cap, size_t *out_n,
			      wherry_error *err)
{
	assert_int_equal(*out_n, 0);
	for (size_t i = 0; i < plan.n && i < cap; i++)
		out[i] = plan.receipt;
	*out_n = plan.n;
	return plan.code;
}

static wherry_code my_check(const char *rest, const wherry_config *config,
			    wherry_error *err)
{
	return *rest ? WHERRY_OK : wherry_error_set(err, WHERRY_INVALID, NULL);
}

static const wherry_setting my_settings[] = {
	{"mine.words", "choice", "one", "one, two", "Which word."},
	{"mine.wait", "duration", "2s", "1s to 1m", "How long."},
	{"mine.note", "text", "", "", "A note."},
	{NULL, NULL, NULL, NULL, NULL},
};

static const wherry_publisher_driver mine = {
	.version = WHERRY_PUBLISHER_VERSION,
	.scheme = "mine",
	.settings = my_settings,
	.check = my_check,
	.open = my_open,
	.close = my_close,
	.submit = my_submit,
	.collect = my_collect,
};

static wherry_config *config_of(const wherry_publisher_driver *driver)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;

	memset(&plan, 0, sizeof(plan));
	WHERRY_PASS(wherry_config_new(&config, &err));
	if (driver)
		WHERRY_PASS(wherry_publisher_register(config, driver, &err));
	return config;
}

/* ---- registering ---- */

static void is_refused(const wherry_publisher_driver *driver, wherry_code code,
		       const char *text)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = config_of(NULL);

	WHERRY_FAILS(code, wherry_publisher_register(config, driver, &err));
	if (!strstr(err.message, text))
		fail_msg("%s", err.message);
	assert_null(wherry_config_get(config, "mine.words"));
	WHERRY_PASS(wherry_publisher_register(config, &mine, &err));
	wherry_config_free(config);
}

WHERRY_TEST(what_is_missing_is_named)
{
	wherry_publisher_driver d = mine;

	is_refused(NULL, WHERRY_INVALID, "a table");
#define WITHOUT(member, text)                                                            \
	d = mine;                                                                        \
	d.member = NULL;                                                                 \
	is_refused(&d, WHERRY_INVALID, text)
	WITHOUT(scheme, "cannot be the scheme");
	WITHOUT(open, "'mine:' has no function open()");
	WITHOUT(close, "'mine:' has no function close()");
	WITHOUT(submit, "'mine:' has no function submit()");
	WITHOUT(collect, "'mine:' has no function collect()");
#undef WITHOUT
	d = mine;
	d.version = 7;
	is_refused(&d, WHERRY_UNSUPPORTED, "version 7");
	d = mine;
	d.capabilities = 64;
	is_refused(&d, WHERRY_INVALID, "capabilities");
	d = mine;
	d.scheme = "Mine:";
	is_refused(&d, WHERRY_INVALID, "'Mine:'");
	d.scheme = "null";
	is_refused(&d, WHERRY_DUPLICATE, "'null:' already");
}

WHERRY_TEST(settings_that_make_no_sense_are_refused)
{
	static const wherry_setting rows[][3] = {
		{{"mine.words", "choice", "one", "one", ""},
		 {"other.x", "text", "", "", ""},
		 {NULL, NULL, NULL, NULL, NULL}},
		{{"mine.words", "word", "", "", ""}, {NULL, NULL, NULL, NULL, NULL}},
		{{"mine.wait", "duration", "5", "", ""}, {NULL, NULL, NULL, NULL, NULL}},
		{{"mine.wait", "duration", "5m", "1s to 1m", ""},
		 {NULL, NULL, NULL, NULL, NULL}},
	};
	static const char *const texts[] = {"must begin with 'mine.'", "one of the types",
					    "mine.wait", "above the most"};
	wherry_publisher_driver d = mine;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		d.settings = rows[i];
		is_refused(&d, WHERRY_INVALID, texts[i]);
	}
}

WHERRY_TEST(a_scheme_is_registered_once)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = config_of(&mine);

	WHERRY_FAILS(WHERRY_DUPLICATE, wherry_publisher_register(config, &mine, &err));
	wherry_config_free(config);
}

/* ---- settings ---- */

WHERRY_TEST(its_settings_are_as_all_others)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = config_of(&mine), *copy = NULL;

	assert_string_equal(wherry_config_get(config, "mine.words"), "one");
	assert_int_equal(wherry_config_number(config, "mine.wait"), 2000000);
	WHERRY_PASS(wherry_config_set(config, "mine.words", "two", &err));
	WHERRY_PASS(wherry_config_set(config, "mine.note", "so", &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_config_set(config, "mine.wait", "2m", &err));
	assert_non_null(strstr(err.message, "mine.wait"));
	WHERRY_FAILS(WHERRY_INVALID, wherry_config_set(config, "mine.wit", "2s", &err));
	assert_non_null(strstr(err.message, "'mine.wait'"));
	WHERRY_PASS(wh_config_copy(config, &copy, &err));
	wherry_config_free(config);
	assert_string_equal(wherry_config_get(copy, "mine.note"), "so");
	assert_int_equal(wherry_config_number(copy, "mine.words"), 1);
	assert_int_equal(wherry_config_number(copy, "mine.nothing"), 0);
	assert_int_equal(wherry_config_number(NULL, "relay.lease"), 30000000);
	wherry_config_free(copy);
}

/* ---- opening ---- */

WHERRY_TEST(it_is_opened_by_its_scheme)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = config_of(&mine);
	wherry_publisher *pub = NULL;

	WHERRY_FAILS(WHERRY_INVALID, wherry_publisher_open("min:x", config, &pub, &err));
	assert_non_null(strstr(err.message, "did you mean 'mine:'"));
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_publisher_open("mine:no", config, &pub, &err));
	assert_string_equal(err.message, "there is nobody");
	WHERRY_FAILS(WHERRY_INVALID, wh_publisher_check("mine:", config, &err));
	assert_string_not_equal(err.message, "");
	WHERRY_PASS(wh_publisher_check("mine:x", config, &err));
	WHERRY_PASS(wherry_publisher_open("mine:x", config, &pub, &err));
	wherry_config_free(config);
	wherry_publisher_close(pub);
	assert_int_equal(plan.closed, 1);
}

/* ---- mistakes ---- */

static wherry_publisher *opened(wherry_config **out_config)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub = NULL;

	*out_config = config_of(&mine);
	WHERRY_PASS(wherry_publisher_open("mine:x", *out_config, &pub, &err));
	return pub;
}

WHERRY_TEST(mistakes_of_a_driver_are_errors_that_name_it)
{
	const wherry_message message = WHERRY_MESSAGE(.topic = "t");
	const wherry_message *all[] = {&message, &message};
	const wherry_receipt good = {&message, WHERRY_RETRY, 0, ""};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config;
	wherry_publisher *pub = opened(&config);
	wh_receipt receipts[2];
	size_t n = 0;

#define FAILS(code_, text_, call)                                                        \
	WHERRY_FAILS(code_, call);                                                       \
	if (!strstr(err.message, text_))                                                 \
	fail_msg("%s", err.message)
	plan.taken = 3;
	FAILS(WHERRY_INVALID, "took more", wh_publisher_submit(pub, all, 2, &n, &err));
	plan.taken = 0;
	plan.code = (wherry_code)WHERRY_RETRY;
	FAILS(WHERRY_INVALID, "is not a wherry_code",
	      wh_publisher_submit(pub, all, 2, &n, &err));
	plan.code = WHERRY_CLOSED; /* and nothing was said */
	FAILS(WHERRY_CLOSED, "mine: ", wh_publisher_submit(pub, all, 2, &n, &err));
	plan.code = WHERRY_OK;
	plan.receipt = good;
	plan.n = 9;
	FAILS(WHERRY_INVALID, "room", wh_publisher_collect(pub, receipts, 2, &n, &err));
	plan.n = 1;
	plan.receipt.message = NULL;
	FAILS(WHERRY_INVALID, "without message",
	      wh_publisher_collect(pub, receipts, 2, &n, &err));
	plan.receipt = good;
	WHERRY_PASS(wh_publisher_collect(pub, receipts, 2, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(receipts[0].reason, "no reason was given");
	FAILS(WHERRY_INVALID, "more receipts than it took",
	      wh_publisher_collect(pub, receipts, 2, &n, &err));
#undef FAILS
	wherry_publisher_close(pub);
	wherry_config_free(config);
}

WHERRY_TEST(a_reason_is_made_one_line)
{
	const wherry_message message = WHERRY_MESSAGE(.topic = "t");
	const wherry_message *all[] = {&message};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config;
	wherry_publisher *pub = opened(&config);
	wh_receipt receipt;
	size_t n = 0;

	plan.taken = plan.n = 1;
	plan.receipt = (wherry_receipt){&message, WHERRY_THROTTLED, 5, "a\nb"};
	WHERRY_PASS(wh_publisher_submit(pub, all, 1, &n, &err));
	WHERRY_PASS(wh_publisher_collect(pub, &receipt, 1, &n, &err));
	assert_string_equal(receipt.reason, "a b");
	assert_int_equal(receipt.retry_after_us, 5);
	assert_int_equal(receipt.verdict, WHERRY_THROTTLED);
	assert_false(receipt.denied || receipt.own || receipt.written);
	wherry_publisher_close(pub);
	wherry_config_free(config);
}

/* ---- the table of those that are built in ---- */

WHERRY_TEST(a_table_without_a_function_is_noticed)
{
	static const struct {
		const char *scheme;
		const wh_publisher_driver *driver;
	} some[] = {
		{"stdout", &wh_publisher_stdout},     {"file", &wh_publisher_file},
		{"exec", &wh_publisher_exec},         {"memory", &wh_publisher_memory},
		{"handlers", &wh_publisher_handlers}, {"null", &wh_publisher_null}};
	wh_publisher_driver d = wh_publisher_exec;
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
		assert_string_equal(some[i].driver->scheme, some[i].scheme);
		WHERRY_PASS(wh_publisher_driver_check(some[i].driver, &err));
	}
	d.deadline = NULL;
	WHERRY_FAILS(WHERRY_INVALID, wh_publisher_driver_check(&d, &err));
	assert_string_equal(err.message, "the publisher 'exec:' lacks deadline");
	d = wh_publisher_exec;
	d.collect = NULL;
	WHERRY_FAILS(WHERRY_INVALID, wh_publisher_driver_check(&d, &err));
	assert_string_equal(err.message, "the publisher 'exec:' lacks collect");
}

WHERRY_TEST_MAIN
