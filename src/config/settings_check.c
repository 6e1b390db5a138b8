/*
 * Settings that contradict each other, and those that have no effect without another one.
 */
#include <string.h>

#include "base/error.h"
#include "config/settings.h"

/* A setting that has an effect only if another one has one of these values. */
static const struct {
	wh_setting set, needs;
	const char *
		begins; /* How the value begins, with commas between several; "": any but "". */
	const char *example;
} needs[] = {
	{WH_MESSAGE_SOURCE, WH_MESSAGE_FORMAT, "cloudevents", "cloudevents"},
	{WH_MESSAGE_TYPE, WH_MESSAGE_FORMAT, "cloudevents,debezium", "cloudevents"},
	{WH_MESSAGE_PLACEMENT, WH_MESSAGE_FORMAT, "debezium", "debezium"},
	{WH_RELAY_BODY_STORE_ABOVE, WH_RELAY_BODY_STORE, "",
	 "file:/var/lib/wherry/bodies"},
	{WH_S3_ENDPOINT, WH_RELAY_BODY_STORE, "s3:", "s3://BUCKET/PREFIX"},
	{WH_S3_REGION, WH_RELAY_BODY_STORE, "s3:", "s3://BUCKET/PREFIX"},
	{WH_S3_CREDENTIALS, WH_RELAY_BODY_STORE, "s3:", "s3://BUCKET/PREFIX"},
	{WH_S3_CA_FILE, WH_RELAY_BODY_STORE, "s3:", "s3://BUCKET/PREFIX"},
	{WH_NATS_CREATE_STREAM, WH_NATS_STREAM, "", "ORDERS"},
	{WH_NATS_REPLICAS, WH_NATS_CREATE_STREAM, "", "orders.>"},
};

static bool begins_so(const char *value, const char *begins)
{
	if (!*begins)
		return *value;
	for (;; begins++) {
		size_t n = strcspn(begins, ",");

		if (strncmp(value, begins, n) == 0)
			return true;
		begins += n;
		if (!*begins)
			return false;
	}
}

wherry_code wh_config_check_needs(const wherry_config *config, wherry_error *err)
{
	const wherry_setting *table = wherry_config_table();

	for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++) {
		const char *value = wh_config_text(config, needs[i].set);

		if (wh_config_is_own(config, needs[i].set) &&
		    strcmp(value, table[needs[i].set].standard) != 0 &&
		    !begins_so(wh_config_text(config, needs[i].needs), needs[i].begins))
			return wh_fail(err, WHERRY_INVALID,
				       "%s has no effect without another setting: add "
				       "%s=%s, or leave %s out",
				       table[needs[i].set].key, table[needs[i].needs].key,
				       needs[i].example, table[needs[i].set].key);
	}
	return WHERRY_OK;
}

wherry_code wh_config_check(const wherry_config *config, wherry_error *err)
{
	int64_t claim = wh_config_int(config, WH_RELAY_CLAIM_TIMEOUT);
	int64_t delivery = wh_config_int(config, WH_RELAY_DELIVERY_TIMEOUT);
	int64_t handling = wh_config_int(config, WH_HANDLERS_TIMEOUT);
	int64_t posting = wh_config_int(config, WH_WEBHOOK_TIMEOUT);
	wherry_code code = wh_config_check_needs(config, err);

	if (code != WHERRY_OK)
		return code;
	if (delivery >= claim)
		return wh_fail(
			err, WHERRY_INVALID,
			"relay.delivery_timeout (%s) must be shorter than "
			"relay.claim_timeout (%s): a claim must outlive its delivery",
			wh_config_text(config, WH_RELAY_DELIVERY_TIMEOUT),
			wh_config_text(config, WH_RELAY_CLAIM_TIMEOUT));
	if (posting >= claim)
		return wh_fail(
			err, WHERRY_INVALID,
			"webhook.timeout (%s) must be shorter than "
			"relay.claim_timeout (%s): a claim must outlive its request",
			wh_config_text(config, WH_WEBHOOK_TIMEOUT),
			wh_config_text(config, WH_RELAY_CLAIM_TIMEOUT));
	if (handling >= claim)
		return wh_fail(err, WHERRY_INVALID,
			       "handlers.timeout (%s) must be shorter than "
			       "relay.claim_timeout (%s): a claim must outlive its call",
			       wh_config_text(config, WH_HANDLERS_TIMEOUT),
			       wh_config_text(config, WH_RELAY_CLAIM_TIMEOUT));
	return WHERRY_OK;
}
