#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests that checks.md names exist, and every row names one.
# usage: checks.sh FOLDER
set -eu
cd "$1"
rows=0 tests=0
while IFS= read -r line; do
    case $line in '|---'* | '| check '*) continue ;; '|'*) ;; *) continue ;; esac
    column=$(printf '%s\n' "$line" | sed 's/ *|$//; s/.*| *//')
    rows=$((rows + 1))
    [ -n "$column" ] || { echo "no test: $line" && exit 1; }
    names=$(printf '%s\n' "$column" | tr ',' '\n' | sed 's/^ *//')
    while IFS= read -r name; do
        file=${name%% *} test=${name#* }
        grep -Eq "^Test\([a-z_]+, ${test}[,)]" "$file" || { echo "$file has no test '$test'" && exit 1; }
        tests=$((tests + 1))
    done <<END
$names
END
done <checks.md
[ "$rows" -ge 30 ] || { echo "$rows rows" && exit 1; }
echo "$rows checks, $tests tests"
