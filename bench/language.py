#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long the front end takes that reads programs in Python syntax.

language.py AOT [--rounds N] [--builds] [--check]

`check` of GPT-2 at full size and of an empty program beside `--version`; sources of 10 KB to 1 MB, per byte; models of 48 and 96 layers, as
calls of one function and as straight-line ops: time and memory. With --builds, how long each example is built from its .py and from its
.mlir. Figures are medians of calls in turns: wall-clock time, and CPU time of the process and its child. With --check, exit code 1 beyond
the limits, which hold for CPU time: 10 ms for GPT-2, 1 us per byte, 1 s for 96 layers with 2.2 times the memory of 48, 1.05 for builds.
"""
import argparse
import math
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FRONT_MS, BYTE_US, LAYERS_S, LAYERS_MEMORY, BUILD = 10, 1.0, 1.0, 2.2, 1.05


def call(*words):
    """(wall-clock seconds, CPU seconds, peak memory in MiB) of a program that succeeds."""
    begin = time.perf_counter()
    child = os.posix_spawn(words[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, '/dev/null', os.O_WRONLY, 0)])
    _, status, used = os.wait4(child, 0)
    if status:
        sys.exit(f'{" ".join(words)}: exit code {os.waitstatus_to_exitcode(status)}')
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def medians(rounds, *calls):
    """The medians of each call; the calls take turns."""
    figures = [[] for _ in calls]
    for _ in range(rounds):
        for own, words in zip(figures, calls):
            own.append(call(*words))
    return [tuple(statistics.median(column) for column in zip(*own)) for own in figures]


EMPTY = 'from tessera import *\n@function(entry="infer")\ndef f(x: Tensor[4, f32]): return {"y": x + 1.0}\n'


def long_source(size):
    """Functions, tables and arithmetic, each used: at least `size` bytes."""
    parts, total, index = ['from tessera import *\n'], 22, 0
    while total < size:
        part = (f'SIZES_{index} = [{index} + n * 3 for n in (1, 2, 3)]\n'
                f'def layer_{index}(x, *, scale=0.5):\n'
                f'    """Scales x, then adds the row {index} of a table."""\n'
                f'    row = [scale * {index}.0, 1.0, 2.0, float(SIZES_{index}[0] % 7)]\n'
                f'    if scale > 1.0 and len(row) == 4:\n'
                f'        return x * scale + row\n'
                f'    return (x + row) * {index % 5}.25\n')
        parts.append(part)
        total += len(part)
        index += 1
    calls = ''.join(f'    x = layer_{i}(x)\n' for i in range(0, index, 50))
    return ''.join(parts) + f'@function(entry="infer")\ndef f(x: Tensor[4, f32]):\n{calls}    return {{"y": x}}\n'


INLINE = '''from tessera import *
LAYERS, WIDTH, HEADS, S = %d, 768, 12, 1024

def states(x):
    for i in range(LAYERS):
        with scope(f"h.{i}"):
            h = cast(layernorm_safe(x, param("ln_1.weight", (WIDTH,), f32, init=constant(1.0)), param("ln_1.bias", (WIDTH,), f32, init=constant(0.0)), axes=[2], eps=1e-5), bf16)
            parts = split(h @ param("attn.weight", (WIDTH, 3 * WIDTH), bf16, init=normal(0.0, 0.02)) + param("attn.bias", (3 * WIDTH,), bf16, init=constant(0.0)), 3, axis=2)
            q, k, v = [transpose(reshape(p, (x.shape[0], S, HEADS, WIDTH // HEADS)), (0, 2, 1, 3)) for p in parts]
            a = reshape(transpose(attention(q, k, v, causal=True), (0, 2, 1, 3)), (x.shape[0], S, WIDTH))
            x = x + cast(a @ param("proj.weight", (WIDTH, WIDTH), bf16, init=normal(0.0, 0.02)) + param("proj.bias", (WIDTH,), bf16, init=constant(0.0)), f32)
            h = cast(layernorm_safe(x, param("ln_2.weight", (WIDTH,), f32, init=constant(1.0)), param("ln_2.bias", (WIDTH,), f32, init=constant(0.0)), axes=[2], eps=1e-5), bf16)
            u = gelu(h @ param("fc.weight", (WIDTH, 4 * WIDTH), bf16, init=normal(0.0, 0.02)) + param("fc.bias", (4 * WIDTH,), bf16, init=constant(0.0)), approximate="tanh")
            x = x + cast(u @ param("down.weight", (4 * WIDTH, WIDTH), bf16, init=normal(0.0, 0.02)) + param("down.bias", (WIDTH,), bf16, init=constant(0.0)), f32)
    return x
%s'''
ENTRY = '''
@function(entry="infer")
def entry_%d(x: Tensor[%d, S, WIDTH, f32]):
    return {"y": states(x)}
'''


def layers_of(count, inline):
    """GPT-2, whose layer is a function; or layers written in the loop: four entries of each."""
    if inline:
        return INLINE % (count, ''.join(ENTRY % (n, n) for n in range(1, 5)))
    text = (ROOT / 'examples/gpt2/gpt2.py').read_text('utf-8')
    return re.sub(r'^(LAYERS, .* = )12,', rf'\g<1>{count},', text, flags=re.M)


def front_end(aot, rounds, folder, wrong):
    empty = folder / 'empty.py'
    empty.write_text(EMPTY, 'utf-8')
    gpt2 = ROOT / 'examples/gpt2/gpt2.py'
    version, nothing, full = medians(rounds, (aot, '--version'), (aot, 'check', str(empty)), (aot, 'check', str(gpt2)))
    for name, figures in (('an empty program', nothing), ('GPT-2', full)):
        wall, cpu = (1000 * (figures[i] - version[i]) for i in (0, 1))
        print(f'check of {name}: {wall:.1f} ms above --version ({1000 * version[0]:.1f} ms), {cpu:.1f} ms of CPU (limit {FRONT_MS})')
        if cpu > FRONT_MS:
            wrong.append(f'check of {name}')
    for size in (10_000, 100_000, 1_000_000):
        source = folder / f'long-{size}.py'
        source.write_text(long_source(size), 'utf-8')
        version, full = medians(max(rounds // 4, 3), (aot, '--version'), (aot, 'check', str(source)))
        each = 1e6 * (full[1] - version[1]) / source.stat().st_size
        print(f'check of {source.stat().st_size} bytes: {full[0]:.3f} s, {each:.3f} us of CPU per byte above --version (limit {BYTE_US} at 1 MB)')
        if size == 1_000_000 and each > BYTE_US:
            wrong.append('a source of 1 MB')


def layers(aot, rounds, folder, wrong):
    for inline in (False, True):
        files = []
        for count in (48, 96):
            files.append(folder / f'layers-{count}-{inline}.py')
            files[-1].write_text(layers_of(count, inline), 'utf-8')
        less, more = medians(max(rounds // 4, 3), *((aot, 'check', str(file)) for file in files))
        ratio = more[2] / less[2]
        print(f'{"layers written in a loop, four entries" if inline else "calls of one function"}: 48 layers {less[1]:.3f} s of CPU, {less[2]:.0f} MiB; '
              f'96 layers {more[1]:.3f} s (limit {LAYERS_S}), {more[2]:.0f} MiB, {ratio:.2f} times (limit {LAYERS_MEMORY})')
        if more[1] > LAYERS_S or ratio > LAYERS_MEMORY:
            wrong.append('96 layers')


def builds(aot, rounds, folder, wrong):
    ratios = []
    for source in sorted((ROOT / 'examples').glob('*/*.py')):
        mlir_path = source.with_suffix('.mlir')
        if not mlir_path.exists():
            continue
        words = [(aot, 'build', str(path), '-o', str(folder / 'm.tsb'), '--target=cpu:x86-64-v3') for path in (mlir_path, source)]
        mlir, python = medians(rounds, *words)
        ratios.append(python[1] / mlir[1])
        print(f'build of {source.stem}: {mlir[1]:.3f} s of CPU from .mlir, {python[1]:.3f} s from .py: {ratios[-1]:.3f}')
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f'build of {len(ratios)} examples: geometric mean {mean:.3f} (limit {BUILD})')
    if mean > BUILD:
        wrong.append('builds')


parser = argparse.ArgumentParser()
parser.add_argument('aot')
parser.add_argument('--rounds', type=int, default=20)
parser.add_argument('--builds', action='store_true')
parser.add_argument('--check', action='store_true')
options = parser.parse_args()
beyond = []
with tempfile.TemporaryDirectory() as name:
    tool = str(pathlib.Path(options.aot).resolve())
    front_end(tool, options.rounds, pathlib.Path(name), beyond)
    layers(tool, options.rounds, pathlib.Path(name), beyond)
    if options.builds:
        builds(tool, options.rounds, pathlib.Path(name), beyond)
if options.check and beyond:
    sys.exit(f'beyond its limit: {", ".join(beyond)}')
