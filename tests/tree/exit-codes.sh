#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# docs/exit-codes.md has exactly the rows of tessera/codes.def; ROOT --write rewrites them.
. "$(dirname "$0")/common.sh"

document=docs/exit-codes.md
rows=$(mktemp)
trap 'rm -f "$rows" "$rows.new"' EXIT
awk '
/^X\(/ { text = "" ; open = 1 }
open { text = text $0 }
open && /\)[ \t]*$/ {
    open = 0
    number = text
    sub(/^X\([A-Z0-9_]+, */, "", number)
    sub(/,.*/, "", number)
    name = text
    sub(/^X\(/, "", name)
    sub(/,.*/, "", name)
    split(text, strings, "\"")
    printf "| %d | `%s` | %s | %s |\n", number, name, strings[2], strings[4]
}' tessera/codes.def >"$rows"
if [ ! -s "$rows" ]; then
    echo 'tessera/codes.def: no rows found'
    exit 1
fi
if [ "${2:-}" = --write ]; then
    { grep -v '^| [0-9]' "$document"; cat "$rows"; } >"$rows.new"
    cat "$rows.new" >"$document"
    exit 0
fi
grep '^| [0-9]' "$document" | diff "$rows" - | sed -n "s,^<,$document: missing:,p;s,^>,$document: extra:,p" |
    report
