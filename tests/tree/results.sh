#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# No result is dropped. Clang checks every C file: it warns about an unused tsr_result, also if a static function or a function
# pointer returned it; GCC warns only about functions with an attribute. TSR_DROP, which takes a reason, drops a result on purpose.
. "$(dirname "$0")/common.sh"

if ! command -v clang >/dev/null; then
    echo 'clang is not installed'
    exit 77
fi
includes=$(pkg-config --cflags libcjson ompi 2>/dev/null || pkg-config --cflags libcjson 2>/dev/null)
llvm_include=$(llvm-config-22 --includedir 2>/dev/null || echo /usr/lib/llvm-22/include)
{
    # shellcheck disable=SC2086 # one word each
    tree_files | grep -E '\.c$' |
        xargs -r -P "$(nproc)" -n 16 clang -fsyntax-only -std=c17 -D_GNU_SOURCE '-DTSR_VERSION_TEXT=""' -I. -isystem "$llvm_include" \
            $includes -ferror-limit=0 -fno-caret-diagnostics -Wno-everything -Wunused-result 2>&1 |
        sed -n 's/ warning: ignoring return value.*/ a result is dropped/p'
    tree_files | "$PYTHON" "$here/results.py"
} | sort -u | report
