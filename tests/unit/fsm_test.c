#include "wherry_test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/fsm.h"
#include "base/log.h"

enum { IDLE, CLAIMED, SENT };

static const wh_fsm_state states[] = {
	[IDLE] = {"idle", WH_BIT(CLAIMED)},
	[CLAIMED] = {"claimed", WH_BIT(SENT) | WH_BIT(IDLE)},
	[SENT] = {"sent", WH_BIT(IDLE)},
};

static char last_line[512];
static wherry_log_level last_level;

static void keep(void *ctx, const wherry_log_record *record)
{
	wh_buf line = WH_BUF_INIT(sizeof(last_line));

	last_level = record->level;
	wh_log_fields(&line, record);
	(void)snprintf(last_line, sizeof(last_line), "%.20s: %.400s", record->part,
		       wh_buf_str(&line));
	wh_buf_clear(&line);
}

static const wh_env env = {.log = keep};

WHERRY_TEST(an_allowed_move_happens_and_is_logged)
{
	wh_fsm fsm = {states, "relay", IDLE};

	wh_fsm_move(&fsm, CLAIMED, &env, "work");
	assert_int_equal(fsm.state, CLAIMED);
	assert_int_equal(last_level, WHERRY_LOG_DEBUG);
	assert_string_equal(last_line,
			    "relay: event=state from=idle to=claimed why=work");
	wh_fsm_move(&fsm, SENT, &env, "all sent");
	wh_fsm_move(&fsm, IDLE, &env, "acknowledged");
	assert_int_equal(fsm.state, IDLE);
}

WHERRY_TEST(a_move_needs_no_log)
{
	static const wh_env silent = {0};
	wh_fsm fsm = {states, "relay", IDLE};

	wh_fsm_move(&fsm, CLAIMED, &silent, "work");
	assert_int_equal(fsm.state, CLAIMED);
}

/* The signal that a move from one state to another ends the program with; 0: none. */
static int signal_of(int from, int to)
{
	int status = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		wh_fsm fsm = {states, "relay", from};
		struct rlimit none = {0, 0};

		(void)setrlimit(RLIMIT_CORE, &none);
		(void)signal(SIGABRT, SIG_DFL);
		wh_fsm_move(&fsm, to, &env, "test");
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

WHERRY_TEST(a_move_that_is_not_in_the_table_aborts)
{
	assert_int_equal(signal_of(IDLE, CLAIMED), 0);
	assert_int_equal(signal_of(IDLE, SENT), SIGABRT);
	assert_int_equal(signal_of(SENT, CLAIMED), SIGABRT);
	assert_int_equal(signal_of(IDLE, IDLE), SIGABRT);
}

WHERRY_TEST_MAIN
