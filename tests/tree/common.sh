# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# Shared by the checks. A check is called with the root of a tree, prints one line per violation
# (path: what is wrong, both values) and exits 1 if there was any, 77 if its tool is not installed.

LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck disable=SC2034 # used by the checks
readonly here
# shellcheck disable=SC2034 # used by the checks
readonly PYTHON="$(dirname "$here")/python"

if [ $# -lt 1 ] || [ ! -d "$1" ]; then
    echo "usage: $0 ROOT" >&2
    exit 6
fi
cd "$1" || exit 7

# Every file of the tree, without what git ignores; outside a repository without build folders.
tree_files() {
    if [ -e .git ] && git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files -co --exclude-standard
    else
        find . -type f ! -path './.git/*' ! -path './build*/*' | sed 's,^\./,,'
    fi | sort | while IFS= read -r file; do
        if [ -f "$file" ]; then printf '%s\n' "$file"; fi
    done
}

c_files() { tree_files | grep -E '\.(c|h|cpp|hpp|def)$'; }

# Ends a check: its violations come on standard input.
report() {
    if grep .; then exit 1; fi
    exit 0
}
