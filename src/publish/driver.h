/*
 * A destination behind a table of functions: one file, one exported symbol each.
 *
 * The relay calls these from one thread.  No call waits: what cannot be done now is
 * reported by fd() and deadline().  Drivers trust their input.
 */
#ifndef WH_PUBLISH_DRIVER_H
#define WH_PUBLISH_DRIVER_H

#include <stdbool.h>

#include <wherry/publisher.h>

#include "base/buf.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

/* Capabilities of a destination. */
enum {
	WH_PUB_ORDERED = 1, /* once a message fails, none of its key already taken is
			       delivered; so several of one key may be in flight */
	WH_PUB_ACKS = 2     /* acknowledges in the outbox itself, under its grant */
};

typedef struct wh_receipt {
	const wherry_message *message; /* the very pointer that was submitted */
	wherry_verdict verdict;
	bool written; /* delivered, and its row says so already: see wh_grant */
	bool own;     /* RETRY because of this message alone; the destination is up */
	bool denied; /* RETRY or REJECTED, and perhaps for every message: credentials, a path */
	int64_t retry_after_us; /* the destination's wish, 0 if none */
	char reason[200];       /* one line; "" when delivered */
} wh_receipt;

enum { WH_BOX_NAME = 800 }; /* "SCHEMA"."TABLE", or "QUEUE|TYPE|TABLE", with a NUL */

/* Under which lease messages are relayed, for a destination that acknowledges them itself,
 * together with what it writes to the same database.  Plain data: this layer knows no
 * outbox. */
typedef struct wh_grant {
	char outbox[WH_BOX_NAME]; /* its name; "": none was granted */
	char model[16];           /* what it is: "outbox", "queue", "delayed queue" */
	char owner[96];
	char token[40]; /* of competing relays, else "" */
	int64_t epoch;
	int32_t number;
	int on_done;      /* a wherry_on_done */
	int32_t attempts; /* until a message is dead */
	bool ordered;
} wh_grant;

/* Messages in flight from which on a driver's ack_delay_us counts: what waits to be acknowledged
 * fills no more of a smaller window. */
enum { WH_LARGE_WINDOW = 500 };

/* How long a message is tried where the settings retry.* leave it open. */
typedef struct wh_persistence {
	int32_t attempts;
	int64_t base_us, cap_us;
} wh_persistence;

/* One of a destination's own numbers, for those who watch.  Of a name that has labels,
 * "webhook_answers_total{class=\"2xx\"}", the same help stands with all of them, one behind
 * the other. */
typedef struct wh_number {
	const char
		*name; /* "kafka_bytes_total"; what only grows ends in _total; static */
	const char *help; /* static */
	int64_t value;
} wh_number;

enum { WH_NUMBERS_MOST = 16 };

typedef struct wh_publisher_driver {
	const char *scheme; /* selects it in a URL: "stdout" */
	unsigned caps;
	const wh_persistence *persistence; /* NULL: the defaults of the settings */
	int64_t ack_delay_us; /* where relay.ack_delay is not set; 0: its default */

	/* Refuse what open() would, without going there.  NULL: nothing is known before. */
	wherry_code (*check)(const char *rest, const wherry_config *config,
			     wherry_error *err);

	/* Append a line for each protection that the URL or the settings give up, such as a
	 * password that is sent unencrypted.  NULL: there is none to give up. */
	void (*warn)(const char *rest, const wherry_config *config, wh_buf *out);

	/*
	 * Open what rest (the URL behind the colon) names and set *out to a struct whose
	 * first member is a wherry_publisher.  On failure leave *out alone and nothing
	 * behind.
	 */
	wherry_code (*open)(const char *rest, const wherry_config *config,
			    const wh_env *env, wherry_publisher **out, wherry_error *err);
	void (*close)(wherry_publisher *pub);

	/*
	 * Hand over up to n messages without waiting; *out_taken (always set) says how
	 * many, from the first on.  Taken messages are borrowed until their receipt is
	 * collected, the others are not touched.  An error is the destination's, not a
	 * message's: CLOSED and the like (what is in flight will not get receipts: the
	 * caller closes and opens it again), DENIED or INVALID (credentials, configuration),
	 * STALE (another relay took over: is the lease still ours?).
	 */
	wherry_code (*submit)(wherry_publisher *pub, const wherry_message *const *msgs,
			      size_t n, size_t *out_taken, wherry_error *err);

	/*
	 * Fetch up to cap receipts without waiting.  Each taken message yields exactly one.
	 * Errors as in submit.
	 */
	wherry_code (*collect)(wherry_publisher *pub, wh_receipt *out, size_t cap,
			       size_t *out_n, wherry_error *err);

	/*
	 * Forget what is in flight, as a close and an open would: its messages are not
	 * touched again, and submit works again.  After an error, if the caller has
	 * borrowed the publisher.  May be NULL: then nothing is kept after an error.
	 */
	void (*drop)(wherry_publisher *pub);

	/* End messages in flight soon: the relay stops, or has lost its lease.  Their receipts
	 * are collected as usual.  May be NULL. */
	void (*cancel)(wherry_publisher *pub);

	/* Messages submitted from now on are relayed under this lease.  Called again after the
	 * publisher was opened again.  May be NULL. */
	void (*grant)(wherry_publisher *pub, const wh_grant *grant);

	/* A descriptor to poll with *out_events while something is in flight; -1: none.
	 * May be NULL: then there is never one. */
	int (*fd)(wherry_publisher *pub, short *out_events);

	/* When to call collect again at the latest, on env's monotonic clock; WH_NEVER.
	 * May be NULL: then never. */
	int64_t (*deadline)(wherry_publisher *pub);

	/* Somebody watches, and asks for numbers next; also while nothing is in flight, and
	 * often.  May be NULL. */
	void (*watch)(wherry_publisher *pub);

	/* Up to WH_NUMBERS_MOST numbers, since it was opened.  May be NULL: there are none. */
	size_t (*numbers)(const wherry_publisher *pub, wh_number *out);
} wh_publisher_driver;

struct wherry_publisher {
	const wh_publisher_driver *driver;
};

extern const wh_publisher_driver wh_publisher_stdout; /* file/file.c, as the next */
extern const wh_publisher_driver wh_publisher_file;
extern const wh_publisher_driver wh_publisher_exec;
extern const wh_publisher_driver wh_publisher_memory;
extern const wh_publisher_driver wh_publisher_null;
extern const wh_publisher_driver
	wh_publisher_handlers; /* of functions: no URL names it */

/* Of src/transfer/, which is above this folder. */
extern const wh_publisher_driver wh_publisher_queue_sqlite, wh_publisher_queue_postgres,
	wh_publisher_queue_postgresql;

extern const wh_publisher_driver wh_publisher_kafka; /* linked into the program */
extern const wh_publisher_driver wh_publisher_https; /* webhook.c */
extern const wh_publisher_driver wh_publisher_http;

/* The publishers that are linked into the program only; NULL at the end. */
extern const wh_publisher_driver *const wh_publishers_linked[];

/* ---- what the relay calls: publish.c checks and dispatches ---- */

/* Is a function missing that a driver must have, or one that others of it need?  INVALID
 * names it. */
wherry_code wh_publisher_driver_check(const wh_publisher_driver *driver,
				      wherry_error *err);

/* Is a destination with this scheme built in? */
bool wh_publisher_has(wh_view scheme);

/* Is there a destination with the scheme of this URL? */
wherry_code wh_publisher_known(const char *url, wherry_error *err);
/*
 * The destination's default of a setting, instead of the general one.
 *
 * @param which   A wh_setting.
 * @param window  Messages in flight, at most.
 * @param out     Receives microseconds, or a number.
 * @return false: the setting's default.
 */
bool wh_publisher_prefers(const wh_publisher_driver *driver, int which, int64_t window,
			  int64_t *out);

/*
 * The value, as text, of a setting that is not set for this destination.
 *
 * @param config  NULL: with the defaults.
 * @param which   A wh_setting.
 * @return false: its default.
 */
enum { WH_STANDARD_LEN = 32 };
bool wh_publisher_standard(const char *url, const wherry_config *config, int which,
			   char out[WH_STANDARD_LEN]);

/* And can it be opened with these settings, as far as one can say without going there? */
wherry_code wh_publisher_check(const char *url, const wherry_config *config,
			       wherry_error *err);

void wh_publisher_warn(const char *url, const wherry_config *config, wh_buf *out);

wherry_code wh_publisher_open(const char *url, const wherry_config *config,
			      const wh_env *env, wherry_publisher **out,
			      wherry_error *err);
wherry_code wh_publisher_submit(wherry_publisher *pub, const wherry_message *const *msgs,
				size_t n, size_t *out_taken, wherry_error *err);
wherry_code wh_publisher_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				 size_t *out_n, wherry_error *err);
void wh_publisher_drop(wherry_publisher *pub);
void wh_publisher_cancel(wherry_publisher *pub);
void wh_publisher_grant(wherry_publisher *pub, const wh_grant *grant);
int wh_publisher_fd(wherry_publisher *pub, short *out_events);
int64_t wh_publisher_deadline(wherry_publisher *pub);
void wh_publisher_watch(wherry_publisher *pub);
size_t wh_publisher_numbers(const wherry_publisher *pub, wh_number *out);

/* ---- destinations of the application: custom.c ---- */

/* The one with this scheme among those of a set of settings; NULL: there is none. */
const wherry_publisher_driver *wh_custom_find(const wherry_config *config,
					      wh_view scheme);
wherry_code wh_custom_check(const wherry_publisher_driver *driver, const char *rest,
			    const wherry_config *config, wherry_error *err);
wherry_code wh_custom_open(const wherry_publisher_driver *driver, const char *rest,
			   const wherry_config *config, wherry_publisher **out,
			   wherry_error *err);

/* ---- shared by the drivers ---- */

/* Append a message as one line of JSON, newline included (see wherry(1), FORMAT). */
wherry_code wh_message_line(wh_buf *buf, const wherry_message *msg, wherry_error *err);

#endif
