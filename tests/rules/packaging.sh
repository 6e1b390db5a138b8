#!/bin/bash
#
# What is packaged for fleets agrees with itself and with the program: the version, the user, the port,
# the files that are copied, and the file of the ConfigMap.

. "$(dirname "$0")/tap.bash"

containerfile=packaging/container/Containerfile
manifest=packaging/kubernetes/wherry.yaml

other_versions() { # ROOT
	local version

	version=$(sed -n 's/.*define WHERRY_VERSION *"\(.*\)"/\1/p' "$1/include/wherry/version.h")
	grep -noE 'wherry(:|-)[0-9]+\.[0-9.]*[0-9]' "$1/$containerfile" "$1/$manifest" \
		"$1/docs/guide/deploying.md" | grep -vE "wherry[:-]$version$"
}

other_users() { # ROOT
	local user port

	user=$(sed -n 's/^USER \([0-9]*\):.*/\1/p' "$1/$containerfile")
	port=$(sed -n 's/^EXPOSE //p' "$1/$containerfile")
	[ "${user:-0}" -ge 1000 ] || echo "the image's user is '$user'"
	grep -nE '(runAsUser|runAsGroup|fsGroup): ' "$1/$manifest" | grep -v ": $user$"
	grep -nE '(containerPort|listen|port): ' "$1/$manifest" | grep -vE "\b$port\b"
}

missing() { # ROOT
	sed -n 's/^COPY \(--chmod=[0-9]* \)\?\([a-z][^ ]*\) .*/\2/p' "$1/$containerfile" | while read -r file; do
		[ -e "$1/$file" ] || echo "$file is copied, and is not there"
	done
	sh -n "$1/packaging/container/probe.sh"
	bash -n "$1/packaging/tarball/make.sh" && bash -n "$1/packaging/tarball/build.sh"
}

check() { # ROOT
	other_versions "$1"
	other_users "$1"
	missing "$1"
	true
}

silent 'packages, manifests and the guide agree' check "$source"

# The program takes the file of the ConfigMap, with the secrets that its head comment makes.
config_map() {
	mkdir "$scratch/secrets"
	echo a-token-of-24-characters | tee "$scratch/secrets/http-token" >"$scratch/secrets/database-password"
	sed -n '/^  wherry.yaml: |/,/^---/p' "$source/$manifest" | sed '1d; $d; s/^    //' |
		sed "s|/etc/wherry/secrets|$scratch/secrets|" >"$scratch/wherry.yaml"
	"$build/wherry" check "$scratch/wherry.yaml"
}
says 'the program takes the file of the ConfigMap' '1 relay, fine' config_map

plant() {
	rm -rf "$scratch/copy"
	mkdir -p "$scratch/copy"
	(cd "$source" && cp -r --parents packaging include/wherry/version.h docs/guide/deploying.md "$scratch/copy")
	sed -i "$1" "$scratch/copy/$containerfile" "$scratch/copy/$manifest"
}
while IFS='|' read -r wanted change; do
	plant "$change"
	says "noticed: $change" "$wanted" check "$scratch/copy"
done <<'END'
wherry:0.0.9|s/wherry:[0-9.]*/wherry:0.0.9/
the image's user is '0'|s/^USER .*/USER 0:0/
fsGroup: 999|s/fsGroup: .*/fsGroup: 999/
containerPort: 80|s/containerPort: 9464/containerPort: 80/
gone.sh is copied|s/probe.sh/gone.sh/
END

finish
