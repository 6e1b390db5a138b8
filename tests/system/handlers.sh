#!/usr/bin/env bash
# The example of handlers does what it says.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

wherry=$build_dir/examples/handlers # what w() runs

w
expect "the example of handlers runs to its end" 0 "out:mailed: invoice of order 1" \
	"out:mailed: invoice of order 2"
expect "middleware sees what failed" 0 \
	"out:attempt 1 of invoices: the mail server is away for a moment"
check "each invoice is mailed once" is "$(grep -c '^mailed' <<<"$out")" 2
expect "the hook is told of the death of a message that nobody handles" 0 \
	"out:dead: odrers of order 3: no handler for topic 'odrers'"
check "after all its attempts" is "$(grep -c 'of odrers: no handler' <<<"$out")" 5
check "each order has its invoice" is "$(sql shop.db 'SELECT count(*) FROM invoices')" 2
check "and all but the dead one is done" is \
	"$("$build_dir/wherry" list sqlite:shop.db --all --json | grep -o '"state":"[a-z]*"' | sort | uniq -c | xargs)" \
	'1 state:dead 4 state:done'

finish
