#include "nats_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

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

static int free_port(void)
{
	struct sockaddr_in address = address_of(0);
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	(void)close(fd);
	return ntohs(address.sin_port);
}

/* A server says INFO to each client, when JetStream is ready. */
static bool greets(int port)
{
	struct sockaddr_in address = address_of(port);
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

static void write_configuration(const nats_server *server, const char *lines)
{
	FILE *file = fopen(server->temp.path, "we");

	assert_non_null(file);
	(void)fprintf(file,
		      "listen: \"127.0.0.1:%d\"\nmax_payload: 100000\n"
		      "jetstream { store_dir: \"%s/js\" }\n%s\n",
		      server->port, server->temp.dir, lines);
	assert_int_equal(fclose(file), 0);
}

void nats_server_again(nats_server *server, const char *lines)
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
			(void)execl(find_program(), program, "-c", server->temp.path,
				    (char *)NULL);
		_exit(127);
	}
	for (int i = 0; !greets(server->port); i++) {
		assert_in_range(i, 0, 2000);
		assert_int_equal(waitpid(server->pid, NULL, WNOHANG), 0);
		(void)usleep(5000);
	}
}

nats_server *nats_server_start(const char *lines)
{
	nats_server *server;

	if (!find_program()) {
		print_message("# nats-server is not installed\n");
		return NULL;
	}
	server = calloc(1, sizeof(*server));
	assert_non_null(server);
	(void)wherry_temp_make(&server->temp, "nats.conf");
	server->port = free_port();
	(void)snprintf(server->url, sizeof(server->url), "nats://127.0.0.1:%d",
		       server->port);
	nats_server_again(server, lines);
	return server;
}

void nats_server_kill(nats_server *server)
{
	if (!server->pid)
		return;
	(void)kill(server->pid, SIGKILL);
	(void)waitpid(server->pid, NULL, 0);
	server->pid = 0;
}

void nats_server_freeze(nats_server *server)
{
	(void)kill(server->pid, SIGSTOP);
}

void nats_server_thaw(nats_server *server)
{
	(void)kill(server->pid, SIGCONT);
}

void nats_server_stop(nats_server *server)
{
	nats_server_kill(server);
	wherry_temp_clear(&server->temp);
	free(server);
}
