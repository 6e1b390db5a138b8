/*
 * Large bodies: what is larger than a destination takes goes to a body store, and the
 * destination gets a message that points to it (a claim check).
 *
 *     bodies.c    a publisher around a publisher: it submits a message when its body is stored
 *     stores.c    which store the settings name
 *     uploads.c   threads that store bodies, since a store may wait for a disk or a network
 *     pointer.c   the message that points to a stored body
 *     folder.c    file:/FOLDER, a store in a folder
 *     s3.c        s3://BUCKET/PREFIX, linked into the program only; _answer, _credentials
 */
#ifndef WH_PUBLISH_BODIES_H
#define WH_PUBLISH_BODIES_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/digest.h"
#include "base/url.h"
#include "publish/driver.h"

enum {
	WH_UPLOADS = 4,          /* Bodies stored at once. */
	WH_BODY_NAME_LEN = 256,  /* Of an object in a store, with a NUL. */
	WH_BODY_TYPE_LEN = 128,  /* Of a content type, with a NUL. */
	WH_BODY_REASON_LEN = 200 /* As in wh_receipt. */
};

/* ---- one body to store ---- */

typedef struct wh_upload {
	struct wh_upload *next;
	char *body; /* A copy: the message may be gone before the store has answered. */
	size_t len;
	char type[WH_BODY_TYPE_LEN]; /* Its content type. */
	/* Name of the object: that of the same message is always the same.  The thread
	 * appends the sum. */
	char name[WH_BODY_NAME_LEN];
	char sha256[WH_SHA256_LEN + 1]; /* Set by the thread. */
	uint64_t nonce;        /* A random number, for the name of a temporary file. */
	atomic_bool cancelled; /* End it soon: nobody needs it any more. */
	int64_t started_us;    /* On the monotonic clock. */
	void *owner;           /* Of the publisher; NULL: it has forgotten it. */

	/* The result. */
	wherry_code code;
	char reason[WH_BODY_REASON_LEN];
} wh_upload;

/* ---- stores ---- */

typedef struct wh_body_store wh_body_store;

typedef struct wh_body_store_driver {
	const char *scheme; /* "file" */

	/* Refuse what put() could never use: rest is the URL behind the colon. */
	wherry_code (*check)(const char *rest, const wherry_config *config,
			     wherry_error *err);
	/* Append a line for each protection that the settings give up.  May be NULL. */
	void (*warn)(const char *rest, const wherry_config *config, wh_buf *out);
	/* Set *out to a struct whose first member is a wh_body_store. */
	wherry_code (*open)(const char *rest, const wherry_config *config,
			    wh_body_store **out, wherry_error *err);
	void (*close)(wh_body_store *store);

	/* Begin and end one of the threads; what enter() returns is given to put() on that
	 * thread.  May be NULL. */
	void *(*enter)(wh_body_store *store);
	void (*leave)(void *hand);

	/* Store a body durably, and wait for it.  A second call for the same message replaces
	 * the object by an equal one.  Called by several threads at once.  The error says
	 * why the store did not take the body, and what to do. */
	wherry_code (*put)(wh_body_store *store, void *hand, const wh_upload *upload,
			   wherry_error *err);
} wh_body_store_driver;

struct wh_body_store {
	const wh_body_store_driver *driver;
	char *url; /* URL of an object without its name: "s3://bucket/prefix/". */
};

extern const wh_body_store_driver wh_body_store_file;
extern const wh_body_store_driver wh_body_store_s3; /* In the program only. */

/* The stores that are linked into the program only; NULL at the end. */
extern const wh_body_store_driver *const wh_body_stores_linked[];

/* ---- stores.c ---- */

/* The store that the settings name; *out_driver is NULL if they name none. */
wherry_code wh_body_store_named(const wherry_config *config, wh_url *out,
				const wh_body_store_driver **out_driver,
				wherry_error *err);

/* ---- uploads.c ---- */

typedef struct wh_uploads {
	wh_body_store *store; /* Closed with it. */
	int event;            /* An eventfd: readable when an upload has ended. */
	pthread_t threads[WH_UPLOADS];
	size_t n_threads;
	size_t n_running; /* Uploads given and not taken back; of the caller's thread. */

	pthread_mutex_t lock; /* Guards the rest. */
	pthread_cond_t changed;
	bool ending;
	wh_upload *queue, *over;
	wh_upload *busy[WH_UPLOADS];
	size_t n_idle;
} wh_uploads;

/* The store is closed on failure too. */
wherry_code wh_uploads_open(wh_uploads *uploads, wh_body_store *store, wherry_error *err);
/* End the uploads, and wait for the threads. */
void wh_uploads_close(wh_uploads *uploads);

/* False: there are no threads.  Otherwise it belongs to the threads until it is taken. */
bool wh_uploads_give(wh_uploads *uploads, wh_upload *upload);
/* An upload that has ended, which the caller frees; NULL: none. */
wh_upload *wh_uploads_take(wh_uploads *uploads);
void wh_upload_free(wh_upload *upload);

/* ---- pointer.c ---- */

/* Make the upload of a message.  INVALID: its headers are malformed.  NOMEM. */
wherry_code wh_upload_make(const wherry_message *msg, uint64_t nonce, wh_upload **out,
			   wherry_error *err);

/* The message that points to a stored body.  Members that do not differ are borrowed from
 * the message. */
typedef struct wh_pointer {
	wherry_message message;
	char *headers;
	wh_buf body;
} wh_pointer;

wherry_code wh_pointer_fill(wh_pointer *pointer, const wherry_message *msg,
			    const wh_body_store *store, const wh_upload *upload,
			    wherry_error *err);
void wh_pointer_clear(wh_pointer *pointer);

/* ---- called by publish.c: stores.c, and bodies.c ---- */

/* Refuse settings of the body store that wh_bodies_wrap() would refuse. */
wherry_code wh_bodies_check(const wherry_config *config, wherry_error *err);
void wh_bodies_warn(const wherry_config *config, wh_buf *out);

/* If the settings name a body store, put a publisher around *pub that uses it.  On failure
 * *pub is closed. */
wherry_code wh_bodies_wrap(const wherry_config *config, const wh_env *env,
			   wherry_publisher **pub, wherry_error *err);

#endif
