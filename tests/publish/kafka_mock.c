#include "kafka_mock.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/wait.h>

static bool find_program(char *path, size_t cap)
{
	char self[256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return false;
	self[n] = 0;
	(void)snprintf(path, cap, "%s/publish_kafka_mock_linked_main", dirname(self));
	return access(path, X_OK) == 0 && system("command -v kcat >/dev/null") == 0;
}

kafka_mock *kafka_mock_start(int n_brokers)
{
	kafka_mock *mock = calloc(1, sizeof(*mock));
	int to[2], from[2];
	char path[400], number[16];

	assert_non_null(mock);
	if (!find_program(path, sizeof(path))) {
		free(mock);
		return NULL;
	}
	(void)snprintf(number, sizeof(number), "%d", n_brokers);
	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	(void)fflush(stdout);
	mock->pid = fork();
	assert_true(mock->pid >= 0);
	if (!mock->pid) {
		(void)dup2(to[0], STDIN_FILENO);
		(void)dup2(from[1], STDOUT_FILENO);
		(void)execl(path, path, number, (char *)NULL);
		_exit(127);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	mock->in = fdopen(to[1], "w");
	mock->out = fdopen(from[0], "r");
	assert_non_null(fgets(mock->brokers, sizeof(mock->brokers), mock->out));
	mock->brokers[strcspn(mock->brokers, "\n")] = 0;
	return mock;
}

void kafka_mock_stop(kafka_mock *mock)
{
	(void)fclose(mock->in);
	(void)waitpid(mock->pid, NULL, 0);
	(void)fclose(mock->out);
	free(mock);
}

void kafka_mock_tell(kafka_mock *mock, const char *fmt, ...)
{
	char answer[200] = "";
	va_list args;

	va_start(args, fmt);
	(void)vfprintf(mock->in, fmt, args);
	va_end(args);
	(void)fputc('\n', mock->in);
	(void)fflush(mock->in);
	assert_non_null(fgets(answer, sizeof(answer), mock->out));
	assert_string_equal(answer, "ok\n");
}

json_t *kafka_mock_read(const kafka_mock *mock, const char *topic)
{
	json_t *all = json_array();
	char command[512], *line = NULL;
	size_t cap = 0;
	FILE *kcat;

	(void)snprintf(command, sizeof(command),
		       "timeout 30 kcat -b %s -t %s -C -e -q -o beginning "
		       "-X fetch.wait.max.ms=10 -J",
		       mock->brokers, topic);
	kcat = popen(command, "re");
	assert_non_null(kcat);
	while (getline(&line, &cap, kcat) > 0) {
		json_t *record = json_loads(line, 0, NULL);

		assert_non_null(record);
		assert_int_equal(json_array_append_new(all, record), 0);
	}
	free(line);
	assert_int_equal(pclose(kcat), 0);
	return all;
}

const char *kafka_mock_header(const json_t *record, const char *name)
{
	const json_t *headers = json_object_get(record, "headers");

	for (size_t i = 0; i + 1 < json_array_size(headers); i += 2)
		if (strcmp(json_string_value(json_array_get(headers, i)), name) == 0)
			return json_string_value(json_array_get(headers, i + 1));
	return NULL;
}
