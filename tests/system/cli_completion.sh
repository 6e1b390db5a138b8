#!/usr/bin/env bash
# Shell completion knows every command, option, setting and state.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

w completion bash
expect "the script for bash is printed" 0 "out:complete -F _wherry wherry"
printf '%s\n' "$out" >wherry.bash
check "and bash takes it" bash -n wherry.bash

# complete WORD...: what bash offers for the last word.
complete_words() {
	bash -c '. ./wherry.bash
		COMP_WORDS=(wherry "$@")
		COMP_CWORD=$#
		_wherry
		printf "%s\n" "${COMPREPLY[@]}"' bash "$@" 2>/dev/null
}
offers() { # WANTED WORD...
	local wanted=$1
	shift
	complete_words "$@" | grep -qxF -- "$wanted"
}
check "a command is completed" is "$(complete_words tabl)" tables
check "options are those of the command" offers --until-empty relay --unt
check "and no others" is "$(complete_words status --unt)" ''
check "options of every command are there" offers --set list --se
check "so are settings" offers relay.lease= relay --set relay.lea
check "and states" is "$(complete_words list --state de)" dead
check "of every kind that a command is for" offers leased list --state le
check "and of no other" is "$(complete_words retry --state le)" ''
check "short options are there" offers -q relay -q
check "and those of what deletes" offers -n discard -n
check "databases begin with their scheme" offers postgres:// status post
check "and help completes commands" is "$(complete_words help disc)" discard
missing=
for command in $("$wherry" help | sed -nE '/^Commands:/,/^$/s/^  ([a-z]+) .*/\1/p'); do
	offers "$command" "$command" || missing+=" $command"
	for option in $("$wherry" help "$command" | sed -nE '/^Options:/,$s/^  (--[a-z-]+).*/\1/p'); do
		offers "$option" "$command" "$option" || missing+=" $command$option"
	done
done
check "nothing that the help lists is missing" is "$missing" ''

w completion zsh
expect "the script for zsh is printed" 0 "out:#compdef wherry" "out:'--until-empty[" "out:'tables:" "out:{-q,--quiet}"
printf '%s\n' "$out" >_wherry
if command -v zsh >/dev/null; then
	check "and zsh takes it" zsh -n _wherry
else
	skip "and zsh takes it" "zsh is not installed"
fi
w completion fish
expect "the script for fish is printed" 0 "out:-a tables -d" "out:-l until-empty" "out:-l quiet -s q"
printf '%s\n' "$out" >wherry.fish
if command -v fish >/dev/null; then
	check "and fish takes it" fish -n wherry.fish
else
	skip "and fish takes it" "fish is not installed"
fi
w completion csh
expect "another shell is refused, with those that there are" 2 "err:bash, zsh or fish"
finish
