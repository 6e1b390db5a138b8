/*
 * Reading back which messages a destination holds, to compare them with those that it acknowledged.
 *
 * A destination that keeps what it has taken has a table of these functions.  They wait; a command calls them, and no
 * relay.  Bodies are not kept, and not read where the destination can leave them out.
 */
#ifndef WH_PUBLISH_READBACK_H
#define WH_PUBLISH_READBACK_H

#include "publish/driver.h"

/* A message that the destination holds.  Texts are valid during the visit. */
typedef struct wh_stored {
	wh_view id;    /* Message id; absent: it has none. */
	wh_view topic; /* The destination's name of its topic. */
	/* A compacted topic keeps the last message of each slot: a key, or a subject.  Absent: the message stays. */
	wh_view slot;
	int64_t at_us; /* When it was made, or stored if the destination says only that. */
} wh_stored;

typedef wherry_code (*wh_stored_fn)(void *ctx, const wh_stored *stored,
				    wherry_error *err);

typedef struct wh_readback_ask {
	char *const *topics; /* Topics of the messages that are looked for. */
	size_t n_topics;
	int64_t since_us; /* The oldest of them were made then, Unix time. */
	const wh_env *env;
} wh_readback_ask;

enum { WH_STORED_ID = 256, WH_STORED_TOPIC = 1024, WH_STORED_SLOT = 4096 };

/* Says which messages the destination itself may have removed of the place that a message goes to. */
typedef struct wh_edge {
	char topic[WH_STORED_TOPIC]; /* The destination's name of the topic. */
	bool removed;                /* Its oldest messages are gone. */
	bool empty;                  /* None is left. */
	/* The first that is left: its message id ("": it has none), and its time. */
	char first[WH_STORED_ID];
	int64_t first_us;
	bool compacts;             /* Only the last message of a slot is kept. */
	char slot[WH_STORED_SLOT]; /* Of this message; "": none. */
} wh_edge;

typedef struct wh_readback {
	const struct wh_readback_driver *driver;
	/* A message that was taken less than so long ago cannot be sent again, because the destination recognises its id. */
	int64_t recent_us;
	/* Of several messages with this time, wh_edge.first names any: the one that was made first is meant.  0: times tell nothing. */
	int64_t tied_us;
	bool compacts; /* Of some topic only the last message of a slot is kept. */
	wh_buf notes;  /* Lines for the operator, such as a topic that is missing. */
} wh_readback;

typedef struct wh_readback_driver {
	/* Connect, and note where the destination ends now. */
	wherry_code (*open)(const char *rest, const wherry_config *config,
			    const wh_readback_ask *ask, wh_readback **out,
			    wherry_error *err);

	/* Visit what it holds from about ask.since_us up to the end that open() noted. */
	wherry_code (*read)(wh_readback *back, wh_stored_fn visit, void *ctx,
			    wherry_error *err);

	/* After read(): what the destination may have removed where this message goes to. */
	void (*edge)(wh_readback *back, const wherry_message *message, wh_edge *out);

	void (*close)(wh_readback *back);
} wh_readback_driver;

/* kafka/, nats/, redis/ */
extern const wh_readback_driver wh_readback_kafka;
extern const wh_readback_driver wh_readback_nats, wh_readback_nats_tls;
extern const wh_readback_driver wh_readback_redis, wh_readback_rediss;
extern const wh_readback_driver wh_readback_redis_sentinel, wh_readback_rediss_sentinel;

/* UNSUPPORTED: the destination cannot be read back, and err says why. */
wherry_code wh_readback_can(const char *url, const wherry_config *config,
			    wherry_error *err);
wherry_code wh_readback_open(const char *url, const wherry_config *config,
			     const wh_readback_ask *ask, wh_readback **out,
			     wherry_error *err);
void wh_readback_close(wh_readback *back); /* back may be NULL. */

#endif
