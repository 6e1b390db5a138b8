/*
 * Which process wrote a text, and whether it is still there.
 */
#include "base/process.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wherry_test.h"

WHERRY_TEST(this_process_lives)
{
	char who[WH_PROCESS_LEN];

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

WHERRY_TEST(a_killed_process_has_ended_before_its_parent_asks)
{
	char who[WH_PROCESS_LEN];
	pid_t pid = child(who);
	siginfo_t info;

	assert_int_equal(wh_process_look(who), WH_PROCESS_LIVES);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(wh_process_look(who), WH_PROCESS_ENDED);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(wh_process_look(who), WH_PROCESS_ENDED);
}

WHERRY_TEST(another_process_with_the_same_id_is_another)
{
	char who[WH_PROCESS_LEN];
	char *last;

	wh_process_self(who);
	last = who + strlen(who) - 1;
	*last = *last == '1' ? '2' : '1'; /* began at another time */
	assert_int_equal(wh_process_look(who), WH_PROCESS_ENDED);
}

/* Another machine, or another boot; another container; another clock. */
WHERRY_TEST(a_process_of_another_place_is_not_known)
{
	char who[WH_PROCESS_LEN], pids[WH_PROCESS_LEN], times[WH_PROCESS_LEN];
	char *colon;

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

WHERRY_TEST(a_text_that_names_no_process_is_not_known)
{
	static const char *const tails[] = {
		"", "1", ":", "1:", ":1", "-1:5", "x:5", "99999999999:5", "1:x", "0:1"};
	char who[WH_PROCESS_LEN], text[2 * WH_PROCESS_LEN];
	char *at;

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

WHERRY_TEST_MAIN
