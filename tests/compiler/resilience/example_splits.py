#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""examples/gpt-char, and examples/gpt2 with narrow layers, whose matrices are split over an axis `model` of 4 positions.

usage: example_splits.py TESSERA_AOT TESSERA_RUN EXAMPLES

Weights are stored as [in, out] there, and one product computes queries, keys and values: the first products of a layer are split along their columns.
The layouts are inserted into the text of the examples. On up to 4 ranks each ends with one state hash, near the losses of the program without layouts,
also if 2 ranks save and 4 resume; every split matrix and its state are stored in parts, and each rank sends what was planned.
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

AOT, RUN, EXAMPLES = map(os.path.abspath, sys.argv[1:4])
MODEL, STEPS = 4, 2
COLUMNS = re.compile(r"(qkv|up|c_attn|c_fc)\.weight$")  # split along the second dim
NEAR = {"gpt-char": 2e-5, "gpt2": 2e-3}  # sums in another order; products of GPT-2 are rounded to bf16


def split(text):
    """Gives each matrix of a known layer a layout; returns the text and the names."""
    types, lines, names = dict(re.findall(r"^(!\w+) = (tensor<\S+>)", text, re.M)), [], []
    for line in text.split("\n"):
        lines.append(line)
        found = re.match(r'\s*(%\S+) = tessera\.param "([\w.]+)" .* : (\S+)$', line)
        if not found or not re.fullmatch(r"tensor<\d+x\d+xf32>", types.get(found[3], found[3])) or found[2] in ("places", "wpe.weight"):
            continue
        value, name, kind = found.groups()
        dim = "out" if COLUMNS.search(name) else "in"
        lines.append(f"{value}_value = tsched.value {value} : {kind}")
        lines.append(f'tsched.layout {value}_value {{order = ["in", "out"], partition = ["{dim}"], mesh_axes = ["model"]}}')
        names.append(name)
    return "\n".join(lines), names


def build(folder, name, text):
    with open(f"{folder}/{name}.mlir", "w", encoding="ascii") as file:
        file.write(text)
    done = run(folder, AOT, "build", f"{name}.mlir", "-o", f"{name}.tsb", "--target", "cpu:x86-64-v3")
    if done.returncode:
        sys.exit(done.stderr)


def start(folder, name, data, ranks, *more, steps=STEPS):
    return run(folder, RUN, f"{name}.tsb", *data, "--steps", str(steps), "--threads", "1", "--quiet", "--metrics", "metrics.jsonl",
               *(("--ranks", str(ranks)) if ranks else ()), *more)


def train(folder, name, data, ranks, *more, steps=STEPS):
    metrics = f"{folder}/metrics.jsonl"
    if os.path.exists(metrics):
        os.remove(metrics)
    done = start(folder, name, data, ranks, *more, steps=steps)
    state = re.search(r"^state (\w+)", done.stdout, re.M)
    if not state:
        sys.exit(f"{name} on {ranks} ranks: {done.stderr}")
    with open(metrics, encoding="utf-8") as file:
        return state[1], [json.loads(line) for line in file]


def losses(events):
    return np.array([event["outputs"]["loss"] for event in events if event["event"] == "step"])


def check(folder, name, text, mesh, data, counts):
    assert text.count(mesh[0]) == 1, mesh
    build(folder, name + "-plain", text.replace(mesh[0], mesh[1] % "data"))
    changed, names = split(text.replace(mesh[0], mesh[1] % "model"))
    build(folder, name, changed)
    plain = losses(train(folder, name + "-plain", data, 0)[1])
    states, planned = {}, {}
    for ranks in counts:
        states[ranks], events = train(folder, name, data, ranks)
        uses = [event for event in events if event["event"] == "rank"]
        wrong = [use["rank"] for use in uses if use["sent_bytes"] != use["planned_sent_bytes"]]
        expect(f"{name}: {ranks} ranks send what was planned", not wrong and len(uses) == ranks, wrong)
        planned[ranks] = max((use["planned_bytes"] for use in uses), default=0)
        off = np.max(np.abs(losses(events) - plain) / plain)
        expect(f"{name}: {ranks} ranks are near the program without layouts", off <= NEAR[name], off)
    expect(f"{name}: one state hash", len(set(states.values())) == 1, states)
    expect(f"{name}: memory falls with ranks", planned.get(1, planned[2] + 1) > planned[2] > planned[4], planned)
    done = run(folder, AOT, "inspect", f"{name}.tsb", "--json")
    tensors = {t["name"]: t for t in json.loads(done.stdout)["tensors"]}
    split_tensors = [t for t in tensors if re.sub(r"^h\.\d+\.|\.adam_[mv]$", "", t) in names]
    whole = [t for t in split_tensors if tensors[t].get("partBytes", 0) * MODEL != tensors[t]["sizeBytes"]]
    expect(f"{name}: {len(split_tensors)} tensors are stored in parts", split_tensors and not whole, whole)
    train(folder, name, data, 2, "--state-dir", name, steps=STEPS // 2)
    expect(f"{name}: saved by 2 ranks, resumed by 4", train(folder, name, data, 4, "--state-dir", name)[0] == states[0])
    print(name, planned)


def check_refused(folder, text):
    layout = 'order = ["in", "out"], partition = ["out"], mesh_axes = ["model"]'
    for what, other, wanted in (
            ("a dim without a name", layout.replace('["out"]', '["width"]'), "TSR-0422.*dim 'width', which order does not name"),
            ("names for three dims", layout.replace('"in", ', '"in", "middle", '), "TSR-0422.*order names 3 dims; parameter '.*' has 2"),
            ("two dims", 'order = ["in", "out"], partition = ["in", "out"], mesh_axes = ["model", "data"]', "TSR-0422.*and others; expected one dim")):
        with open(f"{folder}/refused.mlir", "w", encoding="ascii") as file:
            file.write(text.replace(layout, other, 1))
        done = run(folder, AOT, "build", "refused.mlir", "-o", "refused.tsb", "--target", "cpu:x86-64-v3")
        expect(f"{what}: refused", done.returncode != 0 and re.search(wanted, done.stderr), done.stderr)


def check_token(folder):
    """Lookups find a token outside of the vocabulary, though their gradients do not check it again."""
    rows = np.random.default_rng(2).integers(0, 512, (8, 33)).astype("<u2")
    rows[5, 7] = 600
    np.save(f"{folder}/bad.npy", rows.view("u1"))
    for ranks in (0, 2):
        done = start(folder, "gpt2", ["--data", "text=bad.npy", "--data", "test_text=t.npy"], ranks, steps=1)
        expect(f"a token outside of the vocabulary on {ranks} ranks", done.returncode != 0 and "600" in done.stderr, done.stdout, done.stderr)


def main(folder):
    with open(f"{EXAMPLES}/gpt-char/gpt-char.mlir", encoding="utf-8") as file:
        text = file.read()
    mesh = ("{tessera.mesh = {data = 8}}", f"{{tessera.mesh = {{%s = {MODEL}}}}}")
    with open(f"{EXAMPLES}/gpt-char/test.txt", "rb") as file, open(f"{folder}/few.txt", "wb") as few:
        few.write(file.read(32 * 65))
    check(folder, "gpt-char", text, mesh, ["--data", f"text={EXAMPLES}/gpt-char/train.txt", "--data", "test_text=few.txt"], (0, 2, 4))
    check_refused(folder, split(text.replace(mesh[0], mesh[1] % "model"))[0])
    sizes = "--batch 8 --positions 32 --width 64 --heads 4 --vocabulary 512 --window 16".split()
    done = run(folder, sys.executable, f"{EXAMPLES}/gpt2/sizes.py", *sizes)
    np.save(f"{folder}/t.npy", np.random.default_rng(1).integers(0, 512, (32, 33)).astype("<u2").view("u1"))
    check(folder, "gpt2", done.stdout, ("module @gpt2 {", f"module @gpt2 attributes {{tessera.mesh = {{%s = {MODEL}}}}} {{"),
          ["--data", "text=t.npy", "--data", "test_text=t.npy"], range(MODEL + 1))
    check_token(folder)
    finish()


with tempfile.TemporaryDirectory() as temporary:
    main(temporary)
