/*
 * https: and http: POST each message to a URL, over libcurl's multi interface.
 *
 *     webhook.c           requests in flight, and their receipts
 *     webhook_settings.c  what was asked for, read and checked once
 *     webhook_request.c   a message as a request: URL, headers, body
 *     webhook_sign.c      Standard Webhooks
 *     webhook_answer.c    what an answer means, or that there was none
 *     webhook_guard.c     which addresses are private
 *     webhook_numbers.c   what is counted
 */
#ifndef WH_PUBLISH_WEBHOOK_H
#define WH_PUBLISH_WEBHOOK_H

#include <curl/curl.h>
#include <sys/socket.h>

#include "publish/driver.h"
#include "publish/webhook/webhook_sign.h"

/* ---- settings ---- */

typedef enum wh_webhook_format {
	WH_WEBHOOK_PLAIN,
	WH_WEBHOOK_BINARY, /* CloudEvents, in headers */
	WH_WEBHOOK_STRUCTURED
} wh_webhook_format;

typedef struct wh_webhook_settings {
	char *url;
	bool topical; /* {topic} is in it */
	bool secure;  /* https: */
	wh_webhook_format format;
	char *source;
	wh_signer *signer; /* NULL: requests are not signed */
	wh_buf headers;    /* of every request, each line ending in NUL */
	int64_t limit_us, connect_us;
	long connections, streams;
	int64_t rate; /* requests a second; 0: any number */
	bool refuse_private;
	char *ca_file, *cert, *key; /* NULL: none */
} wh_webhook_settings;

wherry_code wh_webhook_read(const char *scheme, const char *rest,
			    const wherry_config *config, wh_webhook_settings *out,
			    wherry_error *err);
void wh_webhook_forget(wh_webhook_settings *settings);

/* ---- requests ---- */

enum { WH_WEBHOOK_HEADERS_MAX = 256 * 1024 };

/* The request for libcurl; valid until the next wh_webhook_write(). */
typedef struct wh_webhook_request {
	wh_buf url;  /* where it depends on the topic */
	wh_buf text; /* headers, each line ending in NUL */
	struct curl_slist *list;
	size_t list_cap;
	wh_buf made;      /* a body made of the message */
	const void *body; /* that, or the message's own, borrowed */
	size_t body_len;
} wh_webhook_request;

#define WH_WEBHOOK_REQUEST_INIT                                                          \
	{                                                                                \
		WH_BUF_INIT(16384), WH_BUF_INIT(WH_WEBHOOK_HEADERS_MAX), NULL, 0,        \
			WH_BUF_INIT(SIZE_MAX / 2), NULL, 0                               \
	}

/* INVALID and TOOBIG are the message's fault. */
wherry_code wh_webhook_write(wh_webhook_request *request,
			     const wh_webhook_settings *settings,
			     const wherry_message *msg, int64_t now_us,
			     wherry_error *err);
void wh_webhook_request_clear(wh_webhook_request *request);

/* ---- answers ---- */

typedef struct wh_webhook_answer {
	CURLcode result;
	long status;           /* 0: there was none */
	int64_t retry_after_s; /* 0: none */
	bool sent;             /* some of the request may have left */
	bool refused;          /* the address was private */
	const char *error;     /* libcurl's text */
	const char *text;      /* the beginning of the body */
	const char *elsewhere; /* where a redirect points, or NULL */
} wh_webhook_answer;

typedef struct wh_webhook_verdict {
	wherry_code code; /* not OK: it is the destination's fault, no message's */
	wherry_verdict verdict;
	bool denied; /* every message may get the same answer */
	int64_t retry_after_us;
	char reason[240];
} wh_webhook_verdict;

wh_webhook_verdict wh_webhook_judge(const wh_webhook_answer *answer);

/* ---- numbers ---- */

enum {
	WH_WEBHOOK_NONE, /* there was no answer */
	WH_WEBHOOK_429,
	WH_WEBHOOK_2XX,
	WH_WEBHOOK_3XX,
	WH_WEBHOOK_4XX,
	WH_WEBHOOK_5XX,
	WH_WEBHOOK_CLASSES
};

typedef struct wh_webhook_counts {
	int64_t answers[WH_WEBHOOK_CLASSES];
	int64_t timeouts, connections, reused, bytes;
} wh_webhook_counts;

/* A request is over. */
void wh_webhook_count(wh_webhook_counts *counts, CURL *easy, CURLcode result);
size_t wh_webhook_numbers(const wh_webhook_counts *counts, wh_number *out);

/* ---- addresses ---- */

/* Loopback, link-local, private, reserved, multicast, or one that leads to such. */
bool wh_address_private(const struct sockaddr *address);

#endif
