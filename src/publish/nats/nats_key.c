/*
 * NKeys: Ed25519 keys in base32.  A user's seed is "SU" and 56 further characters: two bytes
 * that name the kind, 32 of the key, and two of a checksum.  The public key is "U…".
 */
#include "publish/nats/nats.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum {
	SEED_TEXT = 58,
	SEED_BYTES = 36,   /* Two of the kind, the key, the checksum. */
	PUBLIC_BYTES = 35, /* One of the kind, the key, the checksum. */
	KEY_BYTES = 32,
	KIND_SEED = 18 << 3, /* "S" */
	KIND_USER = 20 << 3  /* "U" */
};

static const char base32[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

static bool decode(const char *text, size_t n, uint8_t *out)
{
	unsigned bits = 0, held = 0;

	for (size_t i = 0; i < n; i++) {
		const char *at = text[i] ? strchr(base32, text[i]) : NULL;

		if (!at)
			return false;
		bits = bits << 5 | (unsigned)(at - base32);
		held += 5;
		if (held >= 8) {
			held -= 8;
			*out++ = (uint8_t)(bits >> held);
			bits &= (1u << held) - 1;
		}
	}
	return true;
}

static void encode(const uint8_t *bytes, size_t n, char *out)
{
	unsigned bits = 0, held = 0;

	for (size_t i = 0; i < n; i++) {
		bits = bits << 8 | bytes[i];
		held += 8;
		while (held >= 5) {
			held -= 5;
			*out++ = base32[bits >> held & 31];
			bits &= (1u << held) - 1;
		}
	}
	if (held)
		*out++ = base32[bits << (5 - held) & 31];
	*out = 0;
}

/* CRC-16/XMODEM. */
static uint16_t checksum(const uint8_t *bytes, size_t n)
{
	unsigned crc = 0;

	for (size_t i = 0; i < n; i++) {
		crc ^= (unsigned)bytes[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
	}
	return (uint16_t)crc;
}

static bool public_of(const uint8_t seed[KEY_BYTES], uint8_t out[KEY_BYTES])
{
	size_t len = KEY_BYTES;
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, len);
	bool done = key && EVP_PKEY_get_raw_public_key(key, out, &len) == 1;

	EVP_PKEY_free(key);
	return done;
}

wherry_code wh_nats_public_key(const char *seed, char out[WH_NATS_KEY_LEN],
			       wherry_error *err)
{
	uint8_t bytes[SEED_BYTES + 1], made[PUBLIC_BYTES] = {KIND_USER};
	bool valid = strlen(seed) == SEED_TEXT && decode(seed, SEED_TEXT, bytes);
	uint16_t sum = 0;

	if (valid) {
		sum = checksum(bytes, SEED_BYTES - 2);
		valid = bytes[SEED_BYTES - 2] == (sum & 0xff) &&
			bytes[SEED_BYTES - 1] == sum >> 8 &&
			(bytes[0] & 0xf8) == KIND_SEED &&
			((bytes[0] & 7) << 5 | bytes[1] >> 3) == KIND_USER &&
			public_of(bytes + 2, made + 1);
	}
	explicit_bzero(bytes, sizeof(bytes));
	if (!valid)
		return wh_fail(
			err, WHERRY_INVALID,
			"it is not the seed of a user, which begins with SU and has %d "
			"characters",
			SEED_TEXT);
	sum = checksum(made, PUBLIC_BYTES - 2);
	made[PUBLIC_BYTES - 2] = (uint8_t)sum;
	made[PUBLIC_BYTES - 1] = (uint8_t)(sum >> 8);
	encode(made, PUBLIC_BYTES, out);
	return WHERRY_OK;
}

/* The first line behind the line "-----BEGIN name-----"; NULL: there is none, or no memory. */
static char *line_behind(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	if (!at)
		return NULL;
	at += strcspn(at, "\r\n");
	at += strspn(at, "\r\n");
	return strndup(at, strcspn(at, "\r\n"));
}

wherry_code wh_nats_credentials(const char *text, char **out_jwt, char **out_seed,
				wherry_error *err)
{
	char *jwt = line_behind(text, "BEGIN NATS USER JWT");
	char *seed = line_behind(text, "BEGIN USER NKEY SEED");
	char public[WH_NATS_KEY_LEN];
	wherry_code code = WHERRY_OK;

	if (!jwt || !seed)
		code = wh_fail(
			err, WHERRY_INVALID,
			"there is no BEGIN NATS USER JWT and BEGIN USER NKEY SEED in "
			"it: give the file that nsc made, as file:PATH");
	if (code == WHERRY_OK)
		code = wh_nats_public_key(seed, public, err);
	if (code == WHERRY_OK) {
		*out_jwt = jwt;
		*out_seed = seed;
		return WHERRY_OK;
	}
	free(jwt);
	if (seed)
		explicit_bzero(seed, strlen(seed));
	free(seed);
	return code;
}
