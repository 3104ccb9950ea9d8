#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bundles are exported as ONNX models: they have the same bits when they are imported again, and the package onnx and ONNX Runtime, where
they are installed, accept and run them.

exporting.py AOT RUN
"""
import pathlib
import re
import sys
import tempfile

import numpy as np

import writer as w

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish, run  # noqa: E402

try:
    import onnx
    import onnxruntime
except ImportError:
    onnx = onnxruntime = None

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = '--target=cpu:x86-64-v2'
USAGE, COMPILE = 6, 9
rng = np.random.default_rng(13)


def build(folder, source, out, *words):
    process = run(folder, AOT, 'build', source, '-o', out, TARGET, *words)
    expect(f'a build of {source}', process.returncode == 0, process.stderr)


def export(folder, bundle, out, *words):
    process = run(folder, AOT, 'export', bundle, '-o', out, *words)
    expect(f'an export of {bundle}', process.returncode == 0, process.stderr)
    return process.returncode == 0


def call(folder, bundle, inputs, outputs, *words):
    for name, value in inputs.items():
        np.save(folder / f'{name}.in.npy', value)
    flags = [word for name in inputs for word in ('--input', f'{name}={name}.in.npy')]
    flags += [word for name in outputs for word in ('--output', f'{name}={name}.out.npy')]
    process = run(folder, RUN, bundle, *flags, *words)
    expect(f'a call of {bundle}', process.returncode == 0, process.stderr)
    return [np.load(folder / f'{name}.out.npy') for name in outputs] if process.returncode == 0 else None


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def judge(what, path, inputs, outputs, want, rtol=1e-4):
    """The package onnx, and ONNX Runtime."""
    if not onnx:
        return
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
    found = session.run(outputs, inputs)
    for name, one, other in zip(outputs, found, want):
        same = one.shape == other.shape and one.dtype == other.dtype and np.allclose(one, other, rtol=rtol, atol=1e-4, equal_nan=True)
        expect(f'{what}: {name} of ONNX Runtime', same, one, other)


def round_trip(what, folder, inputs, outputs, *words, judged=True):
    """m.onnx, as it is built and called; exported, built and called again. ONNX Runtime has not all ops: judged or not."""
    build(folder, 'm.onnx', 'm.tsb', *words)
    first = call(folder, 'm.tsb', inputs, outputs)
    for flags in ((), ('--external',)):
        for path in folder.glob('back.*'):
            path.unlink()
        if not export(folder, 'm.tsb', 'back.onnx', *flags):
            return
        files = {path.name for path in folder.glob('back.*')}
        expect(f'{what}: files', files == {'back.onnx', *(['back.onnx.data'] if flags else [])}, files)
        build(folder, 'back.onnx', 'back.tsb')
        second = call(folder, 'back.tsb', inputs, outputs)
        same = first and second and all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(first, second))
        expect(f'{what} {flags}: the same bits', same, first, second)
        if judged:
            judge(what, folder / 'back.onnx', inputs, outputs, first)


def model(nodes, inputs, outputs, tensors, opset=23):
    return w.model(w.graph(nodes, inputs, outputs, [w.tensor(name, np.asarray(value)) for name, value in tensors.items()]), opset=opset, ir=11)


# ---- models ----


def check_perceptron(folder):
    p = {'a.w': floats(8, 16), 'a.b': floats(16), 'b.w': floats(4, 16), 'scale': np.float32(0.5)}
    nodes = [w.node('MatMul', ['x', 'a.w'], ['a']), w.node('Add', ['a', 'a.b'], ['b']), w.node('Relu', ['b'], ['c']),
             w.node('Gemm', ['c', 'b.w'], ['d'], transB=1), w.node('Mul', ['d', 'scale'], ['e']), w.node('Softmax', ['e'], ['y'], axis=1)]
    (folder / 'm.onnx').write_bytes(model(nodes, [w.info('x', ['N', 8])], [w.info('y', ['N', 4]), w.info('e', ['N', 4])], p))
    round_trip('a perceptron', folder, {'x': floats(3, 8)}, ['y', 'e'], '--dim', 'N=3')
    if onnx:
        names = {tensor.name for tensor in onnx.load(folder / 'back.onnx').graph.initializer}
        expect('names of parameters', {'a.w', 'a.b', 'b.w'} <= names, names)


def check_images(folder):
    p = {'c1.w': floats(8, 3, 3, 3) / 4, 'c1.b': floats(8), 'c2.w': floats(8, 4, 3, 3) / 8, 's': 1 + floats(8) / 4, 'b': floats(8), 'm': floats(8),
         'v': 1 + floats(8)**2, 'fc.w': floats(5, 8)}
    nodes = [w.node('Conv', ['x', 'c1.w', 'c1.b'], ['a'], pads=[1, 0, 1, 2], strides=[2, 1]),
             w.node('BatchNormalization', ['a', 's', 'b', 'm', 'v'], ['n']), w.node('Relu', ['n'], ['r']),
             w.node('Conv', ['r', 'c2.w'], ['d'], pads=[2, 2, 2, 2], dilations=[2, 2], group=2),
             w.node('MaxPool', ['d'], ['u'], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0]),
             w.node('AveragePool', ['u'], ['q'], kernel_shape=[2, 2], strides=[1, 1]), w.node('GlobalAveragePool', ['q'], ['g']),
             w.node('Flatten', ['g'], ['f']), w.node('Gemm', ['f', 'fc.w'], ['y'], transB=1)]
    (folder / 'm.onnx').write_bytes(model(nodes, [w.info('x', [2, 3, 16, 15])], [w.info('y', [2, 5]), w.info('u', [2, 8, 4, 7])], p))
    round_trip('images', folder, {'x': floats(2, 3, 16, 15)}, ['y', 'u'])


def check_transformer(folder):
    width, length, words = 16, 6, 11
    p = {'e': floats(words, width), 's': 1 + floats(width) / 4, 'b': floats(width), 'r': 1 + floats(width) / 4,
         **{name: floats(width, width) / 4 for name in 'qkvo'}, 'up': floats(width, 32) / 4, 'down': floats(32, width) / 4,
         'heads': np.array([2, length, 2, width // 2]), 'flat': np.array([2, length, width])}
    nodes = [w.node('Gather', ['e', 'x'], ['h'], axis=0), w.node('LayerNormalization', ['h', 's', 'b'], ['n'], axis=-1)]
    for name in 'qkv':
        nodes += [w.node('MatMul', ['n', name], [f'{name}1']), w.node('Reshape', [f'{name}1', 'heads'], [f'{name}2']),
                  w.node('Transpose', [f'{name}2'], [f'{name}3'], perm=[0, 2, 1, 3])]
    nodes += [w.node('Attention', ['q3', 'k3', 'v3'], ['a'], is_causal=1), w.node('Transpose', ['a'], ['a1'], perm=[0, 2, 1, 3]),
              w.node('Reshape', ['a1', 'flat'], ['a2']), w.node('MatMul', ['a2', 'o'], ['a3']), w.node('Add', ['h', 'a3'], ['h1']),
              w.node('RMSNormalization', ['h1', 'r'], ['m'], axis=-1), w.node('MatMul', ['m', 'up'], ['m1']), w.node('Gelu', ['m1'], ['m2']),
              w.node('MatMul', ['m2', 'down'], ['m3']), w.node('Add', ['h1', 'm3'], ['y'])]
    data = model(nodes, [w.info('x', [2, length], 'int64')], [w.info('y', [2, length, width])], p)
    (folder / 'm.onnx').write_bytes(data)
    round_trip('a transformer', folder, {'x': rng.integers(0, words, (2, length))}, ['y'])


def check_ops(folder):
    """Each op alone."""
    f, g, k = floats(4, 6), floats(6), rng.integers(-3, 6, (4, 6))
    lists = {name: np.array(value) for name, value in (('one', [1]), ('both', [0, 1]), ('begin', [3, 1]), ('end', [0, 6]), ('step', [-1, 2]),
                                                       ('to', [2, 12]), ('wide', [2, 4, 6]), ('pads', [1, 0, 0, 2]), ('parts', [2, 4]))}
    unary = ['Neg', 'Exp', 'Tanh', 'Abs', 'Erf', 'Sigmoid', 'Softplus', 'Softsign', 'Sign', 'Floor', 'Relu', 'Identity', 'Sin', 'Cos', 'Tan', 'Atan', 'Ceil', 'Round']
    cases = [(op, ['x'], {}) for op in unary] + [(op, ['x', 'g'], {}) for op in ('Add', 'Sub', 'Mul', 'Div', 'Max', 'Min')]
    cases += [(op, ['x', 'one'], {}) for op in ('ReduceSum', 'ReduceMean', 'ReduceMax', 'ReduceMin', 'ReduceProd', 'ReduceLogSumExp')]
    cases += [('Clip', ['x', 'low', 'high'], {}), ('Gelu', ['x'], {'approximate': 'tanh'}), ('Celu', ['x'], {'alpha': 2.0}), ('ArgMax', ['x'], {'axis': 1}),
              ('CumSum', ['x', 'axis'], {'exclusive': 1, 'reverse': 1}), ('Transpose', ['x'], {'perm': [1, 0]}), ('Reshape', ['x', 'to'], {}),
              ('Expand', ['x', 'wide'], {}), ('Pad', ['x', 'pads', 'low'], {}), ('Concat', ['x', 'x'], {'axis': 1}), ('Softmax', ['x'], {'axis': 0}),
              ('LogSoftmax', ['x'], {'axis': 1}), ('LayerNormalization', ['x', 'g'], {'axis': 1}), ('Cast', ['x'], {'to': 11}), ('Greater', ['x', 'g'], {}),
              ('Equal', ['x', 'x'], {}), ('LessOrEqual', ['x', 'g'], {}), ('Gather', ['x', 'one'], {'axis': 1}), ('Trilu', ['x'], {}),
              ('OneHot', ['one', 'depth', 'values'], {})]
    more = {'low': np.float32(-0.5), 'high': np.float32(0.5), 'axis': np.int64(1), 'g': g, 'depth': np.int64(4), 'values': np.array([0, 1], np.float32)}
    for op, inputs, attributes in cases:
        tensors = {name: value for name, value in {**lists, **more}.items() if name in inputs}
        nodes = [w.node(op, inputs, ['z'], **attributes), w.node('Identity', ['x'], ['same']), w.node('Identity', ['z'], ['y'])]
        (folder / 'm.onnx').write_bytes(model(nodes, [w.info('x', [4, 6])], [w.info('y', []), w.info('same', [])], tensors))
        round_trip(op, folder, {'x': f}, ['y', 'same'])
    nodes = [w.node('Slice', ['x', 'begin', 'end', 'both', 'step'], ['s']), w.node('Split', ['x', 'parts'], ['p', 'q'], axis=1),
             w.node('Less', ['x', 'zero'], ['c']), w.node('Not', ['c'], ['d']), w.node('Where', ['d', 'x', 'k'], ['o']), w.node('Mod', ['x', 'five'], ['m']),
             w.node('And', ['c', 'd'], ['e']), w.node('BitwiseXor', ['x', 'five'], ['b']), w.node('BitwiseNot', ['b'], ['i'])]
    (folder / 'm.onnx').write_bytes(model(nodes, [w.info('x', [4, 6], 'int64'), w.info('k', [6], 'int64')],
                                          [w.info(name, [], 'int64') for name in 'spqomcdebi'],
                                          {**lists, 'zero': np.int64(0), 'five': np.int64(5)}))
    round_trip('integers', folder, {'x': k, 'k': rng.integers(0, 9, 6)}, list('spqomcdebi'))
    nodes = [w.node('BitShift', ['x', 'five'], ['l'], direction='LEFT'), w.node('BitShift', ['x', 'five'], ['r'], direction='RIGHT'),
             w.node('BitCast', ['x'], ['u'], to=11)]
    outputs = [w.info('l', [], 'uint64'), w.info('r', [], 'uint64'), w.info('u', [], 'float64')]
    (folder / 'm.onnx').write_bytes(model(nodes, [w.info('x', [4, 6], 'uint64')], outputs, {'five': np.uint64(5)}, opset=28))
    round_trip('bits', folder, {'x': k.astype(np.uint64)}, list('lru'), judged=False)


# ---- programs of ours ----


def check_programs(folder):
    data = ROOT / 'examples' / 'digits'
    build(folder, str(data / 'digits.mlir'), 'd.tsb')
    process = run(folder, RUN, 'd.tsb', '--data', f'images={data}/train-images.npy', '--data', f'labels={data}/train-labels.npy', '--steps', '30',
                  '--state-dir', 'S')
    expect('a run', process.returncode == 0, process.stderr)
    x = np.load(data / 'test-images.npy')[:64]
    for words, flags in (((), ()), (('--state-dir', 'S'), ('--state-dir', 'S'))):
        want = call(folder, 'd.tsb', {'x': x}, ['y'], '--entry', 'predict', *words)
        if export(folder, 'd.tsb', 'd.onnx', *flags):
            build(folder, 'd.onnx', 'again.tsb')
            found = call(folder, 'again.tsb', {'x': x}, ['y'])
            expect(f'digits {flags}', found[0].tobytes() == want[0].tobytes(), found, want)
            judge('digits', folder / 'd.onnx', {'x': x}, ['y'], want)
    (folder / 'open.mlir').write_text('''func.func @predict(%x: tensor<?x4x6xf32, #tessera.dims<N>> {tessera.name = "x"})
    -> (tensor<?x24xf32, #tessera.dims<N>> {tessera.name = "y"}) attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
  %w = tessera.param "w" init = #tessera.uniform<-1.0, 1.0> : tensor<6xf32>
  %a = tessera.add %x, %w : (tensor<?x4x6xf32, #tessera.dims<N>>, tensor<6xf32>)
  %y = tessera.reshape %a : tensor<?x4x6xf32, #tessera.dims<N>> -> tensor<?x24xf32, #tessera.dims<N>>
  return %y : tensor<?x24xf32, #tessera.dims<N>>
}
''')
    build(folder, 'open.mlir', 'o.tsb', '--dim', 'N=3')
    x = floats(3, 4, 6)
    want = call(folder, 'o.tsb', {'x': x}, ['y'])
    if export(folder, 'o.tsb', 'o.onnx'):
        build(folder, 'o.onnx', 'o2.tsb', '--dim', 'N=3')
        found = call(folder, 'o2.tsb', {'x': x}, ['y'])
        expect('a named dim', found[0].tobytes() == want[0].tobytes(), found, want)
        judge('a named dim', folder / 'o.onnx', {'x': x}, ['y'], want)
        process = run(folder, AOT, 'build', 'o.onnx', '-o', 'o3.tsb', TARGET)
        expect('the dim is open', process.returncode == COMPILE and "dim 'N' has no size" in process.stderr, process.stderr)


def check_full_disk(folder):
    """If the model cannot be written, the file of its parameters stays, too."""
    big = floats(1 << 18)  # stands in the model: a constant
    nodes = [w.node('Constant', [], ['big'], value=big), w.node('Mul', ['x', 'w'], ['a']), w.node('Add', ['a', 'big'], ['y'])]
    for weight in (1.0, 2.0):
        (folder / 'm.onnx').write_bytes(model(nodes, [w.info('x', [1])], [w.info('y', [1 << 18])], {'w': np.array([weight], np.float32)}))
        build(folder, 'm.onnx', f'{weight}.tsb')
    export(folder, '1.0.tsb', 'y.onnx', '--external')
    before = {path.name: path.read_bytes() for path in folder.glob('y.onnx*')}
    process = run(folder, 'sh', '-c', 'ulimit -f 1024; exec "$@"', 'sh', AOT, 'export', '2.0.tsb', '-o', 'y.onnx', '--external')
    expect('no space for the model', process.returncode != 0 and 'y.onnx' in process.stderr, process.returncode, process.stderr)
    expect('nothing has changed', len(before) == 2 and before == {path.name: path.read_bytes() for path in folder.glob('y.onnx*')})


def check_refusals(folder):
    def program(body, name='main', kind='infer', result='tensor<4xf32>'):
        return (f'func.func @{name}(%x: tensor<4xf32> {{tessera.name = "x"}}) -> ({result} {{tessera.name = "y"}}) attributes '
                f'{{tessera.entry = "{kind}"}} {{\n{body}\n  return %y : {result}\n}}\n')
    relu = '  %y = tessera.relu %x : tensor<4xf32>'
    signed = '  %n = tessera.cast %x : tensor<4xf32> -> tensor<4xi64>\n  %y = tessera.shift_left %n, %n : tensor<4xi64>'
    wide = '  %d = tessera.cast %x : tensor<4xf32> -> tensor<4xf64>\n'
    cases = [
        (program(signed, result='tensor<4xi64>'), (), COMPILE, r'TSR-0820\] tessera.shift_left: .* its operands are i64, and ONNX shifts unsigned integers only'),
        (program(wide + '  %y = tessera.celu %d {alpha = 0.1} : tensor<4xf64>', result='tensor<4xf64>'), (), COMPILE, 'its alpha, 0.1, needs f64'),
        (program('  %y = tessera.expm1 %x : tensor<4xf32>'), (), COMPILE, r'TSR-0820\] tessera.expm1: it has no form in ONNX'),
        (program('  %y = tessera.param "x" init = #tessera.constant<1.0> : tensor<4xf32>'), (), COMPILE, "name 'x' of a parameter is also that of another value"),
        (program(relu) + program(relu, 'other'), (), USAGE, r'has 2 entries of kind "infer" \(main, other\); choose one with --entry'),
        (program(relu) + program(relu, 'other'), ('--entry', 'third'), USAGE, "--entry 'third' is not an entry of kind .infer.; known are: main, other"),
        (program(relu), ('-o', 'y.txt'), USAGE, "does not end in .onnx"), (program(relu), ('--state-dir', 'none'), None, 'none'),
    ]
    for text, words, code, message in cases:
        (folder / 'p.mlir').write_text(text)
        build(folder, 'p.mlir', 'p.tsb')
        out = () if '-o' in words else ('-o', 'y.onnx')
        process = run(folder, AOT, 'export', 'p.tsb', *out, *words)
        expect(f'refused: {message}', process.returncode == code or code is None and process.returncode, process.returncode, process.stderr)
        expect(f'why: {message}', re.search(message, process.stderr), process.stderr)
    process = run(folder, AOT, 'export', 'p.tsb')
    expect('no output', process.returncode == USAGE and '-o OUT is missing' in process.stderr, process.stderr)
    process = run(folder, AOT, 'export', 'none.tsb', '-o', 'y.onnx')
    expect('no bundle', process.returncode != 0 and 'none.tsb' in process.stderr, process.stderr)
    files = sorted(path.name for path in folder.iterdir())
    expect('nothing is left', files == ['p.mlir', 'p.tsb'], files)
    (folder / 'p.mlir').write_text(program(relu) + program('  %y = tessera.neg %x : tensor<4xf32>', 'other'))
    build(folder, 'p.mlir', 'p.tsb')
    if export(folder, 'p.tsb', 'y.onnx', '--entry', 'other'):
        build(folder, 'y.onnx', 'y.tsb')
        expect('the chosen entry', call(folder, 'y.tsb', {'x': np.arange(4, dtype=np.float32)}, ['y'])[0][1] == -1)


for check in (check_perceptron, check_images, check_transformer, check_ops, check_programs, check_full_disk, check_refusals):
    with tempfile.TemporaryDirectory() as name:
        check(pathlib.Path(name))
finish(*[] if onnx else ['without onnxruntime, nothing else judged the models'])
