#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the goodput of a training on ranks when one of them is killed every minute.

usage: goodput.py TESSERA_AOT TESSERA_RUN EXAMPLE_FOLDER [--steps N] [--save-every N] [--every SECONDS]

Runs examples/gpt-char with one rank per processor, undisturbed; then again, while a rank is killed with SIGKILL half an interval after the
beginning and then every interval (default 60 s): all ranks restart from the last generation and repeat the steps since then. Goodput is the
time of the first run divided by that of the second, which must end with the same state. Prints one JSON object.
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time


def ranks_of(launcher):
    return [int(word) for word in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]


def train(command, every=None):
    """Returns seconds, the state's hash, and the number of kills."""
    kills, start = 0, time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            if every and time.perf_counter() - start > every * (kills + 0.5):
                os.kill(random.choice(ranks_of(process.pid)), signal.SIGKILL)
                kills += 1
            time.sleep(0.01)
        seconds = time.perf_counter() - start
        out, err = process.communicate()
    state = re.search(r"^state ([0-9a-f]{64}) ", out, re.M)
    if process.returncode or not state:
        sys.exit(f'{" ".join(command)}: exit code {process.returncode}\n{out}{err}')
    return seconds, state.group(1), kills


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("aot")
    parser.add_argument("run")
    parser.add_argument("example", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=440)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--every", type=float, default=60.0)
    args = parser.parse_args()
    ranks = min(8, len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.aot, "build", str(args.example / "gpt-char.mlir"), "-o", f"{folder}/gpt.tsb"], check=True)
        command = [args.run, f"{folder}/gpt.tsb", "--data", f"text={args.example}/train.txt", "--steps", str(args.steps), "--quiet",
                   "--ranks", str(ranks), "--restarts", "1000", "--save-every", str(args.save_every), "--state-dir"]
        alone, expected, _ = train(command + [f"{folder}/alone"])
        disturbed, state, kills = train(command + [f"{folder}/disturbed"], args.every)
    if state != expected:
        sys.exit(f"the states differ: {expected} undisturbed, {state} after {kills} kills")
    if kills == 0:
        sys.exit(f"the run of {disturbed:.1f} s was over before a rank was killed; take more steps")
    print(json.dumps({"ranks": ranks, "steps": args.steps, "save_every": args.save_every, "undisturbed_s": round(alone, 2),
                      "disturbed_s": round(disturbed, 2), "kills": kills, "goodput": round(alone / disturbed, 3)}))


main()
