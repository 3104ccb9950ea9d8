#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What one more op, pass and target costs, as compiler/README.md says: rows
# below `| one more | ...`:
#   | KIND | `subject of the commit that added it` | `what it is called`, an extended regular expression | `file`, ... |
# Each file names it, and no other file of the product does; where the commit is at hand, it changed files of these
# names and no others.
. "$(dirname "$0")/common.sh"

page=compiler/README.md
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT

# fields N: what stands between backticks in column N of a row.
fields() { awk -F'|' -v n="$1" '{ print $n }' | grep -o '`[^`]*`' | tr -d '`'; }

check_row() {
    row=$1
    kind=$(printf '%s' "$row" | awk -F'|' '{ gsub(/ /, "", $2); print $2 }')
    subject=$(printf '%s' "$row" | fields 3)
    name=$(printf '%s' "$row" | fields 4)
    printf '%s' "$row" | fields 5 | sort >"$lists/said"
    while IFS= read -r file; do
        if ! [ -f "$file" ]; then
            echo "$page: $kind: $file is not there"
        elif ! grep -qiE -- "$name" "$file"; then
            echo "$page: $kind: $file does not name '$name'"
        fi
    done <"$lists/said"
    # A front end names the ops that it makes of others; one more op changes none of it.
    tree_files | grep -E '^(bundle|compiler|loader|manifests|runtime|tools)/' | grep -vE '^compiler/frontend/' | grep -vxF "$page" |
        tr '\n' '\0' | xargs -0 -r grep -liE -- "$name" | sort | comm -23 - "$lists/said" |
        sed "s|.*|$page: $kind: '&' names '$name', and is not in the row|"
    commit=
    if [ -e .git ]; then commit=$(git log --format='%H %s' 2>/dev/null | awk -v s="$subject" 'substr($0, index($0, " ") + 1) == s { print $1; exit }'); fi
    [ -n "$commit" ] || return 0
    git show --format= --name-only "$commit" | sed 's,.*/,,' | sort >"$lists/changed"
    sed 's,.*/,,' "$lists/said" | sort | comm -3 - "$lists/changed" |
        sed "s|^[[:space:]]*\(.*\)|$page: $kind: '\1' is in the row or in commit '$subject', not in both|"
}

{
    rows=0
    while IFS= read -r row; do
        check_row "$row"
        rows=$((rows + 1))
    done <<EOF
$(awk '/^\| one more \|/ { on = 1; next } !/^\|/ { on = 0 } on && !/^\|-/' "$page")
EOF
    [ "$rows" -eq 3 ] || echo "$page: $rows rows of what one more costs; expected 3"
} | report
