#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Redirects and proxies.
. "$(dirname "$0")/common.sh"
need docker-registry openssl

check "make" "$MAKE" make a.tsb 5 1 0 1
serve registry
DOCKER=$PORT
behind docker "$PORT"
P=127.0.0.1:$PORT
FAST=(--retry-delay 10 --json)
BLOB=/blobs/sha256:
check "push" "$AOT" push a.tsb "$P/a"

pull() { # WHAT CODE REGEX REF FLAGS…: also requires the right bytes
    local what=$1 code=$2 regex=$3
    shift 3
    rm -f out.tsb out.tsb.part
    expect "$what" "$code" "$regex" "$AOT" pull "$@" -o out.tsb "${FAST[@]}"
    [ "$code" != 0 ] || cmp -s a.tsb out.tsb || fail "$what: other bytes"
    checks=$((checks + 1))
}

python_server upstream registry.py
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
python_server proxy connect.py
expect "through a proxy" 0 '' "$AOT" pull "$P/a" -o proxied.tsb --proxy "http://127.0.0.1:$PORT" "${FAST[@]}"
check "which saw it" grep -q "GET http://$P/v2/a/manifests/latest" "$WORK/proxy.log"
check "the same bytes" cmp a.tsb proxied.tsb
: >"$WORK/proxy.log"
expect "loopback is not asked of the environment's proxy" 0 '' env http_proxy="http://127.0.0.1:$PORT" \
    "$AOT" pull "$P/a" -o proxied.tsb "${FAST[@]}"
check "which saw nothing" test ! -s "$WORK/proxy.log"

# ---- https: through a tunnel ----
tunnel() { # WHAT CODE REGEX FLAGS…
    local what=$1 code=$2 regex=$3
    shift 3
    rm -f tunnelled.tsb
    : >"$WORK/proxy.log"
    expect "$what" "$code" "$regex" "$AOT" pull "$S/a" -o tunnelled.tsb --retries 0 "$@"
}
PROXY=127.0.0.1:$PORT
authority
serve tls "  tls: {certificate: $WORK/tls.pem, key: $WORK/tls.key}"
S=localhost:$PORT
expect "push through a tunnel" 0 '^pushed' "$AOT" push a.tsb "$S/a" --ca ca.pem --proxy "http://$PROXY"
check "the proxy sees a host" grep -qx "CONNECT $S" "$WORK/proxy.log"
equal "and nothing else" "$(grep -vcx "CONNECT $S" "$WORK/proxy.log")" 0
tunnel "pull through a tunnel" 0 '^pulled' --ca ca.pem --proxy "http://$PROXY"
equal "hosts alone were seen" "$(sort -u "$WORK/proxy.log")" "CONNECT $S"
check "the same bytes" cmp a.tsb tunnelled.tsb
tunnel "the registry's certificate counts in a tunnel" 18 'certificate.*needs --ca FILE' --ca /etc/ssl/certs/ca-certificates.crt --proxy "http://$PROXY"
check "the tunnel was there" grep -qx "CONNECT $S" "$WORK/proxy.log"

# A name that only the proxy can resolve, and the proxy variables of the environment.
S=registry.test:${S#*:}
https_proxy=http://$PROXY tunnel "https_proxy" 0 '^pulled' --ca ca.pem
equal "hosts alone were seen" "$(sort -u "$WORK/proxy.log")" "CONNECT $S"
check "the same bytes" cmp a.tsb tunnelled.tsb
all_proxy=http://$PROXY no_proxy=elsewhere.test tunnel "all_proxy" 0 '^pulled' --ca ca.pem
http_proxy=http://$PROXY tunnel "http_proxy is not for https" 18 'resolve' --ca ca.pem
https_proxy=http://$PROXY no_proxy=registry.test tunnel "no_proxy" 18 'resolve' --ca ca.pem
equal "it saw nothing" "$(wc -l <"$WORK/proxy.log")" 0
tunnel "a proxy that refuses tunnels" 18 'CONNECT|403' --ca ca.pem --proxy "http://refuse:it@$PROXY"
check "it was asked" grep -q "CONNECT $S refused" "$WORK/proxy.log"
check "and no file" test ! -e tunnelled.tsb
tunnel "a proxy that is not there" 18 "onnect" --ca ca.pem --proxy http://127.0.0.1:1
expect "a proxy that is not there" 18 '' "$AOT" pull "$P/a" -o no.tsb --proxy http://127.0.0.1:1 --retries 0
finish
