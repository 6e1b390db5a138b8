/*
 * Can a topic lose messages that it has taken?  acks=all waits for the replicas that are in sync, so a
 * topic is safe only if two of them must be, and if a replica that is not cannot lead.
 */
#include "publish/kafka/kafka.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "publish/parts.h"

enum { ANSWER_MS = 500, ERROR_LEN = 200, COMMAND_LEN = 1200 };

static const char in_sync[] = "min.insync.replicas";
static const char unclean[] = "unclean.leader.election.enable";

void wh_kafka_safety_read(wh_kafka_safety *safety, const char *name, const char *value)
{
	int64_t number;

	if (strcmp(name, in_sync) == 0)
		safety->one_in_sync = value && wh_parse_int(value, &number) && number < 2;
	else if (strcmp(name, unclean) == 0)
		safety->unclean = value && strcmp(value, "true") == 0;
}

bool wh_kafka_is_safe(const wh_kafka_safety *safety)
{
	return safety->replicas < 2 || !(safety->one_in_sync || safety->unclean);
}

void wh_kafka_safety_show(const wh_kafka_safety *safety, const char *topic, char *out,
			  size_t cap)
{
	char one[40];

	(void)snprintf(one, sizeof(one), "%s=1", in_sync);
	(void)snprintf(
		out, cap, "%s%s%s%s of the topic %s", safety->one_in_sync ? one : "",
		safety->one_in_sync && safety->unclean ? " and " : "",
		safety->unclean ? unclean : "", safety->unclean ? "=true" : "", topic);
}

void wh_kafka_safety_log(const wh_kafka_safety *safety, const wh_env *env,
			 const char *brokers, const char *topic)
{
	char command[COMMAND_LEN];

	(void)snprintf(
		command, sizeof(command),
		"kafka-configs.sh --bootstrap-server %s --alter --entity-type topics "
		"--entity-name %s --add-config %s%s%s",
		brokers, topic, safety->one_in_sync ? "min.insync.replicas=2" : "",
		safety->one_in_sync && safety->unclean ? "," : "",
		safety->unclean ? "unclean.leader.election.enable=false" : "");
	wh_log(env, WHERRY_LOG_WARN, "kafka", "unsafe-topic", wh_log_text("topic", topic),
	       wh_log_int("replicas", safety->replicas),
	       wh_log_text(
		       "why",
		       !safety->unclean
			       ? "min.insync.replicas=1: a message counts as delivered "
				 "when one broker has it, and is lost if that one fails"
		       : !safety->one_in_sync
			       ? "unclean.leader.election.enable=true: a broker that "
				 "lacks messages can lead, and they are lost"
			       : "min.insync.replicas=1 and "
				 "unclean.leader.election.enable=true: a message counts "
				 "as delivered when one broker has it, and a broker "
				 "that lacks it can lead"),
	       wh_log_text("repair", command));
}

static void read_entries(wh_kafka_safety *safety, const rd_kafka_ConfigResource_t *of)
{
	size_t n = 0;
	const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(of, &n);

	for (size_t i = 0; i < n; i++)
		wh_kafka_safety_read(safety, rd_kafka_ConfigEntry_name(entries[i]),
				     rd_kafka_ConfigEntry_value(entries[i]));
}

/* The answer to a request for one resource. */
static rd_kafka_resp_err_t read_answer(wh_kafka_safety *safety, rd_kafka_event_t *event)
{
	const rd_kafka_DescribeConfigs_result_t *result =
		event ? rd_kafka_event_DescribeConfigs_result(event) : NULL;
	const rd_kafka_ConfigResource_t **each = NULL;
	rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;
	size_t n = 0;

	if (event)
		code = rd_kafka_event_error(event);
	if (result)
		each = rd_kafka_DescribeConfigs_result_resources(result, &n);
	if (!code && n)
		code = rd_kafka_ConfigResource_error(each[0]);
	if (!code && n)
		read_entries(safety, each[0]);
	return code;
}

rd_kafka_resp_err_t wh_kafka_safety_ask(rd_kafka_t *rk, const char *topic,
					wh_kafka_safety *safety)
{
	rd_kafka_ConfigResource_t *of =
		rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
	rd_kafka_AdminOptions_t *options =
		rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
	rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
	rd_kafka_event_t *event = NULL;
	char why[ERROR_LEN];

	if (of && options && queue) {
		(void)rd_kafka_AdminOptions_set_request_timeout(options, ANSWER_MS, why,
								sizeof(why));
		rd_kafka_DescribeConfigs(rk, &of, 1, options, queue);
		event = rd_kafka_queue_poll(queue, 2 * ANSWER_MS);
		code = read_answer(safety, event);
	}
	if (event)
		rd_kafka_event_destroy(event);
	if (queue)
		rd_kafka_queue_destroy(queue);
	if (options)
		rd_kafka_AdminOptions_destroy(options);
	if (of)
		rd_kafka_ConfigResource_destroy(of);
	return code;
}
