/*
 * Removing an outbox.
 */
#include "outbox/outbox.h"

wherry_code wh_outbox_drop(wherry_outbox *box, wherry_error *err)
{
	return wh_store_drop(&box->store, err);
}
