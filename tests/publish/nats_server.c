#include "nats_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>

static const char program[] = "nats-server";

/* Debian has it in /usr/sbin, where a user's PATH may not look. */
static const char *find_program(void)
{
	static const char *const places[] = {"/usr/sbin/nats-server",
					     "/usr/bin/nats-server",
					     "/usr/local/bin/nats-server"};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	return NULL;
}

static struct sockaddr_in address_of(int port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* A server says INFO to each client, when JetStream is ready. */
static bool greets(const child_server *server)
{
	struct sockaddr_in address = address_of(server->port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	char text[5] = "";
	bool greeted;

	assert_true(fd >= 0);
	greeted = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		  poll(&polled, 1, 1000) == 1 && read(fd, text, 4) == 4 &&
		  strcmp(text, "INFO") == 0;
	(void)close(fd);
	return greeted;
}

static void write_configuration(const child_server *server, const char *lines)
{
	FILE *file = fopen(server->temp.path, "we");

	assert_non_null(file);
	(void)fprintf(file,
		      "listen: \"127.0.0.1:%d\"\nmax_payload: 100000\n"
		      "jetstream { store_dir: \"%s/js\" }\n%s\n",
		      server->port, server->temp.dir, lines);
	assert_int_equal(fclose(file), 0);
}

void nats_server_again(child_server *server, const char *lines)
{
	const char *const words[] = {program, "-c", server->temp.path, NULL};

	write_configuration(server, lines);
	child_server_run(server, find_program(), words, greets);
}

child_server *nats_server_start(const char *lines)
{
	child_server *server;

	if (!find_program()) {
		print_message("# nats-server is not installed\n");
		return NULL;
	}
	server = child_server_new("nats", "nats.conf");
	nats_server_again(server, lines);
	return server;
}
