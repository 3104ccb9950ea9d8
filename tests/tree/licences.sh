#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The first line of a source (the second, after a script's #!) is its SPDX line.
. "$(dirname "$0")/common.sh"

tree_files | while IFS= read -r file; do
    line=1
    case $file in
    *.c | *.h | *.cpp | *.hpp | *.def | *.td | *.py | *.sh | meson.build | meson_options.txt) ;;
    *) case $(head -c 2 "$file" | tr -d '\0') in '#!') ;; *) continue ;; esac ;;
    esac
    case $(head -c 2 "$file") in '#!') line=2 ;; esac
    sed -n "${line}p" "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
        echo "$file:$line: no SPDX line"
done | report
