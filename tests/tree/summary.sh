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
    printf '{"name": "t:%s", "result": "%s", "returncode": %s, "command": ["%s/%s"], "stdout": "%s", "stderr": "%s"}\n' \
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
    python3 tools/test-summary.py --lost "$lost" "$folder/b" >"$folder/output" 2>&1
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
    entry one OK 0 '' ''
    cases two 5 0 1
    entry two OK 0 '' ''
    entry lit OK 0 'Total Discovered Tests: 9\n  Unsupported: 2 (22.22%)\n  Passed     : 7 (77.78%)' ''
    entry away SKIP 77 'NumPy is not installed' ''
    expect 'all good' 0 '13 passed, 0 failed, 4 skipped' 'skipped t:away: NumPy is not installed'

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
    expect 'nothing was run' 1 '0 passed, 0 failed, 0 skipped' '0 passed'
} | report
