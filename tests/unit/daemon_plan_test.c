#include "wherry_test.h"

#include <stdlib.h>
#include <unistd.h>

#include "daemon/daemon.h"

/* Write text to a file of its own; the caller removes it. */
static void write_file(char path[32], const char *text)
{
	int fd;

	(void)snprintf(path, 32, "/tmp/wherry-plan.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(close(fd), 0);
}

static wherry_code read_text(const char *text, wh_plan *plan, wh_buf *problems,
			     wherry_error *err)
{
	char path[32];
	wherry_code code;

	write_file(path, text);
	code = wh_plan_read(path, plan, problems, err);
	assert_int_equal(unlink(path), 0);
	return code;
}

WHERRY_TEST(the_smallest_file_is_a_relay_and_where_to_listen)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(4096);
	wh_plan plan;

	WHERRY_PASS(read_text("relays: [{name: a, from: 'sqlite:a.db', to: 'null:'}]\n"
			      "http: {listen: 127.0.0.1:9464}\n",
			      &plan, &problems, &err));
	assert_int_equal(plan.n_relays, 1);
	assert_string_equal(plan.relays[0].name, "a");
	assert_string_equal(plan.relays[0].from.value, "sqlite:a.db");
	assert_string_equal(plan.relays[0].to.value, "null:");
	assert_string_equal(plan.listen.value, "127.0.0.1:9464");
	assert_null(plan.token.value);
	assert_int_equal(problems.len, 0);
	wh_plan_clear(&plan);
	wh_buf_clear(&problems);
}

WHERRY_TEST(a_relay_takes_the_defaults_that_it_does_not_override)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(4096);
	wh_plan plan;

	WHERRY_PASS(read_text("defaults:\n"
			      "  batch: 7\n"
			      "  retry: {attempts: 3, jitter: no}\n"
			      "relays:\n"
			      "  - {name: a, from: 'sqlite:a', to: 'null:'}\n"
			      "  - name: b\n"
			      "    from: sqlite:b\n"
			      "    to: 'null:'\n"
			      "    batch: 9\n"
			      "    retry:\n"
			      "      attempts: 4\n",
			      &plan, &problems, &err));
	assert_int_equal(wh_config_int(plan.relays[0].config, WH_RELAY_BATCH), 7);
	assert_int_equal(wh_config_int(plan.relays[0].config, WH_RETRY_ATTEMPTS), 3);
	assert_int_equal(wh_config_int(plan.relays[1].config, WH_RELAY_BATCH), 9);
	assert_int_equal(wh_config_int(plan.relays[1].config, WH_RETRY_ATTEMPTS), 4);
	assert_false(wh_config_switch(plan.relays[1].config, WH_RETRY_JITTER));
	assert_false(wh_plan_same(&plan.relays[0], &plan.relays[1]));
	assert_true(wh_plan_same(&plan.relays[0], &plan.relays[0]));
	wh_plan_clear(&plan);
	wh_buf_clear(&problems);
}

WHERRY_TEST(a_default_may_have_no_effect_on_some_relay)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(4096);
	wh_plan plan;

	WHERRY_PASS(read_text(
		"defaults:\n"
		"  message: {source: /shop}\n"
		"  s3: {region: eu-west-1}\n"
		"relays:\n"
		"  - {name: a, from: 'sqlite:a', to: 'null:'}\n"
		"  - {name: b, from: 'sqlite:b', to: 'null:', message: {format: cloudevents}}\n",
		&plan, &problems, &err));
	assert_string_equal(wh_config_text(plan.relays[1].config, WH_MESSAGE_SOURCE),
			    "/shop");
	wh_plan_clear(&plan);
	wh_buf_clear(&problems);
}

#define RELAY "relays: [{name: a, from: 'sqlite:a', to: 'null:'"

/* A file that is refused: where, and what is said. */
typedef struct refusal {
	const char *text, *place, *says;
} refusal;

static void check_refusals(const refusal *rows, size_t n)
{
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < n; i++) {
		wh_buf problems = WH_BUF_INIT(4096);
		wh_plan plan;

		WHERRY_FAILS(WHERRY_INVALID,
			     read_text(rows[i].text, &plan, &problems, &err));
		if (!strstr(wh_buf_str(&problems), rows[i].place) ||
		    !strstr(wh_buf_str(&problems), rows[i].says))
			fail_msg("%s gave %s", rows[i].text, wh_buf_str(&problems));
		wh_buf_clear(&problems);
	}
}

WHERRY_TEST(what_is_wrong_is_told_with_its_place)
{
	static const refusal rows[] = {
		{"", ":1:1:", "empty"},
		{"relays: 3\n", ":1:9:", "is a list"},
		{"- a\n", ":1:1:", "a mapping"},
		{"http: {listen: 127.0.0.1:1}\n", ":1:1:", "no relays"},
		{"relays: []\n", ":1:9:", "has none"},
		{"''\n", ":1:1:", "no relays"},
		{"relais: []\n", ":1:1:", "did you mean 'relays'?"},
		{RELAY ", batc: 9}]\n", ":1:51:", "did you mean 'batch'?"},
		{RELAY ", retry: {attempt: 3}}]\n", ":1:59:", "did you mean 'attempts'?"},
		{RELAY ", retri: {}}]\n", ":1:51:", "did you mean 'retry'?"},
		{RELAY ", lease: 3}]\n", ":1:58:", "relay.lease"},
		{RELAY ", message: {source: /shop}}]\n",
		 ":1:69:", "add message.format=cloudevents"},
		{RELAY ", lease: [3s]}]\n", ":1:58:", "this is a list"},
		{RELAY ", retry: 3}]\n", ":1:58:", "is a mapping"},
		{RELAY ", name: b}]\n", ":1:51:", "twice"},
		{RELAY ", timeout: 5s}]\n", ":1:51:", "unknown key"},
		{RELAY "}, {name: a, from: 'sqlite:b', to: 'null:'}]\n",
		 ":1:59:", "another relay"},
		{"relays: [{name: a b, from: 'sqlite:b', to: 'null:'}]\n",
		 ":1:17:", "letters"},
		{"relays: [{name: a, to: 'null:'}]\n", ":1:10:", "needs 'from'"},
		{"relays: [{name: a, from: 'sqlite:a'}]\n", ":1:10:", "needs 'to'"},
		{"relays: [{name: a, from: 'sqlit:a', to: 'null:'}]\n",
		 ":1:26:", "did you mean 'sqlite:'?"},
		{"relays: [{name: a, from: 'sqlite:a', to: 'nul:'}]\n",
		 ":1:42:", "did you mean 'null:'?"},
		{RELAY ", claim_timeout: 2s, delivery_timeout: 3s}]\n",
		 ":1:88:", "must be shorter"},
		{RELAY ", stream: {slot: '${env:WHERRY_NOT_THERE}'}}]\n",
		 ":1:66:", "WHERRY_NOT_THERE is not set"},
		{RELAY ", source: wal}]\n", ":1:59:", "write source: table"},
		{"defaults: {source: wal}\n" RELAY "}]\n",
		 ":1:20:", "and 'from' is sqlite"},
		{RELAY ", source: log}]\n", ":1:59:", "table, wal"},
		{RELAY ", dead_letters: 'fil:x'}]\n", ":1:65:", "did you mean 'file:'?"},
		{"defaults: {dead_letters: x}\n" RELAY "}]\n", ":1:26:", "is not a URL"},
		{RELAY ", stream: {slot: '${file:/dev/null}'}}]\n",
		 ":1:66:", "file:/dev/null is empty"},
		{RELAY ", stream: {slot: '${file:/no/such}'}}]\n",
		 ":1:66:", "cannot read the file '/no/such'"},
		{"relays: [{name: a, from: 'sqlite:a', to: 'exec: '}]\n",
		 ":1:42:", "needs a command"},
		{RELAY "}, {name: b, from: 'sqlite:a', to: 'file:b'}]\n",
		 ":1:84:", "relay 'a' delivers from the same outbox"},
		{RELAY "}]\nhttp: {listen: 127.0.0.1}\n", ":2:16:", "127.0.0.1:9464"},
		{RELAY "}]\nhttp: {listen: 'localhost:80'}\n",
		 ":2:16:", "names are not looked up"},
		{RELAY "}]\nhttp: {listen: '0.0.0.0:80'}\n", ":2:7:", "give it a token"},
		{RELAY "}]\nhttp: {listen: '127.0.0.1:80', token: ''}\n",
		 ":2:39:", "fewer than 16"},
		{RELAY "}]\nhttp: {listen: '127.0.0.1:80', token: '123456789012345'}\n",
		 ":2:39:", "fewer than 16"},
		{"\"a\\e[2J\\nb\": 1\n" RELAY "}]\n", ":1:1:", "unknown key 'a [2J b'"},
		{RELAY "}]\nlog: {level: loud}\n", ":2:14:", "error, warn, info"},
		{RELAY "}\n", ":2:1:", "did not find"},
		{"relays:\n\t- a\n", ":2:1:", "cannot start any token"},
		{"cron:\n  - name: a\n    at: */5 * * * *\n",
		 ":3:", "put the schedule in quotes"},
		{"cron:\n  - at: @daily\n", ":2:", "put the schedule in quotes"},
		{"cron: [{name: a, at: * 6 * * *}]\n",
		 ":1:", "put the schedule in quotes"},
	};

	check_refusals(rows, sizeof(rows) / sizeof(*rows));
}

static void what_is_fine(const char *text)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(4096);
	wh_plan plan;

	if (read_text(text, &plan, &problems, &err) != WHERRY_OK)
		fail_msg("%s gave %s", text, wh_buf_str(&problems));
	wh_plan_clear(&plan);
	wh_buf_clear(&problems);
}

WHERRY_TEST(what_can_work_is_not_refused)
{
	what_is_fine("defaults:\n" RELAY "}]\n");
	what_is_fine(RELAY "}, {name: b, from: 'sqlite:a', to: 'null:'}]\n");
	what_is_fine(RELAY "}, {name: b, from: 'sqlite:a#other', to: 'file:b'}]\n");
	what_is_fine(RELAY ", dead_letters: 'file:dead'}]\n");
}

WHERRY_TEST(relays_that_may_share_a_queue_are_not_refused)
{
	what_is_fine("relays: [{name: a, from: 'sqlite:a#jobs', to: 'null:'}, "
		     "{name: b, from: 'sqlite:a#jobs', to: 'file:b'}]\n");
}

WHERRY_TEST(all_that_is_wrong_is_told_at_once)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(64 * 1024), text = WH_BUF_INIT(64 * 1024);
	wh_plan plan;
	int lines = 0;

	for (int i = 0; i < 30; i++)
		wh_buf_printf(&text, "bad%d: 1\n", i);
	WHERRY_FAILS(WHERRY_INVALID,
		     read_text(wh_buf_str(&text), &plan, &problems, &err));
	for (const char *p = problems.ptr; (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines, 21); /* twenty, and how many more */
	assert_non_null(strstr(problems.ptr, "and 11 more"));
	wh_buf_clear(&problems);
	wh_buf_clear(&text);
}

WHERRY_TEST(a_secret_is_found_where_the_file_says)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char path[32], text[100], *out;

	assert_int_equal(setenv("WHERRY_TEST_SECRET", "s3cret", 1), 0);
	write_file(path, "line\n");
	WHERRY_PASS(wh_expand("a${env:WHERRY_TEST_SECRET}b$${x}$", &out, &err));
	assert_string_equal(out, "as3cretb${x}$");
	free(out);
	(void)snprintf(text, sizeof(text), "${file:%s}", path);
	WHERRY_PASS(wh_expand(text, &out, &err));
	assert_string_equal(out, "line");
	free(out);
	WHERRY_PASS(wh_expand("", &out, &err));
	assert_string_equal(out, "");
	free(out);
	assert_int_equal(unlink(path), 0);
	WHERRY_FAILS(WHERRY_NOTFOUND, wh_expand(text, &out, &err));
	assert_non_null(strstr(err.message, path));
	WHERRY_FAILS(WHERRY_INVALID, wh_expand("${PATH}", &out, &err));
	assert_non_null(strstr(err.message, "${env:NAME}"));
	WHERRY_FAILS(WHERRY_INVALID, wh_expand("${env:PATH", &out, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wh_expand("${credential:x}", &out, &err));
	assert_int_equal(setenv("CREDENTIALS_DIRECTORY", "/dev", 1), 0);
	WHERRY_FAILS(WHERRY_INVALID, wh_expand("${credential:null}", &out, &err));
	assert_non_null(strstr(err.message, "credential:null is empty"));
	WHERRY_FAILS(WHERRY_NOTFOUND, wh_expand("${credential:not-there}", &out, &err));
	WHERRY_FAILS(WHERRY_INVALID, wh_expand("${credential:../etc/x}", &out, &err));
	assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
}

WHERRY_TEST(no_secret_is_printed)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(4096), text = WH_BUF_INIT(64 * 1024);
	wh_plan plan;

	assert_int_equal(setenv("WHERRY_TEST_SECRET", "s3cret", 1), 0);
	WHERRY_PASS(
		read_text("http:\n"
			  "  listen: 127.0.0.1:9464\n"
			  "  token: t0ken-of-16-characters\n"
			  "relays:\n"
			  "  - name: a\n"
			  "    from: sqlite:a?password=pl4in\n"
			  "    to: 'file:x?token=${env:WHERRY_TEST_SECRET}'\n"
			  "    stream: {slot: '${env:WHERRY_TEST_SECRET}'}\n"
			  "    dead_letters: 'memory://u:hunter1@example.com/'\n"
			  "    webhook: {secret: whsec_hunter2, headers: 'A: hunter3'}\n",
			  &plan, &problems, &err));
	wh_plan_print(&plan, &text);
	assert_null(strstr(text.ptr, "hunter"));
	assert_null(strstr(text.ptr, "s3cret"));
	assert_null(strstr(text.ptr, "pl4in"));
	assert_null(strstr(text.ptr, "t0ken"));
	assert_non_null(strstr(text.ptr, "slot: \"${env:WHERRY_TEST_SECRET}\""));
	wh_plan_clear(&plan);
	wh_buf_clear(&problems);
	wh_buf_clear(&text);
}

WHERRY_TEST(what_is_printed_can_be_read_again)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(4096), text = WH_BUF_INIT(256 * 1024);
	wh_plan plan, again;

	WHERRY_PASS(read_text(RELAY ", lease: 5s, stream: {slot: 'a.b c'}}]\n", &plan,
			      &problems, &err));
	wh_plan_print(&plan, &text);
	WHERRY_PASS(read_text(wh_buf_str(&text), &again, &problems, &err));
	assert_true(wh_plan_same(&plan.relays[0], &again.relays[0]));
	wh_plan_clear(&plan);
	wh_plan_clear(&again);
	wh_buf_reset(&text);
	wh_plan_sample(&text);
	WHERRY_PASS(read_text(wh_buf_str(&text), &plan, &problems, &err));
	wh_plan_clear(&plan);
	wh_buf_clear(&problems);
	wh_buf_clear(&text);
}

WHERRY_TEST(the_sample_has_every_setting)
{
	const wherry_setting *table = wherry_config_table();
	wh_buf text = WH_BUF_INIT(256 * 1024);
	char line[100];

	wh_plan_sample(&text);
	for (size_t i = 0; table[i].key; i++) {
		(void)snprintf(line, sizeof(line),
			       "# %s: ", table[i].key + strcspn(table[i].key, ".") + 1);
		if (wh_plan_has(table[i].key) && !strstr(text.ptr, line))
			fail_msg("%s is missing", table[i].key);
	}
	wh_buf_clear(&text);
}

WHERRY_TEST(only_loopback_is_heard_without_a_token)
{
	static const struct {
		const char *text;
		bool loopback;
	} rows[] = {
		{"127.0.0.1:1", true}, {"127.9.9.9:1", true}, {"[::1]:1", true},
		{"0.0.0.0:1", false},  {"[::]:1", false},     {"192.0.2.1:1", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_int_equal(wh_listen_loopback(rows[i].text), rows[i].loopback);
}

/* So many keys are not looked at one by one, each beside all others. */
WHERRY_TEST(a_mapping_of_very_many_keys_is_one_problem)
{
	static char text[1000000];
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(64 * 1024);
	size_t n = 0;
	wh_plan plan;

	n += (size_t)snprintf(text, sizeof(text), RELAY);
	for (int i = 0; i < 40000; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, ", unknown_%d: 1", i);
	(void)snprintf(text + n, sizeof(text) - n, "}]\n");
	WHERRY_FAILS(WHERRY_INVALID, read_text(text, &plan, &problems, &err));
	assert_non_null(strstr(wh_buf_str(&problems), "a relay has more than 200 keys"));
	assert_null(strstr(wh_buf_str(&problems), "unknown"));
	assert_ptr_equal(strchr(wh_buf_str(&problems), '\n'),
			 wh_buf_str(&problems) + problems.len - 1);
	wh_buf_clear(&problems);
}

WHERRY_TEST(a_request_may_ask_for_addresses_localhost_and_names_of_the_file)
{
	static const struct {
		const char *host, *names;
		bool known;
	} rows[] = {
		{"127.0.0.1:9464", NULL, true},
		{"192.0.2.7", NULL, true},
		{"[::1]:9464", NULL, true},
		{"localhost:9464", NULL, true},
		{"LocalHost.", NULL, true},
		{"evil.example:9464", NULL, false},
		{"127.0.0.1.evil.example", NULL, false},
		{"localhost.evil.example", NULL, false},
		{"", NULL, false},
		{"[evil.example]", NULL, false},
		{"wherry.example:80", "wherry.example", true},
		{"b", "a, B ,c", true},
		{"a,", "a", false},
		{"", "a, b", false},
		{"wherry", "wherry.example", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (wh_listen_host_known(rows[i].host, rows[i].names) != rows[i].known)
			fail_msg("%s", rows[i].host);
}

/* ---- entries of cron ---- */

#define CRON "cron: [{name: n, database: 'sqlite:a', at: '@daily'"
#define TO_OUTBOX ", outbox: {topic: t}"

WHERRY_TEST(an_entry_has_a_schedule_and_a_target)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(4096);
	const wh_plan_cron *entry;
	int64_t next_us = 0;
	wh_plan plan;

	WHERRY_PASS(read_text("relays: [{name: a, from: 'sqlite:x.db#q', "
			      "to: 'null:'}]\n"
			      "defaults: {db: {busy_timeout: 7s}, batch: 3}\n"
			      "cron:\n"
			      "  - name: nightly\n"
			      "    database: a\n"
			      "    at: '30 2 * * *'\n"
			      "    zone: Europe/Berlin\n"
			      "    catch_up: last\n"
			      "    table: ticks\n"
			      "    outbox: {topic: t, key: k, headers: {A: b, C: 'd'},\n"
			      "             body: '{\"x\": 1}', table: box}\n"
			      "  - {name: q, database: 'sqlite:b.db', at: '@every 1s',\n"
			      "     db: {busy_timeout: 1s}, queue: {name: jobs}}\n"
			      "  - {name: d, database: a, at: '12:00, 18:00',\n"
			      "     delayed: {name: later}}\n",
			      &plan, &problems, &err));
	assert_int_equal(plan.n_crons, 3);
	entry = &plan.crons[0];
	assert_string_equal(entry->name, "nightly");
	assert_string_equal(entry->database.value, "sqlite:x.db");
	assert_string_equal(entry->table.value, "ticks");
	assert_int_equal(entry->catch_up, WHERRY_CATCH_UP_LAST);
	assert_int_equal(entry->to, WH_TO_OUTBOX);
	assert_string_equal(entry->headers_json, "{\"A\":\"b\",\"C\":\"d\"}");
	assert_string_equal(wh_plan_cron_field(entry, WH_TICK_TOPIC), "t");
	assert_string_equal(wh_plan_cron_field(entry, WH_TICK_TABLE), "box");
	assert_int_equal(wh_config_int(entry->config, WH_DB_BUSY_TIMEOUT), 7000000);
	WHERRY_PASS(wherry_schedule_next(entry->schedule, 0, &next_us, &err));
	assert_int_equal(next_us, 5400LL * 1000000); /* 02:30 in Berlin */
	entry = &plan.crons[1];
	assert_int_equal(entry->to, WH_TO_QUEUE);
	assert_string_equal(wh_plan_cron_field(entry, WH_TICK_NAME), "jobs");
	assert_string_equal(wh_plan_cron_field(entry, WH_TICK_BODY), "{}");
	assert_int_equal(entry->catch_up, WHERRY_CATCH_UP_NONE);
	assert_int_equal(wh_config_int(entry->config, WH_DB_BUSY_TIMEOUT), 1000000);
	entry = &plan.crons[2];
	assert_string_equal(wh_plan_cron_field(entry, WH_TICK_TABLE), "delayed");
	assert_null(wh_plan_cron_field(entry, WH_TICK_KEY));
	assert_false(wh_plan_cron_same(&plan.crons[0], &plan.crons[1]));
	assert_true(wh_plan_cron_same(&plan.crons[0], &plan.crons[0]));
	wh_plan_clear(&plan);
	wh_buf_clear(&problems);
}

WHERRY_TEST(what_is_wrong_with_an_entry_is_reported_with_its_place)
{
	static const refusal rows[] = {
		{"cron: 3\n", ":1:7:", "is a list"},
		{"cron: []\n", ":1:7:", "has no entries"},
		{"cron: [3]\n", ":1:8:", "is a mapping"},
		{"corn: []\n", ":1:1:", "did you mean 'cron'?"},
		{"cron: [{database: 'sqlite:a', at: '@daily'" TO_OUTBOX "}]\n",
		 ":1:8:", "needs a name"},
		{"cron: [{name: 'a b', database: 'sqlite:a', at: '@daily'" TO_OUTBOX
		 "}]\n",
		 ":1:15:", "letters"},
		{"cron: [{name: n, at: '@daily'" TO_OUTBOX "}]\n",
		 ":1:8:", "needs 'database'"},
		{"cron: [{name: n, database: 'sqlite:a'" TO_OUTBOX "}]\n",
		 ":1:8:", "needs 'at'"},
		{CRON "}]\n", ":1:8:", "needs a target"},
		{CRON TO_OUTBOX ", queue: {name: q}}]\n",
		 ":1:8:", "has one target, and this one has 2"},
		{CRON TO_OUTBOX
		 "}, {name: n, database: 'sqlite:b', at: '@daily'" TO_OUTBOX "}]\n",
		 ":1:82:", "another entry of cron is called 'n'"},
		{"cron: [{name: n, database: orders, at: '@daily'" TO_OUTBOX "}]\n",
		 ":1:28:", "no relay is called 'orders'"},
		{"cron: [{name: n, database: 'sqlit:a', at: '@daily'" TO_OUTBOX "}]\n",
		 ":1:28:", "did you mean 'sqlite:'?"},
		{"cron: [{name: n, database: 'sqlite:a', at: '61 * * * *'" TO_OUTBOX
		 "}]\n",
		 ":1:44:", "at: "},
		{"cron: [{name: n, database: 'sqlite:a', at: '@every 0s'" TO_OUTBOX
		 "}]\n",
		 ":1:44:", "at: "},
		{CRON ", zone: Europe/Berlim" TO_OUTBOX "}]\n", ":1:60:", "zone: "},
		{CRON ", zone: Europe/Berlim" TO_OUTBOX "}]\n",
		 ":1:60:", "Europe/Berlin"},
		{"cron: [{name: n, database: 'sqlite:a', at: '@every 1h', zone: "
		 "Europe/Berlin" TO_OUTBOX "}]\n",
		 ":1:63:", "the same in every time zone"},
		{CRON ", catch_up: some" TO_OUTBOX "}]\n",
		 ":1:64:", "write none, last or all"},
		{CRON ", catchup: all" TO_OUTBOX "}]\n",
		 ":1:54:", "did you mean 'catch_up'?"},
		{CRON ", table: 'a b'" TO_OUTBOX "}]\n", ":1:61:", "table: "},
		{CRON ", outbox: t}]\n", ":1:62:", "outbox is a mapping"},
		{CRON ", outbox: {}}]\n", ":1:62:", "outbox needs 'topic'"},
		{CRON ", outbox: {topic: ''}}]\n", ":1:70:", "outbox needs 'topic'"},
		{CRON ", outbox: {topik: t}}]\n", ":1:63:", "did you mean 'topic'?"},
		{CRON ", outbox: {topic: t, table: '1x'}}]\n", ":1:80:", "table: "},
		{CRON ", outbox: {topic: t, headers: x}}]\n",
		 ":1:82:", "headers is a mapping"},
		{CRON ", outbox: {topic: t, headers: {a: [b]}}}]\n",
		 ":1:86:", "this is a list"},
		{CRON ", outbox: {topic: t, body: {a: b}}}]\n",
		 ":1:79:", "this is a mapping"},
		{CRON ", queue: {body: x}}]\n", ":1:61:", "queue needs 'name'"},
		{CRON ", queue: {name: q, topic: t}}]\n",
		 ":1:71:", "unknown key 'topic'"},
		{CRON ", queue: {name: '${env:WHERRY_NOT_THERE}'}}]\n",
		 ":1:68:", "WHERRY_NOT_THERE is not set"},
		{CRON ", delayed: {type: x}}]\n", ":1:63:", "delayed needs 'name'"},
		{CRON ", delayed: {name: d, headers: {}}}]\n",
		 ":1:73:", "unknown key 'headers'"},
		{CRON ", delayed: {name: d, key: ''}}]\n", ":1:78:", "key"},
		{CRON ", db: {busy_timeot: 1s}" TO_OUTBOX "}]\n",
		 ":1:59:", "did you mean 'busy_timeout'?"},
		{CRON ", db: {busy_timeout: 1}" TO_OUTBOX "}]\n",
		 ":1:73:", "db.busy_timeout"},
	};
	char text[1000], topic[300];
	refusal too_long = {text, ":1:70:", "topic is 256 bytes"};

	check_refusals(rows, sizeof(rows) / sizeof(*rows));
	memset(topic, 'x', 256);
	topic[256] = 0;
	(void)snprintf(text, sizeof(text), CRON ", outbox: {topic: %s}}]\n", topic);
	check_refusals(&too_long, 1);
}

WHERRY_TEST(entries_that_can_work_are_not_refused)
{
	what_is_fine(CRON TO_OUTBOX "}]\n");
	what_is_fine(CRON TO_OUTBOX "}, {name: m, database: 'sqlite:a', at: "
				    "'@every 1ms'" TO_OUTBOX "}]\n");
	what_is_fine(RELAY "}]\n" CRON ", delayed: {name: d, key: k, type: x}}]\n");
}

WHERRY_TEST(an_entry_that_is_printed_can_be_read_again)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(4096), text = WH_BUF_INIT(256 * 1024);
	wh_plan plan, again;

	assert_int_equal(setenv("WHERRY_TEST_SECRET", "s3cret", 1), 0);
	WHERRY_PASS(read_text(
		RELAY "}]\n"
		      "cron:\n"
		      "  - {name: n, database: a, at: '*/5 * * * *', zone: Asia/Tokyo, "
		      "table: c, catch_up: all, db: {busy_timeout: 2s},\n"
		      "     outbox: {topic: 'a b', body: \"{\\\"x\\\": 1}\\n\", "
		      "headers: {'x y': '${env:WHERRY_TEST_SECRET}', e: ''}}}\n"
		      "  - {name: m, database: 'sqlite:b?password=pl4in', at: '@daily',\n"
		      "     delayed: {name: d, key: k, type: t, table: x}}\n",
		&plan, &problems, &err));
	wh_plan_print(&plan, &text);
	assert_null(strstr(text.ptr, "s3cret"));
	assert_null(strstr(text.ptr, "pl4in"));
	WHERRY_PASS(read_text(wh_buf_str(&text), &again, &problems, &err));
	assert_int_equal(again.n_crons, 2);
	assert_true(wh_plan_cron_same(&plan.crons[0], &again.crons[0]));
	assert_string_equal(again.crons[1].field[WH_TICK_KEY].value, "k");
	wh_plan_clear(&plan);
	wh_plan_clear(&again);
	wh_buf_clear(&problems);
	wh_buf_clear(&text);
}

/* Read an entry whose zone Test/Zone is this zone of the system's tz database. */
static void read_zone(const wherry_temp *folder, const char *zone, wh_plan *plan)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(4096);
	char target[200];

	(void)snprintf(target, sizeof(target), "/usr/share/zoneinfo/%s", zone);
	(void)unlink(folder->path);
	assert_int_equal(symlink(target, folder->path), 0);
	WHERRY_PASS(read_text("cron: [{name: n, database: 'sqlite:a', at: '@daily', "
			      "zone: Zone, queue: {name: q}}]\n",
			      plan, &problems, &err));
	wh_buf_clear(&problems);
}

WHERRY_TEST(an_entry_whose_zone_has_new_rules_is_another_one)
{
	wh_plan old, same, changed;
	wherry_temp folder;

	(void)wherry_temp_make(&folder, "Zone");
	assert_int_equal(setenv("TZDIR", folder.dir, 1), 0);
	read_zone(&folder, "Etc/GMT-2", &old);
	read_zone(&folder, "Etc/GMT-2", &same);
	read_zone(&folder, "Etc/GMT-3", &changed);
	assert_true(wh_plan_cron_same(&old.crons[0], &same.crons[0]));
	assert_false(wh_plan_cron_same(&old.crons[0], &changed.crons[0]));
	assert_int_equal(unsetenv("TZDIR"), 0);
	wh_plan_clear(&old);
	wh_plan_clear(&same);
	wh_plan_clear(&changed);
	wherry_temp_clear(&folder);
}

WHERRY_TEST_MAIN
