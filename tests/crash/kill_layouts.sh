#!/usr/bin/env bash
# Four relays on the tables of eventferry or outbox-event-bus, or on a log, killed and stopped at random.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills and stops; WHERRY_CRASH_SEED: which.

exec /usr/bin/python3 -B "$(dirname "$0")/kill_layouts.py"
