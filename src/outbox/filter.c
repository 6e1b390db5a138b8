#include "outbox/filter.h"

#include "base/sized.h"
#include "base/text.h"

int64_t wh_filter_number(const char *ident)
{
	int64_t number;

	return ident && wh_parse_int(ident, &number) ? number : INT64_MIN;
}

void wh_filter_params(const wherry_outbox_filter *f, unsigned states, int64_t limit,
		      wh_param out[WH_FILTER_PARAMS])
{
	int64_t most = f->limit > 0 ? f->limit : limit;

	out[0] = WH_INT_PARAM("states", (int64_t)states);
	out[1] = WH_TEXT_PARAM("ident", wh_view_of(f->ident));
	out[2] = WH_INT_PARAM("number", wh_filter_number(f->ident));
	out[3] = WH_TEXT_PARAM("topic", wh_view_of(f->topic));
	out[4] = WH_TEXT_PARAM("key", wh_view_of(f->key));
	out[5] = WH_INT_PARAM("since", wh_ms(f->since_us));
	out[6] = WH_INT_PARAM("after", f->after_id ? f->after_id : INT64_MIN);
	out[7] = WH_INT_PARAM("limit", most);
}

wherry_code wh_filter_check(const wherry_outbox *outbox, const wherry_outbox_filter *f,
			    wherry_error *err)
{
	if (!outbox->own.list)
		return wh_store_cannot(&outbox->store,
				       "whose rows do not say what became of them", err);
	if (f->key && !outbox->store.layout.ordered)
		return wh_store_cannot(&outbox->store, "whose messages have no keys",
				       err);
	return WHERRY_OK;
}

wherry_code wh_filter_read(const wherry_outbox_filter *given, wherry_outbox_filter *out,
			   wherry_error *err)
{
	return wh_sized_read(out, sizeof(*out), given,
			     offsetof(wherry_outbox_filter, ident), "filter",
			     "WHERRY_OUTBOX_FILTER", err);
}
