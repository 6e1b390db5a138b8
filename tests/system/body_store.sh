#!/usr/bin/env bash
# Large bodies in a body store: a folder, and a server of S3 that verifies signatures.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"

fetch=$source_dir/examples/bodies/fetch.py
folder=$tmp/bodies
mkdir "$folder"

# large BYTES: a JSON string of so many bytes.
large() {
	printf "\"%$(($1 - 2))s\"" x
}

# outbox FILE: a new one, with messages of one key around a large body, and one of another key.
outbox() {
	rm -f "$1".db*
	w create "sqlite:$1.db"
	w enqueue "sqlite:$1.db" '{"n":1}' --topic t --key k
	large 100000 | "$wherry" enqueue "sqlite:$1.db" --from - --topic t --key k --id big \
		--header content-type=text/x-large >/dev/null
	w enqueue "sqlite:$1.db" '{"n":3}' --topic t --key k
	w enqueue "sqlite:$1.db" '{"n":4}' --topic t --key other
}

# deliver FILE STORE [OPTION...]
deliver() {
	w relay "sqlite:$1.db" stdout: --until-empty --timeout 60s \
		--set "relay.body_store=$2" --set relay.body_store_above=64KB "${@:3}"
}

# failed_as FILE PATTERN: its large message has failed without an attempt that counts, with this
# error.
failed_as() {
	"$wherry" list "sqlite:$1.db" --state failed --json >failed
	grep -q "\"message_id\":\"big\".*\"attempts\":0,.*$2" failed
}

# ---- a folder ----

outbox a
deliver a "file:$folder"
expect "a large body goes into the folder" 0 "err:4 delivered, 0 retried, 0 dead"
json "the others arrive as they are, in the order of their key" \
	"[m['body'].get('n') for m in l if m['key'] == 'k'] == [1, None, 3] and
	 [m['body'] for m in l if m['key'] == 'other'] == [{'n': 4}]"
json "its message says where it is, in body and headers" \
	"(lambda m, p: p['length'] == 100000 and p['content_type'] == 'text/x-large' and
	  p['url'] == 'file://$folder/big-' + p['sha256'] and
	  m['headers'] == {'content-type': 'application/json', 'wherry-body-url': p['url'],
	                   'wherry-body-length': '100000', 'wherry-body-sha256': p['sha256'],
	                   'wherry-body-type': 'text/x-large'})(
	    *[(m, m['body']['wherry_body']) for m in l if m['message_id'] == 'big'][0])"
check "the folder has it under its name, and nothing else" \
	cmp "$folder"/big-* <(large 100000)
check "no temporary file is left" is "$(find "$folder" -type f | wc -l)" 1
printf '%s\n' "$out" >lines
python3 "$fetch" "file://$folder/" <lines >fetched
check "the example fetches it" grep -q '^big text/x-large 100000$' fetched
python3 "$fetch" file:///elsewhere/ <lines >fetched 2>fetch.err
check "and refuses what lies elsewhere" grep -q "points outside of file:///elsewhere/" fetch.err

outbox a
deliver a "file:$folder"
check "a second delivery of the message writes the same object" \
	is "$(find "$folder" -type f | wc -l)" 1

outbox a
deliver a "file:$folder" --set message.format=cloudevents-structured --set message.source=/shop
expect "a format makes the message first" 0 "err:4 delivered, 0 retried, 0 dead"
printf '%s\n' "$out" >lines
python3 "$fetch" "file://$folder/" <lines >fetched
check "and the store has what it made" grep -q '"specversion":' "$folder"/big-*
check "which the example fetches" grep -q '^big application/cloudevents+json ' fetched

rm -r "$folder"
outbox b
"$wherry" relay sqlite:b.db file:out.ndjson --set "relay.body_store=file:$folder" \
	--set relay.body_store_above=64KB --set retry.cap=500ms 2>relay.log &
relay_pid=$!
pids+=("$relay_pid")
check "other keys do not wait for a folder that is missing" until_true 20 grep -q '"n":4' out.ndjson
check "the reason is said, and no attempt is counted" until_true 20 failed_as b \
	'the body store file:.*No such file'
mkdir "$folder"
check "once it is there, all is delivered" until_true 30 eval '[ "$(wc -l <out.ndjson)" = 4 ]'
kill "$relay_pid"
wait "$relay_pid"
out=$(cat out.ndjson)
json "in the order of the key" "[m['message_id'] == 'big' or m['body']['n'] for m in l if
	m['key'] == 'k'] == [1, True, 3]"

w relay sqlite:a.db stdout: --set relay.body_store=bodies
expect "what is not a URL is refused" 2 "err:relay.body_store: write file:/FOLDER"
w relay sqlite:a.db stdout: --set "relay.body_store=$tmp/bodies"
expect "and a path, with the value to write" 2 "err:write relay.body_store=file:$tmp/bodies"
w relay sqlite:a.db stdout: --set relay.body_store=ftp://x/y
expect "and a store that nobody knows" 2 "err:write file:/FOLDER or s3://BUCKET/PREFIX"
w relay sqlite:a.db stdout: --set relay.body_store=file:bodies
expect "and a folder without its whole path" 2 "err:needs the whole path"
w relay sqlite:a.db stdout: --set relay.body_store_above=64KB
expect "and a size without a store" 2 "err:relay.body_store_above has no effect" "err:add relay.body_store=file:/"
w relay sqlite:a.db stdout: --set s3.region=eu-west-1 --set "relay.body_store=file:$tmp"
expect "and a setting of S3 without S3" 2 "err:add relay.body_store=s3://BUCKET/PREFIX"

# ---- S3 ----

if [[ $("$wherry" relay x: y: 2>&1) != *https:* ]]; then
	skip "S3" "built without WHERRY_HTTP"
	finish
fi

export NO_PROXY='*' AWS_ACCESS_KEY_ID=AKIDEXAMPLE AWS_SECRET_ACCESS_KEY=hunter2/Secret+Key
s3=$tmp/s3
mkdir "$s3"
python3 "$source_dir/tests/s3/server.py" "$s3" shop-bodies "$AWS_ACCESS_KEY_ID" \
	"$AWS_SECRET_ACCESS_KEY" 2>s3.err &
s3_pid=$!
pids+=("$s3_pid")
until_true 20 test -s "$s3/port"
endpoint=http://127.0.0.1:$(cat "$s3/port")

# to_s3 FILE [OPTION...]
to_s3() {
	deliver "$1" s3://shop-bodies/orders/eu --set "s3.endpoint=$endpoint" "${@:2}"
}

outbox c
to_s3 c
expect "a large body goes to S3, signed" 0 "err:4 delivered, 0 retried, 0 dead" \
	"err:sends bodies unencrypted"
json "its message has the URL of the object" \
	"[m['body']['wherry_body']['url'] for m in l if m['message_id'] == 'big'][0].startswith(
	    's3://shop-bodies/orders/eu/big-')"
check "the object is the body" cmp "$s3"/objects/orders/eu/big-* <(large 100000)
check "with its content type" grep -q '"type": "text/x-large"' "$s3/log"

# refuses TEXT [STORE]: the large message waits with this reason, and others arrive.
refuses() {
	outbox d
	"$wherry" relay sqlite:d.db file:d.ndjson --set "s3.endpoint=$endpoint" \
		--set "relay.body_store=${2:-s3://shop-bodies/x}" --set relay.body_store_above=64KB \
		2>>relay.log &
	relay_pid=$!
	check "it waits: $1" until_true 20 failed_as d "$1"
	kill "$relay_pid"
	wait "$relay_pid"
}

echo 403 >"$s3/answer"
refuses 'may not write to bucket shop-bodies: allow it s3:PutObject'
echo 503 >"$s3/answer"
refuses 'HTTP 503 SlowDown'
echo region >"$s3/answer"
refuses 'is in region eu-central-1, not us-east-1: set s3.region=eu-central-1'
echo hang >"$s3/answer"
outbox d
"$wherry" relay sqlite:d.db file:hung.ndjson --set "s3.endpoint=$endpoint" \
	--set relay.body_store=s3://shop-bodies/x --set relay.body_store_above=64KB 2>>relay.log &
relay_pid=$!
check "a server that hangs holds up no other key" until_true 20 grep -q '"n":4' hung.ndjson
kill -KILL "$relay_pid"
wait "$relay_pid" 2>/dev/null
rm "$s3/answer"
secret=$AWS_SECRET_ACCESS_KEY
AWS_SECRET_ACCESS_KEY=wrong
refuses 'computes another signature: check the secret key'
AWS_SECRET_ACCESS_KEY=$secret
to_s3 d
expect "afterwards all is delivered" 0 "err:0 dead"
refuses 'there is no bucket other-bodies: create it' s3://other-bodies

printf '%s\n' '[other]' 'aws_access_key_id = x' '[default]' "aws_access_key_id = $AWS_ACCESS_KEY_ID" \
	"aws_secret_access_key=$AWS_SECRET_ACCESS_KEY" >keys
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
outbox e
to_s3 e --set "s3.credentials=file:$tmp/keys" --set log.level=debug
expect "keys may be in a file" 0 "err:4 delivered" "no:$secret"
refuses 'AWS_ACCESS_KEY_ID is not set'
w relay sqlite:e.db stdout: --set relay.body_store=s3://shop-bodies/a/../b
expect "a prefix that leads elsewhere is refused" 2 "err:the prefix of s3: may have"
w relay sqlite:e.db stdout: --set relay.body_store=s3://x
expect "and a name that is not a bucket's" 2 "err:needs the name of a bucket"
to_s3 e --set "s3.credentials=$secret"
expect "keys themselves are no setting" 2 "err:not the keys themselves"
check "no key is ever printed" is "$(cat .err relay.log | grep -c hunter2)" 0

kill "$s3_pid"
wait "$s3_pid" 2>/dev/null
finish
