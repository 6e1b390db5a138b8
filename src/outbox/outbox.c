#include "outbox/outbox.h"

#include <wherry/subscription.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "log/subscription.h"
#include "store/versions.h"

/* A new outbox has the first layout.  Existing tables are matched against the layouts in this
 * order. */
_Static_assert(WHERRY_STATE_COUNT == WHERRY_DEAD + 1, "each state is counted");

static const char *const layouts[] = {"log",        "adopted",  "event-bus",
				      "eventferry", "debezium", NULL};

static const char *const roles[] = {"producer", "enqueuer", "relay",
				    "consumer", "operator", NULL};

const wh_model wh_outbox_model = {"outbox",           layouts, NULL, wh_outbox_groups,
				  WHERRY_KIND_OUTBOX, roles,   NULL};

/* The limits of a layout, for users; "": none. */
static const char *limits_of(const char *layout)
{
	if (strcmp(layout, "event-bus") == 0)
		return "no keys and so no order, no headers, no pause; relays compete; "
		       "what is delivered goes to the archive";
	if (strcmp(layout, "eventferry") == 0)
		return "order by aggregate_id alone, no pause, no errors kept; "
		       "relays compete, and look for messages four times a second";
	if (strcmp(layout, "debezium") == 0)
		return "nothing is written to rows, which say nothing of what is delivered; "
		       "it is streamed";
	return "";
}

/* Set outbox->layout from the loaded .sql file. */
static void read_layout(wherry_outbox *outbox, const char *scheme)
{
	const wh_store *store = &outbox->store;

	outbox->layout = (wh_layout){
		.home = wh_home_of(store->model->name, store->layout.name, scheme),
		.streams = !store->stmt.fail,
		.jsonb = wh_store_says(store, "body", "jsonb"),
		.uuid = wh_store_says(store, "message_id", "uuid"),
	};
	outbox->store.limits = limits_of(store->layout.name);
}

wherry_code wh_outbox_load(wherry_outbox *outbox, const char *scheme, const char *layout,
			   const char *table, wherry_error *err)
{
	wherry_code code =
		wh_store_load(&outbox->store, scheme, layout, table, &outbox->own, err);

	if (code == WHERRY_OK)
		read_layout(outbox, scheme);
	return code;
}

static wherry_code find_unique(wherry_outbox *outbox, wherry_error *err)
{
	const wh_stmt *ask = outbox->own.unique_ids;
	int64_t unique = 0;
	wherry_code code = WHERRY_OK;

	if (ask)
		code = wh_store_ask(&outbox->store, ask, NULL, 0, &unique, err);
	outbox->asks_once = unique > 0;
	return code;
}

/* A table with segments is purged by them. */
static void set_segmented(wherry_outbox *outbox, bool segmented)
{
	outbox->store.segmented = segmented;
	if (!segmented)
		return;
	outbox->store.stmt.purge = outbox->own.purge_segments;
	outbox->store.stmt.purge_count = outbox->own.count_segments;
}

static wherry_code find_segments(wherry_outbox *outbox, wherry_error *err)
{
	int64_t segmented = 0;
	wherry_code code = WHERRY_OK;

	if (outbox->own.segmented)
		code = wh_store_ask(&outbox->store, outbox->own.segmented, NULL, 0,
				    &segmented, err);
	set_segmented(outbox, segmented > 0);
	return code;
}

wh_store wh_outbox_store(wherry_db *db, const wh_model *model)
{
	wh_store store = wh_store_init(db, model);

	store.topic = WH_SUBSCRIPTION_OF_RELAYS;
	return store;
}

wherry_code wh_outbox_check_old(const wherry_outbox *outbox, wherry_error *err)
{
	const wh_store *store = &outbox->store;
	int64_t exists = 1, old = 0;
	wherry_code code = WHERRY_OK;

	if (!outbox->own.old_kind)
		return WHERRY_OK;
	code = wh_store_ask(store, store->stmt.schema_exists, NULL, 0, &exists, err);
	if (code == WHERRY_OK && exists)
		code = wh_store_ask(store, outbox->own.old_kind, NULL, 0, &old, err);
	if (code != WHERRY_OK || !old)
		return code;
	return wh_fail(
		err, WHERRY_INVALID,
		"outbox '%s' is from an earlier Wherry, with states in its rows: empty it "
		"with that program, or INSERT INTO another outbox (topic, partition_key, "
		"payload) SELECT ... FROM it WHERE status IN (0, 1, 3) ORDER BY id",
		store->name.ptr);
}

wherry_code wh_outbox_check_server(const wherry_outbox *outbox, wherry_error *err)
{
	const wh_home home = outbox->layout.home;

	if ((home != WH_LOG_POSTGRES && home != WH_ADOPTED_POSTGRES) ||
	    wh_db_has(outbox->store.db, WH_DB_SNAPSHOTS))
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_UNSUPPORTED,
		"this server lacks PostgreSQL's snapshots, by which relays find "
		"messages that are committed late, so it can have no outbox: send to "
		"a queue in the same transaction, and relay the queue");
}

/* No layout matches: is it a table of an earlier version? */
static wherry_code refuse_old(wherry_outbox *outbox, const char *table, wherry_error *err)
{
	wherry_code code;

	wh_store_unload(&outbox->store);
	code = wh_outbox_load(outbox, outbox->store.db->driver->scheme, NULL, table, err);
	return code == WHERRY_OK ? wh_outbox_check_old(outbox, err) : code;
}

/* Layouts have the same names for what is beside the table, and a table of another program has all of them. */
static const char all_names[] = "adopted";

wherry_code wh_outbox_open_left(wherry_db *db, const char *table, wherry_outbox **out,
				bool *out_adopted, wherry_error *err)
{
	wherry_outbox *outbox = calloc(1, sizeof(*outbox));
	int64_t left = 0;
	wherry_code code;

	if (!outbox)
		return wh_oom(err);
	outbox->store = wh_outbox_store(db, &wh_outbox_model);
	/* Its schema is that of a table that is not there. */
	outbox->store.making = true;
	code = wh_outbox_load(outbox, db->driver->scheme, all_names, table, err);
	if (code == WHERRY_OK)
		code = wh_store_ask(&outbox->store, outbox->own.left_over, NULL, 0, &left,
				    err);
	if (code == WHERRY_OK && !left)
		code = wh_fail(err, WHERRY_NOTFOUND, "nothing is left of outbox '%s'",
			       table);
	*out_adopted = left > 1;
	if (code == WHERRY_OK)
		*out = outbox;
	else
		wherry_outbox_close(outbox);
	return code;
}

/* The table of another program was dropped by hand: creating one would not make it again. */
static wherry_code refuse_left(wherry_db *db, const char *table, wherry_code code,
			       wherry_error *err)
{
	wherry_outbox *left = NULL;
	bool adopted = false;

	if (wherry_db_in_transaction(db)) /* A missing table would end it. */
		return code;
	if (wh_outbox_open_left(db, table, &left, &adopted, NULL) == WHERRY_OK &&
	    adopted) {
		code = wh_fail(err, WHERRY_NOTFOUND,
			       "the table of outbox '%s' was dropped", table);
		(void)wh_repair(err, code, WHERRY_REPAIR_DOCTOR, WHERRY_KIND_OUTBOX,
				table);
	}
	wherry_outbox_close(left);
	return code;
}

/* On SQLite the view of a table that was dropped is still there. */
static wherry_code check_view(const wherry_outbox *outbox, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	int64_t first = 0;
	wherry_code code = WHERRY_OK;

	if (outbox->own.left_over && outbox->store.layout.purges_soon &&
	    !outbox->store.db->driver->connection.schema_of)
		code = wh_store_ask(&outbox->store, outbox->own.first_and_last, NULL, 0,
				    &first, &why);
	if (code != WHERRY_NOTFOUND || why.repair != WHERRY_REPAIR_CREATE)
		return WHERRY_OK; /* Statements that read rows report other failures. */
	if (err)
		*err = why;
	return code;
}

static wherry_code find_layout(wherry_outbox *outbox, const char *table,
			       wherry_error *err)
{
	wh_version v = {.found = false};
	wherry_code code =
		wh_store_recognize(&outbox->store, table, &outbox->own, &v, err);

	if (code == WHERRY_OK && !v.found && outbox->store.model == &wh_outbox_model)
		code = refuse_old(outbox, table, err);
	if (code == WHERRY_OK)
		code = wh_store_check(&outbox->store, &v, err);
	if (code == WHERRY_OK)
		read_layout(outbox, outbox->store.db->driver->scheme);
	if (code == WHERRY_OK)
		code = wh_store_read_payload(&outbox->store, err);
	if (code == WHERRY_OK)
		code = find_unique(outbox, err);
	if (code == WHERRY_OK)
		code = find_segments(outbox, err);
	if (code == WHERRY_OK)
		code = check_view(outbox, err);
	code = wh_store_missing(outbox->store.model, table, code, err);
	return code == WHERRY_NOTFOUND && (!err || err->repair == WHERRY_REPAIR_CREATE) &&
			       outbox->store.model == &wh_outbox_model
		       ? refuse_left(outbox->store.db, table, code, err)
		       : code;
}

wherry_code wherry_outbox_open(wherry_db *db, const char *table, wherry_outbox **out,
			       wherry_error *err)
{
	wh_error_clear(err);
	return wh_outbox_open_model(db, &wh_outbox_model, table, out, err);
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

wherry_code wh_subscription_check(const char *name, wherry_error *err)
{
	size_t len = name ? strlen(name) : 0, n = 0;

	while (n < len && is_name_char(name[n]))
		n++;
	if (len && n == len && len <= WH_SUBSCRIPTION_MOST)
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_INVALID,
		"'%.60s' is not the name of a subscription: write letters, digits, _ . "
		"or -, at most %d",
		name ? name : "", WH_SUBSCRIPTION_MOST);
}

/* Name the subscription, before the statements are loaded. */
static wherry_code set_subscription(wherry_outbox *outbox, const char *table,
				    const char *subscription, wherry_error *err)
{
	char title[300];

	(void)snprintf(outbox->subscription, sizeof(outbox->subscription), "%s",
		       subscription);
	outbox->store.topic = outbox->subscription;
	(void)snprintf(title, sizeof(title), "%s/%s", table, subscription);
	return wh_store_set_display_name(&outbox->store, title, err);
}

/* Set the name under which the subscription has a lease, and unless it is new check that it is
 * there. */
static wherry_code find_subscription(wherry_outbox *outbox, bool is_new,
				     wherry_error *err)
{
	wh_store *store = &outbox->store;
	int64_t high = -1;
	wherry_code code = WHERRY_OK;

	if (!outbox->own.subscribed)
		return wh_fail(
			err, WHERRY_INVALID,
			"outbox '%s' has the layout %s, which has no subscriptions",
			store->name.ptr, store->layout.name);
	if (!is_new)
		code = wh_store_ask(store, outbox->own.subscribed, NULL, 0, &high, err);
	if (code == WHERRY_OK && !is_new && high < 0)
		return wh_no_subscription(store, err);
	if (code == WHERRY_OK &&
	    strcmp(outbox->subscription, WH_SUBSCRIPTION_OF_RELAYS) != 0)
		code = wh_store_call(store, '\\', outbox->subscription, err);
	return code;
}

/* How to open an outbox. */
typedef struct opening {
	const wh_model *model;
	bool making;              /* Look among tables that the user owns. */
	const char *subscription; /* NULL: none is named. */
	bool is_new;              /* It need not exist. */
} opening;

static wherry_code open_as(wherry_db *db, const opening *how, const char *table,
			   wherry_outbox **out, wherry_error *err)
{
	wherry_outbox *outbox;
	wherry_code code;

	if (!db || !out)
		return wh_fail(err, WHERRY_INVALID,
			       "no connection to open the outbox on");
	outbox = calloc(1, sizeof(*outbox));
	if (!outbox)
		return wh_oom(err);
	outbox->store = wh_outbox_store(db, how->model);
	outbox->store.making = how->making;
	code = wh_store_set_display_name(&outbox->store, table ? table : "", err);
	if (code == WHERRY_OK && how->subscription)
		code = set_subscription(outbox, table ? table : "", how->subscription,
					err);
	if (code == WHERRY_OK)
		code = find_layout(outbox, table, err);
	if (code == WHERRY_OK && how->subscription)
		code = find_subscription(outbox, how->is_new, err);
	if (code != WHERRY_OK)
		goto out;
	*out = outbox;
	outbox = NULL; /* Owned by the caller now. */
out:
	wherry_outbox_close(outbox);
	return code;
}

wherry_code wh_outbox_open_model(wherry_db *db, const wh_model *model, const char *table,
				 wherry_outbox **out, wherry_error *err)
{
	const opening how = {.model = model};

	return open_as(db, &how, table, out, err);
}

wherry_code wh_outbox_open_made(wherry_db *db, const char *table, wherry_outbox **out,
				wherry_error *err)
{
	const opening how = {.model = &wh_outbox_model, .making = true};

	return open_as(db, &how, table, out, err);
}

wh_outbox_known wh_outbox_know(const wherry_outbox *outbox)
{
	const wh_store *store = &outbox->store;

	return (wh_outbox_known){
		.found = strcmp(store->layout.name, layouts[0]) == 0 &&
			 !*outbox->subscription,
		.segmented = store->segmented,
		.partitioned = store->partitioned > 0,
		.version = store->version,
	};
}

wherry_code wh_outbox_open_known(wherry_db *db, const char *table,
				 const wh_outbox_known *known, wh_sql *pattern,
				 wherry_outbox **out, wherry_error *err)
{
	wherry_outbox *outbox = calloc(1, sizeof(*outbox));
	wherry_code code;

	if (!outbox)
		return wh_oom(err);
	outbox->store = wh_outbox_store(db, &wh_outbox_model);
	outbox->store.pattern = pattern;
	code = wh_store_set_display_name(&outbox->store, table, err);
	if (code == WHERRY_OK)
		code = wh_outbox_load(outbox, db->driver->scheme, layouts[0], table, err);
	if (code != WHERRY_OK) {
		wherry_outbox_close(outbox);
		return code;
	}
	outbox->store.version = known->version;
	set_segmented(outbox, known->segmented);
	*out = outbox;
	return WHERRY_OK;
}

wherry_code wherry_subscription_open(wherry_db *db, const char *table,
				     const char *subscription, wherry_outbox **out,
				     wherry_error *err)
{
	const opening how = {.model = &wh_outbox_model, .subscription = subscription};
	wherry_code code;

	wh_error_clear(err);
	code = wh_subscription_check(subscription, err);
	return code == WHERRY_OK ? open_as(db, &how, table, out, err) : code;
}

wherry_code wh_subscription_open_new(wherry_db *db, const char *table, const char *name,
				     wherry_outbox **out, wherry_error *err)
{
	const opening how = {
		.model = &wh_outbox_model, .subscription = name, .is_new = true};

	return open_as(db, &how, table, out, err);
}

void wherry_outbox_close(wherry_outbox *outbox)
{
	if (!outbox)
		return;
	wh_store_clear(&outbox->store);
	free(outbox);
}

void wherry_message_init(wherry_message *msg)
{
	*msg = (wherry_message){.size = sizeof(*msg)};
}

const char *wherry_state_name(wherry_state state)
{
	static const char *const names[] = {"pending", "processing", "done", "failed",
					    "dead"};

	return (unsigned)state < WHERRY_STATE_COUNT ? names[state] : "unknown";
}
