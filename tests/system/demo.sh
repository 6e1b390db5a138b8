#!/usr/bin/env bash
# The demo keeps what it says, and notices when a promise is broken.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

demo() { # BUILD
	out=$(WHERRY_BUILD=$1 bash "$source_dir/examples/demo.sh" 2>"$tmp/.err" </dev/null)
	status=$?
	err=$(cat "$tmp/.err")
}

began=$SECONDS
demo "$build_dir"
echo "# $((SECONDS - began)) s"
printf '%s\n' "$out" | sed 's/^/# /'
expect "the demo runs to its end, and every promise holds" 0 "no:FAIL"
expect "what committed is what was delivered" 0 \
	"out:ok   committed    1537 orders, each with its message" \
	"out:ok   delivered    1537:" "out:ok   lost         0"
expect "what was rolled back was never seen" 0 \
	"out:ok   rolled back  170, of which 0 were ever seen" "out:ok   unborn       0"
expect "order was kept in every key" 0 "out:ok   order        kept in 12 of 12 keys"
expect "duplicates and the rate are told" 0 "out:ok   duplicates   " "out: messages/s drained"
killed_at=$(grep -oE 'kill -9 on the relay, after [0-9]+' <<<"$out" | grep -oE '[0-9]+$')
check "the relay was killed in mid-flight" test "${killed_at:-0}" -ge 200 -a \
	"${killed_at:-0}" -lt 769

# A program that loses the last message and invents one.
mkdir -p broken/examples
ln -s "$build_dir/examples/shop" broken/examples/shop
cat >broken/wherry <<END
#!/usr/bin/env bash
case "\$*" in
*file:*)
	"$wherry" "\$@" || exit
	sed -i '\$d' file.ndjson
	echo '{"message_id":"never","key":"us","body":{}}' >>file.ndjson
	;;
*) exec "$wherry" "\$@" ;;
esac
END
chmod +x broken/wherry
demo "$tmp/broken"
expect "a lost and an invented message are noticed" 1 "out:FAIL lost         1" \
	"out:FAIL unborn       1" "out:FAIL order"
finish
