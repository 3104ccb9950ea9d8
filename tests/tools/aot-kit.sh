# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of tessera-aot. Arguments: TESSERA_AOT EXAMPLES. Every check is counted; the
# first failed check ends the test and prints the program's output.
set -euo pipefail
aot=$(realpath "$1") examples=$(realpath "$2")
# shellcheck disable=SC2034 # used by the tests
PYTHON=$(realpath "$(dirname "${BASH_SOURCE[0]}")")/../python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
checks=0

fail() {
    echo "FAILED: $*" >&2
    sed 's/^/  stdout: /' out >&2 || true
    sed 's/^/  stderr: /' err >&2 || true
    exit 1
}

# run CODE COMMAND...: writes stdout and stderr to the files out and err.
run() {
    local want=$1 got=0
    shift
    "$@" >out 2>err || got=$?
    [[ $got == "$want" ]] || fail "exit code $got, expected $want: $*"
    checks=$((checks + 1))
}

# has FILE PATTERN: an extended regular expression that must match a line.
has() {
    grep -Eq -- "$2" "$1" || fail "$1 lacks /$2/"
    checks=$((checks + 1))
}

# one_error: stderr ends with exactly one line of the documented form.
one_error() {
    [[ $(grep -c '^tessera-aot: error: ' err) == 1 ]] || fail "expected one error line"
    [[ $(tail -n 1 err) == "tessera-aot: error: "* ]] || fail "the error line is not the last"
    checks=$((checks + 1))
}

finish() { echo "$checks checks"; }
