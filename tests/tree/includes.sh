#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Include direction: every #include goes where includes.txt allows, is written from the root, and
# names a file there is. `.inc` is generated.
. "$(dirname "$0")/common.sh"

list=$(mktemp)
trap 'rm -f "$list"' EXIT
tree_files >"$list"
table=$here/includes.txt
[ -f tests/tree/includes.txt ] && table=tests/tree/includes.txt

c_files | xargs -r awk -v list="$list" -v table="$table" '
function owner(path,   best, i) { # the row with the longest matching folder
    best = ""
    for (i in row) if (index(path, i "/") == 1 && length(i) > length(best)) best = i
    return best
}
function allowed(from, to, path,   n, i, words) {
    if (from == to || row[from] == "*") return 1
    n = split(row[from], words, " ")
    for (i = 1; i <= n; i++) if (words[i] == to || words[i] == path) return 1
    return 0
}
function check_library(path,   name, n, i, words) {
    name = path
    sub(/[\/.].*/, "", name)
    if (!(name in library)) return
    n = split(library[name], words, " ")
    for (i = 1; i <= n; i++) if (index(FILENAME, words[i] "/") == 1) return
    print FILENAME ":" FNR ": includes " name "; only " library[name] " may"
}
function check_own(path,   from, to) {
    from = owner(FILENAME)
    to = owner(path)
    if (path ~ /\.inc$/) return
    if (!(path in exists)) {
        print FILENAME ":" FNR ": includes \"" path "\", which is no path from the root"
    } else if (from == "") {
        print FILENAME ":" FNR ": its folder has no row in includes.txt"
    } else if (!allowed(from, to, path)) {
        print FILENAME ":" FNR ": \"" from "\" may not include \"" path "\" of \"" to "\""
    }
}
BEGIN {
    while ((getline line < list) > 0) exists[line] = 1
    while ((getline line < table) > 0) {
        n = split(line, words, " ")
        if (n == 0 || line ~ /^#/) continue
        first = words[1] == "library" ? 2 : 1
        value = ""
        for (i = first + 1; i <= n; i++) value = value (value == "" ? "" : " ") words[i]
        if (first == 2) library[words[2]] = value
        else row[words[1]] = value
    }
}
/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    path = $0
    sub(/^[^<"]*[<"]/, "", path)
    sub(/[>"].*/, "", path)
    name = path
    sub(/[\/.].*/, "", name)
    if (name in library) check_library(path)
    else if ($0 ~ /include[ \t]*"/) check_own(path)
}' | report
