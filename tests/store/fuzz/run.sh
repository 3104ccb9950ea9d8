#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh FUZZ TARGET SECONDS SEEDS: fuzzes one target for SECONDS, starting from valid inputs and
# from SEEDS/TARGET, and requires that 80 % of the inputs pass the header check. Prints the input
# that caused a failure.
#
# run.sh FUZZ TARGET SECONDS SEEDS --minimise: then replaces SEEDS/TARGET by the fewest inputs that
# have the same coverage.
set -u
fuzz=$(realpath -m "$1") target=$2 seconds=$3 seeds=$(realpath -m "$4")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/corpus" "$work/found" "$work/least"
"$fuzz" "-target=$target" "-seeds=$work/corpus" || exit 1
if [ -d "$seeds/$target" ]; then cp "$seeds/$target"/* "$work/corpus/"; fi
if ! "$fuzz" "-target=$target" "-max_total_time=$seconds" -seed=1 -timeout=10 -max_len=8192 \
    -rss_limit_mb=2048 "-artifact_prefix=$work/found/" "$work/corpus" >"$work/log" 2>&1; then
    tail -n 60 "$work/log"
    for found in "$work/found"/*; do
        [ -f "$found" ] || continue
        echo "the input, in base64 (put it into tests/store/fuzz/seeds/$target):"
        base64 "$found"
    done
    exit 1
fi
grep '^fuzz: ' "$work/log" || { tail -n 20 "$work/log"; exit 1; }
share=$(sed -n 's/^fuzz: .* executions, \([0-9]*\).*/\1/p' "$work/log")
[ "$share" -ge 80 ] || { echo "expected 80 % of the inputs to pass the header check"; exit 1; }
if [ "${5:-}" = --minimise ]; then
    "$fuzz" "-target=$target" -merge=1 -max_len=4096 "$work/least" "$work/corpus" 2>"$work/log" ||
        { tail "$work/log"; exit 1; }
    rm -rf "${seeds:?}/$target"
    mkdir -p "$seeds/$target"
    cp "$work/least"/* "$seeds/$target/"
    echo "$target: $(find "$seeds/$target" -type f | wc -l) inputs are kept"
fi
