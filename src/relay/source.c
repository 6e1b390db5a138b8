#include "relay/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "config/settings.h"

wherry_code wh_source_open(wherry_db *db, const char *model, const char *name,
			   wh_source *out, wherry_error *err)
{
	wh_source source = {.store = NULL};
	wherry_code code;

	if (strcmp(model, wh_queue_model.name) == 0) {
		code = wherry_queue_open(db, name, &source.queue, err);
		source.store = source.queue ? &source.queue->store : NULL;
	} else {
		code = wherry_outbox_open(db, name, &source.box, err);
		source.store = source.box ? &source.box->store : NULL;
	}
	if (code == WHERRY_OK)
		*out = source;
	return code;
}

const char *wh_source_named(const wherry_config *config, const char **out_model)
{
	const char *queue = wh_config_text(config, WH_RELAY_QUEUE);

	*out_model = *queue ? wh_queue_model.name : wh_outbox_model.name;
	return *queue ? queue : wh_config_text(config, WH_OUTBOX_TABLE);
}

wherry_code wh_source_open_set(wherry_db *db, const wherry_config *config, wh_source *out,
			       wherry_error *err)
{
	const char *model, *name = wh_source_named(config, &model);

	return wh_source_open(db, model, name, out, err);
}

wherry_code wh_source_take_url(const char *from, wherry_config *config, char **out_url,
			       wherry_error *err)
{
	char *url = NULL, *queue = NULL;
	wherry_code code = wh_url_split(from, wh_queue_model.name, &url, &queue, err);

	if (code == WHERRY_OK && queue)
		code = wherry_config_set(config, "relay.queue", queue, err);
	else if (code == WHERRY_OK)
		url = strdup(from);
	free(queue);
	if (code == WHERRY_OK && !url)
		code = wh_oom(err);
	if (code == WHERRY_OK)
		*out_url = url;
	else
		free(url);
	return code;
}

wherry_code wh_source_backlog(const wh_source *source, wh_backlog *out, wherry_error *err)
{
	wherry_queue_status status;
	wherry_code code;

	if (source->box)
		return wh_outbox_backlog(source->box, out, err);
	code = wherry_queue_get_status(source->queue, &status, sizeof(status), err);
	if (code == WHERRY_OK)
		*out = (wh_backlog){.pending = status.ready,
				    .processing = status.leased,
				    .failed = status.waiting,
				    .dead = status.dead,
				    .oldest_ready_us = status.oldest_ready_us};
	return code;
}

void wh_source_close(wh_source *source)
{
	wherry_outbox_close(source->box);
	wherry_queue_close(source->queue);
	*source = (wh_source){.store = NULL};
}
