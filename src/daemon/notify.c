#include "daemon/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

void wh_notify(const char *lines)
{
	const char *path = secure_getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (len < 2 || len >= sizeof(address.sun_path) || (*path != '/' && *path != '@'))
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	memcpy(address.sun_path, path, len);
	if (*path == '@')
		*address.sun_path = 0; /* The name is not one of a file. */
	(void)sendto(fd, lines, strlen(lines), MSG_NOSIGNAL,
		     (const struct sockaddr *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	(void)close(fd);
}

int64_t wh_notify_watchdog_us(void)
{
	const char *us = secure_getenv("WATCHDOG_USEC"),
		   *pid = secure_getenv("WATCHDOG_PID");
	int64_t number, of;

	if (!us || !wh_parse_int(us, &number) || number <= 0)
		return 0;
	/* The variables may have come from a parent that is watched itself. */
	if (pid && (!wh_parse_int(pid, &of) || of != getpid()))
		return 0;
	return number;
}
