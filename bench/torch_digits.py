#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Time of one training step of examples/digits/digits.mlir written in PyTorch, on CPU.

usage: torch_digits.py DIGITS_FOLDER THREADS

The same model, batch, data and optimizer, with shuffled batches made from the same arrays; eager, with every AdamW that PyTorch offers, and
compiled if torch.compile works here. Prints one JSON object: microseconds per step (median of rounds) for each, and the version. Exits with
77 without PyTorch.
"""
import json
import statistics
import sys
import time

try:
    import numpy
    import torch
except ImportError as error:
    print(error)
    sys.exit(77)

BATCH, WARM_UP, ROUND, ROUNDS = 64, 300, 500, 7


def make_step(images, labels, variant):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    forward = torch.compile(model) if variant == "compiled" else model
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=2e-3, weight_decay=1e-2,
        fused=variant in ("fused", "compiled"), foreach=variant == "foreach")
    order = torch.randperm(len(images))
    position = 0

    def step():
        nonlocal order, position
        if position + BATCH > len(order):
            order, position = torch.randperm(len(images)), 0
        rows = order[position:position + BATCH]
        position += BATCH
        batch = images[rows].to(torch.float32) * (1.0 / 16.0)
        loss = torch.nn.functional.cross_entropy(forward(batch), labels[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    return step


def measure(step):
    for _ in range(WARM_UP):
        step()
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(ROUND):
            step()
        rounds.append((time.perf_counter() - start) / ROUND * 1e6)
    return statistics.median(rounds)


def main(folder, threads):
    torch.set_num_threads(threads)
    images = torch.from_numpy(numpy.load(f"{folder}/train-images.npy"))
    labels = torch.from_numpy(numpy.load(f"{folder}/train-labels.npy"))
    result = {"version": torch.__version__}
    for variant in ("loop", "foreach", "fused", "compiled"):
        try:
            result[variant] = round(measure(make_step(images, labels, variant)), 2)
        except Exception as error:  # torch.compile needs a compiler that it supports
            print(f"{variant}: {type(error).__name__}: {error}", file=sys.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
