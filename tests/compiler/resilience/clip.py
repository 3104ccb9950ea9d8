#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: clip.py TESSERA_AOT TESSERA_RUN

clip_norm of minimize against torch.nn.utils.clip_grad_norm_ and PyTorch's optimizers: loss and norm of every step, with one and
several virtual ranks and sharded state. Everything is f64; the metrics print 9 digits: 5e-9 of the value is allowed. Without
clipping, or clipped a step late, losses are off by more than 1e-3. Exit code 77 without PyTorch.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError as error:
    print(error)
    sys.exit(77)

AOT, RUN = sys.argv[1:]
STEPS, ROWS, MOST, TOLERANCE = 25, 12, 0.25, 5e-9
SHAPES = {"w": (7, 5), "b": (5,), "u": (5, 1)}
OPTIMIZERS = {
    "#tessera.adamw<lr = 5.0e-2, beta1 = 0.9, beta2 = 0.99, eps = 1.0e-8, weight_decay = 1.0e-1>":
        lambda w: torch.optim.AdamW(w, lr=5e-2, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1),
    "#tessera.nesterov<lr = 0.3, momentum = 0.9, weight_decay = 0.01>":
        lambda w: torch.optim.SGD(w, lr=0.3, momentum=0.9, weight_decay=0.01, nesterov=True),
}
PROGRAM = """module @clip attributes {{tessera.mesh = {{data = {virtual ranks}}}}} {{
  func.func @train(%x: tensor<{rows}x7xf64> {{tessera.data = "x"}}, %t: tensor<{rows}x1xf64> {{tessera.data = "t"}})
      -> (tensor<f64> {{tessera.name = "loss"}}, tensor<f64> {{tessera.name = "grad_norm"}}) attributes {{tessera.entry = "train"}} {{
    %w = tessera.param "w" data = dense<{w}> : tensor<7x5xf64>
    %b = tessera.param "b" data = dense<{b}> : tensor<5xf64>
    %u = tessera.param "u" data = dense<{u}> : tensor<5x1xf64>
    %0 = tessera.matmul %x, %w : tensor<{rows}x7xf64>, tensor<7x5xf64> -> tensor<{rows}x5xf64>
    %1 = tessera.add %0, %b : tensor<{rows}x5xf64>, tensor<5xf64> -> tensor<{rows}x5xf64>
    %2 = tessera.tanh %1 : tensor<{rows}x5xf64>
    %3 = tessera.matmul %2, %u : tensor<{rows}x5xf64>, tensor<5x1xf64> -> tensor<{rows}x1xf64>
    %4 = tessera.sub %3, %t : tensor<{rows}x1xf64>, tensor<{rows}x1xf64> -> tensor<{rows}x1xf64>
    %5 = tessera.mul %4, %4 : tensor<{rows}x1xf64>, tensor<{rows}x1xf64> -> tensor<{rows}x1xf64>
    %loss = tessera.mean %5 {{axes = [0, 1]}} : tensor<{rows}x1xf64> -> tensor<f64>
    %norm = tessera.minimize %loss {{optimizer = {optimizer}, clip_norm = {most}{shard}}} : tensor<f64> -> tensor<f64>
    return %loss, %norm : tensor<f64>, tensor<f64>
  }}
}}
"""


def reference(make, weights, x, t):
    w = {name: torch.nn.Parameter(torch.from_numpy(value.copy())) for name, value in weights.items()}
    optimizer, found = make(w.values()), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = ((torch.tanh(x @ w["w"] + w["b"]) @ w["u"] - t) ** 2).mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(w.values(), MOST)
        optimizer.step()
        found.append((float(loss.detach()), float(norm)))
    return found


def train(folder, optimizer, weights, vranks, stage):
    shard = "" if stage == "none" else (', tessera.opt.shard = #tessera.opt.shard<axis = "data">, '
                                        f'tessera.opt.partition = #tessera.opt.partition<"{stage}">')
    text = {name: json.dumps(value.tolist()) for name, value in weights.items()}
    source = folder / "clip.mlir"
    source.write_text(PROGRAM.format(vranks=vranks, rows=ROWS, optimizer=optimizer, most=MOST, shard=shard, **text), "utf-8")
    subprocess.run([AOT, "build", source, "-o", folder / "clip.tsb"], check=True)
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    subprocess.run([RUN, folder / "clip.tsb", "--data", f"x={folder}/x.npy", "--data", f"t={folder}/t.npy", "--steps", str(STEPS), "--quiet",
                    "--metrics", metrics], check=True, stdout=subprocess.DEVNULL)
    outputs = [json.loads(line)["outputs"] for line in metrics.read_text("utf-8").splitlines() if '"event":"step"' in line]
    return [(each["loss"], each["grad_norm"]) for each in outputs]


def main(folder):
    random, failed = np.random.default_rng(3), False
    x, t = random.standard_normal((ROWS, 7)), random.standard_normal((ROWS, 1))
    np.save(folder / "x.npy", x)
    np.save(folder / "t.npy", t)
    weights = {name: random.standard_normal(shape) / 2 for name, shape in SHAPES.items()}
    for optimizer, make in OPTIMIZERS.items():
        wanted = reference(make, weights, torch.from_numpy(x), torch.from_numpy(t))
        name, clipped = optimizer.partition("<")[0], sum(norm > MOST for _, norm in wanted)
        if not 0 < clipped < STEPS:
            sys.exit(f"{clipped} of {STEPS} steps are clipped; the test needs both kinds")
        for vranks, stage in ((1, "none"), (4, "none"), (4, "zero2"), (3, "zero3")):
            got = train(folder, optimizer, weights, vranks, stage)
            worst = max(abs(a - b) / abs(b) for mine, theirs in zip(got, wanted, strict=True) for a, b in zip(mine, theirs))
            print(f"{name}, {vranks} virtual ranks, {stage}: {clipped} of {STEPS} steps clipped, off by {worst:.1e}"
                  f"{'' if worst <= TOLERANCE else ': TOO MUCH'}")
            failed |= not worst <= TOLERANCE
    return failed


with tempfile.TemporaryDirectory() as temporary:
    sys.exit(1 if main(pathlib.Path(temporary)) else 0)
