#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""lr_schedule against its formula: a parameter whose gradient is always 1 shows the rate of each step.

usage: learning_rate.py TESSERA_AOT TESSERA_RUN

Everything is f64. The parameter is about 1; after each step it is read from the metrics, which print 9 digits, and at the end
from its bits: there rounding differs by a few ulp per step, and 1e-13 is allowed. A schedule one step off is off by 1e-5 or more.
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

AOT, RUN = sys.argv[1:3]
STEPS, PRINTED, EXACT, RATE, DECAY = 40, 6e-10, 1e-13, 0.01, 0.1
PROGRAM = """module @rate {{
  func.func @train(%x: tensor<1xf64> {{tessera.data = "x"}}) -> (tensor<f64> {{tessera.name = "loss"}}) attributes {{tessera.entry = "train"}} {{
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<1xf64>
    %p = tessera.mul %w, %x : tensor<1xf64>, tensor<1xf64> -> tensor<1xf64>
    %loss = tessera.mean %p {{axes = [0]}} : tensor<1xf64> -> tensor<f64>
    tessera.minimize %loss {{optimizer = {optimizer}{schedule}}} : tensor<f64>
    return %loss : tensor<f64>
  }}
}}
"""
SGD = f"#tessera.sgd<lr = {RATE}, momentum = 0.0, weight_decay = 0.0>"
ADAMW = f"#tessera.adamw<lr = {RATE}, beta1 = 0.9, beta2 = 0.99, eps = 1.0e-8, weight_decay = {DECAY}>"


def scheduled(t, kind, warmup=0, total=0, final=0.0):
    warm = min(t / warmup, 1.0) if warmup else 1.0
    if kind == "constant":
        return RATE * warm
    p = min(max((t - warmup) / (total - warmup), 0.0), 1.0)
    d = (1 + math.cos(math.pi * p)) / 2 if kind == "cosine" else 1 - p
    return RATE * warm * (final + (1 - final) * d)


def attribute(kind, warmup=0, total=0, final=0.0):
    parts = [f'kind = "{kind}"'] + [f"{name} = {value}" for name, value in
                                    (("warmup_steps", warmup), ("total_steps", total), ("final", final)) if value]
    return f", lr_schedule = {{{', '.join(parts)}}}"


def train(folder, optimizer, schedule):
    """The parameter before each step, and at the end."""
    with open(f"{folder}/rate.mlir", "w", encoding="ascii") as file:
        file.write(PROGRAM.format(optimizer=optimizer, schedule=schedule))
    subprocess.run([AOT, "build", f"{folder}/rate.mlir", "-o", f"{folder}/rate.tsb"], check=True)
    subprocess.run([RUN, f"{folder}/rate.tsb", "--data", f"x={folder}/ones", "--steps", str(STEPS), "--quiet",
                    "--metrics", f"{folder}/metrics.jsonl", "--export-params", f"{folder}/w.safetensors"], check=True, stdout=subprocess.DEVNULL)
    with open(f"{folder}/metrics.jsonl", encoding="ascii") as file:
        events = [json.loads(line) for line in file]
        found = [event["outputs"]["loss"] for event in events if event["event"] == "step"]
    os.remove(f"{folder}/metrics.jsonl")
    with open(f"{folder}/w.safetensors", "rb") as file:
        return found, struct.unpack("<d", file.read()[-8:])[0]


def check(folder, optimizer, case):
    w, worst = 1.0, 0.0
    printed, last = train(folder, optimizer, attribute(**case) if case else "")
    for t, got in enumerate(printed, 1):
        worst = max(worst, abs(got - w))
        rate = scheduled(t, **case) if case else RATE
        w = w * (1 - rate * DECAY) - rate / (1 + 1e-8) if optimizer is ADAMW else w - rate
    name = "adamw" if optimizer is ADAMW else "sgd"
    print(f"{name} {case}: {worst:.3g} on the way, {abs(last - w):.3g} at the end")
    return len(printed) == STEPS and worst <= PRINTED and abs(last - w) <= EXACT


def main():
    cases = [None, {"kind": "constant", "warmup": 7}, {"kind": "linear", "total": 25, "final": 0.25},
             {"kind": "cosine", "warmup": 5, "total": 31, "final": 0.1}, {"kind": "cosine", "total": 37}]
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/ones", "wb") as file:
            file.write(struct.pack("<4d", *[1.0] * 4))
        good = [check(folder, optimizer, case) for optimizer in (SGD, ADAMW) for case in cases]
    sys.exit(0 if all(good) else f"{good.count(False)} of {len(good)} schedules are wrong")


main()
