/*
 * The address that HTTP listens at, and the names in Host.
 */
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "daemon/plan.h"

wherry_code wh_listen_parse(const char *text, char address[64], uint16_t *out_port,
			    wherry_error *err)
{
	const char *colon = strrchr(text, ':');
	const char *begin = text, *end = colon;
	unsigned char bytes[sizeof(struct in6_addr)];
	char copy[64];
	int64_t port;

	if (!colon || !wh_parse_int(colon + 1, &port) || port < 0 || port > 65535)
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.80s' is not an address and port: write 127.0.0.1:9464 or "
			"[::1]:9464",
			text);
	if (*begin == '[' && end > begin && end[-1] == ']') {
		begin++;
		end--;
	}
	if ((size_t)(end - begin) >= sizeof(copy))
		return wh_fail(err, WHERRY_INVALID, "'%.80s' is not an address", text);
	memcpy(copy, begin, (size_t)(end - begin));
	copy[end - begin] = 0;
	if (inet_pton(AF_INET, copy, bytes) != 1 && inet_pton(AF_INET6, copy, bytes) != 1)
		return wh_fail(err, WHERRY_INVALID,
			       "'%s' is not an address; names are not looked up: write "
			       "127.0.0.1 or ::1 for this machine alone, 0.0.0.0 or :: "
			       "for all",
			       copy);
	memcpy(address, copy, sizeof(copy));
	*out_port = (uint16_t)port;
	return WHERRY_OK;
}

static bool same_name(const char *name, size_t len, const char *text, size_t n)
{
	return len == n && strncasecmp(name, text, n) == 0;
}

bool wh_listen_host_known(const char *host, const char *names)
{
	const char *name = *host == '[' ? host + 1 : host;
	size_t len = strcspn(name, *host == '[' ? "]" : ":");
	unsigned char bytes[sizeof(struct in6_addr)];
	char copy[64];

	if (len < sizeof(copy)) {
		memcpy(copy, name, len);
		copy[len] = 0;
		if (inet_pton(*host == '[' ? AF_INET6 : AF_INET, copy, bytes) == 1)
			return true;
	}
	len -= len && name[len - 1] == '.';
	if (same_name(name, len, "localhost", strlen("localhost")))
		return true;
	while (names && *names) {
		size_t n = strcspn(names, ", \t");

		if (n && same_name(name, len, names, n))
			return true;
		names += n;
		names += strspn(names, ", \t");
	}
	return false;
}

bool wh_listen_loopback(const char *listen)
{
	char address[64];
	uint16_t port;

	return wh_listen_parse(listen, address, &port, NULL) == WHERRY_OK &&
	       (strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0);
}
