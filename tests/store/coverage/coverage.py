#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Branch coverage of runtime/commit by the tests of the store, without the proof of pairs.

usage: coverage.py ROOT NOTES_FOLDER MISSING_MAX PROGRAM[,ARGUMENT...]...

Runs the programs, which were built with gcc --coverage, and reads gcov's output for the sources in
NOTES_FOLDER. Lines with an assertion do not count, since one of their branches is never taken.
Branches that no test takes are listed; more than MISSING_MAX of them are a failure.
"""
import json
import os
import pathlib
import subprocess
import sys

ASSERTIONS = ("TSR_ASSERT(",)


def run(programs, folder):
    for data in folder.glob("*.gcda"):
        data.unlink()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CRITERION")}
    for program in programs:
        done = subprocess.run(program.split(","), env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            sys.exit(f"{program} failed:\n{done.stdout.decode(errors='replace')[-2000:]}")


def is_assertion(text, number):
    """True if the statement on this line is an assertion."""
    for line in range(number, max(0, number - 4), -1):
        if any(word in text[line - 1] for word in ASSERTIONS):
            return True
        if line != number and text[line - 1].rstrip().endswith((";", "{", "}")):
            return False
    return False


def measure(root, notes, source):
    """Returns the number of taken branches, the number of all branches, and the lines of the
    others.
    """
    out = subprocess.run(["gcov", "-b", "--json-format", "--stdout", str(notes)], check=True,
                         capture_output=True, cwd=notes.parent, text=True).stdout
    text = (root / source).read_text(encoding="utf-8").splitlines()
    taken, total, missed = 0, 0, {}
    for file in json.loads(out.splitlines()[0])["files"]:
        if not file["file"].endswith(source):
            continue
        if max((line["line_number"] for line in file["lines"]), default=0) > len(text):
            sys.exit(f"{source} was changed after it was built")
        for line in file["lines"]:
            number = line["line_number"]
            if not line["branches"] or is_assertion(text, number):
                continue
            here = sum(branch["count"] > 0 for branch in line["branches"])
            taken += here
            total += len(line["branches"])
            if here < len(line["branches"]):
                missed[number] = f"{here} of {len(line['branches'])}: {text[number - 1].strip()}"
    return taken, total, missed


def main():
    root, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    missing_max = int(sys.argv[3])
    run(sys.argv[4:], folder)
    sources = sorted((root / "runtime/commit").glob("*.c"))
    all_taken, all_total = 0, 0
    for path in sources:
        source = f"runtime/commit/{path.name}"
        notes = [n for n in folder.glob("*.gcno") if n.name.endswith(f"commit_{path.name}.gcno")]
        if len(notes) != 1:
            sys.exit(f"{source} was not built for coverage")
        taken, total, missed = measure(root, notes[0], source)
        all_taken += taken
        all_total += total
        print(f"{source}: {taken} of {total} branches")
        for number, what in sorted(missed.items()):
            print(f"    {number}: {what}")
    print(f"runtime/commit: {all_taken} of {all_total} branches "
          f"({100 * all_taken / max(all_total, 1):.1f} %)")
    missing = all_total - all_taken
    if missing > missing_max:
        print(f"{missing} branches are not taken; tests/store/coverage/meson.build allows "
              f"{missing_max}")
    return 1 if missing > missing_max or not all_total else 0


if __name__ == "__main__":
    sys.exit(main())
