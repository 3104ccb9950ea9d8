#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A bundle built from the dump of any stage equals the bundle built from the source, except for the provenance: for every example, and for a step
with shards, recomputation and a region. Errors are reported with their position in the source.

aot-levels.py TESSERA_AOT EXAMPLES STEP
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

AOT, EXAMPLES, STEP = os.path.realpath(sys.argv[1]), *(pathlib.Path(word).resolve() for word in sys.argv[2:4])
TARGET, OTHER = "cpu:x86-64-v3", "cpu:x86-64-v2"
# Layers that describe the source, or contain hashes of all blobs.
APART = ["application/vnd.tessera.provenance.v1+json", "application/vnd.tessera.chunks.v1"]
# Tensors with elements, a module without a name, a name with a quote and a newline.
DATA = """
func.func @f(%x: tensor<4xf32> {tessera.name = "x\\"y"}) -> (tensor<4xf32> {tessera.name = "z"})
    attributes {tessera.entry = "infer"} {
  %w = tessera.param "w" data = dense<[0.1, -0.0, 3.0e38, 1.0e-45]> : tensor<4xf32>
  %c = tessera.constant dense<[1.0, 2.0, 3.0, 4.5]> : tensor<4xf32>
  %0 = tessera.mul %x, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %1 = tessera.add %0, %c : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def build(*words, code=0):
    done = subprocess.run([AOT, "build", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stderr


def contents(path):
    """Returns {target: digest, type and title of its blobs}."""
    found = {}
    with tarfile.open(path) as archive:
        def blob(digest):
            return json.load(archive.extractfile("blobs/sha256/" + digest.removeprefix("sha256:")))
        index = blob(json.load(archive.extractfile("index.json"))["manifests"][0]["digest"])
        for item in index["manifests"]:
            manifest = blob(item["digest"])
            layers = [manifest["config"]] + manifest["layers"]
            left = [layer for layer in layers if layer["mediaType"] not in APART]
            assert len(left) == len(layers) - len(APART)
            found[item["annotations"]["dev.tessera.target"]] = left
    return found


def check_model(source, targets=(TARGET,), options=(), levels=("graph", "autodiff", "schedule", "plan", "tile", "target")):
    dumps, all_targets = pathlib.Path(source.stem), ",".join(targets)
    build(source, "--target", all_targets, "-o", "want.tsb", "--dump=all", "--dump-dir", dumps, *options)
    want = contents("want.tsb")
    for level in set(levels) - {"plan", "tile", "target"}:
        build(dumps / f"{level}.mlir", "--from", level, "--target", all_targets, "-o", "got.tsb")
        assert contents("got.tsb") == want, (source, level)
    for level in {"plan", "tile", "target"} & set(levels):
        for target in targets:
            dump = dumps / f"{level}.{target.split(':')[1]}.mlir"
            build(dump, "--from", level, "-o", "got.tsb", "--dump=all", "--dump-dir", "again")
            assert contents("got.tsb") == {target: want[target]}, (source, level, target)
            again = pathlib.Path("again") / dump.name
            assert again.read_bytes() == dump.read_bytes(), f"{dump} is another after reading it"
    return dumps


def check_locations(dumps):
    """The error names the position in the model's source, whatever level it is found at."""
    lines = DATA.split("\n")
    data, add, function = (next(i for i, line in enumerate(lines, 1) if word in line) for word in ("tessera.param", "tessera.add", "func.func"))
    cases = [(f"{level}.mlir", r' data = dense<[^>]*>', "", f"data.mlir:{data}:8: error: [TSR-0203] ") for level in ("graph", "autodiff", "schedule")]
    cases += [("tile.x86-64-v3.mlir", "outputs = 1 ", "outputs = 7 ", f"data.mlir:{add}:8: error: [TSR-0414] "),
              ("target.x86-64-v3.mlir", "workspace 0", "workspace 8", f"data.mlir:{function}:1: error: [TSR-0502] "),
              ("target.x86-64-v3.mlir", r"writes\(%3\)", "writes(%0)", f"data.mlir:{add}:8: error: [TSR-")]
    for name, old, new, message in cases:
        text, count = re.subn(old, new, (dumps / name).read_text(), count=1)
        assert count == 1, (name, old)
        path = pathlib.Path("wrong.mlir")
        path.write_text(text)
        level = name.split(".")[0]
        words = ["--target", TARGET] if level in ("graph", "autodiff", "schedule") else []
        done = subprocess.run([AOT, "build", path, "--from", level, "-o", "no.tsb", *words], capture_output=True, text=True, check=False)
        assert done.returncode and done.stderr.startswith(message), (name, message, done.stderr)
    return len(cases)


def check_refusals(dumps):
    tile = dumps / "tile.x86-64-v3.mlir"
    target = (dumps / "target.x86-64-v3.mlir").read_text()
    cases = [
        (tile, "tile", ["--target", OTHER], 6, "is only for target 'cpu:x86-64-v3'; the requested target is 'cpu:x86-64-v2'"),
        (dumps / "schedule.mlir", "tile", [], 9, "the module has no attribute 'tessera.target'"),
        (tile, "target", [], 9, "the module has no document 'config'"),
        (tile, "llvm", [], 6, "--from 'llvm' is unknown; known are graph autodiff schedule plan tile target"),
        (tile, None, [], 6, "contains a tile.func, so it is not a source; give --from=tile to continue from it"),
        (dumps / "schedule.mlir", None, [], 6, "contains a tsched.func, so it is not a source; give --from=schedule to continue from it"),
        (pathlib.Path("digits/graph.mlir"), "autodiff", ["--target", TARGET], 9, "error: [TSR-0309] tessera.minimize"),
    ]
    edits = [
        ('tensor "w"', 'tensor "v"', "@f uses tensor 'v', which is not in the config"),
        ('data "w"', 'data "v"', "the data of tensor 'w' is missing"),
        ("workspace 0", "workspace 8", "TSR-0502"),
        ("grid 1 ", "grid 2 ", "TSR-0503"),
        ("func @f", "func @g", "there is no tessera_target.func of entry @f"),
        ("writes(%3)", "writes(%0)", "error: "),
    ]
    for number, (old, new, message) in enumerate(edits):
        assert old in target, (old, target)
        path = pathlib.Path(f"edit{number}.mlir")
        path.write_text(target.replace(old, new, 1))
        cases.append((path, "target", [], None, message))
    for path, level, words, code, message in cases:
        words = ["--from", level, *words] if level else words
        done = subprocess.run([AOT, "build", path, "-o", "no.tsb", *words], capture_output=True,
                              text=True, check=False)
        assert done.returncode and code in (None, done.returncode), (path, level, done)
        assert message in done.stderr, (path, level, message, done.stderr)
        assert not os.path.exists("no.tsb")
    return len(cases)


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    pathlib.Path("data.mlir").write_text(DATA)
    models = sorted(EXAMPLES.glob("*/*.mlir"))
    assert len(models) >= 6
    for model in models:
        # The largest model is tested at one level of each kind: a function of the whole program, and one of a target.
        some = {"levels": ("schedule", "target")} if model.stem == "gpt2" else {}
        check_model(model, (TARGET, OTHER) if model.stem in ("digits", "convnet") else (TARGET,), **some)
    check_model(STEP, options=("--virtual-ranks", "1"))
    plain = check_model(pathlib.Path("data.mlir"), (TARGET, OTHER))
    refused = check_refusals(plain)
    print(f"{len(models) + 2} models, 5 levels, {refused} refusals, {check_locations(plain)} locations")
