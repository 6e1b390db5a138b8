#include "outbox_claims.h"

#include "outbox/outbox.h"

const wherry_claim_options claim_ten = {
	.size = sizeof(wherry_claim_options), .limit = 10, .lasts_us = MINUTE_US};

wherry_lease claim_join(outbox_fixture *f, const char *owner)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};

	WHERRY_PASS(wherry_outbox_join(f->outbox, owner, MINUTE_US, &lease, &err));
	return lease;
}

static wherry_code put_id(void *ctx, const wherry_message *msg)
{
	wh_buf *out = ctx;

	wh_buf_printf(out, out->len ? " %lld" : "%lld", (long long)msg->id);
	return WHERRY_OK;
}

/* A claim gives these ids, in this order: "1 3 4". */
void claim_takes(outbox_fixture *f, const wherry_lease *lease,
		 const wherry_claim_options *options, const char *ids)
{
	wh_buf out = WH_BUF_INIT(4096);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7, spaces = 0;

	WHERRY_PASS(
		wherry_outbox_claim(f->outbox, lease, options, put_id, &out, &n, &err));
	assert_string_equal(wh_buf_str(&out), ids);
	for (const char *c = ids; *c; c++)
		spaces += *c == ' ';
	assert_int_equal(n, *ids ? spaces + 1 : 0);
	wh_buf_clear(&out);
}

void claim_takes_expired(outbox_fixture *f, const wherry_lease *lease, const char *ids)
{
	wh_buf out = WH_BUF_INIT(4096);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_outbox_claim_expired(f->outbox, lease, &claim_ten, put_id,
						&out, &n, &err));
	assert_string_equal(wh_buf_str(&out), ids);
	assert_int_equal(n, *ids ? 1 : 0);
	wh_buf_clear(&out);
}

typedef struct sharing {
	wh_buf ids;
	bool alone;
} sharing;

static wherry_code put_row(void *ctx, const wh_open_row *row, wherry_error *err)
{
	sharing *s = ctx;

	wh_buf_printf(&s->ids, s->ids.len ? " %lld" : "%lld", (long long)row->id);
	s->alone = row->state == WHERRY_PROCESSING;
	return WHERRY_OK;
}

void claim_takes_share(outbox_fixture *f, const wherry_lease *lease, const char *ids)
{
	sharing s = {.ids = WH_BUF_INIT(4096)};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_store_claim_expired_rows(&f->outbox->store, lease, &claim_ten,
						put_row, &s, &err));
	assert_string_equal(wh_buf_str(&s.ids), ids);
	assert_int_equal(s.alone, *ids && !strchr(ids, ' '));
	wh_buf_clear(&s.ids);
}

void claim_done(outbox_fixture *f, const wherry_lease *lease, int64_t id)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_done(f->outbox, lease, &id, 1, NULL, &err));
}

void claim_requeue(outbox_fixture *f, const wherry_lease *lease, int64_t id)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_requeue(f->outbox, lease, &id, 1, &err));
}

void claim_fail(outbox_fixture *f, const wherry_lease *lease, int64_t id,
		int64_t delay_us, bool dead)
{
	wherry_failure failure = WHERRY_FAILURE(.id = id, .delay_us = delay_us,
						.dead = dead, .error = "no answer");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_fail(f->outbox, lease, &failure, 1, &err));
}

void claim_send(outbox_fixture *f, const char *keys)
{
	for (; *keys; keys++)
		fixture_send(f, "t", *keys == '-' ? NULL : (const char[]){*keys, 0});
}

/* As if an hour had passed for claims and retries. */
void claim_expiry(outbox_fixture *f)
{
	fixture_raw(f, "UPDATE outbox SET next_retry_at = next_retry_at - 3600000 "
		       "WHERE status IN (1, 3)");
}

void claim_is_of(outbox_fixture *f, const wherry_lease *lease, int64_t id)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (f->backend->lacks &
	    NEEDS_TOKEN) { /* its holder can do this, and nobody else */
		WHERRY_PASS(wherry_outbox_extend(f->outbox, lease, &id, 1, MINUTE_US,
						 NULL, &err));
		return;
	}
	assert_string_equal(fixture_text(f,
					 "SELECT claim_token FROM outbox WHERE id = %lld",
					 (long long)id),
			    lease->token);
}

wherry_code claim_refuse(void *ctx, const wherry_message *msg)
{
	claim_refusal *r = ctx;

	return ++r->visits > r->after ? WHERRY_NOMEM : WHERRY_OK;
}

void claim_all_refused(outbox_fixture *f, const wherry_lease *lease, const int64_t *ids,
		       size_t n_ids)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_failure failures[8];
	char before[sizeof(f->text)];
	int64_t n = -7;

	(void)snprintf(before, sizeof(before), "%s", fixture_digest(f));
	WHERRY_FAILS(WHERRY_STALE,
		     wherry_outbox_done(f->outbox, lease, ids, n_ids, &n, &err));
	assert_non_null(strstr(err.message, "nothing was changed"));
	for (size_t i = 0; i < n_ids; i++)
		failures[i] = WHERRY_FAILURE(.id = ids[i], .error = "late");
	WHERRY_FAILS(WHERRY_STALE,
		     wherry_outbox_fail(f->outbox, lease, failures, n_ids, &err));
	WHERRY_FAILS(WHERRY_STALE,
		     wherry_outbox_requeue(f->outbox, lease, ids, n_ids, &err));
	assert_int_equal(n, -7);
	assert_false(wherry_db_in_transaction(f->db));
	assert_string_equal(fixture_digest(f), before);
}
