#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Of every op of compiler/graph/ops.def some wrong use is refused in a test, in words that begin with the op's name. Test
# oracle/coverage uses the ops that rows of tests/ops.py define with wrong types: those of `one`, `two`, `reduction`, `along`, `norm`.
. "$(dirname "$0")/common.sh"

said=$(mktemp)
trap 'rm -f "$said"' EXIT
{
    tree_files | grep -E '^tests/compiler/graph/ops-invalid[a-z-]*\.mlir$' | tr '\n' '\0' | xargs -0 -r grep -hE '// CHECK: '
    # What comes first in the words is about the module's mistake.
    tree_files | grep -E '^tests/compiler/rejected/.*\.txt$' | tr '\n' '\0' | xargs -0 -r grep -hE -m1 'error: \['
} | grep -oE '\[TSR-[0-9]+\] tessera\.[a-z0-9_.]*[a-z0-9_]' | sed 's/^.* tessera\.//' | sort -u >"$said"
[ ! -f tests/ops.py ] || sed -nE "s/^    (one|two|reduction|along|norm)\('([a-z0-9_.]+)',.*/\2/p" tests/ops.py >>"$said"
{
    [ -s "$said" ] || echo 'tests/compiler: no op is refused'
    grep -E '^X\(' compiler/graph/ops.def | sed -nE 's/^X\([A-Z0-9_]+, "([^"]*)".*/\1/p' | while IFS= read -r name; do
        grep -qxF -- "$name" "$said" ||
            echo "compiler/graph/ops.def: no test of tests/compiler/graph/ops-invalid*.mlir or rejected/ and no row of tests/ops.py refuses tessera.$name"
    done
} | report
