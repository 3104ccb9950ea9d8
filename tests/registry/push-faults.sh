#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A network that fails while a bundle is pushed: the bundle arrives, or the message names the reason. Bytes that
# are sent twice after a cut are counted. The proxy's upstream is docker-registry, or a registry that keeps an
# upload whose request was cut (registry.py).
. "$(dirname "$0")/common.sh"
need docker-registry

check "make" "$MAKE" make a.tsb 24 1 0 1
size=$(stat -c %s a.tsb)
serve registry
behind docker "$PORT"
P=127.0.0.1:$PORT
python_server upstream registry.py
behind small "$PORT"
Q=127.0.0.1:$PORT
FAST=(--retry-delay 10 --json)
UPLOAD='/blobs/uploads/' segment=16777216 slack=300000

push() { "$AOT" push a.tsb "$@" "${FAST[@]}"; }

rules "PATCH $UPLOAD 1 cut-request 9000000"
expect "a request that breaks off" 0 '"retries": 1,' push "$Q/cut"
below "bytes sent" "$(number sentBytes)" $((size + segment + slack))
rules "PATCH $UPLOAD 1 cut-request 1" "PATCH $UPLOAD 2 cut-request 5000000" "PATCH $UPLOAD 1 cut-request 7000000"
expect "and again and again" 0 '"retries": [4-9],' push "$Q/cut4" --retries 5
below "bytes sent" "$(number sentBytes)" $((size + 4 * segment + slack))
rules "PATCH $UPLOAD 1 cut-after"
expect "an answer that is lost" 0 '"retries": 1,' push "$Q/lost"
below "bytes sent" "$(number sentBytes)" $((size + slack))
rules "PUT $UPLOAD 2 cut-after"
expect "the last answer is lost" 0 '"retries": 2,' push "$Q/last"
below "bytes sent" "$(number sentBytes)" $((size + slack))
rules "POST $UPLOAD 2 status 503"
expect "busy at the start" 0 '"retries": 2,' push "$P/busy"
below "bytes sent" "$(number sentBytes)" $((size + slack))
rules "PATCH $UPLOAD 1 cut-request 9000000"
expect "a registry that forgets the upload" 0 '"retries": 1,' push "$P/forgets"
below "bytes sent" "$(number sentBytes)" $((size + segment + slack))
rules "PUT $UPLOAD 1 corrupt-request"
expect "a byte that is changed" 0 '"retries": 1,' push "$P/changed"
rules "PATCH $UPLOAD 100 corrupt-request"
expect "bytes that are always changed" 18 'status 400: DIGEST_INVALID' push "$P/changing"
rules "PUT /manifests/ 3 status 500"
expect "manifests" 0 '"retries": 3,' push "$P/manifests"
rules "* / 1 status 429:1"
expect "too many requests" 0 '"retries": 1,' push "$P/many"
below "it waited as long as it was told" 999 "$(number seconds | awk '{ printf "%d", $1 * 1000 }')"
rules "* / 9 status 429:3600"
expect "too long to wait" 18 'status 429, try again in 3600 seconds' push "$P/long"
rules "* / 99 status 502"
expect "broken for good" 18 'status 502' push "$P/broken" --retries 3 --jobs 1
equal "it tried" "$(wc -l <net/log)" 4
rules "* / 99 status 500"
expect "no retries" 18 'status 500' push "$P/none" --retries 0 --jobs 1
equal "it tried once" "$(wc -l <net/log)" 1
rules

rules
python_server picky registry.py chunk-min=20000000
expect "a registry that wants long requests" 0 '' push "127.0.0.1:$PORT/picky"
finish
