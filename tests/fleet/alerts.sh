#!/usr/bin/env bash
# Prometheus loads the alert rules, judges made-up numbers by them, and raises the alarms of a daemon
# whose destination, message and schedule fail.  It knows each expression of the dashboard.
#
# Writes TAP.  Needs Prometheus: `./dev test fleet` brings it.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/../system/cli.bash"

PATH=$source_dir/build/prometheus/usr/bin:$PATH
if ! command -v promtool prometheus >/dev/null; then
	skip "alert rules" "Prometheus is missing"
	finish
fi
rules=$source_dir/packaging/prometheus/alerts.yaml

run() { # COMMAND...
	out=$("$@" 2>&1 </dev/null) status=$? err=
}

run promtool check rules "$rules"
expect "the rules can be read" 0 "out:SUCCESS"
# promtool compares whole annotations, so the rules are tested without them.
sed '/^        annotations:/,/^$/d' "$rules" >alerts.yaml
cp "$source_dir/tests/fleet/alerts_test.yaml" .
run promtool test rules alerts_test.yaml
expect "they raise the alarms that they should, and no others" 0 "out:SUCCESS"

# ---- a daemon with troubles ----

for name in orders refused dead; do
	"$wherry" create "sqlite:$name.db" 2>/dev/null >&2
	printf '{"n":1}\n' | "$wherry" enqueue --lines "sqlite:$name.db" --topic t >/dev/null 2>&1
done
port=$(free_port)
cat >wherry.yaml <<END
http: {listen: 127.0.0.1:0, token: a-token-of-24-characters}
relays:
  - {name: orders, from: 'sqlite:orders.db', to: 'file:orders.ndjson'}
  - {name: refused, from: 'sqlite:refused.db', to: 'http://127.0.0.1:$port/hook'}
  - {name: dead, from: 'sqlite:dead.db', to: 'exec:exit 65'}
  - {name: broken, from: 'sqlite:missing.db', to: 'file:broken.ndjson'}
cron:
  - {name: report, database: 'sqlite:missing.db', at: '0 6 * * *', zone: UTC, outbox: {topic: reports, body: '{}'}}
END
"$wherry" run wherry.yaml 2>log &
daemon=$!
pids+=("$daemon")
if ! until_true 20 grep -q event=http log; then
	result 1 "the daemon starts" "$(cat log)"
	finish
fi
at=127.0.0.1:$(sed -n 's/.*event=http .*port=\([0-9]*\).*/\1/p' log)

# The alarms at once, instead of after minutes.
sed 's/^\( *for:\) .*/\1 1s/' "$rules" >live.yaml
cat >prometheus.yaml <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [live.yaml]
scrape_configs:
  - job_name: wherry
    authorization: {credentials: a-token-of-24-characters}
    static_configs: [{targets: ['$at']}]
END
prometheus --config.file=prometheus.yaml --storage.tsdb.path=series --log.level=warn \
	--web.listen-address="127.0.0.1:$port" 2>prometheus.log &
pids+=("$!")

asked() { # PATH: whether the answer has it
	curl -sS "http://127.0.0.1:$port/api/v1/$1" 2>/dev/null
}

firing() { # ALARM LABEL=VALUE
	asked alerts | python3 -c '
import json, sys
name, label = sys.argv[1], sys.argv[2].split("=")
for a in json.load(sys.stdin)["data"]["alerts"]:
    if a["state"] == "firing" and a["labels"]["alertname"] == name and a["labels"].get(label[0]) == label[1]:
        print(a["annotations"]["summary"], "--", a["annotations"]["runbook"])
        sys.exit(0)
sys.exit(1)' "$1" "$2"
}

fires() { # ALARM LABEL=VALUE
	if until_true 30 firing "$1" "$2"; then
		out=$(firing "$1" "$2")
		result 0 "$1 is raised for $2"
	else
		result 1 "$1 is raised for $2" "$(asked alerts)"
	fi
}

fires WherryDestinationDown relay=refused
fires WherryDeadMessages relay=dead
fires WherryNoRelayLeads relay=broken
fires WherryDatabaseTrouble relay=broken
fires WherryCronMissed cron=report
out=$(asked alerts | python3 -c '
import json, sys
for a in json.load(sys.stdin)["data"]["alerts"]:
    print(a["labels"]["alertname"], a["labels"].get("relay"), a["labels"].get("cron"))') status=0 err=
expect "but none of what is well" 0 "no:orders" "no:WherryNotRunning"

# The commands that the alarms name, with the relay's name filled in.
asked alerts | python3 -c '
import json, re, sys
for a in json.load(sys.stdin)["data"]["alerts"]:
    for command in re.findall("`(wherry [^`]*)`", a["annotations"]["runbook"]):
        print(command)' | sort -u >commands
bad=
while read -r _ command; do
	# shellcheck disable=SC2086 # words
	WHERRY_URL=sqlite:orders.db "$wherry" $command >command.out 2>&1 </dev/null
	[ $? != 2 ] || grep -q 'confirm it with --yes' command.out || bad+="$command: $(cat command.out)"$'\n'
done <commands
check "its commands are ones of the program" test -s commands
[ -z "$bad" ]
result $? "and are used as they say" "$bad"

out=$(python3 - "$source_dir/packaging/grafana/wherry.json" "http://127.0.0.1:$port" 2>&1 <<'END'
import json, sys, urllib.parse, urllib.request

board = json.load(open(sys.argv[1]))
panels = board["panels"]
ids = [p["id"] for p in panels]
assert len(ids) == len(set(ids)), "two panels have one id"
taken = set()
for p in panels:
    g = p["gridPos"]
    assert g["x"] + g["w"] <= 24, p["title"]
    for cell in ((x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])):
        assert cell not in taken, p["title"] + " covers another panel"
        taken.add(cell)
    if p["type"] == "row":
        continue
    assert p["datasource"]["uid"] == "${datasource}", p["title"]
    assert p["targets"], p["title"]
    for t in p["targets"]:
        expr = t["expr"].replace("$__rate_interval", "1m").replace("$job", ".*").replace("$relay", ".*")
        assert "$" not in expr, expr
        with urllib.request.urlopen(sys.argv[2] + "/api/v1/query?" + urllib.parse.urlencode({"query": expr})) as answer:
            assert json.load(answer)["status"] == "success", expr
        print("ok", p["title"])
END
) status=$? err=
expect "Prometheus understands each expression of the dashboard" 0 "out:ok Delivered" "no:Traceback"

kill -TERM "$daemon"
wait "$daemon"
fires WherryNotRunning severity=critical
finish
