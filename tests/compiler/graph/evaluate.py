# SPDX-License-Identifier: Apache-2.0
"""Evaluates straight-line Graph IR with NumPy, every float type as float64.

An independent implementation of the ops: it depends on nothing of the compiler except the generic form
that `tessera-opt --mlir-print-op-generic` prints.
"""
import math
import re

import numpy as np

OP = re.compile(r'^\s*(?:(%[\w]+)(?::(\d+))? = )?"([\w.]+)"\(([^)]*)\)(?: <\{(.*?)\}>)?(?: \{(.*)\})? : '
                r'\((.*?)\) -> (.*)$')
TENSOR = re.compile(r'tensor<((?:\d+x)*)(\w+)>')
DTYPES = {'f64': np.float64, 'f32': np.float64, 'i64': np.int64, 'i32': np.int32, 'i1': np.bool_,
          'ui8': np.uint8}


def split(text):
    """Splits at commas outside brackets and strings."""
    parts, depth, quoted, start = [], 0, False, 0
    for at, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif not quoted and char in '<([{':
            depth += 1
        elif not quoted and char in '>)]}' and text[at - 1] != '-':
            depth -= 1
        elif not quoted and char == ',' and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in parts + [text[start:].strip()] if part]


def attributes(text):
    return dict(part.split(' = ', 1) if ' = ' in part else (part, 'unit') for part in split(text or ''))


def shape_of(text):
    match = TENSOR.search(text)
    return tuple(int(d) for d in match[1].split('x') if d), match[2]


def elements(text):
    """dense<…> : tensor<…>"""
    shape, dtype = shape_of(text)
    body = text[text.index('<') + 1:text.rindex('> :')]
    body = body.replace('true', 'True').replace('false', 'False')
    return np.broadcast_to(np.array(eval(body, {})).astype(DTYPES[dtype]), shape)


def integers(text):
    return [int(i) for i in re.findall(r'-?\d+', re.sub(r': i64', '', text))]


class Op:
    def __init__(self, match):
        self.result, self.count, self.name = match[1], int(match[2] or 1), match[3]
        self.operands = [o for o in split(match[4])]
        self.attrs = attributes(match[5])
        self.attrs.update(attributes(match[6]))
        self.types = split(match[8].strip('()'))

    def text(self, name):
        return self.attrs[name].split(' : ')[0].strip('"')

    def integers(self, name):
        return tuple(integers(self.attrs[name]))


class Function:
    def __init__(self, name):
        self.name, self.arguments, self.ops = name, [], []


def parse(text):
    """{name: Function} of a module in generic form."""
    functions = {}
    current = None
    for line in text.splitlines():
        if '"func.func"()' in line:
            current = Function(re.search(r'sym_name = "(\w+)"', line)[1])
            functions[current.name] = current
        elif line.strip().startswith('^bb0('):
            current.arguments = re.findall(r'(%\w+): ', line)
        elif current:
            match = OP.match(line)
            if match and match[3].startswith(('tessera.', 'func.')):
                current.ops.append(Op(match))
            elif '"tessera.' in line:
                raise ValueError('cannot read: ' + line)
    return functions


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def matmul(op, a, b):
    a = a.T if op.attrs.get('transpose_a') == 'true' else a
    b = b.T if op.attrs.get('transpose_b') == 'true' else b
    return a @ b


def cross_entropy(logits, labels):
    rows = np.arange(len(labels))
    largest = logits.max(axis=1)
    return np.log(np.exp(logits - largest[:, None]).sum(axis=1)) + largest - logits[rows, labels]


def cross_entropy_grad(logits, labels, dlosses):
    p = softmax(logits)
    p[np.arange(len(labels)), labels] -= 1
    return p * dlosses[:, None]


def gelu(op, x):
    if 'slope' in op.attrs:
        return 0.5 * (1 + erf(x / np.sqrt(2))) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    if op.attrs.get('approximate') == '"tanh"':
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def clamp(op, x):
    low, high = (float(op.attrs[name].split(' : ')[0]) for name in ('low', 'high'))
    return np.clip(x, low, high)


erf = np.vectorize(math.erf, otypes=[np.float64])
COMPARE = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
SIMPLE = {
    'add': np.add, 'sub': np.subtract, 'mul': np.multiply, 'div': np.divide, 'max': np.maximum,
    'min': np.minimum, 'ipow': lambda x, n: np.power(x, n.astype(np.float64)), 'neg': np.negative,
    'relu': lambda x: np.maximum(x, 0), 'exp': np.exp, 'log': np.log, 'tanh': np.tanh,
    'sqrt': np.sqrt, 'abs': np.abs, 'pow': np.power, 'expm1': np.expm1, 'log1p': np.log1p,
    'rsqrt': lambda x: 1 / np.sqrt(x), 'erf': erf, 'sigmoid': lambda x: 1 / (1 + np.exp(-x)),
    'silu': lambda x: x / (1 + np.exp(-x)), 'softplus': lambda x: np.logaddexp(x, 0),
    'sign': np.sign, 'floor': np.floor,
    'and': np.logical_and, 'or': np.logical_or, 'xor': np.logical_xor, 'not': np.logical_not,
    'where': np.where, 'cross_entropy': cross_entropy,
    'cross_entropy_grad': cross_entropy_grad,
}
WITH_OP = {
    'gelu': gelu,
    'clamp': clamp,
    'compare': lambda op, a, b: COMPARE[integers(op.attrs['predicate'].split(':')[0])[0]](a, b),
    'cast': lambda op, x: x.astype(DTYPES[shape_of(op.types[0])[1]]),
    'matmul': matmul,
    'sum': lambda op, x: x.sum(axis=op.integers('axes')),
    'mean': lambda op, x: x.mean(axis=op.integers('axes')),
    'reduce_max': lambda op, x: x.max(axis=op.integers('axes')),
    'reduce_min': lambda op, x: x.min(axis=op.integers('axes')),
    'reduce_prod': lambda op, x: x.prod(axis=op.integers('axes')),
    'argmax': lambda op, x: x.argmax(axis=op.integers('axis')[0]),
    'reshape': lambda op, x: x.reshape(shape_of(op.types[0])[0]),
    'transpose': lambda op, x: x.transpose(op.integers('permutation')),
    'broadcast': lambda op, x: np.broadcast_to(x, shape_of(op.types[0])[0]),
    'constant': lambda op: elements(op.attrs['value']),
}


def run(function, tensors, arguments, step=1):
    """(results, next values of assigned tensors, {parameter: its gradient})."""
    values = dict(zip(function.arguments, arguments))
    names, assigned, gradients = {}, {}, {}
    for op in function.ops:
        name = op.name.split('.', 1)[1]
        inputs = [values[o] for o in op.operands]
        if name in ('param', 'opt.state'):
            if name == 'opt.state' and op.text('name') not in tensors:
                values[op.result] = np.zeros(shape_of(op.types[0])[0])
            else:
                values[op.result] = tensors[op.text('name')]
            names[op.result] = op.text('name')
        elif name == 'assign':
            assigned[op.text('target')] = inputs[0]
        elif name == 'step':
            values[op.result] = np.int64(step)
        elif name == 'adamw':
            gradients[names[op.operands[0]]] = inputs[1]
            for i in range(3):
                values[f'{op.result}#{i}'] = inputs[0]
        elif name == 'minimize':
            pass
        elif op.name == 'func.return':
            return inputs, assigned, gradients
        else:
            value = SIMPLE[name](*inputs) if name in SIMPLE else WITH_OP[name](op, *inputs)
            shape, dtype = shape_of(op.types[0])
            value = np.asarray(value)
            if value.shape != shape or value.dtype != DTYPES[dtype]:
                raise ValueError(f'{op.name} gives {value.dtype}{value.shape}, declared {op.types[0]}')
            values[op.result] = value
    raise ValueError('no return')
