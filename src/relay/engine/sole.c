#include "relay/engine/sole.h"

#include <inttypes.h>

enum { FRONT = 2000 }; /* open rows; who claims begins with the first */

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
	const wh_store *store = &r->box->store;
	const wh_param params[] = {
		WH_INT_PARAM("timeout", wh_ms(r->set.claim_us)),
		WH_INT_PARAM("most", most),
	};

	return wh_db_run(store->db, store->stmt.sole_claims, params, 2, take_claims, out,
			 NULL, err);
}

/* No other program claims.  This relay writes no claims itself; those that have expired before it
 * began are pending since. */
static wherry_code check_front(const wherry_relay *r, wherry_error *err)
{
	claims found = {0};
	wherry_code code = look(r, FRONT, &found, err);

	if (code == WHERRY_OK && found.living + found.expired > 0)
		code = wh_fail(
			err, WHERRY_INVALID,
			"%" PRId64
			" messages of outbox '%s' are claimed by another program "
			"while this relay works alone (relay.sole): stop that one, "
			"or leave relay.sole out",
			found.living + found.expired, r->box->store.name.ptr);
	return code;
}

static wherry_code check_start(const wherry_relay *r, claims *out, wherry_error *err)
{
	wherry_code code = look(r, INT64_MAX, out, err);

	if (code == WHERRY_OK && out->living)
		code = wh_fail(
			err, WHERRY_INVALID,
			"%" PRId64
			" messages of outbox '%s' are claimed by another program, "
			"for %" PRId64
			" ms at least: relay.sole is for a table that nothing else "
			"delivers from; stop that program and start again after "
			"that, or leave relay.sole out",
			out->living, r->box->store.name.ptr, out->left_ms);
	return code;
}

wherry_code wh_sole_take(wherry_relay *r, wherry_error *err)
{
	const wh_relay_settings *s = &r->set;
	const wh_store *store = &r->box->store;
	bool sole = store->stmt.sole_claims;
	claims found = {0};
	wherry_code code = sole ? check_start(r, &found, err) : WHERRY_OK;

	if (code == WHERRY_OK)
		code = wh_store_lease_as(&r->box->store, r->engine->id, s->redeliver,
					 s->name, s->lease_us, s->window, &r->lease, err);
	if (code == WHERRY_OK && found.expired)
		code = wh_db_run(store->db, store->stmt.sole_begin, NULL, 0, NULL, NULL,
				 NULL, err);
	return code;
}

wherry_code wh_sole_renewed(wherry_relay *r, int64_t now, int64_t version,
			    wherry_error *err)
{
	if (r->box->store.stmt.sole_claims)
		wh_reader_of(r)->look_for_claims = true;
	return wh_reader_renewed(r, now, version, err);
}

wherry_code wh_sole_fetch(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_reader *t = wh_reader_of(r);
	wherry_code code = WHERRY_OK;

	if (t->look_for_claims && r->box->store.stmt.sole_claims)
		code = check_front(r, err);
	if (code != WHERRY_OK)
		return code;
	t->look_for_claims = false;
	return wh_reader_fetch(r, now, err);
}

wherry_code wh_sole_check_row(const wherry_relay *r, const wh_open_row *row,
			      wherry_error *err)
{
	if (!r->box->store.stmt.sole_claims || row->state != WHERRY_PROCESSING)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_INVALID,
		       "message %" PRId64
		       " of outbox '%s' is claimed by another program while this relay "
		       "works alone (relay.sole): stop that one, or leave relay.sole out",
		       row->id, r->box->store.name.ptr);
}
