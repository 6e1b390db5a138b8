#include "publish/kafka/kafka.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "publish/parts.h"

#define PROOF_US (3600 * WH_SECOND)

/* ---- jobs ---- */

/* A hash of the topic, the key and, if they name a partition, the headers.  Without a key
 * the id goes in, since Kafka chooses a partition for each such message. */
static uint64_t place_of(const wherry_message *msg, const wh_kafka_settings *set)
{
	const char *texts[] = {set->topic ? "" : msg->topic, wh_message_headers(msg),
			       wh_message_key(msg)};
	uint64_t hash = WH_HASH_START;

	if (!texts[2])
		hash ^= (uint64_t)msg->id;
	if (!strstr(texts[1], "wherry-partition"))
		texts[1] = "";
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (texts[i])
			hash = wh_hash(hash, texts[i], strlen(texts[i]));
	return hash;
}

wh_kafka_job *wh_kafka_job_new(const wherry_message *msg, const wh_kafka_settings *set)
{
	wh_kafka_job *job = malloc(sizeof(*job)); /* glibc's calloc() takes longer. */

	if (!job)
		return NULL;
	*job = (wh_kafka_job){.flight = {.message = msg},
			      .partition = RD_KAFKA_PARTITION_UA};
	job->key_hash = set->ordered ? wh_message_key_hash(msg) : 0;
	job->place = job->key_hash ? place_of(msg, set) : 0;
	return job;
}

void wh_kafka_job_free(wh_kafka_job *job)
{
	free(job->flight.reason);
	free(job);
}

void wh_kafka_jobs_clear(wh_flights *jobs)
{
	wh_kafka_job *job;

	while ((job = (wh_kafka_job *)wh_flights_pop(jobs)))
		wh_kafka_job_free(job);
}

/* ---- keys ---- */

static wh_kafka_key **bucket_of(wh_kafka_keys *keys, uint64_t hash)
{
	return &keys->buckets[hash % WH_KAFKA_BUCKETS];
}

static wh_kafka_key *find(const wh_kafka_keys *keys, uint64_t hash)
{
	wh_kafka_key *key = keys->buckets[hash % WH_KAFKA_BUCKETS];

	while (key && key->hash != hash)
		key = key->next;
	return key;
}

bool wh_kafka_key_busy(const wh_kafka_keys *keys, uint64_t hash)
{
	return hash && find(keys, hash);
}

/* The partition of this place if the key has proven it; else RD_KAFKA_PARTITION_UA. */
static int32_t proof_of(const wh_kafka_keys *keys, uint64_t hash, uint64_t place)
{
	size_t at = hash % WH_KAFKA_BUCKETS;

	return keys->proven[at] == place ? keys->partitions[at] : RD_KAFKA_PARTITION_UA;
}

static bool is_proven(const wh_kafka_key *key)
{
	return key->partition != RD_KAFKA_PARTITION_UA;
}

/* Record a proof.  If the place had another partition before, the topic has grown or was
 * made again, so all proofs are forgotten. */
static void prove(wh_kafka_keys *keys, wh_kafka_key *key, int32_t partition)
{
	size_t at = key->hash % WH_KAFKA_BUCKETS;

	if (is_proven(key) && key->partition != partition)
		memset(keys->proven, 0, sizeof(keys->proven));
	keys->proven[at] = key->place;
	keys->partitions[at] = key->partition = partition;
}

bool wh_kafka_key_proves(const wh_kafka_keys *keys, const wh_kafka_job *job,
			 int32_t partition)
{
	const wh_kafka_key *key = job->key_hash ? find(keys, job->key_hash) : NULL;

	return key && key->partition == partition;
}

void wh_kafka_keys_age(wh_kafka_keys *keys, int64_t now_us)
{
	if (now_us < keys->renew_us)
		return;
	memset(keys->proven, 0, sizeof(keys->proven));
	keys->renew_us = wh_later(now_us, PROOF_US);
}

static wh_kafka_key *make(wh_kafka_keys *keys, uint64_t hash)
{
	wh_kafka_key **bucket = bucket_of(keys, hash), *key = malloc(sizeof(*key));

	if (!key)
		return NULL;
	*key = (wh_kafka_key){.next = *bucket, .hash = hash};
	*bucket = key;
	return key;
}

/* Choose the key's place.  None of its messages may be in flight. */
static void send_to(const wh_kafka_keys *keys, wh_kafka_key *key, uint64_t place)
{
	key->place = place;
	key->partition = proof_of(keys, key->hash, place);
}

bool wh_kafka_key_enter(wh_kafka_keys *keys, wh_kafka_job *job, bool *out_now)
{
	wh_kafka_key *key;

	*out_now = true;
	if (!job->key_hash)
		return true;
	key = find(keys, job->key_hash);
	if (!key)
		key = make(keys, job->key_hash);
	if (!key)
		return false;
	*out_now = !key->head &&
		   (!key->handed || (key->place == job->place && is_proven(key)));
	if (*out_now) {
		if (!key->handed)
			send_to(keys, key, job->place);
		key->handed++;
		return true;
	}
	job->behind = NULL;
	if (key->tail)
		key->tail->behind = job;
	else
		key->head = job;
	key->tail = job;
	return true;
}

static void drop_key(wh_kafka_keys *keys, wh_kafka_key *key)
{
	wh_kafka_key **at = bucket_of(keys, key->hash);

	while (*at != key)
		at = &(*at)->next;
	*at = key->next;
	free(key);
}

wh_kafka_job *wh_kafka_key_leave(wh_kafka_keys *keys, const wh_kafka_job *job,
				 int32_t partition)
{
	wh_kafka_key *key = job->key_hash ? find(keys, job->key_hash) : NULL;
	wh_kafka_job *first, *last;

	if (key && partition != RD_KAFKA_PARTITION_UA)
		prove(keys, key, partition);
	if (!key || --key->handed)
		return NULL;
	first = last = key->head;
	if (!first) {
		drop_key(keys, key);
		return NULL;
	}
	send_to(keys, key, first->place);
	key->handed = 1;
	while (last->behind && last->behind->place == first->place && is_proven(key)) {
		last = last->behind;
		key->handed++;
	}
	key->head = last->behind;
	if (!key->head)
		key->tail = NULL;
	last->behind = NULL;
	return first;
}

void wh_kafka_keys_clear(wh_kafka_keys *keys)
{
	for (size_t i = 0; i < WH_KAFKA_BUCKETS; i++) {
		for (wh_kafka_key *key = keys->buckets[i], *next; key; key = next) {
			next = key->next;
			free(key);
		}
		keys->buckets[i] = NULL;
	}
	memset(keys->proven, 0, sizeof(keys->proven));
}
