#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: recompute.py TESSERA_AOT TESSERA_RUN TRANSFORMER_PY DIGITS_FOLDER

Trains with every recompute policy and without: the bits are equal, and memory is as planned.
"""
import os
import random
import re
import subprocess
import sys
import tempfile

import models

aot, run, transformer, digits = sys.argv[1:]
STEPS, RUNS = 3, 3
ROWS = 32768      # of the digits
BUDGET = 4000000  # bytes, of each layer
# Runs what stands behind it. A process counts as its own peak what its parent held when it was made: this one holds little.
# Huge pages (PR_SET_THP_DISABLE) are off: whether a block's last one counts hangs on where the block lies.
MEASURE = """import ctypes, os, sys
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)
_, status, usage = os.wait4(os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:]), 0)
print("peak", usage.ru_maxrss * 1024)
sys.exit(status != 0)"""
# Noise: what a process takes besides (a fifth of it was seen), and a hundredth of what the plan says the peak falls by.
NOISE, TOLERANCE = 1 << 20, 0.01


def build(folder, name, text):
    """The workspace of the step, and what was planned: bytes held without and with, ops run again, their operations."""
    built = models.build(aot, folder, name, text, "--dump=autodiff")
    if built.returncode:
        sys.exit(built.stderr)
    planned = models.read_plan(built.stdout, "tessera_sr.recompute") if "tessera_sr.recompute = " in built.stdout else None
    shown = subprocess.run([aot, "inspect", f"{folder}/{name}.tsb"], check=True, capture_output=True, text=True)
    return int(re.search(r"@train .*workspace (\d+)", shown.stdout).group(1)), planned


def train(folder, name, data):
    """The hash of the state after some steps, and the peak of resident bytes: the least of some runs, since pages of others only add to it."""
    states, peaks = zip(*(train_once(folder, name, data) for _ in range(RUNS)))
    if len(set(states)) > 1:
        sys.exit(f"{name}: states differ from run to run")
    return states[0], min(peaks)


def train_once(folder, name, data):
    done = subprocess.run([sys.executable, "-S", "-c", MEASURE, run, f"{folder}/{name}.tsb", "--steps", str(STEPS), "--threads", "1", "--quiet",
                           *data], capture_output=True, text=True, check=False)
    state = re.search(r"^state (\w+) step .*\npeak (\d+)$", done.stdout, re.M)
    if done.returncode or not state:
        sys.exit(f"{name}: exit status {done.returncode}, {done.stderr}")
    return state[1], int(state[2])


def compare(folder, title, programs, data):
    """{name: (workspace, plan)}, and whether something is wrong."""
    results = {}
    for name, text in programs.items():
        results[name] = *build(folder, name, text), *train(folder, name, data)
    workspace, _, state, resident = results["absent"]
    failed = False
    for name, (other_workspace, plan, other_state, other_resident) in results.items():
        fall, measured = workspace - other_workspace, resident - other_resident
        print(f"{title:12} {name:14} workspace {other_workspace:10} resident {other_resident:10} planned to fall by {fall:9}, fell by "
              f"{measured:9}; {f'holds {plan[1]} of {plan[0]} bytes, runs {plan[2]} ops again' if plan else 'no plan'}; "
              f"state {'equal' if other_state == state else 'DIFFERS'}")
        failed |= other_state != state or (plan is None) != (name in ("absent", "none"))
        if abs(measured - fall) > NOISE + TOLERANCE * fall:
            print("  which is not what was planned")
            failed = True
    return {name: result[:2] for name, result in results.items()}, failed


def transformers(folder):
    sizes = ("--layers", 4, "--batch", 64)
    options = {"none": ("--policy", "none"), "selective": ("--policy", "selective"), "full": ("--policy", "full"),
               "hint": ("--hint", "full"), "hint selective": ("--hint", "selective"),
               "budget": ("--policy", "selective", "--budget", BUDGET)}
    model = models.transformer(transformer, folder, *sizes)
    programs = {"absent": model.text}
    for name, words in options.items():
        programs[name] = models.transformer_text(transformer, *sizes, *words)
    found, failed = compare(folder, "transformer", programs, model.data)
    planned = {name: workspace for name, (workspace, _) in found.items()}
    if not max(planned["full"], planned["budget"]) < planned["selective"] < planned["absent"] == planned["none"] \
            or not planned["hint"] < planned["absent"] / 1.5 or not planned["full"] < planned["absent"] / 2:
        print("the order of the plans is wrong")
        failed = True
    # What is held besides the segments is what the cheapest of plans holds at least.
    held = {name: plan[1] for name, (_, plan) in found.items() if plan}
    if not held["full"] <= held["budget"] <= held["full"] + 4 * BUDGET < held["selective"]:
        print(f"the budget of {BUDGET} bytes a layer is not kept")
        failed = True
    return failed


def many_rows(text):
    """The digits in batches of ROWS: what is no parameter has a first dim of 64 of them."""
    many, lines = f"tensor<{ROWS}x", []
    for line in text.split("\n"):
        if " = tessera.matmul " in line or "tessera.add" in line:
            line = re.sub(r": \(tensor<64x(.*)-> tensor<64x", rf": ({many}\1-> {many}", line)
        elif " = tessera.param " not in line:
            line = line.replace("tensor<64x", many)
        lines.append(line)
    return "\n".join(lines)


def digit_programs(folder):
    model = models.digits(digits)
    text = many_rows(model.text)
    begin, end = text.index("    %raw ="), text.index("    %m3 =")
    programs = {"absent": text}
    for name, words in (("none", 'policy = "none"'), ("selective", 'policy = "selective"'), ("full", 'policy = "full"'),
                        ("budget", 'policy = "selective", budget_bytes = 0')):
        body = f"    %h = tessera.schedule.checkpoint {{{words}}} {{\n" + text[begin:end] + \
            f"    tessera.yield %h2 : tensor<{ROWS}x64xf32>\n    }} : tensor<{ROWS}x64xf32>\n"
        programs[name] = text[:begin] + body + text[end:].replace("%h2", "%h")
    programs["hint"] = text.replace(model.end, '    tessera.schedule.recompute_hint {policy = "full"}\n' + model.end, 1)
    draw = random.Random(3)
    models.write_npy(f"{folder}/images.npy", "|u1", (ROWS, 64), [draw.randrange(17) for _ in range(64 * ROWS)])
    models.write_npy(f"{folder}/labels.npy", "<i8", (ROWS,), [draw.randrange(10) for _ in range(ROWS)])
    found, failed = compare(folder, "digits", programs, [f"--data=images={folder}/images.npy", f"--data=labels={folder}/labels.npy"])
    # Three layers that run again at once are held at once: the peak falls where the pixels alone run again.
    return failed or found["selective"][0] > found["absent"][0] - 4 * NOISE or found["full"][1][1] > found["selective"][1][1] / 2


with tempfile.TemporaryDirectory() as temporary:
    os.mkdir(f"{temporary}/t")
    os.mkdir(f"{temporary}/d")
    failed = transformers(f"{temporary}/t") | digit_programs(f"{temporary}/d")
sys.exit(1 if failed else 0)
