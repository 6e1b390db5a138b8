/*
 * The suite on what needs no server: files, standard output, commands, memory, nothing.
 */
#include "publisher_suite.h"

#include <fcntl.h>

enum { LINE_MOST = 4096 };

typedef struct local {
	wherry_temp temp;
	int out; /* standard output as it was; -1: untouched */
} local;

static local *make(char *url, size_t cap, const char *scheme, const char *file)
{
	local *place = calloc(1, sizeof(*place));

	assert_non_null(place);
	place->out = -1;
	(void)snprintf(url, cap, "%s%s", scheme,
		       file ? wherry_temp_make(&place->temp, file) : "");
	return place;
}

static void stop(void *arg)
{
	local *place = arg;

	if (place->out >= 0) {
		(void)dup2(place->out, STDOUT_FILENO);
		(void)close(place->out);
	}
	if (*place->temp.dir)
		wherry_temp_clear(&place->temp);
	free(place);
}

/* The numbers behind "m-" in each line of a file. */
static size_t numbers_in(const char *path, int *numbers, size_t cap)
{
	FILE *file = fopen(path, "re");
	char line[LINE_MOST];
	size_t n = 0;

	while (file && n < cap && fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, "m-");

		if (at)
			numbers[n++] = (int)strtol(at + 2, NULL, 10);
	}
	if (file)
		(void)fclose(file);
	return n;
}

static size_t arrived_in_file(void *arg, wherry_publisher *pub, int *numbers, size_t cap)
{
	const local *place = arg;

	return numbers_in(place->temp.path, numbers, cap);
}

/* Headers that are no object of strings. */
static void doom_headers(void *place, publisher_fate fate, wherry_message *msg,
			 char *text, size_t cap)
{
	msg->headers = "[]";
}

/* ---- file: and stdout: ---- */

static void *start_file(char *url, size_t cap)
{
	return make(url, cap, "file:", "out.ndjson");
}

static void *start_stdout(char *url, size_t cap)
{
	local *place = make(url, cap, "", "out.ndjson");
	int fd = open(place->temp.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	(void)snprintf(url, cap, "stdout:");
	(void)fflush(stdout);
	place->out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
	assert_true(fd >= 0 && place->out >= 0);
	assert_true(dup2(fd, STDOUT_FILENO) >= 0);
	(void)close(fd);
	return place;
}

static const publisher_backend in_file = {
	.name = "file",
	.alone = 1 << FATE_REJECTED,
	.mixed = 1 << FATE_REJECTED,
	.start = start_file,
	.stop = stop,
	.doom = doom_headers,
	.arrived = arrived_in_file,
};

static const publisher_backend on_stdout = {
	.name = "stdout",
	.alone = 1 << FATE_REJECTED,
	.mixed = 1 << FATE_REJECTED,
	.start = start_stdout,
	.stop = stop,
	.doom = doom_headers,
	.arrived = arrived_in_file,
};

/* ---- exec: ---- */

static void *start_exec(char *url, size_t cap)
{
	local *place = make(url, cap, "exec:", "out");

	(void)snprintf(url, cap,
		       "exec:case $WHERRY_TOPIC in reject) exit 65;; later) exit 75;; "
		       "hang) sleep 60;; esac; [ ! -e %s/hang ] || sleep 60; "
		       "echo $WHERRY_MESSAGE_ID >>%s",
		       place->temp.dir, place->temp.path);
	return place;
}

static void play_exec(void *arg, publisher_play how)
{
	const local *place = arg;
	char path[100];

	(void)snprintf(path, sizeof(path), "%s/hang", place->temp.dir);
	(void)unlink(path);
	if (how == PLAY_HANGS) {
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		assert_true(fd >= 0);
		(void)close(fd);
	}
}

static void doom_exec(void *place, publisher_fate fate, wherry_message *msg, char *text,
		      size_t cap)
{
	static const char *const topics[FATE_COUNT] = {[FATE_REJECTED] = "reject",
						       [FATE_RETRY] = "later",
						       [FATE_UNKNOWN] = "hang"};

	if (fate == FATE_OVERSIZED) { /* for an environment */
		memset(text, 'x', cap - 1);
		text[cap - 1] = 0;
		msg->trace_id = text;
		return;
	}
	msg->topic = topics[fate];
}

enum {
	EXEC_FATES = 1 << FATE_REJECTED | 1 << FATE_OVERSIZED | 1 << FATE_RETRY |
		     1 << FATE_UNKNOWN
};

static const publisher_backend by_command = {
	.name = "exec",
	.many = 200,
	.plays = 1 << PLAY_HANGS,
	.alone = EXEC_FATES,
	.mixed = EXEC_FATES,
	.start = start_exec,
	.stop = stop,
	.play = play_exec,
	.doom = doom_exec,
	.arrived = arrived_in_file,
};

/* ---- memory: and null: ---- */

static void *start_memory(char *url, size_t cap)
{
	return make(url, cap, "memory:", NULL);
}

static void *start_null(char *url, size_t cap)
{
	return make(url, cap, "null:", NULL);
}

static size_t arrived_in_memory(void *place, wherry_publisher *pub, int *numbers,
				size_t cap)
{
	size_t n = wherry_memory_count(pub);

	for (size_t i = 0; i < n && i < cap; i++)
		numbers[i] = (int)wherry_memory_get(pub, i)->id - 1;
	return n < cap ? n : cap;
}

static const publisher_backend in_memory = {
	.name = "memory",
	.start = start_memory,
	.stop = stop,
	.arrived = arrived_in_memory,
};

static const publisher_backend nowhere = {
	.name = "null",
	.start = start_null,
	.stop = stop,
};

/* ---- in a format: src/publish/format ---- */

static void set(wherry_config *config, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(config, key, value, &err));
}

static void prepare_format(void *place, wherry_config *config)
{
	set(config, "message.format", "cloudevents");
	set(config, "message.topic", "x.{topic}");
	set(config, "message.headers", "add n {message_id}");
}

static const publisher_backend formatted_file = {
	.name = "cloudevents to file",
	.alone = 1 << FATE_REJECTED,
	.mixed = 1 << FATE_REJECTED,
	.start = start_file,
	.stop = stop,
	.prepare = prepare_format,
	.doom = doom_headers,
	.arrived = arrived_in_file,
};

/* One message of a key is in flight at a time, since the destination gets other keys. */
static void prepare_keys(void *place, wherry_config *config)
{
	set(config, "message.key", "{message_id}");
}

static const publisher_backend keyed_memory = {
	.name = "other keys to memory",
	.start = start_memory,
	.stop = stop,
	.prepare = prepare_keys,
	.arrived = arrived_in_memory,
};

static void prepare_command(void *place, wherry_config *config)
{
	set(config, "message.format", "debezium");
	set(config, "message.topic", "{topic}");
}

static const publisher_backend formatted_command = {
	.name = "debezium to exec",
	.many = 200,
	.plays = 1 << PLAY_HANGS,
	.alone = EXEC_FATES,
	.mixed = EXEC_FATES,
	.start = start_exec,
	.stop = stop,
	.prepare = prepare_command,
	.play = play_exec,
	.doom = doom_exec,
	.arrived = arrived_in_file,
};

int main(void)
{
	static const publisher_backend *const all[] = {
		&in_file, &on_stdout,      &by_command,   &in_memory,
		&nowhere, &formatted_file, &keyed_memory, &formatted_command,
	};

	return publisher_suite_run(all, sizeof(all) / sizeof(*all));
}
