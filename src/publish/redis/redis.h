/*
 * Redis Streams.  The parts, each of which calls only those below it:
 *
 *     redis.c            the driver's functions, which the relay calls
 *     redis_route.c      which server gets a message: one, the master of sentinels, or a cluster
 *     redis_back.c       reads streams back, for `wherry reconcile`
 *     redis_verdict.c    the meaning of the errors that a server answers
 *     redis_units.c      messages in flight, and the order of each key
 *     redis_node.c       a server: logs in, sends units, reads their answers
 *     redis_link.c       its connection: bytes in both directions, without waiting
 *     redis_tls.c, redis_lookup.c
 *     redis_command.c    a message as a command
 *     redis_settings.c   the URL and the settings redis.*
 */
#ifndef WH_PUBLISH_REDIS_H
#define WH_PUBLISH_REDIS_H

#include <stdbool.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "publish/flight.h"

/* ---- the URL and the settings: redis_settings.c ---- */

enum { WH_REDIS_HOSTS = 16, WH_REDIS_HOST_LEN = 256 };

typedef struct wh_redis_host {
	char name[WH_REDIS_HOST_LEN];
	int port;
} wh_redis_host;

typedef enum wh_redis_verify {
	WH_REDIS_VERIFY_HOST, /* The certificate and the host's name in it. */
	WH_REDIS_VERIFY_CA,   /* The certificate alone. */
	WH_REDIS_VERIFY_NONE
} wh_redis_verify;

typedef struct wh_redis_settings {
	bool secure; /* rediss: and rediss+sentinel: */
	wh_redis_host hosts[WH_REDIS_HOSTS];
	size_t n_hosts;
	char *master;   /* The name that sentinels have for it; NULL: no sentinels. */
	int64_t number; /* Of the database. */
	char *stream;   /* Template. */
	char *user, *password;                   /* NULL: none. */
	char *sentinel_user, *sentinel_password; /* NULL: none. */
	char *ca_file, *cert, *key;              /* Paths; NULL: none. */
	wh_redis_verify verify;
	int64_t max_length; /* Entries of a stream, about; 0: any number. */
	int64_t max_age_us; /* 0: any age. */
	int64_t replicas;   /* That must have a message; 0: none. */
	int64_t limit_us;   /* How long a delivery may take. */
} wh_redis_settings;

wherry_code wh_redis_settings_read(bool secure, bool sentinel, const char *rest,
				   const wherry_config *config, wh_redis_settings *out,
				   wherry_error *err);
void wh_redis_settings_clear(wh_redis_settings *set);

/* ---- commands: redis_command.c ---- */

enum {
	WH_REDIS_STREAM_LEN = 4096,
	WH_REDIS_VALUE_MOST = 512
			      << 20 /* Bytes; Redis's default of proto-max-bulk-len. */
};

/* Write the name of a message's stream.  INVALID: it has none. */
wherry_code wh_redis_stream(const char *template, const wherry_message *msg,
			    char out[WH_REDIS_STREAM_LEN], wherry_error *err);

/* INVALID, TOOBIG: this message can never be sent. */
wherry_code wh_redis_check(const wh_redis_settings *set, const wherry_message *msg,
			   wherry_error *err);

/* Append XADD.  The message was checked.  now_us: Unix time. */
void wh_redis_put_add(wh_buf *out, const wh_redis_settings *set,
		      const wherry_message *msg, int64_t now_us);

/* Append a command of these words; the list ends with NULL. */
void wh_redis_put_words(wh_buf *out, const char *const *words);

/* The slot of a cluster in which a stream is. */
enum { WH_REDIS_SLOTS = 16384 };
unsigned wh_redis_slot(const char *stream);

/* ---- looking up a host: redis_lookup.c ---- */

typedef struct wh_redis_lookup wh_redis_lookup;
struct addrinfo;

/* A thread looks it up.  NULL: out of memory or threads. */
wh_redis_lookup *wh_redis_lookup_new(const char *host, int port);
/* Readable when it has ended. */
int wh_redis_lookup_fd(const wh_redis_lookup *lookup);
/* True: it has ended.  *out receives the addresses, which the caller frees with freeaddrinfo(),
 * or NULL, and then *out_why says why. */
bool wh_redis_lookup_take(wh_redis_lookup *lookup, struct addrinfo **out,
			  const char **out_why);
void wh_redis_lookup_leave(wh_redis_lookup *lookup);

/* ---- TLS between buffers: redis_tls.c ---- */

typedef struct wh_redis_tls wh_redis_tls;

wherry_code wh_redis_tls_new(const wh_redis_settings *set, const char *host,
			     wh_redis_tls **out, wherry_error *err);
void wh_redis_tls_free(wh_redis_tls *tls);
/* Take bytes from the network. */
wherry_code wh_redis_tls_feed(wh_redis_tls *tls, const char *bytes, size_t n,
			      wherry_error *err);
/* Shake hands.  *out_done: it is done. */
wherry_code wh_redis_tls_shake(wh_redis_tls *tls, bool *out_done, wherry_error *err);
/* Encrypt n bytes. */
wherry_code wh_redis_tls_write(wh_redis_tls *tls, const char *bytes, size_t n,
			       wherry_error *err);
/* Decrypt up to cap bytes; *out_n: how many, 0: none now. */
wherry_code wh_redis_tls_read(wh_redis_tls *tls, char *bytes, size_t cap, size_t *out_n,
			      wherry_error *err);
/* Append the bytes for the network. */
void wh_redis_tls_drain(wh_redis_tls *tls, wh_buf *out);

/* ---- a connection: redis_link.c ---- */

typedef struct wh_redis_link wh_redis_link;

/* Start to connect.  epoll_fd watches it. */
wherry_code wh_redis_link_new(const wh_redis_settings *set, const wh_redis_host *host,
			      int epoll_fd, wh_redis_link **out, wherry_error *err);
void wh_redis_link_free(wh_redis_link *link);
bool wh_redis_link_is_open(const wh_redis_link *link);
/* The commands to send.  The next wh_redis_link_step() sends them. */
wh_buf *wh_redis_link_out(wh_redis_link *link);
/* Connect, write and read what is possible now. */
wherry_code wh_redis_link_step(wh_redis_link *link, wherry_error *err);
/* The next reply, which the caller frees with freeReplyObject(); NULL: none is there. */
wherry_code wh_redis_link_reply(wh_redis_link *link, redisReply **out, wherry_error *err);

/* ---- messages in flight: redis_units.c ---- */

typedef struct wh_redis_job wh_redis_job;

typedef enum wh_redis_kind {
	WH_REDIS_ADD,
	WH_REDIS_HELLO,
	WH_REDIS_SELECT,
	WH_REDIS_WAIT,
	WH_REDIS_ASK
} wh_redis_kind;

/* A unit is sent and answered as a whole: messages of one stream and key, which Redis takes
 * together or not at all; or a command of the node. */
typedef struct wh_redis_unit {
	struct wh_redis_unit *next;
	wh_redis_kind kind;
	wh_redis_job *first, *last; /* Of ADD. */
	unsigned n;                 /* Messages. */
	unsigned left;              /* Replies that are to come. */
	unsigned redirects;
	int slot;         /* -1: it was not computed. */
	bool asking;      /* Sent behind ASKING. */
	bool bare;        /* MULTI was refused, so each message was answered. */
	char *error;      /* The first error that was answered; NULL: none. */
	unsigned n_taken; /* With an error: so many were taken nevertheless. */
} wh_redis_unit;

typedef struct wh_redis_units {
	wh_redis_unit *head, *tail;
	size_t n;
} wh_redis_units;

void wh_redis_units_append(wh_redis_units *list, wh_redis_unit *unit);
wh_redis_unit *wh_redis_units_pop(wh_redis_units *list);
/* Move all of from behind those of to. */
void wh_redis_units_move(wh_redis_units *to, wh_redis_units *from);

typedef struct wh_redis_key wh_redis_key;

struct wh_redis_job {
	wh_flight flight; /* First member; owns its reason. */
	int64_t deadline_us;
	wh_redis_key *key;  /* NULL: it needs no order. */
	wh_redis_job *next; /* In its unit, or of those of its key that wait. */
	wh_redis_unit unit; /* Used if it is the first of its unit. */
	bool doomed;        /* It can never be sent; flight.reason says why. */
};

/* A key of which messages are in flight. */
struct wh_redis_key {
	wh_redis_key *next; /* In its bucket. */
	uint64_t hash;
	wh_redis_job *first, *last; /* They wait for the unit in flight. */
	bool in_flight;             /* One unit of it is. */
	bool alone;                 /* Its units have one message. */
	bool touched;               /* It is in wh_redis_keys.touched. */
	wh_redis_key *next_touched;
	size_t n_jobs;   /* Messages of it, also those whose receipts wait. */
	size_t n_failed; /* Receipts that were not collected yet of messages that failed. */
};

enum { WH_REDIS_BUCKETS = 4096 };

typedef struct wh_redis_keys {
	wh_redis_key *buckets[WH_REDIS_BUCKETS];
	wh_redis_key *touched; /* Keys from which units can be made. */
} wh_redis_keys;

typedef struct wh_redis_flights {
	wh_flights
		open; /* Messages without a verdict, in the order in which they were taken. */
	wh_flights done; /* With a verdict, for collect. */
	wh_redis_keys keys;
	wh_redis_units ready; /* To be sent. */
	bool alone;           /* Units have one message, since MULTI is forbidden. */
} wh_redis_flights;

/* Take a message.  OK: it is open, or its receipt waits because it, or one of its key, has
 * failed. */
wherry_code wh_redis_take(wh_redis_flights *f, const wh_redis_settings *set,
			  const wherry_message *msg, int64_t deadline_us,
			  wherry_error *err);
/* Make units of messages that waited. */
void wh_redis_gather(wh_redis_flights *f, const wh_redis_settings *set);
/* A unit was taken by the server. */
void wh_redis_delivered(wh_redis_flights *f, wh_redis_unit *unit);
typedef struct wh_redis_verdict {
	wherry_verdict verdict;
	bool held, own, denied;
	int64_t retry_after_us;
	char reason[200];
} wh_redis_verdict;

/* The first n_taken messages of a unit were taken.  The verdict is that on the next one.  The
 * others of its key come back. */
void wh_redis_failed(wh_redis_flights *f, wh_redis_unit *unit, unsigned n_taken,
		     const wh_redis_verdict *verdict);
/* None of a unit was taken.  Send its messages again, each by itself. */
void wh_redis_send_alone(wh_redis_flights *f, wh_redis_unit *unit);
/* The receipt of a message whose verdict is known.  False: there is none. */
bool wh_redis_next_receipt(wh_redis_flights *f, wh_receipt *out);
void wh_redis_flights_clear(wh_redis_flights *f);

/* ---- a server: redis_node.c ---- */

typedef struct wh_redis_node {
	wh_redis_host host;
	bool sentinel;       /* It is one, not a server of data. */
	wh_redis_link *link; /* NULL: not connected. */
	bool ready;          /* Logged in. */
	bool met,
		asked; /* For redis_route.c: it was looked at; it was asked for slots. */
	bool in_cluster, is_replica;
	int64_t began_us;
	int64_t not_before_us;   /* Do not connect again before. */
	wh_redis_units pending;  /* To be sent when it is ready. */
	wh_redis_units sent;     /* In the order of their answers. */
	wh_redis_units waiting;  /* Answered, and waiting for replicas. */
	wh_redis_units answered; /* For the caller. */
	redisReply *answer; /* That to wh_redis_node_ask(), for the caller; NULL: none. */
	int64_t wait_us;    /* Longest that one WAIT may take. */
	size_t waits;       /* That are not answered. */
	int64_t replicas;   /* How many had everything at the last WAIT. */
	bool refuses_bulk; /* It has ended the connection because of the size of a value: that
			    * of the last of answered, and the units of sent were not taken. */
} wh_redis_node;

wherry_code wh_redis_node_connect(wh_redis_node *node, const wh_redis_settings *set,
				  int epoll_fd, int64_t now, wherry_error *err);
void wh_redis_node_close(wh_redis_node *node);
/* Send a unit with the next step, or when the node is ready. */
void wh_redis_node_add(wh_redis_node *node, wh_redis_unit *unit);
/* Ask something. */
wherry_code wh_redis_node_ask(wh_redis_node *node, const char *const *words,
			      wherry_error *err);
/* Write and read what is possible now.  An error: the connection has failed. */
wherry_code wh_redis_node_step(wh_redis_node *node, const wh_redis_settings *set,
			       const wh_env *env, wherry_error *err);

/* ---- what a server answers: redis_verdict.c ---- */

typedef enum wh_redis_meaning {
	WH_REDIS_ANSWERED, /* The verdict is in *out. */
	WH_REDIS_MOVED,    /* Another node has the slot. */
	WH_REDIS_ASKED,    /* Another node has this stream already. */
	WH_REDIS_BUSY,     /* The server takes no message now, whatever it is. */
	WH_REDIS_LEAVE     /* It is not the master any more: find that. */
} wh_redis_meaning;

/* user: the one that sends; NULL: default.  in_cluster: other nodes may take other streams.  */
wh_redis_meaning wh_redis_judge(const char *error, const char *stream, const char *user,
				bool in_cluster, wh_redis_verdict *out);

/* ---- where messages go: redis_route.c ---- */

typedef struct wh_redis_stats {
	int64_t delivered, bytes, refused, redirected,
		connections; /* Since the opening. */
} wh_redis_stats;

typedef struct wh_redis_route {
	const wh_redis_settings *set;
	const wh_env *env;
	int epoll_fd;
	wh_redis_flights flights;
	wh_redis_node **nodes;
	size_t n_nodes;
	wh_redis_node *master;   /* Without a cluster; NULL: not known yet. */
	wh_redis_node *sentinel; /* Being asked; NULL: none. */
	size_t tried;            /* Hosts of the URL, of this search. */
	bool in_cluster;
	bool knows_slots, asks_slots;
	int64_t ask_again_us;           /* Not before. */
	uint16_t slots[WH_REDIS_SLOTS]; /* Index in nodes, and 1; 0: not known. */
	wherry_error error;             /* Of the destination. */
	int64_t busy_since_us;          /* 0: the server takes messages. */
	char busy[200];                 /* Why not. */
	int64_t delivered_us,
		waited_us; /* When the last one was, and how long it took. */
	wh_redis_stats stats;
} wh_redis_route;

/* Connect, send and receive what is possible now. */
void wh_redis_route_step(wh_redis_route *route);
/* A pause ends in which no step was made: connections that begin have their whole time from now on. */
void wh_redis_route_resume(wh_redis_route *route, int64_t now);
/* Close all connections.  The verdict on messages that were sent is UNKNOWN, on others
 * THROTTLED. */
void wh_redis_route_give_up(wh_redis_route *route, const char *why);
/* When to step it although nothing has arrived. */
int64_t wh_redis_route_deadline(const wh_redis_route *route);
/* Close all connections, and forget what is in flight. */
void wh_redis_route_clear(wh_redis_route *route);

#endif
