/* What the suites of crons share. */
#ifndef WHERRY_CRON_FIXTURE_H
#define WHERRY_CRON_FIXTURE_H

#include "cron/cron.h"
#include "outbox_suite.h"

enum { SECOND_US = 1000000 };

#define HOUR_US (3600LL * SECOND_US)

/* The state of every test: a cron and a delayed queue with a clock that stands at T0. */
typedef struct fixture {
	const outbox_backend *backend;
	void *place;
	wherry_db *db;
	wherry_delayed *queue;
	wherry_cron *cron;
	int64_t now_us;
	/* What was polled last. */
	char body[100], key[220], token[100];
	bool redelivery;
} fixture;

/* Ticks that are put anywhere, by one and by several at once. */
extern const struct CMUnitTest cron_fire_cases[];
extern const size_t n_cron_fire_cases;

#endif
