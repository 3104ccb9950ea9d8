#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Summarizes the tests of one or more build folders, shows failures, and gives the reasons of skips.

usage: test-summary.py [--lost N] [--skips FILE] BUILD_DIR...

Reads meson-logs/testlog.json of each folder. A Criterion program counts by its test cases (its report in BUILD_DIR/criterion), lit by its
tests, anything else as one. --lost N adds N failures: builds or runs without a log. With --skips, a skipped test is a failure unless FILE
allows it (see tests/skips.txt). The last line is `N passed, N failed, N skipped`; the exit status is 0 only if something passed and nothing
failed.
"""
import argparse
import collections
import importlib.util
import json
import pathlib
import re
import shutil
import sys

Counts = collections.namedtuple("Counts", "passed failed skipped")
OUTPUT_LINES = 60
# Criterion ignores the exit status of a test's process, which reports leaks.
SANITIZER = re.compile(r"==\d+==ERROR: \w+Sanitizer")


def criterion_report(path):
    """Criterion 2.4 does not escape its messages: in that case the totals at the top are used."""
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
    """Returns lit's closing table, or None. The words are those of lit's TestingProgressDisplay."""
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


def has_level(level):
    """Returns whether the CPU has the instructions."""
    words = {"x86-64-v3": "avx2", "x86-64-v4": "avx512f", "sha": "sha_ni", "bf16": "avx512_bf16"}
    flags = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return flags is not None and words[level] in flags[1].split()


# Whether this machine meets a need of a test. A need that cannot be checked here is never met.
NEEDS = {
    "python": lambda name: importlib.util.find_spec(name) is not None,
    "program": lambda name: shutil.which(name) is not None,
    "gpu": lambda _: any(pathlib.Path("/dev").glob("nvidia[0-9]*")),
    "cpu": has_level,
    "machine": lambda _: False,
}


def read_skips(path):
    """Returns the needs of each test that may be skipped, by name: lists of (kind, argument)."""
    allowed = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        needs = [tuple((need + ":").split(":")[:2]) for need in words[1:]]
        unknown = [kind for kind, _ in needs if kind not in NEEDS]
        if not needs or unknown or words[0] in allowed:
            sys.exit(f"{path}:{number}: expected a name that is listed once and its needs, each of "
                     f"{', '.join(NEEDS)}; found '{line}'")
        allowed[words[0]] = needs
    return allowed


def wrong_skip(name, allowed):
    """Returns why the test must not be skipped here, or None. A test name of meson is `project:suite / test`."""
    test = name.rsplit(" / ", 1)[-1]
    needs = allowed.get(test)
    if needs is None:
        return "it is not in the list of tests that may be skipped"
    if all(NEEDS[kind](argument) for kind, argument in needs):
        return "this machine has what it needs: " + ", ".join(":".join(need).rstrip(":") for need in needs)
    return None


def read_log(build):
    log = build / "meson-logs" / "testlog.json"
    return [json.loads(line) for line in log.read_text().splitlines() if line.strip()]


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def summarize(build, allowed):
    """Returns the counts of one build folder; prints its failures and skips. `allowed` is None or the result of read_skips."""
    entries = read_log(build)
    # Criterion names a report after its program: two programs of the same name cannot be distinguished.
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
        if bad and counts.failed == 0:  # the program crashed, leaked or timed out outside of its cases
            counts = counts._replace(failed=1)
        if bad:
            print(f"\nFAILED {entry['name']} ({entry['result']}, exit code {entry['returncode']}, "
                  f"{build.name})")
            print("\n".join(messages + output.splitlines()[-OUTPUT_LINES:]))
        elif counts.skipped:
            why = wrong_skip(entry["name"], allowed) if allowed is not None else None
            print(f"skipped {entry['name']}: {last_line(output)}" if entry["result"] == "SKIP"
                  else f"skipped {entry['name']}: {counts.skipped} of its cases")
            if why:
                print(f"FAILED {entry['name']}: it was skipped, and {why}")
                counts = counts._replace(failed=counts.skipped, skipped=0)
        total = Counts(*(a + b for a, b in zip(total, counts)))
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lost", type=int, default=0, metavar="N")
    parser.add_argument("--skips", type=pathlib.Path, metavar="FILE")
    parser.add_argument("builds", nargs="*", type=pathlib.Path, metavar="BUILD_DIR")
    options = parser.parse_args()
    total = Counts(0, options.lost, 0)
    allowed = read_skips(options.skips) if options.skips else None
    for build in options.builds:
        total = Counts(*(a + b for a, b in zip(total, summarize(build, allowed))))
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
