/*
 * Partitions: several relays share a table, each with its own lease and a share of 64
 * partitions, which are parts of the keys.  See postgres.partitions.sql
 * and mssql.partitions.sql.
 */
#ifndef WH_STORE_PARTITIONS_H
#define WH_STORE_PARTITIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

enum {
	WH_PARTITIONS = 64,
	WH_PARTITION_LIST = WH_PARTITIONS * 3 + 3,
	WH_PARTITION_READ_PARAMS = 9
};

/* The shares of all relays at one time. */
typedef struct wh_partitions {
	uint64_t mine, others; /* a bit for each partition; the others who live */
	int64_t n_others;      /* of relays */
	int64_t expiry_us; /* until the first of their leases ends; -1: there is none */
} wh_partitions;

/* How many partitions of 64 a relay should have where there are others. */
int wh_partitions_fair(int64_t n_others);

int wh_partitions_count(uint64_t mask);

/* The lowest of them, at most so many. */
uint64_t wh_partitions_first(uint64_t mask, int most);

/*
 * Take a lease with a fair share of the free partitions, which may be none.  A relay that has
 * more than its share gives partitions up at its next renewal.
 *
 * @return WHERRY_OK; WHERRY_BUSY (competing relays work on it, or one was faster: then there
 *         is no native error); what a write can fail with.
 */
wherry_code wh_partitions_join(wh_store *store, bool again, const char *owner,
			       int64_t lasts_us, int64_t window, wherry_lease *out,
			       wh_partitions *out_partitions, wherry_error *err);

/* As wh_store_renew(), which learns the share as it is. */
wherry_code wh_partitions_renew(wh_store *store, wherry_lease *lease, wh_partitions *out,
				wherry_error *err);

/*
 * Take what is free, as far as it is fair.
 *
 * @param out_suspects  Messages that others who ended uncleanly may have had in flight.
 */
wherry_code wh_partitions_more(wh_store *store, wherry_lease *lease, wh_partitions *inout,
			       int64_t *out_suspects, wherry_error *err);

/* Keep these alone; nothing of the others may be in memory any more. */
wherry_code wh_partitions_keep(wh_store *store, wherry_lease *lease, uint64_t mask,
			       wh_partitions *out, wherry_error *err);

/* As wh_store_control(); and who else lives, and what they have: only that is set. */
wherry_code wh_partitions_control(wh_store *store, const wherry_lease *lease,
				  bool *out_paused, int64_t *out_version,
				  wh_partitions *out, wherry_error *err);

/* A relay that lives, and its share; owner is borrowed for the visit. */
typedef struct wh_sharer {
	const char *owner;
	int64_t epoch, left_us;
	int n; /* partitions */
} wh_sharer;

typedef void (*wh_sharer_fn)(void *ctx, const wh_sharer *who);

/* Visit the relays that share a table that was made for it; for other tables visit none. */
wherry_code wh_partitions_list(wh_store *store, wh_sharer_fn visit, void *ctx,
			       wherry_error *err);

/* ---- reading a share ---- */

typedef struct wh_partitions_read {
	uint64_t mask;
	int64_t each; /* rows of a partition at most, and of a state */
	int64_t late; /* what was committed late is behind this id, and none of these: */
	const int64_t *known;
	size_t n_known;
	char list[WH_PARTITION_LIST]; /* for the parameters */
} wh_partitions_read;

/* The parameter "partitions", kept in list. */
wh_param wh_partitions_param(uint64_t mask, char list[WH_PARTITION_LIST]);

#endif
