/*
 * Relays on the tables of outbox-event-bus, where they always compete.
 */
#include "event_bus.h"
#include "relay_suite.h"

/* Of suites for a relay that is alone; they make sense for one that competes, too. */
static const char *const also[] = {
	"every_committed_message_is_delivered_once",
	"without_ordering_all_fly_together",
	"a_publisher_that_takes_only_some_gets_the_rest_later",
	"the_window_bounds_what_is_in_memory",
	"a_window_of_one_works",
	"each_retry_waits_longer",
	"an_unordered_message_fails_and_retries_alone",
	"throttling_pauses_for_as_long_as_asked",
	"throttling_lets_the_relay_sleep",
	"a_destination_that_is_down_lets_the_relay_sleep",
	"a_retry_by_an_operator_need_not_wait",
	"a_rejected_message_dies_at_once_and_alone",
	"all_may_be_rejected_without_the_destination_being_down",
	"five_failures_mean_that_the_destination_is_down",
	"four_failures_do_not_mean_so",
	"one_success_between_them_and_it_is_not_down",
	"one_message_probes_at_growing_intervals",
	"probes_rotate",
	"credentials_that_turn_out_wrong_later_are_neither",
	"a_connection_lost_while_submitting_loses_nothing",
	"a_stopping_relay_awaits_what_is_in_flight_and_submits_no_more",
	"a_stop_writes_what_waits_to_be_written",
	"a_relay_stops_while_the_destination_is_down",
	"a_stop_wakes_whoever_waits_for_the_descriptors",
	"a_second_step_after_the_end_changes_nothing",
	"a_message_that_ends_its_connection_is_found_and_dies",
	"a_redrive_is_noticed",
	"a_redrive_is_noticed_beside_new_messages",
	"an_empty_outbox_is_empty_at_once",
	"until_empty_delivers_all_and_ends",
	"until_empty_waits_for_retries",
	"until_empty_tells_of_deaths",
	"until_empty_gives_up_at_its_timeout",
	"until_empty_can_be_stopped",
	"until_empty_ignores_what_comes_after_its_start",
	"a_busy_database_is_waited_out_at_every_call",
	NULL,
};

int main(void)
{
	const relay_target target = {
		.name = "event-bus",
		.url = "sqlite:",
		.in_file = true,
		.is = RELAY_OTHERS | RELAY_IN_ORDER,
		.also = also,
		.tables = event_bus_tables,
		.views = event_bus_views,
		.translate = event_bus_translate,
	};

	return relay_suite(&target, 1);
}
