/*
 * State of each topic, and of each partition that took a message.
 *
 * A topic may be missing, the user may have no right to write to it, or it may have no
 * leader or too few replicas.  That is not a fault of a message.  So the topic is held: its
 * messages come back at once, no attempt is counted, and one of them tries the topic again
 * after a while.  Messages for other topics go on.
 */
#include "publish/kafka/kafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum {
	TRY_US = 1000000, /* First pause of a topic; it doubles each time. */
	DOUBLINGS = 2,
	/* Rejections in a row after which a topic may reject every message. */
	REJECTED_MOST = 3
};

static uint64_t hash_of(const char *topic, int32_t partition)
{
	uint64_t hash = wh_hash(WH_HASH_START, topic, strlen(topic));

	return hash ^ (uint64_t)(partition + 1) * 0x9e3779b97f4a7c15u;
}

/* Producers choose the topics, and so how many there are.  Before places are made, forget all if
 * there are many: a topic that does not take messages is then held again when one fails. */
static void limit(wh_kafka_places *all)
{
	if (all->n >= WH_KAFKA_PLACES_MOST)
		wh_kafka_places_clear(all);
}

/* NULL: out of memory, or not known and make is false. */
static wh_kafka_place *find(wh_kafka_places *all, const char *topic, int32_t partition,
			    bool make)
{
	uint64_t hash = hash_of(topic, partition);
	wh_kafka_place **bucket = &all->buckets[hash % WH_KAFKA_PLACES];
	wh_kafka_place *place = *bucket;

	while (place && place->hash != hash)
		place = place->next;
	if (place || !make)
		return place;
	place = calloc(1, sizeof(*place));
	if (!place)
		return NULL;
	place->hash = hash;
	place->next = *bucket;
	all->n++;
	return *bucket = place;
}

bool wh_kafka_place_took(wh_kafka_places *all, const char *topic, int32_t partition,
			 int64_t now)
{
	wh_kafka_place *whole, *part;
	bool was_held;

	limit(all);
	whole = find(all, topic, RD_KAFKA_PARTITION_UA, true);
	part = find(all, topic, partition, true);
	was_held = whole && whole->failures;
	if (part)
		part->taken_us = now;
	if (whole) {
		whole->taken_us = now;
		whole->held_until_us = whole->probe = 0;
		whole->failures = whole->rejected = 0;
	}
	return was_held;
}

bool wh_kafka_place_is_new(wh_kafka_places *all, const char *topic)
{
	wh_kafka_place *place = find(all, topic, RD_KAFKA_PARTITION_UA, true);
	bool is_new = place && !place->looked;

	if (is_new)
		place->looked = true;
	return is_new;
}

bool wh_kafka_place_took_since(wh_kafka_places *all, const char *topic, int32_t partition,
			       int64_t since_us)
{
	const wh_kafka_place *place = find(all, topic, partition, false);

	return place && place->taken_us > since_us;
}

bool wh_kafka_place_failed(wh_kafka_places *all, const char *topic, int64_t id,
			   const char *why, int64_t now)
{
	wh_kafka_place *place;
	int64_t wait_us = TRY_US;

	limit(all);
	place = find(all, topic, RD_KAFKA_PARTITION_UA, true);
	if (!place)
		return false;
	(void)snprintf(place->why, sizeof(place->why), "%s", why);
	if (place->failures && place->probe != id && now < place->held_until_us)
		return false;
	for (int i = 0; i < place->failures && i < DOUBLINGS; i++)
		wait_us *= 2;
	place->probe = 0;
	place->held_until_us = wh_later(
		now, wait_us < WH_KAFKA_TRY_MOST_US ? wait_us : WH_KAFKA_TRY_MOST_US);
	return !place->failures++;
}

const char *wh_kafka_place_why(wh_kafka_places *all, const char *topic)
{
	const wh_kafka_place *place = find(all, topic, RD_KAFKA_PARTITION_UA, false);

	return place ? place->why : "";
}

int64_t wh_kafka_place_rest_us(wh_kafka_places *all, const char *topic, int64_t id,
			       int64_t now, int64_t limit_us)
{
	wh_kafka_place *place = find(all, topic, RD_KAFKA_PARTITION_UA, false);

	if (!place || !place->failures)
		return 0;
	/* A message that tries the topic may be submitted several times. */
	if (now >= place->held_until_us || (place->probe && place->probe == id)) {
		place->probe = id;
		place->held_until_us = wh_later(now, limit_us);
		return 0;
	}
	if (place->probe)
		return TRY_US;
	return place->held_until_us - now;
}

void wh_kafka_place_untried(wh_kafka_places *all, const char *topic, int64_t id)
{
	wh_kafka_place *place = find(all, topic, RD_KAFKA_PARTITION_UA, false);

	if (place && place->probe == id)
		place->probe = place->held_until_us = 0;
}

wh_kafka_blame wh_kafka_place_rejected(wh_kafka_places *all, const char *topic)
{
	wh_kafka_place *place;

	limit(all);
	place = find(all, topic, RD_KAFKA_PARTITION_UA, true);
	if (!place)
		return WH_KAFKA_BLAME_MESSAGE;
	if (++place->rejected >= REJECTED_MOST)
		return WH_KAFKA_BLAME_TOPIC;
	return place->taken_us ? WH_KAFKA_BLAME_MESSAGE : WH_KAFKA_BLAME_EITHER;
}

void wh_kafka_places_clear(wh_kafka_places *all)
{
	for (size_t i = 0; i < WH_KAFKA_PLACES; i++)
		while (all->buckets[i]) {
			wh_kafka_place *place = all->buckets[i];

			all->buckets[i] = place->next;
			free(place);
		}
	all->n = 0;
}
