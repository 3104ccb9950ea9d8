#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Do random graphs hold every op, of every type that it takes? A test, and the table that `run --coverage` prints.

usage: coverage.py TESSERA_OPT OPS_DEF [SEED]

An op of ops.def that no graph holds, and for which ELSEWHERE gives no reason, is an error; and so is a type that an op's own rule
takes, but that no graph has it of. Which ones it takes is asked of tessera-opt: one op of each kind, written again for each type.
"""
import collections
import pathlib
import random
import re
import sys

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

from generate import KINDS, VARIANTS, Generator
from graph import STORED, Op, Type, write_ops
from product import Product

# Ops that no graph holds when it is written.
ELSEWHERE = {
    'param': 'train entries alone have it', 'opt.state': 'train entries alone have it', 'assign': 'train entries alone have it', 'minimize': 'train entries alone have it',
    'step': 'train entries alone have it: AdamW reads it', 'seed': 'lowered from random ops', 'yield': 'ends every region',
    'loop': 'made of while, scan and if by -tessera-outline',
    'jvp': 'tangents.py puts whole graphs into it', 'vjp': 'tangents.py puts whole graphs into it',
    'repair': 'made of norms: tests/compiler/graph/norm_ranges.py',
    'custom_derivative': 'tests/compiler/graph/derivatives.py: its rule may say anything',
}
OF_RESULT = ('cast', 'one_hot', 'iota', 'constant', 'random_uniform', 'random_normal', 'philox', 'if')
OF_OPERAND_1 = ('where', 'while')


def kind_of(op, types):
    """The type that an op is of."""
    if op.name in OF_RESULT or not op.operands:
        return op.types[0].dtype
    return types[op.operands[1 if op.name in OF_OPERAND_1 else 0]].dtype


def tally(region, table, types=None):
    """Counts (op, type) of the region and what stands in it."""
    types = dict(types or {})
    types.update(region.arguments)
    for op in region.ops:
        types.update(zip(op.results, op.types))
        if op.name not in ('return', 'yield'):
            table[op.name, kind_of(op, types)] += 1
        for inner in op.regions:
            tally(inner, table, types)


def show(table):
    """As a table of Markdown."""
    lines = ['| op | ' + ' | '.join(STORED) + ' |', '|---|' + '---:|' * len(STORED)]
    for name in sorted({name for name, _ in table}):
        lines.append(f'| {name} | ' + ' | '.join(str(table[name, dtype] or '') for dtype in STORED) + ' |')
    return '\n'.join(lines)


def one_of_each(seed):
    """{op: (an op without regions, the types of its operands)}, of a type that stands in for others."""
    found, table = {}, collections.Counter()
    for at, kind in enumerate(KINDS):
        for v, variant in enumerate(VARIANTS.get(kind, (None,))):
            for d, dtype in enumerate(STORED):
                for turn in range(4):
                    g = Generator(np.random.default_rng([seed, at, v, d, turn]), [kind], dtypes=(dtype,), empty=False, only=variant)
                    function = g.graph('f', 1)
                    tally(function, table)
                    for op in function.ops:
                        if op.name == 'return' or op.regions or op.name == 'constant':
                            continue
                        types = {o: g.types[o] for o in op.operands}
                        if kind_of(op, types) == 'f16' or op.name not in found:
                            found[op.name] = op, types
    return found, table


def changed(op, types, old, new):
    """The op as a function, of another type."""
    def other(kind):
        return Type(kind.shape, new if kind.dtype == old else kind.dtype)
    names = {o: f'%a{i}' for i, o in enumerate(dict.fromkeys(op.operands))}
    arguments = {names[o]: other(types[o]) for o in names}
    results = [f'%r#{i}' for i in range(len(op.types))] if len(op.types) > 1 else ['%r']
    copy = Op(op.name, [names[o] for o in op.operands], results, [other(t) for t in op.types], op.attrs)
    line, = write_ops([copy], dict(arguments), 1)
    head = ', '.join(f'{n}: {t}' for n, t in arguments.items())
    return f'func.func @{op.name.replace(".", "_")}__{new}({head}) {{\n{line}\n  "func.return"() : () -> ()\n}}\n'


def accepted(product, found):
    """The (op, type) that pass the rules of the ops."""
    parts = []
    for op, types in found.values():
        old = kind_of(op, types)
        parts += [changed(op, types, old, new) for new in STORED]
    done = product.call('tessera-opt', '--split-input-file', '-', text='// -----\n'.join(parts))
    return {tuple(pair) for pair in re.findall(r'func\.func @(\w+)__(\w+)\(', done.stdout)}


def main():
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
    print(f'seed {seed}')
    product = Product(pathlib.Path(sys.argv[1]).resolve().parent, pathlib.Path.cwd(), [])
    names = re.findall(r'^X\(\w+, "([\w.]+)",', pathlib.Path(sys.argv[2]).read_text(encoding='utf-8'), re.MULTILINE)
    found, table = one_of_each(seed)
    held, failures = {name for name, _ in table}, []
    failures += [f'no graph holds {name}' for name in names if name not in held and name not in ELSEWHERE]
    failures += [f'{name} is no op without a kind: {ELSEWHERE[name]}' for name in ELSEWHERE if name in held or name not in names]
    takes = accepted(product, found)
    failures += [f'no graph has {name} of {dtype}' for name, dtype in sorted(takes) if not table[name, dtype]]
    failures += [f'tessera-opt takes {name} of no type' for name in found if not any(name == n for n, _ in takes)]
    print('\n'.join(failures))
    print(f'{len(held)} ops, {len(takes)} pairs of an op and a type that it takes; {len(failures)} missing')
    sys.exit(1 if failures else 0)


if __name__ == '__main__':
    main()
