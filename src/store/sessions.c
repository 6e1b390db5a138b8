#include "store/sessions.h"

#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/uuid.h"

enum { MARK = 's' }; /* Other tokens begin with a digit, a letter up to f, or a comma. */

static bool is_marked(const char *token)
{
	return *token == MARK;
}

static wherry_code lock(wh_store *store, const char *before, const char *token,
			wherry_error *err)
{
	const wh_param params[] = {
		WH_TEXT_PARAM("before", wh_view_of(is_marked(before) ? before : "")),
		WH_TEXT_PARAM("holder", wh_view_of(token)),
	};

	return wh_db_run(store->db, store->stmt.session_hold, params, 2, NULL, NULL, NULL,
			 err);
}

wherry_code wh_session_begin(wh_store *store, int64_t lasts_us, const char *before,
			     char out_token[40], wherry_error *err)
{
	char id[WH_UUID_LEN + 1];

	wh_uuid7_now(store->db->env, id);
	/* A short lease ends by itself. */
	if (!store->stmt.session_hold || lasts_us < 3 * WH_SESSION_GONE_US ||
	    !wh_db_keeps_session(store->db)) {
		(void)snprintf(out_token, 40, "%s", id);
		return WHERRY_OK;
	}
	(void)snprintf(out_token, 40, "%c%s", MARK, id);
	return lock(store, before, out_token, err);
}

wherry_code wh_session_resume(wh_store *store, const wherry_lease *lease,
			      wherry_error *err)
{
	return wh_session_has(lease) ? lock(store, "", lease->holder, err) : WHERRY_OK;
}

void wh_session_end(wh_store *store, const char *token)
{
	if (is_marked(token))
		(void)lock(store, token, "", NULL);
}

bool wh_session_has(const wherry_lease *lease)
{
	return is_marked(lease->holder);
}

typedef struct looking {
	const wh_sessions *before;
	wh_sessions seen;
	const wh_env *env;
} looking;

/* Since when is the lock free, if the lease was not renewed meanwhile? */
static int64_t free_since(const looking *l, const wh_silent *lease)
{
	for (int i = 0; i < l->before->n_gone; i++) {
		const wh_silent *b = &l->before->gone[i];

		if (b->number == lease->number && b->epoch == lease->epoch &&
		    b->until == lease->until)
			return b->since_us;
	}
	return wh_monotonic(l->env);
}

static wherry_code take_session(void *ctx, const wh_row *row, wherry_error *err)
{
	looking *l = ctx;
	wh_silent lease = {.number = (int32_t)wh_row_int(row, 0),
			   .epoch = wh_row_int(row, 1),
			   .until = wh_row_int(row, 2)};
	const char *owner = wh_row_text(row, 4);

	(void)err;
	l->seen.n++;
	if (!wh_row_int(row, 3) || l->seen.n_gone == WH_SESSIONS_GONE)
		return WHERRY_OK;
	(void)snprintf(lease.owner, sizeof(lease.owner), "%s", owner ? owner : "");
	lease.since_us = free_since(l, &lease);
	l->seen.gone[l->seen.n_gone++] = lease;
	return WHERRY_OK;
}

wherry_code wh_sessions_look(wh_store *store, int32_t mine, wh_sessions *inout,
			     wherry_error *err)
{
	const wh_param params[] = {wh_store_lease_name(store),
				   WH_INT_PARAM("number", mine)};
	looking l = {.before = inout, .env = store->db->env};
	wherry_code code = WHERRY_OK;

	if (store->stmt.session_look && wh_db_has(store->db, WH_DB_SIGNALS))
		code = wh_db_run(store->db, store->stmt.session_look, params, 2,
				 take_session, &l, NULL, err);
	if (code == WHERRY_OK)
		*inout = l.seen;
	return code;
}

bool wh_sessions_lack(const wh_sessions *sessions, const char *owner, int64_t epoch)
{
	for (int i = 0; i < sessions->n_gone; i++)
		if (sessions->gone[i].epoch == epoch &&
		    strcmp(sessions->gone[i].owner, owner) == 0)
			return true;
	return false;
}

wherry_code wh_session_expire(wh_store *store, const wh_silent *lease, bool *out_expired,
			      wherry_error *err)
{
	const wh_param params[] = {
		wh_store_lease_name(store), WH_INT_PARAM("number", lease->number),
		WH_INT_PARAM("epoch", lease->epoch), WH_INT_PARAM("ends", lease->until)};
	int64_t changed = 0;
	wherry_code code = wh_db_run(store->db, store->stmt.session_expire, params, 4,
				     NULL, NULL, &changed, err);

	if (code == WHERRY_OK)
		*out_expired = changed > 0;
	return code;
}

int64_t wh_sessions_next(const wh_sessions *sessions, int64_t now, int64_t renew_us)
{
	int64_t at = sessions->n ? wh_later(now, renew_us / WH_SESSION_LOOKS) : WH_NEVER;

	for (int i = 0; i < sessions->n_gone; i++)
		at = wh_sooner(at,
			       wh_later(sessions->gone[i].since_us, WH_SESSION_GONE_US));
	return at;
}

static wherry_code take_lineage(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_lineage *out = ctx;
	const char *history = wh_row_text(row, 0), *since = wh_row_text(row, 1);

	(void)err;
	(void)snprintf(out->history, sizeof(out->history), "%s", history ? history : "");
	(void)snprintf(out->since, sizeof(out->since), "%s", since ? since : "");
	return WHERRY_OK;
}

wherry_code wh_lineage_read(wh_store *store, wh_lineage *out, wherry_error *err)
{
	return store->stmt.lineage ? wh_db_run(store->db, store->stmt.lineage, NULL, 0,
					       take_lineage, out, NULL, err)
				   : WHERRY_OK;
}
