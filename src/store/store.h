/*
 * The part of a model's tables that every model has: its statements, their names, and the
 * values bound to them.
 */
#ifndef WH_STORE_STORE_H
#define WH_STORE_STORE_H

#include <wherry/lease.h>

#include "base/buf.h"
#include "db/driver.h"
#include "store/groups.h"
#include "store/marks.h"
#include "store/name.h"

/* A model of messages: its .sql files, and the statements it has beside those of the store. */
typedef struct wh_model {
	const char *name;           /* in messages */
	const char *const *layouts; /* native first; NULL at the end */
	const wh_sql_file *files;   /* ended by a NULL model; NULL: those of the build */
	const wh_group *groups;
	const char *make;         /* Command that makes its tables; NULL: wherry init. */
	const char *const *roles; /* Kinds of grants; NULL at the end. */
	const char *folder;       /* Of its .sql files; NULL: the name. */
} wh_model;

/* The properties of a layout that the store reads from the head line of its .sql file. */
typedef struct wh_store_layout {
	char name[24];
	bool by_claim;     /* No token, no lease: a claim is known by its own mark. */
	bool unheard;      /* Nothing wakes relays. */
	bool ordered;      /* There are keys, and order by them. */
	bool by_aggregate; /* Order is that of the aggregate id, whatever the key. */
	bool json;         /* Bodies are JSON, kept as any text. */
	bool json_names;   /* Statements take message ids as a JSON list of texts. */
	bool text;         /* Bodies are text. */
	char columns[200]; /* It is known by these: "id,topic"; !x: must not be there. */
	char archive[200]; /* Columns of its archive; "": there is none. */
} wh_store_layout;

/* One table of a model on one connection. */
typedef struct wh_store {
	const wh_model *model;
	wherry_db *db; /* borrowed */
	wh_sql sql;
	wh_store_stmts stmt; /* NULL: not in this layout */
	wh_store_layout layout;
	wh_name names;
	wh_view name;          /* the table's, in names: what the shared tables call it */
	int version;           /* of its schema */
	bool making;           /* to be made or changed: a table of ours is meant */
	const char *payload;   /* to be made with this type of bodies; NULL: json */
	char payload_type[16]; /* that of its bodies; "": there is no choice */
	int partitioned;       /* it was made for partitions; -1: nobody has looked */
	int64_t found;         /* rows read in order to deliver them */
	char *title;           /* Name as it was opened, maybe with its schema; owned. */
	char *called; /* Its name in the lease's table; owned; NULL: that of the table. */
	const char *limits; /* What users should know of its layout; "": nothing. */
	/* The topic and the mark of the rows that are relayed; borrowed.  NULL: all rows. */
	const char *topic, *kind;
	int64_t body_max; /* Bytes that a body may have. */
	bool careful;     /* Claim without texts, and read those behind the claim. */
	const struct wh_relay_report
		*report;    /* of the relay that works with it; NULL: none does */
	wh_marks marks;     /* the marks of claims, in layouts that have them */
	wh_buf ids;         /* the list of ids being bound, */
	wh_buf ranges;      /* that of ranges, */
	wh_buf message_ids; /* and the message ids of those rows */
} wh_store;

/* A store for a table, without statements yet.  Load it where it stays: name points into it. */
wh_store wh_store_init(wherry_db *db, const wh_model *model);

/* Free all but the connection. */
void wh_store_clear(wh_store *store);

/*
 * Read a layout's file of SQL for this table.
 *
 * @param layout  NULL: native.
 * @param own     Struct of pointers for the model's own statements.
 * @return WHERRY_OK; WHERRY_INVALID (a bad name of a table, no such layout, or a file that
 *         differs from the groups); WHERRY_UNSUPPORTED: the layout is not on this database.
 */
wherry_code wh_store_load(wh_store *store, const char *scheme, const char *layout,
			  const char *table, void *own, wherry_error *err);
void wh_store_unload(wh_store *store);

/* The folder of a model's .sql files. */
const char *wh_store_folder(const wh_model *model);

/* Is there a file of this layout for this database? */
const char *wh_store_text(const wh_model *model, const char *layout, const char *scheme);

/* Does the head line have that word for a key: "yes" for ordered=yes? */
bool wh_store_says(const wh_store *store, const char *key, const char *word);

/* Which version of the schema is there. */
typedef struct wh_version {
	bool found;
	int64_t version;     /* 0: a table beside it is missing */
	int64_t min_program; /* the oldest program that may still run */
} wh_version;

/*
 * Load the layout that the tables have: native ones are listed in wherry_schema, others are
 * known by their columns.  Where nothing is found some layout is loaded.
 */
wherry_code wh_store_recognize(wh_store *store, const char *table, void *own,
			       wh_version *out, wherry_error *err);

/* Keep the name as it was opened.  Given to the store. */
wherry_code wh_store_entitle(wh_store *store, const char *title, wherry_error *err);

/* Where leases and pauses are kept, call it "TABLE:PART": several that are relayed share a table. */
wherry_code wh_store_call(wh_store *store, const char *part, wherry_error *err);

/* The parameter "name" of statements on leases and pauses. */
wh_param wh_store_called(const wh_store *store);

/* Is the schema there, and whole?  Sets store->version. */
wherry_code wh_store_check(wh_store *store, const wh_version *v, wherry_error *err);

/* Set store->payload_type. */
wherry_code wh_store_read_payload(wh_store *store, wherry_error *err);

/* Refuse what the layout cannot do: "MODEL 'x' has the layout y, WHAT". */
wherry_code wh_store_cannot(const wh_store *store, const char *what, wherry_error *err);

/*
 * Take a number from a statement that a layout may lack.
 *
 * @param stmt   NULL: the layout lacks it; *inout stays.
 * @param inout  Its value until then; the first column of the row, if there is one.
 */
wherry_code wh_store_ask(const wh_store *store, const wh_stmt *stmt,
			 const wh_param *params, size_t n_params, int64_t *inout,
			 wherry_error *err);

/* The highest id that is not delivered yet, 0: there is none. */
wherry_code wh_store_last_open(const wh_store *store, int64_t *out_id, wherry_error *err);

/* Is anything up to this id not delivered yet? */
wherry_code wh_store_open_upto(const wh_store *store, int64_t upto, bool *out_any,
			       wherry_error *err);

/* Was the table made for partitions? */
wherry_code wh_store_partitioned(wh_store *store, bool *out, wherry_error *err);

/* A wh_row_fn: the first column into the int64_t that ctx is. */
wherry_code wh_take_int(void *ctx, const wh_row *row, wherry_error *err);

/* Milliseconds, as tables keep time, from microseconds: never shorter than asked. */
int64_t wh_ms(int64_t us);

/* Does each id follow the one before it? */
bool wh_ids_in_a_row(const int64_t *ids, size_t n);

/* The list of ids as one parameter named "ids"; borrowed until the next call. */
wherry_code wh_store_ids(wh_store *store, const int64_t *ids, size_t n, wh_param *out,
			 wherry_error *err);

/* Message ids as the parameters "names" and "width"; borrowed until the next call.  Where the
 * database can tell whether others committed, a list of them in hexadecimal, where the layout says
 * so a list of texts; else one after the other, each with zeros behind it up to the width. */
enum { WH_NAME_PARAMS = 2 };
wherry_code wh_store_names(wh_store *store, const wh_view *names, size_t n,
			   wh_param out[WH_NAME_PARAMS], wherry_error *err);

/* The same, in this buffer, which is borrowed. */
wherry_code wh_store_list(wh_buf *buf, const int64_t *ids, size_t n, wh_param *out,
			  wherry_error *err);

/* The database's "no such table" with the way out. */
wherry_code wh_store_missing(const wh_model *model, const char *table, wherry_code code,
			     wherry_error *err);

typedef struct wh_range {
	int64_t first, last;
} wh_range;

/* The list of ranges as one parameter named "holes"; borrowed until the next call. */
wherry_code wh_store_ranges(wh_store *store, const wh_range *ranges, size_t n,
			    wh_param *out, wherry_error *err);

#endif
