#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The bytes that are transferred after a small change. usage: incremental.sh AOT REGISTRY_TOOL SAMPLE_TOOL MIB
. "$(dirname "$0")/common.sh"
need docker-registry
mib=$4

check "make" "$MAKE" make a.tsb "$mib" 1 0 1
check "other kernels" "$MAKE" make b.tsb "$mib" 1 0 2
serve registry
R=127.0.0.1:$PORT/models/a
bytes=$(stat -c %s a.tsb)
check "push" "$AOT" push a.tsb "$R:v1" --quiet

expect "push of other kernels" 0 '' "$AOT" push b.tsb "$R:v2" --json
sent=$(number sentBytes)
below "bytes sent" "$sent" 1000000
below "bytes received" "$(number receivedBytes)" 100000
equal "blobs that were there" "$(number presentBlobs)" 3

cp a.tsb out.tsb
expect "pull onto the older bundle" 0 '' "$AOT" pull "$R:v2" -o out.tsb --json
received=$(number receivedBytes)
below "bytes received" "$received" 1000000
below "bytes sent" "$(number sentBytes)" 100000
equal "bytes reused" "$(number reusedBytes)" "$(($((mib << 20)) + 4097 + 23))"
check "the new one" cmp b.tsb out.tsb
big="$bytes bytes, other kernels: $sent sent, $received received"

# The same with a smaller bundle, and in other ways.
mib=40
rm ./*.tsb
"$MAKE" make a.tsb $mib 1 0 1
"$MAKE" make b.tsb $mib 1 0 2
R=127.0.0.1:$PORT/models/b
check "push" "$AOT" push a.tsb "$R:v1" --quiet
check "push" "$AOT" push b.tsb "$R:v2" --quiet
expect "pull with a base" 0 '' "$AOT" pull "$R:v2" -o out.tsb --base a.tsb --json
below "bytes received" "$(number receivedBytes)" 1000000
check "the new one" cmp b.tsb out.tsb
mkdir unpacked && tar xf a.tsb -C unpacked && rm a.tsb out.tsb
expect "pull of a slice with an unpacked base" 0 '' "$AOT" pull "$R:v2" -o out.tsb --base unpacked --target cpu:x86-64-v3 --json
below "bytes received" "$(number receivedBytes)" 400000
rm -r unpacked out.tsb
expect "nothing has changed" 0 '"unchanged": true' "$AOT" pull "$R:v2" -o b.tsb --json
below "bytes received" "$(number receivedBytes)" 50000
expect "a base that is none" 7 'No such file' "$AOT" pull "$R:v2" -o out.tsb --base none.tsb

# A tenth of the weights has changed: only its chunks are sent.
changed=$((mib / 10))
rm b.tsb
check "other weights" "$MAKE" make c.tsb "$mib" 1 "$changed" 1
check "push" "$AOT" push c.tsb "$R:v3" --quiet
check "pull of the first" "$AOT" pull "$R:v1" -o out.tsb --quiet
expect "pull of other weights" 0 '' "$AOT" pull "$R:v3" -o out.tsb --json
below "bytes received" "$(number receivedBytes)" $(((changed + 5) << 20))
tenth=$(number receivedBytes)
check "the new one" cmp c.tsb out.tsb
echo "$big; $(stat -c %s c.tsb) bytes, a tenth of the weights: $tenth received"
finish
