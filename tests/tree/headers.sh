#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every header compiles alone, twice in one file, without a warning; the public ones also as C++11.
# ROOT, then the C compiler.
. "$(dirname "$0")/common.sh"
compiler=${2:-cc}

llvm_include=$(llvm-config-22 --includedir 2>/dev/null || echo /usr/lib/llvm-22/include)
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
c_only='-std=c17 -Wstrict-prototypes -Wmissing-prototypes'

as_cxx() {
    # shellcheck disable=SC2086 # a list of flags
    printf '#include "%s"\n#include "%s"\n' "$1" "$1" |
        "$compiler" -x c++ -std=c++11 $warnings -I. -fsyntax-only - 2>&1 | grep -E 'error|warning' |
        sed "s,^<stdin>,$1,"
}

tree_files | grep -E '\.h$' | while IFS= read -r header; do
    if grep -qE '#include [<"]mlir-c/' "$header" && [ ! -d "$llvm_include/mlir-c" ]; then continue; fi
    case $header in tessera/*) as_cxx "$header" ;; esac
    # shellcheck disable=SC2086 # lists of flags
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
        "$compiler" -x c $c_only $warnings -D_GNU_SOURCE -I. -isystem "$llvm_include" \
            -fsyntax-only - 2>&1 | grep -E 'error|warning' | sed "s,^<stdin>,$header,"
done | report
