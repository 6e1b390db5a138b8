/*
 * The step of a handler that writes to the relay's database: its writes, the messages
 * that it enqueues and the acknowledgement of its message are one transaction, under the
 * relay's lease.
 *
 * The step runs on the thread of the call, on a connection of that thread.  The receipt
 * reports the acknowledgement to the relay, which then writes nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "publish/handlers/handlers.h"
#include "relay/engine/engine.h"
#include "relay/relay.h"

/* A table of the database, open on a thread's connection. */
typedef struct opened {
	struct opened *next;
	wh_source source;
	char name[WH_OUTBOX_NAME];
} opened;

/* The connection of a thread. */
typedef struct connection {
	wherry_db *db;
	opened *tables;
	bool found; /* A lease of the relay was found in this database. */
	bool broken;
} connection;

void wh_handlers_grant(wherry_relay *r)
{
	wh_grant grant = {
		.epoch = r->lease.epoch,
		.number = r->lease.number,
		.attempts = r->set.attempts,
		.ordered = r->set.ordered,
	};

	if (!r->pub)
		return;
	(void)snprintf(grant.outbox, sizeof(grant.outbox), "%s", r->store->display_name);
	(void)snprintf(grant.model, sizeof(grant.model), "%s", r->store->model->name);
	(void)snprintf(grant.owner, sizeof(grant.owner), "%s", r->lease.owner);
	(void)snprintf(grant.token, sizeof(grant.token), "%s", r->lease.token);
	(void)snprintf(grant.holder, sizeof(grant.holder), "%s", r->lease.holder);
	wh_publisher_grant(r->pub, &grant);
}

static wherry_lease lease_of(const wh_grant *grant)
{
	wherry_lease lease = {.epoch = grant->epoch, .number = grant->number};

	(void)snprintf(lease.owner, sizeof(lease.owner), "%s", grant->owner);
	(void)snprintf(lease.token, sizeof(lease.token), "%s", grant->token);
	(void)snprintf(lease.holder, sizeof(lease.holder), "%s", grant->holder);
	return lease;
}

/* ---- the connection ---- */

static void close_connection(void *arg)
{
	connection *c = arg;

	for (opened *o = c->tables, *next; o; o = next) {
		next = o->next;
		wh_source_close(&o->source);
		free(o);
	}
	wherry_db_close(c->db);
	free(c);
}

static void interrupt(void *arg)
{
	wherry_db_interrupt(((connection *)arg)->db);
}

static wherry_code connect(const wh_handlers *pool, connection **out, wherry_error *err)
{
	wh_db_options options = wh_db_options_of(pool->config, pool->env);
	connection *c = calloc(1, sizeof(*c));
	wherry_code code;

	if (!c)
		return wh_oom(err);
	options.must_write = true;
	options.create = false;
	options.app_sql = true;
	code = wh_db_open(pool->url, &options, &c->db, err);
	if (code != WHERRY_OK) {
		free(c);
		return code;
	}
	*out = c;
	return WHERRY_OK;
}

static wherry_code source_of(connection *c, const char *model, const char *name,
			     wh_source *out, wherry_error *err)
{
	opened *o = c->tables;
	wherry_code code;

	while (o && (strcmp(o->name, name) != 0 ||
		     strcmp(o->source.store->model->name, model) != 0))
		o = o->next;
	if (o) {
		*out = o->source;
		return WHERRY_OK;
	}
	o = calloc(1, sizeof(*o));
	if (!o)
		return wh_oom(err);
	code = wh_source_open(c->db, model, name, &o->source, err);
	if (code != WHERRY_OK) {
		free(o);
		return code;
	}
	(void)snprintf(o->name, sizeof(o->name), "%s", name);
	o->next = c->tables;
	c->tables = o;
	*out = o->source;
	return WHERRY_OK;
}

/* The store of the relay's table. */
static wherry_code store_of(connection *c, const wh_grant *grant, wh_store **out,
			    wherry_error *err)
{
	wh_source source;
	wherry_code code = source_of(c, grant->model, grant->outbox, &source, err);

	if (code == WHERRY_OK)
		*out = source.store;
	return code;
}

/* ---- turns: one handler of a pool writes at a time ---- */

enum { TURNS_US = 50000, PAUSE_US = 6000 };

/* Returns how long to pause before the next turn, in microseconds.  Other programs also
 * write to the database, and look every few milliseconds whether they can.  After 50 ms
 * of turns without a break, a pause leaves them a moment. */
static int64_t pause_due(wh_handlers *pool, int64_t now_us)
{
	if (now_us - pool->last_turn_us >= PAUSE_US)
		pool->turns_since_us = now_us;
	if (now_us - pool->turns_since_us < TURNS_US)
		return 0;
	pool->turns_since_us = now_us + PAUSE_US;
	return PAUSE_US;
}

static wherry_code take_turn(wh_handlers *pool, wherry_error *err)
{
	int64_t by_us =
		wh_later(wh_monotonic(&wh_env_system),
			 wh_db_options_of(pool->config, pool->env).busy_timeout_us);
	struct timespec by = {by_us / WH_SECOND, by_us % WH_SECOND * 1000};
	int64_t pause_us = 0;
	bool mine;
	int rc = 0;

	(void)pthread_mutex_lock(&pool->lock);
	while (pool->writing && rc == 0)
		rc = pthread_cond_timedwait(&pool->turn, &pool->lock, &by);
	mine = !pool->writing;
	if (mine)
		pause_us = pause_due(pool, wh_monotonic(pool->env));
	pool->writing = true;
	(void)pthread_mutex_unlock(&pool->lock);
	if (pause_us)
		wh_sleep(pool->env, pause_us);
	if (mine)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_BUSY,
		       "another handler had its transaction open for longer than "
		       "db.busy_timeout");
}

static void give_turn(wh_handlers *pool)
{
	(void)pthread_mutex_lock(&pool->lock);
	pool->writing = false;
	pool->last_turn_us = wh_monotonic(pool->env);
	(void)pthread_cond_signal(&pool->turn);
	(void)pthread_mutex_unlock(&pool->lock);
}

/* ---- ending ---- */

static void roll_back(wherry_call *call)
{
	connection *c = call->worker->connection;

	wherry_db_rollback(c->db);
	if (wherry_db_in_transaction(c->db))
		c->broken = true; /* Closing the connection rolls back. */
	give_turn(call->pool);
}

static wherry_code see_open(void *ctx, const wh_open_row *row, wherry_error *err)
{
	(void)row;
	(void)err;
	*(int64_t *)ctx = 1;
	return WHERRY_OK;
}

/* How many messages with that id are not done. */
static wherry_code count_open(wh_store *store, int64_t id, int64_t *out,
			      wherry_error *err)
{
	const wh_param param = WH_INT_PARAM("id", id);

	return store->stmt.log_open
		       ? wh_store_ask(store, store->stmt.log_open, &param, 1, out, err)
		       : wh_store_read_ids(store, &id, 1, see_open, out, err);
}

/* A commit failed: look at the row, whether the transaction was committed
 * nevertheless. */
static wherry_code look(const wherry_call *call, wherry_code code, wherry_error *err)
{
	wherry_error ignored = WHERRY_ERROR_INIT;
	wh_store *store = NULL;
	connection *fresh = NULL;
	int64_t open = 0;

	if (connect(call->pool, &fresh, &ignored) != WHERRY_OK)
		return code;
	if (store_of(fresh, &call->grant, &store, &ignored) != WHERRY_OK ||
	    count_open(store, call->message.id, &open, &ignored) != WHERRY_OK)
		open = 1; /* Unknown, so the message is tried again. */
	close_connection(fresh);
	if (open)
		return code;
	if (err)
		*err = ignored;
	return WHERRY_OK;
}

static wherry_code acknowledge(const wherry_call *call, connection *c, wherry_error *err)
{
	wherry_lease lease = lease_of(&call->grant);
	const wh_view name =
		wh_view_of(call->message.message_id ? call->message.message_id : "");
	wh_settlement s = {
		.done = &call->message.id,
		.names = name.len ? &name : NULL,
		.n_done = 1,
	};
	wh_store *store = NULL;
	wh_settled settled = {0};
	wherry_code code;

	if (!c->db->depth || !wherry_db_in_transaction(c->db))
		return wh_fail(err, WHERRY_INVALID,
			       "the handler ended the transaction of wherry_call_begin() "
			       "itself: leave that to its return");
	code = store_of(c, &call->grant, &store, err);
	if (code == WHERRY_OK)
		code = wh_store_settle(store, &lease, &s, &settled, err);
	if (code == WHERRY_OK && !settled.n)
		code = wh_fail(err, WHERRY_STALE,
			       "message %" PRId64 " is no longer this relay's: what its "
			       "handler wrote was rolled back",
			       call->message.id);
	return code;
}

static wherry_code commit(wherry_call *call, wherry_error *err)
{
	connection *c = call->worker->connection;
	wherry_code code = acknowledge(call, c, err);

	if (code != WHERRY_OK) {
		roll_back(call);
		return code;
	}
	code = wherry_db_commit(c->db, err);
	give_turn(call->pool);
	if (code == WHERRY_OK)
		return code;
	c->broken = true;
	return look(call, code, err);
}

static const wh_step the_step = {
	.commit = commit,
	.rollback = roll_back,
	.interrupt = interrupt,
	.close = close_connection,
};

/* ---- beginning ---- */

static void set_connection(wherry_call *call, connection *c)
{
	(void)pthread_mutex_lock(&call->pool->lock);
	call->worker->connection = c;
	call->worker->connection_of = &the_step;
	(void)pthread_mutex_unlock(&call->pool->lock);
}

static wherry_code connection_of(wherry_call *call, connection **out, wherry_error *err)
{
	connection *c = call->worker->connection;
	wherry_code code;

	if (c && c->broken) {
		set_connection(call, NULL);
		close_connection(c);
		c = NULL;
	}
	if (!c) {
		code = connect(call->pool, &c, err);
		if (code != WHERRY_OK)
			return code;
		set_connection(call, c);
	}
	*out = c;
	return WHERRY_OK;
}

/* Return an error if this is not the relay's database: another one may have the same
 * table and epoch. */
static wherry_code check_lease(const wherry_call *call, connection *c, wh_store *store,
			       wherry_error *err)
{
	wherry_lease lease = lease_of(&call->grant);
	wh_holder holder = {.epoch = 0};
	wherry_code code = wh_store_fence(store, &lease, err), looked;

	if (code == WHERRY_OK)
		c->found = true;
	if (code != WHERRY_STALE || c->found || *lease.token)
		return code; /* With competing relays, the token in each row proves it. */
	looked = wh_store_holder_of(store, lease.number, &holder, err);
	if (looked != WHERRY_OK)
		return looked;
	if (holder.epoch != lease.epoch || strcmp(holder.owner, lease.owner) == 0)
		return wh_store_stale(store, err);
	return wh_fail(err, WHERRY_INVALID,
		       "the URL given to wherry_handlers_open() is not that of the "
		       "relay's database: its lease is another's");
}

static wherry_code begin(wherry_call *call, connection *c, wherry_error *err)
{
	wh_store *store = NULL;
	wherry_code code = store_of(c, &call->grant, &store, err);

	if (code == WHERRY_OK && store->layout.by_claim)
		code = wh_store_cannot(
			store,
			"whose claims only the relay itself knows: a handler writes "
			"there on a separate connection",
			err);
	if (code == WHERRY_OK)
		code = take_turn(call->pool, err);
	if (code != WHERRY_OK)
		return code;
	code = wherry_db_begin(c->db, err);
	if (code != WHERRY_OK) {
		give_turn(call->pool);
		return code;
	}
	code = check_lease(call, c, store, err);
	if (code != WHERRY_OK) {
		roll_back(call);
		return code;
	}
	(void)pthread_mutex_lock(&call->pool->lock);
	call->step = &the_step;
	(void)pthread_mutex_unlock(&call->pool->lock);
	return WHERRY_OK;
}

static wherry_code check_call(const wherry_call *call, wherry_error *err)
{
	if (!call || !call->handling)
		return wh_fail(err, WHERRY_INVALID,
			       "a transaction is opened by a handler, while it runs");
	if (!call->pool->url)
		return wh_fail(
			err, WHERRY_UNSUPPORTED,
			"no transactions: give wherry_handlers_open() the URL of the "
			"relay's database");
	if (!call->grant.epoch)
		return wh_fail(err, WHERRY_INVALID, "the call is not made by a relay");
	return WHERRY_OK;
}

wherry_code wherry_call_begin(wherry_call *call, struct wherry_db **out,
			      wherry_error *err)
{
	wh_error_clear(err);
	connection *c = NULL;
	wherry_code code = check_call(call, err);

	if (code != WHERRY_OK)
		return code;
	if (!out)
		return wh_fail(err, WHERRY_INVALID, "nowhere to put the connection");
	if (!call->step) {
		if (wherry_call_cancelled(call))
			return wh_fail(err, WHERRY_INTERRUPTED, "the call is cancelled");
		code = connection_of(call, &c, err);
		if (code == WHERRY_OK)
			code = begin(call, c, err);
		if (code != WHERRY_OK) {
			if (c && wherry_code_remedy(code) == WHERRY_REMEDY_REOPEN)
				c->broken = true;
			return code;
		}
	}
	*out = ((connection *)call->worker->connection)->db;
	return WHERRY_OK;
}

wherry_code wherry_call_enqueue(wherry_call *call, const char *outbox,
				const wherry_message *msg, int64_t *out_id,
				wherry_error *err)
{
	wh_error_clear(err);
	wh_source to;
	wherry_db *db = NULL;
	wherry_code code = wherry_call_begin(call, &db, err);

	if (code == WHERRY_OK && !outbox &&
	    strcmp(call->grant.model, wh_outbox_model.name) != 0)
		code = wh_fail(err, WHERRY_INVALID,
			       "the message comes from the %s '%s': name the outbox that "
			       "this one is for",
			       call->grant.model, call->grant.outbox);
	if (code == WHERRY_OK)
		code = source_of(call->worker->connection, wh_outbox_model.name,
				 outbox ? outbox : call->grant.outbox, &to, err);
	if (code == WHERRY_OK)
		code = wherry_outbox_enqueue(to.outbox, msg, 0, out_id, err);
	return code;
}
