#include "wherry_test.h"

#include "queue/queue.h"

static void reads(const char *address, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf name = WH_BUF_INIT(1000);

	WHERRY_PASS(wh_queue_address(address, "Shop", &name, &err));
	assert_string_equal(wh_buf_str(&name), wanted);
	wh_buf_clear(&name);
}

WHERRY_TEST(an_address_is_a_table_a_schema_and_a_catalog)
{
	reads("my.table", "\"my.table\"");
	reads("my.table@[dbo]", "\"dbo\".\"my.table\"");
	reads("my.table@dbo@shop", "\"dbo\".\"my.table\"");
	reads("my.table@[]@[SHOP]", "\"my.table\"");
	reads("my.table@[my.sch@ma]", "\"my.sch@ma\".\"my.table\"");
	reads("my.table@my]schema", "\"my]schema\".\"my.table\"");
	reads("my.table@my]]schema", "\"my]]schema\".\"my.table\"");
	reads("my.table@[my]]schema]", "\"my]schema\".\"my.table\"");
	reads("my.table@my[schema", "\"my[schema\".\"my.table\"");
	reads("a\"b@[c\"d]", "\"c\"\"d\".\"a\"\"b\"");
	reads("a@", "\"a\"");
}

WHERRY_TEST(an_address_in_another_catalog_is_refused_by_name)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf name = WH_BUF_INIT(1000);

	WHERRY_FAILS(WHERRY_UNSUPPORTED,
		     wh_queue_address("a@[dbo]@[my.c@t]", "shop", &name, &err));
	assert_non_null(strstr(err.message, "in the database 'my.c@t'"));
	wh_buf_clear(&name);
}

WHERRY_TEST_MAIN
