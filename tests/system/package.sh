#!/usr/bin/env bash
# Makes the Debian packages of what was built and installs them: on this machine, with all that
# is written to it kept in memory and forgotten.  There the daemon is started as the unit says,
# and the packages are upgraded, removed and purged.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

if ! command -v dpkg-shlibdeps >/dev/null || [ "$(id -u)" -ne 0 ]; then
	skip "packages are made and installed" "it needs dpkg-dev, and to be root"
	finish
fi

(cd "$build_dir" && cpack -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip -B "$tmp/packages") >cpack.log 2>&1
status=$? out=$(cd packages && ls ./*.deb) err=$(cat cpack.log)
expect "there are three packages" 0 "out:./libwherry0_" "out:./libwherry-dev_" \
	"out:./wherry_"

out=$(dpkg-deb -c packages/wherry_*.deb) status=$? err=
expect "the program's has the completion of both shells" 0 \
	"out:/usr/share/bash-completion/completions/wherry" "out:/usr/share/zsh/site-functions/_wherry"

# ---- a machine to install them on ----

root=$tmp/over/root
mkdir over
# shellcheck disable=SC2016
unshare --mount --propagation private bash -c '
	over=$1/over root=$2
	mount -t tmpfs tmpfs "$over" && mkdir "$over/upper" "$over/work" "$root" &&
	mount -t overlay overlay -o "lowerdir=/,upperdir=$over/upper,workdir=$over/work" "$root" &&
	mount --bind "$1" "$root$1" && mount --bind /proc "$root/proc" &&
	mount --rbind /dev "$root/dev" && mount -t tmpfs tmpfs "$root/run" &&
	[ -e "$root/var/lib/dpkg/status" ] || exit 1
	touch "$1/mounted"
	exec sleep infinity' bash "$tmp" "$root" 2>mount.log &
machine=$!
pids+=("$machine")
until [ -e mounted ] || ended "$machine"; do
	command sleep 0.05
done
if [ ! -e mounted ]; then
	skip "packages are installed" "no file system can be mounted here: $(tail -n 1 mount.log)"
	finish
fi
inside=(nsenter --mount="/proc/$machine/ns/mnt" chroot "$root")

in_machine() { # COMMAND...; as w, of any command there
	out=$("${inside[@]}" "$@" 2>"$tmp/.err" </dev/null)
	status=$?
	err=$(cat "$tmp/.err")
}

installed() {
	"${inside[@]}" wherry "$@"
}

# ---- installing ----

in_machine sh -c "dpkg -i $tmp/packages/*.deb && dpkg --audit && dpkg -V wherry libwherry0"
expect "they are installed, with all they need" 0 "no:dependency problems" "no:??"
in_machine dpkg -l wherry libwherry0 libwherry-dev
expect "as what they are" 0 "out:ii  wherry " "out:ii  libwherry0" "out:ii  libwherry-dev"
in_machine sh -c 'ldconfig -p | grep libwherry.so.0 && dpkg -L wherry'
expect "the library is found, and the manual page is there" 0 "out:libwherry.so.0" \
	"out:/usr/share/man/man1/wherry.1.gz" "out:/usr/share/doc/wherry/changelog.gz"
in_machine cat /var/lib/dpkg/info/libwherry0:amd64.shlibs /var/lib/dpkg/info/libwherry0.shlibs
[[ $out == *"libwherry 0 libwherry0"* ]]
result $? "who links the library depends on its package" "$out"
wherry=installed
w check /etc/wherry/wherry.yaml
expect "the configuration that comes along can be used" 0 "out:1 relay, fine"

cat >use.c <<'END'
#include <stdio.h>
#include <wherry/wherry.h>
int main(void) { puts(wherry_version()); return 0; }
END
sanitize=$(sed -n 's/^CMAKE_C_FLAGS:STRING=.*\(-fsanitize=[a-z,]*\).*/\1/p' \
	"$build_dir/CMakeCache.txt")
in_machine sh -c "cd $tmp && cc $sanitize use.c \$(pkg-config --cflags --libs wherry) -o use && ./use"
expect "a program is built with headers and library" 0 \
	"is:$(installed version | grep -o '[0-9][0-9.]*' | head -n 1)"

# ---- the unit ----

unit=/usr/lib/systemd/system/wherry.service
in_machine cat "$unit"
expect "the unit has a user of its own, and says when it is ready" 0 "out:DynamicUser=yes" \
	"out:Type=notify"
of_unit() { # Exec...; the command
	sed -n "s/^$1=//p" "$tmp/unit"
}
printf '%s\n' "$out" >unit
if command -v systemd-analyze >/dev/null; then
	in_machine systemd-analyze verify --man=no "$unit"
	expect "systemd finds nothing wrong with it" 0 "no:wherry.service:"
	in_machine systemd-analyze security --offline=true --threshold=20 "$unit"
	expect "nor much that it might do" 0 "out:OK"
fi

in_machine stat -c '%a %U %G' /etc/wherry/wherry.yaml
expect "root and a group of the unit's alone can read the configuration" 0 \
	"is:640 root wherry-config"
in_machine stat -c '%a %U %G' /etc/wherry/secrets
expect "and root alone the secrets" 0 "is:700 root root"
in_machine grep -E '^(LoadCredential|SupplementaryGroups)=' "$unit"
expect "which the unit hands over" 0 "out:LoadCredential=secret:/etc/wherry/secrets" \
	"out:SupplementaryGroups=wherry-config"

# Without systemd here: as some user, in the unit's folder, with its group and secrets.
in_machine getent group wherry-config
group=$(cut -d: -f3 <<<"$out")
"${inside[@]}" install -d -o nobody -m 500 /run/wherry-credentials
printf 'a-token-of-24-characters\n' |
	"${inside[@]}" install -o nobody -m 400 /dev/stdin /run/wherry-credentials/secret_http-token
as_unit=("${inside[@]}" setpriv --reuid=nobody --regid=nogroup --groups "$group"
	env -C /var/lib/wherry CREDENTIALS_DIRECTORY=/run/wherry-credentials)
"${inside[@]}" install -d -o nobody -m 700 /var/lib/wherry
"${as_unit[@]}" wherry create sqlite:shop.db >/dev/null
printf '{"n":1}\n' | "${as_unit[@]}" wherry enqueue --lines sqlite:shop.db --topic t >/dev/null
in_machine sed -i 's|listen: .*|listen: 127.0.0.1:0|; s|# token: .*|token: ${credential:secret_http-token}|' \
	/etc/wherry/wherry.yaml
read -r -a before <<<"$(of_unit ExecStartPre)"
read -r -a start <<<"$(of_unit ExecStart)"
out=$("${as_unit[@]}" "${before[@]}" 2>.err)
status=$? err=$(cat .err)
expect "what the unit runs before says that the file is fine" 0 "out:1 relay, fine"
"${as_unit[@]}" "${start[@]}" 2>log &
daemon=$!
pids+=("$daemon")

delivered() { # N
	[ "$("${inside[@]}" cat /var/lib/wherry/orders.ndjson | wc -l)" = "$1" ]
}

check "with a database there the daemon delivers" until_true 20 delivered 1
kill -TERM "$daemon"
wait "$daemon"
status=$? out='' err=$(cat log)
expect "and ends when asked" 0 "err:event=ended"

# ---- upgrade, removal ----

dpkg-deb -R packages/wherry_*.deb newer
sed -i 's/^Version: .*/Version: 99/' newer/DEBIAN/control
echo '# new' >>newer/etc/wherry/wherry.yaml
dpkg-deb -Znone -b newer newer.deb >/dev/null
in_machine dpkg --force-confold -i "$tmp/newer.deb"
expect "a newer version is installed over it" 0
in_machine sh -c 'dpkg-query -W -f "\${Version}\n" wherry; cd /etc/wherry; ls; tail -n 1 *.dpkg-dist; cat wherry.yaml'
expect "and keeps the configuration as it was edited" 0 "out:99" "out:wherry.yaml.dpkg-dist" \
	"out:# new" "out:listen: 127.0.0.1:0"
in_machine dpkg -r wherry libwherry-dev libwherry0
expect "they are removed" 0
in_machine sh -c 'ls -d /etc/wherry/wherry.yaml /usr/bin/wherry'
expect "but not what was configured" 2 "is:/etc/wherry/wherry.yaml"
in_machine dpkg -P wherry libwherry-dev libwherry0
expect "they are purged" 0 "no:not empty"
in_machine sh -c 'find /etc /usr /var/lib/dpkg /var/lib/systemd -path "*wherry*" 2>/dev/null'
expect "and leave nothing" 0 "is:"
in_machine ls /var/lib/wherry
expect "but what was written while they ran" 0 "out:shop.db" "out:orders.ndjson"
check "this machine knows nothing of it" test ! -e /etc/wherry

finish
