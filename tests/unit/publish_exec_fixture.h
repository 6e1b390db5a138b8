/*
 * Running messages through a command, as the tests of exec: do.
 */
#ifndef PUBLISH_EXEC_FIXTURE_H
#define PUBLISH_EXEC_FIXTURE_H

#include "publish_fixture.h"

/* What commands wrote to stderr, as it is logged. */
static char said[4096];

static inline void keep_said(void *ctx, const wherry_log_record *record)
{
	size_t len = strlen(said);
	const char *text = "dropped";

	assert_string_equal(record->part, "exec");
	if (strcmp(record->event, "child-stderr") == 0) {
		assert_string_equal(record->fields[0].name, "id");
		assert_string_equal(record->fields[1].name, "text");
		text = record->fields[1].text;
	}
	(void)snprintf(said + len, sizeof(said) - len, "%s\n", text);
}

/* As open_with(), with a log. */
static inline wherry_publisher *open_logged(const char *url, const char *limit)
{
	static wh_env env;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub = NULL;
	wherry_config *config = NULL;

	env = wh_env_system;
	env.log = keep_said;
	*said = 0;
	WHERRY_PASS(wherry_config_new(&config, &err));
	if (limit)
		WHERRY_PASS(
			wherry_config_set(config, "relay.delivery_timeout", limit, &err));
	WHERRY_PASS(wh_publisher_open(url, config, &env, &pub, &err));
	wherry_config_free(config);
	return pub;
}

/* Run one message through a command; its stderr goes to said. */
static inline wh_receipt run_with(const char *command, const wherry_message *msg,
				  const char *limit)
{
	char url[4096];
	wh_receipt receipt;
	wherry_publisher *pub;

	(void)snprintf(url, sizeof(url), "exec:cd %s; %s", dir, command);
	pub = open_logged(url, limit);
	is_idle(pub);
	submit_one(pub, msg);
	collect(pub, &receipt, 1);
	assert_ptr_equal(receipt.message, msg);
	is_idle(pub);
	wherry_publisher_close(pub);
	return receipt;
}

static inline wh_receipt run(const char *command)
{
	wherry_message m = message("hello");

	return run_with(command, &m, NULL);
}

static inline void assert_run(const char *command, wherry_verdict verdict,
			      const char *reason)
{
	wh_receipt receipt = run(command);

	assert_string_equal(receipt.reason, reason);
	assert_int_equal(receipt.verdict, verdict);
}

#endif
