/*
 * Reads wherry.yaml: the file, and its top level.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "daemon/plan_read.h"

enum { FILE_MAX = 1024 * 1024, DEPTH_MAX = 100, TOKEN_LEAST = 16 };

static void take_log(wh_reading *r, const yaml_node_t *value, bool level)
{
	const char *text = wh_plan_scalar(r, value, level ? "level" : "format");

	if (!text)
		return;
	if (!level && (strcmp(text, "json") == 0 || strcmp(text, "text") == 0)) {
		r->plan->log_json = *text == 'j';
		return;
	}
	for (int i = WHERRY_LOG_ERROR; level && i <= WHERRY_LOG_DEBUG; i++)
		if (strcmp(text, wh_log_level_name((wherry_log_level)i)) == 0) {
			r->plan->log_level = (wherry_log_level)i;
			return;
		}
	wh_plan_problem(r, value->start_mark, "'%.40s' is none of: %s", text,
			level ? "error, warn, info, debug" : "text, json");
}

static void visit_log(wh_reading *r, void *ctx, const yaml_node_t *key, const char *name,
		      const yaml_node_t *value)
{
	static const char *const known[] = {"format", "level", NULL};

	(void)ctx;
	if (strcmp(name, "format") == 0 || strcmp(name, "level") == 0)
		take_log(r, value, *name == 'l');
	else
		wh_plan_unknown(r, key, name, &(wh_plan_words){known, NULL, false});
}

static void visit_http(wh_reading *r, void *ctx, const yaml_node_t *key, const char *name,
		       const yaml_node_t *value)
{
	static const char *const known[] = {"listen", "token", "hosts", NULL};
	wherry_error err = WHERRY_ERROR_INIT;
	char address[64];
	uint16_t port;

	(void)ctx;
	if (strcmp(name, "token") == 0) {
		if (wh_plan_take(r, value, "token", &r->plan->token) &&
		    strlen(r->plan->token.value) < TOKEN_LEAST)
			wh_plan_problem(r, value->start_mark,
					"token has fewer than %d characters: make one "
					"with `openssl rand -hex 32`",
					TOKEN_LEAST);
	} else if (strcmp(name, "hosts") == 0) {
		(void)wh_plan_take(r, value, "hosts", &r->plan->hosts);
	} else if (strcmp(name, "listen") != 0) {
		wh_plan_unknown(r, key, name, &(wh_plan_words){known, NULL, false});
	} else if (wh_plan_take(r, value, "listen", &r->plan->listen) &&
		   wh_listen_parse(r->plan->listen.value, address, &port, &err) !=
			   WHERRY_OK) {
		wh_plan_problem(r, value->start_mark, "%s", err.message);
	}
}

typedef struct top {
	const yaml_node_t *http, *log, *defaults, *relays, *cron, *server_connections;
} top;

/* The most connections of all relays with match to one server. */
static void take_server_connections(wh_reading *r, const yaml_node_t *value)
{
	const char *text = wh_plan_scalar(r, value, "server_connections");
	int64_t *most = &r->plan->server_connections;

	if (text && (!wh_parse_int(text, most) || *most < WH_PLAN_SERVER_LEAST ||
		     *most > WH_PLAN_SERVER_MOST))
		wh_plan_problem(r, value->start_mark,
				"server_connections is a number from %d to %d, not "
				"'%.40s'",
				WH_PLAN_SERVER_LEAST, WH_PLAN_SERVER_MOST, text);
}

/* Report a number that leaves less to a relay than it needs. */
static void check_server_connections(wh_reading *r, const yaml_node_t *value)
{
	for (size_t i = 0; i < r->plan->n_relays; i++) {
		const wh_plan_relay *relay = &r->plan->relays[i];
		int64_t n =
			relay->match.value && relay->from.value
				? (int64_t)wh_plan_on_server(r->plan, relay->from.value)
				: 0;
		int least = WH_PLAN_SERVER_LEAST;

		if (relay->databases.value)
			least = WH_PLAN_SERVER_LEAST + 1;
		if (r->plan->server_connections >= n * least)
			continue;
		wh_plan_problem(
			r, value->start_mark,
			"server_connections is too low: the number of relays with "
			"match on one server is %lld, and each needs %d: write "
			"%lld or more",
			(long long)n, least, (long long)n * least);
		return;
	}
}

static void visit_top(wh_reading *r, void *ctx, const yaml_node_t *key, const char *name,
		      const yaml_node_t *value)
{
	static const char *const known[] = {
		"http", "log", "defaults", "relays", "cron", "server_connections", NULL};
	top *t = ctx;
	const yaml_node_t **places[] = {
		&t->http,   &t->log,  &t->defaults,
		&t->relays, &t->cron, &t->server_connections,
	};

	for (size_t i = 0; known[i]; i++)
		if (strcmp(name, known[i]) == 0) {
			*places[i] = value;
			return;
		}
	wh_plan_unknown(r, key, name, &(wh_plan_words){known, NULL, false});
}

static void take_document(wh_reading *r)
{
	const yaml_node_t *root = yaml_document_get_root_node(&r->doc);
	yaml_mark_t begin = {0, 0, 0};
	top t = {.http = NULL};

	if (!root) {
		wh_plan_problem(r, begin,
				"the file is empty: see `wherry config --sample`");
		return;
	}
	wh_plan_each(r, root, "the file", visit_top, &t);
	if (t.http)
		wh_plan_each(r, t.http, "http", visit_http, NULL);
	if (t.log)
		wh_plan_each(r, t.log, "log", visit_log, NULL);
	if (t.defaults && !wh_plan_defaults(r, t.defaults))
		t.defaults = NULL;
	if (t.server_connections)
		take_server_connections(r, t.server_connections);
	if (t.relays)
		wh_plan_take_relays(r, t.relays, t.defaults);
	else if (!t.cron &&
		 (root->type == YAML_MAPPING_NODE ||
		  (root->type == YAML_SCALAR_NODE && !root->data.scalar.length)))
		wh_plan_problem(r, root->start_mark,
				"there are no relays, and no entries of cron");
	if (t.cron)
		wh_plan_take_crons(r, t.cron, t.defaults);
	if (t.server_connections && !r->n_problems)
		check_server_connections(r, t.server_connections);
	if (t.http && !r->plan->listen.value && !r->n_problems)
		wh_plan_problem(r, t.http->start_mark,
				"http needs listen: 127.0.0.1:9464");
	if (t.http && r->plan->listen.value && !r->plan->token.value && !r->n_problems &&
	    !wh_listen_loopback(r->plan->listen.value))
		wh_plan_problem(
			r, t.http->start_mark,
			"http.listen %s is heard beyond this machine: give it a token, "
			"token: ${file:PATH}",
			r->plan->listen.value);
}

/* Is the line that YAML cannot read a schedule?  Schedules often begin with "*" or
 * "@". */
static bool is_schedule(FILE *file, size_t line)
{
	char *text = NULL;
	size_t cap = 0;
	bool is = true;

	rewind(file);
	for (size_t i = 0; is && i <= line; i++)
		is = getline(&text, &cap, file) >= 0;
	is = is && (strstr(text, "at: *") || strstr(text, "at: @"));
	free(text);
	return is;
}

/* Append a line, and quote a value such as stdout: which ends with the colon that YAML takes
 * for the end of a key. */
static void put_line(wh_buf *text, const char *line, size_t line_len)
{
	static const char *const values[] = {"stdout:", "null:"};
	const char *value = strstr(line, ": ");
	size_t len;

	value = value ? value + 1 + strspn(value + 1, " ") : "";
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		len = strlen(values[i]);
		if (strncmp(value, values[i], len) != 0 ||
		    value[len + strspn(value + len, " \r\n")])
			continue;
		wh_buf_put(text, line, (size_t)(value - line));
		wh_buf_printf(text, "'%s'%s", values[i], value + len);
		return;
	}
	wh_buf_put(text, line, line_len); /* It may have a NUL character. */
}

/* Read the file.  libyaml takes a minute for some hundred thousand brackets, so that lists in
 * lists are limited. */
static wherry_code read_text(FILE *file, const char *path, wh_buf *text,
			     wherry_error *err)
{
	int depth = 0, most = 0;
	char *line = NULL;
	size_t cap = 0;
	ssize_t len;

	while ((len = getline(&line, &cap, file)) >= 0) {
		put_line(text, line, (size_t)len);
		for (const char *p = line; *p; p++) {
			depth += strchr("[{", *p)            ? 1
				 : strchr("]}", *p) && depth ? -1
							     : 0;
			most = depth > most ? depth : most;
		}
	}
	free(line);
	if (ferror(file))
		return wh_fail_errno(err, errno, "cannot read %.150s", path);
	if (most > DEPTH_MAX)
		return wh_fail(err, WHERRY_INVALID,
			       "%.150s has more than %d brackets in each other", path,
			       DEPTH_MAX);
	return wh_buf_check(text, err);
}

static wherry_code parse(wh_reading *r, FILE *file, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(2 * FILE_MAX);
	wherry_code code = read_text(file, r->path, &text, err);
	yaml_parser_t parser;
	bool fine;

	if (code == WHERRY_OK && !yaml_parser_initialize(&parser))
		code = wh_oom(err);
	if (code != WHERRY_OK) {
		wh_buf_clear(&text);
		return code;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)wh_buf_str(&text),
				     text.len);
	fine = yaml_parser_load(&parser, &r->doc);
	if (fine) {
		take_document(r);
		yaml_document_delete(&r->doc);
	} else {
		wh_plan_problem(
			r, parser.problem_mark, "%s%s%s%s",
			parser.problem ? parser.problem : "no YAML",
			parser.context ? " " : "", parser.context ? parser.context : "",
			is_schedule(file, parser.problem_mark.line)
				? "; put the schedule in quotes: at: '*/5 * * * *'"
				: "");
	}
	yaml_parser_delete(&parser);
	wh_buf_clear(&text);
	return WHERRY_OK;
}

/* Fail if the file is not seekable or too large: a device would block, a large file fill
 * the memory. */
static wherry_code check_size(FILE *file, const char *path, wherry_error *err)
{
	long size;

	if (fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
		return wh_fail_errno(err, errno, "cannot read %.150s", path);
	if (size > FILE_MAX)
		return wh_fail(err, WHERRY_TOOBIG, "%.150s has more than 1 MB", path);
	rewind(file);
	return WHERRY_OK;
}

/* Open a file for reading.  A pipe has no end, and waits for its writer: it is refused at once.
 * NULL: errno says why. */
static FILE *open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !file)
		(void)close(fd);
	return file;
}

wherry_code wh_plan_read_most(const char *path, wh_plan *out, wh_buf *problems,
			      wherry_error *err)
{
	wh_plan plan = {.log_level = WHERRY_LOG_INFO};
	wh_reading r = {.path = path, .plan = &plan, .problems = problems};
	FILE *file = open_file(path);
	wherry_code code;

	if (!file)
		return wh_fail_errno(err, errno, "cannot read %.150s", path);
	plan.path = strdup(path);
	code = plan.path ? check_size(file, path, err) : wh_oom(err);
	if (code == WHERRY_OK)
		code = parse(&r, file, err);
	(void)fclose(file);
	if (code == WHERRY_OK && r.n_problems > WH_PROBLEMS_MAX)
		wh_buf_printf(problems, "%s: and %d more\n", path,
			      r.n_problems - WH_PROBLEMS_MAX);
	if (code == WHERRY_OK && r.n_problems)
		code = wh_fail(err, WHERRY_INVALID, "%.150s cannot be used", path);
	*out = plan;
	return code;
}

wherry_code wh_plan_read(const char *path, wh_plan *out, wh_buf *problems,
			 wherry_error *err)
{
	wh_plan plan = {.path = NULL};
	wherry_code code = wh_plan_read_most(path, &plan, problems, err);

	if (code == WHERRY_OK)
		*out = plan;
	else
		wh_plan_clear(&plan);
	return code;
}

void wh_plan_clear(wh_plan *plan)
{
	for (size_t i = 0; i < plan->n_relays; i++)
		wh_plan_relay_clear(&plan->relays[i]);
	for (size_t i = 0; i < plan->n_crons; i++)
		wh_plan_cron_clear(&plan->crons[i]);
	free(plan->relays);
	free(plan->crons);
	free(plan->path);
	free(plan->listen.raw);
	free(plan->listen.value);
	free(plan->token.raw);
	free(plan->token.value);
	free(plan->hosts.raw);
	free(plan->hosts.value);
	*plan = (wh_plan){.path = NULL};
}

bool wh_plan_same(const wh_plan_relay *a, const wh_plan_relay *b)
{
	return strcmp(a->name, b->name) == 0 &&
	       strcmp(a->from.value, b->from.value) == 0 &&
	       strcmp(a->to.value, b->to.value) == 0 &&
	       !a->match.value == !b->match.value &&
	       (!a->match.value || strcmp(a->match.value, b->match.value) == 0) &&
	       !a->databases.value == !b->databases.value &&
	       (!a->databases.value ||
		strcmp(a->databases.value, b->databases.value) == 0) &&
	       a->connections == b->connections &&
	       wh_plan_same_settings(a->config, b->config);
}
