#!/usr/bin/env bash
# The program, and one that runs the statements of outbox-event-bus, on one file.
#
# Writes TAP.

exec python3 -B "$(dirname "$0")/event_bus.py"
