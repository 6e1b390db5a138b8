/*
 * Claiming rows together with their texts.
 */
#include "store/unreadable.h"
#include "store/claims.h"
#include "store/settlement.h"

static wherry_code take_claimed(void *ctx, int64_t id, const wh_row *row,
				wherry_error *err)
{
	return wh_take_open_as(ctx, id, row, err);
}

/* A claim; `textless` holds its rows if their texts are read after the claim. */
typedef struct claiming {
	wh_store *store;
	wh_claim_ask ask;
	wh_open_reader whole, reader;
	wh_textless_rows textless;
} claiming;

/* After a failure, make the claimed rows pending again.  If that fails too, the claims
 * expire. */
static void give_back(const claiming *c)
{
	wherry_error why = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < c->textless.n; i++) {
		const wh_settlement back = {.back = &c->textless.rows[i].id, .n_back = 1};

		if (wh_store_settle(c->store, c->ask.lease, &back, NULL, &why) !=
		    WHERRY_OK)
			return;
	}
}

/* With store->texts_after_claim set, claim without texts.  end() reads the texts after the
 * commit. */
static void begin(claiming *c)
{
	c->ask.text_most = c->store->texts_after_claim ? -1 : WH_TEXT_MOST;
	c->ask.body_most = c->store->body_max;
	c->ask.visit = take_claimed;
	c->ask.ctx = &c->reader;
	c->reader =
		c->store->texts_after_claim ? wh_textless_reader(&c->textless) : c->whole;
}

static wherry_code end(claiming *c, wherry_code code, wherry_error *err)
{
	if (c->store->texts_after_claim && code == WHERRY_OK)
		code = wh_textless_visit(c->store, c->store->stmt.read_ids, &c->textless,
					 0, &c->whole, err);
	if (c->store->texts_after_claim && code != WHERRY_OK)
		give_back(c);
	wh_textless_clear(&c->textless);
	return code;
}

wherry_code wh_store_claim_rows(wh_store *store, const wherry_lease *lease,
				const wherry_claim_options *options,
				wh_claim_place *place, wh_open_fn visit, void *ctx,
				bool *out_more, wherry_error *err)
{
	claiming c = {.store = store, .whole = {visit, ctx, 0, 0}};
	bool more = false;
	wherry_code code = wh_store_claim_check(store, lease, options, err);

	if (code != WHERRY_OK)
		return code;
	c.ask = (wh_claim_ask){.lease = lease, .options = options, .place = place};
	begin(&c);
	code = end(&c, wh_store_claim(store, &c.ask, &more, err), err);
	if (code == WHERRY_OK)
		*out_more = more;
	else if (place)
		wh_claim_rewind(place);
	return code;
}

wherry_code wh_store_claim_expired_rows(wh_store *store, const wherry_lease *lease,
					const wherry_claim_options *options,
					wh_open_fn visit, void *ctx, wherry_error *err)
{
	claiming c = {.store = store, .whole = {visit, ctx, 0, 0}};
	wherry_code code = wh_store_claim_check(store, lease, options, err);

	if (code != WHERRY_OK)
		return code;
	c.ask = (wh_claim_ask){.lease = lease, .options = options};
	begin(&c);
	return end(&c, wh_store_claim_expired(store, &c.ask, err), err);
}
