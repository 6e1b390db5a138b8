/*
 * Brief relays: what one of them opens, the next one on the same thread uses.
 */
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "config/settings.h"
#include "relay/relay.h"

const wh_env *wh_relay_env(const wherry_relay *r)
{
	return r->brief ? &r->brief->env : &r->env;
}

void wh_brief_clear(wh_brief *brief)
{
	wherry_publisher_close(brief->pub);
	wherry_db_close(brief->db);
	wh_sql_clear(&brief->pattern);
	brief->pub = NULL;
	brief->db = NULL;
}

void wh_brief_take(wherry_relay *r)
{
	wh_brief *b = r->brief;

	if (!b)
		return;
	b->asked = false;
	r->pub = b->pub;
	r->db = b->db;
	b->pub = NULL;
	b->db = NULL;
	if (r->db) /* Taking the lease frees the lock of the last one. */
		memcpy(r->lease.holder, b->holder, sizeof(r->lease.holder));
}

wherry_code wh_brief_open_table(wherry_relay *r, wherry_error *err)
{
	wh_brief *b = r->brief;
	wherry_outbox *outbox = NULL;
	wh_table_name parts;
	wherry_code code;

	if (!b->known.found) {
		code = wh_source_open_set(r->db, r->config, &r->source, err);
		if (code == WHERRY_OK && r->source.outbox)
			b->known = wh_outbox_know(r->source.outbox);
		return code;
	}
	code = wh_table_name_read(wh_config_text(r->config, WH_RELAY_TABLE), &parts, err);
	if (code == WHERRY_OK)
		code = wh_outbox_open_known(r->db, parts.table, &b->known, &b->pattern,
					    &outbox, err);
	if (code == WHERRY_OK)
		r->source = (wh_source){.outbox = outbox, .store = &outbox->store};
	return code;
}

/* The destination, if no message is in it. */
bool wh_brief_leaves_pub(const wherry_relay *r)
{
	return r->brief && !r->brief->own_pub && r->pub && !r->window.in_flight.n &&
	       !r->stop_timed_out && !(r->caps & WH_PUB_ACKS);
}

/* The connection, if it works and the lease was given back. */
bool wh_brief_leaves_db(const wherry_relay *r)
{
	return r->brief && !r->brief->own_db && r->db && !r->reopen_db &&
	       r->trouble_us == WH_NEVER && !r->lease.epoch &&
	       !wherry_db_in_transaction(r->db);
}

void wh_brief_leave_db(wherry_relay *r)
{
	memcpy(r->brief->holder, r->lease.holder, sizeof(r->brief->holder));
	r->brief->db = r->db;
	r->db = NULL;
}
