/* What the suites of crons share. */
#ifndef WHERRY_CRON_FIXTURE_H
#define WHERRY_CRON_FIXTURE_H

#include "cron/cron.h"
#include "outbox_suite.h"

#define T0_US (1704103200LL * 1000000) /* 2024-01-01 10:00:00 UTC */

enum { SECOND_US = 1000000, ROOM = 2000 };

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

extern const char cron_prefix[]; /* of ticks */

/* Install ticks whose bodies are these letters, so many seconds from T0; returns how many are
 * new. */
int64_t cron_install(fixture *f, const char *under, const char *hash, const char *bodies,
		     const double *seconds);
int64_t cron_install_one(fixture *f, const char *hash, const char *body, double seconds);
int64_t cron_uninstall(fixture *f, const char *under, const char *hash);

/* Poll one message under a lease of 5 s; "" if there is none. */
const char *cron_poll_one(fixture *f);

/* Poll a message with this body, and acknowledge it. */
void cron_handle(fixture *f, const char *body);

/* Set the clock, so many seconds from T0. */
void cron_at(fixture *f, double seconds);

/* The times of the ticks that the queue has, "110000 120000". */
void cron_expect_ticks(fixture *f, const char *wanted);

/* Sets up a case that makes or drops tables; others run as a role that was granted rights. */
int cron_make_owner(void **state);

/* Ticks of a schedule, and what is remembered of schedules. */
extern const struct CMUnitTest cron_schedule_cases[];
extern const size_t n_cron_schedule_cases;

/* Ticks that are put anywhere, by one and by several at once. */
extern const struct CMUnitTest cron_fire_cases[];
extern const size_t n_cron_fire_cases;

#endif
