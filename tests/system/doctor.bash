# What the scripts that try `wherry doctor` share.
# shellcheck shell=bash

# shellcheck source=tests/system/cli.bash
. "$(dirname "${BASH_SOURCE[0]}")/cli.bash"
# shellcheck source=tests/postgres/server.bash
. "$source_dir/tests/postgres/server.bash"

ln -s "$wherry" "$tmp/wherry"
PATH=$tmp:$PATH
url=''
shell=() # runs SQL on the database of $url

# doctor [OPTION...]: out has a line for each finding, and one for its advice.
doctor() {
	w doctor "$url" --verbose "$@"
}

# said CHECK [LEVEL]: what is said of it, and what is advised then, from out.
said() {
	local line check='' level=''

	while IFS= read -r line; do
		if [[ $line != '      '* ]]; then
			level=${line:0:5} check=${line:6:20}
			level=${level%% *} check=${check%% *}
		fi
		[ "$check" != "$1" ] || [ "$level" != "${2-$level}" ] || echo "${line:26}"
	done <<<"$out"
}

# is_found CHECK LEVEL [TEXT]: a finding of it has that to say, and then some advice.
is_found() {
	local text
	text=$(said "$1" "$2")
	[[ $text == *"${3-}"*$'\n'* ]] || [ "$1" = writing ] && [[ $text == *"${3-}"* ]]
}

is_well() {
	[ -n "$(said "$1" ok)" ] && [ -z "$(said "$1" warn)$(said "$1" bad)" ]
}

# 1 if any finding is bad.
expected() {
	[[ $'\n'$out != *$'\nbad '* ]]
	echo $?
}

# finds SENTENCE CHECK LEVEL TEXT [OPTION...]
finds() {
	local sentence=$1 check=$2 level=$3 text=$4
	shift 4
	doctor "$@"
	is_found "$check" "$level" "$text" && [ "$status" = "$(expected)" ]
	result $? "$sentence" "no finding: $check $level $text"
}

# mended CHECK [OPTION...]: nothing is wrong with it any more, soon.
mended() {
	local check=$1 deadline=$((SECONDS + 20))
	shift
	doctor "$@"
	until is_well "$check" || [ $SECONDS -ge $deadline ]; do
		command sleep 0.1
		doctor "$@"
	done
	is_well "$check"
	result $? "what it advised cures: $check" "it is still there"
}

# follow CHECK: do what stands between the first backquotes of its advice.
follow() {
	local todo
	todo=$(said "$1" bad)
	todo=${todo:-$(said "$1" warn)}
	todo=${todo#*\`} todo=${todo%%\`*}
	if [[ $todo == wherry\ * ]]; then
		bash -c "$todo" >follow.log 2>&1
	else
		"${shell[@]}" <<<"$todo" >follow.log 2>&1
	fi || sed 's/^/# /' follow.log
}

# of_message SENTENCE MESSAGE LEVEL TEXT [OPTION...]: what is said of one message.
of_message() {
	local sentence=$1 message=$2 level=$3 text=$4
	shift 4
	doctor "$message" "$@"
	[[ $(said message "$level") == *"$text"* ]] && [ "$status" = "$(expected)" ]
	result $? "$sentence" "not said: $level $text"
}

run() { # SQL
	"${shell[@]}" <<<"$1"
}
