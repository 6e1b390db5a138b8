#include "outbox/outbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum {
	IDS_MAX = 4 * 1024 * 1024,    /* bytes of a list of ids */
	NAMES_MAX = 512 * 1024 * 1024 /* and of message ids */
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

wherry_code wh_outbox_list(wh_buf *buf, const int64_t *ids, size_t n, wh_param *out,
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

static size_t line_up(wh_buf *buf, const wh_view *names, size_t n)
{
	static const char zeros[64];
	size_t width = 0;

	for (size_t i = 0; i < n; i++)
		width = names[i].len > width ? names[i].len : width;
	for (size_t i = 0; i < n; i++) {
		wh_buf_put(buf, names[i].ptr, names[i].len);
		for (size_t left = width - names[i].len; left;) {
			size_t some = left < sizeof(zeros) ? left : sizeof(zeros);

			wh_buf_put(buf, zeros, some);
			left -= some;
		}
	}
	return width;
}

wherry_code wh_outbox_names(wherry_outbox *box, const wh_view *names, size_t n,
			    wh_param out[WH_NAME_PARAMS], wherry_error *err)
{
	size_t width = 0;
	wherry_code code;
	wh_view all;

	out[0] = WH_TEXT_PARAM("names", ((wh_view){NULL, 0}));
	out[1] = WH_INT_PARAM("width", 0);
	if (!names || box->layout.by_claim)
		return WHERRY_OK;
	wh_buf_reset(&box->message_ids);
	if (box->db->driver->version)
		list_names(&box->message_ids, names, n);
	else
		width = line_up(&box->message_ids, names, n);
	code = wh_buf_check(&box->message_ids, err);
	if (code != WHERRY_OK)
		return code;
	all = (wh_view){box->message_ids.ptr, box->message_ids.len};
	out[0] = width ? WH_BLOB_PARAM("names", all) : WH_TEXT_PARAM("names", all);
	out[1] = WH_INT_PARAM("width", (int64_t)width);
	return WHERRY_OK;
}

wherry_code wh_outbox_ids(wherry_outbox *box, const int64_t *ids, size_t n, wh_param *out,
			  wherry_error *err)
{
	return wh_outbox_list(&box->ids, ids, n, out, err);
}

wherry_code wh_outbox_missing(const char *table, wherry_code code, wherry_error *err)
{
	static const char mark[] = "no such index: "; /* as SQLite says it */
	const char *found =
		code == WHERRY_NOTFOUND && err ? strstr(err->message, mark) : NULL;
	char index[100];

	if (code != WHERRY_NOTFOUND)
		return code;
	if (found) {
		(void)snprintf(index, sizeof(index), "%s", found + strlen(mark));
		return wh_fail(err, code,
			       "the index '%s' of outbox '%s' is missing: run `wherry "
			       "init` to make it again",
			       index, table);
	}
	return wh_fail(err, code,
		       "there is no outbox '%s' in this database: run `wherry init`",
		       table);
}

const char *const wh_outbox_layouts[] = {"event-bus", "eventferry", "debezium", NULL};

static bool says(const wh_sql *sql, const char *key, const char *word)
{
	char text[64];

	return wh_sql_word(sql, key, text, sizeof(text)) && strcmp(text, word) == 0;
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

static wherry_code read_layout(const wh_sql *sql, const char *scheme, wh_layout *out,
			       wherry_error *err)
{
	wh_layout layout = {
		.ordered = says(sql, "ordered", "yes"),
		.by_claim = says(sql, "fence", "claim"),
		.archives = says(sql, "done", "archive"),
		.json = says(sql, "body", "json"),
		.jsonb = says(sql, "body", "jsonb"),
		.uuid = says(sql, "message_id", "uuid"),
		.by_aggregate = says(sql, "order", "aggregate"),
		.unheard = says(sql, "wakes", "no"),
	};

	if (!wh_sql_word(sql, "name", layout.name, sizeof(layout.name)) ||
	    !wh_sql_word(sql, "columns", layout.columns, sizeof(layout.columns)) ||
	    !wh_sql_word(sql, "archive", layout.archive, sizeof(layout.archive)))
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "the head line has no name, columns or archive");
	layout.home = wh_home_of(layout.name, scheme);
	layout.exclusive = wh_meet_works(layout.home, WH_EXCLUSIVE);
	layout.streams = !layout.exclusive && !wh_meet_works(layout.home, WH_COMPETING);
	*out = layout;
	return WHERRY_OK;
}

static bool is_layout(const char *name)
{
	for (int i = 0; wh_outbox_layouts[i]; i++)
		if (strcmp(wh_outbox_layouts[i], name) == 0)
			return true;
	return false;
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
static wherry_code name_it(wherry_outbox *box, const char *table, bool schemas,
			   wherry_error *err)
{
	wherry_code code;
	wh_name name;

	if (*box->names.schema)
		return WHERRY_OK; /* loaded before, with another layout */
	code = wh_name_parse(table, schemas, &name, err);
	if (code == WHERRY_OK && !*name.schema && schemas && box->db)
		code = wh_db_schema_of(box->db, name.table, box->making, name.schema,
				       sizeof(name.schema), err);
	if (code != WHERRY_OK)
		return code;
	box->names = name;
	box->name = wh_view_of(box->names.table);
	return WHERRY_OK;
}

wherry_code wh_outbox_load(wherry_outbox *box, const char *scheme, const char *layout,
			   const char *table, wherry_error *err)
{
	wh_sql_names names = {.dialect = scheme,
			      .payload = box->payload ? box->payload : "json"};
	const char *text, *known = wh_sql_embedded("outbox", "native", scheme);
	wherry_code code;

	layout = layout ? layout : "native";
	code = name_it(box, table, known && wh_sql_says(known, "names=qualified"), err);
	if (code != WHERRY_OK)
		return code;
	if (strcmp(layout, "native") != 0 && !is_layout(layout))
		return wh_fail(err, WHERRY_INVALID,
			       "there is no layout '%.40s': write native, event-bus, "
			       "eventferry or debezium",
			       layout);
	if (!known)
		return wh_fail(err, WHERRY_UNSUPPORTED, "no outbox on '%.20s:'", scheme);
	text = wh_sql_embedded("outbox", layout, scheme);
	if (!text)
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "there is no layout '%s' on '%.20s:'", layout, scheme);
	if (box->payload && !chooses(text, box->payload))
		return wh_fail(
			err, WHERRY_INVALID,
			"no payloads of type '%.40s' here: json, jsonb, text and bytea are "
			"possible, and those of native outboxes on PostgreSQL only",
			box->payload);
	names.schema = *box->names.schema ? box->names.schema : NULL;
	names.table = box->names.table;
	code = wh_sql_parse_as(text, &names, &box->sql, err);
	if (code == WHERRY_OK)
		code = read_layout(&box->sql, scheme, &box->layout, err);
	if (code == WHERRY_OK)
		code = wh_groups_check(&box->sql, wh_store_groups, wh_outbox_groups, err);
	if (code == WHERRY_OK)
		code = wh_groups_bind(&box->sql, wh_store_groups, &box->stmt, err);
	if (code == WHERRY_OK)
		code = wh_groups_bind(&box->sql, wh_outbox_groups, &box->own, err);
	if (code != WHERRY_OK)
		return wh_prefix(err, code, "outbox/sql/%s.%s.sql", layout, scheme);
	return WHERRY_OK;
}

void wh_outbox_unload(wherry_outbox *box)
{
	if (box->db)
		wh_db_forget(box->db, &box->sql);
	wh_sql_clear(&box->sql);
}

const char *wh_outbox_limits(const wherry_outbox *box)
{
	if (strcmp(box->layout.name, "event-bus") == 0)
		return "no keys and so no order, no headers, no pause; relays compete; "
		       "what is delivered goes to the archive";
	if (strcmp(box->layout.name, "eventferry") == 0)
		return "order by aggregate_id alone, no pause, no archive, no errors kept; "
		       "relays compete, and look for messages four times a second";
	if (strcmp(box->layout.name, "debezium") == 0)
		return "nothing is written to rows, which say nothing of what is delivered; "
		       "it is streamed";
	return "";
}

wherry_code wh_outbox_cannot(const wherry_outbox *box, const char *what,
			     wherry_error *err)
{
	return wh_fail(err, WHERRY_UNSUPPORTED, "outbox '%s' has the layout %s, %s",
		       box->name.ptr, box->layout.name, what);
}

wherry_code wh_outbox_recognize(wherry_outbox *box, const char *table, wh_version *out,
				wherry_error *err)
{
	const char *scheme = box->db->driver->scheme;
	wherry_code code = wh_outbox_load(box, scheme, NULL, table, err);

	*out = (wh_version){.found = false};
	if (code == WHERRY_OK)
		code = wh_outbox_version(box, out, err);
	for (int i = 0; code == WHERRY_OK && !out->found && wh_outbox_layouts[i]; i++) {
		if (!wh_sql_embedded("outbox", wh_outbox_layouts[i], scheme))
			continue;
		wh_outbox_unload(box);
		code = wh_outbox_load(box, scheme, wh_outbox_layouts[i], table, err);
		if (code == WHERRY_OK)
			code = wh_outbox_version(box, out, err);
	}
	return code;
}

static wherry_code find_layout(wherry_outbox *box, const char *table, wherry_error *err)
{
	wh_version v = {.found = false};
	wherry_code code = wh_outbox_recognize(box, table, &v, err);

	if (code == WHERRY_OK)
		code = wh_outbox_check(box, &v, err);
	if (code == WHERRY_OK)
		code = wh_outbox_payload(box, err);
	return wh_outbox_missing(table, code, err);
}

wherry_code wherry_outbox_open(wherry_db *db, const char *table, wherry_outbox **out,
			       wherry_error *err)
{
	wherry_outbox *box;
	wherry_code code;

	if (!db || !out)
		return wh_fail(err, WHERRY_INVALID,
			       "no connection to open the outbox on");
	box = calloc(1, sizeof(*box));
	if (!box)
		return wh_oom(err);
	box->db = db;
	box->slotted = -1;
	box->body_max = WH_BODY_MAX;
	box->ids = (wh_buf)WH_BUF_INIT(IDS_MAX);
	box->holes = (wh_buf)WH_BUF_INIT(IDS_MAX);
	box->message_ids = (wh_buf)WH_BUF_INIT(NAMES_MAX);
	box->title = strdup(table ? table : "");
	code = box->title ? find_layout(box, table, err) : wh_oom(err);
	if (code != WHERRY_OK)
		goto out;
	*out = box;
	box = NULL; /* given away */
out:
	wherry_outbox_close(box);
	return code;
}

void wherry_outbox_close(wherry_outbox *box)
{
	if (!box)
		return;
	free(box->title);
	wh_outbox_unload(box);
	wh_buf_clear(&box->ids);
	wh_buf_clear(&box->holes);
	wh_buf_clear(&box->message_ids);
	wh_held_clear(&box->held);
	free(box);
}

void wh_outbox_set_body_max(wherry_outbox *box, int64_t bytes)
{
	box->body_max = bytes;
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
