/*
 * Rights of database roles on an outbox.
 */
#include <stdio.h>
#include <string.h>

#include "outbox/outbox.h"

static const char *const kinds[] = {"producer", "enqueuer", "relay", "operator"};

typedef struct grant {
	char role[WH_NAME_MOST + 1];
	const char *kind;
} grant;

static wherry_code parse(const char *text, grant *out, wherry_error *err)
{
	const char *equals = strrchr(text, '=');
	size_t len = equals ? (size_t)(equals - text) : 0;

	out->kind = NULL;
	for (size_t i = 0; equals && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(equals + 1, kinds[i]) == 0)
			out->kind = kinds[i];
	if (!len || len > WH_NAME_MOST || !out->kind)
		return wh_fail(
			err, WHERRY_INVALID,
			"--grant %.80s: write ROLE=producer, ROLE=enqueuer, "
			"ROLE=relay or ROLE=operator, with a role of at most %d bytes",
			text, WH_NAME_MOST);
	memcpy(out->role, text, len);
	out->role[len] = 0;
	return WHERRY_OK;
}

static wherry_code put(const wherry_outbox *box, const char *text, const grant *g,
		       const char *statement, wh_buf *to, wherry_error *err)
{
	const wh_sql_names names = {
		.schema = *box->store.names.schema ? box->store.names.schema : NULL,
		.table = box->store.names.table,
		.payload = "",
		.role = g->role,
	};
	wh_sql sql = {0};
	wherry_code code = wh_sql_parse_as(text, &names, &sql, err);

	if (code == WHERRY_OK)
		wh_buf_puts(to, wh_sql_find(&sql, statement)->text);
	wh_sql_clear(&sql);
	return code;
}

static wherry_code write_each(const wherry_outbox *box, const char *text, bool clear,
			      const char *const *grants, size_t n, wh_buf *to,
			      wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	grant g;

	for (size_t i = 0; code == WHERRY_OK && i < n; i++) {
		code = parse(grants[i], &g, err);
		if (code == WHERRY_OK)
			code = put(box, text, &g, clear ? "clear" : g.kind, to, err);
	}
	return code;
}

/* First revoke what all of the roles had: a role may be named twice. */
static wherry_code write_all(const wherry_outbox *box, const char *text,
			     const char *const *grants, size_t n, wh_buf *to,
			     wherry_error *err)
{
	wherry_code code = write_each(box, text, true, grants, n, to, err);

	if (code == WHERRY_OK)
		code = write_each(box, text, false, grants, n, to, err);
	return code == WHERRY_OK ? wh_buf_check(to, err) : code;
}

static const char *text_of(const char *scheme)
{
	const char *known = wh_db_scheme(wh_view_of(scheme));

	return wh_sql_embedded("outbox", "grants", known ? known : scheme);
}

wherry_code wh_outbox_grant_check(const char *scheme, const char *const *grants, size_t n,
				  wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	grant g;

	if (n && !text_of(scheme))
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.20s:' has no roles to grant rights to: leave --grant out, "
			"and let the mode of the file say who may use it",
			scheme);
	for (size_t i = 0; code == WHERRY_OK && i < n; i++)
		code = parse(grants[i], &g, err);
	return code;
}

wherry_code wh_outbox_grant_sql(const wherry_outbox *box, const char *scheme,
				const char *const *grants, size_t n, wh_buf *to,
				wherry_error *err)
{
	wherry_code code = wh_outbox_grant_check(scheme, grants, n, err);

	if (code != WHERRY_OK)
		return code;
	if (strcmp(box->store.layout.name, "native") != 0)
		return wh_fail(
			err, WHERRY_INVALID,
			"--grant is for outboxes of Wherry's own layout, and this is one "
			"of %s: grant rights on its table yourself",
			box->store.layout.name);
	return write_all(box, text_of(scheme), grants, n, to, err);
}

static wherry_code run(void *ctx, wherry_error *err)
{
	void **both = ctx;

	return wh_db_script(both[0], both[1], err);
}

wherry_code wh_outbox_grant(wherry_outbox *box, const char *const *grants, size_t n,
			    wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(256 * 1024);
	wherry_code code = wh_outbox_grant_sql(box, box->store.db->driver->scheme, grants,
					       n, &text, err);
	void *both[2] = {box->store.db, text.ptr};

	if (code == WHERRY_OK)
		code = wh_db_transact(box->store.db, run, both, err);
	wh_buf_clear(&text);
	return code;
}
