#!/bin/bash
#
# Writes what a real PostgreSQL server sends through pgoutput to a folder, one message per
# file: how tests/fuzz/corpus/pgoutput was made.  A file is named for its kind and for what
# was done; of one kind and size only the first is kept.
#
# usage: tests/fuzz/pgoutput_capture.sh FOLDER

set -euo pipefail

out=${1?'which folder?'}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$out"

mkfifo "$tmp/hold"
bash "$here/../postgres/server.sh" wal_level=logical <"$tmp/hold" >"$tmp/folder" &
exec 9>"$tmp/hold"
while [ ! -s "$tmp/folder" ]; do
	kill -0 $! || exit 77
	sleep 0.05
done

sql() {
	psql -X -q -A -t -v ON_ERROR_STOP=1 -h "$(cat "$tmp/folder")" -U wherry postgres
}

declare -A seen
declare -A word=([42]=begin [43]=commit [4f]=origin [52]=relation [59]=type [49]=insert
	[55]=update [44]=delete [54]=truncate [4d]=logical)

# take NAME [OPTION...]: what was sent since the last time.
take() {
	local name=$1 i=0 hex file

	shift
	while read -r hex; do
		i=$((i + 1))
		[ -z "${seen[${hex:0:2}${#hex}]-}" ] || continue
		seen[${hex:0:2}${#hex}]=1
		file=$out/${word[${hex:0:2}]}_$name
		[ ! -e "$file" ] || file+=_$i
		printf '%b' "$(sed 's/../\\x&/g' <<<"$hex")" >"$file"
	done < <(sql <<<"SELECT encode(data, 'hex') FROM pg_logical_slot_get_binary_changes('s', NULL,
		NULL, 'proto_version', '1', 'publication_names', 'p', 'messages', 'true' $*)")
}

sql <<<"CREATE TYPE mood AS ENUM ('calm', 'rough');
	CREATE TABLE outbox(id bigserial PRIMARY KEY, topic text NOT NULL, key varchar(40),
		headers jsonb, made timestamptz DEFAULT '2026-01-01', feels mood, payload bytea);
	ALTER TABLE outbox ALTER payload SET STORAGE EXTERNAL;
	CREATE TABLE whole(a int, b text);
	ALTER TABLE whole REPLICA IDENTITY FULL;
	CREATE TABLE \"Odd \"\"name\"(\"a b\" int PRIMARY KEY, é text);
	CREATE TABLE nothing();
	CREATE PUBLICATION p FOR ALL TABLES;
	SELECT pg_create_logical_replication_slot('s', 'pgoutput')" >"$tmp/said"

sql <<<"INSERT INTO outbox(topic, key, headers, feels, payload)
	VALUES ('orders', 'k1', '{\"a\": 1}', 'rough', '\\x00ff0a')"
take plain
sql <<<"INSERT INTO outbox(topic, payload) VALUES ('', '')"
take nulls
sql <<<"INSERT INTO outbox(topic, feels, payload) VALUES ('orders', 'calm', '\\x00ff0a')"
take binary ", 'binary', 'true'"
sql <<<"INSERT INTO outbox(topic, payload) SELECT 'large', decode(repeat('ab', 2100), 'hex')"
take large
sql <<<"UPDATE outbox SET topic = 'larger' WHERE topic = 'large'"
take toasted
sql <<<"UPDATE outbox SET id = 100 WHERE id = 1"
take key
sql <<<"DELETE FROM outbox WHERE id = 100"
take row
sql <<<"INSERT INTO whole VALUES (1, 'x'), (NULL, NULL); UPDATE whole SET b = 'y' WHERE a = 1;
	DELETE FROM whole WHERE a IS NULL"
take whole
sql <<<"INSERT INTO nothing DEFAULT VALUES; INSERT INTO \"Odd \"\"name\" VALUES (1, 'ü')"
take odd
sql <<<"ALTER TABLE outbox ADD more text, DROP headers;
	INSERT INTO outbox(topic, more) VALUES ('orders', 'm')"
take altered
sql <<<"BEGIN; TRUNCATE whole RESTART IDENTITY; TRUNCATE outbox, nothing CASCADE; COMMIT"
take tables
sql <<<"SELECT pg_logical_emit_message(true, 'wherry', 'tick');
	SELECT pg_logical_emit_message(false, 'wherry', '')" >"$tmp/said"
take tick
sql <<<"SELECT pg_replication_origin_create('upstream');
	SELECT pg_replication_origin_session_setup('upstream');
	BEGIN;
	SELECT pg_replication_origin_xact_setup('0/1234', '2026-01-01');
	INSERT INTO whole VALUES (2, 'from afar');
	COMMIT" >"$tmp/said"
take afar
exec 9>&-
wait
