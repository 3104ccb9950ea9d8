#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tools/test-summary.py counts what it should: made-up logs with every kind of result, called with
# the root of the tree.
. "$(dirname "$0")/common.sh"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/b/meson-logs" "$folder/b/criterion"
log=$folder/b/meson-logs/testlog.json

# entry PROGRAM RESULT CODE STDOUT STDERR
entry() {
    printf '{"name": "t:s / %s", "result": "%s", "returncode": %s, "command": ["%s/%s"], "stdout": "%s", "stderr": "%s"}\n' \
        "$1" "$2" "$3" "$folder" "$1" "$4" "$5" >>"$log"
}

# cases PROGRAM PASSED FAILED SKIPPED: Criterion's report.
cases() {
    printf '{"passed": %s, "failed": %s, "skipped": %s, "test_suites": [{"name": "s", "tests": [
        {"name": "x", "status": "FAILED", "messages": ["x.c:1: reason"]}]}]}\n' \
        "$2" "$3" "$4" >"$folder/b/criterion/$1.json"
}

# expect WHAT STATUS LAST_LINE TEXT: TEXT stands somewhere in the output.
expect() {
    # shellcheck disable=SC2086 # an option and its value, or nothing
    "$PYTHON" tools/test-summary.py --lost "$lost" $skips "$folder/b" >"$folder/output" 2>&1
    status=$?
    if [ "$status" != "$2" ] || [ "$(tail -n 1 "$folder/output")" != "$3" ] ||
        ! grep -qF -- "$4" "$folder/output"; then
        echo "summary: '$1' should exit $2, say '$4' and end with '$3'; exits $status:"
        cat "$folder/output"
    fi
    : >"$log"
    rm -f "$folder/b/criterion"/*
}

{
    lost=0
    skips=
    entry one OK 0 '' ''
    cases two 5 0 1
    entry two OK 0 '' ''
    entry lit OK 0 'Total Discovered Tests: 9\n  Unsupported: 2 (22.22%)\n  Passed     : 7 (77.78%)' ''
    entry away SKIP 77 'NumPy is not installed' ''
    expect 'all good' 0 '13 passed, 0 failed, 4 skipped' 'skipped t:s / away: NumPy is not installed'

    cases two 4 1 0
    entry two FAIL 1 '' ''
    entry slow TIMEOUT -9 '' ''
    entry lit FAIL 1 '  Passed: 3 (75.00%)\n  Failed: 1 (25.00%)' ''
    expect 'failures' 1 '7 passed, 3 failed, 0 skipped' 's::x: x.c:1: reason'

    printf '{\n  "passed": 6,\n  "failed": 1,\n  "skipped": 2,\n  "test_suites": [{"x": "a "quote""}]}\n' \
        >"$folder/b/criterion/two.json"
    entry two FAIL 1 '' 'reason'
    expect 'a report with a quote' 1 '6 passed, 1 failed, 2 skipped' 'reason'

    cases two 4 0 0
    entry two OK 0 '' '==12==ERROR: LeakSanitizer: detected memory leaks'
    expect 'a leak in a test that passes' 1 '4 passed, 1 failed, 0 skipped' 'LeakSanitizer'

    cases two 4 0 0
    entry two FAIL 139 '' 'Segmentation fault'
    expect 'a crash apart from the cases' 1 '4 passed, 1 failed, 0 skipped' 'Segmentation fault'

    lost=1
    entry one OK 0 '' ''
    expect 'a build that failed' 1 '1 passed, 1 failed, 0 skipped' '1 failed'

    lost=0
    skips="--skips $folder/skips.txt"
    printf '# a comment\none python:no_such_module\ntwo python:json machine  # and why\n' >"$folder/skips.txt"
    entry one SKIP 77 'no_such_module is not installed' ''
    entry two SKIP 77 'another machine' ''
    entry three OK 0 '' ''
    expect 'skips that are allowed' 0 '1 passed, 0 failed, 2 skipped' 'skipped t:s / one: no_such_module'
    entry one OK 0 '' ''
    entry three SKIP 77 '' ''
    expect 'a new skip' 1 '1 passed, 1 failed, 0 skipped' 'FAILED t:s / three: it was skipped, and it is not in the list'
    cases three 5 0 2
    entry one OK 0 '' ''
    entry three OK 0 '' ''
    expect 'skipped cases' 1 '6 passed, 2 failed, 0 skipped' 'FAILED t:s / three: it was skipped, and it is not in the list'
    printf 'one python:json\n' >"$folder/skips.txt"
    entry one SKIP 77 '' ''
    entry two OK 0 '' ''
    expect 'what it needs is there' 1 '1 passed, 1 failed, 0 skipped' 'this machine has what it needs: python:json'
    printf 'one\n' >"$folder/skips.txt"
    expect 'a row without a need' 1 "$folder/skips.txt:1: expected a name that is listed once and its needs, each of python, program, gpu, cpu, machine; found 'one'" 'skips.txt:1'
    printf 'one moon:full\n' >"$folder/skips.txt"
    expect 'an unknown need' 1 "$folder/skips.txt:1: expected a name that is listed once and its needs, each of python, program, gpu, cpu, machine; found 'one moon:full'" 'skips.txt:1'
    skips=

    expect 'nothing was run' 1 '0 passed, 0 failed, 0 skipped' '0 passed'
} | report
