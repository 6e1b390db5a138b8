#include "relay/source.h"

#include <stdlib.h>
#include <string.h>

#include <wherry/subscription.h>

#include "base/url.h"
#include "config/settings.h"
#include "relay/names.h"
#include "store/name.h"

/* OUTBOX/SUBSCRIPTION is a subscription of an outbox. */
static wherry_code open_outbox(wherry_db *db, const char *name, wherry_outbox **out,
			       wherry_error *err)
{
	wh_table_name parts;
	wherry_code code = wh_table_name_read(name, &parts, err);

	if (code != WHERRY_OK)
		return code;
	return *parts.queue
		       ? wherry_subscription_open(db, parts.table, parts.queue, out, err)
		       : wherry_outbox_open(db, parts.table, out, err);
}

static wherry_code open_delayed(wherry_db *db, const char *name, wh_source *out,
				wherry_error *err)
{
	wh_table_name parts;
	wherry_code code = wh_table_name_read(name, &parts, err);

	if (code == WHERRY_OK)
		code = wherry_delayed_open(db, parts.table, parts.queue,
					   *parts.type ? parts.type : NULL, &out->delayed,
					   err);
	if (code == WHERRY_NOTFOUND)
		wh_suggest(db, parts.table, WHERRY_KIND_DELAYED, err);
	if (code != WHERRY_OK)
		return code;
	out->store = &out->delayed->store;
	code = wh_store_set_display_name(out->store, name, err);
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
		code = open_outbox(db, name, &source.outbox, err);
		source.store = source.outbox ? &source.outbox->store : NULL;
	}
	if (code == WHERRY_OK)
		*out = source;
	return code;
}

/* TABLE/PART is a subscription of an outbox, or a delayed queue. */
static wherry_code open_part(wherry_db *db, const char *name, const wh_table_name *parts,
			     wh_source *out, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_code code = wherry_outbox_open(db, parts->table, &outbox, NULL);

	wherry_outbox_close(outbox);
	if (code != WHERRY_OK || *parts->type)
		return wh_source_open(db, wh_delayed_model.name, name, out, err);
	return wh_source_open(db, wh_outbox_model.name, name, out, err);
}

/* There is no outbox and no queue of that name: maybe it is a table of another model. */
static wherry_code explain_missing(wherry_db *db, const char *table, wherry_error *err)
{
	const unsigned kinds = WHERRY_KIND_OUTBOX | WHERRY_KIND_QUEUE;
	wherry_delayed *delayed = NULL;

	if (wherry_delayed_open(db, table, "any", NULL, &delayed, NULL) == WHERRY_OK) {
		wherry_delayed_close(delayed);
		return wh_fail(err, WHERRY_INVALID,
			       "'%s' has delayed queues: write %s/QUEUE to name one",
			       table, table);
	}
	if (strcmp(table, wherry_config_table()[WH_RELAY_TABLE].standard) == 0)
		return WHERRY_NOTFOUND;
	(void)wh_fail(err, WHERRY_NOTFOUND, "there is no outbox or queue '%s'", table);
	(void)wh_repair(err, WHERRY_NOTFOUND, WHERRY_REPAIR_CREATE, kinds, table);
	wh_suggest(db, table, kinds, err);
	return WHERRY_NOTFOUND;
}

/* The name can be that of an outbox or of a queue.  `table` is the decoded name. */
static wherry_code open_table(wherry_db *db, const char *name, const char *table,
			      wh_source *out, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = wh_source_open(db, wh_outbox_model.name, name, out, &why);

	if (code != WHERRY_NOTFOUND || why.repair == WHERRY_REPAIR_DOCTOR) {
		if (code != WHERRY_OK && err)
			*err = why;
		return code;
	}
	if (err) /* Reported for the default table if it is not a queue either. */
		*err = why;
	code = wh_source_open(db, wh_queue_model.name, table, out, &why);
	if (code == WHERRY_NOTFOUND)
		return explain_missing(db, table, err);
	if (err)
		*err = why;
	return code;
}

wherry_code wh_source_open_set(wherry_db *db, const wherry_config *config, wh_source *out,
			       wherry_error *err)
{
	const char *name = wh_config_text(config, WH_RELAY_TABLE);
	wh_table_name parts;
	wherry_code code = wh_table_name_read(name, &parts, err);

	if (code != WHERRY_OK)
		return code;
	return *parts.queue ? open_part(db, name, &parts, out, err)
			    : open_table(db, name, parts.table, out, err);
}

/* Refuse what can be the name of no table, before a file is made for it: maybe the # is a
 * part of the file's name. */
static wherry_code check_name(const char *from, const char *table, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	bool sqlite = strncmp(from, "sqlite:", 7) == 0;
	wherry_code code;
	wh_name name;

	if (!sqlite && strncmp(from, "postgres", 8) != 0)
		return WHERRY_OK; /* On SQL Server it can be an address. */
	code = wh_name_parse(table, !sqlite, &name, &why);
	return code == WHERRY_OK ? code
				 : wh_fail(err, code, "%s%s", why.message,
					   sqlite ? "; write %23 for a # in the name of "
						    "a file"
						  : "");
}

wherry_code wh_source_take_url(const char *from, wherry_config *config, char **out_url,
			       wherry_error *err)
{
	const char *name = wh_url_table(from);
	char *url = wh_url_database(from);
	wherry_code code = url ? WHERRY_OK : wh_oom(err);
	wh_table_name parts;

	if (code == WHERRY_OK && name)
		code = wh_table_name_read(name, &parts, err);
	if (code == WHERRY_OK && name)
		code = check_name(from, parts.table, err);
	if (code == WHERRY_OK && name)
		code = wherry_config_set(config, "relay.table", name, err);
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
	if (source->outbox)
		return wh_outbox_backlog(source->outbox, out, err);
	return source->queue ? count_queue(source->queue, out, err)
			     : count_delayed(source->delayed, out, err);
}

void wh_source_close(wh_source *source)
{
	wherry_outbox_close(source->outbox);
	wherry_queue_close(source->queue);
	wherry_delayed_close(source->delayed);
	*source = (wh_source){.store = NULL};
}
