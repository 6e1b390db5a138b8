#include "relay/engine/sole.h"

#include <inttypes.h>

enum { FRONT = 2000 }; /* Open rows to look at: programs claim the first rows. */

typedef struct claims {
	int64_t living, left_ms, expired;
} claims;

static wherry_code take_claims(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(claims *)ctx =
		(claims){wh_row_int(row, 0), wh_row_int(row, 1), wh_row_int(row, 2)};
	return WHERRY_OK;
}

static wherry_code look(const wherry_relay *r, int64_t most, claims *out,
			wherry_error *err)
{
	const wh_store *store = r->store;
	const wh_param params[] = {
		WH_INT_PARAM("timeout", wh_ms(r->set.claim_us)),
		WH_INT_PARAM("most", most),
	};

	return wh_db_run(store->db, store->stmt.sole_claims, params, 2, take_claims, out,
			 NULL, err);
}

/* Return an error if another program has a claim.  This relay writes no claims. */
static wherry_code check(const wherry_relay *r, int64_t most, claims *out,
			 wherry_error *err)
{
	wherry_code code = look(r, most, out, err);

	if (code == WHERRY_OK && out->living)
		code = wh_fail(
			err, WHERRY_INVALID,
			"another program has claimed messages of outbox '%s' (%" PRId64
			"), for %" PRId64
			" ms at least: relay.sole is for a table that nothing else "
			"delivers from; stop that program and start again after "
			"that, or leave relay.sole out",
			r->store->name.ptr, out->living, out->left_ms);
	return code;
}

/* Rows whose claim has expired become pending again. */
static wherry_code take_expired(const wherry_relay *r, wherry_error *err)
{
	const wh_store *store = r->store;
	const wh_param timeout = WH_INT_PARAM("timeout", wh_ms(r->set.claim_us));

	return wh_db_run(store->db, store->stmt.sole_begin, &timeout, 1, NULL, NULL, NULL,
			 err);
}

wherry_code wh_sole_take(wherry_relay *r, wherry_error *err)
{
	const wh_relay_settings *s = &r->set;
	const wh_store *store = r->store;
	bool sole = store->stmt.sole_claims;
	claims found = {0};
	wherry_code code = sole ? check(r, INT64_MAX, &found, err) : WHERRY_OK;

	if (code == WHERRY_OK)
		code = wh_store_lease_as(r->store, r->engine->id, s->redeliver, s->name,
					 s->lease_us, s->window, &r->lease, err);
	if (code == WHERRY_OK && found.expired)
		code = take_expired(r, err);
	return code;
}

wherry_code wh_sole_renewed(wherry_relay *r, int64_t now, int64_t version,
			    wherry_error *err)
{
	if (r->store->stmt.sole_claims)
		wh_reader_of(r)->look_for_claims = true;
	return wh_reader_renewed(r, now, version, err);
}

/* If reading stopped at a claimed row, look for claims among all open rows. */
wherry_code wh_sole_fetch(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_reader *t = wh_reader_of(r);
	claims found = {0};
	wherry_code code = WHERRY_OK;

	if (r->store->stmt.sole_claims && (t->look_for_claims || t->stopped_at_claim))
		code = check(r, t->stopped_at_claim ? INT64_MAX : FRONT, &found, err);
	if (code == WHERRY_OK && found.expired) {
		code = take_expired(r, err);
		t->more = true;
	}
	if (code != WHERRY_OK)
		return code;
	t->look_for_claims = t->stopped_at_claim = false;
	return wh_reader_fetch(r, now, err);
}

bool wh_sole_stops(wherry_relay *r, const wh_open_row *row)
{
	bool stops = r->store->stmt.sole_claims && row->state == WHERRY_PROCESSING;

	wh_reader_of(r)->stopped_at_claim |= stops;
	return stops;
}
