#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions of i8 and ui8, built and run by the tools on each level of this CPU, compared with NumPy in int64.

usage: bytes_reference.py TESSERA_AOT TESSERA_RUN [SEED]

Operands have all values of their types, the extremes too, so that an instruction that saturates would show. Exits with 77 without
NumPy.
"""
import itertools
import pathlib
import sys
import tempfile

try:
    import numpy as np
except ImportError as error:
    print(error)
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from checks import expect, finish, run  # noqa: E402

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
rng = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 5)
NEEDS = {'x86-64-v2': {'sse4_2'}, 'x86-64-v3': {'avx2'}, 'x86-64-v4': {'avx512vl'}, 'x86-64-v4-bf16': {'avx512_bf16', 'avx512_vnni'}}
TYPES = {'ui8': np.uint8, 'i8': np.int8}
EXTREME = {'ui8': 255, 'i8': -128}


def levels():
    lines = pathlib.Path('/proc/cpuinfo').read_text(encoding='ascii').splitlines()
    flags = set(next((line.split() for line in lines if line.startswith('flags')), []))
    return [level for level, needs in NEEDS.items() if needs <= flags]


def draw(dtype, shape):
    limits = np.iinfo(TYPES[dtype])
    array = rng.integers(limits.min, limits.max + 1, shape).astype(TYPES[dtype])
    array[..., : shape[-1] // 2] = np.where(rng.random(shape) < 0.5, EXTREME[dtype], array)[..., : shape[-1] // 2]
    return array


def tensor(shape, dtype):
    return f"tensor<{''.join(f'{dim}x' for dim in shape)}{dtype}>"


class Program:
    """Entries p0, p1 …, each of one product."""

    def __init__(self):
        self.text, self.cases = '', []

    def add(self, op, attributes, a, b, is_param, wanted):
        number = len(self.cases)
        types = [tensor(x.shape, 'ui8' if x.dtype == np.uint8 else 'i8') for x in (a, b)]
        result = tensor(wanted.shape, 'i32')
        ports = [f'%a: {types[0]} {{tessera.name = "a"}}'] + ([] if is_param else [f'%b: {types[1]} {{tessera.name = "b"}}'])
        self.text += f'func.func @p{number}({", ".join(ports)}) -> ({result} {{tessera.name = "y"}}) attributes {{tessera.entry = "infer"}} {{\n'
        if is_param:
            self.text += f'  %b = tessera.param "w{number}" data = dense<"0x{b.tobytes().hex().upper()}"> : {types[1]}\n'
        self.text += f'  %y = tessera.{op} %a, %b {{{attributes}}} : ({", ".join(types)}) -> {result}\n  return %y : {result}\n}}\n'
        self.cases.append((f'{op} {types[0]} by {types[1]} {attributes}', a, b, is_param, wanted))

    def matmul(self, types, a_shape, b_shape, ta=False, tb=False, is_param=False):
        a, b = draw(types[0], a_shape), draw(types[1], b_shape)
        x, y = (m.astype(np.int64).swapaxes(-1, -2) if t else m.astype(np.int64) for m, t in ((a, ta), (b, tb)))
        flags = [f'transpose_{name} = true' for name, flag in (('a', ta), ('b', tb)) if flag]
        self.add('matmul', ', '.join(flags), a, b, is_param, x @ y)

    def conv(self, types, image, filter_shape, stride=1, pad=0, dilation=1, groups=1, is_param=False):
        x, f = draw(types[0], image), draw(types[1], filter_shape)
        padded = np.pad(x.astype(np.int64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        extent = [(size - 1) * dilation + 1 for size in filter_shape[:2]]
        windows = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=(1, 2))
        windows = windows[:, ::stride, ::stride, :, ::dilation, ::dilation]
        parts = zip(np.split(windows, groups, axis=3), np.split(f.astype(np.int64), groups, axis=3))
        wanted = np.concatenate([np.einsum('nyxcij,ijcf->nyxf', w, part) for w, part in parts], axis=3)
        attributes = f'strides = [{stride}, {stride}], padding = [{pad}, {pad}, {pad}, {pad}], dilation = [{dilation}, {dilation}], groups = {groups}'
        self.add('conv2d', attributes, x, f, is_param, wanted)


def fill(program):
    for types in itertools.product(TYPES, TYPES):
        program.matmul(types, (7, 19), (19, 33))
        program.matmul(types, (70, 68), (68, 50), is_param=True)
        program.conv(types, (2, 9, 10, 8), (3, 3, 8, 20), pad=1, is_param=True)
    mixed = ('ui8', 'i8')
    program.matmul(mixed, (1, 64), (64, 40))
    program.matmul(mixed, (1, 131), (131, 40), is_param=True)
    program.matmul(('i8', 'i8'), (3, 5, 16), (3, 16, 9))
    program.matmul(mixed, (17, 130), (30, 130), tb=True)
    program.matmul(('i8', 'ui8'), (13, 17), (13, 20), ta=True)
    program.matmul(mixed, (2, 3, 9, 3000), (3000, 70))  # more steps than a chain of floats has
    program.matmul(mixed, (4, 3, 130), (130, 10), is_param=True)
    program.conv(mixed, (1, 20, 20, 3), (7, 7, 3, 16), stride=2, pad=3, is_param=True)
    program.conv(mixed, (1, 8, 8, 16), (1, 1, 16, 24))
    program.conv(mixed, (1, 8, 8, 16), (1, 1, 16, 24), stride=2)
    program.conv(mixed, (1, 9, 8, 6), (3, 3, 6, 5), dilation=2)
    program.conv(mixed, (1, 8, 8, 24), (3, 3, 1, 24), pad=1, groups=24)
    program.conv(mixed, (1, 8, 8, 200), (5, 5, 100, 24), pad=2, groups=2)  # its sums need f64


def main():
    program = Program()
    fill(program)
    with tempfile.TemporaryDirectory() as name:
        folder, targets = pathlib.Path(name), levels()
        (folder / 'p.mlir').write_text(f'module {{\n{program.text}}}\n', encoding='utf-8')
        process = run(folder, AOT, 'build', 'p.mlir', '-o', 'p.tsb', f"--target={','.join(f'cpu:{level}' for level in targets)}")
        expect('a build', process.returncode == 0, process.stderr[-2000:])
        for number, (what, a, b, is_param, wanted) in enumerate(program.cases):
            np.save(folder / 'a.npy', a)
            np.save(folder / 'b.npy', b)
            inputs = ['--input', 'a=a.npy', *([] if is_param else ['--input', 'b=b.npy'])]
            for level in targets:
                process = run(folder, RUN, 'p.tsb', '--entry', f'p{number}', '--cpu', level, *inputs, '--output', 'y=y.npy')
                same = process.returncode == 0 and np.array_equal(np.load(folder / 'y.npy'), wanted.astype(np.int32))
                expect(f'{what} on {level}', same, process.stderr[-500:])
    finish()


main()
