#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Models written by writer.py are imported, built and run, and compared with NumPy; what cannot be imported is refused.

imports.py AOT RUN
"""
import pathlib
import re
import sys
import tempfile

import numpy as np

import writer as w

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish, run  # noqa: E402

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
TARGET = '--target=cpu:x86-64-v2'
USAGE, IO, COMPILE, MISMATCH = 6, 7, 9, 12
rng = np.random.default_rng(7)


def build(folder, *words):
    process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', TARGET, *words)
    expect('a build', process.returncode == 0, process.stderr)


def call(folder, bundle, inputs, outputs):
    for name, value in inputs.items():
        np.save(folder / f'{name}.npy', value)
    words = [word for name in inputs for word in ('--input', f'{name}={name}.npy')]
    words += [word for name in outputs for word in ('--output', f'{name}={name}.out.npy')]
    process = run(folder, RUN, bundle, *words)
    expect('a call', process.returncode == 0, process.stderr)
    return [np.load(folder / f'{name}.out.npy') for name in outputs]


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


# ---- a perceptron whose batch is open ----


def perceptron(hidden=16):
    weights = {'fc1.weight': floats(hidden, 8), 'fc1.bias': floats(hidden), 'fc2.weight': floats(hidden, 4), 'scale': np.float32(0.5)}
    nodes = [w.node('Gemm', ['x', 'fc1.weight', 'fc1.bias'], ['a'], 'fc1', transB=1), w.node('Relu', ['a'], ['b'], 'act'),
             w.node('MatMul', ['b', 'fc2.weight'], ['c'], 'fc2'), w.node('Mul', ['c', 'scale'], ['y'], 'scaled')]
    tensors = [w.tensor(name, np.asarray(value)) for name, value in weights.items()]
    return w.model(w.graph(nodes, [w.info('x', ['N', 8])], [w.info('y', ['N', 4])], tensors)), weights


def perceptron_of(x, p):
    return np.maximum(x @ p['fc1.weight'].T + p['fc1.bias'], 0) @ p['fc2.weight'] * p['scale']


def check_perceptron(folder):
    data, weights = perceptron()
    (folder / 'm.onnx').write_bytes(data)
    process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', TARGET)
    expect('an open dim is refused', process.returncode == COMPILE and
           re.search(r"TSR-0807\] dim 'N' has no size; inputs that have it: 'x' \(dim 0\).*--dim N=SIZE", process.stderr), process.stderr)
    expect('no file is left of it', sorted(p.name for p in folder.iterdir()) == ['m.onnx'], list(folder.iterdir()))
    build(folder, '--dim', 'N=3')
    expect('only the bundle is written', sorted(p.name for p in folder.iterdir()) == ['m.onnx', 'm.tsb'], list(folder.iterdir()))
    x = floats(3, 8)
    y, = call(folder, 'm.tsb', {'x': x}, ['y'])
    expect('the perceptron', np.allclose(y, perceptron_of(x, weights), rtol=1e-5, atol=1e-5), y)

    process = run(folder, AOT, 'import', 'm.onnx', '-o', 'm.mlir', '--dim', 'N=3')
    expect('an import', process.returncode == 0, process.stderr)
    text = (folder / 'm.mlir').read_text()
    expect('parameters are beside the program', text.count('tessera.param') == 3 and 'dense<"0x' not in text, text)
    expect('they keep their names', all(f'"{name}"' in text for name in ('fc1.weight', 'fc1.bias', 'fc2.weight')), text)
    expect('a location names the node', '"m.onnx":2:1' in text, text)
    digest = run(folder, 'sha256sum', 'm.safetensors').stdout.split()[0]
    expect('the file of parameters is named by its digest', f'"sha256:{digest}"' in text and '"m.safetensors"' in text, text)
    process = run(folder, AOT, 'build', 'm.mlir', '-o', 'n.tsb', TARGET)
    expect('the program is built', process.returncode == 0, process.stderr)
    again, = call(folder, 'n.tsb', {'x': x}, ['y'])
    expect('the same bits', np.array_equal(again, y))

    damaged = bytearray((folder / 'm.safetensors').read_bytes())
    damaged[-1] ^= 1
    (folder / 'm.safetensors').write_bytes(damaged)
    process = run(folder, AOT, 'build', 'm.mlir', '-o', 'n.tsb', TARGET)
    expect('other parameters are refused', process.returncode == MISMATCH and 'has the digest' in process.stderr, process.stderr)
    (folder / 'm.safetensors').unlink()
    process = run(folder, AOT, 'build', 'm.mlir', '-o', 'n.tsb', TARGET)
    expect('missing parameters are refused', process.returncode == IO and 'm.safetensors' in process.stderr, process.stderr)


# ---- a small network of convolutions ----


def conv(x, f, b, stride, pad):
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, f.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum('nchwij,fcij->nfhw', windows.astype(np.float64), f.astype(np.float64)) + b[None, :, None, None]


def check_convolutions(folder):
    p = {'c1.w': floats(8, 3, 3, 3) / 4, 'c1.b': floats(8), 'c2.w': floats(8, 8, 3, 3) / 8, 'c2.b': floats(8), 'c3.w': floats(4, 16, 1, 1),
         'c3.b': floats(4), 'bn.s': np.abs(floats(8)) + 1, 'bn.b': floats(8), 'bn.m': floats(8), 'bn.v': np.abs(floats(8)) + 1,
         'fc.w': floats(5, 4), 'fc.b': floats(5)}
    nodes = [w.node('Conv', ['x', 'c1.w', 'c1.b'], ['a'], pads=[1, 1, 1, 1], strides=[2, 2]),
             w.node('BatchNormalization', ['a', 'bn.s', 'bn.b', 'bn.m', 'bn.v'], ['n']), w.node('Relu', ['n'], ['r']),
             w.node('Conv', ['r', 'c2.w', 'c2.b'], ['d'], pads=[1, 1, 1, 1]), w.node('Add', ['d', 'r'], ['s']),
             w.node('Concat', ['s', 'r'], ['t'], axis=1), w.node('MaxPool', ['t'], ['u'], kernel_shape=[2, 2], strides=[2, 2]),
             w.node('Conv', ['u', 'c3.w', 'c3.b'], ['features']), w.node('GlobalAveragePool', ['features'], ['g']),
             w.node('Flatten', ['g'], ['f']), w.node('Gemm', ['f', 'fc.w', 'fc.b'], ['y'], transB=1)]
    graph = w.graph(nodes, [w.info('x', [2, 3, 16, 16])], [w.info('y', [2, 5]), w.info('features', [2, 4, 4, 4])],
                    [w.tensor(name, value) for name, value in p.items()])
    (folder / 'm.onnx').write_bytes(w.model(graph))
    build(folder)
    x = floats(2, 3, 16, 16)
    y, features = call(folder, 'm.tsb', {'x': x}, ['y', 'features'])
    a = conv(x, p['c1.w'], p['c1.b'], 2, 1)
    n = [v[None, :, None, None] for v in (p['bn.s'], p['bn.b'], p['bn.m'], p['bn.v'])]
    r = np.maximum((a - n[2]) / np.sqrt(n[3] + 1e-5) * n[0] + n[1], 0)
    t = np.concatenate([conv(r, p['c2.w'], p['c2.b'], 1, 1) + r, r], 1)
    u = t.reshape(2, 16, 4, 2, 4, 2).max((3, 5))
    want = conv(u, p['c3.w'], p['c3.b'], 1, 0)
    expect('an image', np.allclose(features, want, rtol=1e-4, atol=1e-4), np.abs(features - want).max())
    want = want.mean((2, 3)) @ p['fc.w'].T + p['fc.b']
    expect('its classes', np.allclose(y, want, rtol=1e-4, atol=1e-4), np.abs(y - want).max())

    process = run(folder, AOT, 'import', 'm.onnx', '-o', 'm.mlir')
    expect('an import', process.returncode == 0, process.stderr)
    moves = [line for line in (folder / 'm.mlir').read_text().splitlines() if 'tessera.transpose' in line]
    expect('one transpose of the image that comes and one of the image that goes', len(moves) == 2, moves)
    expect('filters are laid out where they are stored', 'tensor<3x3x3x8xf32>' in (folder / 'm.mlir').read_text())


# ---- functions, branches, shape arithmetic ----


def check_shapes(folder):
    """Shape, Gather, Concat and Reshape leave nothing but the reshape; a branch that is known is taken."""
    body = w.function('Twice', 'local', ['a'], ['b'], [w.node('Add', ['a', 'a'], ['b'])])
    branches = [w.graph([w.node(op, ['z'], ['branch'])], [], [w.info('branch', [6])]) for op in ('Neg', 'Abs')]
    nodes = [w.node('Shape', ['x'], ['s']), w.node('Gather', ['s', 'zero'], ['n'], axis=0), w.node('Unsqueeze', ['n', 'zeros'], ['n1']),
             w.node('Concat', ['n1', 'minus'], ['t'], axis=0), w.node('Reshape', ['x', 't'], ['r']),
             w.node('Twice', ['r'], ['d'], domain='local'), w.node('Reshape', ['d', 'minus'], ['z']),
             w.node('Equal', ['n', 'two'], ['is']), w.node('If', ['is'], ['y'], then_branch=branches[0], else_branch=branches[1])]
    tensors = [w.tensor('zero', np.int64(0)), w.tensor('zeros', np.zeros(1, np.int64)), w.tensor('minus', np.array([-1])),
               w.tensor('two', np.int64(2))]
    data = w.model(w.graph(nodes, [w.info('x', [2, 3, 1])], [w.info('y', [6])], tensors), functions=[body], domains=['local'])
    (folder / 'm.onnx').write_bytes(data)
    build(folder)
    x = floats(2, 3, 1)
    y, = call(folder, 'm.tsb', {'x': x}, ['y'])
    expect('a function and a branch', np.array_equal(y, -2 * x.reshape(6)), y)
    run(folder, AOT, 'import', 'm.onnx', '-o', 'm.mlir')
    text = (folder / 'm.mlir').read_text()
    ops = set(re.findall(r'= (tessera\.\w+)', text))
    expect('no shape arithmetic is left', ops <= {'tessera.reshape', 'tessera.add', 'tessera.neg'}, ops)
    expect('nothing is stored', not (folder / 'm.safetensors').exists() and 'tessera.weights' not in text)


def check_external(folder):
    value = floats(4, 4)
    (folder / 'w.bin').write_bytes(b'\0' * 64 + value.tobytes())

    def write(*external):
        graph = w.graph([w.node('MatMul', ['x', 'w'], ['y'], 'product')], [w.info('x', [2, 4])], [w.info('y', [2, 4])],
                        [w.tensor('w', value, external)])
        (folder / 'm.onnx').write_bytes(w.model(graph))

    write('w.bin', 64, 64)
    build(folder)
    x = floats(2, 4)
    y, = call(folder, 'm.tsb', {'x': x}, ['y'])
    expect('external data', np.allclose(y, x @ value, rtol=1e-5, atol=1e-5), y)
    with tempfile.TemporaryDirectory() as other:
        (pathlib.Path(other) / 'w.bin').write_bytes(value.tobytes())
        (folder / 'link.bin').symlink_to(pathlib.Path(other) / 'w.bin')
        for external, text in [(('w.bin', 96, 64), 'ends at byte 160 of .w.bin., which has 128'), (('w.bin', 0, 32), 'has 32 bytes'),
                               (('../w.bin', 0, 64), 'below the folder'), (('/etc/passwd', 0, 64), 'below the folder'),
                               (('link.bin', 0, 64), 'is a link to a file outside'), (('none.bin', 0, 64), 'none.bin'),
                               (('w.bin', -1, 64), 'no number')]:
            write(*external)
            process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', TARGET)
            expect(f'external data {external}', process.returncode == COMPILE and re.search(r'TSR-0808\].*' + text, process.stderr),
                   process.stderr)


# ---- ops that several ops of Graph IR make ----


def of_one_node(folder, node, inputs, outputs, initializers=(), domains=(), opset=22):
    """The outputs of a model of one node; `outputs` by name: dims, or dims and type."""
    infos = [w.info(name, value.shape, value.dtype.name) for name, value in inputs.items()]
    made = [w.info(name, *(dims if isinstance(dims, tuple) else (dims,))) for name, dims in outputs.items()]
    model = w.model(w.graph([node], infos, made, initializers), opset=opset, domains=domains)
    (folder / 'm.onnx').write_bytes(model)
    build(folder)
    return call(folder, 'm.tsb', inputs, outputs)


def check_determinants(folder):
    """Matrices whose pivots must be exchanged, and a singular one."""
    x = floats(3, 2, 5, 5).astype(np.float64)
    x[0, 0, 0, 0] = x[1, 1, 2, 2] = 0
    x[2, 1, 3] = x[2, 1, 1]
    x[1, 0] = np.eye(5)[[1, 0, 3, 4, 2]]
    y, = of_one_node(folder, w.node('Det', ['x'], ['y']), {'x': x.astype(np.float32)}, {'y': [3, 2]})
    expect('determinants', np.allclose(y, np.linalg.det(x), rtol=1e-5, atol=1e-5), y, np.linalg.det(x))
    (folder / 'm.onnx').write_bytes(one('Det', opset=22))
    process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', TARGET)
    expect('a matrix that is not square', process.returncode == COMPILE and 'a matrix of 2 by 3' in process.stderr, process.stderr)


def check_top_k(folder):
    """The largest and smallest along any axis; of equal ones the first."""
    x = rng.integers(-20, 20, (4, 33, 6)).astype(np.float32)
    for axis in range(3):
        for largest in (0, 1):
            k = [3, 7, 2][axis]
            dims = [k if i == axis else d for i, d in enumerate(x.shape)]
            values, positions = of_one_node(folder, w.node('TopK', ['x', 'k'], ['v', 'p'], axis=axis, largest=largest),
                                         {'x': x}, {'v': dims, 'p': (dims, 'int64')}, [w.tensor('k', np.array([k]))])
            order = np.argsort(-x if largest else x, axis=axis, kind='stable').take(range(k), axis)
            expect(f'top_k along {axis}, largest {largest}', np.array_equal(positions, order), positions, order)
            expect('its values', np.array_equal(values, np.take_along_axis(x, order, axis)), values)


def check_scatters(folder):
    """Of several updates of an element the last one remains."""
    x, u = floats(4, 5), floats(6, 5)
    i = rng.integers(-4, 4, (6, 5))
    for reduction, combine in (('none', lambda a, b: b), ('add', np.add), ('mul', np.multiply), ('max', np.maximum), ('min', np.minimum)):
        want = x.copy()
        for r in range(6):
            for column in range(5):
                want[i[r, column], column] = combine(want[i[r, column], column], u[r, column])
        y, = of_one_node(folder, w.node('ScatterElements', ['x', 'i', 'u'], ['y'], axis=0, reduction=reduction),
                         {'x': x, 'i': i, 'u': u}, {'y': [4, 5]})
        expect(f'scatter by {reduction}', np.allclose(y, want, rtol=1e-6, atol=0), y, want)


def check_random(folder):
    """Streams that differ from node to node and from call to call, and Dropout in training mode."""
    n = 20000
    bernoulli = w.node('Bernoulli', ['x'], ['y'], 'draw')
    chance = np.full(n, 0.3, np.float32)
    first, = of_one_node(folder, bernoulli, {'x': chance}, {'y': [n]})
    expect('Bernoulli', set(np.unique(first)) == {0, 1} and abs(first.mean() - 0.3) < 0.02, first.mean())
    nodes = [w.node('RandomNormal', [], ['a'], 'a', shape=[n], mean=2.0, scale=3.0), w.node('RandomUniformLike', ['a'], ['b'], 'b', low=-1.0),
             w.node('RandomUniformLike', ['a'], ['c'], 'c', low=-1.0), w.node('Add', ['x', 'a'], ['y']),
             w.node('Dropout', ['x', 'ratio', 'training'], ['d', 'm'], 'drop')]
    outputs = [w.info(name, [n]) for name in 'ybcd'] + [w.info('m', [n], 'bool')]
    model = w.graph(nodes, [w.info('x', [n])], outputs, [w.tensor('ratio', np.float32(0.25)), w.tensor('training', np.bool_(True))])
    (folder / 'm.onnx').write_bytes(w.model(model, opset=22))
    build(folder)
    x = floats(n)
    y, b, c, d, m = call(folder, 'm.tsb', {'x': x}, ['y', 'b', 'c', 'd', 'm'])
    a = y - x
    expect('normal numbers', abs(a.mean() - 2) < 0.1 and abs(a.std() - 3) < 0.1, a.mean(), a.std())
    expect('uniform numbers', b.min() >= -1 and b.max() < 1 and abs(b.mean()) < 0.03, b.min(), b.max())
    expect('another stream for each node', np.mean(b == c) < 0.01)
    expect('dropped ones', abs(m.mean() - 0.75) < 0.02 and np.array_equal(d, np.where(m, x * np.float32(1 / 0.75), 0)), m.mean())


# ---- integers, bits, remainders ----


def bits_of(dtype, count):
    """Any bits, and those of numbers at the ends of the range."""
    size = np.dtype(dtype).itemsize
    known = np.array([0, 1, 2, 3, size * 8 - 1, size * 8, (1 << size * 8 - 1) - 1, 1 << size * 8 - 1, (1 << size * 8) - 1], np.uint64)
    any_bits = rng.integers(0, 1 << 63, count - len(known), np.uint64) * np.uint64(2) + rng.integers(0, 2, count - len(known), np.uint64)
    return np.concatenate([known, any_bits]).astype(f'u{size}').view(dtype)


def check_integers(folder):
    count = 400
    for dtype in ('uint8', 'int8', 'uint16', 'int16', 'uint32', 'int32', 'uint64', 'int64'):
        outputs = {'left': w.node('BitShift', ['x', 'n'], ['left'], direction='LEFT'), 'right': w.node('BitShift', ['x', 'n'], ['right'], direction='RIGHT'),
                   'both': w.node('BitwiseAnd', ['x', 'z'], ['both']), 'any': w.node('BitwiseOr', ['x', 'z'], ['any']),
                   'one': w.node('BitwiseXor', ['x', 'z'], ['one']), 'none': w.node('BitwiseNot', ['x'], ['none']),
                   'rest': w.node('Mod', ['x', 'z'], ['rest']), 'cut': w.node('Mod', ['x', 'z'], ['cut'], fmod=1),
                   'size': w.node('Abs', ['x'], ['size']), 'sign': w.node('Sign', ['x'], ['sign'])}
        ports = [w.info(name, [count], dtype) for name in ('x', 'n', 'z')], [w.info(name, [count], dtype) for name in outputs]
        (folder / 'm.onnx').write_bytes(w.model(w.graph(list(outputs.values()), *ports), opset=18))
        build(folder)
        x, z = bits_of(dtype, count), rng.permutation(bits_of(dtype, count))
        n = np.concatenate([rng.integers(0, 8 * x.itemsize + 2, count // 2).astype(dtype), z[count // 2:]])
        z[z == 0] = 3
        got = dict(zip(outputs, call(folder, 'm.tsb', {'x': x, 'n': n, 'z': z}, outputs)))
        with np.errstate(all='ignore'):
            want = {'left': np.left_shift(x, n), 'right': np.right_shift(x, n), 'both': x & z, 'any': x | z, 'one': x ^ z, 'none': ~x,
                    'rest': np.mod(x, z), 'cut': np.fmod(x, z), 'size': np.abs(x), 'sign': np.sign(x)}
        for name, value in want.items():
            expect(f'{name} of {dtype}', got[name].dtype == value.dtype and np.array_equal(got[name], value), got[name], value)


def check_remainders(folder):
    """Of any two floats, whose quotient may have hundreds of bits. In f64 NumPy's remainders of smaller floats are exact."""
    count = 4000
    ports = [w.info('x', [count]), w.info('z', [count])], [w.info('cut', [count]), w.info('rest', [count])]
    nodes = [w.node('Mod', ['x', 'z'], ['cut'], fmod=1), w.node('Mod', ['x', 'z'], ['rest'])]
    (folder / 'm.onnx').write_bytes(w.model(w.graph(nodes, *ports), opset=28))
    build(folder)
    ends = np.array([0, -0.0, 1, -1, 3, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38], np.float32)
    pairs = np.stack(np.meshgrid(ends, ends)).reshape(2, -1)
    near = np.stack([floats(1000) * 8, np.round(floats(1000) * 3)])
    some = bits_of('float32', 2 * (count - pairs.shape[1] - near.shape[1])).reshape(2, -1)
    x, z = (np.ascontiguousarray(row) for row in np.concatenate([pairs, near, some], axis=1))
    cut, rest = call(folder, 'm.tsb', {'x': x, 'z': z}, ('cut', 'rest'))
    with np.errstate(all='ignore'):
        want_cut = np.fmod(x.astype(np.float64), z.astype(np.float64)).astype(np.float32)
        want_rest = np.mod(x.astype(np.float64), z.astype(np.float64)).astype(np.float32)
    for what, got, want in ('truncated', cut, want_cut), ('floored', rest, want_rest):
        wrong = ~((got == want) | (np.isnan(got) & np.isnan(want)))
        expect(f'{what} remainders', not wrong.any(), [(x[i], z[i], got[i], want[i]) for i in np.flatnonzero(wrong)[:4]])


# ---- refusals ----


def one(op, inputs=('x',), dims=(2, 3), initializers=(), opset=17, dtype='float32', **attributes):
    nodes = [w.node(op, inputs, ['y'], 'the_node', **attributes)]
    return w.model(w.graph(nodes, [w.info('x', dims, dtype)], [w.info('y', [])], initializers), opset=opset)


def check_refusals(folder):
    relu = w.node('Relu', ['x'], ['y'])
    ports = [w.info('x', [2])], [w.info('y', [2])]
    recursion = w.function('F', 'local', ['a'], ['b'], [w.node('F', ['a'], ['b'], domain='local')])
    cases = [
        ('0801', 'is empty', b''), ('0801', 'cut off', perceptron()[0][:-3]), ('0801', 'no graph', w.integer(1, 8)),
        ('0802', 'opset 99', w.model(w.graph([relu], *ports), opset=99)), ('0802', 'IR version 77', w.model(w.graph([relu], *ports), ir=77)),
        ('0802', r"the_node.*version 7 of this op.*known are 9 to 28", one('Where', ('x', 'x', 'x'), opset=7)),
        ('0803', r"node 'the_node' \(Unknown\): no rule", one('Unknown')),
        ('0803', r"node 'the_node' \(Unique\): the size of the result depends on", one('Unique')),
        ('0804', r"the_node.*axis", one('Softmax', axis=7)), ('0804', "'mode' is 'strange'", one('Pad', ('x', 'p'), initializers=[
            w.tensor('p', np.zeros(4, np.int64))], mode='strange')),
        ('0804', "'direction' is 'UP'; expected LEFT or RIGHT", one('BitShift', ('x', 'x'), dtype='uint8', direction='UP')),
        ('0805', 'complex64', one('Relu', dtype='complex64')), ('0805', "'to' is complex64", one('Cast', to=14)),
        ('0805', "the bits of f32 cannot become those of i64", one('BitCast', opset=26, to=7)),
        ('0805', "the bits of ui8 cannot become those of i1", one('BitCast', opset=26, dtype='uint8', to=9)),
        ('0805', "the remainder of float64", one('Mod', ('x', 'x'), dtype='float64', fmod=1)),
        ('0806', "the_node.*input 1 .'x': shape. depends on inputs", one('Reshape', ('x', 'x'), dims=[2], dtype='int64')),
        ('0807', "dim 'x:0' has no size.*'x' .dim 0.*--dim x:0=SIZE", one('Relu', dims=[None])),
        ('0807', "dim 'B' has no size", one('Relu', dims=['B'])),
        ('0808', "'w' has 8 bytes", w.model(w.graph([w.node('Add', ['x', 'w'], ['y'])], *ports, [w.integer(1, 4) + w.integer(2, 1) +
                                                                                               w.length(8, 'w') + w.length(9, bytes(8))]))),
        ('0809', "'b' is read, but neither", w.model(w.graph([w.node('Add', ['x', 'b'], ['y']), w.node('Relu', ['y'], ['b'])], *ports))),
        ('0809', "'y' is made twice", w.model(w.graph([relu, relu], *ports))),
        ('0809', "function 'F' calls itself", w.model(w.graph([w.node('F', ['x'], ['y'], domain='local')], *ports), functions=[recursion],
                                                     domains=['local'])),
        ('0810', "the_node.*the shape has 8 elements; the input has 6", one('Reshape', ('x', 's'), initializers=[w.tensor('s', np.array([4, 2]))])),
        ('0811', 'without a shape', w.model(w.graph([relu], [w.length(1, 'x') + w.length(2, w.length(1, w.integer(1, 1)))], ports[1]))),
        ('0811', 'a sequence', w.model(w.graph([relu], [w.length(1, 'x') + w.length(2, w.length(4, w.integer(1, 1)))], ports[1]))),
        ('0812', 'input 1 is missing', one('Add')),
        ('0813', 'output 1', w.model(w.graph([w.node('MaxPool', ['x'], ['y', 'i'], kernel_shape=[2])], [w.info('x', [1, 1, 4], 'uint8')],
                                             ports[1]), opset=12)),
        ('0103', 'do not broadcast', w.model(w.graph([w.node('Add', ['x', 'z'], ['y'])], [w.info('x', [2]), w.info('z', [3])],
                                                        ports[1]))),
    ]
    for number, text, data in cases:
        (folder / 'm.onnx').write_bytes(data)
        process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', TARGET)
        expect(f'refused: {text}', process.returncode == COMPILE and re.search(rf'\[TSR-{number}\].*{text}', process.stderr), process.stderr)
    (folder / 'm.onnx').write_bytes(one('Unknown', axis=3))
    process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', TARGET)
    expect('the node is shown', '\ny = Unknown(x) {axis = 3}\n^\n' in process.stderr, process.stderr)
    process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', '--diagnostics=json')
    expect('as JSON', '"number":"TSR-0803"' in process.stderr, process.stderr)
    (folder / 'm.onnx').write_bytes(one('Relu'))
    for words, text in [(['--dim', 'N=3'], 'no open dim'), (['--dim', 'N'], 'expected NAME=SIZE'), (['--dim', 'N=1', '--dim', 'N=2'], 'twice')]:
        process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', *words)
        expect(f'{words}', process.returncode == USAGE and text in process.stderr, process.stderr)
    expect('no bundle', not (folder / 'm.tsb').exists())


for check in (check_perceptron, check_convolutions, check_shapes, check_external, check_determinants, check_top_k, check_scatters,
              check_random, check_integers, check_remainders, check_refusals):
    with tempfile.TemporaryDirectory() as name:
        check(pathlib.Path(name))
finish()
