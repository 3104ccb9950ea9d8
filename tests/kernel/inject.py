#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The state store on the real kernel, one system call at a time.

usage: inject.py TESSERA_RUN BUNDLE --fs tmpfs|ext4 [--folder DIR] [--seconds S | --all] [--seed N]
                 [--only SCENARIO:CALL:FAULT:N]

A census under strace lists every system call that a scenario makes on its state directory. Then,
for one after another of them, strace makes that call fail, lie or be the process's last; undisturbed
runs recover, and what was acknowledged must be there, whole, with the bits of an undisturbed run.
--all tries every call with every fault; --seconds takes them in an order decided by the seed until the
time is up, each pair of call and fault once before any twice.
"""
import argparse
import os
import random
import shutil
import signal
import sys
import time

import common

EVERY = ["signal=KILL", "error=EIO", "error=EIO+"]  # "+": this call and all after it
READS = ["error=EINTR", "retval=0", "retval=1"]
# What else may happen to one of the calls; a retval is returned without the call being made.
FAULTS = {
    "openat": ["error=EMFILE", "error=EACCES", "error=ENOSPC", "error=EINTR"],
    "pwrite64": ["error=ENOSPC", "error=ENOSPC+", "error=EDQUOT", "error=EINTR", "retval=0",
                 "retval=1", "retval=511", "retval=512", "retval=4095"],
    "fallocate": ["error=ENOSPC", "error=ENOSPC+", "error=EOPNOTSUPP+", "error=EINTR"],
    "fsync": ["error=ENOSPC", "error=EDQUOT", "error=EROFS+"],
    "linkat": ["error=EEXIST", "error=EMLINK", "error=ENOSPC", "error=EPERM+"],
    "unlinkat": ["error=EBUSY", "error=EROFS+"],
    "mkdirat": ["error=ENOSPC", "error=EEXIST", "error=EDQUOT"],
    "close": ["error=EINTR", "error=ENOSPC"],
    "getdents64": ["error=ENOMEM", "error=EACCES+"],
    "pread64": READS,
    "newfstatat": ["error=ENOMEM"],
    "flock": ["error=EAGAIN", "error=ENOLCK", "error=EINTR"],
    "ftruncate": [],
    "fadvise64": ["error=EINVAL+"],
    "fstatfs": ["error=ENOSYS"],
}
# The protocol cannot do without these; a census that lacks one looks at the wrong names.
NEEDED = {"openat", "pwrite64", "fallocate", "fsync", "linkat", "unlinkat", "mkdirat", "close",
          "getdents64", "pread64", "flock"}


def prepare_fresh(bench, state, log):
    del bench, state, log


def prepare_resume(bench, state, log):
    """Three generations, a save that was cut off, a record that was not published."""
    bench.run(bench.train(state, 3, log, ["--keep", "3"]))
    os.mkdir(os.path.join(state, "gen", "1-9"))
    for name in ("gen/1-9/segment.0", "TEMP.1.77.99", "stray"):
        with open(os.path.join(state, name), "wb") as file:
            file.write(b"unfinished")


def prepare_prune(bench, state, log):
    bench.run(bench.train(state, 5, log, ["--keep", "5"]))


def train(bench, state, log):
    return bench.train(state, log=log)


def prune(bench, state, log):
    del log  # prune keeps none
    return [bench.tool, "prune", state, "--keep", "2"]


SCENARIOS = {
    "fresh": (prepare_fresh, train),
    "resume": (prepare_resume, train),
    "prune": (prepare_prune, prune),
}


def census(bench, scenario):
    """{call: the numbers n for which the first n-th call of any thread is on the state directory}"""
    prepare, command = SCENARIOS[scenario]
    state, log = bench.path("census"), bench.path("census.log")
    prepare(bench, state, log)
    done = bench.traced(command(bench, state, log), list(FAULTS))
    shutil.rmtree(state)
    if os.path.exists(log):
        os.unlink(log)
    if done.code:
        raise SystemExit("the census of '%s' fails: %s" % (scenario, done))
    first = {}
    for call in done.calls:
        first.setdefault((call.name, call.number), state in call.text)
    numbers = {}
    for (name, number), ours in first.items():
        if ours:
            numbers.setdefault(name, []).append(number)
    return numbers


def list_cases(bench):
    cases = {}
    for scenario in SCENARIOS:
        for name, numbers in census(bench, scenario).items():
            for fault in EVERY + FAULTS[name]:
                cases[scenario, name, fault] = numbers
    missing = NEEDED - {name for _, name, _ in cases}
    if missing:
        raise SystemExit("the store made no call of " + ", ".join(sorted(missing)))
    return cases


def in_order(cases, seed):
    """Round after round one number of each kind, shuffled, until there are none left."""
    order = random.Random(seed)
    left = {key: order.sample(numbers, len(numbers)) for key, numbers in sorted(cases.items())}
    while left:
        keys = sorted(left)
        order.shuffle(keys)
        for key in keys:
            yield (*key, left[key].pop())
            if not left[key]:
                del left[key]


class Injection:
    def __init__(self, bench):
        self.bench = bench
        self.judge = common.Judge(bench)
        self.templates = {}
        for scenario, (prepare, _) in SCENARIOS.items():
            self.templates[scenario] = bench.path("template-" + scenario)
            prepare(bench, self.templates[scenario], self.templates[scenario] + ".log")
        self.tried = self.reached = self.killed = 0
        self.codes = {}

    def try_one(self, scenario, name, fault, number):
        state, log = self.bench.path("state"), self.bench.path("log")
        shutil.rmtree(state, ignore_errors=True)
        if os.path.exists(log):
            os.unlink(log)
        if os.path.exists(self.templates[scenario]):
            shutil.copytree(self.templates[scenario], state)
            shutil.copy(self.templates[scenario] + ".log", log)
        persistent = fault.endswith("+")
        rule = "%s:%s:when=%d%s" % (name, fault.rstrip("+"), number, "+" if persistent else "")
        command = SCENARIOS[scenario][1](self.bench, state, log)
        done = self.bench.traced(command, [name], rule)
        kill, lies = "KILL" in fault, "retval" in fault
        wrong = []
        self.tried += 1
        if kill:
            self.reached += done.code == common.KILLED
            self.killed += done.code == common.KILLED
        else:
            self.reached += any(call.injected for call in done.calls)
        if done.code not in common.CODES and not (kill and done.code == common.KILLED):
            wrong.append("the disturbed run: %s" % done)
        if fault == "error=EINTR" and name not in ("close", "openat") and done.code:
            wrong.append("an interrupted call is not made again: %s" % done)
        self.codes[done.code] = self.codes.get(done.code, 0) + 1
        return wrong + self.judge.recover(state, log, lies, complete=scenario != "prune",
                                          unreadable=persistent)


def report_failure(case, wrong):
    print("FAILED: --only " + ":".join(map(str, case)))
    for text in wrong:
        print("    " + text.strip().replace("\n", "\n    "))


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].replace("usage: ", ""))
    parser.add_argument("run")
    parser.add_argument("bundle")
    parser.add_argument("--fs", required=True)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    return parser.parse_args()


def main():
    options = parse()
    folder = options.folder or ("/dev/shm" if options.fs == "tmpfs" else os.getcwd())
    if not os.path.isdir(folder) or common.file_system(folder) != options.fs:
        kind = common.file_system(folder) if os.path.isdir(folder) else "absent"
        common.skip("%s is %s; %s is needed" % (folder, kind, options.fs))
    strace = common.strace_or_skip()
    failures, stopped = 0, []
    with common.Bench(options.run, options.bundle, folder) as bench:
        bench.strace = strace
        cases = list_cases(bench)
        total = sum(map(len, cases.values()))
        injection = Injection(bench)
        if options.only:
            scenario, name, fault, number = options.only.split(":")
            chosen = iter([(scenario, name, fault, int(number))])
        else:
            chosen = in_order(cases, options.seed)
        end = time.monotonic() + options.seconds
        signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
        for case in chosen:
            if stopped:
                break
            if not options.all and not options.only and time.monotonic() > end:
                break
            wrong = injection.try_one(*case)
            if wrong:
                failures += 1
                report_failure(case, wrong)
    print("exit codes of the disturbed runs:", dict(sorted(injection.codes.items())))
    print("%s: %d of %d faults tried, %d reached, %d processes killed, %d failed, seed %d" %
          (options.fs, injection.tried, total, injection.reached, injection.killed, failures,
           options.seed))
    if injection.reached * 10 < injection.tried * 9:
        print("FAILED: fewer than nine of ten faults were reached")
        failures += 1
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
