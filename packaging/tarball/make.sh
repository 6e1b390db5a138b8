#!/bin/bash
#
# Makes a tarball of the program and the libraries that it needs, which runs on every Linux
# with glibc 2.31 or later: it is built on Debian 11, which has that.  Newer versions of the
# libraries come from the source packages of the present Debian.
#
#     packaging/tarball/make.sh FOLDER
#
# The tarball is written to FOLDER.  FOLDER/root is the system that it was built in; keep it, and
# the next tarball takes two minutes instead of ten.  It needs root and debootstrap.

set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

libraries=(zlib libzstd lz4 jansson libyaml nghttp2 libmicrohttpd sqlite3 openssl librdkafka
	postgresql curl librabbitmq hiredis)
base=bullseye
suites=(trixie trixie-security bookworm bookworm-security) # of the libraries
packages=(build-essential dpkg-dev pkg-config perl bison flex python3 python3-pip autoconf
	automake libtool patchelf tcl xz-utils ca-certificates)
keys=/usr/share/keyrings/debian-archive-keyring.gpg
folder=$(readlink -f "$1")
root=$folder/root
log=$folder/make.log

say() {
	printf '%s\n' "$*" >&2
}

# As on a machine that knows nothing of this one.
inside() { # COMMAND...
	env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive \
		unshare --mount --propagation private bash -c '
			mount --bind /proc "$1/proc"
			exec chroot "$@"' bash "$root" "$@"
}

make_root() {
	local mirror suite

	say "Making Debian's $base in $root"
	rm -rf "$root"
	debootstrap --variant=minbase "$base" "$root"
	mirror=$(awk '$1 == "deb" { print $2; exit }' "$root/etc/apt/sources.list")
	{
		echo "deb $mirror $base main"
		echo "deb $mirror-security $base-security main"
		for suite in "${suites[@]}"; do
			case $suite in
			*-security) echo "deb-src [signed-by=$keys] $mirror-security $suite main" ;;
			*) echo "deb-src [signed-by=$keys] $mirror $suite main" ;;
			esac
		done
	} >"$root/etc/apt/sources.list"
	cp "$keys" "$root$keys"
	inside apt-get update -q
	inside apt-get install -q -y --no-install-recommends "${packages[@]}"
	# Debian 11 has an older CMake.
	mkdir -p "$root/wheels" "$root/src"
	python3 -m pip download -q --no-deps --only-binary :all: -d "$root/wheels" cmake==3.25.2 ninja
	inside pip3 install -q --no-index --find-links /wheels cmake ninja
	touch "$root/made"
}

# The newest version of a source package that the archive still has.
fetch() { # NAME
	local name package version packages=("$1")

	name=$1
	! compgen -G "$root/src/$name[-_]*.dsc" >/dev/null || return 0
	[ "$name" != postgresql ] || packages=(postgresql-17 postgresql-15)
	for package in "${packages[@]}"; do
		for version in $(inside apt-cache showsrc "$package" | sed -n 's/^Version: //p' | sort -urV); do
			! inside bash -c "cd /src && apt-get source -q --download-only $package=$version" ||
				return 0
		done
	done
	say "There is no source package $name."
	return 1
}

mkdir -p "$folder"
: >"$log"
{
	[ -e "$root/made" ] || make_root
	for name in "${libraries[@]}"; do
		fetch "$name"
	done
} >>"$log" 2>&1 </dev/null || {
	tail -n 20 "$log" >&2
	exit 1
}
rm -rf "$root/wherry"
mkdir "$root/wherry"
tar -c --exclude=./build --exclude=./.git . | tar -x -C "$root/wherry"
name=$(inside bash /wherry/packaging/tarball/build.sh "${libraries[@]}")
cp "$root/stage/$name" "$folder/$name"
say "$folder/$name"
