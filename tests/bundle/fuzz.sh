#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A short run of fuzz.c, from a corpus made of a good bundle; more SECONDS by hand.
# usage: fuzz.sh SOURCE_ROOT SAMPLE_TOOL [SECONDS]
set -eu
root=$1 tool=$2 seconds=${3:-10}
clang=$(command -v clang-14 || command -v clang) || { echo 'clang is not installed'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }' >"$work/try.c"
"$clang" -fsanitize=fuzzer,address,undefined "$work/try.c" -o "$work/try" 2>/dev/null ||
    { echo 'clang has no libFuzzer'; exit 77; }
"$clang" -std=c17 -g -O1 -w -D_GNU_SOURCE -I"$root" \
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
    "$root"/tests/bundle/fuzz.c "$root"/tests/bundle/kit.c "$root"/tests/bundle/ram_io.c \
    "$root"/bundle/*.c "$root"/runtime/base/*.c \
    -lcrypto -lcjson -lzstd -lpthread -lm -o "$work/fuzz"
mkdir "$work/corpus" "$work/dir"
"$tool" tiny "$work/tiny.tsb"
tar xf "$work/tiny.tsb" -C "$work/dir"
tar cf "$work/gnu.tar" --format=pax -C "$work/dir" .
seed() { # pick, file
    # shellcheck disable=SC2059 # the format is the byte
    { printf "\\$(printf %03o "$1")"; cat "$2"; } >"$work/corpus/$1-$(basename "$2")"
}
seed 0 "$work/tiny.tsb"
seed 0 "$work/gnu.tar"
seed 1 "$work/dir/oci-layout"
seed 2 "$work/dir/index.json"
for blob in "$work"/dir/blobs/sha256/*; do
    for pick in 3 4 5; do seed $pick "$blob"; done
done
"$work/fuzz" -max_total_time="$seconds" -max_len=32768 -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$work/" "$work/corpus" >"$work/log" 2>&1 || {
    tail -60 "$work/log"
    for file in "$work"/crash-* "$work"/timeout-* "$work"/oom-* "$work"/leak-*; do
        [ -e "$file" ] && { echo "$file:"; base64 "$file"; }
    done
    exit 1
}
grep -E 'number_of_executed_units|new_units_added' "$work/log"
