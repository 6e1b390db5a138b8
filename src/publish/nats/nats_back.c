/*
 * Reading streams back: by an ordered consumer of each subject, which JetStream forgets when the connection ends, without
 * bodies.
 */
#include "publish/nats/nats.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "publish/readback.h"
#include "publish/parts.h"

enum { ASK_MS = 10000, SILENCE_MS = 60000, SUBJECTS_MOST = 1000, NS_PER_US = 1000 };

/* Clocks of producers, databases and servers differ. */
static const int64_t margin_us = INT64_C(10) * 60 * 1000000;

/* Stands for a key where the subjects of all keys are asked for. */
static const char any_key[] = "wherry-any-key";

typedef struct place {
	char *subject;        /* With a * for the key. */
	char *stream;         /* NULL: no stream has the subject. */
	uint64_t first, last; /* Sequence numbers that the stream has. */
	int64_t first_us;     /* When the first was stored. */
	bool compacts;        /* The stream keeps some messages of each subject. */
	/* The first message that was read of the subject. */
	bool seen;
	uint64_t seen_seq;
	char id[WH_STORED_ID];
} place;

typedef struct back {
	wh_readback base;
	wh_nats_settings *set;
	natsConnection *connection;
	jsCtx *js;
	place *places;
	size_t n;
	int64_t since_us;
	pthread_mutex_t lock;
	char refused[200]; /* The last error that the server sent; guarded by the lock. */
} back;

/* ---- errors ---- */

/* A thread of libnats calls this. */
static void on_error(natsConnection *connection, natsSubscription *sub, natsStatus status,
		     void *closure)
{
	back *b = closure;
	natsStatus last = NATS_OK;
	const char *text = nats_GetLastError(&last);

	(void)connection;
	(void)sub;
	(void)status;
	(void)pthread_mutex_lock(&b->lock);
	(void)snprintf(b->refused, sizeof(b->refused), "%s", text ? text : "");
	(void)pthread_mutex_unlock(&b->lock);
}

static wherry_code fail(back *b, natsStatus status, const char *what, wherry_error *err)
{
	char refused[sizeof(b->refused)];
	bool denied;

	(void)pthread_mutex_lock(&b->lock);
	memcpy(refused, b->refused, sizeof(refused));
	(void)pthread_mutex_unlock(&b->lock);
	denied = strcasestr(refused, "permissions violation");
	if (denied)
		return wh_fail_answer(
			err, WHERRY_DENIED, (int)status,
			"nats: no right to read the stream back", refused,
			"permit this user to publish to $JS.API.STREAM.* and "
			"$JS.API.CONSUMER.*, and to subscribe to _INBOX.>");
	if (status == NATS_NO_RESPONDERS || status == NATS_TIMEOUT)
		return wh_fail_native(err, WHERRY_CLOSED, (int)status,
				      "nats: %.60s: JetStream does not answer to %.60s",
				      b->set->hosts, what);
	(void)wh_nats_fail(b->set, status, err);
	return wh_prefix(err, err ? err->code : WHERRY_CLOSED, "%s", what);
}

static wherry_code connect_back(back *b, wherry_error *err)
{
	natsOptions *options = NULL;
	natsStatus s;
	wherry_code code = wh_nats_start(err);

	if (code == WHERRY_OK)
		code = wh_nats_options(b->set, &options, err);
	if (code != WHERRY_OK)
		return code;
	s = natsOptions_SetErrorHandler(options, on_error, b);
	if (s == NATS_OK)
		s = natsConnection_Connect(&b->connection, options);
	if (s == NATS_OK)
		s = natsConnection_JetStream(&b->js, b->connection, NULL);
	natsOptions_Destroy(options);
	return s == NATS_OK ? WHERRY_OK : wh_nats_fail(b->set, s, err);
}

/* ---- subjects and their streams ---- */

/* Replace names that have the key by *. */
static void hide_key(char *subject)
{
	char *to = subject;

	for (char *at = subject; *at;) {
		size_t len = strcspn(at, ".");

		if (memmem(at, len, any_key, sizeof(any_key) - 1))
			*to++ = '*';
		else {
			memmove(to, at, len);
			to += len;
		}
		at += len;
		if (*at)
			*to++ = *at++;
	}
	*to = 0;
}

/* The place where messages of this topic go to; "": they have no subject. */
static void subject_of(const back *b, const char *topic, char out[WH_NATS_SUBJECT_LEN])
{
	const wherry_message message = {
		.size = sizeof(message), .topic = topic, .key = any_key};

	*out = 0;
	if (wh_nats_subject(b->set->subject, &message, out, NULL) == WHERRY_OK)
		hide_key(out);
	else
		*out = 0;
}

static place *find_place(const back *b, const char *subject)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->places[i].subject && strcmp(b->places[i].subject, subject) == 0)
			return &b->places[i];
	return NULL;
}

static wherry_code list_places(back *b, const wh_readback_ask *ask, wherry_error *err)
{
	char subject[WH_NATS_SUBJECT_LEN];

	b->places = calloc(ask->n_topics + 1, sizeof(*b->places));
	if (!b->places)
		return wh_oom(err);
	for (size_t i = 0; i < ask->n_topics; i++) {
		subject_of(b, ask->topics[i], subject);
		if (!*subject || find_place(b, subject))
			continue;
		b->places[b->n].subject = strdup(subject);
		if (!b->places[b->n].subject)
			return wh_oom(err);
		if (++b->n > SUBJECTS_MOST)
			return wh_fail(err, WHERRY_TOOBIG,
				       "nats: the messages have more than %d subjects: "
				       "compare a shorter time with --since and --until",
				       SUBJECTS_MOST);
	}
	return WHERRY_OK;
}

/* {"streams":["ORDERS"], …}; NULL: none. */
static char *first_stream(const char *data, size_t len)
{
	json_t *all = json_loadb(data, len, 0, NULL);
	const char *name =
		json_string_value(json_array_get(json_object_get(all, "streams"), 0));
	char *out = name ? strdup(name) : NULL;

	json_decref(all);
	return out;
}

/* Ask which stream has the subject. */
static wherry_code find_stream(back *b, place *p, wherry_error *err)
{
	json_t *ask = json_pack("{s:s}", "subject", p->subject);
	char *text = ask ? json_dumps(ask, JSON_COMPACT) : NULL;
	natsMsg *answer = NULL;
	natsStatus s = NATS_NO_MEMORY;

	if (b->set->stream)
		p->stream = strdup(b->set->stream);
	else if (text)
		s = natsConnection_RequestString(&answer, b->connection,
						 "$JS.API.STREAM.NAMES", text, ASK_MS);
	if (answer)
		p->stream = first_stream(natsMsg_GetData(answer),
					 (size_t)natsMsg_GetDataLength(answer));
	natsMsg_Destroy(answer);
	free(text);
	json_decref(ask);
	if (!b->set->stream && s != NATS_OK)
		return fail(b, s, "the question which stream has the subject", err);
	if (!p->stream)
		wh_buf_printf(&b->base.notes, "nats: no stream has the subject '%s'\n",
			      p->subject);
	return WHERRY_OK;
}

/* Of such a stream nobody can know whether a message was lost or handled. */
static wherry_code refuse_queue(const place *p, wherry_error *err)
{
	return wh_fail(err, WHERRY_UNSUPPORTED,
		       "nats: stream '%.60s' deletes messages when they are "
		       "acknowledged, so it cannot be read back; if its receiver has an "
		       "inbox, --inbox URL#inbox compares with that",
		       p->stream);
}

static wherry_code look_at_stream(back *b, place *p, wherry_error *err)
{
	jsStreamInfo *info = NULL;
	jsErrCode error = 0;
	wherry_code code = WHERRY_OK;
	natsStatus s;

	if (!p->stream)
		return WHERRY_OK;
	s = js_GetStreamInfo(&info, b->js, p->stream, NULL, &error);
	if (s == NATS_NOT_FOUND) {
		wh_buf_printf(&b->base.notes, "nats: stream '%s' does not exist\n",
			      p->stream);
		free(p->stream);
		p->stream = NULL;
		return WHERRY_OK;
	}
	if (s != NATS_OK)
		return fail(b, s, "the question what the stream has", err);
	if (info->Config->Retention != js_LimitsPolicy)
		code = refuse_queue(p, err);
	p->first = info->State.FirstSeq;
	p->last = info->State.LastSeq;
	p->first_us = info->State.FirstTime / NS_PER_US;
	p->compacts = info->Config->MaxMsgsPerSubject > 0;
	b->base.compacts |= p->compacts;
	if (info->Config->Duplicates / NS_PER_US > b->base.recent_us)
		b->base.recent_us = info->Config->Duplicates / NS_PER_US;
	jsStreamInfo_Destroy(info);
	return code;
}

/* ---- reading ---- */

static wherry_code take_message(place *p, natsMsg *msg, const jsMsgMetaData *meta,
				wh_stored_fn visit, void *ctx, wherry_error *err)
{
	const char *id = NULL;
	wh_stored stored = {.at_us = meta->Timestamp / NS_PER_US};

	if (natsMsgHeader_Get(msg, "Nats-Msg-Id", &id) == NATS_OK)
		stored.id = wh_view_of(id);
	stored.topic = wh_view_of(p->subject);
	stored.slot = wh_view_of(p->compacts ? natsMsg_GetSubject(msg) : NULL);
	if (!p->seen) {
		p->seen = true;
		p->seen_seq = meta->Sequence.Stream;
		(void)snprintf(p->id, sizeof(p->id), "%s", id ? id : "");
	}
	return visit(ctx, &stored, err);
}

static natsStatus subscribe(back *b, const place *p, natsSubscription **out,
			    uint64_t *out_n)
{
	int64_t from_us = b->since_us - margin_us;
	jsConsumerInfo *info = NULL;
	jsSubOptions options;
	natsStatus s;

	(void)jsSubOptions_Init(&options);
	options.Stream = p->stream;
	options.Ordered = true;
	options.Config.HeadersOnly = true;
	options.Config.DeliverPolicy = js_DeliverByStartTime;
	options.Config.OptStartTime = (from_us > 0 ? from_us : 1) * NS_PER_US;
	s = js_SubscribeSync(out, b->js, p->subject, NULL, &options, NULL);
	if (s == NATS_OK)
		(void)natsSubscription_SetPendingLimits(*out, -1, -1);
	if (s == NATS_OK)
		s = natsSubscription_GetConsumerInfo(&info, *out, NULL, NULL);
	if (s == NATS_OK)
		*out_n = info->NumPending + info->Delivered.Consumer;
	jsConsumerInfo_Destroy(info);
	return s;
}

static wherry_code read_place(back *b, place *p, wh_stored_fn visit, void *ctx,
			      wherry_error *err)
{
	natsSubscription *sub = NULL;
	uint64_t left = 0;
	natsStatus s = subscribe(b, p, &sub, &left);
	wherry_code code =
		s == NATS_OK ? WHERRY_OK : fail(b, s, "the request to read it", err);
	bool end = !left;

	while (code == WHERRY_OK && !end) {
		natsMsg *msg = NULL;
		jsMsgMetaData *meta = NULL;

		s = natsSubscription_NextMsg(&msg, sub, SILENCE_MS);
		if (s == NATS_OK)
			s = natsMsg_GetMetaData(&meta, msg);
		if (s != NATS_OK)
			code = fail(b, s, "the request for more messages", err);
		else if (meta->Sequence.Stream <= p->last)
			code = take_message(p, msg, meta, visit, ctx, err);
		end = meta && (meta->Sequence.Stream >= p->last || !meta->NumPending);
		jsMsgMetaData_Destroy(meta);
		natsMsg_Destroy(msg);
	}
	natsSubscription_Destroy(sub);
	return code;
}

static wherry_code read_all(wh_readback *base, wh_stored_fn visit, void *ctx,
			    wherry_error *err)
{
	back *b = (back *)base;
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < b->n; i++)
		if (b->places[i].stream && b->places[i].last)
			code = read_place(b, &b->places[i], visit, ctx, err);
	return code;
}

/* ---- what the stream removed ---- */

static void edge(wh_readback *base, const wherry_message *message, wh_edge *out)
{
	const back *b = (const back *)base;
	char subject[WH_NATS_SUBJECT_LEN];
	const place *p;

	*out = (wh_edge){.removed = false};
	subject_of(b, message->topic, subject);
	p = find_place(b, subject);
	(void)snprintf(out->topic, sizeof(out->topic), "%.*s", WH_STORED_TOPIC - 1,
		       subject);
	if (!p || !p->stream)
		return;
	out->compacts = p->compacts;
	if (wh_nats_subject(b->set->subject, message, subject, NULL) == WHERRY_OK)
		(void)snprintf(out->slot, sizeof(out->slot), "%s", subject);
	/* A stream counts on when it is emptied. */
	out->removed = p->first > 1;
	out->empty = p->first > p->last;
	out->first_us = p->first_us;
	if (p->seen && p->seen_seq == p->first)
		(void)snprintf(out->first, sizeof(out->first), "%s", p->id);
}

/* ---- opening and closing ---- */

static void close_back(wh_readback *base)
{
	back *b = (back *)base;

	jsCtx_Destroy(b->js);
	natsConnection_Destroy(b->connection);
	for (size_t i = 0; i < b->n; i++) {
		free(b->places[i].subject);
		free(b->places[i].stream);
	}
	free(b->places);
	wh_nats_settings_leave(b->set);
	wh_buf_clear(&b->base.notes);
	(void)pthread_mutex_destroy(&b->lock);
	free(b);
}

static wherry_code open_for(bool secure, const wh_readback_driver *driver,
			    const char *rest, const wherry_config *config,
			    const wh_readback_ask *ask, wh_readback **out,
			    wherry_error *err)
{
	back *b = calloc(1, sizeof(*b));
	wherry_code code;

	if (!b)
		return wh_oom(err);
	b->base = (wh_readback){.driver = driver, .notes = WH_BUF_INIT(64 * 1024)};
	b->since_us = ask->since_us;
	(void)pthread_mutex_init(&b->lock, NULL);
	code = wh_nats_settings_read(secure, rest, config, &b->set, err);
	if (code == WHERRY_OK)
		code = list_places(b, ask, err);
	if (code == WHERRY_OK)
		code = connect_back(b, err);
	for (size_t i = 0; code == WHERRY_OK && i < b->n; i++) {
		code = find_stream(b, &b->places[i], err);
		if (code == WHERRY_OK)
			code = look_at_stream(b, &b->places[i], err);
	}
	if (code == WHERRY_OK)
		*out = &b->base;
	else
		close_back(&b->base);
	return code;
}

static wherry_code open_plain(const char *rest, const wherry_config *config,
			      const wh_readback_ask *ask, wh_readback **out,
			      wherry_error *err)
{
	return open_for(false, &wh_readback_nats, rest, config, ask, out, err);
}

static wherry_code open_secure(const char *rest, const wherry_config *config,
			       const wh_readback_ask *ask, wh_readback **out,
			       wherry_error *err)
{
	return open_for(true, &wh_readback_nats_tls, rest, config, ask, out, err);
}

const wh_readback_driver wh_readback_nats = {
	.open = open_plain,
	.read = read_all,
	.edge = edge,
	.close = close_back,
};

const wh_readback_driver wh_readback_nats_tls = {
	.open = open_secure,
	.read = read_all,
	.edge = edge,
	.close = close_back,
};
