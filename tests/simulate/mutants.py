#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How many seeds the simulation needs to find each planted bug of the commit protocol.

usage: mutants.py SIMULATE_MUTANTS MUTANTS_DEF [--seconds S] [--must] [--mutant NAME]...

Takes the bugs of runtime/commit/mutants.def, or those named, one after another; for each, seeds from 1 on
until one fails, for at most S seconds (default 30). With --must, one that is not found is a failure.
"""
import argparse
import re
import sys
import time

import simulate


def read_names(path):
    with open(path, encoding="utf-8") as file:
        return re.findall(r'^X\(\w+, "([a-z0-9-]+)"', file.read(), re.M)


def hunt(program, name, seconds):
    """Returns (number of seeds tried, the violation or None)."""
    options = simulate.parse([program, "--mutant", name, "--seconds", str(seconds), "--twice", "0"])
    first = []
    totals = simulate.explore(options, lambda seed, wrong: first.append(wrong))
    return totals.seeds, first[0] if first else None


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].replace("usage: ", ""))
    parser.add_argument("program")
    parser.add_argument("table")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--must", action="store_true")
    parser.add_argument("--mutant", dest="names", action="append")
    options = parser.parse_args()
    known = read_names(options.table)
    missing = 0
    for name in options.names or known:
        if name not in known:
            raise SystemExit("there is no mutant '%s' in %s" % (name, options.table))
        start = time.monotonic()
        seeds, wrong = hunt(options.program, name, options.seconds)
        missing += wrong is None
        said = re.sub(r"/\S*/", "", wrong[0])[:100] if wrong else "not found"
        print("%-28s %4d seeds %6.1f s  %s" % (name, seeds, time.monotonic() - start, said),
              flush=True)
    print("%d of %d found" % (len(options.names or known) - missing, len(options.names or known)))
    sys.exit(1 if options.must and missing else 0)


if __name__ == "__main__":
    main()
