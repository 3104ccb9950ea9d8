#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Products of bf16 and f16 in every form, built and run by the tools, compared with NumPy in float64; for each level of this CPU,
portable and native.

usage: dot_reference.py TESSERA_AOT TESSERA_RUN [SEED]

Portable results have the same bits on every level with FMA, and on x86-64-v4-bf16; native ones with one and with two threads.
Exits with 77 without NumPy.
"""
import os
import random
import subprocess
import sys
import tempfile
import time

try:
    import numpy
except ImportError as error:
    print(error)
    sys.exit(77)

NEEDS = {'x86-64-v3': 'avx2', 'x86-64-v4': 'avx512vl', 'x86-64-v4-bf16': 'avx512_bf16'}
ROUNDING = {'bf16': 1.01 * 2.0 ** -8, 'f16': 1.01 * 2.0 ** -11}


def levels():
    with open('/proc/cpuinfo', encoding='ascii') as file:
        flags = next((line.split() for line in file if line.startswith('flags')), [])
    return [level for level, flag in NEEDS.items() if flag in flags]


def rounded(array, dtype):
    """To the nearest number of the type, as f32."""
    if dtype == 'f16':
        return array.astype('f2').astype('f4')
    bits = array.astype('f4').view('u4').astype('u8')
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype('u4').view('f4')


def tensor(shape, dtype):
    return f"tensor<{'x'.join(map(str, shape))}x{dtype}>"


def constant(array, dtype):
    raw = array.astype('f2').tobytes() if dtype == 'f16' else (array.view('u4') >> 16).astype('u2').tobytes()
    return f'dense<"0x{raw.hex().upper()}"> : {tensor(array.shape, dtype)}'


class Case:
    def __init__(self, draw, a_dims, b_dims, ta, tb, weights, epilogue, dtype):
        self.m, self.n, self.k = draw.choice((1, 4, 19, 70)), draw.randint(1, 120), draw.choice((1, 2, draw.randint(3, 150), draw.randint(150, 400)))
        self.ta, self.tb, self.weights, self.epilogue, self.dtype = ta, tb, weights, epilogue, dtype
        values = numpy.random.default_rng(draw.getrandbits(32))
        a_shape = (*a_dims, *((self.k, self.m) if ta else (self.m, self.k)))
        b_shape = (*b_dims, *((self.n, self.k) if tb else (self.k, self.n)))
        self.a, self.b, self.bias = (rounded(values.uniform(-1, 1, shape), dtype) for shape in (a_shape, b_shape, (self.n,)))
        a, b = self.a.astype('f8'), self.b.astype('f8')
        a, b = a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b
        self.product, self.size = a @ b, numpy.abs(a) @ numpy.abs(b)
        self.expected = self.product
        self.shape = self.expected.shape
        if epilogue:
            self.expected = numpy.maximum(self.expected + self.bias.astype('f8'), 0)

    def text(self):
        t = self.dtype
        a, b, c, bias = tensor(self.a.shape, t), tensor(self.b.shape, t), tensor(self.shape, t), tensor((self.n,), t)
        wide = [tensor(array.shape, 'f32') for array in (self.a, self.b, self.bias)]
        given = '' if self.weights else f', %wb: {wide[1]} {{tessera.name = "b"}}'
        lines = [f'%a = tessera.cast %wa : {wide[0]} to {a}', f'%v = tessera.cast %wv : {wide[2]} to {bias}',
                 f'%b = tessera.constant {constant(self.b, t)}' if self.weights else f'%b = tessera.cast %wb : {wide[1]} to {b}',
                 f'%c = tessera.matmul %a, %b {{transpose_a = {str(self.ta).lower()}, transpose_b = {str(self.tb).lower()}}} : {a}, {b} -> {c}']
        last = '%c'
        if self.epilogue:
            lines += [f'%s = tessera.add %c, %v : {c}, {bias} -> {c}', f'%r = tessera.relu %s : {c}']
            last = '%r'
        lines += [f'%y = tessera.cast {last} : {c} to {tensor(self.shape, "f32")}', f'return %y : {tensor(self.shape, "f32")}']
        return (f'module @m {{\nfunc.func @f(%wa: {wide[0]} {{tessera.name = "a"}}, %wv: {wide[2]} {{tessera.name = "v"}}{given}) -> '
                f'({tensor(self.shape, "f32")} {{tessera.name = "y"}}) attributes {{tessera.entry = "infer"}} {{\n' + '\n'.join(lines) + '\n}\n}\n')

    def name(self):
        return (f'{self.dtype} {self.a.shape} {self.b.shape} ta {self.ta} tb {self.tb}{" weights" if self.weights else ""}'
                f'{" bias, relu" if self.epilogue else ""}')


def run(aot, tool, folder, case, have):
    """{(numerics, level, threads): result}"""
    source, found = f'{folder}/m.mlir', {}
    with open(source, 'w', encoding='utf-8') as file:
        file.write(case.text())
    for name, array in (('a', case.a), ('b', case.b), ('v', case.bias)):
        numpy.save(f'{folder}/{name}.npy', array)
    inputs = [part for name in ('a', 'v', *([] if case.weights else ['b'])) for part in ('--input', f'{name}={folder}/{name}.npy')]
    for numerics in ('portable', 'native'):
        subprocess.run([aot, 'build', source, '-o', f'{folder}/m.tsb', f'--target={",".join("cpu:" + level for level in have)}', '--numerics', numerics],
                       check=True, stdout=subprocess.DEVNULL)
        for level in have:
            for threads in (1, 2):
                subprocess.run([tool, f'{folder}/m.tsb', '--entry', 'f', '--quiet', '--cpu', level, '--threads', str(threads), *inputs,
                                '--output', f'y={folder}/y.npy'], check=True, stdout=subprocess.DEVNULL)
                found[numerics, level, threads] = numpy.load(f'{folder}/y.npy')
    return found


def check(case, found):
    """The text of what is wrong."""
    allowed = ROUNDING[case.dtype] * numpy.abs(case.product) + 2.0 ** -23 * case.k * case.size
    if case.epilogue:
        allowed = 1.01 * allowed + ROUNDING[case.dtype] * numpy.abs(case.expected)
    if case.dtype == 'f16':
        allowed = allowed + 2.0 ** -24
    for key, got in found.items():
        if got.shape != case.shape or not (numpy.abs(got - case.expected) <= allowed).all():
            return f'{key}: up to {numpy.abs(got - case.expected).max():.3g} off'
    for (numerics, level, threads), got in found.items():
        other = found[numerics, 'x86-64-v3' if numerics == 'portable' else level, 1]
        if got.tobytes() != other.tobytes():
            return f'{numerics} {level}, {threads} threads: other bits'
    return None


def main(aot, tool, seed):
    print(f'seed {seed}')
    draw, have, wrong = random.Random(seed), levels(), 0
    if 'x86-64-v3' not in have:
        print('the CPU has no FMA')
        return 77
    forms = [((), (), ta, tb, weights, epilogue) for ta in (False, True) for tb in (False, True) for weights in (False, True)
             for epilogue in (False, True)]
    forms += [((3,), (3,), False, False, False, True), ((2, 3), (), False, True, True, False), ((), (4,), True, False, False, False),
              ((2, 1), (1, 3), False, False, False, False)]
    cases = [Case(draw, *form, dtype) for form in forms for dtype in (('bf16', 'f16') if form[4] else ('bf16',))]
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            problem = check(case, run(aot, tool, folder, case, have))
            wrong += problem is not None
            if problem:
                print(f'{case.name()}: {problem}')
    print(f'{len(cases)} products on {", ".join(have)}: {wrong} wrong')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())))
