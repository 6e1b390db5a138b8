#include "child_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

int child_server_port(void)
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

child_server *child_server_new(const char *scheme, const char *configuration)
{
	child_server *server = calloc(1, sizeof(*server));

	assert_non_null(server);
	(void)wherry_temp_make(&server->temp, configuration);
	server->port = child_server_port();
	(void)snprintf(server->url, sizeof(server->url), "%s://127.0.0.1:%d", scheme,
		       server->port);
	return server;
}

void child_server_run(child_server *server, const char *program, const char *const *words,
		      bool (*answers)(const child_server *server))
{
	pid_t parent = getpid();

	(void)fflush(stdout);
	server->pid = fork();
	assert_true(server->pid >= 0);
	if (!server->pid) {
		int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)dup2(nowhere, STDOUT_FILENO);
		(void)dup2(nowhere, STDERR_FILENO);
		if (getppid() == parent)
			(void)execv(program, (char *const *)(uintptr_t)words);
		_exit(127);
	}
	for (int i = 0; !answers(server); i++) {
		assert_in_range(i, 0, 2000);
		assert_int_equal(waitpid(server->pid, NULL, WNOHANG), 0);
		(void)usleep(5000);
	}
}

void child_server_kill(child_server *server)
{
	if (!server->pid)
		return;
	(void)kill(server->pid, SIGKILL);
	(void)waitpid(server->pid, NULL, 0);
	server->pid = 0;
}

void child_server_freeze(child_server *server)
{
	(void)kill(server->pid, SIGSTOP);
}

void child_server_thaw(child_server *server)
{
	(void)kill(server->pid, SIGCONT);
}

void child_server_stop(child_server *server)
{
	child_server_kill(server);
	wherry_temp_clear(&server->temp);
	free(server);
}
