#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Models whose dims stay open: the bits of the builds for each size, NumPy's results, and what is refused.

open_dims.py AOT RUN
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
TARGET = ['--target=cpu:x86-64-v2', '--threads=1']
USAGE, COMPILE, DIMS = 6, 9, 8
rng = np.random.default_rng(11)


def dims_of(**sizes):
    return [word for name, size in sizes.items() for word in ('--dim', f'{name}={size}')]


def build(folder, what, *words, source='m.onnx'):
    process = run(folder, AOT, 'build', source, '-o', 'm.tsb', *TARGET, *words)
    expect(f'{what}: a build with {words}', process.returncode == 0, process.stderr)


def call(folder, what, inputs):
    """The bytes of output y."""
    for name, value in inputs.items():
        np.save(folder / f'{name}.npy', value)
    words = [word for name in inputs for word in ('--input', f'{name}={name}.npy')]
    (folder / 'y.npy').unlink(missing_ok=True)
    process = run(folder, RUN, 'm.tsb', *words, '--output', 'y=y.npy')
    expect(f'{what}: a call', process.returncode == 0, process.stderr)
    return (folder / 'y.npy').read_bytes() if process.returncode == 0 else b''


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


class Nodes:
    """Nodes with one output each, and the constants that they read."""

    def __init__(self):
        self.nodes, self.tensors = [], []

    def __call__(self, op, *inputs, **attributes):
        names = [name if isinstance(name, str) else self.tensor(name) for name in inputs]
        name = f'v{len(self.nodes)}'
        self.nodes.append(w.node(op, names, [name], f'{op}{len(self.nodes)}', **attributes))
        return name

    def tensor(self, value):
        self.tensors.append(w.tensor(f't{len(self.tensors)}', np.asarray(value)))
        return f't{len(self.tensors) - 1}'

    def model(self, y, *inputs, opset=17):
        self.nodes.append(w.node('Identity', [y], ['y']))
        return w.model(w.graph(self.nodes, inputs, [w.info('y', [])], self.tensors), opset=opset)


# ---- models ----


def shape_arithmetic():
    """What exporters write about shapes."""
    n = Nodes()
    shape = n('Shape', 'x')
    rows, columns = n('Gather', shape, ints(0), axis=0), n('Slice', shape, ints(1), ints(2**63 - 1))
    split = n('Reshape', 'x', n('Concat', rows, ints(2), ints(3), axis=0))
    permuted = n('Reshape', n('Transpose', split, perm=[0, 2, 1]), ints(0, -1))
    filled = n('ConstantOfShape', n('Concat', rows, columns, axis=0))
    stretched = n('Expand', floats(1, 6), n('Where', n('Equal', shape, ints(-1)), ints(1), shape))
    sum_of = n('Add', n('Add', permuted, filled), stretched)
    twice = n('Mul', rows, ints(2))
    halves = n('MatMul', n('Reshape', sum_of, n('Concat', twice, ints(3), axis=0)), floats(3, 3))
    back = n('Reshape', halves, n('Concat', n('Div', twice, ints(2)), ints(-1), axis=0))
    inner = n('Slice', back, ints(1), ints(-1), ints(1))
    scalar = n('Squeeze', n('Cast', n('Cast', rows, to=6), to=7), ints(0))
    again = n('Slice', inner, ints(0), n('Unsqueeze', scalar, ints(0)), ints(0))
    flat = n('Flatten', n('Unsqueeze', again, ints(1)), axis=1)
    return n.model(n('Mul', flat, n('Cast', n('Range', np.int64(0), np.int64(4), np.int64(1)), to=1)), w.info('x', ['N', 6]))


def images():
    n = Nodes()
    x = n('Conv', 'x', floats(8, 3, 3, 3), floats(8), pads=[1, 1, 1, 1])
    x = n('BatchNormalization', x, floats(8), floats(8), floats(8), np.abs(floats(8)))
    x = n('MaxPool', n('Relu', x), kernel_shape=[2, 2], strides=[2, 2])
    x = n('AveragePool', x, kernel_shape=[2, 2], strides=[1, 1])
    shape = n('Concat', n('Gather', n('Shape', x), ints(0), axis=0), ints(-1), axis=0)
    return n.model(n('Gemm', n('Reshape', x, shape), floats(72, 5), floats(5)), w.info('x', ['N', 3, 8, 8]))


def words(length):
    """One layer of a transformer, with the causal mask computed from the length; rows and words flattened for the products."""
    n = Nodes()
    shape = n('Shape', 'x')
    batch, positions = (n('Gather', shape, np.int64(i), axis=0) for i in range(2))
    one = n('Unsqueeze', batch, ints(0))
    long = n('Unsqueeze', positions, ints(0))
    h = n('Add', n('Gather', floats(20, 8), 'x', axis=0), n('Slice', floats(32, 8), ints(0), long, ints(0)))
    flat = n('Reshape', h, n('Concat', n('Mul', one, long), ints(8), axis=0))
    parts = []
    for _ in range(3):
        part = n('Reshape', n('MatMul', flat, floats(8, 8)), n('Concat', one, long, ints(2), ints(4), axis=0))
        parts.append(n('Transpose', part, perm=[0, 2, 1, 3]))
    scores = n('Mul', n('MatMul', parts[0], n('Transpose', parts[1], perm=[0, 1, 3, 2])), np.float32(0.5))
    row = n('Range', np.int64(0), positions, np.int64(1))
    seen = n('LessOrEqual', n('Unsqueeze', row, ints(0)), n('Unsqueeze', row, ints(1)))
    masked = n('Where', seen, scores, np.float32(-np.inf))
    y = n('Transpose', n('MatMul', n('Softmax', masked, axis=-1), parts[2]), perm=[0, 2, 1, 3])
    y = n('Reshape', y, n('Concat', one, long, ints(-1), axis=0))
    y = n('LayerNormalization', n('Add', h, y), floats(8), floats(8), axis=-1)
    return n.model(n('MatMul', y, floats(8, 20)), w.info('x', ['N', length], 'int64'))


def attend():
    """As `words`, with the op."""
    n = Nodes()
    y = n('Attention', 'x', 'x', 'x', q_num_heads=2, kv_num_heads=2, is_causal=1)
    return n.model(n('RMSNormalization', y, floats(8), axis=-1), w.info('x', ['N', 5, 8]), opset=23)


# ---- checks ----


def check_sizes(folder, what, model, make, sizes, dim='N'):
    """One program for a range of sizes has the bits of the builds for each."""
    (folder / 'm.onnx').write_bytes(model)
    want = {}
    for size in sizes:
        build(folder, what, '--dim', f'{dim}={size}')
        want[size] = call(folder, what, {'x': make(size)})
    build(folder, what, '--dim', f'{dim}=1..{max(sizes)}')
    for size in reversed(sizes):
        expect(f'{what}: bits of {size} rows', call(folder, what, {'x': make(size)}) == want[size])
    over = max(sizes) + 1
    np.save(folder / 'x.npy', make(over))
    process = run(folder, RUN, 'm.tsb', '--input', 'x=x.npy', '--output', 'y=y.npy')
    expect(f'{what}: {over} rows', process.returncode == DIMS and f"is {over} in input 'x'" in process.stderr, process.stderr)


def stored(*shape, seed=3):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check_ranges(folder):
    tokens = lambda n, s: np.random.default_rng(n * 100 + s).integers(0, 20, (n, s))
    check_sizes(folder, 'shape arithmetic', shape_arithmetic(), lambda n: stored(n, 6), [1, 2, 20])
    check_sizes(folder, 'images', images(), lambda n: stored(n, 3, 8, 8), [1, 3, 8])
    check_sizes(folder, 'words', words(6), lambda n: tokens(n, 6), [1, 5, 9])
    check_sizes(folder, 'the op attention', attend(), lambda n: stored(n, 5, 8), [1, 3, 8])
    n = Nodes()
    check_sizes(folder, 'a dim without a name', n.model(n('Softmax', 'x', axis=-1), w.info('x', [None, 9])), lambda n: stored(n, 9), [1, 4],
                'x:0')


def check_numbers(folder):
    """Against NumPy: a model that computes with the sizes themselves."""
    n = Nodes()
    rows = n('Cast', n('Shape', 'x', end=1), to=1)
    sums = n('Div', n('ReduceSum', 'x', ints(0), keepdims=0), rows)
    last = n('ArgMax', 'x', axis=0, keepdims=0, select_last_index=1)
    y = n('Add', n('Mul', sums, n('Cast', n('Size', 'x'), to=1)), n('Cast', last, to=1))
    (folder / 'm.onnx').write_bytes(n.model(n('Add', y, n('Gather', 'x', ints(-1), axis=0)), w.info('x', ['N', 3])))
    for sizes in ('1..5', '2,5'):
        build(folder, f'numbers of {sizes}', '--dim', f'N={sizes}')
        check_numbers_of(folder)


def check_numbers_of(folder):
    for size in (2, 5):
        x = stored(size, 3)
        x[-1] = x[0] = 9
        call(folder, 'numbers', {'x': x})
        want = x.mean(0) * x.size + (size - 1) + x[-1]
        expect(f'numbers of {size} rows', np.allclose(np.load(folder / 'y.npy')[0], want, rtol=1e-5), np.load(folder / 'y.npy'), want)


class Arithmetic:
    """Random integers that are computed from Shape(x), as nodes and as a function of the dims of x."""

    OPS = {'Add': np.add, 'Sub': np.subtract, 'Mul': np.multiply, 'Min': np.minimum, 'Max': np.maximum,
           'Div': lambda a, b: (np.abs(a) // np.abs(b)) * np.sign(a) * np.sign(b)}

    def __init__(self, nodes):
        self.nodes = nodes
        self.values = [(nodes('Shape', 'x'), lambda dims: np.array(dims, np.int64))]

    def pick(self):
        return self.values[int(rng.integers(len(self.values)))]

    def add(self, name, function):
        self.values.append((name, function))

    def binary(self):
        (a, f), (b, g) = self.pick(), self.pick()
        op = str(rng.choice(list(self.OPS)))
        if op == 'Div':  # by a number
            by = int(rng.choice([1, 2, 3, 7, -2]))
            b, g = np.array([by], np.int64), lambda dims: np.array([by])
        self.add(self.nodes(op, a, b), lambda dims: self.OPS[op](f(dims), g(dims)))

    def gather(self):
        a, f = self.pick()
        at = rng.integers(-2, 2, 2)
        self.add(self.nodes('Gather', a, at, axis=0), lambda dims: f(dims)[at])

    def joined(self):
        (a, f), (b, g) = self.pick(), self.pick()
        whole = self.nodes('Concat', a, b, axis=0)
        self.add(self.nodes('Slice', whole, ints(1), ints(-1)), lambda dims: np.concatenate([f(dims), g(dims)])[1:-1])

    def chosen(self):
        (a, f), (b, g) = self.pick(), self.pick()
        op, holds = [('Less', np.less), ('Equal', np.equal), ('GreaterOrEqual', np.greater_equal)][int(rng.integers(3))]
        self.add(self.nodes('Where', self.nodes(op, a, b), a, ints(5)), lambda dims: np.where(holds(f(dims), g(dims)), f(dims), 5))

    def reduced(self):
        a, f = self.pick()
        op, function = [('ReduceProd', np.prod), ('ReduceMax', np.max), ('ReduceMin', np.min)][int(rng.integers(3))]
        name = self.nodes('Concat', self.nodes(op, a, axes=[0], keepdims=1), ints(3), axis=0)
        self.add(name, lambda dims: np.array([function(f(dims)), 3]))

    def casts(self):
        a, f = self.pick()
        self.add(self.nodes('Neg', self.nodes('Cast', self.nodes('Cast', a, to=6), to=7)), lambda dims: -f(dims).astype(np.int32).astype(np.int64))


def check_arithmetic(folder):
    """Random arithmetic on shapes, for several sizes of two dims, against NumPy. Numbers stay small: no value wraps."""
    n = Nodes()
    made = Arithmetic(n)
    for kind in rng.choice(['binary'] * 4 + ['gather', 'joined', 'chosen', 'reduced', 'casts'], 60):
        before = len(made.values), len(n.nodes)
        getattr(made, kind)()
        largest = max(np.abs(made.values[-1][1](dims)).max() for dims in ((5, 7), (1, 2)))
        if largest > 10**6:
            del made.values[before[0]:], n.nodes[before[1]:]
    (folder / 'm.onnx').write_bytes(n.model(n('Concat', *[name for name, _ in made.values], axis=0), w.info('x', ['N', 'S'])))
    build(folder, 'arithmetic', *dims_of(N='1,3,5', S='2,7'))
    for dims in ((1, 2), (3, 7), (5, 2), (5, 7)):
        call(folder, 'arithmetic', {'x': stored(*dims)})
        want = np.concatenate([function(dims) for _, function in made.values])
        got = np.load(folder / 'y.npy').reshape(-1)
        expect(f'arithmetic of {dims}', np.array_equal(got, want), np.flatnonzero(got != want)[:5] if got.shape == want.shape else got.shape)


def check_two_dims(folder):
    """All combinations of sizes; the imported program has them open."""
    tokens = lambda n, s: np.random.default_rng(n * 100 + s).integers(0, 20, (n, s))
    (folder / 'm.onnx').write_bytes(words('S'))
    want = {}
    for n in (1, 3):
        for s in (2, 5, 32):
            build(folder, 'two dims', *dims_of(N=n, S=s))
            want[n, s] = call(folder, 'two dims', {'x': tokens(n, s)})
    build(folder, 'two dims', *dims_of(N='1,3', S='2,5,32'))
    for n, s in want:
        expect(f'two dims: bits of {n} and {s}', call(folder, 'two dims', {'x': tokens(n, s)}) == want[n, s])
    build(folder, 'two dims', *dims_of(N='1..4', S='2,5,32'))
    for n, s in reversed(want):
        expect(f'one open, one of several sizes: {n} and {s}', call(folder, 'two dims', {'x': tokens(n, s)}) == want[n, s])
    for n, s, text in ((5, 2, "'N' of entry 'main[S=2]' is 5 in input 'x'; the bundle was built for 1 to 4"),
                       (1, 3, "'S' of entry 'main' is 3 in input 'x' (dim 1); the bundle was built for 2, 5, 32")):
        np.save(folder / 'x.npy', tokens(n, s))
        process = run(folder, RUN, 'm.tsb', '--input', 'x=x.npy', '--output', 'y=y.npy')
        expect(f'{n} and {s}', process.returncode == DIMS and text in process.stderr, process.stderr)
    process = run(folder, AOT, 'inspect', 'm.tsb')
    expect('each copy', r'@main[S=32]  infer, N from 1 to 4' in process.stdout, process.stdout)
    process = run(folder, AOT, 'import', 'm.onnx', '-o', 'm.mlir', *dims_of(S=5))
    expect('an import without a size', process.returncode == 0, process.stderr)
    text = (folder / 'm.mlir').read_text()
    expect('its dims are open', 'tessera.dims = ["N"]' in text and 'tensor<?x5xi64, #tessera.dims<N>>' in text and '5*N' in text, text)
    expect('no shape arithmetic is left', 'tessera.sizes' not in text, text)
    build(folder, 'the program', '--dim', 'N=3', source='m.mlir')
    expect('the program has the bits', call(folder, 'two dims', {'x': tokens(3, 5)}) == want[3, 5])
    process = run(folder, AOT, 'import', 'm.onnx', '-o', 'm.mlir', *dims_of(N='1..4', S='2,32'))
    expect('an import with sizes', process.returncode == 0, process.stderr)
    build(folder, 'the program', source='m.mlir')
    expect('the program has its sizes', call(folder, 'two dims', {'x': tokens(3, 32)}) == want[3, 32])
    build(folder, 'the program', *dims_of(N=3, S=5), source='m.mlir')
    expect('or others in their range', call(folder, 'two dims', {'x': tokens(3, 5)}) == want[3, 5])
    process = run(folder, AOT, 'build', 'm.mlir', '-o', 'm.tsb', *TARGET, *dims_of(N=3, S=33))
    expect('others beyond it', process.returncode == COMPILE and re.search(
        r"TSR-0232\] dim 'S' has the size 33; the program was imported for sizes from 2 to 32", process.stderr), process.stderr)
    process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', *TARGET, *dims_of(N='1..4', S='1..33'))
    expect('more positions than the table has', process.returncode == COMPILE and 'min(32, S)' in process.stderr, process.stderr)


def check_images_of_sizes(folder):
    """Windows over open dims, recurrences over an open length."""
    n = Nodes()
    x = n('Conv', 'x', floats(4, 3, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2])
    x = n('MaxPool', n('Relu', x), kernel_shape=[3, 3], strides=[2, 1], dilations=[1, 2])
    y = n('GlobalAveragePool', n('Conv', x, floats(5, 4, 2, 2), auto_pad='SAME_LOWER'))
    (folder / 'm.onnx').write_bytes(n.model(y, w.info('x', ['N', 3, 'H', 'W'])))
    cases = [(1, 16, 20), (3, 17, 21)]
    want = []
    for size in cases:
        build(folder, 'images', *dims_of(N=size[0], H=size[1], W=size[2]))
        want.append(call(folder, 'images', {'x': stored(size[0], 3, *size[1:])}))
    build(folder, 'images', *dims_of(N='1..4', H='16,17', W='20,21'))
    for size, bits in zip(cases, want):
        expect(f'images of {size}', call(folder, 'images', {'x': stored(size[0], 3, *size[1:])}) == bits)
    n = Nodes()
    y = n('GRU', 'x', floats(1, 12, 3), floats(1, 12, 4), floats(1, 24), hidden_size=4)
    (folder / 'm.onnx').write_bytes(n.model(y, w.info('x', ['T', 'N', 3])))
    build(folder, 'a recurrence', *dims_of(T=5, N=2))
    bits = call(folder, 'a recurrence', {'x': stored(5, 2, 3)})
    build(folder, 'a recurrence', *dims_of(T='3,5', N='1,2'))
    expect('a recurrence of 5 steps', call(folder, 'a recurrence', {'x': stored(5, 2, 3)}) == bits)


def check_expressions(folder):
    """A dim that an exporter named after two others."""
    n = Nodes()
    y = n('Add', n('Concat', 'p', 'x', axis=1), 'm')
    (folder / 'm.onnx').write_bytes(n.model(y, w.info('x', [2, 'len']), w.info('p', [2, 'past']), w.info('m', [2, 'past + len'])))
    build(folder, 'an expression', *dims_of(len='1,2', past='3,4'))
    x, p, m = stored(2, 2), stored(2, 3), stored(2, 5)
    call(folder, 'an expression', {'x': x, 'p': p, 'm': m})
    expect('the sum of two dims', np.array_equal(np.load(folder / 'y.npy').reshape(2, 5), np.concatenate([p, x], 1) + m))
    np.save(folder / 'm.npy', stored(2, 6))
    process = run(folder, RUN, 'm.tsb', *[word for name in 'xpm' for word in ('--input', f'{name}={name}.npy')], '--output', 'y=y.npy')
    expect('another sum', process.returncode == DIMS, process.stderr)


def one(op, *more, dims=('N', 4), opset=17, **attributes):
    n = Nodes()
    return n.model(n(op, 'x', *more, **attributes), w.info('x', dims), opset=opset)


def check_refusals(folder):
    rows = Nodes()
    twice = rows('Reshape', 'x', rows('Concat', rows('Div', rows('Shape', 'x', end=1), ints(2)), ints(-1), axis=0))
    given = Nodes()
    k = given('TopK', 'x', given('Shape', 'x', end=1))
    both = Nodes()
    clash = both('Add', 'x', 'b')
    branch = Nodes()
    same = branch('Squeeze', 'x')
    cases = [
        ('0824', r"node 'Conv0' \(Conv\): a dim of the image is N, and the number of windows with auto_pad or ceil_mode needs its size; "
         r"give dim 'N' a size: --dim N=SIZE", one('Conv', floats(2, 3, 1, 3), dims=(1, 3, 4, 'N'), strides=[1, 2], auto_pad='SAME_UPPER')),
        ('0824', r"\(ConvTranspose\): dim 2 of the image is N, and the rule needs its size",
         one('ConvTranspose', floats(3, 2, 3, 3), dims=(1, 3, 'N', 4))),
        ('0824', r"\(MaxUnpool\): dim 0 of input 0 is N, and this op is imported for known sizes only; give dim 'N' a size: --dim N=SIZE",
         one('MaxUnpool', 'x', dims=('N', 3, 4), kernel_shape=[2])),
        ('0824', r"\(Squeeze\): a dim is N, and the rank of the result depends on whether it is 1", branch.model(same, w.info('x', ['N', 4]))),
        ('0824', r"\(Reshape\): the size of a dim is -1, and 4\*N elements are not a multiple of floor\(N/2\)",
         rows.model(twice, w.info('x', ['N', 4]))),
        ('0824', r"\(TopK\): a number of input 1 \('v0': k\) is N, and the rule needs its value", given.model(k, w.info('x', ['N', 4]))),
        ('0824', r"axis 0 or a bound is open, and the step is -1", one('Slice', ints(-1), ints(-2**63), ints(0), ints(-1))),
        ('0807', r"dims 'a-b' and 'a\+b' would have one symbol, 'a_b'", both.model(clash, w.info('x', ['a-b']), w.info('b', ['a+b']))),
        ('0103', 'do not broadcast', one('Add', floats(3, 4))),
    ]
    for number, text, data in cases:
        (folder / 'm.onnx').write_bytes(data)
        names = ['a-b', 'a+b'] if 'a-b' in text else ['N']
        process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', *TARGET, *[word for name in names for word in ('--dim', f'{name}=1..8')])
        expect(f'refused: {text}', process.returncode == COMPILE and re.search(rf'\[TSR-{number}\].*{text}', process.stderr), process.stderr)
    (folder / 'm.onnx').write_bytes(one('Relu'))
    process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', *TARGET, *dims_of(N='1..4', M='1..4'))
    expect('a dim that no input has', process.returncode == USAGE and 'no open dim' in process.stderr, process.stderr)
    process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', *TARGET, '--dim', 'N=1..4', '--train', 'y',
                  '--optimizer', 'sgd(lr=0.1)')
    expect('a trained model', process.returncode == USAGE and "dim 'N' has several sizes" in process.stderr, process.stderr)


for check in (check_arithmetic, check_ranges, check_numbers, check_two_dims, check_images_of_sizes, check_expressions, check_refusals):
    with tempfile.TemporaryDirectory() as name:
        check(pathlib.Path(name))
finish()
