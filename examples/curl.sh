#!/bin/sh
# A session by hand:  sh curl.sh [page]
# Needs WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment.
set -eu

call() { # method, path, then more arguments of curl
  method=$1 path=$2
  shift 2
  curl --silent --show-error --fail-with-body --request "$method" "$WARMPOOL_URL$path" \
    --header "service-secret-key: $WARMPOOL_SECRET_KEY" "$@"
}

# Take a session that opens a page.
body="{\"headless\": true, \"url\": \"${1:-https://example.com/}\"}"
created=$(call POST /sessions/create --json "$body")
echo "created: $created"
id=$(printf '%s' "$created" | sed -n 's/.*"session_id": *"\([^"]*\)".*/\1/p')

# See how it is, then give it back. Deleting it twice does no harm.
echo "record: $(call GET "/sessions/$id")"
echo "newest: $(call GET '/sessions?limit=1&sort_order=descend')"
call DELETE "/sessions/$id" >/dev/null
echo "ended: $(call GET "/sessions/$id/status")"
