#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Simulated runs, and the checker's invariants on each.

usage: simulate.py SIMULATE [--first SEED] [--count N | --seconds S] [--ranks N] [--mutant NAME]
                   [--twice N] [--keep FOLDER] [--quiet]

SIMULATE is the program of this folder. Seeds from FIRST on, N of them or as many as the time allows; each
N-th one twice, whose histories must be equal byte by byte. A seed that fails is printed with what is wrong;
its history goes to FOLDER. With --mutant, a planted bug is switched on (program simulate_mutants).
Exit code 0: no violation, 1: some, 77: the program has no such mutant.
"""
import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "history"))
import check  # noqa: E402

BATCH = 8


class Totals:
    """Counts from the lines that the program prints: "12 acknowledged, …"."""
    NAMES = ("starts", "acknowledged", "operations", "messages", "lost", "killed", "disk faults")

    def __init__(self):
        self.seeds = self.failed = 0
        self.sums = dict.fromkeys(self.NAMES, 0)

    def add(self, line):
        self.seeds += 1
        counts = line.split(": ", 1)[1].split(", log ")[0]
        for part in counts.split(", "):
            number, name = part.split(" ", 1)
            self.sums[name] += int(number)

    def __str__(self):
        return "%d seeds, %s, %d failed" % (
            self.seeds, ", ".join("%d %s" % (self.sums[name], name) for name in self.NAMES),
            self.failed)


def simulate(options, first, count, folder):
    """Returns the program's [(seed, line)] and its exit code."""
    command = [options.program, "--first", str(first), "--count", str(count), "--out", folder]
    if options.ranks:
        command += ["--ranks", str(options.ranks)]
    if options.mutant:
        command += ["--mutant", options.mutant]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False, timeout=600)
    lines = [(int(line.split()[1]), line) for line in done.stdout.splitlines()
             if line.startswith("seed ")]
    return lines, done


def judge(folder, seed, line):
    """Returns the violation of a seed."""
    wrong = []
    if "FAILED: " in line:
        wrong.append("world: " + line.partition("FAILED: ")[2])
    violations, _ = check.check([os.path.join(folder, "%d.log" % seed)],
                                os.path.join(folder, str(seed), "s"))
    return wrong + ["%s: %s" % violation for violation in violations]


def run_batch(options, first, count, totals, found):
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        lines, done = simulate(options, first, count, folder)
        for seed, line in lines:
            totals.add(line)
            wrong = judge(folder, seed, line)
            if options.twice and seed % options.twice == 0:
                wrong += compare_twice(options, seed, folder)
            if wrong:
                found(seed, wrong, folder)
        if len(lines) < count:  # a crash: it belongs to the seed after the last line
            text = "exit code %d: %s" % (done.returncode, done.stderr.strip()[-400:])
            if done.returncode == 77:
                print(done.stderr.strip())
                sys.exit(77)
            totals.seeds += 1
            found(first + len(lines), [text], folder)
            if first + len(lines) + 1 < first + count:
                run_batch(options, first + len(lines) + 1, count - len(lines) - 1, totals, found)


def compare_twice(options, seed, folder):
    with tempfile.TemporaryDirectory(dir=options.scratch) as again:
        simulate(options, seed, 1, again)
        name = "%d.log" % seed
        same = filecmp.cmp(os.path.join(folder, name), os.path.join(again, name), shallow=False)
    return [] if same else ["the seed run twice gave two histories"]


def explore(options, found):
    """Runs seeds until the time or the count is reached; returns the totals."""
    totals = Totals()

    def tell(seed, wrong, folder):
        totals.failed += 1
        if options.keep:
            os.makedirs(options.keep, exist_ok=True)
            log = os.path.join(folder, "%d.log" % seed)
            if os.path.exists(log):
                shutil.copy(log, options.keep)
        found(seed, wrong)

    end = time.monotonic() + options.seconds if options.seconds else None
    seed = options.first
    last = options.first + options.count if options.count else None
    while (end is None or time.monotonic() < end) and (last is None or seed < last):
        batch = 1 if options.mutant else BATCH
        count = min(batch, last - seed) if last else batch
        run_batch(options, seed, count, totals, tell)
        seed += count
        if options.mutant and totals.failed:
            break
    return totals


def parse(arguments=None):
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].replace("usage: ", ""))
    parser.add_argument("program")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--mutant")
    parser.add_argument("--twice", type=int, default=16)
    parser.add_argument("--keep")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args(arguments)
    options.scratch = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    if not options.count and not options.seconds:
        options.count = 1
    return options


def main():
    options = parse()

    def found(seed, wrong):
        print("FAILED: --first %d" % seed)
        for text in wrong[:4 if options.quiet else 20]:
            print("    " + text)

    totals = explore(options, found)
    print(totals)
    sys.exit(1 if totals.failed else 0)


if __name__ == "__main__":
    main()
