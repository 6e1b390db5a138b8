#!/bin/sh
# Ask the daemon of this container: wherry-probe healthz|readyz.  It fails unless the answer is 200,
# and prints it.  The token, if the daemon wants one, is in a file.
file=${WHERRY_HTTP_TOKEN_FILE:-/etc/wherry/secrets/http-token}
if [ -r "$file" ]; then
	printf 'header = "Authorization: Bearer %s"\n' "$(cat "$file")"
fi | exec curl --silent --show-error --fail-with-body --max-time 4 --noproxy '*' --config - \
	"http://127.0.0.1:${WHERRY_HTTP_PORT:-9464}/${1:-healthz}"
