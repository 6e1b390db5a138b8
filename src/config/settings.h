/*
 * The table of settings, and typed access to a set of them.  Each setting is defined
 * once, in settings.c.  Parser, --help, the manual and documents use that table.
 */
#ifndef WH_CONFIG_SETTINGS_H
#define WH_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include <wherry/config.h>

/* In the order of the table in settings.c. */
typedef enum wh_setting {
	WH_OUTBOX_RETENTION,
	WH_OUTBOX_BODY_MAX,
	WH_DB_CREATE,
	WH_DB_BUSY_TIMEOUT,
	WH_DB_ANSWER_TIMEOUT,
	WH_DB_POLL_INTERVAL,
	WH_DB_SYNCHRONOUS,
	WH_RELAY_NAME,
	WH_RELAY_TABLE,
	WH_RELAY_SOURCE,
	WH_RELAY_ORDERING,
	WH_RELAY_ON_DEAD,
	WH_RELAY_DEAD_LETTERS,
	WH_RELAY_BODY_STORE,
	WH_RELAY_BODY_STORE_ABOVE,
	WH_RELAY_BATCH,
	WH_RELAY_WINDOW,
	WH_RELAY_WINDOW_BYTES,
	WH_RELAY_HELD_KEYS,
	WH_RELAY_LEASE,
	WH_RELAY_ACK_DELAY,
	WH_RELAY_IDLE_INTERVAL,
	WH_RELAY_SWEEP,
	WH_RELAY_CLAIM_TIMEOUT,
	WH_RELAY_DELIVERY_TIMEOUT,
	WH_RELAY_STOP_TIMEOUT,
	WH_RELAY_TIMEOUT,
	WH_RELAY_PURGE_EVERY,
	WH_RELAY_DOWN_AFTER,
	WH_STREAM_SLOT,
	WH_STREAM_PUBLICATION,
	WH_STREAM_FROM,
	WH_STREAM_TOPIC,
	WH_STREAM_LAG_WARN,
	WH_RETRY_ATTEMPTS,
	WH_RETRY_IMMEDIATE,
	WH_RETRY_STRATEGY,
	WH_RETRY_BASE,
	WH_RETRY_CAP,
	WH_RETRY_JITTER,
	WH_MESSAGE_FORMAT,
	WH_MESSAGE_SOURCE,
	WH_MESSAGE_TYPE,
	WH_MESSAGE_TOPIC,
	WH_MESSAGE_KEY,
	WH_MESSAGE_HEADERS,
	WH_MESSAGE_PLACEMENT,
	WH_MESSAGE_SCHEMA_ID,
	WH_EXEC_JOBS,
	WH_EXEC_ENVIRONMENT,
	WH_HANDLERS_THREADS,
	WH_HANDLERS_TIMEOUT,
	WH_FILE_SYNC,
	WH_FILE_SYMLINKS,
	WH_WEBHOOK_SECRET,
	WH_WEBHOOK_HEADERS,
	WH_WEBHOOK_TIMEOUT,
	WH_WEBHOOK_CONNECT_TIMEOUT,
	WH_WEBHOOK_CONNECTIONS,
	WH_WEBHOOK_STREAMS,
	WH_WEBHOOK_RATE,
	WH_WEBHOOK_HTTP,
	WH_WEBHOOK_PRIVATE,
	WH_WEBHOOK_CA_FILE,
	WH_WEBHOOK_CLIENT_CERT,
	WH_WEBHOOK_CLIENT_KEY,
	WH_KAFKA_RUN_CODE,
	WH_KAFKA_SECRETS,
	WH_AMQP_SECRETS,
	WH_NATS_STREAM,
	WH_NATS_CREATE_STREAM,
	WH_NATS_REPLICAS,
	WH_NATS_USER,
	WH_NATS_PASSWORD,
	WH_NATS_TOKEN,
	WH_NATS_SEED,
	WH_NATS_CREDENTIALS,
	WH_NATS_CA_FILE,
	WH_NATS_CLIENT_CERT,
	WH_NATS_CLIENT_KEY,
	WH_REDIS_USER,
	WH_REDIS_PASSWORD,
	WH_REDIS_SENTINEL_USER,
	WH_REDIS_SENTINEL_PASSWORD,
	WH_REDIS_MAX_LENGTH,
	WH_REDIS_MAX_AGE,
	WH_REDIS_REPLICAS,
	WH_REDIS_CA_FILE,
	WH_REDIS_CLIENT_CERT,
	WH_REDIS_CLIENT_KEY,
	WH_REDIS_VERIFY,
	WH_S3_ENDPOINT,
	WH_S3_REGION,
	WH_S3_CREDENTIALS,
	WH_S3_CA_FILE,
	WH_OTEL_ENDPOINT,
	WH_OTEL_HEADERS,
	WH_OTEL_SERVICE,
	WH_LOG_LEVEL,
	WH_SETTING_COUNT
} wh_setting;

/* The value of a setting; a NULL config has the defaults.  It is in microseconds or bytes,
 * or a count. */
int64_t wh_config_int(const wherry_config *config, wh_setting which);
bool wh_config_switch(const wherry_config *config, wh_setting which);

/* The index of the word in the setting's range. */
int wh_config_choice(const wherry_config *config, wh_setting which);

/* The text of a setting; "" if neither it nor its default is set. */
const char *wh_config_text(const wherry_config *config, wh_setting which);

/* Was the setting set, instead of having its default? */
bool wh_config_is_set(const wherry_config *config, wh_setting which);

/* Was it set for this relay alone, and not for several by wh_config_share()? */
bool wh_config_is_own(const wherry_config *config, wh_setting which);

/* Values that were set until now are for several relays, such as `defaults` of wherry.yaml: they may have no
 * effect on one of them. */
void wh_config_share(wherry_config *config);

/* Copy a set; `from` may be NULL. */
wherry_code wh_config_copy(const wherry_config *from, wherry_config **out,
			   wherry_error *err);

/*
 * Add settings and destinations of the application to a set.  They are borrowed until the
 * set and its copies are freed.  INVALID: the row is malformed.  DUPLICATE: the key
 * exists.
 */
wherry_code wh_config_add_setting(wherry_config *config, const wherry_setting *row,
				  wherry_error *err);

/* The number of settings that the application added. */
size_t wh_config_count_added(const wherry_config *config);

/* Remove the settings that the application added, except the first n. */
void wh_config_remove_added(wherry_config *config, size_t n);

wherry_code wh_config_add_publisher(wherry_config *config, const void *driver,
				    wherry_error *err);

/* The i-th destination that the application added; NULL after the last. */
const void *wh_config_publisher(const wherry_config *config, size_t i);

/* Refuse settings that have no effect, because another one lacks. */
wherry_code wh_config_check_needs(const wherry_config *config, wherry_error *err);

/* The same, and refuse settings that contradict each other. */
wherry_code wh_config_check(const wherry_config *config, wherry_error *err);

#endif
