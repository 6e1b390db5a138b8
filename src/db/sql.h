/*
 * SQL kept in .sql files: named statements with named parameters.
 *
 * A file begins with a head line that states what its layout can do, then has statements,
 * each under a line "-- name: NAME" and a comment that says what it guarantees.  {table}
 * stands for the quoted name of the table, {table_open} for the quoted name with that
 * suffix, {name} for the name as a string; {} is left alone.  SQL that several
 * statements share is a part, under a line "-- part: NAME"; {NAME} inserts it below that line.  In a part
 * {.} stands for the alias that it is given: {NAME:c} writes "c." there, {NAME} nothing, and
 * {NAME:.} in another part hands the alias of that part on.
 *
 * A parameter is a name after a colon.  The names are read when the file is: what the database
 * calls the n-th of them ($1 on PostgreSQL) is written into the text once.  A line
 * "-- unused: NAME NAME" in a statement names values that it is given and has no use for; before the first
 * statement, it names values that no statement of the file uses.
 *
 * Where the table's name has a schema, that stands before {table…} and before {wherry_lease},
 * which is a table or function that the outboxes of a schema share; {schema.} is it alone,
 * with its dot.  {bare_open} is {table_open} without it, as the name of an index or a trigger
 * is written where it is made; {idx_table_retry} and {uq_table_id} begin with idx_ and uq_, others
 * with PK_, UQ_, CK_ and IX_.  {'table} is what {table} is, as a string.  {payload_type} is the type that bodies are kept in, on SQL Server
 * NVARCHAR(MAX) or VARBINARY(MAX); {role} is
 * a role's name, quoted; {topic} and {kind} are strings: the topic and the mark of the rows that are
 * relayed, where a table has others as well.
 */
#ifndef WH_DB_SQL_H
#define WH_DB_SQL_H

#include <stdbool.h>

#include "base/buf.h"

enum { WH_STMT_PARAMS = 24, WH_PARAM_NAME = 24 };

/* A statement, ready to be prepared. */
typedef struct wh_stmt {
	char *name;
	size_t name_len;
	char *text;   /* Braces and parameters filled in. */
	bool part;    /* A part of statements, and not one itself. */
	char *unused; /* Names of values that it does not use; NULL: none. */
	char (*params)[WH_PARAM_NAME]; /* Names of its parameters, $1 first. */
	int n_params;
} wh_stmt;

typedef struct wh_sql {
	char *layout; /* the head line's words: "name=native ordered=yes …" */
	char *unused; /* Names of values that no statement uses; NULL: none. */
	wh_stmt *stmts;
	size_t n;
	/* All but the texts of the statements is borrowed from it; NULL: nothing is. */
	const struct wh_sql *pattern;
} wh_sql;

/* The texts that replace names in braces; borrowed. */
typedef struct wh_sql_names {
	const char *
		dialect; /* the scheme of the database; NULL: parameters stay as they are */
	const char *schema; /* NULL: none */
	const char *table;
	const char *payload; /* the type of bodies */
	const char *role; /* of the database, whom rights are granted to; NULL: nobody */
	const char *topic, *kind; /* what is relayed of the table; NULL: "" */
} wh_sql_names;

/*
 * Read a file's text for one table.
 *
 * @param table  Its name; quotes in it are doubled where it is written.
 * @return WHERRY_OK; WHERRY_INVALID (no head line, text before the first name, a name
 *         twice, an unclosed brace; err names the line); WHERRY_NOMEM.
 */
wherry_code wh_sql_parse(const char *text, const char *table, wh_sql *out,
			 wherry_error *err);
wherry_code wh_sql_parse_as(const char *text, const wh_sql_names *names, wh_sql *out,
			    wherry_error *err);
void wh_sql_clear(wh_sql *sql);

/*
 * A pattern is a file that was read once for the tables of many schemas: marks stand where the names do.  Reading a file
 * takes milliseconds, and wh_sql_fill() a few hundredths of that.
 *
 * @param names  Its schema and table are not read.
 */
wherry_code wh_sql_parse_pattern(const char *text, const wh_sql_names *names, wh_sql *out,
				 wherry_error *err);
/* Do the statements write these names as they are?  A quote in a name is doubled. */
bool wh_sql_fits_pattern(const char *schema, const char *table);
/*
 * Fill in the names, which must fit.  Statements that make, change or drop tables have no text then.
 *
 * @param out  Clear it before the pattern.
 */
wherry_code wh_sql_fill(const wh_sql *pattern, const char *schema, const char *table,
			wh_sql *out, wherry_error *err);

/* Does the head line of this text have the word, "names=qualified"? */
bool wh_sql_says(const char *text, const char *word);

/* The statement of that name; NULL if there is none. */
const wh_stmt *wh_sql_find(const wh_sql *sql, const char *name);

/* A statement by itself, of a dialect; text is copied.  Clear it with wh_stmt_clear(). */
wherry_code wh_stmt_make(const char *dialect, const char *name, const char *text,
			 wh_stmt *out, wherry_error *err);
void wh_stmt_clear(wh_stmt *stmt);

/*
 * Compare the parameters of a statement with the names of the values that it is given, separated by
 * spaces.  "width?" is optional: a statement may leave it out.
 *
 * @param unused  Names of values that no statement of its file uses, or NULL.
 * @return WHERRY_OK; WHERRY_INVALID: it uses a name that it is not given or that its file lists as
 *         unused, or it is given one that is not optional, and that neither it nor its file lists as
 *         unused; err tells which.
 */
wherry_code wh_stmt_check(const wh_stmt *stmt, const char *given, const char *unused,
			  wherry_error *err);

/* Set a statement's text and the names of its parameters from the text of a file: sql_params.c.
 * Afterwards scratch may be used again. */
wherry_code wh_stmt_number(const char *dialect, wh_stmt *stmt, const char *from,
			   wh_buf *scratch, wherry_error *err);

/*
 * Write the text of a statement with numbered parameters with a ? for each parameter, as ODBC has them, and
 * which parameter each is.
 *
 * @return WHERRY_OK; WHERRY_INVALID: there are more than `most`.
 */
wherry_code wh_stmt_marks(const wh_stmt *stmt, wh_buf *text, int *order, size_t most,
			  size_t *out_n, wherry_error *err);

/* Copy a word of the head line: value of "ordered" in "ordered=yes"; false if absent. */
bool wh_sql_word(const wh_sql *sql, const char *key, char *out, size_t cap);

/* A .sql file that the build embedded: src/MODEL/sql/LAYOUT.DIALECT.sql. */
typedef struct wh_sql_file {
	const char *model;   /* "outbox" */
	const char *layout;  /* "native" */
	const char *dialect; /* "sqlite", the scheme of the database */
	const char *text;
} wh_sql_file;

extern const wh_sql_file wh_sql_files[]; /* ended by a NULL model; made by the build */

/* NULL: there is none. */
const char *wh_sql_embedded(const char *model, const char *layout, const char *dialect);

#endif
