#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Functions have at most 70 lines, files at most 800. Relies on the formatting check: a definition
# begins in column 0, its opening line ends in ") {", its last line is "}" in column 0. A row
# "room FOLDER LINES" of lengths.txt limits the code of a folder: comments, blank lines and planted
# bugs (TSR_MUTANT) are not counted.
. "$(dirname "$0")/common.sh"

ratchet=$here/lengths.txt
[ -f tests/tree/lengths.txt ] && ratchet=tests/tree/lengths.txt

tree_files | grep -E '\.(c|h|cpp|hpp|td)$' | xargs -r awk -v ratchet="$ratchet" '
function judge(key, what, lines, limit) {
    seen[key] = 1
    if (key in recorded) {
        if (lines > recorded[key]) print what " grew to " lines " lines; lengths.txt has " recorded[key]
        else if (lines < recorded[key])
            print what " has " lines " lines; lengths.txt has " recorded[key] ": lower or remove the row"
    } else if (lines > limit) print what " has " lines " lines; the limit is " limit
}
function end_file() {
    if (current != "") judge("file " current, current, count, 800)
}
BEGIN {
    while ((getline line < ratchet) > 0) {
        n = split(line, words, " ")
        if (n < 3 || line ~ /^#/) continue
        if (words[1] == "room") {
            room_limit[words[2]] = words[3] + 0
            continue
        }
        key = words[1]
        for (i = 2; i < n; i++) key = key " " words[i]
        recorded[key] = words[n] + 0
    }
}
FNR == 1 {
    end_file()
    current = FILENAME
    start = 0
    inside = 0
    comment = 0
}
{ count = FNR }
{ # code, for the rooms
    code = $0
    if (comment && sub(/^.*\*\//, "", code)) comment = 0
    else if (comment) code = ""
    gsub(/\/\*[^*]*(\*[^*\/][^*]*)*\*\//, "", code)
    if (sub(/\/\*.*$/, "", code)) comment = 1
    folder = FILENAME
    sub(/\/[^\/]*$/, "", folder)
    if (code ~ /[^ \t]/ && code !~ /TSR_MUTANT/) room_lines[folder]++
}
!inside && /^[A-Za-z_]/ { # possibly the first line of a definition
    start = FNR
    head = ""
}
!inside && start { head = head " " $0 }
!inside && start && /;[ \t]*$/ { start = 0 }
!inside && start && /\) \{$/ {
    inside = 1
    name = head
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    if (name ~ /Test$/) { # Criterion: Test(suite, name)
        sub(/^ */, "", head)
        name = head
        gsub(/ /, "", name)
        sub(/,\..*|\).*/, ")", name)
    }
}
inside && /^}/ {
    judge("function " FILENAME " " name, FILENAME ": " name, FNR - start + 1, 70)
    inside = 0
    start = 0
}
END {
    end_file()
    for (room in room_limit) {
        if (!(room in room_lines)) print "lengths.txt: \"room " room "\" is not there"
        else if (room_lines[room] > room_limit[room])
            print room " has " room_lines[room] " lines of code; its limit is " room_limit[room]
    }
    for (key in recorded) if (!(key in seen)) print "lengths.txt: \"" key "\" is not there"
}' | report
