/*
 * The functions that return rows: wherry_receive(), wherry_poll() and wherry_consume(), as
 * table-valued functions.
 *
 * Such a function is a virtual table whose hidden columns are its arguments.  Its rows are all made
 * when the scan begins, and copied, since the messages are borrowed for the call that visits them.
 *
 * SQLite makes a module that has the function's name a table of "main".  A statement that reads such
 * a table begins to read the file, and SQLite then refuses at once, whatever the busy timeout is, if the
 * function wants to write while another connection writes.  So each function is a table of "temp", too,
 * which SQLite finds first: the statement reads nothing of the file, and the function waits for
 * its turn (system_sqlite_extension).  Triggers and views of the file find the table of "main".
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

/* The module of the tables of "temp". */
#define TEMP_MODULE "wherry_rows"

typedef struct registered {
	ext_state *ext;
	const struct table
		*table; /* NULL: of TEMP_MODULE, whose tables have the names. */
} registered;

typedef struct vtab {
	sqlite3_vtab base; /* Must be first. */
	ext_state *ext;
	const struct table *table;
	bool anchor; /* When it is disconnected, all is closed. */
} vtab;

typedef struct cursor {
	sqlite3_vtab_cursor base; /* Must be first. */
	rows rows;
} cursor;

/* The function of a table of "temp"; NULL: it is none. */
static const struct table *named(int argc, const char *const *argv)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		if (argc > 2 && strcmp(argv[1], "temp") == 0 &&
		    strcmp(argv[2], tables[i].name) == 0)
			return &tables[i];
	return NULL;
}

static int vtab_connect(sqlite3 *handle, void *data, int argc, const char *const *argv,
			sqlite3_vtab **out, char **out_error)
{
	const registered *r = data;
	const struct table *table = r->table ? r->table : named(argc, argv);
	vtab *v;
	int rc;

	if (!table) {
		*out_error = sqlite3_mprintf("call wherry_receive() and the others "
					     "without a table of your own");
		return SQLITE_ERROR;
	}
	v = calloc(1, sizeof(*v));
	if (!v)
		return SQLITE_NOMEM;
	rc = sqlite3_declare_vtab(handle, table->columns);
	if (rc != SQLITE_OK) {
		free(v);
		return rc;
	}
	v->ext = r->ext;
	v->ext->n_users++; /* SQLite may forget the module first. */
	v->table = table;
	v->anchor = r->table == &tables[0];
	if (v->anchor)
		r->ext->anchored = true;
	*out = &v->base;
	return SQLITE_OK;
}

/* Another function than vtab_connect(): otherwise TEMP_MODULE would be a function, too. */
static int vtab_create(sqlite3 *handle, void *data, int argc, const char *const *argv,
		       sqlite3_vtab **out, char **out_error)
{
	return vtab_connect(handle, data, argc, argv, out, out_error);
}

/* SQLite disconnects the tables before it looks whether statements keep the connection open. */
static int vtab_disconnect(sqlite3_vtab *base)
{
	vtab *v = (vtab *)base;

	if (v->anchor)
		wh_ext_close(v->ext);
	wh_ext_unuse(v->ext);
	free(v);
	return SQLITE_OK;
}

/* The arguments are conditions of equality on the hidden columns.  idxNum says which are there. */
static int vtab_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	const struct table *table = ((vtab *)base)->table;
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
	const vtab *v = (const vtab *)base->pVtab;
	cursor *c = (cursor *)base;
	sqlite3_value *arguments[MOST_ARGUMENTS] = {NULL};
	ext_whole whole[EXT_MOST_ARGUMENTS];
	const ext_call call = {v->ext, MOST_ARGUMENTS, arguments, NULL, 0, whole};
	ext_lock lock;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	int at = 0;

	(void)unused;
	(void)argc;
	for (int i = 0; i < v->table->n_arguments; i++)
		if (which & (1 << i)) {
			assert(at < argc);
			arguments[i] = argv[at++];
		}
	c->rows.n = c->rows.at = 0;
	wh_arena_reset(&c->rows.arena);
	code = wh_ext_begin(v->ext, &lock, &err);
	if (code == WHERRY_OK)
		code = done(&c->rows, v->table->run(&call, &c->rows, &err), &err);
	if (wh_ext_end(v->ext, code, &err) == WHERRY_OK)
		return SQLITE_OK;
	wh_ext_explain(v->ext, &lock, &err);
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
	const struct table *table = ((vtab *)base->pVtab)->table;
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

#define VTAB_FUNCTIONS                                                                   \
	.xConnect = vtab_connect, .xBestIndex = vtab_best_index,                         \
	.xDisconnect = vtab_disconnect, .xOpen = vtab_open, .xClose = vtab_close,        \
	.xFilter = vtab_filter, .xNext = vtab_next, .xEof = vtab_eof,                    \
	.xColumn = vtab_column, .xRowid = vtab_rowid

static int add_module(ext_state *ext, const char *name, const sqlite3_module *module,
		      const struct table *table)
{
	registered *r = malloc(sizeof(*r));

	if (!r)
		return SQLITE_NOMEM;
	*r = (registered){ext, table};
	ext->n_users++;
	/* On failure SQLite calls unregister(). */
	return sqlite3_create_module_v2(ext->handle, name, module, r, unregister);
}

static int found(void *out, int n, char **values, char **names)
{
	(void)n;
	(void)values;
	(void)names;
	*(bool *)out = true;
	return 0;
}

/*
 * Make the tables of "temp".  If the extension was loaded before, on the same connection, its tables
 * call the functions of that time: they are replaced.  If a table cannot be made, the function
 * is still there, and may only not wait.
 */
static void add_temp_tables(sqlite3 *handle)
{
	char sql[200];

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		bool old = false;

		(void)sqlite3_snprintf(
			sizeof(sql), sql,
			"SELECT 1 FROM sqlite_temp_master WHERE name = %Q "
			"AND sql LIKE 'CREATE VIRTUAL TABLE %% USING " TEMP_MODULE "'",
			tables[i].name);
		(void)sqlite3_exec(handle, sql, found, &old, NULL);
		(void)sqlite3_snprintf(sizeof(sql), sql, "DROP TABLE temp.%s",
				       tables[i].name);
		if (old)
			(void)sqlite3_exec(handle, sql, NULL, NULL, NULL);
		(void)sqlite3_snprintf(
			sizeof(sql), sql,
			"CREATE VIRTUAL TABLE IF NOT EXISTS temp.%s USING " TEMP_MODULE,
			tables[i].name);
		(void)sqlite3_exec(handle, sql, NULL, NULL, NULL);
	}
}

int wh_ext_add_tables(ext_state *ext)
{
	/* Without xCreate: only as a function. */
	static const sqlite3_module function = {.iVersion = 0, VTAB_FUNCTIONS};
	static const sqlite3_module of_temp = {.iVersion = 0,
					       .xCreate = vtab_create,
					       .xDestroy = vtab_disconnect,
					       VTAB_FUNCTIONS};
	int rc = add_module(ext, TEMP_MODULE, &of_temp, NULL);

	for (size_t i = 0; rc == SQLITE_OK && i < sizeof(tables) / sizeof(*tables); i++)
		rc = add_module(ext, tables[i].name, &function, &tables[i]);
	if (rc == SQLITE_OK)
		add_temp_tables(ext->handle);
	return rc;
}
