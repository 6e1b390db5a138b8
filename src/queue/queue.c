/*
 * Creating, opening and removing queues.
 */
#include "queue/queue.h"

#include <stdlib.h>

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

wherry_code wherry_queue_create(wherry_db *db, const char *name, const char *payload,
				wherry_error *err)
{
	wh_error_clear(err);
	wh_queue_stmts own;

	return wh_store_create(db,
			       &(wh_making){.model = &wh_queue_model,
					    .name = name,
					    .payload = payload,
					    .own = &own},
			       err);
}

wherry_code wherry_queue_create_sql(const char *scheme, const char *name,
				    const char *payload, char **out, wherry_error *err)
{
	wh_error_clear(err);
	wh_queue_stmts own;

	return wh_store_create_sql(scheme,
				   &(wh_making){.model = &wh_queue_model,
						.name = name,
						.payload = payload,
						.own = &own},
				   out, err);
}

static wherry_code find_layout(wherry_queue *queue, const char *name, wherry_error *err)
{
	wh_version v = {.found = false};
	wherry_code code = wh_store_recognize(&queue->store, name, &queue->own, &v, err);

	if (code == WHERRY_OK)
		code = wh_store_check(&queue->store, &v, err);
	return code == WHERRY_OK ? wh_store_read_payload(&queue->store, err) : code;
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
