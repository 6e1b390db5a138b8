#!/usr/bin/env bash
# `wherry doctor` on delayed queues, queues and Debezium's table on PostgreSQL: it finds triggers and functions that no longer
# wake relays, and its advice repairs them.
#
# Writes TAP.

# shellcheck source=tests/system/doctor.bash
. "$(dirname "$0")/doctor.bash"

server_launch plain
server_await plain
case $? in
0) ;;
77)
	skip "PostgreSQL" "no server is installed"
	finish
	;;
*) result 1 "a server starts" "it does not" && finish ;;
esac
server="postgres://wherry@/postgres?host=$folder"
shell=(sql_on "$folder" wherry)
w create --kind delayed "$server#later"
w create --kind queue "$server#jobs"
w create --layout debezium "$server#events"

emptied() { # TABLE FUNCTION
	url=$server#$1
	doctor
	is_well trigger
	result $? "$1: the triggers are well" "$out"
	run "CREATE OR REPLACE FUNCTION $2() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
	finds "$1: an emptied function $2 is found" trigger warn "has a trigger with another function $2()"
	follow trigger
	mended trigger
}

emptied later/mail wherry_wake
emptied later/mail wherry_wake_control
emptied jobs wherry_wake_control
emptied events wherry_wake_control

url=$server#later/mail
run 'DROP TRIGGER later_wake_back ON later'
finds "later: a trigger that is missing is found" trigger warn 'later has no trigger'
follow trigger
mended trigger
run 'ALTER TABLE later DISABLE TRIGGER later_wake'
finds "later: a trigger that is disabled is found" trigger warn 'later has its trigger disabled'
follow trigger
mended trigger
url=$server#events
run 'DROP TRIGGER wherry_wake ON wherry_lease'
finds "events: a trigger that is missing is found" trigger warn 'wherry_lease has no trigger'
follow trigger
mended trigger
finish
