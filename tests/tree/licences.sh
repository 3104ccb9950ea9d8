#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The first line of a source (the second, after a script's #!) is its SPDX line.
. "$(dirname "$0")/common.sh"

tree_files | xargs -r awk '
    function is_source(name) {
        return name ~ /\.(c|h|cpp|hpp|def|td|py|sh)$/ || name ~ /(^|\/)meson(\.build|_options\.txt)$/
    }
    FNR == 1 {
        line[FILENAME] = /^#!/ ? 2 : is_source(FILENAME) ? 1 : 0
    }
    FNR == line[FILENAME] && /SPDX-License-Identifier: Apache-2.0/ { has[FILENAME] = 1 }
    FNR >= line[FILENAME] { nextfile }
    END {
        for (i = 1; i < ARGC; i++) {
            name = ARGV[i]
            if (!(name in line) && is_source(name)) line[name] = 1 # empty
            if (line[name] && !has[name]) print name ":" line[name] ": no SPDX line"
        }
    }' | report
