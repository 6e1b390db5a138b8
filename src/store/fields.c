#include "store/fields.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

wherry_code wh_fields_check(const wh_field *fields, size_t n, wherry_error *err)
{
	for (const wh_field *f = fields; f < fields + n; f++) {
		size_t len = f->text ? strlen(f->text) : 0;

		if (len > f->most)
			return wh_fail(err, WHERRY_TOOBIG,
				       "%s is %zu bytes, the limit is %zu", f->name, len,
				       f->most);
		if (len && !wh_utf8_valid(f->text, len))
			return wh_fail(err, WHERRY_INVALID, "%s is not UTF-8", f->name);
	}
	return WHERRY_OK;
}

wherry_code wh_span_check(const char *what, int64_t us, wherry_error *err)
{
	if (us <= WH_SPAN_MOST_US)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_INVALID,
		       "%s is over %" PRId64 " days, the limit is 36500 days", what,
		       (us - 1) / (WH_SPAN_MOST_US / 36500));
}

/* Is the body UTF-8 without a NUL? */
static bool is_text(wh_view body)
{
	return !body.len ||
	       (wh_utf8_valid(body.ptr, body.len) && !memchr(body.ptr, 0, body.len));
}

wherry_code wh_store_check_body(const wh_store *store, const char *type, wh_view body,
				wherry_error *err)
{
	const char *model = store->model->name;
	wherry_error why = WHERRY_ERROR_INIT;
	int column = 0;

	if (strcmp(type, "text") == 0 && !is_text(body))
		return wh_fail(err, WHERRY_INVALID,
			       "%s '%s' keeps payloads as text, and this body is not "
			       "UTF-8 or contains a NUL: use one made with --payload "
			       "bytea",
			       model, store->name.ptr);
	if ((strcmp(type, "json") != 0 && strcmp(type, "jsonb") != 0) ||
	    wh_json_check(body.ptr, body.len, &column, &why) == WHERRY_OK)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_INVALID,
		       "%s '%s' keeps payloads as %s, and this body is not JSON "
		       "(%.80s): send it as a JSON string, or use one made with "
		       "--payload text or --payload bytea",
		       model, store->name.ptr, type, why.message);
}

wh_param wh_body_param(const char *name, wh_view body)
{
	return is_text(body) ? WH_TEXT_PARAM(name, body) : WH_BLOB_PARAM(name, body);
}
