#include "cli/reconcile_topics.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { SLOTS_FIRST = 64 };

/* The slot of a name, or the free one for it. */
static size_t *slot_of(const wh_topics *topics, const char *name)
{
	size_t at = (size_t)wh_hash(WH_HASH_START, name, strlen(name));

	for (;; at++) {
		size_t *slot = &topics->slots[at & (topics->n_slots - 1)];

		if (!*slot || strcmp(topics->names[*slot - 1], name) == 0)
			return slot;
	}
}

/* Keep the table half empty. */
static wherry_code grow(wh_topics *topics, wherry_error *err)
{
	size_t n = topics->n_slots ? topics->n_slots * 2 : SLOTS_FIRST;
	size_t *slots = calloc(n, sizeof(*slots));
	char **names = realloc(topics->names, n / 2 * sizeof(*names));

	if (names)
		topics->names = names;
	if (!slots || !names) {
		free(slots);
		return wh_oom(err);
	}
	free(topics->slots);
	topics->slots = slots;
	topics->n_slots = n;
	for (size_t i = 0; i < topics->n; i++)
		*slot_of(topics, topics->names[i]) = i + 1;
	return WHERRY_OK;
}

wherry_code wh_topics_add(wh_topics *topics, const char *name, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	size_t *slot;

	if (topics->n && strcmp(topics->names[topics->last], name) == 0)
		return WHERRY_OK;
	if (topics->n == topics->n_slots / 2)
		code = grow(topics, err);
	if (code != WHERRY_OK)
		return code;
	slot = slot_of(topics, name);
	if (!*slot) {
		topics->names[topics->n] = strdup(name);
		if (!topics->names[topics->n])
			return wh_oom(err);
		*slot = ++topics->n;
	}
	topics->last = *slot - 1;
	return WHERRY_OK;
}

void wh_topics_clear(wh_topics *topics)
{
	for (size_t i = 0; i < topics->n; i++)
		free(topics->names[i]);
	free(topics->names);
	free(topics->slots);
	*topics = (wh_topics){NULL, 0, NULL, 0, 0};
}
