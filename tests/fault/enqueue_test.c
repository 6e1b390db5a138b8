/*
 * `wherry enqueue` of lines of JSON, with each call that it makes failing in turn: it
 * fails and nothing is enqueued, or succeeds and all is, with key, id and headers.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include <wherry/wherry.h>

#include "cli/commands.h"
#include "fault.h"

enum { LINES = 4, SAID = 4096 };

static const char lines[] = "{\"id\": \"m1\", \"net\": \"us\"}\n"
			    "{\"id\": \"m2\", \"net\": \"\\u00e4\"}\n"
			    "\n"
			    "{\"id\": \"m3\", \"net\": 3}\n"
			    "{\"id\": \"m4\", \"net\": \"us\"}\n";

typedef struct shop {
	wherry_temp temp;
	char url[160], file[160];
	char said[SAID]; /* on standard error */
	int kept[2];     /* our standard output and error, meanwhile */
	int into;        /* what stands for them */
} shop;

static shop the_shop;

/* ---- the command ---- */

/* Linked in the place of wh_db_open_own(): what a command opens may fail as well. */
wherry_code __wrap_wh_db_open_own(const char *url, const wherry_config *config,
				  wherry_db **out, wherry_error *err);

wherry_code __wrap_wh_db_open_own(const char *url, const wherry_config *config,
				  wherry_db **out, wherry_error *err)
{
	wh_db_options options = wh_db_options_of(config, fault_env);

	return wh_db_open(url, &options, out, err);
}

static void mute(shop *s)
{
	(void)fflush(NULL);
	for (int i = 0; i < 2; i++)
		s->kept[i] = dup(STDOUT_FILENO + i);
	assert_int_equal(ftruncate(s->into, 0), 0);
	assert_int_equal(lseek(s->into, 0, SEEK_SET), 0);
	for (int i = 0; i < 2; i++)
		assert_true(dup2(s->into, STDOUT_FILENO + i) >= 0);
}

static void unmute(shop *s)
{
	ssize_t n;

	(void)fflush(NULL);
	for (int i = 0; i < 2; i++) {
		assert_true(dup2(s->kept[i], STDOUT_FILENO + i) >= 0);
		(void)close(s->kept[i]);
	}
	n = pread(s->into, s->said, SAID - 1, 0);
	s->said[n > 0 ? n : 0] = 0;
}

static wh_exit enqueue(const shop *s)
{
	enum { WORDS = 12 };
	const char *const words[WORDS] = {s->url,  "--topic",  "quakes",  "--from",
					  s->file, "--key",    "/net",    "--id",
					  "/id",   "--header", "unit=km", "--lines"};
	char text[WORDS][sizeof(s->url)], *argv[WORDS];
	wh_exit status = WH_EXIT_USAGE;
	wh_args args;

	for (int i = 0; i < WORDS; i++) {
		(void)snprintf(text[i], sizeof(text[i]), "%s", words[i]);
		argv[i] = text[i];
	}
	if (wh_args_parse(&wh_cmd_enqueue, WORDS, argv, &args))
		status = wh_run_for_kind(&args);
	wh_args_clear(&args);
	return status;
}

/* ---- the database ---- */

static void run_sql(const shop *s, const char *sql)
{
	sqlite3 *handle = NULL;

	assert_int_equal(sqlite3_open(s->temp.path, &handle), SQLITE_OK);
	assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

static int number(const shop *s, const char *sql)
{
	sqlite3 *handle = NULL;
	sqlite3_stmt *stmt = NULL;
	int n;

	assert_int_equal(sqlite3_open(s->temp.path, &handle), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	n = sqlite3_column_int(stmt, 0);
	assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
	return n;
}

static int make_shop(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;
	shop *s = &the_shop;
	FILE *file;

	*state = s;
	fault_rewind();
	s->into = memfd_create("said", MFD_CLOEXEC);
	assert_true(s->into >= 0);
	(void)snprintf(s->url, sizeof(s->url), "sqlite:%s",
		       wherry_temp_make(&s->temp, "shop.db"));
	(void)snprintf(s->file, sizeof(s->file), "%.60s/lines", s->temp.dir);
	file = fopen(s->file, "we");
	assert_non_null(file);
	assert_true(fputs(lines, file) >= 0 && fclose(file) == 0);
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.create", "on", &err));
	WHERRY_PASS(wherry_db_open(s->url, config, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	wherry_db_close(db);
	wherry_config_free(config);
	return 0;
}

static int drop_shop(void **state)
{
	shop *s = *state;

	(void)close(s->into);
	wherry_temp_clear(&s->temp);
	return 0;
}

/* ---- the tests ---- */

#define CHECK(condition, ...)                                                            \
	do {                                                                             \
		if (!(condition)) {                                                      \
			print_error("failed %s: %s", fault_where(), s->said);            \
			fail_msg(__VA_ARGS__);                                           \
		}                                                                        \
	} while (0)

static void check(shop *s, const fault_plan *plan, wh_exit status)
{
	int n = number(s, "SELECT count(*) FROM outbox");
	int whole = number(s, "SELECT count(*) FROM outbox WHERE topic = 'quakes' AND "
			      "headers = '{\"unit\":\"km\"}' AND partition_key = "
			      "CASE message_id WHEN 'm2' THEN char(228) WHEN 'm3' THEN "
			      "'3' ELSE 'us' END AND payload LIKE '{\"id\": \"' || "
			      "message_id || '\", %'");

	CHECK(n == whole, "%d messages, but only %d are whole", n, whole);
	if (status == WH_EXIT_DONE) {
		CHECK(n == LINES, "%d are enqueued, and it succeeded", n);
		return;
	}
	CHECK(fault_hit(), "it failed without a fault");
	CHECK(!n || (plan->kind == FAULT_ANSWER && n == LINES),
	      "%d are enqueued, though it failed", n);
	CHECK(strstr(s->said, "wherry: "), "it failed without a word");
	CHECK(!n || !strstr(s->said, "nothing was enqueued"), "it says nothing was");
}

static void sweep(shop *s, fault_plan plan)
{
	int stride = plan.kind == FAULT_MEMORY ? fault_stride(53, 17) : 1;
	int tries = 0;

	for (;; plan.at += stride) {
		wh_exit status;

		run_sql(s, "DELETE FROM outbox");
		mute(s);
		fault_arm(plan);
		status = enqueue(s);
		fault_disarm();
		unmute(s);
		check(s, &plan, status);
		if (!fault_hit())
			break;
		tries++;
	}
	assert_true(tries > 5);
}

WHERRY_TEST(a_database_call_that_fails_enqueues_nothing)
{
	sweep(*state, (fault_plan){FAULT_DATABASE, 1, 1, WHERRY_BUSY});
	sweep(*state, (fault_plan){FAULT_DATABASE, 1, FAULT_ALL, WHERRY_IO});
}

WHERRY_TEST(an_answer_that_is_lost_is_not_told_as_nothing_done)
{
	sweep(*state, (fault_plan){FAULT_ANSWER, 1, 1, WHERRY_INDOUBT});
}

WHERRY_TEST(an_allocation_that_fails_takes_no_part_of_a_message)
{
	sweep(*state, (fault_plan){FAULT_MEMORY, 1, 1, WHERRY_NOMEM});
	sweep(*state, (fault_plan){FAULT_MEMORY, 1, FAULT_ALL, WHERRY_NOMEM});
	sweep(*state, (fault_plan){FAULT_OWN_MEMORY, 1, 1, WHERRY_NOMEM});
}

int main(void)
{
	fault_set_up();
	cmocka_set_test_filter(getenv("WHERRY_ONLY"));
	return wherry_run_tests(make_shop, drop_shop);
}
