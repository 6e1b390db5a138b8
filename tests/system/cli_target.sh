#!/usr/bin/env bash
# Which outbox a command works on, and how the commands that Wherry prints name it.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

# The commands between backquotes in the output and the messages, whose last match of PATTERN
# is run as it stands, by a shell.
paste() { # PATTERN
	local line

	line=$(grep -oE '`wherry [^`]*`' <<<"$out"$'\n'"$err" | tr -d '`' | grep -E -- "$1" | tail -1)
	line=${line//ID/${id:-ID}}
	line=${line//TO/null: --until-empty --quiet}
	out=$(PATH=$build_dir:$PATH bash -c "${line:-false nothing matches}" 2>"$tmp/.err" </dev/null)
	status=$?
	err="$line"$'\n'$(cat "$tmp/.err")
}

contains() {
	[[ "$1" == *"$2"* ]]
}

lacks() {
	! contains "$@"
}

# ---- printed commands, on an outbox that needs every option, in a file whose name has quotes ----

db="sqlite:it's \$a shop.db"
here=("$db#billing_outbox")
w status "${here[@]}"
expect "a missing file names the command that makes the outbox" 1 "err:wherry create"
paste create
expect "which can be pasted" 0 "out:billing_outbox"
w create "$db"
w_in $'{"n":1,"k":"a"}\n{"n":2,"k":"a"}' enqueue --lines "${here[@]}" --topic t --id /n --key /k
w status "${here[@]}"
expect "status says how a relay is started" 0 "out:\`wherry help relay\` shows how to start one"
w relay "${here[@]}" null: --until-empty
expect "it is started" 0
w status "${here[@]}" --json
json "and delivered from that outbox" 'd["done"] == 2'
w_in $'{"n":3,"k":"a"}\n{"n":4,"k":"a"}' enqueue --lines "${here[@]}" --topic t --id /n --key /k
w relay "${here[@]}" 'exec:exit 65' --until-empty --on-dead park --set retry.attempts=1
expect "a relay that leaves parked messages names both commands" 4 "err:\`wherry list" \
	"err:\`wherry retry"
id=3 paste retry
expect "retry can be pasted from there" 0 "out:1 message is pending again"
w relay "${here[@]}" 'exec:exit 65' --until-empty --on-dead park --set retry.attempts=1
paste list
expect "and so can list" 0 "out:dead"
w show "${here[@]}" 4
expect "show names the dead message that holds another" 0 "out:message 3 of its key is dead"
paste retry
expect "and its command can be pasted" 0 "out:1 message is pending again"
w relay "${here[@]}" 'exec:exit 65' --until-empty --on-dead park --set retry.attempts=1
w doctor "${here[@]}"
expect "doctor names the outbox too" 1 "out:#billing_outbox"
paste retry
expect "and its commands can be pasted" 0 "out:1 message is pending again"
w pause "${here[@]}"
w show "${here[@]}" 4
paste resume
expect "resume can be pasted" 0 "out:is resumed"
w discard "${here[@]}" 3 4 --yes

# ---- WHERRY_URL ----

w status
expect "without a URL the message says both ways to name one" 2 "err:WHERRY_URL"
export WHERRY_URL=sqlite:env.db
w create
expect "WHERRY_URL stands for the URL" 0 "out:sqlite:env.db"
w_in '{"n":1}' enqueue --lines --topic t
w show 1
expect "operands may follow" 0 "out:id:             1" \
	"out:\`wherry help relay\` shows how to start one"
paste relay
expect "a printed command leaves the URL out and can be pasted" 0
w doctor 1 --older-than 1h
expect "an operand that need not be there is not taken for a database" 1 "out:message 1 "
w relay stdout: --until-empty --quiet
expect "a relay takes its destination alone" 0
w relay sqlite:env.db#jobs --until-empty
expect "but a queue alone may be the source or the destination, so both commands are named" 2 "is:" \
	"err:a queue can be FROM or TO" "err:to deliver its messages, write a destination after it" \
	"err:\`wherry relay sqlite:env.db sqlite:env.db#jobs\`"
w status "${here[0]}" --json
json "a URL on the command line is preferred" 'd["table"] == "billing_outbox"'
w list @nothere
expect "@NAME is a table of that database, and an error names it so" 1 "err:wherry create @nothere" \
	"err:wherry create --kind queue @nothere"
w create --kind queue @tasks
expect "by which it can be created" 0 "out:queue 'tasks' is ready"
w send @tasks '{}'
w status @tasks --json
json "and looked at" 'd["table"] == "tasks" and d["ready"] == 1'
w bench nothere:
expect "bench does not write to it" 2 "no:env.db"
w relay @tasks
expect "a lone @NAME may be the source or the destination as well" 2 "is:" \
	"err:\`wherry relay sqlite:env.db @tasks\`"
w_in '{"n":2}' enqueue --lines --topic t
w create --kind inbox
w relay @outbox @tasks --until-empty --timeout 20s
expect "@NAME can be the destination, too" 0 "err:1 delivered"
w status @tasks --json
json "which has the message" 'd["ready"] == 2'
w send tasks '{}'
expect "a name without its @ is refused, with it" 2 "err:such as @jobs"
w status tasks
expect "and so it is where no operand could be" 2 "err:@tasks names a table"
export WHERRY_URL=sqlite:env.db#tasks
w status
expect "WHERRY_URL may name a table" 0 "out:ready       2"
w tables
expect "which a command for the whole database leaves out" 0 "out:tasks"
w tables sqlite:env.db#tasks
expect "though it refuses one on the command line" 2 "err:without a #"
w status @outbox --json
json "@NAME replaces it" 'd["table"] == "outbox"'
w status 'mssql://127.0.0.1:1/shop?encrypt=no'
if [[ $err == *"Unable to connect"* ]]; then
	w relay 'mssql://127.0.0.1:1/shop?encrypt=no#jobs' stdout:
	expect "a table behind a parameter of SQL Server's URL is the source" 1 "no:one too many" "err:Unable to connect"
else
	skip "a table behind a parameter of SQL Server's URL is the source" "this build has no ODBC driver"
fi

# ---- words of older builds ----

for old in outboxes "queue send" "queue list" "queue peek" "delayed read" "delayed dead" "delayed drop-table" "inbox purge"; do
	w $old sqlite:env.db
	now=$(sed -n 's/.*`wherry \([a-z]*\).*`.*/\1/p' <<<"$err")
	check "'$old' names the command that does it now" "$wherry" help "${now:-nothing}"
done
w send sqlite:env.db --queue jobs '{}'
expect "and an option that named the table says how a URL does" 2 "err:the URL names the table, as in sqlite:shop.db#jobs"

# ---- names of tables that are not there ----

w create --kind queue @mail_jobs
w create --kind inbox @seen
w create --kind delayed @later
w status @mial_jobs
expect "a mistyped name is answered with the nearest" 1 "err:did you mean 'mail_jobs'?"
w relay @mial_jobs null: --until-empty
expect "by a relay as well" 1 "err:did you mean 'mail_jobs'?"
w status @utbox
expect "which can be that of an outbox" 1 "err:did you mean 'outbox'?"
w status @quite_another
expect "without a near one, the database's names are listed" 1 \
	"err:this database has 'inbox', 'later', 'mail_jobs', 'outbox', 'seen', 'tasks'"
for command in receive poll seek "queue cancel" "inbox forget --message m --yes" relay; do
	for model in 'outbox:is an outbox' 'mail_jobs:is a queue' 'seen:is an inbox' later:; do
		name=${model%%:*}
		case $command/$name in
		queue*/mail_jobs | receive/mail_jobs | inbox*/seen | poll/later | seek/outbox | relay/[mo]*) continue ;;
		esac
		operand=@$name to=()
		[ "$command" = relay ] && to=(null: --until-empty)
		case $command in
		"queue cancel") to=(1) ;;
		seek) to=(start) ;;
		esac
		# shellcheck disable=SC2086 # words
		w $command $operand "${to[@]}"
		check "$command on $name says what that is" \
			contains "$err" "'$name' ${model#*:}"
		check "and advises nothing that fails" lacks "$err" "create $operand"
	done
done

# ---- WHERRY_URL is a name of wherry.yaml ----

printf 'relays:\n  - {name: env, from: "sqlite:env.db", to: "null:"}\n' >wherry.yaml
export WHERRY_URL=env
w status @tasks
expect "@NAME is a table of the database of a name as well" 0 "out:ready       2"
unset WHERRY_URL
w tables env
expect "a name stands for its database" 0 "out:tasks"
rm wherry.yaml

# ---- a # in the name of a file ----

w create 'sqlite:odd#file.db'
expect "a # in the name of a file is written %23, and an error says so" 2 "err:write %23 for a #"
check "no other file is made" lacks "$(ls)" odd
w create 'sqlite:odd##jobs'
expect "also before the # of a name" 2 "err:write %23 for a #"
check "and no file either" lacks "$(ls)" odd
w create 'sqlite:odd%23file.db#jobs'
expect "so it can be opened" 0 "out:outbox 'jobs' is ready in sqlite:odd%23file.db:"
check "under its name" contains "$(ls)" 'odd#file.db'
unset WHERRY_URL
w status @jobs
expect "@NAME needs WHERRY_URL" 2 "err:which is not set" "err:sqlite:shop.db#jobs"

# ---- names in wherry.yaml ----

w status quakes
expect "a word that is neither is refused, with what could stand there" 2 \
	"err:sqlite:quakes" "err:wherry.yaml"
cat >wherry.yaml <<'END'
relays:
  - name: quakes
    from: sqlite:named.db#quake_outbox
    to: file:named.ndjson
    retry: {attempts: 7}
  - name: hooks
    from: sqlite:named.db
    to: https://example.org/hook
    webhook: {secret: '${env:NO_SUCH_SECRET}'}
END
w create quakes
expect "create takes the database and the table of a name" 0 "out:quake_outbox" "out:named.db"
w_in '{"n":1}' enqueue --lines quakes --topic t
w status quakes
expect "status works by the name, and so do the commands in it" 0 "out:pending     1" \
	"out:no relay is running"
w relay quakes --until-empty
expect "a relay by its name delivers where the file says" 0 "err:1 delivered"
check "there" lines named.ndjson 1
w status quakes --json
json "from the table that the file says" 'd["done"] == 1 and d["table"] == "quake_outbox"'
w create sqlite:named.db#other
w status sqlite:named.db#other
expect "another table of it is named by the URL" 0 "out:other in sqlite:named.db"
w status nothere
expect "an unknown name is refused, with the file that was read" 2 "err:'nothere'" "err:wherry.yaml"
w create hooks
expect "a secret that this shell does not have keeps no operator away" 0 "out:named.db"
w relay hooks --until-empty
expect "but a relay is refused, and the file's problem is named" 2 "err:NO_SUCH_SECRET"
w config
expect "config refuses a file whose secrets are missing" 1 "err:NO_SUCH_SECRET"
NO_SUCH_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw w config
expect "and prints the values in force for a destination" 0 "out:# attempts: 20" "out:  attempts: 7"
w help settings https:
expect "so does help, for a destination" 0 "out:for this destination 20"
https=$out
w help settings kafka:
expect "with as many messages as Kafka's requests need" 0 "out:for this destination 32000" "out:for this destination 16MB"
differs=$(sed -n 's/^\([a-z_.]*\) .*, for this destination \([^ ]*\).*/\1 \2/p' <<<"$https"$'\n'"$out" |
	while read -r setting value; do
		grep -A1 "^\.Cm $setting\$" "$source_dir/docs/man/wherry.1" | grep -q "^$value[,. ]" ||
			echo "$setting $value"
	done)
check "the manual has the same values" is "$differs" ""
export WHERRY_URL=quakes
w status --json
json "WHERRY_URL may be a name as well" 'd["table"] == "quake_outbox"'
w status quakes --json
json "a name on the command line is preferred to WHERRY_URL" 'd["table"] == "quake_outbox"'
unset WHERRY_URL

# Without a file in this folder, that of /etc is used.
if unshare -rm true 2>/dev/null; then
	mkdir nothing
	elsewhere() { # COMMAND...
		cd nothing && unshare -rm bash -c 'mount -t tmpfs none /etc && mkdir /etc/wherry &&
			printf "relays:\n  - {name: a, from: \"sqlite:a.db\", to: \"null:\"}\n" >/etc/wherry/wherry.yaml &&
			exec "$@"' bash "$wherry" "$@"
	}
	check "check names the file in /etc that it read" is "$(elsewhere check 2>&1)" \
		"/etc/wherry/wherry.yaml: 1 relay, fine"
	check "config reads it, too" grep -q 'sqlite:a.db' <<<"$(elsewhere config 2>&1)"
	(elsewhere run 2>run.log) &
	pids+=($!)
	check "and so does run, which names it in the log" \
		until_true 20 grep -q 'event=reads file=/etc/wherry/wherry.yaml' run.log
	pkill -TERM -P $!
	wait $!
	w check
	expect "that of this folder is preferred" 1 "err:wherry.yaml:" "no:/etc/wherry"
fi

finish
