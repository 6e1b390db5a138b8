/*
 * How libnats connects, and what its errors mean.
 */
#include "publish/nats/nats.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "publish/parts.h"

enum { CONNECT_MS = 5000, PING_MS = 30000 };

/* The threads that libnats starts must not handle the signals of the application. */
wherry_code wh_nats_start(wherry_error *err)
{
	sigset_t all, before;
	natsStatus s;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	s = nats_Open(-1);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return s == NATS_OK
		       ? WHERRY_OK
		       : wh_fail(err, WHERRY_CLOSED, "nats: libnats does not start: %s",
				 natsStatus_GetText(s));
}

/* libnats frees what these functions return. */
static natsStatus give_jwt(char **out_jwt, char **out_error, void *closure)
{
	const wh_nats_settings *set = closure;

	(void)out_error;
	*out_jwt = strdup(set->jwt);
	return *out_jwt ? NATS_OK : NATS_NO_MEMORY;
}

static natsStatus sign(char **out_error, unsigned char **out, int *out_len,
		       const char *nonce, void *closure)
{
	const wh_nats_settings *set = closure;

	(void)out_error;
	return nats_Sign(set->seed, nonce, out, out_len);
}

static natsStatus set_credentials(natsOptions *options, wh_nats_settings *set)
{
	char public[WH_NATS_KEY_LEN];

	if (set->user)
		return natsOptions_SetUserInfo(options, set->user, set->password);
	if (set->token)
		return natsOptions_SetToken(options, set->token);
	if (set->jwt)
		return natsOptions_SetUserCredentialsCallbacks(options, give_jwt, set,
							       sign, set);
	if (!set->seed)
		return NATS_OK;
	if (wh_nats_public_key(set->seed, public, NULL) != WHERRY_OK)
		return NATS_INVALID_ARG;
	return natsOptions_SetNKey(options, public, sign, set);
}

static natsStatus set_tls(natsOptions *options, const wh_nats_settings *set)
{
	natsStatus s = natsOptions_SetSecure(options, set->secure);

	if (s == NATS_OK && set->ca)
		s = natsOptions_SetCATrustedCertificates(options, set->ca);
	if (s == NATS_OK && set->cert)
		s = natsOptions_SetCertificatesChain(options, set->cert, set->key);
	return s;
}

static natsStatus set_servers(natsOptions *options, const wh_nats_settings *set)
{
	const char *servers[64];
	size_t n = 0;

	for (; n < set->n_servers && n < sizeof(servers) / sizeof(*servers); n++)
		servers[n] = set->servers[n];
	return natsOptions_SetServers(options, servers, (int)n);
}

wherry_code wh_nats_options(wh_nats_settings *set, natsOptions **out, wherry_error *err)
{
	natsOptions *options = NULL;
	natsStatus s = natsOptions_Create(&options);

	if (s == NATS_OK)
		s = set_servers(options, set);
	if (s == NATS_OK)
		s = natsOptions_SetName(options, "wherry");
	/* A new link is made after a failure, when all that was in flight is known. */
	if (s == NATS_OK)
		s = natsOptions_SetAllowReconnect(options, false);
	if (s == NATS_OK)
		s = natsOptions_SetTimeout(options, CONNECT_MS);
	if (s == NATS_OK)
		s = natsOptions_SetPingInterval(options, PING_MS);
	if (s == NATS_OK) /* Without it a thread of libnats looks for what to write. */
		s = natsOptions_SetSendAsap(options, true);
	if (s == NATS_OK)
		s = set_credentials(options, set);
	if (s == NATS_OK && set->secure)
		s = set_tls(options, set);
	if (s == NATS_OK) {
		*out = options;
		return WHERRY_OK;
	}
	natsOptions_Destroy(options);
	return wh_nats_fail(set, s, err);
}

/* Without the place in the source of libnats, "(conn.c:2088): ". */
static const char *without_place(const char *text)
{
	const char *end = *text == '(' ? strstr(text, "): ") : NULL;

	return end ? end + 3 : text;
}

/* With TLS 1.3 the server judges the client's certificate when the handshake is over, and libnats
 * does not report the alert. */
static bool perhaps_certificate(const wh_nats_settings *set, const char *text)
{
	return set->secure && (strstr(text, "got ''") || strstr(text, "SSL_write error"));
}

wherry_code wh_nats_fail(const wh_nats_settings *set, natsStatus status,
			 wherry_error *err)
{
	natsStatus last = NATS_OK;
	const char *text = nats_GetLastError(&last);
	char before[140];
	int native = (int)status;

	if (!text || !*text || last != status)
		text = natsStatus_GetText(status);
	text = without_place(text);
	switch ((int)status) {
	case NATS_NO_MEMORY:
		return wh_oom(err);
	case NATS_CONNECTION_AUTH_FAILED:
	case NATS_NOT_PERMITTED:
		(void)snprintf(before, sizeof(before),
			       "nats: %.60s refuses the credentials", set->hosts);
		return wh_fail_answer(err, WHERRY_DENIED, native, before, text,
				      "see nats.user, nats.token, nats.seed and "
				      "nats.credentials");
	case NATS_SECURE_CONNECTION_REQUIRED:
		return wh_fail_native(err, WHERRY_INVALID, native,
				      "nats: %.60s speaks TLS only: write nats+tls://",
				      set->hosts);
	case NATS_SECURE_CONNECTION_WANTED:
		return wh_fail_native(
			err, WHERRY_INVALID, native,
			"nats: %.60s does not speak TLS: configure it there, or "
			"write nats://",
			set->hosts);
	case NATS_SSL_ERROR:
		if (perhaps_certificate(set, text))
			break;
		(void)snprintf(before, sizeof(before), "nats: no TLS with %.60s",
			       set->hosts);
		return wh_fail_answer(err, WHERRY_CLOSED, native, before, text,
				      "nats.ca_file names the certificates to trust");
	case NATS_NO_SERVER:
	case NATS_TIMEOUT:
		(void)snprintf(before, sizeof(before), "nats: cannot connect to %.100s",
			       set->hosts);
		return wh_fail_answer(err, WHERRY_CLOSED, native, before, text, NULL);
	default:
		break;
	}
	(void)snprintf(before, sizeof(before), "nats: %.60s", set->hosts);
	return wh_fail_answer(
		err, WHERRY_CLOSED, native, before, text,
		!perhaps_certificate(set, text) ? NULL
		: set->cert ? "perhaps the server does not trust the certificate "
			      "of nats.client_cert"
			    : "perhaps the server asks for a certificate: name "
			      "one in nats.client_cert and nats.client_key");
}
