#!/usr/bin/env bash
# `wherry doctor` where a relay reads the WAL, on the table of Debezium's event router: what keeps the WAL
# from being read, or too much of it on the server's disk.  Then the same of a log whose relays have
# relay.source=wal.
#
# Writes TAP.

# shellcheck source=tests/system/doctor.bash
. "$(dirname "$0")/doctor.bash"

server_launch rich wal_level=logical min_wal_size=32MB
server_launch poor wal_level=replica max_replication_slots=1 max_wal_senders=1

# serve NAME: $url, $shell and $folder are those of this server.
serve() {
	server_await "$1"
	case $? in
	0) ;;
	77)
		skip "PostgreSQL" "no server is installed"
		finish
		;;
	*) result 1 "a server starts" "it does not" && finish ;;
	esac
	url="postgres://wherry@/postgres?host=$folder#events"
	shell=(sql_on "$folder" wherry)
	w create "$url" --layout debezium
}

# configure SETTING VALUE
configure() {
	run "ALTER SYSTEM SET $1 = '$2'"
	run "SELECT pg_reload_conf()" >/dev/null
	until_true 20 eval '[ "$(run "SHOW '"$1"'")" = '"$2"' ]'
}

# 100 MB of log, of nothing.
write_log() {
	run "SELECT pg_switch_wal() FROM generate_series(1, 6) AS i
		WHERE pg_logical_emit_message(false, 'x', i::text) IS NOT NULL" >/dev/null
}

# read_slot NAME: as a relay would; ended by unread.
read_slot() {
	pg_recvlogical -h "$folder" -U wherry -d postgres --slot "$1" --start -f slot.out \
		-o proto_version=1 -o "publication_names=$publication" --no-loop >slot.log 2>&1 &
	reader=$!
	pids+=("$reader")
	until_true 20 eval '[ "$(run "SELECT active FROM pg_replication_slots
		WHERE slot_name = '"'$1'"'")" = t ]'
}

unread() {
	kill "$reader"
	wait "$reader"
} 2>/dev/null

make_slot() { # PLUGIN
	run "SELECT pg_create_logical_replication_slot('$slot', '$1')" >/dev/null
}

drop_slot() {
	run "SELECT pg_drop_replication_slot('$slot')" >/dev/null
}

# ---- slots ----

serve rich
configure max_wal_size 32MB
w create "${url%#*}"
w doctor "${url%#*}"
expect "who reads no WAL hears nothing of it" 1 'no:slot-' 'no:wal' 'no:replication'
w create "$url" --stream
slot=$(run "SELECT slot_name FROM pg_replication_slots")
publication=$(run "SELECT pubname FROM pg_publication")
doctor
check "the level of the log is well" is_well wal-level
run "CREATE ROLE reader LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO reader;
	GRANT pg_read_all_stats TO reader"
owner=$url
url="postgres://reader@/postgres?host=$folder#events"
finds "a role that may not read the log is found" replication bad 'role reader'
follow replication
mended replication
url=$owner
finds "a slot that nobody reads is found" slot-unread warn "nobody reads the replication slot $slot"
finds "and that nothing bounds what it keeps" slot-unread warn 'it can fill the disk'
run "DROP PUBLICATION $publication"
finds "a publication that is missing is found" publication bad 'is not there'
follow publication
mended publication
read_slot "$slot"
mended slot-unread
PGAPPNAME=second pg_receivewal -h "$folder" -U wherry -D "$tmp" >receive.log 2>&1 &
pids+=($!)
until_true 20 eval 'doctor; is_found failover warn'
finds "a standby that does not have the slot is told" failover warn 'standbys are connected (1)'
kill "${pids[-1]}"
mended failover
run "ALTER PUBLICATION $publication SET (publish = 'update')"
finds "a publication without what is inserted is found" publication bad 'what is inserted'
follow publication
mended publication
run "ALTER PUBLICATION $publication DROP TABLE events"
finds "a publication without the table is found" publication bad 'leaves out the table'
follow publication
mended publication
run "ALTER PUBLICATION $publication SET TABLE events WHERE (type > 'd')"
finds "a publication that leaves out rows is found" publication bad 'leaves out rows: '
follow publication
mended publication
run "ALTER PUBLICATION $publication SET TABLE events (id, aggregatetype, aggregateid)"
finds "a publication that leaves out columns is found" publication bad \
	'leaves out columns: type, payload'
follow publication
mended publication

kill -STOP "$reader"
run "INSERT INTO events SELECT gen_random_uuid(), 'a', 'b', 'c', to_jsonb(repeat('ab', 2000))
	FROM generate_series(1, 20000) AS i"
write_log
finds "a relay that is far behind is found" slot-lag warn 'behind, a lot of WAL or of time'
kill -CONT "$reader"
mended slot-lag
unread

run "SELECT pg_create_physical_replication_slot('backup', true)" >/dev/null
write_log
finds "who else keeps the log is found" log warn "the replication slot 'backup' (physical, read by nobody)"
follow log
mended log

# ---- a slot that is somebody else's, and one that is lost ----

drop_slot
make_slot test_decoding
finds "a slot of another plugin is found" slot-of-others bad 'of the plugin test_decoding'
drop_slot
make_slot pgoutput
mended slot-of-others
configure max_slot_wal_keep_size 64MB
finds "when an unread slot will be lost is told" slot-unread warn 'MB later'
configure max_wal_size 1GB
write_log
finds "a slot that will be lost is found" slot-lost warn 'the next checkpoint gives it up'
run "CHECKPOINT"
finds "a slot that is lost is found" slot-lost bad "the replication slot $slot is lost"

# ---- a log, and relay.source=wal ----

wal=(--set relay.source=wal)
url=${url%#*}
doctor "${wal[@]}"
check "a relay of this role may read the log" is_well wal-level
check "nobody needs a publication that a relay makes" is_well publication
check "no standby is waited for" is_well wal-standbys
check "the setting is one that relays take" is_well source
owner=$url
url="postgres://reader@/postgres?host=$folder"
run "ALTER ROLE reader NOREPLICATION; GRANT ALL ON ALL TABLES IN SCHEMA public TO reader"
finds "a role that may not read the log is found" replication warn 'a relay reads the table instead' "${wal[@]}"
follow replication
mended replication "${wal[@]}"
finds "a publication that a relay cannot make is found" publication warn 'is not there' "${wal[@]}"
follow publication
mended publication
doctor
check "with a publication no setting is needed to be told" is_well replication
url=$owner
configure synchronous_standby_names nobody
finds "standbys that get a commit later are found" wal-standbys warn "synchronous_standby_names is 'nobody'"
follow wal-standbys
mended wal-standbys
w create "$url" --partitions
finds "relays that share the keys are found" source bad 'share the keys' "${wal[@]}"
url=sqlite:shop.db
w create "$url"
finds "so is another database" source bad 'on PostgreSQL' "${wal[@]}"
serve poor
url=${url%#*}
w create "$url"
finds "a level of the log without rows is found" wal-level warn 'relays read the table' "${wal[@]}"
run "SELECT pg_create_physical_replication_slot('backup')" >/dev/null
finds "so is that no slot is free" senders warn 'a relay reads the table instead of the WAL' "${wal[@]}"
run "SELECT pg_drop_replication_slot('backup')" >/dev/null
mended senders "${wal[@]}"
finish
