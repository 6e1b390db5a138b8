/*
 * Queues of NServiceBus on any database: the cases of every layout, and those in which its
 * transport's own statements use the same tables.
 */
#ifndef WHERRY_QUEUE_NSERVICEBUS_SUITE_H
#define WHERRY_QUEUE_NSERVICEBUS_SUITE_H

#include "queue_suite.h"

/* What its transport does, in this database's SQL, on the queue "jobs". */
typedef struct nservicebus_app {
	/* Send with a time to live in milliseconds, or "NULL". */
	void (*send)(queue_fixture *f, const char *ttl_ms, const char *headers,
		     const char *body);
	/* Send a row that has an id and headers, and no body. */
	void (*send_bare)(queue_fixture *f, const char *id, const char *headers);
	/* Send a row with this number. */
	void (*number)(queue_fixture *f, int64_t number);
	/* Store what is due after so many seconds; move what is due. */
	void (*store)(queue_fixture *f, int seconds, const char *headers,
		      const char *body);
	void (*move)(queue_fixture *f);
	/* Receive: the body, "" if there is no message. */
	const char *(*receive)(queue_fixture *f);
	/* How many messages expire so many seconds from now. */
	int64_t (*expiring)(queue_fixture *f, int64_t from_s, int64_t to_s);
} nservicebus_app;

/* Fields of the messages that were received. */
typedef struct nservicebus_seen {
	int n;
	char fields[1000];
} nservicebus_seen;

/* Receive all under a lease: "ID|TOPIC|CORRELATION|REPLY TO|BODY …". */
const char *nservicebus_receive(queue_fixture *f, nservicebus_seen *s);

/* Publish; returns how many queues got it. */
int64_t nservicebus_publish(wherry_topics *topics, const char *topic, const char *body);

/* A wherry_queue_finding_fn that adds the repair to the text of 8,000 bytes that ctx is. */
wherry_code nservicebus_note_finding(void *ctx, const char *what, const char *repair);

/* A queue of this layout, on the first back end. */
int nservicebus_make(void **state);
int nservicebus_drop(void **state);

#define NSERVICEBUS_CASE(run)                                                            \
	cmocka_unit_test_setup_teardown(run, nservicebus_make, nservicebus_drop)

/* Run the cases of any layout on all back ends, then these and those in `more` on the first. */
int nservicebus_suite_run(const nservicebus_app *theirs,
			  const outbox_backend *const *backends, size_t n_backends,
			  const struct CMUnitTest *more, size_t n_more);

#endif
