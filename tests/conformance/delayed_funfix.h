/*
 * The cases of the JVM library's table, for each database, and the cases of the suite that it lacks.
 */
#ifndef WHERRY_DELAYED_FUNFIX_H
#define WHERRY_DELAYED_FUNFIX_H

#include "delayed_suite.h"

void the_library_polls_and_acknowledges_what_we_offer(void **state);
void we_poll_and_acknowledge_what_the_library_offers(void **state);
void a_lease_of_one_that_ended_is_taken_by_the_other(void **state);
void an_update_of_the_library_supersedes_our_lease(void **state);
void an_offer_of_ours_takes_the_lease_of_the_library(void **state);
void a_first_poll_writes_to_the_librarys_table_alone(void **state);
void rows_of_messages_that_the_library_deleted_go_too(void **state);
void a_table_of_the_library_is_recognised(void **state);

#define FUNFIX_CASE(name, make)                                                          \
	cmocka_unit_test_setup_teardown(name, make, delayed_fixture_drop)

/* clang-format off */
#define FUNFIX_CASES(make) \
	FUNFIX_CASE(the_library_polls_and_acknowledges_what_we_offer, make), \
	FUNFIX_CASE(we_poll_and_acknowledge_what_the_library_offers, make), \
	FUNFIX_CASE(a_lease_of_one_that_ended_is_taken_by_the_other, make), \
	FUNFIX_CASE(an_update_of_the_library_supersedes_our_lease, make), \
	FUNFIX_CASE(an_offer_of_ours_takes_the_lease_of_the_library, make), \
	FUNFIX_CASE(a_first_poll_writes_to_the_librarys_table_alone, make), \
	FUNFIX_CASE(rows_of_messages_that_the_library_deleted_go_too, make), \
	FUNFIX_CASE(a_table_of_the_library_is_recognised, make),
/* clang-format on */

/* The table has no limits of its own, belongs to the library, and has other names of indexes. */
#define FUNFIX_LACKS                                                                     \
	"rows_out_of_range_are_refused_by_the_table",                                    \
		"a_dropped_table_takes_everything_along",                                \
		"creating_again_makes_an_index_that_is_missing",                         \
		"exhausted_messages_become_dead_as_a_set_and_stop_no_poll"

/* On SQL Server the column of keys has room for 200 units of UTF-16. */
#define FUNFIX_MSSQL_LACKS "the_last_character_there_is_may_be_in_a_key"

#endif
