#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares examples/gpt-char with the same model in PyTorch, on CPU: the loss of every step, and the time of a step.

usage: gpt_char.py TESSERA_AOT TESSERA_RUN EXAMPLE_FOLDER [--steps N] [--times]

Both begin with the same weights and see the same batches, without dropout: the loss of each of N steps (default 500) must be within 1 % of
PyTorch's. They differ only by rounding, since float32 sums are ordered differently, and a transformer's training amplifies that.
With --times it measures instead, with dropout as in the example, in turns: one process with one thread and with all, one rank per
processor, PyTorch eager and, if possible here, compiled (AdamW fused). `tax` is the cost of the sums over 8 virtual ranks: a step compared
with a step of the same program with as many virtual ranks as there are processes, whose bits would change with their number. Prints one
JSON object.
Exits with 77 without PyTorch.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(error)
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/data"))
from shuffle_reference import shuffle_index  # noqa: E402

BATCH, POSITIONS, LAYERS, HEADS = 32, 64, 4, 5
RATE, WARMUP, TOTAL, FINAL, BETAS, EPS, DECAY, DROPOUT = 2e-3, 100, 1000, 0.1, (0.9, 0.99), 1e-8, 0.1, 0.1
TOLERANCE, ROUNDS, ROUND_STEPS = 0.01, 5, 8


def rate(step):
    p = min(max((step - WARMUP) / (TOTAL - WARMUP), 0.0), 1.0)
    return RATE * min(step / WARMUP, 1.0) * (FINAL + (1 - FINAL) * (1 + math.cos(math.pi * p)) / 2)


def logits(w, text, dropout):
    def linear(x, name):
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, (x.shape[-1],), w[f"{name}.scale"], w[f"{name}.bias"])

    x = F.dropout(F.embedding(text, w["letters"]) + w["places"], dropout)
    for layer in (f"layer{i + 1}" for i in range(LAYERS)):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for part in linear(norm(x, f"{layer}.norm1"), f"{layer}.qkv").chunk(3, -1))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        x = x + F.dropout(linear(heads, f"{layer}.out"), dropout)
        x = x + F.dropout(linear(F.gelu(linear(norm(x, f"{layer}.norm2"), f"{layer}.up")), f"{layer}.down"), dropout)
    return F.linear(norm(x, "norm"), w["letters"])


class Trainer:
    """The training in PyTorch; weights of products have the layout of torch.nn.Linear."""

    def __init__(self, weights, text, dropout, compiled):
        self.w = {name: torch.nn.Parameter(torch.from_numpy(value.T.copy() if self.is_transposed(name) else value.copy()))
                  for name, value in weights.items()}
        self.forward = torch.compile(logits) if compiled else logits
        self.rows = text[:len(text) // (POSITIONS + 1) * (POSITIONS + 1)].reshape(-1, POSITIONS + 1)
        self.optimizer = torch.optim.AdamW(self.w.values(), lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY, fused=True)
        self.dropout, self.done = dropout, 0

    @staticmethod
    def is_transposed(name):
        return name.endswith(".weight")

    def step(self):
        rows = [shuffle_index(0, len(self.rows), self.done * BATCH + i) for i in range(BATCH)]
        self.done += 1
        for group in self.optimizer.param_groups:
            group["lr"] = rate(self.done)
        text = torch.from_numpy(self.rows[rows].astype(np.int64))
        scores = self.forward(self.w, text[:, :-1], self.dropout)
        loss = F.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    return {name: np.frombuffer(data[8 + size:][slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f'{" ".join(command)}:\n{done.stdout}{done.stderr}')


def build(args, folder, dropout, virtual_ranks=8):
    source = (args.example / "gpt-char.mlir").read_text()
    on = f"rate = {DROPOUT:.1e}".replace("e-01", "e-1")
    if source.count(on) != 3:
        sys.exit(f"gpt-char.mlir has '{on}' {source.count(on)} times; expected 3")
    path = pathlib.Path(folder, "gpt.mlir")
    path.write_text(source if dropout else source.replace(on, "rate = 0.0"))
    run(args.aot, "build", str(path), "-o", f"{folder}/gpt-{virtual_ranks}.tsb", "--virtual-ranks", str(virtual_ranks))


def train(args, folder, steps, *more, virtual_ranks=8):
    """The events of the steps."""
    metrics = pathlib.Path(folder, "metrics.jsonl")
    run(args.run, f"{folder}/gpt-{virtual_ranks}.tsb", "--data", f"text={args.example}/train.txt", "--steps", str(steps), "--quiet",
        "--metrics", str(metrics), *more)
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    metrics.unlink()
    return [event for event in events if event["event"] == "step"]


def compare(args, folder, text):
    build(args, folder, 0.0)
    run(args.run, f"{folder}/gpt-8.tsb", "--export-params", f"{folder}/begin", "--quiet")
    trainer = Trainer(read_safetensors(f"{folder}/begin"), text, 0.0, False)
    ranks = str(min(8, len(os.sched_getaffinity(0))))
    ours = [event["outputs"]["loss"] for event in train(args, folder, args.steps, "--ranks", ranks)]
    theirs = [trainer.step() for _ in ours]
    apart = [abs(a - b) / b for a, b in zip(ours, theirs)]
    worst = max(range(len(apart)), key=lambda i: apart[i])
    parameters = sum(p.numel() for p in trainer.w.values())
    print(json.dumps({"parameters": parameters, "steps": len(ours), "first": ours[0], "last": ours[-1], "torch_last": round(theirs[-1], 6),
                      "apart": round(apart[worst], 6), "at_step": worst + 1}))
    if len(ours) != args.steps or not apart[worst] <= TOLERANCE:
        sys.exit(f"the loss of step {worst + 1} is {ours[worst]}, PyTorch's {theirs[worst]}; at most {TOLERANCE:.0%} apart are allowed")


def our_seconds(args, folder, *more, virtual_ranks=8):
    ends = [event["seconds"] for event in train(args, folder, ROUND_STEPS, *more, virtual_ranks=virtual_ranks)]
    return [after - before for before, after in zip(ends[1:], ends[2:])]


def their_seconds(trainer):
    seconds = []
    for _ in range(ROUND_STEPS - 2):
        start = time.perf_counter()
        trainer.step()
        seconds.append(time.perf_counter() - start)
    return seconds


def measure(args, folder, text):
    threads = min(8, len(os.sched_getaffinity(0)))
    torch.set_num_threads(threads)
    for virtual_ranks in {1, threads, 8}:
        build(args, folder, DROPOUT, virtual_ranks)
    run(args.run, f"{folder}/gpt-8.tsb", "--export-params", f"{folder}/begin", "--quiet")
    begin = read_safetensors(f"{folder}/begin")
    cases = {"threads": lambda: our_seconds(args, folder), "one_thread": lambda: our_seconds(args, folder, "--threads", "1"),
             "threads_fast": lambda: our_seconds(args, folder, virtual_ranks=1),
             "ranks": lambda: our_seconds(args, folder, "--ranks", str(threads)),
             "ranks_fast": lambda: our_seconds(args, folder, "--ranks", str(threads), virtual_ranks=threads)}
    for name in ("eager", "compiled"):
        trainer = Trainer(begin, text, DROPOUT, name == "compiled")
        try:
            trainer.step()
            trainer.step()
            cases[name] = lambda trainer=trainer: their_seconds(trainer)
        except Exception as error:  # torch.compile needs a compiler that it supports
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    seconds = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            seconds[name] += case()
    result = {name: round(1e3 * statistics.median(values), 2) for name, values in seconds.items()}
    best = min(result[name] for name in ("eager", "compiled") if name in result)
    print(json.dumps({"torch": torch.__version__, "processors": threads, "step_ms": result,
                      "threads_ratio": round(best / result["threads"], 3), "ranks_ratio": round(best / result["ranks"], 3),
                      "threads_tax": round(result["threads"] / result["threads_fast"] - 1, 3),
                      "ranks_tax": round(result["ranks"] / result["ranks_fast"] - 1, 3),
                      "scaling_threads": round(result["one_thread"] / result["threads"], 3),
                      "scaling_ranks": round(result["one_thread"] / result["ranks"], 3)}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("aot")
    parser.add_argument("run")
    parser.add_argument("example", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--times", action="store_true")
    args = parser.parse_args()
    text = np.frombuffer((args.example / "train.txt").read_bytes(), np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        (measure if args.times else compare)(args, folder, text)


if __name__ == "__main__":
    main()
