#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The digits training, implemented independently in NumPy float64: the same data order, the same initial values, AdamW as
defined by Loshchilov and Hutter (and torch.optim.AdamW). Compares parameters after some steps, the intermediate loss, and
predictions.

usage: train_reference.py TESSERA_RUN DIGITS_TSB ROOT

Tolerances: tessera-run computes in float32. Rounding in 200 steps of size 1e-3 causes differences of 1e-6 in parameters and loss
and 3e-6 in predictions; 2e-5 and 5e-5 are allowed. A wrong formula is off by more than 1e-3.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("NumPy is absent")
    sys.exit(77)

run, bundle, root = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:4])
sys.path.insert(0, root + "/tests/data")
from shuffle_reference import shuffle_index  # noqa: E402

DIGITS = root + "/examples/digits"
STEPS, SEED, BATCH = 200, 5, 64
LR, BETA1, BETA2, EPS, DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.3
LAYERS = ("layer1", "layer2", "layer3")


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data, np.float32, count=int(np.prod(row["shape"])), offset=8 + length + row["data_offsets"][0])
            .reshape(row["shape"]).astype(np.float64) for name, row in header.items()}


def forward(params, pixels):
    values = [pixels.astype(np.float64) / 16]
    for layer in LAYERS:
        out = values[-1] @ params[layer + ".weight"] + params[layer + ".bias"]
        values.append(np.maximum(out, 0) if layer != LAYERS[-1] else out)
    return values


def gradients(params, pixels, labels):
    values = forward(params, pixels)
    logits = values[-1] - values[-1].max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(logits).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    loss = -(logits - log_sum)[rows, labels].mean()
    delta = np.exp(logits - log_sum)
    delta[rows, labels] -= 1
    delta /= len(labels)
    found = {}
    for index in reversed(range(len(LAYERS))):
        layer = LAYERS[index]
        found[layer + ".weight"] = values[index].T @ delta
        found[layer + ".bias"] = delta.sum(axis=0)
        if index:
            delta = (delta @ params[layer + ".weight"].T) * (values[index] > 0)
    return loss, found


def train(params, images, labels):
    first = {name: np.zeros_like(value) for name, value in params.items()}
    second = {name: np.zeros_like(value) for name, value in params.items()}
    losses = []
    for step in range(1, STEPS + 1):
        batch = [shuffle_index(SEED, len(images), (step - 1) * BATCH + i) for i in range(BATCH)]
        loss, found = gradients(params, images[batch], labels[batch])
        losses.append(loss)
        for name, value in params.items():
            first[name] = BETA1 * first[name] + (1 - BETA1) * found[name]
            second[name] = BETA2 * second[name] + (1 - BETA2) * found[name] ** 2
            scale = np.sqrt(second[name] / (1 - BETA2 ** step)) + EPS
            params[name] = value * (1 - LR * DECAY) - LR * first[name] / (1 - BETA1 ** step) / scale
    return losses


def tessera(*arguments):
    subprocess.run([run, bundle, "--quiet", *arguments], check=True, stdout=subprocess.DEVNULL)


def main():
    data = [f"--data=images={DIGITS}/train-images.npy", f"--data=labels={DIGITS}/train-labels.npy"]
    with tempfile.TemporaryDirectory() as folder:
        tessera("--seed", str(SEED), "--export-params", f"{folder}/begin.safetensors")
        tessera(*data, "--seed", str(SEED), "--steps", str(STEPS), "--metrics", f"{folder}/m.jsonl",
                "--export-params", f"{folder}/end.safetensors")
        tessera("--entry", "predict", "--params", f"{folder}/end.safetensors", "--input", f"x={DIGITS}/test-images.npy",
                "--output", f"y={folder}/y.npy")
        params, end = (read_safetensors(f"{folder}/{name}.safetensors") for name in ("begin", "end"))
        scores = np.load(f"{folder}/y.npy")
        told = [json.loads(line) for line in open(f"{folder}/m.jsonl", encoding="utf-8")]
    images, labels = (np.load(f"{DIGITS}/train-{name}.npy") for name in ("images", "labels"))
    losses = train(params, images, labels)
    drift = max(np.abs(end[name] - params[name]).max() for name in params)
    loss_error = max(abs(row["outputs"]["loss"] - loss) for row, loss in zip(
        (row for row in told if row["event"] == "step"), losses, strict=True))
    score_error = np.abs(forward(end, np.load(f"{DIGITS}/test-images.npy"))[-1] - scores).max()
    print(f"after {STEPS} steps: parameters differ by {drift:.2e}, losses by {loss_error:.2e}; predictions by {score_error:.2e}")
    return 0 if drift < 2e-5 and loss_error < 2e-5 and score_error < 5e-5 else 1


sys.exit(main())
