# SPDX-License-Identifier: Apache-2.0
"""How small a graph shows a failure? Ops are cut, then dims shrunk, as long as what is left still fails.

`fails(function, data)` says what is wrong with a graph, or None; `accepts(function)` whether it is one: a smaller one that the
verifier refuses shows nothing. Each call of `fails` is a try, and there are so many for either.
"""
import numpy as np

from bounds import Interpreter
from graph import Function, Op, Region, Type, dense, elements

TRIES = 150
SIZES = ('size', 'length')  # attributes that repeat a dim


class Reduction:
    def __init__(self, fails, accepts, tries=TRIES):
        self.fails, self.accepts, self.tries = fails, accepts, tries

    def reduced(self, function, data):
        """The smallest graph found, with its data, and why it fails."""
        why = self.fails(function, data)
        if not why:
            return function, data, 'passes alone'
        self.left = self.tries
        graph = self.first(keep(function, data, [value]) for value in made(function)) or (function, data, why)
        graph = self.smallest(graph, cuts)
        self.left = self.tries
        return self.smallest(graph, self.shrunk)

    def smallest(self, graph, smaller):
        found = graph
        while found:
            graph, found = found, self.first(smaller(*found[:2]))
        return graph

    def first(self, candidates):
        """The first that fails, and why; None if none does, or no try is left."""
        for candidate in candidates:
            if not self.left:
                return None
            self.left -= 1
            why = self.fails(*candidate)
            if why:
                return *candidate, why
        return None

    def shrunk(self, function, data):
        return (graph for graph in shrunk(function, data) if self.accepts(graph[0]))


# ---- ops --------------------------------------------------------------------------------------------------------------------

def names_in(op):
    """Every value an op reads, its regions included."""
    names = set(op.operands)
    for region in op.regions:
        for inner in region.ops:
            names |= names_in(inner)
    return names


def made(function):
    """Every value that an op makes, the first one first: what is wrong there needs none of the ops behind."""
    return [value for op in function.ops[:-1] if op.name != 'constant' for value in op.results]


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


def cuts(function, data):
    """The graph without one of its ops, for each."""
    for op in function.ops[:-1]:
        smaller = cut(function, data, op) if op.name != 'constant' else None
        if smaller:
            yield smaller


# ---- dims -------------------------------------------------------------------------------------------------------------------

def shrunk(function, data):
    """The graph with dims of one size made 1 or halved: wherever that size is, then an axis of an argument alone. Of the data the
    first elements are mask, or the last."""
    sizes = {d for kind in kinds(function) for d in kind.shape if d > 1}
    dims = [(n, axis, d) for n, t in function.arguments for axis, d in enumerate(t.shape) if d > 1]
    choices = [(None, size) for size in sorted(sizes, reverse=True)]
    choices += [((name, axis), size) for name, axis, size in dims]
    for only, old in choices:
        for new in sorted({1, (old + 1) // 2} - {old}):
            for last in (False, True):
                smaller = settled(*resized(function, data, Resize(old, new, last), only))
                if smaller:
                    yield smaller


def kinds(region):
    """Every type in a region and those inside."""
    found = [t for _, t in region.arguments]
    for op in region.ops:
        found += op.types
        for inner in op.regions:
            found += kinds(inner)
    return found


class Resize:
    def __init__(self, old, new, last):
        self.old, self.new, self.last = old, new, last

    def dim(self, d):
        return self.new if d == self.old else d

    def kind(self, kind):
        return Type(map(self.dim, kind.shape), kind.dtype)

    def values(self, values, axis=None):
        part = slice(-self.new, None) if self.last else slice(self.new)
        return np.asarray(values)[tuple(part if d == self.old and axis in (None, i) else slice(None)
                                        for i, d in enumerate(np.shape(values)))]

    def op(self, op):
        attrs = dict(op.attrs)
        if op.name == 'constant':
            attrs['value'] = dense(self.values(elements(op.attrs['value'])), self.kind(op.types[0]))
        for name in [n for n in SIZES if n in attrs]:
            dims = [self.dim(d) for d in op.integers(name)]
            attrs[name] = str(dims) if attrs[name].startswith('[') else f'{dims[0]} : i64'
        return Op(op.name, op.operands, op.results, map(self.kind, op.types), attrs, map(self.region, op.regions))

    def region(self, region):
        return Region([(n, self.kind(t)) for n, t in region.arguments], map(self.op, region.ops))


def resized(function, data, resize, only):
    """Everywhere, or at `only` one axis of an argument."""
    if not only:
        whole = resize.region(function)
        return Function(function.name, whole.arguments, whole.ops), [resize.values(d) for d in data]
    name, axis = only
    arguments, values = [], []
    for (n, kind), d in zip(function.arguments, data):
        d = resize.values(d, axis) if n == name else d
        arguments.append((n, Type(np.shape(d), kind.dtype)))
        values.append(d)
    return Function(function.name, arguments, function.ops), values


def settled(function, data):
    """The graph with the shapes that its operands make, which a smaller image has of a convolution; None where they do not fit."""
    machine = Interpreter(rounding=False)
    machine.run(Function(function.name), [])
    values, ops = {n: (np.asarray(d), np.zeros(np.shape(d))) for (n, _), d in zip(function.arguments, data)}, []
    try:
        with np.errstate(all='ignore'):
            for op in function.ops[:-1]:
                results = machine.op(op, [values[o] for o in op.operands], values)
                values.update(zip(op.results, results))
                types = [Type(np.shape(v), t.dtype) for (v, _), t in zip(results, op.types)]
                ops.append(Op(op.name, op.operands, op.results, types, op.attrs, op.regions))
            smaller = Function(function.name, function.arguments, ops + function.ops[-1:])
            Interpreter().run(smaller, data)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
    return smaller, data
