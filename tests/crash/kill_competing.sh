#!/usr/bin/env bash
# As kill.sh and kill_commands.sh, with four relays that compete for the messages.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills and stops; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/competing.py"
