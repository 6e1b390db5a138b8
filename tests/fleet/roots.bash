# What tests/fleet shares: systems of other distributions, in build/fleet, which are made once.
# shellcheck shell=bash disable=SC2034

# shellcheck source=tests/system/cli.bash
. "$source_dir/tests/system/postgres.bash"

roots=$source_dir/build/fleet

# make_root DISTRIBUTION: its smallest system in $roots/DISTRIBUTION.  False: it is not to be had.
make_root() {
	local distribution=$1 root=$roots/$1 options=(--variant=minbase) from=()
	local ubuntu=/usr/share/keyrings/ubuntu-archive-keyring.gpg

	[ ! -e "$root/made" ] || return 0
	command -v debootstrap >/dev/null && [ "$(id -u)" -eq 0 ] || return 1
	if [ "$distribution" = jammy ]; then
		[ -e "$ubuntu" ] || return 1
		options+=(--keyring="$ubuntu")
	fi
	rm -rf "$root"
	mkdir -p "$roots"
	debootstrap "${options[@]}" "$distribution" "$root" >"$roots/$distribution.log" 2>&1 </dev/null &&
		touch "$root/made"
}

# inside ROOT COMMAND...: the command there, beside this test's folder and server.
inside() {
	unshare --mount --propagation private bash -c '
		for folder in "$1" "$2" /proc /dev; do
			mkdir -p "$3$folder" && mount --rbind "$folder" "$3$folder" || exit 1
		done
		touch "$3/etc/hosts" && mount --bind /etc/hosts "$3/etc/hosts" || exit 1
		shift 2
		exec env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /usr/sbin/chroot "$@"' bash "$tmp" "$folder" "$@"
}

# in_root ROOT COMMAND...: the same, as w().
in_root() {
	out=$(inside "$@" 2>"$tmp/.err" </dev/null)
	status=$?
	err=$(cat "$tmp/.err")
}
