#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The digits' training, killed at random moments and resumed until it is done.

usage: resume.py TESSERA_RUN DIGITS_BUNDLE SOURCE_ROOT [--seconds S | --rounds N] [--seed N] [--folder DIR]

A round trains to a step decided by its seed, saves as often as that decides, and is killed (SIGKILL)
until it gets there. It must end with the state hash of a run to that step that nobody disturbed, and
its event log must satisfy the checker. Prints the seed of each failing round.
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import common

LIVES_MAX = 25  # then it runs to its end


class Training:
    def __init__(self, options, folder):
        self.folder, self.tool = folder, os.path.realpath(options.run)
        digits = os.path.join(os.path.realpath(options.root), "examples", "digits")
        self.command = [self.tool, os.path.realpath(options.bundle), "--quiet"]
        for name in ("images", "labels"):
            self.command += ["--data", "%s=%s" % (name, os.path.join(digits, "train-%s.npy" % name))]
        self.kills = self.lives = self.saves = 0
        self.whole = {}  # by step: the state hash of an undisturbed run
        self.speed = self._measure()  # steps a second

    def run(self, *arguments):
        done = subprocess.run([*self.command, *arguments], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                              check=False)
        return common.Outcome(done.returncode, done.stdout, done.stderr)

    def _measure(self):
        start = time.monotonic()
        done = self.run("--steps", "500")
        if done.code:
            raise SystemExit("an undisturbed run fails: %s" % done)
        return 500 / (time.monotonic() - start)

    def undisturbed(self, step):
        if step not in self.whole:
            done = self.run("--steps", str(step))
            self.whole[step] = done.state if not done.code else "none: %s" % done
        return self.whole[step]

    def kill_once(self, arguments, delay):
        """True: it was killed; else how it ended."""
        process = subprocess.Popen([*self.command, *arguments], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lives += 1
        try:
            out, err = process.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            if process.returncode == common.KILLED:
                self.kills += 1
                return None
        return common.Outcome(process.returncode, out, err)

    def round(self, seed):
        """What is wrong with the round of this seed."""
        dice = random.Random(seed)
        state, log = os.path.join(self.folder, "state"), os.path.join(self.folder, "log")
        goal = dice.choice([1000, 2000, 3000])
        arguments = ["--steps", str(goal), "--save-every", str(dice.choice([1, 2, 5, 20, 100])),
                     "--keep", str(dice.choice([2, 2, 3, 5])), "--state-dir", state,
                     "--store-log", log]
        # Short lives see the opening, longer ones the saves; it gets ahead now and then.
        longest = dice.choice([0.02, 0.1, 0.4]) + 500 / self.speed
        done = None
        for _ in range(LIVES_MAX):
            done = self.kill_once(arguments, dice.uniform(0, longest))
            if done:
                break
        if done is None:
            done = self.run(*arguments)
        wrong = []
        if done.code or done.state != self.undisturbed(goal):
            wrong.append("step %d: %s; undisturbed %s" % (goal, done, self.undisturbed(goal)))
        if "is damaged" in done.err:
            wrong.append("an alarm without damage: %s" % done.err)
        violations, history = common.check.check([log], state)
        self.saves += len(history.of("ack"))
        shutil.rmtree(state)
        os.unlink(log)
        return wrong + ["%s: %s" % violation for violation in violations]


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].replace("usage: ", ""))
    parser.add_argument("run")
    parser.add_argument("bundle")
    parser.add_argument("root")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder")
    return parser.parse_args()


def main():
    options = parse()
    end = time.monotonic() + options.seconds
    failures = rounds = 0
    with tempfile.TemporaryDirectory(prefix="tessera-resume-", dir=options.folder) as folder:
        training = Training(options, folder)
        while rounds < options.rounds or time.monotonic() < end or not rounds:
            seed = options.seed + rounds
            rounds += 1
            wrong = training.round(seed)
            if wrong:
                failures += 1
                print("FAILED: --rounds 1 --seed %d" % seed)
                for text in wrong[:10]:
                    print("    " + text.strip().replace("\n", "\n    "))
    print("%d seeds, %d processes begun, %d killed, %d generations acknowledged, %d failed" %
          (rounds, training.lives, training.kills, training.saves, failures))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
