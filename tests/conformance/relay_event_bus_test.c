/*
 * Relays on the tables of outbox-event-bus, where they always compete.
 */
#include "event_bus.h"
#include "relay_suite.h"

#include <stdlib.h>

#include "outbox_sqlite.h"

/* As it is: not about the native table. */
static void plain_sql(relay_fixture *f, const char *sql)
{
	assert_true(outbox_sqlite_raw(&f->temp, NULL, sql, NULL, 0));
}

static int64_t plain_number(relay_fixture *f, const char *sql)
{
	char text[64] = "";

	assert_true(outbox_sqlite_raw(&f->temp, NULL, sql, text, sizeof(text)));
	return strtoll(text, NULL, 10);
}

#define EVENT(id, more, values)                                                          \
	"INSERT INTO outbox(id, type, payload, occurred_at" more ") VALUES (" id         \
	", 't', '{}', '2026-01-01T00:00:00.000Z'" values ");"

/* SQLite takes a BLOB in a column of texts, beside a text of the same bytes. */
WHERRY_CASE(an_event_whose_id_is_a_blob_is_settled, relay_fixture *f)
{
	relay_set(f, "retry.base", "1ms");
	plain_sql(f, EVENT("'7'", "", "") EVENT("x'37'", "", "") EVENT("x'38'", "", "")
			     EVENT("x'ff00'", "", "") EVENT("x''", "", ""));
	relay_answers(f, 8, WHERRY_RETRY, 1);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a,
		    plain_number(
			    f, "SELECT count(*) FROM outbox WHERE status = 'created' "
			       "OR status = 'active' OR next_retry_at IS NOT NULL") == 0);
	assert_int_equal(plain_number(f, "SELECT count(*) FROM outbox_archive "
					 "WHERE id IN ('7', x'37', x'38', x'')"),
			 4);
	assert_int_equal(plain_number(f, "SELECT count(*) FROM outbox WHERE id = x'ff00' "
					 "AND last_error LIKE 'message_id %'"),
			 1);
}

/* Of two events whose ids have the same bytes, an acknowledgement names one. */
WHERRY_CASE(a_blob_and_a_text_of_the_same_bytes_are_two_events, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	plain_sql(f, EVENT("'7'", "", "") EVENT("x'37'", "", ""));
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	assert_true(relay_fake_answer(fake, 7, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a,
		    plain_number(f, "SELECT count(*) FROM outbox_archive") == 1);
	assert_int_equal(
		plain_number(f, "SELECT count(*) FROM outbox WHERE status = 'active'"),
		1);
	assert_true(relay_fake_answer(fake, 7, WHERRY_REJECTED));
	RELAY_UNTIL(f, &f->a,
		    plain_number(f, "SELECT count(*) FROM outbox WHERE status = 'failed' "
				    "AND next_retry_at IS NULL") == 1);
}

WHERRY_CASE(a_retry_time_that_is_not_a_time_is_due, relay_fixture *f)
{
	relay_hourly(f);
	plain_sql(f, EVENT("'1'", ", status, next_retry_at", ", 'failed', 'x'")
			     EVENT("'2'", ", status, next_retry_at", ", 'failed', x'00'")
				     EVENT("'3'", ", status, next_retry_at",
					   ", 'failed', '2020-01-01'")
					     EVENT("'4'", ", status, next_retry_at",
						   ", 'failed', ''"));
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a,
		    plain_number(f, "SELECT count(*) FROM outbox_archive") == 4);
	relay_quiet(f, &f->a);
	relay_check_once(f, 4);
	plain_sql(f, EVENT("'5'", ", status, next_retry_at", ", 'failed', 'soon'"));
	RELAY_ASLEEP_UNTIL(f, &f->a,
			   plain_number(f, "SELECT count(*) FROM outbox_archive") == 5);
}

WHERRY_CASE(a_relay_logs_the_limits_of_the_layout, relay_fixture *f)
{
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a,
		    relay_logged(f, "event=layout name=event-bus limits=\"no keys"));
}

static const relay_test own[] = {
	RELAY_TEST(an_event_whose_id_is_a_blob_is_settled, 0),
	RELAY_TEST(a_blob_and_a_text_of_the_same_bytes_are_two_events, 0),
	RELAY_TEST(a_retry_time_that_is_not_a_time_is_due, 0),
	RELAY_TEST(a_relay_logs_the_limits_of_the_layout, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	const relay_target target = {
		.name = "event-bus",
		.url = "sqlite:",
		.in_file = true,
		.is = RELAY_OTHERS | RELAY_IN_ORDER,
		.also = relay_claiming_also,
		.own = own,
		.tables = event_bus_tables,
		.views = event_bus_views,
		.translate = event_bus_translate,
	};

	return relay_suite(&target, 1);
}
