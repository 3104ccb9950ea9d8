#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: collectives.py TESSERA_AOT TESSERA_RUN

A host program in Target IR with every collective is built and run by 1, 2, 3 and 4 processes. Its final tensors must equal
NumPy's float64 results for the same rows (sums within 1e-6 of the largest, the rest exactly), and the bits must be the same for
all numbers of processes. A collective with one position is a copy; a number of positions that differs from the number of
virtual-rank shards is refused.
"""
import json
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit(77)

aot, run = sys.argv[1:]
SUMS = ("reduced", "copied", "gathered")
V, N, ROW = 4, 10, 8  # parts of 3, 3, 3 and 1 elements
TENSORS = {"reduced": N, "copied": N, "first": N, "gathered": N, "mixed": V * ROW}


def config():
    tensors = [{"name": name, "role": "param", "dtype": "f32", "shape": [size], "init": {"kind": "constant", "a": "0x0p+0"}}
               for name, size in sorted(TENSORS.items())]
    entry = {"name": "train", "kind": "train", "batch": V, "rowsIndependent": False,
             "inputs": [{"name": "x", "dtype": "f32", "shape": [V, N], "source": "data"}], "outputs": []}
    text = json.dumps({"formatVersion": "1.0", "required": [], "optional": [], "name": "collectives", "producer": "test",
                       "numerics": "portable", "virtualRanks": V, "tensors": tensors, "entries": [entry]}, separators=(",", ":"))
    return text.replace('"', "\\22")


def move(source, target, count, sign="addf"):
    """Elements of the first buffers, copied or added, to the last."""
    loads = "\n".join(f"        %v{i} = tile.load {buffer}[%i] : {kind} -> f32" for i, (buffer, kind) in enumerate(source))
    value = "%v0"
    if len(source) == 2:
        loads, value = f"{loads}\n        %s = arith.{sign} %v0, %v1 : f32", "%s"
    return (f"      %n{count} = arith.constant {count} : index\n      scf.for %i = %zero to %n{count} step %one {{\n{loads}\n"
            f"        tile.store {value}, {target[0]}[%i] : f32, {target[1]}\n      }}\n")


def module():
    row, own, wide = f"memref<1x{N}xf32>", f"memref<{N}xf32>", f"memref<{ROW}xf32>"
    part, mixed = f"memref<{-(-N // V)}xf32>", f"memref<{V * ROW}xf32>"
    head = "      %zero = arith.constant 0 : index\n      %one = arith.constant 1 : index\n"
    return f"""module @collectives attributes {{tessera.target = "cpu:x86-64-v3", tessera.virtual_ranks = {V} : i64}} {{
  module @device {{
    tile.func @fill(%x: {row}, %y: {own}, %z: {wide}) grid 1 {{
{head}{move([("%x", row)], ("%y", own), N)}{move([("%x", row)], ("%z", wide), ROW)}      tile.return
    }}
    tile.func @add(%a: {own}, %b: {own}, %y: {own}) grid 1 {{
{head}{move([("%a", own), ("%b", own)], ("%y", own), N)}      tile.return
    }}
  }}
  tessera_target.kernel @fill : ({row}) -> ({own}, {wide}) grid 1
  tessera_target.kernel @add : ({own}, {own}) -> {own} grid 1 {{in_place = [0, 1]}}
  tessera_target.func @train workspace 0 {{
    %x = tessera_target.input 0 : {row}
    %own = tessera_target.vrank_alloc offset 0 : {own}
    %wide = tessera_target.vrank_alloc offset 64 : {wide}
    %part = tessera_target.vrank_alloc offset 128 : {part}
    %swapped = tessera_target.vrank_alloc offset 192 : {wide}
    %sum = tessera_target.sum_alloc offset 0 : {own}
    %again = tessera_target.sum_alloc offset 64 : {own}
    %reduced = tessera_target.tensor "reduced" : {own}
    %copied = tessera_target.tensor "copied" : {own}
    %first = tessera_target.tensor "first" : {own}
    %gathered = tessera_target.tensor "gathered" : {own}
    %mixed = tessera_target.tensor "mixed" : {mixed}
    tessera_target.each_vrank 3
    tessera_target.launch @fill(%x) writes(%own, %wide) : ({row}) -> ({own}, {wide})
    tessera_target.vrank_sum @add(%sum, %own) : {own}
    tessera_target.vrank_sum @add(%again, %own) : {own}
    tessera_target.collective "all_reduce" %reduced, %sum over "data" ranks {V} : {own}, {own}
    tessera_target.collective "all_gather" %copied, %reduced over "model" ranks 1 : {own}, {own}
    tessera_target.collective "broadcast" %first, %own over "data" ranks {V} : {own}, {own}
    tessera_target.collective "reduce_scatter" %part, %again over "data" ranks {V} {{algo = "ring"}} : {part}, {own}
    tessera_target.collective "all_gather" %gathered, %part over "data" ranks {V} : {own}, {part}
    tessera_target.collective "all_to_all" %swapped, %wide over "data" ranks {V} : {wide}, {wide}
    tessera_target.collective "all_gather" %mixed, %swapped over "data" ranks {V} : {mixed}, {wide}
  }}
  tessera_target.document "name" "collectives"
  tessera_target.document "graph" "module {{}}"
  tessera_target.document "schedule" "{{\\22formatVersion\\22:1,\\22entries\\22:[],\\22groups\\22:[]}}\\0A"
  tessera_target.document "config" "{config()}"
}}
"""


def train(folder, ranks):
    state = f"{folder}/{ranks}.state"
    command = [run, f"{folder}/x.tsb", "--steps", "1", "--state-dir", state, "--quiet", "--data", f"x={folder}/x.npy",
               "--ranks", str(ranks)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{ranks} ranks: {done.stderr}")
    subprocess.run([run, "export", state, "-o", f"{state}.safetensors"], check=True, stdout=subprocess.DEVNULL)
    with open(f"{state}.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        body = file.read()
    return {name: np.frombuffer(body[slice(*header[name]["data_offsets"])], np.float32) for name in TENSORS}


def expected(rows, tensors):
    """The order of rows in a batch is the shuffle's: virtual rank p has row order[p]."""
    order = [int(np.flatnonzero((rows[:, :ROW // V] == block).all(1))[0]) for block in tensors["mixed"].reshape(V, V, ROW // V)[0]]
    assert sorted(order) == list(range(V)), order
    batch = rows[order]
    total = batch.astype(np.float64).sum(0)
    mixed = batch[:, :ROW].reshape(V, V, ROW // V).transpose(1, 0, 2).reshape(-1)
    return {"reduced": total, "copied": total, "gathered": total, "first": batch[0], "mixed": mixed}


def refuses(folder):
    """Two positions in a program of four virtual ranks, where no op of the module says how many there are."""
    text = module().replace(f", tessera.virtual_ranks = {V} : i64", "")
    line = f'    tessera_target.collective "broadcast" %first, %own over "data" ranks {V} '
    with open(f"{folder}/bad.mlir", "w", encoding="utf-8") as file:
        file.write(text.replace(line, line.replace(f"ranks {V}", "ranks 2")))
    done = subprocess.run([aot, "build", file.name, "--from=target", "-o", f"{folder}/bad.tsb", "--target", "cpu:x86-64-v3"],
                          check=False, capture_output=True, text=True)
    said = f'"broadcast" is among 2 ranks; the program has {V} virtual ranks'
    print(f"ranks that do not fit: exit code {done.returncode}, {done.stderr.strip()}")
    return done.returncode != 0 and said in done.stderr


def main(folder):
    rows = np.random.default_rng(3).standard_normal((V, N)).astype(np.float32)
    np.save(f"{folder}/x.npy", rows)
    with open(f"{folder}/x.mlir", "w", encoding="utf-8") as file:
        file.write(module())
    subprocess.run([aot, "build", file.name, "--from=target", "-o", f"{folder}/x.tsb", "--target", "cpu:x86-64-v3"], check=True)
    failed, alone = not refuses(folder), None
    for ranks in (1, 2, 3, 4):
        tensors = train(folder, ranks)
        alone = alone or tensors
        for name, wanted in expected(rows, tensors).items():
            off = float(np.max(np.abs(tensors[name] - wanted)) / np.max(np.abs(wanted)))
            same = np.array_equal(tensors[name], alone[name])
            fits = off <= (1e-6 if name in SUMS else 0) and same
            print(f"{ranks} ranks, {name}: off by {off:.1e}, {'the bits of one rank' if same else 'OTHER BITS'}{'' if fits else ' WRONG'}")
            failed |= not fits
    return failed


with tempfile.TemporaryDirectory() as temporary:
    sys.exit(1 if main(temporary) else 0)
