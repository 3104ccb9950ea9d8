#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh ROOT FOLDER MODE TARGET SECONDS: fuzzes one target for SECONDS from its seeds and
# tests/fuzz/corpus/TARGET, and requires that half of the inputs pass the header checks. Prints the
# input that caused a failure. FOLDER is the folder of build.sh's programs.
set -eu
root=$1 folder=$2 mode=$3 target=$4 seconds=$5
"$root/tests/fuzz/build.sh" "$root" "$folder" "$mode" || exit $?
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/corpus" "$work/found"
"$folder/$mode/$target" "-seeds=$work/corpus"
"$folder/$mode/$target" -max_total_time="$seconds" -seed=1 -max_len=4096 -timeout=20 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$work/found/" "$work/corpus" \
    "$root/tests/fuzz/corpus/$target" >"$work/log" 2>&1 || {
    tail -n 60 "$work/log"
    for found in "$work"/found/*; do
        [ -f "$found" ] || continue
        echo "the input, in base64 (put it into tests/fuzz/corpus/$target):"
        base64 "$found"
    done
    exit 1
}
grep '^fuzz: ' "$work/log"
share=$(sed -n 's/^fuzz: .* executions, \([0-9]*\).*/\1/p' "$work/log")
[ "$share" -ge 50 ] || { echo "expected 50 % of the inputs to pass the header checks"; exit 1; }
