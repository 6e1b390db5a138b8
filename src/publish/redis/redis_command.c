/*
 * A message as Redis has it: XADD stream * name value name value…
 */
#include "publish/redis/redis.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "publish/parts.h"

enum { FIELDS_MOST = 12, DIGITS = 24 };

/* ---- the name of the stream ---- */

typedef struct writing {
	char *out;
	size_t len; /* May be beyond the end. */
} writing;

static void put(writing *w, const char *text, size_t len)
{
	if (w->len + len < WH_REDIS_STREAM_LEN)
		memcpy(w->out + w->len, text, len);
	w->len += len;
}

wherry_code wh_redis_stream(const char *template, const wherry_message *msg,
			    char out[WH_REDIS_STREAM_LEN], wherry_error *err)
{
	const char *key = wh_message_key(msg);
	writing w = {out, 0};

	for (const char *at = template; *at;) {
		const char *from = at;
		wh_part part = wh_template_part(&at);

		if (part == WH_PART_TOPIC)
			put(&w, msg->topic, strlen(msg->topic));
		else if (part == WH_PART_KEY)
			put(&w, key ? key : "_", key ? strlen(key) : 1);
		else
			put(&w, from, (size_t)(at - from));
	}
	if (w.len >= WH_REDIS_STREAM_LEN)
		return wh_fail(err, WHERRY_INVALID,
			       "the name of its stream would have %zu bytes, and %d are "
			       "possible",
			       w.len, WH_REDIS_STREAM_LEN - 1);
	out[w.len] = 0;
	if (!w.len)
		return wh_fail(err, WHERRY_INVALID,
			       "the name of its stream would be empty");
	return WHERRY_OK;
}

/* CRC-16/XMODEM, as the specification of clusters says. */
static unsigned checksum(const char *bytes, size_t n)
{
	unsigned crc = 0;

	for (size_t i = 0; i < n; i++) {
		crc ^= (unsigned)(unsigned char)bytes[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
	}
	return crc;
}

unsigned wh_redis_slot(const char *stream)
{
	const char *open = strchr(stream, '{');
	const char *close = open ? strchr(open, '}') : NULL;

	if (close && close > open + 1)
		return checksum(open + 1, (size_t)(close - open - 1)) % WH_REDIS_SLOTS;
	return checksum(stream, strlen(stream)) % WH_REDIS_SLOTS;
}

/* ---- the command ---- */

typedef struct field {
	const char *name, *value;
	size_t len; /* Of value. */
} field;

typedef struct fields {
	field all[FIELDS_MOST];
	size_t n;
	char created[WH_TIME_LEN], trace[WH_TRACEPARENT_LEN];
} fields;

static void add(fields *f, const char *name, const char *value)
{
	if (value && *value)
		f->all[f->n++] = (field){name, value, strlen(value)};
}

static void collect(fields *f, const wherry_message *msg)
{
	const char *headers = wh_message_headers(msg);
	bool empty = !msg->body || !msg->body_len;

	f->n = 0;
	add(f, "message_id", msg->message_id);
	add(f, "topic", msg->topic);
	add(f, "key", wh_message_key(msg));
	add(f, "aggregate_type", msg->aggregate_type);
	add(f, "aggregate_id", msg->aggregate_id);
	add(f, "trace_id", msg->trace_id);
	if (msg->trace_id && *msg->trace_id && wh_traceparent(msg, f->trace))
		add(f, "traceparent", f->trace);
	if (strcmp(headers, "{}") != 0)
		add(f, "headers", headers);
	if (msg->created_at_us) {
		wh_time_print(msg->created_at_us, f->created);
		add(f, "created_at", f->created);
	}
	f->all[f->n++] =
		(field){"body", empty ? "" : msg->body, empty ? 0 : msg->body_len};
}

wherry_code wh_redis_check(const wh_redis_settings *set, const wherry_message *msg,
			   wherry_error *err)
{
	const char *headers = wh_message_headers(msg);
	char stream[WH_REDIS_STREAM_LEN];
	wherry_code code = wh_redis_stream(set->stream, msg, stream, err);

	if (code == WHERRY_OK && strcmp(headers, "{}") != 0)
		code = wh_json_headers(headers, strlen(headers), err);
	if (code == WHERRY_OK && msg->body_len > WH_REDIS_VALUE_MOST)
		code = wh_fail(err, WHERRY_TOOBIG,
			       "its body has %zu bytes, and Redis takes 512 MB: send "
			       "less, " WH_OR_BODY_STORE,
			       msg->body_len);
	return code;
}

/* "$5\r\nhello\r\n", or another character for the '$'. */
static void put_number(wh_buf *out, char kind, size_t number)
{
	char text[DIGITS];
	char *at = text + sizeof(text);

	*--at = '\n';
	*--at = '\r';
	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	*--at = kind;
	wh_buf_put(out, at, (size_t)(text + sizeof(text) - at));
}

static void put_word(wh_buf *out, const char *word, size_t len)
{
	put_number(out, '$', len);
	wh_buf_put(out, word, len);
	wh_buf_put(out, "\r\n", 2);
}

void wh_redis_put_words(wh_buf *out, const char *const *words)
{
	size_t n = 0;

	while (words[n])
		n++;
	put_number(out, '*', n);
	for (size_t i = 0; i < n; i++)
		put_word(out, words[i], strlen(words[i]));
}

static void put_limit(wh_buf *out, const char *which, int64_t number)
{
	char text[DIGITS];

	(void)snprintf(text, sizeof(text), "%lld", (long long)number);
	put_word(out, which, strlen(which));
	put_word(out, "~", 1);
	put_word(out, text, strlen(text));
}

void wh_redis_put_add(wh_buf *out, const wh_redis_settings *set,
		      const wherry_message *msg, int64_t now_us)
{
	char stream[WH_REDIS_STREAM_LEN] = "";
	int64_t from_ms = (now_us - set->max_age_us) / 1000;
	size_t limits = set->max_length || set->max_age_us ? 3 : 0;
	fields f;

	(void)wh_redis_stream(set->stream, msg, stream, NULL);
	collect(&f, msg);
	put_number(out, '*', 3 + limits + 2 * f.n);
	put_word(out, "XADD", 4);
	put_word(out, stream, strlen(stream));
	if (set->max_length)
		put_limit(out, "MAXLEN", set->max_length);
	else if (set->max_age_us)
		put_limit(out, "MINID", from_ms > 0 ? from_ms : 0);
	put_word(out, "*", 1);
	for (size_t i = 0; i < f.n; i++) {
		put_word(out, f.all[i].name, strlen(f.all[i].name));
		put_word(out, f.all[i].value, f.all[i].len);
	}
}
