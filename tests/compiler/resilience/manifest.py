#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: manifest.py TESSERA_AOT TESSERA_OPT TRANSFORMER_PY DIGITS_FOLDER SCHEMA

Deployment manifests of the digits and of a transformer, sharded over each axis and with recomputation: their contents must agree
with the plans of the passes and the exchanges of the host program. rank_memory.py tests that these bytes are sent.
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
    passes = ["-tessera-verify", "-tessera-name-calls", "-inline", "-tessera-streams", "-tessera-drop-other-functions", "-tessera-inline-regions",
              "-canonicalize", "-cse", "-tessera-autodiff", "-tessera-optimizer-shard"]
    text = subprocess.run([opt, *passes, path], check=True, capture_output=True, text=True).stdout
    return models.read_plan(text, "tessera_sr.sharded")


BYTES = {"f32": 4, "bf16": 2, "i64": 8, "f64": 8, "f16": 2}
SUM = re.compile(r"^ +\d+: (sum|gather|\w+) (?:over|from|among) virtual ranks(?: by \S+ grid \d+)?: %(\d+) <- %(\d+)", re.M)


def planned(program, entry, positions):
    """(kind, bytes that all positions send) of each exchange of the entry's host program, from its listing; sorted."""
    text = program[program.index(f"entry @{entry} "):]
    text = text[:text.find("\nentry @", 1)] if "\nentry @" in text[1:] else text
    sizes = {}
    for number, shape, dtype in re.findall(r"%(\d+) = [^\n:]*: ((?:\d+x)*)(\w+)", text):
        count = 1
        for dim in shape.split("x")[:-1]:
            count *= int(dim)
        sizes[number] = count * BYTES.get(dtype, 1)
    found = [({"sum": "all_reduce", "gather": "all_gather"}.get(kind, kind), to, of) for kind, to, of in SUM.findall(text)]
    taken = {of for kind, _, of in found if kind not in ("all_reduce", "slice")}
    rows = []
    for kind, to, of in found:
        if kind == "slice" or (kind == "all_reduce" and to in taken):
            continue
        rows.append((kind, (positions - 1) * sizes[of if kind == "reduce_scatter" else to] * (2 if kind == "all_reduce" else 1)))
    return sorted(rows)


def read_program(folder, name):
    with open(next(f"{folder}/{name}.d/{file}" for file in os.listdir(f"{folder}/{name}.d") if "program" in file)) as file:
        return file.read()


def sharded(folder, stage, axis, mesh):
    """Over the axis of the virtual ranks, or another one, whose positions are all on every rank."""
    name = f"{stage}-{axis}-" + "-".join(f"{key}{size}" for key, size in mesh.items())
    ranks = mesh.get("data", 1)
    text = models.sharded(model.text, stage, mesh[axis], axis, mesh)
    done = models.build(aot, folder, name, text, "--dump=program", f"--dump-dir={folder}/{name}.d")
    check(f"{name}: builds", done.returncode == 0, done.stderr)
    manifest, plan, program = stored(f"{folder}/{name}.tsb"), plan_of(f"{folder}/{name}.mlir"), read_program(folder, name)
    valid(name, manifest)
    axes = [{"name": key, "size": size, "batch": key == "data" and ranks > 1} for key, size in sorted(mesh.items())]
    check(f"{name}: the mesh", manifest["mesh"]["axes"] == axes and manifest["mesh"]["virtualRanks"] == ranks, manifest["mesh"])
    sharded = manifest["optimizer"] + (manifest["parameters"] if stage == "zero3" else []) if axis == "data" else []
    held = [0] * ranks
    for tensor in manifest["optimizer"] + manifest["parameters"]:
        found = [(shard["begin"], shard["end"]) for shard in tensor["shards"]]
        if tensor not in sharded:
            check(f"{name}: {tensor['name']} is whole", found == [(0, elements(tensor))] and "axis" not in tensor, tensor)
            continue
        check(f"{name}: {tensor['name']} is sharded", tensor["axis"] == axis and found == ranges(elements(tensor), ranks) and
              [(shard["position"], shard["rank"]) for shard in tensor["shards"]] == [(i, i) for i in range(ranks)], tensor)
        for i, (begin, end) in enumerate(found):
            held[i] += 4 * (end - begin)
    check(f"{name}: bytes of the fullest position", max(held) == (plan[3] + (plan[1] if stage == "zero3" else 0) if sharded else 0), (held, plan))
    rows = manifest["collectives"]
    for entry in {row["entry"] for row in rows} | {"train"}:
        said = sorted((row["kind"], row["bytes"]) for row in rows if row["entry"] == entry)
        runs = planned(program, entry, ranks)
        check(f"{name}: collectives of @{entry}", said == (runs if ranks > 1 else []), (said, runs))
    check(f"{name}: between virtual ranks", all(row["axis"] == "data" and row["positions"] == ranks for row in rows), rows)
    kinds = {row["kind"] for row in rows}
    wanted = {"all_reduce"} if axis != "data" or stage == "zero1" else {"all_reduce", "reduce_scatter"}  # the loss is summed whole
    check(f"{name}: kinds", kinds == (wanted | ({"all_gather"} if axis == "data" else set()) if ranks > 1 else set()), kinds)
    # The gradient of each parameter, by its name; what zero3 gathers forward and backward stands there as often.
    summed = sorted(row.get("tensor", "") for row in rows if row["kind"] != "all_gather" and "tensor" in row)
    check(f"{name}: gradients", summed == (sorted(t["name"] for t in manifest["parameters"]) if ranks > 1 else []), summed)
    print(f"{name}: {max(held)} bytes at the fullest position, {sum(row['bytes'] for row in rows)} bytes sent by {len(rows)} collectives")


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
    check("nothing is sharded where nothing is declared", done.returncode == 0 and manifest["formatVersion"] == "1.0" and
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
        for stage in ("zero1", "zero2", "zero3"):
            sharded(home, stage, "data", {"data": 4})
            sharded(home, stage, "data", {"data": 2, "model": 2})
            sharded(home, stage, "model", {"data": 2, "model": 3})
            sharded(home, stage, "model", {"model": 7})
        asked(home)
        pipelined(home)
print(check)
sys.exit(1 if check.failures else 0)
