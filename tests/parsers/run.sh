#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh FUZZ PARSER SECONDS SEEDS: fuzzes the parser for SECONDS, starting from its valid inputs
# and those in the folder SEEDS/PARSER, and prints the input that caused a failure.
set -u
fuzz=$(realpath -m "$1") parser=$2 seconds=$3 seeds=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/corpus" "$folder/found"
TMPDIR=$folder
export TMPDIR
"$fuzz" "-parser=$parser" "-seeds=$folder/corpus" || exit 1
if [ -d "$seeds/$parser" ]; then cp "$seeds/$parser"/* "$folder/corpus/"; fi
"$fuzz" "-parser=$parser" "-max_total_time=$seconds" -seed=1 -timeout=10 -rss_limit_mb=2048 \
    -max_len=65536 -print_final_stats=1 -artifact_prefix="$folder/found/" "$folder/corpus" \
    >"$folder/output" 2>&1
status=$?
if [ "$status" != 0 ]; then
    tail -n 60 "$folder/output"
    for found in "$folder/found"/*; do
        if [ -f "$found" ]; then
            echo "the input, in base64 (put it into tests/parsers/seeds/$parser):"
            base64 "$found"
        fi
    done
    exit 1
fi
grep -E 'number_of_executed_units|DONE' "$folder/output"
