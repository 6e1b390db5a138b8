/*
 * Dead letters: a message is dead once another destination has taken it, and is not lost
 * where that does not.
 *
 * That destination is a command which does what the file `how` says, in a folder of its own.
 */
#include "relay_suite.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct outbox {
	wherry_temp temp;
	char path[128];
} outbox;

static const char *in_box(outbox *b, const char *name)
{
	(void)snprintf(b->path, sizeof(b->path), "%s/%s", b->temp.dir, name);
	return b->path;
}

/* What becomes of letters from now on; shell. */
static void letters_do(outbox *b, const char *how)
{
	FILE *file = fopen(in_box(b, "how.new"), "we");
	char to[128];

	assert_non_null(file);
	assert_true(fprintf(file, "%s\n", how) > 0);
	assert_int_equal(fclose(file), 0);
	(void)snprintf(to, sizeof(to), "%s/how", b->temp.dir);
	assert_int_equal(rename(in_box(b, "how.new"), to), 0);
}

static const char taken[] = "echo \"$WHERRY_ID\" >>letters; "
			    "printf '%s\\n' \"$WHERRY_HEADERS\" >>headers; cat >>bodies";

static void use_letters(relay_fixture *f, outbox *b, const char *how)
{
	char url[128];

	(void)wherry_temp_make(&b->temp, "x");
	letters_do(b, how);
	(void)snprintf(url, sizeof(url), "exec:cd %s && . ./how", b->temp.dir);
	relay_set(f, "relay.dead_letters", url);
}

/* All that is in one of its files. */
static const char *in_file(outbox *b, const char *name)
{
	static char text[8192];
	int fd = open(in_box(b, name), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		(void)close(fd);
	text[n > 0 ? n : 0] = 0;
	return text;
}

static bool letters_are(outbox *b, const char *ids)
{
	return strcmp(in_file(b, "letters"), ids) == 0;
}

/* At least one, of message 1 alone: where the clock jumps a command may be killed that has
 * taken its letter already. */
static bool letters_are_of_1(outbox *b)
{
	const char *text = in_file(b, "letters");
	size_t n = 0;

	while (strncmp(text + 2 * n, "1\n", 2) == 0)
		n++;
	return n && !text[2 * n];
}

static int64_t with_error(relay_fixture *f, const char *like)
{
	char sql[200];

	(void)snprintf(sql, sizeof(sql),
		       "SELECT count(*) FROM outbox WHERE last_error LIKE '%s'", like);
	return relay_number(f, sql);
}

/* ---- taken ---- */

WHERRY_CASE(a_dead_message_leaves_a_letter_that_says_why, relay_fixture *f)
{
	outbox b;
	json_t *headers;

	use_letters(f, &b, taken);
	relay_answers(f, 2, WHERRY_REJECTED, -1);
	relay_put(f, "aaa-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	RELAY_UNTIL(f, &f->a, relay_state(f, 2) == WHERRY_DEAD);
	assert_true(letters_are(&b, "2\n"));
	assert_string_equal(in_file(&b, "bodies"), "{}");
	headers = json_loads(in_file(&b, "headers"), 0, NULL);
	assert_non_null(headers);
#define HEADER(name) json_string_value(json_object_get(headers, name))
	assert_string_equal(HEADER("wherry-dead-topic"), "t");
	assert_string_equal(HEADER("wherry-dead-key"), "a");
	assert_string_equal(HEADER("wherry-dead-attempts"), "1");
	assert_string_equal(HEADER("wherry-dead-error"), "the test said so");
	assert_int_equal(strlen(HEADER("wherry-dead-id")), 36);
	assert_int_equal(strlen(HEADER("wherry-dead-time")), 24);
	assert_non_null(strstr(HEADER("wherry-dead-outbox"), "outbox"));
	json_decref(headers);
	assert_int_equal(with_error(f, "the test said so"), 1);
	assert_int_equal(relay_attempts(f, 2), 1);
	relay_check_order(f);
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(a_letter_is_written_once_attempts_are_used_up, relay_fixture *f)
{
	outbox b;

	use_letters(f, &b, taken);
	relay_set(f, "retry.attempts", "3");
	relay_answers(f, 1, WHERRY_RETRY, -1);
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	assert_int_equal(relay_told(f, 1, WHERRY_RETRY), 3);
	assert_true(letters_are(&b, "1\n"));
	assert_non_null(strstr(in_file(&b, "headers"), "\"wherry-dead-attempts\":\"3\""));
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(a_message_is_not_dead_before_its_letter_is_taken, relay_fixture *f)
{
	outbox b;
	int fifo;

	use_letters(f, &b, "read x <fifo; echo $WHERRY_ID >>letters");
	assert_int_equal(mkfifo(in_box(&b, "fifo"), 0600), 0);
	fifo = open(in_box(&b, "fifo"), O_RDWR | O_CLOEXEC);
	assert_true(fifo >= 0);
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "aab-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_quiet(f, &f->a);
	assert_int_not_equal(relay_state(f, 1), WHERRY_DEAD);
	assert_int_equal(relay_told(f, 2, WHERRY_DELIVERED), 0);
	assert_int_equal(write(fifo, "\n", 1), 1);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	assert_true(letters_are(&b, "1\n"));
	(void)close(fifo);
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(a_key_is_parked_once_the_letter_is_taken, relay_fixture *f)
{
	outbox b;

	use_letters(f, &b, taken);
	relay_set(f, "relay.on_dead", "park");
	relay_answers(f, 1, WHERRY_REJECTED, 1);
	relay_put(f, "aab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_quiet(f, &f->a);
	assert_int_equal(relay_stats(&f->a).parked_keys, 1);
	relay_retry(f, 0);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	assert_true(letters_are(&b, "1\n"));
	relay_check_order(f);
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(what_cannot_be_sent_at_all_leaves_a_letter, relay_fixture *f)
{
	char sql[256];
	outbox b;

	use_letters(f, &b, taken);
	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO outbox(topic, partition_key, payload) "
		       "VALUES (%s, 'a', '{}')",
		       f->target->a_nul);
	relay_sql(f, sql);
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	assert_int_equal(relay_state(f, 1), WHERRY_DEAD);
	assert_non_null(strstr(in_file(&b, "headers"), "topic has a NUL character"));
	assert_non_null(strstr(in_file(&b, "headers"), "\"wherry-dead-attempts\":\"0\""));
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(headers_that_are_none_are_kept_in_the_letter, relay_fixture *f)
{
	outbox b;

	use_letters(f, &b, taken);
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_sql(f, "INSERT INTO outbox(topic, headers, payload) "
		     "VALUES ('t', '[\"no\"]', '{}')");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	assert_non_null(strstr(in_file(&b, "headers"),
			       "{\"wherry-dead-headers\":\"[\\\"no\\\"]\","));
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(the_messages_own_headers_go_along, relay_fixture *f)
{
	outbox b;

	use_letters(f, &b, taken);
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_answers(f, 2, WHERRY_REJECTED, -1);
	relay_sql(f, "INSERT INTO outbox(topic, headers, payload) VALUES "
		     "('t', ' {\"x\" : \"{\" } ', '{}'), ('t', '{ }', '{}')");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 2);
	assert_non_null(strstr(in_file(&b, "headers"),
			       "{\"x\" : \"{\",\"wherry-dead-topic\":\"t\","));
	assert_non_null(strstr(in_file(&b, "headers"), "{\"wherry-dead-topic\":\"t\","));
	wherry_temp_clear(&b.temp);
}

/* ---- not taken ---- */

/* A destination that asks for an hour's patience with each message. */
static const wherry_message *to_answer;

static wherry_code busy_open(const char *rest, const wherry_config *config,
			     void **out_state, wherry_error *err)
{
	*out_state = &to_answer;
	return WHERRY_OK;
}

static void busy_close(void *state)
{
	to_answer = NULL;
}

static wherry_code busy_submit(void *state, const wherry_message *const *messages,
			       size_t n, size_t *out_taken, wherry_error *err)
{
	*out_taken = !to_answer;
	to_answer = messages[0];
	return WHERRY_OK;
}

static wherry_code busy_collect(void *state, wherry_receipt *out, size_t cap,
				size_t *out_n, wherry_error *err)
{
	if (to_answer && cap)
		out[(*out_n)++] = (wherry_receipt){.message = to_answer,
						   .verdict = WHERRY_THROTTLED,
						   .retry_after_us = 3600 * WH_SECOND};
	to_answer = NULL;
	return WHERRY_OK;
}

static const wherry_publisher_driver busy = {
	.version = WHERRY_PUBLISHER_VERSION,
	.scheme = "busy",
	.open = busy_open,
	.close = busy_close,
	.submit = busy_submit,
	.collect = busy_collect,
};

WHERRY_CASE(the_destination_of_dead_letters_may_ask_for_patience, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_publisher_register(f->config, &busy, &err));
	relay_set(f, "relay.dead_letters", "busy:");
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_FAILED);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM outbox WHERE "
					 "next_retry_at > created_at + 3000000"),
			 1);
	relay_answers(f, 2, WHERRY_REJECTED, -1);
	relay_put(f, "-"); /* meanwhile others that die wait as long */
	RELAY_UNTIL(f, &f->a, relay_state(f, 2) == WHERRY_FAILED);
}

/* A destination that first is down for an hour, then has no room, and then takes all. */
static struct {
	const wherry_message *taken;
	wherry_verdict answer;
	size_t room, refused;
	int fd;
} choosy_has;

static void choosy_close(void *state)
{
	choosy_has.taken = NULL;
}

static wherry_code choosy_submit(void *state, const wherry_message *const *messages,
				 size_t n, size_t *out_taken, wherry_error *err)
{
	*out_taken = choosy_has.room && !choosy_has.taken;
	if (*out_taken)
		choosy_has.taken = messages[0];
	else
		choosy_has.refused++;
	return WHERRY_OK;
}

static wherry_code choosy_collect(void *state, wherry_receipt *out, size_t cap,
				  size_t *out_n, wherry_error *err)
{
	if (choosy_has.taken && cap)
		out[(*out_n)++] = (wherry_receipt){.message = choosy_has.taken,
						   .verdict = choosy_has.answer,
						   .retry_after_us = 3600 * WH_SECOND};
	choosy_has.taken = NULL;
	return WHERRY_OK;
}

static int choosy_fd(void *state, short *out_events)
{
	*out_events = POLLIN;
	return choosy_has.fd;
}

static int64_t choosy_deadline(void *state)
{
	return choosy_has.taken ? 0 : WHERRY_PUBLISHER_NEVER;
}

static const wherry_publisher_driver choosy = {
	.version = WHERRY_PUBLISHER_VERSION,
	.scheme = "choosy",
	.open = busy_open,
	.close = choosy_close,
	.submit = choosy_submit,
	.collect = choosy_collect,
	.fd = choosy_fd,
	.deadline_us = choosy_deadline,
};

static bool listens_to(const relay_side *side, int fd)
{
	struct pollfd fds[WHERRY_RELAY_FDS];
	size_t n = wherry_relay_fds(side->relay, fds);

	while (n--)
		if (fds[n].fd == fd && fds[n].events & POLLIN)
			return true;
	return false;
}

/* It asked for an hour before: the relay neither asks it over and over, nor falls asleep. */
WHERRY_CASE(a_relay_listens_to_a_destination_without_room_for_dead_letters,
	    relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	memset(&choosy_has, 0, sizeof(choosy_has));
	choosy_has.fd = ends[0];
	choosy_has.answer = WHERRY_THROTTLED;
	choosy_has.room = 1;
	WHERRY_PASS(wherry_publisher_register(f->config, &choosy, &err));
	relay_set(f, "relay.dead_letters", "choosy:");
	relay_hourly(f);
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_answers(f, 2, WHERRY_REJECTED, -1);
	relay_put(f, "-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_FAILED);
	relay_quiet(f, &f->a);
	assert_false(listens_to(&f->a, ends[0]));
	choosy_has.room = 0;
	f->offset_us += 3601 * WH_SECOND;
	relay_put(f, "-");
	RELAY_UNTIL(f, &f->a, choosy_has.refused);
	relay_quiet(f, &f->a);
	assert_true(listens_to(&f->a, ends[0]));
	choosy_has.room = 1;
	choosy_has.answer = WHERRY_DELIVERED;
	RELAY_UNTIL(f, &f->a, relay_state(f, 2) == WHERRY_DEAD);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

/* The letters' destination answers so for a while; then all is well. */
static void refuse(relay_fixture *f, const char *how)
{
	outbox b;

	use_letters(f, &b, how);
	relay_set(f, "retry.attempts", "1");
	relay_answers(f, 1, WHERRY_RETRY, -1);
	relay_put(f, "aab-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_FAILED);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_int_equal(relay_told(f, 2, WHERRY_DELIVERED), 0);
	assert_int_equal(relay_stats(&f->a).dead, 0);
	assert_int_equal(
		with_error(f, "the test said so; its dead letter was not written: %"), 1);
	relay_put(f, "c");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	letters_do(&b, taken);
	f->offset_us += 60 * WH_SECOND;
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE status = 3");
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	assert_true(letters_are_of_1(&b));
	assert_int_equal(with_error(f, "the test said so"), 1);
	relay_check_order(f);
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(without_its_letter_a_message_stays_failed, relay_fixture *f)
{
	refuse(f, "exit 75");
	assert_true(relay_logged(f, "event=dead-letters-down why=\"exit status 75\""));
	assert_true(relay_logged(f, "event=dead-letters-up"));
}

WHERRY_CASE(a_letter_that_is_rejected_buries_nothing, relay_fixture *f)
{
	refuse(f, "exit 65");
	assert_true(relay_logged(f, "event=dead-letter-rejected id=1 "));
	assert_false(relay_logged(f, "event=dead-letters-down"));
}

WHERRY_CASE(letters_that_cannot_be_sent_at_all_make_nothing_dead, relay_fixture *f)
{
	refuse(f, "exit 127");
	assert_true(relay_logged(f, "event=dead-letters-down why=\"the command"));
}

/* Its row as its relay left it, which it has ended each time. */
WHERRY_CASE(what_ends_its_relay_is_not_tried_again_for_its_letter, relay_fixture *f)
{
	outbox b;

	use_letters(f, &b, "exit 65");
	relay_put(f, "aab");
	relay_sql(f, "UPDATE outbox SET status = 1, attempts = 5 WHERE id = 1");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=dead-letters-down"));
	for (int i = 0; i < 5; i++) {
		relay_quiet(f, &f->a);
		f->offset_us += 5 * WH_SECOND;
	}
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	letters_do(&b, taken);
	f->offset_us += 60 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 3, 2);
	assert_true(letters_are_of_1(&b));
	assert_int_equal(relay_attempts(f, 1), 5);
	wherry_temp_clear(&b.temp);
}

static void a_hundred_wait_for_one_letter_box(relay_fixture *f)
{
	char keys[101];
	outbox b;

	for (int i = 0; i < 100; i++)
		keys[i] = (char)(i % 3 ? 'a' + i % 26 : '-');
	keys[100] = 0;
	use_letters(f, &b, "exit 75");
	f->every = WHERRY_REJECTED;
	relay_put(f, keys);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_FAILED) > 20);
	assert_int_equal(relay_count(f, WHERRY_DEAD), 0);
	letters_do(&b, "echo x >>letters");
	f->offset_us += 60 * WH_SECOND;
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE status = 3");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 100);
	assert_true(strlen(in_file(&b, "letters")) >= 200);
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(all_that_died_meanwhile_leave_their_letters, relay_fixture *f)
{
	relay_set(f, "exec.jobs", "16");
	a_hundred_wait_for_one_letter_box(f);
}

/* ---- ends ---- */

WHERRY_CASE(a_relay_that_stops_waits_for_its_letters, relay_fixture *f)
{
	outbox b;
	int fifo;

	use_letters(f, &b, "read x <fifo; echo $WHERRY_ID >>letters");
	assert_int_equal(mkfifo(in_box(&b, "fifo"), 0600), 0);
	fifo = open(in_box(&b, "fifo"), O_RDWR | O_CLOEXEC);
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_quiet(f, &f->a);
	wherry_relay_stop(f->a.relay);
	relay_quiet(f, &f->a);
	assert_false(f->a.finished);
	assert_int_equal(write(fifo, "\n", 1), 1);
	RELAY_UNTIL(f, &f->a, f->a.finished);
	assert_int_equal(relay_state(f, 1), WHERRY_DEAD);
	assert_true(letters_are(&b, "1\n"));
	(void)close(fifo);
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(a_letter_that_hangs_does_not_keep_a_relay_from_stopping, relay_fixture *f)
{
	outbox b;

	use_letters(f, &b, "exec sleep 1000");
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	wherry_relay_stop(f->a.relay);
	relay_quiet(f, &f->a);
	assert_false(f->a.finished);
	f->offset_us += 11 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, f->a.finished);
	assert_int_not_equal(relay_state(f, 1), WHERRY_DEAD);
	assert_true(relay_logged(f, "event=stop-timeout"));
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	/* The lease is left to expire. */
	assert_int_equal(
		relay_number(f,
			     "SELECT count(*) FROM wherry_lease WHERE state = 'stopped'"),
		0);
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(who_lost_the_lease_buries_nobody, relay_fixture *f)
{
	outbox b;

	use_letters(f, &b, "exec sleep 1000");
	relay_answers(f, 1, WHERRY_REJECTED, 1);
	relay_put(f, "aab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_steal(f);
	f->offset_us += 11 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=lease-lost"));
	relay_quiet(f, &f->a);
	assert_int_equal(relay_state(f, 1), WHERRY_PENDING);
	relay_expire(f);
	f->offset_us += 11 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_check_order(f);
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(a_relay_that_ends_in_between_leaves_the_message_to_the_next, relay_fixture *f)
{
	outbox b;

	use_letters(f, &b, "exec sleep 1000");
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "aab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_kill(f, &f->a);
	letters_do(&b, taken);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_true(letters_are(&b, "1\n"));
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(until_empty_waits_for_letters, relay_fixture *f)
{
	outbox b;

	use_letters(f, &b, taken);
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "aa-");
	relay_start(f, &f->a);
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_DEATHS);
	assert_true(letters_are(&b, "1\n"));
	assert_int_equal(relay_count(f, WHERRY_DONE), 2);
	wherry_temp_clear(&b.temp);
}

WHERRY_CASE(a_letter_box_that_cannot_be_is_refused_at_once, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_relay *relay = NULL;

	relay_set(f, "relay.dead_letters", "kafak:x");
	relay_connect(f, &f->a);
	WHERRY_PASS(wherry_publisher_open("memory:", NULL, &f->a.pub, &err));
	assert_int_equal(wherry_relay_open_on(f->a.db, f->a.pub, f->config, &relay, &err),
			 WHERRY_INVALID);
	assert_null(relay);
	assert_non_null(strstr(err.message, "relay.dead_letters: unknown destination"));
}

const relay_test relay_letters_tests[] = {
	RELAY_TEST(a_dead_message_leaves_a_letter_that_says_why, 0),
	RELAY_TEST(a_letter_is_written_once_attempts_are_used_up, 0),
	RELAY_TEST(a_message_is_not_dead_before_its_letter_is_taken, 0),
	RELAY_TEST(a_key_is_parked_once_the_letter_is_taken, 0),
	RELAY_TEST(what_cannot_be_sent_at_all_leaves_a_letter, RELAY_NUL),
	RELAY_TEST(headers_that_are_none_are_kept_in_the_letter, 0),
	RELAY_TEST(the_messages_own_headers_go_along, 0),
	RELAY_TEST(the_destination_of_dead_letters_may_ask_for_patience, RELAY_KEYS),
	RELAY_TEST(a_relay_listens_to_a_destination_without_room_for_dead_letters, 0),
	RELAY_TEST(without_its_letter_a_message_stays_failed, 0),
	RELAY_TEST(a_letter_that_is_rejected_buries_nothing, 0),
	RELAY_TEST(letters_that_cannot_be_sent_at_all_make_nothing_dead, 0),
	RELAY_TEST(what_ends_its_relay_is_not_tried_again_for_its_letter, 0),
	RELAY_TEST(all_that_died_meanwhile_leave_their_letters, 0),
	RELAY_TEST(a_relay_that_stops_waits_for_its_letters, 0),
	RELAY_TEST(a_letter_that_hangs_does_not_keep_a_relay_from_stopping, 0),
	RELAY_TEST(who_lost_the_lease_buries_nobody, 0),
	RELAY_TEST(a_relay_that_ends_in_between_leaves_the_message_to_the_next, 0),
	RELAY_TEST(until_empty_waits_for_letters, 0),
	RELAY_TEST(a_letter_box_that_cannot_be_is_refused_at_once, 0),
	RELAY_TESTS_END,
};
