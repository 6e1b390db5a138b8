/*
 * The verdict that follows from an answer, or from a missing answer.
 *
 *     2xx                          delivered
 *     429; 503 with Retry-After    throttled: all messages wait, no attempt is counted
 *     408, 425, 5xx                retry, not before Retry-After
 *     401, 403, 407                retry; the credentials may be wrong for all messages
 *     1xx, 3xx, 404, 405, 410      retry; the URL may be wrong for all messages
 *     other 4xx                    rejected; the receiver may reject all messages
 *     no answer                    unknown if a part of the request may have been sent;
 *                                  else the destination failed: it cannot be reached
 *
 * A status of 2xx or from 300 counts even if the rest of the answer never arrives.
 */
#include "publish/webhook/webhook.h"
#include "publish/certificate.h"

#include <stdio.h>
#include <string.h>

#include "base/url.h"
#include "publish/parts.h"

enum { TOO_LARGE = 413 };

static const int64_t pause_most_s = 3600, delay_most_s = 24 * 3600;

static void say_status(wh_webhook_verdict *v, const wh_webhook_answer *a)
{
	char status[32];

	(void)snprintf(status, sizeof(status), "HTTP %ld", a->status);
	if (a->status == TOO_LARGE)
		wh_put_answer(v->reason, sizeof(v->reason), status,
			      *a->text ? a->text : "the body is too large",
			      "raise the receiver's limit, " WH_OR_BODY_STORE);
	else if (*a->text)
		wh_put_answer(v->reason, sizeof(v->reason), status, a->text, NULL);
	else
		(void)snprintf(v->reason, sizeof(v->reason), "%s", status);
}

static int64_t wait_us(int64_t seconds, int64_t most_s)
{
	return (seconds < most_s ? seconds : most_s) * WH_SECOND;
}

/* Does the status concern the endpoint, not the message?  The credentials may be wrong,
 * or the receiver lacks the path, perhaps only until its new version runs. */
static bool is_endpoints(long status)
{
	return status == 401 || status == 403 || status == 404 || status == 405 ||
	       status == 407 || status == 410;
}

static void judge_status(wh_webhook_verdict *v, const wh_webhook_answer *a)
{
	bool waits = a->retry_after_s > 0;
	char elsewhere[512] = "";

	say_status(v, a);
	if (a->status == 429 || (a->status == 503 && waits)) {
		v->verdict = WHERRY_THROTTLED;
		v->retry_after_us = wait_us(a->retry_after_s, pause_most_s);
	} else if (a->status == 408 || a->status == 425 || a->status >= 500) {
		v->verdict = WHERRY_RETRY;
		v->retry_after_us = wait_us(a->retry_after_s, delay_most_s);
	} else if (is_endpoints(a->status)) {
		v->verdict = WHERRY_RETRY;
		v->denied = true;
	} else if (a->status < 400) {
		v->verdict = WHERRY_RETRY;
		v->denied = true;
		if (a->elsewhere) /* libcurl gives it the user and password of our URL. */
			wh_url_show(a->elsewhere, elsewhere, sizeof(elsewhere));
		(void)snprintf(
			v->reason, sizeof(v->reason),
			"HTTP %ld, and redirects are not followed: give the URL it "
			"points to%s%.110s (curl -i shows it)",
			a->status, *elsewhere ? ", on " : "", elsewhere);
	} else {
		v->verdict = WHERRY_REJECTED;
		v->denied = true;
	}
}

/* Is this a TLS alert?  With TLS 1.3 a server may refuse our certificate after we have
 * sent something. */
static bool is_alert(const char *error)
{
	return strstr(error, "SSL routines") && strstr(error, " alert ");
}

static wherry_code code_of(const wh_webhook_answer *a)
{
	/* clang-format off */
	switch ((int)a->result) { /* Only a few of the results. */
	/* clang-format on */
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CLIENTCERT:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_LOGIN_DENIED:
		return WHERRY_DENIED;
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL:
		return a->sent ? WHERRY_OK : WHERRY_INVALID;
	case CURLE_OUT_OF_MEMORY:
		return a->sent ? WHERRY_OK : WHERRY_NOMEM;
	default:
		if (is_alert(a->error))
			return WHERRY_DENIED;
		return a->sent ? WHERRY_OK : WHERRY_CLOSED;
	}
}

/* Report libcurl's error, and why a certificate is not accepted.  libcurl compares host names
 * itself, and leaves OpenSSL's number at 0 or 1 then. */
static void say_failure(wh_webhook_verdict *v, const wh_webhook_answer *a)
{
	const char *cause = NULL;

	if (a->result == CURLE_PEER_FAILED_VERIFICATION)
		cause = wh_certificate_cause(
			a->certificate > 1 ? a->certificate : wh_certificate_of_another,
			"its certificate is of an authority that is not known here: if "
			"it is your own, name it with webhook.ca_file");
	/* A receiver may answer before it has read the body, and end the stream.  libcurl 7.88
	 * then reports this error without the answer. */
	if (a->result == CURLE_HTTP2_STREAM)
		cause = "it may have been answered before its body was read; the next "
			"requests are sent over HTTP/1.1";
	wh_put_answer(v->reason, sizeof(v->reason), NULL,
		      *a->error ? a->error : curl_easy_strerror(a->result), cause);
}

wh_webhook_verdict wh_webhook_judge(const wh_webhook_answer *a)
{
	wh_webhook_verdict v = {.verdict = WHERRY_DELIVERED};

	if (a->status >= 200 && a->status < 300)
		return v;
	v.verdict = WHERRY_UNKNOWN;
	if (a->status >= 300 || (a->status && a->result == CURLE_OK)) {
		judge_status(&v, a);
		return v;
	}
	v.code = code_of(a);
	say_failure(&v, a);
	if (a->refused) {
		v.code = WHERRY_DENIED;
		(void)snprintf(v.reason, sizeof(v.reason),
			       "its address is private, which "
			       "webhook.private_addresses=refuse refuses");
	}
	return v;
}
