/*
 * AMQP 0-9-1, as RabbitMQ speaks it, by librabbitmq.
 *
 *     amqp.c             the driver's functions, which the relay calls
 *     amqp_client.c      the thread
 *     amqp_jobs.c        messages in flight, which relay and thread share
 *     amqp_connect.c     connects and logs in
 *     amqp_answer.c      frames from the broker: confirms, returns, errors
 *     amqp_message.c     exchange, routing key and properties of a message
 *     amqp_url.c         reads the URL
 */
#ifndef WH_PUBLISH_AMQP_AMQP_H
#define WH_PUBLISH_AMQP_AMQP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <amqp.h>
#include <amqp_framing.h>

#include "publish/driver.h"
#include "publish/flight.h"
#include "publish/parts.h"

/* ---- settings: amqp_url.c ---- */

enum { WH_AMQP_HOSTS = 16 };

typedef struct wh_amqp_host {
	char *name;
	int port;
} wh_amqp_host;

typedef struct wh_amqp_settings {
	bool secure;    /* amqps: */
	bool verify;    /* The broker's certificate. */
	bool external;  /* The certificate logs in, instead of user and password. */
	bool mandatory; /* The broker returns a message that no queue takes. */
	int heartbeat_s;
	int64_t limit_us; /* How long a delivery may take. */
	wh_amqp_host hosts[WH_AMQP_HOSTS];
	size_t n_hosts;
	char *user, *password, *vhost;
	char *exchange, *routing_key; /* Templates. */
	char *ca_file, *cert, *key;   /* PEM files; NULL: none. */
} wh_amqp_settings;

/* secure: the scheme is amqps. */
wherry_code wh_amqp_settings_read(bool secure, const char *rest,
				  const wherry_config *config, wh_amqp_settings *out,
				  wherry_error *err);
void wh_amqp_settings_clear(wh_amqp_settings *set);

/* ---- messages: amqp_message.c ---- */

enum {
	WH_AMQP_NAME_MAX = 255,  /* Bytes of an exchange's name and of a routing key. */
	WH_AMQP_HEADERS_MAX = 64 /* Headers of a message. */
};

typedef struct wh_amqp_route {
	char exchange[WH_AMQP_NAME_MAX + 1];
	char key[WH_AMQP_NAME_MAX + 1];
} wh_amqp_route;

/* INVALID: a name is too long. */
wherry_code wh_amqp_route_of(const wh_amqp_settings *set, const wherry_message *msg,
			     wh_amqp_route *out, wherry_error *err);

/* A message as AMQP has it.  Its texts are borrowed from the message and from this. */
typedef struct wh_amqp_record {
	amqp_basic_properties_t properties;
	amqp_table_entry_t headers[WH_AMQP_HEADERS_MAX];
	void *json; /* Of the headers; NULL: there are none. */
	char trace[WH_TRACEPARENT_LEN];
} wh_amqp_record;

/* INVALID, TOOBIG: the message can never be sent. */
wherry_code wh_amqp_record_fill(const wherry_message *msg, size_t frame_max,
				wh_amqp_record *out, wherry_error *err);
void wh_amqp_record_clear(wh_amqp_record *record);

/* ---- the client: amqp_client.c ---- */

typedef struct wh_amqp_job {
	wh_flight flight;
	int64_t since_us;  /* When it was taken. */
	uint64_t exchange; /* A hash of its exchange; set when it is sent. */
	bool alone;        /* Send it while no other is unanswered. */
	bool returned;     /* The broker has returned it, and will confirm it. */
} wh_amqp_job;

enum {
	WH_AMQP_RING = 4096,  /* A power of two: most messages between unanswered ones. */
	WH_AMQP_PROVEN = 256, /* Exchanges known to take messages. */
	WH_AMQP_PLACES = 16   /* Exchanges known to take none. */
};

/* An exchange that takes no messages. */
typedef struct wh_amqp_place {
	uint64_t exchange;
	int64_t until_us; /* Do not try it before. */
	int64_t rest_us;
	bool denied;
	char why[200];
} wh_amqp_place;

/* A message that comes back: a method, then a header, then its body. */
typedef struct wh_amqp_return {
	enum { WH_AMQP_NONE, WH_AMQP_METHOD, WH_AMQP_BODY } stage;
	uint64_t left; /* Bytes of the body that follow. */
	uint64_t size;
	wh_amqp_route route;
	char id[256];
	char text[100];
} wh_amqp_return;

typedef struct wh_amqp_client {
	wh_amqp_settings set;

	pthread_mutex_t lock;   /* Guards the members down to the next comment. */
	pthread_cond_t changed; /* touching has ended. */
	int wake_fd, done_fd;   /* The thread, and the relay, wait for these. */
	bool woken, reported;   /* They have been written to. */
	bool leaving;           /* The thread ends. */
	bool ended;             /* It has. */
	bool left;              /* Nobody waits for it, so it frees this. */
	bool reset;             /* The thread leaves the connection, and begins again. */
	bool touching;          /* The thread reads a message without the lock. */
	int fd;            /* A copy of the connection's socket; -1: there is none. */
	wh_flights queued; /* Taken, not yet sent. */
	wh_flights over;   /* With a verdict. */
	wh_amqp_job *ring[WH_AMQP_RING]; /* Sent; by tag.  NULL: answered, or given up. */
	uint64_t first, next; /* Tags: the first unanswered one, the next one. */
	size_t n_sent;        /* Jobs in the ring. */
	bool sent_alone;      /* Nothing is sent before the last one is answered. */
	wherry_error error;   /* The connection failed. */
	bool blocked;         /* The broker does not read. */
	int64_t blocked_us;   /* Since when. */
	char why_blocked[120];
	int64_t answered_us; /* When the last message was confirmed; 0: never. */
	int64_t counts[4];   /* Confirmed, refused, returned, connections. */

	pthread_t thread;

	/* The thread's own. */
	amqp_connection_state_t conn; /* NULL: there is none. */
	size_t host;                  /* The next one to try. */
	wh_amqp_return back;
	uint64_t proven[WH_AMQP_PROVEN];
	wh_amqp_place places[WH_AMQP_PLACES];
} wh_amqp_client;

enum { WH_AMQP_CONFIRMED, WH_AMQP_REFUSED, WH_AMQP_RETURNED, WH_AMQP_CONNECTED };

/* Takes the settings. */
wherry_code wh_amqp_client_new(wh_amqp_settings *set, wh_amqp_client **out,
			       wherry_error *err);
/* Forget all messages; the thread begins again. */
void wh_amqp_client_reset(wh_amqp_client *c);
/* Forget all messages, and free the client.  It waits for some seconds if the thread is
 * connecting; then the thread frees it. */
void wh_amqp_client_leave(wh_amqp_client *c);

/* ---- messages in flight: amqp_jobs.c.  Call these with the lock. ---- */

void wh_amqp_client_wake(wh_amqp_client *c);
/* End the calls of the thread that wait for the broker. */
void wh_amqp_client_interrupt(wh_amqp_client *c);
/* The relay should look for receipts, or for an error. */
void wh_amqp_report(wh_amqp_client *c);
/* Give a job its verdict, and report it.  The job is on no list. */
void wh_amqp_answer(wh_amqp_client *c, wh_amqp_job *job, wherry_verdict verdict,
		    const char *reason);
/* The unanswered job with this tag, taken out; NULL: there is none. */
wh_amqp_job *wh_amqp_take(wh_amqp_client *c, uint64_t tag);
void wh_amqp_jobs_clear(wh_amqp_client *c);
void wh_amqp_job_free(wh_amqp_job *job);

/* ---- for the thread ---- */

enum { WH_AMQP_CHANNEL = 1, WH_AMQP_FRAME_MAX = 131072, WH_AMQP_CONNECT_S = 5 };

wherry_code wh_amqp_connect(wh_amqp_client *c, wherry_error *err); /* amqp_connect.c */
void wh_amqp_disconnect(wh_amqp_client *c);
wherry_code wh_amqp_open_channel(wh_amqp_client *c, wherry_error *err);
/* An error that the broker closed the connection with. */
wherry_code wh_amqp_closed(int code, amqp_bytes_t text, wherry_error *err);

/* Read the frames that are there: amqp_answer.c. */
wherry_code wh_amqp_read(wh_amqp_client *c, wherry_error *err);
bool wh_amqp_is_proven(const wh_amqp_client *c, uint64_t exchange);
/* The exchange takes no messages now; NULL: it may. */
const wh_amqp_place *wh_amqp_place_of(const wh_amqp_client *c, uint64_t exchange);

#endif
