/*
 * Tables of other programs that are read as an outbox where they are.  A view gives the table the columns of a log; see
 * sql/adopted.DIALECT.sql.
 */
#ifndef WH_OUTBOX_ADOPT_H
#define WH_OUTBOX_ADOPT_H

#include "base/buf.h"
#include "db/sql.h"
#include "outbox/outbox.h"

/* The columns of a log that come from the table, in the order in which people are shown them. */
enum {
	WH_ADOPT_MESSAGE_ID,
	WH_ADOPT_TOPIC,
	WH_ADOPT_AGGREGATE_TYPE,
	WH_ADOPT_AGGREGATE_ID,
	WH_ADOPT_KEY,
	WH_ADOPT_HEADERS,
	WH_ADOPT_TRACE_ID,
	WH_ADOPT_CREATED_AT,
	WH_ADOPT_BODY,
	WH_ADOPT_FIELDS,
	WH_ADOPT_COLUMNS_MOST = 200,
	WH_ADOPT_STEPS_MOST = 14,
	WH_ADOPT_KEPT_MOST = WH_ADOPT_FIELDS + 3, /* Fields, id, where and done. */
};

/* How to read a table.  NULL: guess. */
typedef struct wh_adopt_options {
	const char *as; /* Name of the outbox. */
	const char *id; /* A column whose values are unique integers. */
	/* Each is a column, "=TEXT" for the same text in all messages, or "(EXPRESSION)". */
	const char *fields[WH_ADOPT_FIELDS];
	const char *where; /* A condition on the rows. */
	/* The treatment of a row that every subscription has: "delete", "nothing", a column of a time
	 * or a boolean, or "COLUMN = EXPRESSION, ...". */
	const char *done;
	/* Where the first subscription begins: "undone" (with rows that are not done), or a place of
	 * wherry_subscription_seek(). */
	const char *from;
} wh_adopt_options;

typedef struct wh_adopt_column {
	char name[WH_NAME_MOST + 1];
	char type[40]; /* As "read-columns" calls it. */
	bool not_null;
	bool unique;
} wh_adopt_column;

/* A table that is to be adopted, and what that changes. */
typedef struct wh_adoption {
	wherry_db *db;
	wh_name table;     /* The table of the other program. */
	wh_name name;      /* The outbox. */
	char title[140];   /* The outbox, as users write it. */
	char source[140];  /* The table, in the same way. */
	const char *known; /* The program whose table it is; NULL: not known. */
	const char *note;  /* Note for its users must know; NULL: nothing. */
	/* The table as it is. */
	wh_adopt_column columns[WH_ADOPT_COLUMNS_MOST];
	size_t n_columns;
	int64_t rows; /* Estimate. */
	char size[32];
	bool partitioned;
	bool numbered;  /* It has what adopt adds to it. */
	bool broken;    /* It has an index that was not made to its end. */
	bool published; /* It is replicated to other servers. */
	int64_t taken;  /* Ids that a session takes at a time. */
	int64_t undone; /* Rows that are not done, up to 100,000; -1: rows do not say it. */
	/* The mapping. */
	const char *where; /* Condition on the rows, of the options; NULL: none. */
	char id[WH_NAME_MOST + 1];
	bool adds_id;
	/* The column that says when a row was written, which adopt adds unless the table has one; "": the id does. */
	char version[WH_NAME_MOST + 1];
	bool own_version;
	wh_buf shown[WH_ADOPT_FIELDS]; /* For people. */
	wh_buf view;                   /* Columns of the view. */
	wh_buf plain; /* The same without guards, before there is a table of exceptions. */
	/* An expression may fail for a row: then the view has NULL for it, if the row is marked; see
	 * log/failing.h. */
	bool guards, may_fail[WH_ADOPT_FIELDS];
	wh_buf done; /* Expression that is NULL until the row is done. */
	wh_buf open; /* Condition of rows that are not done, if the view has these alone. */
	wh_buf done_shown, set; /* "": nothing is set. */
	char done_column[WH_NAME_MOST +
			 1]; /* Column that is set; "": none, or an expression. */
	bool deletes;
	bool safe_headers; /* Headers are texts, which may be no JSON. */
	char from[100];
	wh_buf options; /* The mapping as a JSON object, which the view keeps for the next time. */
	char *kept[WH_ADOPT_KEPT_MOST]; /* Options of the last time. */
	size_t n_kept;
	/* Words of this server's SQL, if they differ between servers. */
	char create[40], as_owner[40];
	/* SQL in the order in which it runs; an owner may run it himself. */
	struct wh_adopt_step {
		char *sql;
		bool alone; /* It cannot be in a transaction. */
	} steps[WH_ADOPT_STEPS_MOST];
	size_t n_steps;
	wh_sql sql; /* Statements of adopt.DIALECT.sql. */
} wh_adoption;

/*
 * Look at a table, and plan how to adopt it.  Changes nothing.
 *
 * @return WHERRY_OK; WHERRY_NOTFOUND: there is no such table; WHERRY_INVALID: it cannot be read exactly, a column is missing,
 *         or it is not clear which one is meant.
 *
 * Call wh_adoption_clear() in each case.  It reads; in a transaction or not.
 */
wherry_code wh_adoption_plan(wherry_db *db, const char *table,
			     const wh_adopt_options *options, wh_adoption *out,
			     wherry_error *err);

/*
 * Do it.  Each step is a separate transaction, and can be done again.
 *
 * @param out_made  Receives whether the outbox is new: the subscription begins where the options say.
 * @return WHERRY_OK; WHERRY_BUSY: the table was locked for 5 seconds, or somebody else adopts it; errors of the database.
 */
wherry_code wh_adoption_run(wh_adoption *adoption, bool *out_made, wherry_error *err);
void wh_adoption_clear(wh_adoption *adoption);

/* ---- for the files of adoption ---- */

/* The column of that name, whatever its case and without regard to underscores if `loose`; NULL: none. */
const wh_adopt_column *wh_adopt_find(const wh_adoption *a, const char *name, bool loose);

/* The mapping of a table that a known program makes, in place of options that were not given. */
void wh_adopt_know(wh_adoption *a, wh_adopt_options *options);

/* Read the options of the last time, in place of those that were not given. */
wherry_code wh_adopt_recall(wh_adoption *a, wh_adopt_options *options, wherry_error *err);

/* Write the mapping as options for the next time. */
wherry_code wh_adopt_remember(wh_adoption *a, const wh_adopt_options *options,
			      wherry_error *err);

/* Run a statement of adopt.DIALECT.sql that is given the name of the outbox as :view. */
wherry_code wh_adopt_ask_view(const wh_adoption *a, const char *statement,
			      wh_row_fn visit, void *ctx, wherry_error *err);

/* Append a text as a literal of SQL. */
void wh_adopt_put_literal(const wh_adoption *a, wh_buf *to, const char *text);

/* Find the columns, and write those of the view.  It is known how a row says that it is done. */
wherry_code wh_adopt_map(wh_adoption *a, const wh_adopt_options *options,
			 wherry_error *err);

/* Check the plan, and find where the first subscription begins. */
wherry_code wh_adopt_check(wh_adoption *a, const char *from, wherry_error *err);

/* Write the statements that adopt the table.  The plan is made otherwise. */
wherry_code wh_adopt_plan_steps(wh_adoption *a, wherry_error *err);

/* Append the column of the view that says when a row was written.  It has one. */
void wh_adopt_put_version(const wh_adoption *a, wh_buf *to);

/* Find how a row says that it is done, and what relays write to it; NULL: guess. */
wherry_code wh_adopt_find_done(wh_adoption *a, const char *given, wherry_error *err);

/* The expression KIND-TYPE, or KIND-any, with what is behind it; NULL: there is none. */
const char *wh_adopt_expression(const wh_adoption *a, const char *kind, const char *type,
				const char *behind);

/* Append an expression, of a column. */
void wh_adopt_put(wh_buf *to, const char *text, const char *column);

/* Take away the line end that ends an expression in its file. */
void wh_adopt_end_line(wh_buf *text, size_t start);

/* Append a text with "@word@" replaced: pairs of words and values, ended by NULL. */
void wh_adopt_fill(wh_buf *to, const char *text, const char *const *pairs);

/* The text of a statement of adopt.DIALECT.sql; NULL: there is none. */
const char *wh_adopt_text(const wh_adoption *a, const char *name);

/* The name of the option for a field: "message-id". */
const char *wh_adopt_option(int which);

/* Append a name with its schema and something behind it, quoted. */
void wh_adopt_put_name(const wh_adoption *a, wh_buf *to, const wh_name *name,
		       const char *behind);

/* Append the condition on the rows of the view behind a word; nothing if there is none. */
void wh_adopt_put_where(const wh_adoption *a, wh_buf *to, const char *word);

/* The same for the view: a marked row is one of the outbox. */
void wh_adopt_put_guarded_where(const wh_adoption *a, wh_buf *to, const char *word);

/* Append an expression in "guard", "guard-reason" or "guard-where" of adopt.DIALECT.sql. */
void wh_adopt_put_guard(const wh_adoption *a, wh_buf *to, const char *guard,
			const char *text);

/* Append a quoted name. */
void wh_adopt_quote(const wh_adoption *a, wh_buf *to, const char *name);

#endif
