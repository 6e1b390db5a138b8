/*
 * The requests of a webhook publisher, and its answers.
 */
#ifndef WH_PUBLISH_WEBHOOK_SLOTS_H
#define WH_PUBLISH_WEBHOOK_SLOTS_H

#include "publish/flight.h"
#include "publish/webhook/webhook.h"
#include "publish/webhook/webhook_watch.h"

enum {
	WH_WEBHOOK_EXCERPT = 200, /* Bytes kept of an answer. */
	WH_WEBHOOK_WATCHED = 256  /* Sockets whose answers are remembered. */
};

typedef enum wh_slot_phase {
	WH_SLOT_FREE,
	WH_SLOT_IN_FLIGHT,
	WH_SLOT_OVER,
	WH_SLOT_BROKEN
} wh_slot_phase;

typedef struct wh_webhook_slot {
	wh_flight flight; /* First member. */
	struct wh_webhook *of;
	CURL *easy; /* NULL: not needed yet. */
	wh_slot_phase phase;
	wh_webhook_request request;
	bool refused;       /* Its address is private. */
	size_t read;        /* Bytes of the answer's body. */
	int64_t started_us; /* When the request began. */
	int64_t headers_us; /* When the headers of the answer were there; 0: not yet. */
	char excerpt[WH_WEBHOOK_EXCERPT + 1];
	char error[CURL_ERROR_SIZE];
	char reason[sizeof(((wh_receipt *)NULL)->reason)];
} wh_webhook_slot;

/* The version of HTTP, which decides how many requests may be in flight.  With https: it
 * is WH_SPEECH_UNKNOWN until the first answer. */
typedef enum wh_speech {
	WH_SPEECH_UNKNOWN,
	WH_SPEECH_HTTP_1,
	WH_SPEECH_HTTP_2
} wh_speech;

typedef struct wh_webhook {
	wherry_publisher base;
	const wh_env *env;
	wh_webhook_settings set;
	CURLM *multi;
	wh_watch watch;
	wh_speech speech;
	bool was_reset; /* The receiver reset a request of HTTP/2 without an answer. */
	wh_webhook_slot *slots;
	wh_flights free, over;
	size_t n_slots, n_in_flight, n_broken;
	wherry_error broken; /* Why no messages are taken. */
	int64_t next_us;     /* webhook.rate: when the next request may start. */
	int64_t held_us;     /* Submit stopped until then; WH_NEVER: it did not. */
	int64_t timer_us;    /* When libcurl's timer ends. */
	size_t n_in_body;    /* Requests of which the headers of the answer are there. */
	int64_t body_by_us;  /* When to end the first of them; WH_NEVER: none. */
	int64_t quiet_us; /* The last answer, or the first request after none were in flight. */
	char trouble[80];
	wh_webhook_counts counts;
	/* When a connection last answered, by its socket modulo the size. */
	int64_t answered_us[WH_WEBHOOK_WATCHED];
} wh_webhook;

/* ---- webhook_receive.c ---- */

/* Functions that libcurl calls with each part of an answer. */
size_t wh_webhook_take_header(char *data, size_t size, size_t n, void *ctx);
size_t wh_webhook_take_body(char *data, size_t size, size_t n, void *ctx);

/* The receipt is known: queue it for collect. */
void wh_webhook_finish(wh_webhook *p, wh_webhook_slot *s, wherry_verdict verdict,
		       const char *reason);

/* Process answers, and end late requests. */
void wh_webhook_go_on(wh_webhook *p);

/* Let libcurl read and write the sockets that are ready. */
void wh_webhook_drive(wh_webhook *p);

/* Requests are in flight, and the receiver has answered none for a while; else NULL. */
const char *wh_webhook_trouble(wherry_publisher *pub);
int64_t wh_webhook_trouble_at(const wh_webhook *p);

#endif
