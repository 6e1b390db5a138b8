/*
 * Which process wrote a text, and whether it is still there.
 */
#include "base/process.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wherry_test.h"

static void this_process_lives(void **state)
{
	char who[WH_PROCESS_LEN];

	(void)state;
	wh_process_self(who);
	assert_true(*who);
	assert_int_equal(wh_process_look(who), WH_PROCESS_LIVES);
}

/* A child that says who it is and then waits. */
static pid_t child(char who[WH_PROCESS_LEN])
{
	int ends[2];
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char self[WH_PROCESS_LEN];

		wh_process_self(self);
		n = write(ends[1], self, sizeof(self));
		while (n > 0)
			(void)pause();
		_exit(1);
	}
	n = read(ends[0], who, WH_PROCESS_LEN);
	assert_int_equal(n, WH_PROCESS_LEN);
	(void)close(ends[0]);
	(void)close(ends[1]);
	return pid;
}

static void a_killed_process_has_ended_before_its_parent_asks(void **state)
{
	char who[WH_PROCESS_LEN];
	pid_t pid = child(who);
	siginfo_t info;

	(void)state;
	assert_int_equal(wh_process_look(who), WH_PROCESS_LIVES);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(wh_process_look(who), WH_PROCESS_ENDED);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(wh_process_look(who), WH_PROCESS_ENDED);
}

static void another_process_with_the_same_id_is_another(void **state)
{
	char who[WH_PROCESS_LEN];
	char *last;

	(void)state;
	wh_process_self(who);
	last = who + strlen(who) - 1;
	*last = *last == '1' ? '2' : '1'; /* began at another time */
	assert_int_equal(wh_process_look(who), WH_PROCESS_ENDED);
}

/* Another machine, or another boot; another container; another clock. */
static void a_process_of_another_place_is_not_known(void **state)
{
	char who[WH_PROCESS_LEN], pids[WH_PROCESS_LEN], times[WH_PROCESS_LEN];
	char *colon;

	(void)state;
	wh_process_self(who);
	(void)snprintf(pids, sizeof(pids), "%s", who);
	colon = strchr(pids, ':');
	colon[1] = colon[1] == '1' ? '2' : '1';
	assert_int_equal(wh_process_look(pids), WH_PROCESS_UNKNOWN);
	(void)snprintf(times, sizeof(times), "%s", who);
	colon = strchr(strchr(times, ':') + 1, ':');
	colon[1] = colon[1] == '1' ? '2' : '1';
	assert_int_equal(wh_process_look(times), WH_PROCESS_UNKNOWN);
	*who = *who == 'a' ? 'b' : 'a';
	assert_int_equal(wh_process_look(who), WH_PROCESS_UNKNOWN);
}

static void a_text_that_names_no_process_is_not_known(void **state)
{
	static const char *const tails[] = {
		"", "1", ":", "1:", ":1", "-1:5", "x:5", "99999999999:5", "1:x", "0:1"};
	char who[WH_PROCESS_LEN], text[2 * WH_PROCESS_LEN];
	char *at;

	(void)state;
	assert_int_equal(wh_process_look(""), WH_PROCESS_UNKNOWN);
	assert_int_equal(wh_process_look("me@host:42"), WH_PROCESS_UNKNOWN);
	wh_process_self(who);
	at = who;
	for (int i = 0; i < 3; i++)
		at = strchr(at, ':') + 1;
	*at = 0;
	for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
		(void)snprintf(text, sizeof(text), "%s%s", who, tails[i]);
		assert_int_equal(wh_process_look(text), WH_PROCESS_UNKNOWN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(this_process_lives),
		cmocka_unit_test(a_killed_process_has_ended_before_its_parent_asks),
		cmocka_unit_test(another_process_with_the_same_id_is_another),
		cmocka_unit_test(a_process_of_another_place_is_not_known),
		cmocka_unit_test(a_text_that_names_no_process_is_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
