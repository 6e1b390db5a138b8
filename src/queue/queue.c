/*
 * Creating, opening and removing queues.
 */
#include "queue/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/grants.h"

static const char *const layouts[] = {"native", NULL};

static const char *const roles[] = {"sender", "receiver", "operator", NULL};

const wh_model wh_queue_model = {
	"queue", layouts, NULL, wh_queue_groups, "wherry queue create", roles};

void wherry_queue_message_init(wherry_queue_message *msg)
{
	*msg = (wherry_queue_message){.size = sizeof(*msg)};
}

wherry_code wh_queue_failed(const wherry_queue *queue, wherry_code code,
			    wherry_error *err)
{
	return wh_store_missing(queue->store.model, queue->store.name.ptr, code, err);
}

static wherry_code take_type(void *ctx, const wh_row *row, wherry_error *err)
{
	wherry_queue *queue = ctx;
	const char *type = wh_row_text(row, 0);

	(void)err;
	(void)snprintf(queue->payload_type, sizeof(queue->payload_type), "%s",
		       type ? type : "");
	return WHERRY_OK;
}

static wherry_code read_payload(wherry_queue *queue, wherry_error *err)
{
	const wh_stmt *stmt = queue->own.payload_type;

	*queue->payload_type = 0;
	return stmt ? wh_db_run(queue->store.db, stmt, NULL, 0, take_type, queue, NULL,
				err)
		    : WHERRY_OK;
}

/* A queue keeps the type it was made with. */
static wherry_code check_payload(wherry_queue *queue, wherry_error *err)
{
	wherry_code code = read_payload(queue, err);

	if (code != WHERRY_OK || !queue->store.payload || !*queue->payload_type ||
	    strcmp(queue->store.payload, queue->payload_type) == 0)
		return code;
	return wh_fail(err, WHERRY_INVALID,
		       "queue '%s' is there and keeps payloads as %s: leave --payload "
		       "out, or make another one",
		       queue->store.name.ptr, queue->payload_type);
}

/* Runs under the write lock, or one of its own where many write at once: of two that create
 * a queue the second finds the work done. */
static wherry_code make(void *ctx, wherry_error *err)
{
	wherry_queue *queue = ctx;
	wh_made made = {.from = 0};
	wherry_code code = wh_store_begin_making(&queue->store, err);

	if (code == WHERRY_OK)
		code = check_payload(queue, err);
	return code == WHERRY_OK ? wh_store_migrate(&queue->store, &made, err) : code;
}

wherry_code wherry_queue_create(wherry_db *db, const char *name, const char *payload,
				wherry_error *err)
{
	wh_error_clear(err);
	wherry_queue queue = {.store = wh_store_init(db, &wh_queue_model)};
	wherry_code code;

	if (!db || !name)
		return wh_fail(err, WHERRY_INVALID,
			       "no connection to create the queue on, or no name");
	if (wherry_db_in_transaction(db))
		return wh_fail(err, WHERRY_INVALID,
			       "a transaction is open: creating a queue needs its own");
	queue.store.payload = payload;
	queue.store.making = true;
	code = wh_store_load(&queue.store, db->driver->scheme, NULL, name, &queue.own,
			     err);
	if (code == WHERRY_OK)
		code = wh_store_can_make(&queue.store, name, err);
	if (code == WHERRY_OK)
		code = wh_db_transact(db, make, &queue, err);
	wh_store_clear(&queue.store);
	return code;
}

wherry_code wherry_queue_create_sql(const char *scheme, const char *name,
				    const char *payload, char **out, wherry_error *err)
{
	wh_error_clear(err);
	wherry_queue queue = {.store = wh_store_init(NULL, &wh_queue_model)};
	wh_buf text = WH_BUF_INIT(256 * 1024);
	const char *known;
	wherry_code code;

	if (!scheme || !name || !out)
		return wh_fail(err, WHERRY_INVALID, "no database to write SQL for");
	queue.store.payload = payload;
	known = wh_db_scheme(wh_view_of(scheme));
	code = wh_store_load(&queue.store, known ? known : scheme, NULL, name, &queue.own,
			     err);
	if (code == WHERRY_OK) {
		wh_store_migrations_sql(&queue.store, name, &text);
		code = wh_buf_check(&text, err);
	}
	if (code == WHERRY_OK)
		*out = wh_buf_take(&text);
	wh_buf_clear(&text);
	wh_store_clear(&queue.store);
	return code;
}

wherry_code wh_queue_grant(wherry_queue *queue, const char *const *grants, size_t n,
			   wherry_error *err)
{
	return wh_store_grant(&queue->store, grants, n, err);
}

static wherry_code find_layout(wherry_queue *queue, const char *name, wherry_error *err)
{
	wh_version v = {.found = false};
	wherry_code code = wh_store_recognize(&queue->store, name, &queue->own, &v, err);

	if (code == WHERRY_OK)
		code = wh_store_check(&queue->store, &v, err);
	return code == WHERRY_OK ? read_payload(queue, err) : code;
}

wherry_code wherry_queue_open(wherry_db *db, const char *name, wherry_queue **out,
			      wherry_error *err)
{
	wh_error_clear(err);
	wherry_queue *queue;
	wherry_code code;

	if (!db || !name || !out)
		return wh_fail(err, WHERRY_INVALID,
			       "no connection to open the queue on, or no name");
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return wh_oom(err);
	queue->store = wh_store_init(db, &wh_queue_model);
	code = find_layout(queue, name, err);
	if (code != WHERRY_OK) {
		wherry_queue_close(queue);
		return code;
	}
	*out = queue;
	return WHERRY_OK;
}

void wherry_queue_close(wherry_queue *queue)
{
	if (!queue)
		return;
	wh_store_clear(&queue->store);
	free(queue);
}

wherry_code wherry_queue_drop(wherry_queue *queue, wherry_error *err)
{
	wh_error_clear(err);
	if (!queue)
		return wh_fail(err, WHERRY_INVALID, "no queue to drop");
	return wh_queue_failed(queue, wh_store_drop(&queue->store, err), err);
}
