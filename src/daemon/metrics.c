/*
 * Writes the metrics in Prometheus' text format: each family once, with a line for each
 * relay.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wherry/version.h>

#include "base/text.h"
#include "daemon/daemon.h"

/* The state of one relay at this moment. */
typedef struct sample {
	char name[WH_PLAN_NAME + 1];
	wh_pipeline_view view;
	wh_backlog_view outbox;
	bool known; /* outbox is filled. */
} sample;

static double seconds(int64_t us)
{
	return (double)us / 1e6;
}

/* Read one value of a sample.  False: it has none. */
typedef bool (*value_fn)(const sample *s, double *out);

/* A metric: its name, and how to read its value of each relay. */
typedef struct family {
	const char *name, *type, *help;
	size_t at;      /* Offset of the number in a sample. */
	bool of_outbox; /* The number exists only if the outbox is known. */
	value_fn value; /* Reads the value, instead of at; NULL: at applies. */
} family;

#define RELAY(field) .at = offsetof(sample, view.field)
#define OUTBOX(field) .at = offsetof(sample, outbox.field), .of_outbox = true
#define MADE(function) .value = (function)

static bool up(const sample *s, double *out)
{
	*out = s->view.health == WH_RUNNING;
	return true;
}

static bool leading(const sample *s, double *out)
{
	*out = s->view.health == WH_RUNNING && s->view.stats.epoch > 0;
	return true;
}

static bool destination_up(const sample *s, double *out)
{
	*out = !s->view.stats.down;
	return s->view.health == WH_RUNNING;
}

static bool paused(const sample *s, double *out)
{
	*out = s->view.stats.paused;
	return true;
}

static bool state_age(const sample *s, double *out)
{
	*out = seconds(wh_monotonic(&wh_env_system) - s->view.state_us);
	return s->view.state && *s->view.state;
}

static bool since(int64_t at_us, double *out)
{
	*out = seconds(wh_monotonic(&wh_env_system) - at_us);
	return at_us > 0;
}

static bool delivery_age(const sample *s, double *out)
{
	return since(s->view.said.delivered_us, out);
}

static bool error_age(const sample *s, double *out)
{
	return since(s->view.said.error_us, out);
}

static bool oldest(const sample *s, double *out)
{
	*out = seconds(s->outbox.backlog.oldest_ready_us);
	return s->known;
}

static bool looked(const sample *s, double *out)
{
	*out = seconds(wh_monotonic(&wh_env_system) - s->outbox.seen_us);
	return s->known;
}

/* ---- the WAL, if the engine streams it ---- */

static bool has_slot(const sample *s)
{
	return s->known && s->outbox.log.state.has_slot;
}

static bool slot_there(const sample *s, double *out)
{
	*out = has_slot(s) && !s->outbox.log.state.lost;
	return s->known && (s->outbox.reads_log || has_slot(s));
}

static bool slot_lost(const sample *s, double *out)
{
	*out = s->outbox.log.state.lost;
	return has_slot(s);
}

static bool slot_read(const sample *s, double *out)
{
	*out = s->outbox.log.state.reader != 0;
	return has_slot(s);
}

static bool lag_bytes(const sample *s, double *out)
{
	*out = (double)s->outbox.log.behind;
	return has_slot(s) && !s->outbox.log.state.lost;
}

/* The server measures the lag for a connection that reads, and keeps the last value. */
static bool lag_seconds(const sample *s, double *out)
{
	const wh_wal_watched *log = &s->outbox.log;

	*out = seconds(log->lag.us);
	return has_slot(s) && !log->state.lost && (!log->behind || log->lag.by);
}

static bool retained(const sample *s, double *out)
{
	*out = (double)s->outbox.log.state.retained;
	return has_slot(s);
}

static bool stream_dead(const sample *s, double *out)
{
	*out = (double)s->outbox.log.dead;
	return s->known && (s->outbox.reads_log || s->outbox.log.any);
}

static const family families[] = {
	{"wherry_delivered_total", "counter", "Messages delivered.",
	 RELAY(stats.delivered)},
	{"wherry_retried_total", "counter", "Failures that are tried again.",
	 RELAY(stats.retried)},
	{"wherry_dead_total", "counter", "Messages given up.", RELAY(stats.dead)},
	{"wherry_stale_total", "counter",
	 "Acknowledgements refused, since the lease or claim was lost.",
	 RELAY(stats.stale)},
	{"wherry_restarts_total", "counter",
	 "How often the relay ended with an error and was started again.",
	 RELAY(restarts)},
	{"wherry_up", "gauge", "1 while the relay runs, 0 while it failed and waits.",
	 MADE(up)},
	{"wherry_leading", "gauge", "1 while it holds the lease, or competes.",
	 MADE(leading)},
	{"wherry_destination_up", "gauge", "0 while the destination is down.",
	 MADE(destination_up)},
	{"wherry_state_seconds", "gauge",
	 "How long the relay has been in the state of wherry_state.", MADE(state_age)},
	{"wherry_last_delivery_seconds", "gauge",
	 "Since this relay delivered a message; missing until it has.",
	 MADE(delivery_age)},
	{"wherry_last_error_seconds", "gauge",
	 "Since a delivery of this relay failed; missing until one does.",
	 MADE(error_age)},
	{"wherry_paused", "gauge", "1 while an operator has paused the outbox.",
	 MADE(paused)},
	{"wherry_in_flight", "gauge", "Messages handed over, without an answer yet.",
	 RELAY(stats.in_flight)},
	{"wherry_window", "gauge", "Messages in memory.", RELAY(stats.window)},
	{"wherry_held_keys", "gauge", "Keys that wait behind a failed message.",
	 RELAY(stats.held_keys)},
	{"wherry_parked_keys", "gauge", "Keys that wait behind a dead message.",
	 RELAY(stats.parked_keys)},
	{"wherry_outbox_pending", "gauge",
	 "Rows that were not tried yet, counted up to a million.",
	 OUTBOX(backlog.pending)},
	{"wherry_outbox_processing", "gauge", "Rows that are claimed.",
	 OUTBOX(backlog.processing)},
	{"wherry_outbox_failed", "gauge", "Rows that wait to be tried again.",
	 OUTBOX(backlog.failed)},
	{"wherry_outbox_dead", "gauge", "Rows that were given up.", OUTBOX(backlog.dead)},
	{"wherry_outbox_oldest_ready_seconds", "gauge",
	 "Age of the oldest message that may be delivered now; what waits for a retry is "
	 "not one.",
	 MADE(oldest)},
	{"wherry_outbox_looked_seconds", "gauge",
	 "How old the numbers of the outbox are.", MADE(looked)},
	{"wherry_stream_slot", "gauge",
	 "1 while the server keeps its WAL for the replication slot, 0 while there is none "
	 "or it is lost.",
	 MADE(slot_there)},
	{"wherry_stream_slot_lost", "gauge",
	 "1 when the server gave up the WAL that the replication slot was to keep.",
	 MADE(slot_lost)},
	{"wherry_stream_slot_read", "gauge",
	 "1 while somebody reads from the replication slot.", MADE(slot_read)},
	{"wherry_stream_lag_bytes", "gauge", "Bytes of WAL that are not delivered.",
	 MADE(lag_bytes)},
	{"wherry_stream_lag_seconds", "gauge",
	 "How long the last of the WAL took to be delivered, as the server has measured.",
	 MADE(lag_seconds)},
	{"wherry_stream_retained_bytes", "gauge",
	 "Bytes of WAL that the server keeps for the replication slot.", MADE(retained)},
	{"wherry_stream_dead", "gauge", "Messages in the table wherry_dead.",
	 MADE(stream_dead)},
};

static bool value_of(const family *f, const sample *s, double *out)
{
	int64_t number;

	if (f->value)
		return f->value(s, out);
	memcpy(&number, (const char *)s + f->at, sizeof(number));
	*out = (double)number;
	return !f->of_outbox || s->known;
}

static void put_families(wh_buf *out, const sample *samples, size_t n)
{
	for (size_t k = 0; k < sizeof(families) / sizeof(*families); k++) {
		const family *f = &families[k];
		double value;

		wh_metrics_head(out, f->name, f->type, f->help);
		for (size_t i = 0; i < n; i++)
			if (value_of(f, &samples[i], &value))
				wh_buf_printf(out, "%s{relay=\"%s\"} %.15g\n", f->name,
					      samples[i].name, value);
	}
}

static void put_errors(wh_buf *out, const sample *samples, size_t n)
{
	/* Print zero counters too: Prometheus sees no increase from a missing counter to 1. */
	wh_metrics_head(out, "wherry_errors_total", "counter", "What failed, by class.");
	for (size_t i = 0; i < n; i++)
		for (int code = 1; code < WHERRY_CODE_COUNT; code++)
			wh_buf_printf(out,
				      "wherry_errors_total{relay=\"%s\",class=\"%s\"} "
				      "%" PRId64 "\n",
				      samples[i].name,
				      wherry_code_name((wherry_code)code),
				      samples[i].view.stats.errors[code]);
}

/* Are two names equal before their labels? */
static bool akin(const char *a, const char *b)
{
	size_t n = strcspn(a, "{");

	return n == strcspn(b, "{") && strncmp(a, b, n) == 0;
}

static bool named_before(const sample *samples, size_t i, size_t number)
{
	const char *name = samples[i].view.numbers[number].name;

	for (size_t k = 0; k <= i; k++) {
		size_t upto = k < i ? samples[k].view.n_numbers : number;

		for (size_t j = 0; j < upto; j++)
			if (akin(samples[k].view.numbers[j].name, name))
				return true;
	}
	return false;
}

static void put_number(wh_buf *out, const sample *samples, size_t n, const wh_number *of)
{
	int len = (int)strcspn(of->name, "{");
	bool grows = len > 6 && strncmp(of->name + len - 6, "_total", 6) == 0;
	char name[80];

	(void)snprintf(name, sizeof(name), "wherry_%.*s", len, of->name);
	wh_metrics_head(out, name, grows ? "counter" : "gauge", of->help);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < samples[i].view.n_numbers; j++) {
			const wh_number *number = &samples[i].view.numbers[j];
			size_t bare = strcspn(number->name, "{");

			if (!akin(number->name, of->name))
				continue;
			wh_buf_printf(out, "%s{relay=\"%s\"", name, samples[i].name);
			if (number->name[bare])
				wh_buf_printf(out, ",%s", number->name + bare + 1);
			else
				wh_buf_putc(out, '}');
			wh_buf_printf(out, " %" PRId64 "\n", number->value);
		}
}

/* ---- subscriptions that no relay of this process reads ---- */

static double other_pending(const wh_other *o)
{
	return (double)o->backlog.pending;
}

static double other_dead(const wh_other *o)
{
	return (double)o->backlog.dead;
}

static double other_oldest(const wh_other *o)
{
	return seconds(o->backlog.oldest_ready_us);
}

static double other_kept(const wh_other *o)
{
	return o->kept_us < 0 ? 0 : seconds(o->kept_us);
}

static double other_moved(const wh_other *o)
{
	return seconds(o->moved_us);
}

static double other_led(const wh_other *o)
{
	return o->led;
}

static void put_others(wh_buf *out, const sample *samples, size_t n)
{
	static const struct {
		const char *name, *help;
		double (*value)(const wh_other *o);
	} of[] = {
		{"wherry_subscription_kept_seconds",
		 "Age of the oldest message that is kept for a subscription which no relay of this "
		 "process reads; 0: it has passed all.",
		 other_kept},
		{"wherry_subscription_pending",
		 "Messages that were not tried yet in it, counted up to a million.",
		 other_pending},
		{"wherry_subscription_dead", "Messages that were given up in it.",
		 other_dead},
		{"wherry_subscription_oldest_ready_seconds",
		 "Age of its oldest message that may be delivered now.", other_oldest},
		{"wherry_subscription_moved_seconds", "Since its position moved.",
		 other_moved},
		{"wherry_subscription_led", "1 while another process relays it.",
		 other_led},
	};

	for (size_t k = 0; k < sizeof(of) / sizeof(*of); k++) {
		wh_metrics_head(out, of[k].name, "gauge", of[k].help);
		for (size_t i = 0; i < n; i++)
			for (int j = 0;
			     samples[i].known && j < samples[i].outbox.n_others; j++)
				wh_buf_printf(out,
					      "%s{relay=\"%s\",subscription=\"%s\"} "
					      "%.15g\n",
					      of[k].name, samples[i].name,
					      samples[i].outbox.others[j].name,
					      of[k].value(&samples[i].outbox.others[j]));
	}
}

/* Print the counters that destinations keep themselves. */
static void put_numbers(wh_buf *out, const sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < samples[i].view.n_numbers; j++)
			if (!named_before(samples, i, j))
				put_number(out, samples, n, &samples[i].view.numbers[j]);
}

static void put_latency(wh_buf *out, const sample *samples, size_t n)
{
	wh_metrics_head(
		out, "wherry_latency_seconds", "histogram",
		"From a message's creation, by the database's clock, to its delivery.");
	for (size_t i = 0; i < n; i++) {
		const wherry_relay_stats *stats = &samples[i].view.stats;
		int64_t sum = 0;

		for (int k = 0; k < WHERRY_LATENCY_CLASSES; k++) {
			char bound[32] = "+Inf";

			sum += stats->latency[k];
			if (k < WHERRY_LATENCY_CLASSES - 1)
				(void)snprintf(bound, sizeof(bound), "%.15g",
					       seconds(wherry_latency_bound(k)));
			wh_buf_printf(out,
				      "wherry_latency_seconds_bucket{relay=\"%s\",le="
				      "\"%s\"} %" PRId64 "\n",
				      samples[i].name, bound, sum);
		}
		wh_buf_printf(out,
			      "wherry_latency_seconds_sum{relay=\"%s\"} %.15g\n"
			      "wherry_latency_seconds_count{relay=\"%s\"} %" PRId64 "\n",
			      samples[i].name, seconds(stats->latency_us),
			      samples[i].name, sum);
	}
}

static void put_owned(wh_buf *out, const char *name, const sample *s, const char *owner,
		      int64_t value)
{
	wh_buf_printf(out, "%s{relay=\"%s\",engine=\"%s\",owner=\"", name, s->name,
		      s->outbox.holder.engine);
	wh_metrics_label(out, owner);
	wh_buf_printf(out, "\"} %" PRId64 "\n", value);
}

/* Write 1 for the state that the relay is in, 0 for the others. */
static void put_states(wh_buf *out, const sample *samples, size_t n)
{
	static const char *const states[] = {WH_STATE_LEADING,  "standby",
					     WH_STATE_PAUSED,   WH_STATE_RETRYING,
					     WH_STATE_STOPPING, WH_STATE_STOPPED};

	wh_metrics_head(
		out, "wherry_state", "gauge",
		"1 for the state that the relay is in; retrying: the destination is down.");
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sizeof(states) / sizeof(*states); k++)
			wh_buf_printf(out, "wherry_state{relay=\"%s\",state=\"%s\"} %d\n",
				      samples[i].name, states[k],
				      samples[i].view.state &&
					      strcmp(samples[i].view.state, states[k]) ==
						      0);
}

static void put_leases(wh_buf *out, const sample *samples, size_t n)
{
	wh_metrics_head(
		out, "wherry_lease_epoch", "gauge",
		"Epoch of the outbox's lease, labelled with its owner; of each, where several "
		"share it.");
	for (size_t i = 0; i < n; i++) {
		const wh_backlog_view *outbox = &samples[i].outbox;

		for (int k = 0; samples[i].known && k < outbox->n_partition_leases; k++)
			put_owned(out, "wherry_lease_epoch", &samples[i],
				  outbox->partition_leases[k].owner,
				  outbox->partition_leases[k].epoch);
		if (samples[i].known && !outbox->n_partition_leases &&
		    outbox->holder.epoch)
			put_owned(out, "wherry_lease_epoch", &samples[i],
				  outbox->holder.owner, outbox->holder.epoch);
	}
	wh_metrics_head(
		out, "wherry_lease_partitions", "gauge",
		"How many of an outbox's 64 partitions a relay has, where several share it.");
	for (size_t i = 0; i < n; i++)
		for (int k = 0;
		     samples[i].known && k < samples[i].outbox.n_partition_leases; k++)
			put_owned(out, "wherry_lease_partitions", &samples[i],
				  samples[i].outbox.partition_leases[k].owner,
				  samples[i].outbox.partition_leases[k].n);
	wh_metrics_head(out, "wherry_lease_left_seconds", "gauge",
			"How long the outbox's lease lasts yet; 0: nobody has it.");
	for (size_t i = 0; i < n; i++)
		if (samples[i].known && samples[i].outbox.holder.epoch)
			wh_buf_printf(out,
				      "wherry_lease_left_seconds{relay=\"%s\"} %.15g\n",
				      samples[i].name,
				      seconds(samples[i].outbox.holder.left_us));
}

/* Bytes of memory that the process uses; 0: unknown. */
static int64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	char line[200] = "";
	int64_t pages = 0;
	size_t n;

	if (!file)
		return 0;
	if (!fgets(line, sizeof(line), file))
		line[0] = 0;
	(void)fclose(file);
	n = strcspn(line, " ");
	if (line[n])
		line[n + 1 + strcspn(line + n + 1, " ")] = 0; /* The second number. */
	if (!line[n] || !wh_parse_int(line + n + 1, &pages))
		return 0;
	return pages * sysconf(_SC_PAGESIZE);
}

static void put_process(wh_buf *out, const wh_daemon *d)
{
	wh_metrics_head(out, "process_resident_memory_bytes", "gauge",
			"Memory of this process.");
	wh_buf_printf(out, "process_resident_memory_bytes %" PRId64 "\n",
		      resident_bytes());
	wh_metrics_head(out, "wherry_uptime_seconds", "gauge",
			"Since this process began.");
	wh_buf_printf(out, "wherry_uptime_seconds %.15g\n",
		      seconds(wh_monotonic(&wh_env_system) - d->began_us));
	wh_metrics_head(out, "wherry_build_info", "gauge", "Its version.");
	wh_buf_printf(out, "wherry_build_info{version=\"%s\"} 1\n", wherry_version());
}

/* The sums of the relays of a pattern. */
static void take_match(sample *s, wh_matches *m)
{
	wh_matches_view view;

	wh_matches_look(m, &view);
	(void)snprintf(s->name, sizeof(s->name), "%s", wh_matches_plan(m)->name);
	s->view = view.sum;
}

void wh_metrics_write(wh_daemon *d, wh_backlogs *b, wh_buf *out)
{
	sample *samples;
	size_t n;

	wh_backlogs_refresh(b);
	(void)pthread_mutex_lock(&d->lock);
	n = d->n + d->n_matches;
	samples = calloc(n ? n : 1, sizeof(*samples));
	for (size_t i = 0; samples && i < n; i++) {
		sample *s = &samples[i];

		if (i >= d->n) {
			take_match(s, d->matches[i - d->n]);
			continue;
		}
		(void)snprintf(s->name, sizeof(s->name), "%s",
			       wh_pipeline_plan(d->pipelines[i])->name);
		wh_pipeline_look(d->pipelines[i], &s->view);
		s->known = wh_backlogs_get(b, s->name, &s->outbox);
	}
	(void)pthread_mutex_unlock(&d->lock);
	if (!samples)
		return;
	put_others(out, samples, n);
	put_families(out, samples, n);
	put_states(out, samples, n);
	put_leases(out, samples, n);
	put_errors(out, samples, n);
	put_latency(out, samples, n);
	put_numbers(out, samples, n);
	(void)pthread_mutex_lock(&d->lock);
	wh_matches_measure(d, out);
	wh_tickers_measure(d, out);
	(void)pthread_mutex_unlock(&d->lock);
	put_process(out, d);
	free(samples);
}
