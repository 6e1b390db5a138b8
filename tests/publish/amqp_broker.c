#include "amqp_broker.h"

#include <amqp_tcp_socket.h>
#include <fcntl.h>
#include <sys/stat.h>

static bool is_installed(void)
{
	struct stat file;

	return stat("/usr/lib/rabbitmq/bin/rabbitmq-server", &file) == 0;
}

static amqp_broker *start(void)
{
	static amqp_broker broker;
	const char *source = getenv("WHERRY_SOURCE");
	char path[400], line[300];
	int to[2], from[2];
	pid_t pid;

	if (!source || !is_installed())
		return NULL;
	(void)snprintf(path, sizeof(path), "%s/tests/amqp/server.sh", source);
	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	(void)fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		(void)dup2(to[0], STDIN_FILENO);
		(void)dup2(from[1], STDOUT_FILENO);
		(void)execl("/bin/bash", "bash", path, (char *)NULL);
		_exit(127);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	broker.in = fdopen(to[1], "w");
	broker.out = fdopen(from[0], "r");
	if (!fgets(line, sizeof(line), broker.out))
		return NULL;
	assert_int_equal(sscanf(line, "%d %d %127s", &broker.port, &broker.tls_port,
				broker.folder),
			 3);
	return &broker;
}

amqp_broker *amqp_broker_get(void)
{
	static amqp_broker *broker;
	static bool tried;

	if (!tried)
		broker = start();
	tried = true;
	return broker;
}

void amqp_broker_tell(amqp_broker *broker, const char *fmt, ...)
{
	char answer[200] = "";
	va_list args;

	va_start(args, fmt);
	(void)vfprintf(broker->in, fmt, args);
	va_end(args);
	(void)fputc('\n', broker->in);
	(void)fflush(broker->in);
	assert_non_null(fgets(answer, sizeof(answer), broker->out));
	assert_string_equal(answer, "ok\n");
}

static void is_fine(amqp_rpc_reply_t reply)
{
	assert_int_equal(reply.reply_type, AMQP_RESPONSE_NORMAL);
}

void amqp_broker_open(amqp_broker *broker)
{
	amqp_socket_t *socket;

	if (broker->conn)
		return;
	broker->conn = amqp_new_connection();
	socket = amqp_tcp_socket_new(broker->conn);
	assert_non_null(socket);
	assert_int_equal(amqp_socket_open(socket, "127.0.0.1", broker->port), 0);
	is_fine(amqp_login(broker->conn, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN,
			   "guest", "guest"));
	(void)amqp_channel_open(broker->conn, 1);
	is_fine(amqp_get_rpc_reply(broker->conn));
}

void amqp_broker_close(amqp_broker *broker)
{
	if (!broker->conn)
		return;
	(void)amqp_connection_close(broker->conn, AMQP_REPLY_SUCCESS);
	(void)amqp_destroy_connection(broker->conn);
	broker->conn = NULL;
}

void amqp_broker_queue(amqp_broker *broker, const char *name, int most)
{
	amqp_table_entry_t limits[] = {
		{.key = amqp_cstring_bytes("x-max-length"),
		 .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = most}},
		{.key = amqp_cstring_bytes("x-overflow"),
		 .value = {.kind = AMQP_FIELD_KIND_UTF8}}};
	amqp_table_t table = {.num_entries = most < 0 ? 0 : 2, .entries = limits};

	limits[1].value.value.bytes = amqp_cstring_bytes("reject-publish");
	amqp_broker_open(broker);
	(void)amqp_queue_delete(broker->conn, 1, amqp_cstring_bytes(name), 0, 0);
	is_fine(amqp_get_rpc_reply(broker->conn));
	(void)amqp_queue_declare(broker->conn, 1, amqp_cstring_bytes(name), 0, 1, 0, 0,
				 table);
	is_fine(amqp_get_rpc_reply(broker->conn));
}

bool amqp_broker_take(amqp_broker *broker, const char *queue, bool keep,
		      amqp_message_t *out)
{
	amqp_rpc_reply_t reply;

	amqp_broker_open(broker);
	amqp_maybe_release_buffers(broker->conn);
	reply = amqp_basic_get(broker->conn, 1, amqp_cstring_bytes(queue), !keep);
	is_fine(reply);
	if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD)
		return false;
	is_fine(amqp_read_message(broker->conn, 1, out, 0));
	return true;
}
