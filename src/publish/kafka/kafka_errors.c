/*
 * The meaning of librdkafka's errors.  Only this file decides by their numbers.
 */
#include "publish/kafka/kafka.h"
#include "publish/parts.h"

#define LOCAL(name) RD_KAFKA_RESP_ERR__##name
#define BROKER(name) RD_KAFKA_RESP_ERR_##name

static const char to_topic[] =
	"make the topic, or let kafka: do so with create=partitions:3,replication:3";
static const char to_rights[] = "give this user the rights, then it goes on";

/* clang-format off */
static const wh_kafka_error table[] = {
	/* About one message. */
	{BROKER(MSG_SIZE_TOO_LARGE), WH_KAFKA_REJECTED,
		"raise message.max.bytes here and at the topic, " WH_OR_BODY_STORE},
	{BROKER(RECORD_LIST_TOO_LARGE), WH_KAFKA_REJECTED,
		"raise the topic's segment.bytes, " WH_OR_BODY_STORE},
	{BROKER(INVALID_MSG), WH_KAFKA_DOUBTED, NULL},
	{BROKER(INVALID_RECORD), WH_KAFKA_DOUBTED, "a compacted topic wants a key"},
	{BROKER(INVALID_TIMESTAMP), WH_KAFKA_DOUBTED,
		"the topic's message.timestamp.before.max.ms or after.max.ms does not allow the "
		"time at which it was enqueued: raise it, or compare the clocks"},
	{BROKER(UNSUPPORTED_FOR_MESSAGE_FORMAT), WH_KAFKA_DOUBTED, NULL},
	{BROKER(POLICY_VIOLATION), WH_KAFKA_DOUBTED, NULL},
	{BROKER(TOPIC_EXCEPTION), WH_KAFKA_REJECTED, "no topic can have this name"},
	{LOCAL(INVALID_ARG), WH_KAFKA_REJECTED, NULL},
	{LOCAL(BAD_MSG), WH_KAFKA_REJECTED, NULL},

	/* A condition of the topic of a message: other messages may have other topics. */
	{BROKER(UNKNOWN_TOPIC_OR_PART), WH_KAFKA_TOPIC, to_topic},
	{LOCAL(UNKNOWN_TOPIC), WH_KAFKA_TOPIC, to_topic},
	{LOCAL(UNKNOWN_PARTITION), WH_KAFKA_RETRY, "the topic has fewer partitions"},
	{BROKER(TOPIC_AUTHORIZATION_FAILED), WH_KAFKA_TOPIC, to_rights},

	/* Possible later. */
	{BROKER(LEADER_NOT_AVAILABLE), WH_KAFKA_TOPIC, NULL},
	{BROKER(NOT_LEADER_FOR_PARTITION), WH_KAFKA_TOPIC, NULL},
	{BROKER(NOT_ENOUGH_REPLICAS), WH_KAFKA_TOPIC,
		"fewer replicas are in sync than the topic's min.insync.replicas"},
	{BROKER(KAFKA_STORAGE_ERROR), WH_KAFKA_TOPIC, NULL},
	{BROKER(BROKER_NOT_AVAILABLE), WH_KAFKA_TOPIC, NULL},
	{BROKER(REPLICA_NOT_AVAILABLE), WH_KAFKA_TOPIC, NULL},
	{LOCAL(TIMED_OUT_QUEUE), WH_KAFKA_RETRY, NULL},
	{BROKER(THROTTLING_QUOTA_EXCEEDED), WH_KAFKA_THROTTLED, NULL},
	{LOCAL(QUEUE_FULL), WH_KAFKA_THROTTLED, NULL},

	/* The message may be written. */
	{BROKER(NOT_ENOUGH_REPLICAS_AFTER_APPEND), WH_KAFKA_UNKNOWN, NULL},
	{BROKER(REQUEST_TIMED_OUT), WH_KAFKA_UNKNOWN, NULL},
	{BROKER(NETWORK_EXCEPTION), WH_KAFKA_UNKNOWN, NULL},
	{BROKER(UNKNOWN), WH_KAFKA_UNKNOWN, NULL},
	{LOCAL(MSG_TIMED_OUT), WH_KAFKA_UNKNOWN, NULL},
	{LOCAL(TIMED_OUT), WH_KAFKA_UNKNOWN, NULL},
	{LOCAL(TRANSPORT), WH_KAFKA_UNKNOWN, NULL},

	/* Because of another message. */
	{LOCAL(GAPLESS_GUARANTEE), WH_KAFKA_RETURNED, NULL},
	{LOCAL(PURGE_QUEUE), WH_KAFKA_RETURNED, NULL},
	{LOCAL(PURGE_INFLIGHT), WH_KAFKA_RETURNED, NULL},
	{LOCAL(FATAL), WH_KAFKA_RETURNED, NULL},
	{LOCAL(DESTROY), WH_KAFKA_RETURNED, NULL},
	{LOCAL(STATE), WH_KAFKA_RETURNED, NULL},
	{LOCAL(RETRY), WH_KAFKA_RETURNED, NULL},
	{BROKER(OUT_OF_ORDER_SEQUENCE_NUMBER), WH_KAFKA_RETURNED, NULL},

	/* Errors of the producer: a new producer begins again. */
	{LOCAL(ALL_BROKERS_DOWN), WH_KAFKA_CLOSED, NULL},
	{LOCAL(RESOLVE), WH_KAFKA_CLOSED, NULL},
	{LOCAL(INCONSISTENT), WH_KAFKA_CLOSED, NULL},
	{BROKER(UNKNOWN_PRODUCER_ID), WH_KAFKA_CLOSED, NULL},
	{BROKER(INVALID_PRODUCER_ID_MAPPING), WH_KAFKA_CLOSED, NULL},
	{BROKER(DUPLICATE_SEQUENCE_NUMBER), WH_KAFKA_CLOSED, NULL},
	{BROKER(INVALID_TXN_STATE), WH_KAFKA_CLOSED, NULL},
	{LOCAL(FENCED), WH_KAFKA_CLOSED, NULL},
	{BROKER(PRODUCER_FENCED), WH_KAFKA_CLOSED, NULL},
	{BROKER(INVALID_PRODUCER_EPOCH), WH_KAFKA_CLOSED, NULL},

	/* Credentials and rights. */
	{LOCAL(AUTHENTICATION), WH_KAFKA_DENIED, "check sasl.mechanism, user and password"},
	{LOCAL(SSL), WH_KAFKA_DENIED, "check ssl.ca.location and the brokers' names"},
	{BROKER(SASL_AUTHENTICATION_FAILED), WH_KAFKA_DENIED,
		"check sasl.mechanism, user and password"},
	{BROKER(UNSUPPORTED_SASL_MECHANISM), WH_KAFKA_DENIED, "choose another sasl.mechanism"},
	{BROKER(ILLEGAL_SASL_STATE), WH_KAFKA_DENIED, NULL},
	{BROKER(CLUSTER_AUTHORIZATION_FAILED), WH_KAFKA_DENIED,
		"idempotence needs the right IdempotentWrite, or enable.idempotence=false, which "
		"gives up order after errors"},

	/* Wrong configuration. */
	{LOCAL(UNSUPPORTED_FEATURE), WH_KAFKA_INVALID, "these brokers are too old for it"},
	{LOCAL(NOT_IMPLEMENTED), WH_KAFKA_INVALID, NULL},
	{BROKER(UNSUPPORTED_VERSION), WH_KAFKA_INVALID, "these brokers are too old for it"},
	{BROKER(UNSUPPORTED_COMPRESSION_TYPE), WH_KAFKA_INVALID,
		"choose another compression.type"},
	{BROKER(INVALID_REQUIRED_ACKS), WH_KAFKA_INVALID, NULL},
};
/* clang-format on */

const wh_kafka_error *wh_kafka_error_find(rd_kafka_resp_err_t code)
{
	static const wh_kafka_error other = {RD_KAFKA_RESP_ERR_UNKNOWN, WH_KAFKA_RETRY,
					     NULL};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (table[i].code == code)
			return &table[i];
	return &other;
}

void wh_kafka_describe(rd_kafka_resp_err_t code, char *out, size_t cap)
{
	const char *advice = wh_kafka_error_find(code)->advice;

	wh_put_answer(out, cap, NULL, rd_kafka_err2str(code), advice);
}
