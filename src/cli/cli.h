/*
 * The program: the table of a command, and functions that commands share.
 *
 * Results go to stdout, other messages to stderr.  Code below cli/ does not print.  Each
 * command is one file that ends with its table.  Options, help and hints of the nearest
 * word are read from these tables.
 */
#ifndef WH_CLI_CLI_H
#define WH_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <wherry/wherry.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/url.h"
#include "daemon/advice.h"

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
	X(MISSING,  6,   "reconcile: messages are missing at the destination")       \
	X(SIGNALLED, 130, "a second signal ended it at once")
/* clang-format on */

typedef enum wh_exit {
#define WH_EXIT_ENUM(name, number, text) WH_EXIT_##name = number,
	WH_EXITS(WH_EXIT_ENUM)
#undef WH_EXIT_ENUM
} wh_exit;

/* Flags of an option. */
enum {
	WH_REQUIRED = 1, /* The command refuses to run without the option. */
	WH_REPEAT = 2    /* The option may be given several times. */
};

typedef struct wh_option {
	const char *name;  /* Without its dashes. */
	const char *value; /* Name of its value in the help; NULL: it is a switch. */
	const char *help;
	/* The setting that it sets; NULL: none, the command reads the option. */
	const char *setting;
	unsigned flags;
} wh_option;

/* clang-format off */
#define WH_JSON_OPTION {"json", NULL, "Write the result as JSON.", NULL, 0}
/* clang-format on */

typedef struct wh_args wh_args;

/* The kinds of tables that a URL can name. */
typedef enum wh_kind {
	WH_OF_OUTBOX,
	WH_OF_QUEUE,
	WH_OF_DELAYED,       /* A delayed queue: sqlite:shop.db#delayed/mail. */
	WH_OF_DELAYED_TABLE, /* Its table: sqlite:shop.db#delayed. */
	WH_OF_INBOX,
	WH_OF_CRON, /* A table of schedules. */
	WH_KINDS    /* Their number; also: not known. */
} wh_kind;

/* An option that has no meaning for a kind of table, and why. */
typedef struct wh_without {
	const char *option, *why;
} wh_without;

struct wh_session;

/* Function and options of a command for tables of one kind. */
typedef struct wh_for_kind {
	/* The session is closed afterwards.  NULL: the command is not for this kind. */
	wh_exit (*run)(const wh_args *args, struct wh_session *s);
	bool opens; /* It opens the table: its session has only the database. */
	/* Options that are refused for this kind; the list ends with NULL.  NULL: none. */
	const wh_without *without;
	/* The command to use instead, such as "send"; what is behind a | follows the URL.
	 * NULL: there is none. */
	const char *use;
	const char *
		why; /* Why there is none; NULL: the kinds that the command is for say it. */
} wh_for_kind;

typedef struct wh_command {
	const char *name;
	/* Operands, which determine their number: "URL [ID]". */
	const char *operands;
	const char *synopsis;     /* Operands and options, as the help shows them. */
	const char *brief;        /* One line of help. */
	const char *help;         /* Paragraphs and examples of the help. */
	const wh_option *options; /* Ends with a row without a name. */
	/* A setting that is on unless the user sets it; NULL: none. */
	const char *preset;
	bool plain; /* The command does not take wh_common_options. */
	/* Commands of the second word, as in "queue publish"; ends with NULL.  NULL:
	 * there is no second word. */
	const struct wh_command *const *words;
	wh_exit (*run)(wh_args *args); /* NULL if there are kinds. */
	const wh_for_kind *kinds;      /* WH_KINDS of them; NULL: run does it. */
} wh_command;

/* Every command; ends with NULL.  See commands.c. */
extern const wh_command *const wh_commands[];

/* Is the command for tables of this kind? */
bool wh_is_for(const wh_command *command, wh_kind kind);

/* ---- args.c: the command line of one command, parsed by its table ---- */

typedef struct wh_given {
	const wh_option *option;
	const char *value; /* NULL: the option is a switch. */
} wh_given;

struct wh_args {
	const wh_command *command;
	wherry_config *config;
	wh_given *given; /* The options in the order of the command line. */
	size_t n_given;
	char **operands;
	size_t n_operands;
	bool help; /* --help was given; the words after it are ignored. */
	/* The word that names the table behind "wherry COMMAND" in advice, with a blank
	 * before it: " sqlite:shop.db#billing"; "": WHERRY_URL names it. */
	char *target;
	wh_table_name table; /* Name behind the # of the URL; "": none. */
	/* Operands that a relay of wherry.yaml or @NAME provides; NULL: none. */
	char *from, *to;
};

/* Parse a command line.  False: it printed what is wrong.  Clear args in both cases. */
bool wh_args_parse(const wh_command *command, int argc, char **argv, wh_args *args);
void wh_args_clear(wh_args *args);

/* Operand i, from 0; NULL: there are fewer operands. */
const char *wh_operand(const wh_args *args, size_t i);

/* The value of an option; NULL: the option was not given. */
const char *wh_arg(const wh_args *args, const char *name);

/* Does the command have this option? */
bool wh_arg_known(const wh_args *args, const char *name);

bool wh_arg_on(const wh_args *args, const char *name);

/* Read the options --header NAME=VALUE into a JSON object; free() *out.  If the status is
 * not WH_EXIT_DONE, it printed what is wrong. */
wh_exit wh_arg_headers(const wh_args *args, char **out);

/* The next value of an option that may be repeated; NULL: there are no more.  Start with
 * *at = 0. */
const char *wh_arg_next(const wh_args *args, const char *name, size_t *at);

/* Read an option as a number or a duration.  *out is unchanged if the option was not
 * given.  False: it printed what is wrong. */
bool wh_arg_count(const wh_args *args, const char *name, int64_t least, int64_t most,
		  int64_t *out);
bool wh_arg_duration(const wh_args *args, const char *name, int64_t *out_us);

/* Read an option with names of states into bits 1 << wherry_state.  `names` is
 * wherry_state_name() or wh_queue_state_name(). */
typedef const char *(*wh_state_names)(wherry_state state);
bool wh_arg_states(const wh_args *args, const char *name, wh_state_names names,
		   unsigned *out);

/* The options of every command that is not plain; ends with a row without a name. */
extern const wh_option wh_common_options[];

/* The setting with this key; NULL: there is none. */
const wherry_setting *wh_setting_find(const char *key);

/* The command with this name, or the name of the nearest one; NULL: there is none. */
const wh_command *wh_command_find(const char *name);
const char *wh_command_nearest(const char *name);

/* Find a second word of a command, or the nearest one; NULL: there is none. */
const wh_command *wh_command_word(const wh_command *command, const char *word);
const char *wh_command_word_nearest(const wh_command *command, const char *word);

/* The one-character form of an option of this name; 0: there is none. */
char wh_option_short(const char *name);

/* The last word of a command: "publish" of "queue publish". */
const char *wh_command_last(const wh_command *command);

/* ---- help.c: the tables as text on stdout ---- */

void wh_print_help(const wh_command *command);

/* Print text in lines that are indented by `indent` columns.  The first line has `head`
 * there.  Text in brackets is not broken. */
void wh_print_wrapped(const char *head, int indent, const char *text);

/* Print paragraphs, each of which is one line of text.  Lines that begin with a blank are
 * printed unchanged. */
void wh_print_paragraphs(const char *text);

/* ---- confirm.c ---- */

/* The options of every command that deletes for good: it asks by wh_confirm(). */
/* clang-format off */
#define WH_CONFIRM_OPTIONS                                                               \
	{"yes", NULL, "Do not ask. Required where standard input is not a terminal.",    \
	 NULL, 0},                                                                       \
	{"dry-run", NULL, "Print the number that it would delete, and change nothing.", NULL, 0}
/* clang-format on */
#define WH_CONFIRM_USAGE "[--yes|--dry-run]"

/* Ask the user to confirm.  The text says what the command will do, as "delete queue 'jobs'".
 * If standard input is not a terminal, --yes is required.  With --dry-run nothing is asked, and
 * what the command does from now on is rolled back: see wh_db_rehearse().
 * False: the command must end with *status, and it printed why. */
bool wh_confirm(const wh_args *args, wherry_db *db, wh_exit *status, const char *fmt, ...)
	WH_PRINTF(4, 5);

/* Was --dry-run given?  Then numbers are those that were counted before wh_confirm(). */
bool wh_is_dry(const wh_args *args);

/* A number in the result, and its name in JSON. */
typedef struct wh_count {
	const char *name;
	int64_t n;
} wh_count;

/* Print the result of a command that deletes: the text, or the numbers as JSON; the list ends
 * with a row without a name.  With --dry-run it says that nothing was deleted. */
void wh_print_deleted(const wh_args *args, const wh_count *counts, const char *fmt, ...)
	WH_PRINTF(3, 4);

/* ---- report.c: failures ---- */

/* Set the command line, of which the commands that messages advise are made; it is
 * borrowed, and NULL: there is none. */
void wh_report_on(const wh_args *args);

/* Set the kinds of the tables that the command opens, WHERRY_KIND_*; 0: they are not known. */
void wh_report_kinds(unsigned kinds);

/* Set the layout of the table that the command has opened: --grant is for Wherry's own. */
void wh_report_layout(const char *layout);

/* Print "wherry: ..." and, unless hint is NULL, "  try: ...".  Returns WH_EXIT_FAILED. */
wh_exit wh_complain(const char *hint, const char *fmt, ...) WH_PRINTF(2, 3);

/* Advice after a failure whose message has none; NULL: no advice. */
const char *wh_way_out(wherry_code code);

/* Append commands that grant the rights for the running command to the role that lacks them.
 * False: there is no such command, for example because only the owner may do it. */
bool wh_put_grant(wh_buf *text, const wherry_error *err);

/* Advice after a failure, written to `text` if it names a command; NULL: no advice. */
const char *wh_put_hint(wh_buf *text, const wherry_error *err);

/* Append a message of the library, and the command that repairs what failed. */
void wh_put_message(wh_buf *text, const wherry_error *err);

/* Append the command that creates the table, of this kind, that the URL names. */
void wh_put_create(wh_buf *text, unsigned kind);

/* Append the command that drops the outbox that the URL names. */
void wh_put_drop(wh_buf *text);

/* Append the command that adopts a table of the same database. */
void wh_put_adopt(wh_buf *text, const char *table);

/* Append a repair of wherry_queue_inspect(): SQL, or the command that creates the queue. */
void wh_put_repair(wh_buf *text, const char *repair);

/* Print a failure of the library.  Returns WH_EXIT_FAILED. */
wh_exit wh_report(const wherry_error *err);

/* Print why a call failed.  Returns WH_EXIT_USAGE for INVALID, else WH_EXIT_FAILED. */
wh_exit wh_call_failed(const wh_args *args, wherry_code code, const wherry_error *err);

/* Print what is wrong with the command line.  Returns WH_EXIT_USAGE. */
wh_exit wh_usage(const wh_command *of, const char *fmt, ...) WH_PRINTF(2, 3);

/* Flush stdout.  If that fails, WH_EXIT_DONE becomes WH_EXIT_FAILED. */
wh_exit wh_finish(wh_exit status);

/* Limit in bytes of a buffer whose text is printed. */
#define WH_OUTPUT_MOST ((size_t)1 << 31)

/* Write a buffer and then the text end to standard output.  If the buffer failed, write
 * nothing of it.  After any failure the program's exit status is not 0: wh_finish() says
 * why. */
void wh_print_buf(const wh_buf *buf, const char *end);

/* True if all that was printed so far was written whole.  Flushes standard output.  Ask
 * before a message is acknowledged that was printed. */
bool wh_printed_all(void);

/* ---- body.c ---- */

/* Append the content of a file; "-": standard input.  If the status is not WH_EXIT_DONE,
 * it printed what is wrong. */
wh_exit wh_read_file(wh_buf *to, const char *from);

/* The options and the synopsis of a command that takes a body. */
/* clang-format off */
#define WH_BODY_OPTION                                                                   \
	{"from", "FILE", "Where the body is; - or nothing is standard input.", NULL, 0}
/* clang-format on */
#define WH_BODY_USAGE "[BODY|--from FILE]"

/* Read the body of a message: an operand, the file of --from, or standard input, also if the
 * operand is "-".  `most` is the limit in bytes.  If the status is not WH_EXIT_DONE, it
 * printed what is wrong.  Clear *to in both cases. */
wh_exit wh_read_body(wh_buf *to, const wh_args *args, size_t operand, size_t most);

/* ---- session.c: the table that a command works on ---- */

typedef struct wh_session {
	char url[200];      /* The database, without its password, for messages. */
	const char *target; /* wh_args.target; borrowed. */
	wh_kind kind;
	const char *table; /* Its name; of a delayed queue TABLE/QUEUE.  Borrowed. */
	wherry_db *db;
	/* One of them is open; the others are NULL. */
	wherry_outbox *outbox;
	wherry_queue *queue;
	wherry_delayed *delayed; /* Also for WH_OF_DELAYED_TABLE. */
	wherry_inbox *inbox;
	struct wh_store *store; /* Of what is open; NULL: an inbox. */
} wh_session;

/* The name of the outbox that the URL names, or of the default one.  Borrowed. */
const char *wh_outbox_name(const wh_args *args);

/* Open the table in the database of the first operand.  If the status is not WH_EXIT_DONE, it
 * printed why, and the session is closed. */
wh_exit wh_session_open(wh_session *s, const wh_args *args, wh_kind kind);
void wh_session_close(wh_session *s);

/* The two parts of it: open the database, and open the table in it.  Close the session in any
 * case.  wh_session_try() does not print why it failed. */
wh_exit wh_session_connect(wh_session *s, const wh_args *args);
wh_exit wh_session_table(wh_session *s, const wh_args *args, wh_kind kind);
wherry_code wh_session_try(wh_session *s, const wh_args *args, wh_kind kind,
			   wherry_error *err);

/* ---- run_for_kind.c ---- */

/* Do what the command does to a table of the kind that the URL names.  Its kind is looked up
 * in the database, unless only one can be meant. */
wh_exit wh_run_for_kind(const wh_args *args);

/* ---- on_outbox_status.c ---- */

/* Print the status of an outbox once. */
wh_exit wh_on_outbox_status(const wh_args *args, wh_session *s);

/* ---- kind.c: the kind of the table that the URL names ---- */

/* The kind of the table of this name; WH_KINDS: there is no such table, or it cannot be
 * opened. */
wh_kind wh_kind_of(wherry_db *db, const char *name);

/* WHERRY_KIND_* of each kind; 0 of WH_KINDS. */
extern const unsigned wh_kind_bits[WH_KINDS + 1];

/* A table was not found.  Is it one of another kind?  If so, print which, and set
 * *status. */
bool wh_tell_other(wherry_db *db, const wh_args *args, const char *name, wh_exit *status);

/* Print that the command is not for this kind, and which one is. */
wh_exit wh_refuse_kind(const wh_args *args, wh_kind kind);

/* Refuse these options; the list ends with NULL.  False: one of them was given, and it
 * printed why it is refused. */
bool wh_allows(const wh_args *args, const wh_without *refused);

/* ---- why.c: why a message is where it is ---- */

typedef struct wh_why {
	const wh_session *session;
	wherry_outbox_status status;
	int64_t now_us; /* Unix time. */
	bool silent;    /* The relay has the lease, and no session of the database. */
} wh_why;

/* Has the relay that holds the lease no session of the database?  Its machine is gone, or it lost its
 * connection while a server fails over. */
wherry_code wh_is_silent(const wh_session *s, const wherry_outbox_status *st,
			 bool *out_silent, wherry_error *err);

/* Does the destination of the running relay refuse all messages? */
bool wh_is_refused(const wherry_outbox_status *st);

/* Append why the message is in its state, in words. */
void wh_put_why(wh_buf *why, const wh_why *s, const wherry_row *row);

/* ---- terminal.c: text for people ---- */

enum { WH_SPAN_LEN = 24 };

/* Write a duration in words, such as "3m 2s".  Returns out. */
const char *wh_span_text(int64_t us, char out[WH_SPAN_LEN]);

/* Append text with characters that wh_utf8_unsafe() names as JSON escapes, and invalid UTF-8
 * as '?'.  Other characters, including backslashes, are not changed. */
void wh_put_escaped(wh_buf *buf, const char *text, size_t len);

/* Append the beginning of a body as wh_put_escaped() does.  If it is cut, it ends with an
 * ellipsis. */
void wh_put_body_begin(wh_buf *buf, const void *body, size_t len);

/* Append text with characters that wh_utf8_unsafe() names and invalid UTF-8 as '?', at most
 * `columns` wide; 0: no limit.  If it is cut, it ends with an ellipsis. */
void wh_put_cell(wh_buf *buf, const char *text, size_t columns);
size_t wh_columns(const char *text);

/* Columns of the terminal at a descriptor; 0: it is not a terminal. */
size_t wh_terminal_width(int fd);

/* The end of advice where a relay is to be started.  A command that can be pasted would need a
 * destination, and only the operator knows it. */
#define WH_HOW_TO_RELAY "`wherry help relay` shows how to start one"

/* The sequence that begins a colour on a terminal.  It is "" if standard output is not a
 * terminal, or NO_COLOR is set. */
typedef enum wh_paint { WH_PLAIN, WH_GOOD, WH_CARE, WH_DANGER } wh_paint;
const char *wh_painted(wh_paint paint);

const char *wh_plural(int64_t n); /* "" for 1, else "s" */

/* Append valid JSON with line breaks and indentation.  Numbers are not changed. */
void wh_put_pretty(wh_buf *buf, const char *json, size_t len);

/* ---- table.c: aligned columns; the first rows determine their width ---- */

enum { WH_TABLE_COLUMNS = 9, WH_TABLE_ROWS = 128 };

typedef struct wh_table_column {
	const char *title;
	size_t most; /* Maximal width on a terminal; 0: the columns that are left. */
	bool right;  /* Align to the right, as numbers are. */
	wh_paint (*paint)(const char *cell); /* Colour of a cell; NULL: WH_PLAIN. */
} wh_table_column;

typedef struct wh_table {
	const wh_table_column *columns;
	size_t n_columns;
	size_t width[WH_TABLE_COLUMNS];
	size_t terminal; /* Width of the terminal; 0: no cell is cut. */
	char *cells[WH_TABLE_ROWS][WH_TABLE_COLUMNS];
	size_t n_rows; /* Rows that are not written yet. */
	bool begun;
} wh_table;

void wh_table_begin(wh_table *table, const wh_table_column *columns, size_t n_columns);
void wh_table_add(wh_table *table, const char *const *cells); /* Copies the cells. */
void wh_table_end(wh_table *table);

/* ---- row.c: members of a JSON object ---- */

/* Append ",\"NAME\":VALUE".  A text of NULL and a time of 0 become null. */
void wh_put_text_field(wh_buf *buf, const char *name, const char *text);
void wh_put_time_field(wh_buf *buf, const char *name, int64_t us);

/* Append an age in microseconds as a member; -1 becomes null. */
void wh_put_age_field(wh_buf *buf, const char *name, int64_t us);

/* ---- status_cron.c ---- */

/* Append the active schedules of the table "cron", as lines or as a list of JSON objects.
 * Append nothing if there is no such table. */
void wh_put_schedules(wh_buf *out, wherry_db *db, bool json);

/* ---- status_subscriptions.c ---- */

typedef struct wh_subscription_at {
	char name[64], topics[1024]; /* Topics "": all. */
	int64_t moved_us;            /* Time since its position moved. */
	int64_t kept_us; /* Age of the first message behind it; negative: there is none. */
	wherry_outbox_status status;
} wh_subscription_at;

typedef struct wh_subscriptions {
	wh_subscription_at *at; /* Owned. */
	int n;
} wh_subscriptions;

/* Read the subscriptions of the session's outbox; none in layouts that have none.  of_session: the status of the one that
 * the session has open.  On failure *out has those that were read.  The caller frees it with wh_free_subscriptions(). */
wherry_code wh_read_subscriptions(const wh_session *s,
				  const wherry_outbox_status *of_session,
				  wh_subscriptions *out, wherry_error *err);
void wh_free_subscriptions(wh_subscriptions *s);

/* " or more" if the count of a state is a lower bound, else "". */
const char *wh_or_more(const wherry_outbox_status *st, wherry_state state);
/* Append ,"at_least":["pending"], the states whose counts are lower bounds. */
void wh_put_at_least(wh_buf *out, const wherry_outbox_status *st);

/* Append them: as objects with commas between them, or as lines. */
void wh_put_subscriptions(wh_buf *out, const wh_subscriptions *s, bool json);

/* ---- show_fields.c: a message for a person, a field on each line ---- */

/* Print a field on a line.  Nothing is printed if text is NULL or "", or the time is
 * 0. */
void wh_print_field(const char *name, const char *text);
void wh_print_time(int64_t now_us, const char *name, int64_t us);
void wh_print_number(const char *name, int64_t number);

/* Print a body.  Short JSON is indented; of other bodies only the beginning is
 * printed. */
void wh_print_body(const char *body, size_t len);

/* ---- progress.c: a progress line on stderr, on a terminal only ---- */

typedef struct wh_progress {
	const char *what;
	int64_t total; /* Number of items; 0: unknown. */
	int64_t drawn_us;
	bool on, shown;
} wh_progress;

void wh_progress_begin(wh_progress *p, const char *what, int64_t total);
void wh_progress_show(wh_progress *p, int64_t done, const char *fmt, ...) WH_PRINTF(3, 4);
/* Write a line in the place of the progress.  Threads: any. */
void wh_progress_say(const wh_progress *p, const char *line);
void wh_progress_end(wh_progress *p);

/* ---- audit.c: a record of what an operator changed, on standard error; on syslog if that is a
 * terminal ---- */

/* Record what the command did, to which table and how many rows, and by whom; nothing with
 * --dry-run. */
void wh_audit(const wh_args *args, const char *table, int64_t rows);

/* A message that a command deleted.  The texts are given. */
typedef struct wh_gone {
	int64_t id;
	const char *state; /* Borrowed from the program. */
	char *topic, *message_id;
} wh_gone;

/* Record that one message was deleted; nothing with --dry-run. */
void wh_audit_message(const wh_args *args, const char *table, const wh_gone *gone);

#endif
