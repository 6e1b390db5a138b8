#include "cli/commands.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/env.h"
#include "cli/listed.h"
#include "cli/status.h"
#include "publish/parts.h"

enum { TABLE, KIND, MESSAGES, CHANGE, READY, OLDEST, DEAD, DELIVERED, RELAY, COLUMNS };
enum {
	REPORT_US = 15 * 1000000, /* A relay that delivers reports more often. */
	AROUND = 5                /* Lines of a screen that are not a table. */
};

static wh_paint paint_dead(const char *n)
{
	return strcmp(n, "0") == 0 || !*n ? WH_PLAIN : WH_DANGER;
}

static wh_paint paint_change(const char *n)
{
	return *n == '+' ? WH_CARE : WH_PLAIN;
}

static const wh_table_column columns[COLUMNS] = {
	[TABLE] = {"TABLE", 40, false, NULL},
	[KIND] = {"KIND", 0, false, NULL},
	[MESSAGES] = {"MESSAGES", 0, true, NULL},
	[CHANGE] = {"CHANGE/S", 0, true, paint_change},
	[READY] = {"READY", 0, true, NULL},
	[OLDEST] = {"OLDEST", 0, true, NULL},
	[DEAD] = {"DEAD", 0, true, paint_dead},
	[DELIVERED] = {"DELIVERED/S", 0, true, NULL},
	[RELAY] = {"RELAY", 0, false, NULL},
};

/* A table as it was when it was last looked at, and its rates since then. */
typedef struct watched {
	char *name; /* Owned. */
	wh_listed now;
	int64_t at_us;
	double change;       /* Messages per second; NAN: not known. */
	double delivered;    /* The same of the relay's deliveries. */
	int64_t reported_us; /* When the relay's report was first seen as it is. */
	int64_t look;        /* In which look the table was there. */
} watched;

typedef struct screen {
	watched *tables;
	size_t n, room;
	int64_t look, now_us;
	bool full; /* Out of memory. */
} screen;

static volatile sig_atomic_t ended;

/* ---- a look at all tables ---- */

static watched *find(screen *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->tables[i].name, name) == 0)
			return &s->tables[i];
	return NULL;
}

static watched *add(screen *s, const wh_listed *t)
{
	watched *w;
	char *name = strdup(t->name);

	if (name && s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 16;
		watched *more = reallocarray(s->tables, room, sizeof(*more));

		if (more) {
			s->tables = more;
			s->room = room;
		}
	}
	if (!name || s->n == s->room) {
		free(name);
		s->full = true;
		return NULL;
	}
	w = &s->tables[s->n++];
	*w = (watched){.name = name, .change = NAN, .delivered = NAN, .now = *t};
	w->at_us = w->reported_us = s->now_us;
	return w;
}

static double rate(int64_t n, int64_t us)
{
	return us > 0 ? (double)n * WH_SECOND / (double)us : NAN;
}

/* A relay reports every few seconds how much it has delivered: the rate is that between two reports. */
static void set_delivered(watched *w, const wh_listed *t, int64_t now_us)
{
	bool same = t->epoch == w->now.epoch && t->delivered >= w->now.delivered;

	if (!*t->relay || w->now.delivered < 0 || !same) {
		w->delivered = NAN;
		w->reported_us = now_us;
	} else if (t->delivered > w->now.delivered) {
		w->delivered =
			rate(t->delivered - w->now.delivered, now_us - w->reported_us);
		w->reported_us = now_us;
	} else if (now_us - w->reported_us > REPORT_US) {
		w->delivered = 0;
	}
}

static void take(void *ctx, const wh_listed *t)
{
	screen *s = ctx;
	watched *w = find(s, t->name);

	if (w) {
		if (t->messages >= 0 && w->now.messages >= 0)
			w->change =
				rate(t->messages - w->now.messages, s->now_us - w->at_us);
		set_delivered(w, t, s->now_us);
	} else {
		w = add(s, t);
		if (!w)
			return;
	}
	w->now = *t;
	w->now.name = w->name;
	w->at_us = s->now_us;
	w->look = s->look;
}

static void forget_dropped(screen *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->tables[i].look == s->look)
			s->tables[kept++] = s->tables[i];
		else
			free(s->tables[i].name);
	s->n = kept;
}

/* The table with most messages first. */
static int compare(const void *a, const void *b)
{
	const watched *x = a, *y = b;

	if (x->now.messages != y->now.messages)
		return x->now.messages < y->now.messages ? 1 : -1;
	return strcmp(x->name, y->name);
}

static wh_exit look(screen *s, wh_session *at)
{
	wh_exit status;

	s->look++;
	s->now_us = wh_monotonic(&wh_env_system);
	status = wh_list_tables(at->db, take, s);
	if (status != WH_EXIT_DONE)
		return status;
	if (s->full)
		return wh_complain(NULL, "out of memory");
	forget_dropped(s);
	if (s->n)
		qsort(s->tables, s->n, sizeof(*s->tables), compare);
	return WH_EXIT_DONE;
}

/* ---- printing ---- */

static void rate_text(double r, bool sign, char *out, size_t cap)
{
	double size = fabs(r);

	if (isnan(r))
		*out = 0;
	else if (size < 0.05)
		(void)snprintf(out, cap, "0");
	else
		(void)snprintf(out, cap, sign ? "%+.*f" : "%.*f", size < 10 ? 1 : 0, r);
}

static void count_text(int64_t n, char *out, size_t cap)
{
	*out = 0;
	if (n >= 0)
		(void)snprintf(out, cap, "%" PRId64, n);
}

static void print_row(wh_table *to, const watched *w)
{
	enum { LEN = 32 };
	char numbers[3][LEN], change[LEN], delivered[LEN], oldest[WH_SPAN_LEN] = "";
	const wh_listed *t = &w->now;

	count_text(t->messages, numbers[0], LEN);
	count_text(t->ready, numbers[1], LEN);
	count_text(t->dead, numbers[2], LEN);
	rate_text(w->change, true, change, LEN);
	rate_text(w->delivered, false, delivered, LEN);
	if (t->oldest_ready_us > 0)
		(void)wh_span_text(t->oldest_ready_us, oldest);
	wh_table_add(to, (const char *[COLUMNS]){
				 [TABLE] = t->name,
				 [KIND] = t->kind,
				 [MESSAGES] = numbers[0],
				 [CHANGE] = change,
				 [READY] = numbers[1],
				 [OLDEST] = oldest,
				 [DEAD] = numbers[2],
				 [DELIVERED] = delivered,
				 [RELAY] = t->paused ? "paused" : t->relay,
			 });
}

/* Rows of a screen that tables have; 0: no limit. */
static size_t rows_of_screen(void)
{
	struct winsize size;

	if (!wh_terminal_width(STDOUT_FILENO))
		return 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row <= AROUND)
		return 20;
	return size.ws_row - AROUND;
}

static void print_head(const screen *s, const char *url)
{
	int64_t messages = 0, dead = 0;
	char time[WH_TIME_LEN];

	for (size_t i = 0; i < s->n; i++) {
		const wh_listed *t = &s->tables[i].now;
		bool counts =
			strcmp(t->kind, "inbox") != 0 && strcmp(t->kind, "cron") != 0;

		messages += counts && t->messages > 0 ? t->messages : 0;
		dead += t->dead > 0 ? t->dead : 0;
	}
	wh_time_print(wh_now(&wh_env_system), time);
	(void)printf("%s  %s\n%zu table%s, %" PRId64
		     " message%s not delivered, %s%" PRId64 " dead%s\n\n",
		     url, time, s->n, wh_plural((int64_t)s->n), messages,
		     wh_plural(messages), dead ? wh_painted(WH_DANGER) : "", dead,
		     dead ? wh_painted(WH_PLAIN) : "");
}

static void print_screen(const screen *s, const char *url)
{
	size_t most = rows_of_screen(), n = most && most < s->n ? most : s->n;
	wh_table to;

	print_head(s, url);
	wh_table_begin(&to, columns, COLUMNS);
	for (size_t i = 0; i < n; i++)
		print_row(&to, &s->tables[i]);
	wh_table_end(&to);
	if (n < s->n)
		(void)printf("and %zu more\n", s->n - n);
	if (!most)
		(void)putchar('\n');
}

static void put_rate(wh_buf *line, const char *name, double r)
{
	if (isnan(r))
		wh_buf_printf(line, ",\"%s\":null", name);
	else
		wh_buf_printf(line, ",\"%s\":%.3f", name, r);
}

static void put_count(wh_buf *line, const char *name, int64_t n)
{
	if (n < 0)
		wh_buf_printf(line, ",\"%s\":null", name);
	else
		wh_put_number_field(line, name, n);
}

static void print_json(const screen *s)
{
	char time[WH_TIME_LEN];

	wh_time_print(wh_now(&wh_env_system), time);
	for (size_t i = 0; i < s->n; i++) {
		const watched *w = &s->tables[i];
		wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

		wh_buf_puts(&line, "{\"table\":");
		wh_buf_json(&line, w->name, strlen(w->name));
		wh_put_text_field(&line, "at", time);
		wh_put_text_field(&line, "kind", w->now.kind);
		put_count(&line, "messages", w->now.messages);
		put_rate(&line, "change_per_s", w->change);
		put_count(&line, "ready", w->now.ready);
		put_count(&line, "oldest_ready_us", w->now.oldest_ready_us);
		put_count(&line, "dead", w->now.dead);
		put_rate(&line, "delivered_per_s", w->delivered);
		wh_buf_printf(&line, ",\"paused\":%s", w->now.paused ? "true" : "false");
		wh_put_text_field(&line, "relay", *w->now.relay ? w->now.relay : NULL);
		wh_buf_putc(&line, '}');
		wh_print_buf(&line, "\n");
		wh_buf_clear(&line);
	}
}

/* ---- the terminal ---- */

static void on_signal(int number)
{
	(void)number;
	ended = 1;
}

/* Read keys as they are pressed.  False: standard input is not a terminal. */
static bool begin_keys(struct termios *was)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct termios keys;

	(void)sigemptyset(&action.sa_mask);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	if (!wh_terminal_width(STDOUT_FILENO) || !isatty(STDIN_FILENO) ||
	    tcgetattr(STDIN_FILENO, was) != 0)
		return false;
	keys = *was;
	keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	return tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
}

/* Wait for the next look.  A changed size of the terminal ends the wait, q everything. */
static void wait_for_next(bool keys, int64_t every_us)
{
	struct pollfd in = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
	int64_t ms = every_us / 1000;
	char key;

	if (ended || poll(&in, 1, (int)(ms < INT32_MAX ? ms : INT32_MAX)) < 1)
		return;
	if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q')
		ended = 1;
}

/* A database that cannot be reached may come back: then it is opened again. */
static void look_on(const wh_args *args, wh_session *at, bool keys, int64_t every_us)
{
	bool terminal = wh_terminal_width(STDOUT_FILENO) > 0, open = true;
	screen s = {.n = 0};

	while (!ended && !ferror(stdout)) {
		wh_exit status;

		if (!open)
			open = wh_session_connect(at, args) == WH_EXIT_DONE;
		status = open ? look(&s, at) : WH_EXIT_FAILED;
		if (status != WH_EXIT_DONE && open) {
			wh_session_close(at);
			open = false;
		}
		if (open && terminal)
			(void)fputs("\033[H\033[2J", stdout);
		if (open && wh_arg_on(args, "json"))
			print_json(&s);
		else if (open)
			print_screen(&s, at->url);
		if (fflush(stdout) == 0)
			wait_for_next(keys, every_us);
	}
	if (open)
		wh_session_close(at);
	for (size_t i = 0; i < s.n; i++)
		free(s.tables[i].name);
	free(s.tables);
}

static wh_exit run(wh_args *args)
{
	int64_t every_us = 2 * WH_SECOND;
	struct termios was;
	wh_session at;
	wh_exit status;
	bool keys;

	if (!wh_arg_duration(args, "every", &every_us))
		return WH_EXIT_USAGE;
	status = wh_session_connect(&at, args);
	if (status != WH_EXIT_DONE)
		return status;
	keys = begin_keys(&was);
	look_on(args, &at, keys, every_us);
	if (keys)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &was);
	return WH_EXIT_DONE;
}

static const wh_option options[] = {
	{"every", "D", "How often. (default: 2s)", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_top = {
	.name = "top",
	.operands = "URL",
	.synopsis = "URL [--every D] [--json]",
	.brief = "Watch all tables of a database, with their rates",
	.help = "The table with most messages that are not delivered is first. CHANGE/S is how "
		"fast they become more or fewer, READY how many could be delivered now, OLDEST "
		"the age of the first of these, DELIVERED/S the rate of the outbox's relay, "
		"which reports it every few seconds. Of an inbox the ids are counted.\n"
		"\n"
		"On a terminal q ends it. In a pipe each look is printed below the last one. "
		"With --json each table is one object on a line.\n"
		"\n"
		"Examples:\n"
		"  wherry top sqlite:shop.db\n"
		"  wherry top postgres://shop@db/shop --every 10s\n",
	.options = options,
	.plain = true,
	.run = run,
};
