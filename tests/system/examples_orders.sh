#!/usr/bin/env bash
# The programs of docs/guide/languages.md commit an order and its event in one transaction, with
# the real drivers, whatever the type of the outbox's payload.
#
# Writes TAP.

# shellcheck source=tests/system/languages.bash
. "$(dirname "$0")/languages.bash"

find_languages
start_shop_server
printf '%s' "$customer" >customer

# ---- outboxes ----

in_database postgres 'CREATE DATABASE usual' 2>createdb.err
run_example Prepare usual
expect "the page's commands make outbox and shop" 0 "out:outbox 'outbox' is ready"
for type in bytea json jsonb; do
	in_database postgres "CREATE DATABASE $type"
	example Prepare "$type" | sed '/^wherry create/s/$/ --payload '"$type/" >prepare.sh
	PATH=$tmp/bin:$PATH bash -eu prepare.sh >prepare.log 2>&1
	check "so do they with --payload $type" answers_in "$type" \
		"SELECT format_type(atttypid, NULL) FROM pg_attribute
			WHERE attrelid = 'outbox'::regclass AND attname = 'payload'" "$type"
done

# ---- programs ----

# order LANGUAGE DATABASE
order() {
	local at="$1, database $2" from="postgres://wherry@127.0.0.1:$server_port/$2" before id

	before=$(in_database "$2" "SELECT CASE WHEN is_called THEN last_value ELSE 0 END
		FROM outbox_id_seq")
	run_example "$1" "$2"
	id=$(sed -n 's/^committed: order //p' <<<"$out")
	expect "$at: one order is committed, one rolled back" 0 \
		"is:committed: order $id
rolled back: order $((id + 1)) is over the credit limit"
	check "$at: the event of the other order had been inserted" answers_in "$2" \
		"SELECT last_value FROM outbox_id_seq" $((before + 2))
	check "$at: that order is not there" answers_in "$2" \
		"SELECT count(*) FROM orders WHERE id > $id" 0
	check "$at: the order has the customer's name" answers_in "$2" \
		"SELECT customer FROM orders WHERE id = $id" "$customer"
	check "$at: order and event are of one transaction" answers_in "$2" \
		"SELECT pg_xact_commit_timestamp(o.xmin) = pg_xact_commit_timestamp(b.xmin)
			FROM orders AS o JOIN outbox AS b ON b.partition_key = o.id::text
			WHERE o.id = $id" t
	w relay "$from" stdout: --until-empty --timeout 60s
	json "$at: one event is delivered, with that name" \
		"len(l) == 1 and d['topic'] == 'orders' and d['key'] == '$id' and
		 d['body'] == {'order': $id, 'customer': open('customer').read(), 'cents': 4200}"
}

for language in Python Node Go Java PHP; do
	if [ -n "${lacks[$language]}" ]; then
		skip "$language: an order and its event" "${lacks[$language]}"
		continue
	fi
	order "$language" usual
	order "$language" json
done

if [ -z "${lacks[Python]}" ]; then
	order Python bytea
	order Python jsonb
fi
if [ -z "${lacks[Go]}" ]; then
	out=$(gofmt -l examples 2>&1)
	check "the programs in Go are formatted" is "$out" ""
fi

stop_server
finish
