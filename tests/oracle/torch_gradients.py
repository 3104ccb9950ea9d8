#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every op that has a gradient, by itself: its gradient rule against central differences and against PyTorch's autograd. An op of
ops.def with a gradient that no graph holds is an error, and so is one without, for which tests/ops.py gives no reason.

usage: torch_gradients.py TESSERA_OPT OPS_DEF [SEED]

The gradients that -tessera-autodiff writes are evaluated in float64; PyTorch computes the same in float64, by its own ops. What
remains are roundings: 1e-9 of the larger of 1 and the gradient is allowed. Exit code 77 without NumPy or PyTorch.
"""
import math
import pathlib
import random
import re
import sys

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError:
    print('NumPy or PyTorch is absent')
    sys.exit(77)

import gradients
import interpret
from bounds import Interpreter
from generate import KINDS, SMOOTH, Generator
from graph import FLOATS, Function, Op, Type, write
from ops import OPS, declared, of_group
from product import Product

TOLERANCE, GRAPHS, TRIES = 1e-9, 6, 60
CONTROL = ('if', 'while', 'scan')  # control_gradient.c differentiates them, not a rule of the table
# Not `noise`: PyTorch draws other random numbers. `run` compares its gradients with central differences.
PLAIN = [kind for kind in SMOOTH if kind != 'noise']


def matmul(op, a, b):
    return (a.mT if op.flag('transpose_a') else a) @ (b.mT if op.flag('transpose_b') else b)


def sliced(op, x):
    strides = op.integers('stride') or (1,) * x.ndim
    return x[tuple(slice(a, a + (n - 1) * s + 1 if n else a, s) for a, n, s in zip(op.integers('start'), op.integers('size'), strides))]


def padded(op, x):
    low, high, inner = op.integers('low'), op.integers('high'), op.integers('interior') or (0,) * x.ndim
    whole = torch.full([a + d + max(d - 1, 0) * i + b for a, d, i, b in zip(low, x.shape, inner, high)], op.number('value', 0.0),
                       dtype=x.dtype)
    slices = tuple(slice(a, a + d + max(d - 1, 0) * i, i + 1) for a, d, i in zip(low, x.shape, inner))
    return whole.index_put(tuple(torch.meshgrid(*[torch.arange(w)[p] for w, p in zip(whole.shape, slices)], indexing='ij')), x) \
        if x.ndim else x


def gather(op, x, i):
    axis = op.integer('axis')
    return x.index_select(axis, i.reshape(-1).long()).reshape(x.shape[:axis] + i.shape + x.shape[axis + 1:])


def scatter_add(op, x, i, u):
    axis = op.integer('axis')
    return x.index_add(axis, i.reshape(-1).long(), u.reshape(x.shape[:axis] + (i.numel(),) + x.shape[axis + 1:]))


def scatter(op, x, i, u):
    """Set: one update after the other, as PyTorch's index_copy of several updates gives each the whole gradient."""
    axis, how = op.integer('axis'), op.text('how')
    i, u = i.reshape(-1).long(), u.reshape(x.shape[:axis] + (i.numel(),) + x.shape[axis + 1:])
    if how != 'set':
        return x.index_reduce(axis, i, u, {'max': 'amax', 'min': 'amin', 'mul': 'prod'}[how])
    for k in range(i.numel()):
        x = x.index_copy(axis, i[k:k + 1], u.narrow(axis, k, 1))
    return x


def cumsum(op, x):
    axis = op.integer('axis')
    y = x.flip(axis) if op.flag('reverse') else x
    sums = y.cumsum(axis) - (y if op.flag('exclusive') else 0)
    return sums.flip(axis) if op.flag('reverse') else sums


def batch_norm(op, x, *rest):
    shape = [-1 if i == op.integer('axis') else 1 for i in range(x.ndim)]
    scale, bias, mean, variance = (r.reshape(shape) for r in rest)
    return (x - mean) / torch.sqrt(variance + op.number('eps')) * scale + bias


def batch_norm_train(op, x, scale, bias, mean, variance):
    dims, momentum = [i for i in range(x.ndim) if i != op.integer('axis')], op.number('momentum', 0.1)
    m, v, count = x.mean(dims) if dims else x, x.var(dims, correction=0) if dims else x * 0, x.numel() // x.shape[op.integer('axis')]
    unbiased = v * count / (count - 1) if count > 1 else v
    return [batch_norm(op, x, scale, bias, m, v), mean + (m - mean) * momentum, variance + (unbiased - variance) * momentum]


def attention(op, q, k, v, *behind):
    mask, samples = interpret.attention_parts(op, behind)
    heads = q.shape[1] // k.shape[1]
    k, v = (y.repeat_interleave(heads, 1) for y in (k, v))
    s, t = q.shape[2], k.shape[2]
    allowed = torch.zeros(s, t, dtype=q.dtype)
    if op.flag('causal'):
        allowed = allowed.masked_fill(torch.arange(t) > torch.arange(s)[:, None] + t - s, -math.inf)
    if mask is not None:
        allowed = allowed + (torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else mask)
    logits = q @ k.mT * op.number('scale', 1 / math.sqrt(q.shape[3])) + allowed
    seen = torch.isfinite(logits).any(-1, keepdim=True)
    chances = torch.where(seen, F.softmax(torch.where(seen, logits, 0.0), -1), 0.0)
    drop_mask = interpret.left(op, tuple(logits.shape), samples and tuple(y.numpy() for y in samples))
    out = (chances * torch.as_tensor(drop_mask, dtype=q.dtype)) @ v
    return [out, torch.logsumexp(logits, -1)] if len(op.types) == 2 else out


def rotary(op, x):
    axis, size = op.integer('axis'), x.shape[-1]
    angle = torch.outer(torch.arange(x.shape[axis], dtype=x.dtype) + op.integer('offset', 0),
                        op.number('base', 1e4) ** (-2 * torch.arange(size // 2, dtype=x.dtype) / size))
    angle = angle.reshape([x.shape[axis]] + [1] * (x.ndim - 2 - axis) + [size // 2]) * (-1 if op.flag('inverse') else 1)
    pairs = x.unflatten(-1, (-1, 2)) if op.flag('interleaved') else x.unflatten(-1, (2, -1)).mT
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angle), angle))
    return (turned if op.flag('interleaved') else turned.mT).flatten(-2)


def around(op, x, value):
    top, bottom, left, right = op.integers('padding')
    return F.pad(x.permute(0, 3, 1, 2), (left, right, top, bottom), value=value)


def conv2d(op, x, f):
    y = F.conv2d(around(op, x, 0.0).contiguous(), f.permute(3, 2, 0, 1).contiguous(), stride=op.integers('strides'), dilation=op.integers('dilation'),
                 groups=op.integer('groups', 1))
    return y.permute(0, 2, 3, 1)


def conv_grad(op, moved, g, image):
    """The adjoint of the convolution, which is linear: its gradient at any point."""
    at = torch.zeros(op.types[0].shape, dtype=g.dtype, requires_grad=True)
    return torch.autograd.grad(conv2d(op, at, moved) if image else conv2d(op, moved, at), at, g, create_graph=True)[0]


def adjoint(of, at, g):
    """The gradient of the function at this point, from that of its result."""
    at = at if at.requires_grad else at.detach().requires_grad_()
    return torch.autograd.grad(of(at), at, g, create_graph=True)[0]


def attention_grad(op, q, k, v, out, lse, g, *behind):
    """What attention has as its gradient. PyTorch has no result and logsumexp that are given: those of the same q, k and v."""
    at = [(x if x.requires_grad else x.detach().requires_grad_()) * 1.0 for x in (q, k, v)]  # apart, were they one tensor
    found = torch.autograd.grad(attention(op, *at, *behind), at, g, create_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if y is None else y for x, y in zip(at, found)]


def avg_pool_grad(op, g):
    return adjoint(lambda x: avg_pool(op, x), torch.zeros(op.types[0].shape, dtype=g.dtype), g)


iteration = [0]  # of the loops around, counted through


def dropout(op, x):
    ones = interpret.dropout(op, np.ones(tuple(x.shape)), 0, 0, iteration[0])
    return x * torch.tensor(ones)


def drawn(op):
    return torch.tensor(interpret.drawn(op, 0, 0, iteration[0]))


def max_pool(op, x):
    return F.max_pool2d(around(op, x, -math.inf), op.integers('window'), op.integers('strides')).permute(0, 2, 3, 1)


def avg_pool(op, x):
    def mean(y):
        return F.avg_pool2d(around(op, y, 0.0), op.integers('window'), op.integers('strides')).permute(0, 2, 3, 1)
    return mean(x) / mean(torch.ones_like(x)) if op.flag('exclude_padding') else mean(x)


def sort(op, x):
    return torch.sort(x, dim=op.integer('axis'), descending=op.flag('descending'), stable=True)


def top_k(op, x):
    axis = op.integer('axis')
    return [y.narrow(axis, 0, op.integer('k')) for y in torch.sort(x, dim=axis, descending=True, stable=True)]


# Of the ops that the table does not define.
MEANINGS = {
    'matmul': matmul, 'cast': lambda op, x: x.double() if op.types[0].dtype in FLOATS else x,
    'reshape': lambda op, x: x.reshape(op.types[0].shape), 'transpose': lambda op, x: x.permute(op.integers('permutation')),
    'broadcast': lambda op, x: x.broadcast_to(op.types[0].shape), 'slice': sliced, 'pad': padded, 'gather': gather,
    'concat': lambda op, *x: torch.cat(x, op.integer('axis')), 'scatter_add': scatter_add, 'scatter': scatter, 'cumsum': cumsum, 'sort': sort,
    'split': lambda op, x: torch.split(x, [t.shape[op.integer('axis')] for t in op.types], op.integer('axis')),
    'top_k': top_k,
    'batch_norm_train': batch_norm_train,
    'conv2d_grad_input': lambda op, f, g: conv_grad(op, f, g, True), 'dropout': dropout,
    'random_uniform': drawn, 'random_normal': drawn,
    'conv2d_grad_filter': lambda op, x, g: conv_grad(op, x, g, False),
    'batch_norm': batch_norm, 'attention': attention, 'rotary': rotary, 'conv2d': conv2d, 'max_pool2d': max_pool,
    'avg_pool2d': avg_pool, 'avg_pool2d_grad': avg_pool_grad, 'attention_grad': attention_grad,
    'max_pool2d_grad': lambda op, x, g: adjoint(lambda y: max_pool(op, y), x, g),
    'cross_entropy_grad': lambda op, x, i, g: adjoint(lambda y: F.cross_entropy(y, i.long(), reduction='none'), x, g),
    'cross_entropy': lambda op, x, i: F.cross_entropy(x, i.long(), reduction='none'),
}


def torch_gradients(whole, data):
    """{argument: gradient of the one result}, zeros where it has none."""
    values = {}
    for (name, kind), d in zip(whole.arguments, data):
        values[name] = torch.tensor(np.asarray(d), requires_grad=kind.dtype in FLOATS)
    leaves = dict(values)
    loss = run(whole, values)[0]
    if loss.requires_grad:  # not where it only reads, say, the running mean of a batch norm in training
        loss.backward()
    return {n[1:]: v.grad.numpy() if v.grad is not None else np.zeros(tuple(v.shape)) for n, v in leaves.items() if v.requires_grad}


def run(region, values):
    plain = Interpreter(rounding=False)
    for op in region.ops:
        inputs = [values[o] for o in op.operands]
        if op.name in ('return', 'yield'):
            return inputs
        if op.name == 'constant':
            results = [torch.tensor(np.array(plain.simple(op, [])[0][0]))]
        elif op.name == 'call':
            results = inner(op.regions[0], inputs, {})
        elif op.name == 'if':
            results = run(op.regions[0 if inputs[0] else 1], dict(values))
        elif op.name == 'scan':
            results = scan(op, inputs, values)
        elif op.name == 'while':
            results = loop(op, inputs, values)
        else:
            row = OPS[op.name]
            results = row.in_torch(torch, inputs, op.values()) if row.torch else MEANINGS[op.name](op, *inputs)
        values.update(zip(op.results, results if isinstance(results, (tuple, list)) else [results]))
    return []


def inner(region, inputs, values):
    own = dict(values)
    own.update(zip((n for n, _ in region.arguments), inputs))
    return run(region, own)


def counted(times):
    """So many iterations of a loop, within those of the ones around it."""
    outer = iteration[0]
    for i in range(times):
        iteration[0] = outer * times + i
        yield i
    iteration[0] = outer


def loop(op, inputs, values):
    outer = iteration[0]
    for _ in counted(op.integer('limit')):
        if not inner(op.regions[0], inputs, values)[0]:
            break
        inputs = inner(op.regions[1], inputs, values)
    iteration[0] = outer
    return inputs


def scan(op, inputs, values):
    carried, rows = inputs[:op.integer('carried')], inputs[op.integer('carried'):]
    order, stacked = list(range(op.integer('length', len(rows[0]) if rows else 0))), {}
    for i in counted(len(order)):
        at = order[-1 - i] if op.flag('reverse') else i
        results = inner(op.regions[0], carried + [r[at] for r in rows], values)
        carried, stacked[at] = results[:len(carried)], results[len(carried):]
    return carried + [torch.stack([stacked[i][k] for i in order]) if order else torch.empty(kind.shape, dtype=torch.float64)
                      for k, kind in enumerate(op.types[len(carried):])]


def generated(kind, seed, at):
    dtypes = ('f64', 'f32') if kind == 'cast' else ('f64',)
    g = Generator(np.random.default_rng([seed, SMOOTH.index(kind), at]), [kind], dtypes=dtypes, empty=False, smooth=True)
    return g, g.graph('f', 1)


def names_of(ops):
    return {op.name for op in ops} | {name for op in ops for region in op.regions for name in names_of(region.ops)}


def differentiable(table):
    """The ops that have a gradient, by ops.def; what is wrong with the reasons of the others."""
    rows = declared(table)
    wanted = {name for name, (gradient, _) in rows.items() if gradient not in ('none', 'unsupported') or name in CONTROL}
    wrong = [f'{name} has no gradient, and tests/ops.py gives no reason' for name in rows.keys() - wanted if not OPS[name].no_gradient]
    wrong += [f'{name} has a gradient, and tests/ops.py gives a reason why not' for name in wanted if OPS[name].no_gradient]
    return {name for name in wanted if not OPS[name].no_graph}, wrong


def chosen(seed, wanted):
    """(kind, at): some of each kind, and one that holds each op that is wanted."""
    graphs, held = [(kind, at) for kind in PLAIN for at in range(GRAPHS)], set()
    for kind, at in graphs:
        held |= names_of(generated(kind, seed, at)[1].ops)
    for kind in PLAIN:
        for at in range(GRAPHS, TRIES):
            fresh = wanted & names_of(generated(kind, seed, at)[1].ops) - held
            if fresh:
                graphs.append((kind, at))
                held |= fresh
    return graphs, sorted(wanted - held)


def check(product, kind, seed, at):
    g, function = generated(kind, seed, at)
    extra, loss = gradients.loss_of(function, g.random)
    if not loss or not any(t.dtype == 'f64' for _, t in function.arguments):
        return None, function
    whole = Function('f', function.arguments, function.ops[:-1] + extra + [Op('return', [loss], [], [])])
    try:
        names, graph, order = gradients.differentiated(product, whole, loss)
    except RuntimeError as error:
        if 'depends on no parameter' in str(error):
            return None, whole
        raise
    by_name = {n[1:]: d for (n, _), d in zip(function.arguments, g.data)}
    inputs = [by_name[n] for n in order]
    why = gradients.differences(whole, g.data, graph, inputs, list(names), g.random)
    if why:
        return why, whole
    got = dict(zip(names, (np.asarray(v) for v, _ in Interpreter(rounding=False, train=True).run(graph, inputs))))
    for name, expected in torch_gradients(whole, g.data).items():
        mine = got.get(name, np.zeros(expected.shape))
        off = np.abs(mine - expected) > TOLERANCE * np.maximum(1, np.abs(expected))
        if np.any(off | (np.isnan(mine) != np.isnan(expected))):
            position = tuple(int(i) for i in np.argwhere(off | np.isnan(mine))[0]) if off.ndim else ()
            return f'gradient of {name}{list(position)} is {mine[position]!r}, PyTorch says {expected[position]!r}', whole
    return None, whole


POINTS = (0.0, -0.0, 1.0, -1.0, -0.5, 2.0, np.inf, -np.inf, np.nan)
CORNERS = [(row, attributes) for row in of_group('one', 'two') if not row.no_gradient for attributes in row.forms]


def weighted(name, count, attrs, size):
    """The sum of an op's elements, each times a weight: the gradient that it is given."""
    kind = Type((size,), 'f64')
    operands = [f'%x{i}' for i in range(count)]
    ops = [Op(name, operands, ['%y'], [kind], attrs), Op('mul', ['%y', '%g'], ['%p'], [kind]),
           Op('sum', ['%p'], ['%s'], [Type((), 'f64')], {'axes': '[0]'}), Op('return', ['%s'], [], [])]
    return Function('f', [(o, kind) for o in operands + ['%g']], ops)


def at_corners(product):
    """How many gradients at corners are not PyTorch's. Those it is given are 0, as behind a mask, and 1."""
    failed = 0
    for row, attrs in CORNERS:
        count, values = row.operands, Op(row.name, [], [], [], attrs).values()
        data = np.array(np.meshgrid(*[POINTS] * count, [0.0, 1.0])).reshape(count + 1, -1)
        function = weighted(row.name, count, attrs, data.shape[1])
        names, graph, order = gradients.differentiated(product, function, '%s')
        by_name = {n[1:]: d for (n, _), d in zip(function.arguments, data)}
        got = dict(zip(names, (np.asarray(v) for v, _ in Interpreter(rounding=False).run(graph, [by_name[n] for n in order]))))
        expected = torch_gradients(function, list(data))
        free = row.has_kink(*data[:count], **values)
        for i in range(count):
            mine, right = got[f'x{i}'], expected[f'x{i}']
            if row.limit:
                right = np.where(np.isnan(right), row.limit(data[i], data[count], **values), right)
            with np.errstate(invalid='ignore'):
                same = (mine == right) | np.isnan(mine) & np.isnan(right) | (np.abs(mine - right) <= TOLERANCE)
            for k in np.flatnonzero(~same & ~free):
                failed += 1
                print(f'{row.name} at {data[:count, k]}, given {data[count, k]}: gradient of operand {i} is {mine[k]!r}, PyTorch says {right[k]!r}')
    return failed


def main():
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
    print(f'seed {seed}')
    torch.set_num_threads(1)
    opt = pathlib.Path(sys.argv[1]).resolve()
    product = Product(opt.parent, pathlib.Path.cwd(), [])
    wanted, wrong = differentiable(pathlib.Path(sys.argv[2]).read_text(encoding='utf-8'))
    graphs, missing = chosen(seed, wanted)
    failed = len(missing) + len(wrong)
    print(''.join(f'{line}\n' for line in wrong), end='')
    if missing:
        print(f'no graph holds {", ".join(missing)}')
    failed += at_corners(product)
    for kind, at in graphs:
        try:
            why, graph = check(product, kind, seed, at)
        except Exception as error:
            why, graph = f'{type(error).__name__}: {error}', None
        if why:
            failed += 1
            print(f'{kind} {at}: {why}\n{re.sub(chr(34) + "0x[0-9A-F]{64,}", chr(34) + "0x...", write(graph)) if graph else ""}')
    print(f'{len(graphs)} graphs of {len(PLAIN)} kinds, {len(wanted)} ops with a gradient, {len(CORNERS)} at corners; {failed} failed')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
