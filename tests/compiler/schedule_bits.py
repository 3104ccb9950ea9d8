#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes of kernels never change a bit of a portable result: products with each of their candidates, and with random sizes of which
the compiler accepts some, give the bytes of the model's choice, and what NumPy computes in float64, to rounding.

schedule_bits.py TESSERA_AOT TESSERA_RUN
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy

AOT, RUN = map(os.path.realpath, sys.argv[1:3])
TARGET = "cpu:x86-64-v3" if " avx2 " in pathlib.Path("/proc/cpuinfo").read_text() else "cpu:x86-64-v2"
RANDOM = 24
# m, k, n, the second operand is transposed: B in place, several blocks of rows, a long sum, and a product that is computed transposed.
PRODUCTS = [(70, 60, 130, False), (300, 90, 150, False), (21, 2600, 70, False), (33, 64, 97, True)]


def write_program():
    lines, inputs, outputs, types = [], [], [], []
    for i, (m, k, n, transposed) in enumerate(PRODUCTS):
        b = f"{n}x{k}" if transposed else f"{k}x{n}"
        inputs += [f'%a{i}: tensor<{m}x{k}xf32> {{tessera.name = "a{i}"}}', f'%b{i}: tensor<{b}xf32> {{tessera.name = "b{i}"}}']
        lines.append(f"  %c{i} = tessera.matmul %a{i}, %b{i} {{transpose_b = {str(transposed).lower()}}} : tensor<{m}x{k}xf32>, tensor<{b}xf32> -> tensor<{m}x{n}xf32>")
        outputs.append(f'tensor<{m}x{n}xf32> {{tessera.name = "c{i}"}}')
        types.append(f"tensor<{m}x{n}xf32>")
    values = ", ".join(f"%c{i}" for i in range(len(PRODUCTS)))
    pathlib.Path("p.mlir").write_text(
        f'func.func @f({", ".join(inputs)}) -> ({", ".join(outputs)}) attributes {{tessera.entry = "infer"}} {{\n'
        + "\n".join(lines) + f'\n  return {values} : {", ".join(types)}\n}}\n')


def build(choices):
    """The kernels of the bundle with these sizes, or what the compiler says."""
    words = []
    if choices:
        pathlib.Path("s.mlir").write_text("".join(f"tsched.tile kernel @{kernel} chosen = {list(sizes)}\n" for kernel, sizes in choices.items()))
        words = ["--schedule=s.mlir"]
    done = subprocess.run([AOT, "build", "p.mlir", "-o", "p.tsb", "--target", TARGET, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        assert done.returncode == 9 and "[TSR-0431]" in done.stderr, (choices, done.stderr)
        return done.stderr
    shown = json.loads(subprocess.run([AOT, "inspect", "--json", "--schedule", "p.tsb"], capture_output=True, check=True).stdout)
    kernels = {kernel["kernel"]: kernel for kernel in shown["schedule"]["targets"][0]["kernels"]}
    for kernel, sizes in choices.items():
        given = [size or chosen for size, chosen in zip(sizes, kernels[kernel]["chosen"])]
        assert kernels[kernel]["chosen"] == given and kernels[kernel]["source"] == ("user" if any(sizes) else "model"), (kernel, sizes, kernels[kernel])
    return kernels


def run():
    words = [word for i in range(len(PRODUCTS)) for word in ("--input", f"a{i}=a{i}.npy", "--input", f"b{i}=b{i}.npy", "--output", f"c{i}=c{i}.npy")]
    subprocess.run([RUN, "p.tsb", "--entry", "f", "--quiet", *words], check=True)
    return [pathlib.Path(f"c{i}.npy").read_bytes() for i in range(len(PRODUCTS))]


def compare_with_numpy():
    for i, (_, k, _, transposed) in enumerate(PRODUCTS):
        a, b, c = (numpy.load(f"{name}{i}.npy").astype(numpy.float64) for name in "abc")
        b = b.T if transposed else b
        assert numpy.all(numpy.abs(c - a @ b) <= k * 2.0**-24 * (numpy.abs(a) @ numpy.abs(b))), i


def main():
    seed = random.randrange(2**32)
    print("seed", seed)
    random.seed(seed)
    numbers = numpy.random.default_rng(seed)
    write_program()
    for i, (m, k, n, transposed) in enumerate(PRODUCTS):
        numpy.save(f"a{i}.npy", numbers.standard_normal((m, k), numpy.float32))
        numpy.save(f"b{i}.npy", numbers.standard_normal((n, k) if transposed else (k, n), numpy.float32))
    kernels = build({})
    assert len(kernels) == len(PRODUCTS), kernels
    want = run()
    compare_with_numpy()
    count = max(len(kernel["candidates"]) for kernel in kernels.values())
    for i in range(count):  # the i-th candidate of every kernel
        found = build({name: kernel["candidates"][i % len(kernel["candidates"])] for name, kernel in kernels.items()})
        assert isinstance(found, dict), found
        assert run() == want, i
    accepted = 0
    for _ in range(RANDOM):
        name = random.choice(list(kernels))
        choices = [range(1, 9), [8, 16, 24, 32, 12], [6, 12, 24, 48, 50], [1, 2, 3, 9], [8, 16, 32, 64, 60, 256]]
        sizes = [random.choice([0, random.choice(values)]) for values in choices]  # 0: the model chooses
        if isinstance(build({name: sizes}), dict):
            accepted += 1
            assert run() == want, (name, sizes)
    assert 0 < accepted < RANDOM, accepted
    print(f"{len(kernels)} kernels, {count} candidates, {accepted} of {RANDOM} random sizes accepted")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
