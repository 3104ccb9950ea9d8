#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: manifest.py TESSERA_AOT TESSERA_OPT TRANSFORMER_PY DIGITS_FOLDER SCHEMA

Deployment manifests of the digits and of a transformer, sharded and with recomputation: what they say is what the passes planned, what the
IR holds, and what the compiled program runs on.
"""
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile

import models

aot, opt, transformer, digits, schema = sys.argv[1:]
check = models.Checks()
try:
    import jsonschema
    with open(schema) as file:
        checker = jsonschema.Draft202012Validator(json.load(file))
except ImportError:
    checker = None


def source(stage, positions, request="", recompute=False):
    text = models.sharded(model.text, stage, positions) if stage else model.text
    request += '    tessera.schedule.recompute_hint {policy = "full"}\n' if recompute else ""
    return text.replace(model.end, request + model.end, 1)


def build(folder, name, text):
    return models.build(aot, folder, name, text, "--virtual-ranks", "1", "--dump=autodiff,program", f"--dump-dir={folder}/{name}.d")


def stored(path):
    """The manifest in a bundle: the one blob that is JSON with a pipeline."""
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            data = archive.extractfile(member).read() if member.isfile() else b""
            if data.startswith(b'{"formatVersion"') and b'"pipeline"' in data:
                return json.loads(data)
    return None


def valid(what, manifest):
    if checker:
        errors = [error.message for error in checker.iter_errors(manifest)]
        check(f"{what}: valid by the schema", not errors, errors)


def ranges(count, positions):
    each = -(-count // positions)
    return [(min(i * each, count), min((i + 1) * each, count)) for i in range(positions)]


def elements(tensor):
    count = 1
    for dim in tensor["shape"]:
        count *= dim
    return count


def plan_of(path):
    passes = ["-tessera-verify", "-tessera-name-calls", "-inline", "-tessera-streams", "-tessera-keep-entries", "-tessera-open-regions",
              "-canonicalize", "-cse", "-tessera-autodiff", "-tessera-optimizer-shard"]
    text = subprocess.run([opt, *passes, path], check=True, capture_output=True, text=True).stdout
    return models.read_plan(text, "tessera_sr.sharded")


def sharded(folder, stage, positions):
    name = f"{stage}-{positions}"
    done = build(folder, name, source(stage, positions))
    check(f"{name}: builds", done.returncode == 0, done.stderr)
    manifest, plan = stored(f"{folder}/{name}.tsb"), plan_of(f"{folder}/{name}.mlir")
    valid(name, manifest)
    check(f"{name}: the mesh", manifest["mesh"]["axes"] == [{"name": "data", "size": positions, "batch": False}], manifest["mesh"])
    with open(next(f"{folder}/{name}.d/{file}" for file in os.listdir(f"{folder}/{name}.d") if "program" in file)) as file:
        program = file.read()
    held = [0] * positions
    for tensor in manifest["optimizer"] + (manifest["parameters"] if stage == "zero3" else []):
        found = [(shard["begin"], shard["end"]) for shard in tensor["shards"]]
        check(f"{name}: {tensor['name']} is spread", found == ranges(elements(tensor), positions) and
              [shard["position"] for shard in tensor["shards"]] == list(range(positions)), found)
        for i, (begin, end) in enumerate(found):
            held[i] += 4 * (end - begin)
            # The program runs on a buffer of just so many elements.
            check(f"{name}: {tensor['name']} at {i} in the program", begin == end or f" : {end - begin}xf32" in program)
    check(f"{name}: bytes of the fullest position", max(held) == plan[3] + (plan[1] if stage == "zero3" else 0), (held, plan))
    check(f"{name}: other parameters are whole", stage == "zero3" or all("axis" not in t for t in manifest["parameters"]))
    sent = sum(row["bytes"] for row in manifest["collectives"])
    check(f"{name}: bytes sent", sent == plan[4], (sent, plan))
    kinds = {row["kind"] for row in manifest["collectives"]}
    check(f"{name}: collectives", kinds == ({"all_reduce", "all_gather"} if stage == "zero1" else
                                            {"reduce_scatter", "all_gather"}), kinds)
    print(f"{name}: {max(held)} bytes at the fullest position, {sent} bytes sent by {len(manifest['collectives'])} collectives")


def asked(folder):
    request = '    tessera.system.export_manifest {path = "asked.json", include = ["mesh", "checkpoint"]}\n'
    done = build(folder, "asked", source("zero2", 3, request, recompute=True))
    check("asked: builds", done.returncode == 0, done.stderr)
    with open(f"{folder}/asked.json") as file:
        part = json.load(file)
    whole = stored(f"{folder}/asked.tsb")
    valid("asked, in part", part)
    valid("asked, whole", whole)
    check("the file has the parts", sorted(part) == ["checkpoint", "formatVersion", "mesh", "name", "producer"], list(part))
    check("and they are the bundle's", all(part[key] == whole[key] for key in part))
    with open(next(f"{folder}/asked.d/{file}" for file in os.listdir(f"{folder}/asked.d") if "autodiff" in file)) as file:
        plan = models.read_plan(file.read(), "tessera_sr.recompute")
    row = whole["checkpoint"]["entries"][0]
    check("recomputation is the plan's", [row["bytesBefore"], row["bytesSaved"], row["ops"], row["operations"]] == plan, (row, plan))
    check("recomputation saves bytes", row["bytesSaved"] < row["bytesBefore"] and row["ops"] > 0, row)
    print(f"recomputation: {row['bytesBefore']} bytes kept become {row['bytesSaved']}, {row['ops']} ops run again")
    again = subprocess.run([aot, "build", "--from=autodiff", next(
        f"{folder}/asked.d/{file}" for file in os.listdir(f"{folder}/asked.d") if "autodiff" in file), "-o",
        f"{folder}/again.tsb", "--target", "cpu:x86-64-v3"], capture_output=True, text=True)
    check("from=autodiff keeps it", again.returncode == 0 and stored(f"{folder}/again.tsb") == whole, again.stderr)
    done = build(folder, "bad", source("", 1, '    tessera.system.export_manifest {path = "../m.json"}\n'))
    check("a path elsewhere is refused", done.returncode != 0 and "TSR-0604" in done.stderr, done.stderr)


def pipelined(folder):
    """What runs is one stage; what is planned stands beside it."""
    plan = """  tsched.mesh.region "pp" of {pp = 2} {
    tsched.pipeline.region(schedule = "1f1b") attributes {microbatch = 4, axis = "pp"} {
      %first = tsched.stage @train() on 0
      %second = tsched.stage @train(%first) on 1
    }
  }
"""
    request = '    tessera.system.export_manifest {path = "pipeline.json", include = ["pipeline", "stages"]}\n'
    text = source("", 1, request)
    end = text.rindex("}")
    done = build(folder, "pipelined", text[:end] + plan + text[end:])
    check("pipelined: builds", done.returncode == 0, done.stderr)
    with open(f"{folder}/pipeline.json") as file:
        part = json.load(file)
    whole = stored(f"{folder}/pipelined.tsb")
    valid("pipelined, in part", part)
    valid("pipelined, whole", whole)
    check("only the pipeline is there", sorted(part) == ["formatVersion", "name", "pipeline", "producer"], list(part))
    check("it is the bundle's", part["pipeline"] == whole["pipeline"] and whole["formatVersion"] == "1.2", part)
    stages = [{"index": 0, "rank": 0, "after": [], "function": "train"}, {"index": 1, "rank": 1, "after": [0], "function": "train"}]
    check("and what was planned", whole["pipeline"]["plans"] == [{"schedule": "1f1b", "axis": "pp", "ranks": 2, "microbatches": 4, "chunks": 1,
                                                                  "stages": stages}], whole["pipeline"])
    ran = whole["pipeline"]["stages"]
    check("one stage runs every entry", len(ran) == 1 and "train" in [entry["name"] for entry in ran[0]["entries"]], ran)


def plain(folder):
    done = build(folder, "plain", source("", 1))
    manifest = stored(f"{folder}/plain.tsb")
    check("nothing is spread where nothing is declared", done.returncode == 0 and manifest["formatVersion"] == "1.0" and
          manifest["collectives"] == [] and manifest["checkpoint"] == {"policy": "none"}, manifest)
    valid("plain", manifest)
    check("no file is written", not [file for file in os.listdir(folder) if file.endswith(".json")])


with tempfile.TemporaryDirectory() as temporary:
    os.mkdir(f"{temporary}/t")
    for model in (models.digits(digits), models.small_transformer(transformer, f"{temporary}/t")):
        home = f"{temporary}/{model.name}"
        os.mkdir(home)
        print(f"{model.name}:")
        plain(home)
        for stage, positions in (("zero1", 4), ("zero2", 3), ("zero3", 7)):
            sharded(home, stage, positions)
        asked(home)
        pipelined(home)
print(check)
sys.exit(1 if check.failures else 0)
