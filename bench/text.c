/*
 * One line per figure, for people and for docs/benchmarks.md.
 */
#include "bench.h"

#include <string.h>
#include <sqlite3.h>

#include "wherry/version.h"

void bench_format(double number, int digits, char *out, size_t cap)
{
	char plain[64];
	size_t whole, len, at = 0;

	(void)snprintf(plain, sizeof(plain), "%.*f", digits, number);
	len = strlen(plain);
	whole = strcspn(plain, ".");
	for (size_t i = 0; i < len && at + 2 < cap; i++) {
		if (i && i < whole && (whole - i) % 3 == 0)
			out[at++] = ',';
		out[at++] = plain[i];
	}
	out[at] = 0;
}

static void print_target(const bench_figure *f, FILE *to)
{
	if (f->at_most > 0)
		(void)fprintf(to, "  at most %g: %s", f->at_most,
			      bench_met(f) ? "met" : "NOT MET");
	else if (f->at_least > 0)
		(void)fprintf(to, "  at least %.2f: %s", f->at_least,
			      bench_met(f) ? "met" : "NOT MET");
}

static void print_was(const bench_figure *f, FILE *to)
{
	double now = f->at_most > 0 ? f->our_number : f->ratio;

	if (f->compared && f->was > 0)
		(void)fprintf(to, "  was %.*f (%+.0f %%)", f->at_most > 0 ? f->digits : 2,
			      f->was, (now / f->was - 1) * 100);
}

void bench_print(const bench_figure *f, FILE *to)
{
	char ours[32], theirs[32];

	bench_format(f->our_number, f->digits, ours, sizeof(ours));
	bench_format(f->their_number, f->digits, theirs, sizeof(theirs));
	(void)fprintf(to, "%-46s %10s  %10s %-15s  %-26s", f->name, ours, theirs, f->unit,
		      f->against);
	if (f->ratio > 0)
		(void)fprintf(to, "  %.2f", f->ratio);
	if (f->most > f->least)
		(void)fprintf(to, " (%.2f to %.2f)", f->least, f->most);
	print_target(f, to);
	print_was(f, to);
	(void)fputc('\n', to);
	(void)fflush(to);
}

void bench_print_legend(const bench *b, FILE *to)
{
	(void)fprintf(to,
		      "Wherry %s, SQLite %s, %lld messages, %lld runs in turn: medians\n"
		      "figure, Wherry, the other side; ratio by turns (least to most); "
		      "target\n\n",
		      WHERRY_VERSION, sqlite3_libversion(),
		      (long long)b->options.messages, (long long)b->options.runs);
}

/* ---- docs/benchmarks.md ---- */

static const bench_figure *twin(const bench *b, const bench_figure *f)
{
	for (int i = 0; i < b->n_figures; i++) {
		const bench_figure *other = &b->figures[i];

		if (other->measured && other->full != f->full &&
		    strcmp(other->label, f->label) == 0)
			return other;
	}
	return NULL;
}

static void print_cells(const bench_figure *f, FILE *to)
{
	char ours[32], theirs[32];

	if (!f) {
		(void)fputs(" | | |", to);
		return;
	}
	bench_format(f->our_number, f->digits, ours, sizeof(ours));
	bench_format(f->their_number, f->digits, theirs, sizeof(theirs));
	(void)fprintf(to, " %s | %s |", ours, theirs);
	if (f->at_most > 0)
		(void)fputs(" |", to);
	else
		(void)fprintf(to, " %.*f |", f->ratio >= 100 ? 0 : 2, f->ratio);
}

static void print_row(const bench *b, const bench_figure *f, FILE *to)
{
	const bench_figure *normal = twin(b, f);
	bool met = bench_met(f) && (!normal || bench_met(normal));

	(void)fprintf(to, "| %s, %s | %s |", f->label, f->unit, f->against);
	print_cells(f, to);
	print_cells(normal, to);
	if (f->at_most > 0)
		(void)fprintf(to, " ≤ %g%s |\n", f->at_most, met ? "" : ", not met");
	else if (f->at_least > 0)
		(void)fprintf(to, " ≥ %.2f%s |\n", f->at_least, met ? "" : ", not met");
	else
		(void)fputs(" |\n", to);
}

void bench_print_markdown(const bench *b, FILE *to)
{
	(void)fputs("| | beside | FULL: Wherry | the other | ratio | NORMAL: Wherry | "
		    "the other | ratio | target |\n"
		    "|---|---|--:|--:|--:|--:|--:|--:|---|\n",
		    to);
	for (int i = 0; i < b->n_figures; i++)
		if (b->figures[i].measured && b->figures[i].headline &&
		    b->figures[i].full)
			print_row(b, &b->figures[i], to);
	(void)fprintf(
		to,
		"\nMedians of %lld runs in turn, %lld messages (memory: ten times as "
		"many); SQLite %s.\n",
		(long long)b->options.runs, (long long)b->options.messages,
		sqlite3_libversion());
}
