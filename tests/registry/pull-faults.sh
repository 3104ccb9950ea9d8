#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A network that fails while a bundle is pulled: the bundle arrives, or the message names the reason. Bytes that are received twice
# after a cut are counted. A killed pull is resumed.
. "$(dirname "$0")/common.sh"
need docker-registry

check "make" "$MAKE" make a.tsb 24 1 0 1
size=$(stat -c %s a.tsb)
WEIGHTS=/$(tar tvf a.tsb | sort -n -k 3 | tail -n 1 | awk '{ print $6 }' | sed 's,sha256/,sha256:,')
serve registry
behind docker "$PORT"
P=127.0.0.1:$PORT
FAST=(--retry-delay 10 --json)
chunk=4194304 slack=300000

pull() { # WHAT CODE REGEX REF FLAGS…: also requires the right bytes
    local what=$1 code=$2 regex=$3
    shift 3
    rm -f out.tsb out.tsb.part
    expect "$what" "$code" "$regex" "$AOT" pull "$@" -o out.tsb "${FAST[@]}"
    [ "$code" != 0 ] || cmp -s a.tsb out.tsb || fail "$what: other bytes"
    checks=$((checks + 1))
}

check "push" "$AOT" push a.tsb "$P/a"
rules "GET $WEIGHTS 1 cut-response 3000000"
pull "an answer that breaks off" 0 '"retries": 1,' "$P/a"
below "bytes received" "$(number receivedBytes)" $((size + slack))
rules "GET $WEIGHTS 4 cut-response 5000000"
pull "four of them" 0 '"retries": 4,' "$P/a" --retries 2
below "bytes received" "$(number receivedBytes)" $((size + 4 * chunk + slack))
rules "GET $WEIGHTS 99 cut-response 10"
pull "no answer gets far" 18 'GET|expected bytes up to' "$P/a" --retries 3
rules "GET $WEIGHTS 1 corrupt-response" "GET $WEIGHTS 1 cut-response 100000"
pull "a byte that is changed" 0 '"retries": 2,' "$P/a"
below "bytes received" "$(number receivedBytes)" $((size + 2 * chunk + slack))
rules "GET $WEIGHTS 999 corrupt-response"
pull "bytes that are always changed" 2 'blob sha256:[0-9a-f]{64}.*(expected digest|got) ' "$P/a"
rules "GET /manifests/ 99 corrupt-response"
expect "an index that is changed" 2 'expected digest sha256:' "$AOT" pull "$P/a@sha256:$("$SAMPLE" open a.tsb)" -o no.tsb "${FAST[@]}"
rules "GET $WEIGHTS 99 no-range"
rm -f out.tsb
(ulimit -f 20000; "$AOT" pull "$P/a" -o out.tsb "${FAST[@]}" >/dev/null 2>.err) && fail "more than 20 MB were written"
checks=$((checks + 1))
grep -q 'no room for\|File too large' .err || fail "a file that may not grow"
rm -f out.tsb out.tsb.part
rules "GET $WEIGHTS 2 cut-response 9000000" "GET $WEIGHTS 99 no-range"
pull "a server without ranges" 0 '"retries": 2,' "$P/a"
rules "GET $WEIGHTS 99 stall 100000"
pull "a server that stalls" 18 'imed? ?out|too slow|Operation' "$P/a" --timeout 1 --retries 0
rules "GET $WEIGHTS 2 throttle 20000000"
pull "a slow one" 0 '"retries": 0,' "$P/a"

# ---- a killed pull is resumed ----
rules "GET $WEIGHTS 99 throttle 15000000"
rm -f out.tsb out.tsb.part
"$AOT" pull "$P/a" -o out.tsb --jobs 1 --quiet &
victim=$!
sleep 1.5
kill -9 $victim
wait $victim 2>/dev/null
check "its part is there" test -s out.tsb.part -a ! -e out.tsb
rules
expect "the next one" 0 '' "$AOT" pull "$P/a" -o out.tsb "${FAST[@]}"
below "continues" "$(number receivedBytes)" $((size - 2 * chunk))
check "and ends well" cmp a.tsb out.tsb
check "leaving nothing" test ! -e out.tsb.part
rm out.tsb
head -c 20000000 a.tsb >out.tsb.part
printf 'x' | dd of=out.tsb.part bs=1 seek=10000000 conv=notrunc status=none
expect "a part with damage" 0 '' "$AOT" pull "$P/a" -o out.tsb "${FAST[@]}"
below "is good for the rest of it" "$(number receivedBytes)" $((size - 20000000 + 2 * chunk + slack))
check "and ends well" cmp a.tsb out.tsb
rules "GET $WEIGHTS 99 throttle 5000000"
rm -f out.tsb
"$AOT" pull "$P/a" -o out.tsb --quiet &
victim=$!
sleep 1
expect "two pulls of one file" 11 "another pull is writing 'out.tsb.part'" "$AOT" pull "$P/a" -o out.tsb
kill $victim
wait $victim 2>/dev/null
finish
