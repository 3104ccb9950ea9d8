#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts against NumPy in float64: routes, dropped tokens, limits, loads, and gradients against central differences.

usage: experts.py TESSERA_AOT TESSERA_RUN
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import checks

AOT, RUN = sys.argv[1:3]
G, T, C, E = 3, 7, 5, 4
SHARE, STEP, EXACT, NEAR = 0.3, 1e-6, 1e-12, 1e-7
# choices, capacity, normalize, limit
CASES = {"one": (1, 2, False, None), "two": (2, 3, False, None), "normalized": (2, 4, True, None), "all": (4, 7, True, None),
         "throttled": (2, 4, False, (0, 1, 4, 9)), "full": (2, 14, False, None)}


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def route(logits, k, capacity, normalize, limit):
    """As GShard does it: by choice, then by token; nothing here is taken from the compiler."""
    p = softmax(logits)
    weights, slots = np.zeros((G, T, k)), np.full((G, T, k), E * capacity)
    chosen = np.argsort(-p, axis=-1, kind="stable")[..., :k]
    for g in range(G):
        taken = [0] * E
        for choice in range(k):
            for t in range(T):
                e = chosen[g, t, choice]
                if taken[e] < min(capacity, limit[e] if limit else capacity):
                    slots[g, t, choice] = e * capacity + taken[e]
                    weights[g, t, choice] = p[g, t, e] / (p[g, t, chosen[g, t]].sum() if normalize else 1)
                taken[e] += 1
    load = np.bincount(chosen.reshape(-1), minlength=E)
    return weights, slots, E * float((load / (G * T * k) * p.mean((0, 1))).sum()), load


def dispatch(x, slots, capacity):
    out = np.zeros((E, G, capacity, C))
    for g, t, choice in np.ndindex(slots.shape):
        e, at = divmod(slots[g, t, choice], capacity)
        if e < E:
            out[e, g, at] += x[g, t]
    return out


def combine(y, slots, weights, capacity):
    out = np.zeros((G, T, C))
    for g, t, choice in np.ndindex(slots.shape):
        e, at = divmod(slots[g, t, choice], capacity)
        if e < E:
            out[g, t] += weights[g, t, choice] * y[e, g, at]
    return out


def forward(values, case):
    weights, slots, balance, load = route(values["l"], *case)
    contents = dispatch(values["x"], slots, case[1])
    return {"weights": weights, "slots": slots, "balance": balance, "load": load, "contents": contents,
            "out": combine(contents * values["w"], slots, weights, case[1])}


def loss(values, factors, case):
    made = forward(values, case)
    return float((made["out"] * factors).sum() + SHARE * made["balance"])


def text(array):
    return str(np.asarray(array).tolist()).replace("'", "")


def kind(array, dtype="f64"):
    return f"tensor<{''.join(f'{n}x' for n in np.shape(array))}{dtype}>"


def program(values, factors, case):
    k, capacity, normalize, limit = case
    x, l, w, choices = kind(values["x"]), kind(values["l"]), kind(values["w"]), f"tensor<{G}x{T}x{k}x"
    contents, limits = f"tensor<{E}x{G}x{capacity}x{C}xf64>", "" if limit is None else ", %limit"
    small = contents.replace("f64", "bf16")
    declared = "" if limit is None else f"    %limit = tessera.constant dense<{list(limit)}> : tensor<{E}xi64>\n"
    body = f"""{declared}    %weights, %slots, %balance, %load = tessera.moe_route %l{limits} {{k = {k}, capacity = {capacity}, normalize = {str(normalize).lower()}}}
        : ({l}{"" if limit is None else f", tensor<{E}xi64>"}) -> ({choices}f64>, {choices}i64>, tensor<f64>, tensor<{E}xi64>)
    %contents = tessera.moe_dispatch %x, %slots {{experts = {E}, capacity = {capacity}}} : ({x}, {choices}i64>) -> {contents}
    %y = tessera.mul %contents, %w : ({contents}, {w}) -> {contents}
    %out = tessera.moe_combine %y, %slots, %weights : ({contents}, {choices}i64>, {choices}f64>) -> {x}
"""
    params = "".join(f'    %{name} = tessera.param "{name}" data = dense<{text(value)}> : {kind(value)}\n' for name, value in values.items())
    results = {"weights": choices + "f64>", "slots": choices + "i64>", "balance": "tensor<f64>", "load": f"tensor<{E}xi64>", "contents": contents,
               "out": x, "small": small}
    return f"""module @experts {{
  func.func @train(%one: tensor<1xf64> {{tessera.data = "one"}}) -> (tensor<f64> {{tessera.name = "loss"}}) attributes {{tessera.entry = "train"}} {{
{params}{body}    %c = tessera.constant dense<{text(factors)}> : {x}
    %ones = tessera.mul %out, %one : ({x}, tensor<1xf64>) -> {x}
    %terms = tessera.mul %ones, %c : {x}
    %sum = tessera.sum %terms {{axes = [0, 1, 2]}} : {x} -> tensor<f64>
    %share = tessera.constant dense<{SHARE}> : tensor<f64>
    %even = tessera.mul %balance, %share : tensor<f64>
    %loss = tessera.add %sum, %even : tensor<f64>
    tessera.minimize %loss {{optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>}} : tensor<f64>
    return %loss : tensor<f64>
  }}
  func.func @show() -> ({", ".join(f'{t} {{tessera.name = "{n}"}}' for n, t in results.items())}) attributes {{tessera.entry = "infer"}} {{
{params}{body}    %short = tessera.cast %x : {x} -> {x.replace("f64", "bf16")}
    %small = tessera.moe_dispatch %short, %slots {{experts = {E}, capacity = {capacity}}} : ({x.replace("f64", "bf16")}, {choices}i64>) -> {small}
    return {", ".join("%" + n for n in results)} : {", ".join(results.values())}
  }}
}}
"""


def differences(values, factors, case):
    for name, value in values.items():
        gradient = np.zeros_like(value)
        for at in np.ndindex(value.shape):
            ends = []
            for sign in (1, -1):
                moved = {key: array.copy() for key, array in values.items()}
                moved[name][at] += sign * STEP
                ends.append(loss(moved, factors, case))
            gradient[at] = (ends[0] - ends[1]) / (2 * STEP)
        yield name, gradient


def tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[slice(*of["data_offsets"])], np.float64).reshape(of["shape"]) for name, of in header.items()}


def main(folder):
    random = np.random.default_rng(11)
    np.save(f"{folder}/one.npy", np.ones(1))
    for name, case in CASES.items():
        values = {"x": random.standard_normal((G, T, C)), "l": random.standard_normal((G, T, E)), "w": random.standard_normal((E, 1, 1, C))}
        factors = random.standard_normal((G, T, C))
        with open(f"{folder}/{name}.mlir", "w", encoding="ascii") as file:
            file.write(program(values, factors, case))
        subprocess.run([AOT, "build", file.name, "-o", f"{folder}/{name}.tsb", "--target", "cpu:x86-64-v3"], check=True)
        made = forward(values, case)
        shown = [flag for key in [*made, "small"] for flag in ("--output", f"{key}={folder}/{key}.npy")]
        subprocess.run([RUN, f"{folder}/{name}.tsb", "--entry", "show", *shown], check=True, stdout=subprocess.DEVNULL)
        for key, wanted in made.items():
            got = np.load(f"{folder}/{key}.npy")
            checks.expect(f"{name}: {key}", np.shape(got) == np.shape(wanted) and np.all(np.abs(got - wanted) <= EXACT * (1 + np.abs(wanted))), f"{got} {wanted}")
        small = (np.load(f"{folder}/small.npy").view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        checks.expect(f"{name}: bf16", np.all(np.abs(small - made["contents"]) <= np.abs(made["contents"]) / 256))
        subprocess.run([RUN, f"{folder}/{name}.tsb", "--data", f"one={folder}/one.npy", "--steps", "1", "--quiet", "--export-params",
                        f"{folder}/w.safetensors"], check=True, stdout=subprocess.DEVNULL)
        after = tensors(f"{folder}/w.safetensors")
        for key, wanted in differences(values, factors, case):
            worst = float(np.max(np.abs(values[key] - after[key] - wanted)))
            checks.expect(f"{name}: gradient of {key}, off by {worst:.1e}", worst <= NEAR and np.any(wanted != 0))
        dropped = int((made["slots"] == E * case[1]).sum())
        checks.expect(f"{name}: {dropped} choices dropped", (dropped > 0) == (name not in ("full", "all")))
    checks.finish()


with tempfile.TemporaryDirectory() as temporary:
    main(temporary)
