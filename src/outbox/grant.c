/*
 * Rights of database roles on an outbox.
 */
#include "outbox/outbox.h"
#include "store/grants.h"

wherry_code wh_outbox_grant_check(const char *scheme, const char *const *grants, size_t n,
				  wherry_error *err)
{
	return wh_store_grant_check(&wh_outbox_model, scheme, grants, n, err);
}

wherry_code wh_outbox_grant_sql(const wherry_outbox *box, const char *scheme,
				const char *const *grants, size_t n, wh_buf *to,
				wherry_error *err)
{
	return wh_store_grant_sql(&box->store, scheme, grants, n, to, err);
}

wherry_code wh_outbox_grant(wherry_outbox *box, const char *const *grants, size_t n,
			    wherry_error *err)
{
	return wh_store_grant(&box->store, grants, n, err);
}
