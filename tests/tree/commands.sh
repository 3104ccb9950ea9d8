#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The scripts of tools/ from outside: --help explains, an unknown argument is refused with code 6
# and named, packages.txt has the groups that setup knows. Called with the root of the tree.
. "$(dirname "$0")/common.sh"

{
    for script in setup demo test bench torture; do
        help=$("tools/$script" --help </dev/null) || echo "tools/$script --help: exit code $?"
        case $help in
        "usage: tools/$script"*) ;;
        *) echo "tools/$script --help: does not begin with its usage" ;;
        esac
        case $help in
        *SPDX* | *'set -euo'*) echo "tools/$script --help: shows more than its comment" ;;
        esac
        message=$("tools/$script" --no-such-flag 2>&1 </dev/null)
        status=$?
        [ "$status" = 6 ] || echo "tools/$script --no-such-flag: exit code $status, expected 6"
        case $message in
        *"'--no-such-flag'"*) ;;
        *) echo "tools/$script --no-such-flag: does not name the flag: $message" ;;
        esac
    done
    script=tools/test
    message=$("$script" --suite no-such-suite 2>&1 </dev/null)
    status=$?
    [ "$status" = 6 ] || echo "tools/test --suite no-such-suite: exit code $status, expected 6"
    case $message in
    *tree*) ;;
    *) echo "tools/test --suite no-such-suite: does not list the suites: $message" ;;
    esac
    awk '!/^#/ && NF { print $1 }' tools/packages.txt | sort -u | while IFS= read -r group; do
        sed -n 's/^ *\(build | .*\)) groups.*/\1/p' tools/setup | tr -d ' ' | tr '|' '\n' |
            grep -qx "$group" || echo "tools/setup does not know the group '$group' of packages.txt"
    done
} | report
