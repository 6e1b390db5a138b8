/*
 * The chart: how much of the other side's rate, and how much of what was allowed.
 */
#include "bench.h"

#include <errno.h>

enum {
	ROW = 18,
	TEXT_WIDTH = 330,
	BAR_WIDTH = 300, /* of 1.5 */
	WIDTH = 1000,
	TOP = 40
};

static const double most_shown = 1.5;

static double place(double part)
{
	return TEXT_WIDTH +
	       BAR_WIDTH * (part < most_shown ? part : most_shown) / most_shown;
}

/* A figure's part of what it is drawn against: the other side, or its target. */
static double part_of(const bench_figure *f)
{
	return f->at_most > 0 ? f->our_number / f->at_most : f->ratio;
}

static void draw_row(FILE *to, const bench_figure *f, int y)
{
	bool has_target = f->at_most > 0 || f->at_least > 0;
	const char *colour = !has_target ? "#888" : bench_met(f) ? "#2a7" : "#c43";
	char ours[32], theirs[32];

	bench_format(f->our_number, f->digits, ours, sizeof(ours));
	bench_format(f->their_number, f->digits, theirs, sizeof(theirs));
	(void)fprintf(
		to,
		"<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>"
		"<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>",
		TEXT_WIDTH - 8, y + 13, f->name, TEXT_WIDTH, y + 3,
		place(part_of(f)) - TEXT_WIDTH, ROW - 6, colour);
	if (f->at_most <= 0 && f->most > f->least)
		(void)fprintf(to,
			      "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" "
			      "stroke=\"#555\"/>",
			      place(f->least), place(f->most), y + ROW / 2, y + ROW / 2);
	if (has_target)
		(void)fprintf(to,
			      "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" "
			      "stroke=\"#06c\" stroke-width=\"2\"/>",
			      place(f->at_most > 0 ? 1 : f->at_least),
			      place(f->at_most > 0 ? 1 : f->at_least), y + 1,
			      y + ROW - 1);
	(void)fprintf(to, "<text x=\"%d\" y=\"%d\">%.2f: %s, %s %s %s%s</text>\n",
		      TEXT_WIDTH + BAR_WIDTH + 8, y + 13, part_of(f), ours, f->against,
		      theirs, f->unit,
		      !has_target    ? ""
		      : bench_met(f) ? ", met"
				     : ", not met");
}

static int draw_part(FILE *to, const bench *b, bool costs, const char *title, int y)
{
	int first = y + ROW + 4;

	(void)fprintf(to, "<text x=\"8\" y=\"%d\" font-weight=\"bold\">%s</text>\n",
		      y + 14, title);
	y = first;
	for (int i = 0; i < b->n_figures; i++) {
		if (!b->figures[i].measured || (b->figures[i].at_most > 0) != costs)
			continue;
		draw_row(to, &b->figures[i], y);
		y += ROW;
	}
	(void)fprintf(to,
		      "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#555\" "
		      "stroke-dasharray=\"3\"/>\n",
		      place(1), place(1), first, y);
	return y + ROW;
}

wherry_code bench_write_svg(const bench *b, const char *path, wherry_error *err)
{
	FILE *to = fopen(path, "we");
	int rows = 0;
	bool ok;

	if (!to)
		return wh_fail_errno(err, errno, "%s", path);
	for (int i = 0; i < b->n_figures; i++)
		rows += b->figures[i].measured;
	(void)fprintf(to,
		      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
		      "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n"
		      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
		      "<text x=\"8\" y=\"22\" font-size=\"15\">Wherry beside raw "
		      "sqlite3; the blue mark is the target, the thin line least to "
		      "most</text>\n",
		      WIDTH, TOP + (rows + 6) * ROW);
	(void)draw_part(to, b, true,
			"Part of what is allowed (1 is the target; shorter is better)",
			draw_part(to, b, false,
				  "Part of the other side's rate (1 is as fast; longer "
				  "is better)",
				  TOP));
	(void)fputs("</svg>\n", to);
	ok = !ferror(to);
	ok = fclose(to) == 0 && ok;
	return ok ? WHERRY_OK : wh_fail_errno(err, errno, "%s", path);
}
