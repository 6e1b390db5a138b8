/*
 * Running a transaction again after a temporary failure of the database.
 *
 * A second thread ends a try that takes too long, by interrupting the connection.  A
 * driver notices an interrupt only while a call runs, so the thread repeats it until the
 * try ends.
 */
#include <wherry/retry.h>

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/sized.h"
#include "base/thread.h"
#include "db/driver.h"

enum { RETRIES_STANDARD = 5 };

static const int64_t initial_us = 100000, most_us = 5 * WH_SECOND,
		     total_us = 30 * WH_SECOND, again_interrupt_us = 20000;

/* ---- the time of a try ---- */

typedef struct watchdog {
	wherry_db *db;
	int64_t until_us; /* By the system's monotonic clock. */
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock; /* Protects the fields below. */
	pthread_cond_t wake;
	bool over;  /* The try has ended. */
	bool fired; /* The try was interrupted. */
} watchdog;

static void *watch(void *ctx)
{
	watchdog *w = ctx;
	int64_t at_us = w->until_us;

	(void)pthread_mutex_lock(&w->lock);
	while (!w->over) {
		const struct timespec until = {at_us / WH_SECOND,
					       at_us % WH_SECOND * 1000};

		if (pthread_cond_clockwait(&w->wake, &w->lock, CLOCK_MONOTONIC, &until) ==
			    0 ||
		    w->over)
			continue;
		w->fired = true;
		wherry_db_interrupt(w->db);
		at_us = wh_later(wh_monotonic(&wh_env_system), again_interrupt_us);
	}
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

static wherry_code watchdog_start(watchdog *w, wherry_db *db, int64_t per_try_us,
				  wherry_error *err)
{
	*w = (watchdog){.db = db};
	if (!per_try_us)
		return WHERRY_OK;
	w->until_us = wh_later(wh_monotonic(&wh_env_system), per_try_us);
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->wake, NULL);
	w->runs = wh_thread_start(&w->thread, WH_JOINED, watch, w);
	if (w->runs)
		return WHERRY_OK;
	(void)pthread_cond_destroy(&w->wake);
	(void)pthread_mutex_destroy(&w->lock);
	return wh_fail(err, WHERRY_BUSY,
		       "no thread can be started that watches the time of a try");
}

/* Stop the watchdog; true if it interrupted the try. */
static bool watchdog_stop(watchdog *w)
{
	if (!w->runs)
		return false;
	(void)pthread_mutex_lock(&w->lock);
	w->over = true;
	(void)pthread_cond_signal(&w->wake);
	(void)pthread_mutex_unlock(&w->lock);
	(void)pthread_join(w->thread, NULL);
	(void)pthread_cond_destroy(&w->wake);
	(void)pthread_mutex_destroy(&w->lock);
	return w->fired;
}

/* ---- one try ---- */

typedef struct retrying {
	wherry_db *db;
	const wh_env *env;
	wherry_retry_policy policy;
	wherry_try_fn fn;
	void *ctx;
	wherry_retry_report report;
	int64_t began_us;
} retrying;

static wherry_code try_once(retrying *r, wherry_error *err)
{
	watchdog w;
	wherry_code code;

	if (!r->db)
		return r->fn(r->ctx, err);
	code = watchdog_start(&w, r->db, r->policy.per_try_us, err);
	if (code != WHERRY_OK)
		return code;
	code = wh_db_transact_once(r->db, false, r->fn, r->ctx, err);
	if (watchdog_stop(&w) && code == WHERRY_INTERRUPTED)
		code = wh_fail(err, WHERRY_TIMEOUT, "the try took longer than %lld ms",
			       (long long)r->policy.per_try_us / 1000);
	return code;
}

/* ---- whether to try again ---- */

static bool passes(const retrying *r, wherry_code code)
{
	wherry_remedy remedy = wherry_code_remedy(code);

	if (code == WHERRY_INTERRUPTED || code == WHERRY_INDOUBT)
		return false;
	return remedy == WHERRY_REMEDY_RETRY || remedy == WHERRY_REMEDY_ROLLBACK ||
	       (remedy == WHERRY_REMEDY_REOPEN && !r->db);
}

static void note(retrying *r, const wherry_error *failure)
{
	wherry_retry_report *report = &r->report;
	int32_t n = report->n_errors;

	for (int32_t i = 0; i < n; i++)
		if (report->errors[i].code == failure->code &&
		    strcmp(report->errors[i].message, failure->message) == 0)
			return;
	if (n == WHERRY_RETRY_ERRORS)
		n--;
	memmove(&report->errors[1], &report->errors[0],
		(size_t)n * sizeof(report->errors[0]));
	report->errors[0] = *failure;
	report->n_errors = n + 1;
}

static int64_t next_delay(const retrying *r, int64_t delay_us)
{
	double next = (double)delay_us * r->policy.factor;

	return next < (double)r->policy.most_us ? (int64_t)next : r->policy.most_us;
}

static bool again(const retrying *r, const wherry_error *failure, int64_t delay_us)
{
	const wherry_retry_policy *p = &r->policy;
	int64_t end_us = wh_later(r->began_us, p->total_us);
	int32_t left = p->retries - r->report.retries;

	if (left <= 0 || !passes(r, failure->code) ||
	    wh_later(wh_monotonic(r->env), delay_us) >= end_us)
		return false;
	return !p->again || p->again(p->again_ctx, failure, left, delay_us);
}

static wherry_code run(retrying *r, wherry_error *err)
{
	int64_t delay_us = r->policy.initial_us < r->policy.most_us ? r->policy.initial_us
								    : r->policy.most_us;
	wherry_error failure = WHERRY_ERROR_INIT;
	wherry_code code;

	while ((code = try_once(r, &failure)) != WHERRY_OK) {
		if (failure.code != code)
			(void)wh_fail(&failure, code, "%s", wherry_code_text(code));
		note(r, &failure);
		if (!again(r, &failure, delay_us))
			break;
		wh_sleep(r->env, delay_us);
		delay_us = next_delay(r, delay_us);
		r->report.retries++;
		wh_error_clear(&failure);
	}
	r->report.took_us = wh_monotonic(r->env) - r->began_us;
	if (code == WHERRY_OK)
		return code;
	if (err)
		*err = failure;
	return wh_prefix(err, code, "giving up after %d %s and %lld ms",
			 (int)r->report.retries,
			 r->report.retries == 1 ? "retry" : "retries",
			 (long long)r->report.took_us / 1000);
}

/* ---- the calls ---- */

static wherry_code read_policy(const wherry_retry_policy *given, wherry_retry_policy *out,
			       wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	*out = (wherry_retry_policy){.size = sizeof(*out)};
	if (given)
		code = wh_sized_read(out, sizeof(*out), given,
				     offsetof(wherry_retry_policy, initial_us), "policy",
				     "WHERRY_RETRY_POLICY", err);
	if (code != WHERRY_OK)
		return code;
	if (out->initial_us < 0 || out->most_us < 0 || out->total_us < 0 ||
	    out->per_try_us < 0)
		return wh_fail(err, WHERRY_INVALID,
			       "a time of a retry policy is negative");
	if (out->factor != 0 && !(out->factor >= 1))
		return wh_fail(err, WHERRY_INVALID,
			       "the factor of a retry policy is below 1: delays do not "
			       "become shorter");
	if (out->retries < WHERRY_NO_RETRIES)
		return wh_fail(err, WHERRY_INVALID,
			       "a retry policy has a negative number of retries");
	out->initial_us = out->initial_us ? out->initial_us : initial_us;
	out->most_us = out->most_us ? out->most_us : most_us;
	out->total_us = out->total_us ? out->total_us : total_us;
	out->factor = out->factor != 0 ? out->factor : 2;
	out->retries = out->retries ? out->retries : RETRIES_STANDARD;
	return WHERRY_OK;
}

static wherry_code check(const retrying *r, wherry_error *err)
{
	if (!r->fn)
		return wh_fail(err, WHERRY_INVALID, "no function to try");
	if (!r->db && r->policy.per_try_us)
		return wh_fail(
			err, WHERRY_INVALID,
			"without a connection there is nothing to interrupt: leave "
			"per_try_us out");
	if (r->db && wherry_db_in_transaction(r->db))
		return wh_fail(err, WHERRY_INVALID,
			       "a transaction is open: a retry begins its own, since a "
			       "failure may end the one that is open");
	return WHERRY_OK;
}

wherry_code wherry_retry(wherry_db *db, const wherry_retry_policy *policy,
			 wherry_try_fn fn, void *ctx, wherry_retry_report *report,
			 wherry_error *err)
{
	wh_error_clear(err);
	retrying r = {.db = db,
		      .env = db ? db->env : &wh_env_system,
		      .fn = fn,
		      .ctx = ctx,
		      .report = {.size = sizeof(r.report)}};
	wherry_code code = read_policy(policy, &r.policy, err);

	if (code == WHERRY_OK)
		code = check(&r, err);
	if (code == WHERRY_OK && report && report->size < sizeof(report->size))
		code = wh_fail(
			err, WHERRY_INVALID,
			"the size of the report is %zu: set it, as WHERRY_RETRY_REPORT "
			"does",
			report->size);
	if (code != WHERRY_OK)
		return code;
	r.began_us = wh_monotonic(r.env);
	code = run(&r, err);
	if (report) {
		size_t room = report->size;

		wh_sized_write(report, room, &r.report, sizeof(r.report));
	}
	return code;
}
