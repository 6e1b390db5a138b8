/*
 * The functions that return rows: wherry_receive(), wherry_poll() and wherry_consume(), as
 * table-valued functions.
 *
 * Such a function is a virtual table whose hidden columns are its arguments.  Its rows are all made
 * when the scan begins, and copied, since the messages are borrowed for the call that visits them.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "extension/extension.h"

enum { MOST_ARGUMENTS = 8, MOST_COLUMNS = 12 };

typedef struct cell {
	int type; /* SQLITE_NULL, _INTEGER, _TEXT or _BLOB. */
	int64_t number;
	const char *bytes; /* In the arena of the rows. */
	size_t len;
} cell;

/* The rows of a scan. */
typedef struct rows {
	cell (*row)[MOST_COLUMNS];
	size_t n, cap, at;
	wh_arena arena;
	bool lacks_memory;
} rows;

struct table {
	const char *name;
	const char *columns; /* Declared; the arguments are hidden. */
	int n_columns;       /* Without the arguments. */
	int n_arguments;
	int least; /* The first so many arguments are needed. */
	wherry_code (*run)(const ext_call *call, rows *out, wherry_error *err);
};

/* ---- rows ---- */

static cell *next_row(rows *r)
{
	if (r->n == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 16;
		cell(*grown)[MOST_COLUMNS] = realloc(r->row, cap * sizeof(*grown));

		if (!grown) {
			r->lacks_memory = true;
			return NULL;
		}
		r->row = grown;
		r->cap = cap;
	}
	memset(r->row[r->n], 0, sizeof(r->row[r->n]));
	for (int i = 0; i < MOST_COLUMNS; i++)
		r->row[r->n][i].type = SQLITE_NULL;
	return r->row[r->n++];
}

static void put_number(cell *c, int64_t number)
{
	c->type = SQLITE_INTEGER;
	c->number = number;
}

static void put_bytes(rows *r, cell *c, int type, const void *bytes, size_t len)
{
	c->bytes = wh_arena_copy(&r->arena, bytes ? bytes : "", len);
	c->len = len;
	c->type = type;
	r->lacks_memory = r->lacks_memory || !c->bytes;
}

static void put_text(rows *r, cell *c, const char *text)
{
	if (text)
		put_bytes(r, c, SQLITE_TEXT, text, strlen(text));
}

/* The body as text, if it is that, and as bytes. */
static void put_body(rows *r, cell *text, cell *bytes, const void *body, size_t len)
{
	if (!body && len == 0)
		body = "";
	put_bytes(r, bytes, SQLITE_BLOB, body, len);
	if (bytes->bytes && wh_utf8_valid(bytes->bytes, len) &&
	    !memchr(bytes->bytes, 0, len)) {
		*text = *bytes;
		text->type = SQLITE_TEXT;
	}
}

static wherry_code done(rows *r, wherry_code code, wherry_error *err)
{
	return code == WHERRY_OK && r->lacks_memory ? wh_oom(err) : code;
}

/* The arguments n, lease and max_attempts, which begin with the second one. */
static wherry_code read_leasing(const ext_call *call, int64_t *limit, int64_t *lease_us,
				int32_t *max_attempts, wherry_error *err)
{
	int64_t most;
	wherry_code code =
		wh_ext_integer(call, 1, "the number of messages", 1, limit, err);

	if (code == WHERRY_OK)
		code = wh_ext_duration(call, 2, "the lease", 0, lease_us, err);
	if (code == WHERRY_OK)
		code = wh_ext_integer(call, 3, "the number of attempts", 0, &most, err);
	if (code != WHERRY_OK || *limit == 0)
		return code;
	if (most < 0 || most > INT32_MAX)
		return wh_fail(err, WHERRY_INVALID,
			       "the number of attempts is out of range");
	*max_attempts = (int32_t)most;
	return WHERRY_OK;
}

/* ---- wherry_receive(queue, n, lease, max_attempts, after) ---- */

static wherry_code visit_received(void *ctx, const wherry_queue_message *msg)
{
	rows *r = ctx;
	cell *c = next_row(r);

	if (!c)
		return WHERRY_NOMEM;
	put_number(&c[0], msg->id);
	put_text(r, &c[1], msg->message_id);
	put_text(r, &c[2], msg->topic);
	put_text(r, &c[3], msg->correlation_id);
	put_text(r, &c[4], msg->reply_to);
	put_text(r, &c[5], msg->headers);
	put_body(r, &c[6], &c[7], msg->body, msg->body_len);
	put_number(&c[8], msg->attempts);
	put_text(r, &c[9], msg->token);
	put_number(&c[10], msg->created_at_us / 1000);
	return WHERRY_OK;
}

static wherry_code receive(const ext_call *call, rows *out, wherry_error *err)
{
	wherry_receive_options options = WHERRY_RECEIVE_OPTIONS(.mode = WHERRY_LEASE);
	const char *name;
	wherry_queue *queue;
	wherry_code code = wh_ext_need(call, 0, "the queue", &name, err);

	if (code == WHERRY_OK)
		code = read_leasing(call, &options.limit, &options.lease_us,
				    &options.max_attempts, err);
	if (code != WHERRY_OK || options.limit == 0)
		return code;
	/* An argument that is given as NULL, unlike one that is left out. */
	if (call->argv[2] && sqlite3_value_type(call->argv[2]) == SQLITE_NULL) {
		options.mode = WHERRY_ATOMIC;
		code = wh_ext_check_open(call->ext, "wherry_receive", err);
	}
	queue = code == WHERRY_OK
			? wh_ext_open(call->ext, EXT_QUEUE, name, NULL, NULL, err)
			: NULL;
	return queue ? wherry_queue_receive(queue, &options, visit_received, out, NULL,
					    err)
		     : err->code;
}

/* ---- wherry_poll(queue, n, lease, max_attempts, type, delayed, after, after_id) ---- */

static wherry_code visit_polled(void *ctx, const wherry_delayed_message *msg)
{
	rows *r = ctx;
	cell *c = next_row(r);

	if (!c)
		return WHERRY_NOMEM;
	put_number(&c[0], msg->id);
	put_text(r, &c[1], msg->key);
	put_body(r, &c[2], &c[3], msg->body, msg->body_len);
	put_number(&c[4], msg->at_us / 1000);
	put_number(&c[5], msg->attempts);
	put_number(&c[6], msg->redelivery);
	put_text(r, &c[7], msg->token);
	return WHERRY_OK;
}

static wherry_code poll(const ext_call *call, rows *out, wherry_error *err)
{
	wherry_poll_options options = WHERRY_POLL_OPTIONS(.limit = 1);
	const char *name, *type = wh_ext_text(call, 4), *table = wh_ext_text(call, 5);
	wherry_delayed *delayed;
	wherry_code code = wh_ext_need(call, 0, "the queue", &name, err);

	if (code == WHERRY_OK)
		code = read_leasing(call, &options.limit, &options.lease_us,
				    &options.max_attempts, err);
	if (code != WHERRY_OK || options.limit == 0)
		return code;
	delayed = wh_ext_open(call->ext, EXT_DELAYED, table ? table : "delayed", name,
			      type ? type : "bytes", err);
	return delayed ? wherry_delayed_poll(delayed, &options, visit_polled, out, NULL,
					     err)
		       : err->code;
}

/* ---- wherry_consume(subscription, n, outbox) ---- */

static wherry_code visit_consumed(void *ctx, const wherry_row *row)
{
	const wherry_message *msg = row->message;
	rows *r = ctx;
	cell *c = next_row(r);

	if (!c)
		return WHERRY_NOMEM;
	put_number(&c[0], msg->id);
	put_text(r, &c[1], msg->message_id);
	put_text(r, &c[2], msg->topic);
	put_text(r, &c[3], msg->key);
	put_text(r, &c[4], msg->headers);
	put_body(r, &c[5], &c[6], msg->body, msg->body_len);
	put_text(r, &c[7], msg->aggregate_type);
	put_text(r, &c[8], msg->aggregate_id);
	put_text(r, &c[9], msg->trace_id);
	put_number(&c[10], msg->created_at_us / 1000);
	return WHERRY_OK;
}

static wherry_code consume(const ext_call *call, rows *out, wherry_error *err)
{
	const char *name, *table = wh_ext_text(call, 2);
	wherry_outbox *outbox;
	int64_t n;
	wherry_code code = wh_ext_check_open(call->ext, "wherry_consume", err);

	if (code == WHERRY_OK)
		code = wh_ext_need(call, 0, "the subscription", &name, err);
	if (code == WHERRY_OK)
		code = wh_ext_integer(call, 1, "the number of messages", 100, &n, err);
	if (code != WHERRY_OK)
		return code;
	outbox = wh_ext_open(call->ext, EXT_SUBSCRIPTION, table ? table : "outbox", name,
			     NULL, err);
	return outbox ? wherry_subscription_consume(outbox, n, visit_consumed, out, NULL,
						    err)
		      : err->code;
}

/* ---- the list ---- */

static const struct table tables[] = {
	{"wherry_receive",
	 "CREATE TABLE x(id INTEGER, message_id TEXT, topic TEXT, correlation_id TEXT, "
	 "reply_to TEXT, headers TEXT, body TEXT, bytes BLOB, attempts INTEGER, token TEXT, "
	 "created_at INTEGER, \"queue\" HIDDEN, \"n\" HIDDEN, \"lease\" HIDDEN, "
	 "\"max_attempts\" HIDDEN, \"after\" HIDDEN)",
	 11, 5, 1, receive},
	{"wherry_poll",
	 "CREATE TABLE x(id INTEGER, \"key\" TEXT, body TEXT, bytes BLOB, \"at\" INTEGER, "
	 "attempts INTEGER, redelivery INTEGER, token TEXT, \"queue\" HIDDEN, \"n\" HIDDEN, "
	 "\"lease\" HIDDEN, \"max_attempts\" HIDDEN, \"type\" HIDDEN, \"delayed\" HIDDEN, "
	 "\"after\" HIDDEN, \"after_id\" HIDDEN)",
	 8, 8, 1, poll},
	{"wherry_consume",
	 "CREATE TABLE x(id INTEGER, message_id TEXT, topic TEXT, \"key\" TEXT, headers TEXT, "
	 "payload TEXT, bytes BLOB, aggregate_type TEXT, aggregate_id TEXT, trace_id TEXT, "
	 "created_at INTEGER, \"subscription\" HIDDEN, \"n\" HIDDEN, \"outbox\" HIDDEN)",
	 11, 3, 1, consume},
};

/* ---- the virtual table ---- */

typedef struct registered {
	ext_state *ext;
	const struct table *table;
} registered;

typedef struct vtab {
	sqlite3_vtab base; /* Must be first. */
	const registered *registered;
} vtab;

typedef struct cursor {
	sqlite3_vtab_cursor base; /* Must be first. */
	rows rows;
} cursor;

static bool is_anchor(const registered *r)
{
	return r->table == &tables[0];
}

static int vtab_connect(sqlite3 *handle, void *data, int argc, const char *const *argv,
			sqlite3_vtab **out, char **out_error)
{
	const registered *r = data;
	vtab *v = calloc(1, sizeof(*v));
	int rc;

	(void)argc;
	(void)argv;
	(void)out_error;
	if (!v)
		return SQLITE_NOMEM;
	rc = sqlite3_declare_vtab(handle, r->table->columns);
	if (rc != SQLITE_OK) {
		free(v);
		return rc;
	}
	v->registered = r;
	if (is_anchor(r))
		r->ext->anchored = true;
	*out = &v->base;
	return SQLITE_OK;
}

/* SQLite disconnects the tables before it looks whether statements keep the connection open. */
static int vtab_disconnect(sqlite3_vtab *base)
{
	vtab *v = (vtab *)base;

	if (is_anchor(v->registered))
		wh_ext_close(v->registered->ext);
	free(v);
	return SQLITE_OK;
}

/* The arguments are conditions of equality on the hidden columns.  idxNum says which are there. */
static int vtab_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	const struct table *table = ((vtab *)base)->registered->table;
	int at[MOST_ARGUMENTS], next = 1;

	for (int i = 0; i < MOST_ARGUMENTS; i++)
		at[i] = -1;
	for (int i = 0; i < info->nConstraint; i++) {
		int argument = info->aConstraint[i].iColumn - table->n_columns;

		if (argument < 0 || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
			continue;
		if (!info->aConstraint[i].usable)
			return SQLITE_CONSTRAINT;
		at[argument] = i;
	}
	for (int i = 0; i < table->least; i++)
		if (at[i] < 0) {
			base->zErrMsg = sqlite3_mprintf("%s() needs %d argument%s",
							table->name, table->least,
							table->least > 1 ? "s" : "");
			return SQLITE_ERROR;
		}
	info->idxNum = 0;
	for (int i = 0; i < table->n_arguments; i++)
		if (at[i] >= 0) {
			info->aConstraintUsage[at[i]].argvIndex = next++;
			info->aConstraintUsage[at[i]].omit = 1;
			info->idxNum |= 1 << i;
		}
	info->estimatedCost = 1e6;
	info->estimatedRows = 100;
	return SQLITE_OK;
}

static int vtab_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
	cursor *c = calloc(1, sizeof(*c));

	(void)base;
	if (!c)
		return SQLITE_NOMEM;
	c->rows.arena = (wh_arena)WH_ARENA_INIT;
	*out = &c->base;
	return SQLITE_OK;
}

static int vtab_close(sqlite3_vtab_cursor *base)
{
	cursor *c = (cursor *)base;

	free(c->rows.row);
	wh_arena_clear(&c->rows.arena);
	free(c);
	return SQLITE_OK;
}

static int vtab_filter(sqlite3_vtab_cursor *base, int which, const char *unused, int argc,
		       sqlite3_value **argv)
{
	const registered *r = ((vtab *)base->pVtab)->registered;
	cursor *c = (cursor *)base;
	sqlite3_value *arguments[MOST_ARGUMENTS] = {NULL};
	const ext_call call = {r->ext, MOST_ARGUMENTS, arguments, NULL, 0};
	wherry_error err = WHERRY_ERROR_INIT;
	int at = 0;

	(void)unused;
	(void)argc;
	for (int i = 0; i < r->table->n_arguments; i++)
		if (which & (1 << i)) {
			assert(at < argc);
			arguments[i] = argv[at++];
		}
	c->rows.n = c->rows.at = 0;
	wh_arena_reset(&c->rows.arena);
	if (done(&c->rows, r->table->run(&call, &c->rows, &err), &err) == WHERRY_OK)
		return SQLITE_OK;
	sqlite3_free(base->pVtab->zErrMsg);
	base->pVtab->zErrMsg = sqlite3_mprintf("%s", err.message);
	return wh_ext_code(&err);
}

static int vtab_next(sqlite3_vtab_cursor *base)
{
	((cursor *)base)->rows.at++;
	return SQLITE_OK;
}

static int vtab_eof(sqlite3_vtab_cursor *base)
{
	const rows *r = &((cursor *)base)->rows;

	return r->at >= r->n;
}

static int vtab_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
	const rows *r = &((cursor *)base)->rows;
	const struct table *table = ((vtab *)base->pVtab)->registered->table;
	const cell *c;

	if (column >= table->n_columns)
		return SQLITE_OK; /* An argument: NULL. */
	c = &r->row[r->at][column];
	if (c->type == SQLITE_INTEGER)
		sqlite3_result_int64(context, c->number);
	else if (c->type == SQLITE_TEXT)
		sqlite3_result_text64(context, c->bytes, c->len, SQLITE_TRANSIENT,
				      SQLITE_UTF8);
	else if (c->type == SQLITE_BLOB)
		sqlite3_result_blob64(context, c->bytes, c->len, SQLITE_TRANSIENT);
	return SQLITE_OK;
}

static int vtab_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
	*out = (sqlite3_int64)((cursor *)base)->rows.at + 1;
	return SQLITE_OK;
}

static void unregister(void *data)
{
	registered *r = data;

	wh_ext_unuse(r->ext);
	free(r);
}

int wh_ext_add_tables(ext_state *ext)
{
	static const sqlite3_module module = {
		.iVersion = 0,
		.xConnect = vtab_connect, /* Without xCreate: only as a function. */
		.xBestIndex = vtab_best_index,
		.xDisconnect = vtab_disconnect,
		.xOpen = vtab_open,
		.xClose = vtab_close,
		.xFilter = vtab_filter,
		.xNext = vtab_next,
		.xEof = vtab_eof,
		.xColumn = vtab_column,
		.xRowid = vtab_rowid,
	};
	int rc = SQLITE_OK;

	for (size_t i = 0; rc == SQLITE_OK && i < sizeof(tables) / sizeof(*tables); i++) {
		registered *r = malloc(sizeof(*r));

		if (!r)
			return SQLITE_NOMEM;
		*r = (registered){ext, &tables[i]};
		ext->n_users++;
		rc = sqlite3_create_module_v2(ext->handle, tables[i].name, &module, r,
					      unregister);
	}
	return rc;
}
