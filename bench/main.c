/*
 * ./dev bench
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#ifndef BENCH_DATA
#define BENCH_DATA "examples/data/earthquakes.ndjson"
#endif
#ifndef BENCH_SAVED
#define BENCH_SAVED "build/bench.json"
#endif

enum { FAILED = 1, USAGE = 2 };

static const char help[] =
	"usage: ./dev bench [--only PATTERN] [--runs N] [--messages N] [--seconds N]\n"
	"                   [--save [FILE]] [--compare [FILE]] [--svg FILE]\n"
	"                   [--json | --markdown] [--list] [--data FILE]\n"
	"                   [--postgres | --mssql URL]\n"
	"\n"
	"Measure Wherry beside the least that a C program with sqlite3 must do for the\n"
	"same rows: same table, indexes, batches and durability.  The sides take turns,\n"
	"A B A B ..., after a warm-up, each run in a process of its own on a fresh copy of\n"
	"the database; so a ratio is worth something on a busy machine too, a rate is not.\n"
	"\n"
	"  --postgres       on a private PostgreSQL server, beside libpq\n"
	"  --mssql URL      in a database on SQL Server, which must be empty and is emptied,\n"
	"                   beside ODBC, in a build with WHERRY_ODBC\n"
	"  --growth         how cost grows, on SQLite and PostgreSQL (with --postgres, on\n"
	"                   that alone): rate, memory and statements over the backlog, over\n"
	"                   delivered rows, held keys and idle relays.  --messages N is the\n"
	"                   smallest backlog (100000), 30 N the largest; --seconds N is how\n"
	"                   long relays idle (60); --svg FILE draws it.  The default takes\n"
	"                   about half an hour\n"
	"  --only PATTERN   figures whose name has this in it, * for anything:\n"
	"                   --only 'drain*hot', --only enqueue, --only normal\n"
	"  --list           the names of the figures, without measuring\n"
	"  --runs N         turns that count, 1 to 99 (5); latency takes at most 3, memory\n"
	"                   and idling 1\n"
	"  --messages N     in a backlog (100000); one per commit: a 20th of it; latency: a\n"
	"                   100th, 20 to 1000; memory: ten times as many\n"
	"  --seconds N      how long idling is watched (60)\n"
	"  --save [FILE]    keep the result (build/bench.json)\n"
	"  --compare [FILE] show how each ratio, or cost, was then; done by itself where\n"
	"                   build/bench.json exists\n"
	"  --svg FILE       draw a chart\n"
	"  --json           the result as JSON, with every run\n"
	"  --markdown       the table of docs/benchmarks.md; the lines go to standard error\n"
	"  --data FILE      JSON lines that bodies are made of\n"
	"\n"
	"A line has: the figure, Wherry's number, the other side's, what that is, the\n"
	"median of the turns' ratios (least to most), the target.  \"raw\" reads the same\n"
	"columns in the same batches and acknowledges with one statement a message; \"a batch\n"
	"at once\" is the same with one statement for 1000, as a relay does it.  A missed\n"
	"target is no failure: the exit status is 0 unless something could not be measured.\n"
	"\n"
	"The files are in TMPDIR, which should be on the disk that matters; the default\n"
	"needs 2 GB there and takes about ten minutes.  To see what a change does:\n"
	"\n"
	"  ./dev bench --only drain --save\n"
	"  (change something)\n"
	"  ./dev bench --only drain\n";

static int refuse(const char *option, const char *why)
{
	(void)fprintf(stderr, "bench: %s: %s; see ./dev bench --help\n", option, why);
	return USAGE;
}

/* ---- options ---- */

typedef struct option {
	const char *name;
	int64_t *number; /* takes a number … */
	int64_t most;
	const char **text;    /* … or a text … */
	const char *standard; /* which may be left out */
	bool *flag;           /* … or nothing */
} option;

static const char *name_of(const void *ctx, size_t i)
{
	return ((const option *)ctx)[i].name;
}

static int unknown(const option *options, const char *word)
{
	const char *near = wh_nearest(word, name_of, options);
	char why[80] = "is no option";

	if (near)
		(void)snprintf(why, sizeof(why), "is no option; did you mean %s", near);
	return refuse(word, why);
}

/* How many words were used up: 1 or 2; 0 when it is refused. */
static int take(const option *o, const char *next)
{
	if (o->flag) {
		*o->flag = true;
		return 1;
	}
	if (!next && !o->standard) {
		refuse(o->name, "needs a value");
		return 0;
	}
	if (o->text) {
		*o->text = next ? next : o->standard;
		return next ? 2 : 1;
	}
	if (!wh_parse_int(next, o->number) || *o->number < 1 || *o->number > o->most) {
		refuse(o->name, "needs a whole number, 1 or more, and not that many");
		return 0;
	}
	return 2;
}

static int parse(bench_options *to, bool *teach, char **words)
{
	const option options[] = {
		{.name = "--messages", .number = &to->messages, .most = 10000000},
		{.name = "--runs", .number = &to->runs, .most = BENCH_RUNS_MOST},
		{.name = "--seconds", .number = &to->seconds, .most = 86400},
		{.name = "--only", .text = &to->only},
		{.name = "--save", .text = &to->save, .standard = BENCH_SAVED},
		{.name = "--compare", .text = &to->compare, .standard = BENCH_SAVED},
		{.name = "--svg", .text = &to->svg},
		{.name = "--data", .text = &to->data},
		{.name = "--json", .flag = &to->json},
		{.name = "--markdown", .flag = &to->markdown},
		{.name = "--list", .flag = &to->list},
		{.name = "--postgres", .flag = &to->postgres},
		{.name = "--mssql", .text = &to->mssql},
		{.name = "--growth", .flag = &to->growth},
		{.name = "--help", .flag = teach},
		{0},
	};

	while (*words) {
		const char *next =
			words[1] && strncmp(words[1], "--", 2) != 0 ? words[1] : NULL;
		const option *o = options;
		int used;

		while (o->name && strcmp(o->name, *words) != 0)
			o++;
		if (!o->name)
			return unknown(options, *words);
		used = take(o, next);
		if (!used)
			return USAGE;
		words += used;
	}
	if (to->mssql && (to->postgres || to->growth))
		return refuse("--mssql", "not with --postgres or --growth");
	return to->json && to->markdown ? refuse("--markdown", "not with --json") : 0;
}

/* ---- output ---- */

/* The table of docs/benchmarks.md has standard output for itself. */
static FILE *lines_to(const bench *b)
{
	return b->options.markdown ? stderr : stdout;
}

static void print_group(bench *b, const bench_group *group)
{
	const bench_side *sides = group->sides;

	bench_evaluate(b, group);
	for (int i = 0; i < b->n_figures && !b->options.json; i++)
		if (b->figures[i].wanted && b->figures[i].ours >= sides &&
		    b->figures[i].ours < sides + group->n)
			bench_print(&b->figures[i], lines_to(b));
}

static wherry_code finish(const bench *b, wherry_error *err)
{
	const bench_options *o = &b->options;
	wherry_code code = WHERRY_OK;

	if (o->json)
		code = bench_write_json(b, NULL, err);
	if (o->markdown)
		bench_print_markdown(b, stdout);
	if (code == WHERRY_OK && o->svg)
		code = bench_write_svg(b, o->svg, err);
	if (code == WHERRY_OK && o->save)
		code = bench_write_json(b, o->save, err);
	return code;
}

static int list(const bench *b)
{
	for (int i = 0; i < b->n_figures; i++)
		if (b->figures[i].wanted)
			(void)puts(b->figures[i].name);
	return 0;
}

static bool anything(const bench *b)
{
	for (int i = 0; i < b->n_figures; i++)
		if (b->figures[i].wanted)
			return true;
	return false;
}

static int finish_growth(wherry_code code, const wherry_error *err)
{
	if (code != WHERRY_OK)
		(void)fprintf(stderr, "bench: %s\n", err->message);
	return code == WHERRY_OK ? 0 : FAILED;
}

int main(int argc, char **argv)
{
	static bench b = {.options = {.messages = 100000,
				      .runs = 5,
				      .seconds = 60,
				      .data = BENCH_DATA}};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	bool teach = false;
	int status = argc ? parse(&b.options, &teach, argv + 1) : USAGE;

	if (status)
		return status;
	if (teach)
		return fputs(help, stdout) == EOF;
	if (b.options.growth)
		return finish_growth(bench_growth(&b.options, &err), &err);
	bench_plan(&b);
	if (!anything(&b))
		return refuse("--only", "no figure has such a name; --list tells them");
	if (b.options.list)
		return list(&b);
	if (!b.options.compare && access(BENCH_SAVED, R_OK) == 0)
		b.options.compare = BENCH_SAVED;
	if (b.options.compare)
		code = bench_compare(&b, b.options.compare, &err);
	if (code == WHERRY_OK && !b.options.json)
		bench_print_legend(&b, lines_to(&b));
	if (code == WHERRY_OK)
		code = bench_run(&b, print_group, &err);
	if (code == WHERRY_OK)
		code = finish(&b, &err);
	if (code != WHERRY_OK)
		(void)fprintf(stderr, "bench: %s\n", err.message);
	return code == WHERRY_OK ? 0 : code == WHERRY_INVALID ? USAGE : FAILED;
}
