/*
 * Where messages go.
 *
 *     one server     the first of the URL's hosts that answers and is a master
 *     sentinels      one after the other is asked for the master
 *     a cluster      each node has a share of 16384 slots; the name of a stream says its slot
 *
 * Without a cluster an error of the connection is one of the destination: the relay opens it again,
 * and then the master is looked for again.  In a cluster it concerns the streams of that node.
 */
#include "publish/redis/redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "publish/parts.h"

enum {
	CONNECT_US = 5000000,
	AGAIN_US =
		500000, /* Between two connections to a node, or questions for slots. */
	BUSY_US = 10000000, /* So long a server may take nothing; then it is down. */
	HELD_US = 1000000,  /* Messages of a node that is down are tried again. */
	REDIRECTS_MOST = 8,
	NODES_MOST = 1000,
	WAIT_US = 1000000,
	ROUNDS_MOST = 8
};

/* ---- nodes ---- */

static void fail(wh_redis_route *route, wherry_code code, const wh_redis_host *host,
		 const char *why)
{
	if (route->error.code != WHERRY_OK)
		return;
	(void)wh_fail(&route->error, code, "redis: %.60s:%d: %s", host->name, host->port,
		      why);
}

/* The node with this address, perhaps a new one; NULL: out of memory. */
static wh_redis_node *find_node(wh_redis_route *route, bool sentinel, const char *name,
				size_t len, int port)
{
	wh_redis_node **nodes, *node;

	for (size_t i = 0; i < route->n_nodes; i++) {
		node = route->nodes[i];
		if (node->sentinel == sentinel && node->host.port == port &&
		    strlen(node->host.name) == len &&
		    memcmp(node->host.name, name, len) == 0)
			return node;
	}
	if (route->n_nodes == NODES_MOST || len >= WH_REDIS_HOST_LEN)
		return NULL;
	nodes = realloc(route->nodes, (route->n_nodes + 1) * sizeof(*nodes));
	if (!nodes)
		return NULL;
	route->nodes = nodes;
	node = calloc(1, sizeof(*node));
	if (!node)
		return NULL;
	memcpy(node->host.name, name, len);
	node->host.port = port;
	node->sentinel = sentinel;
	node->wait_us = wh_sooner(WAIT_US, route->set->limit_us);
	nodes[route->n_nodes++] = node;
	return node;
}

static wh_redis_node *node_of(wh_redis_route *route, const char *name, size_t len,
			      int port)
{
	return find_node(route, false, name, len, port);
}

static size_t index_of(const wh_redis_route *route, const wh_redis_node *node)
{
	size_t i = 0;

	while (route->nodes[i] != node)
		i++;
	return i;
}

static wherry_code connect_node(wh_redis_route *route, wh_redis_node *node,
				wherry_error *err)
{
	wherry_code code = wh_redis_node_connect(node, route->set, route->epoll_fd,
						 wh_monotonic(route->env), err);

	route->stats.connections += code == WHERRY_OK;
	return code;
}

/* ---- the master, without a cluster ---- */

/* Ask the next host of the URL, or be it. */
static void search(wh_redis_route *route)
{
	const wh_redis_settings *set = route->set;
	const wh_redis_host *host = &set->hosts[route->tried];
	wherry_error why = WHERRY_ERROR_INIT;
	wh_redis_node *node = find_node(route, set->master != NULL, host->name,
					strlen(host->name), host->port);
	wherry_code code;

	if (!node) {
		(void)wh_oom(&route->error);
		return;
	}
	code = connect_node(route, node, &why);
	if (code != WHERRY_OK)
		fail(route, code, host, why.message);
	else if (node->sentinel)
		route->sentinel = node;
	else
		route->master = node;
}

/* This host is of no use: try the next one. */
static void search_on(wh_redis_route *route, wherry_code code, const wh_redis_host *host,
		      const char *why)
{
	route->master = route->sentinel = NULL;
	if (code == WHERRY_CLOSED && ++route->tried < route->set->n_hosts)
		search(route);
	else
		fail(route, code, host, why);
}

static void ask_sentinel(wh_redis_route *route, wh_redis_node *node)
{
	const char *const words[] = {"SENTINEL", "get-master-addr-by-name",
				     route->set->master, NULL};
	wherry_error why = WHERRY_ERROR_INIT;

	if (wh_redis_node_ask(node, words, &why) != WHERRY_OK)
		(void)wh_oom(&route->error);
}

/* A sentinel names the master: [host, port]. */
static void hear_sentinel(wh_redis_route *route, wh_redis_node *node)
{
	redisReply *reply = node->answer;
	wh_redis_host sentinel = node->host;
	wherry_error why = WHERRY_ERROR_INIT;
	int64_t port = 0;
	wh_redis_node *master = NULL;
	char text[160];

	node->answer = NULL;
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
	    reply->element[0]->str && reply->element[1]->str &&
	    wh_parse_int(reply->element[1]->str, &port))
		master = node_of(route, reply->element[0]->str,
				 (size_t)reply->element[0]->len, (int)port);
	if (reply->type == REDIS_REPLY_ERROR)
		wh_put_answer(text, sizeof(text),
			      "the sentinel does not say who is master", reply->str,
			      NULL);
	else
		(void)snprintf(text, sizeof(text), "the sentinel knows no master '%.80s'",
			       route->set->master);
	freeReplyObject(reply);
	wh_redis_node_close(node);
	route->sentinel = NULL;
	if (!master)
		search_on(route, WHERRY_CLOSED, &sentinel, text);
	else if (master->link || connect_node(route, master, &why) == WHERRY_OK)
		route->master = master;
	else
		search_on(route, WHERRY_CLOSED, &master->host, why.message);
}

/* ---- a cluster ---- */

static void ask_slots(wh_redis_route *route)
{
	static const char *const words[] = {"CLUSTER", "SLOTS", NULL};
	int64_t now = wh_monotonic(route->env);
	wherry_error why = WHERRY_ERROR_INIT;

	if (route->asks_slots || now < route->ask_again_us)
		return;
	for (size_t i = 0; i < route->n_nodes; i++) {
		wh_redis_node *node = route->nodes[i];

		if (!node->ready || wh_redis_node_ask(node, words, &why) != WHERRY_OK)
			continue;
		route->asks_slots = true;
		route->ask_again_us = wh_later(now, AGAIN_US);
		node->asked = true;
		return;
	}
}

/* [first, last, [host, port, …], replicas…] */
static void hear_range(wh_redis_route *route, const wh_redis_node *from,
		       const redisReply *range)
{
	const redisReply *at = range->elements >= 3 ? range->element[2] : NULL;
	const redisReply *name = at && at->elements >= 2 ? at->element[0] : NULL;
	wh_redis_node *node;
	bool named;

	if (!name)
		return;
	named = name->str && *name->str && strcmp(name->str, "?") != 0;
	node = node_of(route, named ? name->str : from->host.name,
		       named ? (size_t)name->len : strlen(from->host.name),
		       (int)at->element[1]->integer);
	if (!node)
		return;
	for (long long slot = range->element[0]->integer;
	     slot >= 0 && slot <= range->element[1]->integer && slot < WH_REDIS_SLOTS;
	     slot++)
		route->slots[slot] = (uint16_t)(index_of(route, node) + 1);
}

static void hear_slots(wh_redis_route *route, wh_redis_node *node)
{
	redisReply *reply = node->answer;

	node->answer = NULL;
	route->asks_slots = node->asked = false;
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements) {
		memset(route->slots, 0, sizeof(route->slots));
		for (size_t i = 0; i < reply->elements; i++)
			hear_range(route, node, reply->element[i]);
		route->knows_slots = true;
	} else if (reply->type == REDIS_REPLY_ERROR) {
		fail(route,
		     strncmp(reply->str, "NOPERM", 6) == 0 ? WHERRY_DENIED
							   : WHERRY_CLOSED,
		     &node->host, reply->str);
	} else {
		fail(route, WHERRY_CLOSED, &node->host, "the cluster has no slots yet");
	}
	freeReplyObject(reply);
}

static int slot_of(const wh_redis_route *route, wh_redis_unit *unit)
{
	char stream[WH_REDIS_STREAM_LEN] = "";

	if (unit->slot < 0) {
		(void)wh_redis_stream(route->set->stream, unit->first->flight.message,
				      stream, NULL);
		unit->slot = (int)wh_redis_slot(stream);
	}
	return unit->slot;
}

static void hold(wh_redis_route *route, wh_redis_unit *unit, wherry_verdict verdict,
		 const wh_redis_host *host, const char *why)
{
	wh_redis_verdict v = {
		.verdict = verdict, .held = true, .retry_after_us = HELD_US};

	if (host)
		(void)snprintf(v.reason, sizeof(v.reason), "%.60s:%d: %.120s", host->name,
			       host->port, why);
	else
		(void)snprintf(v.reason, sizeof(v.reason), "%.199s", why);
	route->stats.refused += unit->n;
	wh_redis_failed(&route->flights, unit, 0, &v);
}

/* The node for a slot, connected or connecting; NULL: none, and the unit was held. */
static wh_redis_node *node_for(wh_redis_route *route, wh_redis_unit *unit)
{
	int64_t now = wh_monotonic(route->env);
	size_t at = route->slots[slot_of(route, unit)];
	wh_redis_node *node = at ? route->nodes[at - 1] : NULL;
	wherry_error why = WHERRY_ERROR_INIT;

	if (!node) {
		ask_slots(route);
		hold(route, unit, WHERRY_RETRY, NULL,
		     "no node of the cluster has this stream's slot");
		return NULL;
	}
	if (node->link)
		return node;
	if (now < node->not_before_us) {
		ask_slots(route);
		hold(route, unit, WHERRY_RETRY, &node->host, "the node is down");
		return NULL;
	}
	if (connect_node(route, node, &why) == WHERRY_OK)
		return node;
	node->not_before_us = wh_later(now, AGAIN_US);
	hold(route, unit, WHERRY_RETRY, &node->host, why.message);
	return NULL;
}

/* "MOVED 3999 127.0.0.1:6381" or "ASK …", perhaps without a host. */
static wh_redis_node *named_by(wh_redis_route *route, const wh_redis_node *from,
			       const char *error, int *out_slot)
{
	const char *slot = strchr(error, ' ');
	const char *host = slot ? strchr(slot + 1, ' ') : NULL;
	const char *colon = host ? strrchr(host, ':') : NULL;
	char number[8];
	int64_t port, at;

	if (!colon || !wh_parse_int(colon + 1, &port) || port < 1 || port > 65535)
		return NULL;
	(void)snprintf(number, sizeof(number), "%.*s", (int)(host - slot - 1), slot + 1);
	if (!wh_parse_int(number, &at) || at < 0 || at >= WH_REDIS_SLOTS)
		return NULL;
	*out_slot = (int)at;
	host++;
	if (colon == host)
		return node_of(route, from->host.name, strlen(from->host.name),
			       (int)port);
	return node_of(route, host, (size_t)(colon - host), (int)port);
}

static void redirect(wh_redis_route *route, const wh_redis_node *from,
		     wh_redis_unit *unit, bool asked)
{
	int slot = 0;
	wh_redis_node *to = named_by(route, from, unit->error, &slot);
	wherry_error why = WHERRY_ERROR_INIT;

	if (!to || ++unit->redirects > REDIRECTS_MOST) {
		hold(route, unit, WHERRY_RETRY, &from->host, unit->error);
		return;
	}
	route->stats.redirected++;
	unit->asking = asked;
	if (!asked) {
		route->in_cluster = true;
		route->slots[slot] = (uint16_t)(index_of(route, to) + 1);
		ask_slots(route);
	}
	if (!to->link && connect_node(route, to, &why) != WHERRY_OK)
		hold(route, unit, WHERRY_RETRY, &to->host, why.message);
	else
		wh_redis_node_add(to, unit);
}

/* ---- answers ---- */

static void deliver(wh_redis_route *route, wh_redis_unit *unit, int64_t now)
{
	const wh_redis_job *first = unit->first;

	route->delivered_us = now;
	route->waited_us = now - (first->deadline_us - route->set->limit_us);
	route->busy_since_us = 0;
	route->stats.delivered += unit->n;
	for (const wh_redis_job *job = first; job; job = job->next)
		route->stats.bytes += (int64_t)job->flight.message->body_len;
	wh_redis_delivered(&route->flights, unit);
}

/* The server takes nothing.  If that lasts, it is down. */
static void be_busy(wh_redis_route *route, const wh_redis_node *node, const char *why,
		    int64_t now)
{
	if (!route->busy_since_us)
		wh_log(route->env, WHERRY_LOG_WARN, "redis", "server-busy",
		       wh_log_text("why", why),
		       wh_log_note("messages wait, and no attempts are counted"));
	route->busy_since_us = route->busy_since_us ? route->busy_since_us : now;
	(void)snprintf(route->busy, sizeof(route->busy), "%s", why);
	if (now - route->busy_since_us >= BUSY_US)
		fail(route, WHERRY_CLOSED, &node->host, why);
}

static void judge(wh_redis_route *route, const wh_redis_node *node, wh_redis_unit *unit,
		  int64_t now)
{
	char stream[WH_REDIS_STREAM_LEN] = "";
	wh_redis_verdict verdict;
	wh_redis_meaning means;

	(void)wh_redis_stream(route->set->stream, unit->first->flight.message, stream,
			      NULL);
	means = wh_redis_judge(unit->error, stream, route->set->user, route->in_cluster,
			       &verdict);
	if (means == WH_REDIS_MOVED || means == WH_REDIS_ASKED) {
		redirect(route, node, unit, means == WH_REDIS_ASKED);
		return;
	}
	if (node->refuses_bulk && unit->n > 1) {
		wh_redis_send_alone(&route->flights, unit);
		return;
	}
	if (route->in_cluster && verdict.held)
		ask_slots(route);
	route->stats.refused += unit->n - unit->n_taken;
	wh_redis_failed(&route->flights, unit, unit->n_taken, &verdict);
	if (means == WH_REDIS_BUSY)
		be_busy(route, node, verdict.reason, now);
	else if (means == WH_REDIS_LEAVE)
		fail(route, WHERRY_CLOSED, &node->host, verdict.reason);
}

/* The user may not use MULTI.  Without it one message of a key is in flight at a time. */
static void forgo_multi(wh_redis_route *route)
{
	if (route->flights.alone)
		return;
	route->flights.alone = true;
	wh_log(route->env, WHERRY_LOG_WARN, "redis", "multi-refused",
	       wh_log_note(
		       "one message of a key is sent at a time: permit the user +multi "
		       "and +exec"));
}

static void hear_units(wh_redis_route *route, wh_redis_node *node)
{
	int64_t now = wh_monotonic(route->env);
	wh_redis_unit *unit;

	while ((unit = wh_redis_units_pop(&node->answered))) {
		if (unit->bare && !unit->error)
			forgo_multi(route);
		if (unit->error)
			judge(route, node, unit, now);
		else
			deliver(route, unit, now);
	}
}

static void hear(wh_redis_route *route, wh_redis_node *node)
{
	if (node->answer && node->sentinel)
		hear_sentinel(route, node);
	else if (node->answer)
		hear_slots(route, node);
	hear_units(route, node);
}

/* ---- failures of connections ---- */

/* Units that the server has not begun are sent again. */
static void send_again(wh_redis_route *route, wh_redis_node *node)
{
	wh_redis_units_move(&node->sent, &node->pending);
	wh_redis_units_move(&route->flights.ready, &node->sent);
}

static void give_back(wh_redis_route *route, wh_redis_node *node, const char *why)
{
	wh_redis_unit *unit;

	wh_redis_units_move(&node->waiting, &node->sent);
	while ((unit = wh_redis_units_pop(&node->waiting)))
		hold(route, unit, WHERRY_UNKNOWN, &node->host, why);
	while ((unit = wh_redis_units_pop(&node->pending)))
		hold(route, unit, WHERRY_RETRY, &node->host, why);
}

static bool any_ready(const wh_redis_route *route)
{
	for (size_t i = 0; i < route->n_nodes; i++)
		if (route->nodes[i]->ready)
			return true;
	return false;
}

static void lose(wh_redis_route *route, wh_redis_node *node, wherry_code code,
		 const char *why)
{
	bool was_ready = node->ready;
	bool idle = was_ready && !node->sent.n && !node->pending.n && !node->waiting.n;

	if (node->asked)
		route->asks_slots = node->asked = false;
	wh_redis_node_close(node);
	node->not_before_us = wh_later(wh_monotonic(route->env), AGAIN_US);
	if (node->refuses_bulk) {
		send_again(route, node);
		give_back(route, node, why); /* Units that wait for replicas. */
		route->master = NULL;
		route->tried = 0;
		node->not_before_us = 0;
	} else if (route->in_cluster && idle && !route->flights.open.n) {
		node->not_before_us = 0;
	} else if (route->in_cluster) {
		give_back(route, node, why);
		ask_slots(route);
		if (!any_ready(route))
			fail(route, code, &node->host, why);
	} else if (!was_ready) {
		send_again(route, node);
		search_on(route, code, &node->host, why);
	} else if (route->flights.open.n) {
		fail(route, code, &node->host, why);
	} else {
		route->master = NULL;
		route->tried = 0;
	}
}

/* ---- stepping ---- */

/* A node has said what it is. */
static void meet(wh_redis_route *route, wh_redis_node *node)
{
	if (!node->ready || node->met)
		return;
	node->met = true;
	if (node->sentinel) {
		ask_sentinel(route, node);
	} else if (node->in_cluster && route->set->number) {
		fail(route, WHERRY_INVALID, &node->host,
		     "it is a cluster, which has only the database 0");
	} else if (node->in_cluster && !route->in_cluster) {
		route->in_cluster = true;
		ask_slots(route);
	} else if (node->is_replica && !route->in_cluster) {
		wh_redis_host host = node->host;

		wh_redis_node_close(node);
		send_again(route, node);
		search_on(route, WHERRY_CLOSED, &host,
			  "it is a replica: name the master, or all of them, or use "
			  "redis+sentinel://");
	} else {
		route->tried = 0;
	}
}

static void step_nodes(wh_redis_route *route)
{
	for (size_t i = 0; i < route->n_nodes; i++) {
		wh_redis_node *node = route->nodes[i];
		wherry_error why = WHERRY_ERROR_INIT;
		wherry_code code;

		if (!node->link)
			continue;
		code = wh_redis_node_step(node, route->set, route->env, &why);
		hear(route, node);
		if (!node->link) /* A sentinel that has answered. */
			continue;
		if (code != WHERRY_OK)
			lose(route, node, code, why.message);
		else
			meet(route, node);
	}
}

static bool can_send(const wh_redis_route *route)
{
	return route->in_cluster ? route->knows_slots : route->master != NULL;
}

/* Give units to their nodes.  False: there was none. */
static bool send_ready(wh_redis_route *route)
{
	wh_redis_unit *unit;
	bool any = false;

	wh_redis_gather(&route->flights, route->set);
	while (can_send(route) && (unit = wh_redis_units_pop(&route->flights.ready))) {
		wh_redis_node *node =
			route->in_cluster ? node_for(route, unit) : route->master;

		unit->asking = false;
		if (node)
			wh_redis_node_add(node, unit);
		any = true;
	}
	return any;
}

void wh_redis_route_step(wh_redis_route *route)
{
	bool more = true;

	if (route->error.code != WHERRY_OK)
		return;
	if (!route->in_cluster && !route->master && !route->sentinel)
		search(route);
	(void)send_ready(route);
	for (int i = 0; more && i < ROUNDS_MOST && route->error.code == WHERRY_OK; i++) {
		step_nodes(route);
		if (route->in_cluster && !route->knows_slots)
			ask_slots(route);
		more = route->error.code == WHERRY_OK && send_ready(route);
	}
}

void wh_redis_route_give_up(wh_redis_route *route, const char *why)
{
	static const wh_redis_verdict unsent = {.verdict = WHERRY_THROTTLED,
						.reason = "it was not sent"};
	wh_redis_verdict unknown = {.verdict = WHERRY_UNKNOWN};
	wh_redis_units maybe_taken = {NULL, NULL, 0};
	wh_redis_unit *unit;

	for (size_t i = 0; i < route->n_nodes; i++) {
		wh_redis_node *node = route->nodes[i];

		wh_redis_node_close(node);
		wh_redis_units_move(&maybe_taken, &node->waiting);
		wh_redis_units_move(&maybe_taken, &node->sent);
		wh_redis_units_move(&route->flights.ready, &node->pending);
	}
	(void)snprintf(unknown.reason, sizeof(unknown.reason), "%s", why);
	while ((unit = wh_redis_units_pop(&maybe_taken)))
		wh_redis_failed(&route->flights, unit, 0, &unknown);
	while ((unit = wh_redis_units_pop(&route->flights.ready)))
		wh_redis_failed(&route->flights, unit, 0, &unsent);
	route->master = route->sentinel = NULL;
	route->tried = 0;
}

void wh_redis_route_resume(wh_redis_route *route, int64_t now)
{
	for (size_t i = 0; i < route->n_nodes; i++)
		if (route->nodes[i]->link && !route->nodes[i]->ready)
			route->nodes[i]->began_us = now;
}

int64_t wh_redis_route_deadline(const wh_redis_route *route)
{
	int64_t at = WH_NEVER;

	for (size_t i = 0; i < route->n_nodes; i++) {
		const wh_redis_node *node = route->nodes[i];

		if (node->pending.n && node->ready)
			return 0;
		if (node->link && !node->ready)
			at = wh_sooner(at, wh_later(node->began_us, CONNECT_US + 1));
	}
	if (route->in_cluster && !route->knows_slots && !route->asks_slots)
		at = wh_sooner(at, route->ask_again_us);
	if (!route->in_cluster && !route->master && !route->sentinel)
		return 0;
	return at;
}

void wh_redis_route_clear(wh_redis_route *route)
{
	for (size_t i = 0; i < route->n_nodes; i++) {
		wh_redis_node_close(route->nodes[i]);
		free(route->nodes[i]);
	}
	free(route->nodes);
	route->nodes = NULL;
	route->n_nodes = 0;
	route->master = route->sentinel = NULL;
	route->tried = 0;
	route->in_cluster = route->knows_slots = route->asks_slots = false;
	route->ask_again_us = route->busy_since_us = 0;
	memset(route->slots, 0, sizeof(route->slots));
	route->error = (wherry_error)WHERRY_ERROR_INIT;
	wh_redis_flights_clear(&route->flights);
}
