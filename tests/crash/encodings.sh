#!/usr/bin/env bash
# Texts that have no form in UTF-8, in databases of SQL_ASCII, WIN1252 and LATIN1: no command stops at them.
#
# Writes TAP.

exec /usr/bin/python3 -B "$(dirname "$0")/encodings.py"
