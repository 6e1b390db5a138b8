#!/bin/bash
#
# Alert rules, the dashboard and the guide name only metrics that the program has, and the alarms
# name only commands that it has.

. "$(dirname "$0")/tap.bash"

# The metrics of the daemon, and of destinations, which name theirs without "wherry_".
known() { # ROOT
	{
		grep -rhoE '"(wherry|process)_[a-z0-9_]+[a-z0-9]' "$1/src/daemon"
		grep -rhoE '"(kafka|nats|redis|webhook)_[a-z0-9_]+' "$1/src/publish" | sed 's/^"/"wherry_/'
	} | sed 's/^"//; p; s/$/_bucket/' | sort -u
}

# A table of the guide may leave out the name that it began with: `wherry_outbox_pending` `_dead`.
used() { # ROOT
	grep -rhoE '\b(wherry|process)_[a-z0-9_]*[a-z0-9]' "$1/packaging/prometheus" "$1/packaging/grafana" |
		sort -u
	grep -hoE '`(wherry|process)_[a-z0-9_]*_(seconds|total|up|bytes|info|dead|pending)`' "$1"/docs/guide/*.md |
		tr -d '`' | sort -u
}

unknown() { # ROOT
	comm -13 <(known "$1") <(used "$1" | sort -u)
}

# Commands between backticks whose first word is no command.
strange() { # ROOT
	local word

	grep -hoE '`wherry [a-z]+' "$1"/packaging/prometheus/*.yaml | sort -u | while read -r _ word; do
		grep -qs "\.name = \"$word\"" "$1"/src/cli/*.c || echo "there is no wherry $word"
	done
}

check() { # ROOT
	unknown "$1"
	strange "$1"
	true
}

silent 'the program has all metrics and commands that are named' check "$source"

mkdir -p "$scratch/src/daemon" "$scratch/src/publish" "$scratch/src/cli" "$scratch/docs/guide" \
	"$scratch/packaging/prometheus" "$scratch/packaging/grafana"
plant() {
	echo '{"wherry_up", "wherry_latency_seconds", "kafka_bytes_total"}' | tee \
		"$scratch/src/daemon/metrics.c" >"$scratch/src/publish/numbers.c"
	echo '.name = "status"' >"$scratch/src/cli/cmd_status.c"
	touch "$scratch/packaging/grafana/wherry.json"
	printf '%s\n' "$1" | tee "$scratch/packaging/prometheus/alerts.yaml" >"$scratch/docs/guide/page.md"
}
plants 5 <<'END'
-|expr: min(wherry_up) == 0 and rate(wherry_latency_seconds_bucket[5m]) > wherry_kafka_bytes_total
wherry_down|expr: wherry_down == 1
wherry_gone_seconds|`wherry_gone_seconds`
-|Look at `wherry status orders`.
there is no wherry look|Look at `wherry look orders`.
END

finish
