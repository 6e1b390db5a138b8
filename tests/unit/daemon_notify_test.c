/*
 * What the daemon sends to the service manager that started it.
 */
#include "wherry_test.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/notify.h"

/* Bind a socket to a name, and let NOTIFY_SOCKET name it. */
static int listen_at(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	memcpy(address.sun_path, name, strlen(name));
	if (*name == '@')
		*address.sun_path = 0;
	assert_int_equal(
		bind(fd, (struct sockaddr *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
		0);
	(void)setenv("NOTIFY_SOCKET", name, 1);
	return fd;
}

static void assert_heard(int fd, const char *lines)
{
	char heard[100] = "";
	ssize_t n = recv(fd, heard, sizeof(heard) - 1, 0);

	assert_int_equal(n, (ssize_t)strlen(lines));
	assert_string_equal(heard, lines);
}

WHERRY_TEST(lines_arrive_at_a_socket_in_the_file_system)
{
	char folder[] = "/tmp/wherry-notify-XXXXXX", name[80];
	int fd;

	assert_non_null(mkdtemp(folder));
	(void)snprintf(name, sizeof(name), "%s/socket", folder);
	fd = listen_at(name);
	wh_notify("READY=1\nSTATUS=2 relays");
	assert_heard(fd, "READY=1\nSTATUS=2 relays");
	(void)close(fd);
	(void)unlink(name);
	(void)rmdir(folder);
}

WHERRY_TEST(lines_arrive_at_a_socket_without_a_file)
{
	char name[80];
	int fd;

	(void)snprintf(name, sizeof(name), "@wherry-notify-%ld", (long)getpid());
	fd = listen_at(name);
	wh_notify("WATCHDOG=1");
	assert_heard(fd, "WATCHDOG=1");
	(void)close(fd);
}

WHERRY_TEST(without_a_service_manager_nothing_happens)
{
	static const char *const names[] = {"", "/", "relative", "/nobody/listens/here"};
	char longer[200];

	(void)unsetenv("NOTIFY_SOCKET");
	wh_notify("READY=1");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		(void)setenv("NOTIFY_SOCKET", names[i], 1);
		wh_notify("READY=1");
	}
	memset(longer, '/', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	(void)setenv("NOTIFY_SOCKET", longer, 1);
	wh_notify("READY=1");
}

static int64_t watchdog(const char *us, const char *pid)
{
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");
	if (us)
		(void)setenv("WATCHDOG_USEC", us, 1);
	if (pid)
		(void)setenv("WATCHDOG_PID", pid, 1);
	return wh_notify_watchdog_us();
}

WHERRY_TEST(the_watchdog_waits_for_the_process_that_it_names)
{
	char own[24], other[24];

	(void)snprintf(own, sizeof(own), "%ld", (long)getpid());
	(void)snprintf(other, sizeof(other), "%ld", (long)getppid());
	assert_int_equal(watchdog("60000000", NULL), 60000000);
	assert_int_equal(watchdog("60000000", own), 60000000);
	assert_int_equal(watchdog("60000000", other), 0);
	assert_int_equal(watchdog("60000000", "x"), 0);
	assert_int_equal(watchdog(NULL, own), 0);
	assert_int_equal(watchdog("0", NULL), 0);
	assert_int_equal(watchdog("soon", NULL), 0);
}

WHERRY_TEST_MAIN
