#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two processes and one store.

usage: race.py TESSERA_RUN BUNDLE [--rounds N] [--pauses N] [--seed N]

together: two runs begin at the same moment. unlocked: the same, while the kernel says of every lock that
it was had (strace), so that only epochs keep them apart. paused: a run sleeps (SIGSTOP at a system
call) while another takes the store over and ends; then it wakes up, and must not commit.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import common

NO_LOCKS = "flock:retval=0:when=1+"
# Where the old run falls asleep: the calls that matter, numbers beyond those of its opening.
PAUSES = {"fsync": range(2, 50), "linkat": range(1, 10), "unlinkat": range(1, 28),
          "getdents64": range(7, 80), "pwrite64": range(2, 28), "fallocate": range(1, 10),
          "mkdirat": range(2, 10), "flock": range(1, 2)}


class Race:
    def __init__(self, bench, seed):
        self.bench, self.dice = bench, random.Random(seed)
        self.judge = common.Judge(bench)
        self.state, self.log = bench.path("state"), bench.path("log")
        self.codes = {}

    def clear(self):
        shutil.rmtree(self.state, ignore_errors=True)
        if os.path.exists(self.log):
            os.unlink(self.log)

    def start(self, rule=None, trace="trace", steps=common.LAST_STEP):
        command = self.bench.train(self.state, steps, log=self.log)
        if rule:
            command = [self.bench.strace, "-f", "-qq", "-o", self.bench.path(trace),
                       "-e", "trace=" + rule.split(":")[0], "-e", "inject=" + rule] + command
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def end(self, process):
        out, err = process.communicate(timeout=60)
        return common.Outcome(process.returncode, out, err)

    def wake(self, process, sleeper):
        """Another thread may come to its call of that number, too, and stop the process again."""
        end = time.monotonic() + 60
        while True:
            os.kill(sleeper, signal.SIGCONT)
            try:
                out, err = process.communicate(timeout=1)
                return common.Outcome(process.returncode, out, err)
            except subprocess.TimeoutExpired:
                if time.monotonic() > end:
                    raise

    def count(self, kind, outcomes):
        codes = tuple(sorted(done.code for done in outcomes))
        self.codes.setdefault(kind, {})
        self.codes[kind][codes] = self.codes[kind].get(codes, 0) + 1

    def both(self, kind, rule):
        self.clear()
        first = self.start(rule, "trace-1")
        time.sleep(self.dice.choice([0, 0, 0.002, 0.01, 0.03]))
        outcomes = [self.end(process) for process in (first, self.start(rule, "trace-2"))]
        self.count(kind, outcomes)
        wrong = ["%s: %s" % (kind, done) for done in outcomes if done.code not in (0, 11)]
        if all(done.code for done in outcomes):
            wrong.append("both were refused: %s%s" % tuple(outcomes))
        return wrong + self.judge.recover(self.state, self.log)

    def together(self):
        return self.both("together", None)

    def unlocked(self):
        return self.both("unlocked", NO_LOCKS)

    def wait_until_stopped(self, process):
        trace, end = self.bench.path("trace"), time.monotonic() + 20
        while time.monotonic() < end and process.poll() is None:
            if os.path.exists(trace):
                with open(trace, encoding="utf-8", errors="replace") as file:
                    if "stopped by SIGSTOP" in file.read():
                        return True
            time.sleep(0.002)
        return False

    def paused(self, name, number):
        """None: it had ended before it came to that call."""
        self.clear()
        if os.path.exists(self.bench.path("trace")):
            os.unlink(self.bench.path("trace"))
        old = self.start("%s:signal=STOP:when=%d" % (name, number))
        if not self.wait_until_stopped(old):
            self.end(old)
            return None
        with open("/proc/%d/task/%d/children" % (old.pid, old.pid), encoding="ascii") as file:
            sleeper = int(file.read().split()[0])
        new = self.end(self.start(NO_LOCKS, "trace-2", common.LAST_STEP + 1))
        woken = self.wake(old, sleeper)
        self.count("paused", [woken])
        wrong = []
        if new.code:
            wrong.append("the run that takes over: %s" % new)
        if woken.code not in (0, 7, 11, 16):
            wrong.append("the run that wakes up: %s" % woken)
        return wrong + self.judge.recover(self.state, self.log)


def pauses(dice, count):
    left = {name: dice.sample(numbers, len(numbers)) for name, numbers in PAUSES.items()}
    while count and left:
        for name in sorted(left):
            if count and left.get(name):
                count -= 1
                yield name, left[name].pop()
        left = {name: numbers for name, numbers in left.items() if numbers}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].replace("usage: ", ""))
    parser.add_argument("run")
    parser.add_argument("bundle")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--pauses", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    strace = common.strace_or_skip()
    failures = asleep = 0
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with common.Bench(options.run, options.bundle, folder) as bench:
        bench.strace = strace
        race = Race(bench, options.seed)

        def tell(what, wrong):
            nonlocal failures
            failures += bool(wrong)
            for text in wrong:
                print("FAILED: %s, seed %d: %s" % (what, options.seed, text))

        for _ in range(options.rounds):
            tell("together", race.together())
            tell("unlocked", race.unlocked())
        for name, number in pauses(race.dice, options.pauses):
            wrong = race.paused(name, number)
            asleep += wrong is not None
            tell("paused at %s %d" % (name, number), wrong or [])
    print("%d races with and %d without locks, %d runs woken up of %d, %d failed; exit codes %s" %
          (options.rounds, options.rounds, asleep, options.pauses, failures, race.codes))
    if asleep * 4 < options.pauses * 3:
        print("FAILED: fewer than three of four runs fell asleep")
        failures += 1
    if not any(11 in codes for codes in race.codes.get("paused", {})):
        print("FAILED: no run that woke up was refused")
        failures += 1
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
