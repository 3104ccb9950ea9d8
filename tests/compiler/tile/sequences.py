#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Groups that become several kernels on a GPU or a CPU: the Tile IR of the GPU, compiled for a CPU, gives the same bits as the
CPU's own kernels and as NumPy, with reductions in the order of order.py.

usage: sequences.py TESSERA_AOT TESSERA_RUN ASSEMBLER [SEED]

Data is drawn from the seed, which is printed. Exits with 77 without NumPy.
"""
import pathlib
import random
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as error:
    print(error)
    sys.exit(77)

import order

GPU, CPU = 'cuda:sm_90a', 'cpu:x86-64-v3'

# Sums by index: outer, rows, columns, indices, element type, index type, which rows.
SCATTER = {
    'text': (1, 300, 70, 3000, 'f32', 'i32', 'text'),
    'equal': (1, 1000, 33, 700, 'f64', 'i64', 'equal'),
    'distinct': (1, 512, 256, 512, 'f32', 'i64', 'distinct'),
    'outer': (3, 77, 300, 333, 'f32', 'i32', 'text'),
    'integers': (1, 70000, 1, 1001, 'i64', 'i64', 'even'),
    'one': (1, 16384, 4, 1, 'i32', 'i64', 'even'),
    'parts': (1, 4, 1, 33000, 'f32', 'i32', 'even'),
    'single': (2, 1, 600, 64, 'f32', 'i32', 'equal'),
    'filled': (1, 900, 96, 500, 'f32', 'i32', 'text'),
    'small': (1, 9, 7, 20, 'f32', 'i32', 'even'),  # one kernel
}
FILL = {'filled': 0.5, 'small': 0.0}  # a constant, which the updates are added to
# The same without sums: rows are taken.
GATHER = {
    'take': (2, 300, 512, 77, 'f32', 'i32', 'even'),
    'take_odd': (3, 10, 37, 1001, 'f16', 'i64', 'text'),
}
# Reductions over many rows: shape, axes, op, element type, is it of a product with another input?
REDUCE = {
    'rows': ((3, 400, 256), [0, 1], 'sum', 'f32', True),
    'odd': ((1031, 37), [0], 'sum', 'f32', False),
    'between': ((2, 1100, 300), [1], 'reduce_max', 'f32', False),
    'apart': ((50, 2, 30, 96), [0, 2], 'sum', 'i32', False),
    'narrow': ((1500, 512), [0], 'reduce_min', 'f16', False),
    # More than 1 MiB, as some above: a CPU's are two kernels, too.
    'long': ((2003, 190), [0], 'sum', 'f32', True),
    'wide': ((1030, 2051), [0], 'sum', 'f32', False),
    'few': ((100003, 3), [0], 'sum', 'f32', False),
    'positions': ((2, 1100, 80), [1], 'sum', 'f64', False),
    'product': ((2048, 160), [0], 'reduce_prod', 'f32', False),
    # More than one chunk: the last with one row, with fewer than 64, with some more.
    'chunks': ((16385, 21), [0], 'sum', 'f32', True),
    'chunks_warps': ((20000, 32), [0], 'sum', 'f32', False),
    'chunks_whole': ((32768, 32), [0], 'sum', 'f32', False),
    'chunks_between': ((2, 16420, 33), [1], 'reduce_prod', 'f32', False),
    'chunks_apart': ((131, 2, 151, 9), [0, 2], 'sum', 'f32', False),
    'chunks_positions': ((9, 16400, 2), [1], 'sum', 'f64', False),
    'chunks_wide': ((18433, 70), [0], 'reduce_max', 'f32', False),
    # The last axis, too: one kernel.
    'run': ((3, 50257), [1], 'sum', 'f32', True),
    'all': ((1000, 333), [0, 1], 'sum', 'f32', False),
    'runs': ((5, 3, 4096), [0, 2], 'sum', 'f32', False),
    'runs_apart': ((90, 2, 192), [0, 2], 'sum', 'f32', False),
    'runs_odd': ((200, 2, 100), [0, 2], 'reduce_prod', 'f32', False),
}
CPU_PARTS = 16  # of them: all that keep the last axis but 'odd', which is small
BAD = ('text', 'integers', 'take')  # which are tried with an index that is none
NUMPY = {'f64': np.float64, 'f32': np.float32, 'f16': np.float16, 'i64': np.int64, 'i32': np.int32}


def tensor(shape, dtype):
    return f'tensor<{"".join(f"{d}x" for d in shape)}{dtype}>'


def function(name, inputs, result, body, output):
    arguments = ', '.join(f'%{n}: {t} {{tessera.name = "{n}"}}' for n, t in inputs)
    return (f'func.func @{name}({arguments}) -> ({result} {{tessera.name = "{output}"}}) attributes {{tessera.entry = "infer"}} {{\n'
            f'{body}  return %y : {result}\n}}\n')


def scatter_source(name, output):
    outer, rows, columns, count, dtype, index, _ = SCATTER[name]
    x, i, u = tensor((outer, rows, columns), dtype), tensor((count,), index), tensor((outer, count, columns), dtype)
    inputs, body = [('x', x), ('i', i), ('u', u)], ''
    if name in FILL:
        inputs, body = inputs[1:], f'  %x = tessera.constant dense<{FILL[name]}> : {x}\n'
    return function(name, inputs, x, body + f'  %y = tessera.scatter_add %x, %i, %u {{axis = 1 : i64}} : {x}, {i}, {u}\n', output)


def gather_source(name, output):
    outer, rows, columns, count, dtype, index, _ = GATHER[name]
    x, i, y = tensor((outer, rows, columns), dtype), tensor((count,), index), tensor((outer, count, columns), dtype)
    return function(name, (('x', x), ('i', i)), y, f'  %y = tessera.gather %x, %i {{axis = 1 : i64}} : {x}, {i} -> {y}\n', output)


def reduce_source(name, output):
    shape, axes, op, dtype, product = REDUCE[name]
    x, y = tensor(shape, dtype), tensor([d for i, d in enumerate(shape) if i not in axes], dtype)
    inputs, body = [('x', x)], ''
    if product:
        inputs.append(('z', x))
        body = f'  %p = tessera.mul %x, %z : {x}, {x} -> {x}\n'
    return function(name, inputs, y, body + f'  %y = tessera.{op} {"%p" if product else "%x"} {{axes = {axes}}} : {x} -> {y}\n', output)


def source(output):
    """All entries, whose one result has this name."""
    return ''.join(scatter_source(n, output) for n in SCATTER) + ''.join(gather_source(n, output) for n in GATHER) + \
        ''.join(reduce_source(n, output) for n in REDUCE)


def types_of(name):
    """{input: element type}"""
    if name in REDUCE:
        return dict.fromkeys('xz' if REDUCE[name][4] else 'x', REDUCE[name][3])
    dtype, index = {**SCATTER, **GATHER}[name][4:6]
    if name in GATHER:
        return {'x': dtype, 'i': index}
    return {'i': index, 'u': dtype} if name in FILL else {'x': dtype, 'i': index, 'u': dtype}


def draw(generator, shape, dtype):
    if dtype.startswith('i'):
        return generator.integers(-1 << 31, 1 << 31, shape).astype(NUMPY[dtype])
    return generator.standard_normal(shape).astype(NUMPY[dtype])


def draw_rows(generator, how, rows, count):
    if how == 'distinct':
        return generator.permutation(rows)[:count]
    if how == 'text':
        return np.minimum(generator.zipf(1.4, count) - 1, rows - 1)
    return np.full(count, rows // 2) if how == 'equal' else generator.integers(0, rows, count)


def reduce(x, axes, op):
    how, first = {'sum': (np.add, 0), 'reduce_prod': (np.multiply, 1), 'reduce_max': (np.maximum, -np.inf), 'reduce_min': (np.minimum, np.inf)}[op]
    return order.reduce(how, x, axes, first)


def make(generator, name):
    """(inputs, the result)."""
    if name in REDUCE:
        shape, axes, op, dtype, product = REDUCE[name]
        inputs = {n: draw(generator, shape, dtype) for n in ('xz' if product else 'x')}
        return inputs, reduce(inputs['x'] * inputs['z'] if product else inputs['x'], axes, op)
    outer, rows, columns, count, dtype, index, how = {**SCATTER, **GATHER}[name]
    x, u = draw(generator, (outer, rows, columns), dtype), draw(generator, (outer, count, columns), dtype)
    if name in FILL:
        x[:] = FILL[name]
    i = draw_rows(generator, how, rows, count).astype(NUMPY[index])
    if name in GATHER:
        return {'x': x, 'i': i}, x[:, i]
    right = x.copy()
    for o in range(outer):
        np.add.at(right[o], i, u[o])
    return {'i': i, 'u': u} if name in FILL else {'x': x, 'i': i, 'u': u}, right


def typed(generator, name):
    """{input: (values, element type)}"""
    types = types_of(name)
    return {n: (values, types[n]) for n, values in make(generator, name)[0].items()}


def call(*arguments):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=120)


def build(aot, folder, assembler):
    """(the CPU's bundle, the one of the GPU's Tile IR)"""
    text, tile = folder / 'm.mlir', folder / 'tile.mlir'
    text.write_text(source('y'), 'utf-8')
    bundles = folder / 'cpu.tsb', folder / 'gpu.tsb'
    for command in ((text, '-o', bundles[0], '--target', CPU, '--dump', 'tile', '--dump-dir', folder),
                    (text, '-o', folder / 'x.tsb', '--target', GPU, '--ptxas', assembler, '--dump', 'tile', '--dump-dir', folder),
                    (tile, '-o', bundles[1], '--target', CPU, '--from', 'tile')):
        if command[0] == tile:
            made = (folder / 'tile.sm_90a.mlir').read_text('utf-8')
            if re.search(r'^ *%\w+ = tessera.constant', made, re.MULTILINE):
                sys.exit('a constant is a tensor')
            missing = [n for n in SCATTER if f'@{n}' not in made] + [s for s in ('_count0', '_move1', '_starts', '_parts') if s not in made]
            if missing:
                sys.exit(f'the GPU has no {missing}')
            tile.write_text(made.replace(f'"{GPU}"', f'"{CPU}"'), 'utf-8')
        done = call(aot, 'build', *command)
        if done.returncode:
            sys.exit(done.stderr)
    parts = len(re.findall(r'tile\.func @\w+_parts\(', (folder / 'tile.x86-64-v3.mlir').read_text('utf-8')))
    if parts != CPU_PARTS:
        sys.exit(f'{parts} reductions of the CPU are two kernels; expected {CPU_PARTS}')
    return bundles


def run(tool, bundle, name, inputs, folder):
    """(the result, what it said on standard error)"""
    output = folder / 'y.npy'
    output.unlink(missing_ok=True)
    arguments = [f for n, values in inputs.items() for f in ('--input', f'{n}={folder / n}.npy')]
    for n, values in inputs.items():
        np.save(folder / f'{n}.npy', values)
    done = call(tool, bundle, '--quiet', '--entry', name, *arguments, '--output', f'y={output}')
    return (None if done.returncode else np.load(output)), done.stderr


def check(tool, bundles, name, generator, folder):
    """None, or what is wrong."""
    inputs, right = make(generator, name)
    (cpu, why), (gpu, other) = (run(tool, b, name, inputs, folder) for b in bundles)
    if cpu is None or gpu is None:
        return why or other
    if cpu.tobytes() != gpu.tobytes():
        return f'{np.count_nonzero(cpu != gpu)} of {cpu.size} numbers differ'
    if right.tobytes() != cpu.tobytes():
        return f'{np.count_nonzero(cpu != right)} of {cpu.size} numbers are not those of NumPy'
    if name not in BAD:
        return None
    inputs['i'][len(inputs['i']) // 2] = -3
    (cpu, why), (gpu, other) = (run(tool, b, name, inputs, folder) for b in bundles)
    rows = {**SCATTER, **GATHER}[name][1]
    expected = f'i[{len(inputs["i"]) // 2}] is -3; expected 0 to {rows - 1}'
    if cpu is not None or gpu is not None or expected not in why or expected not in other:
        return f'a bad index: {why}, {other}'
    return None


def main():
    aot, tool, assembler = sys.argv[1:4]
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
    print(f'seed {seed}')
    generator, failures = np.random.default_rng(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        bundles = build(aot, folder, assembler)
        for name in [*SCATTER, *GATHER, *REDUCE]:
            why = check(tool, bundles, name, generator, folder)
            failures += why is not None
            print(f'{name}: {why or "the same bits"}')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
