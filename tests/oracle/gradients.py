# SPDX-License-Identifier: Apache-2.0
"""Gradients of random graphs: of the sum of all results times fixed weights, with respect to every float argument.

What -tessera-autodiff makes of a training entry is read back and turned into an entry that returns the gradients. That is checked
twice: as a graph like any other, on the product; and its values in float64 against central differences of the graph itself.
"""
import collections
import importlib.util
import re

import numpy as np

from bounds import Interpreter
from graph import FLOATS, Function, Op, Type, callees, dense, parse, write_entry
from reduce import keep

OPTIMIZER = '#tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>'
PASSES = ('-tessera-name-calls', '-inline', '-tessera-streams', '-tessera-drop-other-functions', '-tessera-count-samples', '-tessera-flatten',
          '-tessera-autodiff')
STEPS = (1e-5, 4e-6)
TOLERANCE = 2e-5  # of the larger of 1 and the derivative: the error of a difference is about h^2, and 1e-16 / h


def loss_of(function, random):
    """Ops that add the weighted sum of the float results, and its name."""
    types = dict(function.arguments)
    types.update((r, t) for op in function.ops for r, t in zip(op.results, op.types))
    ops, total = [], None
    for i, name in enumerate(function.ops[-1].operands):
        kind = types[name]
        if kind.dtype not in FLOATS:
            continue
        if kind.dtype != 'f64':
            kind = Type(kind.shape, 'f64')
            ops.append(Op('cast', [name], [f'%w{i}'], [kind]))
            name = f'%w{i}'
        weights = random.standard_normal(kind.shape)
        ops.append(Op('constant', [], [f'%k{i}'], [kind], {'value': dense(weights, kind)}))
        ops.append(Op('mul', [name, f'%k{i}'], [f'%p{i}'], [kind]))
        axes = str(list(range(len(kind.shape))))
        ops.append(Op('sum', [f'%p{i}'], [f'%s{i}'], [Type((), 'f64')], {'axes': axes}))
        if total:
            ops.append(Op('add', [total, f'%s{i}'], [f'%t{i}'], [Type((), 'f64')]))
        total = f'%t{i}' if total else f'%s{i}'
    return ops, total


def differentiated(product, function, loss):
    """({argument: its gradient's name}, a function that returns the gradients); arguments of no influence are absent."""
    called = ''.join(callees(function, function.name))
    source = write_entry(function).replace('"infer"', '"train"')
    end = source.rindex('  "func.return"')
    minimize = f'  "tessera.minimize"({loss}) {{optimizer = {OPTIMIZER}}} : (tensor<f64>) -> ()\n'
    head, body = source[:end].split('{\n', 1)
    params = ''
    for name, kind in function.arguments:
        if kind.dtype in FLOATS:
            params += parameter(name[1:], kind)
            body = replace_uses(body, name, f'%x_{name[1:]}')
    graph, = parse(product.opt(head + '{\n' + params + body + minimize + source[end:] + called, *PASSES)).values()
    return returning_gradients(graph, function)


def parameter(name, kind):
    """Trained parameters are f64 or f32; smaller ones are casts of those."""
    wide = kind if kind.dtype == 'f64' else Type(kind.shape, 'f32')
    text = f'"tessera.param"() {{name = "{name}", init = #tessera.constant<0.0> : {wide}}} : () -> {wide}\n'
    if wide == kind:
        return f'  %x_{name} = {text}'
    return f'  %wide_{name} = {text}  %x_{name} = "tessera.cast"(%wide_{name}) : ({wide}) -> {kind}\n'


def replace_uses(text, name, other):
    return re.sub(re.escape(name) + r'(?![\w#])', other, text)


def returning_gradients(graph, original):
    params, gradients, ops, arguments = {}, {}, [], []
    by_port = dict(zip((n for n, _ in graph.arguments), original.arguments))
    for op in graph.ops:
        if op.name == 'param':
            params[op.results[0]] = op.text('name')
            arguments.append((op.results[0], op.types[0]))
        elif op.name == 'sgd':
            gradients[params[op.operands[0]]] = op.operands[1]
        elif op.name not in ('opt.state', 'assign', 'return'):
            ops.append(op)
    ops.append(Op('return', list(gradients.values()), [], []))
    named = [(n, t) for n, t in graph.arguments if by_port[n][1].dtype not in FLOATS] + arguments
    whole = Function(original.name, named, ops)
    order = [by_port[n][0][1:] for n, t in graph.arguments if by_port[n][1].dtype not in FLOATS]
    return gradients, whole, order + [params[n] for n, _ in arguments]


def check(product, checker, function, data, random):
    """What is wrong with the gradients of a graph, or None. Where some results are not finite, the loss is not, and its differences say
    nothing: then those of the other results besides."""
    why = check_loss(product, checker, function, data, random)
    results = function.ops[-1].operands
    values = Interpreter(rounding=False, train=True).run(function, data)
    finite = [r for r, (v, _) in zip(results, values) if np.all(np.isfinite(np.asarray(v, np.float64)))]
    if not why and finite and len(finite) < len(results):
        why = check_loss(product, checker, *keep(function, data, finite), random)
    return why


def check_loss(product, checker, function, data, random):
    extra, loss = loss_of(function, random)
    if not loss or not any(t.dtype in FLOATS for _, t in function.arguments):
        return None
    whole = Function(function.name, function.arguments, function.ops[:-1] + extra + [Op('return', [loss], [], [])])
    try:
        gradients, graph, order = differentiated(product, whole, loss)
    except RuntimeError as error:
        if 'depends on no parameter' in str(error):
            return None
        return str(error)
    by_name = {n[1:]: d for (n, _), d in zip(function.arguments, data)}
    inputs = [by_name[n] for n in order]
    if not gradients:
        return None
    why = differences(whole, data, graph, inputs, list(gradients), random, checker.derivatives)
    why = why or product.build([graph], 'gradients') or checker.problem(graph, inputs, 'gradients')
    return why


def differences(whole, data, graph, inputs, names, random, counts=None):
    """What is wrong, or None. Derivatives are counted: `compared`, and `steep`, which a difference cannot tell."""
    counts = collections.Counter() if counts is None else counts
    plain = Interpreter(rounding=False, train=True)
    plain.run(whole, data)
    singular = plain.singular
    got = dict(zip(names, (v for v, _ in plain.run(graph, inputs))))
    noise = 64 * 2.0**-53 * abs(float(plain.run(whole, data)[0][0])) / min(STEPS)  # of sums that cancel
    for at, (name, kind) in enumerate(whole.arguments):
        if kind.dtype != 'f64' or name[1:] not in got or not kind.size:
            continue
        for index in {tuple(int(random.integers(d)) for d in kind.shape) for _ in range(3)}:
            estimates = [difference(plain, whole, data, at, index, h) for h in STEPS]
            if not np.all(np.isfinite(estimates)) or np.ptp(estimates) > TOLERANCE / 4 * max(1, abs(estimates[0])):
                counts['steep'] += 1
                continue  # a kink, or too steep to tell
            counts['compared'] += 1
            mine = float(np.asarray(got[name[1:]])[index])
            if np.isnan(mine) and singular and nan_to_pytorch(whole, data, name[1:], index):
                continue  # 0 times infinity, which a difference does not see: compiler/graph/README.md
            if not abs(mine - estimates[0]) <= TOLERANCE * max(1, abs(mine), abs(estimates[0])) + noise:
                return f'gradient of {name}{list(index)} is {mine!r}, central difference {estimates[0]!r}'
    return None


def nan_to_pytorch(whole, data, name, index):
    """Is the gradient NaN by PyTorch's rules, too? Where that is not installed, nobody says otherwise."""
    if not importlib.util.find_spec('torch'):
        return True
    from torch_gradients import torch_gradients
    return bool(np.isnan(torch_gradients(whole, data)[name][index]))


def difference(plain, whole, data, at, index, h):
    sides = []
    for sign in (1, -1):
        moved = [np.array(d) for d in data]
        moved[at][index] += sign * h
        sides.append(float(plain.run(whole, moved)[0][0]))
    return (sides[0] - sides[1]) / (2 * h)
