#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A two-layer GPT whose parameters are split over the axis `model`: heads, the hidden dim, the vocabulary.

usage: tensor_parallel.py TESSERA_AOT TESSERA_RUN

On 0 to 4 ranks it ends with one state hash, also if a run is saved by 2 ranks and resumed by 4, and close to the program without layouts; no rank
stores a whole parameter that is split, and each sends what was planned. A label or a token outside of the vocabulary ends the run.
"""
import json
import os
import re
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from checks import expect, finish, run  # noqa: E402

AOT, RUN = map(os.path.abspath, sys.argv[1:3])
BATCH, LENGTH, WIDTH, HEADS, HIDDEN, VOCABULARY, LAYERS, MODEL, STEPS = 8, 16, 32, 4, 64, 64, 2, 4, 8
HEAD, ROWS = WIDTH // HEADS, BATCH * LENGTH
NEAR = 2e-5  # losses of sums in another order


class Program:
    """Row-split products have their input dim first, the others their output dim."""

    def __init__(self, model):
        self.lines, self.count, self.model, self.params = [], 0, model, {}

    def op(self, text, kind):
        self.count += 1
        self.lines.append(f"%v{self.count} = {text} -> {kind}")
        return f"%v{self.count}"

    def param(self, name, dims, init="#tessera.normal<0.0, 0.05>", split=True):
        kind = f"tensor<{'x'.join(map(str, dims))}xf32>"
        ident = "%" + name.replace(".", "_")
        self.lines.append(f'{ident} = tessera.param "{name}" init = {init} : {kind}')
        if split:
            self.params[name] = 4 * int(np.prod(dims))
            self.lines.append(f"{ident}_v = tsched.value {ident} : {kind}")
            self.lines.append(f'tsched.layout {ident}_v {{partition = ["first"], mesh_axes = ["model"]}}')
        return ident

    def norm(self, x, name):
        rows, line = f"tensor<{BATCH}x{LENGTH}x{WIDTH}xf32>", f"tensor<{WIDTH}xf32>"
        scale = self.param(name + ".scale", [WIDTH], "#tessera.constant<1.0>", False)
        bias = self.param(name + ".bias", [WIDTH], "#tessera.constant<0.0>", False)
        return self.op(f"tessera.layernorm_safe {x}, {scale}, {bias} {{axes = [2], eps = 1.0e-5}} : ({rows}, {line}, {line})", rows)

    def columns(self, x, name, wide, narrow=WIDTH):
        w = self.param(name, [wide, narrow])
        return self.op(f"tessera.matmul {x}, {w} {{transpose_b = true}} : (tensor<{BATCH}x{LENGTH}x{narrow}xf32>, tensor<{wide}x{narrow}xf32>)",
                       f"tensor<{BATCH}x{LENGTH}x{wide}xf32>")

    def rows(self, x, name, wide):
        w = self.param(name, [wide, WIDTH])
        return self.op(f"tessera.matmul {x}, {w} : (tensor<{BATCH}x{LENGTH}x{wide}xf32>, tensor<{wide}x{WIDTH}xf32>)", f"tensor<{BATCH}x{LENGTH}x{WIDTH}xf32>")

    def heads(self, x):
        split, to = f"tensor<{BATCH}x{LENGTH}x{HEADS}x{HEAD}xf32>", f"tensor<{BATCH}x{HEADS}x{LENGTH}x{HEAD}xf32>"
        y = self.op(f"tessera.reshape {x} : tensor<{BATCH}x{LENGTH}x{WIDTH}xf32>", split)
        return self.op(f"tessera.transpose {y} {{permutation = [0, 2, 1, 3]}} : {split}", to)

    def layer(self, x, name):
        rows = f"tensor<{BATCH}x{LENGTH}x{WIDTH}xf32>"
        split, to = f"tensor<{BATCH}x{LENGTH}x{HEADS}x{HEAD}xf32>", f"tensor<{BATCH}x{HEADS}x{LENGTH}x{HEAD}xf32>"
        h = self.norm(x, name + ".norm1")
        q, k, v = (self.heads(self.columns(h, f"{name}.{part}", WIDTH)) for part in "qkv")
        a = self.op(f"tessera.attention {q}, {k}, {v} {{causal}} : ({to}, {to}, {to})", to)
        a = self.op(f"tessera.transpose {a} {{permutation = [0, 2, 1, 3]}} : {to}", split)
        a = self.op(f"tessera.reshape {a} : {split}", rows)
        x = self.op(f"tessera.add {x}, {self.rows(a, name + '.o', WIDTH)} : {rows}", rows)
        h = self.columns(self.norm(x, name + ".norm2"), name + ".up", HIDDEN)
        h = self.op(f"tessera.gelu {h} : tensor<{BATCH}x{LENGTH}x{HIDDEN}xf32>", f"tensor<{BATCH}x{LENGTH}x{HIDDEN}xf32>")
        return self.op(f"tessera.add {x}, {self.rows(h, name + '.down', HIDDEN)} : {rows}", rows)

    def body(self):
        rows, ids = f"tensor<{BATCH}x{LENGTH}x{WIDTH}xf32>", f"tensor<{BATCH}x{LENGTH}xi64>"
        table = self.param("embed", [VOCABULARY, WIDTH])
        x = self.op(f"tessera.gather {table}, %tokens {{axis = 0}} : (tensor<{VOCABULARY}x{WIDTH}xf32>, {ids})", rows)
        for i in range(LAYERS):
            x = self.layer(x, f"h{i}")
        x = self.op(f"tessera.reshape {self.norm(x, 'norm')} : {rows}", f"tensor<{ROWS}x{WIDTH}xf32>")
        return self.op(f"tessera.matmul {x}, {table} {{transpose_b = true}} : (tensor<{ROWS}x{WIDTH}xf32>, tensor<{VOCABULARY}x{WIDTH}xf32>)",
                       f"tensor<{ROWS}x{VOCABULARY}xf32>")

    def text(self):
        ids, losses = f"tensor<{BATCH}x{LENGTH}xi64>", f"tensor<{ROWS}xf32>"
        logits = self.body()
        forward = list(self.lines)
        labels = self.op(f"tessera.reshape %labels : {ids}", f"tensor<{ROWS}xi64>")
        each = self.op(f"tessera.cross_entropy {logits}, {labels} : (tensor<{ROWS}x{VOCABULARY}xf32>, tensor<{ROWS}xi64>)", losses)
        loss = self.op(f"tessera.mean {each} {{axes = [0]}} : {losses}", "tensor<f32>")
        optimizer = "#tessera.adamw<lr = 1.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 1.0e-2>"
        train, infer = "\n    ".join(self.lines), "\n    ".join(forward)
        return f"""module @gpt attributes {{tessera.mesh = {{model = {self.model}}}}} {{
  func.func @train(%tokens: {ids} {{tessera.data = "tokens"}}, %labels: {ids} {{tessera.data = "labels"}})
      -> (tensor<f32> {{tessera.name = "loss"}}) attributes {{tessera.entry = "train"}} {{
    tessera.system.export_manifest {{path = "gpt{self.model}.json"}}
    {train}
    tessera.minimize {loss} {{optimizer = {optimizer}, clip_norm = 1.0}} : tensor<f32>
    return {loss} : tensor<f32>
  }}
  func.func @predict(%tokens: {ids} {{tessera.name = "tokens"}}) -> (tensor<{ROWS}x{VOCABULARY}xf32> {{tessera.name = "y"}}) attributes {{tessera.entry = "infer"}} {{
    {infer}
    return {logits} : tensor<{ROWS}x{VOCABULARY}xf32>
  }}
}}
"""


def build(folder, model):
    program = Program(model)
    with open(f"{folder}/gpt{model}.mlir", "w", encoding="ascii") as file:
        file.write(program.text())
    done = run(folder, AOT, "build", f"gpt{model}.mlir", "-o", f"gpt{model}.tsb", "--target", "cpu:x86-64-v3")
    if done.returncode:
        sys.exit(done.stderr)
    return program.params


def train(folder, model, ranks, steps, *more):
    metrics = f"{folder}/metrics.jsonl"
    if os.path.exists(metrics):
        os.remove(metrics)
    done = run(folder, RUN, f"gpt{model}.tsb", "--data", "tokens=tokens.npy", "--data", "labels=labels.npy", "--steps", str(steps), "--threads", "1",
               "--quiet", "--metrics", "metrics.jsonl", *(("--ranks", str(ranks)) if ranks else ()), *more)
    found = re.search(r"^state (\w+)", done.stdout, re.M)
    if not found:
        return None, done
    with open(metrics, encoding="utf-8") as file:
        return found.group(1), [json.loads(line) for line in file]


def losses(events):
    return np.array([event["outputs"]["loss"] for event in events if event["event"] == "step"])


def main(folder):
    random = np.random.default_rng(3)
    for name in ("tokens", "labels"):
        np.save(f"{folder}/{name}.npy", random.integers(0, VOCABULARY, (4 * BATCH, LENGTH)))
    build(folder, 1)
    split = build(folder, MODEL)
    _, plain = train(folder, 1, 0, STEPS)
    states, planned = {}, {}
    for ranks in range(MODEL + 1):
        states[ranks], events = train(folder, MODEL, ranks, STEPS)
        if states[ranks] is None:
            sys.exit(f"{ranks} ranks: {events.stderr}")
        uses = [event for event in events if event["event"] == "rank"]
        wrong = [use["rank"] for use in uses if use["sent_bytes"] != use["planned_sent_bytes"]]
        expect(f"{ranks} ranks send what was planned", not wrong and len(uses) == ranks, wrong)
        planned[ranks] = max((use["planned_bytes"] for use in uses), default=0)
        off = np.max(np.abs(losses(events) - losses(plain)) / losses(plain))
        expect(f"{ranks} ranks: {off:.1e} off the program without layouts", off <= NEAR)
    expect("one state hash", len(set(states.values())) == 1, states)
    done = run(folder, AOT, "inspect", f"gpt{MODEL}.tsb", "--json")
    parts = {t["name"]: t.get("partBytes", 0) for t in json.loads(done.stdout)["tensors"]}
    for name, size in split.items():
        for tensor in (name, name + ".adam_m", name + ".adam_v"):
            expect(f"{tensor} is stored in parts", parts[tensor] == size // MODEL, parts[tensor])
    expect("memory falls with ranks", planned[1] > planned[2] > planned[4], planned)
    with open(f"{folder}/gpt{MODEL}.json", encoding="utf-8") as file:
        kinds = [c["kind"] for c in json.load(file)["collectives"] if c["entry"] == "train"]
    print({kind: kinds.count(kind) for kind in sorted(set(kinds))}, planned)
    train(folder, MODEL, 2, STEPS // 2, "--state-dir", "S")
    expect("saved by 2 ranks, resumed by 4", train(folder, MODEL, 4, STEPS, "--state-dir", "S")[0] == states[0])
    np.save(f"{folder}/x.npy", np.load(f"{folder}/tokens.npy")[:BATCH])
    done = run(folder, RUN, f"gpt{MODEL}.tsb", "--entry", "predict", "--state-dir", "S", "--input", "tokens=x.npy", "--output", "y=y.npy")
    expect("predicts", done.returncode == 0 and np.all(np.isfinite(np.load(f"{folder}/y.npy"))), done.stderr)
    for name in ("tokens", "labels"):
        right = np.load(f"{folder}/{name}.npy")
        for bad in (VOCABULARY, -1):
            spoiled = right.copy()
            spoiled[:, 5] = bad
            np.save(f"{folder}/{name}.npy", spoiled)
            for ranks in (0, 2):
                state, done = train(folder, MODEL, ranks, 1)
                expect(f"{name} of {bad} on {ranks} ranks", state is None and str(bad) in done.stderr, state or done.stderr)
        np.save(f"{folder}/{name}.npy", right)
    finish()


with tempfile.TemporaryDirectory() as temporary:
    main(temporary)
