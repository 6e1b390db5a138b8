/*
 * Messages made of a file of JSON lines: a body is a line, or the first members of one.
 */
#include "bench.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { BODIES = 1024, KEYS_MOST = 1000, LINE_MOST = 8192 };

struct bench_load {
	int n_keys;
	char keys[KEYS_MOST][16];
	int n;
	size_t at[BODIES + 1]; /* where a body begins, and the last one ends */
	wh_buf text;
};

/* Cut an object of more than most bytes behind its last member that fits. */
static size_t shorten(char *line, size_t len, size_t most)
{
	if (len <= most || most < 1)
		return len;
	for (size_t i = most - 1; i > 0; i--) {
		if (line[i] == ',' && line[i + 1] == '"' &&
		    islower((unsigned char)line[i + 2])) {
			line[i] = '}';
			return i + 1;
		}
	}
	return len;
}

static void read_bodies(bench_load *load, const bench_job *job)
{
	FILE *file = fopen(job->data, "re");
	char line[LINE_MOST];

	if (!file)
		bench_must(wh_fail_errno(&bench_error, errno,
					 "%s: give a file of JSON lines with --data",
					 job->data));
	while (load->n < BODIES && fgets(line, sizeof(line), file)) {
		size_t len = strcspn(line, "\n");

		wh_buf_put(&load->text, line, shorten(line, len, (size_t)job->body));
		load->at[++load->n] = load->text.len;
	}
	(void)fclose(file);
	if (!load->n)
		bench_die("%s is empty", job->data);
	bench_must(wh_buf_check(&load->text, &bench_error));
}

bench_load *bench_load_open(const bench_job *job)
{
	static bench_load load = {.text = WH_BUF_INIT((size_t)BODIES * LINE_MOST)};

	load.n_keys = job->keys < KEYS_MOST ? job->keys : KEYS_MOST;
	for (int i = 0; i < load.n_keys; i++)
		(void)snprintf(load.keys[i], sizeof(load.keys[i]), "key-%d", i);
	if (!load.n)
		read_bodies(&load, job);
	return &load;
}

wherry_message bench_load_get(const bench_load *load, int64_t number)
{
	int i = (int)(number % load->n);

	return WHERRY_MESSAGE(.topic = "quakes",
			      .key = load->n_keys ? load->keys[number % load->n_keys]
						  : NULL,
			      .body = load->text.ptr + load->at[i],
			      .body_len = load->at[i + 1] - load->at[i]);
}
