/*
 * Relays that share an outbox: the suite, and what the tests of one database need of it.
 */
#ifndef RELAY_PARTITIONS_H
#define RELAY_PARTITIONS_H

#include "relay_suite.h"

/* What the suite says differently to each database. */
typedef struct relay_shares_words {
	const char *lives; /* Condition: a row of wherry_lease has not expired. */
	int64_t (*partition)(relay_fixture *f, char key);

	/* Add a message of that key in a transaction of another connection; end the
	 * transaction, and close the connection. */
	void *(*begin_put)(relay_fixture *f, char key);
	void (*end)(void *transaction, bool commit);

	/* Of a log: how many different positions its shares have, how many messages the highest one has passed, how many
	 * bits their masks have, and: relays share it no more. */
	const char *positions, *highest, *bits, *alone;
} relay_shares_words;

/* The first call; borrowed. */
void shares_speak(const relay_shares_words *words);

extern const relay_test relay_partitions_tests[];

/* The same of a log; an outbox is shared when a test says so. */
void shares_of_log_speak(const relay_shares_words *words);
void shares_of_log(relay_fixture *f);
extern const relay_test relay_log_shares_tests[];

/* a, b or c. */
relay_side *shares_side(relay_fixture *f, int i);

/* Each relay that runs takes a step. */
void shares_turn(relay_fixture *f, int64_t by_us, const char *what, int line,
		 const char *file);

#define SHARES_UNTIL(f, condition)                                                       \
	do {                                                                             \
		int64_t by_ = relay_deadline();                                          \
		while (!(condition))                                                     \
			shares_turn((f), by_, #condition, __LINE__, __FILE__);           \
	} while (0)

/* Two relays, "relay0" on a and "relay1" on b, with half of the partitions each. */
void shares_start_two(relay_fixture *f);

/* Do the relays have so many partitions? */
bool shares_have(relay_fixture *f, int a, int b, int c);

/* A letter that is a key of that relay's; the n-th of them. */
char shares_key(relay_fixture *f, int i, int n);

/* Add n messages of a key. */
void shares_put(relay_fixture *f, char key, int n);

#endif
