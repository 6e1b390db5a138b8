#include "cli/cli.h"

#include <pthread.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/env.h"

enum { BAR = 24, REDRAW_US = 100000 };

/* A relay logs on several threads while the main thread draws. */
static pthread_mutex_t terminal = PTHREAD_MUTEX_INITIALIZER;

void wh_progress_begin(wh_progress *p, const char *what, int64_t total)
{
	*p = (wh_progress){.what = what, .total = total};
	p->drawn_us = wh_monotonic(&wh_env_system);
	p->on = isatty(STDERR_FILENO);
}

static void draw_bar(const wh_progress *p, int64_t done)
{
	char bar[BAR + 1];
	int64_t full = p->total < done ? done : p->total;
	int filled = (int)((double)done / (double)full * BAR);

	for (int i = 0; i < BAR; i++)
		bar[i] = i < filled ? '#' : '.';
	bar[BAR] = 0;
	(void)fprintf(stderr, "[%s] %3d%%  ", bar,
		      (int)((double)done / (double)full * 100));
}

void wh_progress_show(wh_progress *p, int64_t done, const char *fmt, ...)
{
	int64_t now;
	va_list args;

	if (!p->on)
		return;
	now = wh_monotonic(&wh_env_system);
	if (now - p->drawn_us < REDRAW_US)
		return;
	p->drawn_us = now;
	(void)pthread_mutex_lock(&terminal);
	p->shown = true;
	(void)fprintf(stderr, "\r\033[K%s ", p->what);
	if (p->total > 0)
		draw_bar(p, done);
	va_start(args, fmt);
	(void)vfprintf(stderr, fmt, args);
	va_end(args);
	(void)fflush(stderr);
	(void)pthread_mutex_unlock(&terminal);
}

static void wipe(const wh_progress *p)
{
	if (p->shown)
		(void)fputs("\r\033[K", stderr);
}

void wh_progress_say(const wh_progress *p, const char *line)
{
	(void)pthread_mutex_lock(&terminal);
	wipe(p);
	(void)fputs(line, stderr);
	(void)pthread_mutex_unlock(&terminal);
}

void wh_progress_end(wh_progress *p)
{
	(void)pthread_mutex_lock(&terminal);
	wipe(p);
	p->on = p->shown = false;
	(void)pthread_mutex_unlock(&terminal);
}
