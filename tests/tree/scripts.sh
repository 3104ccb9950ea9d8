#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# There is nothing that shellcheck finds in the shell scripts (but for the dollars of awk programs, and
# functions called by a computed name); whatever begins with #! is executable.
. "$(dirname "$0")/common.sh"

if ! command -v shellcheck >/dev/null; then
    echo 'shellcheck is not installed'
    exit 77
fi
list=$(mktemp)
trap 'rm -f "$list"' EXIT
tree_files | while IFS= read -r file; do
    case $(head -n 1 "$file" | tr -d '\0') in
    '#!'*)
        [ -x "$file" ] || echo "$file: not executable"
        if head -n 1 "$file" | grep -qE '\b(ba|da)?sh$'; then echo "$file" >>"$list"; fi
        ;;
    esac
done >"$list.mode"
{
    cat "$list.mode"
    rm -f "$list.mode"
    xargs -r shellcheck -x --source-path=SCRIPTDIR --source-path=. --exclude=SC2016,SC2317 \
        --format=gcc <"$list"
} | report
