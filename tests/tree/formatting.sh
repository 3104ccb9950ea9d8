#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every C and C++ file is as clang-format 14 writes it; every text file ends in a newline and has no
# blanks at the end of a line.
. "$(dirname "$0")/common.sh"

if ! command -v clang-format >/dev/null; then
    echo 'clang-format is not installed'
    exit 77
fi
case $(clang-format --version) in
*'version 14.'*) ;;
*)
    echo "the tree is formatted by clang-format 14; here is $(clang-format --version)"
    exit 77
    ;;
esac
{
    tree_files | grep -E '\.(c|h|cpp|hpp)$' | while IFS= read -r file; do
        clang-format --dry-run -Werror "$file" >/dev/null 2>&1 || echo "$file: not clang-formatted"
    done
    tree_files | grep -E '\.(c|h|cpp|hpp|def|td|py|sh|md|build|txt|mlir)$' |
        xargs -r grep -nIE '[[:blank:]]+$' -- /dev/null | sed 's/$/<- blanks at the end/'
    tree_files | grep -E '\.(c|h|cpp|hpp|def|td|py|sh|md|build|txt|mlir)$' |
        while IFS= read -r file; do
            if [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ]; then
                echo "$file: does not end in a newline"
            fi
        done
} | report
