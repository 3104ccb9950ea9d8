#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: shard.py TESSERA_AOT TESSERA_RUN TESSERA_OPT TRANSFORMER_PY DIGITS_FOLDER

Trains the digits and a transformer with optimizer state sharded over 1 to 7 positions, at every stage, one position after
another: the bits equal those of the unsharded program, and the bytes in the IR are those of the plan.
"""
import re
import subprocess
import sys
import tempfile

import models

aot, run, opt, transformer, digits = sys.argv[1:]
STEPS = 4


def train(folder, name, model, text):
    built = models.build(aot, folder, name, text, "--virtual-ranks", "1")
    if built.returncode:
        sys.exit(built.stderr)
    command = [run, f"{folder}/{name}.tsb", "--steps", str(STEPS), "--state-dir", f"{folder}/{name}.state", "--quiet"]
    subprocess.run(command + model.data, check=True, stdout=subprocess.DEVNULL)
    return models.tensors(run, f"{folder}/{name}.state")


def tensor_bytes(text):
    count = 4
    for dim in text.split("x")[:-1]:
        count *= int(dim)
    return count


def ranges(count, positions):
    each = -(-count // positions)
    return [(min(i * each, count), min((i + 1) * each, count)) for i in range(positions)]


def plan_of_one(text):
    """Bytes of the parameters that are sharded."""
    types = dict(re.findall(r'tessera\.param "([^"]*)" .* : tensor<([^>]*)>', text))
    return sum(tensor_bytes(types[name]) for name in set(re.findall(r'tessera\.assign .* to "([^"]*)"', text)) & set(types))


def bytes_at_positions(text, positions):
    """What each position holds of parameters, gradients and state, from the types of its slices."""
    held = {kind: [0] * positions for kind in ("param", "gradient", "opt.state")}
    made = dict(re.findall(r"(%\w+) = tessera\.(param|opt\.state) ", text))
    take = r"= tessera_sr\.(shard_slice|reduce_scatter) (%\w+) .*position = (\d+) : i64\} : .* -> tensor<([^>]*)>"
    # Zero3 reads a slice twice: for the gather and for the step.
    for kind, of, position, types in sorted(set(re.findall(take, text))):
        what = "gradient" if kind == "reduce_scatter" else made.get(of, "gradient")
        held[what][int(position)] += tensor_bytes(types)
    return held


def check_ir(path, positions, stage):
    """Counts what the collectives of the IR hold and send, and compares with the plan."""
    passes = ["-tessera-verify", "-tessera-name-calls", "-inline", "-tessera-streams", "-tessera-drop-other-functions", "-tessera-inline-regions",
              "-canonicalize", "-cse", "-tessera-autodiff", "-tessera-optimizer-shard"]
    text = subprocess.run([opt, *passes, path], check=True, capture_output=True, text=True).stdout
    plan = models.read_plan(text, "tessera_sr.sharded")
    sent = 0
    for kind, types in re.findall(r"tessera_sr\.(all_reduce|reduce_scatter|all_gather) .* : \(.*\) -> tensor<([^>]*)>", text):
        # A position sends V - 1 of V parts; reduce_scatter stands once for each position.
        sent += tensor_bytes(types) * (positions - 1) * (2 if kind == "all_reduce" else 1)
    slices = {}
    pattern = r'shard_slice .*begin = (\d+) : i64, end = (\d+) : i64, position = (\d+) : i64\} : \(tensor<([^>]*)>\)'
    for begin, end, position, of in re.findall(pattern, text):
        count = tensor_bytes(of) // 4
        slices.setdefault(count, set()).add((int(position), int(begin), int(end)))
    failed = sent != plan[4] or plan[0] != positions
    held, whole = bytes_at_positions(text, positions), plan_of_one(text)
    # What is not sharded lies whole at each position.
    found = [max(held["param"]) if stage == "zero3" else whole, whole if stage == "zero1" else max(held["gradient"]),
             max(held["opt.state"])]
    print(f"  bytes at the fullest position: parameter, gradient, state = {found}; planned {plan[1:4]}")
    failed |= found != plan[1:4]
    for count, found in slices.items():
        wanted = {(i, *r) for i, r in enumerate(ranges(count, positions)) if r[0] < r[1]}
        failed |= found != wanted
    empty = positions > 1 and any(len(found) < positions for found in slices.values())
    print(f"{stage} over {positions}: planned [positions, parameter, gradient, state, sent] = {plan}, sent by the IR "
          f"{sent}{', empty slices' if empty else ''}: {'DIFFERS' if failed else 'as planned'}")
    return failed, plan, empty


def check_model(folder, model, sharded):
    whole = train(folder, "whole", model, model.text)
    failed, some_empty, plans = False, False, {}
    for stage, positions in sharded:
        name = f"{stage}-{positions}"
        same = train(folder, name, model, models.sharded(model.text, stage, positions)) == whole
        print(f"{model.name}: {stage} over {positions}: state {'equal' if same else 'DIFFERS'}")
        differs, plans[stage, positions], empty = check_ir(f"{folder}/{name}.mlir", positions, stage)
        some_empty |= empty
        failed |= differs or not same
    # Uneven ranges: the fullest position holds at most one element more per tensor than its part.
    most = max(positions for _, positions in sharded)
    one, parts = plans["zero3", 1], plans["zero3", most]
    for i in (1, 2, 3):
        failed |= not one[i] / most <= parts[i] <= one[i] / most + 4 * len(whole)
    return failed or not some_empty


with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
    failed = check_model(one, models.digits(digits), (("zero1", 4), ("zero2", 3), ("zero2", 7), ("zero3", 1), ("zero3", 7)))
    small = models.small_transformer(transformer, other)
    failed |= check_model(other, small, (("zero1", 9), ("zero2", 9), ("zero3", 1), ("zero3", 9)))
sys.exit(1 if failed else 0)
