/*
 * Streams for scripts:
 *
 *     add URL NAME SUBJECT [max_msgs=N] [max_msg_size=N] [per_subject=N] [duplicates=MS] [discard=new] [no_ack]
 *         [replicas=N] [work]
 *     read URL NAME    each message as a line of JSON: subject, headers, body
 *     purge URL NAME
 *     delete URL NAME SEQUENCE...
 *     drop URL NAME
 *     seen URL NAME    the number of messages that the stream ever had
 */
#include <jansson.h>
#include <nats/nats.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse(jsStreamConfig *config, const char *word)
{
	const char *equals = strchr(word, '=');
	long n = equals ? strtol(equals + 1, NULL, 10) : 0;

	if (strncmp(word, "max_msgs=", 9) == 0)
		config->MaxMsgs = n;
	else if (strncmp(word, "max_msg_size=", 13) == 0)
		config->MaxMsgSize = (int32_t)n;
	else if (strncmp(word, "replicas=", 9) == 0)
		config->Replicas = n;
	else if (strncmp(word, "per_subject=", 12) == 0)
		config->MaxMsgsPerSubject = n;
	else if (strncmp(word, "duplicates=", 11) == 0)
		config->Duplicates = n * 1000000;
	else if (strcmp(word, "work") == 0)
		config->Retention = js_WorkQueuePolicy;
	else if (strcmp(word, "discard=new") == 0)
		config->Discard = js_DiscardNew;
	else if (strcmp(word, "no_ack") == 0)
		config->NoAck = true;
	else
		return false;
	return true;
}

static natsStatus add(jsCtx *js, const char *name, char **words)
{
	const char *subject = words[0];
	jsStreamConfig config;

	(void)jsStreamConfig_Init(&config);
	config.Name = name;
	config.Subjects = &subject;
	config.SubjectsLen = 1;
	for (words++; *words; words++)
		if (!parse(&config, *words))
			return NATS_INVALID_ARG;
	return js_AddStream(NULL, js, &config, NULL, NULL);
}

static void print(natsMsg *msg)
{
	json_t *headers = json_object(), *line = json_object();
	const char **names = NULL, *value;
	char *text;
	int n = 0;

	if (natsMsgHeader_Keys(msg, &names, &n) == NATS_OK)
		for (int i = 0; i < n; i++)
			if (natsMsgHeader_Get(msg, names[i], &value) == NATS_OK)
				(void)json_object_set_new(headers, names[i],
							  json_string(value));
	free(names);
	(void)json_object_set_new(line, "subject", json_string(natsMsg_GetSubject(msg)));
	(void)json_object_set_new(line, "headers", headers);
	(void)json_object_set_new(
		line, "body",
		json_stringn(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)));
	text = json_dumps(line, JSON_COMPACT);
	(void)puts(text ? text : "");
	free(text);
	json_decref(line);
}

/* A stream that discards or deletes messages lacks some. */
static natsStatus read_all(jsCtx *js, const char *name, bool count)
{
	jsStreamInfo *info = NULL;
	natsStatus s = js_GetStreamInfo(&info, js, name, NULL, NULL);
	uint64_t last = s == NATS_OK ? info->State.LastSeq : 0;

	for (uint64_t i = s == NATS_OK ? info->State.FirstSeq : 1; !count && i <= last;
	     i++) {
		natsMsg *msg = NULL;

		if (js_GetMsg(&msg, js, name, i, NULL, NULL) == NATS_OK)
			print(msg);
		natsMsg_Destroy(msg);
	}
	if (count)
		(void)printf("%llu\n", (unsigned long long)last);
	jsStreamInfo_Destroy(info);
	return s;
}

static natsStatus delete_messages(jsCtx *js, const char *name, char **words)
{
	natsStatus s = NATS_OK;

	for (; *words && s == NATS_OK; words++)
		s = js_DeleteMsg(js, name, strtoull(*words, NULL, 10), NULL, NULL);
	return s;
}

int main(int argc, char **argv)
{
	natsConnection *connection = NULL;
	jsCtx *js = NULL;
	natsStatus s;

	if (argc < 4)
		return 2;
	s = natsConnection_ConnectTo(&connection, argv[2]);
	if (s == NATS_OK)
		s = natsConnection_JetStream(&js, connection, NULL);
	if (s == NATS_OK && strcmp(argv[1], "add") == 0 && argc > 4)
		s = add(js, argv[3], argv + 4);
	else if (s == NATS_OK && strcmp(argv[1], "purge") == 0)
		s = js_PurgeStream(js, argv[3], NULL, NULL);
	else if (s == NATS_OK && strcmp(argv[1], "delete") == 0)
		s = delete_messages(js, argv[3], argv + 4);
	else if (s == NATS_OK && strcmp(argv[1], "drop") == 0)
		s = js_DeleteStream(js, argv[3], NULL, NULL);
	else if (s == NATS_OK)
		s = read_all(js, argv[3], strcmp(argv[1], "seen") == 0);
	if (s != NATS_OK)
		nats_PrintLastErrorStack(stderr);
	jsCtx_Destroy(js);
	natsConnection_Destroy(connection);
	return s == NATS_OK ? 0 : 1;
}
