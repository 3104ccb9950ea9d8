#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the time that a training loses while its data is hashed for the first time.

usage: first_hash.py TESSERA_AOT TESSERA_RUN [--mib N] [--steps N] [--rounds N] [--threads N,...] [--folder DIR]

Trains a small model on a data file of N MiB (default 384), alternately with the digest of the file in the cache of the state directory and
without it, so that the file is hashed concurrently with the steps. Both runs save once, at the end. Prints one JSON object; for each number
of threads (default: 1, and all processors) it contains medians over the rounds:

  step_ms        a step, with the digest cached
  steps_percent  the increase in the time of the steps of a run that hashes. Hashing ends early in a long run, so this depends on --steps
  spread_percent the same for two runs with the digest cached: the noise of the machine
  save_s         the additional wait of a run that hashes at its save, for the remaining data
  hash_s         the same for a run of one step: the time to hash the file alone
  lost_s         the increase in the total time of steps and save of a run that hashes
  epoch_percent  that increase relative to the time of the steps that read each row once: the loss of a run of one epoch
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PIXELS, BATCH, WIDTH = 1024, 64, 1024
MODEL = f"""module @hashed {{
  func.func @train(%x: tensor<{BATCH}x{PIXELS}xui8> {{tessera.data = "x"}}) -> (tensor<f32> {{tessera.name = "loss"}})
      attributes {{tessera.entry = "train"}} {{
    %v = tessera.param "v" init = #tessera.uniform<-0.02, 0.02> : tensor<{PIXELS}x{WIDTH}xf32>
    %w = tessera.param "w" init = #tessera.uniform<-0.02, 0.02> : tensor<{WIDTH}x{PIXELS}xf32>
    %scale = tessera.constant dense<0.0039> : tensor<f32>
    %raw = tessera.cast %x : tensor<{BATCH}x{PIXELS}xui8> to tensor<{BATCH}x{PIXELS}xf32>
    %in = tessera.mul %raw, %scale : tensor<{BATCH}x{PIXELS}xf32>, tensor<f32> -> tensor<{BATCH}x{PIXELS}xf32>
    %h = tessera.matmul %in, %v : tensor<{BATCH}x{PIXELS}xf32>, tensor<{PIXELS}x{WIDTH}xf32> -> tensor<{BATCH}x{WIDTH}xf32>
    %g = tessera.gelu %h : tensor<{BATCH}x{WIDTH}xf32>
    %y = tessera.matmul %g, %w : tensor<{BATCH}x{WIDTH}xf32>, tensor<{WIDTH}x{PIXELS}xf32> -> tensor<{BATCH}x{PIXELS}xf32>
    %d = tessera.sub %y, %in : tensor<{BATCH}x{PIXELS}xf32>, tensor<{BATCH}x{PIXELS}xf32> -> tensor<{BATCH}x{PIXELS}xf32>
    %s = tessera.mul %d, %d : tensor<{BATCH}x{PIXELS}xf32>, tensor<{BATCH}x{PIXELS}xf32> -> tensor<{BATCH}x{PIXELS}xf32>
    %loss = tessera.mean %s {{axes = [0, 1]}} : tensor<{BATCH}x{PIXELS}xf32> -> tensor<f32>
    tessera.minimize %loss {{optimizer = #tessera.sgd<lr = 1.0e-3, momentum = 0.0, weight_decay = 0.0>}} : tensor<f32>
    return %loss : tensor<f32>
  }}
}}
"""


class Bench:
    def __init__(self, args, folder, threads):
        self.args, self.folder, self.threads = args, folder, threads

    def train(self, cached, steps):
        """Returns the mean time of the steps except the first, and the time from the last step to the end of the process."""
        state, metrics = self.folder / "state", self.folder / "metrics"
        shutil.rmtree(state, ignore_errors=True)
        metrics.unlink(missing_ok=True)
        state.mkdir()
        if cached:
            shutil.copy(self.folder / "DATA", state / "DATA")
        command = [self.args.run, self.folder / "model.tsb", "--data", f"x={self.folder}/data.u8", "--steps", str(steps), "--quiet",
                   "--threads", str(self.threads), "--state-dir", state, "--metrics", metrics]
        began = time.perf_counter()
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        whole = time.perf_counter() - began
        if done.returncode:
            sys.exit(f"{command}: exit code {done.returncode}: {done.stderr}")
        if not cached:
            shutil.copy(state / "DATA", self.folder / "DATA")
        events = map(json.loads, metrics.read_text("utf-8").splitlines())
        ends = [event["seconds"] for event in events if event["event"] == "step"]
        return (ends[-1] - ends[0]) / max(len(ends) - 1, 1), whole - (ends[-1] - ends[0])

    def measure(self):
        alone = [self.train(False, 1)[1] - self.train(True, 1)[1] for _ in range(3)]
        steps, losses, spreads, saves = [], [], [], []
        for number in range(self.args.rounds):
            # The order of the three runs alternates, so that a machine that gets slower or faster favours none of them.
            found = [None] * 3
            for kind in [(number + i) % 3 for i in range(3)]:
                found[kind] = self.train(kind > 0, self.args.steps)
            first, cached, again = found
            step = (cached[0] + again[0]) / 2
            steps.append(step)
            losses.append(first[0] - step)
            spreads.append(abs(again[0] - cached[0]))
            saves.append(first[1] - (cached[1] + again[1]) / 2)
        step, loss, spread, save = (statistics.median(values) for values in (steps, losses, spreads, saves))
        lost = statistics.median(loss * self.args.steps + save for loss, save in zip(losses, saves))
        epoch = (self.args.mib << 20) / (PIXELS * BATCH) * step
        return {"step_ms": round(1e3 * step, 3), "steps_percent": round(100 * loss / step, 2), "spread_percent": round(100 * spread / step, 2),
                "save_s": round(save, 3), "hash_s": round(statistics.median(alone), 3), "lost_s": round(lost, 3),
                "epoch_percent": round(100 * lost / epoch, 2)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("aot")
    parser.add_argument("run")
    parser.add_argument("--mib", type=int, default=384)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", default=f"1,{len(os.sched_getaffinity(0))}")
    parser.add_argument("--folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = pathlib.Path(name)
        (folder / "model.mlir").write_text(MODEL, "utf-8")
        subprocess.run([args.aot, "build", folder / "model.mlir", "-o", folder / "model.tsb"], check=True)
        piece = random.Random(1).randbytes(1 << 26)
        with open(folder / "data.u8", "wb") as file:
            for done in range(0, args.mib << 20, len(piece)):
                file.write(piece[:min(len(piece), (args.mib << 20) - done)])
        time.sleep(2.5)  # the digest of a file that has just changed is not cached
        print(json.dumps({"mib": args.mib, "steps": args.steps, "rounds": args.rounds} |
                         {f"threads_{threads}": Bench(args, folder, int(threads)).measure() for threads in args.threads.split(",")}))


main()
