# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts in this folder. Arguments: tessera-run, tessera-aot, digits.tsb, source root.
set -u
# Under nohup, SIGHUP is ignored, also by everything that a test starts.
if grep -q '^SigIgn:.*[13579bdf]$' /proc/$$/status; then exec env --default-signal=HUP bash "$0" "$@"; fi
RUN=$(realpath "$1") AOT=$(realpath "$2") BUNDLE=$(realpath "$3") ROOT=$(realpath "$4")
DIGITS=$ROOT/examples/digits
# shellcheck disable=SC2034 # used by the scripts
PYTHON=$ROOT/tests/python
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cd "$WORK" || exit 99
failures=0
checks=0

DATA=(--data "images=$DIGITS/train-images.npy" --data "labels=$DIGITS/train-labels.npy")
TEST_DATA=(--data "test_images=$DIGITS/test-images.npy" --data "test_labels=$DIGITS/test-labels.npy")

fail() {
    failures=$((failures + 1))
    echo "FAILED: $1"
    sed 's/^/    /' "$WORK/.out" "$WORK/.err" 2>/dev/null
}

# expect WHAT CODE REGEX COMMAND…: requires the exit code, and a match of the regex in the output. An error must be
# one line.
expect() {
    local what=$1 code=$2 regex=$3 got
    shift 3
    checks=$((checks + 1))
    "$@" >.out 2>.err </dev/null
    got=$?
    if [ "$got" -ne "$code" ]; then
        fail "$what: exit code $got; expected $code"
    elif ! cat .out .err | grep -Eq -- "$regex"; then
        fail "$what: no line matches '$regex'"
    elif [ "$code" -ne 0 ] && ! tail -n 1 .err | grep -q '^tessera-[a-z]*: error: '; then
        fail "$what: expected a last line that tells the error"
    fi
}

# holds WHAT COMMAND…: the command, which checks the output of an earlier command, must succeed.
holds() {
    local what=$1
    shift
    checks=$((checks + 1))
    "$@" || fail "$what"
}

# check WHAT COMMAND…: the command must succeed.
check() {
    local what=$1
    shift
    checks=$((checks + 1))
    "$@" >.out 2>.err </dev/null || fail "$what"
}

# unprivileged COMMAND…: file permissions apply to it, also if this runs as root. can_deny: true if that is
# possible.
# shellcheck disable=SC2034 # read by the scripts
can_deny=true
limits=(setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override,-dac_read_search)
[ "$(id -u)" -ne 0 ] && limits=()
unprivileged() { "${limits[@]}" "$@"; }
[ ${#limits[@]} -eq 0 ] || "${limits[@]}" true 2>/dev/null || can_deny=false
skips=0
skip() {
    skips=$((skips + 1))
    echo "skipped: $1"
}

# mpi_job ARGUMENTS…: mpirun in the foreground. Open MPI's launcher crashes at times when ranks end a job at once: a signal in its show_help.c or in the PMIx
# server, after the ranks have reported. The job is then started again. If a rank was killed by a signal, the launcher lives and names the rank.
mpi_job() {
    local code=139 tries
    for ((tries = 0; tries < 5; tries++)); do
        code=0
        mpirun "$@" 2>.mpirun.err || code=$?
        [ "$code" -ge 128 ] && ! grep -q 'mpirun noticed that process rank' .mpirun.err &&
            grep -Eq 'show_help\.c|Process received signal' .mpirun.err || break
    done
    cat .mpirun.err >&2
    return "$code"
}

state_of() { sed -n 's/^state \([0-9a-f]*\) .*/\1/p' "$1"; }

finish() {
    echo "$checks checks, $failures failed, $skips skipped"
    [ "$checks" -gt 0 ] && [ "$failures" -eq 0 ]
    exit
}
