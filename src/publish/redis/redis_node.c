/*
 * A server: logs in, sends units, reads their answers.
 *
 *     a message        XADD                                   one reply
 *     several          MULTI, XADD for each, EXEC             one for each, and the last says all
 *     behind each step WAIT, if replicas must have them       how many have them
 */
#include "publish/redis/redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "publish/parts.h"

enum { CONNECT_US = 5000000 };

/* ---- its own commands ---- */

static wherry_code send_words(wh_redis_node *node, wh_redis_kind kind,
			      const char *const *words, wherry_error *err)
{
	wh_redis_unit *unit = calloc(1, sizeof(*unit));

	if (!unit)
		return wh_oom(err);
	unit->kind = kind;
	unit->left = 1;
	wh_redis_put_words(wh_redis_link_out(node->link), words);
	wh_redis_units_append(&node->sent, unit);
	return WHERRY_OK;
}

static wherry_code say_hello(wh_redis_node *node, const wh_redis_settings *set,
			     wherry_error *err)
{
	const char *user = node->sentinel ? set->sentinel_user : set->user;
	const char *password = node->sentinel ? set->sentinel_password : set->password;
	const char *words[8] = {"HELLO", "2", "SETNAME", "wherry"};

	if (password) {
		words[2] = "AUTH";
		words[3] = user ? user : "default";
		words[4] = password;
		words[5] = "SETNAME";
		words[6] = "wherry";
	}
	return send_words(node, WH_REDIS_HELLO, words, err);
}

static wherry_code choose_database(wh_redis_node *node, const wh_redis_settings *set,
				   wherry_error *err)
{
	char text[24];
	const char *const words[] = {"SELECT", text, NULL};

	if (!set->number || node->sentinel)
		return WHERRY_OK;
	(void)snprintf(text, sizeof(text), "%" PRId64, set->number);
	return send_words(node, WH_REDIS_SELECT, words, err);
}

wherry_code wh_redis_node_ask(wh_redis_node *node, const char *const *words,
			      wherry_error *err)
{
	return send_words(node, WH_REDIS_ASK, words, err);
}

/* ---- the connection ---- */

wherry_code wh_redis_node_connect(wh_redis_node *node, const wh_redis_settings *set,
				  int epoll_fd, int64_t now, wherry_error *err)
{
	wherry_code code;

	node->began_us = now;
	node->ready = node->met = node->refuses_bulk = false;
	node->waits = 0;
	code = wh_redis_link_new(set, &node->host, epoll_fd, &node->link, err);
	if (code != WHERRY_OK)
		return code;
	code = say_hello(node, set, err);
	if (code != WHERRY_OK)
		wh_redis_node_close(node);
	return code;
}

static void free_own(wh_redis_units *list)
{
	wh_redis_units kept = {NULL, NULL, 0};
	wh_redis_unit *unit;

	while ((unit = wh_redis_units_pop(list))) {
		if (unit->kind == WH_REDIS_ADD)
			wh_redis_units_append(&kept, unit);
		else
			free(unit);
	}
	*list = kept;
}

void wh_redis_node_close(wh_redis_node *node)
{
	wh_redis_link_free(node->link);
	node->link = NULL;
	node->ready = false;
	if (node->answer)
		freeReplyObject(node->answer);
	node->answer = NULL;
	free_own(&node->sent);
}

void wh_redis_node_add(wh_redis_node *node, wh_redis_unit *unit)
{
	wh_redis_units_append(&node->pending, unit);
}

/* ---- sending ---- */

static void put_unit(wh_redis_node *node, const wh_redis_settings *set, int64_t now_us,
		     wh_redis_unit *unit)
{
	static const char *const asking[] = {"ASKING", NULL},
				 *const multi[] = {"MULTI", NULL},
				 *const exec[] = {"EXEC", NULL};
	wh_buf *out = wh_redis_link_out(node->link);

	free(unit->error);
	unit->error = NULL;
	unit->n_taken = 0;
	unit->bare = false;
	unit->left = unit->n + (unit->asking ? 1 : 0) + (unit->n > 1 ? 2 : 0);
	if (unit->asking)
		wh_redis_put_words(out, asking);
	if (unit->n > 1)
		wh_redis_put_words(out, multi);
	for (const wh_redis_job *job = unit->first; job; job = job->next)
		wh_redis_put_add(out, set, job->flight.message, now_us);
	if (unit->n > 1)
		wh_redis_put_words(out, exec);
	wh_redis_units_append(&node->sent, unit);
}

static wherry_code ask_replicas(wh_redis_node *node, const wh_redis_settings *set,
				wherry_error *err)
{
	char replicas[24], wait_ms[24];
	const char *const words[] = {"WAIT", replicas, wait_ms, NULL};

	(void)snprintf(replicas, sizeof(replicas), "%" PRId64, set->replicas);
	(void)snprintf(wait_ms, sizeof(wait_ms), "%" PRId64, node->wait_us / 1000);
	node->waits++;
	return send_words(node, WH_REDIS_WAIT, words, err);
}

static wherry_code send_pending(wh_redis_node *node, const wh_redis_settings *set,
				int64_t now_us, wherry_error *err)
{
	wh_redis_unit *unit;

	if (!node->ready || !node->pending.n)
		return WHERRY_OK;
	while ((unit = wh_redis_units_pop(&node->pending)))
		put_unit(node, set, now_us, unit);
	return set->replicas ? ask_replicas(node, set, err) : WHERRY_OK;
}

/* ---- answers ---- */

/* The value behind a name in the answer to HELLO. */
static const redisReply *value_of(const redisReply *all, const char *name)
{
	for (size_t i = 0; i + 1 < all->elements; i += 2)
		if (all->element[i]->str && strcmp(all->element[i]->str, name) == 0)
			return all->element[i + 1];
	return NULL;
}

static bool is_value(const redisReply *all, const char *name, const char *value)
{
	const redisReply *found = value_of(all, name);

	return found && found->str && strcmp(found->str, value) == 0;
}

static wherry_code fail_hello(const wh_redis_node *node, const char *why,
			      wherry_error *err)
{
	const char *of = node->sentinel ? "sentinel_" : "";
	char advice[80];

	/* The answer repeats the words of the command, and so the password. */
	if (strncasecmp(why, "ERR unknown command", 19) == 0)
		return wh_fail(err, WHERRY_INVALID,
			       "it does not know HELLO: Redis 6 or later is needed");
	if (strncmp(why, "WRONGPASS", 9) == 0) {
		(void)snprintf(advice, sizeof(advice),
			       "see redis.%suser and redis.%spassword", of, of);
		return wh_fail_answer(err, WHERRY_DENIED, 0,
				      "the user or the password is refused", why, advice);
	}
	if (strncmp(why, "NOAUTH", 6) == 0 || strncmp(why, "NOPROTO", 7) == 0)
		return wh_fail(err, WHERRY_DENIED,
			       "it wants a password: set redis.%spassword=env:NAME", of);
	if (strncmp(why, "ERR AUTH <password> called", 26) == 0)
		return wh_fail(err, WHERRY_DENIED,
			       "it has no password: unset redis.%spassword", of);
	return wh_fail_answer(err, WHERRY_CLOSED, 0, "it refuses to begin", why, NULL);
}

static wherry_code greeted(wh_redis_node *node, const wh_redis_settings *set,
			   const redisReply *reply, wherry_error *err)
{
	if (reply->type == REDIS_REPLY_ERROR)
		return fail_hello(node, reply->str, err);
	node->in_cluster = is_value(reply, "mode", "cluster");
	node->is_replica = !is_value(reply, "role", "master") && !node->sentinel;
	node->ready = true;
	return choose_database(node, set, err);
}

static wherry_code selected(const wh_redis_settings *set, const redisReply *reply,
			    wherry_error *err)
{
	char before[60], advice[80];
	bool denied;

	if (reply->type != REDIS_REPLY_ERROR)
		return WHERRY_OK;
	denied = strncmp(reply->str, "NOPERM", 6) == 0;
	(void)snprintf(before, sizeof(before), "database %" PRId64 " cannot be used",
		       set->number);
	(void)snprintf(advice, sizeof(advice), "`ACL SETUSER %.30s +select` permits it",
		       set->user ? set->user : "default");
	return wh_fail_answer(err, denied ? WHERRY_DENIED : WHERRY_INVALID, 0, before,
			      reply->str, denied ? advice : NULL);
}

static wherry_code waited(wh_redis_node *node, const wh_redis_settings *set,
			  const redisReply *reply, wherry_error *err)
{
	node->waits--;
	if (reply->type == REDIS_REPLY_ERROR)
		return wh_fail_answer(err,
				      strncmp(reply->str, "NOPERM", 6) == 0
					      ? WHERRY_DENIED
					      : WHERRY_CLOSED,
				      0, "WAIT is refused", reply->str,
				      "permit the user +wait, or set redis.replicas=0");
	node->replicas = reply->integer;
	if (reply->integer >= set->replicas) {
		wh_redis_units_move(&node->answered, &node->waiting);
		return WHERRY_OK;
	}
	return node->waits || !node->waiting.n ? WHERRY_OK : ask_replicas(node, set, err);
}

static void note_error(wh_redis_unit *unit, const char *text)
{
	if (!unit->error)
		unit->error = strdup(text);
}

/* EXEC answers a reply for each message. */
static void note_all(wh_redis_unit *unit, const redisReply *reply)
{
	for (size_t i = 0; i < reply->elements; i++) {
		if (reply->element[i]->type != REDIS_REPLY_ERROR)
			continue;
		unit->n_taken = (unsigned)i;
		note_error(unit, reply->element[i]->str);
		return;
	}
}

/* MULTI was refused, and this is a later reply of the unit: its messages were taken one by one. */
static void note_bare(wh_redis_unit *unit, const redisReply *reply)
{
	if (unit->left == 1)
		return; /* EXEC */
	if (reply->type == REDIS_REPLY_ERROR)
		note_error(unit, reply->str);
	else if (!unit->error)
		unit->n_taken++;
}

/* Is the next reply that to MULTI? */
static bool begins(const wh_redis_unit *unit)
{
	return unit->n > 1 && unit->left == unit->n + 2;
}

static void added(wh_redis_node *node, const wh_redis_settings *set, wh_redis_unit *unit,
		  const redisReply *reply)
{
	if (unit->bare)
		note_bare(unit, reply);
	else if (reply->type == REDIS_REPLY_ERROR && begins(unit))
		unit->bare = true;
	else if (reply->type == REDIS_REPLY_ERROR)
		note_error(unit, reply->str);
	else if (reply->type == REDIS_REPLY_ARRAY)
		note_all(unit, reply);
	else if (reply->type == REDIS_REPLY_NIL)
		note_error(unit, "ERR EXEC did nothing");
	if (--unit->left)
		return;
	(void)wh_redis_units_pop(&node->sent);
	wh_redis_units_append(
		set->replicas && !unit->error ? &node->waiting : &node->answered, unit);
}

static wherry_code handle(wh_redis_node *node, const wh_redis_settings *set,
			  redisReply *reply, wherry_error *err)
{
	wh_redis_unit *unit = node->sent.head;
	wherry_code code = WHERRY_OK;
	wh_redis_kind kind;

	if (!unit)
		return wh_fail_answer(err, WHERRY_CLOSED, 0, "it ended the connection",
				      reply->str ? reply->str : "without a reason", NULL);
	if (reply->type == REDIS_REPLY_ERROR &&
	    strncmp(reply->str, "ERR Protocol error", 18) == 0 &&
	    unit->kind == WH_REDIS_ADD) {
		node->refuses_bulk = true;
		unit->left = 1;
	}
	kind = unit->kind;
	if (kind == WH_REDIS_ADD) {
		added(node, set, unit, reply);
		return WHERRY_OK;
	}
	free(wh_redis_units_pop(&node->sent));
	if (kind == WH_REDIS_HELLO)
		code = greeted(node, set, reply, err);
	else if (kind == WH_REDIS_SELECT)
		code = selected(set, reply, err);
	else if (kind == WH_REDIS_WAIT)
		code = waited(node, set, reply, err);
	else if (!node->answer)
		node->answer = reply;
	return code;
}

static wherry_code read_answers(wh_redis_node *node, const wh_redis_settings *set,
				wherry_error *err)
{
	redisReply *reply = NULL;
	wherry_code code;

	for (;;) {
		code = wh_redis_link_reply(node->link, &reply, err);
		if (code != WHERRY_OK || !reply)
			return code;
		code = handle(node, set, reply, err);
		if (node->answer != reply)
			freeReplyObject(reply);
		if (code != WHERRY_OK)
			return code;
	}
}

wherry_code wh_redis_node_step(wh_redis_node *node, const wh_redis_settings *set,
			       const wh_env *env, wherry_error *err)
{
	wherry_code code = send_pending(node, set, wh_now(env), err), stepped;
	wherry_error why = WHERRY_ERROR_INIT;

	if (code != WHERRY_OK)
		return code;
	stepped = wh_redis_link_step(node->link, &why);
	code = read_answers(node, set, err); /* Also before a failure. */
	if (code == WHERRY_OK && stepped != WHERRY_OK) {
		bool plain =
			!node->ready && wh_redis_link_is_open(node->link) && !set->secure;

		return wh_fail(err, stepped, "%s%s", why.message,
			       plain ? "; if it speaks TLS, write rediss:// for redis://"
				     : "");
	}
	if (code == WHERRY_OK && !node->ready &&
	    wh_monotonic(env) - node->began_us > CONNECT_US)
		return wh_fail(err, WHERRY_CLOSED, "no connection within 5s%s",
			       set->secure && !wh_redis_link_is_open(node->link)
				       ? "; if it does not speak TLS, write redis:// for "
					 "rediss://"
				       : "");
	/* The answers may have made more possible. */
	if (code == WHERRY_OK)
		code = send_pending(node, set, wh_now(env), err);
	if (code == WHERRY_OK && wh_redis_link_is_open(node->link) &&
	    wh_redis_link_out(node->link)->len)
		code = wh_redis_link_step(node->link, err);
	return code;
}
