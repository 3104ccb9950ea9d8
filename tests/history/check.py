#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The invariants I1 to I9 of the state store, checked offline.

usage: check.py [--state-dir DIR] [--damage] [--recovery-seconds S] [--reference LOG] LOG...

LOG: event logs (tessera-run --store-log), in the order in which the runs took place. DIR is the state
directory as it was left: its names, and every byte of what was acknowledged. --damage: the medium may
have lost data, so that an alarm is no violation. --reference: log of a run that nothing disturbed.
Prints a line per violation, "I4: …", and what was checked. Exit code 0: none, 1: some, 2: bad arguments.
"""
import argparse
import os
import sys

import checker
import history
import reader


def read_history(paths):
    found = history.History()
    for path in paths:
        found.read(path)
    return found


def check(logs, state_dir=None, damage=False, recovery_seconds=60.0, reference=None):
    """What is wrong, [(invariant, text)], and the history."""
    found = read_history(logs)
    listing = reader.Listing(state_dir) if state_dir and os.path.isdir(state_dir) else None
    return checker.Checker(found, damage, recovery_seconds,
                           read_history([reference]) if reference else None,
                           listing).check(), found


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].replace("usage: ", ""))
    parser.add_argument("--state-dir")
    parser.add_argument("--damage", action="store_true")
    parser.add_argument("--recovery-seconds", type=float, default=60)
    parser.add_argument("--reference")
    parser.add_argument("logs", nargs="+")
    options = parser.parse_args()
    violations, found = check(options.logs, options.state_dir, options.damage,
                              options.recovery_seconds, options.reference)
    for invariant, text in violations:
        print("%s: %s" % (invariant, text))
    print("%d events of %d runs, %d acknowledged, %d recoveries: %d violations" %
          (len(found.events), len(found.coordinators), len(found.of("ack")), len(found.of("recover")),
           len(violations)))
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
