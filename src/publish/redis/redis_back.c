/*
 * Reading streams back with XRANGE, from the master.
 *
 * If the template has {key}, SCAN finds the streams of all keys.  Of a cluster that would have to ask each master, and is
 * refused.
 */
#include "publish/redis/redis.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/text.h"
#include "publish/readback.h"
#include "publish/parts.h"

enum {
	NODES_MOST = 64,
	POLL_MS = 200,
	REDIRECTS_MOST = 5,
	ID_LEN = 48,
	US_PER_MS = 1000
};

/* Silence of a server, in microseconds. */
static const int64_t silence_us = INT64_C(60) * 1000000;

/* Clocks of producers, databases and servers differ. */
static const int64_t margin_us = INT64_C(10) * 60 * 1000000;

/* Stands for a key where the streams of all keys are asked for. */
static const char any_key[] = "wherry-any-key";

typedef struct place {
	char *stream;
	char last
		[ID_LEN]; /* The last entry that it ever had; "": there is no such stream. */
	bool removed, empty;
	char first[WH_STORED_ID]; /* Message id of the first entry. */
	int64_t first_us;
} place;

typedef struct back {
	wh_readback base;
	wh_redis_settings set;
	const wh_env *env;
	int epoll_fd;
	wh_redis_node nodes[NODES_MOST];
	size_t n_nodes;
	wh_redis_node *main; /* The master, or a node of the cluster. */
	place *places;       /* Sorted by their streams. */
	size_t n, cap;
	int64_t since_us;
} back;

/* ---- servers ---- */

static wherry_code fail_of(const wh_redis_node *node, wherry_code code, wherry_error *err)
{
	return wh_prefix(err, code, "redis: %s:%d", node->host.name, node->host.port);
}

/* Step the node until it is ready, or has answered. */
static wherry_code await(back *b, wh_redis_node *node, bool answer, wherry_error *err)
{
	int64_t until_us = wh_monotonic(b->env) + silence_us;

	for (;;) {
		struct epoll_event events[4];
		wherry_code code = wh_redis_node_step(node, &b->set, b->env, err);

		if (answer ? node->answer != NULL : code == WHERRY_OK && node->ready)
			return WHERRY_OK;
		if (code != WHERRY_OK)
			return fail_of(node, code, err);
		if (wh_monotonic(b->env) > until_us)
			return fail_of(node,
				       wh_fail(err, WHERRY_CLOSED,
					       "it has sent nothing for a minute"),
				       err);
		(void)epoll_wait(b->epoll_fd, events, 4, POLL_MS);
	}
}

static wherry_code connect_to(back *b, const wh_redis_host *host, bool sentinel,
			      wh_redis_node **out, wherry_error *err)
{
	wh_redis_node *node = &b->nodes[b->n_nodes];
	wherry_code code;

	for (size_t i = 0; i < b->n_nodes; i++)
		if (b->nodes[i].link && b->nodes[i].host.port == host->port &&
		    b->nodes[i].sentinel == sentinel &&
		    strcmp(b->nodes[i].host.name, host->name) == 0) {
			*out = &b->nodes[i];
			return WHERRY_OK;
		}
	if (b->n_nodes == NODES_MOST)
		return wh_fail(err, WHERRY_TOOBIG, "redis: there are more than %d nodes",
			       NODES_MOST);
	*node = (wh_redis_node){.host = *host, .sentinel = sentinel};
	code = wh_redis_node_connect(node, &b->set, b->epoll_fd, wh_monotonic(b->env),
				     err);
	if (code != WHERRY_OK)
		return fail_of(node, code, err);
	b->n_nodes++;
	code = await(b, node, false, err);
	if (code == WHERRY_OK)
		*out = node;
	else
		wh_redis_node_close(node);
	return code;
}

/* Ask a node.  The caller frees *out with freeReplyObject(). */
static wherry_code ask(back *b, wh_redis_node *node, const char *const *words,
		       redisReply **out, wherry_error *err)
{
	wherry_code code = wh_redis_node_ask(node, words, err);

	if (code == WHERRY_OK)
		code = await(b, node, true, err);
	if (code != WHERRY_OK)
		return code;
	*out = node->answer;
	node->answer = NULL;
	return WHERRY_OK;
}

/* The master that a sentinel names. */
static wherry_code ask_sentinel(back *b, const wh_redis_host *host, wh_redis_node **out,
				wherry_error *err)
{
	const char *const words[] = {"SENTINEL", "get-master-addr-by-name", b->set.master,
				     NULL};
	wh_redis_host master = {.port = 0};
	wh_redis_node *node = NULL;
	redisReply *reply = NULL;
	int64_t port = 0;
	wherry_code code = connect_to(b, host, true, &node, err);

	if (code == WHERRY_OK)
		code = ask(b, node, words, &reply, err);
	if (code != WHERRY_OK)
		return code;
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
	    reply->element[0]->str && reply->element[1]->str &&
	    wh_parse_int(reply->element[1]->str, &port) && port > 0 && port < 65536) {
		(void)snprintf(master.name, sizeof(master.name), "%s",
			       reply->element[0]->str);
		master.port = (int)port;
	} else {
		code = wh_fail(err, WHERRY_CLOSED,
			       "redis: the sentinel %s:%d knows no master '%.80s'",
			       host->name, host->port, b->set.master);
	}
	freeReplyObject(reply);
	return code == WHERRY_OK ? connect_to(b, &master, false, out, err) : code;
}

/* Connect to the first host that is a master, or names it. */
static wherry_code find_main(back *b, wherry_error *err)
{
	wherry_code code = WHERRY_CLOSED;

	for (size_t i = 0; i < b->set.n_hosts; i++) {
		wh_redis_node *node = NULL;

		code = b->set.master ? ask_sentinel(b, &b->set.hosts[i], &node, err)
				     : connect_to(b, &b->set.hosts[i], false, &node, err);
		if (code == WHERRY_OK && node->is_replica && !node->in_cluster)
			code = fail_of(node,
				       wh_fail(err, WHERRY_CLOSED,
					       "it is a replica, and the master counts"),
				       err);
		if (code != WHERRY_OK)
			continue;
		b->main = node;
		return WHERRY_OK;
	}
	return code;
}

/* ---- commands ---- */

static wherry_code refused(const char *why, wherry_error *err)
{
	if (strncmp(why, "NOPERM", 6) == 0)
		return wh_fail_answer(
			err, WHERRY_DENIED, 0, "redis: no right to read the streams back",
			why, "`ACL SETUSER NAME +xrange +xinfo|stream +scan` gives it");
	return wh_fail_answer(err, WHERRY_CLOSED, 0, "redis", why, NULL);
}

/* "MOVED 3999 127.0.0.1:6381" */
static bool read_moved(const char *error, const wh_redis_node *from, wh_redis_host *out)
{
	const char *slot = strncmp(error, "MOVED ", 6) == 0 ? error + 6 : NULL;
	const char *host = slot ? strchr(slot, ' ') : NULL;
	const char *colon = host ? strrchr(host, ':') : NULL;
	int64_t port;

	if (!colon || !wh_parse_int(colon + 1, &port) || port < 1 || port > 65535)
		return false;
	*out = from->host;
	out->port = (int)port;
	if (colon > host + 1)
		(void)snprintf(out->name, sizeof(out->name), "%.*s",
			       (int)(colon - host - 1), host + 1);
	return true;
}

/* Ask the node that has the stream of the command. */
static wherry_code command(back *b, const char *const *words, redisReply **out,
			   wherry_error *err)
{
	wh_redis_node *node = b->main;

	for (int i = 0; i < REDIRECTS_MOST; i++) {
		redisReply *reply = NULL;
		wh_redis_host host;
		wherry_code code = ask(b, node, words, &reply, err);

		if (code != WHERRY_OK)
			return code;
		if (reply->type != REDIS_REPLY_ERROR ||
		    strncmp(reply->str, "ERR no such key", 15) == 0) {
			*out = reply;
			return WHERRY_OK;
		}
		if (!read_moved(reply->str, node, &host)) {
			code = refused(reply->str, err);
			freeReplyObject(reply);
			return code;
		}
		freeReplyObject(reply);
		code = connect_to(b, &host, false, &node, err);
		if (code != WHERRY_OK)
			return code;
	}
	return wh_fail(err, WHERRY_CLOSED, "redis: the cluster moves its slots");
}

/* ---- the streams ---- */

static wherry_code add_place(back *b, const char *stream, wherry_error *err)
{
	if (b->n == b->cap) {
		size_t cap = b->cap ? 2 * b->cap : 64;
		place *places = realloc(b->places, cap * sizeof(*places));

		if (!places)
			return wh_oom(err);
		b->places = places;
		b->cap = cap;
	}
	b->places[b->n] = (place){.stream = strdup(stream)};
	if (!b->places[b->n].stream)
		return wh_oom(err);
	b->n++;
	return WHERRY_OK;
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const place *)a)->stream, ((const place *)b)->stream);
}

/* Sort them, and leave each stream once. */
static void sort_places(back *b)
{
	size_t n = 0;

	if (b->n)
		qsort(b->places, b->n, sizeof(*b->places), compare);
	for (size_t i = 0; i < b->n; i++) {
		if (n && compare(&b->places[n - 1], &b->places[i]) == 0)
			free(b->places[i].stream);
		else
			b->places[n++] = b->places[i];
	}
	b->n = n;
}

static const char *template_of(const back *b)
{
	const wh_redis_settings *set = &b->set;

	return set->stream;
}

/* The pattern of SCAN for the streams of all keys. */
static void put_pattern(wh_buf *out, const char *stream)
{
	for (const char *at = stream; *at;) {
		if (strncmp(at, any_key, sizeof(any_key) - 1) == 0) {
			wh_buf_putc(out, '*');
			at += sizeof(any_key) - 1;
			continue;
		}
		if (strchr("*?[]\\^", *at))
			wh_buf_putc(out, '\\');
		wh_buf_putc(out, *at++);
	}
}

/* [cursor, [key, …]] */
static wherry_code take_scan(back *b, const redisReply *reply, char cursor[32],
			     wherry_error *err)
{
	const redisReply *keys = reply->elements == 2 ? reply->element[1] : NULL;
	wherry_code code = WHERRY_OK;

	(void)snprintf(cursor, 32, "%s",
		       keys && reply->element[0]->str ? reply->element[0]->str : "0");
	for (size_t i = 0; code == WHERRY_OK && keys && i < keys->elements; i++)
		if (keys->element[i]->str)
			code = add_place(b, keys->element[i]->str, err);
	return code;
}

static wherry_code scan(back *b, const char *stream, wherry_error *err)
{
	wh_buf pattern = WH_BUF_INIT(2 * WH_REDIS_STREAM_LEN);
	char cursor[32] = "0";
	wherry_code code;

	if (b->main->in_cluster)
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "redis: a cluster with a stream for each key cannot be "
			       "read back; if its receiver has an inbox, --inbox "
			       "URL#inbox compares with that");
	put_pattern(&pattern, stream);
	code = wh_buf_check(&pattern, err);
	do {
		const char *const words[] = {
			"SCAN", cursor,   "MATCH", wh_buf_str(&pattern), "COUNT", "1000",
			"TYPE", "stream", NULL};
		redisReply *reply = NULL;

		if (code == WHERRY_OK)
			code = command(b, words, &reply, err);
		if (code == WHERRY_OK)
			code = take_scan(b, reply, cursor, err);
		if (reply)
			freeReplyObject(reply);
	} while (code == WHERRY_OK && strcmp(cursor, "0") != 0);
	wh_buf_clear(&pattern);
	return code;
}

static wherry_code list_places(back *b, const wh_readback_ask *asked, wherry_error *err)
{
	char stream[WH_REDIS_STREAM_LEN];
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < asked->n_topics; i++) {
		const wherry_message message = {.size = sizeof(message),
						.topic = asked->topics[i],
						.key = any_key};

		if (wh_redis_stream(template_of(b), &message, stream, NULL) != WHERRY_OK)
			continue;
		code = strstr(stream, any_key) ? scan(b, stream, err)
					       : add_place(b, stream, err);
	}
	sort_places(b);
	return code;
}

/* ---- entries ---- */

/* The value behind a name in [name, value, …]. */
static const redisReply *value_of(const redisReply *all, const char *name)
{
	for (size_t i = 0; i + 1 < all->elements; i += 2)
		if (all->element[i]->str && strcmp(all->element[i]->str, name) == 0)
			return all->element[i + 1];
	return NULL;
}

/* "1526919030474-55", in microseconds */
static int64_t time_of(const char *id)
{
	char text[ID_LEN];
	int64_t ms = 0;

	(void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(id, "-"), id);
	return wh_parse_int(text, &ms) && ms < INT64_MAX / US_PER_MS ? ms * US_PER_MS : 0;
}

/* [id, [name, value, …]]; NULL: it is not one. */
static const char *entry_id(const redisReply *entry)
{
	return entry && entry->type == REDIS_REPLY_ARRAY && entry->elements == 2
		       ? entry->element[0]->str
		       : NULL;
}

static wh_view message_id_of(const redisReply *entry)
{
	const redisReply *id = value_of(entry->element[1], "message_id");

	return id && id->str ? (wh_view){id->str, (size_t)id->len} : (wh_view){NULL, 0};
}

/* Servers before Redis 7 do not count the entries that were added: then some may be gone. */
static void take_info(place *p, const redisReply *info)
{
	const redisReply *length = value_of(info, "length");
	const redisReply *last = value_of(info, "last-generated-id");
	const redisReply *added = value_of(info, "entries-added");
	const redisReply *first = value_of(info, "first-entry");
	const char *id = entry_id(first);

	(void)snprintf(p->last, sizeof(p->last), "%s",
		       last && last->str ? last->str : "");
	p->empty = !id;
	p->removed = !added || !length || added->integer > length->integer;
	if (!id)
		return;
	p->first_us = time_of(id);
	(void)snprintf(p->first, sizeof(p->first), "%.*s", (int)message_id_of(first).len,
		       message_id_of(first).ptr ? message_id_of(first).ptr : "");
}

/* Consumers may delete what they have handled.  Servers before Redis 7 do not say so. */
static bool had_deletions(const redisReply *info)
{
	const redisReply *id = value_of(info, "max-deleted-entry-id");

	return id && id->str && strcmp(id->str, "0-0") != 0;
}

static wherry_code look_at(back *b, place *p, wherry_error *err)
{
	const char *const words[] = {"XINFO", "STREAM", p->stream, NULL};
	redisReply *reply = NULL;
	wherry_code code = command(b, words, &reply, err);

	if (code != WHERRY_OK)
		return code;
	if (reply->type == REDIS_REPLY_ARRAY) {
		take_info(p, reply);
		if (had_deletions(reply))
			wh_buf_printf(&b->base.notes,
				      "redis: somebody deleted entries of stream '%s' by "
				      "XDEL: if consumers do, these were not lost\n",
				      p->stream);
	} else {
		wh_buf_printf(&b->base.notes, "redis: stream '%s' does not exist\n",
			      p->stream);
	}
	freeReplyObject(reply);
	return WHERRY_OK;
}

/* Visit a page of entries.  from: where the next page begins; "": there is none. */
static wherry_code take_page(const place *p, const redisReply *reply, wh_stored_fn visit,
			     void *ctx, char from[ID_LEN], wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	*from = 0;
	for (size_t i = 0; code == WHERRY_OK && i < reply->elements; i++) {
		const char *id = entry_id(reply->element[i]);
		wh_stored stored;

		if (!id)
			continue;
		stored = (wh_stored){.id = message_id_of(reply->element[i]),
				     .topic = wh_view_of(p->stream),
				     .at_us = time_of(id)};
		(void)snprintf(from, ID_LEN, "(%s", id);
		code = visit(ctx, &stored, err);
	}
	return code;
}

static wherry_code read_place(back *b, const place *p, wh_stored_fn visit, void *ctx,
			      wherry_error *err)
{
	int64_t from_ms = (b->since_us - margin_us) / US_PER_MS;
	char from[ID_LEN];
	wherry_code code = WHERRY_OK;

	(void)snprintf(from, sizeof(from), "%" PRId64, from_ms > 0 ? from_ms : 0);
	while (code == WHERRY_OK && *from) {
		const char *const words[] = {"XRANGE", p->stream, from, p->last,
					     "COUNT",  "200",     NULL};
		redisReply *reply = NULL;

		code = command(b, words, &reply, err);
		if (code == WHERRY_OK)
			code = take_page(p, reply, visit, ctx, from, err);
		if (reply)
			freeReplyObject(reply);
	}
	return code;
}

static wherry_code read_all(wh_readback *base, wh_stored_fn visit, void *ctx,
			    wherry_error *err)
{
	back *b = (back *)base;
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < b->n; i++)
		if (*b->places[i].last)
			code = read_place(b, &b->places[i], visit, ctx, err);
	return code;
}

/* ---- what a stream removed ---- */

static void edge(wh_readback *base, const wherry_message *message, wh_edge *out)
{
	const back *b = (const back *)base;
	char stream[WH_REDIS_STREAM_LEN] = "";
	const place wanted = {.stream = stream};
	const place *p = NULL;

	*out = (wh_edge){.removed = false};
	if (b->n && wh_redis_stream(template_of(b), message, stream, NULL) == WHERRY_OK)
		p = bsearch(&wanted, b->places, b->n, sizeof(*b->places), compare);
	if (!p)
		return;
	out->removed = p->removed && *p->last;
	out->empty = p->empty;
	out->first_us = p->first_us;
	(void)snprintf(out->first, sizeof(out->first), "%s", p->first);
}

/* ---- opening and closing ---- */

static void close_back(wh_readback *base)
{
	back *b = (back *)base;

	for (size_t i = 0; i < b->n_nodes; i++)
		wh_redis_node_close(&b->nodes[i]);
	if (b->epoll_fd >= 0)
		(void)close(b->epoll_fd);
	for (size_t i = 0; i < b->n; i++)
		free(b->places[i].stream);
	free(b->places);
	wh_redis_settings_clear(&b->set);
	wh_buf_clear(&b->base.notes);
	free(b);
}

static wherry_code open_for(bool secure, bool sentinel, const wh_readback_driver *driver,
			    const char *rest, const wherry_config *config,
			    const wh_readback_ask *asked, wh_readback **out,
			    wherry_error *err)
{
	back *b = calloc(1, sizeof(*b));
	wherry_code code;

	if (!b)
		return wh_oom(err);
	b->base = (wh_readback){.driver = driver, .notes = WH_BUF_INIT(64 * 1024)};
	b->env = asked->env;
	b->since_us = asked->since_us;
	b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	code = b->epoll_fd >= 0 ? WHERRY_OK
				: wh_fail_errno(err, errno, "redis: no descriptor");
	if (code == WHERRY_OK)
		code = wh_redis_settings_read(secure, sentinel, rest, config, &b->set,
					      err);
	if (code == WHERRY_OK)
		code = find_main(b, err);
	if (code == WHERRY_OK)
		code = list_places(b, asked, err);
	for (size_t i = 0; code == WHERRY_OK && i < b->n; i++)
		code = look_at(b, &b->places[i], err);
	if (code == WHERRY_OK)
		*out = &b->base;
	else
		close_back(&b->base);
	return code;
}

/* clang-format off */
#define DRIVER(name, secure, sentinel) \
static wherry_code name##_open(const char *rest, const wherry_config *config, \
			       const wh_readback_ask *asked, wh_readback **out, \
			       wherry_error *err) \
{ \
	return open_for(secure, sentinel, &wh_readback_##name, rest, config, asked, out, err); \
} \
const wh_readback_driver wh_readback_##name = { \
	.open = name##_open, \
	.read = read_all, \
	.edge = edge, \
	.close = close_back, \
}

DRIVER(redis, false, false);
DRIVER(rediss, true, false);
DRIVER(redis_sentinel, false, true);
DRIVER(rediss_sentinel, true, true);
/* clang-format on */
