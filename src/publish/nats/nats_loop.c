/*
 * The thread of a link.  It connects, makes the stream if asked to, and then moves bytes:
 * libnats has an external event loop, which is this thread.
 */
#include "publish/nats/nats_link.h"

#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/text.h"
#include "base/thread.h"
#include "publish/parts.h"

enum {
	BUFFERED_MOST =
		1 << 20,      /* Bytes that wait to be written; then nothing is added. */
	STREAM_EXISTS = 10058 /* It exists, with other properties. */
};

/* The token of the question whether the stream was made.  No message has it. */
static const int64_t stream_token = INT64_MAX;

/* Fail by a status of libnats in this thread. */
static void fail_by(wh_nats_link *link, natsStatus status)
{
	wherry_error why = WHERRY_ERROR_INIT;

	(void)wh_nats_fail(link->set, status, &why);
	wh_nats_link_fail(link, &why);
}

/* ---- answers ---- */

static void note_stream(wh_nats_link *link, const wh_nats_answer *answer, bool done)
{
	wherry_error why = WHERRY_ERROR_INIT;
	char before[100];

	if (!done) {
		(void)snprintf(before, sizeof(before),
			       "nats: the stream %.60s cannot be made",
			       link->set->stream);
		(void)wh_fail_answer(
			&why, answer->code == 403 ? WHERRY_DENIED : WHERRY_CLOSED, 0,
			before,
			answer->text ? answer->text
				     : "JetStream does not answer, start the server "
				       "with -js",
			"see nats.create_stream");
	}
	(void)pthread_mutex_lock(&link->lock);
	link->stream = done ? WH_NATS_MADE : WH_NATS_NOT_MADE;
	(void)pthread_mutex_unlock(&link->lock);
	if (!done)
		wh_nats_link_fail(link, &why);
	wh_nats_ring(link->wake_fd);
}

/* The number at the end of a reply subject; 0: none, which no message has. */
static int64_t token_of(const char *subject)
{
	const char *dot = strrchr(subject, '.');
	int64_t token = 0;

	return dot && wh_parse_int(dot + 1, &token) ? token : 0;
}

/* The answer in a message, which it destroys. */
static wh_nats_answer answer_of(natsMsg *msg)
{
	wh_nats_answer answer = {.outcome = WH_NATS_UNANSWERED};

	if (!natsMsg_IsNoResponders(msg))
		answer = wh_nats_answer_read(natsMsg_GetData(msg),
					     (size_t)natsMsg_GetDataLength(msg));
	answer.token = token_of(natsMsg_GetSubject(msg));
	natsMsg_Destroy(msg);
	return answer;
}

/* A thread of libnats calls this.  While more answers wait, it gives none to the relay, so that it
 * wakes the relay less often.  A synchronous subscription would need no thread, but hides which
 * message has no responders. */
static void on_reply(natsConnection *connection, natsSubscription *sub, natsMsg *msg,
		     void *closure)
{
	wh_nats_link *link = closure;
	wh_nats_answer answer = answer_of(msg);
	int more = 0;

	(void)connection;
	if (answer.token == stream_token) {
		/* STRANGE: it is a description of the stream. */
		note_stream(link, &answer,
			    answer.outcome == WH_NATS_STRANGE ||
				    answer.number == STREAM_EXISTS);
		free(answer.text);
	} else {
		link->heard[link->n_heard++] = answer;
	}
	if (link->n_heard < WH_NATS_HEARD &&
	    natsSubscription_GetPending(sub, &more, NULL) == NATS_OK && more > 0)
		return;
	wh_nats_link_push(link, link->heard, link->n_heard);
	link->n_heard = 0;
}

/* The subject in a text such as "Permissions Violation for Publish to "orders.x"", of which
 * libnats cuts quotes at the end; NULL: the text is another one. */
static const char *forbidden(const char *text, const char *what)
{
	const char *at = text ? strcasestr(text, what) : NULL;

	return at ? at + strlen(what) + strspn(at + strlen(what), "\"'") : NULL;
}

/* A thread of libnats calls this.  The connection may still work. */
static void on_error(natsConnection *connection, natsSubscription *sub, natsStatus status,
		     void *closure)
{
	wh_nats_link *link = closure;
	natsStatus last = NATS_OK;
	const char *text = nats_GetLastError(&last);
	const char *subject = forbidden(text, "Permissions Violation for Publish to ");
	wherry_error why = WHERRY_ERROR_INIT;

	(void)connection;
	(void)sub;
	if (subject && strncmp(subject, "$JS.", 4) != 0) {
		const wh_nats_answer answer = {
			.subject =
				wh_hash(WH_HASH_START, subject, strcspn(subject, "\"'")),
			.outcome = WH_NATS_FORBIDDEN};

		wh_nats_link_push(link, &answer, 1);
		return;
	}
	if (subject)
		(void)wh_fail(
			&why, WHERRY_DENIED,
			"nats: no right to make the stream %.60s: make it by hand and "
			"leave nats.create_stream out",
			link->set->stream);
	else if (forbidden(text, "Permissions Violation for Subscription to "))
		(void)wh_fail(
			&why, WHERRY_DENIED,
			"nats: no right to read answers: permit this user to subscribe "
			"to _INBOX.>");
	else
		(void)wh_nats_fail(link->set, status, &why);
	wh_nats_link_fail(link, &why);
}

static void on_closed(natsConnection *connection, void *closure)
{
	wh_nats_link *link = closure;

	(void)connection;
	(void)pthread_mutex_lock(&link->lock);
	link->closed = true;
	(void)pthread_cond_signal(&link->changed);
	(void)pthread_mutex_unlock(&link->lock);
}

static void on_deaf(void *closure)
{
	wh_nats_link *link = closure;

	wh_nats_link_push(link, link->heard, link->n_heard);
	link->n_heard = 0;
	(void)pthread_mutex_lock(&link->lock);
	link->deaf = true;
	(void)pthread_cond_signal(&link->changed);
	(void)pthread_mutex_unlock(&link->lock);
}

/* ---- the event loop, as libnats sees it ---- */

static natsStatus attach(void **out, void *loop, natsConnection *connection,
			 natsSock sock)
{
	wh_nats_link *link = loop;

	(void)connection;
	*out = link;
	(void)pthread_mutex_lock(&link->lock);
	link->sock = sock;
	(void)pthread_mutex_unlock(&link->lock);
	return NATS_OK;
}

/* The socket is closed after reading stops. */
static natsStatus set_reading(void *arg, bool on)
{
	wh_nats_link *link = arg;

	(void)pthread_mutex_lock(&link->lock);
	link->sock = on ? link->sock : -1;
	(void)pthread_mutex_unlock(&link->lock);
	return NATS_OK;
}

/* The thread asks libnats itself for the number of bytes to write.  Another thread, which
 * sends a ping, wakes it. */
static natsStatus set_writing(void *arg, bool on)
{
	wh_nats_link *link = arg;

	if (on && !pthread_equal(pthread_self(), link->thread))
		wh_nats_ring(link->wake_fd);
	return NATS_OK;
}

static natsStatus detach(void *arg)
{
	return set_reading(arg, false);
}

/* ---- the thread ---- */

static bool is_leaving(wh_nats_link *link)
{
	bool leaving;

	(void)pthread_mutex_lock(&link->lock);
	leaving = link->leaving || link->error.code != WHERRY_OK;
	(void)pthread_mutex_unlock(&link->lock);
	return leaving;
}

/* False: the link has failed. */
static bool connect_link(wh_nats_link *link)
{
	natsOptions *options = NULL;
	wherry_error why = WHERRY_ERROR_INIT;
	natsStatus s;

	if (wh_nats_options(link->set, &options, &why) != WHERRY_OK) {
		wh_nats_link_fail(link, &why);
		return false;
	}
	s = natsOptions_SetEventLoop(options, link, attach, set_reading, set_writing,
				     detach);
	if (s == NATS_OK)
		s = natsOptions_SetErrorHandler(options, on_error, link);
	if (s == NATS_OK)
		s = natsOptions_SetClosedCB(options, on_closed, link);
	if (s == NATS_OK)
		s = natsConnection_Connect(&link->connection, options);
	if (s != NATS_OK)
		fail_by(link, s);
	natsOptions_Destroy(options);
	return s == NATS_OK;
}

static bool subscribe(wh_nats_link *link)
{
	char all[WH_NATS_REPLY_LEN];
	natsStatus s;

	(void)snprintf(all, sizeof(all), "%s.*", link->inbox);
	s = natsConnection_Subscribe(&link->replies, link->connection, all, on_reply,
				     link);
	if (s == NATS_OK)
		s = natsSubscription_SetOnCompleteCB(link->replies, on_deaf, link);
	link->subscribed = s == NATS_OK;
	if (s == NATS_OK)
		s = natsSubscription_SetPendingLimits(link->replies, -1, -1);
	if (s != NATS_OK)
		fail_by(link, s);
	return s == NATS_OK;
}

/* {"name":"ORDERS","subjects":["orders.>"],"num_replicas":3,…} */
static char *describe_stream(const wh_nats_settings *set)
{
	json_t *subjects = json_array();
	json_t *all;
	char *text;

	for (const char *at = set->create; *at; at += *at == ',') {
		size_t len = strcspn(at, ",");

		if (len)
			(void)json_array_append_new(subjects, json_stringn(at, len));
		at += len;
	}
	all = json_pack("{s:s, s:o, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:I}", "name",
			set->stream, "subjects", subjects, "storage", "file", "retention",
			"limits", "discard", "old", "num_replicas", (int)set->replicas,
			"max_consumers", -1, "max_msgs", -1, "max_bytes", -1,
			"duplicate_window", (json_int_t)120 * 1000000000);
	text = all ? json_dumps(all, JSON_COMPACT) : NULL;
	json_decref(all);
	return text;
}

static bool ask_for_stream(wh_nats_link *link)
{
	char subject[300], reply[WH_NATS_REPLY_LEN];
	char *text = describe_stream(link->set);
	natsStatus s = text ? NATS_OK : NATS_NO_MEMORY;

	(void)snprintf(subject, sizeof(subject), "$JS.API.STREAM.CREATE.%.255s",
		       link->set->stream);
	wh_nats_link_reply(link, stream_token, reply);
	if (s == NATS_OK)
		s = natsConnection_PublishRequestString(link->connection, subject, reply,
							text);
	free(text);
	if (s != NATS_OK)
		fail_by(link, s);
	return s == NATS_OK;
}

/* Take the first batch to publish; NULL: none now. */
static wh_nats_batch *take_out(wh_nats_link *link)
{
	wh_nats_batch *batch = NULL;

	(void)pthread_mutex_lock(&link->lock);
	if (link->stream == WH_NATS_MADE && link->out) {
		batch = link->out;
		link->out = batch->next;
	}
	(void)pthread_mutex_unlock(&link->lock);
	return batch;
}

static void publish_one(wh_nats_link *link, natsMsg *msg)
{
	natsStatus s = natsConnection_PublishMsg(link->connection, msg);
	wh_nats_answer answer = {.outcome = WH_NATS_TOO_LARGE};
	char text[200];

	if (s == NATS_OK)
		return;
	if (s != NATS_MAX_PAYLOAD) {
		fail_by(link, s);
		return;
	}
	(void)snprintf(text, sizeof(text),
		       "its body and headers are over %" PRId64
		       " bytes, the server's max_payload: raise it, " WH_OR_BODY_STORE,
		       natsConnection_GetMaxPayload(link->connection));
	answer.token = token_of(natsMsg_GetReply(msg));
	answer.text = strdup(text);
	wh_nats_link_push(link, &answer, 1);
}

/* Publish while little waits to be written. */
static void publish(wh_nats_link *link)
{
	wh_nats_batch *batch;

	while (natsConnection_Buffered(link->connection) < BUFFERED_MOST &&
	       (batch = take_out(link))) {
		for (size_t i = 0; i < batch->n; i++)
			publish_one(link, batch->msgs[i]);
		wh_nats_batch_free(batch);
	}
}

/* Wait until there is something to do, and read.  False: the connection is closed. */
static bool move_bytes(wh_nats_link *link)
{
	struct pollfd polled[2] = {{.fd = link->wake_fd, .events = POLLIN},
				   {.fd = -1, .events = POLLIN}};

	if (natsConnection_Buffered(link->connection) > 0)
		natsConnection_ProcessWriteEvent(link->connection);
	if (natsConnection_Buffered(link->connection) > 0)
		polled[1].events |= POLLOUT;
	(void)pthread_mutex_lock(&link->lock);
	polled[1].fd = link->sock;
	(void)pthread_mutex_unlock(&link->lock);
	if (polled[1].fd >= 0)
		(void)poll(polled, 2, -1);
	if (polled[0].revents)
		wh_nats_hush(link->wake_fd);
	if (polled[1].revents & (POLLIN | POLLERR | POLLHUP))
		natsConnection_ProcessReadEvent(link->connection);
	return !natsConnection_IsClosed(link->connection);
}

static void fail_closed(wh_nats_link *link)
{
	const char *text = NULL;
	natsStatus s = natsConnection_GetLastError(link->connection, &text);
	wherry_error why = WHERRY_ERROR_INIT;
	char before[100];

	(void)snprintf(before, sizeof(before), "nats: the connection to %.60s ended",
		       link->set->hosts);
	if (s == NATS_CONNECTION_AUTH_FAILED)
		(void)wh_nats_fail(link->set, s, &why);
	else
		(void)wh_fail_answer(&why, WHERRY_CLOSED, (int)s, before,
				     text && *text ? text : natsStatus_GetText(s), NULL);
	wh_nats_link_fail(link, &why);
}

static void run(wh_nats_link *link)
{
	if (!connect_link(link))
		return;
	link->connected = true;
	atomic_store(&link->max_payload,
		     (size_t)natsConnection_GetMaxPayload(link->connection));
	if (!subscribe(link) || (link->set->create && !ask_for_stream(link)))
		return;
	while (!is_leaving(link)) {
		publish(link);
		if (!move_bytes(link)) {
			fail_closed(link);
			return;
		}
	}
}

/* Close the connection, and wait until no thread of libnats uses the link. */
static void disconnect(wh_nats_link *link)
{
	if (!link->connected)
		return;
	natsConnection_Close(link->connection);
	(void)pthread_mutex_lock(&link->lock);
	while (!link->closed || (link->subscribed && !link->deaf))
		(void)pthread_cond_wait(&link->changed, &link->lock);
	(void)pthread_mutex_unlock(&link->lock);
	natsSubscription_Destroy(link->replies);
	natsConnection_Destroy(link->connection);
}

static void *work(void *arg)
{
	wh_nats_link *link = arg;
	bool abandoned;

	run(link);
	(void)pthread_mutex_lock(&link->lock);
	while (!link->leaving) /* The error waits to be read. */
		(void)pthread_cond_wait(&link->changed, &link->lock);
	(void)pthread_mutex_unlock(&link->lock);
	disconnect(link);
	nats_ReleaseThreadMemory();
	(void)pthread_mutex_lock(&link->lock);
	link->ended = true;
	abandoned = link->abandoned;
	(void)pthread_mutex_unlock(&link->lock);
	if (abandoned)
		wh_nats_link_destroy(link);
	return NULL;
}

size_t wh_nats_link_most(wh_nats_link *link)
{
	return atomic_load(&link->max_payload);
}

wherry_code wh_nats_link_new(wh_nats_settings *set, uint64_t random, wh_nats_link **out,
			     wherry_error *err)
{
	wh_nats_link *link = calloc(1, sizeof(*link));

	if (!link)
		return wh_oom(err);
	link->set = wh_nats_settings_share(set);
	link->sock = -1;
	link->stream = set->create ? WH_NATS_MAKING : WH_NATS_MADE;
	(void)snprintf(link->inbox, sizeof(link->inbox), "_INBOX.%016" PRIx64, random);
	link->answers_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	link->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	(void)pthread_mutex_init(&link->lock, NULL);
	(void)pthread_cond_init(&link->changed, NULL);
	if (link->answers_fd >= 0 && link->wake_fd >= 0 &&
	    wh_thread_start(&link->thread, WH_JOINED, work, link)) {
		*out = link;
		return WHERRY_OK;
	}
	wh_nats_link_destroy(link);
	return wh_fail(err, WHERRY_CLOSED,
		       "nats: there are too many threads or open files");
}
