#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: rank_kills.py TESSERA_RUN TESSERA_AOT EXAMPLE_FOLDER [--kills N] [--ranks W] [--seed S] [--stages] [--busy]

Trains examples/digits or examples/gpt-char on W ranks with --restarts. Ranks are killed at uniformly random times, N of them in all, any
rank but the launcher. Every run ends with the bits of the undisturbed run of one rank; every kill is reported, and noticed by the other
ranks within 100 ms. Prints this time, and the time from a kill until all ranks had the state of the last generation again.

  --stages  alternates between runs whose ranks have the whole state, and runs of ZeRO 1, 2 and 3
  --busy    the machine is shared: a rank may seem to hang, and 100 ms may pass; both are only reported
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("run")
parser.add_argument("aot")
parser.add_argument("example", type=pathlib.Path)
parser.add_argument("--kills", type=int, default=12)
parser.add_argument("--ranks", type=int, default=3)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--stages", action="store_true")
parser.add_argument("--busy", action="store_true")
options = parser.parse_args()
SEEN_MS = 100
# Inputs of a training; steps of a run, and steps between saves; average number of steps between kills.
EXAMPLES = {
    "digits": {"data": {"images": "train-images.npy", "labels": "train-labels.npy"}, "steps": 480, "save_every": 10, "pause_steps": 40},
    "gpt-char": {"data": {"text": "train.txt"}, "steps": 60, "save_every": 2, "pause_steps": 6},
}
EXAMPLE = EXAMPLES[options.example.name]
STAGES = [None, "zero1", "zero2", "zero3"] if options.stages else [None]


def children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def command(bundle, *more):
    data = [word for name, file in EXAMPLE["data"].items() for word in ("--data", f"{name}={options.example / file}")]
    return [options.run, bundle, *data, "--quiet", "--steps", str(EXAMPLE["steps"]), *more]


def build(folder, stage):
    """Makes a bundle of the example; `stage` determines the parts that its ranks have."""
    source = (options.example / f"{options.example.name}.mlir").read_text(encoding="utf-8")
    if stage:
        source, found = re.subn(r"(optimizer = #tessera\.adamw<[^>]*>)", rf'\1, tessera.opt.shard = #tessera.opt.shard<axis = "data">, '
                                 rf'tessera.opt.partition = #tessera.opt.partition<"{stage}">', source)
        assert found == 1, f"{found} optimizers"
        source = re.sub(r"^(module @\w+) \{", r"\1 attributes {tessera.mesh = {data = 8}} {", source, flags=re.M)
    path = folder / f"{stage or 'whole'}.mlir"
    path.write_text(source, encoding="utf-8")
    more = [] if "tessera.mesh" in source else ["--virtual-ranks", "8"]
    subprocess.run([options.aot, "build", path, "-o", path.with_suffix(".tsb"), "--target", "cpu:x86-64-v3", *more], check=True)
    return path.with_suffix(".tsb")


def state_of(text):
    return re.search(r"^state (\w+)", text, re.M).group(1)


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def seen_after(victim, others):
    """Returns the milliseconds until another rank has ended, too; None if the run reached its end during that time."""
    began = time.monotonic()
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:  # the run has ended
        return None
    while time.monotonic() - began < 30:
        if not all(is_running(pid) for pid in others):
            return (time.monotonic() - began) * 1e3
        time.sleep(0.001)
    return None


def resumes(log):
    return log.read_text(encoding="utf-8").count('"event":"resume"') if log.exists() else 0


def pass_time(job, seconds, log, killed_at, before, restarts):
    """Waits, and records when the ranks that a kill ended have loaded a state again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and job.poll() is None:
        if killed_at and resumes(log) > before:
            restarts.append((time.monotonic() - killed_at) * 1e3)
            killed_at = None
        time.sleep(0.005)


def disturb(job, draw, pause, kills, log, times, restarts):
    """Kills ranks of a job until it ends or `kills` are killed; returns their number."""
    here, killed_at, before = 0, None, 0
    while job.poll() is None and here < kills:
        pass_time(job, draw.uniform(0, 2 * pause), log, killed_at, before, restarts)
        ranks = children(job.pid)
        if len(ranks) != options.ranks:
            continue
        victim = draw.choice(ranks)
        before, killed_at = resumes(log), time.monotonic()
        took = seen_after(victim, [pid for pid in ranks if pid != victim])
        here += 1
        if took is not None:
            times.append(took)
    pass_time(job, 3600, log, killed_at, before, restarts)
    return here


def run_disturbed(folder, bundle, draw, pause, kills, expected, times, restarts):
    """Runs once. Returns the number of kills, the number of late ranks, and whether the run ended as expected."""
    state, log = folder / "state", folder / "metrics"
    shutil.rmtree(state, ignore_errors=True)
    log.unlink(missing_ok=True)
    with open(folder / "out", "w+", encoding="utf-8") as out, open(folder / "err", "w+", encoding="utf-8") as err:
        job = subprocess.Popen(command(bundle, "--ranks", str(options.ranks), "--threads", "1", "--state-dir", state, "--metrics", log,
                                       "--save-every", str(EXAMPLE["save_every"]), "--restarts", "100000"), stdout=out, stderr=err)
        here = disturb(job, draw, pause, kills, log, times, restarts)
        code = job.wait()
        out.seek(0)
        err.seek(0)
        told, said = out.read(), err.read()
    late = len(re.findall(r"hangs: it did not come.*all ranks start again", said))
    again = len(re.findall(r"all ranks start again", said)) - (late if options.busy else 0)
    if code != 0 or state_of(told) != expected:
        print(f"{bundle.stem}, after {here} kills: exit code {code}, {told}{said[-2000:]}")
        return here, late, False
    if again > here or again < here - 1:  # the last kill may have come after the end of a run
        print(f"{bundle.stem}: {here} kills, {again} restarts: {said[-2000:]}")
        return here, late, False
    return here, late, True


def spread(values):
    values = sorted(values) or [0]
    return {"median": round(values[len(values) // 2], 1), "p90": round(values[int(len(values) * 0.9)], 1), "worst": round(values[-1], 1)}


def main(folder):
    draw = random.Random(options.seed)
    bundles = [build(folder, stage) for stage in STAGES]
    began = time.monotonic()
    alone = subprocess.run(command(bundles[0]), check=True, capture_output=True, text=True).stdout
    pause = (time.monotonic() - began) / EXAMPLE["steps"] * EXAMPLE["pause_steps"]
    killed, rounds, hangs, times, restarts = 0, 0, 0, [], []
    share = -(-options.kills // len(bundles))  # so that every stage gets some
    while killed < options.kills:
        bundle = bundles[rounds % len(bundles)]
        here, late, well = run_disturbed(folder, bundle, draw, pause, min(share, options.kills - killed), state_of(alone), times, restarts)
        if not well:
            return True
        killed, hangs, rounds = killed + here, hangs + late, rounds + 1
        print(f"{bundle.stem}: {here} kills, the state {state_of(alone)}", flush=True)
    print(json.dumps({"example": options.example.name, "kills": killed, "ranks": options.ranks, "runs": rounds, "late": hangs,
                      "seen_ms": spread(times), "restored_ms": spread(restarts), "restored": len(restarts)}))
    print(f"{killed} kills, {rounds} runs: each ended with the bits of the undisturbed one")
    return spread(times)["median"] > SEEN_MS and not options.busy


shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
with tempfile.TemporaryDirectory(dir=shared) as temporary:
    sys.exit(1 if main(pathlib.Path(temporary)) else 0)
