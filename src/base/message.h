/*
 * Copies of messages.
 */
#ifndef WH_BASE_MESSAGE_H
#define WH_BASE_MESSAGE_H

#include <wherry/message.h>

#include "base/arena.h"

/* Copy a message, with its texts and body, into the arena.  NULL: out of memory. */
wherry_message *wh_message_copy(wh_arena *arena, const wherry_message *msg);

#endif
