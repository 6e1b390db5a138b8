/*
 * Log events with typed fields:
 *
 *     wh_log(env, WHERRY_LOG_WARN, "kafka", "no-topic", wh_log_text("topic", topic),
 *            wh_log_note("messages are tried until the topic exists"));
 *
 * Names of events, names of fields and notes are constants of the program.  Everything
 * from outside (a row, an answer, an error's text) is the value of a field.
 */
#ifndef WH_BASE_LOG_H
#define WH_BASE_LOG_H

#include <string.h>

#include <wherry/log.h>

#include "base/buf.h"
#include "base/env.h"

/* A table of the destination is missing.  Fields: kind, "queue" or "inbox"; url. */
#define WH_LOG_MISSING "table-missing"

enum {
	WH_LOG_TEXT_MAX = 1000, /* Limit of a text in a log, bytes. */
	WH_LOG_BARE = 80
};

/* A NULL text is logged as an empty value. */
static inline wherry_log_field wh_log_text(const char *name, const char *text)
{
	return (wherry_log_field){name, WHERRY_LOG_TEXT, text ? text : "",
				  text ? strlen(text) : 0, 0};
}

static inline wherry_log_field wh_log_bytes(const char *name, const char *text,
					    size_t len)
{
	return (wherry_log_field){name, WHERRY_LOG_TEXT, text, len, 0};
}

static inline wherry_log_field wh_log_int(const char *name, int64_t number)
{
	return (wherry_log_field){name, WHERRY_LOG_NUMBER, NULL, 0, number};
}

static inline wherry_log_field wh_log_us(const char *name, int64_t us)
{
	return (wherry_log_field){name, WHERRY_LOG_DURATION, NULL, 0, us};
}

/* A sentence for people: what the event means, or what to do. */
static inline wherry_log_field wh_log_note(const char *sentence)
{
	return wh_log_text("note", sentence);
}

#define WH_LOG_END_                                                                      \
	(wherry_log_field)                                                               \
	{                                                                                \
		.name = NULL                                                             \
	}
#define WH_LOG_FIRST_(first, ...) first
#define WH_LOG_OTHERS_(first, ...) __VA_ARGS__

/* wh_log(env, level, part, event, field…): report an event to env->log, if it is set.
 * Takes any number of fields, also none. */
#define wh_log(env, level, part, ...)                                                    \
	wh_log_send(                                                                     \
		env, level, part, WH_LOG_FIRST_(__VA_ARGS__, 0),                         \
		(const wherry_log_field[]){WH_LOG_OTHERS_(__VA_ARGS__, WH_LOG_END_)})

/* The list ends with a field whose name is NULL. */
void wh_log_send(const wh_env *env, wherry_log_level level, const char *part,
		 const char *event, const wherry_log_field *fields);

const char *wh_log_level_name(wherry_log_level level); /* Such as "warn". */

/* Append "event=NAME key=value …", the text of wherry_log_record.line. */
void wh_log_fields(wh_buf *out, const wherry_log_record *record);

/* Write "event=NAME" without the fields, which needs no memory.  Used if wh_log_fields()
 * ran out of memory. */
void wh_log_bare(const wherry_log_record *record, char out[WH_LOG_BARE]);

/* The beginning of a line. */
typedef struct wh_log_head {
	bool json;         /* Write one JSON object per line; false: key=value. */
	const char *time;  /* Time as text. */
	const char *relay; /* Name of the relay if there are several; NULL: none. */
} wh_log_head;

/* Append a line, with its line break.  If it is over the limit of the buffer, or there is no
 * memory for it, it has the event alone. */
void wh_log_line(wh_buf *out, const wh_log_head *head, const wherry_log_record *record);

#endif
