/*
 * The table and the chart of --growth: one panel for each thing that grows, one line for each
 * database.
 */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>

enum {
	PANEL_WIDTH = 420,
	PANEL_HEIGHT = 260,
	LEFT = 70,
	TOP = 50,
	RIGHT = 20,
	BOTTOM = 50
};

static const char *const names[BENCH_AXES] = {"backlog", "delivered rows beside",
					      "held keys", "idle relays"};

static const char *const databases[] = {"SQLite", "PostgreSQL"}, *const colours[] = {
									 "#26a", "#c63"};

/* Statements count where nothing is delivered. */
static double shown(const bench_point *p)
{
	return p->axis == BENCH_RELAYS ? p->statements : p->rate;
}

void bench_print_point(const bench_point *p, FILE *to)
{
	char rate[32], value[32];

	if (!p) {
		(void)fprintf(to, "%-10s  %-21s  %10s  %10s  %8s  %s\n", "database",
			      "over", "value", "messages/s", "MB",
			      "statements for 1,000 messages, or for 10 s of a relay");
		return;
	}
	bench_format(p->rate, 0, rate, sizeof(rate));
	bench_format((double)p->value, 0, value, sizeof(value));
	(void)fprintf(to, "%-10s  %-21s  %10s  %10s  %8.1f  %.1f\n",
		      databases[p->postgres], names[p->axis], value,
		      p->axis == BENCH_RELAYS ? "-" : rate, p->memory_mb, p->statements);
}

/* ---- the chart ---- */

static double highest(const bench_points *points, bench_axis axis)
{
	double most = 0;

	for (int i = 0; i < points->n; i++)
		if (points->all[i].axis == axis && shown(&points->all[i]) > most)
			most = shown(&points->all[i]);
	return most > 0 ? most : 1;
}

static void draw_line(FILE *to, const bench_points *points, bench_axis axis,
		      bool postgres, double most)
{
	int nth = 0;

	(void)fprintf(to, "<polyline fill=\"none\" stroke=\"%s\" points=\"",
		      colours[postgres]);
	for (int i = 0; i < points->n; i++) {
		const bench_point *p = &points->all[i];

		if (p->axis != axis || p->postgres != postgres)
			continue;
		(void)fprintf(to, "%d,%.1f ",
			      LEFT + nth++ * (PANEL_WIDTH - LEFT - RIGHT) /
					      (BENCH_STEPS - 1),
			      PANEL_HEIGHT - BOTTOM -
				      shown(p) / most * (PANEL_HEIGHT - TOP - BOTTOM));
	}
	(void)fprintf(to, "\"/>\n");
}

static void draw_values(FILE *to, const bench_points *points, bench_axis axis)
{
	char value[32];
	int nth = 0;

	for (int i = 0; i < points->n; i++) {
		const bench_point *p = &points->all[i];

		if (p->axis != axis || !p->postgres)
			continue;
		bench_format((double)p->value, 0, value, sizeof(value));
		(void)fprintf(
			to, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>",
			LEFT + nth++ * (PANEL_WIDTH - LEFT - RIGHT) / (BENCH_STEPS - 1),
			PANEL_HEIGHT - BOTTOM + 16, value);
	}
}

static void draw_panel(FILE *to, const bench_points *points, bench_axis axis)
{
	double most = highest(points, axis);
	char top[32];

	bench_format(most, axis == BENCH_RELAYS ? 1 : 0, top, sizeof(top));
	(void)fprintf(to,
		      "<g transform=\"translate(%d,%d)\">"
		      "<text x=\"%d\" y=\"30\" font-size=\"13\">%s over %s</text>"
		      "<path d=\"M%d %d V%d H%d\" fill=\"none\" stroke=\"#555\"/>"
		      "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>"
		      "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text>\n",
		      (int)axis % 2 * PANEL_WIDTH, (int)axis / 2 * PANEL_HEIGHT, LEFT,
		      axis == BENCH_RELAYS ? "statements of a relay in 10 s"
					   : "messages a second",
		      names[axis], LEFT, TOP, PANEL_HEIGHT - BOTTOM, PANEL_WIDTH - RIGHT,
		      LEFT - 6, TOP + 4, top, LEFT - 6, PANEL_HEIGHT - BOTTOM);
	for (int postgres = 0; postgres < 2; postgres++)
		draw_line(to, points, axis, postgres, most);
	draw_values(to, points, axis);
	(void)fprintf(to, "</g>\n");
}

wherry_code bench_write_growth(const bench_points *points, const char *path,
			       wherry_error *err)
{
	FILE *to = fopen(path, "we");
	bool ok;

	if (!to)
		return wh_fail_errno(err, errno, "%s", path);
	(void)fprintf(to,
		      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
		      "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n"
		      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
		      "<text x=\"%d\" y=\"12\" fill=\"%s\">%s</text>"
		      "<text x=\"%d\" y=\"12\" fill=\"%s\">%s</text>\n",
		      2 * PANEL_WIDTH, 2 * PANEL_HEIGHT, LEFT, colours[0], databases[0],
		      2 * LEFT, colours[1], databases[1]);
	for (int axis = 0; axis < BENCH_AXES; axis++)
		draw_panel(to, points, (bench_axis)axis);
	(void)fputs("</svg>\n", to);
	ok = !ferror(to);
	ok = fclose(to) == 0 && ok;
	return ok ? WHERRY_OK : wh_fail_errno(err, errno, "%s", path);
}
