# SPDX-License-Identifier: Apache-2.0
"""Checks of a test that is a script: counted, and printed if they fail."""
import subprocess
import sys

SHOWN = 30  # failures that are printed
failures = checks = 0


def expect(what, holds, *more):
    """`more` is printed after the name of a check that fails."""
    global failures, checks
    checks += 1
    if not holds:
        failures += 1
        if failures <= SHOWN:
            print(f'FAILED: {what}', *more)


def run(folder, *words):
    """Runs a program in a folder; its output is text."""
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, errors='replace', timeout=300, check=False)


def finish(*more):
    """Prints the counts, and ends the script: with exit code 1 if a check failed."""
    print('; '.join([f'{checks} checks, {failures} failed', *more]))
    sys.exit(failures > 0)
