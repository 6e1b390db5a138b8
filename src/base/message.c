#include "base/message.h"

#include <stdbool.h>
#include <string.h>

static bool copy_text(wh_arena *arena, const char **text)
{
	if (!*text)
		return true;
	*text = wh_arena_copy(arena, *text, strlen(*text));
	return *text != NULL;
}

wherry_message *wh_message_copy(wh_arena *arena, const wherry_message *msg)
{
	wherry_message *copy = wh_arena_alloc(arena, sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *msg;
	if (!copy_text(arena, &copy->message_id) || !copy_text(arena, &copy->topic) ||
	    !copy_text(arena, &copy->aggregate_type) ||
	    !copy_text(arena, &copy->aggregate_id) || !copy_text(arena, &copy->key) ||
	    !copy_text(arena, &copy->headers) || !copy_text(arena, &copy->trace_id))
		return NULL;
	if (copy->body) {
		copy->body = wh_arena_copy(arena, copy->body, copy->body_len);
		if (!copy->body)
			return NULL;
	}
	return copy;
}
