/*
 * An SQLite file is replaced or deleted under a running relay.
 */
#include "relay_suite.h"

#include <sys/stat.h>
#include <unistd.h>

#include "outbox/outbox.h"

static void beside(const relay_fixture *f, const char *file, char *out, size_t cap)
{
	(void)snprintf(out, cap, "%s/%s", f->temp.dir, file);
}

/* Another database, whose outbox has three messages. */
static void make_next(relay_fixture *f, const char *file)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char path[200], url[240];
	wherry_db *db = NULL;

	beside(f, file, path, sizeof(path));
	(void)snprintf(url, sizeof(url), "sqlite:%s", path);
	WHERRY_PASS(wherry_db_open(url, f->config, &db, &err));
	WHERRY_PASS(wh_outbox_make(db, &(wh_make){.layout = "log"}, "outbox", &err));
	WHERRY_PASS(wh_db_script(db,
				 "INSERT INTO outbox(topic, payload) "
				 "VALUES ('t', '{}'), ('t', '{}'), ('t', '{}')",
				 &err));
	wherry_db_close(db);
}

static void producers_leave(relay_fixture *f)
{
	wherry_outbox_close(f->outbox);
	wherry_db_close(f->other);
	f->outbox = NULL;
	f->other = NULL;
}

static void producers_return(relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_open(f->url, f->config, &f->other, &err));
	WHERRY_PASS(wherry_outbox_open(f->other, "outbox", &f->outbox, &err));
}

static void remove_file(const relay_fixture *f, const char *file)
{
	char path[200];

	beside(f, file, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
}

static void remove_log(const relay_fixture *f)
{
	remove_file(f, "shop.db-wal");
	remove_file(f, "shop.db-shm");
}

static void move(const relay_fixture *f, const char *from, const char *to)
{
	char old[200], now[200];

	beside(f, from, old, sizeof(old));
	beside(f, to, now, sizeof(now));
	assert_int_equal(rename(old, now), 0);
}

static void put_next_in_place(const relay_fixture *f)
{
	move(f, "next.db", "shop.db");
}

static void make_folder(const relay_fixture *f, const char *name)
{
	char path[200];

	beside(f, name, path, sizeof(path));
	assert_int_equal(mkdir(path, 0700), 0);
}

/* A relay that has delivered two messages and sleeps, with the next file ready. */
static void deliver_two(relay_fixture *f)
{
	relay_hourly(f);
	make_next(f, "next.db");
	relay_put(f, "ab");
	relay_start_by_url(f, &f->a);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 2);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	producers_leave(f);
}

static void expect_next_delivered(relay_fixture *f)
{
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 5);
	producers_return(f);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	assert_true(relay_logged(f, "event=database-replaced"));
	assert_true(relay_logged(f, "event=database-reopened"));
	relay_put(f, "c");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	assert_int_equal(relay_stats(&f->a).delivered, 6);
}

WHERRY_CASE(the_messages_of_a_file_that_replaces_the_open_one_are_delivered,
	    relay_fixture *f)
{
	deliver_two(f);
	remove_log(f);
	put_next_in_place(f);
	expect_next_delivered(f);
}

WHERRY_CASE(a_relay_whose_file_is_deleted_says_so_and_waits_for_another, relay_fixture *f)
{
	char path[200];

	deliver_two(f);
	beside(f, "shop.db", path, sizeof(path));
	remove_log(f);
	remove_file(f, "shop.db");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_logged(f, "event=database-replaced"));
	assert_true(relay_logged(f, "shop.db: the file was deleted or moved away"));
	for (int i = 0; i < 5; i++)
		relay_turn_asleep(f, &f->a, relay_deadline(), "turns", __LINE__,
				  __FILE__);
	assert_true(relay_logged(f, "shop.db: no such file"));
	assert_int_not_equal(access(path, F_OK), 0); /* the relay makes no file */
	put_next_in_place(f);
	expect_next_delivered(f);
}

WHERRY_CASE(a_relay_whose_file_is_deleted_can_be_stopped, relay_fixture *f)
{
	deliver_two(f);
	remove_log(f);
	remove_file(f, "shop.db");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_logged(f, "event=database-replaced"));
	relay_stop(f, &f->a);
	put_next_in_place(f);
}

/* SQLite would write the old log into the new file. */
WHERRY_CASE(a_new_file_beside_the_old_log_is_not_opened, relay_fixture *f)
{
	deliver_two(f);
	put_next_in_place(f);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_logged(f, "event=database-replaced"));
	for (int i = 0; i < 5; i++)
		relay_turn_asleep(f, &f->a, relay_deadline(), "turns", __LINE__,
				  __FILE__);
	assert_true(relay_logged(f, "shop.db-wal belongs to the old file"));
	assert_false(relay_logged(f, "event=database-reopened"));
	remove_log(f);
	expect_next_delivered(f);
}

/* The folder's events say nothing of a folder above it; a renewal looks. */
WHERRY_CASE(a_renewal_notices_that_the_folder_is_another_one, relay_fixture *f)
{
	deliver_two(f);
	relay_stop(f, &f->a);
	relay_set(f, "relay.idle_interval", "20ms");
	make_folder(f, "deep");
	make_folder(f, "deep/er");
	make_folder(f, "other");
	make_folder(f, "other/er");
	make_next(f, "deep/er/shop.db");
	make_next(f, "other/er/shop.db");
	(void)snprintf(f->url, sizeof(f->url), "sqlite:%s/deep/er/shop.db", f->temp.dir);
	relay_start_by_url(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 3);
	move(f, "deep", "gone");
	move(f, "other", "deep");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 6);
	producers_return(f);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
}

static void point(const relay_fixture *f, const char *link, const char *to)
{
	char path[200], next[200];

	beside(f, link, path, sizeof(path));
	beside(f, "next", next, sizeof(next));
	assert_int_equal(symlink(to, next), 0);
	assert_int_equal(rename(next, path), 0);
}

/* Links to the file, and to a folder above it, as absolute and as relative paths. */
WHERRY_CASE(a_link_in_the_path_that_is_pointed_elsewhere_is_noticed, relay_fixture *f)
{
	static const struct {
		const char *path, *link, *first, *second;
		bool relative;
	} cases[] = {
		{"file.db", "file.db", "one/shop.db", "two/shop.db", false},
		{"current/shop.db", "current", "one", "two", false},
		{"current/shop.db", "current", "one", "two", true},
	};
	char before[300];

	assert_non_null(getcwd(before, sizeof(before)));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		relay_fresh(f);
		producers_leave(f);
		relay_set(f, "relay.idle_interval", "20ms");
		make_folder(f, "one");
		make_folder(f, "two");
		make_next(f, "one/shop.db");
		make_next(f, "two/shop.db");
		point(f, cases[i].link, cases[i].first);
		if (cases[i].relative)
			assert_int_equal(chdir(f->temp.dir), 0);
		(void)snprintf(f->url, sizeof(f->url), "sqlite:%s%s%s",
			       cases[i].relative ? "" : f->temp.dir,
			       cases[i].relative ? "" : "/", cases[i].path);
		relay_start_by_url(f, &f->a);
		RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 3);
		point(f, cases[i].link, cases[i].second);
		RELAY_ASLEEP_UNTIL(f, &f->a, relay_stats(&f->a).delivered == 6);
		assert_true(relay_logged(f, "event=database-replaced"));
		producers_return(f);
		RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
		relay_stop(f, &f->a);
		assert_int_equal(chdir(before), 0);
	}
}

static const relay_test file_tests[] = {
	RELAY_TEST(the_messages_of_a_file_that_replaces_the_open_one_are_delivered, 0),
	RELAY_TEST(a_relay_whose_file_is_deleted_says_so_and_waits_for_another, 0),
	RELAY_TEST(a_relay_whose_file_is_deleted_can_be_stopped, 0),
	RELAY_TEST(a_new_file_beside_the_old_log_is_not_opened, 0),
	RELAY_TEST(a_renewal_notices_that_the_folder_is_another_one, 0),
	RELAY_TEST(a_link_in_the_path_that_is_pointed_elsewhere_is_noticed, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target target = {
		.name = "file",
		.url = "sqlite:",
		.in_file = true,
		.is = RELAY_OTHERS,
		.own = file_tests,
		.own_only = true,
	};

	return relay_suite(&target, 1);
}
