/*
 * What a kafka: URL may say, and what is refused before anything is sent.
 */
#include "unit/publish_fixture.h"

#include "publish/kafka/kafka.h"

/* What librdkafka was told. */
static void assert_property(const wh_kafka_settings *set, const char *name,
			    const char *want)
{
	char value[200] = "";
	size_t size = sizeof(value);

	assert_int_equal(rd_kafka_conf_get(set->conf, name, value, &size),
			 RD_KAFKA_CONF_OK);
	if (strcmp(value, want) != 0)
		fail_msg("%s: %s, not %s", name, value, want);
}

static wh_kafka_settings read_with(const char *rest, const wherry_config *config)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_kafka_settings set;

	WHERRY_PASS(wh_kafka_settings_read(rest, config, &set, &err));
	return set;
}

static wh_kafka_settings read_url(const char *rest)
{
	return read_with(rest, NULL);
}

WHERRY_TEST_WITH(the_defaults_are_safe_and_fast, set_up, tear_down)
{
	wh_kafka_settings set = read_url("//one:9092,two:9093");

	assert_property(&set, "bootstrap.servers", "one:9092,two:9093");
	assert_property(&set, "enable.idempotence", "true");
	assert_property(&set, "enable.gapless.guarantee", "true");
	assert_property(&set, "acks", "-1");
	assert_property(&set, "partitioner", "murmur2_random");
	assert_property(&set, "enable.ssl.certificate.verification", "true");
	assert_property(&set, "ssl.endpoint.identification.algorithm", "https");
	assert_property(&set, "security.protocol", "plaintext");
	assert_property(&set, "message.timeout.ms", "0"); /* deliveries end here */
	assert_int_equal(set.limit_us, 30000000);
	assert_true(set.ordered);
	wh_kafka_settings_clear(&set);
}

WHERRY_TEST_WITH(any_property_passes, set_up, tear_down)
{
	wh_kafka_settings set =
		read_url("//h?linger.ms=17&client.id=a%26b%3Dc&compression.type=zstd"
			 "&batch.num.messages=5&&message.max.bytes=5000");

	assert_property(&set, "linger.ms", "17");
	assert_property(&set, "client.id", "a&b=c");
	assert_property(&set, "compression.type", "zstd");
	assert_property(&set, "batch.num.messages", "5");
	assert_property(&set, "message.max.bytes", "5000");
	wh_kafka_settings_clear(&set);
}

WHERRY_TEST_WITH(credentials_go_over_tls_unless_told_otherwise, set_up, tear_down)
{
	wh_kafka_settings set = read_url("//h?sasl.mechanism=SCRAM-SHA-512"
					 "&sasl.username=u&sasl.password=p");

	assert_property(&set, "security.protocol", "sasl_ssl");
	wh_kafka_settings_clear(&set);
	set = read_url("//h?ssl.ca.location=/tmp");
	assert_property(&set, "security.protocol", "ssl");
	wh_kafka_settings_clear(&set);
	set = read_url("//h?sasl.mechanism=PLAIN&security.protocol=sasl_plaintext");
	assert_property(&set, "security.protocol", "sasl_plaintext");
	wh_kafka_settings_clear(&set);
}

WHERRY_TEST_WITH(secrets_come_from_files_and_the_environment, set_up, tear_down)
{
	wherry_config *config = NULL;
	wherry_error err = WHERRY_ERROR_INIT;
	char rest[800], allowed[700];
	wh_kafka_settings set;

	write_file(in_dir("password"), "open sesame\n");
	assert_int_equal(setenv("KAFKA_TEST_USER", "ali", 1), 0);
	(void)snprintf(rest, sizeof(rest),
		       "//h?sasl.mechanism=PLAIN&sasl.username=env:KAFKA_TEST_USER"
		       "&sasl.password=file:%s",
		       in_dir("password"));
	(void)snprintf(allowed, sizeof(allowed), "env:KAFKA_,file:%s", in_dir(""));
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "kafka.secrets", allowed, &err));
	set = read_with(rest, config);
	wherry_config_free(config);
	assert_property(&set, "sasl.username", "ali");
	assert_property(&set, "sasl.password", "open sesame");
	wh_kafka_settings_clear(&set);
	assert_int_equal(unsetenv("KAFKA_TEST_USER"), 0);
	refuses("kafka://h?sasl.mechanism=PLAIN&sasl.password=env:KAFKA_TEST_USER",
		WHERRY_NOTFOUND, "sasl.password: the environment has no KAFKA_TEST_USER");
	refuses("kafka://h?sasl.mechanism=PLAIN&sasl.password=file:/etc/wherry/no",
		WHERRY_NOTFOUND, "sasl.password: cannot read '/etc/wherry/no'");
}

WHERRY_TEST_WITH(a_url_reads_only_what_is_allowed, set_up, tear_down)
{
	static const char *const urls[] = {
		"kafka://h?sasl.mechanism=PLAIN&sasl.password=file:/etc/passwd",
		"kafka://h?sasl.mechanism=PLAIN&sasl.password=file:/etc/wherry/../passwd",
		"kafka://h?sasl.mechanism=PLAIN&sasl.username=env:PATH",
		"kafka://h?client.id=file:/etc/passwd",
		"kafka://h?topic=env:HOME",
		"kafka://h?sasl.mechanism=OAUTHBEARER&sasl.oauthbearer.token=file:/etc/passwd",
	};

	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++)
		refuses(urls[i], WHERRY_DENIED, "kafka.secrets");
}

WHERRY_TEST_WITH(what_would_break_a_promise_is_refused, set_up, tear_down)
{
	static const char *const urls[] = {
		"kafka://h?enable.idempotence=false&acks=0",
		"kafka://h?enable.idempotence=false&acks=1",
		"kafka://h?enable.idempotence=false&request.required.acks=1",
		"kafka://h?partitioner=random",
		"kafka://h?enable.idempotence=false&queuing.strategy=lifo",
		"kafka://h?test.mock.num.brokers=3",
	};

	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++)
		refuses(urls[i], WHERRY_INVALID, ": ");
}

/* Nor by what librdkafka has to say of it. */
WHERRY_TEST_WITH(no_error_tells_a_secret, set_up, tear_down)
{
	static const char *const urls[] = {
		"kafka://h?security.protocol=ssl&ssl.key.pem=hush",
		"kafka://h?security.protocol=ssl&ssl.key.location=/no&ssl.key.password=hush",
		"kafka://h?sasl.password=hush",
		"kafka://h?sasl.mechanism=PLAIN&sasl.pasword=hush",
		"kafka://user:hush@h",
	};

	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
		wherry_error err = WHERRY_ERROR_INIT;
		wherry_publisher *pub = NULL;

		assert_int_equal(wherry_publisher_open(urls[i], NULL, &pub, &err),
				 WHERRY_INVALID);
		if (strstr(err.message, "hush"))
			fail_msg("%s", err.message);
	}
}

WHERRY_TEST_WITH(what_is_wrong_in_a_url_is_named, set_up, tear_down)
{
	refuses("kafka:", WHERRY_INVALID, "needs brokers");
	refuses("kafka://", WHERRY_INVALID, "needs brokers");
	refuses("kafka://h/topic", WHERRY_INVALID, "?topic=orders");
	refuses("kafka://h?linger.sm=5", WHERRY_INVALID,
		"no parameter 'linger.sm'; did you mean 'linger.ms'?");
	refuses("kafka://h?topics=x", WHERRY_INVALID, "did you mean 'topic'?");
	refuses("kafka://h?sasl.usrname=x", WHERRY_INVALID,
		"did you mean 'sasl.username'?");
	refuses("kafka://h?zzzzzzzz=1", WHERRY_INVALID, "is unknown");
	refuses("kafka://h?zzzzzzzz", WHERRY_INVALID,
		"a parameter of the URL has no value");
	refuses("kafka://h?linger.ms", WHERRY_INVALID, "'linger.ms' has no value");
	refuses("kafka://h?linger.ms=soon", WHERRY_INVALID, "linger.ms");
	refuses("kafka://h?compression.type=rar", WHERRY_INVALID, "compression.type");
	refuses("kafka://h?acks=1", WHERRY_INVALID, "acks");
	refuses("kafka://h?bootstrap.servers=x", WHERRY_INVALID, "kafka://host1:9092");
	refuses("kafka://h?delivery.report.only.error=true", WHERRY_INVALID,
		"nothing would count as delivered");
	refuses("kafka://h?sasl.username=u", WHERRY_INVALID, "sasl.mechanism is missing");
	refuses("kafka://h?create=3", WHERRY_INVALID,
		"create=partitions:3,replication:1");
	refuses("kafka://h?create=partitions:0", WHERRY_INVALID, "create=partitions:3");
	refuses("kafka://h?security.protocol=ssl&ssl.ca.location=/no/such",
		WHERRY_INVALID, "ssl.ca.location failed");
}

WHERRY_TEST_WITH(code_is_run_only_where_a_setting_allows_it, set_up, tear_down)
{
	static const char *const urls[] = {
		"kafka://h?plugin.library.paths=/no/such/plugin",
		"kafka://h?plugin%2elibrary.paths=/no/such/plugin",
		"kafka://h?ssl.engine.location=/no/such/engine",
		"kafka://h?ssl.providers=default,legacy",
		"kafka://h?sasl.mechanism=GSSAPI",
		"kafka://h?sasl.mechanisms=gssapi",
		"kafka://h?sasl.mechanism=PLAIN&sasl.kerberos.kinit.cmd=touch /tmp/x",
		"kafka://h?sasl.mechanism=PLAIN&sasl.kerberos.principal=$(touch /tmp/x)",
		"kafka://h?sasl.mechanism=PLAIN&sasl.kerberos.keytab=;touch /tmp/x",
	};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;

	WHERRY_PASS(wherry_config_new(&config, &err));
	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
		WHERRY_FAILS(WHERRY_DENIED, wh_publisher_check(urls[i], config, &err));
		assert_non_null(strstr(err.message, "kafka.run_code=on"));
	}
	WHERRY_PASS(wherry_config_set(config, "kafka.run_code", "on", &err));
	WHERRY_PASS(wh_publisher_check("kafka://h?sasl.mechanism=PLAIN&"
				       "sasl.kerberos.kinit.cmd=true",
				       config, &err));
	WHERRY_FAILS(WHERRY_INVALID, wh_publisher_check(urls[0], config, &err));
	assert_non_null(strstr(err.message, "plugin")); /* which is not there */
	wherry_config_free(config);
}

WHERRY_TEST_WITH(what_gives_up_protection_is_warned_of, set_up, tear_down)
{
	static const char *const rows[][2] = {
		{"kafka://h", ""},
		{"kafka://h?sasl.mechanism=PLAIN&sasl.username=u", ""},
		{"kafka://h?sasl.mechanism=PLAIN&security.protocol=sasl_plaintext",
		 "unencrypted: use sasl_ssl"},
		{"kafka://h?security.protocol=ssl&enable.ssl.certificate.verification=false",
		 "accepts any server"},
		{"kafka://h?security.protocol=ssl&"
		 "ssl.endpoint.identification.algorithm=none",
		 "of any other server"},
		{"kafka://h?enable.ssl.certificate.verification=false", ""},
		{"http://h/?token=x", "unencrypted: use https:"},
		{"http://me@h/", "unencrypted: use https:"},
		{"http://h/", ""},
		{"https://me:pw@h/?token=x", ""},
		{"null:", ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		wh_buf text = WH_BUF_INIT(4096);

		wh_publisher_warn(rows[i][0], NULL, &text);
		if (*rows[i][1] ? !strstr(wh_buf_str(&text), rows[i][1]) : text.len > 0)
			fail_msg("%s: %s", rows[i][0], wh_buf_str(&text));
		wh_buf_clear(&text);
	}
}

WHERRY_TEST_WITH(a_delivery_must_end_before_its_claim, set_up, tear_down)
{
	wh_kafka_settings set = read_url("//h?delivery.timeout.ms=5000");

	assert_int_equal(set.limit_us, 5000000);
	assert_property(&set, "message.timeout.ms", "0");
	wh_kafka_settings_clear(&set);
	refuses("kafka://h?delivery.timeout.ms=60000", WHERRY_INVALID,
		"must be shorter than relay.claim_timeout (60000 ms)");
	refuses("kafka://h?message.timeout.ms=0", WHERRY_INVALID,
		"a number of milliseconds, from 1");
}

WHERRY_TEST_WITH(transactions_are_refused, set_up, tear_down)
{
	refuses("kafka://h?transactional.id=shop", WHERRY_INVALID,
		"transactional.id: the relay sends without transactions");
	refuses("kafka://h?transaction.timeout.ms=30000", WHERRY_INVALID,
		"transaction.timeout.ms: the relay sends without transactions");
}

WHERRY_TEST_MAIN
