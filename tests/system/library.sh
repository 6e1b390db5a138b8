#!/usr/bin/env bash
# The library as other programs use it: one compiled with older headers, one in C++, and the
# service of examples/service.c, which signals stop.
#
# Writes TAP.
# shellcheck disable=SC2154

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

cached() { # VARIABLE
	sed -nE "s/^$1:[A-Z]+=//p" "$build_dir/CMakeCache.txt"
}
compiler=$(cached CMAKE_C_COMPILER)
flags=$(cached CMAKE_C_FLAGS)

# build OUTPUT INCLUDE COMPILER OPTION...: against the library of this build.
build() {
	local output=$1 include=$2
	shift 2
	# shellcheck disable=SC2086
	"$@" -Wall -Wextra -Wpedantic -Werror $flags -I "$include" -L "$build_dir" \
		-Wl,-rpath,"$build_dir" -o "$output" -lwherry -lsqlite3 -pthread 2>.err
	status=$? out='' err=$(cat .err)
}

run_it() { # PROGRAM
	out=$("$@" 2>.err)
	status=$? err=$(cat .err)
}

# ---- a program that was compiled when structs were smaller ----

cp -R "$source_dir/include" older
shorter() { # HEADER PATTERN: without the members that match
	perl -0pi -e "s/$2//s" "older/wherry/$1"
}
shorter message.h '\tint32_t attempts;[^\n]*\n'
shorter outbox.h '\tint64_t older_us;[^\n]*\n'
shorter outbox.h '\tchar layout\[24\];[^\n]*\n'
shorter outbox.h '\tbool partitions;[^\n]*\n'
shorter relay.h '\tbool down;[^\n]*\n'
shorter lease.h '\tint64_t failed_most;[^\n]*\n'
shorter lease.h '\tconst char \*message_id;[^\n]*\n'
check "seven structs are shorter in the older headers" is \
	"$(diff -r "$source_dir/include/wherry" older/wherry | grep -c '^[0-9].*[cd]')" 7

cat >older.c <<'END'
#include <stdio.h>
#include <string.h>
#include <wherry/wherry.h>

#define DO(call)                                                    \
	do {                                                        \
		if ((call) != WHERRY_OK) {                          \
			fprintf(stderr, "%s: %s\n", #call, e.message); \
			return 1;                                   \
		}                                                   \
	} while (0)

static wherry_code see(void *ctx, const wherry_row *row)
{
	printf("%s %.*s %s\n", row->message->topic, (int)row->message->body_len,
	       (const char *)row->message->body, row->message->headers);
	++*(int *)ctx;
	return WHERRY_OK;
}

static wherry_code claimed(void *ctx, const wherry_message *msg)
{
	*(int64_t *)ctx = msg->id;
	return WHERRY_OK;
}

int main(void)
{
	struct {
		wherry_outbox_status it;
		char guard[64];
	} status;
	struct {
		wherry_relay_stats it;
		char guard[64];
	} stats;
	wherry_message two[] = {WHERRY_MESSAGE(.topic = "orders", .body = "{\"n\":1}",
					       .body_len = WHERRY_TEXT),
				WHERRY_MESSAGE(.topic = "orders", .body = "{\"n\":2}",
					       .body_len = WHERRY_TEXT)};
	wherry_error e = {.code = WHERRY_FULL, .message = "of an earlier call"};
	wherry_config *config;
	wherry_outbox *box, *events;
	wherry_relay *relay;
	wherry_lease lease;
	wherry_db *db;
	char *headers = NULL;
	int64_t id = 0;
	int n = 0;

	memset(&status, 'x', sizeof(status));
	memset(&stats, 'x', sizeof(stats));
	memset(&lease, 0, sizeof(lease));
	DO(wherry_config_new(&config, &e));
	DO(wherry_config_set(config, "db.create", "on", &e));
	DO(wherry_db_open("sqlite:older.db", config, &db, &e));
	DO(wherry_outbox_create(db, "outbox", &WHERRY_OUTBOX_OPTIONS(), &e));
	DO(wherry_outbox_open(db, "outbox", &box, &e));
	DO(wherry_headers_add(&headers, "tenant", "Zo\xc3\xab \"Zed\"", &e));
	DO(wherry_headers_add(&headers, "trace", "1", &e));
	two[1].headers = headers;
	DO(wherry_outbox_enqueue_many(box, two, 2, WHERRY_OWN_TRANSACTION, NULL, &e));
	DO(wherry_outbox_list(box, &WHERRY_OUTBOX_FILTER(.topic = "orders"), see, &n, &e));
	DO(wherry_outbox_get_status(box, &status.it, sizeof(status.it), &e));
	DO(wherry_outbox_create(db, "events", &WHERRY_OUTBOX_OPTIONS(.layout = "event-bus"), &e));
	DO(wherry_outbox_open(db, "events", &events, &e));
	DO(wherry_outbox_enqueue(events, &two[0], WHERRY_OWN_TRANSACTION, NULL, &e));
	DO(wherry_outbox_join(events, "me", 60000000, &lease, &e));
	DO(wherry_outbox_claim(events, &lease,
			       &WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = 60000000), claimed,
			       &id, NULL, &e));
	DO(wherry_outbox_fail(events, &lease,
			      (wherry_failure[]){WHERRY_FAILURE(.id = id, .error = "late"),
						 WHERRY_FAILURE(.id = 99, .error = "late")},
			      2, &e) == WHERRY_STALE
		   ? WHERRY_OK
		   : WHERRY_INVALID);
	DO(wherry_relay_open("sqlite:older.db", "null:", NULL, &relay, &e));
	wherry_relay_get_stats(relay, &stats.it, sizeof(stats.it));
	printf("%d rows, %lld pending, error %d '%s'\n", n,
	       (long long)status.it.count[WHERRY_PENDING], (int)e.code, e.message);
	for (size_t i = 0; i < sizeof(status.guard); i++)
		if (status.guard[i] != 'x' || stats.guard[i] != 'x')
			return 2;
	wherry_relay_close(relay);
	wherry_outbox_close(events);
	wherry_outbox_close(box);
	wherry_db_close(db);
	wherry_config_free(config);
	free(headers);
	return 0;
}
END
sed -i 's/#include <stdio.h>/&\n#include <stdlib.h>/' older.c
build older-program older "$compiler" -std=c17 older.c
expect "a program compiles with them" 0
run_it ./older-program
expect "and works: nothing is written behind its structs" 0 "out:orders {\"n\":1} {}" \
	'out:orders {"n":2} {"tenant":"Zoë \"Zed\"","trace":"1"}' "out:2 rows, 2 pending, error 0 ''"

# ---- C++ ----

cat >shop.cpp <<'END'
#include <cstdio>
#include <wherry/postgres.h>
#include <wherry/sqlite.h>
#include <wherry/wherry.h>

int main()
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = nullptr;
	wherry_outbox *box = nullptr;
	wherry_message msg;
	wherry_outbox_options options = {};
	bool ok;

	options.size = sizeof(options);
	wherry_message_init(&msg);
	msg.topic = "orders";
	msg.body = "{}";
	msg.body_len = WHERRY_TEXT;
	ok = wherry_db_open("sqlite::memory:", nullptr, &db, &err) == WHERRY_OK &&
	     wherry_outbox_create(db, "outbox", &options, &err) == WHERRY_OK &&
	     wherry_outbox_open(db, "outbox", &box, &err) == WHERRY_OK &&
	     wherry_outbox_enqueue(box, &msg, WHERRY_OWN_TRANSACTION, nullptr, &err) == WHERRY_OK;
	wherry_outbox_filter filter = {};
	filter.size = sizeof(filter);
	ok = ok && wherry_outbox_retry(box, &filter, nullptr, &err) == WHERRY_OK;
	std::printf("%s\n", ok ? "enqueued" : err.message);
	wherry_outbox_close(box);
	wherry_db_close(db);
	return ok ? 0 : 1;
}
END
case $compiler in
*clang*) cxx=clang++ ;;
*) cxx=g++ ;;
esac
for version in 17 20; do
	build "shop$version" "$source_dir/include" "$cxx" -std=c++$version shop.cpp
	expect "C++$version compiles without a warning" 0
	run_it "./shop$version"
	expect "and works" 0 out:enqueued
done

# The program of docs/guide/c.md, as it is.
build guide20 "$source_dir/include" "$cxx" -std=c++20 -x c++ "$source_dir/examples/outbox.c" -x none \
	-Wno-missing-field-initializers
expect "the guide's program compiles as C++20" 0
run_it ./guide20
expect "and delivers its message" 0 'out:"topic":"orders","key":"7"'

# ---- a service ----

"$wherry" create sqlite:service.db >/dev/null
for signal in TERM INT; do
	rm -f service.out
	echo '{"n":1}' | "$wherry" enqueue --lines sqlite:service.db --topic orders >/dev/null
	"$build_dir/examples/service" sqlite:service.db "file:$signal.out" >service.out 2>service.err &
	service=$!
	pids+=("$service")
	until_true 20 grep -q delivered service.out
	check "the service delivers, and reports it from another thread" lines "$signal.out" 1
	kill "-$signal" "$service"
	wait "$service"
	status=$? out=$(cat service.out) err=$(cat service.err)
	expect "SIG$signal ends it" 0 "out:1 delivered" "err:event=leading"
	w status sqlite:service.db --json
	json "and it gave its lease back" 'd["pending"] == 0 and d["relays"] == [] and d["last_relay"]["state"] == "stopped"'
done
"$build_dir/examples/service" sqlite:nothing.db "file:nothing.out" >nothing.out 2>nothing.err &
service=$!
pids+=("$service")
until_true 20 grep -q nothing.db nothing.err
kill -TERM "$service"
wait "$service"
status=$? out='' err=$(cat nothing.err)
expect "without a database it says so and tries again, until it is told to stop" 0 "err:nothing.db"
finish
