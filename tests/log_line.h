/*
 * A strict parser of log lines, for tests: what Wherry writes must parse back.
 */
#ifndef LOG_LINE_H
#define LOG_LINE_H

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

/* The end of the value at text: a JSON string or a plain word; NULL: it is neither. */
static inline const char *log_line_value(const char *text, json_t **out)
{
	json_error_t error;
	size_t n;

	if (*text != '"') {
		n = strspn(text,
			   "!#$%&'()*+,-./0123456789:;<>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			   "[]^_`abcdefghijklmnopqrstuvwxyz{|}~");
		*out = json_stringn(text, n);
		return n ? text + n : NULL;
	}
	*out = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK,
			  &error);
	return *out ? text + error.position : NULL;
}

/* The fields of one line without its line break, as an object of strings; NULL: the line is
 * malformed, names a field twice, or has a byte that a terminal acts upon. */
static inline json_t *log_line_parse(const char *line)
{
	json_t *fields = json_object();

	for (const char *s = line; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f ||
		    (*s == '\xc2' && (unsigned char)s[1] < 0xa0))
			goto malformed;
	for (;;) {
		size_t n = strspn(line, "abcdefghijklmnopqrstuvwxyz_");
		json_t *value = NULL;
		char name[32];

		if (!n || n >= sizeof(name) || line[n] != '=')
			goto malformed;
		memcpy(name, line, n);
		name[n] = 0;
		line = log_line_value(line + n + 1, &value);
		if (!line || json_object_get(fields, name)) {
			json_decref(value);
			goto malformed;
		}
		(void)json_object_set_new(fields, name, value);
		if (!*line)
			return fields;
		if (*line++ != ' ')
			goto malformed;
	}
malformed:
	json_decref(fields);
	return NULL;
}

/* Is the field there, and is this its text? */
static inline bool log_line_has(const json_t *fields, const char *name, const char *text)
{
	const char *value = json_string_value(json_object_get(fields, name));

	return value && strcmp(value, text) == 0;
}

#endif
