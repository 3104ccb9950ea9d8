# SPDX-License-Identifier: Apache-2.0
"""Evaluates programs that `-tessera-autodiff` and `-tessera-graph` make, with the meaning of the ops that the oracle uses, in float64."""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'oracle'))
from graph import NUMPY, parse  # noqa: E402, F401
import interpret  # noqa: E402


def run(function, tensors, arguments, step=1):
    """(results, next values of assigned tensors, {parameter: its gradient})."""
    values = dict(zip((name for name, _ in function.arguments), arguments))
    names, assigned, gradients = {}, {}, {}
    for op in function.ops:
        inputs = [values[o] for o in op.operands]
        if op.name in ('param', 'opt.state'):
            name, = op.results
            names[name] = op.text('name')
            values[name] = tensors[names[name]] if op.name == 'param' else tensors.get(names[name], np.zeros(op.types[0].shape))
        elif op.name == 'assign':
            assigned[op.text('target')] = inputs[0]
        elif op.name == 'step':
            values[op.results[0]] = np.int64(step)
        elif op.name == 'adamw':
            gradients[names[op.operands[0]]] = inputs[1]
            values.update((result, inputs[0]) for result in op.results)
        elif op.name == 'return':
            return inputs, assigned, gradients
        elif op.name != 'minimize':
            values.update(zip(op.results, results_of(op, inputs)))
    raise ValueError('no return')


def results_of(op, inputs):
    """Of an op without effects. They must have the declared types."""
    results = [np.asarray(value) for value in interpret.evaluate(op, [np.asarray(x) for x in inputs])]
    for value, kind in zip(results, op.types):
        if value.shape != kind.shape or value.dtype != NUMPY[kind.dtype]:
            raise ValueError(f'{op.name} gives {value.dtype}{value.shape}, declared {kind}')
    return results
