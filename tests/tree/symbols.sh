#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# symbols.sh ROOT [ARCHIVE...]: no name is defined by two object files of the archives (without any:
# of those in the tree). A program that links two libraries would get the one that comes first. Weak
# definitions are meant to be shared; names with a dot or two underscores are the compiler's.
tree=$1
if [ $# -gt 1 ]; then
    shift
    archives=$(realpath -e "$@") || exit 1
else
    archives=$(find "$(realpath "$tree")" -name '*.a')
fi
set -- "$tree"
. "$(dirname "$0")/common.sh"

command -v nm >/dev/null || exit 77
names=$(mktemp)
trap 'rm -f "$names"' EXIT
# shellcheck disable=SC2086 # file names of a build folder have no blanks
nm -A -P -g --defined-only $archives | awk '
{
    file = $1
    sub(/:$/, "", file)
    gsub(/[^[]*\//, "", file)
}
$3 ~ /^[TDBRCGS]$/ && $2 !~ /\.|^__/ { print $2, file }' | sort >"$names"
if [ ! -s "$names" ]; then
    echo 'symbols.sh: no archive defines a name'
    exit 1
fi
awk '$1 == name { print name ": defined by " file " and " $2 } { name = $1; file = $2 }' "$names" | report
