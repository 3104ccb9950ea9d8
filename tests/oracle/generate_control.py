# SPDX-License-Identifier: Apache-2.0
"""Kinds of generate.py with regions: calls, branches and loops, small ones that become straight-line and large ones that stay."""
import numpy as np

from graph import FLOATS, Op, Region, Type


def call(g):
    """A function of its own that squares, and one that the function calls."""
    x = g.value(FLOATS)
    kind = g.types[x]
    a, b, c, d, e = (g.name() for _ in range(5))
    inner = Region([(a, kind)], [Op('mul', [a, a], [b], [kind]), Op('return', [b], [], [])])
    outer = Region([(c, kind)], [Op('call', [c], [d], [kind], regions=[inner]), Op('tanh', [d], [e], [kind]),
                                 Op('return', [e, d], [], [])])
    name = g.name()
    g.add(Op('call', [x], [f'{name}#0', f'{name}#1'], [kind, kind], regions=[outer]))


def branch(g):
    x = g.value(FLOATS)
    kind, condition = g.types[x], g.like('i1', ())
    regions = []
    for name in (g.pick(['log', 'sqrt', 'rsqrt']), g.pick(['tanh', 'neg'])):
        inner, last = g.name(), g.name()
        regions.append(Region([], [Op(name, [x], [inner], [kind]), Op('mul', [inner, x], [last], [kind]),
                                   Op('yield', [last], [], [])]))
    g.add(Op('if', [condition], [g.name()], [kind], regions=regions))


def scan(g):
    dtype, rest, length = g.dtype(FLOATS), g.shape(g.pick([0, 1, 2])), g.pick([0, 1, 2, 5, 90])
    start, rows = g.like(dtype, rest), g.like(dtype, (length,) + tuple(rest))
    kind, c, r, s, t = Type(rest, dtype), *(g.name() for _ in range(4))
    body = Region([(c, kind), (r, kind)], [Op('mul', [c, r], [s], [kind]), Op('tanh', [s], [t], [kind]),
                                           Op('yield', [t, s], [], [])])
    attrs = {'carried': '1 : i64'}
    attrs.update({'reverse': 'unit'} if g.chance(0.4) else {})
    name = g.name()
    g.add(Op('scan', [start, rows], [f'{name}#0', f'{name}#1'], [kind, Type((length,) + tuple(rest), dtype)], attrs, [body]))


def while_(g):
    """Counts to 3 from a number that is below 4."""
    dtype, shape = g.dtype(FLOATS), g.shape(g.pick([0, 1, 2]))
    kind, whole = Type(shape, dtype), Type((), 'i64')
    start = g.argument(whole, np.asarray(g.random.integers(-2, 4), np.int64))
    n, x, m, y, limit, less, one, next_, last = (g.name() for _ in range(9))
    condition = Region([(n, whole), (x, kind)], [
        Op('constant', [], [limit], [whole], {'value': f'dense<3> : {whole}'}),
        Op('compare', [n, limit], [less], [Type((), 'i1')], {'predicate': '2 : i32'}), Op('yield', [less], [], [])])
    body = Region([(m, whole), (y, kind)], [
        Op('constant', [], [one], [whole], {'value': f'dense<1> : {whole}'}), Op('add', [m, one], [next_], [whole]),
        Op('tanh', [y], [last], [kind]), Op('yield', [next_, last], [], [])])
    name = g.name()
    g.add(Op('while', [start, g.like(dtype, shape)], [f'{name}#0', f'{name}#1'], [whole, kind], {'limit': '6 : i64'},
             [condition, body]))


def loops(g):
    """What stays a loop: up to 40 times a scan, carried values that change positions, and one of two products at its end."""
    dtype, size, length = g.dtype(FLOATS), g.pick([1, 3, 17]), g.pick([1, 2, 70])
    kind, whole, rows = Type((size, size), dtype), Type((), 'i64'), Type((length, size, size), dtype)
    condition, start = g.like('i1', ()), g.argument(whole, np.asarray(g.random.integers(0, 43), np.int64))
    x, w, sequence = g.like(dtype, (size, size)), g.like(dtype, (size, size)), g.like(dtype, rows.shape)
    c, r, s, t, u = (g.name() for _ in range(5))
    step = Region([(c, kind), (u, kind), (r, kind)], [
        Op('mul', [c, r], [s], [kind]), Op('tanh', [s], [t], [kind]), Op('yield', [u, t, t], [], [])])
    n, a, m, b, limit, less, one, next_, inner = (g.name() for _ in range(9))
    test = Region([(n, whole), (a, kind)], [
        Op('constant', [], [limit], [whole], {'value': f'dense<40> : {whole}'}),
        Op('compare', [n, limit], [less], [Type((), 'i1')], {'predicate': '2 : i32'}), Op('yield', [less], [], [])])
    body = Region([(m, whole), (b, kind)], [
        Op('constant', [], [one], [whole], {'value': f'dense<1> : {whole}'}), Op('add', [m, one], [next_], [whole]),
        Op('scan', [b, x, sequence], [f'{inner}#0', f'{inner}#1', f'{inner}#2'], [kind, kind, rows], {'carried': '2 : i64'}, [step]),
        Op('yield', [next_, f'{inner}#1'], [], [])])
    name = g.name()
    g.add(Op('while', [start, x], [f'{name}#0', f'{name}#1'], [whole, kind], {'limit': '1000000 : i64'}, [test, body]))
    branches = []
    for k in range(2):
        p, q = g.name(), g.name()
        branches.append(Region([], [
            Op('matmul', [f'{name}#1', w], [p], [kind], {'transpose_b': 'true'} if k else {}),
            Op('tanh', [p], [q], [kind]), Op('yield', [q], [], [])]))
    g.add(Op('if', [condition], [g.name()], [kind], regions=branches))


def recurrent(g):
    """A loop whose gradient is one: a product with what is outside, a branch, results of all iterations and of the last."""
    dtype, size, length = g.dtype(FLOATS), g.pick([1, 2, 3]), 20
    kind, rows = Type((size, size), dtype), Type((length, size, size), dtype)
    start, w, sequence, condition = (g.like(dtype, (size, size)), g.like(dtype, (size, size)), g.like(dtype, rows.shape),
                                     g.like('i1', ()))
    c, r, p, s, t, u, a, b, last = (g.name() for _ in range(9))
    branches = [Region([], [Op('matmul', [t, w], [a], [kind]), Op('yield', [a], [], [])]),
                Region([], [Op('mul', [t, c], [b], [kind]), Op('yield', [b], [], [])])]
    body = Region([(c, kind), (r, kind)], [
        Op('matmul', [c, w], [p], [kind]), Op('add', [p, r], [s], [kind]), Op('tanh', [s], [t], [kind]),
        Op('if', [condition], [u], [kind], regions=branches), Op('tanh', [u], [last], [kind]), Op('mul', [last, w], [g.name()], [kind]),
        Op('yield', [last, t], [], [])])
    attrs = {'carried': '1 : i64'}
    attrs.update({'reverse': 'unit'} if g.chance(0.4) else {})
    name = g.name()
    g.add(Op('scan', [start, sequence], [f'{name}#0', f'{name}#1'], [kind, rows], attrs, [body]))


def repeat(g):
    """A while whose gradient is a loop: a product with what is outside; it ends at its condition, or at its limit."""
    dtype, size = g.dtype(FLOATS), g.pick([1, 2, 3])
    kind, whole = Type((size, size), dtype), Type((), 'i64')
    start = g.argument(whole, np.asarray(g.random.integers(-2, 32), np.int64))
    w, y = g.like(dtype, (size, size)), g.like(dtype, (size, size))
    n, x, m, c, top, less, one, next_, p, s, t, name = (g.name() for _ in range(12))
    test = Region([(n, whole), (x, kind)], [
        Op('constant', [], [top], [whole], {'value': f'dense<30> : {whole}'}),
        Op('compare', [n, top], [less], [Type((), 'i1')], {'predicate': '2 : i32'}), Op('yield', [less], [], [])])
    body = Region([(m, whole), (c, kind)], [
        Op('constant', [], [one], [whole], {'value': f'dense<1> : {whole}'}), Op('add', [m, one], [next_], [whole]),
        Op('matmul', [c, w], [p], [kind]), Op('add', [p, y], [s], [kind]), Op('tanh', [s], [t], [kind]), Op('yield', [next_, t], [], [])])
    g.add(Op('while', [start, g.like(dtype, (size, size))], [f'{name}#0', f'{name}#1'], [whole, kind], {'limit': '25 : i64'}, [test, body]))


def noise(g):
    """Draws in a loop, which stays one where it is long, and in one within it."""
    dtype, size, length, inside = g.dtype(FLOATS), g.pick([1, 3, 17]), g.pick([2, 20]), g.pick([2, 3])
    kind, rows = Type((size,), dtype), Type((length, size), dtype)
    streams = [f'{int(g.random.integers(1 << 32))} : i64' for _ in range(3)]
    c, n, s, d, t, e, m, u, name, inner = (g.name() for _ in range(10))
    within = Region([(e, kind)], [Op('random_normal', [], [m], [kind], {'stream': streams[2]}), Op('mul', [e, m], [u], [kind]),
                                  Op('yield', [u], [], [])])
    body = Region([(c, kind)], [
        Op('random_uniform', [], [n], [kind], {'stream': streams[0]}), Op('add', [c, n], [s], [kind]),
        Op('dropout', [s], [d], [kind], {'rate': '0.25 : f64', 'stream': streams[1]}),
        Op('scan', [d], [inner], [kind], {'carried': '1 : i64', 'length': f'{inside} : i64'}, [within]), Op('tanh', [inner], [t], [kind]),
        Op('yield', [t, n], [], [])])
    g.add(Op('scan', [g.like(dtype, kind.shape)], [f'{name}#0', f'{name}#1'], [kind, rows],
             {'carried': '1 : i64', 'length': f'{length} : i64'}, [body]))
