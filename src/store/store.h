/*
 * The tables of a model: the statements that all models share, the names of the tables,
 * and values bound to statements.
 */
#ifndef WH_STORE_STORE_H
#define WH_STORE_STORE_H

#include <wherry/lease.h>

#include "base/buf.h"
#include "db/driver.h"
#include "store/groups.h"
#include "store/marks.h"
#include "store/name.h"

/* A model of messages: its .sql files and its own statements. */
typedef struct wh_model {
	const char *name;           /* Used in messages. */
	const char *const *layouts; /* That of new tables first; ends with NULL. */
	/* Ends with a NULL model; NULL: the files that the build embedded. */
	const wh_sql_file *files;
	const wh_group *groups;
	unsigned kind;            /* WHERRY_KIND_*. */
	const char *const *roles; /* Kinds of grants; ends with NULL. */
	const char *folder; /* Folder of its .sql files; NULL: the same as `name`. */
} wh_model;

/* Properties of a layout, from the head line of its .sql file. */
typedef struct wh_store_layout {
	char name[24];
	/* There is no token and no lease: each claim is identified by its mark. */
	bool by_claim;
	bool unheard; /* Nothing wakes relays when rows are written. */
	/* Messages have keys, and are delivered in order of ids within a key. */
	bool ordered;
	bool by_aggregate; /* The order is by aggregate id, whatever the key is. */
	bool json;         /* Bodies are JSON; the database stores them as text. */
	bool json_names;   /* Statements take message ids as a JSON list of texts. */
	bool text;         /* Bodies are text. */
	/* The owner of the table waits for what a purge writes to rows. */
	bool purges_soon;
	/* Columns by which tables of the layout are recognised: "id,topic"; a table with
	 * a column !x does not match. */
	char columns[200];
} wh_store_layout;

/* One table of a model on one connection. */
typedef struct wh_store {
	const wh_model *model;
	wherry_db *db; /* Borrowed. */
	wh_sql sql;
	/* Of the layout, borrowed: empty until the first store that has it is loaded.  NULL: there is none. */
	wh_sql *pattern;
	wh_store_stmts stmt; /* NULL: the layout lacks the statement. */
	wh_store_layout layout;
	wh_name names;
	/* The table's name, borrowed from `names`.  Shared tables use it. */
	wh_view name;
	int version; /* Version of the table's schema. */
	/* The table is to be created or changed, so its schema is looked up among tables
	 * that the user owns. */
	bool making;
	const char *payload; /* Type of bodies of a table to create; NULL: json. */
	/* Type of the table's bodies; "": no choice in this layout. */
	char payload_type[16];
	/* 1: the table was made with partitions; 0: it was not; -1: unknown. */
	int partitioned;
	/* A purge deletes parts of the table whole, and returns how many ids went. */
	bool segmented;
	int64_t rows_read;  /* Number of rows that were read for delivery. */
	char *display_name; /* Name as the caller gave it, maybe with a schema; owned. */
	char *lease_name;   /* Its name in the table of leases; owned; NULL: `name`. */
	const char *limits; /* Limits of the layout, for users; "": none. */
	/* Topic and mark of the rows that are relayed; borrowed; NULL: all rows. */
	const char *topic, *kind;
	int64_t body_max; /* Limit of a body, in bytes. */
	bool texts_after_claim; /* Claim rows without texts and read the texts after the claim. */
	/* Report of the relay that uses the store; NULL: none. */
	const struct wh_relay_report *report;
	wh_marks marks;     /* Marks of claims, in layouts that have them. */
	wh_buf ids;         /* Buffer of the parameter "ids". */
	wh_buf message_ids; /* Buffer of the parameter "names". */
} wh_store;

/* A store for a model, without statements yet.  Load it where it will stay: `name` points
 * into it. */
wh_store wh_store_init(wherry_db *db, const wh_model *model);

/* Free everything except the connection. */
void wh_store_clear(wh_store *store);

/*
 * Load the statements of a layout for this table.
 *
 * @param layout  NULL: native.
 * @param own     Receives the model's own statements: its struct of pointers.
 * @return WHERRY_OK; WHERRY_INVALID: a bad table name, an unknown layout, or a .sql file
 *         that does not match the groups; WHERRY_UNSUPPORTED: the layout does not exist
 *         for this database.
 */
wherry_code wh_store_load(wh_store *store, const char *scheme, const char *layout,
			  const char *table, void *own, wherry_error *err);
void wh_store_unload(wh_store *store);

/* The folder of a model's .sql files. */
const char *wh_store_folder(const wh_model *model);

/* The text of a layout's .sql file for this database; NULL: there is none. */
const char *wh_store_text(const wh_model *model, const char *layout, const char *scheme);

/* Does the head line have this word for this key, such as "yes" in ordered=yes? */
bool wh_store_says(const wh_store *store, const char *key, const char *word);

/* Version of the schema of existing tables. */
typedef struct wh_version {
	bool found;
	int64_t version; /* 0: a table beside the message table is missing. */
	/* Number of the oldest version of Wherry that may use the tables. */
	int64_t min_program;
} wh_version;

/*
 * Find and load the layout of an existing table.  Wherry's own tables are
 * listed in wherry_schema, others are recognised by their columns.  If the table matches no layout,
 * out->found is false and the last layout stays loaded.
 */
wherry_code wh_store_recognize(wh_store *store, const char *table, void *own,
			       wh_version *out, wherry_error *err);

/* Copy the name as the caller gave it into store->display_name. */
wherry_code wh_store_set_display_name(wh_store *store, const char *title,
				      wherry_error *err);

/* Set store->lease_name to TABLE, the mark and PART, the name for leases and pauses.  Needed if several
 * parts of one table are relayed separately.  The mark tells what
 * the part is. */
wherry_code wh_store_call(wh_store *store, char mark, const char *part,
			  wherry_error *err);

/* The parameter "name" of statements on leases and pauses. */
wh_param wh_store_lease_name(const wh_store *store);

/* Refuse a schema that is missing or incomplete.  Sets store->version. */
wherry_code wh_store_check(wh_store *store, const wh_version *v, wherry_error *err);

/* Set store->payload_type to the type of the table's bodies.  It comes from the database, or
 * from the head line if all tables of the layout have one type. */
wherry_code wh_store_read_payload(wh_store *store, wherry_error *err);

/* Return UNSUPPORTED with a message "MODEL 'x' has the layout y, WHAT". */
wherry_code wh_store_cannot(const wh_store *store, const char *what, wherry_error *err);

/*
 * Read one number.
 *
 * @param stmt   NULL: the layout lacks the statement; *inout stays unchanged.
 * @param inout  Receives the first column of the row; unchanged if there is no row.
 */
wherry_code wh_store_ask(const wh_store *store, const wh_stmt *stmt,
			 const wh_param *params, size_t n_params, int64_t *inout,
			 wherry_error *err);

/* Read the highest id that is not delivered yet; 0: none. */
wherry_code wh_store_last_open(const wh_store *store, int64_t *out_id, wherry_error *err);

/* Is a row up to this id not delivered yet? */
wherry_code wh_store_open_upto(const wh_store *store, int64_t upto, bool *out_any,
			       wherry_error *err);

/* Was the table made with partitions?  Sets store->partitioned. */
wherry_code wh_store_partitioned(wh_store *store, bool *out, wherry_error *err);

/* A wh_row_fn that stores the first column in the int64_t at ctx. */
wherry_code wh_take_int(void *ctx, const wh_row *row, wherry_error *err);

/* Convert microseconds to milliseconds, as tables store times, rounding up. */
int64_t wh_ms(int64_t us);

/* Set the parameter "ids".  Borrowed until the next call. */
wherry_code wh_store_ids(wh_store *store, const int64_t *ids, size_t n, wh_param *out,
			 wherry_error *err);

/* Set the parameters "names" and "width" to message ids.  Borrowed until the next call.
 * The format of "names" depends on layout and database: a JSON list of texts, a JSON list
 * of hexadecimal texts, or bytes, each padded with zeros to the width; of a message id of more
 * than 128 bytes its first 80 and its SHA-256. */
enum { WH_NAME_PARAMS = 2 };
wherry_code wh_store_names(wh_store *store, const wh_view *names, size_t n,
			   wh_param out[WH_NAME_PARAMS], wherry_error *err);

/* Like wh_store_ids(), in a buffer of the caller. */
wherry_code wh_store_list(wh_buf *buf, const int64_t *ids, size_t n, wh_param *out,
			  wherry_error *err);

/* Say that creating the tables again repairs a failure; return code. */
wherry_code wh_store_remake(const wh_store *store, wherry_code code, wherry_error *err);

/* If code is NOTFOUND, set a message that says which table or index is missing, and that it
 * has to be created.  Returns code. */
wherry_code wh_store_missing(const wh_model *model, const char *table, wherry_code code,
			     wherry_error *err);

#endif
