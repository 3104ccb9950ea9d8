# SPDX-License-Identifier: Apache-2.0
"""Shows that the oracle can fail: `run` is given a product with one wrong op, and must find it, print its seed, and leave a graph of
that op alone, as small as it still fails. And what the comparison, the reduction and the limit of what is not compared say of inputs
made for them.

usage: selftest.py TOOLS
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

from check import Checker, differ, too_few
from generate import KINDS, Generator
from graph import Function, Op, Type, parse
from reduce import Reduction

RUN = pathlib.Path(__file__).resolve().parent / 'run'
TOOLS = ('tessera-aot', 'tessera-opt', 'tessera-run')
# Another op of the same types in place of one: in the source that is compiled; the same where an operand has 10 rows or columns at
# least; in what comes out of a pass.
SOURCE = '''#!/bin/sh
command=$1 source=$2
shift 2
sed -E '/{where}/s/"tessera\\.{op}"/"tessera.{other}"/' "$source" >"$source.wrong" || exit 1
exec "{tool}" "$command" "$source.wrong" "$@"
'''
PASSED = '''#!/bin/sh
"{tool}" "$@" >"{out}" || exit
sed 's/"tessera\\.{op}"/"tessera.{other}"/' "{out}"
'''
# The lowest bit of the first byte of what a run writes.
BIT = f'#!{sys.executable}' + '''
import pathlib, subprocess, sys
code = subprocess.run(['{tool}', *sys.argv[1:]]).returncode
for name in [a[3:] for a in sys.argv if a.startswith('r0=')] if code == 0 else []:
    data = bytearray(pathlib.Path(name).read_bytes())
    first = 8 + int.from_bytes(data[:8], 'little')
    if first < len(data):
        data[first] ^= 1
    pathlib.Path(name).write_bytes(data)
sys.exit(code)
'''
LARGE = 'tensor<[0-9x]*[0-9][0-9]x'
checks = []


def expect(what, condition, *seen):
    checks.append(what)
    if not condition:
        sys.exit('\n'.join([f'not so: {what}', *map(str, seen)]))


# ---- a wrong product --------------------------------------------------------------------------------------------------------

class Wrong:
    """The tools, one of them behind a script."""

    def __init__(self, folder, tools, tool, script, **words):
        self.folder = folder
        folder.mkdir()
        for name in TOOLS:
            if name != tool:
                (folder / name).symlink_to(tools / name)
        (folder / tool).write_text(script.format(tool=tools / tool, out=folder / 'out', **words), encoding='utf-8')
        os.chmod(folder / tool, 0o755)

    def run(self, name, *arguments):
        """(exit code, what it says, {name: (reduced graph, its first line)})"""
        work = self.folder / name
        done = subprocess.run([RUN, '--tools', self.folder, '--work', work, '--targets', 'x86-64-v2', *map(str, arguments)], text=True,
                              capture_output=True)
        texts = {path.stem: path.read_text(encoding='utf-8') for path in sorted((work / 'failures').glob('*.mlir'))}
        return done.returncode, done.stdout + done.stderr, {
            name: (next(iter(parse(text).values())), text.splitlines()[0]) for name, text in texts.items()}


def ops(function):
    return [op.name for op in function.ops if op.name not in ('constant', 'return')]


def dims(function):
    """Those that are not 1, of what goes in and comes out."""
    types = [t for _, t in function.arguments] + [t for op in function.ops for t in op.types]
    return [sorted(d for d in t.shape if d != 1) for t in types]


def alone(what, done, op):
    code, text, graphs = done
    expect(f'{what}: found', code == 1 and graphs, code, text)
    expect(f'{what}: the seed is printed', re.match(r'seed \d+\n', text), text)
    for name, (function, line) in graphs.items():
        expect(f'{what}: {name} holds {op} alone', ops(function) == [op], text, ops(function))
        expect(f'{what}: {name} says what is wrong', line.startswith('// ') and 'expected' in line or 'difference' in line, line)
    return [function for function, _ in graphs.values()]


def test_found(folder, tools):
    wrong = Wrong(folder / 'sub', tools, 'tessera-aot', SOURCE, where='.', op='sub', other='add')
    first = wrong.run('first', '--kinds', 'binary', '--count', 6, '--gradients', 0)
    for function in alone('sub that adds', first, 'sub'):
        expect('sub that adds: one element', not any(dims(function)), dims(function))
    seed = re.match(r'seed (\d+)\n', first[1])[1]
    again = wrong.run('again', '--kinds', 'binary', '--count', 6, '--gradients', 0, '--seed', seed)
    expect('sub that adds: the seed brings it back', list(again[2]) == list(first[2]) and all(n.startswith(seed) for n in again[2]),
           first[1], again[1])
    name = list(first[2])[0]
    index = re.search(r'-g(\d+)$', name)[1]
    one = wrong.run('one', '--kinds', 'binary', '--first', index, '--count', 1, '--gradients', 0, '--seed', seed)
    expect('sub that adds: one graph of the seed', list(one[2]) == [name], one[1])


def test_right(folder, tools):
    right = Wrong(folder / 'right', tools, 'tessera-aot', SOURCE, where='.', op='sub', other='sub')
    code, text, graphs = right.run('right', '--kinds', 'binary', '--count', 2, '--gradients', 0)
    expect('sub that subtracts: passes', code == 0 and not graphs, code, text)


def test_large(folder, tools):
    wrong = Wrong(folder / 'large', tools, 'tessera-aot', SOURCE, where=LARGE, op='sub', other='add')
    for function in alone('large sub that adds', wrong.run('large', '--kinds', 'binary,unary,transpose', '--count', 2, '--gradients', 0,
                                                           '--seed', 1), 'sub'):
        left = [d for kind in dims(function) for d in kind]
        expect('large sub that adds: as small as it fails', left and all(10 <= d < 20 for d in left)
               and all(len(kind) <= 1 for kind in dims(function)), dims(function))


def test_gradient(folder, tools):
    wrong = Wrong(folder / 'gradient', tools, 'tessera-opt', PASSED, op='tanh', other='sigmoid')
    for function in alone('gradient of tanh', wrong.run('gradient', '--kinds', 'unary', '--count', 0, '--gradients', 12, '--seed', 1),
                          'tanh'):
        expect('gradient of tanh: one element', not any(dims(function)), dims(function))


def test_bit(folder, tools):
    wrong = Wrong(folder / 'bit', tools, 'tessera-run', BIT)
    code, text, graphs = wrong.run('bit', '--kinds', 'transpose,reshape', '--count', 3, '--gradients', 0, '--seed', 1)
    expect('a bit: found', code == 1 and graphs, code, text)
    expect('a bit: one element is wrong', re.search(r'result 0 .* \(1 of \d+ wrong\)', text), text)
    for name, (function, _) in graphs.items():
        if '-g' in name:
            expect(f'a bit: {name} holds an op alone', len(ops(function)) == 1, text, ops(function))


# ---- the parts --------------------------------------------------------------------------------------------------------------

def test_differ():
    kind, value, bound = Type((2, 3), 'f32'), np.arange(6.0).reshape(2, 3), np.full((2, 3), 0.25)
    def moved(by, at=(1, 2)):
        other = value.copy()
        other[at] += by
        return other
    expect('the same', differ(kind, value, bound, value) is None)
    expect('at the bound', differ(kind, value, bound, moved(0.25)) is None)
    expect('beyond', '[1, 2] is' in (differ(kind, value, bound, moved(0.2501)) or '') and '(1 of 6 wrong)' in differ(
        kind, value, bound, moved(-0.2501)))
    for odd in (np.nan, np.inf, -np.inf):
        expect(f'{odd} for a number', differ(kind, value, bound, moved(odd)))
        expect(f'a number for {odd}', differ(kind, moved(odd), np.zeros((2, 3)), value))
        expect(f'{odd} for {odd}', differ(kind, moved(odd), bound, moved(odd)) is None)
    expect('no bound', differ(kind, value, np.where(value == 5, np.inf, 0), moved(9)) is None)
    expect('no bound elsewhere', differ(kind, value, np.where(value == 5, np.inf, 0), moved(9, (0, 1))))
    expect('the shape', differ(kind, value, bound, value.reshape(3, 2)))
    whole, none = Type((3,), 'i64'), np.zeros(3)
    expect('integers', differ(whole, np.arange(3), none, np.array([0, 1, 3])) and not differ(whole, np.arange(3), none, np.arange(3)))


def test_share():
    checker, kind = Checker(None), Type((8,), 'f32')
    value, tight = np.linspace(1, 2, 8), np.full(8, 1e-6)
    for bound in (tight, np.full(8, np.inf), np.full(8, 0.5), np.where(np.arange(8) < 5, np.inf, 1e-6)):
        checker.compare(kind, value, bound, value)
    expect('what was compared is counted', checker.counts() == [[13, 32], [3, 4], [0, 0]], checker.counts())
    checker.compare(Type((), 'f32'), np.float64(np.nan), np.float64(0), np.float64(np.nan))
    checker.compare(Type((0,), 'f32'), np.zeros(0), np.zeros(0), np.zeros(0))
    expect('NaN for NaN is, nothing is not', checker.counts()[1] == [3, 5], checker.counts())
    expect('nothing compared', '10 of 10 left out, 100.0%' in (too_few(1, ('left out', 10, 10)) or ''))
    expect('a second share', '10 of 10 others, 100.0%' in (too_few(1000, ('left out', 0, 9), ('others', 10, 10)) or ''))
    expect('few of many', too_few(2000, ('left out', 5000, 100000)) is None)
    expect('a third of many', too_few(2000, ('left out', 33333, 100000)))
    expect('none of none', too_few(0, ('left out', 0, 0)) is None)


def test_reduction():
    """With a product that is none: a graph fails if it has an `exp` of 5 rows at least."""
    def fails(function, _):
        types = dict(function.arguments)
        types.update((r, t) for op in function.ops for r, t in zip(op.results, op.types))
        tries.append(function)
        return 'fails' if any(op.name == 'exp' and types[op.operands[0]].shape[:1] >= (5,) for op in function.ops) else None
    found = 0
    for seed in range(40):
        g = Generator(np.random.default_rng([seed]), [k for k in KINDS if k not in ('call', 'if', 'scan', 'while', 'loops', 'recurrent', 'repeat', 'noise')],
                      empty=False)
        x = g.argument(Type((31, 7), 'f64'), np.ones((31, 7)))
        g.emit('tanh', [g.emit('exp', [g.emit('neg', [x], g.types[x])], g.types[x])], g.types[x])
        function, tries = g.graph('f', 12), []
        if not fails(function, g.data):
            continue
        tries.clear()
        small, _, why = Reduction(fails, lambda f: True, 60).reduced(function, g.data)
        expect(f'graph {seed}: an exp of few rows', why == 'fails' and ops(small) == ['exp'] and small.ops[-2].types[0].shape[0] < 10
               and small.ops[-2].types[0].size < 10, ops(small), small.ops[-2].types[0])
        expect(f'graph {seed}: tries are bounded', len(tries) <= 1 + 2 * 60, len(tries))
        found += 1
    expect('graphs with exp', found > 20, found)
    tries.clear()
    Reduction(lambda *graph: tries.append(graph) or ('fails' if len(tries) == 1 else None), lambda f: True, 7).reduced(function, g.data)
    expect('no more tries than there may be', len(tries) == 1 + 2 * 7, len(tries))
    refused = Reduction(lambda f, d: 'fails', lambda f: False).reduced(function, g.data)
    expect('what the verifier refuses is not taken', max(t.size for op in refused[0].ops for t in op.types) > 1)
    passes = Reduction(lambda f, d: None, lambda f: True).reduced(function, g.data)
    expect('what passes alone', passes == (function, g.data, 'passes alone'))


def main():
    tools = pathlib.Path(sys.argv[1]).resolve()
    test_differ()
    test_share()
    test_reduction()
    with tempfile.TemporaryDirectory(prefix='oracle-selftest-') as folder:
        for test in (test_found, test_right, test_large, test_gradient, test_bit):
            test(pathlib.Path(folder), tools)
    print(f'{len(checks)} checks')


main()
