#!/usr/bin/env bash
#
# A shop takes 1,707 orders, a relay tells the world of them and is killed on the way; then
# the promises are counted.  ./dev demo runs this; WHERRY_BUILD is the folder of the build.

set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
build=$(readlink -f "${WHERRY_BUILD:-$here/../build/release}")
wherry=$build/wherry shop=$build/examples/shop
events=$here/data/earthquakes.ndjson

folder=$(mktemp -d "${TMPDIR:-/tmp}/wherry-demo.XXXXXX")
relay=
clean() {
	[ -z "$relay" ] || kill -KILL "$relay" 2>/dev/null || true
	rm -rf "$folder"
}
trap clean EXIT
cd "$folder"

say() {
	printf '\n%s\n' "$*"
}

run() {
	printf '  $ %s\n' "$*"
}

lines() {
	wc -l <"$1" 2>/dev/null || echo 0
}

# Messages that are not delivered yet.
open() {
	"$wherry" status sqlite:shop.db --json |
		python3 -c 'import json, sys; s = json.load(sys.stdin); print(s["pending"] + s["failed"] + s["dead"])'
}

# wait_until COMMAND...: within 30 seconds.
wait_until() {
	local tries=6000

	until "$@"; do
		[ $((tries -= 1)) -gt 0 ] || {
			echo "waited in vain: $*" >&2
			cat ./*.log >&2
			exit 1
		}
		sleep 0.005
	done
}
heard_some() { [ "$(lines stdout.ndjson)" -ge 200 ]; }
leads_again() { grep -q 'event=leading epoch=2' relay.log; }
all_left() { [ "$(open)" -eq 0 ]; }

# Orders come in over a while, so that there is a middle to be killed in; the last ones
# come after it, however slow the machine is.
customers() {
	local -a some
	local n=0

	while mapfile -t -n 20 some && [ ${#some[@]} -gt 0 ]; do
		printf '%s\n' "${some[@]}"
		sleep 0.01
		[ $((n += 1)) -lt 35 ] || wait_until test -e killed
	done
}

# One relay may follow another on the same pipe, so cat is the reader of both.
: >stdout.ndjson
exec 3> >(exec cat >>stdout.ndjson)
reader=$!

start_relay() {
	"$wherry" relay sqlite:shop.db stdout: --lease 1s >&3 2>>relay.log &
	relay=$!
}

say "An outbox in the shop's own database:"
run "wherry create sqlite:shop.db"
"$wherry" create sqlite:shop.db >create.log

say "A relay writes to a pipe, while the shop takes orders and rolls back every tenth:"
run "wherry relay sqlite:shop.db stdout: | …"
run "shop shop.db <earthquakes.ndjson     (the first half)"
start_relay
head -n 854 "$events" | customers | "$shop" shop.db >first.json 2>shop.log &
first=$!
wait_until heard_some

kill -KILL "$relay"
wait "$relay" 2>/dev/null || true
touch killed
killed_at=$(lines stdout.ndjson)
say "kill -9 on the relay, after $killed_at messages.  Another takes over when its lease ends:"
run "wherry relay sqlite:shop.db stdout: | …"
start_relay
wait "$first"
wait_until leads_again
wait_until all_left
kill -TERM "$relay"
wait "$relay"
relay=
exec 3>&-
wait "$reader"

say "The second half of the orders waits for a relay that writes to a file:"
run "shop shop.db <earthquakes.ndjson     (the second half)"
tail -n +855 "$events" | "$shop" shop.db >second.json 2>>shop.log
waiting=$(open)
run "wherry relay sqlite:shop.db file:file.ndjson --until-empty"
"$wherry" relay sqlite:shop.db file:file.ndjson --until-empty 2>>relay.log || cat relay.log >&2

say "What was promised, counted:"
python3 - "$events" "$waiting" "$(open)" <<'END'
import json, re, sqlite3, sys

events, waiting, left = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
taken = [json.loads(line)["id"] for line in open(events)]
said = [json.load(open(name)) for name in ("first.json", "second.json")]
shop = sqlite3.connect("shop.db")
orders = list(shop.execute("SELECT id, net FROM quake_orders ORDER BY n"))
committed = {ident for ident, _ in orders}
rolled_back = set(taken) - committed
by_stdout = [json.loads(line) for line in open("stdout.ndjson")]
by_file = [json.loads(line) for line in open("file.ndjson")]

first, twice = [], []
for message in by_stdout + by_file:
    ident = message["message_id"]
    (twice if ident in {m["message_id"] for m in first} else first).append(message)
delivered = {m["message_id"] for m in first}

def order(pairs):
    keys = {}
    for ident, key in pairs:
        keys.setdefault(key, []).append(ident)
    return keys

wanted, got = order(orders), order((m["message_id"], m["key"]) for m in first)
in_order = [key for key in wanted if got.get(key) == wanted[key]]
rate = re.findall(r"delivered.*\((\d+)/s\)", open("relay.log").read())[-1]

failures = []
def promise(name, text, holds):
    print(f"  {'ok  ' if holds else 'FAIL'} {name:<12} {text}")
    if not holds:
        failures.append(name)

promise("committed", f"{len(committed)} orders, each with its message",
        len(committed) == sum(s["committed"] for s in said) and len(set(taken)) == 1707)
promise("rolled back", f"{len(rolled_back)}, of which {len(rolled_back & delivered)} "
        "were ever seen", len(rolled_back) == sum(s["rolled_back"] for s in said)
        and not rolled_back & delivered)
promise("delivered", f"{len(delivered)}: {len(delivered) - len(by_file)} to the pipe, "
        f"{len(by_file)} to the file", len(by_file) == waiting)
promise("lost", f"{len(committed - delivered)}", not committed - delivered and not left)
promise("unborn", f"{len(delivered - committed)}", not delivered - committed)
ids = [m["message_id"] for m in twice]
promise("duplicates", f"{len(ids)}" + (
    " that the kill cut off from their acknowledgement, with their old ids:\n"
    + " " * 20 + " ".join(ids[:6]) + (" …" if len(ids) > 6 else "") if ids else ""),
    len(ids) <= 1000)
promise("order", f"kept in {len(in_order)} of {len(wanted)} keys",
        len(in_order) == len(wanted) == len(got))
print(f"       rate         {int(rate):,} messages/s drained to the file, each on disk "
      "before it counted")
sys.exit(1 if failures else 0)
END
