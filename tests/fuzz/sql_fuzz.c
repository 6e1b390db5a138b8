/* .sql files: a statement that is read is found by its name; written out again, it is read
 * as it was. */
#include "fuzz.h"

#include "db/sql.h"

/* A part ends a line, so "{part}-- name: x" makes a line that a file takes for a mark or a comment, and "{part}" of an
 * alias alone an empty one.  Such a text is not read again as it was. */
static bool has_marks(const wh_sql *sql)
{
	for (size_t i = 0; i < sql->n; i++)
		for (const char *line = sql->stmts[i].text; *line;) {
			if (*line == '\n' || strncmp(line, "--", 2) == 0)
				return true;
			line += strcspn(line, "\n");
			line += *line == '\n';
		}
	return false;
}

static void check_again(const wh_sql *sql)
{
	wh_buf text = WH_BUF_INIT(1 << 24);
	wh_sql again = {0};

	wh_buf_printf(&text, "-- layout: %s\n", sql->layout);
	for (size_t i = 0; i < sql->n; i++)
		wh_buf_printf(&text, "-- %s: %s\n%s",
			      sql->stmts[i].part ? "part" : "name", sql->stmts[i].name,
			      sql->stmts[i].text);
	CHECK(wh_sql_parse(wh_buf_str(&text), "outbox", &again, NULL) == WHERRY_OK);
	CHECK(again.n == sql->n && strcmp(again.layout, sql->layout) == 0);
	for (size_t i = 0; i < sql->n; i++) {
		CHECK(strcmp(again.stmts[i].name, sql->stmts[i].name) == 0);
		CHECK(strcmp(again.stmts[i].text, sql->stmts[i].text) == 0);
	}
	wh_sql_clear(&again);
	wh_buf_clear(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = fuzz_text(data, len);
	wherry_error err = WHERRY_ERROR_INIT;
	char word[16];
	wh_sql sql = {0};

	if (wh_sql_parse(text, "outbox", &sql, &err) == WHERRY_OK) {
		for (size_t i = 0; i < sql.n; i++) {
			CHECK(wh_sql_find(&sql, sql.stmts[i].name) ==
			      (sql.stmts[i].part ? NULL : &sql.stmts[i]));
			CHECK(strstr(sql.stmts[i].text, "{table") == NULL);
		}
		if (wh_sql_word(&sql, "ids", word, sizeof(word)))
			CHECK(strlen(word) < sizeof(word) && strstr(text, word));
		if (!has_marks(&sql))
			check_again(&sql);
		wh_sql_clear(&sql);
	} else {
		CHECK(err.code != WHERRY_OK && *err.message);
		CHECK(sql.n == 0 && !sql.stmts && !sql.layout);
	}
	free(text);
	return 0;
}
