# SPDX-License-Identifier: Apache-2.0
"""Is what the product computes what the interpreter says?"""
import collections
import math

import numpy as np

from bounds import Interpreter
from graph import FLOATS
from reduce import Reduction

WIDE = 1 / 16  # of the largest magnitude of a tensor: to be within a wider bound says little


def differ(kind, expected, bound, got):
    """The first position that is wrong, as text; None if none is."""
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


def says_little(kind, value, bound):
    """Where most wrong values would be within the bound."""
    if kind.dtype not in FLOATS:
        return np.zeros(kind.shape, bool)
    size = np.max(np.where(np.isfinite(value), np.abs(value), 0), initial=0)
    return (bound > WIDE * size) & ~np.isnan(value)


def too_few(graphs, *shares):
    """Why agreement says nothing, or None: of what so many graphs make, too large a share was not compared. One graph may weigh much
    among few. `shares`: (what, how many were not, of how many)"""
    limit = min(0.9, 0.25 + 2 / math.sqrt(max(graphs, 1)))
    for what, part, whole in shares:
        if part > limit * whole:
            return f'{part} of {whole} {what}, {part / whole:.1%}; the limit for {graphs} graphs is {limit:.1%}'
    return None


class Checker:
    def __init__(self, product):
        self.product, self.compared, self.unknown, self.results, self.idle = product, 0, 0, 0, 0
        self.derivatives = collections.Counter()  # of gradients.py

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
        value, known = np.asarray(value), np.isfinite(bound)
        self.compared += int(np.sum(known))
        self.unknown += int(np.sum(~known))
        self.results += kind.size > 0
        self.idle += 2 * int(np.sum(known & ~says_little(kind, value, bound))) < kind.size
        return differ(kind, value, bound, mine)

    def counts(self):
        """[how many, of how many]: elements that were not compared, results that hardly were, derivatives that were not."""
        steep = self.derivatives['steep']
        return [[self.unknown, self.compared + self.unknown], [self.idle, self.results], [steep, steep + self.derivatives['compared']]]

    def fails(self, function, data):
        """Does this graph fail, to build or to compute?"""
        why = self.product.build([function], 'reduced')
        return why or self.problem(function, data, 'reduced')

    def reduced(self, function, data, fails=None):
        """The smallest graph found that fails; and why. `fails` says what is wrong with a graph, or None."""
        return Reduction(fails or self.fails, self.product.accepts).reduced(function, data)
