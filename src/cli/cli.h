/*
 * The program: commands as tables, and what they share.
 *
 * Results go to stdout, chatter to stderr; nothing below cli/ prints.  Each command is
 * one file that ends in its table; options, help and the nearest-word hints are read
 * from these tables.
 */
#ifndef WH_CLI_CLI_H
#define WH_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <wherry/wherry.h>

#include "base/advice.h"
#include "base/buf.h"
#include "base/error.h"

/* clang-format off */
/*        name      number  meaning */
#define WH_EXITS(X)                                                                  \
	X(DONE,     0,   "done; a relay was stopped, or found everything delivered") \
	X(FAILED,   1,   "failed, and the message on standard error says why; or "   \
			 "doctor found something bad")                               \
	X(USAGE,    2,   "the command line is wrong")                                \
	X(DEATHS,   3,   "relay --until-empty: empty, but messages died in this run") \
	X(PARKED,   4,   "relay --until-empty: only messages behind a parked key "   \
			 "are left")                                                 \
	X(TIMEDOUT, 5,   "relay --until-empty: --timeout passed")                    \
	X(SIGNALLED, 130, "a second signal ended it at once")
/* clang-format on */

typedef enum wh_exit {
#define WH_EXIT_ENUM(name, number, text) WH_EXIT_##name = number,
	WH_EXITS(WH_EXIT_ENUM)
#undef WH_EXIT_ENUM
} wh_exit;

/* Flags of an option. */
enum {
	WH_REQUIRED = 1, /* the command refuses to run without it */
	WH_REPEAT = 2    /* may be given several times */
};

typedef struct wh_option {
	const char *name;  /* without its dashes */
	const char *value; /* what its value is called; NULL: it is a switch */
	const char *help;
	const char *setting; /* the setting it stands for; NULL: the command reads it */
	unsigned flags;
} wh_option;

/* clang-format off */
#define WH_JSON_OPTION {"json", NULL, "Write the result as JSON.", NULL, 0}
/* clang-format on */

typedef struct wh_args wh_args;

typedef struct wh_command {
	const char *name;
	const char *operands;     /* "URL [ID]": how many there must and may be */
	const char *synopsis;     /* operands and options, as the help shows them */
	const char *brief;        /* one line */
	const char *help;         /* paragraphs and examples, as printed */
	const wh_option *options; /* ended by a row without a name */
	const char *preset; /* a switch to turn on unless the user sets it; or NULL */
	bool plain;         /* takes no --table and no --set */
	const struct wh_command *const *words; /* second words, as in "queue send", ended
						  by NULL; NULL: it has none */
	wh_exit (*run)(wh_args *args);
} wh_command;

/* Every command, ended by NULL: commands.c. */
extern const wh_command *const wh_commands[];

/* ---- args.c: the command line of one command, parsed by its table ---- */

typedef struct wh_given {
	const wh_option *option;
	const char *value; /* NULL for a switch */
} wh_given;

struct wh_args {
	const wh_command *command;
	wherry_config *config;
	wh_given *given; /* in the order of the command line */
	size_t n_given;
	char **operands;
	size_t n_operands;
	bool help;    /* --help was met: nothing after it counts */
	char *target; /* what names the outbox again behind "wherry COMMAND", with a blank
			 before it: " sqlite:shop.db --table billing"; "" by WHERRY_URL */
	char *from, *to; /* operands that were not typed; NULL: they were */
};

/* False: it said what is wrong.  args is to be cleared either way. */
bool wh_args_parse(const wh_command *command, int argc, char **argv, wh_args *args);
void wh_args_clear(wh_args *args);

/* An operand by its place, NULL beyond the last. */
const char *wh_operand(const wh_args *args, size_t i);

/* An option's value, NULL if it was not given. */
const char *wh_arg(const wh_args *args, const char *name);

/* Has the command this option? */
bool wh_arg_known(const wh_args *args, const char *name);

bool wh_arg_on(const wh_args *args, const char *name);

/* The headers that --header NAME=VALUE gives, as a JSON object: *out is given, free() it.  On
 * another status than WH_EXIT_DONE it said what is wrong. */
wh_exit wh_arg_headers(const wh_args *args, char **out);

/* The values of an option that repeats: start with *at = 0, ends with NULL. */
const char *wh_arg_next(const wh_args *args, const char *name, size_t *at);

/* Typed values; *out is left alone when the option was not given.  False: it said what
 * is wrong. */
bool wh_arg_count(const wh_args *args, const char *name, int64_t least, int64_t most,
		  int64_t *out);
bool wh_arg_duration(const wh_args *args, const char *name, int64_t *out_us);

/* States by name, as bits 1 << wherry_state: wherry_state_name() or wh_queue_state_name(). */
typedef const char *(*wh_state_names)(wherry_state state);
bool wh_arg_states(const wh_args *args, const char *name, wh_state_names names,
		   unsigned *out);

/* The options that every command has unless it is plain, ended by one without name. */
extern const wh_option wh_common_options[];

/* The setting an option or --set names, with its type; NULL if there is none. */
const wherry_setting *wh_setting_find(const char *key);

/* The command of a name, NULL if there is none; nearest: the one that may be meant. */
const wh_command *wh_command_find(const char *name);
const char *wh_command_nearest(const char *name);

/* The same among the second words of a command. */
const wh_command *wh_command_word(const wh_command *command, const char *word);
const char *wh_command_word_nearest(const wh_command *command, const char *word);

/* The last word of a command: "send" of "queue send". */
const char *wh_command_last(const wh_command *command);

/* ---- help.c: the tables as text on stdout ---- */

void wh_print_help(const wh_command *command);

/* Print text in lines after `indent` columns, the first of which contain `head`.  Text in
 * brackets is not broken. */
void wh_print_wrapped(const char *head, int indent, const char *text);

/* Paragraphs, each one line of text; lines that begin with a blank stand as they are. */
void wh_print_paragraphs(const char *text);

/* ---- confirm.c ---- */

/* Ask on a terminal; elsewhere --yes is required.  False: it said that nothing happens. */
bool wh_confirm(const wh_args *args, const char *fmt, ...) WH_PRINTF(2, 3);

/* ---- report.c: what goes wrong ---- */

/* Set the words that name the outbox in commands that the library's messages advise, and forget the
 * makers; see wh_args. */
void wh_report_target(const char *target);

/* Add a command with words that are not those of the outbox; see wh_advice.  The words are copied. */
void wh_report_maker(const char *maker, const char *words);

/* Set the command that runs; the name is borrowed. */
void wh_report_command(const char *name);

/* "wherry: ..." and, unless hint is NULL, "  try: ..."; returns WH_EXIT_FAILED. */
wh_exit wh_complain(const char *hint, const char *fmt, ...) WH_PRINTF(2, 3);

/* Advice after a failure whose message has none; NULL: no advice. */
const char *wh_way_out(wherry_code code);

/* Append the commands that give a role of the database the rights for the command that runs; false:
 * there are none. */
bool wh_put_grant(wh_buf *text);

/* Advice after a failure, written to `text` if it names a command; NULL: no advice. */
const char *wh_put_hint(wh_buf *text, const wherry_error *err);

/* Append what the library says, with the outbox in the commands that it advises. */
void wh_put_message(wh_buf *text, const char *message);

/* Append SQL, or a command of Wherry with the words that name the table. */
void wh_put_repair(wh_buf *text, const char *repair);

/* Complain about a failure of the library. */
wh_exit wh_report(const wherry_error *err);

/* The command line is wrong; returns WH_EXIT_USAGE. */
wh_exit wh_usage(const wh_command *of, const char *fmt, ...) WH_PRINTF(2, 3);

/* Flush stdout; what was not written turns WH_EXIT_DONE into WH_EXIT_FAILED. */
wh_exit wh_finish(wh_exit status);

/* ---- place.c: the database that a command's first operand names, and the name that is its
 * second operand ---- */

typedef struct wh_place {
	wherry_db *db;
	const char *name; /* "": there is no second operand */
	char target[400]; /* " URL NAME", for commands to paste */
} wh_place;

/* On another status than WH_EXIT_DONE it said why, and nothing is open. */
wh_exit wh_place_open(wh_place *place, const wh_args *args);
void wh_place_close(wh_place *place);

/* Say why a call failed; INVALID is the command line's fault. */
wh_exit wh_call_failed(const wh_args *args, wherry_code code, const wherry_error *err);

/* The values of --grant, at most WH_GRANTS_MOST; false: there are more, which it said. */
enum { WH_GRANTS_MOST = 64 };
bool wh_arg_grants(const wh_args *args, const char **out, size_t *out_n);

/* How a command with --print and --json creates a table, in a database that may be new. */
typedef struct wh_creating {
	const char *what;   /* it is, in JSON */
	const char *name;   /* of the table */
	const char *layout; /* that was asked for; NULL: none was */
	const struct wh_model
		*model; /* NULL: it has no roles, and --grant is not an option */
	void *own;      /* room for the model's own statements */
	/* The SQL for a database of a scheme; *out is the caller's to free. */
	wherry_code (*sql)(const wh_args *args, const char *scheme, char **out,
			   wherry_error *err);
	wherry_code (*create)(const wh_args *args, const wh_place *at, wherry_error *err);
	void (*tell)(const wh_args *args, const wh_place *at); /* that it is ready */
} wh_creating;

wh_exit wh_place_create(const wh_args *args, const wh_creating *how);

/* ---- body.c ---- */

/* Append what a file holds; "-": standard input.  On another status than WH_EXIT_DONE it said what
 * is wrong. */
wh_exit wh_read_file(wh_buf *to, const char *from);

/* ---- session.c: the outbox that a command works on ---- */

typedef struct wh_session {
	char url[200];      /* without its password, for messages */
	const char *target; /* see wh_args; borrowed */
	const char *table;
	wherry_db *db;
	wherry_outbox *box;
} wh_session;

/* Open args' first operand; on another status than WH_EXIT_DONE it said why, and the
 * session is closed. */
wh_exit wh_session_open(wh_session *s, const wh_args *args);
void wh_session_close(wh_session *s);

/* The same without the outbox, whose table need not be there. */
wh_exit wh_session_connect(wh_session *s, const wh_args *args);

/* ---- instead.c ---- */

/* Is the first operand the URL of a queue or a delayed queue, and the command for outboxes alone? */
bool wh_is_for_outboxes(const wh_args *args);

/* Is the first operand a URL that the command can take?  False: it said what to write instead. */
bool wh_check_url(const wh_args *args);

/* The first operand is the URL of a queue or a delayed queue: say which command is for it. */
wh_exit wh_refuse_queue(const wh_args *args);

/* ---- why.c: why a message is where it is ---- */

typedef struct wh_why {
	const wh_session *session;
	wherry_status status;
	int64_t now_us; /* Unix time */
} wh_why;

/* Does the destination of the relay that runs refuse everything? */
bool wh_is_refused(const wherry_status *st);

/* Append it, in words. */
void wh_put_why(wh_buf *why, const wh_why *s, const wherry_row *row);

/* ---- text.c: for people's eyes ---- */

enum { WH_SPAN_LEN = 24 };

/* A length of time in words: "3m 2s". */
const char *wh_span_text(int64_t us, char out[WH_SPAN_LEN]);

/* Append text with control characters as JSON writes them, as \n or \u001b, and broken UTF-8 as '?'.
 * Other characters, also backslashes, stay. */
void wh_put_escaped(wh_buf *buf, const char *text, size_t len);

/* Append the beginning of a body, escaped like that; a cut ends in an ellipsis. */
void wh_put_body_begin(wh_buf *buf, const void *body, size_t len);

/* Append text with control characters and broken UTF-8 as '?', at most `columns` wide
 * (0: as wide as it is); a cut ends in an ellipsis. */
void wh_put_cell(wh_buf *buf, const char *text, size_t columns);
size_t wh_columns(const char *text);

/* Columns of the terminal on a descriptor; 0: it is none. */
size_t wh_terminal_width(int fd);

/* Colours for a terminal.  Each begins a colour, or is "" where standard output is not one, or
 * NO_COLOR is set. */
typedef enum wh_paint { WH_PLAIN, WH_GOOD, WH_CARE, WH_DANGER } wh_paint;
const char *wh_painted(wh_paint paint);

const char *wh_plural(int64_t n); /* "" for 1, else "s" */

/* Append valid JSON with line breaks and indentation, its numbers as they are. */
void wh_put_pretty(wh_buf *buf, const char *json, size_t len);

/* ---- table.c: aligned columns, whose width the first rows decide ---- */

enum { WH_TABLE_COLUMNS = 8, WH_TABLE_ROWS = 128 };

typedef struct wh_table_column {
	const char *title;
	size_t most; /* columns it may take on a terminal; 0: what is left */
	bool right;  /* numbers */
	wh_paint (*paint)(const char *cell); /* NULL: plain */
} wh_table_column;

typedef struct wh_table {
	const wh_table_column *columns;
	size_t n_columns;
	size_t width[WH_TABLE_COLUMNS];
	size_t terminal; /* its width; 0: nothing is cut */
	char *cells[WH_TABLE_ROWS][WH_TABLE_COLUMNS];
	size_t n_rows; /* waiting to be written */
	bool begun;
} wh_table;

void wh_table_begin(wh_table *table, const wh_table_column *columns, size_t n_columns);
void wh_table_add(wh_table *table, const char *const *cells); /* copied */
void wh_table_end(wh_table *table);

/* ---- row.c: a row of the outbox ---- */

typedef enum wh_row_detail { WH_ROW_BRIEF, WH_ROW_FULL } wh_row_detail;

/* Append a message as the line that a destination would get, without the end of the object. */
void wh_put_line(wh_buf *buf, const wherry_message *message);

/* Append ",\"NAME\":TEXT"; NULL: null.  A time of 0 is null, too. */
void wh_put_text_field(wh_buf *buf, const char *name, const char *text);
void wh_put_time_field(wh_buf *buf, const char *name, int64_t us);

/* Append an age, in microseconds; -1: null. */
void wh_put_age_field(wh_buf *buf, const char *name, int64_t us);

/* ---- status_cron.c ---- */

/* The active schedules of the database's table cron: a line each, or a list of JSON objects.
 * Nothing if there is no such table. */
void wh_put_schedules(wh_buf *out, wherry_db *db, bool json);

/* Append a row as a JSON object; brief: without headers and body. */
void wh_put_row(wh_buf *buf, const wherry_row *row, wh_row_detail detail);

/* ---- show_fields.c: a message for a person, a field on each line ---- */

/* Nothing where text is NULL or "", or a time 0. */
void wh_print_field(const char *name, const char *text);
void wh_print_time(int64_t now_us, const char *name, int64_t us);
void wh_print_number(const char *name, int64_t number);

/* JSON is indented if it is short; of others the beginning is printed. */
void wh_print_body(const char *body, size_t len);

/* ---- progress.c: a line on stderr that is overwritten, on a terminal only ---- */

typedef struct wh_progress {
	const char *what;
	int64_t total; /* 0: unknown */
	int64_t began_us, drawn_us;
	bool on, shown;
} wh_progress;

void wh_progress_begin(wh_progress *p, const char *what, int64_t total);
void wh_progress_show(wh_progress *p, int64_t done, const char *fmt, ...) WH_PRINTF(3, 4);
void wh_progress_wipe(const wh_progress *p); /* before another line is written */
void wh_progress_end(wh_progress *p);

/* Log that an operator changed an outbox: one event on standard error that says what was
 * done, where, to how many rows, and by whom. */
void wh_audit(const char *action, const char *url, const char *table, int64_t rows);

#endif
