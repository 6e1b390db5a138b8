/*
 * Queues as destinations of the suite, and an outbox to relay from.
 */
#ifndef QUEUE_PLACES_H
#define QUEUE_PLACES_H

#include "publisher_suite.h"

/* A database with a queue "jobs" and an inbox. */
typedef struct queue_place {
	wherry_temp temp;
	char url[200]; /* of the database */
	char to[256];  /* of the queue, as a destination */
	wherry_db *db;
	wherry_queue *queue;
} queue_place;

/* Make both in the database of this URL. */
void queue_place_make(queue_place *place, const char *url);
void queue_place_clear(queue_place *place);

void *queue_place_sqlite(char *url, size_t cap); /* start of a back end */
void queue_place_stop(void *place);

/* Headers that are not an object of strings. */
void queue_place_doom(void *place, publisher_fate fate, wherry_message *msg, char *text,
		      size_t cap);

/* The numbers in the message ids of what is in the queue. */
size_t queue_place_arrived(void *place, wherry_publisher *pub, int *numbers, size_t cap);

/* A message that is delivered twice arrives once, and a replay arrives again. */
void queue_place_delivers_once(queue_place *place);

/* The key and the trace id of a message are headers of it in the queue. */
void queue_place_carries_key_and_trace(queue_place *place);

/* With inbox_retention in its URL, it deletes older ids from the inbox. */
void queue_place_purges_its_inbox(queue_place *place);

#endif
