#include "relay/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "config/settings.h"

/* The parts of the setting relay.delayed. */
typedef struct delayed_name {
	char queue[256], type[256], table[2 * WH_NAME_MOST + 8]; /* "": the default. */
} delayed_name;

static wherry_code take_part(const char **at, char *out, size_t cap, wherry_error *err)
{
	size_t len = strcspn(*at, "|");

	if (len >= cap)
		return wh_fail(
			err, WHERRY_TOOBIG,
			"'%.40s…' in the name of a delayed queue has %zu bytes, the "
			"limit is %zu",
			*at, len, cap - 1);
	memcpy(out, *at, len);
	out[len] = 0;
	*at += len + ((*at)[len] == '|');
	return WHERRY_OK;
}

static wherry_code read_name(const char *text, delayed_name *out, wherry_error *err)
{
	const char *at = text;
	wherry_code code = take_part(&at, out->queue, sizeof(out->queue), err);

	if (code == WHERRY_OK)
		code = take_part(&at, out->type, sizeof(out->type), err);
	if (code == WHERRY_OK)
		code = take_part(&at, out->table, sizeof(out->table), err);
	if (code == WHERRY_OK && *at)
		code = wh_fail(err, WHERRY_INVALID,
			       "relay.delayed '%.80s': write QUEUE or QUEUE|TYPE|TABLE",
			       text);
	return code;
}

static wherry_code open_delayed(wherry_db *db, const char *name, wh_source *out,
				wherry_error *err)
{
	delayed_name d;
	wherry_code code = read_name(name, &d, err);

	if (code == WHERRY_OK)
		code = wherry_delayed_open(db, *d.table ? d.table : NULL, d.queue,
					   *d.type ? d.type : NULL, &out->delayed, err);
	if (code != WHERRY_OK)
		return code;
	out->store = &out->delayed->store;
	code = wh_store_entitle(out->store, name, err);
	if (code != WHERRY_OK)
		wh_source_close(out);
	return code;
}

wherry_code wh_source_open(wherry_db *db, const char *model, const char *name,
			   wh_source *out, wherry_error *err)
{
	wh_source source = {.store = NULL};
	wherry_code code;

	if (strcmp(model, wh_delayed_model.name) == 0) {
		code = open_delayed(db, name, &source, err);
	} else if (strcmp(model, wh_queue_model.name) == 0) {
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
	const char *delayed = wh_config_text(config, WH_RELAY_DELAYED);
	const char *queue = wh_config_text(config, WH_RELAY_QUEUE);

	if (*delayed) {
		*out_model = wh_delayed_model.name;
		return delayed;
	}
	*out_model = *queue ? wh_queue_model.name : wh_outbox_model.name;
	return *queue ? queue : wh_config_text(config, WH_OUTBOX_TABLE);
}

wherry_code wh_source_open_set(wherry_db *db, const wherry_config *config, wh_source *out,
			       wherry_error *err)
{
	const char *model, *name = wh_source_named(config, &model);

	return wh_source_open(db, model, name, out, err);
}

/* Append the value of a URL parameter to the name; an empty part means the default. */
static wherry_code add_part(char *url, const char *parameter, wh_buf *name,
			    wherry_error *err)
{
	char *value = NULL;
	wherry_code code = wh_url_take(url, parameter, &value, err);

	if (code == WHERRY_OK && value && strchr(value, '|'))
		code = wh_fail(err, WHERRY_INVALID,
			       "%s=%.60s: a relay takes no name with a '|' in it",
			       parameter, value);
	if (code == WHERRY_OK)
		wh_buf_printf(name, "|%s", value ? value : "");
	free(value);
	return code;
}

/* *out_url receives NULL if the URL does not name a delayed queue. */
static wherry_code take_delayed(const char *from, wherry_config *config, char **out_url,
				wherry_error *err)
{
	wh_buf name = WH_BUF_INIT(4096);
	char *url = NULL, *queue = NULL;
	wherry_code code = wh_url_split(from, "delayed", &url, &queue, err);

	if (code == WHERRY_OK && queue && strchr(queue, '|'))
		code = wh_fail(err, WHERRY_INVALID,
			       "delayed=%.60s: a relay takes no name with a '|' in it",
			       queue);
	wh_buf_puts(&name, queue ? queue : "");
	if (code == WHERRY_OK && queue)
		code = add_part(url, "type", &name, err);
	if (code == WHERRY_OK && queue)
		code = add_part(url, "table", &name, err);
	while (name.len && name.ptr[name.len - 1] == '|')
		name.ptr[--name.len] = 0;
	if (code == WHERRY_OK && queue)
		code = wh_buf_check(&name, err);
	if (code == WHERRY_OK && queue)
		code = wherry_config_set(config, "relay.delayed", wh_buf_str(&name), err);
	free(queue);
	wh_buf_clear(&name);
	if (code == WHERRY_OK)
		*out_url = url;
	else
		free(url);
	return code;
}

wherry_code wh_source_take_url(const char *from, wherry_config *config, char **out_url,
			       wherry_error *err)
{
	char *url = NULL, *queue = NULL;
	wherry_code code = take_delayed(from, config, &url, err);

	if (code == WHERRY_OK && !url)
		code = wh_url_split(from, wh_queue_model.name, &url, &queue, err);
	if (code == WHERRY_OK && queue)
		code = wherry_config_set(config, "relay.queue", queue, err);
	else if (code == WHERRY_OK && !url)
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

static wherry_code count_queue(wherry_queue *queue, wh_backlog *out, wherry_error *err)
{
	wherry_queue_status status;
	wherry_code code = wherry_queue_get_status(queue, &status, sizeof(status), err);

	if (code == WHERRY_OK)
		*out = (wh_backlog){.pending = status.ready,
				    .processing = status.leased,
				    .failed = status.waiting,
				    .dead = status.dead,
				    .oldest_ready_us = status.oldest_ready_us};
	return code;
}

/* Messages that are not due yet do not count. */
static wherry_code count_delayed(wherry_delayed *delayed, wh_backlog *out,
				 wherry_error *err)
{
	wherry_delayed_status status;
	wherry_code code =
		wherry_delayed_get_status(delayed, &status, sizeof(status), err);

	if (code == WHERRY_OK)
		*out = (wh_backlog){.pending = status.due,
				    .processing = status.leased,
				    .dead = status.dead,
				    .oldest_ready_us = status.oldest_due_us};
	return code;
}

wherry_code wh_source_backlog(const wh_source *source, wh_backlog *out, wherry_error *err)
{
	if (source->box)
		return wh_outbox_backlog(source->box, out, err);
	return source->queue ? count_queue(source->queue, out, err)
			     : count_delayed(source->delayed, out, err);
}

void wh_source_close(wh_source *source)
{
	wherry_outbox_close(source->box);
	wherry_queue_close(source->queue);
	wherry_delayed_close(source->delayed);
	*source = (wh_source){.store = NULL};
}
