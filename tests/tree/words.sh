#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Nothing unfinished in the sources (words.txt), and no path of somebody's machine in any file.
. "$(dirname "$0")/common.sh"

{
    tree_files | grep -E '\.(c|h|cpp|hpp|def|td|py|sh)$' |
        xargs -r grep -nIEf "$here/words.txt" -- /dev/null | sed 's/$/   <- unfinished/'
    # A folder under / that belongs to a person or to one machine, with a name below it.
    tree_files | xargs -r grep -nIE \
        '(^|[^A-Za-z0-9_.~}/-])/(home|Users|root|work|workspace)/[A-Za-z0-9_.]+' -- /dev/null |
        sed 's/$/   <- path of a machine/'
} | report
