#include "store/grants.h"

#include <stdio.h>
#include <string.h>

typedef struct grant {
	char role[WH_NAME_MOST + 1];
	const char *kind;
} grant;

static wherry_code refuse(const wh_model *model, const char *text, wherry_error *err)
{
	wh_buf known = WH_BUF_INIT(1000);
	wherry_code code;

	for (int i = 0; model->roles[i]; i++)
		wh_buf_printf(&known, "%sROLE=%s",
			      !i                    ? ""
			      : model->roles[i + 1] ? ", "
						    : " or ",
			      model->roles[i]);
	code = wh_fail(err, WHERRY_INVALID,
		       "--grant %.80s: write %s, with a role of at most %d bytes", text,
		       wh_buf_str(&known), WH_NAME_MOST);
	wh_buf_clear(&known);
	return code;
}

static wherry_code parse(const wh_model *model, const char *text, grant *out,
			 wherry_error *err)
{
	const char *equals = strrchr(text, '=');
	size_t len = equals ? (size_t)(equals - text) : 0;

	out->kind = NULL;
	for (int i = 0; equals && model->roles[i]; i++)
		if (strcmp(equals + 1, model->roles[i]) == 0)
			out->kind = model->roles[i];
	if (!len || len > WH_NAME_MOST || !out->kind)
		return refuse(model, text, err);
	memcpy(out->role, text, len);
	out->role[len] = 0;
	return WHERRY_OK;
}

static wherry_code put(const wh_store *store, const char *text, const grant *g,
		       const char *of, const char *statement, wh_buf *to,
		       wherry_error *err)
{
	char name[64];
	const wh_sql_names names = {
		.schema = *store->names.schema ? store->names.schema : NULL,
		.table = store->names.table,
		.payload = "",
		.role = g->role,
		.topic = store->topic,
	};
	wh_sql sql = {0};
	wherry_code code = wh_sql_parse_as(text, &names, &sql, err);
	const wh_stmt *found;

	(void)snprintf(name, sizeof(name), "%s%s", of, statement);
	found = code == WHERRY_OK ? wh_sql_find(&sql, name) : NULL;
	if (found)
		wh_buf_puts(to, found->text);
	else if (code == WHERRY_OK)
		code = wh_fail(err, WHERRY_INVALID,
			       "--grant %.80s=%s: tables of the layout %s have no such "
			       "roles%s",
			       g->role, g->kind, store->layout.name,
			       strcmp(store->layout.name, "log") == 0
				       ? " on this database"
				       : ", those of the layout log do");
	wh_sql_clear(&sql);
	return code;
}

static wherry_code write_each(const wh_store *store, const char *text, const char *of,
			      bool clear, const char *const *grants, size_t n, wh_buf *to,
			      wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	grant g;

	for (size_t i = 0; code == WHERRY_OK && i < n; i++) {
		code = parse(store->model, grants[i], &g, err);
		if (code == WHERRY_OK)
			code = put(store, text, &g, of, clear ? "clear" : g.kind, to,
				   err);
	}
	return code;
}

/* The statements of a layout; of that of new tables if it is NULL.  NULL: it has none. */
static const char *text_of(const wh_model *model, const char *layout, const char *scheme)
{
	const char *known = wh_db_scheme(wh_view_of(scheme));
	char name[40] = "grants";

	layout = layout ? layout : model->layouts[0];
	if (strcmp(layout, "native") != 0)
		(void)snprintf(name, sizeof(name), "grants-%.30s", layout);
	return wh_sql_embedded(wh_store_folder(model), name, known ? known : scheme);
}

wherry_code wh_store_grant_check(const wh_model *model, const char *scheme,
				 const char *const *grants, size_t n, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	grant g;

	if (n && !text_of(model, NULL, scheme))
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.20s:' has no roles to grant rights to: leave --grant out, "
			"and let the mode of the file say who may use it",
			scheme);
	for (size_t i = 0; code == WHERRY_OK && i < n; i++)
		code = parse(model, grants[i], &g, err);
	return code;
}

static wherry_code refuse_layout(const char *layout, wherry_error *err)
{
	return wh_fail(err, WHERRY_INVALID,
		       "--grant is for tables of Wherry's own layout, and this is "
		       "one of %s: grant rights on its table yourself",
		       layout);
}

static wherry_code find_role(wherry_db *db, const wh_sql *sql, const char *role,
			     wherry_error *err)
{
	const wh_param param = WH_TEXT_PARAM("role", wh_view_of(role));
	int64_t n = 0;
	wherry_code code = wh_db_run(db, wh_sql_find(sql, "role-exists"), &param, 1,
				     wh_take_int, &n, NULL, err);

	if (code == WHERRY_OK && !n)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "there is no role '%s' in the database: create it first",
			       role);
	return code;
}

static wherry_code find_roles(wherry_db *db, const wh_model *model,
			      const char *const *grants, size_t n, wherry_error *err)
{
	const wh_sql_names names = {
		.dialect = db->driver->scheme, .table = "", .payload = "", .role = ""};
	wh_sql sql = {0};
	wherry_code code = wh_sql_parse_as(text_of(model, NULL, db->driver->scheme),
					   &names, &sql, err);
	grant g;

	for (size_t i = 0; code == WHERRY_OK && i < n; i++) {
		code = parse(model, grants[i], &g, err);
		if (code == WHERRY_OK)
			code = find_role(db, &sql, g.role, err);
	}
	wh_db_forget(db, &sql);
	wh_sql_clear(&sql);
	return code;
}

wherry_code wh_store_grant_ready(wherry_db *db, const wh_model *model, const char *layout,
				 const char *const *grants, size_t n, wherry_error *err)
{
	wherry_code code =
		wh_store_grant_check(model, db->driver->scheme, grants, n, err);

	if (code == WHERRY_OK && n && !text_of(model, layout, db->driver->scheme))
		code = refuse_layout(layout, err);
	return code == WHERRY_OK && n ? find_roles(db, model, grants, n, err) : code;
}

static wherry_code put_all(const wh_store *store, const char *scheme, const char *of,
			   const char *const *grants, size_t n, wh_buf *to,
			   wherry_error *err)
{
	wherry_code code = wh_store_grant_check(store->model, scheme, grants, n, err);
	const char *text = text_of(store->model, store->layout.name, scheme);

	if (code != WHERRY_OK)
		return code;
	if (!text)
		return refuse_layout(store->layout.name, err);
	/* Revoke everything from all roles before granting anything: a role may be named
	 * twice. */
	code = write_each(store, text, of, true, grants, n, to, err);
	if (code == WHERRY_OK)
		code = write_each(store, text, of, false, grants, n, to, err);
	return code == WHERRY_OK ? wh_buf_check(to, err) : code;
}

wherry_code wh_store_grant_sql(const wh_store *store, const char *scheme,
			       const char *const *grants, size_t n, wh_buf *to,
			       wherry_error *err)
{
	return put_all(store, scheme, "", grants, n, to, err);
}

static wherry_code run(void *ctx, wherry_error *err)
{
	void **both = ctx;

	return wh_db_script(both[0], both[1], err);
}

static wherry_code grant_all(wh_store *store, const char *of, const char *const *grants,
			     size_t n, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(256 * 1024);
	wherry_code code =
		put_all(store, store->db->driver->scheme, of, grants, n, &text, err);
	void *both[2] = {store->db, text.ptr};

	if (code == WHERRY_OK)
		code = wh_db_transact(store->db, run, both, err);
	wh_buf_clear(&text);
	return code;
}

wherry_code wh_store_grant(wh_store *store, const char *const *grants, size_t n,
			   wherry_error *err)
{
	return grant_all(store, "", grants, n, err);
}

wherry_code wh_store_grant_topic(wh_store *store, const char *const *grants, size_t n,
				 wherry_error *err)
{
	return grant_all(store, "subscription-", grants, n, err);
}
