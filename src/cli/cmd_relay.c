#include "cli/commands.h"
#include "cli/target.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/url.h"
#include "config/settings.h"
#include "db/driver.h"
#include "publish/driver.h"
#include "publish/parts.h"
#include "relay/source.h"

enum { LOG_LINE_MAX = 64 * 1024 };

typedef struct relaying {
	wherry_relay *relay;
	wh_progress progress;
	bool quiet;
	bool to_stdout;
	atomic_bool reader_gone; /* Standard output is a pipe that its reader closed. */
	int64_t began_us;
} relaying;

/* ---- signals ---- */

/* Used by the handlers of signals, which have no argument for it. */
static wherry_relay *running;
static volatile sig_atomic_t n_signals;
static int64_t first_signal_us;

enum { ONE_SIGNAL_US = 100000 }; /* Longest time between copies of one signal. */

/* A second signal ends the program at once, but only after a moment: many process managers
 * send one signal both to the process and to its group, and mean one. */
static void on_signal(int number)
{
	(void)number;
	if (!n_signals) {
		n_signals = 1;
		first_signal_us = wh_monotonic(&wh_env_system);
		wherry_relay_stop(running);
	} else if (wh_monotonic(&wh_env_system) - first_signal_us > ONE_SIGNAL_US) {
		_exit(WH_EXIT_SIGNALLED);
	}
}

static void catch_signals(wherry_relay *relay)
{
	struct sigaction action = {.sa_handler = on_signal};

	running = relay;
	(void)sigemptyset(&action.sa_mask);
	/* So that no second signal interrupts the handler. */
	(void)sigaddset(&action.sa_mask, SIGINT);
	(void)sigaddset(&action.sa_mask, SIGTERM);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
}

/* Stop the relay if the reader of standard output has closed the pipe: it does not come
 * back, unlike other destinations that are down. */
static void check_reader(relaying *r)
{
	struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

	if (!r->to_stdout || poll(&out, 1, 0) < 1 || !(out.revents & POLLERR))
		return;
	r->reader_gone = true;
	wherry_relay_stop(r->relay);
}

/* ---- the log: one event a line, key=value ---- */

static void log_record(void *ctx, const wherry_log_record *record)
{
	wh_buf line = WH_BUF_INIT(LOG_LINE_MAX);
	relaying *r = ctx;
	char time[WH_TIME_LEN];

	if (record->level <= WHERRY_LOG_WARN)
		check_reader(r);
	wh_time_print(wh_now(&wh_env_system), time);
	wh_put_log_line(&line, &(wh_log_head){.time = time}, record);
	wh_progress_say(&r->progress, wh_buf_str(&line));
	wh_buf_clear(&line);
}

/* ---- how it went ---- */

static void print_summary(const relaying *r)
{
	double seconds = (double)(wh_monotonic(&wh_env_system) - r->began_us) / 1e6;
	wherry_relay_stats stats;
	char refused[48] = "";

	wherry_relay_get_stats(r->relay, &stats, sizeof(wherry_relay_stats));
	if (r->quiet)
		return;
	if (stats.refused)
		(void)snprintf(refused, sizeof(refused), ", %" PRId64 " refused",
			       stats.refused);
	(void)fprintf(stderr,
		      "%" PRId64 " delivered, %" PRId64 " retried%s, %" PRId64
		      " dead in %.2fs (%.0f/s)\n",
		      stats.delivered, stats.retried, refused, stats.dead, seconds,
		      (double)stats.delivered / (seconds > 0.001 ? seconds : 0.001));
}

/* Report what is left to do if the outcome is not a success. */
static wh_exit conclude(const relaying *r, const wh_args *args, wherry_outcome outcome)
{
	const char *target = args->target;

	print_summary(r);
	if (r->reader_gone)
		return WH_EXIT_FAILED;
	switch (outcome) {
	case WHERRY_STOPPED:
	case WHERRY_EMPTY:
		break;
	case WHERRY_DEATHS:
		if (!r->quiet && !wh_relay_lists(r->relay))
			(void)fprintf(stderr,
				      "messages died: the table wherry_dead has them, "
				      "with the reason of each\n");
		else if (!r->quiet)
			(void)fprintf(stderr,
				      "messages died: `wherry list%s --state dead`\n",
				      target);
		return WH_EXIT_DEATHS;
	case WHERRY_PARKED:
		if (!r->quiet)
			(void)fprintf(
				stderr,
				"what is left waits behind dead messages of its key: "
				"`wherry list%s --state dead` shows them; remove the cause, "
				"then `wherry retry%s --all`\n",
				target, target);
		return WH_EXIT_PARKED;
	case WHERRY_TIMEDOUT:
		if (!r->quiet)
			(void)fprintf(stderr,
				      "--timeout passed and messages are left: `wherry "
				      "status%s`\n",
				      target);
		return WH_EXIT_TIMEDOUT;
	}
	return WH_EXIT_DONE;
}

/* ---- running ---- */

/* The number of open messages, which is the length of the bar; 0: unknown, draw no
 * bar. */
static int64_t count_open(const wh_args *args)
{
	wherry_config *config = NULL;
	wh_source source = {.store = NULL};
	wherry_db *db = NULL;
	char *url = NULL;
	wh_backlog waits = {.pending = 0};
	wherry_code code = wh_config_copy(args->config, &config, NULL);

	if (code == WHERRY_OK)
		code = wh_source_take_url(wh_operand(args, 0), config, &url, NULL);
	if (code == WHERRY_OK)
		code = wh_db_open_own(url, config, &db, NULL);
	if (code == WHERRY_OK)
		code = wh_source_open_set(db, config, &source, NULL);
	if (code == WHERRY_OK)
		code = wh_source_backlog(&source, &waits, NULL);
	wh_source_close(&source);
	wherry_db_close(db);
	wherry_config_free(config);
	free(url);
	return code == WHERRY_OK ? waits.pending + waits.processing + waits.failed : 0;
}

/* Begin a bar if standard error is a terminal, and if no messages are printed to the
 * terminal. */
static void begin_progress(relaying *r, const wh_args *args)
{
	bool to_screen = r->to_stdout && isatty(STDOUT_FILENO);
	bool bounded = wh_arg_on(args, "until-empty");

	if (r->quiet || to_screen || !isatty(STDERR_FILENO))
		return;
	wh_progress_begin(&r->progress, "relay", bounded ? count_open(args) : 0);
	r->progress.on = r->progress.on && (!bounded || r->progress.total > 0);
}

static void show_progress(relaying *r)
{
	wherry_relay_stats stats;

	wherry_relay_get_stats(r->relay, &stats, sizeof(wherry_relay_stats));
	wh_progress_show(&r->progress, stats.delivered + stats.dead,
			 "%" PRId64 " delivered, %" PRId64 " retried, %" PRId64 " dead%s",
			 stats.delivered, stats.retried, stats.dead,
			 stats.down ? ", the destination is down" : "");
}

/* Like wherry_relay_run(), but draw a bar a few times a second. */
static wherry_code run_watched(relaying *r, unsigned flags, wherry_outcome *out_outcome,
			       wherry_error *err)
{
	enum { DRAW_US = 200000 };
	bool finished = false;

	wherry_relay_target(r->relay, flags);
	while (!finished) {
		int64_t wake_us = 0, draw_us;
		wherry_code code = wherry_relay_step(r->relay, &wake_us, &finished, err);

		if (code != WHERRY_OK)
			return code;
		show_progress(r);
		draw_us = wherry_relay_clock(r->relay) + DRAW_US;
		if (!finished)
			wherry_relay_wait(r->relay,
					  wake_us < draw_us ? wake_us : draw_us);
	}
	*out_outcome = wherry_relay_outcome(r->relay);
	return WHERRY_OK;
}

static void announce(relaying *r, const wh_args *args)
{
	wh_env env = {.log = log_record, .log_ctx = r};
	char from[200], to[200];

	wh_url_show(wh_operand(args, 0), from, sizeof(from));
	wh_url_show(wh_operand(args, 1), to, sizeof(to));
	if (wh_config_choice(args->config, WH_LOG_LEVEL) >= WHERRY_LOG_INFO)
		wh_log(&env, WHERRY_LOG_INFO, "relay", "start", wh_log_text("from", from),
		       wh_log_text("table", wh_config_text(args->config, WH_RELAY_TABLE)),
		       wh_log_text("to", to));
}

static void warn_lines(relaying *r, const char *event, wh_buf *text)
{
	wh_env env = {.log = log_record, .log_ctx = r};

	for (const char *line = wh_buf_str(text); *line; line += strcspn(line, "\n") + 1)
		wh_log(&env, WHERRY_LOG_WARN, "relay", event,
		       wh_log_bytes("why", line, strcspn(line, "\n")));
	wh_buf_clear(text);
}

static void warn(relaying *r, const wh_args *args)
{
	wh_buf text = WH_BUF_INIT(LOG_LINE_MAX);

	if (wh_config_choice(args->config, WH_LOG_LEVEL) < WHERRY_LOG_WARN)
		return;
	wh_publisher_warn(wh_operand(args, 1), args->config, &text);
	wh_publisher_warn(wh_config_text(args->config, WH_RELAY_DEAD_LETTERS),
			  args->config, &text);
	warn_lines(r, "insecure", &text);
	wh_publisher_warn_settings(args->config, &text);
	warn_lines(r, "setting-ignored", &text);
}

/* Open the relay.  While the server starts, or recovers from a crash, wait for it. */
static wherry_code open_relay(relaying *r, const wh_args *args, wherry_error *err)
{
	wh_env env = {.log = log_record, .log_ctx = r};
	int64_t begun_us = wh_monotonic(&wh_env_system);
	int64_t most_us = wh_config_int(args->config, WH_RELAY_TIMEOUT);
	wherry_code code;

	for (int failures = 0;; failures++) {
		code = wherry_relay_open(wh_operand(args, 0), wh_operand(args, 1),
					 args->config, &r->relay, err);
		if (code == WHERRY_OK && failures)
			wh_log(&env, WHERRY_LOG_INFO, "relay", "database-works",
			       wh_log_int("failures", failures));
		if (code == WHERRY_OK || strcmp(err->sqlstate, "57P03") != 0 ||
		    (most_us && wh_monotonic(&wh_env_system) - begun_us >= most_us))
			return code;
		if (failures % 10 == 0)
			wh_log(&env, WHERRY_LOG_WARN, "relay", "database-trouble",
			       wh_log_text("code", wherry_code_name(code)),
			       wh_log_int("failures", failures + 1),
			       wh_log_text("why", err->message));
		wh_sleep(&wh_env_system, WH_SECOND);
	}
}

/* Something was not found, perhaps the table: say which there are. */
static wh_exit missing(const wh_args *args, const wherry_error *err)
{
	const char *table = args->table.table;
	wherry_db *db = NULL;
	wh_source source = {.store = NULL};
	bool lost, told = false;
	wh_exit status = WH_EXIT_FAILED;

	if (wh_db_open_own(wh_operand(args, 0), args->config, &db, NULL) != WHERRY_OK)
		return wh_report(err);
	lost = wh_source_open_set(db, args->config, &source, NULL) == WHERRY_NOTFOUND;
	told = lost && !*args->table.queue && wh_tell_other(db, args, table, &status);
	if (!told)
		(void)wh_report(err);
	wh_source_close(&source);
	wherry_db_close(db);
	return status;
}

static wh_exit relay(relaying *r, const wh_args *args)
{
	unsigned flags = wh_arg_on(args, "until-empty") ? WHERRY_UNTIL_EMPTY : 0;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outcome outcome = WHERRY_STOPPED;
	wherry_code code;

	if (*args->table.table && !*args->table.queue)
		wh_report_kinds(WHERRY_KIND_OUTBOX | WHERRY_KIND_QUEUE);
	begin_progress(r, args);
	code = open_relay(r, args, &err);
	/* A scheme or a setting that cannot be is the command line's fault. */
	if (code == WHERRY_INVALID)
		return wh_call_failed(args, code, &err);
	if (code == WHERRY_NOTFOUND && *args->table.table)
		return missing(args, &err);
	if (code != WHERRY_OK)
		return wh_report(&err);
	wherry_relay_log(r->relay, log_record, r);
	catch_signals(r->relay);
	announce(r, args);
	warn(r, args);
	if (r->progress.on)
		code = run_watched(r, flags, &outcome, &err);
	else
		code = wherry_relay_run(r->relay, flags, &outcome, &err);
	wh_progress_end(&r->progress);
	if (code != WHERRY_OK) {
		print_summary(r);
		return wh_report(&err);
	}
	return conclude(r, args, outcome);
}

/* ---- the command ---- */

static wh_exit run(wh_args *args)
{
	bool quiet = wh_arg_on(args, "quiet"), verbose = wh_arg_on(args, "verbose");
	relaying r = {.quiet = quiet};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status;

	if (quiet && verbose)
		return wh_usage(args->command,
				"--quiet and --verbose contradict each other");
	if (wh_arg(args, "timeout") && !wh_arg_on(args, "until-empty"))
		return wh_usage(args->command,
				"--timeout bounds --until-empty: give both");
	if ((quiet || verbose) &&
	    wherry_config_set(args->config, "log.level", quiet ? "error" : "debug",
			      &err) != WHERRY_OK)
		return wh_report(&err);
	r.to_stdout = strncmp(wh_operand(args, 1), "stdout:", 7) == 0;
	r.began_us = wh_monotonic(&wh_env_system);
	status = relay(&r, args);
	/* The relay has ended: signals must not stop it any more. */
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGTERM, SIG_DFL);
	wherry_relay_close(r.relay);
	return status;
}

static const wh_option options[] = {
	{"until-empty", NULL,
	 "End when what was there at the start is delivered or dead.", NULL, 0},
	{"timeout", "D", NULL, "relay.timeout", 0},
	{"ordering", "O", NULL, "relay.ordering", 0},
	{"on-dead", "M", NULL, "relay.on_dead", 0},
	{"dead-letters", "URL", NULL, "relay.dead_letters", 0},
	{"from", "WHERE", NULL, "stream.from", 0},
	{"batch", "N", NULL, "relay.batch", 0},
	{"lease", "D", NULL, "relay.lease", 0},
	{"name", "NAME", NULL, "relay.name", 0},
	{"quiet", NULL, "Say nothing but errors.", NULL, 0},
	{"verbose", NULL, "Say all there is to say.", NULL, 0},
	{0},
};

const wh_command wh_cmd_relay = {
	.name = "relay",
	.operands = "FROM TO",
	.synopsis =
		"FROM TO [--until-empty] [--timeout D] "
		"[--ordering O] [--on-dead M] [--dead-letters URL] [--from WHERE] [--batch N] [--lease D] [--name NAME] "
		"[--quiet|--verbose]",
	.brief = "Deliver messages from an outbox to a destination",
	.help = "FROM is the outbox of a database, such as sqlite:shop.db, or an outbox or queue "
		"by its name, such as sqlite:shop.db#jobs, or a delayed queue, such as "
		"sqlite:shop.db#delayed/mail. TO is stdout:, file:PATH, "
		"https://HOST/PATH, kafka://HOST:PORT, amqp://HOST/VHOST, nats://HOST, redis://HOST, exec:COMMAND, memory: or null:, or a queue, "
		"such as sqlite:PATH#NAME or postgres://HOST/DB#NAME. It runs until SIGTERM or SIGINT, "
		"finishes what is in flight, and ends; a second signal ends it at "
		"once. One relay works, others on the same outbox or subscription stand by, unless it "
		"was made for relays that share it (create --partitions). The log goes to standard error, one "
		"event a line.\n"
		"\n"
		"With --until-empty the exit status tells how it ended: 0 empty, 3 "
		"messages died, 4 only parked ones are left, 5 timed out.\n"
		"\n"
		"Examples:\n"
		"  wherry relay sqlite:shop.db stdout: --until-empty\n"
		"  wherry relay sqlite:shop.db file:/var/log/orders.ndjson\n"
		"  wherry relay sqlite:shop.db https://example.com/hook \\\n"
		"    --set webhook.secret=env:HOOK_SECRET\n"
		"  wherry relay sqlite:shop.db 'exec:curl -f --data-binary @- $HOOK' \\\n"
		"    --set exec.jobs=16 --on-dead park\n"
		"  wherry relay sqlite:shop.db#outbox/audit file:audit.ndjson\n",
	.options = options,
	.run = run,
};
