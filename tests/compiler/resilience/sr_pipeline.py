#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: sr_pipeline.py TESSERA_AOT TESSERA_RUN TESSERA_OPT TRANSFORMER_PY DIGITS_FOLDER

Training steps that combine all features: optimizer state on three positions, recomputation, a region that exports, a manifest.
-tessera-sr-pipeline, by name and in a build, must give the same output as its passes one after another, and the trained bits must
be those of a step without these features.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import models

aot, run, opt, transformer, digits = sys.argv[1:]
STEPS, POSITIONS = 4, 3
BEFORE = ("tsched-verify", "tsched-apply", "tessera-handlers", "tessera-specialize-calls", "tessera-verify", "tessera-name-calls", "inline", "tessera-streams",
          "tessera-drop-other-functions", "tessera-inline-regions", "tessera-infer-shapes", "tessera-count-samples", "tessera-flatten", "canonicalize",
          "cse", "tessera-identify", "tessera-autodiff", "tessera-outline")
PASSES = ("canonicalize", "cse", "tessera-optimizer-shard", "tessera-insert-recompute", "tessera-resilience-restart",
          "tessera-export-deployment-manifest")
BEHIND = ("tessera-vrank-shards", "tessera-local-collectives", "tessera-decompose", "tessera-fold-transposes", "tessera-virtual-ranks",
          "canonicalize", "cse", "tessera-verify", "tessera-verify-lowered")
check = models.Checks()


def asking(model):
    """The model's step, asking for all; one rank has all positions."""
    text = models.sharded(models.in_region(model, "replay"), "zero2", POSITIONS).replace(
        "attributes {tessera.mesh", "attributes {tessera.virtual_ranks = 1 : i64, tessera.mesh", 1)
    hint = '    tessera.schedule.recompute_hint {policy = "full"}\n'
    request = '    tessera.system.export_manifest {path = "all.json"}\n'
    return text.replace("    tessera.resilience.on_recovery", hint + request + "    tessera.resilience.on_recovery", 1)


def lowered(path, passes):
    done = subprocess.run([opt, "--mlir-print-debuginfo", *("-" + name for name in passes), path], capture_output=True, text=True, check=False)
    check(f"{path}: {passes[0]} and what follows", done.returncode == 0, done.stderr)
    return done.stdout


def train(folder, name, model):
    """The state after some steps, and what one step exported for the next."""
    log = f"{folder}/{name}.jsonl"
    done = subprocess.run([run, f"{folder}/{name}.tsb", "--steps", str(STEPS), "--state-dir", f"{folder}/{name}.state", "--quiet", "--metrics", log,
                           *model.data], capture_output=True, text=True, check=False)
    check(f"{name}: trains", done.returncode == 0, done.stderr)
    with open(log, encoding="utf-8") as file:
        steps = [row for row in map(json.loads, file) if row.get("event") == "step"]
    return models.tensors(run, f"{folder}/{name}.state"), [step["outputs"] for step in steps]


def workspace(folder, name):
    shown = subprocess.run([aot, "inspect", f"{folder}/{name}.tsb"], check=True, capture_output=True, text=True).stdout
    return int(re.search(r"@train .*workspace (\d+)", shown).group(1)), shown


def main(folder, model):
    for name, text in (("plain", model.text), ("all", asking(model))):
        done = models.build(aot, folder, name, text, "--virtual-ranks", "1")
        check(f"{name}: builds", done.returncode == 0, done.stderr)
    # The alias by its name, between what a build runs before it and behind it.
    for name, passes in (("before", BEFORE), ("alias", ("tessera-sr-pipeline",)), ("behind", BEHIND)):
        text = lowered(f"{folder}/{ {'before': 'all', 'alias': 'before', 'behind': 'alias'}[name] }.mlir", passes)
        with open(f"{folder}/{name}.mlir", "w", encoding="utf-8") as file:
            file.write(text)
        if name == "alias":
            check("the alias is its passes", text == lowered(f"{folder}/before.mlir", PASSES))
            words = ("shard_slice", "reduce_scatter", "all_gather", "barrier", "enter", "leave", "export_begin", "import_begin")
            check("all of them acted", all(f"tessera_sr.{word} " in text for word in words) and "async.await" in text and
                  "tessera_sr.deployment = " in text, [word for word in words if f"tessera_sr.{word} " not in text])
            plan = models.read_plan(text, "tessera_sr.sharded"), models.read_plan(text, "tessera_sr.recompute")
    done = subprocess.run([aot, "build", "--from=autodiff", f"{folder}/behind.mlir", "-o", f"{folder}/by-name.tsb", *models.TARGET],
                          capture_output=True, text=True, check=False)
    check("what the alias made is compiled", done.returncode == 0, done.stderr)
    wanted, _ = train(folder, "plain", model)
    for name in ("all", "by-name"):
        found, outputs = train(folder, name, model)
        check(f"{name}: the bits of the plain step", models.same(found, wanted), sorted(found))
        check(f"{name}: imports what the step before exported",
              [step["previous"] for step in outputs] == [0] + [step["loss"] for step in outputs[:-1]], outputs)
    (all_bytes, shown), (by_name_bytes, _) = workspace(folder, "all"), workspace(folder, "by-name")
    check("the region is in the program", re.search(r"region forward +replay .*exported", shown), shown)
    check("both need the same memory", all_bytes == by_name_bytes, (all_bytes, by_name_bytes))
    with open(f"{folder}/all.json", encoding="utf-8") as file:
        manifest = json.load(file)
    check("the manifest says what was planned", manifest["checkpoint"]["entries"][0]["bytesSaved"] == plan[1][1] and
          manifest["mesh"]["axes"][0]["size"] == POSITIONS, manifest)
    check("and that one virtual rank has and sends all", manifest["collectives"] == [] and
          all(t["shards"] == [{"rank": 0, "begin": 0, "end": t["shards"][0]["end"]}] for t in manifest["optimizer"]), manifest)
    print(f"{model.name}: the fullest of {POSITIONS} positions has {plan[0][3]} bytes of state; {plan[1][1]} of {plan[1][0]} "
          f"bytes are held, {plan[1][2]} ops run again; the same bits as without")


with tempfile.TemporaryDirectory() as temporary:
    os.mkdir(f"{temporary}/t")
    for model in (models.digits(digits), models.small_transformer(transformer, f"{temporary}/t")):
        os.mkdir(f"{temporary}/{model.name}")
        main(f"{temporary}/{model.name}", model)
print(check)
sys.exit(1 if check.failures else 0)
