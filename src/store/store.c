#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/text.h"
#include "store/fields.h"

enum {
	IDS_MAX = 4 * 1024 * 1024,     /* bytes of a list of ids */
	NAMES_MAX = 512 * 1024 * 1024, /* and of message ids */

	/* Bytes of a message id that is sent as it is, and of what is sent of a longer one;
	 * the SQL that compares them has the same numbers. */
	NAME_SHORT = 128,
	NAME_BEGINNING = 80,
	NAME_WIDE = NAME_BEGINNING + WH_SHA256_LEN
};

wherry_code wh_take_int(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(int64_t *)ctx = wh_row_int(row, 0);
	return WHERRY_OK;
}

int64_t wh_ms(int64_t us)
{
	return us / 1000 + (us % 1000 > 0);
}

wherry_code wh_store_list(wh_buf *buf, const int64_t *ids, size_t n, wh_param *out,
			  wherry_error *err)
{
	wherry_code code;

	wh_buf_reset(buf);
	wh_buf_putc(buf, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			wh_buf_putc(buf, ',');
		wh_buf_int(buf, ids[i]);
	}
	wh_buf_putc(buf, ']');
	code = wh_buf_check(buf, err);
	if (code != WHERRY_OK)
		return code;
	*out = WH_TEXT_PARAM("ids", ((wh_view){buf->ptr, buf->len}));
	return WHERRY_OK;
}

static void list_names(wh_buf *buf, const wh_view *names, size_t n)
{
	static const char digits[] = "0123456789ABCDEF";

	wh_buf_putc(buf, '[');
	for (size_t i = 0; i < n; i++) {
		wh_buf_puts(buf, i ? ",\"" : "\"");
		for (size_t at = 0; at < names[i].len; at++) {
			unsigned char c = (unsigned char)names[i].ptr[at];

			wh_buf_putc(buf, digits[c >> 4]);
			wh_buf_putc(buf, digits[c & 15]);
		}
		wh_buf_putc(buf, '"');
	}
	wh_buf_putc(buf, ']');
}

/* As texts: the database compares them in another encoding. */
static void list_texts(wh_buf *buf, const wh_view *names, size_t n)
{
	wh_buf_putc(buf, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			wh_buf_putc(buf, ',');
		wh_buf_json(buf, names[i].ptr, names[i].len);
	}
	wh_buf_putc(buf, ']');
}

/* Instead of a long name: its first bytes and its SHA-256.  One long name would make all others as
 * wide as itself. */
static bool put_name(wh_buf *buf, wh_view name, size_t width)
{
	static const char zeros[NAME_WIDE];
	char sum[WH_SHA256_LEN + 1];
	size_t len = name.len;

	if (name.len <= NAME_SHORT) {
		wh_buf_put(buf, name.ptr, name.len);
	} else {
		if (!wh_sha256(name, sum))
			return false;
		wh_buf_put(buf, name.ptr, NAME_BEGINNING);
		wh_buf_put(buf, sum, WH_SHA256_LEN);
		len = NAME_WIDE;
	}
	wh_buf_put(buf, zeros, width - len);
	return true;
}

/* Write the names one after the other, each padded with zeros to the same width. */
static wherry_code line_up(wh_buf *buf, const wh_view *names, size_t n, size_t *out_width,
			   wherry_error *err)
{
	size_t width = 0;

	for (size_t i = 0; i < n; i++)
		width = names[i].len > width ? names[i].len : width;
	width = width > NAME_SHORT ? NAME_WIDE : width;
	for (size_t i = 0; i < n; i++)
		if (!put_name(buf, names[i], width))
			return wh_oom(err);
	*out_width = width;
	return WHERRY_OK;
}

wherry_code wh_store_names(wh_store *store, const wh_view *names, size_t n,
			   wh_param out[WH_NAME_PARAMS], wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	size_t width = 0;
	wh_view all;

	out[0] = WH_TEXT_PARAM("names", ((wh_view){NULL, 0}));
	out[1] = WH_INT_PARAM("width", 0);
	if (!names || store->layout.by_claim)
		return WHERRY_OK;
	wh_buf_reset(&store->message_ids);
	if (store->layout.json_names)
		list_texts(&store->message_ids, names, n);
	else if (store->db->driver->commits.version)
		list_names(&store->message_ids, names, n);
	else
		code = line_up(&store->message_ids, names, n, &width, err);
	if (code == WHERRY_OK)
		code = wh_buf_check(&store->message_ids, err);
	if (code != WHERRY_OK)
		return code;
	all = (wh_view){store->message_ids.ptr, store->message_ids.len};
	out[0] = width ? WH_BLOB_PARAM("names", all) : WH_TEXT_PARAM("names", all);
	out[1] = WH_INT_PARAM("width", (int64_t)width);
	return WHERRY_OK;
}

wherry_code wh_store_ids(wh_store *store, const int64_t *ids, size_t n, wh_param *out,
			 wherry_error *err)
{
	return wh_store_list(&store->ids, ids, n, out, err);
}

static const char changed[] = "is not as Wherry made it";

/* Is the table there, and a column of it is not?  The message may have any names, so what
 * the database calls the error decides; SQLite has only its text. */
static bool lacks_column(const wherry_error *err)
{
	return *err->sqlstate ? strcmp(err->sqlstate, "42703") == 0 ||
					strcmp(err->sqlstate, "42S22") == 0
			      : strstr(err->message, ": no such column: ") != NULL;
}

/* Name the column: creating the table again would find that it is there. */
static wherry_code damaged(const wh_model *model, const char *table, wherry_error *err)
{
	char why[200];

	(void)snprintf(why, sizeof(why), "%.190s", err->message);
	return wh_fail(
		err, WHERRY_NOTFOUND,
		"the table of %s '%s' %s: %s; give the column its name and type back",
		model->name, table, changed, why);
}

wherry_code wh_store_missing(const wh_model *model, const char *table, wherry_code code,
			     wherry_error *err)
{
	static const char mark[] = "no such index: "; /* as SQLite says it */
	const char *found =
		code == WHERRY_NOTFOUND && err ? strstr(err->message, mark) : NULL;
	char index[100];

	if (code != WHERRY_NOTFOUND || (err && strstr(err->message, changed)))
		return code;
	if (found) {
		(void)snprintf(index, sizeof(index), "%s", found + strlen(mark));
		(void)wh_fail(err, code, "the index '%s' of %s '%s' is missing", index,
			      model->name, table);
		return wh_repair(err, code, WHERRY_REPAIR_CREATE, model->kind, table);
	}
	if (err && lacks_column(err))
		return damaged(model, table, err);
	(void)wh_fail(err, code, "there is no %s '%s' in this database", model->name,
		      table);
	return wh_repair(err, code, WHERRY_REPAIR_CREATE, model->kind, table);
}

wherry_code wh_store_remake(const wh_store *store, wherry_code code, wherry_error *err)
{
	(void)wh_repair(err, code, WHERRY_REPAIR_CREATE, store->model->kind,
			store->name.ptr);
	/* An adopted table is known by its view. */
	if (err && strcmp(store->layout.name, "native") != 0 &&
	    strcmp(store->layout.name, "adopted") != 0)
		(void)snprintf(err->layout, sizeof(err->layout), "%s",
			       store->layout.name);
	return code;
}

wherry_code wh_store_ask(const wh_store *store, const wh_stmt *stmt,
			 const wh_param *params, size_t n_params, int64_t *inout,
			 wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (stmt)
		code = wh_db_run(store->db, stmt, params, n_params, wh_take_int, inout,
				 NULL, err);
	return wh_store_missing(store->model, store->name.ptr, code, err);
}

wh_store wh_store_init(wherry_db *db, const wh_model *model)
{
	return (wh_store){
		.model = model,
		.db = db,
		.partitioned = -1,
		.limits = "",
		.body_max = WH_BODY_MAX,
		.ids = WH_BUF_INIT(IDS_MAX),
		.message_ids = WH_BUF_INIT(NAMES_MAX),
	};
}

void wh_store_clear(wh_store *store)
{
	wh_store_unload(store);
	free(store->display_name);
	free(store->lease_name);
	store->display_name = store->lease_name = NULL;
	wh_buf_clear(&store->ids);
	wh_buf_clear(&store->message_ids);
	wh_marks_clear(&store->marks);
}

wherry_code wh_store_set_display_name(wh_store *store, const char *title,
				      wherry_error *err)
{
	char *copy = strdup(title);

	if (!copy)
		return wh_oom(err);
	free(store->display_name);
	store->display_name = copy;
	return WHERRY_OK;
}

wherry_code wh_store_call(wh_store *store, char mark, const char *part, wherry_error *err)
{
	char *called = NULL;

	if (asprintf(&called, "%.*s%c%s", (int)store->name.len, store->name.ptr, mark,
		     part) < 0)
		return wh_oom(err);
	free(store->lease_name);
	store->lease_name = called;
	return WHERRY_OK;
}

wh_param wh_store_lease_name(const wh_store *store)
{
	return WH_TEXT_PARAM("name", store->lease_name ? wh_view_of(store->lease_name)
						       : store->name);
}

/* ---- layouts ---- */

static bool says(const wh_sql *sql, const char *key, const char *word)
{
	char text[64];

	return wh_sql_word(sql, key, text, sizeof(text)) && strcmp(text, word) == 0;
}

bool wh_store_says(const wh_store *store, const char *key, const char *word)
{
	return says(&store->sql, key, word);
}

/* Is a word in "a,b,c"? */
static bool lists(const wh_sql *sql, const char *key, const char *word)
{
	size_t len = strlen(word);
	char text[64];

	if (!wh_sql_word(sql, key, text, sizeof(text)))
		return false;
	for (const char *s = text; *s;) {
		size_t n = strcspn(s, ",");

		if (n == len && memcmp(s, word, n) == 0)
			return true;
		s += n + (s[n] == ',');
	}
	return false;
}

const char *wh_store_folder(const wh_model *model)
{
	return model->folder ? model->folder : model->name;
}

const char *wh_store_text(const wh_model *model, const char *layout, const char *scheme)
{
	if (!model->files)
		return wh_sql_embedded(wh_store_folder(model), layout, scheme);
	for (const wh_sql_file *f = model->files; f->model; f++)
		if (strcmp(f->model, wh_store_folder(model)) == 0 &&
		    strcmp(f->layout, layout) == 0 && strcmp(f->dialect, scheme) == 0)
			return f->text;
	return NULL;
}

static wherry_code read_layout(wh_store *store, wherry_error *err)
{
	wh_store_layout layout = {
		.by_claim = says(&store->sql, "fence", "claim"),
		.unheard = says(&store->sql, "wakes", "no"),
		.ordered = says(&store->sql, "ordered", "yes"),
		.by_aggregate = says(&store->sql, "order", "aggregate"),
		.json = says(&store->sql, "body", "json"),
		.json_names = says(&store->sql, "message_ids", "json"),
		.text = says(&store->sql, "body", "text"),
		.purges_soon = says(&store->sql, "purges", "soon"),
	};

	if (!wh_sql_word(&store->sql, "name", layout.name, sizeof(layout.name)) ||
	    !wh_sql_word(&store->sql, "columns", layout.columns, sizeof(layout.columns)))
		return wh_fail(err, WHERRY_INVALID,
			       "the head line has no name or columns");
	store->layout = layout;
	return WHERRY_OK;
}

/* Is it a layout of the model, on any database? */
static bool is_layout(const wh_model *model, const char *name)
{
	for (int i = 0; model->layouts[i]; i++)
		if (strcmp(model->layouts[i], name) == 0)
			return true;
	return false;
}

/* Write the layouts that the model has on this database: "native, funfix or x". */
static void put_layouts(const wh_model *model, const char *scheme, wh_buf *to)
{
	const char *last = NULL;
	int n = 0;

	for (int i = 0; model->layouts[i]; i++) {
		if (!wh_store_text(model, model->layouts[i], scheme))
			continue;
		if (last)
			wh_buf_printf(to, "%s%s", n++ ? ", " : "", last);
		last = model->layouts[i];
	}
	wh_buf_printf(to, "%s%s", n ? " or " : "", last ? last : "");
}

static wherry_code refuse_layout(const wh_model *model, const char *name,
				 const char *scheme, wherry_error *err)
{
	wh_buf known = WH_BUF_INIT(1000);
	wherry_code code;

	put_layouts(model, scheme, &known);
	code = is_layout(model, name)
		       ? wh_fail(err, WHERRY_UNSUPPORTED,
				 "there is no layout '%s' on '%.20s:': write %s", name,
				 scheme, wh_buf_str(&known))
		       : wh_fail(err, WHERRY_INVALID,
				 "there is no layout '%.40s': write %s", name,
				 wh_buf_str(&known));
	wh_buf_clear(&known);
	return code;
}

/* Is it a type that the head line of this text lists? */
static bool chooses(const char *text, const char *payload)
{
	size_t len = strcspn(text, "\n");
	char *line = strndup(text, len);
	wh_sql head = {.layout = line};
	bool found = line && lists(&head, "payloads", payload);

	free(line);
	return found;
}

/* Its schema is looked up once, and then stands before each name in the statements. */
static wherry_code name_it(wh_store *store, const char *table, bool schemas,
			   wherry_error *err)
{
	wherry_code code;
	wh_name name;

	if (*store->names.schema)
		return WHERRY_OK; /* loaded before, with another layout */
	code = wh_name_parse(table, schemas, &name, err);
	if (code == WHERRY_OK && !*name.schema && schemas && store->db)
		code = wh_db_schema_of(store->db, name.table, store->making, name.schema,
				       sizeof(name.schema), err);
	if (code != WHERRY_OK)
		return code;
	store->names = name;
	store->name = wh_view_of(store->names.table);
	return WHERRY_OK;
}

/* The text of the layout's file, if there is one and it has the type of bodies. */
static wherry_code find_text(const wh_store *store, const char *scheme,
			     const char *layout, const char **out, wherry_error *err)
{
	*out = is_layout(store->model, layout)
		       ? wh_store_text(store->model, layout, scheme)
		       : NULL;
	if (!*out && !wh_store_text(store->model, store->model->layouts[0], scheme))
		return wh_fail(err, WHERRY_UNSUPPORTED, "no %s on '%.20s:'",
			       store->model->name, scheme);
	if (!*out)
		return refuse_layout(store->model, layout, scheme, err);
	if (store->payload && !chooses(*out, store->payload))
		return wh_fail(
			err, WHERRY_INVALID,
			"no payloads of type '%.40s' here: json, jsonb, text and bytea are "
			"possible in Wherry's own tables on PostgreSQL, text and bytea in "
			"those on SQL Server",
			store->payload);
	return WHERRY_OK;
}

/* Read the file for the names of the store; from its pattern, which is read once, if there is one. */
static wherry_code parse(wh_store *store, const char *text, const wh_sql_names *names,
			 wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (!store->pattern || !names->schema ||
	    !wh_sql_fits_pattern(names->schema, names->table))
		return wh_sql_parse_as(text, names, &store->sql, err);
	if (!store->pattern->n)
		code = wh_sql_parse_pattern(text, names, store->pattern, err);
	return code == WHERRY_OK ? wh_sql_fill(store->pattern, names->schema,
					       names->table, &store->sql, err)
				 : code;
}

wherry_code wh_store_load(wh_store *store, const char *scheme, const char *layout,
			  const char *table, void *own, wherry_error *err)
{
	wh_sql_names names = {.dialect = scheme,
			      .payload = store->payload ? store->payload : "json",
			      .topic = store->topic,
			      .kind = store->kind};
	const char *first = store->model->layouts[0], *text = NULL, *known;
	wherry_code code;

	layout = layout ? layout : first;
	known = wh_store_text(store->model, first, scheme);
	code = name_it(store, table, known && wh_sql_says(known, "names=qualified"), err);
	if (code == WHERRY_OK)
		code = find_text(store, scheme, layout, &text, err);
	if (code != WHERRY_OK)
		return code;
	names.schema = *store->names.schema ? store->names.schema : NULL;
	names.table = store->names.table;
	code = parse(store, text, &names, err);
	if (code == WHERRY_OK)
		code = read_layout(store, err);
	if (code == WHERRY_OK && !store->sql.pattern)
		code = wh_groups_check(&store->sql, wh_store_groups, store->model->groups,
				       err);
	if (code == WHERRY_OK)
		code = wh_groups_bind(&store->sql, wh_store_groups, &store->stmt, err);
	if (code == WHERRY_OK)
		code = wh_groups_bind(&store->sql, store->model->groups, own, err);
	if (code != WHERRY_OK)
		return wh_prefix(err, code, "%s/sql/%s.%s.sql",
				 wh_store_folder(store->model), layout, scheme);
	return WHERRY_OK;
}

void wh_store_unload(wh_store *store)
{
	if (store->db && store->sql.n)
		wh_db_forget(store->db, &store->sql);
	wh_sql_clear(&store->sql);
}

static wherry_code take_type(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_store *store = ctx;
	const char *type = wh_row_text(row, 0);

	(void)err;
	(void)snprintf(store->payload_type, sizeof(store->payload_type), "%s",
		       type ? type : "");
	return WHERRY_OK;
}

wherry_code wh_store_read_payload(wh_store *store, wherry_error *err)
{
	const wh_stmt *stmt = store->stmt.payload_type;

	*store->payload_type = 0;
	if (stmt)
		return wh_db_run(store->db, stmt, NULL, 0, take_type, store, NULL, err);
	(void)wh_sql_word(&store->sql, "payloads", store->payload_type,
			  sizeof(store->payload_type));
	return WHERRY_OK;
}

wherry_code wh_store_cannot(const wh_store *store, const char *what, wherry_error *err)
{
	return wh_fail(err, WHERRY_UNSUPPORTED, "%s '%s' has the layout %s, %s",
		       store->model->name, store->name.ptr, store->layout.name, what);
}

wherry_code wh_store_open_upto(const wh_store *store, int64_t upto, bool *out_any,
			       wherry_error *err)
{
	const wh_param param = WH_INT_PARAM("upto", upto);
	int64_t n = 0;
	wherry_code code = wh_store_ask(store, store->stmt.open_upto, &param, 1, &n, err);

	if (code == WHERRY_OK)
		*out_any = n > 0;
	return code;
}

wherry_code wh_store_last_open(const wh_store *store, int64_t *out_id, wherry_error *err)
{
	int64_t id = 0;
	wherry_code code = wh_store_ask(store, store->stmt.last_open, NULL, 0, &id, err);

	if (code == WHERRY_OK)
		*out_id = id;
	return code;
}

wherry_code wh_store_partitioned(wh_store *store, bool *out, wherry_error *err)
{
	int64_t n = 0;
	wherry_code code =
		wh_store_ask(store, store->stmt.partitions_ready, NULL, 0, &n, err);

	if (code != WHERRY_OK)
		return code;
	*out = n > 0;
	store->partitioned = n > 0;
	return code;
}
