#include "wherry_test.h"

#include "db/sql.h"

#define HEAD "-- layout: name=native ids=integer\n"

static void parse(const char *text, wh_sql *out)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_sql_parse(text, "shop", out, &err));
}

/* Refused, with an error that says so, and nothing put out. */
static void refuse(const char *text, const char *says)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_sql sql = {.n = 7};

	WHERRY_FAILS(WHERRY_INVALID, wh_sql_parse(text, "shop", &sql, &err));
	if (!strstr(err.message, says)) {
		print_error("'%s' does not say '%s'\n", err.message, says);
		fail();
	}
	assert_int_equal(sql.n, 7);
}

WHERRY_TEST(statements_are_found_by_name)
{
	wh_sql sql = {0};

	parse(HEAD
	      "-- name: one\n-- What it is for.\nSELECT 1;\n\n-- name: two\nSELECT\n  2;\n",
	      &sql);
	assert_int_equal(sql.n, 2);
	assert_string_equal(wh_sql_find(&sql, "one")->text, "SELECT 1;\n");
	assert_string_equal(wh_sql_find(&sql, "two")->text, "SELECT\n  2;\n");
	assert_null(wh_sql_find(&sql, "three"));
	assert_null(wh_sql_find(&sql, "on"));
	assert_null(wh_sql_find(&sql, ""));
	wh_sql_clear(&sql);
	assert_null(wh_sql_find(&sql, "one"));
	wh_sql_clear(&sql);
}

WHERRY_TEST(the_last_line_needs_no_newline)
{
	wh_sql sql = {0};

	parse(HEAD "-- name: one\nSELECT 1", &sql);
	assert_string_equal(wh_sql_find(&sql, "one")->text, "SELECT 1\n");
	wh_sql_clear(&sql);
}

WHERRY_TEST(a_statement_may_be_empty_and_a_file_may_have_none)
{
	wh_sql sql = {0};

	parse(HEAD "-- name: one\n-- name: two\n", &sql);
	assert_string_equal(wh_sql_find(&sql, "one")->text, "");
	assert_string_equal(wh_sql_find(&sql, "two")->text, "");
	wh_sql_clear(&sql);
	parse(HEAD, &sql);
	assert_int_equal(sql.n, 0);
	wh_sql_clear(&sql);
}

WHERRY_TEST(a_part_stands_in_the_statements_below_it)
{
	wh_sql sql = {0};

	parse(HEAD "-- part: open\n-- What it means.\nstatus = 0\n"
		   "-- name: two\n{open}{open}",
	      &sql);
	assert_null(wh_sql_find(&sql, "open"));
	assert_string_equal(wh_sql_find(&sql, "two")->text, "status = 0\nstatus = 0\n");
	wh_sql_clear(&sql);
	parse(HEAD "-- part: open\nstatus = 0\n-- part: mine\nx = {table}.x AND {open}\n"
		   "-- name: one\nSELECT 1 WHERE {mine};\n",
	      &sql);
	assert_string_equal(wh_sql_find(&sql, "one")->text,
			    "SELECT 1 WHERE x = \"shop\".x AND status = 0\n;\n");
	wh_sql_clear(&sql);
	refuse(HEAD "-- name: one\n{open}\n-- part: open\nx\n", "a part above");
	refuse(HEAD "-- part: open\n{open}\n", "a part above");
	refuse(HEAD "-- name: open\nx\n-- name: one\n{open}\n", "a part above");
	refuse(HEAD "-- part: open\nx\n-- name: open\ny\n", "is not a new name");
}

WHERRY_TEST(a_part_takes_the_alias_that_it_is_given)
{
	wh_sql sql = {0};

	parse(HEAD
	      "-- part: key\n{.}a || {.}b\n-- part: busy\n{.}s = 1 AND {key:.} AND {key:d}\n"
	      "-- name: one\n{key} {key:c}\n-- name: two\n{busy:b2}\n",
	      &sql);
	assert_string_equal(wh_sql_find(&sql, "one")->text, "a || b\n c.a || c.b\n");
	assert_string_equal(wh_sql_find(&sql, "two")->text,
			    "b2.s = 1 AND b2.a || b2.b\n AND d.a || d.b\n");
	wh_sql_clear(&sql);
	refuse(HEAD "-- name: one\n{.}a\n", "line 3");
	refuse(HEAD "-- part: key\n{.}a\n-- name: one\n{key:.}\n", "line 5");
	refuse(HEAD "-- part: key\n{.}a\n-- name: one\n{key:}\n", "line 5");
	refuse(HEAD "-- part: key\n{.}a\n-- name: one\n{key:C}\n", "line 5");
	refuse(HEAD "-- name: one\n{kez:c}\n", "line 3");
}

/* The names of a statement's parameters, in their order. */
static void has_params(const wh_stmt *stmt, const char *wanted)
{
	char got[200] = "";
	size_t len = 0;

	for (int i = 0; i < stmt->n_params; i++)
		len += (size_t)snprintf(got + len, sizeof(got) - len, i ? " %s" : "%s",
					stmt->params[i]);
	assert_string_equal(got, wanted);
}

WHERRY_TEST(parameters_are_numbered_when_a_file_is_read)
{
	static const char text[] = HEAD
		"-- part: first\n:b::text\n-- name: one\n-- :none\nSELECT :a, {first}, :a, "
		"':c', 1::int, x[1:2] -- :d\n-- name: two\nSELECT 1\n";
	const wh_sql_names names = {.dialect = "postgres", .table = "shop"};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_sql sql = {0};

	WHERRY_PASS(wh_sql_parse_as(text, &names, &sql, &err));
	assert_string_equal(wh_sql_find(&sql, "one")->text,
			    "SELECT $1, $2::text\n, $1, ':c', 1::int, x[1:2] -- :d\n");
	has_params(wh_sql_find(&sql, "one"), "a b");
	has_params(wh_sql_find(&sql, "two"), "");
	wh_sql_clear(&sql);
	parse(text, &sql);
	assert_string_equal(wh_sql_find(&sql, "one")->text,
			    "SELECT :a, :b::text\n, :a, ':c', 1::int, x[1:2] -- :d\n");
	has_params(wh_sql_find(&sql, "one"), "a b");
	wh_sql_clear(&sql);
	refuse(HEAD "-- name: one\n:a_name_of_more_than_twenty_three\n", "long name");
}

static void differs(const wh_sql *sql, const char *given, const char *says)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_INVALID,
		     wh_stmt_check(wh_sql_find(sql, "one"), given, sql->unused, &err));
	if (!strstr(err.message, says))
		fail_msg("'%s' does not say '%s'", err.message, says);
}

WHERRY_TEST(a_statement_uses_all_that_it_is_given_or_says_what_it_does_not)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_sql sql = {0};

	parse(HEAD "-- name: one\n-- unused: topic key\n:id, :name\n", &sql);
	WHERRY_PASS(
		wh_stmt_check(wh_sql_find(&sql, "one"), "key id topic name", NULL, &err));
	differs(&sql, "key id topic", "uses :name");
	differs(&sql, "key id topic name more", "given :more");
	differs(&sql, "id name topic", "lists :key");
	wh_sql_clear(&sql);
	parse(HEAD "-- name: one\n-- unused: id\n:id\n", &sql);
	differs(&sql, "id", "either");
	wh_sql_clear(&sql);
	refuse(HEAD "-- part: one\n-- unused: id\n", "in a part");
	refuse(HEAD "-- unused: id\n-- unused: key\n", "twice");
	refuse(HEAD "-- name: one\n-- unused: id\n-- unused: name\n", "twice");
}

WHERRY_TEST(a_statement_may_leave_out_a_name_only_if_it_is_optional)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_sql sql = {0};

	parse(HEAD "-- name: one\n:id, :width\n", &sql);
	WHERRY_PASS(
		wh_stmt_check(wh_sql_find(&sql, "one"), "id key? width?", NULL, &err));
	differs(&sql, "id width? key", "given :key");
	differs(&sql, "id key? widt?", "uses :width");
	differs(&sql, "id key? widths?", "uses :width");
	wh_sql_clear(&sql);
	parse(HEAD "-- name: one\n-- unused: key\n:id\n", &sql);
	differs(&sql, "id key?", "lists :key as unused, which is optional");
	wh_sql_clear(&sql);
}

WHERRY_TEST(a_file_may_list_a_name_only_if_no_statement_uses_it)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_sql sql = {0};

	parse(HEAD "-- unused: key token\n-- name: one\n-- unused: nth\n:id\n", &sql);
	WHERRY_PASS(wh_stmt_check(wh_sql_find(&sql, "one"), "id token nth", sql.unused,
				  &err));
	differs(&sql, "id token nth more", "given :more");
	differs(&sql, "nth token", "uses :id");
	wh_sql_clear(&sql);
	parse(HEAD "-- unused: id\n-- name: one\n:id\n", &sql);
	differs(&sql, "id", "uses :id, which its file lists as unused");
	differs(&sql, "id?", "uses :id, which its file lists as unused");
	wh_sql_clear(&sql);
	parse(HEAD "-- unused: id\n-- name: one\n-- unused: id\n1\n", &sql);
	differs(&sql, "id", "either");
	wh_sql_clear(&sql);
}

WHERRY_TEST(braces_are_filled_in)
{
	static const struct {
		const char *line, *becomes;
	} rows[] = {
		{"FROM {table}", "FROM \"shop\"\n"},
		{"{table_open}", "\"shop_open\"\n"},
		{"{tables}", "\"shops\"\n"},
		{"{idx_table_retry}", "\"idx_shop_retry\"\n"},
		{"({name})", "('shop')\n"},
		{"DEFAULT '{}'", "DEFAULT '{}'\n"},
		{"{table}{table_a}{name}{}", "\"shop\"\"shop_a\"'shop'{}\n"},
		{"a } b", "a } b\n"},
		{"-{table}", "-\"shop\"\n"},
		{"x -- {table}", "x -- \"shop\"\n"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[200];
		wh_sql sql = {0};

		(void)snprintf(text, sizeof(text), HEAD "-- name: a\n%s\n", rows[i].line);
		parse(text, &sql);
		assert_string_equal(wh_sql_find(&sql, "a")->text, rows[i].becomes);
		wh_sql_clear(&sql);
	}
}

/* Where a name has a schema, that stands before tables, and not before what is in one. */
WHERRY_TEST(a_schema_stands_before_tables)
{
	static const wh_sql_names names = {
		.schema = "my \"s\"", .table = "it's \"x\"", .payload = "json"};
	static const struct {
		const char *line, *becomes;
	} rows[] = {
		{"{table}", "\"my \"\"s\"\"\".\"it's \"\"x\"\"\"\n"},
		{"{table_a}", "\"my \"\"s\"\"\".\"it's \"\"x\"\"_a\"\n"},
		{"{bare_a}", "\"it's \"\"x\"\"_a\"\n"},
		{"{idx_table_a}", "\"idx_it's \"\"x\"\"_a\"\n"},
		{"{wherry_lease}", "\"my \"\"s\"\"\".wherry_lease\n"},
		{"{schema.}f()", "\"my \"\"s\"\"\".f()\n"},
		{"{name}", "'it''s \"x\"'\n"},
		{"{'bare}", "'\"it''s \"\"x\"\"\"'\n"},
		{"{'schema.}", "'\"my \"\"s\"\"\".'\n"},
		{"{payload_type}", "json\n"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		wherry_error err = WHERRY_ERROR_INIT;
		char text[200];
		wh_sql sql = {0};

		(void)snprintf(text, sizeof(text), HEAD "-- name: a\n%s\n", rows[i].line);
		WHERRY_PASS(wh_sql_parse_as(text, &names, &sql, &err));
		assert_string_equal(wh_sql_find(&sql, "a")->text, rows[i].becomes);
		wh_sql_clear(&sql);
	}
	refuse(HEAD "-- name: a\n{'nothing}\n", "line 3");
	refuse(HEAD "-- name: a\n{'}\n", "line 3");
}

WHERRY_TEST(the_head_line_says_words)
{
	static const char text[] = "-- layout: name=x names=qualified last=1\n-- a=b\n";

	assert_true(wh_sql_says(text, "names=qualified"));
	assert_true(wh_sql_says(text, "last=1"));
	assert_false(wh_sql_says(text, "names=qual"));
	assert_false(wh_sql_says(text, "ame=x"));
	assert_false(wh_sql_says(text, "a=b"));
	assert_true(wh_sql_says("-- layout: a=b", "a=b"));
}

WHERRY_TEST(braces_in_comments_are_left_alone)
{
	wh_sql sql = {0};

	parse(HEAD "-- a { and {what} it means\n-- name: a\n-- {also} {here\nSELECT 1\n",
	      &sql);
	assert_string_equal(wh_sql_find(&sql, "a")->text, "SELECT 1\n");
	wh_sql_clear(&sql);
}

WHERRY_TEST(unknown_and_unclosed_braces_name_their_line)
{
	refuse(HEAD "-- name: a\nSELECT 1\n{\n", "line 4");
	refuse(HEAD "-- name: a\n{table\n}\n", "line 3");
	refuse(HEAD "-- name: a\n\n\n{tabl}\n", "line 5");
	refuse(HEAD "-- name: a\n{names}\n", "line 3");
	refuse(HEAD "-- name: a\n{ }\n", "line 3");
	refuse(HEAD "-- name: a\n{TABLE}\n", "line 3");
	refuse(HEAD "-- name: a\n{name}{\n", "line 3");
	refuse(HEAD "-- name: a\n{table{table}\n", "line 3");
	refuse(HEAD "-- name: a\n{table\"; x}\n", "line 3");
	refuse(HEAD "-- name: a\n{id_table}\n", "line 3");
	refuse(HEAD "-- name: a\n{idx_}\n", "line 3");
}

WHERRY_TEST(a_name_is_given_once)
{
	refuse(HEAD "-- name: a\nSELECT 1\n-- name: b\n-- name: a\n", "line 5: 'a'");
	refuse(HEAD "-- name: \nSELECT 1\n", "line 2");
}

WHERRY_TEST(sql_needs_a_name_before_it)
{
	refuse(HEAD "\nSELECT 1\n-- name: a\n", "line 3");
	refuse(HEAD "--name: a\nSELECT 1\n", "line 3");
}

WHERRY_TEST(a_file_needs_one_head_line)
{
	refuse("", "no head line");
	refuse("-- name: a\nSELECT 1\n", "no head line");
	refuse(HEAD "-- name: a\n" HEAD, "line 3: a second head line");
}

WHERRY_TEST(a_statement_has_a_ceiling)
{
	enum { LEN = 600 * 1024 };
	char *text = malloc(LEN + 100);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_sql sql = {0};
	int n = snprintf(text, 100, HEAD "-- name: a\n");

	memset(text + n, 'x', LEN);
	text[n + LEN] = 0;
	WHERRY_FAILS(WHERRY_TOOBIG, wh_sql_parse(text, "shop", &sql, &err));
	free(text);
}

WHERRY_TEST(words_of_the_head_line_are_read)
{
	wh_sql sql = {0};
	char out[8];

	parse("-- layout: name=native  ids=integer empty= ordered=yes\n", &sql);
	assert_string_equal(sql.layout, "name=native  ids=integer empty= ordered=yes");
	assert_true(wh_sql_word(&sql, "name", out, sizeof(out)));
	assert_string_equal(out, "native");
	assert_true(wh_sql_word(&sql, "ids", out, sizeof(out)));
	assert_string_equal(out, "integer");
	assert_true(wh_sql_word(&sql, "ordered", out, sizeof(out)));
	assert_string_equal(out, "yes");
	assert_true(wh_sql_word(&sql, "empty", out, sizeof(out)));
	assert_string_equal(out, "");
	assert_false(wh_sql_word(&sql, "order", out, sizeof(out)));
	assert_false(wh_sql_word(&sql, "nam", out, sizeof(out)));
	assert_false(wh_sql_word(&sql, "yes", out, sizeof(out)));
	(void)snprintf(out, sizeof(out), "kept");
	assert_false(wh_sql_word(&sql, "ids", out, 7)); /* no room for "integer" */
	assert_string_equal(out, "kept");
	wh_sql_clear(&sql);
}

WHERRY_TEST(every_embedded_file_parses)
{
	static const wh_sql_names names = {
		.table = "shop", .payload = "bytea", .role = "clerk"};
	static const char parts_of_layouts[] =
		" doctor doctor-log stream grants grants-log grants-adopted adopt topics "
		"cursor matched ";
	wherry_error err = WHERRY_ERROR_INIT;
	int n = 0;

	for (const wh_sql_file *f = wh_sql_files; f->model; f++, n++) {
		wh_sql sql = {0};
		char word[32];
		/* A statement may be "1" there. */
		const bool expressions = strcmp(f->layout, "adopt") == 0;

		assert_ptr_equal(wh_sql_embedded(f->model, f->layout, f->dialect),
				 f->text);
		WHERRY_PASS(wh_sql_parse_as(f->text, &names, &sql, &err));
		assert_true(wh_sql_word(&sql, "name", word + 1, sizeof(word) - 2));
		word[0] = ' ';
		(void)strcat(word, " ");
		if (!strstr(parts_of_layouts, word))
			assert_non_null(wh_sql_find(&sql, "migrate-1"));
		for (size_t i = 0; i < sql.n; i++) {
			/* A part is empty where a layout has nothing to say. */
			if (!sql.stmts[i].part && !expressions)
				assert_true(strlen(sql.stmts[i].text) > 5);
			assert_null(strstr(sql.stmts[i].text, "{t"));
		}
		wh_sql_clear(&sql);
	}
	assert_true(n > 0);
	assert_null(wh_sql_embedded("outbox", "log", "nope"));
	assert_null(wh_sql_embedded("outbox", "nope", "sqlite"));
	assert_null(wh_sql_embedded("nope", "log", "sqlite"));
}

WHERRY_TEST(a_pattern_becomes_the_statements_of_any_plain_name)
{
	static const wh_sql_names names = {.dialect = "postgres",
					   .schema = "tenant 7",
					   .table = "out$box",
					   .payload = "json",
					   .topic = "relay"};
	wh_sql pattern = {0}, filled = {0}, read = {0};
	const char *text = wh_sql_embedded("outbox", "log", "postgres");
	wherry_error err = WHERRY_ERROR_INIT;
	int same = 0;

	if (!text)
		skip();
	WHERRY_PASS(wh_sql_parse_pattern(text, &names, &pattern, &err));
	WHERRY_PASS(wh_sql_parse_as(text, &names, &read, &err));
	for (int round = 0; round < 2; round++) { /* The pattern stays as it is. */
		WHERRY_PASS(
			wh_sql_fill(&pattern, names.schema, names.table, &filled, &err));
		assert_int_equal(filled.n, read.n);
		for (size_t i = 0; i < read.n; i++) {
			const wh_stmt *one = &filled.stmts[i], *other = &read.stmts[i];

			assert_string_equal(one->name, other->name);
			assert_int_equal(one->n_params, other->n_params);
			if (!one->text)
				continue;
			assert_string_equal(one->text, other->text);
			same++;
		}
		assert_null(wh_sql_find(&filled, "migrate-1")->text);
		assert_non_null(wh_sql_find(&filled, "lease")->text);
		wh_sql_clear(&filled);
	}
	assert_true(same > 100);
	wh_sql_clear(&read);
	wh_sql_clear(&pattern);

	assert_true(wh_sql_fits_pattern("tenant_7", "outbox"));
	assert_false(wh_sql_fits_pattern("", "outbox"));
	assert_false(wh_sql_fits_pattern("o'brien", "outbox"));
	assert_false(wh_sql_fits_pattern("tenant", "\"box\""));
}

WHERRY_TEST_MAIN
