#include "relay/dead_letters.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/url.h"
#include "config/settings.h"
#include "publish/parts.h"
#include "relay/engine/engine.h"
#include "relay/hooks.h"

enum { LETTER_RECEIPTS = 16, TEXT_MAX = 64 * 1024 * 1024, REJECTED_US = 30000000 };

struct wh_dead_letters {
	const char *to;
	wherry_publisher *pub; /* NULL: to be opened. */
	wh_buf text;           /* Scratch: the headers of a dead letter. */
	bool down;             /* The destination did not take a dead letter. */
	int failures;          /* Failures in a row. */
	int64_t retry_at_us;   /* Try nothing before this time; 0: no failure. */
};

/* ---- open and close ---- */

wherry_code wh_dead_letters_open(wherry_relay *r, wherry_error *err)
{
	const char *to = wh_config_text(r->config, WH_RELAY_DEAD_LETTERS);
	wh_dead_letters *dead_letters;
	wherry_code code;

	if (!*to)
		return WHERRY_OK;
	dead_letters = calloc(1, sizeof(*dead_letters));
	if (!dead_letters)
		return wh_oom(err);
	dead_letters->to = to;
	dead_letters->text = (wh_buf)WH_BUF_INIT(TEXT_MAX);
	r->dead_letters = dead_letters;
	code = wh_publisher_open_raw(to, r->config, &r->env, &dead_letters->pub, err);
	return code == WHERRY_OK ? code : wh_prefix(err, code, "relay.dead_letters");
}

static void drop_pub(wh_dead_letters *dead_letters)
{
	wherry_publisher_close(dead_letters->pub);
	dead_letters->pub = NULL;
}

void wh_dead_letters_close(wherry_relay *r)
{
	if (!r->dead_letters)
		return;
	drop_pub(r->dead_letters);
	wh_buf_clear(&r->dead_letters->text);
	free(r->dead_letters);
}

void wh_dead_letters_forget(wherry_relay *r)
{
	wh_dead_letters *dead_letters = r->dead_letters;

	if (!dead_letters)
		return;
	if (r->window.dead_letters.n) /* The publisher has borrowed messages in flight. */
		drop_pub(dead_letters);
	while (r->window.dead_letters.head)
		wh_entry_move(r, r->window.dead_letters.head, WH_UNLISTED);
	while (r->window.dying.head)
		wh_entry_move(r, r->window.dying.head, WH_UNLISTED);
}

/* ---- the headers of a dead letter ---- */

static void put_header(wh_buf *out, const char *name, const char *value)
{
	if (!value)
		return;
	wh_buf_printf(out, "%s\"wherry-dead-%s\":",
		      out->len && out->ptr[out->len - 1] != '{' ? "," : "", name);
	wh_buf_json(out, value, strlen(value));
}

/* Write the headers of the message without the closing brace.  If they are not a JSON
 * object, write them as one header. */
static void put_own(wh_buf *out, const wherry_message *msg)
{
	const char *text = wh_message_headers(msg);
	size_t len = strlen(text);

	if (wh_json_headers(text, len, NULL) != WHERRY_OK) {
		wh_buf_putc(out, '{');
		put_header(out, "headers", text);
		return;
	}
	while (len && text[len - 1] != '}')
		len--;
	for (len--; len && strchr(" \t\r\n", text[len - 1]);)
		len--;
	wh_buf_put(out, text + strspn(text, " \t\r\n"), len - strspn(text, " \t\r\n"));
}

static wherry_code write_headers(wherry_relay *r, wh_buf *out, const wh_entry *e,
				 const char *why, wherry_error *err)
{
	const wherry_message *msg = &e->msg;
	bool counted = e->tried || e->poison; /* The last attempt is counted already. */
	char number[24], now[WH_TIME_LEN], of[24];

	wh_buf_reset(out);
	wh_time_print(wh_now(&r->env), now);
	put_own(out, msg);
	put_header(out, "topic", msg->topic ? msg->topic : "");
	put_header(out, "key", wh_message_key(msg));
	put_header(out, "id", msg->message_id ? msg->message_id : "");
	(void)snprintf(number, sizeof(number), "%" PRId32, msg->attempts + !counted);
	put_header(out, "attempts", number);
	put_header(out, "error", why);
	put_header(out, "time", now);
	/* Of "delayed queue" the first word: a header's name has no blank. */
	(void)snprintf(of, sizeof(of), "%.*s", (int)strcspn(r->model, " "), r->model);
	/* From the settings: the table may be closed. */
	put_header(out, of, wh_config_text(r->config, WH_RELAY_TABLE));
	wh_buf_putc(out, '}');
	return wh_buf_check(out, err);
}

/* Make e->dead_letter, in the memory of its batch, unless it was made before. */
static wherry_code write_letter(wherry_relay *r, wh_entry *e, wherry_error *err)
{
	wh_buf *text = &r->dead_letters->text;
	wherry_message *msg;
	wherry_code code;

	if (e->dead_letter)
		return WHERRY_OK;
	code = write_headers(r, text, e, e->error ? e->error : "out of memory", err);
	if (code != WHERRY_OK)
		return code;
	msg = wh_window_alloc(&r->window, e, sizeof(*msg));
	if (!msg)
		return wh_oom(err);
	*msg = e->msg;
	msg->headers = wh_window_copy(&r->window, e, wh_buf_str(text));
	if (!msg->headers)
		return wh_oom(err);
	e->dead_letter = msg;
	return WHERRY_OK;
}

/* ---- results ---- */

static void say_down(wherry_relay *r, const char *why)
{
	if (r->dead_letters->down)
		return;
	r->dead_letters->down = true;
	wh_relay_say(r, WHERRY_LOG_ERROR, "dead-letters-down", wh_log_text("why", why),
		     wh_log_note("dead messages stay failed until the "
				 "dead-letter destination takes them; none is "
				 "lost"));
	wh_hook_error(r, WHERRY_CLOSED, why);
}

static void say_up(wherry_relay *r)
{
	if (r->dead_letters->down)
		wh_relay_say(r, WHERRY_LOG_INFO, "dead-letters-up");
	r->dead_letters->down = false;
	r->dead_letters->failures = 0;
	r->dead_letters->retry_at_us = 0;
}

/* The dead letter of a message was not taken.  The message stays failed and is tried
 * again, so nothing is lost. */
static void stay_failed(wherry_relay *r, wh_entry *e, const char *why, int64_t delay_us,
			int64_t now)
{
	int64_t own_us = wh_backoff_delay(&r->set.retry, e->msg.attempts + 1, &r->env);
	wh_buf text = WH_BUF_INIT(1024);
	const char *whole = NULL;

	wh_buf_printf(&text, "%.300s; its dead letter was not written: %.200s",
		      e->error ? e->error : "", why);
	if (wh_buf_check(&text, NULL) == WHERRY_OK)
		whole = wh_window_copy(&r->window, e, wh_buf_str(&text));
	wh_buf_clear(&text);
	if (whole)
		e->error = whole;
	e->fate = WH_FATE_FAILED;
	e->delay_us = delay_us > own_us ? delay_us : own_us;
	r->engine->hold->failed_again(r, e, now);
}

/* Did the message end its relay, or its connection, at each attempt?  Then it is not
 * tried again. */
static bool is_deadly(const wherry_relay *r, const wh_entry *e)
{
	return e->poison && e->msg.attempts >= r->set.attempts;
}

/* The dead-letter destination is down: dying messages fail and are tried again later.
 * Deadly messages wait instead. */
static void fail_list(wherry_relay *r, wh_list *list, const char *why, int64_t now)
{
	for (wh_entry *e = list->head, *next; e; e = next) {
		next = e->next;
		if (!is_deadly(r, e))
			stay_failed(r, e, why, r->dead_letters->retry_at_us - now, now);
		else if (e->stage == WH_DEAD_LETTER)
			wh_entry_move(r, e, WH_DYING);
	}
}

/* The dead-letter destination cannot take messages now: try again later. */
static void lose(wherry_relay *r, const char *why, int64_t at_least_us, int64_t now)
{
	wh_dead_letters *dead_letters = r->dead_letters;
	int64_t delay =
		wh_backoff_delay(&r->set.probe, ++dead_letters->failures, &r->env);

	if (delay < at_least_us)
		delay = at_least_us;
	if (delay < 1000)
		delay = 1000;
	dead_letters->retry_at_us = wh_later(now, delay);
	say_down(r, why);
	fail_list(r, &r->window.dying, why, now);
}

/* The publisher failed: close it, and expect no receipts. */
static void lose_pub(wherry_relay *r, const char *why, int64_t now)
{
	drop_pub(r->dead_letters);
	lose(r, why, 0, now);
	fail_list(r, &r->window.dead_letters, why, now);
}

static void settle_letter(wherry_relay *r, const wh_receipt *receipt, int64_t now)
{
	const char *why = *receipt->reason ? receipt->reason : "it gave no reason";
	wh_entry *e = NULL;

	for (e = r->window.dead_letters.head; e; e = e->next)
		if (e->dead_letter == receipt->message)
			break;
	if (!e)
		return; /* A second receipt. */
	if (receipt->verdict == WHERRY_DELIVERED) {
		say_up(r);
		wh_settle_put(r, e, now);
		return;
	}
	if (receipt->verdict != WHERRY_REJECTED || is_deadly(r, e)) {
		wh_entry_move(r, e, WH_DYING);
		lose(r, why, receipt->retry_after_us, now);
		return;
	}
	wh_relay_say(r, WHERRY_LOG_ERROR, "dead-letter-rejected",
		     wh_log_int("id", e->msg.id), wh_log_text("why", why),
		     wh_log_note("the message stays failed"));
	stay_failed(r, e, why, REJECTED_US, now);
}

bool wh_dead_letters_take(wherry_relay *r, wh_entry *e, int64_t now)
{
	wh_dead_letters *dead_letters = r->dead_letters;

	if (!dead_letters)
		return false;
	if (now < dead_letters->retry_at_us && !is_deadly(r, e)) {
		stay_failed(r, e, "it is down", dead_letters->retry_at_us - now, now);
		return true;
	}
	wh_entry_move(r, e, WH_DYING);
	return true;
}

/* ---- submitting and collecting ---- */

/* Open the destination if it is closed.  True: it is open. */
static bool reopen(wherry_relay *r, int64_t now)
{
	wh_dead_letters *dead_letters = r->dead_letters;
	wherry_error why = WHERRY_ERROR_INIT;

	if (dead_letters->pub)
		return true;
	if (wh_publisher_open_raw(dead_letters->to, r->config, &r->env,
				  &dead_letters->pub, &why) == WHERRY_OK)
		return true;
	lose(r, why.message, 0, now);
	return false;
}

/* Make the dead letter.  False: that failed. */
static bool prepare(wherry_relay *r, wh_entry *e, int64_t now)
{
	wherry_error why = WHERRY_ERROR_INIT;

	if (write_letter(r, e, &why) == WHERRY_OK)
		return true;
	lose(r, why.message, 0, now);
	return false;
}

static void submit(wherry_relay *r, int64_t now)
{
	wh_dead_letters *dead_letters = r->dead_letters;
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	size_t taken = 1;

	if (now < dead_letters->retry_at_us)
		return;
	dead_letters->retry_at_us = 0;
	while (r->window.dying.head && taken && code == WHERRY_OK) {
		wh_entry *e = r->window.dying.head;

		if (!prepare(r, e, now) || !reopen(r, now))
			return;
		if (wh_monotonic(&r->env) >= r->held_until_us)
			return; /* The step took longer than the lease had left. */
		code = wh_publisher_submit(dead_letters->pub, &e->dead_letter, 1, &taken,
					   &why);
		if (taken)
			wh_entry_move(r, e, WH_DEAD_LETTER);
	}
	if (code != WHERRY_OK)
		lose_pub(r, why.message, now);
}

static void collect(wherry_relay *r, int64_t now)
{
	wh_receipt receipts[LETTER_RECEIPTS];
	wherry_error why = WHERRY_ERROR_INIT;
	size_t n = 1;

	while (r->dead_letters->pub && r->window.dead_letters.n && n) {
		n = 0;
		if (wh_publisher_collect(r->dead_letters->pub, receipts, LETTER_RECEIPTS,
					 &n, &why) != WHERRY_OK) {
			lose_pub(r, why.message, now);
			return;
		}
		for (size_t i = 0; i < n; i++)
			settle_letter(r, &receipts[i], now);
	}
}

void wh_dead_letters_step(wherry_relay *r, int64_t now)
{
	bool leads = r->fsm.state == WH_LEADING || r->fsm.state == WH_DRAINING;

	if (!r->dead_letters || !(r->window.dying.n || r->window.dead_letters.n))
		return;
	if (!leads) {
		wh_dead_letters_forget(r);
		return;
	}
	submit(r, now);
	collect(r, now);
}

bool wh_dead_letters_busy(const wherry_relay *r)
{
	const wh_dead_letters *dead_letters = r->dead_letters;

	return dead_letters &&
	       (r->window.dead_letters.n || (r->window.dying.n && !dead_letters->down));
}

/* Does the relay wait for the dead-letter publisher: for receipts, or for room? */
static bool awaits(const wherry_relay *r)
{
	const wh_dead_letters *dead_letters = r->dead_letters;

	return dead_letters && dead_letters->pub &&
	       (r->window.dead_letters.n ||
		(r->window.dying.n && !dead_letters->retry_at_us));
}

int wh_dead_letters_fd(wherry_relay *r, short *out_events)
{
	return awaits(r) ? wh_publisher_fd(r->dead_letters->pub, out_events) : -1;
}

int64_t wh_dead_letters_deadline(const wherry_relay *r)
{
	const wh_dead_letters *dead_letters = r->dead_letters;
	int64_t at = awaits(r) ? wh_publisher_deadline(r->dead_letters->pub) : WH_NEVER;

	if (dead_letters && r->window.dying.n && dead_letters->retry_at_us &&
	    dead_letters->retry_at_us < at)
		at = dead_letters->retry_at_us;
	return at;
}
