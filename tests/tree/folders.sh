#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every folder has a README.md whose table `| file | ... |` names each of its files and nothing that
# is not there. A cell may hold several names and globs (`arena.[ch]`). A folder without sources may
# do without, if its parent names it (`refused/`). README.md and meson.build need no row; the
# root's table (`| folder | ... |`) names the folders only.
. "$(dirname "$0")/common.sh"

tree_files | grep -vE '(^|/)\.' | awk '
function to_regex(glob,   i, c, out) {
    out = "^"
    for (i = 1; i <= length(glob); i++) {
        c = substr(glob, i, 1)
        if (c == "*") out = out "[^/]*"
        else if (c == "?") out = out "[^/]"
        else if (c ~ /[.+(){}|^$\\]/) out = out "\\" c
        else out = out c
    }
    return out "$"
}
function parent(path) { return match(path, /\/[^\/]*$/) ? substr(path, 1, RSTART - 1) : "." }
function base(path) { sub(/.*\//, "", path); return path }
# rows[folder, 1..row_count[folder]] are the names its README gives.
function read_rows(folder,   path, line, cell, link, table, n, i, words) {
    path = folder == "." ? "README.md" : folder "/README.md"
    table = 0
    while ((getline line < path) > 0) {
        if (line !~ /^\|/) { table = 0; continue }
        split(line, words, "|")
        cell = words[2]
        gsub(/`/, "", cell)
        while (match(cell, /\[[^]]*\]\([^)]*\)/)) { # a link: its text
            link = substr(cell, RSTART + 1, RLENGTH - 2)
            sub(/\]\(.*/, "", link)
            cell = substr(cell, 1, RSTART - 1) link substr(cell, RSTART + RLENGTH)
        }
        if (cell ~ /^ *(file|folder|file or folder) *$/) { table = 1; continue }
        if (!table || cell ~ /^ *:?-+:? *$/) continue
        n = split(cell, words, /[ ,]+|·/)
        for (i = 1; i <= n; i++) if (words[i] != "") rows[folder, ++row_count[folder]] = words[i]
    }
    close(path)
}
# Whether the nearest README above names the folder, or one that holds it.
function is_named(folder,   up, i) {
    if (folder == ".") return 0
    up = parent(folder)
    for (i = 1; i <= row_count[up]; i++) if (rows[up, i] == base(folder) "/") return 1
    return !(up in has_readme) && is_named(up)
}
{
    files[++file_count] = $0
    folder = parent($0)
    if (base($0) == "README.md") has_readme[folder] = 1
    if ($0 ~ /\.(c|h|cpp|td|def)$/) has_source[folder] = 1
    for (; !(folder in known); folder = parent(folder)) {
        known[folder] = 1
        if (folder == ".") break
    }
}
END {
    for (folder in known) read_rows(folder)
    for (folder in known) {
        up = parent(folder)
        if (folder == ".") continue
        if (up == "." && !is_named(folder)) print "README.md: no row for the folder \"" folder "/\""
        if (folder in has_readme) continue
        covered[folder] = 1
        if (folder in has_source) print folder ": no README.md"
        else if (!is_named(folder)) print folder ": no README.md, and no row in that of the parent"
    }
    for (f = 1; f <= file_count; f++) {
        folder = parent(files[f])
        name = base(files[f])
        found = 0
        for (i = 1; i <= row_count[folder]; i++) {
            if (name ~ to_regex(rows[folder, i])) { used[folder, i] = 1; found = 1 }
        }
        if (found || folder == "." || folder in covered) continue
        if (name == "README.md" || name == "meson.build") continue
        print folder "/README.md: no row for the file \"" name "\""
    }
    for (folder in known) for (i = 1; i <= row_count[folder]; i++) {
        path = rows[folder, i]
        if (path ~ /\/$/) {
            sub(/\/$/, "", path)
            if ((folder == "." ? path : folder "/" path) in known) used[folder, i] = 1
        }
        if (!((folder, i) in used))
            print folder "/README.md: the row \"" rows[folder, i] "\" names nothing there is"
    }
}' | sort | report
