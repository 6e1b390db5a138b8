#!/bin/bash
#
# Builds Wherry and the libraries that its tarball carries, from the sources in /src, in a root
# with an old glibc: make.sh calls it there.  The result is /stage/NAME.tar.gz,
# and NAME.tar.gz is printed.

set -euo pipefail

libraries=/libraries
export PKG_CONFIG_PATH=$libraries/lib/pkgconfig
export CFLAGS='-O2 -fstack-protector-strong -fstack-clash-protection'
export CPPFLAGS="-I$libraries/include -D_FORTIFY_SOURCE=2"
export LDFLAGS="-L$libraries/lib -Wl,-z,relro -Wl,-z,now"
export LD_LIBRARY_PATH=$libraries/lib # programs that configure scripts start
jobs=-j$(nproc)

# ---- one function for each source package ----

# The file configure as people know it, made anew if Debian changed what it is made of.
configured() {
	[ -e configure ] || autoreconf -fi
	./configure --prefix=$libraries --disable-static "$@"
	make "$jobs"
	make install
}

of_zlib() {
	./configure --prefix=$libraries
	make "$jobs"
	make install
}

of_libzstd() {
	make "$jobs" -C lib prefix=$libraries PREFIX=$libraries install-shared install-includes \
		install-pc
}

of_lz4() {
	make "$jobs" -C lib PREFIX=$libraries prefix=$libraries install
}

# Its folder is one that no distribution has: the configuration of another version of OpenSSL is
# not read.  The program finds the system's certificates: src/cli/certificates.c.
of_openssl() {
	./config --prefix=$libraries --libdir=lib --openssldir=/etc/wherry/openssl \
		no-tests no-docs no-apps no-legacy no-module
	make "$jobs" build_sw
	make install_sw
}

of_sqlite3() {
	CFLAGS+=' -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_DBSTAT_VTAB' \
		configured --disable-tcl --disable-readline
}

# The client library alone, without Kerberos and LDAP.
of_postgresql() {
	./configure --prefix=$libraries --with-openssl --without-readline --without-zlib \
		--without-icu
	make "$jobs" -C src/interfaces/libpq
	make -C src/interfaces/libpq install
	make -C src/include install
}

of_nghttp2() {
	configured --enable-lib-only
}

of_curl() {
	autoreconf -fi
	configured --with-openssl --with-nghttp2 --with-zlib --without-libpsl --without-brotli \
		--without-zstd --without-libidn2 --disable-ldap --disable-ftp --disable-file \
		--disable-dict --disable-telnet --disable-tftp --disable-pop3 --disable-imap \
		--disable-smb --disable-smtp --disable-gopher --disable-mqtt --disable-rtsp \
		--disable-manual --disable-docs \
		--without-ca-bundle --without-ca-path --with-ca-fallback
}

of_librdkafka() {
	./configure --prefix=$libraries --disable-gssapi --enable-ssl --enable-zstd \
		--CPPFLAGS="$CPPFLAGS" --LDFLAGS="$LDFLAGS"
	make "$jobs" -C src
	make -C src install
}

of_libmicrohttpd() {
	configured --disable-https --disable-doc --disable-examples --disable-tools
}

# The ones that are built with CMake.
with_cmake() { # -D OPTION=VALUE...
	cmake -S . -B made -G Ninja -D CMAKE_BUILD_TYPE=Release -D CMAKE_INSTALL_PREFIX=$libraries \
		-D CMAKE_INSTALL_LIBDIR=lib -D CMAKE_PREFIX_PATH=$libraries "$@"
	cmake --build made
	cmake --install made
}

of_librabbitmq() {
	with_cmake -D BUILD_STATIC_LIBS=OFF -D BUILD_EXAMPLES=OFF -D BUILD_TESTS=OFF -D BUILD_TESTING=OFF \
		-D BUILD_TOOLS=OFF -D BUILD_TOOLS_DOCS=OFF -D BUILD_API_DOCS=OFF -D ENABLE_SSL_SUPPORT=ON -D OPENSSL_ROOT_DIR=$libraries
}

# Wherry itself makes its TLS.
of_hiredis() {
	make "$jobs" PREFIX=$libraries dynamic hiredis.pc
	make PREFIX=$libraries install
}

of_jansson() {
	configured
}

of_libyaml() {
	configured
}

# ---- all of it ----

say() {
	printf '%s\n' "$*" >&2
}

# Build a source package of Debian, unless it was; keep its licence, and write down its version.
build() { # NAME
	local name=$1 source version log=/logs/$1.log

	source=$(ls /src/"$name"[-_]*.dsc)
	version=$(sed -n 's/^Version: //p' "$source")
	echo "$name $version"
	[ "$(cat "/logs/$name.made" 2>/dev/null)" != "$version" ] || return 0
	say "Building $name $version"
	rm -rf "/build/$name"
	{
		dpkg-source --no-check -x "$source" "/build/$name"
		(cd "/build/$name" && "of_$name")
	} >"$log" 2>&1 </dev/null || {
		tail -n 40 "$log" >&2
		return 1
	}
	cp "/build/$name/debian/copyright" "/licences/$name"
	echo "$version" >"/logs/$name.made"
	rm -rf "/build/$name"
}

# The shared libraries below a program or extension, as the loader finds them, but for glibc's.
carried() { # FILE
	ldd "$1" | sed -n "s|.*=> \($libraries/lib/[^ ]*\) .*|\1|p" | sort -u
}

mkdir -p /build /logs /licences /stage
for name in "$@"; do
	build "$name"
done >/logs/versions

say "Building Wherry"
export LDFLAGS="$LDFLAGS -Wl,--disable-new-dtags" # the rpath is that of all libraries, too
rm -rf /build/wherry /stage
cmake --preset release -S /wherry -B /build/wherry -D WHERRY_EXAMPLES=OFF -D WHERRY_BENCH=OFF \
	-D WHERRY_POSTGRES=ON -D WHERRY_KAFKA=ON -D WHERRY_HTTP=ON -D WHERRY_AMQP=ON -D WHERRY_NATS=OFF \
	-D WHERRY_REDIS=ON -D CMAKE_INSTALL_PREFIX=/opt/wherry \
	-D CMAKE_EXE_LINKER_FLAGS="$LDFLAGS" -D CMAKE_MODULE_LINKER_FLAGS="$LDFLAGS" -D CMAKE_INSTALL_RPATH='$ORIGIN/../lib' \
	>/logs/wherry.log
cmake --build /build/wherry >>/logs/wherry.log || {
	tail -n 40 /logs/wherry.log >&2
	exit 1
}
for component in program extension; do
	DESTDIR=/stage cmake --install /build/wherry --strip --component "$component"
done >>/logs/wherry.log

top=/stage/opt/wherry
{ carried /build/wherry/wherry && carried /build/wherry/wherry.so; } | sort -u | while read -r file; do
	install -s -m 644 -D "$(readlink -f "$file")" "$top/lib/${file##*/}"
	patchelf --remove-rpath "$top/lib/${file##*/}" # or the program's would not apply
done
mkdir "$top/share/doc/wherry/libraries"
cp /licences/* "$top/share/doc/wherry/libraries"
{
	echo "The libraries in lib were built from these source packages of Debian, whose licences"
	echo "are in this folder, as packaging/tarball/build.sh in Wherry's sources says:"
	echo
	cat /logs/versions
} >"$top/share/doc/wherry/libraries/README"
gzip -9n "$top"/share/man/*/*
name=wherry-$("$top/bin/wherry" version | sed -n '1s/^wherry \([^ ]*\).*/\1/p')-linux-$(uname -m)
tar -C /stage/opt --transform "s|^wherry|$name|" --owner=0 --group=0 --numeric-owner --sort=name \
	-czf "/stage/$name.tar.gz" wherry
echo "$name.tar.gz"
