/*
 * A publisher around a publisher, for messages with large bodies.
 *
 *              a thread has room       stored            the destination took it
 *     QUEUED ───────────────────► UPLOADING ─────► STORED ──────────────────────► SENT
 *        │                            │ the store did not take it                   │
 *        └─── an earlier message of ──┴──────────────► receipt: RETRY               ▼
 *             its key failed                                             the destination's receipt
 *
 * Other messages pass through.  If a message of the same key is before them here, they wait
 * behind it.  Once a message of a key fails, those that wait behind it come back: so this
 * publisher keeps the order of a key as strictly as the one inside.
 *
 * A failed upload is `held`: no attempt is counted, because the store failed and not the
 * message, and messages with smaller bodies go on.
 */
#include "publish/bodies/bodies.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/json.h"
#include "config/settings.h"
#include "publish/around.h"
#include "publish/flight.h"
#include "publish/parts.h"

enum {
	SLOTS = 64, /* Most messages with stored bodies. */
	/* Bytes that names of headers and the frame of a record may take, at most. */
	FRAME = 1024,
	SILENCE_US = 15000000
};

/* Most bytes of bodies that are uploaded at once; one body may be larger. */
static const size_t copies_most = (size_t)64 << 20;

typedef enum phase { FREE, QUEUED, UPLOADING, STORED, SENT } phase;

typedef struct slot {
	phase phase;
	const wherry_message *message; /* As the relay knows it. */
	uint64_t hash, order;          /* Of its key, and of its place among all. */
	wh_upload *upload;             /* UPLOADING: of a thread.  STORED: ours. */
	wh_pointer
		pointer; /* The message for the destination, once the body is STORED. */
} slot;

/* A message that the destination does not have yet, or whose receipt waits to be collected. */
typedef struct entry {
	wh_flight flight; /* First member. */
	uint64_t hash, order;
	slot *slot; /* NULL: the message passes through. */
	char reason[WH_BODY_REASON_LEN];
} entry;

typedef struct bodies {
	wh_around around;
	const wh_env *env;
	wh_uploads uploads;
	size_t above; /* Setting relay.body_store_above; 0: what the destination takes. */
	slot slots[SLOTS];
	size_t n_used, copied;
	uint64_t order;
	wh_flights waiting, over;
	int poll_fd, inner_fd; /* poll_fd: an epoll of the uploads and of inner_fd. */
	char trouble[WH_BODY_REASON_LEN];
	int64_t base_us, cap_us; /* Settings retry.base and retry.cap. */
	int64_t pause_us,
		pause_until_us; /* Of failed uploads; 0: the last one succeeded. */
	int64_t n_stored, n_failed, n_bytes;
} bodies;

static bodies *of(wherry_publisher *pub)
{
	return (bodies *)pub;
}

/* ---- which bodies are large ---- */

static size_t length(const char *text)
{
	return text ? strlen(text) : 0;
}

static bool is_large(const bodies *b, const wherry_message *msg)
{
	size_t most, rest;

	if (b->above)
		return msg->body_len > b->above;
	most = b->around.inner->driver->body_most
		       ? b->around.inner->driver->body_most(b->around.inner)
		       : 0;
	if (!most || msg->body_len < most / 2)
		return false;
	rest = length(msg->headers) + length(msg->key) + length(msg->topic) +
	       length(msg->message_id) + length(msg->aggregate_id) +
	       length(msg->aggregate_type) + length(msg->trace_id) + FRAME;
	return msg->body_len + rest > most;
}

/* ---- slots ---- */

static slot *free_slot(bodies *b)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (b->slots[i].phase == FREE)
			return &b->slots[i];
	return NULL;
}

static void release(bodies *b, slot *s)
{
	if (s->phase == UPLOADING) {
		/* The thread still has it: end it, and free it when it comes back. */
		atomic_store(&s->upload->cancelled, true);
		s->upload->owner = NULL;
	} else {
		wh_upload_free(s->upload);
	}
	wh_pointer_clear(&s->pointer);
	*s = (slot){.phase = FREE};
	b->n_used--;
}

/* The slot of a message that the destination was given; NULL: it passed through. */
static slot *slot_of(bodies *b, const wherry_message *msg)
{
	uintptr_t first = (uintptr_t)b->slots, at = (uintptr_t)msg;

	if (at < first || at >= first + sizeof(b->slots))
		return NULL;
	return &b->slots[(at - first) / sizeof(*b->slots)];
}

/* Does a message of this key wait for its upload before this place? */
static bool is_blocked(const bodies *b, uint64_t hash, uint64_t order)
{
	for (size_t i = 0; hash && b->n_used && i < SLOTS; i++) {
		const slot *s = &b->slots[i];

		if (s->hash == hash && s->order < order &&
		    (s->phase == QUEUED || s->phase == UPLOADING || s->phase == STORED))
			return true;
	}
	return false;
}

/* ---- failures ---- */

static void fail(bodies *b, entry *e, bool held, const char *why)
{
	wh_flights_remove(&b->waiting, &e->flight);
	if (e->slot)
		release(b, e->slot);
	e->slot = NULL;
	e->flight.verdict = WHERRY_RETRY;
	e->flight.held = held;
	e->flight.reason = e->reason;
	(void)snprintf(e->reason, sizeof(e->reason), "%s", why);
	wh_flights_append(&b->over, &e->flight);
}

/* A message of the key failed: those that wait come back, in order. */
static void fail_followers(bodies *b, uint64_t hash)
{
	for (wh_flight *f = b->waiting.head, *next; hash && f; f = next) {
		entry *e = (entry *)f;

		next = f->next;
		if (e->hash == hash)
			fail(b, e, false, "behind a failed message of its key");
	}
}

static entry *entry_of(const bodies *b, const slot *s)
{
	wh_flight *f = b->waiting.head;

	while (f && ((entry *)f)->slot != s)
		f = f->next;
	return (entry *)f;
}

/* How long to wait until the next try.  It grows from failure to failure; those of uploads
 * that ran together count once. */
static int64_t grow_pause(bodies *b)
{
	int64_t now = wh_monotonic(b->env);

	if (now >= b->pause_until_us) {
		b->pause_us = b->pause_us ? 2 * b->pause_us : b->base_us;
		b->pause_us = wh_sooner(b->pause_us, b->cap_us);
		b->pause_until_us = wh_later(now, b->pause_us);
	}
	return b->pause_until_us - now;
}

static void upload_failed(bodies *b, slot *s, const char *why)
{
	entry *e = entry_of(b, s);
	uint64_t hash = s->hash;

	b->n_failed++;
	if (!e)
		return; /* Each slot before SENT has an entry. */
	e->flight.retry_after_us = grow_pause(b);
	fail(b, e, true, why);
	fail_followers(b, hash);
}

/* ---- uploads ---- */

/* Give a slot's body to a thread.  False: the threads have enough. */
static bool start_upload(bodies *b, slot *s)
{
	wherry_error why = WHERRY_ERROR_INIT;
	size_t len = s->message->body_len;
	wherry_code code;

	if (b->uploads.n_running >= WH_UPLOADS ||
	    (b->copied && b->copied + len > copies_most))
		return false;
	code = wh_upload_make(s->message, wh_random(b->env), &s->upload, &why);
	if (code != WHERRY_OK) {
		upload_failed(b, s, why.message);
		return true;
	}
	s->upload->owner = s;
	s->upload->started_us = wh_monotonic(b->env);
	if (!wh_uploads_give(&b->uploads, s->upload)) {
		upload_failed(b, s, "no thread can be started to store the body");
		return true;
	}
	s->phase = UPLOADING;
	b->copied += len;
	return true;
}

/* Start uploads in the order in which their messages came. */
static void start_uploads(bodies *b)
{
	for (wh_flight *f = b->waiting.head, *next; f; f = next) {
		slot *s = ((entry *)f)->slot;

		next = f->next;
		if (!s || s->phase != QUEUED)
			continue;
		if (!start_upload(b, s))
			return;
		if (s->phase == FREE) /* It failed, and its followers may be gone. */
			next = b->waiting.head;
	}
}

static void take_upload(bodies *b, wh_upload *upload)
{
	wherry_error why = WHERRY_ERROR_INIT;
	slot *s = upload->owner;

	b->copied -= upload->len;
	if (!s) {
		wh_upload_free(upload);
		return;
	}
	s->phase = STORED;
	free(upload->body);
	upload->body = NULL;
	if (upload->code == WHERRY_OK)
		upload->code = wh_pointer_fill(&s->pointer, s->message, b->uploads.store,
					       upload, &why);
	if (upload->code == WHERRY_OK) {
		b->pause_us = b->pause_until_us = 0;
		b->n_stored++;
		b->n_bytes += (int64_t)upload->len;
		return;
	}
	memcpy(why.message, upload->reason,
	       why.code == WHERRY_OK ? sizeof(upload->reason) : 0);
	upload_failed(b, s, why.message);
}

static void take_uploads(bodies *b)
{
	wh_upload *upload;

	while ((upload = wh_uploads_take(&b->uploads)))
		take_upload(b, upload);
	start_uploads(b);
}

/* ---- submit ---- */

/*
 * Submit what waits and is ready.
 *
 * @param out_full  The destination does not take all of it.  Otherwise each message that
 *                  waits is one whose body is not stored yet, or behind one.
 */
static wherry_code advance(bodies *b, bool *out_full, wherry_error *err)
{
	*out_full = false;
	for (wh_flight *f = b->waiting.head, *next; f; f = next) {
		entry *e = (entry *)f;
		const wherry_message *msg = f->message;
		wherry_code code;
		size_t taken;

		next = f->next;
		if ((e->slot && e->slot->phase != STORED) ||
		    is_blocked(b, e->hash, e->order))
			continue;
		if (e->slot)
			msg = &e->slot->pointer.message;
		code = wh_publisher_submit(b->around.inner, &msg, 1, &taken, err);
		*out_full = !taken;
		if (taken) {
			if (e->slot)
				e->slot->phase = SENT;
			wh_flights_remove(&b->waiting, f);
			free(e);
		}
		if (code != WHERRY_OK || !taken)
			return code;
	}
	return WHERRY_OK;
}

/* Keep a message here.  False: there is no room. */
static bool keep(bodies *b, const wherry_message *msg, bool large)
{
	slot *s = large ? free_slot(b) : NULL;
	entry *e = large && !s ? NULL : calloc(1, sizeof(*e));

	if (!e)
		return false;
	e->flight.message = msg;
	e->hash = wh_message_key_hash(msg);
	e->order = ++b->order;
	e->slot = s;
	if (s) {
		*s = (slot){.phase = QUEUED,
			    .message = msg,
			    .hash = e->hash,
			    .order = e->order};
		b->n_used++;
	}
	wh_flights_append(&b->waiting, &e->flight);
	return true;
}

/* Does the message pass through at once?  One whose headers are malformed does: the
 * destination refuses it. */
static bool passes(const bodies *b, const wherry_message *msg, bool *out_large)
{
	const char *headers = wh_message_headers(msg);

	*out_large = is_large(b, msg) &&
		     wh_json_headers(headers, strlen(headers), NULL) == WHERRY_OK;
	return !*out_large &&
	       !(b->waiting.n && is_blocked(b, wh_message_key_hash(msg), UINT64_MAX));
}

static wherry_code bodies_submit(wherry_publisher *pub, const wherry_message *const *msgs,
				 size_t n, size_t *out_taken, wherry_error *err)
{
	bodies *b = of(pub);
	bool full, large = false;
	wherry_code code;
	size_t done = 0, end, taken;

	take_uploads(b);
	code = advance(b, &full, err);
	while (code == WHERRY_OK && !full && done < n) {
		for (end = done; end < n && passes(b, msgs[end], &large);)
			end++;
		if (end > done) {
			code = wh_publisher_submit(b->around.inner, msgs + done,
						   end - done, &taken, err);
			done += taken;
			full = done < end;
		}
		if (code == WHERRY_OK && !full && done < n)
			full = !keep(b, msgs[done], large) || ++done == n;
	}
	*out_taken = done;
	start_uploads(b);
	return code;
}

/* ---- collect ---- */

static size_t give_receipts(bodies *b, wh_receipt *out, size_t cap)
{
	size_t n = 0;

	while (n < cap && b->over.n) {
		entry *e = (entry *)wh_flights_pop(&b->over);

		wh_flight_receipt(&e->flight, &out[n++]);
		free(e);
	}
	return n;
}

/* Receipts of the destination: those of pointers become those of their messages. */
static void translate(bodies *b, wh_receipt *receipts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		slot *s = slot_of(b, receipts[i].message);

		if (s) {
			receipts[i].message = s->message;
			release(b, s);
		}
		if (receipts[i].verdict != WHERRY_DELIVERED && b->waiting.n)
			fail_followers(b, wh_message_key_hash(receipts[i].message));
	}
}

static wherry_code bodies_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				  size_t *out_n, wherry_error *err)
{
	bodies *b = of(pub);
	size_t n, got = 0;
	bool full;
	wherry_code code;

	take_uploads(b);
	n = give_receipts(b, out, cap);
	code = wh_publisher_collect(b->around.inner, out + n, cap - n, &got, err);
	if (code == WHERRY_OK) {
		translate(b, out + n, got);
		n += got;
		code = advance(b, &full, err);
	}
	*out_n = n + (code == WHERRY_OK ? give_receipts(b, out + n, cap - n) : 0);
	return code;
}

/* ---- the rest of the table ---- */

static void clear(wh_flights *list)
{
	while (list->n)
		free(wh_flights_pop(list));
}

static void bodies_drop(wherry_publisher *pub)
{
	bodies *b = of(pub);

	wh_publisher_drop(b->around.inner);
	clear(&b->waiting);
	clear(&b->over);
	for (size_t i = 0; i < SLOTS; i++)
		if (b->slots[i].phase != FREE)
			release(b, &b->slots[i]);
}

static void bodies_close(wherry_publisher *pub)
{
	bodies *b = of(pub);

	/* It gives up what points into the slots. */
	wherry_publisher_close(b->around.inner);
	b->around.inner = NULL;
	clear(&b->waiting);
	clear(&b->over);
	for (size_t i = 0; i < SLOTS; i++)
		if (b->slots[i].phase != FREE)
			release(b, &b->slots[i]);
	wh_uploads_close(&b->uploads);
	if (b->poll_fd >= 0)
		(void)close(b->poll_fd);
	free(b);
}

/* Have poll_fd watch this descriptor of the publisher inside; -1: none. */
static void watch_inner(bodies *b, int fd, short events)
{
	struct epoll_event event = {.events = (events & POLLIN ? EPOLLIN : 0) |
					      (events & POLLOUT ? EPOLLOUT : 0),
				    .data = {.fd = fd}};

	if (b->inner_fd >= 0 && b->inner_fd != fd)
		(void)epoll_ctl(b->poll_fd, EPOLL_CTL_DEL, b->inner_fd, NULL);
	b->inner_fd = fd;
	if (fd >= 0 && epoll_ctl(b->poll_fd, EPOLL_CTL_MOD, fd, &event) < 0)
		(void)epoll_ctl(b->poll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int bodies_fd(wherry_publisher *pub, short *out_events)
{
	bodies *b = of(pub);
	int fd = wh_publisher_fd(b->around.inner, out_events);

	if (!b->uploads.n_running)
		return fd;
	watch_inner(b, fd, *out_events);
	*out_events = POLLIN;
	return b->poll_fd;
}

static int64_t bodies_deadline(wherry_publisher *pub)
{
	bodies *b = of(pub);

	return b->over.n ? 0 : wh_publisher_deadline(b->around.inner);
}

static const char *bodies_trouble(wherry_publisher *pub)
{
	bodies *b = of(pub);
	int64_t now = wh_monotonic(b->env);
	const char *why = wh_publisher_trouble(b->around.inner);

	for (size_t i = 0; !why && b->n_used && i < SLOTS; i++) {
		const slot *s = &b->slots[i];

		if (s->phase != UPLOADING || now - s->upload->started_us < SILENCE_US)
			continue;
		(void)snprintf(b->trouble, sizeof(b->trouble),
			       "the body store %.120s has not answered for %d s",
			       b->uploads.store->url, SILENCE_US / 1000000);
		why = b->trouble;
	}
	return why;
}

static size_t bodies_numbers(const wherry_publisher *pub, wh_number *out)
{
	const bodies *b = (const bodies *)pub;
	const wh_number own[] = {
		{"body_store_bodies_total", "Bodies stored in relay.body_store.",
		 b->n_stored},
		{"body_store_bytes_total", "Bytes of bodies stored in relay.body_store.",
		 b->n_bytes},
		{"body_store_failures_total",
		 "Uploads that relay.body_store did not take.", b->n_failed},
	};
	size_t n = wh_publisher_numbers(b->around.inner, out);

	for (size_t i = 0; i < sizeof(own) / sizeof(*own) && n < WH_NUMBERS_MOST; i++)
		out[n++] = own[i];
	return n;
}

/* ---- open ---- */

static wherry_code watch_uploads(bodies *b, wherry_error *err)
{
	struct epoll_event event = {.events = EPOLLIN};

	b->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (b->poll_fd < 0 ||
	    epoll_ctl(b->poll_fd, EPOLL_CTL_ADD, b->uploads.event, &event) < 0)
		return wh_fail_errno(err, errno, "cannot wait for uploads");
	return WHERRY_OK;
}

static wherry_code open_store(bodies *b, const wh_body_store_driver *driver,
			      const char *rest, const wherry_config *config,
			      wherry_error *err)
{
	wh_body_store *store;
	wherry_code code = driver->open(rest, config, &store, err);

	return code == WHERRY_OK ? wh_uploads_open(&b->uploads, store, err) : code;
}

wherry_code wh_bodies_wrap(const wherry_config *config, const wh_env *env,
			   wherry_publisher **pub, wherry_error *err)
{
	static const wh_publisher_driver own = {
		.close = bodies_close,
		.submit = bodies_submit,
		.collect = bodies_collect,
		.drop = bodies_drop,
		.fd = bodies_fd,
		.deadline = bodies_deadline,
		.trouble = bodies_trouble,
		.numbers = bodies_numbers,
	};
	const wh_body_store_driver *driver;
	wh_url url;
	wherry_code code = wh_body_store_named(config, &url, &driver, err);
	bodies *b = NULL;

	if (code == WHERRY_OK && !driver)
		return WHERRY_OK;
	if (code == WHERRY_OK) {
		b = calloc(1, sizeof(*b));
		code = b ? open_store(b, driver, url.rest.ptr, config, err) : wh_oom(err);
	}
	if (code != WHERRY_OK) {
		free(b);
		wherry_publisher_close(*pub);
		return code;
	}
	wh_around_make(&b->around, *pub, &own);
	b->inner_fd = -1;
	b->env = env;
	b->above = (size_t)wh_config_int(config, WH_RELAY_BODY_STORE_ABOVE);
	b->base_us = wh_config_int(config, WH_RETRY_BASE);
	b->cap_us = wh_config_int(config, WH_RETRY_CAP);
	code = watch_uploads(b, err);
	if (code == WHERRY_OK)
		*pub = &b->around.base;
	else
		bodies_close(&b->around.base);
	return code;
}
