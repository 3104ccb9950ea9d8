#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The dependency table of README.md names every package of tools/packages.txt, each once there, with
# a purpose; README.md has at most 100 lines and shows the two commands.
. "$(dirname "$0")/common.sh"

{
    awk '
    /^#/ || NF == 0 { next }
    NF < 3 { print "tools/packages.txt:" FNR ": a row is group, package, purpose" }
    seen[$2]++ { print "tools/packages.txt:" FNR ": \"" $2 "\" stands there twice" }
    ' tools/packages.txt
    awk '!/^#/ && NF { print $2 }' tools/packages.txt | while IFS= read -r package; do
        grep -F '|' README.md | grep -qF "\`$package\`" ||
            echo "README.md: no table names the package \"$package\""
    done
    lines=$(wc -l <README.md)
    [ "$lines" -le 100 ] || echo "README.md: $lines lines; the limit is 100"
    for command in tools/demo tools/test; do
        head -n 25 README.md | grep -q "$command" || echo "README.md: $command is not near the top"
    done
} | report
