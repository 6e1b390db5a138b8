/*
 * Creating, opening and removing queues.
 */
#include "queue/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"

static const char *const layouts[] = {"native", "nservicebus", NULL};

static const char *const roles[] = {"sender", "receiver", "operator", NULL};

const wh_model wh_queue_model = {"queue",           layouts, NULL, wh_queue_groups,
				 WHERRY_KIND_QUEUE, roles,   NULL};

void wherry_queue_message_init(wherry_queue_message *msg)
{
	*msg = (wherry_queue_message){.size = sizeof(*msg)};
}

wherry_code wh_queue_failed(const wherry_queue *queue, wherry_code code,
			    wherry_error *err)
{
	if (code == WHERRY_NOTFOUND && queue->fields_in_headers)
		return wh_store_remake(
			&queue->store,
			wh_fail(err, code,
				"the table '%s' is missing, or one of those that Wherry "
				"needs beside it",
				queue->store.name.ptr),
			err);
	if (code != WHERRY_OK && err && strcmp(err->sqlstate, "2200H") == 0)
		return wh_fail(
			err, code,
			"the sequence of queue '%s' has given out its last number: run "
			"ALTER TABLE %s ALTER seq TYPE bigint, and ALTER SEQUENCE "
			"%s_seq_seq AS bigint",
			queue->store.name.ptr, queue->store.name.ptr,
			queue->store.name.ptr);
	return wh_store_missing(queue->store.model, queue->store.name.ptr, code, err);
}

static wherry_code read_options(const wherry_queue_options *given, wh_making *out,
				wherry_error *err)
{
	wherry_queue_options own = WHERRY_QUEUE_OPTIONS(.layout = NULL);
	wherry_code code = WHERRY_OK;

	if (given)
		code = wh_sized_read(&own, sizeof(own), given,
				     offsetof(wherry_queue_options, payload), "options",
				     "WHERRY_QUEUE_OPTIONS", err);
	out->layout = own.layout;
	out->payload = own.payload;
	return code;
}

wherry_code wherry_queue_create(wherry_db *db, const char *name,
				const wherry_queue_options *options, wherry_error *err)
{
	wh_error_clear(err);
	wh_queue_stmts own;
	wh_making what = {.model = &wh_queue_model, .name = name, .own = &own};
	wherry_code code = read_options(options, &what, err);

	return code == WHERRY_OK ? wh_store_create(db, &what, err) : code;
}

wherry_code wherry_queue_create_sql(const char *scheme, const char *name,
				    const wherry_queue_options *options, char **out,
				    wherry_error *err)
{
	wh_error_clear(err);
	wh_queue_stmts own;
	wh_making what = {.model = &wh_queue_model, .name = name, .own = &own};
	wherry_code code = read_options(options, &what, err);

	return code == WHERRY_OK ? wh_store_create_sql(scheme, &what, out, err) : code;
}

/* Load the statements again for the type of the bodies, which their SQL names.  They were
 * loaded for json. */
static wherry_code load_for_payload(wherry_queue *queue, const char *name,
				    wherry_error *err)
{
	wh_store *store = &queue->store;
	char layout[sizeof(store->layout.name)];

	if (!*store->payload_type || strcmp(store->payload_type, "json") == 0)
		return WHERRY_OK;
	memcpy(layout, store->layout.name, sizeof(layout));
	wh_store_unload(store);
	store->payload = store->payload_type;
	return wh_store_load(store, store->db->driver->scheme, layout, name, &queue->own,
			     err);
}

static wherry_code take_catalog(void *ctx, const wh_row *row, wherry_error *err)
{
	wherry_queue *queue = ctx;
	const char *name = wh_row_text(row, 0);

	(void)err;
	(void)snprintf(queue->catalog, sizeof(queue->catalog), "%s", name ? name : "");
	return WHERRY_OK;
}

static wherry_code read_catalog(wherry_queue *queue, wherry_error *err)
{
	return queue->own.catalog ? wh_db_run(queue->store.db, queue->own.catalog, NULL,
					      0, take_catalog, queue, NULL, err)
				  : WHERRY_OK;
}

static wherry_code find_layout(wherry_queue *queue, const char *name, wherry_error *err)
{
	wh_version v = {.found = false};
	wherry_code code = wh_store_recognize(&queue->store, name, &queue->own, &v, err);

	if (code == WHERRY_OK)
		code = wh_store_check(&queue->store, &v, err);
	if (code != WHERRY_OK)
		return code;
	queue->fields_in_headers = wh_store_says(&queue->store, "fields", "headers");
	code = read_catalog(queue, err);
	if (code == WHERRY_OK)
		code = wh_store_read_payload(&queue->store, err);
	return code == WHERRY_OK ? load_for_payload(queue, name, err) : code;
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
	/* A program that receives once and ends is not always at the same turn. */
	queue->due_first = wh_random(db->env) & 1;
	code = wh_store_set_display_name(&queue->store, name, err);
	if (code == WHERRY_OK)
		code = find_layout(queue, name, err);
	if (code == WHERRY_OK)
		queue->store.limits = "no keys and so no order; relays compete, "
				      "and receivers may work beside them";
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
