/*
 * Tests of relays that all work on one table, each with a row of its lease: on a queue, or on a
 * delayed queue.
 */
#ifndef RELAY_EACH_H
#define RELAY_EACH_H

#include "relay_suite.h"

void a_paused_queue_is_not_relayed_until_it_is_resumed(void **state);
void each_relay_of_a_queue_is_shown(void **state);
void a_relay_of_a_queue_says_that_its_destination_refuses(void **state);

#endif
