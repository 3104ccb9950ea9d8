#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up the tests of one or more build folders, shows what failed, says why something was skipped.

usage: test-summary.py [--lost N] BUILD_DIR...

Reads meson-logs/testlog.json of each folder. A Criterion program counts by its test cases (its
report in BUILD_DIR/criterion), lit by its tests, anything else as one. --lost N adds N failures:
builds or runs that left no log. The last line is `N passed, N failed, N skipped`; the exit status
is 0 only when something passed and nothing failed.
"""
import argparse
import collections
import json
import pathlib
import re
import sys

Counts = collections.namedtuple("Counts", "passed failed skipped")
OUTPUT_LINES = 60
# Criterion does not look at how a test's process exits, where leaks are reported.
SANITIZER = re.compile(r"==\d+==ERROR: \w+Sanitizer")


def criterion_report(path):
    """Criterion 2.4 does not escape its messages: then the totals at the top must do."""
    text = path.read_text(errors="replace")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        totals = {word: int(number) for word, number in
                  re.findall(r'^  "(passed|failed|skipped)": (\d+)', text, re.M)}
        return {**totals, "test_suites": []}


def criterion_counts(report):
    return Counts(report["passed"], report["failed"], report["skipped"])


def criterion_failures(report):
    for suite in report["test_suites"]:
        for case in suite["tests"]:
            if case["status"] in ("FAILED", "ERRORED"):
                for message in case.get("messages", []) or ["failed"]:
                    yield f"{suite['name']}::{case['name']}: {message}"


def lit_counts(output):
    """lit's closing table, or None. Words as in lit's TestingProgressDisplay."""
    found = collections.Counter()
    for word, number in re.findall(r"^\s*([A-Z][A-Za-z ]+?)\s*:\s*(\d+) \(\d", output, re.M):
        found[word] += int(number)
    if not found:
        return None
    return Counts(found["Passed"] + found["Expectedly Failed"] + found["Passed With Retry"],
                  found["Failed"] + found["Unexpectedly Passed"] + found["Unresolved"]
                  + found["Timed Out"],
                  found["Unsupported"] + found["Skipped"] + found["Excluded"])


def exit_counts(result):
    if result in ("OK", "EXPECTEDFAIL"):
        return Counts(1, 0, 0)
    return Counts(0, 0, 1) if result == "SKIP" else Counts(0, 1, 0)


def read_log(build):
    log = build / "meson-logs" / "testlog.json"
    return [json.loads(line) for line in log.read_text().splitlines() if line.strip()]


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def summarize(build):
    """Counts of one build folder; prints its failures and skips."""
    entries = read_log(build)
    # Criterion names a report after its program: two of one name cannot be told apart.
    programs = collections.Counter(pathlib.Path(entry["command"][0]).name for entry in entries)
    total = Counts(0, 0, 0)
    for entry in entries:
        output = (entry.get("stdout") or "") + (entry.get("stderr") or "")
        program = pathlib.Path(entry["command"][0]).name
        path = build / "criterion" / (program + ".json")
        counts = exit_counts(entry["result"])
        messages = []
        if path.exists() and programs[program] == 1:
            report = criterion_report(path)
            counts = criterion_counts(report)
            messages = list(criterion_failures(report))
        elif entry["result"] != "SKIP":
            counts = lit_counts(output) or counts
        bad = (entry["result"] not in ("OK", "EXPECTEDFAIL", "SKIP")
               or SANITIZER.search(output) is not None)
        if bad and counts.failed == 0:  # crashed, leaked or ran out of time apart from its cases
            counts = counts._replace(failed=1)
        if bad:
            print(f"\nFAILED {entry['name']} ({entry['result']}, exit code {entry['returncode']}, "
                  f"{build.name})")
            print("\n".join(messages + output.splitlines()[-OUTPUT_LINES:]))
        elif entry["result"] == "SKIP":
            print(f"skipped {entry['name']}: {last_line(output)}")
        total = Counts(*(a + b for a, b in zip(total, counts)))
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lost", type=int, default=0, metavar="N")
    parser.add_argument("builds", nargs="*", type=pathlib.Path, metavar="BUILD_DIR")
    options = parser.parse_args()
    total = Counts(0, options.lost, 0)
    for build in options.builds:
        total = Counts(*(a + b for a, b in zip(total, summarize(build))))
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
