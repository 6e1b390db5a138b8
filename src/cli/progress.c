#include "cli/cli.h"

#include <stdarg.h>
#include <unistd.h>

#include "base/env.h"

enum { BAR = 24, REDRAW_US = 100000 };

void wh_progress_begin(wh_progress *p, const char *what, int64_t total)
{
	*p = (wh_progress){.what = what, .total = total};
	p->began_us = wh_monotonic(&wh_env_system);
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
	if (now - (p->shown ? p->drawn_us : p->began_us) < REDRAW_US)
		return;
	p->drawn_us = now;
	p->shown = true;
	(void)fprintf(stderr, "\r\033[K%s ", p->what);
	if (p->total > 0)
		draw_bar(p, done);
	va_start(args, fmt);
	(void)vfprintf(stderr, fmt, args);
	va_end(args);
	(void)fflush(stderr);
}

void wh_progress_wipe(const wh_progress *p)
{
	if (p->shown)
		(void)fputs("\r\033[K", stderr);
}

void wh_progress_end(wh_progress *p)
{
	wh_progress_wipe(p);
	p->on = p->shown = false;
}
