#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Do random graphs hold every op, of every type that it takes? A test, and the table that `run --coverage` prints.

usage: coverage.py TESSERA_OPT OPS_DEF [SEED]

An op of ops.def that no graph holds, and for which tests/ops.py gives no reason, is an error; and so is a type that an op's own rule
takes, but that no graph has it of. Which ones it takes is asked of tessera-opt: one op of each kind, written again for each type. What
it prints must read back, and what it refuses must be what the row of the op in tests/ops.py says, in words that name the op.
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
from ops import OPS, ROWS, declared
from product import Product


def kind_of(op, types):
    """The type that an op is of."""
    at = 0 if op.name == 'call' else OPS[op.name].typed_by
    return op.types[0].dtype if at is None or not op.operands else types[op.operands[at]].dtype


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


def changed(op, types, old, new, name=None, attrs=None):
    """The op as a function, of another type, or with other attributes."""
    def other(kind):
        return Type(kind.shape, new if kind.dtype == old else kind.dtype)
    names = {o: f'%a{i}' for i, o in enumerate(dict.fromkeys(op.operands))}
    arguments = {names[o]: other(types[o]) for o in names}
    results = [f'%r#{i}' for i in range(len(op.types))] if len(op.types) > 1 else ['%r']
    copy = Op(op.name, [names[o] for o in op.operands], results, [other(t) for t in op.types], op.attrs if attrs is None else attrs)
    line, = write_ops([copy], dict(arguments), 1)
    head = ', '.join(f'{n}: {t}' for n, t in arguments.items())
    return f'func.func @{op.name.replace(".", "_")}__{name or new}({head}) {{\n{line}\n  "func.return"() : () -> ()\n}}\n'


def versions(op, types):
    """The op of each type, and with each of the attributes that its row says are refused."""
    row, old = OPS[op.name], kind_of(op, types)
    parts = [changed(op, types, old, new, attrs=row.drawn(new)[0] if row.drawn else None) for new in STORED]
    return parts + [changed(op, types, old, old, f'refused{i}', {**op.attrs, **attrs}) for i, (attrs, _) in enumerate(row.refused)]


def split(product, parts):
    """What tessera-opt does with each of these modules."""
    return product.call('tessera-opt', '--split-input-file', '-', text='// -----\n'.join(parts))


def tried(product, found):
    """The (op, type) that pass the rules of the ops; what tessera-opt says of the others; what is wrong with the text it prints."""
    parts = [part for op, types in found.values() for part in versions(op, types)]
    done = split(product, parts)
    printed = re.findall(r'^module {\n.*?^}\n', done.stdout, re.MULTILINE | re.DOTALL)
    again = split(product, printed)
    wrong = [f'tessera-opt says of what it has printed: {again.stderr}'] if again.returncode else []
    wrong += [f'{one} is read and printed as {other}' for one, other in zip(printed, again.stdout.split('// -----\n')) if one.strip() != other.strip()]
    return {tuple(pair) for pair in re.findall(r'func\.func @(\w+)__(\w+)\(', done.stdout)}, done.stderr, wrong


def refusals(row, takes, said):
    """What is wrong with the types and attributes that the op refuses."""
    held = [dtype for dtype in STORED if (row.name, dtype) in takes]
    if sorted(held) != sorted(row.dtypes):
        yield f'{row.name} takes {", ".join(held)}, in tests/ops.py {", ".join(row.dtypes)}'
    for dtype in (dtype for dtype in STORED if dtype not in row.dtypes):
        needs = re.search(rf'\[TSR-0104\] tessera\.{row.name}: element type of [\w ]+ is {dtype}, needs (?:one of )?(.+)', said)
        if not needs or sorted(needs[1].split(', ')) != sorted(row.dtypes):
            yield f'{row.name} of {dtype}: tessera-opt says {needs and needs[0]}, needs one of {", ".join(row.dtypes)}'
    for i, (attrs, words) in enumerate(row.refused):
        if (row.name, f'refused{i}') in takes or f'tessera.{row.name}: {words}\n' not in said:
            yield f'{row.name} with {attrs}: tessera-opt does not say {words!r}'


def main():
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
    print(f'seed {seed}')
    product = Product(pathlib.Path(sys.argv[1]).resolve().parent, pathlib.Path.cwd(), [])
    names = declared(pathlib.Path(sys.argv[2]).read_text(encoding='utf-8'))
    found, table = one_of_each(seed)
    held, failures = {name for name, _ in table}, []
    failures += [f'no graph holds {name}' for name in names if name not in held and not OPS[name].no_graph]
    failures += [f'graphs hold {name}, and tests/ops.py gives a reason why not' for name in names if name in held and OPS[name].no_graph]
    takes, said, wrong = tried(product, found)
    failures += wrong
    failures += [f'no graph has {name} of {dtype}' for name, dtype in sorted(takes) if not table[name, dtype]]
    failures += [f'tessera-opt takes {name} of no type' for name in found if not any(name == n for n, _ in takes)]
    defined = [row for row in ROWS if row.numpy]
    failures += [line for row in defined if row.name in found for line in refusals(row, takes, said)]
    print('\n'.join(failures))
    print(f'{len(held)} ops, {len(takes)} pairs of an op and a type that it takes; refusals of {len(defined)} ops; {len(failures)} missing')
    sys.exit(1 if failures else 0)


if __name__ == '__main__':
    main()
