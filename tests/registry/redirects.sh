#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Redirects and proxies.
. "$(dirname "$0")/common.sh"
need docker-registry

check "make" "$MAKE" make a.tsb 5 1 0 1
serve registry
DOCKER=$PORT
behind docker "$PORT"
P=127.0.0.1:$PORT
FAST=(--retry-delay 10 --json)
BLOB=/blobs/sha256:
check "push" "$AOT" push a.tsb "$P/a"

pull() { # WHAT CODE REGEX REF FLAGS…: and the bytes are right
    local what=$1 code=$2 regex=$3
    shift 3
    rm -f out.tsb out.tsb.part
    expect "$what" "$code" "$regex" "$AOT" pull "$@" -o out.tsb "${FAST[@]}"
    [ "$code" != 0 ] || cmp -s a.tsb out.tsb || fail "$what: other bytes"
    checks=$((checks + 1))
}

python upstream registry.py
rules "GET $BLOB 999 redirect http://127.0.0.1:$PORT{path}"
expect "blobs that are elsewhere, and missing" 20 'status 404' "$AOT" pull "$P/a" -o no.tsb "${FAST[@]}"
rules "GET $BLOB 999 redirect http://127.0.0.1:$DOCKER{path}"
pull "blobs that are elsewhere" 0 '"retries": 0,' "$P/a"
rules "GET $BLOB 999 redirect http://$P{path}"
pull "a circle" 18 'more than 10 redirects' "$P/a"
rules "GET $BLOB 999 redirect file:///etc/passwd"
pull "a file" 18 "names the address 'file:///etc/passwd': expected http: or https:" "$P/a"
rules "GET $BLOB 999 redirect http://user:secret@$P{path}"
pull "a user" 18 'expected http: or https:' "$P/a"

# ---- proxies ----
rules
python proxy connect.py
expect "through a proxy" 0 '' "$AOT" pull "$P/a" -o proxied.tsb --proxy "http://127.0.0.1:$PORT" "${FAST[@]}"
check "which saw it" grep -q "GET http://$P/v2/a/manifests/latest" "$WORK/proxy.log"
check "the same bytes" cmp a.tsb proxied.tsb
: >"$WORK/proxy.log"
expect "loopback is not asked of the environment's proxy" 0 '' env http_proxy="http://127.0.0.1:$PORT" \
    "$AOT" pull "$P/a" -o proxied.tsb "${FAST[@]}"
check "which saw nothing" test ! -s "$WORK/proxy.log"
expect "a proxy that is not there" 18 '' "$AOT" pull "$P/a" -o no.tsb --proxy http://127.0.0.1:1 --retries 0
finish
