#include "cli/ndjson.h"

#include <errno.h>
#include <string.h>

#include <jansson.h>

/* ---- lines ---- */

/* Read a line into lines->line.  False: the file has ended. */
static bool read_line(wh_lines *lines)
{
	bool any = false;
	int c;

	wh_buf_reset(&lines->line);
	while ((c = getc(lines->file)) != EOF) {
		any = true;
		lines->bytes++;
		if (c == '\n')
			break;
		wh_buf_putc(&lines->line, (char)c);
		if (lines->line.failed)
			break;
	}
	lines->number += any;
	return any;
}

/* Remove what editors add: a byte order mark before the first line, CR at the end of lines. */
static wh_view trim(const wh_lines *lines)
{
	wh_view line = {wh_buf_str(&lines->line), lines->line.len};

	if (lines->number == 1 && line.len >= 3 &&
	    memcmp(line.ptr, "\xef\xbb\xbf", 3) == 0) {
		line.ptr += 3;
		line.len -= 3;
	}
	if (line.len && line.ptr[line.len - 1] == '\r')
		line.len--;
	return line;
}

static bool is_blank(wh_view line)
{
	for (size_t i = 0; i < line.len; i++)
		if (line.ptr[i] != ' ' && line.ptr[i] != '\t')
			return false;
	return true;
}

wherry_code wh_lines_next(wh_lines *lines, wh_view *out, wherry_error *err)
{
	lines->line.most = lines->most + 4; /* A byte order mark and a CR do not count. */
	while (read_line(lines)) {
		wh_view line = trim(lines);

		if (lines->line.failed == WHERRY_NOMEM)
			return wh_oom(err);
		if (lines->line.failed || line.len > lines->most)
			return wh_fail(err, WHERRY_TOOBIG,
				       "the line is longer than %zu bytes (setting "
				       "outbox.body_max)",
				       lines->most);
		if (is_blank(line))
			continue;
		*out = line;
		return WHERRY_OK;
	}
	if (ferror(lines->file))
		return wh_fail_errno(err, errno, "cannot read line %lld",
				     (long long)lines->number + 1);
	*out = (wh_view){NULL, 0};
	return WHERRY_OK;
}

/* ---- picking: a walk over text that is known to be valid JSON ---- */

typedef struct cursor {
	const char *at, *end;
} cursor;

static void skip_blanks(cursor *c)
{
	while (c->at < c->end && *c->at && strchr(" \t\r\n", *c->at))
		c->at++;
}

static wh_view take_string(cursor *c)
{
	wh_view text = {c->at++, 0};

	while (c->at < c->end && *c->at != '"')
		c->at += *c->at == '\\' ? 2 : 1;
	c->at++;
	text.len = (size_t)(c->at - text.ptr);
	return text;
}

/* Move the cursor behind an object or array. */
static void skip_nested(cursor *c)
{
	int depth = 0;

	do {
		char first = *c->at;

		if (first == '"') {
			(void)take_string(c);
			continue;
		}
		depth += first == '{' || first == '[';
		depth -= first == '}' || first == ']';
		c->at++;
	} while (depth && c->at < c->end);
}

/* Take the text of a value, and move the cursor behind it. */
static wh_view take_value(cursor *c)
{
	wh_view text;

	skip_blanks(c);
	text.ptr = c->at;
	if (*c->at == '"')
		(void)take_string(c);
	else if (*c->at == '{' || *c->at == '[')
		skip_nested(c);
	else
		while (c->at < c->end && !strchr(",}] \t\r\n", *c->at))
			c->at++;
	text.len = (size_t)(c->at - text.ptr);
	return text;
}

/* Append the bytes of a JSON string.  False: it contains a NUL, which columns of text
 * cannot store. */
static bool unquote(wh_view quoted, wh_buf *out)
{
	json_t *value = json_loadb(quoted.ptr, quoted.len,
				   JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	const char *text = json_string_value(value);
	size_t len = json_string_length(value);
	bool fine = text && !memchr(text, 0, len);

	if (fine)
		wh_buf_put(out, text, len);
	json_decref(value);
	return fine;
}

/* Is a member's quoted name the same as `part`, a part of a pointer with `len` bytes? */
static bool same_name(wh_view quoted, const char *part, size_t len)
{
	wh_buf name = WH_BUF_INIT(quoted.len);
	size_t n = 0;
	bool same = unquote(quoted, &name);

	for (size_t i = 0; same && i < len; i++, n++) {
		char c = part[i];

		if (c == '~')
			c = part[++i] == '1' ? '/' : '~';
		same = n < name.len && name.ptr[n] == c;
	}
	same = same && n == name.len;
	wh_buf_clear(&name);
	return same;
}

/* Find a member of the object at the cursor.  If several have the name, take the last. */
static wh_view object_member(cursor *c, const char *part, size_t len)
{
	wh_view found = {NULL, 0};

	for (c->at++; c->at < c->end; c->at++) {
		wh_view name, value;

		skip_blanks(c);
		if (*c->at == '}')
			break;
		name = take_string(c);
		skip_blanks(c);
		c->at++; /* the colon */
		value = take_value(c);
		if (same_name(name, part, len))
			found = value;
		skip_blanks(c);
		if (*c->at == '}')
			break;
	}
	return found;
}

/* Find an element of the array at the cursor.  part: its index, such as "12". */
static wh_view array_element(cursor *c, const char *part, size_t len)
{
	int64_t want = 0;

	if (!len || len > 9 || (part[0] == '0' && len > 1))
		return (wh_view){NULL, 0};
	for (size_t i = 0; i < len; i++) {
		if (part[i] < '0' || part[i] > '9')
			return (wh_view){NULL, 0};
		want = want * 10 + (part[i] - '0');
	}
	for (c->at++; c->at < c->end; c->at++) {
		wh_view value;

		skip_blanks(c);
		if (*c->at == ']')
			break;
		value = take_value(c);
		if (want-- == 0)
			return value;
		skip_blanks(c);
		if (*c->at == ']')
			break;
	}
	return (wh_view){NULL, 0};
}

static wh_view find(wh_view line, const char *pointer)
{
	cursor c = {line.ptr, line.ptr + line.len};
	wh_view value = take_value(&c);

	while (*pointer == '/' && value.ptr) {
		size_t len = strcspn(++pointer, "/");

		c = (cursor){value.ptr, value.ptr + value.len};
		if (*value.ptr == '{')
			value = object_member(&c, pointer, len);
		else if (*value.ptr == '[')
			value = array_element(&c, pointer, len);
		else
			value = (wh_view){NULL, 0};
		pointer += len;
	}
	return value;
}

wherry_code wh_line_pick(wh_view line, const char *pointer, wh_buf *out,
			 wherry_error *err)
{
	wh_view value = find(line, pointer);

	if (!value.ptr)
		return wh_fail(err, WHERRY_INVALID, "there is nothing at %.60s", pointer);
	switch (*value.ptr) {
	case 'n':
	case '{':
	case '[':
		return wh_fail(err, WHERRY_INVALID,
			       "%.60s is %s, not a string, number or boolean",
			       *pointer ? pointer : "the whole of it",
			       *value.ptr == 'n'   ? "null"
			       : *value.ptr == '{' ? "an object"
						   : "an array");
	case '"':
		if (!unquote(value, out))
			return wh_fail(err, WHERRY_INVALID, "%.60s holds a NUL character",
				       pointer);
		break;
	default:
		wh_buf_put(out, value.ptr, value.len);
	}
	return wh_buf_check(out, err);
}
