#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attention of bf16 and its gradients with dot products, built and run by the tools, compared with NumPy in float64.

usage: attention_reference.py TESSERA_AOT TESSERA_RUN [SEED]

The shapes cover every edge case: empty ones, odd rows and columns, several blocks, more queries than keys, shared heads, masks,
dropped weights. Native results have the same bits with one thread and with two; with dropped weights they are near the portable
ones, as the same weights are dropped. Exits with 77 without NumPy, or if the CPU has no dot products.
"""
import os
import subprocess
import sys
import tempfile
import time

try:
    import numpy
except ImportError as error:
    print(error)
    sys.exit(77)

# batch, heads, heads of keys, queries, keys, d, e, causal, mask, dropout
CASES = [(1, 2, 2, 64, 64, 64, 64, False, False, 0), (2, 4, 2, 128, 128, 64, 64, True, False, 0), (1, 3, 1, 65, 65, 33, 17, True, False, 0),
         (2, 2, 2, 37, 101, 40, 72, False, True, 0), (1, 2, 2, 1, 77, 64, 64, True, False, 0), (1, 2, 1, 100, 700, 64, 64, True, False, 0),
         (1, 1, 1, 513, 513, 64, 48, False, False, 0), (1, 1, 1, 300, 1031, 96, 128, True, True, 0), (1, 2, 2, 5, 3, 7, 1, True, False, 0),
         (1, 2, 2, 130, 90, 64, 64, True, False, 0), (1, 2, 1, 1, 19, 8, 1, True, False, 0), (2, 2, 1, 78, 200, 64, 64, True, False, 0), (1, 2, 2, 201, 133, 24, 56, True, False, 0),
         (1, 2, 2, 96, 112, 64, 64, True, False, 0.25), (1, 2, 1, 45, 51, 20, 12, False, False, 0.25),
         (1, 2, 1, 0, 5, 8, 8, True, False, 0), (1, 2, 1, 7, 0, 8, 8, True, False, 0)]
# Of the sum of the terms' magnitudes, each number by itself: results are rounded to bf16 (2^-8 of the result), weights before (2^-8 of each term); the rest is f32's.
TOLERANCE = 2.0 ** -7 + 2.0 ** -12
OUTPUTS = ('o', 'dq', 'dk', 'dv')


def has_dots():
    with open('/proc/cpuinfo', encoding='ascii') as file:
        return any('avx512_bf16' in line.split() for line in file if line.startswith('flags'))


def rounded(array):
    bits = array.astype('f4').view('u4').astype('u8')
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype('u4').view('f4')


def tensor(shape, dtype):
    return f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"


def program(case, shapes):
    batch, heads, _, queries, _, _, _, causal, mask, dropout = case
    narrow = {name: tensor(shape, 'bf16') for name, shape in shapes.items()}
    lines = [f'%{name} = tessera.cast %w{name} : {tensor(shape, "f32")} to {narrow[name]}' for name, shape in shapes.items()]
    operands, types = ['%q', '%k', '%v'], [narrow[name] for name in 'qkv']
    behind, behind_types = (['%m'], [narrow['m']]) if mask else ([], [])
    attrs = ['causal'] if causal else []
    if dropout:
        numbers = tensor((batch,), 'i64'), 'tensor<i64>', 'tensor<i64>'
        lines += [f'%n0 = tessera.constant dense<{[7 * heads * i for i in range(batch)]}> : {numbers[0]}',
                  '%n1 = tessera.constant dense<3> : tensor<i64>', '%n2 = tessera.constant dense<11> : tensor<i64>']
        behind, behind_types = behind + ['%n0', '%n1', '%n2'], [*behind_types, *numbers]
        attrs += [f'dropout = {dropout} : f64', 'stream = 5 : i64']
    lse = tensor((batch, heads, queries), 'f32')
    attr = '{' + ', '.join(attrs) + '}'
    lines.append(f'%o, %lse = tessera.attention {", ".join(operands + behind)} {attr} : {", ".join(types + behind_types)} -> {narrow["g"]}, {lse}')
    lines.append(f'%dq, %dk, %dv = tessera.attention_grad {", ".join(operands + ["%o", "%lse", "%g"] + behind)} {attr} : '
                 f'{", ".join(types + [narrow["g"], lse, narrow["g"]] + behind_types)} -> {", ".join(types)}')
    kinds = dict(zip(OUTPUTS, (shapes['g'], shapes['q'], shapes['k'], shapes['v'])))
    for name, shape in kinds.items():
        lines.append(f'%r{name} = tessera.cast %{name} : {tensor(shape, "bf16")} to {tensor(shape, "f32")}')
    results = ', '.join(f'{tensor(shape, "f32")} {{tessera.name = "{name}"}}' for name, shape in kinds.items())
    given = ', '.join(f'%w{name}: {tensor(shape, "f32")} {{tessera.name = "{name}"}}' for name, shape in shapes.items())
    lines.append(f'return {", ".join(f"%r{name}" for name in kinds)} : {", ".join(tensor(shape, "f32") for shape in kinds.values())}')
    return f'module @m {{\nfunc.func @f({given}) -> ({results}) attributes {{tessera.entry = "infer"}} {{\n' + '\n'.join(lines) + '\n}\n}\n'


def expect(case, x):
    """The result and the gradients from what the kernel is given, the result rounded; and of each number the sum of its terms' magnitudes."""
    batch, heads, key_heads, queries, keys, d, _, causal, mask, dropout = case
    q, k, v, g = (x[name].astype('f8') for name in 'qkvg')
    k, v = (numpy.repeat(array, heads // key_heads, axis=1) for array in (k, v))
    logits = q @ k.swapaxes(-1, -2) / numpy.sqrt(d) + (x['m'].astype('f8') if mask else 0)
    if causal:
        logits = numpy.where(numpy.arange(keys) <= numpy.arange(queries)[:, None] + keys - queries, logits, -numpy.inf)
    highest = logits.max(-1, keepdims=True, initial=-numpy.inf)
    p = numpy.exp(logits - numpy.where(numpy.isfinite(highest), highest, 0))
    total = p.sum(-1, keepdims=True)
    p /= numpy.where(total == 0, 1, total)
    o = p @ v

    def grouped(array):
        return array.reshape(batch, key_heads, heads // key_heads, *array.shape[2:]).sum(2)

    def gradients(o, c, q, k, g):
        return dict(zip(OUTPUTS, (o, c @ k, grouped(c.swapaxes(-1, -2) @ q), grouped(p.swapaxes(-1, -2) @ g))))
    t = (rounded(o).astype('f8') * g).sum(-1, keepdims=True)
    values = gradients(o, p * (g @ v.swapaxes(-1, -2) - t) / numpy.sqrt(d), q, k, g)
    # A weight that is kept grows.
    p /= 1 - dropout
    q, k, v, g = (numpy.abs(array) for array in (q, k, v, g))
    o = p @ v
    t = (o * g).sum(-1, keepdims=True)
    return values, gradients(o, p * (g @ v.swapaxes(-1, -2) / (1 - dropout) + t) / numpy.sqrt(d), q, k, g)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f'{" ".join(command)}:\n{done.stdout}{done.stderr}')


def results(tool, folder, bundle, shapes, cpu, threads):
    command = [tool, bundle, '--entry', 'f', '--cpu', cpu, '--threads', str(threads)]
    for name in shapes:
        command += ['--input', f'{name}={folder}/{name}.npy']
    for name in OUTPUTS:
        command += ['--output', f'{name}={folder}/out-{name}.npy']
    run(command)
    return {name: numpy.load(f'{folder}/out-{name}.npy') for name in OUTPUTS}


def check(aot, tool, folder, case, values):
    batch, heads, key_heads, queries, keys, d, e, _, mask, dropout = case
    shapes = {'q': (batch, heads, queries, d), 'k': (batch, key_heads, keys, d), 'v': (batch, key_heads, keys, e), 'g': (batch, heads, queries, e)}
    if mask:
        shapes['m'] = (1, heads, queries, keys)
    x = {name: rounded(values.uniform(-2, 2, shape)) for name, shape in shapes.items()}
    for name, array in x.items():
        numpy.save(f'{folder}/{name}.npy', array)
    with open(f'{folder}/m.mlir', 'w', encoding='utf-8') as file:
        file.write(program(case, shapes))
    run([aot, 'build', f'{folder}/m.mlir', '-o', f'{folder}/m.tsb', '--numerics', 'native', '--target', 'cpu:x86-64-v4-bf16'])
    got, again = (results(tool, folder, f'{folder}/m.tsb', shapes, 'x86-64-v4-bf16', threads) for threads in (1, 2))
    expected, terms = expect(case, x)
    if dropout:
        run([aot, 'build', f'{folder}/m.mlir', '-o', f'{folder}/p.tsb', '--target', 'cpu:x86-64-v4'])
        expected = results(tool, folder, f'{folder}/p.tsb', shapes, 'x86-64-v4', 1)
    worst = 0.0
    for name in OUTPUTS:
        if got[name].tobytes() != again[name].tobytes():
            sys.exit(f'{case}, {name}: other bits with two threads')
        error = (numpy.abs(got[name] - expected[name]) / numpy.where(terms[name] == 0, 1, terms[name])).max(initial=0)
        worst = max(worst, error)
        if not error <= TOLERANCE:
            sys.exit(f'{case}, {name}: {error:.3g} of the terms\' magnitudes, allowed {TOLERANCE}')
    print(f'{case}: {worst:.2e}')


def main(aot, tool, seed):
    if not has_dots():
        print('this CPU has no dot products of bf16')
        sys.exit(77)
    print(f'seed {seed}')
    values = numpy.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            check(aot, tool, folder, case, values)


if __name__ == '__main__':
    main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time()))
