#!/usr/bin/env bash
# A message that advises a command names the database and the table in it: the command can be pasted,
# and after it the first one works.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

PATH=$build_dir:$PATH

# The first command between backticks in a text that says "run" or "makes".
advised() { # TEXT
	printf '%s\n' "$1" | sed -n 's/.*run `\(wherry [^`]*\)`.*/\1/p; s/^[^`]*`\(wherry [^`]*\)` makes .*/\1/p' | head -n 1
}

# follow SENTENCE STATUS COMMAND...: run it, and what its messages advise, until it has that status.
follow() {
	local sentence=$1 wanted=$2 command
	shift 2
	rm -f ./*.db
	for _ in 1 2 3 4; do
		w "$@"
		command=$(advised "$err")
		[ -n "$command" ] || break
		echo "# $command"
		bash -c "$command" >/dev/null 2>"$tmp/.advised" || {
			err="$command: $(cat "$tmp/.advised")"
			break
		}
	done
	expect "$sentence" "$wanted" 'no:run `'
}

follow "send" 0 send sqlite:shop.db#jobs '{}'
follow "receive, where no queue is" 1 receive 'sqlite:my shop.db#jobs'
follow "offer" 0 offer sqlite:shop.db#delayed/mail x --key k
follow "offer to another table" 0 offer sqlite:shop.db#later/mail x --key k
follow "forget in an inbox" 1 inbox forget sqlite:shop.db --message m --yes
follow "forget in another inbox" 1 inbox forget sqlite:shop.db#seen --message m --yes
follow "list schedules" 0 cron list sqlite:shop.db
follow "list the schedules of another table" 0 cron list sqlite:shop.db#ticks
follow "install ticks" 0 cron install sqlite:shop.db#delayed/mail report '@daily'
follow "install ticks on other tables" 0 cron install sqlite:shop.db#later/mail report '@daily' \
	--cron ticks
follow "relay an outbox" 0 relay sqlite:shop.db stdout: --until-empty
follow "relay a queue" 0 relay sqlite:shop.db#jobs stdout: --until-empty
follow "relay a delayed queue" 0 relay sqlite:shop.db#later/mail stdout: \
	--until-empty
follow "status of a queue" 0 status sqlite:shop.db#jobs
follow "status of a delayed queue" 0 status sqlite:shop.db#later/mail/x
follow "pause a delayed queue" 0 pause sqlite:shop.db#delayed/mail
follow "status of an outbox" 0 status sqlite:shop.db#billing

rm -f ./*.db
WHERRY_URL=sqlite:shop.db w send @jobs '{}'
expect "WHERRY_URL is not repeated" 1 "err:run \`wherry create --kind queue @jobs\`"
"$wherry" create sqlite:shop.db >/dev/null 2>&1
w queue publish sqlite:shop.db orders '{}'
expect "a queue gets an example's name where none was given" 1 \
	"err:run \`wherry create --kind queue sqlite:shop.db#jobs\`"

# ---- a command or a URL for something else ----

mail=sqlite:shop.db#delayed/mail
"$wherry" create --kind delayed sqlite:shop.db >/dev/null
w purge "$mail" --older-than 1h
expect "purge says why it is not for delayed queues" 2 "err:messages that were handled are deleted at once"
w create "$mail"
expect "create takes the kind from the URL of a delayed queue" 0 "out:the table 'delayed' of delayed queues is ready"
w enqueue --lines "$mail" --topic t
expect "and enqueue" 2 "err:use \`wherry offer $mail\`"
w receive "$mail"
expect "and receive" 2 "err:use \`wherry poll $mail\`"
w drop "$mail" --yes
expect "a delayed queue is not dropped alone" 2 "err:use \`wherry discard $mail --all\`"

w status sqlite:shop.db#
expect "a URL that names nothing behind its # is refused" 2 "err:'#' names no table: write #NAME"
w status sqlite:shop.db#delayed/mail/bytes/more
expect "and one that names too much" 2 "err:write #NAME, or #TABLE/QUEUE for a delayed queue"
w tables sqlite:shop.db#jobs
expect "a command for a database refuses a table" 2 "err:tables needs URL, such as sqlite:shop.db, without a #"
"$wherry" create sqlite:other.db >/dev/null 2>&1
w create --kind queue sqlite:other.db#jobs
w status sqlite:other.db#jbos
expect "a queue whose name is mistyped is named" 1 "err:did you mean 'jobs'?"
w status sqlite:other.db#job
expect "also by its URL" 1 "err:did you mean 'jobs'?"
w status sqlite:other.db#invoices
expect "one that is not near is not" 1 "err:(this database has 'jobs', 'outbox')" "no:did you mean"
w create --kind delayed sqlite:other.db#delayed
w create --kind inbox sqlite:other.db#taken
w poll sqlite:other.db#delayd/mail
expect "a table of delayed queues is named too" 1 "err:did you mean 'delayed'?"
w inbox forget sqlite:other.db#token --message m-1 --yes
expect "and an inbox" 1 "err:did you mean 'taken'?" no:jobs
w relay sqlite:other.db#delayd/mail null:
expect "also for a relay" 1 "err:did you mean 'delayed'?"
w receive sqlite:other.db#outbx
expect "a command for queues names no outbox" 1 "no:did you mean"
for command in 'create --kind queue' 'create --kind delayed' 'create'; do
	read -ra words <<<"$command"
	name=
	[ "$command" != 'create --kind queue' ] || name='#others'
	w "${words[@]}" "sqlite:other.db$name" --layout nowhere
	expect "$command names no layout that this database does not have" 2 "err:write " \
		no:nservicebus no:debezium no:funfix-old
done
for kind in outbox queue delayed inbox cron; do
	w create --kind "$kind" "sqlite:kinds.db#one_$kind" --json
	w create "sqlite:kinds.db#one_$kind" --json
	expect "create finds the kind of a table that is there: $kind" 0 \
		"out:{\"url\":\"sqlite:kinds.db\",\"table\":\"one_$kind\",\"kind\":\"$kind\""
done
for words in 'queue --unique-ids' 'delayed --partitions' 'inbox --unique-ids' 'cron --payload json' 'inbox --layout native' \
	'delayed --payload json' 'table'; do
	read -ra options <<<"$words"
	w create --kind "${options[@]}" sqlite:refused.db#name
	expect "create refuses --kind $words" 2
done
check "and makes no database" test ! -e refused.db
for old in 'init' 'queue create' 'delayed create' 'inbox create' 'cron create' 'delayed' 'delayed offer'; do
	read -ra words <<<"$old"
	w "${words[@]}" sqlite:refused.db#name
	expect "an old word names the new one: $old" 2 "err:there is no '$old': \`wherry "
done

# A body is given in the same ways to every command that takes one.
w create --kind delayed sqlite:other.db
echo -n from a file >body.txt
for form in 'sqlite:other.db enqueue --topic bodies' 'sqlite:other.db#jobs send' 'sqlite:other.db#delayed/mail offer --key k'; do
	read -r there command options <<<"$form"
	read -ra options <<<"$options"
	w "$command" "$there" 'an operand' "${options[@]}"
	expect "$command takes the body as an operand" 0
	check "unchanged" grep -q '"body":"an operand"' <("$wherry" list "$there" --bodies --json)
	w_in 'piped' "$command" "$there" - "${options[@]}"
	expect "$command reads - from standard input" 0
	check "unchanged" grep -q '"body":"piped' <("$wherry" list "$there" --bodies --json)
	w_in 'without a word' "$command" "$there" "${options[@]}"
	expect "$command reads standard input without an operand" 0
	check "unchanged" grep -q '"body":"without a word' <("$wherry" list "$there" --bodies --json)
	w "$command" "$there" --from body.txt "${options[@]}"
	expect "$command reads a file" 0
	check "unchanged" grep -q '"body":"from a file"' <("$wherry" list "$there" --bodies --json)
	w "$command" "$there" one --from body.txt "${options[@]}"
	expect "$command takes one body" 2 "err:only one of them"
	w "$command" "$there" --body one "${options[@]}"
	expect "$command names the form for --body" 2 "err:the body follows the URL, as in \`wherry $command sqlite:shop.db"
done
w_in $'{"n":1}\n{"n":2}' enqueue sqlite:other.db --topic bodies
expect "several lines of JSON are not one message" 2 "err:--lines makes a message of each line"
w enqueue sqlite:other.db '{"n":1}' --topic bodies --lines
expect "an operand is not lines" 2 "err:only one of them"
w enqueue sqlite:other.db '{"n":1}' --topic bodies --batch 2
expect "only lines have batches" 2 "err:--batch is for --lines"
w_in $'{"n":1,\n"m":2}' enqueue sqlite:other.db --topic bodies --key /n
expect "one JSON value of several lines is one message" 0 "is:1 enqueued, 0 duplicates"

w queue publish sqlite:other.db orders '{}'
expect "a message that no queue gets is no secret" 0 "is:published to 0 queues" \
	"err:no queue has subscribed to 'orders': \`wherry queue subscribe sqlite:other.db#NAME orders\`"
w ack sqlite:other.db#jobs 4 0198-token
expect "token and id in the wrong order" 2 "err:write the token first, then the ids"
w create --kind cron sqlite:other.db
w cron uninstall "sqlite:shop.db#delayed/mail" report '@daily' --yes
w create --kind cron sqlite:shop.db
w cron uninstall "sqlite:shop.db#delayed/mail" report '@daily' --yes
expect "a schedule that was never installed is not found" 1 "is:" "no:operator" \
	"err:nothing is uninstalled: the queue 'mail' has no schedule '@daily' under the prefix 'report'; write all" \
	"err:try: wherry cron list sqlite:shop.db"

# ---- every command in what the commands print ----

# pasted SENTENCE WANTED COMMAND...: run each command that it prints, which is WANTED commands at least.
pasted() {
	local sentence=$1 wanted=$2 number=0 command
	shift 2
	w "$@"
	while IFS= read -r command; do
		number=$((number + 1))
		echo "# $command"
		bash -c "$command" >/dev/null 2>"$tmp/.advised" </dev/null || {
			err="$command: $(cat "$tmp/.advised")"
			number=-1000
		}
	done < <(printf '%s\n%s\n' "$out" "$err" | grep -oE '`wherry [^`]*`' | tr -d '`' | sort -u)
	[ "$number" -ge "$wanted" ]
	result $? "$sentence" "$number commands, not $wanted, or one failed"
}

# Messages that wait, that are dead, and that nobody relays.
troubled() {
	rm -f ./*.db
	"$wherry" create sqlite:shop.db >/dev/null 2>&1
	"$wherry" create --kind queue sqlite:shop.db#jobs >/dev/null
	"$wherry" create --kind delayed sqlite:shop.db >/dev/null
	"$wherry" enqueue --lines sqlite:shop.db --topic t <<<'{}' >/dev/null 2>&1
	"$wherry" enqueue --lines sqlite:shop.db --topic t <<<'{}' >/dev/null 2>&1
	"$wherry" send sqlite:shop.db#jobs '{}' >/dev/null
	"$wherry" offer sqlite:shop.db#delayed/mail x --key k >/dev/null
	sql shop.db "INSERT INTO outbox_exception(subscription, id, state, attempts, last_error) VALUES ('relay', 1, 4, 3, 'no')"
}
jobs=sqlite:shop.db#jobs
troubled
pasted "status of an outbox without a relay, with a dead message" 3 status sqlite:shop.db
troubled
pasted "doctor of it" 1 doctor sqlite:shop.db
pasted "show a dead message" 1 show sqlite:shop.db 1
pasted "show one that waits" 1 show sqlite:shop.db 2
pasted "why a message waits in a queue" 1 show "$jobs" 1
"$wherry" pause sqlite:shop.db >/dev/null 2>&1
pasted "status of a paused outbox" 1 status sqlite:shop.db
"$wherry" pause "$jobs" >/dev/null 2>&1
pasted "status of a paused queue" 1 status "$jobs"
"$wherry" pause "$mail" >/dev/null 2>&1
pasted "doctor of a paused delayed queue" 1 doctor "$mail"
pasted "a queue is ready" 1 create --kind queue sqlite:shop.db#more
pasted "a message is leased" 1 receive sqlite:shop.db#jobs --lease 1h
pasted "a delayed message is leased" 1 poll sqlite:shop.db#delayed/mail --lease 1h
"$wherry" enqueue --lines sqlite:shop.db --topic t <<<'{}' >/dev/null 2>&1
pasted "there are more" 1 list sqlite:shop.db --limit 1
pasted "messages died" 1 relay sqlite:shop.db exec:false --until-empty --set retry.attempts=1
"$wherry" create sqlite:shop.db#none >/dev/null 2>&1
rm -f ./*.db
sql nothing.db "CREATE TABLE t (x)"
pasted "there are no tables" 1 tables sqlite:nothing.db
"$wherry" create --kind queue sqlite:other.db#jobs >/dev/null 2>&1

# A terminal on standard input: Ctrl-D ends the body.
out=$(printf 'hello\n\004' | timeout 60 python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' \
	"$wherry" send sqlite:other.db#jobs 2>&1)
status=$?
expect "on a terminal, send says what it waits for" 0 "out:reading the body from standard input" \
	"out:message 1 is in queue 'jobs'"

# ---- a queue as destination: its database, and not the relay's ----

rm -f ./*.db
"$wherry" create sqlite:shop.db >/dev/null 2>&1
w_in '{}' enqueue --lines sqlite:shop.db --topic orders
for _ in 1 2 3; do
	w relay sqlite:shop.db sqlite:billing.db#invoices --until-empty --timeout 1s
	command=$(advised "$err")
	[ "$status" != 0 ] && [ -n "$command" ] || break
	echo "# $command"
	bash -c "$command" >/dev/null 2>&1
done
expect "a destination names the commands that make its queue and its inbox" 0

# ---- the daemon ----

rm -f ./*.db
cat >wherry.yaml <<-END
	relays:
	  - {name: a, from: sqlite:shop.db#jobs, to: 'file:a'}
	  - {name: b, from: sqlite:shop.db#later/mail, to: 'file:b'}
	  - {name: c, from: 'sqlite:shop.db#billing', to: 'file:c'}
	  - {name: d, from: 'postgres://nobody:secret@localhost:1/shop', to: 'file:c'}
	cron:
	  - {name: e, database: 'sqlite:shop.db', at: '@daily', table: ticks, queue: {name: more}}
	  - {name: f, database: 'sqlite:shop.db', at: '@daily', table: ticks, outbox: {topic: t}}
END
"$wherry" run wherry.yaml 2>daemon.log &
daemon=$!
pids+=("$daemon")

# Run what it advises, until an entry does not fail any more.
heeded() { # ENTRY
	local command
	command=$(advised "$(grep "event=failed" daemon.log | grep -E "(relay|cron)=$1 " | tail -n 1)")
	[ -z "$command" ] || bash -c "$command" >/dev/null 2>&1
	grep -qE "(relay=$1 event=leading|event=ready (relay|cron)=$1)" daemon.log ||
		{ [ "$1" \> d ] && "$wherry" cron list sqlite:shop.db#ticks 2>/dev/null |
			grep -q "^$1  *@daily "; }
}
for entry in a b c e f; do
	check "the daemon's advice for $entry helps" until_true 60 heeded $entry # it tries ever more rarely
	out=$(cat daemon.log)
done
out=$(grep "event=start" daemon.log)
expect "the log names the queues that are relayed" 0 "out:from=sqlite:shop.db table=jobs" \
	"out:from=sqlite:shop.db table=later/mail" "out:from=sqlite:shop.db table=billing"
check "no password is in the log" bash -c "! grep -q secret daemon.log"
kill -INT "$daemon"
wait "$daemon"
finish
