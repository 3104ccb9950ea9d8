#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""jvp and vjp of single ops and of random graphs: tangents against central differences and PyTorch, against gradients, and second
derivatives by each order of the modes.

usage: tangents.py TESSERA_OPT OPS_DEF [SEED] [COUNT]

With J the Jacobian of a graph, t and g random: J t is the central difference along t, PyTorch's double backward, and <g, J t> is
<J^T g, t>. With L the weighted sum of all results and H its Hessian, H t is the jvp of the vjp, the vjp of the vjp, the vjp of the jvp, and the
central difference of the gradient. All in float64. An op of ops.def with tangents that no graph holds is an error. Exit code 77 without NumPy; without PyTorch that comparison is left out, and said so.
"""
import copy
import pathlib
import random
import sys

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

import gradients
from bounds import Interpreter
from generate import SMOOTH, VARIANTS, Generator
from graph import Function, Op, Region, Type, callees, dense, parse, write, write_entry
from ops import OPS, declared
from product import Product

try:
    import torch
    from torch_gradients import run as torch_run
except ImportError:
    torch = None

GRAPHS, TRIES, LENGTH = 2, 60, 12
CONTROL = ('if', 'while', 'scan')
STEPS = (1e-5, 4e-6)
DIFFERENCE = 3e-5  # as gradients.py has it, of a sum of several
EXACT = 1e-8  # of the terms: two ways to compute one number in float64


def renamed(ops, mark):
    """The same ops with other names, as a region needs them that stands beside another."""
    made = []
    for op in ops:
        other = copy.copy(op)
        other.operands, other.results = [mark + o[1:] for o in op.operands], [mark + r[1:] for r in op.results]
        other.attrs = dict(op.attrs)
        if op.name == 'call':
            other.regions = copy.deepcopy(op.regions)  # each call gets a name of its own
        else:
            other.regions = [Region([(mark + n[1:], t) for n, t in r.arguments], renamed(r.ops, mark)) for r in op.regions]
        made.append(other)
    return made


def body(function, mark, floats=None):
    """A region that does what the function does; it takes its arguments, or those named in `floats` and reads the others from outside."""
    arguments = [(mark + n[1:], t) for n, t in function.arguments if floats is None or n in floats]
    ops = renamed(function.ops, mark)
    for op in ops if floats is not None else ():
        fix(op, mark, {n for n, _ in function.arguments} - set(floats))
    ops[-1] = Op('yield', ops[-1].operands, [], [])
    return Region(arguments, ops)


def fix(op, mark, outside):
    """What is no argument of the region is read from outside."""
    back = {mark + n[1:]: n for n in outside}
    op.operands = [back.get(o, o) for o in op.operands]
    for region in op.regions if op.name != 'call' else ():
        for inner in region.ops:
            fix(inner, mark, outside)


def results_of(name, types):
    return [f'%{name}#{i}' for i in range(len(types))] if len(types) > 1 else [f'%{name}']


def derivative(mode, name, operands, directions, region, results, more):
    """A jvp or vjp: its results are what the region yields, then `more`."""
    types = results + more
    return Op(mode, operands + directions, results_of(name, types), types, {}, [region])


class Case:
    """A graph, its float arguments, what it gives, and directions."""

    def __init__(self, function, data, generator):
        self.function, self.data = function, [np.asarray(d) for d in data]
        types = dict(function.arguments)
        types.update((r, t) for op in function.ops for r, t in zip(op.results, op.types))
        self.results = [types[o] for o in function.ops[-1].operands]
        self.floats = [n for n, t in function.arguments if t.dtype == 'f64']
        self.kinds = [t for n, t in function.arguments if t.dtype == 'f64']
        self.outputs = [t for t in self.results if t.dtype == 'f64']
        self.tangents = [generator.standard_normal(t.shape) for t in self.kinds]
        self.cotangents = [generator.standard_normal(t.shape) for t in self.outputs]

    def entry(self, ops, returned, extra):
        return Function(self.function.name, self.function.arguments + extra, ops + [Op('return', returned, [], [])])


def opened(product, whole):
    """What pass tessera-autodiff makes of it."""
    source = write_entry(whole) if not callees(whole, whole.name) else ''.join([write_entry(whole)] + callees(whole, whole.name))
    graph, = parse(product.opt(source.replace('"infer"', '"train"'), *gradients.PASSES)).values()
    return graph


def evaluate(graph, data):
    return [np.asarray(v) for v, _ in Interpreter(rounding=False, train=True).run(graph, data)]


def named(mark, kinds):
    return [(f'%{mark}{i}', t) for i, t in enumerate(kinds)]


def first_order(product, case):
    """(J t, J^T g)"""
    f, t, g = case.function, named('t', case.kinds), named('g', case.outputs)
    names = [n for n, _ in f.arguments]
    forward = derivative('jvp', 'j', names, [n for n, _ in t], body(f, '%a_'), case.results, case.outputs)
    back = derivative('vjp', 'b', names, [n for n, _ in g], body(f, '%b_'), case.results, case.kinds)
    count = len(case.results)
    graph = opened(product, case.entry([forward, back], forward.results[count:] + back.results[count:], t + g))
    values = evaluate(graph, case.data + case.tangents + case.cotangents)
    return values[:len(case.outputs)], values[len(case.outputs):]


def difference_of(function, data, moved, directions, step):
    """Of each result, along the directions of the arguments that are moved; and how often rounding is felt."""
    sides = []
    for sign in (1, -1):
        at = [np.array(d) for d in data]
        for i, direction in zip(moved, directions):
            at[i] = at[i] + sign * step * direction
        sides.append(evaluate(function, at))
    return [(np.asarray(a, float) - np.asarray(b, float)) / (2 * step) for a, b in zip(*sides)]


def compare_differences(what, got, function, data, moved, directions, picked):
    """None, or what is wrong. Elements of no use are skipped: at kinks, or too steep to tell."""
    plain = evaluate(function, data)
    with np.errstate(invalid='ignore'):
        both = [difference_of(function, data, moved, directions, step) for step in STEPS]
    for k, index in enumerate(picked):
        mine, (one, two), value = got[k], (b[index] for b in both), np.asarray(plain[index], float)
        noise = 256 * 2.0**-53 * (1 + np.max(np.abs(value), initial=0.0)) / min(STEPS)
        scale = np.maximum(1, np.abs(one))
        tells = np.isfinite(one) & np.isfinite(two) & (np.abs(one - two) <= DIFFERENCE / 4 * scale + noise) & np.isfinite(mine)
        off = tells & (np.abs(mine - one) > DIFFERENCE * np.maximum(scale, np.abs(mine)) + noise)
        if np.any(off):
            position = tuple(int(i) for i in np.argwhere(off)[0]) if off.ndim else ()
            return f'{what} of result {index}{list(position)} is {mine[position]!r}, central difference {one[position]!r}'
    return None


def torch_tangents(case):
    """By double backward: J t is the gradient of <g, J^T ...> with respect to g."""
    values = {n: torch.tensor(d, requires_grad=t.dtype == 'f64') for (n, t), d in zip(case.function.arguments, case.data)}
    leaves = [values[n] for n in case.floats]
    outputs = [y for y, t in zip(torch_run(case.function, values), case.results) if t.dtype == 'f64']
    found = []
    for y in outputs:
        if not y.requires_grad:
            found.append(np.zeros(tuple(y.shape)))
            continue
        g = torch.zeros_like(y, requires_grad=True)
        back = torch.autograd.grad(y, leaves, g, create_graph=True, allow_unused=True)
        terms = [(b * torch.tensor(t)).sum() for b, t in zip(back, case.tangents) if b is not None and b.requires_grad]
        tangent = torch.autograd.grad(sum(terms), g, allow_unused=True, retain_graph=True)[0] if terms else None
        found.append(np.zeros(tuple(y.shape)) if tangent is None else tangent.numpy())
    return found


def apart(mine, other, size):
    """Where two of a kind are not equal, but for roundings of terms of this size."""
    with np.errstate(invalid='ignore'):
        off = ~(np.abs(mine - other) <= EXACT * size) & ~((mine == other) | (np.isnan(mine) & np.isnan(other)))
    return np.argwhere(off)


def check_first(product, case, counts):
    if not case.floats or not case.outputs:
        return None
    tangents, gradient = first_order(product, case)
    moved = [i for i, (_, t) in enumerate(case.function.arguments) if t.dtype == 'f64']
    picked = [i for i, t in enumerate(case.results) if t.dtype == 'f64']
    why = compare_differences('tangent', tangents, case.function, case.data, moved, case.tangents, picked)
    if why:
        return why
    left, right = ([a * b for a, b in zip(*pair)] for pair in ((case.cotangents, tangents), (gradient, case.tangents)))
    sums = [sum(float(np.sum(x)) for x in side) for side in (left, right)]
    size = sum(float(np.sum(np.abs(x))) for x in left + right)
    if np.isfinite(size) and abs(sums[0] - sums[1]) > EXACT * max(1, size):
        return f'<g, J t> is {sums[0]!r}, <J^T g, t> is {sums[1]!r}'
    if torch is not None:
        try:
            expected = torch_tangents(case)
        except RuntimeError:  # an op that PyTorch does not differentiate twice in this form
            return None
        values = evaluate(case.function, case.data)
        for k, (mine, other) in enumerate(zip(tangents, expected)):
            if not (np.all(np.isfinite(other)) and np.all(np.isfinite(values[picked[k]]))):
                continue  # of a value that is no number, as a mean of nothing is, the tangent may be none
            positions = apart(mine, other, np.maximum(1, np.max(np.abs(other), initial=0)))
            if len(positions):
                at = tuple(int(i) for i in positions[0])
                return f'tangent {k}{list(at)} is {mine[at]!r}, PyTorch says {other[at]!r}'
        counts['PyTorch'] = counts.get('PyTorch', 0) + 1
    return None


def check_second(product, case, generator, counts):
    """H t in four ways."""
    extra, loss = gradients.loss_of(case.function, generator)
    if not loss or not case.floats:
        return None
    scalar, f = Type((), 'f64'), case.function
    whole = Function(f.name, f.arguments, f.ops[:-1] + extra + [Op('return', [loss], [], [])])
    one = Op('constant', [], ['%one'], [scalar], {'value': dense(np.array(1.0), scalar)})
    t, n, floats = named('t', case.kinds), len(case.kinds), case.floats
    directions = [name for name, _ in t]

    def inner(mode, mark, name):
        """The derivative of the loss as a region of its own."""
        arguments = [(f'%{mark}{name[1:]}', kind) for name, kind in zip(floats, case.kinds)]
        operands = [a for a, _ in arguments]
        made = derivative('vjp', name, operands, ['%one'], body(whole, f'%{mark}i_', floats), [scalar], case.kinds) if mode == 'vjp' else \
            derivative('jvp', name, operands, directions, body(whole, f'%{mark}i_', floats), [scalar], [scalar])
        return Region(arguments, [made, Op('yield', made.results[1:], [], [])])
    forward = derivative('jvp', 'fr', floats, directions, inner('vjp', 'p_', 'x'), case.kinds, case.kinds)
    twice = derivative('vjp', 'rr', floats, directions, inner('vjp', 'q_', 'y'), case.kinds, case.kinds)
    reverse = derivative('vjp', 'rf', floats, ['%one'], inner('jvp', 'r_', 'z'), [scalar], case.kinds)
    returned = forward.results + twice.results[n:] + reverse.results[1:]
    graph = opened(product, case.entry([one, forward, twice, reverse], returned, t))
    values = evaluate(graph, case.data + case.tangents)
    ways = [values[n:2 * n], values[2 * n:3 * n], values[3 * n:]]
    for k in range(n):
        size = max(1.0, *(float(np.max(np.abs(w[k]), initial=0)) for w in ways))
        for a, b in ((0, 1), (0, 2)):
            if np.all(np.isfinite(ways[a][k])) and np.all(np.isfinite(ways[b][k])) and len(apart(ways[a][k], ways[b][k], size)):
                at = tuple(int(i) for i in apart(ways[a][k], ways[b][k], size)[0])
                return f'H t of argument {k}{list(at)}: jvp of vjp {ways[a][k][at]!r}, {("", "vjp of vjp", "vjp of jvp")[b]} {ways[b][k][at]!r}'
    moved = [i for i, (_, kind) in enumerate(f.arguments) if kind.dtype == 'f64']
    only = Function(graph.name, graph.arguments, graph.ops[:-1] + [Op('return', graph.ops[-1].operands[:n], [], [])])
    counts['second'] = counts.get('second', 0) + 1
    return compare_differences('H t', ways[0], only, case.data + case.tangents, moved, case.tangents, range(n))


def single(seed, kind, v, at):
    """(name, function, data) of one op in form `v` of its kind."""
    only = VARIANTS.get(kind, (None,))[v]
    g = Generator(np.random.default_rng([seed, SMOOTH.index(kind), v, at]), [kind], dtypes=('f64',), empty=False, smooth=True, only=only)
    return f'{kind} {only or ""} {at}', g.graph('f', 1), g.data


def names_of(region):
    return {op.name for op in region.ops} | {name for op in region.ops for inner in op.regions for name in names_of(inner)}


def cases(seed, count, wanted):
    """Each kind in its forms by itself, and again until each wanted op was there; then graphs of several."""
    for at in range(TRIES):
        for kind in SMOOTH:
            for v in range(len(VARIANTS.get(kind, (None,)))):
                case = single(seed, kind, v, at)
                held = names_of(case[1])
                if at < GRAPHS or held & wanted:
                    wanted -= held
                    yield case
    for at in range(count):
        g = Generator(np.random.default_rng([seed, at]), SMOOTH, dtypes=('f64',), empty=False, smooth=True)
        yield f'graph {at}', g.graph('f', LENGTH), g.data


def main():
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 24
    rows = declared(pathlib.Path(sys.argv[2]).read_text(encoding='utf-8'))
    wanted = {name for name, (_, forward) in rows.items()
              if (forward not in ('none', 'unsupported') or name in CONTROL) and not OPS[name].no_graph}
    ops = len(wanted)
    print(f'seed {seed}' + ('' if torch else '; PyTorch is absent'), flush=True)
    product = Product(pathlib.Path(sys.argv[1]).resolve().parent, pathlib.Path.cwd(), [])
    failed, total, skipped, counts = 0, 0, 0, {}
    for at, (name, function, data) in enumerate(cases(seed, count, wanted)):
        total += 1
        generator = np.random.default_rng([seed, at, 3])
        case = Case(function, data, generator)
        try:
            why = check_first(product, case, counts) or check_second(product, case, generator, counts)
        except Exception as error:
            why = f'{type(error).__name__}: {error}'
            if 'at most 64' in why:  # values of one op: with tangents there are twice as many
                skipped, why = skipped + 1, None
        if why:
            failed += 1
            print(f'{name}: {why}\n{write(function)}', flush=True)
    if wanted:
        failed += len(wanted)
        print(f'no graph holds {", ".join(sorted(wanted))}')
    print(f'{total} graphs, {ops} ops with tangents, {counts.get("second", 0)} second derivatives, {counts.get("PyTorch", 0)} compared with PyTorch, {skipped} too wide; '
          f'{failed} failed')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
