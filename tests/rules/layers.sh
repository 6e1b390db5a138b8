#!/bin/bash
#
# A folder includes only itself and what is below it, as ARCHITECTURE.md draws it.

. "$(dirname "$0")/tap.bash"

declare -A below=(
	[base]=''
	[schedule]='base'
	[config]='base'
	[db]='base config'
	[store]='base config db'
	[log]='base config db store'
	[outbox]='base config db store log'
	[inbox]='base config db store'
	[queue]='base config db store'
	[delayed]='base schedule config db store'
	[cron]='base schedule config db store delayed'
	[publish]='base config'
	[transfer]='base config db store inbox queue publish'
	[relay]='base config db store log outbox inbox queue delayed publish transfer'
	[extension]='base db store outbox inbox queue delayed'
	[daemon]='base schedule config db store outbox inbox queue delayed cron publish relay'
	[cli]='base schedule config db store outbox inbox queue delayed cron publish relay daemon'
)

# The layer that each public header belongs to.
declare -A owner=(
	[error]=base [export]=base [log]=base [message]=base [version]=base
	[schedule]=schedule [cron]=cron [config]=config [db]=db [retry]=db [sqlite]=db [postgres]=db [odbc]=db
	[lease]=store [outbox]=outbox [subscription]=outbox [inbox]=inbox [queue]=queue [delayed]=delayed [publisher]=publish
	[handlers]=publish
	[relay]=relay [wherry]=cli
)

# "FILE LINE QUOTE NAME" for each include.
includes() { # FILE...
	without_comments numbered "$@" |
		sed -nE 's/^([^:]*):([0-9]+):[[:space:]]*#[[:space:]]*include[[:space:]]*([<"])([^>"]*)[>"].*/\1 \2 \3 \4/p'
}

check_sources() { # ROOT FILE...
	local root=$1 file layer line quote name target

	shift
	for file; do
		layer=${file#"$root"/src/}
		layer=${layer%%/*}
		[ -n "${below[$layer]+x}" ] || echo "$file: '$layer' is no layer of ARCHITECTURE.md"
	done
	while read -r file line quote name; do
		layer=${file#"$root"/src/}
		layer=${layer%%/*}
		if [ "$quote" = '"' ]; then
			target=${name%%/*}
			[[ $name == */* ]] || target=
		elif [[ $name == wherry/* ]]; then
			target=${name#wherry/}
			target=${owner[${target%.h}]-}
		elif [[ $name == sqlite3.h && $layer != db && $layer != cli ]]; then
			echo "$file:$line: only db/ knows <sqlite3.h>; go through db/driver.h"
			continue
		elif [[ $name == libpq-fe.h && $layer != db ]]; then
			echo "$file:$line: only db/ knows <libpq-fe.h>; go through db/driver.h"
			continue
		else
			continue
		fi
		[[ " $layer ${below[$layer]-} " == *" ${target:-?} "* ]] ||
			echo "$file:$line: $layer/ may not include $name; it may: $layer ${below[$layer]-}"
	done < <(includes "$@")
}

check_headers() { # FILE...
	local file line quote name

	while read -r file line quote name; do
		case "$quote$name" in
		'<wherry/'* | '<stddef.h' | '<stdint.h' | '<stdbool.h') ;;
		*) echo "$file:$line: a public header may not include $name" ;;
		esac
	done < <(includes "$@")
}

check() { # ROOT
	local files

	mapfile -t files < <(find "$1/src" -name '*.[ch]' 2>/dev/null)
	[ ${#files[@]} -eq 0 ] || check_sources "$1" "${files[@]}"
	mapfile -t files < <(find "$1/include/wherry" -name '*.h' 2>/dev/null)
	[ ${#files[@]} -eq 0 ] || check_headers "${files[@]}"
}

plant() { # FILE LINE
	rm -rf "$scratch/src" "$scratch/include"
	mkdir -p "$scratch/$(dirname "$1")"
	printf '%s\n' "$2" >"$scratch/$1"
}

# The store serves every model: it names none of them.
names_model() { # ROOT
	local file

	for file in "$1"/src/store/*.[ch]; do
		[ -e "$file" ] || continue
		grep -nHiE 'outbox|inbox|\bqueues?\b|delayed' "$file"
	done
	true
}

silent 'each folder includes only itself and what is below' check "$source"
silent 'the store names no model' names_model "$source"

plant src/base/a.c '#include "db/driver.h"'
says 'base may not include db' 'base/ may not include db/driver.h' check "$scratch"
plant src/publish/a.c '#include "outbox/outbox.h"'
says 'publish may not see the models' 'may not include outbox' check "$scratch"
plant src/outbox/a.c '#include <wherry/publisher.h>'
says 'the models may not see publish' 'may not include wherry/publisher.h' check "$scratch"
plant src/relay/a.c '#include "cli/cli.h"'
says 'relay may not include cli' 'may not include cli' check "$scratch"
plant src/relay/a.c '#include "relay.h"'
says 'an include names its folder' 'may not include relay.h' check "$scratch"
plant src/publish/kafka/a.c '#include "outbox/outbox.h"'
says 'a folder within a folder is part of it' 'publish/ may not include outbox' check "$scratch"
plant src/outbox/a.c '#include <sqlite3.h>'
says 'only db knows SQLite' 'only db/' check "$scratch"
plant src/store/a.c '#include "outbox/outbox.h"'
says 'the store may not see the models' 'store/ may not include outbox' check "$scratch"
plant src/store/a.c 'wherry_outbox *box;'
says 'a model that the store names is found' 'wherry_outbox' names_model "$scratch"
plant src/misc/a.c ''
says 'a folder must be in the drawing' 'is no layer' check "$scratch"
plant include/wherry/a.h '#include "base/buf.h"'
says 'public headers include only public ones' 'public header' check "$scratch"
plant src/relay/a.c '/* #include "cli/cli.h" */'
silent 'a comment is no include' check "$scratch"
finish
