/* .sql files: a statement that is read is found by its name. */
#include "fuzz.h"

#include "db/sql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = fuzz_text(data, len);
	wherry_error err = WHERRY_ERROR_INIT;
	char word[16];
	wh_sql sql = {0};

	if (wh_sql_parse(text, "outbox", &sql, &err) == WHERRY_OK) {
		for (size_t i = 0; i < sql.n; i++) {
			CHECK(wh_sql_find(&sql, sql.stmts[i].name) == &sql.stmts[i]);
			CHECK(strstr(sql.stmts[i].text, "{table}") == NULL);
		}
		(void)wh_sql_word(&sql, "ids", word, sizeof(word));
		wh_sql_clear(&sql);
	} else {
		CHECK(err.code != WHERRY_OK && *err.message);
		CHECK(sql.n == 0 && !sql.stmts && !sql.layout);
	}
	free(text);
	return 0;
}
