#include "redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

static const char program[] = "/usr/bin/redis-server";

static int free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	(void)close(fd);
	return ntohs(address.sin_port);
}

static redisContext *connect_to(const redis_server *server)
{
	redisContext *c = redisConnect("127.0.0.1", server->port);

	if (c && !c->err)
		return c;
	redisFree(c);
	return NULL;
}

/* A server with a password answers, too. */
static bool answers(const redis_server *server)
{
	redisContext *c = connect_to(server);
	redisReply *reply = c ? redisCommand(c, "PING") : NULL;
	bool ready = reply && !(reply->type == REDIS_REPLY_ERROR &&
				strncmp(reply->str, "LOADING", 7) == 0);

	if (reply)
		freeReplyObject(reply);
	if (c)
		redisFree(c);
	return ready;
}

static void write_configuration(const redis_server *server, const char *lines)
{
	FILE *file = fopen(server->temp.path, "we");

	assert_non_null(file);
	(void)fprintf(file,
		      "bind 127.0.0.1\nport %d\ndir %s\nsave \"\"\nappendonly yes\n"
		      "appendfsync always\nproto-max-bulk-len 1mb\nlogfile log\n%s\n",
		      server->port, server->temp.dir, lines);
	assert_int_equal(fclose(file), 0);
}

void redis_server_again(redis_server *server, const char *lines)
{
	pid_t parent = getpid();

	write_configuration(server, lines);
	(void)fflush(stdout);
	server->pid = fork();
	assert_true(server->pid >= 0);
	if (!server->pid) {
		int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)dup2(nowhere, STDOUT_FILENO);
		(void)dup2(nowhere, STDERR_FILENO);
		if (getppid() == parent)
			(void)execl(program, "redis-server", server->temp.path,
				    (char *)NULL);
		_exit(127);
	}
	for (int i = 0; !answers(server); i++) {
		assert_in_range(i, 0, 2000);
		assert_int_equal(waitpid(server->pid, NULL, WNOHANG), 0);
		(void)usleep(5000);
	}
}

redis_server *redis_server_start(const char *lines)
{
	redis_server *server;

	if (access(program, X_OK) != 0) {
		print_message("# redis-server is not installed\n");
		return NULL;
	}
	server = calloc(1, sizeof(*server));
	assert_non_null(server);
	(void)wherry_temp_make(&server->temp, "redis.conf");
	server->port = free_port();
	(void)snprintf(server->url, sizeof(server->url), "redis://127.0.0.1:%d",
		       server->port);
	redis_server_again(server, lines);
	return server;
}

void redis_server_kill(redis_server *server)
{
	if (!server->pid)
		return;
	(void)kill(server->pid, SIGKILL);
	(void)waitpid(server->pid, NULL, 0);
	server->pid = 0;
}

void redis_server_freeze(redis_server *server)
{
	(void)kill(server->pid, SIGSTOP);
}

void redis_server_thaw(redis_server *server)
{
	(void)kill(server->pid, SIGCONT);
}

void redis_server_stop(redis_server *server)
{
	redis_server_kill(server);
	wherry_temp_clear(&server->temp);
	free(server);
}

redisReply *redis_ask(const redis_server *server, const char *format, ...)
{
	redisContext *c = connect_to(server);
	redisReply *reply;
	va_list args;

	assert_non_null(c);
	va_start(args, format);
	reply = redisvCommand(c, format, args);
	va_end(args);
	assert_non_null(reply);
	if (reply->type == REDIS_REPLY_ERROR)
		fail_msg("redis: %s", reply->str);
	redisFree(c);
	return reply;
}
