#define WH_PUBLISH_PARTS_C
#include "publish/parts.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/date.h"
#include "base/text.h"
#include "base/url.h"
#include "config/settings.h"

bool wh_pending_reserve(wh_pending *pending)
{
	size_t cap = pending->cap ? pending->cap * 2 : 64;
	wh_pending_item *items;

	if (pending->n < pending->cap)
		return true;
	items = malloc(cap * sizeof(*items));
	if (!items)
		return false;
	for (size_t i = 0; i < pending->n; i++)
		items[i] = pending->items[(pending->head + i) & (pending->cap - 1)];
	free(pending->items);
	pending->items = items;
	pending->cap = cap;
	pending->head = 0;
	return true;
}

void wh_pending_push(wh_pending *pending, wh_pending_item item)
{
	assert(pending->n < pending->cap);
	pending->items[(pending->head + pending->n) & (pending->cap - 1)] = item;
	pending->n++;
}

const wh_pending_item *wh_pending_first(const wh_pending *pending)
{
	return pending->n ? &pending->items[pending->head] : NULL;
}

void wh_pending_pop(wh_pending *pending)
{
	assert(pending->n);
	pending->head = (pending->head + 1) & (pending->cap - 1);
	pending->n--;
}

void wh_pending_drop(wh_pending *pending)
{
	pending->head = pending->n = 0;
}

void wh_pending_clear(wh_pending *pending)
{
	free(pending->items);
	*pending = (wh_pending)WH_PENDING_INIT;
}

const char *wh_message_key(const wherry_message *msg)
{
	if (msg->key && *msg->key)
		return msg->key;
	return msg->aggregate_id && *msg->aggregate_id ? msg->aggregate_id : NULL;
}

const char *wh_message_headers(const wherry_message *msg)
{
	return msg->headers && *msg->headers ? msg->headers : "{}";
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	size_t len = text ? strlen(text) : 0;

	/* The length goes in too, so that ("a", "bc") and ("ab", "c") differ. */
	return wh_hash((hash ^ len) * WH_HASH_PRIME, text, len);
}

uint64_t wh_message_key_hash(const wherry_message *msg)
{
	bool pair = (msg->aggregate_type && *msg->aggregate_type) ||
		    (msg->aggregate_id && *msg->aggregate_id);
	uint64_t hash = WH_HASH_START;

	if (msg->key && *msg->key)
		hash = hash_text(hash, msg->key);
	else if (pair)
		hash = hash_text(hash_text(~hash, msg->aggregate_type),
				 msg->aggregate_id);
	else
		return 0;
	hash ^= hash >> 32; /* Hash tables use the low bits. */
	return hash ? hash : 1;
}

static bool is_hex(const char *text, size_t n)
{
	return strspn(text, "0123456789abcdef") >= n && strspn(text, "0") < n;
}

/* Is text "version-trace-parent-flags"?  Trace and parent must not be all zeros. */
static bool is_traceparent(const char *text)
{
	return strlen(text) == WH_TRACEPARENT_LEN - 1 &&
	       strspn(text, "0123456789abcdef") == 2 && strncmp(text, "ff", 2) != 0 &&
	       text[2] == '-' && is_hex(text + 3, 32) && text[35] == '-' &&
	       is_hex(text + 36, 16) && text[52] == '-' &&
	       strspn(text + 53, "0123456789abcdef") == 2;
}

bool wh_traceparent(const wherry_message *msg, char out[WH_TRACEPARENT_LEN])
{
	const char *trace = msg->trace_id ? msg->trace_id : "";
	const char *id = msg->message_id ? msg->message_id : "";
	uint64_t parent;

	if (is_traceparent(trace)) {
		memcpy(out, trace, WH_TRACEPARENT_LEN);
		return true;
	}
	if (strlen(trace) != 32 || !is_hex(trace, 32))
		return false;
	parent = wh_hash(WH_HASH_START, id, strlen(id));
	(void)snprintf(out, WH_TRACEPARENT_LEN, "00-%s-%016" PRIx64 "-01", trace,
		       parent ? parent : 1);
	return true;
}

static bool skip(const char **at, const char *word)
{
	size_t len = strlen(word);
	bool found = strncmp(*at, word, len) == 0;

	*at += found ? len : 0;
	return found;
}

void wh_put_percent(wh_buf *out, const char *value)
{
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;

		if (c > ' ' && c < 0x7f && c != '"' && c != '%')
			wh_buf_putc(out, *value);
		else
			wh_buf_printf(out, "%%%02X", (unsigned)c);
	}
}

wherry_code wh_decode_part(const char *scheme, const char *text, size_t len, char **out,
			   wherry_error *err)
{
	bool fine;
	char *decoded = wh_url_decode(text, len, &fine);

	if (!decoded)
		return wh_oom(err);
	if (!fine) {
		free(decoded);
		return wh_fail(
			err, WHERRY_INVALID,
			"%s: a part of the URL is badly encoded: write %%25 for %%",
			scheme);
	}
	free(*out);
	*out = decoded;
	return WHERRY_OK;
}

wh_part wh_template_part(const char **at)
{
	if (skip(at, "{topic}"))
		return WH_PART_TOPIC;
	if (skip(at, "{key}"))
		return WH_PART_KEY;
	return *(*at)++ == '{' ? WH_PART_UNKNOWN : WH_PART_TEXT;
}

bool wh_may_read(const char *list, const char *value)
{
	bool is_file = strncmp(value, "file:", 5) == 0;

	if (!is_file && strncmp(value, "env:", 4) != 0)
		return true; /* It is the value itself, or a credential of the service. */
	if (is_file && strstr(value, ".."))
		return false;
	for (const char *at = list; *at; at += *at == ',') {
		size_t len = strcspn(at, ",");

		if (len && strncmp(value, at, len) == 0)
			return true;
		at += len;
	}
	return false;
}

int64_t wh_delivery_limit(const wherry_config *config)
{
	int64_t limit = wh_config_int(config, WH_RELAY_DELIVERY_TIMEOUT);

	return limit ? limit : wh_config_int(config, WH_RELAY_CLAIM_TIMEOUT) / 2;
}

static char *put_digits(char *at, int digits, int number, char end)
{
	for (int i = digits; i--; number /= 10)
		at[i] = (char)('0' + number % 10);
	at[digits] = end;
	return at + digits + 1;
}

/* Printed digit by digit: strftime() would take as long as the rest of a small
 * message. */
void wh_time_print(int64_t unix_us, char out[WH_TIME_LEN])
{
	int64_t us = wh_floor_mod(unix_us, WH_SECOND);
	time_t second = (time_t)wh_floor_div(unix_us, WH_SECOND);
	struct tm tm = {0};

	if (!gmtime_r(&second, &tm) || tm.tm_year < -1900)
		tm = (struct tm){.tm_year = -1900, .tm_mday = 1}; /* Not representable. */
	out = put_digits(out, tm.tm_year < 8100 ? 4 : 6, tm.tm_year + 1900, '-');
	out = put_digits(out, 2, tm.tm_mon + 1, '-');
	out = put_digits(out, 2, tm.tm_mday, 'T');
	out = put_digits(out, 2, tm.tm_hour, ':');
	out = put_digits(out, 2, tm.tm_min, ':');
	out = put_digits(out, 2, tm.tm_sec, '.');
	out = put_digits(out, 3, (int)(us / 1000), 'Z');
	*out = 0;
}

void wh_receipt_fill(wh_receipt *out, const wherry_message *msg, wherry_verdict verdict,
		     const char *reason)
{
	size_t len = reason ? strlen(reason) : 0;

	out->message = msg;
	out->verdict = verdict;
	out->written = out->own = out->denied = out->held = false;
	out->retry_after_us = 0;
	len = reason ? wh_utf8_cut(reason, len, sizeof(out->reason) - 1) : 0;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)reason[i];

		out->reason[i] = c < ' ' || c == 0x7f ? ' ' : reason[i];
		if (i && c >= 0x80 && c < 0xa0 && (unsigned char)reason[i - 1] == 0xc2)
			out->reason[i - 1] = out->reason[i] = ' '; /* U+0080 to U+009F */
	}
	for (size_t i = 0, n; i < len; i += n) {
		n = wh_utf8_len(out->reason + i, len - i);
		if (!n) {
			out->reason[i] = '?';
			n = 1;
		}
	}
	out->reason[len] = 0;
}

void wh_put_answer(char *out, size_t cap, const char *before, const char *answer,
		   const char *advice)
{
	static const char gap[] = "…";
	size_t len = strlen(answer), ours, keep;

	before = before ? before : "";
	advice = advice ? advice : "";
	while (len && (answer[len - 1] == '.' || (unsigned char)answer[len - 1] <= ' '))
		len--;
	ours = strlen(before) + (*before ? 2 : 0) + strlen(advice) + (*advice ? 2 : 0);
	keep = len;
	if (ours + len >= cap)
		keep = ours + sizeof(gap) <= cap
			       ? wh_utf8_cut(answer, len, cap - ours - sizeof(gap))
			       : 0;
	(void)snprintf(out, cap, "%s%s%.*s%s%s%s", before, *before ? ": " : "", (int)keep,
		       answer, keep && keep < len ? gap : "", *advice ? "; " : "",
		       advice);
	for (; *out; out++)
		if ((unsigned char)*out < ' ' || *out == 0x7f)
			*out = ' ';
}

wherry_code wh_fail_answer(wherry_error *err, wherry_code code, int native,
			   const char *before, const char *answer, const char *advice)
{
	/* The rest of wherry_error.message is for what callers put before it, such as a host. */
	char text[200];

	wh_put_answer(text, sizeof(text), before, answer, advice);
	return wh_fail_native(err, code, native, "%s", text);
}

ssize_t wh_quiet_write(int fd, const void *data, size_t len)
{
	const struct timespec now = {0, 0};
	sigset_t pipe_only, before, waiting;
	ssize_t n;
	int number;

	(void)sigemptyset(&pipe_only);
	(void)sigaddset(&pipe_only, SIGPIPE);
	(void)sigemptyset(&waiting);
	(void)sigpending(&waiting);
	if (pthread_sigmask(SIG_BLOCK, &pipe_only, &before) != 0)
		return -1;
	n = write(fd, data, len);
	number = errno;
	/* A SIGPIPE that was pending before the call belongs to the application. */
	if (n < 0 && number == EPIPE && !sigismember(&waiting, SIGPIPE))
		while (sigtimedwait(&pipe_only, NULL, &now) < 0 && errno == EINTR)
			;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = number;
	return n;
}
