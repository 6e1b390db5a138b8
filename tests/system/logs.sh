#!/bin/bash
#
# The log: each event is one line with the fields that were meant, as text and as JSON,
# whatever messages, commands and URLs hold; and no secret is in it.
# shellcheck disable=SC2016

. "$(dirname "$0")/daemon.bash"
cd "$tmp" || exit

# lines FILE PYTHON: each line is one event, and PYTHON holds of all of them, a list of dicts.
lines() {
	python3 - "$1" "$2" <<'END'
import json, re, sys

def pairs(found):
    assert len(dict(found)) == len(found), found
    return dict(found)

def fields(line):
    if line.startswith("{"):
        return json.loads(line, object_pairs_hook=pairs)
    found, at = [], 0
    while at < len(line):
        m = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[!-~]+)(?: |$)').match(line, at)
        assert m, (at, line)
        value = m.group(2)
        found.append((m.group(1), json.loads(value) if value[0] == '"' else value))
        at = m.end()
    return pairs(found)

text = open(sys.argv[1], "rb").read()
assert all(c == 10 or 32 <= c != 127 for c in text), text
events = [fields(line) for line in text.decode().splitlines()
          if line.startswith(("time=", "{"))]
assert all({"time", "level", "part", "event"} <= set(e) for e in events), events
dead = [e for e in events if e["event"] == "dead"]
said = [e for e in events if e["event"] == "child-stderr"]
start = [e for e in events if e["event"] == "start"]
assert eval(sys.argv[2]), events
END
}

# ---- a command that says it all ----

cat >command.sh <<'END'
printf 'a\nevent=leading epoch=9\n{"event":"leading"}\n\033[2J\033]0;x\007 a b=c "q" \302\2331m\377\n' >&2
exit 65
END
hostile=$'t\nevent=standby leader=x\r \033[2J a b=c "q"'

fill() { # DATABASE
	"$wherry" create "sqlite:$1" >/dev/null
	echo '{}' | "$wherry" enqueue --lines "sqlite:$1" --topic "$hostile" >/dev/null
}

expected='len(said) == 4 and said[1]["text"] == "event=leading epoch=9" and \
	said[3]["text"] == "\x1b[2J\x1b]0;x\x07 a b=c \"q\" \x9b1m\ufffd" and \
	len(dead) == 1 and dead[0]["topic"] == "t\nevent=standby leader=x\r \x1b[2J a b=c \"q\"" and \
	len([e for e in events if e["event"] == "leading"]) == 1 and \
	not [e for e in events if e["event"] == "standby"]'

fill a.db
"$wherry" relay sqlite:a.db 'exec:sh command.sh' --until-empty 2>text.log
check "what a message or a command says is a field of one line" lines text.log "$expected"

for format in text json; do
	rm -f b.db*
	fill b.db
	cat >b.yaml <<-END
		http: {listen: '127.0.0.1:0'}
		log: {format: $format}
		relays: [{name: b, from: 'sqlite:b.db', to: 'exec:sh command.sh'}]
	END
	start_daemon b.yaml
	until_true 20 grep -q '\bdead\b' log
	stop_daemon
	check "and so it is in the daemon's log, as $format" lines log \
		"$expected and all(e['relay'] == 'b' for e in said + dead)"
done

"$wherry" relay sqlite:a.db null: --until-empty --set log.level=warn 2>quiet.log
check "log.level is the threshold" is "$(grep -c time= quiet.log)" 0

# ---- secrets ----

S3=S3CRET
declare -A urls=(
	[https://$S3@127.0.0.1:9/]=https://127.0.0.1:9
	[https://me:$S3@127.0.0.1:9/]=https://127.0.0.1:9
	[https://127.0.0.1:9/T0/B0/$S3]=https://127.0.0.1:9
	["https://127.0.0.1:9/?code=$S3&sig=$S3&key=$S3&auth=$S3"]=https://127.0.0.1:9
	["exec:TOKEN=$S3 ./not-there $S3"]=exec:not-there
	["exec:/bin/false --header $S3"]=exec:false
	["kafka://127.0.0.1:9?sasl.mechanism=PLAIN&sasl.username=me&sasl.password=$S3"]=kafka://127.0.0.1:9
)
for url in "${!urls[@]}"; do
	rm -f c.db*
	fill c.db
	timeout 60 "$wherry" relay sqlite:c.db "$url" --until-empty --timeout 1s --verbose \
		--set retry.attempts=1 2>c.log
	check "the log names ${urls[$url]} alone" lines c.log "start[0]['to'] == '${urls[$url]}'"
	{
		"$wherry" status sqlite:c.db
		"$wherry" show sqlite:c.db 1
		"$wherry" doctor sqlite:c.db
		printf "relays: [{name: c, from: 'sqlite:c.db', to: '%s'}]\n" "$url" >c.yaml
		"$wherry" config c.yaml
		"$wherry" check c.yaml
	} >>c.log 2>&1
	out=$(cat c.log) err=
	status=0
	expect "and no secret of it is in log, status, errors or configuration" 0 "no:$S3"
done

rm -f d.db*
fill d.db
timeout 60 "$wherry" relay sqlite:d.db 'http://me:x@127.0.0.1:9/' --until-empty --timeout 100ms 2>d.log
check "credentials that are sent unencrypted are warned of" lines d.log \
	'[e["level"] for e in events if e["event"] == "insecure"] == ["warn"]'
printf "relays: [{name: d, from: 'sqlite:d.db', to: 'http://me:x@127.0.0.1:9/'}]\n" >d.yaml
w check d.yaml
expect "by check as well, and the file can be used" 0 "err:d.yaml: warning: relay d: http: sends" \
	"out:1 relay, fine" "no:me:x"

for url in "postgres://me:$S3/x@127.0.0.1:9/db" "postgres://me:$S3@x@127.0.0.1:9/db" \
	"postgres://me:$S3?x@127.0.0.1:9/db" "postgres://me:$S3:x" "postgres://127.0.0.1:$S3/db" \
	"postgres://me:$S3@127.0.0.1:9/db?password=$S3" "postgres://me:$S3@127.0.0.1:9/db?$S3=x" \
	"postgres:host=127.0.0.1 port=9 password=$S3"; do
	for command in relay status list doctor; do
		to=
		[ $command != relay ] || to=null:
		# shellcheck disable=SC2086
		w $command "$url" $to
		[[ $out$err != *$S3* ]] || break
	done
	expect "no error repeats a password: ${url//$S3/…}" "$status" "no:$S3"
done
finish
