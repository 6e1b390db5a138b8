/*
 * A destination is a table of functions.  Each driver exports one symbol.
 *
 * The relay calls these functions from one thread.  submit and collect never wait: fd()
 * and deadline() say when to call collect again.  Drivers do not check their arguments.
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
	/* Once a message fails, the driver delivers none of the messages of its key that
	 * it has already taken.  So several messages of one key may be in flight. */
	WH_PUB_ORDERED = 1,
	/* The destination acknowledges messages in the outbox itself; see wh_grant. */
	WH_PUB_ACKS = 2
};

typedef struct wh_receipt {
	const wherry_message *message; /* The pointer that was submitted. */
	wherry_verdict verdict;
	bool written; /* Delivered and already acknowledged; see wh_grant. */
	/* RETRY because of this message alone: the destination is up. */
	bool own;
	/* RETRY or REJECTED, and every message may get the same answer: the credentials
	 * or the path may be wrong. */
	bool denied;
	/* RETRY or UNKNOWN because of a condition of the place that the message goes to,
	 * such as a topic that is missing.  It waits, and no attempt is counted. */
	bool held;
	int64_t retry_after_us; /* Wait that the destination asked for; 0: none. */
	char reason[200];       /* One line; "" if delivered. */
} wh_receipt;

enum { WH_OUTBOX_NAME = 800 }; /* "SCHEMA"."TABLE", or "QUEUE|TYPE|TABLE", with a NUL */

/* The lease under which the relay delivers.  A destination that acknowledges messages
 * itself needs it: it writes to the same database in the same transaction.  These are
 * plain data, since this layer does not know the outbox. */
typedef struct wh_grant {
	char outbox[WH_OUTBOX_NAME]; /* Name of the table; "": no lease was granted. */
	char model[16];              /* "outbox", "queue" or "delayed queue". */
	char owner[96];
	char token[40];  /* Token of the claims of competing relays; else "". */
	char holder[40]; /* Of a relay that works alone: see wherry_lease. */
	int64_t epoch;
	int32_t number;
	int32_t attempts; /* Attempts until a message is dead. */
	bool ordered;
} wh_grant;

/* The smallest relay.window for which a driver's ack_delay_us applies.  In a smaller
 * window, messages that wait for their acknowledgement would take the room of others. */
enum { WH_LARGE_WINDOW = 500 };

/* A destination's defaults for the settings retry.*. */
typedef struct wh_persistence {
	int32_t attempts;
	int64_t base_us, cap_us;
} wh_persistence;

/* A number that a destination measures, for metrics.  A name may have labels:
 * "webhook_answers_total{class=\"2xx\"}".  Numbers that differ only in their labels have
 * the same help and follow each other. */
typedef struct wh_number {
	/* "kafka_bytes_total".  The name of a counter ends in _total.  Static. */
	const char *name;
	const char *help; /* Static. */
	int64_t value;
} wh_number;

enum { WH_NUMBERS_MOST = 16 };

/* How a destination writes CloudEvents (src/publish/format). */
typedef struct wh_binding {
	const char *prefix; /* Of the attributes' headers: "ce_". */
	bool percent;       /* Their values are percent-encoded. */
	bool type_too;      /* The attribute datacontenttype is a header too. */
	const char
		*structured; /* The content-type of an event that is one JSON object. */
} wh_binding;

/* The binding of a destination that CloudEvents does not know. */
#define WH_BINDING_ANY                                                                   \
	{                                                                                \
		"ce-", false, false, "application/cloudevents+json"                      \
	}

typedef struct wh_publisher_driver {
	const char *scheme; /* Scheme of its URLs: "stdout". */
	unsigned caps;
	const wh_persistence *persistence; /* NULL: the settings' defaults. */
	/* Default of relay.ack_delay for this destination; 0: the setting's default. */
	int64_t ack_delay_us;
	/* Defaults of relay.window and relay.window_bytes for this destination; 0: the
	 * settings' defaults. */
	int64_t window, window_bytes;
	/* Longest pause between two probes while the destination is down, unless retry.cap
	 * is set: of one whose probe costs little.  0: retry.cap. */
	int64_t probe_cap_us;

	/* Refuse a URL or settings that open() would refuse, without connecting.  NULL:
	 * there is nothing to check. */
	wherry_code (*check)(const char *rest, const wherry_config *config,
			     wherry_error *err);

	/* Append a line for each protection that the URL or the settings give up, such as
	 * a password that is sent unencrypted.  NULL: there is none. */
	void (*warn)(const char *rest, const wherry_config *config, wh_buf *out);

	/*
	 * Open the destination that rest (the URL after the colon) names.  Set *out to a
	 * struct whose first member is a wherry_publisher.  On failure leave *out
	 * unchanged and free everything.
	 */
	wherry_code (*open)(const char *rest, const wherry_config *config,
			    const wh_env *env, wherry_publisher **out, wherry_error *err);
	void (*close)(wherry_publisher *pub);

	/*
	 * Take up to n messages without waiting.  *out_taken, which is always set, is how
	 * many were taken, counted from the first.  Taken messages are borrowed until
	 * their receipt is collected.  An error concerns the destination, not a message:
	 *   CLOSED and the like: messages in flight get no receipts.  The caller closes
	 *     the destination and opens it again.
	 *   DENIED, INVALID: the credentials or the configuration are wrong.
	 */
	wherry_code (*submit)(wherry_publisher *pub, const wherry_message *const *msgs,
			      size_t n, size_t *out_taken, wherry_error *err);

	/*
	 * Fetch up to cap receipts without waiting.  Each taken message gets exactly one
	 * receipt.  Errors are those of submit.
	 */
	wherry_code (*collect)(wherry_publisher *pub, wh_receipt *out, size_t cap,
			       size_t *out_n, wherry_error *err);

	/*
	 * Forget the messages in flight, as if the destination were closed and opened.
	 * They are not touched again, and submit works again.  The relay calls it instead
	 * of closing a publisher that belongs to the application.  May be NULL: then the
	 * driver keeps nothing after an error.
	 */
	void (*drop)(wherry_publisher *pub);

	/* End the messages in flight soon: the relay stops, or has lost its lease.  Their
	 * receipts are collected as usual.  May be NULL. */
	void (*cancel)(wherry_publisher *pub);

	/* The most bytes of one message, with its key and headers, that the destination
	 * takes, as far as that is known; 0: it is not.  Larger bodies go to
	 * relay.body_store.  May be NULL: never known. */
	size_t (*body_most)(wherry_publisher *pub);

	/* Messages submitted from now on are delivered under this lease.  Called again
	 * after the publisher was opened again.  May be NULL. */
	void (*grant)(wherry_publisher *pub, const wh_grant *grant);

	/* A descriptor to poll for *out_events while messages are in flight; -1: none.
	 * May be NULL: there is never one. */
	int (*fd)(wherry_publisher *pub, short *out_events);

	/* The latest time to call collect again, on env's monotonic clock; WH_NEVER:
	 * none.  May be NULL: always WH_NEVER. */
	int64_t (*deadline)(wherry_publisher *pub);

	/* Return why messages in flight have had no receipts for a while, such as brokers
	 * that cannot be reached; NULL: no known reason.  Valid until the next call.  May
	 * be NULL. */
	const char *(*trouble)(wherry_publisher *pub);

	/* Return because of which settings the destination may lose messages that it has
	 * taken ("NAME=VALUE of the topic NAME, and of 2 more"), again for each further topic;
	 * NULL: nothing new.
	 * Valid until the next call.  May be NULL. */
	const char *(*notice)(wherry_publisher *pub);

	/* Called before numbers(), often, and also while nothing is in flight: somebody
	 * reads the metrics.  May be NULL. */
	void (*watch)(wherry_publisher *pub);

	/* Write up to WH_NUMBERS_MOST numbers, counted since the destination was opened.
	 * Returns how many.  May be NULL: there are none. */
	size_t (*numbers)(const wherry_publisher *pub, wh_number *out);

	/* Reads back which messages the destination holds; see readback.h.  NULL: it cannot, and no_readback says why:
	 * what follows "it cannot be read back: ". */
	const struct wh_readback_driver *readback;
	const char *no_readback;

	/* How CloudEvents are written; NULL: WH_BINDING_ANY. */
	const wh_binding *binding;
} wh_publisher_driver;

struct wherry_publisher {
	const wh_publisher_driver *driver;
};

/* file/file.c */
extern const wh_publisher_driver wh_publisher_stdout;
extern const wh_publisher_driver wh_publisher_file;
extern const wh_publisher_driver wh_publisher_exec;
extern const wh_publisher_driver wh_publisher_memory;
extern const wh_publisher_driver wh_publisher_null;
/* Calls C functions; no URL names it. */
extern const wh_publisher_driver wh_publisher_handlers;

/* From src/transfer/, a layer above this folder. */
extern const wh_publisher_driver wh_publisher_queue_sqlite, wh_publisher_queue_postgres,
	wh_publisher_queue_postgresql;

/* amqp/, kafka/, nats/, redis/ and webhook/ are linked into the program only. */
extern const wh_publisher_driver wh_publisher_kafka;
extern const wh_publisher_driver wh_publisher_amqp, wh_publisher_amqps;
extern const wh_publisher_driver wh_publisher_nats, wh_publisher_nats_tls;
extern const wh_publisher_driver wh_publisher_redis, wh_publisher_rediss;
extern const wh_publisher_driver wh_publisher_redis_sentinel,
	wh_publisher_rediss_sentinel;
extern const wh_publisher_driver wh_publisher_https;
extern const wh_publisher_driver wh_publisher_http;

/* The publishers that are linked into the program only; NULL at the end. */
extern const wh_publisher_driver *const wh_publishers_linked[];

/* A publisher that the program puts around each one it opens. */
typedef struct wh_publisher_wrapper {
	/* Refuse settings that wrap() would refuse. */
	wherry_code (*check)(const wherry_config *config, wherry_error *err);
	/* Append a line for each setting that does not do what it says. */
	void (*warn)(const wherry_config *config, wh_buf *out);
	/* Put a publisher around *pub, or leave it as it is.  On failure *pub is closed. */
	wherry_code (*wrap)(const char *url, const wherry_config *config,
			    const wh_env *env, wherry_publisher **pub, wherry_error *err);
	void (*end)(void); /* The program ends, and all publishers are closed. */
} wh_publisher_wrapper;

/* The wrappers that are linked into the program only; NULL at the end. */
extern const wh_publisher_wrapper *const wh_publisher_wrappers_linked[];

/* ---- functions that the relay calls: publish.c ---- */

/* The program ends. */
void wh_publishers_end(void);

/* Fail with INVALID, naming the function, if the driver lacks a required function or one
 * that another of its functions needs. */
wherry_code wh_publisher_driver_check(const wh_publisher_driver *driver,
				      wherry_error *err);

/* Is a destination with this scheme built in? */
bool wh_publisher_has(wh_view scheme);

/* Fail if no built-in destination has the scheme of this URL. */
wherry_code wh_publisher_known(const char *url, wherry_error *err);
/*
 * The destination's default for a setting, which replaces the setting's default.
 *
 * @param which   A wh_setting.
 * @param window  The setting relay.window: most messages in flight.
 * @param out     Receives microseconds, or a number.
 * @return false: the setting's default applies.
 */
bool wh_publisher_prefers(const wh_publisher_driver *driver, int which, int64_t window,
			  int64_t *out);

/*
 * The destination's default for a setting, as text.
 *
 * @param config  NULL: the default settings.
 * @param which   A wh_setting.
 * @return false: the setting's default applies.
 */
enum { WH_STANDARD_LEN = 32 };
bool wh_publisher_standard(const char *url, const wherry_config *config, int which,
			   char out[WH_STANDARD_LEN]);

/* Fail if this URL cannot be opened with these settings, as far as that is known without
 * connecting. */
wherry_code wh_publisher_check(const char *url, const wherry_config *config,
			       wherry_error *err);

/* Append a line for each protection that the URL or the settings of the destination give up. */
void wh_publisher_warn(const char *url, const wherry_config *config, wh_buf *out);

/* Append a line for each setting that does not do what it says, whatever the destination is. */
void wh_publisher_warn_settings(const wherry_config *config, wh_buf *out);

wherry_code wh_publisher_open(const char *url, const wherry_config *config,
			      const wh_env *env, wherry_publisher **out,
			      wherry_error *err);

/* The same without the format of the settings message.*: messages are sent as they are. */
wherry_code wh_publisher_open_raw(const char *url, const wherry_config *config,
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
const char *wh_publisher_trouble(wherry_publisher *pub);
const char *wh_publisher_notice(wherry_publisher *pub);
void wh_publisher_watch(wherry_publisher *pub);
size_t wh_publisher_numbers(const wherry_publisher *pub, wh_number *out);

/* ---- destinations of the application: custom.c ---- */

/* The destination with this scheme that was registered in config; NULL: there is none. */
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

/* Append valid JSON as the member NAME of an object, behind a comma, on one line. */
void wh_put_json_field(wh_buf *buf, const char *name, const void *text, size_t len);

/* Append a body as the member "body": JSON unchanged, other text as a string; or as
 * "body_base64" if it is not text. */
void wh_put_body_field(wh_buf *buf, const void *body, size_t len);

#endif
