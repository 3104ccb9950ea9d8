#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The JSON summaries of push and pull: their numbers and their schema.
. "$(dirname "$0")/common.sh"
need docker-registry

check "make" "$MAKE" make a.tsb 1 1 0 1
serve registry
P=127.0.0.1:$PORT
says() { # NAME MEMBER VALUE: keeps the summary for the schema; requires its members
    cp .out "$1.json"
    while (($# > 1)); do
        equal "$1: $2" "$(number "$2")" "$3"
        set -- "$1" "${@:4}"
    done
}
bytes=$(stat -c %s a.tsb)
mkdir unpacked && tar xf a.tsb -C unpacked

expect "push" 0 '"reference": "127' "$AOT" push a.tsb "$P/a" --json
says push bundleBytes "$bytes" blobs 12 presentBlobs 0 retries 0 unchanged false signature false
expect "push again" 0 '"file": "a.tsb"' "$AOT" push a.tsb "$P/a" --json
says again presentBlobs 12 unchanged true reusedBytes 0
expect "push of a directory" 0 "\"digest\": \"sha256:$("$SAMPLE" open a.tsb)\"" "$AOT" push unpacked "$P/b" --mount-from a --json
says mounted bundleBytes 0 mountedBlobs 12
expect "pull" 0 '"file": "out \\"1\\".tsb"' "$AOT" pull "$P/a" -o 'out "1".tsb' --json
says pull bundleBytes "$bytes" presentBlobs 0 unchanged false
expect "pull again" 0 '' "$AOT" pull "$P/a" -o 'out "1".tsb' --json
says nothing unchanged true
expect "pull of a slice" 0 '' "$AOT" pull "$P/a" -o slice.tsb --target cpu:x86-64-v3 --json
says slice bundleBytes "$(stat -c %s slice.tsb)" unchanged false

"$PYTHON" "$HERE/summary.py" "$HERE/../../schemas/transfer.schema.json" ./*.json
case $? in
0) checks=$((checks + 1)) ;;
77) [ "$failures" -ne 0 ] || exit 77 ;;
*) fail "the schema" ;;
esac
finish
