#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rows that tessera-prove-rows says do not depend on each other, in random graphs: the interpreter computes the same for a row
whatever the other rows are, and wherever in the batch it stands.

usage: rows.py TESSERA_OPT [SEED [COUNT]]

Every value of a graph whose dim 0 is the batch is the result of an eval entry; arguments of as many rows are its data, the others stay as
they are. What is proven is computed again with the rows in another order, and with all rows but a few 0, as in a last batch that is filled
up. Prints how many values were proven, how many were not, and of how many of those a row was seen to change.
"""
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is not installed')
    sys.exit(77)

from bounds import Interpreter
from generate import KINDS, Generator
from graph import Function, Op, callees, write_ops

PROVEN_LEAST = 0.05  # of all values: a test of a proof that proves nothing says nothing
VALUES_MAX = 10  # of one graph


def entry(function, name, result, types, rows):
    """An eval entry that gives one value."""
    body = write_ops([*function.ops[:-1], Op('return', [result], [], [])], dict(function.arguments), 1)
    ports = ', '.join(f'{n}: {t} {{tessera.{"data" if has_rows(t, rows) else "name"} = "{n[1:]}"}}' for n, t in function.arguments)
    return (f'func.func @{name}({ports}) -> ({types[result]} {{tessera.name = "y"}}) attributes {{tessera.entry = "eval"}} {{\n'
            + '\n'.join(body) + '\n}\n')


def has_rows(kind, rows):
    return bool(kind.shape) and kind.shape[0] == rows


def make(seed, at):
    """A graph, its inputs, the batch, the values to ask for; None where nothing has rows."""
    random = np.random.default_rng([seed, at])
    rows = int(random.choice([2, 3, 4, 6, 8]))
    kinds = [kind for kind in KINDS if kind != 'optimize']
    g = Generator(random, kinds, dtypes=('f32', 'f64', 'i64', 'i32', 'i1'), empty=False, edge=rows)
    function = g.graph(f'g{at}', int(random.integers(2, 14)))
    if not any(has_rows(kind, rows) for _, kind in function.arguments):
        return None
    types = dict(function.arguments)
    types.update((r, t) for op in function.ops for r, t in zip(op.results, op.types))
    made = [r for op in function.ops[:-1] if op.name != 'constant' for r in op.results if has_rows(types[r], rows)]
    values = [made[int(i)] for i in sorted(random.permutation(len(made))[:VALUES_MAX])]
    return (function, g.data, rows, values, types, random) if values else None


def ask(opt, graphs):
    """The names of the entries that are refused."""
    with tempfile.NamedTemporaryFile('w', suffix='.mlir', encoding='utf-8') as file:
        for at, (function, _, rows, values, types, _) in graphs.items():
            called = callees(function, function.name)
            file.write(''.join(entry(function, f'r{at}_{i}', value, types, rows) for i, value in enumerate(values)) + ''.join(called))
        file.flush()
        done = subprocess.run([opt, '-inline', '-tessera-prove-rows', '--no-output', file.name], capture_output=True, text=True, check=False)
    wrong = [line for line in done.stderr.splitlines() if 'error: ' in line and '[TSR-0229]' not in line]
    if wrong or done.returncode not in (0, 9):
        sys.exit(f'tessera-opt ends with {done.returncode}: {wrong[:3]}')
    return set(re.findall(r"error: \[TSR-0229\] [^\n]*entry '@(\w+)'", done.stderr))


def changed_row(function, data, rows, value, order, chosen_rows):
    """A row of the value that hangs on others, or None. Row i of the second run is row order[i] of the first, or 0 where it is not chosen."""
    again = []
    for (_, kind), x in zip(function.arguments, data):
        if has_rows(kind, rows):
            x = np.where(chosen_rows.reshape((-1,) + (1,) * (np.ndim(x) - 1)), x[order], np.zeros_like(x))
        again.append(x)
    one = Function(function.name, function.arguments, [*function.ops[:-1], Op('return', [value], [], [])])
    (a, a_bound), = Interpreter().run(one, data)
    (b, b_bound), = Interpreter().run(one, again)
    for i in np.flatnonzero(chosen_rows):
        x, y, bound = a[order[i]], b[i], a_bound[order[i]] + b_bound[i]
        with np.errstate(all='ignore'):
            same = (x == y) | ~np.isfinite(bound) if x.dtype.kind != 'f' else (
                (x == y) | (np.isnan(x) & np.isnan(y)) | ~np.isfinite(bound) | (np.abs(x - y) <= bound))
        if not np.all(same):
            return int(i)
    return None


def scan_rows(graph, value):
    function, data, rows, _, _, random = graph
    order = random.permutation(rows)
    chosen_rows = np.arange(rows) < random.integers(1, rows + 1)
    for chosen, those in (order, np.ones(rows, bool)), (np.arange(rows), chosen_rows):
        found = changed_row(function, data, rows, value, chosen, those)
        if found is not None:
            return found
    return None


def main():
    opt = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(np.random.SeedSequence().entropy % 10**9)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    print(f'seed {seed}')
    graphs = {at: made for at in range(count) if (made := make(seed, at))}
    mixed, wrong, proven, refused, seen = ask(opt, graphs), [], 0, 0, 0
    for at, graph in graphs.items():
        for i, value in enumerate(graph[3]):
            is_mixed = f'r{at}_{i}' in mixed
            refused, proven = refused + is_mixed, proven + (not is_mixed)
            row = scan_rows(graph, value)
            seen += is_mixed and row is not None
            if row is not None and not is_mixed:
                wrong.append(f'graph {at}, value {value}: row {row} depends on others')
                print(entry(graph[0], 'f', value, graph[4], graph[2]))
    print('\n'.join(wrong))
    print(f'{len(graphs)} graphs, {proven} values proven, {refused} not, {seen} of those were seen to depend on other rows; {len(wrong)} wrong')
    sys.exit(bool(wrong) or proven < PROVEN_LEAST * (proven + refused))


main()
