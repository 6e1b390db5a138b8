#!/usr/bin/env bash
# Drives the real program to a private redis-server, whose streams a group in Python reads.
#
# Writes TAP.

# shellcheck source=tests/system/redis.bash
. "$(dirname "$0")/redis.bash"
# shellcheck source=tests/webhook/server.bash
. "$source_dir/tests/webhook/server.bash"

start_redis

# deliver URL [OPTION...]: from shop.db until it is empty.
deliver() {
	w relay sqlite:shop.db "$1" --until-empty --timeout 60s "${@:2}"
}

# ---- a whole run ----

w create sqlite:shop.db
w enqueue --lines sqlite:shop.db --topic quakes --key /net --id /id --from "$quakes" \
	--header source=usgs
deliver "$redis/0?stream=shop.{topic}"
expect "a relay until empty delivers all" 0 "err:1707 delivered, 0 retried, 0 dead in "
out=$(read_back "$redis" shop.quakes)
json "each is there once, and each key kept the order of the file" \
	"len(l) == 1707 and $(in_file_order "m['key']")"
json "the fields say what it is" \
	"all(list(m) == ['stream', 'message_id', 'topic', 'key', 'headers', 'created_at', 'body'] and
	     m['message_id'] == m['body']['id'] and m['topic'] == 'quakes' and m['key'] == m['body']['net']
	     and json.loads(m['headers']) == {'source': 'usgs'} for m in l)"

# One hot key, and keys in several streams.
seq 1 2000 | sed 's/.*/{"n":&}/' >hot.ndjson
w enqueue --lines sqlite:shop.db --topic hot --key '' --from hot.ndjson
deliver "$redis/1"
seq 1 2000 | sed 's/.*/{"key":"hot","n":&}/' >hot.ndjson
w enqueue --lines sqlite:shop.db --topic hot --key /key --from hot.ndjson
deliver "$redis/2?stream={key}" --set redis.max_length=100
expect "a hot key is delivered" 0 "err:2000 delivered, 0 retried"
out=$(read_back "$redis/2" hot)
json "in its order, and the stream was trimmed" \
	'100 <= len(l) < 300 and [m["body"]["n"] for m in l] == list(range(2001 - len(l), 2001))'
w enqueue sqlite:shop.db "$(printf '\377\0\1' | base64)" --topic bytes
w enqueue sqlite:shop.db '' --topic bytes --header a=b
deliver "$redis/2" --set redis.max_age=1h
check "a message has no more fields than it needs" \
	[ "$(ask -n 2 XRANGE bytes - + COUNT 2 | grep -cE '^(key|aggregate|trace)')" = 0 ]

# ---- streams and servers that refuse ----

# refused TOPIC TEXT OPTION...: a message for the topic waits, with this reason.
refused() {
	rm -f wait.db*
	w create sqlite:wait.db
	w enqueue sqlite:wait.db '{"n":1}' --topic "$1"
	w relay sqlite:wait.db "${url-$redis}" --until-empty --timeout "${timeout-500ms}" "${@:3}"
	expect "$1: the reason is logged, and no secret" 5 "err:$2" "no:hush"
	w list sqlite:wait.db --json
	json "$1: the message waits, and no attempt is counted" \
		'd["attempts"] == 0 and d["state"] in ("pending", "failed")'
}
resolved() {
	w relay sqlite:wait.db "${url-$redis}" --until-empty --timeout 30s "$@"
	expect "${FUNCNAME[0]}: it is delivered" 0 "err:1 delivered"
}

ask SET word x >/dev/null
refused word "stream 'word': WRONGTYPE"
ask DEL word >/dev/null
resolved
ask CONFIG SET maxmemory 1mb >/dev/null
refused memory "raise maxmemory"
ask CONFIG SET maxmemory 0 >/dev/null
resolved
ask CONFIG SET min-replicas-to-write 1 >/dev/null
refused replicas "NOREPLICAS"
ask CONFIG SET min-replicas-to-write 0 >/dev/null
resolved
ask REPLICAOF 127.0.0.1 1 >/dev/null
refused replica "it is a replica"
ask REPLICAOF NO ONE >/dev/null
resolved
url=$redis/99 refused database "database 99 cannot be used: ERR DB index is out of range"
refused wait "redis.replicas" --set redis.replicas=1 --set relay.delivery_timeout=300ms

# A message never dies of a stream that takes none.
ask SET twelve x >/dev/null
w create sqlite:twelve.db
seq 12 | sed 's/.*/{"n":&}/' >twelve.ndjson
w enqueue --lines sqlite:twelve.db --topic twelve --from twelve.ndjson
w relay sqlite:twelve.db "$redis" --until-empty --timeout 2s --set retry.base=10ms \
	--set retry.cap=50ms --set retry.attempts=2
expect "a stream that refuses all kills none" 5 "err: 0 dead in " "err:event=destination-down"
ask DEL twelve >/dev/null
w relay sqlite:twelve.db "$redis" --until-empty --timeout 30s
expect "they are delivered later" 0 "err:12 delivered"

# No attempt is counted however long the server has no memory, and the order stays.
ask CONFIG SET maxmemory 1mb >/dev/null
w enqueue --lines sqlite:shop.db --topic full --key /key --from hot.ndjson
"$wherry" relay sqlite:shop.db "$redis" --until-empty --timeout 60s 2>full.err &
relay_pid=$!
pids+=("$relay_pid")
check "a server without memory is logged" until_true 20 grep -q 'event=server-busy why="OOM' full.err
ask CONFIG SET maxmemory 0 >/dev/null
wait "$relay_pid"
status=$? out='' err=$(cat full.err)
expect "when it has memory, all are delivered" 0 "err:2000 delivered, 0 retried, 0 dead"
out=$(read_back "$redis" full)
json "in their order" '[m["body"]["n"] for m in l] == list(range(1, 2001))'

ask CONFIG SET proto-max-bulk-len 1mb >/dev/null
printf '"%1200000s"' x >large
w enqueue sqlite:shop.db '{"n":1}' --topic large --key a
w_in "$(cat large)" enqueue sqlite:shop.db --topic large --key a
w enqueue sqlite:shop.db '{"n":2}' --topic large --key b
deliver "$redis"
expect "a message over the server's limit is dead, others are delivered" 3 "err:2 delivered" \
	"err:1 dead in" "err:raise the server's proto-max-bulk-len" "err:relay.body_store=file:/FOLDER"

# ---- a relay that is idle at first ----

rm -f wait.db*
w create sqlite:wait.db
w enqueue sqlite:wait.db '{"n":1}' --topic late
sql wait.db "INSERT INTO outbox_exception(subscription, id, state, attempts, last_error, next_retry_at)
	VALUES ('relay', 1, 3, 1, 'x', (unixepoch() + 7) * 1000)"
w relay sqlite:wait.db "$redis" --until-empty --timeout 30s
expect "a first message after seconds does not find the destination down" 0 "err:1 delivered" "no:destination-down"

# ---- users and passwords ----

ask ACL SETUSER default '>sesame' >/dev/null
ask --pass sesame --no-auth-warning ACL SETUSER shop on '>sesame' '~orders*' +xadd +multi +exec >/dev/null
export REDIS_PASSWORD=sesame
shop=(--set redis.user=shop --set redis.password=env:REDIS_PASSWORD)
refused orders "it wants a password: set redis.password=env:NAME"
refused orders "the user or the password is refused: WRONGPASS" --set redis.password=hush
w relay sqlite:wait.db "rediss${redis#redis}" --until-empty --set redis.ca_file=hot.ndjson
expect "a file without certificates is refused" 2 "err:redis.ca_file: 'hot.ndjson' is not a PEM file"
w relay sqlite:wait.db "$redis" --until-empty --set redis.user=shop
expect "a user without a password is refused" 2 "err:redis.user needs a password: set redis.password=env:NAME"
w relay sqlite:wait.db "$redis" --until-empty --set redis.sentinel_password=x
expect "a sentinel's password without sentinels, too" 2 "err:write redis+sentinel://HOST:26379/MASTER"
refused orders "disabled; see redis.user and redis.password" --set redis.password=hush
w doctor sqlite:wait.db
expect "and the doctor knows the reason when the relay has ended" 1 "out:last-error " "out:WRONGPASS" "out:see redis.user"
url=redis://shop:hush@127.0.0.1:$redis_port refused orders "WRONGPASS"
refused others '; `ACL SETUSER shop +xadd +multi +exec ~others` permits it' "${shop[@]}"
url=$redis/1 refused orders.a '; `ACL SETUSER shop +select` permits it' "${shop[@]}"
rm -f wait.db*
w create sqlite:wait.db
w enqueue --lines sqlite:wait.db --topic orders --key /key --from hot.ndjson
w relay sqlite:wait.db "$redis" --until-empty --timeout 30s "${shop[@]}"
expect "with the rights of the guide a hot key is delivered" 0 "err:2000 delivered"
ask --pass sesame --no-auth-warning ACL SETUSER shop -multi >/dev/null
sed 's/hot/cold/' hot.ndjson >cold.ndjson
w enqueue --lines sqlite:wait.db --topic orders.bare --key /key --from cold.ndjson
w relay sqlite:wait.db "$redis" --until-empty --timeout 60s "${shop[@]}"
expect "without the right to MULTI, too" 0 "err:2000 delivered, 0 retried" "err:permit the user +multi"
out=$(read_back "redis://:sesame@127.0.0.1:$redis_port" orders.bare)
json "each once, and in order" '[m["body"]["n"] for m in l] == list(range(1, 2001))'
w enqueue sqlite:wait.db '{}' --topic orders
w relay sqlite:wait.db "redis://shop:sesame@127.0.0.1:$redis_port" --until-empty --timeout 30s
expect "with the password in the URL, too, which is not repeated" 0 "err:1 delivered" "no:sesame"

# ---- TLS ----

make_certificate server DNS:localhost
make_certificate other DNS:example.org
make_certificate client DNS:client
secure=rediss://localhost:$redis_port
kill_redis

# certify NAME [LINE...]: the server shows this certificate, and speaks TLS alone.
certify() {
	printf '%s\n' 'bind 127.0.0.1' 'port 0' "tls-port $redis_port" "dir $tmp/redis-$redis_port" \
		"tls-cert-file $tmp/$1.pem" "tls-key-file $tmp/$1.key" "tls-ca-cert-file $tmp/client.pem" \
		"${@:2}" >tls.conf
	redis-server tls.conf >>tls.log 2>&1 &
	redis_pid=$!
	pids+=("$redis_pid")
	disown "$redis_pid"
	until_true 20 redis-cli --tls --insecure --cert client.pem --key client.key -p "$redis_port" PING
}

url=$secure
certify other 'tls-auth-clients no'
refused tls "for another host name" --set redis.ca_file="$tmp/other.pem"
resolved --set redis.ca_file="$tmp/other.pem" --set redis.verify=ca
kill_redis
certify server 'tls-auth-clients no'
refused tls "name its authority as redis.ca_file"
resolved --set redis.ca_file="$tmp/server.pem"
url=redis://localhost:$redis_port refused plain "write rediss:// for redis://"
kill_redis
certify server
refused tls "redis.client_cert" --set redis.ca_file="$tmp/server.pem"
resolved --set redis.ca_file="$tmp/server.pem" --set redis.client_cert="$tmp/client.pem" \
	--set redis.client_key="$tmp/client.key"
kill_redis
unset url
run_redis
timeout=7s url=$secure refused tls "if it does not speak TLS, write redis://"
kill_redis

# ---- servers that cannot be reached, and URLs ----

refused away "127.0.0.1:$redis_port: Connection refused"
url=redis://nowhere.invalid refused unknown "nowhere.invalid:6379: the host is not known"
for bad in 'redis://h/x' 'redis://h/0/orders' 'redis://h:0' 'redis://' 'redis://h?strem=a' \
	'redis://h?stream={id}' 'redis+sentinel://h' 'redis://h?password=hush'; do
	w relay sqlite:wait.db "$bad" --until-empty
	expect "$bad is refused" 2 "err:wherry" "no:hush"
done

finish
