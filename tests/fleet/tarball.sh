#!/usr/bin/env bash
# The tarball with its libraries is unpacked on other distributions, without anything else of
# Wherry's, and delivers there: from SQLite and PostgreSQL, to files, a web server and Kafka over
# TLS, with the distribution's certificates.
#
# Writes TAP.  WHERRY_FLEET_ROOTS: on which distributions.

source_dir=$(cd "${WHERRY_SOURCE:-$(dirname "$0")/../..}" && pwd)
# shellcheck source=tests/fleet/roots.bash
. "$source_dir/tests/fleet/roots.bash"
# shellcheck source=tests/kafka/broker.bash
. "$source_dir/tests/kafka/broker.bash"

if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
	skip "the tarball" "it needs debootstrap, and to be root"
	finish
fi
if [ -z "${WHERRY_TARBALL-}" ]; then
	"$source_dir/packaging/tarball/make.sh" "$source_dir/build/tarball" 2>make.log
	result $? "the tarball is made" "$(tail -n 40 make.log)"
	WHERRY_TARBALL=$(tail -n 1 make.log)
fi
[ -f "$WHERRY_TARBALL" ] || finish

# ---- what is in it ----

mkdir unpacked
tar -xzf "$WHERRY_TARBALL" -C unpacked
top=$(cd unpacked && echo wherry-*)
out=$(find unpacked -type f | sort) status=$? err=
expect "it has the program, its manual, libraries and their licences" 0 "out:/bin/wherry" \
	"out:/lib/libpq.so.5" "out:/lib/librdkafka.so.1" "out:/lib/libcurl.so.4" "out:/lib/librabbitmq.so.4" "out:/lib/libhiredis.so" "out:/lib/libssl.so.3" \
	"out:/lib/libsqlite3.so.0" "out:/lib/wherry.so" "out:/share/man/man1/wherry.1.gz" "out:/share/doc/wherry/copyright" \
	"out:/share/doc/wherry/libraries/librdkafka" "no:/lib/libc.so" "no:ld-linux"
newest=$(find unpacked -type f \( -name '*.so*' -o -name wherry \) -exec objdump -T {} + 2>/dev/null |
	grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
[ "$newest" = "$(printf '%s\nGLIBC_2.31\n' "$newest" | sort -V | head -n 1)" ]
result $? "it needs no newer glibc than 2.31" "$newest"
out=$(sqlite3 :memory: ".load ./unpacked/$top/lib/wherry" "SELECT wherry_version()" 2>&1) status=$?
expect "SQLite loads the functions" 0 "out:0."
missing=$(find unpacked/*/lib -name '*.so*' ! -name wherry.so | while read -r file; do
	grep -qi "^$(sed -E 's/^lib(pq|ssl|crypto|z|yaml|curl|sqlite3).*/\1/; s/[.-].*//' <<<"${file##*/}")" \
		<(printf '%s\n' unpacked/*/share/doc/wherry/libraries/* | sed -E 's|.*/||
			s/^postgresql$/pq/; s/^openssl$/ssl\ncrypto/; s/^zlib$/z/; s/^libyaml$/yaml/; s/^jansson$/libjansson/
			s/^lz4$/liblz4/; s/^nghttp2$/libnghttp2/; s/^hiredis$/libhiredis/') || echo "$file"
done)
[ -z "$missing" ]
result $? "each library has its licence" "$missing"

# ---- where it goes ----

certificate() { # NAME HOST
	openssl req -newkey rsa:2048 -nodes -subj "/CN=$2" -keyout "$1.key" -out "$1.csr" &&
		openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
			-extfile <(echo "subjectAltName=DNS:$2") -out "$1.pem"
}
{
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
	certificate here localhost
} >openssl.log 2>&1
cat >receiver.py <<'END'
import http.server, ssl
class Taker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        open("posted", "ab").write(self.rfile.read(int(self.headers["Content-Length"])) + b"\n")
        self.send_response(204)
        self.end_headers()
    def log_message(self, *words):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Taker)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain("here.pem", "here.key")
server.socket = tls.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 receiver.py >port &
pids+=("$!")
until_true 20 test -s port
start_broker --tls here.pem here.key --topic orders 1
start_server
chmod 755 "$tmp"

# certificates_at ROOT PLACE: the system's certificates are in one place alone.
certificates_at() {
	rm -rf "$1/etc/ssl/certs" "$1/etc/ssl/cert.pem" "$1/etc/pki" "$1/etc/ssl/ca-bundle.pem"
	install -D -m 644 ca.pem "$1$2"
}

delivers_in() { # DISTRIBUTION CERTIFICATES
	local name=$1 root=$roots/$1 program=/opt/wherry/bin/wherry

	if ! make_root "$name"; then
		skip "$name" "debootstrap cannot make it here"
		return
	fi
	rm -rf "$root/opt/wherry"
	tar -xzf "$WHERRY_TARBALL" -C "$root/opt"
	mv "$root/opt/$top" "$root/opt/wherry"
	certificates_at "$root" "$2"
	in_root "$root" ldd --version
	glibc=${out%%$'\n'*}
	in_root "$root" "$program" version
	expect "$name (${glibc##* }): it starts" 0 "out:wherry "
	in_root "$root" sh -c "cd $tmp && rm -f t.db posted && $program create sqlite:t.db &&
		echo '{\"n\":1}' | $program enqueue --lines sqlite:t.db --topic orders &&
		$program relay sqlite:t.db stdout: --until-empty"
	expect "$name: it delivers from SQLite" 0 'out:"body":{"n":1}' "err:1 delivered"
	in_root "$root" sh -c "cd $tmp && $program create '$url#$name' &&
		echo '{\"n\":2}' | $program enqueue --lines '$url#$name' --topic orders &&
		$program relay '$url#$name' stdout: --until-empty"
	expect "$name: it delivers from PostgreSQL" 0 'out:"body":{"n":2}' "err:1 delivered"
	in_root "$root" sh -c "cd $tmp && echo '{\"n\":3}' | $program enqueue --lines sqlite:t.db --topic orders &&
		$program relay sqlite:t.db https://localhost:$(cat port)/hook --until-empty --timeout 20s"
	expect "$name: to a web server whose certificate is known at $2" 0 "err:1 delivered"
	in_root "$root" sh -c "cd $tmp && echo '{\"n\":4}' | $program enqueue --lines sqlite:t.db --topic orders &&
		$program relay sqlite:t.db 'kafka://$broker?security.protocol=ssl' --until-empty --timeout 20s"
	expect "$name: to Kafka over TLS" 0 "err:1 delivered"
	# The configuration of a distribution's own OpenSSL is nothing to this one.
	mkdir -p "$root/etc/ssl"
	echo 'openssl_conf = nothing_that_is_there' >"$root/etc/ssl/openssl.cnf"
	certificates_at "$root" /nowhere.pem
	in_root "$root" sh -c "cd $tmp && echo '{\"n\":5}' | $program enqueue --lines sqlite:t.db --topic orders &&
		$program relay sqlite:t.db https://localhost:$(cat port)/hook --until-empty --timeout 3s"
	expect "$name: without certificates no server is trusted" 5 "err:certificate"
	rm -rf "$root/opt/wherry" "$root/etc/ssl" "$root/etc/pki"
}

set -- ${WHERRY_FLEET_ROOTS-bullseye bookworm trixie jammy}
for distribution; do
	case $distribution in
	bookworm) delivers_in bookworm /etc/pki/tls/certs/ca-bundle.crt ;; # as on Fedora
	trixie) delivers_in trixie /etc/ssl/ca-bundle.pem ;;               # as on openSUSE
	*) delivers_in "$distribution" /etc/ssl/certs/ca-certificates.crt ;;
	esac
done
stop_server
finish
