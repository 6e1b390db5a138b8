/*
 * Partitions: several relays share a table.  The keys are divided into 64 partitions;
 * each relay has a lease and a share of the partitions.  See postgres.shares.sql and
 * mssql.shares.sql.
 */
#ifndef WH_STORE_PARTITIONS_H
#define WH_STORE_PARTITIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

enum { WH_PARTITIONS = 64, WH_PARTITION_LIST = WH_PARTITIONS * 3 + 3 };

/* The shares of all relays at one time. */
typedef struct wh_partitions {
	/* A bit for each partition: of this relay; of all other working relays. */
	uint64_t mine, others;
	int64_t n_others; /* Number of other working relays. */
	/* Time until the first of their leases expires; -1: there is none. */
	int64_t expiry_us;
	/* Number of their leases that are from a clock that was ahead. */
	int64_t n_too_long;
} wh_partitions;

/* Number of partitions that each relay should have. */
int wh_partitions_fair(int64_t n_others);

int wh_partitions_count(uint64_t mask);

/* The lowest partitions of the mask, at most `most`. */
uint64_t wh_partitions_first(uint64_t mask, int most);

/*
 * Take a lease with a fair share of the free partitions, which may be none.  A relay that
 * has more than its share gives partitions up at its next renewal.
 *
 * @param out  Has the holder of the relay's earlier lease, if any.
 * @return WHERRY_OK; WHERRY_BUSY: relays of another engine work on the table, or another
 *         relay was faster (then without native error); any error of a write.
 */
wherry_code wh_partitions_join(wh_store *store, const char *owner, int64_t lasts_us,
			       int64_t window, wherry_lease *out,
			       wh_partitions *out_partitions, wherry_error *err);

/* Like wh_store_renew(), and read the shares. */
wherry_code wh_partitions_renew(wh_store *store, wherry_lease *lease, wh_partitions *out,
				wherry_error *err);

/*
 * Take free partitions, up to a fair share.
 *
 * @param out_suspects  Receives how many messages the relays that ended uncleanly may
 *                      have had in flight.
 */
wherry_code wh_partitions_more(wh_store *store, wherry_lease *lease, wh_partitions *inout,
			       int64_t *out_suspects, wherry_error *err);

/* Keep only the partitions in `mask`.  Before, drop the messages of the other partitions
 * from memory. */
wherry_code wh_partitions_keep(wh_store *store, wherry_lease *lease, uint64_t mask,
			       wh_partitions *out, wherry_error *err);

/* Like wh_store_control(), and read n_others and others.  Other fields of *out stay
 * unchanged. */
wherry_code wh_partitions_control(wh_store *store, const wherry_lease *lease,
				  bool *out_paused, int64_t *out_version,
				  wh_partitions *out, wherry_error *err);

/* A working relay and its partitions.  owner is borrowed for the visit. */
typedef struct wh_partition_holder {
	const char *owner;
	int64_t epoch, left_us;
	int n;       /* Number of partitions. */
	bool silent; /* Its session of the database is not there. */
} wh_partition_holder;

typedef void (*wh_partition_holder_fn)(void *ctx, const wh_partition_holder *who);

/* Visit the relays that share a table made with partitions.  Visits none for other
 * tables. */
wherry_code wh_partitions_list(wh_store *store, wh_partition_holder_fn visit, void *ctx,
			       wherry_error *err);

/* ---- reading a share ---- */

/* Set the parameter "partitions", whose text is kept in `list`. */
wh_param wh_partitions_param(uint64_t mask, char list[WH_PARTITION_LIST]);

#endif
