#include "redis_server.h"

#include <stdarg.h>
#include <stdbool.h>

static const char program[] = "/usr/bin/redis-server";

static redisContext *connect_to(const child_server *server)
{
	redisContext *c = redisConnect("127.0.0.1", server->port);

	if (c && !c->err)
		return c;
	redisFree(c);
	return NULL;
}

/* A server with a password answers, too. */
static bool answers(const child_server *server)
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

static void write_configuration(const child_server *server, const char *lines)
{
	FILE *file = fopen(server->temp.path, "we");

	assert_non_null(file);
	(void)fprintf(file,
		      "bind 127.0.0.1\nport %d\ndir %s\nsave \"\"\nappendonly yes\n"
		      "appendfsync always\nproto-max-bulk-len 1mb\nlogfile log\n%s\n",
		      server->port, server->temp.dir, lines);
	assert_int_equal(fclose(file), 0);
}

void redis_server_again(child_server *server, const char *lines)
{
	const char *const words[] = {"redis-server", server->temp.path, NULL};

	write_configuration(server, lines);
	child_server_run(server, program, words, answers);
}

child_server *redis_server_start(const char *lines)
{
	child_server *server;

	if (access(program, X_OK) != 0) {
		print_message("# redis-server is not installed\n");
		return NULL;
	}
	server = child_server_new("redis", "redis.conf");
	redis_server_again(server, lines);
	return server;
}

redisReply *redis_ask(const child_server *server, const char *format, ...)
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
