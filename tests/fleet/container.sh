#!/usr/bin/env bash
# The image is built, on a base that debootstrap makes, and its daemon runs as a user without rights
# on a system that it cannot write to: with a mounted file, a secret in a file, and its probes.
#
# Writes TAP.

source_dir=$(cd "${WHERRY_SOURCE:-$(dirname "$0")/../..}" && pwd)
# shellcheck source=tests/fleet/roots.bash
. "$source_dir/tests/fleet/roots.bash"

if [ "$(id -u)" -ne 0 ] || ! command -v buildah >/dev/null || ! make_root bookworm; then
	skip "the image" "it needs buildah and debootstrap, and to be root"
	finish
fi

builder=(buildah --log-level error --root "$roots/images" --runroot "$tmp/run")
export BUILDAH_ISOLATION=chroot BUILDAH_FORMAT=docker

b() { # as w(), of the builder
	out=$("${builder[@]}" "$@" 2>"$tmp/.err" </dev/null)
	status=$?
	err=$(tail -n 30 "$tmp/.err")
}

if ! "${builder[@]}" inspect wherry-base >/dev/null 2>&1; then
	base=$("${builder[@]}" from scratch)
	tar -C "$roots/bookworm" --exclude='./dev/*' --exclude='./proc/*' --exclude='./tmp/*' --exclude='./opt/*' \
		--exclude=./etc/ssl --exclude=./etc/pki --exclude=./made \
		--exclude=./var/cache/apt/archives --exclude=./var/lib/apt/lists --exclude=./usr/share/doc \
		--exclude=./usr/share/man --exclude=./usr/share/locale -c . |
		tar -C "$("${builder[@]}" mount "$base")" -x
	"${builder[@]}" commit -q --rm "$base" wherry-base >/dev/null
fi
b build --layers --build-arg BASE=localhost/wherry-base -t wherry-test \
	-f "$source_dir/packaging/container/Containerfile" "$source_dir"
expect "the image is built" 0
[ "$status" = 0 ] || finish
b images --format '# {{.Name}}: {{.Size}}' wherry-test
echo "$out"

b inspect --type image --format '{{.Docker.Config.User}} {{.Docker.Config.Entrypoint}} {{.Docker.Config.Cmd}} {{.Docker.Config.Healthcheck}}' wherry-test
expect "it has a user without rights, a command and a probe" 0 "out:10001:10001 [wherry] [run /etc/wherry/wherry.yaml]" \
	"out:wherry-probe healthz"

# ---- it runs ----

box=$("${builder[@]}" from wherry-test)
box_root=$("${builder[@]}" mount "$box")
mkdir data secrets
printf 'a-token-of-24-characters' >secrets/http-token
printf 'sqlite:/data/shop.db' >secrets/url
cat >wherry.yaml <<'END'
http: {listen: '0.0.0.0:19464', token: '${file:/etc/wherry/secrets/http-token}'}
relays:
  - {name: orders, from: '${file:/etc/wherry/secrets/url}', to: 'file:/data/orders.ndjson'}
END
chown -R 10001:10001 data secrets
chmod 400 secrets/*
"$wherry" create sqlite:data/shop.db 2>/dev/null >&2
chown 10001:10001 data/*
mkdir -p "$box_root/data" "$box_root/etc/wherry/secrets"
touch "$box_root/etc/wherry/wherry.yaml"

# in_box COMMAND...: there, as its user, with what is mounted, and nothing else writable.
in_box() {
	unshare --mount --pid --fork --kill-child --propagation private bash -c '
		tmp=$1 root=$2
		shift 2
		mount --bind "$root" "$root" && mount --bind "$tmp/data" "$root/data" &&
			mount --bind "$tmp/secrets" "$root/etc/wherry/secrets" &&
			mount --bind "$tmp/wherry.yaml" "$root/etc/wherry/wherry.yaml" &&
			mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" &&
			mount -o remount,bind,ro "$root" &&
			exec chroot --userspec=10001:10001 "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin \
				WHERRY_HTTP_PORT=19464 "$@"' bash "$tmp" "$box_root" "$@"
}

in_the_box() { # as w()
	out=$(in_box "$@" 2>"$tmp/.err" </dev/null)
	status=$?
	err=$(cat "$tmp/.err")
}

in_the_box wherry check /etc/wherry/wherry.yaml
expect "it finds its file" 0 "out:1 relay, fine"
in_the_box wherry-probe healthz
[ "$status" -ne 0 ]
result $? "the probe fails while there is no daemon"
in_box wherry run /etc/wherry/wherry.yaml 2>log &
daemon=$!
check "the daemon is ready" until_true 20 in_box wherry-probe readyz
in_the_box wherry-probe readyz
expect "the probe says why" 0 "out:orders ready: leading"
in_the_box sh -c "echo '{\"n\":1}' | wherry enqueue --lines orders --topic t"
expect "a message is enqueued by the relay's name" 0
check "and delivered" until_true 20 lines data/orders.ndjson 1
in_the_box sh -c 'id -u; touch /etc/x'
expect "it has no rights and cannot write" 1 "out:10001" "err:Read-only file system"
in_the_box sh -c 'curl --version; ls /usr/share/zoneinfo/Europe/Berlin /etc/ssl/certs/ca-certificates.crt'
expect "it has certificates and time zones" 0 "out:Berlin"
while child=$(pgrep -P "$daemon"); do
	daemon=$child # unshare, its child, and so on
done
kill -TERM "$daemon"
check "and it ends when asked" until_true 20 grep -q event=ended log
"${builder[@]}" rm "$box" >/dev/null 2>&1
finish
