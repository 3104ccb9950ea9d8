# SPDX-License-Identifier: Apache-2.0
"""Is what the product computes what the interpreter says? And if not: how small a graph shows it?"""
import numpy as np

from bounds import Interpreter
from graph import FLOATS, Function, Op


def differ(kind, expected, bound, got):
    """The first place that is wrong, as text; None if none is."""
    if np.shape(got) != kind.shape:
        return f'shape {np.shape(got)}, expected {kind.shape}'
    known = np.isfinite(bound)
    if kind.dtype in FLOATS:
        same = (expected == got) | (np.isnan(expected) & np.isnan(got))
        with np.errstate(all='ignore'):
            near = np.abs(expected - got) <= bound
        wrong = known & ~(same | near)
    else:
        wrong = known & (expected != got)
    if not np.any(wrong):
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if np.ndim(wrong) else ()
    pick = (lambda a: np.asarray(a)[at])
    return (f'[{", ".join(map(str, at))}] is {pick(got)!r}, expected {pick(expected)!r} within {pick(bound):.3g} '
            f'({int(np.sum(wrong))} of {kind.size} wrong)')


class Checker:
    def __init__(self, product):
        self.product, self.compared, self.unknown = product, 0, 0

    def problem(self, function, data, name='graphs'):
        """What is wrong with a graph that was built, or None."""
        expected = Interpreter(native=self.product.numerics == 'native').run(function, data)
        types = dict(function.arguments)
        types.update((r, t) for op in function.ops for r, t in zip(op.results, op.types))
        kinds, bits = [types[o] for o in function.ops[-1].operands], {}
        for target in self.product.targets:
            got, why = self.product.run(function, data, target, name)
            if why:
                return f'{target}: {why}'
            for i, (kind, (value, bound), mine) in enumerate(zip(kinds, expected, got)):
                wrong = self.compare(kind, value, bound, mine)
                if wrong:
                    return f'{target}: result {i} ({function.ops[-1].operands[i]}, {kind}) {wrong}'
            bits[target] = got
        if 'x86-64-v3' in bits and 'x86-64-v4' in bits:
            for i, (a, b) in enumerate(zip(bits['x86-64-v3'], bits['x86-64-v4'])):
                if not np.array_equal(a, b, equal_nan=a.dtype == np.float64):
                    return f'result {i} ({function.ops[-1].operands[i]}): x86-64-v3 and x86-64-v4 differ in bits'
        return None

    def compare(self, kind, value, bound, mine):
        """What is wrong with a tensor, or None; counts its elements."""
        self.compared += int(np.sum(np.isfinite(bound)))
        self.unknown += int(np.sum(~np.isfinite(bound)))
        return differ(kind, np.asarray(value), bound, mine)

    def fails(self, function, data):
        """Does this graph fail, to build or to compute?"""
        why = self.product.build([function], 'reduced')
        return why or self.problem(function, data, 'reduced')

    # ---- reduction ------------------------------------------------------------------------------------------------------------

    def reduced(self, function, data, fails=None):
        """The smallest graph found that fails; and why. `fails` says what is wrong with a graph, or None."""
        fails = fails or self.fails
        why = fails(function, data)
        if not why:
            return function, data, 'passes alone'
        for result in function.ops[-1].operands:
            smaller = keep(function, data, [result])
            reason = fails(*smaller)
            if reason:
                (function, data), why = smaller, reason
                break
        changed = True
        while changed:
            changed = False
            for op in [o for o in function.ops[:-1] if o.name != 'constant']:
                smaller = cut(function, data, op)
                reason = smaller and fails(*smaller)
                if reason:
                    (function, data), why, changed = smaller, reason, True
                    break
        return function, data, why


def names_in(op):
    """Every value an op reads, its regions included."""
    names = set(op.operands)
    for region in op.regions:
        for inner in region.ops:
            names |= names_in(inner)
    return names


def keep(function, data, results):
    """What the results need."""
    needed, ops = set(results), []
    for op in reversed(function.ops[:-1]):
        if needed & set(op.results):
            ops.insert(0, op)
            needed |= names_in(op)
    pairs = [(a, d) for a, d in zip(function.arguments, data) if a[0] in needed]
    return Function(function.name, [a for a, _ in pairs], ops + [Op('return', results, [], [])]), [d for _, d in pairs]


def cut(function, data, op):
    """The graph with the results of `op` as arguments; None where the op is all there is."""
    if len([o for o in function.ops if o.name not in ('constant', 'return')]) < 2:
        return None
    if set(op.results) & set(function.ops[-1].operands):
        return None
    probe = Function(function.name, function.arguments, function.ops[:-1] + [Op('return', op.results, [], [])])
    values = [np.asarray(v) for v, _ in Interpreter().run(probe, data)]
    rest = [o for o in function.ops if o is not op]
    rename = {r: '%' + r[1:].replace('#', '_') for r in op.results}
    arguments = function.arguments + [(rename[r], t) for r, t in zip(op.results, op.types)]
    whole = Function(function.name, arguments, [renamed(o, rename) for o in rest])
    return keep(whole, list(data) + values, whole.ops[-1].operands)


def renamed(op, names):
    copy = Op(op.name, [names.get(o, o) for o in op.operands], op.results, op.types, op.attrs)
    for region in op.regions:
        copy.regions.append(type(region)(region.arguments, [renamed(o, names) for o in region.ops]))
    return copy
