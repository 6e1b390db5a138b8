/*
 * Statements of a model's .sql files, in groups.  A layout has all statements of a group or
 * none: the C code asks for a group by one of its statements, which is NULL where the layout
 * has not got it.  So no statement exists only to select nothing.
 *
 * X(FIELD, NAME, GIVEN): GIVEN names the values that the C code gives a statement.  The
 * statement uses each of them.  If only some layouts need a value, as "width?", a statement may leave
 * it out.  If one layout has no use for another value, its file lists it under "-- unused:".  Any other
 * difference is an error when the file is loaded.  Values that fence a write (token, epoch, holder)
 * and filters (key) are not optional: a statement without them would write to more rows.
 */
#ifndef WH_STORE_GROUPS_H
#define WH_STORE_GROUPS_H

#include <stddef.h>

#include "db/sql.h"

/* clang-format off */

/* Is the table there, in which version, and with which columns?  Every layout has these. */
#define WH_STORE_SCHEMA(X) \
	X(schema_version, "schema-version", "name?") \
	X(columns, "columns", "name")

/* Wherry's own tables: is wherry_schema there? */
#define WH_STORE_VERSIONS(X) \
	X(schema_exists, "schema-exists", "")

/* How many indexes, or tables beside the table, are missing? */
#define WH_STORE_INDEXES(X) \
	X(indexes_missing, "indexes-missing", "")

/* Procedures that the tables of a model share: how many are missing, or of another version? */
#define WH_STORE_PROCEDURES(X) \
	X(procedures_stale, "procedures-stale", "")

/* Migrations on a server, where several may run at once and others own tables. */
#define WH_STORE_MIGRATE(X) \
	X(migrate_lock, "migrate-lock", "") \
	X(owners, "owners", "schema?")

/* On a server where nobody can be woken: replace what wakes others. */
#define WH_STORE_UNSIGNALLED(X) \
	X(unsignalled, "unsignalled", "")

/* The tables, and what they share with others, can be removed. */
#define WH_STORE_DROP(X) \
	X(drop, "drop", "") \
	X(others_left, "others-left", "") \
	X(drop_shared, "drop-shared", "")

/* Fails if the role may not remove the table, and locks nobody out. */
#define WH_STORE_TRY_DROP(X) \
	X(try_drop, "try-drop", "")

/* Bodies can have several types.  Without this group, the head line names their type, if any. */
#define WH_STORE_PAYLOAD(X) \
	X(payload_type, "payload-type", "")

/* A relay's report, written with each renewal; and the part of it that a relay writes when it stops. */
#define WH_REPORT_COUNTS "delivered delivered_age error error_age"
#define WH_REPORT_GIVEN "state destination " WH_REPORT_COUNTS

/* One relay at a time. */
#define WH_STORE_LEASE(X) \
	X(lease, "lease", "name number engine owner holder lasts window process destination") \
	X(lease_holder, "lease-holder", "name number") \
	X(lease_orphaned, "lease-orphaned", "name number epoch") \
	X(renew, "renew", "name number epoch holder lasts suspects " WH_REPORT_GIVEN) \
	X(release, "release", "name number epoch holder " WH_REPORT_COUNTS) \
	X(fence, "fence", "name number epoch holder shared")

/* A lock of the holder's session shows that it is there. */
#define WH_STORE_SESSION(X) \
	X(session_hold, "session-hold", "before holder") \
	X(session_look, "session-look", "name number") \
	X(session_expire, "session-expire", "name number epoch ends")

/* A server may lack what was read from the one before: which history its data has, and since when it runs. */
#define WH_STORE_LINEAGE(X) \
	X(lineage, "lineage", "")

/* Leases from a clock that was ahead and was set back. */
#define WH_STORE_CUT(X) \
	X(leases_cut, "leases-cut", "name")

/* Requests of operators to relays. */
#define WH_STORE_CONTROL(X) \
	X(control, "control", "name") \
	X(raise_control_version, "raise-control-version", "name") \
	X(pause, "pause", "name on")

/* A lease that competing relays hold together, or one for each of them. */
#define WH_STORE_MEMBERS(X) \
	X(join, "join", "name owner lasts token process " WH_REPORT_GIVEN) \
	X(leave, "leave", "name token " WH_REPORT_COUNTS)

/* Each relay has a separate lease, and all work. */
#define WH_STORE_RELAYS(X) \
	X(relays, "relays", "name")

/* Writers wake relays. */
#define WH_STORE_WAKE(X) \
	X(wake_key, "wake-key", "")

/* Rows that one of several relays works on.  "ids": a list of ids, or where fence=claim a list
 * of claims, [[message id, mark, id], …]. */
#define WH_STORE_CLAIM(X) \
	X(claim_end, "claim-end", "after? scan?") \
	X(claim, "claim", "token lasts unordered? limit after? upto? long? body?") \
	X(claim_due, "claim-due", "token lasts unordered? limit long? body?") \
	X(expired, "expired", "lasts? unordered? share?") \
	X(claim_share, "claim-share", "token lasts unordered? limit share? of long? body?") \
	X(claim_expired, "claim-expired", "token lasts unordered? share? long? body?") \
	X(claim_next, "claim-next", "lasts?") \
	X(extend, "extend", "ids token lasts names? width?") \
	X(reap, "reap", "timeout")

/* Foreign transactions may have locked rows: which of these ids are locked. */
#define WH_STORE_LOCKED(X) \
	X(locked, "locked", "ids")

/* Ready rows behind the last one that was claimed, where deleted rows may stay before it. */
#define WH_STORE_ANCHOR(X) \
	X(claim_behind, "claim-behind", "token lasts limit after long body")

/* The same where rows are ordered by a time, and then by their ids. */
#define WH_STORE_TIME_ANCHOR(X) \
	X(claim_behind_time, "claim-behind-time", "token lasts limit after after_at long body")

/* Claims are made one after the other by a lock. */
#define WH_STORE_TURNS(X) \
	X(claim_lock, "claim-lock", "")

/* Open rows by their ids. */
#define WH_STORE_READ_IDS(X) \
	X(read_ids, "read-ids", "ids long? body?")

/* Which ids are not delivered yet. */
#define WH_STORE_OPEN(X) \
	X(last_open, "last-open", "") \
	X(open_upto, "open-upto", "upto")

/* Results of rows. */
#define WH_STORE_SETTLE(X) \
	X(fail, "fail", "id message_id started? dead? count nth delay error token") \
	X(requeue, "requeue", "ids token names? width?") \
	X(try, "try", "id message_id started? nth token")

/* Dead rows move to another table, instead of being marked by "fail". */
#define WH_STORE_DEAD(X) \
	X(dead_copy, "dead-copy", "id message_id count nth error token") \
	X(dead_drop, "dead-drop", "id message_id token")

/* Attempts are kept beside the table of another program, and a statement writes to one table: what is
 * written there before an expired claim and a failure, and after rows are gone. */
#define WH_STORE_NOTES(X) \
	X(note_expired, "note-expired", "") \
	X(note_fail, "note-fail", "id message_id count nth error token") \
	X(forget_gone, "forget-gone", "ids")

/* Delivered rows are deleted; or what a log keeps about messages. */
#define WH_STORE_DELETE(X) \
	X(done_delete, "done-delete", "ids token names? width?")

/* Delivered rows stay, marked. */
#define WH_STORE_MARK(X) \
	X(done_mark, "done-mark", "ids token?")

/* An attempt on record can be taken back. */
#define WH_STORE_UNTRY(X) \
	X(untry, "untry", "id nth token")

/* Rows never change: a position says what was read, and exceptions which of them are not delivered.
 * src/log reads such a table. */
#define WH_STORE_LOG(X) \
	X(read_log, "read-log", "high limit seen? long? body? mask? mixed?") \
	X(log_end, "log-end", "high") \
	X(progress, "progress", "mask?") \
	X(move, "move", "name number epoch holder high seen? until? late? mask? mixed?") \
	X(hold, "hold", "ids") \
	X(known, "known", "mask?") \
	X(forget_done, "forget-done", "") \
	X(log_open, "log-open", "id") \
	X(log_ids, "log-ids", "ids long? body?")

/* Rows become visible in another order than that of their ids. */
#define WH_STORE_LATE(X) \
	X(late_start, "late-start", "high seen") \
	X(late_page, "late-page", "high seen until late limit long body mask mixed") \
	X(renumber, "renumber", "")

/* The owner of the table wrote expressions, which may fail for a row: statements that read rows to find such ones, and the
 * mark by which others pass over them. */
#define WH_STORE_FAILING(X) \
	X(failing_range, "failing-range", "after upto") \
	X(failing_ids, "failing-ids", "ids") \
	X(failing_open, "failing-open", "after limit") \
	X(failing_mark, "failing-mark", "id error") \
	X(failing_forget, "failing-forget", "")

/* Rows tell their transaction: the mark is that of the row, and not of another one that takes its id. */
#define WH_STORE_FAILING_ROW(X) X(failing_row, "failing-row", "id")

/* A position is not an id: the id of a row at it. */
#define WH_STORE_FAILING_NEAR(X) X(failing_near, "failing-near", "high")

/* A subscription has positions of shares. */
#define WH_STORE_DIVIDE(X) \
	X(progress_divide, "progress-divide", "mask")

/* A relay that begins waits for a consumer, which locks the position. */
#define WH_STORE_TAKE(X) \
	X(progress_take, "progress-take", "mask")

/* Where the fence is a lock. */
#define WH_STORE_HELD(X) \
	X(is_held, "is-held", "name number epoch holder shared")

/* Rows may expire before they are delivered: they can be deleted, except those that another
 * token than the caller's works on. */
#define WH_STORE_LIFETIME(X) \
	X(expire_rows, "expire", "token limit")

#define WH_STORE_PURGE(X) \
	X(purge, "purge", "age limit after?") \
	X(purge_count, "purge-count", "age after?")

/* Delivered rows move to an archive of the table's owner. */
#define WH_STORE_ARCHIVE(X) \
	X(done_archive, "done-archive", "ids")

/* Several relays share the keys. */
#define WH_STORE_PARTITIONS(X) \
	X(partitions_ready, "partitions-ready", "") \
	X(partitions_lock, "partitions-lock", "") \
	X(partitions_relays, "partitions-relays", "name") \
	X(partitions_strip, "partitions-strip", "name number epoch mask") \
	X(partitions_take, "partitions-take", "name number owner holder lasts unclean window suspects mask process destination") \
	X(partitions_renew, "partitions-renew", "name number epoch holder lasts suspects change mask unclean " WH_REPORT_GIVEN) \
	X(partitions_control, "partitions-control", "name number") \
	X(partitions_dead_keys, "partitions-dead-keys", "after limit partitions long")

/* Relays that sleep can be woken when partitions change hands.  Without this group, each relay asks for
 * changes when it looks for rows. */
#define WH_STORE_PARTITIONS_TELL(X) \
	X(partitions_tell, "partitions-tell", "")

#define WH_STORE_GROUPS(G) \
	G(schema, WH_STORE_SCHEMA) G(versions, WH_STORE_VERSIONS) G(indexes, WH_STORE_INDEXES) \
	G(procedures, WH_STORE_PROCEDURES) G(migrate, WH_STORE_MIGRATE) \
	G(drop, WH_STORE_DROP) G(try_drop, WH_STORE_TRY_DROP) G(unsignalled, WH_STORE_UNSIGNALLED) G(payload, WH_STORE_PAYLOAD) G(lease, WH_STORE_LEASE) G(session, WH_STORE_SESSION) G(lineage, WH_STORE_LINEAGE) G(cut, WH_STORE_CUT) G(control, WH_STORE_CONTROL) \
	G(members, WH_STORE_MEMBERS) G(relays, WH_STORE_RELAYS) \
	G(locked, WH_STORE_LOCKED) G(wake, WH_STORE_WAKE) G(claim, WH_STORE_CLAIM) \
	G(scan_start, WH_STORE_ANCHOR) G(time_anchor, WH_STORE_TIME_ANCHOR) \
	G(turns, WH_STORE_TURNS) G(read_ids, WH_STORE_READ_IDS) \
	G(open, WH_STORE_OPEN) G(settle, WH_STORE_SETTLE) G(dead, WH_STORE_DEAD) G(notes, WH_STORE_NOTES) \
	G(delete, WH_STORE_DELETE) G(mark, WH_STORE_MARK) G(untry, WH_STORE_UNTRY) G(log, WH_STORE_LOG) G(late, WH_STORE_LATE) G(held, WH_STORE_HELD) G(divide, WH_STORE_DIVIDE) G(failing, WH_STORE_FAILING) G(failing_row, WH_STORE_FAILING_ROW) G(failing_near, WH_STORE_FAILING_NEAR) G(take, WH_STORE_TAKE) \
	G(lifetime, WH_STORE_LIFETIME) G(purge, WH_STORE_PURGE) G(archive, WH_STORE_ARCHIVE) \
	G(partitions, WH_STORE_PARTITIONS) G(partitions_tell, WH_STORE_PARTITIONS_TELL)

/* clang-format on */

/* The fields of a model's struct of statements, and for its list of groups, with WH_STMTS defined as
 * that struct, the statements of each group and the groups themselves. */
/* clang-format off */
#define WH_STMT_FIELD(field, name, given) const wh_stmt *field;
#define WH_STMT_SPEC(field, name, given) {name, given, offsetof(WH_STMTS, field)},
#define WH_GROUP_FIELDS(group, list) list(WH_STMT_FIELD)
#define WH_GROUP_SPECS(group, list) static const wh_stmt_spec group##_specs[] = {list(WH_STMT_SPEC)};
#define WH_GROUP_ROW(group, list) \
	{#group, group##_specs, sizeof(group##_specs) / sizeof(*group##_specs)},
/* clang-format on */

/* NULL: the layout has not got the group. */
typedef struct wh_store_stmts {
	WH_STORE_GROUPS(WH_GROUP_FIELDS)
} wh_store_stmts;

/* A statement of a group, and where its pointer is kept. */
typedef struct wh_stmt_spec {
	const char *name, *given;
	size_t at; /* offset in a struct of pointers, one for each statement */
} wh_stmt_spec;

typedef struct wh_group {
	const char *name; /* NULL: the end of the list */
	const wh_stmt_spec *specs;
	size_t n;
} wh_group;

extern const wh_group wh_store_groups[];

/*
 * Find the statements of these groups, and write their pointers to the struct at `stmts`.
 *
 * @return WHERRY_OK; WHERRY_INVALID: a group is there in part, or the parameters of a statement
 *         differ from what it is given; err names group, statement and parameter.
 */
wherry_code wh_groups_bind(const wh_sql *sql, const wh_group *groups, void *stmts,
			   wherry_error *err);

/* Refuse a file with statements of neither list, except the scripts migrate-N and add-NAME. */
wherry_code wh_groups_check(const wh_sql *sql, const wh_group *groups,
			    const wh_group *more, wherry_error *err);

#endif
