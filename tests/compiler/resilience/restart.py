#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: restart.py TESSERA_AOT TESSERA_RUN TRANSFORMER_PY DIGITS_FOLDER

Trains the digits and a transformer with a region of resilience around the forward pass. The region changes no bits; exported
values are imported in the next step, and after a kill between export and commit; handlers run once for each event; a trace
shows each attempt.
"""
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import models

aot, run, transformer, digits = sys.argv[1:]
check = models.Checks()


def build(folder, name, text, *options):
    return models.build(aot, folder, name, text, *options)


def command(folder, name, steps, state, *more):
    return [run, f"{folder}/{name}.tsb", *model.train_data, "--steps", str(steps), "--state-dir", f"{folder}/{state}", *more]


def train(folder, name, steps, state, *more):
    return subprocess.run(command(folder, name, steps, state, *more), capture_output=True, text=True)


def tensors(folder, state):
    return models.tensors(run, f"{folder}/{state}")


def scalar(found, name):
    return struct.unpack("<f", found[name][2])[0]


def outputs(path):
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    return {row["step"]: row["outputs"] for row in rows if row.get("event") == "step"}


def undisturbed(folder):
    """The bits of the program without a region; what a step exports is what the next one imports."""
    build(folder, "plain", model.text)
    for mode in ("replay", "restart"):
        done = build(folder, mode, models.in_region(model, mode))
        check(f"{mode}: builds", done.returncode == 0, done.stderr)
        done = train(folder, mode, 12, mode, "--metrics", f"{folder}/{mode}.jsonl")
        check(f"{mode}: trains", done.returncode == 0, done.stderr)
    train(folder, "plain", 12, "plain")
    plain = tensors(folder, "plain")
    for mode in ("replay", "restart"):
        found = tensors(folder, mode)
        check(f"{mode}: the bits of the program without a region", models.same(found, plain))
        check(f"{mode}: no event", scalar(found, "recoveries") == 0 and scalar(found, "failures") == 0)
        steps = outputs(f"{folder}/{mode}.jsonl")
        check(f"{mode}: every step is in the log", sorted(steps) == list(range(1, 13)), steps)
        check(f"{mode}: imports what the step before exported",
              all(steps[i]["previous"] == (steps[i - 1]["loss"] if i > 1 else 0) for i in steps), steps)
    names = [b"forward" in open(path, "rb").read() for path in glob.glob(f"{folder}/restart/MANIFEST.*")]
    check("the tokens name the region", names and all(names), names)
    shown = subprocess.run([aot, "inspect", f"{folder}/restart.tsb"], capture_output=True, text=True)
    return plain, shown.stdout


def killed(folder, plain):
    """SIGKILL at the link that publishes the second generation: exported, not committed."""
    strace = shutil.which("strace")
    probe = strace and subprocess.run([strace, "-e", "inject=linkat:signal=KILL:when=9", "true"], capture_output=True)
    if not strace or probe.returncode:
        print("strace cannot inject: the kill between export and commit is left out")
        return
    links = f"{folder}/links"
    counted = [strace, "-f", "-o", links, "-e", "trace=linkat"]
    subprocess.run(counted + command(folder, "restart", 2, "counted", "--save-every", "1"), capture_output=True)
    with open(links) as file:
        published = [line.split(None, 1) for line in file if "linkat(" in line]
    # strace counts the calls of each thread; one thread writes the generations.
    saver = next((thread for thread, call in published if "MANIFEST" in call), None)
    manifests = [i for i, call in enumerate([c for t, c in published if t == saver], 1) if "MANIFEST" in call]
    check("two generations are published by a link", len(manifests) == 2, published)
    kill = [strace, "-f", "-o", "/dev/null", "-e", "trace=linkat", "-e",
            f"inject=linkat:signal=KILL:when={manifests[-1]}"]
    log = f"{folder}/killed.jsonl"
    done = subprocess.run(kill + command(folder, "restart", 12, "killed", "--save-every", "1", "--metrics", log),
                          capture_output=True)
    check("the run is killed", done.returncode != 0, done.stderr)
    before = outputs(log)
    done = train(folder, "restart", 12, "killed", "--metrics", f"{folder}/resumed.jsonl")
    check("resumes from generation 1", "resumed generation 1 at step 1" in done.stdout, done.stdout + done.stderr)
    check("the handler ran", done.stderr.count("recovery: ran @back on the state of step 1") == 1, done.stderr)
    found, after = tensors(folder, "killed"), outputs(f"{folder}/resumed.jsonl")
    check("step 2 had exported before it was killed", 2 in before and min(after) == 2, (before, after))
    check("what step 1 exported is back", after[2]["previous"] == before[1]["loss"], after[2])
    check("the same bits", models.same(found, plain))
    check("on_recovery ran exactly once", scalar(found, "recoveries") == 1, scalar(found, "recoveries"))
    done = train(folder, "restart", 12, "killed")
    check("nothing to do is no recovery", scalar(tensors(folder, "killed"), "recoveries") == 1, done.stdout)


def failing(folder):
    """The first attempt divides by zero; the handler makes the divisor 1."""
    for mode, words in (("replay", "region 'forward' failed: its value 0 has inf at element 0"),
                        ("restart", "the run resumes from the last committed state")):
        name = f"{mode}-failing"
        done = build(folder, name, models.in_region(model, mode, divided=True))
        check(f"{name}: builds", done.returncode == 0, done.stderr)
        done = train(folder, name, 12, name)
        check(f"{name}: says it", done.returncode == 0 and done.stderr.count(words) == 1, done.stderr)
        found = tensors(folder, name)
        check(f"{name}: the handler ran exactly once", scalar(found, "failures") == 1, scalar(found, "failures"))
        check(f"{name}: the bits of an undisturbed run", models.same(found, tensors(folder, "plain")))
    for mode, words in (("replay", "region 'forward' failed 3 times"), ("restart", "region 'forward'")):
        name = f"{mode}-lost"
        build(folder, name, models.in_region(model, mode, divided=True, mended=False))
        done = train(folder, name, 12, name)
        check(f"{name}: gives up", done.returncode != 0 and words in done.stderr.splitlines()[-1], done.stderr)


def traced(folder):
    """Each attempt at the region is a span within its step; what failed is run again."""
    train(folder, "replay-failing", 3, "traced", "--trace", f"{folder}/t.json")
    with open(f"{folder}/t.json") as file:
        events = json.load(file)["traceEvents"]
    track = next(e["tid"] for e in events if e["name"] == "thread_name" and e["args"]["name"] == "regions of resilience")
    regions = [e for e in events if e["ph"] == "X" and e["tid"] == track]
    check("attempts are traced", [e["name"] for e in regions] == ["forward", "forward 2", "forward", "forward"], regions)
    steps = [e for e in events if e["ph"] == "X" and e["name"].startswith("step ")]
    inside = [sum(s["ts"] <= e["ts"] and e["ts"] + e["dur"] <= s["ts"] + s["dur"] + 0.001 for e in regions) for s in steps]
    check("within their steps", inside == [2, 1, 1], inside)
    check("the handler is traced once", sum(e["name"] == "fail" for e in events) == 1)


def order(folder):
    """What puts export before import, or awaits nothing, is refused: from Target IR, and in MLIR."""
    done = build(folder, "dumped", models.in_region(model, "replay"), "--dump=target", f"--dump-dir={folder}/dump")
    path = glob.glob(f"{folder}/dump/*target*.mlir")
    check("Target IR is written", done.returncode == 0 and len(path) == 1, done.stderr)
    with open(path[0]) as file:
        lines = file.read().split("\n")
    again = subprocess.run([aot, "build", "--from=target", path[0], "-o", f"{folder}/again.tsb"], capture_output=True,
                           text=True)
    check("Target IR is read back", again.returncode == 0, again.stderr)
    line_of = {word: next(i for i, line in enumerate(lines) if f"tessera_target.{word} " in line)
             for word in ("enter", "leave", "export", "import", "await")}
    token = lines[line_of["export"]].split(" = ")[0].strip()
    line_of["await"] = next(i for i, line in enumerate(lines) if f"tessera_target.await {token} " in line + " ")
    check("import, region, export, await", [w for w, _ in sorted(line_of.items(), key=lambda item: item[1])] ==
          ["import", "enter", "leave", "export", "await"], line_of)
    for first, second in (("import", "export"), ("enter", "leave"), ("export", "await")):
        swapped = list(lines)
        a, b = line_of[first], line_of[second]
        swapped[a], swapped[b] = swapped[b], swapped[a]
        with open(f"{folder}/swapped.mlir", "w") as file:
            file.write("\n".join(swapped))
        done = subprocess.run([aot, "build", "--from=target", f"{folder}/swapped.mlir", "-o", f"{folder}/swapped.tsb"],
                              capture_output=True, text=True)
        check(f"{second} before {first} is refused", done.returncode != 0 and not os.path.exists(
            f"{folder}/swapped.tsb"), done.stderr)


def main(folder):
    plain, shown = undisturbed(folder)
    listed = re.search(r"region forward +restart +commands (\d+) to (\d+) +on failure @fail +exported", shown)
    check("inspect shows the region", listed and int(listed[1]) + 3 < int(listed[2]), shown)
    check("inspect shows the handler", "events  on recovery @back" in shown, shown)
    killed(folder, plain)
    failing(folder)
    if model.name == "digits":
        traced(folder)
        order(folder)


with tempfile.TemporaryDirectory() as temporary:
    os.mkdir(f"{temporary}/t")
    for model in (models.digits(digits), models.small_transformer(transformer, f"{temporary}/t")):
        before = check.count, check.failures
        os.mkdir(f"{temporary}/{model.name}")
        main(f"{temporary}/{model.name}")
        print(f"{model.name}: {check.count - before[0]} checks, {check.failures - before[1]} failed")
sys.exit(1 if check.failures else 0)
