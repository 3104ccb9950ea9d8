#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The mixture of experts of examples/moe on ranks that hold only their experts.

usage: expert_ranks.py TESSERA_AOT TESSERA_RUN EXAMPLES

One state hash for 1 to 4 ranks and without ranks, also if a run is saved by 2 ranks and resumed by 3; close to the program on one
position. Each rank stores its experts alone, sends what was planned, and the deployment manifest says what all send. The limit of
slots throttles the experts while the program runs. Layouts that cannot be obeyed are refused.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from checks import expect, finish, run  # noqa: E402

AOT, RUN, EXAMPLES = map(os.path.abspath, sys.argv[1:4])
DATA = [word for key in ("images", "labels") for word in ("--data", f"{key}={EXAMPLES}/digits/train-{key}.npy")]
POSITIONS, STEPS = 4, 12
EXPERTS = 4 * (8 * 32 * 64 + 8 * 64 + 8 * 64 * 32)  # bytes of the parameters of all experts
NEAR = 2e-3  # losses of other sums over the batch, after STEPS steps
SMALL = POSITIONS / 2  # sums of this size go whole to every rank, POSITIONS - 1 times, not 2 (POSITIONS - 1) / POSITIONS times


def build(folder, name, text):
    with open(f"{folder}/{name}.mlir", "w", encoding="utf-8") as file:
        file.write(text)
    return run(folder, AOT, "build", f"{name}.mlir", "-o", f"{name}.tsb", "--target", "cpu:x86-64-v3")


def train(folder, name, ranks, steps, *more):
    """The state hash, and the events of the metrics."""
    metrics = f"{folder}/metrics.jsonl"
    if os.path.exists(metrics):
        os.remove(metrics)
    done = run(folder, RUN, f"{name}.tsb", *DATA, "--steps", str(steps), "--threads", "1", "--quiet", "--metrics", metrics,
               *(("--ranks", str(ranks)) if ranks else ()), *more)
    found = re.search(r"^state (\w+)", done.stdout, re.M)
    if not found:
        sys.exit(f"{name} on {ranks} ranks: {done.stderr}")
    with open(metrics, encoding="utf-8") as file:
        return found.group(1), [json.loads(line) for line in file]


def losses(events):
    return np.array([event["outputs"]["loss"] for event in events if event["event"] == "step"])


def uses(events):
    return [event for event in events if event["event"] == "rank"]


def check_ranks(folder, text):
    states, plans = {}, {}
    for ranks in (0, 1, 2, 3, 4):
        states[ranks], events = train(folder, "moe", ranks, STEPS)
        wrong = [use["rank"] for use in uses(events) if use["sent_bytes"] != use["planned_sent_bytes"]]
        expect(f"{ranks} ranks send what was planned", not wrong and len(uses(events)) == ranks, wrong)
        plans[ranks] = max((use["planned_bytes"] for use in uses(events)), default=0)
        if ranks == POSITIONS:
            with open(f"{folder}/moe.json", encoding="utf-8") as file:
                manifest = [c for c in json.load(file)["collectives"] if c["entry"] == "train"]
            sent, said = sum(use["sent_bytes"] for use in uses(events)), sum(
                c["bytes"] * (SMALL if c["kind"] == "all_reduce" else 1) for c in manifest)
            expect("the manifest says what ranks send", sent == said, sent, said)
            expect("experts are exchanged", sum(c["kind"] == "all_to_all" for c in manifest) >= 4, manifest)
    expect("one state hash", len(set(states.values())) == 1, states)
    # Parameters and both moments of the experts of the other positions are elsewhere.
    expect("a rank holds its experts alone", plans[1] - plans[4] >= 3 * EXPERTS * 3 // 4, plans)
    _, events = train(folder, "moe", 2, STEPS)
    with_two = losses(events)
    expect("one position is built", build(folder, "one", text.replace("expert = 4", "expert = 1")).returncode == 0)
    off = np.max(np.abs(losses(train(folder, "one", 0, STEPS)[1]) - with_two) / with_two)
    expect(f"as on one position: {off:.1e}", off <= NEAR)
    return states[1]


def check_resume(folder, straight):
    train(folder, "moe", 2, STEPS // 2, "--state-dir", "S")
    resumed, _ = train(folder, "moe", 3, STEPS, "--state-dir", "S")
    expect("saved by 2 ranks, resumed by 3", resumed == straight, resumed, straight)
    np.save(f"{folder}/x.npy", np.load(f"{EXAMPLES}/digits/test-images.npy")[:128])
    train(folder, "moe", 2, 300, "--state-dir", "T")
    done = run(folder, RUN, "moe.tsb", "--entry", "predict", "--state-dir", "T", "--input", "x=x.npy", "--output", "y=y.npy")
    expect("predicts with the state of ranks", done.returncode == 0, done.stderr)
    right = np.mean(np.load(f"{folder}/y.npy").argmax(1) == np.load(f"{EXAMPLES}/digits/test-labels.npy")[:128])
    expect(f"{right:.3f} of the predictions are right", right >= 0.9)
    print(f"accuracy after 300 steps on 2 ranks: {right:.3f}")


def check_throttle(folder, straight):
    few, events = train(folder, "moe", 2, STEPS, "--set", "expert_slots=1")
    again, _ = train(folder, "moe", 0, STEPS, "--set", "expert_slots=1")
    expect("a limit of slots changes the run, alike on 2 ranks and without", few == again and few != straight, few, again, straight)
    expect("throttled losses are finite", np.all(np.isfinite(losses(events))))


def check_refused(folder, text):
    layout = 'tsched.layout %u {partition = ["expert"], mesh_axes = ["expert"]}'
    assert text.count(layout) == 1
    for what, changed, wanted in (
            ("another dim", layout.replace("}", ', order = ["in", "expert"]}'), "TSR-0422.*order names 2 dims; parameter '.*' has 3"),
            ("an axis of other length", layout.replace('mesh_axes = ["expert"]', 'mesh_axes = ["model"]'),
             'TSR-0606.*axis "model" has 2 positions; expected the 4 positions'),
            ("an axis that is not there", layout.replace('mesh_axes = ["expert"]', 'mesh_axes = ["rows"]'), 'TSR-0606.*axis "rows" has 0 positions')):
        done = build(folder, "refused", text.replace(layout, changed).replace("expert = 4", "expert = 4, model = 2"))
        expect(f"{what}: refused", done.returncode != 0 and re.search(wanted, done.stderr), done.stderr)
    odd = text.replace("%d = tsched.value %down : tensor<8x64x32xf32>", "%d = tsched.value %head : tensor<32x10xf32>").replace(
        "expert = 4", "expert = 64")
    done = build(folder, "refused", odd)
    expect("experts that positions cannot share: refused", done.returncode != 0 and
           re.search(r"TSR-0605.*dim 0 of '.*' is \d+; expected .* a multiple of 64", done.stderr), done.stderr)


def main(folder):
    with open(f"{EXAMPLES}/moe/moe.mlir", encoding="utf-8") as file:
        text = file.read()
    request = '    tessera.system.export_manifest {path = "moe.json"}\n'
    text = text.replace("    %number = tessera.hyper", request + "    %number = tessera.hyper")
    done = build(folder, "moe", text)
    if done.returncode:
        sys.exit(done.stderr)
    straight = check_ranks(folder, text)
    check_resume(folder, straight)
    check_throttle(folder, straight)
    check_refused(folder, text)
    finish()


with tempfile.TemporaryDirectory() as temporary:
    main(temporary)
