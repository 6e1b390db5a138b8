/*
 * A run as JSON: to be kept, and to be compared with.
 */
#include "bench.h"

#include <jansson.h>
#include <sqlite3.h>
#include <string.h>

#include "wherry/version.h"

static json_t *runs_of(const bench_side *side, int value)
{
	json_t *list = json_array();

	for (int i = 0; i < side->n_runs; i++)
		(void)json_array_append_new(list, json_real(side->runs[value][i]));
	return list;
}

static json_t *figure_json(const bench_figure *f)
{
	json_t *object = json_pack(
		"{s:s, s:s, s:s, s:f, s:o, s:f, s:f, s:f, s:f}", "name", f->name, "unit",
		f->unit, "against", f->against, "wherry", f->our_number, "wherry_runs",
		runs_of(f->ours, f->value), "other", f->their_number, "ratio", f->ratio,
		"ratio_least", f->least, "ratio_most", f->most);

	if (object && f->theirs)
		(void)json_object_set_new(object, "other_runs",
					  runs_of(f->theirs, f->value));
	else if (object)
		(void)json_object_set_new(object, "derived", json_true());
	if (object && (f->at_most > 0 || f->at_least > 0)) {
		(void)json_object_set_new(
			object, f->at_most > 0 ? "at_most" : "at_least",
			json_real(f->at_most > 0 ? f->at_most : f->at_least));
		(void)json_object_set_new(object, "met", json_boolean(bench_met(f)));
	}
	return object;
}

wherry_code bench_write_json(const bench *b, const char *path, wherry_error *err)
{
	size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(8);
	json_t *figures = json_array(), *root;
	bool ok;

	for (int i = 0; i < b->n_figures; i++)
		if (b->figures[i].measured)
			(void)json_array_append_new(figures, figure_json(&b->figures[i]));
	root = json_pack("{s:s, s:s, s:I, s:I, s:o}", "version", WHERRY_VERSION, "sqlite",
			 sqlite3_libversion(), "messages",
			 (json_int_t)b->options.messages, "runs",
			 (json_int_t)b->options.runs, "figures", figures);
	if (!root)
		return wh_oom(err);
	ok = path ? json_dump_file(root, path, flags) == 0
		  : json_dumpf(root, stdout, flags) == 0 && putchar('\n') != EOF;
	json_decref(root);
	return ok ? WHERRY_OK
		  : wh_fail(err, WHERRY_IO, "cannot write %s",
			    path ? path : "the result");
}

static bench_figure *figure_named(bench *b, const char *name)
{
	for (int i = 0; name && i < b->n_figures; i++)
		if (strcmp(b->figures[i].name, name) == 0)
			return &b->figures[i];
	return NULL;
}

wherry_code bench_compare(bench *b, const char *path, wherry_error *err)
{
	json_error_t why;
	json_t *root = json_load_file(path, 0, &why), *saved;
	size_t i;

	if (!root)
		return wh_fail(err, WHERRY_INVALID,
			       "%s cannot be compared with: %s; write one with --save",
			       path, why.text);
	if (!json_is_array(json_object_get(root, "figures"))) {
		json_decref(root);
		return wh_fail(err, WHERRY_INVALID,
			       "%s is no saved run; write one with --save", path);
	}
	json_array_foreach (json_object_get(root, "figures"), i, saved) {
		bench_figure *f = figure_named(
			b, json_string_value(json_object_get(saved, "name")));

		if (!f)
			continue;
		f->was = json_number_value(
			json_object_get(saved, f->at_most > 0 ? "wherry" : "ratio"));
		f->compared = true;
	}
	json_decref(root);
	return WHERRY_OK;
}
