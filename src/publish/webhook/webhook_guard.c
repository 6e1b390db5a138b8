/*
 * Which addresses are private: a URL from outside must not make the relay call them.
 *
 * The checked address is the one that is connected to.  So a name that resolves to
 * another address the second time changes nothing.
 */
#include "publish/webhook/webhook.h"

#include <netinet/in.h>
#include <string.h>

typedef struct range {
	unsigned char bytes[16];
	int bits;
} range;

static const range private_4[] = {
	{{0}, 8},             /* this network */
	{{10}, 8},            /* private */
	{{100, 64}, 10},      /* behind a carrier's NAT */
	{{127}, 8},           /* loopback */
	{{169, 254}, 16},     /* link-local; clouds serve secrets there */
	{{172, 16}, 12},      /* private */
	{{192, 0, 0}, 24},    /* protocol assignments */
	{{192, 0, 2}, 24},    /* documentation */
	{{192, 168}, 16},     /* private */
	{{198, 18}, 15},      /* benchmarks */
	{{198, 51, 100}, 24}, /* documentation */
	{{203, 0, 113}, 24},  /* documentation */
	{{224}, 3},           /* multicast, reserved, broadcast */
};

/* The unicast addresses of the internet, and the ranges within them that are refused. */
static const range public_6[] = {
	{{0x20}, 3},
};
static const range private_6[] = {
	{{0x20, 0x01, 0x00}, 23},       /* protocol assignments, Teredo */
	{{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
	{{0x3f, 0xff}, 20},             /* documentation */
};

/* An IPv4 address follows these prefixes, and decides. */
static const range holds_4[] = {
	{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96}, /* mapped */
	{{0, 0x64, 0xff, 0x9b}, 96},                      /* NAT64 */
	{{0x20, 0x02}, 16},                               /* 6to4 */
};

static bool is_in(const unsigned char *address, const range *r)
{
	int whole = r->bits / 8, rest = r->bits % 8;

	if (memcmp(address, r->bytes, (size_t)whole) != 0)
		return false;
	return !rest ||
	       ((address[whole] ^ r->bytes[whole]) & (0xff00 >> rest) & 0xff) == 0;
}

static bool is_in_any(const unsigned char *address, const range *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_in(address, &list[i]))
			return true;
	return false;
}

#define IN(address, list) is_in_any(address, list, sizeof(list) / sizeof(*(list)))

static bool is_private_6(const unsigned char *address)
{
	for (size_t i = 0; i < sizeof(holds_4) / sizeof(*holds_4); i++)
		if (is_in(address, &holds_4[i]))
			return IN(address + holds_4[i].bits / 8, private_4);
	return !IN(address, public_6) || IN(address, private_6);
}

bool wh_address_private(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, address, sizeof(in));
		return IN((const unsigned char *)&in.sin_addr, private_4);
	}
	if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, address, sizeof(in6));
		return is_private_6(in6.sin6_addr.s6_addr);
	}
	return true;
}
