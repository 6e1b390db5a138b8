# shellcheck shell=bash
# Subscriptions of an outbox: several relays read one outbox.  Source it after cli.bash.

put() { # URL TOPIC ID...
	local topic=$2 from=$1
	shift 2
	printf '{"id":"%s"}\n' "$@" >"$tmp/.lines"
	w enqueue --lines "$from" --topic "$topic" --id /id --from "$tmp/.lines"
}
relay() { # URL TO
	w relay "$1" "$2" --until-empty --timeout 60s
}
ids() { # FILE
	sed -n 's/.*"message_id":"\([^"]*\)".*/\1/p' "$1" | tr '\n' ' '
}

all() { # DATABASE NAME
	local url=$1 name=$2 box=$1#box

	w create "$box" --layout log
	w create "$box/audit" --topics 'orders.*,bill_ng'
	expect "$name: create makes a subscription" 0 "out:subscription 'audit' of outbox 'box' is ready"
	w create "$box/audit" --topics 'orders.*,bill_ng'
	expect "$name: or leaves it as it is" 0
	w create "$box/audit"
	expect "$name: other topics are not meant by leaving them out" 1 "err:exists, with the topics orders.*,bill_ng" "no:--yes"
	w create "$box/audit" --topics x
	expect "$name: one with other topics is refused" 1 "err:exists, with the topics orders.*,bill_ng: add --yes to change them"
	put "$box" orders.new a b
	put "$box" other c
	put "$box" bill_ng d
	put "$box" billing e
	put "$box" orders f
	relay "$box" "file:$name-all"
	check "$name: relays without a subscription deliver all" is "$(ids "$name-all")" "a b c d e f "
	relay "$box/audit" "file:$name-audit"
	check "$name: a subscription delivers its topics" is "$(ids "$name-audit")" "a b d "
	relay "$box/audit" "file:$name-audit"
	check "$name: once" is "$(ids "$name-audit")" "a b d "

	# Failures are of one subscription alone.
	put "$box" orders.new g
	relay "$box/audit" 'exec:exit 65'
	expect "$name: a message can die in one" 3 "err:1 dead"
	relay "$box" "file:$name-all"
	check "$name: and be delivered in another" is "$(ids "$name-all")" "a b c d e f g "
	w status "$box"
	expect "$name: status lists them" 0 "out:audit, topics orders.*,bill_ng: 0 pending, 0 failed, 1 dead; no relay" \
		"out:relay: 0 pending, 0 failed, 0 dead; no relay" "out:done        7"
	w status "$box/audit" --json
	expect "$name: each has its counts" 0 'out:"done":3,"failed":0,"dead":1' 'out:"name":"audit","topics":"orders.*,bill_ng"'
	w list "$box/audit"
	expect "$name: and its list" 0 "out:dead" "out: g "
	w list "$box"
	expect "$name: where others have nothing open" 0 "err:no messages"
	w doctor "$box/audit"
	expect "$name: the doctor speaks of it" "$status" "out:warn  parked              message 7"
	w discard "$box" 1 --yes
	expect "$name: what others read too is not discarded" 1 "err:no message '1' that failed, died or waits"
	w retry "$box/audit" --all
	expect "$name: a dead one can be tried again" 0 "out:1 message is pending again"
	relay "$box/audit" "file:$name-audit"
	check "$name: and is delivered there" is "$(ids "$name-audit")" "a b d g "
	w pause "$box/audit"
	expect "$name: a pause" 0 "out:'box/audit' is paused"
	w status "$box"
	expect "$name: is of one, too" 0 "out:0 dead, paused" "no:(paused)"
	w resume "$box/audit"

	# Positions.
	w create "$box/late" --from now
	put "$box" x h
	relay "$box/late" "file:$name-late"
	check "$name: from now on" is "$(ids "$name-late")" "h "
	w create "$box/some" --from 5
	relay "$box/some" "file:$name-some"
	check "$name: from an id" is "$(ids "$name-some")" "e f g h "
	w create "$box/new" --from 2026-01-01T00:00Z
	relay "$box/new" "file:$name-new"
	check "$name: from a time" is "$(ids "$name-new")" "a b c d e f g h "
	w create "$box/none" --from 2999-01-01T00:00Z
	relay "$box/none" "file:$name-none"
	check "$name: from a time to come nothing that is there" is "$(ids "$name-none" 2>&1)" ""
	w seek "$box/late" start
	expect "$name: seek goes back" 0 "is:8 messages are pending in subscription 'late' of outbox 'box'"
	relay "$box/late" "file:$name-late"
	check "$name: and all is delivered again" is "$(ids "$name-late")" "h a b c d e f g h "
	w seek "$box/late" 3
	w seek "$box/late" now
	expect "$name: or forth" 0 "is:0 messages are pending in subscription 'late' of outbox 'box'"
	w seek "$box/late" 9
	expect "$name: not beyond the end" 1 "err:there is no message 9 yet, the last one is 8"
	w seek "$box/late" yesterday
	expect "$name: nor to a word" 2 "err:'yesterday' is not a place in an outbox"
	relay "$box/late" 'exec:exit 65'
	w seek "$box/late" 8
	relay "$box/late" 'exec:exit 65'
	expect "$name: a message dies" 3
	w seek "$box/late" start
	w list "$box/late" --state dead
	expect "$name: and is tried again after a seek" 0 "err:no messages"

	# A relay that is at work.
	"$wherry" relay "$box/late" "file:$name-work" --set relay.lease=5s 2>"$tmp/.work" &
	relay=$!
	check "$name: a relay is at work" until_true 20 grep -q '"h"' "$name-work"
	put "$box" x i
	check "$name: it delivers what comes" until_true 20 grep -q '"i"' "$name-work"
	w seek "$box/late" 8
	again() { [ "$(grep -c '"i"' "$name-work")" -eq 2 ]; }
	check "$name: and goes on from where seek says" until_true 20 again
	check "$name: with what is behind it alone" is "$(ids "$name-work")" "a b c d e f g h i h i "
	w drop "$box/late" --yes
	expect "$name: it keeps its subscription" 1 "err:stop the relay first"
	w drop "$box/late" --yes --force
	expect "$name: unless forced" 0 "out:subscription 'late' of outbox 'box' is gone"
	check "$name: then the relay ends" until_true 40 ended "$relay"
	kill "$relay" 2>/dev/null
	wait "$relay"

	# Topics change at the position, whatever a relay has read ahead.
	w create "$box/moving" --topics 'a.*' --from now
	put "$box" a.x a1
	put "$box" b.x b1
	relay "$box/moving" "file:$name-moving"
	put "$box" a.x a2
	put "$box" b.x b2
	w create "$box/moving" --topics 'b.*' --yes
	expect "$name: topics can be changed" 0 "out:subscription 'moving' of outbox 'box' has other topics now"
	relay "$box/moving" "file:$name-moving"
	check "$name: for messages behind the position" is "$(ids "$name-moving")" "a1 b2 "
	w create "$box/moving" --topics 'b.*' --yes
	expect "$name: or stay as they are" 0 "out:subscription 'moving' of outbox 'box' is ready"
	put "$box" b.x b3
	relay "$box/moving" 'exec:exit 65'
	expect "$name: a message dies" 3
	w create "$box/moving" --topics 'c.*' --yes
	w retry "$box/moving" --all
	relay "$box/moving" "file:$name-moving"
	check "$name: what died before can still be retried" is "$(ids "$name-moving")" "a1 b2 b3 "
	"$wherry" relay "$box/moving" "exec:until [ -e $tmp/$name-go ]; do sleep 0.05; done; cat >>$name-held" --set relay.lease=5s 2>"$tmp/.moving" &
	relay=$!
	put "$box" c.x c1
	attempted() { pgrep -P "$relay" >/dev/null; }
	check "$name: a relay has a message in flight" until_true 20 attempted
	put "$box" d.x d1
	put "$box" c.x c2
	w status "$box/moving" --json
	w create "$box/moving" --topics 'd.*,c.*' --yes
	expect "$name: topics change under a relay" 0 "out:has other topics now"
	touch "$tmp/$name-go"
	held() { grep -q d1 "$name-held" && grep -q c2 "$name-held"; }
	check "$name: and it delivers what it had passed over" until_true 20 held
	kill "$relay"
	wait "$relay"
	w seek "$box/moving" now

	# Retention waits for each subscription.
	relay "$box" null:
	w relay "$box" null: --until-empty --set outbox.retention=1ms --set relay.purge_every=100ms
	w list "$box" --all
	expect "$name: messages stay until each subscription has passed them" 0 "out: 9  done"
	for s in audit some new none moving; do
		relay "$box/$s" null:
	done
	w relay "$box" null: --until-empty --set outbox.retention=1ms --set relay.purge_every=100ms
	purged() {
		w relay "$box" null: --until-empty --set outbox.retention=1ms --set relay.purge_every=100ms
		w list "$box" --all
		grep -q 'no messages' <<<"$err"
	}
	check "$name: and go then" until_true 20 purged

	# Bad names.
	w create "$box/a b"
	expect "$name: a bad name is refused" 2 "err:'a b' is not the name of a subscription"
	w create "$box/a" --topics 'x,,y'
	expect "$name: and a bad pattern" 2 "err:'' is not a pattern of topics"
	w create "$box" --topics x
	expect "$name: topics are of a subscription" 2 "err:name a subscription"
	w status "$box/nothing"
	expect "$name: one that is not there" 1 "err:outbox 'box' has no subscription 'nothing'"
	w relay "$box/nothing" null: --until-empty
	expect "$name: is not relayed" 1 "err:outbox 'box' has no subscription 'nothing'"
	w seek "$url#nix/audit" now
	expect "$name: nor one of an outbox that is not there" 1 "err:there is no outbox 'nix'" "no:delayed"
	w drop "$box" --yes
	expect "$name: drop removes an outbox with all of them" 0
	w create "$box" --layout log
	w status "$box/audit"
	expect "$name: and a new one has none" 1 "err:no subscription 'audit'"
}
