/*
 * The subject of a message, from a template such as "orders.{key}".
 *
 * {topic} and {key} stand for the message's topic and key.  Bytes that a subject cannot have
 * are percent-encoded: blanks, control characters, *, > and %.  So are dots of a key, which is
 * one token of the subject.  A topic keeps its dots, and has as many tokens as it says.
 */
#include "publish/nats/nats.h"

#include <stdio.h>
#include <string.h>

#include "publish/parts.h"

typedef struct writing {
	char *out;
	size_t len; /* May be beyond the end. */
} writing;

static void put(writing *w, char c)
{
	if (w->len < WH_NATS_SUBJECT_LEN - 1)
		w->out[w->len] = c;
	w->len++;
}

static bool is_plain(unsigned char c)
{
	return c > ' ' && c != 0x7f && !strchr("*>%", c);
}

static void put_encoded(writing *w, const char *text, bool dots)
{
	static const char digits[] = "0123456789ABCDEF";

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (is_plain(c) && (dots || c != '.')) {
			put(w, *text);
			continue;
		}
		put(w, '%');
		put(w, digits[c >> 4]);
		put(w, digits[c & 15]);
	}
}

/* Write the part of the template at *at, and move *at behind it. */
static void put_part(writing *w, const char **at, const wherry_message *msg)
{
	const char *key = wh_message_key(msg), *text = *at;
	wh_part part = wh_template_part(at);

	if (part == WH_PART_TOPIC)
		put_encoded(w, msg->topic, true);
	else if (part == WH_PART_KEY)
		put_encoded(w, key ? key : "_", false);
	else
		put(w, *text);
}

static bool has_empty_token(const char *subject)
{
	return !*subject || *subject == '.' || strstr(subject, "..") ||
	       subject[strlen(subject) - 1] == '.';
}

wherry_code wh_nats_subject(const char *template, const wherry_message *msg,
			    char out[WH_NATS_SUBJECT_LEN], wherry_error *err)
{
	writing w = {out, 0};

	for (const char *at = template; *at;)
		put_part(&w, &at, msg);
	if (w.len >= WH_NATS_SUBJECT_LEN)
		return wh_fail(err, WHERRY_INVALID,
			       "its subject would have %zu bytes, and %d are possible",
			       w.len, WH_NATS_SUBJECT_LEN - 1);
	out[w.len] = 0;
	if (has_empty_token(out))
		return wh_fail(
			err, WHERRY_INVALID,
			"its subject would be '%.80s', where a name is empty before or "
			"after a dot",
			out);
	if (*out == '$')
		return wh_fail(
			err, WHERRY_INVALID,
			"its subject would be '%.80s', and subjects that begin with $ "
			"are the server's",
			out);
	return WHERRY_OK;
}

wherry_code wh_nats_template_check(const char *template, wherry_error *err)
{
	const wherry_message any = WHERRY_MESSAGE(.topic = "topic", .key = "key");
	char subject[WH_NATS_SUBJECT_LEN];
	wherry_code code;

	for (const char *at = template; *at;) {
		const char byte = *at;

		if (wh_template_part(&at) == WH_PART_UNKNOWN)
			return wh_fail(
				err, WHERRY_INVALID,
				"a '{' in the subject stands for nothing: {topic} and "
				"{key} do");
		if (!is_plain((unsigned char)byte) || strchr("?#/", byte))
			return wh_fail(
				err, WHERRY_INVALID,
				"the subject '%.80s' has a character that no subject "
				"may have: parameters are the settings nats.*",
				template);
	}
	code = wh_nats_subject(template, &any, subject, err);
	return code == WHERRY_OK ? code : wh_prefix(err, code, "the URL of a message");
}
