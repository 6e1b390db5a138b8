/*
 * The destinations postgres: and sqlite: are a queue in any database: sqlite:shop.db#jobs.
 *
 * A thread writes the waiting messages, many in one transaction.  It accepts their ids in
 * an inbox of that database, and sends the messages that are new.  So a message that is
 * submitted again, because an answer was lost, is in the queue once.
 *
 * Messages of one key are submitted one after the other, so the queue has them in their
 * order.  A queue has no columns for the key and the trace id of a message: they become
 * headers.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <wherry/inbox.h>

#include "base/log.h"
#include "base/thread.h"
#include "base/url.h"
#include "config/settings.h"
#include "db/driver.h"
#include "publish/flight.h"
#include "publish/parts.h"
#include "queue/queue.h"
#include "transfer/queue_url.h"

enum {
	BATCH_MOST = 1000,
	WAITING_MOST = 4000,
	ID_LEN = 1024,
	PURGE_BATCH = 1000, /* Ids in one transaction. */
	PURGE_MOST = 10000  /* Ids between two batches of messages. */
};

/* A submitted message. */
typedef struct item {
	wh_flight flight; /* Must be first. */
	bool judged;      /* flight.verdict is set. */
	char id[ID_LEN];  /* Id of the message in the inbox. */
	/* Headers with key and trace id; NULL: the message has neither. */
	char *headers;
	char reason[200];
} item;

typedef struct queue_publisher {
	wherry_publisher base;
	const wh_env *env;
	wherry_config *config;
	wh_queue_url place;
	int event; /* An eventfd: there are receipts, or an error. */
	pthread_t thread;
	bool started;

	pthread_mutex_t lock; /* Protects the fields up to `db`. */
	pthread_cond_t wake;  /* Wakes the thread. */
	pthread_cond_t idle;  /* Signalled when the thread has stopped writing. */
	bool stop, writing, failed;
	wh_flights waiting, batch, over;
	wherry_error why; /* Reason of `failed`. */
	wherry_db *db;    /* Set only by the thread. */

	/* Used only by the thread. */
	wherry_queue *queue;
	wherry_inbox *inbox;
	unsigned
		missing; /* Kinds of the table that was missing last, plus 1; 0: none was. */
	int64_t purge_at_us; /* Time of the next purge, by wh_monotonic(). */
} queue_publisher;

static queue_publisher *of(wherry_publisher *pub)
{
	return (queue_publisher *)pub;
}

static void free_item(wh_flight *f)
{
	free(((item *)f)->headers);
	free(f);
}

static void free_all(wh_flights *list)
{
	wh_flight *f;

	while ((f = wh_flights_pop(list)))
		free_item(f);
}

/* ---- the thread: the database ---- */

static void disconnect(queue_publisher *p)
{
	wherry_db *db = p->db;

	wherry_inbox_close(p->inbox);
	wherry_queue_close(p->queue);
	p->inbox = NULL;
	p->queue = NULL;
	(void)pthread_mutex_lock(&p->lock);
	p->db = NULL;
	(void)pthread_mutex_unlock(&p->lock);
	wherry_db_close(db);
}

static wherry_code connect(queue_publisher *p, wherry_error *err)
{
	wh_db_options options = wh_db_options_of(p->config, p->env);
	wherry_db *db = NULL;
	wherry_code code;

	if (p->queue && p->inbox)
		return WHERRY_OK;
	options.must_write = true;
	options.create = false;
	code = wh_db_open(p->place.database, &options, &db, err);
	if (code != WHERRY_OK)
		return code;
	(void)pthread_mutex_lock(&p->lock);
	p->db = db;
	(void)pthread_mutex_unlock(&p->lock);
	code = wherry_queue_open(db, p->place.queue, &p->queue, err);
	if (code == WHERRY_OK)
		code = wherry_inbox_open(db, p->place.inbox, &p->inbox, err);
	if (code != WHERRY_OK)
		disconnect(p);
	return code;
}

/* ---- the thread: one batch ---- */

static void judge(item *i, wherry_verdict verdict, const char *why)
{
	i->judged = true;
	i->flight.verdict = verdict;
	i->flight.reason = i->reason;
	(void)snprintf(i->reason, sizeof(i->reason), "%.*s", (int)sizeof(i->reason) - 1,
		       why);
}

static wherry_queue_message message_of(const item *i)
{
	const wherry_message *m = i->flight.message;

	return WHERRY_QUEUE_MESSAGE(.message_id = m->message_id, .topic = m->topic,
				    .headers = i->headers ? i->headers
							  : wh_message_headers(m),
				    .body = m->body, .body_len = m->body_len);
}

/* Set the id of a message in the inbox. */
static wherry_code name_it(item *i, wherry_error *err)
{
	const wherry_message *m = i->flight.message;
	int n;

	if (!m->message_id || !*m->message_id)
		return wh_fail(err, WHERRY_INVALID,
			       "it has no message id, by which the inbox knows it");
	n = snprintf(i->id, sizeof(i->id), "%s", m->message_id);
	return n >= ID_LEN ? wh_fail(err, WHERRY_TOOBIG, "its message id is too long")
			   : WHERRY_OK;
}

/* Add a header, unless the message already has one of that name. */
static wherry_code add_header(item *i, const char *name, const char *value,
			      wherry_error *err)
{
	wherry_code code;

	if (!value || !*value)
		return WHERRY_OK;
	if (!i->headers) {
		i->headers = strdup(wh_message_headers(i->flight.message));
		if (!i->headers)
			return wh_oom(err);
	}
	code = wherry_headers_add(&i->headers, name, value, err);
	return code == WHERRY_DUPLICATE ? WHERRY_OK : code;
}

/* Add key and trace id.  If a batch is repeated, its headers are set already. */
static wherry_code add_headers(item *i, wherry_error *err)
{
	const wherry_message *m = i->flight.message;
	wherry_code code;

	if (i->headers)
		return WHERRY_OK;
	code = add_header(i, "key", wh_message_key(m), err);
	return code == WHERRY_OK ? add_header(i, "trace-id", m->trace_id, err) : code;
}

static void check(queue_publisher *p, item *i)
{
	wherry_queue_message msg;
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = name_it(i, &why);

	if (code == WHERRY_OK)
		code = add_headers(i, &why);
	msg = message_of(i);
	if (code == WHERRY_OK)
		code = wh_queue_check_message(&msg, &why);
	if (code == WHERRY_OK)
		code = wh_store_check_body(&p->queue->store, p->queue->store.payload_type,
					   wh_queue_body(&msg), &why);
	if (code != WHERRY_OK)
		judge(i, WHERRY_REJECTED, why.message);
}

/* The messages of one transaction. */
typedef struct writing {
	queue_publisher *p;
	item *items[BATCH_MOST];
	size_t n;
} writing;

static wherry_code write_all(void *ctx, wherry_error *err)
{
	static const size_t most = BATCH_MOST;
	const writing *w = ctx;
	const char **ids = calloc(most, sizeof(*ids));
	wherry_queue_message *msgs = calloc(most, sizeof(*msgs));
	bool *is_new = calloc(most, sizeof(*is_new));
	wherry_code code = ids && msgs && is_new ? WHERRY_OK : wh_oom(err);
	size_t n = 0;

	for (size_t i = 0; code == WHERRY_OK && i < w->n; i++)
		ids[i] = w->items[i]->id;
	if (code == WHERRY_OK)
		code = wherry_inbox_accept_many(w->p->inbox, w->p->place.queue, ids, w->n,
						is_new, err);
	for (size_t i = 0; code == WHERRY_OK && i < w->n; i++)
		if (is_new[i])
			msgs[n++] = message_of(w->items[i]);
	if (code == WHERRY_OK && n)
		code = wherry_queue_send_many(w->p->queue, msgs, n, NULL, err);
	free(ids);
	free(msgs);
	free(is_new);
	return code;
}

/* Is the error caused by a message, and not by the database? */
static bool is_about_message(wherry_code code)
{
	return code == WHERRY_INVALID || code == WHERRY_TOOBIG;
}

/* Write all messages in one transaction.  If the database refuses a message, write each
 * one alone. */
static wherry_code write_batch(writing *w, wherry_error *err)
{
	wherry_db *db = w->p->db;
	wherry_code code = w->n ? wh_db_transact(db, write_all, w, err) : WHERRY_OK;

	if (code == WHERRY_OK)
		for (size_t i = 0; i < w->n; i++)
			judge(w->items[i], WHERRY_DELIVERED, "");
	if (code == WHERRY_OK || !is_about_message(code))
		return code;
	code = WHERRY_OK;
	for (size_t i = 0; code == WHERRY_OK && i < w->n; i++) {
		writing one = {.p = w->p, .items = {w->items[i]}, .n = 1};

		code = wh_db_transact(db, write_all, &one, err);
		if (code == WHERRY_OK)
			judge(w->items[i], WHERRY_DELIVERED, "");
		else if (is_about_message(code))
			judge(w->items[i], WHERRY_REJECTED, err->message);
		if (is_about_message(code))
			code = WHERRY_OK;
	}
	return code;
}

/* Purge the inbox if it is time; only some ids, since a batch of messages waits. */
static wherry_code purge_inbox(queue_publisher *p, wherry_error *err)
{
	int64_t now = wh_monotonic(p->env);
	wherry_code code;

	if (!p->place.retention_us || now < p->purge_at_us)
		return WHERRY_OK;
	code = wherry_inbox_purge(p->inbox, p->place.retention_us, PURGE_BATCH,
				  PURGE_MOST, NULL, err);
	p->purge_at_us = now + wh_config_int(p->config, WH_RELAY_PURGE_EVERY);
	return code;
}

/* Log the URL of a table that has to be created. */
static void log_missing(const queue_publisher *p, unsigned kinds)
{
	const bool inbox = kinds == WHERRY_KIND_INBOX;
	char *url = wh_url_join(p->place.database,
				inbox ? p->place.inbox : p->place.queue, NULL, NULL);
	char *shown = url ? wh_url_without_secrets(url) : NULL;

	if (shown)
		wh_log(p->env, WHERRY_LOG_ERROR, "queue", WH_LOG_MISSING,
		       wh_log_text("kind", inbox ? "inbox" : "queue"),
		       wh_log_text("url", shown));
	free(shown);
	free(url);
}

/* Prefix an error with the name of the queue and its database, which is not that of the
 * outbox. */
static wherry_code explain(queue_publisher *p, wherry_code code, wherry_error *err)
{
	char shown[200];

	if (err && err->repair == WHERRY_REPAIR_CREATE && p->missing != err->kinds + 1)
		log_missing(p, err->kinds);
	p->missing = err && err->repair == WHERRY_REPAIR_CREATE ? err->kinds + 1 : 0;
	wh_url_show(p->place.database, shown, sizeof(shown));
	return wh_prefix(err, code, "queue '%s' in %s", p->place.queue, shown);
}

static wherry_code deliver(queue_publisher *p, wherry_error *err)
{
	wherry_code code = connect(p, err);
	writing w = {.p = p};

	if (code == WHERRY_OK)
		code = purge_inbox(p, err);

	for (wh_flight *f = p->batch.head; code == WHERRY_OK && f; f = f->next) {
		item *i = (item *)f;

		check(p, i);
		if (!i->judged)
			w.items[w.n++] = i;
	}
	if (code == WHERRY_OK)
		code = write_batch(&w, err);
	if (code != WHERRY_OK) {
		disconnect(p);
		return explain(p, code, err);
	}
	return code;
}

/* Take a batch of waiting messages.  Called under the lock.  False: the thread must
 * end. */
static bool take_batch(queue_publisher *p)
{
	while (!p->stop && (p->failed || !p->waiting.n))
		(void)pthread_cond_wait(&p->wake, &p->lock);
	while (!p->stop && p->waiting.n && p->batch.n < BATCH_MOST)
		wh_flights_append(&p->batch, wh_flights_pop(&p->waiting));
	p->writing = !p->stop;
	return p->writing;
}

static void *work(void *arg)
{
	queue_publisher *p = arg;

	(void)pthread_mutex_lock(&p->lock);
	while (take_batch(p)) {
		wherry_error why = WHERRY_ERROR_INIT;
		wherry_code code;

		(void)pthread_mutex_unlock(&p->lock);
		code = deliver(p, &why);
		(void)pthread_mutex_lock(&p->lock);
		p->writing = false;
		if (code != WHERRY_OK) {
			p->failed = true;
			p->why = why;
			p->why.code = code;
		} else {
			wh_flight *f;

			while ((f = wh_flights_pop(&p->batch)))
				wh_flights_append(&p->over, f);
		}
		(void)eventfd_write(p->event, 1);
		(void)pthread_cond_broadcast(&p->idle);
	}
	(void)pthread_mutex_unlock(&p->lock);
	disconnect(p);
	return NULL;
}

/* ---- open and close ---- */

/* Wait until the thread has stopped writing; interrupts its running statement.  Called
 * under the lock. */
static void settle_down(queue_publisher *p)
{
	if (p->writing && p->db)
		wherry_db_interrupt(p->db);
	while (p->writing)
		(void)pthread_cond_wait(&p->idle, &p->lock);
}

static void queue_close(wherry_publisher *pub)
{
	queue_publisher *p = of(pub);

	if (p->started) {
		(void)pthread_mutex_lock(&p->lock);
		p->stop = true;
		settle_down(p);
		(void)pthread_cond_signal(&p->wake);
		(void)pthread_mutex_unlock(&p->lock);
		(void)pthread_join(p->thread, NULL);
	}
	free_all(&p->waiting);
	free_all(&p->batch);
	free_all(&p->over);
	if (p->event >= 0)
		(void)close(p->event);
	(void)pthread_cond_destroy(&p->wake);
	(void)pthread_cond_destroy(&p->idle);
	(void)pthread_mutex_destroy(&p->lock);
	wherry_config_free(p->config);
	wh_queue_url_clear(&p->place);
	free(p);
}

static wherry_code check_url(const char *scheme, const char *rest, wherry_error *err)
{
	wh_queue_url at = {.database = NULL};
	wherry_code code = wh_queue_url_read(scheme, rest, &at, err);

	wh_queue_url_clear(&at);
	return code;
}

static wherry_code start(queue_publisher *p, const wherry_config *config,
			 wherry_error *err)
{
	wherry_code code = wh_config_copy(config, &p->config, err);

	if (code != WHERRY_OK)
		return code;
	p->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (p->event < 0)
		return wh_fail_errno(err, errno, "no descriptor left for a queue");
	p->started = wh_thread_start(&p->thread, WH_JOINED, work, p);
	return p->started ? WHERRY_OK
			  : wh_fail(err, WHERRY_BUSY, "no thread can be started");
}

static wherry_code open_queue(const wh_publisher_driver *driver, const char *rest,
			      const wherry_config *config, const wh_env *env,
			      wherry_publisher **out, wherry_error *err)
{
	queue_publisher *p = calloc(1, sizeof(*p));
	wherry_code code;

	if (!p)
		return wh_oom(err);
	p->base.driver = driver;
	p->env = env;
	p->event = -1;
	(void)pthread_mutex_init(&p->lock, NULL);
	(void)pthread_cond_init(&p->wake, NULL);
	(void)pthread_cond_init(&p->idle, NULL);
	code = wh_queue_url_read(driver->scheme, rest, &p->place, err);
	if (code == WHERRY_OK)
		code = start(p, config, err);
	if (code == WHERRY_OK)
		*out = &p->base;
	else
		queue_close(&p->base);
	return code;
}

/* ---- the relay's side ---- */

static wherry_code queue_submit(wherry_publisher *pub, const wherry_message *const *msgs,
				size_t n, size_t *out_taken, wherry_error *err)
{
	queue_publisher *p = of(pub);
	wherry_code code = WHERRY_OK;
	size_t i = 0;

	(void)pthread_mutex_lock(&p->lock);
	if (p->failed) {
		*err = p->why;
		code = p->why.code;
	}
	for (; code == WHERRY_OK && i < n && p->waiting.n < WAITING_MOST; i++) {
		item *taken = calloc(1, sizeof(*taken));

		if (!taken)
			break;
		taken->flight.message = msgs[i];
		wh_flights_append(&p->waiting, &taken->flight);
	}
	(void)pthread_cond_signal(&p->wake);
	(void)pthread_mutex_unlock(&p->lock);
	*out_taken = i;
	return code;
}

static wherry_code queue_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				 size_t *out_n, wherry_error *err)
{
	queue_publisher *p = of(pub);
	wherry_code code = WHERRY_OK;
	size_t n = 0;

	(void)eventfd_read(p->event, &(eventfd_t){0});
	(void)pthread_mutex_lock(&p->lock);
	for (; n < cap && p->over.n; n++) {
		wh_flight *f = wh_flights_pop(&p->over);

		wh_flight_receipt(f, &out[n]);
		free_item(f);
	}
	if (p->failed && !p->over.n && !n) {
		*err = p->why;
		code = p->why.code;
	} else if (p->over.n || p->failed) {
		(void)eventfd_write(p->event, 1);
	}
	(void)pthread_mutex_unlock(&p->lock);
	*out_n = n;
	return code;
}

static void queue_drop(wherry_publisher *pub)
{
	queue_publisher *p = of(pub);

	(void)pthread_mutex_lock(&p->lock);
	settle_down(p);
	free_all(&p->waiting);
	free_all(&p->batch);
	free_all(&p->over);
	p->failed = false;
	(void)pthread_mutex_unlock(&p->lock);
}

static int queue_fd(wherry_publisher *pub, short *out_events)
{
	queue_publisher *p = of(pub);
	bool waits;

	(void)pthread_mutex_lock(&p->lock);
	waits = p->waiting.n || p->batch.n || p->over.n || p->failed;
	(void)pthread_mutex_unlock(&p->lock);
	*out_events = waits ? POLLIN : 0;
	return waits ? p->event : -1;
}

static int64_t queue_deadline(wherry_publisher *pub)
{
	queue_publisher *p = of(pub);
	bool ready;

	(void)pthread_mutex_lock(&p->lock);
	ready = p->over.n || p->failed;
	(void)pthread_mutex_unlock(&p->lock);
	return ready ? 0 : WH_NEVER;
}

/* ---- one driver for each database's scheme ---- */

#define QUEUE_DRIVER(name, scheme_)                                                      \
	static wherry_code name##_check(const char *rest, const wherry_config *config,   \
					wherry_error *err)                               \
	{                                                                                \
		(void)config;                                                            \
		return check_url(scheme_, rest, err);                                    \
	}                                                                                \
	static wherry_code name##_open(const char *rest, const wherry_config *config,    \
				       const wh_env *env, wherry_publisher **out,        \
				       wherry_error *err)                                \
	{                                                                                \
		return open_queue(&wh_publisher_queue_##name, rest, config, env, out,    \
				  err);                                                  \
	}                                                                                \
	const wh_publisher_driver wh_publisher_queue_##name = {                          \
		.scheme = scheme_,                                                       \
		.no_readback = "a queue deletes what its workers have acknowledged",     \
		.check = name##_check,                                                   \
		.open = name##_open,                                                     \
		.close = queue_close,                                                    \
		.submit = queue_submit,                                                  \
		.collect = queue_collect,                                                \
		.drop = queue_drop,                                                      \
		.fd = queue_fd,                                                          \
		.deadline = queue_deadline,                                              \
	};

QUEUE_DRIVER(sqlite, "sqlite")
QUEUE_DRIVER(postgres, "postgres")
QUEUE_DRIVER(postgresql, "postgresql")
