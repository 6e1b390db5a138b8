/* Messages of pgoutput, as PostgreSQL's manual lays them out. */
#include "wherry_test.h"

#include "db/postgres/pgoutput.h"

#define BYTES(text) (text), sizeof(text) - 1

/* clang-format off */
#define BEGIN "B" "\0\0\0\0\1\2\3\4" "\0\0\0\0\0\0\0\5" "\0\0\2\1"
#define RELATION                                                                           \
	"R" "\0\0\x40\1" "shop\0" "outbox\0" "d" "\0\3"                                    \
	"\1" "id\0" "\0\0\0\x14" "\xff\xff\xff\xff"                                        \
	"\0" "topic\0" "\0\0\0\x19" "\xff\xff\xff\xff"                                     \
	"\0" "payload\0" "\0\0\0\x11" "\0\0\0\x2c"
#define INSERT "I" "\0\0\x40\1" "N" "\0\3" "t" "\0\0\0\2" "42" "n" "b" "\0\0\0\3" "a\0b"
/* clang-format on */

static void decode(const char *bytes, size_t len, wh_pgo_message *out)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_pgo_decode(bytes, len, out, &err));
}

static void is(wh_view view, const char *bytes, size_t len)
{
	assert_non_null(view.ptr);
	assert_int_equal(view.len, len);
	assert_memory_equal(view.ptr, bytes, len);
}

static void next_is(wh_pgo_list *row, wh_pgo_form form, const char *bytes, size_t len)
{
	wh_pgo_value value;

	assert_true(wh_pgo_next_value(row, &value));
	assert_int_equal(value.form, form);
	if (bytes)
		is(value.data, bytes, len);
	else
		assert_null(value.data.ptr);
}

WHERRY_TEST(a_transaction_tells_where_and_when_it_was_committed)
{
	wh_pgo_message m;

	decode(BYTES(BEGIN), &m);
	assert_int_equal(m.kind, WH_PGO_BEGIN);
	assert_int_equal(m.lsn, 0x01020304);
	assert_int_equal(m.at_us, INT64_C(946684800000005));
	assert_int_equal(m.xid, 513);

	/* clang-format off */
	decode(BYTES("C" "\0" "\0\0\0\0\1\2\3\4" "\0\0\0\0\1\2\3\x34" "\xff\xff\xff\xff\xff\xff\xff\xff"),
	       &m);
	/* clang-format on */
	assert_int_equal(m.kind, WH_PGO_COMMIT);
	assert_int_equal(m.lsn, 0x01020304);
	assert_int_equal(m.end_lsn, 0x01020334);
	assert_int_equal(m.at_us, INT64_C(946684799999999));
}

WHERRY_TEST(a_relation_names_its_columns)
{
	wh_pgo_message m;
	wh_pgo_column column;

	decode(BYTES(RELATION), &m);
	assert_int_equal(m.oid, 0x4001);
	is(m.schema, BYTES("shop"));
	is(m.name, BYTES("outbox"));
	assert_int_equal(m.identity, 'd');
	assert_int_equal(m.columns.n, 3);
	assert_true(wh_pgo_next_column(&m.columns, &column));
	assert_true(column.key);
	is(column.name, BYTES("id"));
	assert_int_equal(column.type, 20);
	assert_int_equal(column.typmod, -1);
	assert_true(wh_pgo_next_column(&m.columns, &column));
	assert_false(column.key);
	assert_true(wh_pgo_next_column(&m.columns, &column));
	is(column.name, BYTES("payload"));
	assert_int_equal(column.typmod, 44);
	assert_false(wh_pgo_next_column(&m.columns, &column));
}

WHERRY_TEST(an_insert_has_values_in_three_forms)
{
	wh_pgo_message m;
	wh_pgo_value value;

	decode(BYTES(INSERT), &m);
	assert_int_equal(m.kind, WH_PGO_INSERT);
	assert_int_equal(m.oid, 0x4001);
	next_is(&m.row, WH_PGO_TEXT, BYTES("42"));
	next_is(&m.row, WH_PGO_NULL, NULL, 0);
	next_is(&m.row, WH_PGO_BINARY, BYTES("a\0b"));
	assert_false(wh_pgo_next_value(&m.row, &value));
	assert_false(wh_pgo_next_value(&m.old, &value));
}

WHERRY_TEST(an_update_may_have_the_old_row_or_its_key_or_neither)
{
	wh_pgo_message m;

	/* clang-format off */
	decode(BYTES("U" "\0\0\0\1" "N" "\0\1" "u"), &m);
	/* clang-format on */
	assert_int_equal(m.old_kind, 0);
	assert_int_equal(m.old.n, 0);
	next_is(&m.row, WH_PGO_UNCHANGED, NULL, 0);
	/* clang-format off */
	decode(BYTES("U" "\0\0\0\1" "K" "\0\1" "t\0\0\0\1" "1" "N" "\0\1" "t\0\0\0\1" "2"), &m);
	/* clang-format on */
	assert_int_equal(m.old_kind, 'K');
	next_is(&m.old, WH_PGO_TEXT, BYTES("1"));
	next_is(&m.row, WH_PGO_TEXT, BYTES("2"));
	/* clang-format off */
	decode(BYTES("U" "\0\0\0\1" "O" "\0\1" "t\0\0\0\0" "N" "\0\1" "n"), &m);
	/* clang-format on */
	assert_int_equal(m.old_kind, 'O');
	next_is(&m.old, WH_PGO_TEXT, BYTES(""));
	next_is(&m.row, WH_PGO_NULL, NULL, 0);
}

WHERRY_TEST(a_delete_has_the_old_row_only)
{
	wh_pgo_message m;

	/* clang-format off */
	decode(BYTES("D" "\0\0\0\1" "K" "\0\2" "t\0\0\0\1" "7" "n"), &m);
	/* clang-format on */
	assert_int_equal(m.oid, 1);
	assert_int_equal(m.old_kind, 'K');
	assert_int_equal(m.row.n, 0);
	next_is(&m.old, WH_PGO_TEXT, BYTES("7"));
	next_is(&m.old, WH_PGO_NULL, NULL, 0);
}

WHERRY_TEST(a_truncate_names_each_table)
{
	wh_pgo_message m;
	uint32_t oid = 0;

	/* clang-format off */
	decode(BYTES("T" "\0\0\0\2" "\3" "\0\0\0\1" "\0\0\0\2"), &m);
	/* clang-format on */
	assert_int_equal(m.flags, 3);
	assert_true(wh_pgo_next_oid(&m.tables, &oid));
	assert_int_equal(oid, 1);
	assert_true(wh_pgo_next_oid(&m.tables, &oid));
	assert_int_equal(oid, 2);
	assert_false(wh_pgo_next_oid(&m.tables, &oid));
}

WHERRY_TEST(the_other_messages_are_read_too)
{
	wh_pgo_message m;

	/* clang-format off */
	decode(BYTES("M" "\1" "\0\0\0\0\0\0\0\x10" "wherry\0" "\0\0\0\4" "t\0ck"), &m);
	/* clang-format on */
	assert_int_equal(m.flags, 1);
	assert_int_equal(m.lsn, 16);
	is(m.name, BYTES("wherry"));
	is(m.content, BYTES("t\0ck"));
	/* clang-format off */
	decode(BYTES("O" "\0\0\0\0\0\0\0\x11" "upstream\0"), &m);
	/* clang-format on */
	assert_int_equal(m.lsn, 17);
	is(m.name, BYTES("upstream"));
	/* clang-format off */
	decode(BYTES("Y" "\0\0\x40\2" "\0" "mood\0"), &m);
	/* clang-format on */
	assert_int_equal(m.oid, 0x4002);
	is(m.schema, BYTES(""));
	is(m.name, BYTES("mood"));
}

WHERRY_TEST(columns_are_found_by_name_and_their_values_picked)
{
	static const char *const names[] = {"payload", "headers", "id", "pay"};
	wh_pgo_message m;
	wh_pgo_value picked[4];
	int at[4];

	decode(BYTES(RELATION), &m);
	wh_pgo_find(m.columns, names, 4, at);
	assert_int_equal(at[0], 2);
	assert_int_equal(at[1], -1);
	assert_int_equal(at[2], 0);
	assert_int_equal(at[3], -1);
	decode(BYTES(INSERT), &m);
	wh_pgo_pick(m.row, at, 4, picked);
	is(picked[0].data, BYTES("a\0b"));
	assert_int_equal(picked[1].form, WH_PGO_NULL);
	is(picked[2].data, BYTES("42"));
	at[0] = 3; /* the table had one more column when it was looked at */
	wh_pgo_pick(m.row, at, 4, picked);
	assert_int_equal(picked[0].form, WH_PGO_NULL);
}

static void is_refused(const char *bytes, size_t len, wherry_code code, const char *says)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_pgo_message m = {.xid = 77};

	WHERRY_FAILS(code, wh_pgo_decode(bytes, len, &m, &err));
	if (!strstr(err.message, says))
		fail_msg("'%s' does not say '%s'", err.message, says);
	assert_non_null(strstr(err.message, "is the slot's plugin pgoutput"));
	assert_int_equal(m.xid, 77);
}

WHERRY_TEST(a_message_that_ends_early_says_what_is_missing_and_where)
{
	for (size_t len = 1; len < sizeof(INSERT) - 1; len++)
		is_refused(INSERT, len, WHERRY_CORRUPT,
			   "the message 'insert' of the slot");
	for (size_t len = 1; len < sizeof(RELATION) - 1; len++)
		is_refused(RELATION, len, WHERRY_CORRUPT, "the message 'relation'");
	is_refused(NULL, 0, WHERRY_CORRUPT, "no bytes");
	is_refused(BEGIN, 4, WHERRY_CORRUPT,
		   "the position of the commit wants 8 bytes at byte 1 of 4");
	is_refused(INSERT, 13, WHERRY_CORRUPT, "a value wants 2 bytes at byte 13 of 13");
	is_refused(RELATION, 8, WHERRY_CORRUPT, "the schema of the table wants 4 bytes");
}

WHERRY_TEST(a_message_that_ends_late_is_refused)
{
	is_refused(BYTES(BEGIN "x"), WHERRY_CORRUPT, "ends at byte 21, but 22 were sent");
	is_refused(BYTES(INSERT "n"), WHERRY_CORRUPT, "'insert'");
}

WHERRY_TEST(lengths_are_not_believed)
{
	/* clang-format off */
	is_refused(BYTES("I" "\0\0\0\1" "N" "\0\1" "t" "\xff\xff\xff\xff" "x"), WHERRY_CORRUPT,
		   "a value wants 4294967295 bytes");
	is_refused(BYTES("I" "\0\0\0\1" "N" "\xff\xff" "n"), WHERRY_CORRUPT,
		   "the number of values, before byte 8 of 9, cannot be 65535");
	is_refused(BYTES("T" "\x7f\xff\xff\xff" "\0" "\0\0\0\1"), WHERRY_CORRUPT,
		   "the oid of a table wants 4 bytes at byte 10");
	/* clang-format on */
}

WHERRY_TEST(letters_and_flags_that_cannot_be_are_refused)
{
	/* clang-format off */
	is_refused(BYTES("I" "\0\0\0\1" "K" "\0\0"), WHERRY_CORRUPT, "the kind of a row");
	is_refused(BYTES("D" "\0\0\0\1" "N" "\0\0"), WHERRY_CORRUPT, "the kind of a row");
	is_refused(BYTES("U" "\0\0\0\1" "K" "\0\0" "K" "\0\0"), WHERRY_CORRUPT,
		   "the kind of a row");
	is_refused(BYTES("U" "\0\0\0\1" "\0" "\0\0"), WHERRY_CORRUPT, "cannot be 0");
	is_refused(BYTES("I" "\0\0\0\1" "N" "\0\1" "x"), WHERRY_CORRUPT,
		   "the form of a value, before byte 9 of 9, cannot be 120");
	is_refused(BYTES("C" "\1" "\0\0\0\0\0\0\0\1" "\0\0\0\0\0\0\0\1" "\0\0\0\0\0\0\0\1"),
		   WHERRY_CORRUPT, "the flags");
	/* clang-format on */
}

WHERRY_TEST(an_unknown_kind_is_named)
{
	is_refused(BYTES("S\0\0\0\1\1"), WHERRY_UNSUPPORTED,
		   "unknown kind 83 ('S'), 6 bytes");
	is_refused(BYTES("\n"), WHERRY_UNSUPPORTED, "unknown kind 10 ('?'), 1 bytes");
}

WHERRY_TEST_MAIN
