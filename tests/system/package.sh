#!/usr/bin/env bash
# Makes the Debian packages of what was built, installs them into a folder, and starts the
# daemon from there.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

if ! command -v dpkg-shlibdeps >/dev/null || [ "$(id -u)" -ne 0 ]; then
	skip "packages are made and installed" "it needs dpkg-dev, and to be root"
	finish
fi

(cd "$build_dir" && cpack -B "$tmp/packages") >cpack.log 2>&1
status=$? out=$(cd packages && ls ./*.deb) err=$(cat cpack.log)
expect "there are three packages" 0 "out:./libwherry0_" "out:./libwherry-dev_" \
	"out:./wherry_"

root=$tmp/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
touch "$root/var/lib/dpkg/status"
dpkg --root="$root" --force-depends --force-script-chrootless --log="$tmp/dpkg.log" \
	-i packages/*.deb >install.log 2>&1
status=$? out=$(dpkg --root="$root" -l | grep '^ii') err=$(cat install.log)
expect "all are installed" 0 "out:libwherry0" "out:libwherry-dev" "out:ii  wherry "
prefix=$root$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build_dir/CMakeCache.txt")
[ -d "$prefix/bin" ] || prefix=$root/usr

wherry=$prefix/bin/wherry
w check "$root/etc/wherry/wherry.yaml"
expect "the configuration that comes along can be used" 0 "out:1 relay, fine"
out=$(cat "$root"/usr/lib/systemd/system/wherry.service) status=$?
expect "the unit runs it, with a user of its own" 0 "out:/wherry run /etc/wherry/wherry.yaml" \
	"out:DynamicUser=yes" "out:Type=notify"
if command -v systemd-analyze >/dev/null; then
	sed -E "s,^Exec(Start|StartPre)=[^ ]*,Exec\1=$wherry," \
		"$root/usr/lib/systemd/system/wherry.service" >wherry.service
	out=$(systemd-analyze verify --man=no "$tmp/wherry.service" 2>&1)
	status=$?
	expect "systemd finds nothing wrong with it" 0 "no:wherry.service:"
fi

w init sqlite:shop.db
printf '{"n":1}\n' | "$wherry" enqueue sqlite:shop.db --topic t >/dev/null
sed -e "s|from: .*|from: sqlite:$tmp/shop.db|" -e "s|to: file:.*|to: file:$tmp/orders|" \
	-e 's|listen: .*|listen: 127.0.0.1:0|' "$root/etc/wherry/wherry.yaml" >edited.yaml
"$wherry" run edited.yaml 2>log &
daemon=$!
pids+=("$daemon")
until_true 20 lines orders 1
check "with a database and a destination in it the daemon delivers" lines orders 1
kill -TERM "$daemon"
wait "$daemon"
status=$? out='' err=$(cat log)
expect "and ends when asked" 0 "err:event=ended"

cat >use.c <<'END'
#include <stdio.h>
#include <wherry/wherry.h>
int main(void) { puts(wherry_version()); return 0; }
END
libs=$(dirname "$(find "$root" -name libwherry.so.0)")
includes=$(dirname "$(find "$root" -path '*/wherry/wherry.h')")/..
sanitize=$(sed -n 's/^CMAKE_C_FLAGS:STRING=.*\(-fsanitize=[a-z,]*\).*/\1/p' \
	"$build_dir/CMakeCache.txt")
# shellcheck disable=SC2086
cc $sanitize -I "$includes" use.c -L "$libs" -Wl,-rpath,"$libs" -lwherry -o use >cc.log 2>&1
out=$(./use 2>cc.err) status=$? err=$(cat cc.log cc.err)
expect "a program is built with headers and library" 0 \
	"is:$("$wherry" version | grep -o '[0-9][0-9.]*' | head -n 1)"

finish
