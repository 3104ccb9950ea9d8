#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Products on the matrix units of AMD GPUs, run on this CPU lane by lane (lanes.h), against NumPy in float64.

usage: products.py BUILD [--seed S] [--cases N] [--targets A,B]

Each case is a program of one product with --numerics=native: types, transposed factors, edges, batches, rows that are not whole 16 bytes, ops after
the product. Each tile of compiler/tile/gpu/tiles.def that fits is also given by a schedule, once for each target. In the LLVM IR of every kernel there
must be the instructions that docs/amd.md names. Exit code: 0 all agree, 1 some do not, 77 NumPy is absent.
"""
import argparse
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'tests/oracle'), str(ROOT / 'tests/gpu/modules')]

from matrix import Case, draw_cases
from product import load, save

CPU = 'x86-64-v3'
UNITS = {'gfx90a': 'mfma', 'gfx942': 'mfma', 'gfx950': 'mfma', 'gfx9-4-generic': 'mfma', 'gfx1100': 'wmma', 'gfx11-generic': 'wmma', 'gfx1201': 'wmma',
         'gfx12-generic': 'wmma'}


class Failure(Exception):
    pass


def tiles_of():
    """Tiles that are given by hand: rows, columns, warps of tiles.def; the compiler refuses those that do not fit."""
    text = (ROOT / 'compiler/tile/gpu/tiles.def').read_text('utf-8')
    return [(int(r), int(c), int(w), int(g)) for r, c, w, t, g in re.findall(r'^X\((\d+), (\d+), (\d+), (\d+), (\d+)\)', text, re.M) if t == '1']


class Bench:
    def __init__(self, build, work):
        self.tools, self.lanes, self.work = build / 'tools', build / 'tests/lanes', work

    def call(self, *command):
        return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300)

    def must(self, *command):
        done = self.call(*command)
        if done.returncode:
            raise Failure(f'{pathlib.Path(command[0]).name}: {done.stderr.strip()[-500:]} (exit code {done.returncode})')
        return done

    def build(self, text, targets, flags=()):
        source = self.work / 'p.mlir'
        source.write_text(text, 'utf-8')
        names = ','.join([f'cpu:{CPU}', *(f'hip:{t}' for t in targets)])
        return self.call(self.tools / 'tessera-aot', 'build', source, '-o', self.work / 'p.tsb', '--numerics=native', '--target', names, '--dump=llvm',
                         '--dump-dir', self.work / 'ir', *flags)

    def run(self, target, name, case, data):
        inputs, outputs, packed = self.work / 'i.safetensors', self.work / 'o.safetensors', self.work / f'{target}.tsb'
        save(inputs, {p: (x, case.dtype) for p, x in zip('abc', data)})
        self.must(self.tools / 'tessera-run', packed, '--quiet', '--cpu', CPU, '--entry', name, *(f'--input={p}={inputs}:{p}' for p in 'abc'), '--output',
                  f'y={outputs}')
        return np.asarray(load(outputs)['y'][0], np.float64)

    def pack(self, target):
        self.must(self.lanes / 'lane-pack', self.work / 'p.tsb', f'hip:{target}', self.work / 'ir' / f'llvm.{target}.ll',
                  self.lanes / 'liblane-simulator.a', self.work / f'{target}.tsb')

    def kernels(self, target):
        """{kernel of a product: the number of its instructions of matrix units}"""
        text = (self.work / 'ir' / f'llvm.{target}.ll').read_text('utf-8')
        bodies = re.split(r'^define ', text, flags=re.M)[1:]
        counts = {re.search(r'@(\w+)\(', body)[1]: len(re.findall(rf'call .*@llvm\.amdgcn\.{UNITS[target]}\.', body)) for body in bodies}
        return {name: count for name, count in counts.items() if 'matmul' in name}

    def compare(self, target, name, case, data):
        why = case.differs(self.run(target, name, case, data), data)
        return [f'{target}: {case}: {why}'] if why else []


def takes(target, case):
    return case.dtype != 'f32' or UNITS[target] == 'mfma'  # WMMA has no f32


def check_cases(bench, cases, targets, generator):
    done = bench.build(''.join(case.text(f'p{i}') for i, case in enumerate(cases)), targets)
    if done.returncode:
        raise Failure(f'tessera-aot: {done.stderr.strip()[-500:]}')
    wrong, data = [], [case.draw(generator) for case in cases]
    for target in targets:
        bench.pack(target)
        without, most = [kernel for kernel, units in bench.kernels(target).items() if not units], sum(not takes(target, case) for case in cases)
        if len(without) > most:
            wrong.append(f'{target}: kernels {without} have no instruction of matrix units; expected at most {most} kernels')
        for i, case in enumerate(cases):
            wrong += bench.compare(target, f'p{i}', case, data[i])
    return wrong


def check_tiles(bench, targets, generator):
    """Each tile that a schedule can give."""
    wrong, used = [], 0
    for target in targets:
        for rows, columns, warps, registers in tiles_of():
            case = Case(rows + 24, columns + 8, 104, bt=True, dtype=str(generator.choice(['bf16', 'f16'])), tile=(rows, columns, warps))
            schedule = bench.work / 'schedule.mlir'
            schedule.write_text(f'tsched.tile kernel @k0_matmul chosen = [{rows}, {columns}, 64, 2, {warps}, 1, 1, 1, 1, 0, {registers}] '
                                f'{{target = "hip:{target}"}}\n')
            done = bench.build(case.text('p'), [target], ['--schedule', schedule])
            if 'TSR-0431' in done.stderr:
                continue
            if done.returncode:
                wrong.append(f'{target}: {case}: {done.stderr.strip()[-400:]}')
                continue
            bench.pack(target)
            used += 1
            if 0 in bench.kernels(target).values():
                wrong.append(f'{target}: {case}: its kernel has no instruction of matrix units')
            wrong += bench.compare(target, 'p', case, case.draw(generator))
    print(f'{used} tiles given by schedules: {len(wrong)} wrong')
    return wrong if used else ['no tile fits']


# A second table of the positions of elements, from the matrix element to the register, as AMD's "Matrix Instruction Calculator" writes it:
# (lanes that hold element i, k of the first operand, its number in the lane; lane and number of element i, j of the result).
POSITIONS = {
    'MFMA_F16': (lambda i, k: ([i + 16 * (k // 4)], k % 4), lambda i, j: (j + 16 * (i // 4), i % 4)),
    'MFMA_F32': (lambda i, k: ([i + 16 * k], 0), lambda i, j: (j + 16 * (i // 4), i % 4)),
    'MFMA_DEEP_F16': (lambda i, k: ([i + 16 * (k // 8)], k % 8), lambda i, j: (j + 16 * (i // 4), i % 4)),
    'WMMA_11_F16': (lambda i, k: ([i, i + 16], k), lambda i, j: (j + 16 * (i % 2), i // 2)),
    'WMMA_12_F16': (lambda i, k: ([i + 16 * (k // 8)], k % 8), lambda i, j: (j + 16 * (i // 8), i % 8)),
}


def check_positions(bench):
    """The simulator's positions of elements, from the register to the element, against POSITIONS."""
    told, depths = {}, {'MFMA_F32': 4, 'MFMA_DEEP_F16': 32}
    for line in bench.must(bench.lanes / 'lane-positions').stdout.splitlines():
        name, what, *numbers = line.split()
        told.setdefault((name.replace('BF16', 'F16'), what), set()).add(tuple(map(int, numbers)))
    wrong = []
    for name, (operand, result) in POSITIONS.items():
        depth = depths.get(name, 16)
        want = {(lane, operand(i, k)[1], i, k) for i in range(16) for k in range(depth) for lane in operand(i, k)[0]}
        sums = {(*result(i, j), i, j) for i in range(16) for j in range(16)}
        wrong += [f'{name}: {what} differ' for what, positions in (('operand', want), ('result', sums)) if told.pop((name, what)) != positions]
    wrong += [f'{name}: {what} has no second table' for name, what in told]
    print(f'positions of elements of {len(POSITIONS)} kinds of instructions: {len(wrong)} differ')
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument('--cases', type=int, default=10)
    parser.add_argument('--targets', default='gfx942,gfx950,gfx1100,gfx1201')
    options = parser.parse_args()
    print(f'seed {options.seed}', flush=True)
    generator, begin = np.random.default_rng(options.seed), time.monotonic()
    work = pathlib.Path(tempfile.mkdtemp(prefix='products-'))
    bench, targets = Bench(options.build.resolve(), work), options.targets.split(',')
    try:
        cases, wrong = draw_cases(generator, options.cases), check_positions(bench)
        wrong += check_cases(bench, cases, targets, generator)
        print(f'{len(cases)} products on {", ".join(targets)}: {len(wrong)} wrong; {time.monotonic() - begin:.0f} s')
        wrong += check_tiles(bench, targets, generator)
    except Failure as failure:
        wrong = [str(failure)]
    for text in wrong:
        print(text)
    shutil.rmtree(work)
    return 1 if wrong else 0


sys.exit(main())
