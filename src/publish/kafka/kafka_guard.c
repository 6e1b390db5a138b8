/*
 * Dangerous properties of librdkafka.  Properties that load libraries or run commands are
 * refused.  For those that give up protection there is a warning.
 */
#include "publish/kafka/kafka.h"

#include <string.h>
#include <strings.h>

#include "config/settings.h"

/* librdkafka loads plugins as soon as the property is set.  When a client is made, it
 * runs kinit, whose arguments go through a shell. */
static const struct {
	const char *name; /* A name; with a dot at its end, a prefix. */
	const char *does;
} powers[] = {
	{"plugin.library.paths", "loads libraries"},
	{"ssl.engine.location", "loads a library"},
	{"ssl.engine.id", "loads a library"},
	{"ssl.providers", "loads libraries"},
	{"sasl.kerberos.", "is part of a shell command, kinit"},
	{"sasl.oauthbearer.assertion.", "reads files, which it sends"},
};

static bool is_mechanism(const char *name)
{
	return strcmp(name, "sasl.mechanism") == 0 ||
	       strcmp(name, "sasl.mechanisms") == 0;
}

static const char *power_of(const char *name, const char *value)
{
	if (is_mechanism(name) && strcasecmp(value, "GSSAPI") == 0)
		return "runs a shell command, kinit";
	for (size_t i = 0; i < sizeof(powers) / sizeof(*powers); i++) {
		size_t len = strlen(powers[i].name);

		if (powers[i].name[len - 1] == '.'
			    ? strncmp(name, powers[i].name, len) == 0
			    : strcmp(name, powers[i].name) == 0)
			return powers[i].does;
	}
	return NULL;
}

wherry_code wh_kafka_allow(const wherry_config *config, const char *name,
			   const char *value, wherry_error *err)
{
	const char *does = power_of(name, value);

	if (!does || wh_config_switch(config, WH_KAFKA_RUN_CODE))
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_DENIED,
		"%.60s %s: set kafka.run_code=on if those who write this URL may run "
		"code as this user",
		name, does);
}

/* ---- what the relay promises ---- */

static const struct {
	const char *name, *value;
	bool broken_if_equal; /* Otherwise it is broken by any other value. */
	const char *why;
} promises[] = {
	{"request.required.acks", "-1", false,
	 "brokers could lose messages that count as delivered: leave acks out"},
	{"partitioner", "random", true,
	 "messages of a key would go to several partitions and lose their order"},
	{"test.mock.num.brokers", "0", false,
	 "messages would go to a mock cluster inside the relay"},
	{"queuing.strategy", "lifo", true, "the last message would be sent first"},
};

wherry_code wh_kafka_promise(const wh_kafka_settings *set, wherry_error *err)
{
	for (size_t i = 0; i < sizeof(promises) / sizeof(*promises); i++) {
		char text[64] = "";
		size_t size = sizeof(text);

		if (rd_kafka_conf_get(set->conf, promises[i].name, text, &size) !=
		    RD_KAFKA_CONF_OK)
			continue;
		if ((strcasecmp(text, promises[i].value) == 0) ==
		    promises[i].broken_if_equal)
			return wh_fail(err, WHERRY_INVALID, "%s=%s: %s", promises[i].name,
				       text, promises[i].why);
	}
	return WHERRY_OK;
}

/* ---- warnings ---- */

static bool is_set_to(const rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char text[64] = "";
	size_t size = sizeof(text);

	return rd_kafka_conf_get(conf, name, text, &size) == RD_KAFKA_CONF_OK &&
	       strcasecmp(text, value) == 0;
}

void wh_kafka_warn(const char *rest, const wherry_config *config, wh_buf *out)
{
	wh_kafka_settings set = {.conf = NULL};
	bool tls;

	if (wh_kafka_settings_read(rest, config, &set, NULL) != WHERRY_OK)
		return;
	tls = is_set_to(set.conf, "security.protocol", "ssl") ||
	      is_set_to(set.conf, "security.protocol", "sasl_ssl");
	if (is_set_to(set.conf, "security.protocol", "sasl_plaintext"))
		wh_buf_puts(out, "security.protocol=sasl_plaintext sends credentials and "
				 "messages unencrypted: use sasl_ssl\n");
	if (tls && is_set_to(set.conf, "enable.ssl.certificate.verification", "false"))
		wh_buf_puts(out, "enable.ssl.certificate.verification=false accepts any "
				 "server as the broker: trust its certificate by "
				 "ssl.ca.location instead\n");
	else if (tls &&
		 is_set_to(set.conf, "ssl.endpoint.identification.algorithm", "none"))
		wh_buf_puts(out, "ssl.endpoint.identification.algorithm=none accepts the "
				 "certificate of any other server as the broker's\n");
	if (is_set_to(set.conf, "enable.sasl.oauthbearer.unsecure.jwt", "true"))
		wh_buf_puts(out,
			    "enable.sasl.oauthbearer.unsecure.jwt=true sends tokens that "
			    "nobody has signed\n");
	wh_kafka_settings_clear(&set);
}
