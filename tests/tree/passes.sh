#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every pass of compiler/passes.def and every sequence of compiler/pipelines.def is run by its name in a test.
. "$(dirname "$0")/common.sh"

runs=$(mktemp)
trap 'rm -f "$runs"' EXIT
tree_files | grep -E '^tests/compiler/.*\.mlir$' | tr '\n' '\0' |
    xargs -0 -r grep -hE '^// (RUN|run):' >"$runs"
{
    [ -s "$runs" ] || echo 'tests/compiler: no test runs anything'
    for table in compiler/passes.def compiler/pipelines.def; do
        grep -oE '^X\((tsr_pass_[a-z_]*, )?"[a-z0-9_-]+"' "$table" | grep -o '"[^"]*"' | tr -d '"' |
            while IFS= read -r name; do
                grep -qE -- "-$name([^a-z0-9_-]|\$)" "$runs" ||
                    echo "$table: no test in tests/compiler runs -$name"
            done
    done
} | report
