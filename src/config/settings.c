#include "config/settings_value.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

/* clang-format off */
static const wh_setting_entry table[] = {
	[WH_OUTBOX_RETENTION] = {"outbox.retention", DURATION, "7d", "0", "3650d",
		"How long the relay keeps delivered messages before it purges them; a log counts from the "
		"time at which a message was written. 0: for ever, "
		"which is also the default of the layouts event-bus and eventferry."},
	[WH_OUTBOX_BODY_MAX] = {"outbox.body_max", SIZE, "16MB", "1KB", "512MB",
		"The largest body. Enqueue refuses a larger one; a relay makes the message dead."},
	[WH_DB_CREATE] = {"db.create", SWITCH, "off", NULL, NULL,
		"Create the database file if it does not exist."},
	[WH_DB_BUSY_TIMEOUT] = {"db.busy_timeout", DURATION, "5s", "0", "1h",
		"How long to wait while another connection writes."},
	[WH_DB_ANSWER_TIMEOUT] = {"db.answer_timeout", DURATION, "10s", "100ms", "1h",
		"How long a PostgreSQL server may send nothing. After that Wherry asks the server on "
		"a second connection, and closes the first one if the server does not work on its "
		"statement."},
	[WH_DB_POLL_INTERVAL] = {"db.poll_interval", DURATION, "250ms", "1ms", "1h",
		"How often an idle relay or receiver looks for messages on SQL Server, and through "
		"ODBC, where nothing wakes it. A renewal of the lease finds new messages too."},
	[WH_DB_SYNCHRONOUS] = {"db.synchronous", CHOICE, "full", "full, normal", NULL,
		"full: a commit survives power loss. normal: a power loss may take the last commits."},
	[WH_RELAY_NAME] = {"relay.name", TEXT, "", NULL, NULL,
		"The name of the relay in the lease; if empty, host and process id."},
	[WH_RELAY_TABLE] = {"relay.table", TEXT, "outbox", NULL, NULL,
		"The outbox or queue whose messages are delivered, on PostgreSQL and SQL Server also "
		"SCHEMA.TABLE; TABLE/QUEUE or TABLE/QUEUE/TYPE is a delayed queue. The name behind "
		"the # of a URL sets it."},
	[WH_RELAY_SOURCE] = {"relay.source", CHOICE, "table", "table, wal", NULL,
		"Where one relay of a log on PostgreSQL finds new messages. wal: in the WAL, which is faster; "
		"it reads the table where it cannot, or where commits wait for a standby."},
	[WH_RELAY_ORDERING] = {"relay.ordering", CHOICE, "key", "key, none", NULL,
		"key: messages of one key are delivered in order. none: no order, fastest."},
	[WH_RELAY_ON_DEAD] = {"relay.on_dead", CHOICE, "skip", "skip, park", NULL,
		"When a message dies. skip: continue with its key. park: hold the key until the "
		"message is retried."},
	[WH_RELAY_DEAD_LETTERS] = {"relay.dead_letters", TEXT, "", NULL, NULL,
		"A destination for dead letters, with headers wherry-dead-…. A message is dead when "
		"this destination has taken it, and stays failed until then. Empty: none."},
	[WH_RELAY_BODY_STORE] = {"relay.body_store", TEXT, "", NULL, NULL,
		"Where bodies go that are larger than the destination takes: file:/FOLDER or "
		"s3://BUCKET/PREFIX. The destination gets a message that points to the body. Empty: "
		"such a message is dead."},
	[WH_RELAY_BODY_STORE_ABOVE] = {"relay.body_store_above", SIZE, "0", "0", "512MB",
		"Bodies that are larger go to relay.body_store; 0: those that are larger than the "
		"destination takes, as far as it says so."},
	[WH_RELAY_BATCH] = {"relay.batch", NUMBER, "1000", "1", "10000",
		"The number of messages that are read, or acknowledged, at once."},
	[WH_RELAY_WINDOW] = {"relay.window", NUMBER, "4000", "1", "100000",
		"The number of messages in memory: read, in flight or not yet acknowledged."},
	[WH_RELAY_WINDOW_BYTES] = {"relay.window_bytes", SIZE, "4MB", "64KB", "4GB",
		"The relay stops reading ahead when the messages in memory have this size. Failed ones "
		"may take as much again, and sixteen times as much in the layout debezium."},
	[WH_RELAY_HELD_KEYS] = {"relay.held_keys", NUMBER, "10000", "1", "10000000",
		"The number of keys that may wait behind a failed or parked message. At this number "
		"the relay stops reading and logs it."},
	[WH_RELAY_LEASE] = {"relay.lease", DURATION, "30s", "500ms", "1h",
		"How long other relays wait for a relay that is gone."},
	[WH_RELAY_ACK_DELAY] = {"relay.ack_delay", DURATION, "3ms", "0", "1s",
		"How long acknowledgements may wait to be written together."},
	[WH_RELAY_IDLE_INTERVAL] = {"relay.idle_interval", DURATION, "10s", "10ms", "1h",
		"How often to look without being woken, and to renew the lease; a third of "
		"relay.lease if that is shorter."},
	[WH_RELAY_SWEEP] = {"relay.sweep", DURATION, "30s", "100ms", "1h",
		"How often to read the open messages from the beginning."},
	[WH_RELAY_CLAIM_TIMEOUT] = {"relay.claim_timeout", DURATION, "60s", "1s", "24h",
		"How long other relays wait for the messages of a competing relay that is gone. A "
		"relay renews its claims while messages are in flight."},
	[WH_RELAY_DELIVERY_TIMEOUT] = {"relay.delivery_timeout", DURATION, "0", "0", "24h",
		"How long a delivery may take; 0: half of relay.claim_timeout."},
	[WH_RELAY_STOP_TIMEOUT] = {"relay.stop_timeout", DURATION, "10s", "0", "1h",
		"How long a stopping relay waits for messages in flight."},
	[WH_RELAY_TIMEOUT] = {"relay.timeout", DURATION, "0", "0", "365d",
		"With --until-empty: give up after this time; 0: never."},
	[WH_RELAY_PURGE_EVERY] = {"relay.purge_every", DURATION, "1m", "100ms", "24h",
		"How often the relay purges messages that are older than their retention."},
	[WH_RELAY_DOWN_AFTER] = {"relay.down_after", NUMBER, "5", "2", "1000",
		"The number of different messages that fail in a row until the destination counts as "
		"down. Then a few messages probe, the others wait, and no attempts are counted."},
	[WH_STREAM_SLOT] = {"stream.slot", TEXT, "", NULL, NULL,
		"The replication slot; if empty, its name is made from that of the table."},
	[WH_STREAM_PUBLICATION] = {"stream.publication", TEXT, "", NULL, NULL,
		"The publication; if empty, its name is made from that of the table. It must send all "
		"rows and columns of the outbox."},
	[WH_STREAM_FROM] = {"stream.from", CHOICE, "position", "position, table, now", NULL,
		"In the layout debezium: where a relay begins that has no position in the WAL. "
		"table: with the messages in the table. now: with the messages that are committed "
		"from now on. position: like table if no relay ever ran, and an error if the "
		"replication slot is lost."},
	[WH_STREAM_TOPIC] = {"stream.topic", TEXT, "outbox.event.{}", NULL, NULL,
		"The topic of a message in the layout debezium; {} stands for its aggregatetype."},
	[WH_STREAM_LAG_WARN] = {"stream.lag_warn", SIZE, "1GB", "1MB", "1000GB",
		"The relay warns when the server keeps this much WAL for the stream."},
	[WH_RETRY_ATTEMPTS] = {"retry.attempts", NUMBER, "5", "1", "1000",
		"The number of failed attempts until a message is dead."},
	[WH_RETRY_IMMEDIATE] = {"retry.immediate", NUMBER, "0", "0", "1000",
		"The number of retries of a message that come at once. The next one waits for "
		"retry.base."},
	[WH_RETRY_STRATEGY] = {"retry.strategy", CHOICE, "exponential",
		"fixed, linear, exponential", NULL,
		"How the delay grows with each attempt."},
	[WH_RETRY_BASE] = {"retry.base", DURATION, "200ms", "0", "24h",
		"The first delay."},
	[WH_RETRY_CAP] = {"retry.cap", DURATION, "30s", "0", "7d",
		"The longest delay."},
	[WH_RETRY_JITTER] = {"retry.jitter", SWITCH, "on", NULL, NULL,
		"Wait for a random part of the delay, so that retries spread."},
	[WH_MESSAGE_FORMAT] = {"message.format", CHOICE, "raw",
		"raw, cloudevents, cloudevents-structured, debezium, debezium-expanded", NULL,
		"How messages look at the destination. raw: the body as it is. cloudevents: the same, with "
		"the attributes of CloudEvents 1.0 as headers. cloudevents-structured: one JSON object "
		"with everything. debezium: as Debezium's outbox event router writes them, the body as a "
		"JSON string. debezium-expanded: the same, with objects and arrays as JSON."},
	[WH_MESSAGE_SOURCE] = {"message.source", TEXT, "/wherry", NULL, NULL,
		"The source of CloudEvents, a URI that names the application."},
	[WH_MESSAGE_TYPE] = {"message.type", TEXT, "{topic}", NULL, NULL,
		"The type of CloudEvents, and of Debezium's column type, a template as message.topic."},
	[WH_MESSAGE_TOPIC] = {"message.topic", TEXT, "", NULL, NULL,
		"The topic as the destination gets it, such as shop.{topic}. {topic}, {key}, "
		"{aggregate_type}, {aggregate_id}, {message_id} and {header:NAME} stand for values of "
		"the message. Empty: the message's topic; with debezium outbox.event.{aggregate_type}."},
	[WH_MESSAGE_KEY] = {"message.key", TEXT, "", NULL, NULL,
		"The key as the destination gets it, a template as message.topic. Then one message of "
		"a key is in flight at a time. Empty: the message's key, or its aggregate id."},
	[WH_MESSAGE_HEADERS] = {"message.headers", TEXT, "", NULL, NULL,
		"Rules that change the headers of messages: 'drop NAME', 'rename NAME NEW' and 'add "
		"NAME VALUE', with a semicolon or a line break between them. NAME* drops all "
		"that begin so. A value is a template as message.topic."},
	[WH_MESSAGE_PLACEMENT] = {"message.placement", TEXT, "", NULL, NULL,
		"With debezium, which columns become headers or members of the body, as in Debezium: "
		"type:header:eventType,aggregateid:envelope. The columns are id, type, aggregatetype, "
		"aggregateid and key."},
	[WH_MESSAGE_SCHEMA_ID] = {"message.schema_id", NUMBER, "0", "0", "2147483647",
		"Put Confluent's header before each body: a zero byte, and this id of its schema in four "
		"bytes. 0: none."},
	[WH_EXEC_JOBS] = {"exec.jobs", NUMBER, "4", "1", "1000",
		"The number of commands that exec: runs at once, for different keys."},
	[WH_EXEC_ENVIRONMENT] = {"exec.environment", TEXT, "", NULL, NULL,
		"Names of further environment variables for commands of exec:, separated by blanks or "
		"commas. AWS_* stands for all names that begin with AWS_, and * for all names."},
	[WH_HANDLERS_THREADS] = {"handlers.threads", NUMBER, "8", "1", "256",
		"The number of handlers that a program runs at once, for different keys."},
	[WH_HANDLERS_TIMEOUT] = {"handlers.timeout", DURATION, "0", "0", "24h",
		"How long a handler may take; 0: as relay.delivery_timeout."},
	[WH_FILE_SYNC] = {"file.sync", SWITCH, "on", NULL, NULL,
		"With file: a message counts as delivered when it is on disk."},
	[WH_FILE_SYMLINKS] = {"file.symlinks", SWITCH, "off", NULL, NULL,
		"With file: the path may be a symbolic link."},
	[WH_WEBHOOK_SECRET] = {"webhook.secret", TEXT, "", NULL, NULL,
		"Sign requests as Standard Webhooks does, with whsec_ and base64 (v1, HMAC-SHA256) or whsk_ and base64 (v1a, Ed25519), or env:NAME or "
		"file:PATH. To replace a secret, give several, separated by blanks or commas."},
	[WH_WEBHOOK_HEADERS] = {"webhook.headers", TEXT, "", NULL, NULL,
		"Further headers for each request, one 'Name: value' per line; or env:NAME or "
		"file:PATH, which contains these lines."},
	[WH_WEBHOOK_TIMEOUT] = {"webhook.timeout", DURATION, "0", "0", "1h",
		"How long a request may take; 0: as relay.delivery_timeout."},
	[WH_WEBHOOK_CONNECT_TIMEOUT] = {"webhook.connect_timeout", DURATION, "5s", "100ms", "5m",
		"How long name resolution, connection and TLS may take of that time."},
	[WH_WEBHOOK_CONNECTIONS] = {"webhook.connections", NUMBER, "16", "1", "1000",
		"The number of connections at once; without HTTP/2 also of requests in flight."},
	[WH_WEBHOOK_STREAMS] = {"webhook.streams", NUMBER, "100", "1", "1000",
		"The number of requests in flight over HTTP/2."},
	[WH_WEBHOOK_RATE] = {"webhook.rate", NUMBER, "0", "0", "1000000",
		"The highest number of requests per second; 0: any number."},
	[WH_WEBHOOK_HTTP] = {"webhook.http", CHOICE, "auto", "auto, 1.1", NULL,
		"The version of HTTP. auto: HTTP/2 with https: if the receiver speaks it."},
	[WH_WEBHOOK_PRIVATE] = {"webhook.private_addresses", CHOICE, "allow", "allow, refuse", NULL,
		"refuse: do not connect to private, local or reserved addresses, whatever the name "
		"resolves to, and do not use proxies."},
	[WH_WEBHOOK_CA_FILE] = {"webhook.ca_file", TEXT, "", NULL, NULL,
		"A PEM file with the certificates to trust instead of those of the system."},
	[WH_WEBHOOK_CLIENT_CERT] = {"webhook.client_cert", TEXT, "", NULL, NULL,
		"A PEM file with the certificate to present to the server."},
	[WH_WEBHOOK_CLIENT_KEY] = {"webhook.client_key", TEXT, "", NULL, NULL,
		"A PEM file with its private key, if that is in another file."},
	[WH_KAFKA_RUN_CODE] = {"kafka.run_code", SWITCH, "off", NULL, NULL,
		"Allow properties in a kafka: URL that load libraries or run commands, such as "
		"plugin.library.paths and those of Kerberos."},
	[WH_KAFKA_SECRETS] = {"kafka.secrets", TEXT, "env:KAFKA_,file:/etc/wherry/,file:/run/secrets/", NULL,
		NULL,
		"What env:NAME and file:PATH in a kafka: URL may read: beginnings, with commas between "
		"them."},
	[WH_AMQP_SECRETS] = {"amqp.secrets", TEXT, "env:AMQP_,env:RABBITMQ_,file:/etc/wherry/,file:/run/secrets/", NULL,
		NULL,
		"What env:NAME and file:PATH in an amqp: or amqps: URL may read: beginnings, with commas between "
		"them."},
	[WH_NATS_STREAM] = {"nats.stream", TEXT, "", NULL, NULL,
		"The stream that must take the messages. Another stream refuses them. Without it any "
		"stream takes them that has their subject."},
	[WH_NATS_CREATE_STREAM] = {"nats.create_stream", TEXT, "", NULL, NULL,
		"Subjects, with commas between them, such as orders.>. If the stream nats.stream is "
		"missing, it is made with these subjects, in files."},
	[WH_NATS_REPLICAS] = {"nats.replicas", NUMBER, "1", "1", "5",
		"On how many servers of a cluster nats.create_stream keeps the stream."},
	[WH_NATS_USER] = {"nats.user", TEXT, "", NULL, NULL,
		"The name of the user, with nats.password."},
	[WH_NATS_PASSWORD] = {"nats.password", TEXT, "", NULL, NULL,
		"The user's password, or env:NAME or file:PATH."},
	[WH_NATS_TOKEN] = {"nats.token", TEXT, "", NULL, NULL,
		"The token that the server asks for, or env:NAME or file:PATH."},
	[WH_NATS_SEED] = {"nats.seed", TEXT, "", NULL, NULL,
		"The seed of the user's nkey, which begins with SU, as env:NAME or file:PATH."},
	[WH_NATS_CREDENTIALS] = {"nats.credentials", TEXT, "", NULL, NULL,
		"The credentials that nsc makes, with a JWT and a seed, as file:PATH or env:NAME."},
	[WH_NATS_CA_FILE] = {"nats.ca_file", TEXT, "", NULL, NULL,
		"A PEM file with the certificates to trust instead of those of the system."},
	[WH_NATS_CLIENT_CERT] = {"nats.client_cert", TEXT, "", NULL, NULL,
		"A PEM file with the certificate to present to the server."},
	[WH_NATS_CLIENT_KEY] = {"nats.client_key", TEXT, "", NULL, NULL,
		"A PEM file with its private key."},
	[WH_REDIS_USER] = {"redis.user", TEXT, "", NULL, NULL,
		"The name of the user, with redis.password. Without it the user is default."},
	[WH_REDIS_PASSWORD] = {"redis.password", TEXT, "", NULL, NULL,
		"The user's password, or env:NAME or file:PATH."},
	[WH_REDIS_SENTINEL_USER] = {"redis.sentinel_user", TEXT, "", NULL, NULL,
		"The name of the user at the sentinels, with redis.sentinel_password."},
	[WH_REDIS_SENTINEL_PASSWORD] = {"redis.sentinel_password", TEXT, "", NULL, NULL,
		"The password at the sentinels, or env:NAME or file:PATH."},
	[WH_REDIS_MAX_LENGTH] = {"redis.max_length", NUMBER, "0", "0", "1000000000000",
		"Redis deletes the oldest entries of a stream beyond about this number, read or not; 0: "
		"none."},
	[WH_REDIS_MAX_AGE] = {"redis.max_age", DURATION, "0", "0", "10000d",
		"Redis deletes entries of a stream that are older than about this, read or not; 0: none."},
	[WH_REDIS_REPLICAS] = {"redis.replicas", NUMBER, "0", "0", "100",
		"A message is delivered when this many replicas have it (WAIT); 0: when the master has."},
	[WH_REDIS_CA_FILE] = {"redis.ca_file", TEXT, "", NULL, NULL,
		"A PEM file with the certificates to trust instead of those of the system."},
	[WH_REDIS_CLIENT_CERT] = {"redis.client_cert", TEXT, "", NULL, NULL,
		"A PEM file with the certificate to present to the server."},
	[WH_REDIS_CLIENT_KEY] = {"redis.client_key", TEXT, "", NULL, NULL,
		"A PEM file with its private key."},
	[WH_REDIS_VERIFY] = {"redis.verify", CHOICE, "host", "host, ca, none", NULL,
		"What is verified of the server's certificate: its authority and the name of the host, "
		"its authority alone, or nothing."},
	[WH_S3_ENDPOINT] = {"s3.endpoint", TEXT, "", NULL, NULL,
		"The server of s3: body stores, such as https://minio.example.com:9000; if empty, "
		"that of AWS in the region."},
	[WH_S3_REGION] = {"s3.region", TEXT, "", NULL, NULL,
		"The region of the bucket; if empty, AWS_REGION or AWS_DEFAULT_REGION, else us-east-1."},
	[WH_S3_CREDENTIALS] = {"s3.credentials", TEXT, "", NULL, NULL,
		"A file in the form of AWS's credentials file, as file:PATH, env:NAME or credential:NAME. "
		"Empty: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN."},
	[WH_S3_CA_FILE] = {"s3.ca_file", TEXT, "", NULL, NULL,
		"A PEM file with the certificates to trust instead of those of the system."},
	[WH_OTEL_ENDPOINT] = {"otel.endpoint", TEXT, "", NULL, NULL,
		"Send spans and metrics of deliveries to this collector of OpenTelemetry by OTLP over HTTP, such as "
		"http://localhost:4318; if empty, to that of OTEL_EXPORTER_OTLP_ENDPOINT."},
	[WH_OTEL_HEADERS] = {"otel.headers", TEXT, "", NULL, NULL,
		"Headers for the collector, NAME=VALUE with commas between several; or env:NAME or "
		"file:PATH, which contains them. Empty: OTEL_EXPORTER_OTLP_HEADERS."},
	[WH_OTEL_SERVICE] = {"otel.service", TEXT, "", NULL, NULL,
		"The name of the service in spans and metrics; if empty, OTEL_SERVICE_NAME, else wherry."},
	[WH_LOG_LEVEL] = {"log.level", CHOICE, "info", "error, warn, info, debug", NULL,
		"The least severe events that the relay logs."},
};
/* clang-format on */

static_assert(sizeof(table) / sizeof(*table) == WH_SETTING_COUNT, "a setting has no row");

typedef struct value {
	char *text;     /* NULL: the default. */
	int64_t number; /* The parsed value. */
	bool shared;    /* See wh_config_share(). */
} value;

/* A setting of one of the application's own destinations. */
typedef struct extra {
	const wherry_setting *row;
	value value;
} extra;

struct wherry_config {
	value values[WH_SETTING_COUNT];
	extra *extras;
	size_t n_extras;
	const void **publishers;
	size_t n_publishers;
};

static wherry_code copy_value(const value *from, value *to, wherry_error *err)
{
	to->number = from->number;
	to->shared = from->shared;
	to->text = from->text ? strdup(from->text) : NULL;
	return from->text && !to->text ? wh_oom(err) : WHERRY_OK;
}

static wherry_code copy_extras(const wherry_config *from, wherry_config *to,
			       wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < from->n_publishers; i++)
		code = wh_config_add_publisher(to, from->publishers[i], err);
	for (size_t i = 0; code == WHERRY_OK && i < from->n_extras; i++) {
		code = wh_config_add_setting(to, from->extras[i].row, err);
		if (code == WHERRY_OK)
			code = copy_value(&from->extras[i].value, &to->extras[i].value,
					  err);
	}
	return code;
}

wherry_code wh_config_copy(const wherry_config *from, wherry_config **out,
			   wherry_error *err)
{
	wherry_config *copy = NULL;
	wherry_code code = wherry_config_new(&copy, err);

	for (int i = 0; code == WHERRY_OK && from && i < WH_SETTING_COUNT; i++)
		code = copy_value(&from->values[i], &copy->values[i], err);
	if (code == WHERRY_OK && from)
		code = copy_extras(from, copy, err);
	if (code == WHERRY_OK)
		*out = copy;
	else
		wherry_config_free(copy);
	return code;
}

/* The i-th key: the settings of the table come first, then those of the application's
 * destinations. */
static const char *key_at(const void *ctx, size_t i)
{
	const wherry_config *config = ctx;

	if (i < WH_SETTING_COUNT)
		return table[i].key;
	i -= WH_SETTING_COUNT;
	return config && i < config->n_extras ? config->extras[i].row->key : NULL;
}

static int find(const char *key)
{
	for (int i = 0; key && i < WH_SETTING_COUNT; i++)
		if (strcmp(table[i].key, key) == 0)
			return i;
	return -1;
}

wherry_code wherry_config_new(wherry_config **out, wherry_error *err)
{
	wh_error_clear(err);
	wherry_config *config = calloc(1, sizeof(*config));

	if (!config)
		return wh_oom(err);
	*out = config;
	return WHERRY_OK;
}

void wherry_config_free(wherry_config *config)
{
	for (int i = 0; config && i < WH_SETTING_COUNT; i++)
		free(config->values[i].text);
	for (size_t i = 0; config && i < config->n_extras; i++)
		free(config->extras[i].value.text);
	if (config) {
		free(config->extras);
		free(config->publishers);
	}
	free(config);
}

/* ---- settings of the application's destinations ---- */

static extra *find_extra(const wherry_config *config, const char *key)
{
	for (size_t i = 0; config && key && i < config->n_extras; i++)
		if (strcmp(config->extras[i].row->key, key) == 0)
			return &config->extras[i];
	return NULL;
}

wherry_code wh_config_add_setting(wherry_config *config, const wherry_setting *row,
				  wherry_error *err)
{
	int64_t number = 0;
	wherry_code code = wh_setting_parse_row(row, row->standard ? row->standard : "",
						&number, err);
	extra *grown;

	if (code != WHERRY_OK)
		return code;
	if (find(row->key) >= 0 || find_extra(config, row->key))
		return wh_fail(err, WHERRY_DUPLICATE,
			       "there is a setting '%.60s' already", row->key);
	grown = realloc(config->extras, (config->n_extras + 1) * sizeof(*grown));
	if (!grown)
		return wh_oom(err);
	config->extras = grown;
	grown[config->n_extras++] = (extra){row, {NULL, number, false}};
	return WHERRY_OK;
}

size_t wh_config_count_added(const wherry_config *config)
{
	return config->n_extras;
}

void wh_config_remove_added(wherry_config *config, size_t n)
{
	while (config->n_extras > n)
		free(config->extras[--config->n_extras].value.text);
}

wherry_code wh_config_add_publisher(wherry_config *config, const void *driver,
				    wherry_error *err)
{
	const void **grown =
		realloc(config->publishers, (config->n_publishers + 1) * sizeof(*grown));

	if (!grown)
		return wh_oom(err);
	config->publishers = grown;
	grown[config->n_publishers++] = driver;
	return WHERRY_OK;
}

const void *wh_config_publisher(const wherry_config *config, size_t i)
{
	return config && i < config->n_publishers ? config->publishers[i] : NULL;
}

/* ---- by name ---- */

static wherry_code put(value *v, const char *text, int64_t number, wherry_error *err)
{
	char *copy = strdup(text);

	if (!copy)
		return wh_oom(err);
	free(v->text);
	v->text = copy;
	v->number = number;
	v->shared = false;
	return WHERRY_OK;
}

/* The first setting that has this name behind its group, such as outbox.retention for retention; NULL: none. */
static const char *in_a_group(const wherry_config *config, const char *name)
{
	const char *key;

	for (size_t i = 0; (key = key_at(config, i)); i++) {
		const char *dot = strrchr(key, '.');

		if (dot && strcmp(dot + 1, name) == 0)
			return key;
	}
	return NULL;
}

wherry_code wherry_config_set(wherry_config *config, const char *key, const char *text,
			      wherry_error *err)
{
	wh_error_clear(err);
	int which = key ? find(key) : -1;
	extra *more = which < 0 ? find_extra(config, key) : NULL;
	int64_t number;
	wherry_code code;

	if (!config || !key || !text)
		return wh_fail(err, WHERRY_INVALID,
			       "a setting needs a set, a key and a value");
	if (more) {
		code = wh_setting_parse_row(more->row, text, &number, err);
		return code == WHERRY_OK ? put(&more->value, text, number, err) : code;
	}
	if (which < 0) {
		const char *grouped = in_a_group(config, key);
		const char *near = grouped ? grouped : wh_nearest(key, key_at, config);

		return wh_fail(err, WHERRY_INVALID, "unknown setting '%.60s'%s%s%s", key,
			       near ? "; did you mean '" : "", near ? near : "",
			       near ? "'?" : "");
	}
	code = wh_setting_parse(&table[which], text, &number, err);
	if (code != WHERRY_OK)
		return wh_prefix(err, code, "%s", key);
	return put(&config->values[which], text, number, err);
}

const char *wherry_config_get(const wherry_config *config, const char *key)
{
	int which = find(key);
	const extra *more = which < 0 ? find_extra(config, key) : NULL;

	if (more)
		return more->value.text ? more->value.text : more->row->standard;
	return which < 0 ? NULL : wh_config_text(config, (wh_setting)which);
}

int64_t wherry_config_number(const wherry_config *config, const char *key)
{
	int which = find(key);
	const extra *more = which < 0 ? find_extra(config, key) : NULL;

	if (more)
		return more->value.number;
	return which < 0 ? 0 : wh_config_int(config, (wh_setting)which);
}

static wherry_setting rows[WH_SETTING_COUNT + 1];
static pthread_once_t rows_once = PTHREAD_ONCE_INIT;

/* Fill rows[], with ranges such as "1s to 1h". */
static void fill_rows(void)
{
	static char ranges[WH_SETTING_COUNT][40];

	for (int i = 0; i < WH_SETTING_COUNT; i++) {
		const wh_setting_entry *e = &table[i];
		const char *range = e->kind == CHOICE ? e->least : "";

		if (e->kind != CHOICE && e->least) {
			(void)snprintf(ranges[i], sizeof(ranges[i]), "%s to %s", e->least,
				       e->most);
			range = ranges[i];
		}
		rows[i] = (wherry_setting){
			.key = e->key,
			.type = wh_kind_names[e->kind],
			.standard = e->standard,
			.range = range,
			.help = e->help,
		};
	}
}

const wherry_setting *wherry_config_table(void)
{
	(void)pthread_once(&rows_once, fill_rows);
	return rows;
}

int64_t wh_config_int(const wherry_config *config, wh_setting which)
{
	int64_t number = 0;

	if (config && config->values[which].text)
		return config->values[which].number;
	if (wh_setting_parse(&table[which], table[which].standard, &number, NULL) !=
	    WHERRY_OK)
		abort(); /* A test parses every default. */
	return number;
}

bool wh_config_switch(const wherry_config *config, wh_setting which)
{
	return wh_config_int(config, which) != 0;
}

int wh_config_choice(const wherry_config *config, wh_setting which)
{
	return (int)wh_config_int(config, which);
}

const char *wh_config_text(const wherry_config *config, wh_setting which)
{
	if (config && config->values[which].text)
		return config->values[which].text;
	return table[which].standard;
}

bool wh_config_is_set(const wherry_config *config, wh_setting which)
{
	return config && config->values[which].text;
}

bool wh_config_is_own(const wherry_config *config, wh_setting which)
{
	return wh_config_is_set(config, which) && !config->values[which].shared;
}

void wh_config_share(wherry_config *config)
{
	for (int i = 0; i < WH_SETTING_COUNT; i++)
		config->values[i].shared = true;
}
