#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sums, norms, losses and products over long axes: the error against float64 does not grow with the length, the Tile IR of the
GPU gives the same bits as the CPU's, and products have the order of order.py.

usage: long_axes.py TESSERA_AOT TESSERA_RUN ASSEMBLER [SEED]

The bound is 4 times the largest error of NumPy's own sums, or of a NumPy product in blocks of 256, but at least 2 units in the
last place of the sum of the terms' magnitudes. It takes the largest error of a case because a single number of the reference may be
exact by chance. Data is drawn from the seed, which is printed. Exits with 77 without NumPy.
"""
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as error:
    print(error)
    sys.exit(77)

import order

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / 'oracle'))
from product import load, save  # noqa: E402

GPU, CPU = 'cuda:sm_90a', 'cpu:x86-64-v3'
BLOCK = 256


def tensor(shape, dtype='f32'):
    return f'tensor<{"".join(f"{d}x" for d in shape)}{dtype}>'


def constant(value):
    return lambda generator, shape: np.full(shape, value, np.float32)


def uniform(generator, shape):
    return generator.random(shape, dtype=np.float32)


def normal(generator, shape):
    return generator.standard_normal(shape, dtype=np.float32)


def alternating(generator, shape):
    signs = np.where(np.arange(np.prod(shape)) % 2, -1, 1).reshape(shape)
    return (signs * (1 + generator.random(shape))).astype(np.float32)


def labels(generator, shape):
    return generator.integers(0, 20000, shape)


def sums(axes, op='sum'):
    """One op of x: its text, the exact result, the magnitudes that errors are measured by, and NumPy's result in float32."""
    def text(shape, result):
        return f'  %y = tessera.{op} %x {{axes = {list(axes)}}} : {tensor(shape)} -> {tensor(result)}\n'

    def judge(x):
        how = np.mean if op == 'mean' else np.sum
        wide = x.astype(np.float64)
        return how(wide, axis=axes), how(np.abs(wide), axis=axes), how(np.ascontiguousarray(np.moveaxis(x, axes, range(-len(axes), 0))),
                                                                     axis=tuple(range(-len(axes), 0)), dtype=np.float32)
    return text, judge


def products(transposed_a):
    def text(shapes, result):
        attribute = ' {transpose_a = true}' if transposed_a else ''
        return f'  %y = tessera.matmul %a, %b{attribute} : {tensor(shapes[0])}, {tensor(shapes[1])} -> {tensor(result)}\n'

    def judge(a, b):
        a = a.T if transposed_a else a
        wide = a.astype(np.float64) @ b.astype(np.float64)
        blocks = np.zeros(wide.shape, np.float32)
        for k in range(0, a.shape[1], BLOCK):
            blocks += order.chain(a[:, k:k + BLOCK], b[k:k + BLOCK])
        return wide, np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64), blocks
    return text, judge


# name: axes, op, shape, result, data
SUMS = {
    'mean_9991': ((0, 1), 'mean', (1000, 1000), (), constant(9991)),
    'sum_tenths': ((0,), 'sum', (1392640,), (), constant(0.1)),
    'sum_thirds': ((0,), 'sum', (65536,), (), constant(1 / 3)),
    'sum_losses': ((0,), 'mean', (1000000,), (), constant(2.302585)),
    'sum_uniform': ((1,), 'sum', (2, 300007), (2,), uniform),
    'sum_normal': ((0,), 'sum', (300001,), (), normal),
    'sum_alternating': ((0,), 'sum', (1000003,), (), alternating),
    'bias_tenths': ((0,), 'sum', (70000, 16), (16,), constant(0.1)),
    'bias_normal': ((0, 1), 'sum', (40, 1000, 24), (24,), normal),
    'apart': ((0, 2), 'sum', (300, 3, 260), (3,), uniform),
}
LARGE = {'sum_large': ((0,), 'sum', (1 << 25,), (), constant(0.1))}  # not for a pack
# name: is A transposed, shapes of A and B, result, data
PRODUCTS = {
    'product_5000': (False, ((7, 5000), (5000, 33)), (7, 33), normal),
    'product_65536': (False, ((2, 65536), (65536, 3)), (2, 3), constant(0.1)),
    'weights': (True, ((65536, 3), (65536, 2)), (3, 2), uniform),
    'product_8448': (True, ((8448, 20), (8448, 5)), (20, 5), alternating),
}
# name: inputs as (shape, dtype, data), body, result, the exact result, bound of the relative error in norm
GROUPS = {
    'softmax': ({'x': ((3, 20000), 'f32', normal)}, '  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<3x20000xf32>\n', (3, 20000),
                lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    'softmax_between': ({'x': ((2, 17000, 6), 'f32', normal)}, '  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<2x17000x6xf32>\n',
                        (2, 17000, 6), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    'norm': ({'x': ((3, 20000), 'f32', normal), 's': ((20000,), 'f32', uniform), 'b': ((20000,), 'f32', normal)},
             '  %y = tessera.layernorm_safe %x, %s, %b {axes = [1], eps = 1.0e-5} : tensor<3x20000xf32>, tensor<20000xf32>, tensor<20000xf32> '
             '-> tensor<3x20000xf32>\n', (3, 20000),
             lambda x, s, b: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * s + b),
    'loss': ({'x': ((5, 50257), 'f32', normal), 'i': ((5,), 'i64', labels)},
             '  %y = "tessera.cross_entropy"(%x, %i) : (tensor<5x50257xf32>, tensor<5xi64>) -> tensor<5xf32>\n', (5,),
             lambda x, i: np.log(np.exp(x).sum(1)) - x[np.arange(len(i)), i]),
}
NUMPY = {'f32': np.float32, 'i64': np.int64}


def entries(large=False):
    """{name: (inputs as (shape, dtype, data), body, result)}"""
    found = {name: ({'x': (shape, 'f32', data)}, sums(axes, op)[0](shape, result), result)
             for name, (axes, op, shape, result, data) in {**SUMS, **(LARGE if large else {})}.items()}
    for name, (transposed, shapes, result, data) in PRODUCTS.items():
        found[name] = ({n: (s, 'f32', data) for n, s in zip('ab', shapes)}, products(transposed)[0](shapes, result), result)
    for name, (inputs, body, result, _) in GROUPS.items():
        found[name] = inputs, body, result
    return found


def source(output='y', large=False):
    text = ''
    for name, (inputs, body, result) in entries(large).items():
        arguments = ', '.join(f'%{n}: {tensor(s, d)} {{tessera.name = "{n}"}}' for n, (s, d, _) in inputs.items())
        text += (f'func.func @{name}({arguments}) -> ({tensor(result)} {{tessera.name = "{output}"}}) attributes {{tessera.entry = "infer"}} {{\n'
                 f'{body}  return %y : {tensor(result)}\n}}\n')
    return text


def make(generator, name):
    """{input: values}"""
    return {n: data(generator, shape).astype(NUMPY[dtype]) for n, (shape, dtype, data) in entries(True)[name][0].items()}


def typed(generator, name):
    """{input: (values, element type)}"""
    types = entries(True)[name][0]
    return {n: (values, types[n][1]) for n, values in make(generator, name).items()}


def judge(name, inputs, results):
    """None, or what is wrong."""
    got = results['y']
    if name in GROUPS:
        right = GROUPS[name][3](*(v.astype(np.float64) if v.dtype == np.float32 else v for v in inputs.values()))
        error = np.linalg.norm(got - right) / np.linalg.norm(right)
        return None if error <= 4e-7 else f'the relative error is {error:.2e}; expected at most 4e-7'
    if name in PRODUCTS:
        a, b = inputs.values()
        expected = order.product(a.T if PRODUCTS[name][0] else a, b)
        if expected.tobytes() != got.astype(np.float32).tobytes():
            return f'{np.count_nonzero(expected != got)} of {got.size} numbers have another order'
        right, size, other = products(PRODUCTS[name][0])[1](a, b)
    else:
        axes, op = {**SUMS, **LARGE}[name][:2]
        right, size, other = sums(axes, op)[1](inputs['x'])
    bound = np.maximum(4 * np.max(np.abs(other - right)), 2 * np.spacing(size.astype(np.float32)).astype(np.float64))
    worst = np.max(np.abs(got - right) / bound)
    return None if worst <= 1 else f'the error is {worst:.1f} times what is allowed'


def call(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(done.stderr)


def build(aot, folder, assembler, program, other_program):
    """Bundles of the CPU, and of the GPU's Tile IR of the other program for a CPU."""
    text, other, tile = (folder / f'{n}.mlir' for n in ('m', 'other', 'tile'))
    text.write_text(program, 'utf-8')
    other.write_text(other_program, 'utf-8')
    call(aot, 'build', text, '-o', folder / 'cpu.tsb', '--target', CPU)
    call(aot, 'build', other, '-o', folder / 'x.tsb', '--target', GPU, '--ptxas', assembler, '--dump', 'tile', '--dump-dir', folder)
    tile.write_text((folder / 'tile.sm_90a.mlir').read_text('utf-8').replace(f'"{GPU}"', f'"{CPU}"'), 'utf-8')
    call(aot, 'build', tile, '-o', folder / 'gpu.tsb', '--target', CPU, '--from', 'tile')
    return folder / 'cpu.tsb', folder / 'gpu.tsb'


def run(tool, bundle, folder, name, inputs, outputs):
    """{output: values}; inputs {name: (values, element type)}"""
    given, made = folder / 'in.safetensors', folder / 'out.safetensors'
    made.unlink(missing_ok=True)
    save(given, inputs)
    call(tool, bundle, '--quiet', '--entry', name, *(f for n in inputs for f in ('--input', f'{n}={given}:{n}')),
         *(f for n in outputs for f in ('--output', f'{n}={made}')))
    return {n: values for n, (values, _) in load(made).items()}


def check(arguments, text_of, names, make_inputs, judge_result, others=None):
    """Runs the entries of these names, of the others (None: of all) also the GPU's Tile IR; the exit code. names: {name: its outputs}."""
    others = list(names) if others is None else others
    aot, tool, assembler = arguments[:3]
    seed = int(arguments[3]) if len(arguments) > 3 else random.randrange(1 << 30)
    print(f'seed {seed}')
    generator, failures = np.random.default_rng(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        bundles = build(aot, folder, assembler, text_of(names), text_of(others))
        for name, outputs in names.items():
            inputs = make_inputs(generator, name)
            results = [run(tool, bundle, folder, name, inputs, outputs) for bundle in bundles[:1 + (name in others)]]
            why = judge_result(name, {n: values for n, (values, _) in inputs.items()}, results[0])
            for n in outputs:
                if results[0][n].tobytes() != results[-1][n].tobytes():
                    why = f'{np.count_nonzero(results[0][n] != results[-1][n])} numbers of {n} of the GPU differ'
            failures += why is not None
            print(f'{name}: {why or "good"}')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(check(sys.argv[1:], lambda _: source(large=True), dict.fromkeys(entries(True), ['y']), typed, judge))
