/*
 * https: and http: POST each message to a URL, over libcurl's multi interface.
 *
 *     webhook.c           opens and closes the publisher, and starts requests
 *     webhook_receive.c   answers of requests in flight, and their receipts
 *     webhook_settings.c  reads and checks the URL and the settings once
 *     webhook_request.c   makes the request of a message: URL, headers, body
 *     webhook_sign.c      signs requests (Standard Webhooks)
 *     webhook_answer.c    the verdict that follows from an answer, or from none
 *     webhook_guard.c     which addresses are private
 *     webhook_numbers.c   counters for metrics
 */
#ifndef WH_PUBLISH_WEBHOOK_H
#define WH_PUBLISH_WEBHOOK_H

#include <curl/curl.h>
#include <sys/socket.h>

#include "publish/driver.h"
#include "publish/webhook/webhook_sign.h"

/* ---- settings ---- */

typedef struct wh_webhook_settings {
	char *url;
	bool topical;      /* url contains {topic}. */
	bool secure;       /* The scheme is https. */
	bool http_1;       /* Do not speak HTTP/2. */
	wh_signer *signer; /* NULL: requests are not signed. */
	wh_buf headers;    /* Lines in every request, each ending in NUL. */
	int64_t limit_us, connect_us;
	long connections, streams;
	int64_t rate; /* Requests a second; 0: no limit. */
	bool refuse_private;
	char *ca_file, *cert, *key; /* NULL: not set. */
} wh_webhook_settings;

wherry_code wh_webhook_read(const char *scheme, const char *rest,
			    const wherry_config *config, wh_webhook_settings *out,
			    wherry_error *err);
void wh_webhook_forget(wh_webhook_settings *settings);

/* ---- requests ---- */

enum { WH_WEBHOOK_HEADERS_MAX = 256 * 1024 };

/* A request for libcurl; valid until the next wh_webhook_write(). */
typedef struct wh_webhook_request {
	wh_buf url;  /* Set only if it depends on the topic. */
	wh_buf text; /* Headers, each line ending in NUL. */
	struct curl_slist *list;
	size_t list_cap;
	const void *body; /* The message's; borrowed. */
	size_t body_len;
} wh_webhook_request;

#define WH_WEBHOOK_REQUEST_INIT                                                          \
	{                                                                                \
		WH_BUF_INIT(16384), WH_BUF_INIT(WH_WEBHOOK_HEADERS_MAX), NULL, 0, NULL,  \
			0                                                                \
	}

/* Write the request of a message.  INVALID and TOOBIG are the message's fault. */
wherry_code wh_webhook_write(wh_webhook_request *request,
			     const wh_webhook_settings *settings,
			     const wherry_message *msg, int64_t now_us,
			     wherry_error *err);
void wh_webhook_request_clear(wh_webhook_request *request);

/* ---- answers ---- */

typedef struct wh_webhook_answer {
	CURLcode result;
	long status;           /* 0: no answer. */
	long certificate;      /* OpenSSL's result for the receiver's certificate. */
	int64_t retry_after_s; /* 0: the answer does not say. */
	bool sent;             /* A part of the request may have been sent. */
	bool refused;          /* Not connected: the address is private. */
	const char *error;     /* libcurl's text; "": none. */
	const char *text;      /* Beginning of the body. */
	const char *elsewhere; /* Target of a redirect; NULL: none. */
} wh_webhook_answer;

typedef struct wh_webhook_verdict {
	wherry_code code; /* Not OK: the destination failed, not the message. */
	wherry_verdict verdict;
	bool denied; /* Every message may get the same answer. */
	int64_t retry_after_us;
	char reason[240];
} wh_webhook_verdict;

wh_webhook_verdict wh_webhook_judge(const wh_webhook_answer *answer);

/* ---- numbers ---- */

enum {
	WH_WEBHOOK_NONE, /* No answer. */
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

/* Count a request that has ended. */
void wh_webhook_count(wh_webhook_counts *counts, CURL *easy, CURLcode result);
size_t wh_webhook_numbers(const wh_webhook_counts *counts, wh_number *out);

/* ---- addresses ---- */

/* Is the address not public (loopback, link-local, private, reserved, multicast), or does
 * it lead to such an address?  Unknown families count as private. */
bool wh_address_private(const struct sockaddr *address);

#endif
