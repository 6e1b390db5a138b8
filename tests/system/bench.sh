#!/usr/bin/env bash
# The bench measures what it names, keeps it, compares it and draws it.  No speed is
# judged here: a few hundred messages tell none.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

wherry=$build_dir/wherry-bench # what w() runs

w --help
expect "help teaches how to see what a change does" 0 "out:--save" "out:(change something)"

w --list
expect "the figures have names" 0 "out:drain, 1000 keys, 200 B full" \
	"out:drain, one hot key, 600 B normal" "out:enqueue, one per commit, 200 B full" \
	"out:latency at 200/s, 99 of 100 normal" "out:memory" "out:idle, SQL statements full" \
	"out:peer"
printf '%s\n' "$out" >names.txt
w --only 'drain*hot key*full' --list
expect "some can be chosen" 0 "out:drain, one hot key, 200 B full" "no:normal" \
	"no:enqueue"

# Each figure in `./dev test deep`; otherwise some of each kind.
deep=${WHERRY_TEST_DEEP-}
some='00 B full' some_on_postgres=one
[ "$deep" != 1 ] || some='*' some_on_postgres='*'
w --only "$some" --list
printf '%s\n' "$out" >names.txt
w --messages 300 --runs 1 --seconds 1 --only "$some" --save kept.json --svg chart.svg
expect "they are measured" 0 "no:inf" "no:nan"
lines=0
while read -r name; do
	[[ $out == *"$name "* ]] && lines=$((lines + 1))
done <names.txt
check "each has its line" test "$lines" -eq "$(wc -l <names.txt)"
check "with its target, where it has one" is \
	"$(grep -cE ' at (least|most) [0-9.]+: (met|NOT MET)' <<<"$out")" \
	"$(grep -vc '^drain, [1on].* B\|peer\|http:, against null\|http:, one hot\|Redis, 1000\|Redis, one hot' names.txt)"
check "its databases are gone" is "$(ls -d "$tmp"/wherry-bench* 2>/dev/null)" ""

out=$(cat kept.json)
json "what was saved has both sides, each run of them, and the target" \
	'd["messages"] == 300 and len(d["figures"]) == '"$(wc -l <names.txt)"' and
	 all(f["wherry"] >= 0 and f["other"] >= 0 and len(f["wherry_runs"]) >= 1 and
	     ("derived" in f or len(f["other_runs"]) == len(f["wherry_runs"]))
	     for f in d["figures"])'
[ "$deep" != 1 ] || json "the figure of a peer is derived from its defaults, 50 at a time once a second" \
	'[f["other"] for f in d["figures"] if "derived" in f and "peer" in f["name"]] == [50]'
out=$(python3 - chart.svg <<'END'
import sys, xml.etree.ElementTree as tree
svg = tree.parse(sys.argv[1]).getroot()
print(svg.tag, len(svg.findall('{*}rect')))
END
)
status=$?
expect "the chart is an image with a bar for each" 0 \
	"is:{http://www.w3.org/2000/svg}svg $(($(wc -l <names.txt) + 1))"

w --messages 300 --runs 2 --only 'enqueue, 100*200 B*full' --compare kept.json
expect "a later run is compared with it" 0 "out: was "
w --messages 300 --runs 2 --only 'enqueue, 100*200 B' --compare kept.json --json
expect "it answers in JSON" 0
json "with as many runs as were asked for" \
	'[len(f["wherry_runs"]) for f in d["figures"]] == [2, 2]'
w --messages 300 --runs 1 --only 'enqueue, 100*200 B' --markdown
expect "it writes the table of docs/benchmarks.md" 0 "out:| enqueue, 100 per commit, 200 B, messages/s | raw |"
check "FULL and NORMAL share a row" is "$(grep -c '^|' <<<"$out")" 3

if [ -x "$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -n 1)" ]; then
	w --postgres --only "$some_on_postgres" --list
	printf '%s\n' "$out" >names.txt
	w --postgres --messages 300 --runs 1 --seconds 1 --only "$some_on_postgres"
	expect "figures are measured on PostgreSQL" 0 "no:inf" "no:nan"
	lines=0
	while read -r name; do
		[[ $out == *"$name "* ]] && lines=$((lines + 1))
	done <names.txt
	check "each of them" is "$lines" "$(wc -l <names.txt)"
fi

server=$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -n 1)
if [ -x "$server" ] && [ "$deep" = 1 ]; then
	w --growth --messages 200 --seconds 1 --svg growth.svg
	expect "how cost grows is measured over each axis" 0 "no:inf" "no:nan"
	for axis in backlog "delivered rows beside" "held keys"; do
		check "over the $axis, four times on each database" is \
			"$(grep -cE "^(SQLite|PostgreSQL) +$axis +[0-9,]+ +[0-9,]+ +[0-9.]+ +[0-9.]+$" <<<"$out")" 8
	done
	check "over idle relays on PostgreSQL" is \
		"$(grep -cE '^PostgreSQL +idle relays +[0-9]+ +- +[0-9.]+ +[0-9.]+$' <<<"$out")" 3
	out=$(python3 - growth.svg <<'END'
import sys, xml.etree.ElementTree as tree
svg = tree.parse(sys.argv[1]).getroot()
print(svg.tag, len(svg.findall('{*}g')), len(svg.findall('{*}g/{*}polyline')))
END
	)
	status=$?
	expect "and drawn" 0 "is:{http://www.w3.org/2000/svg}svg 4 8"
fi

w --runs 0
expect "no runs are too few" 2 "err:--runs"
w --messages many
expect "a word is no number" 2 "err:--messages"
w --svg
expect "a file must be named" 2 "err:--svg: needs a value"
w --message 3
expect "an unknown option is refused with the nearest" 2 "err:did you mean --messages"
w --only teapot
expect "a figure that does not exist is refused" 2 "err:--list"
w --json --markdown
expect "only one kind of output" 2 "err:not with --json"
w --only idle --compare missing.json
expect "there must be something to compare with" 2 "err:missing.json" "err:--save"
echo '{}' >empty.json
w --only idle --compare empty.json
expect "and it must be a saved run" 2 "err:no saved run"
w --only 'enqueue, 100' --messages 10 --data missing.ndjson
expect "what cannot be measured is an error" 1 "err:missing.ndjson"

finish
