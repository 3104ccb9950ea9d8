#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Quantised models written by writer.py become products of integers: imported, built and run on each level of this CPU, with the bits
of the others, and compared with NumPy in int64 and float64.

quantized.py AOT RUN
"""
import pathlib
import sys
import tempfile

import numpy as np

import writer as w

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checks import expect, finish, run  # noqa: E402

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
FLAGS = {'x86-64-v2': 'sse4_2', 'x86-64-v3': 'avx2', 'x86-64-v4': 'avx512vl', 'x86-64-v4-bf16': 'avx512_bf16'}
rng = np.random.default_rng(11)


def levels():
    lines = pathlib.Path('/proc/cpuinfo').read_text(encoding='ascii').splitlines()
    flags = next((line.split() for line in lines if line.startswith('flags')), [])
    return [level for level, flag in FLAGS.items() if flag in flags]


def integers(dtype, *shape):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def results(folder, what, nodes, inputs, outputs, tensors, products):
    """The outputs, which are the same on all levels; the program must have these products, and parameters of bytes."""
    ports = [w.info(name, list(value.shape), value.dtype.name) for name, value in inputs.items()]
    ends = [w.info(name, list(dims), dtype) for name, (dims, dtype) in outputs.items()]
    initializers = [w.tensor(name, np.asarray(value)) for name, value in tensors.items()]
    (folder / 'm.onnx').write_bytes(w.model(w.graph(nodes, ports, ends, initializers), opset=21, ir=10))
    process = run(folder, AOT, 'import', 'm.onnx', '-o', 'm.mlir')
    expect(f'{what}: an import', process.returncode == 0, process.stderr[-2000:])
    text = (folder / 'm.mlir').read_text(encoding='utf-8')
    for product in products:
        expect(f'{what}: {product}', any(product in line and 'i8>' in line for line in text.splitlines()), text)
    expect(f'{what}: weights are bytes', 'tensor' in text and not any('tessera.param' in line and 'f64>' in line for line in text.splitlines()))
    process = run(folder, AOT, 'build', 'm.onnx', '-o', 'm.tsb', '--target=' + ','.join(f'cpu:{level}' for level in levels()))
    expect(f'{what}: a build', process.returncode == 0, process.stderr[-2000:])
    for name, value in inputs.items():
        np.save(folder / f'{name}.npy', value)
    words = [word for name in inputs for word in ('--input', f'{name}={name}.npy')]
    words += [word for name in outputs for word in ('--output', f'{name}={name}.out.npy')]
    first = None
    for level in levels():
        process = run(folder, RUN, 'm.tsb', '--cpu', level, *words)
        expect(f'{what}: a call on {level}', process.returncode == 0, process.stderr[-500:])
        got = [np.load(folder / f'{name}.out.npy') for name in outputs]
        first = first or got
        expect(f'{what}: the same bits on {level}', all(a.tobytes() == b.tobytes() for a, b in zip(first, got)))
    check_export(folder, what, words, first, outputs)
    return first


def check_export(folder, what, words, wanted, outputs):
    process = run(folder, AOT, 'export', 'm.tsb', '-o', 'back.onnx')
    expect(f'{what}: an export', process.returncode == 0, process.stderr[-2000:])
    process = run(folder, AOT, 'build', 'back.onnx', '-o', 'back.tsb', '--target=cpu:x86-64-v3')
    expect(f'{what}: its build', process.returncode == 0, process.stderr[-2000:])
    process = run(folder, RUN, 'back.tsb', *words)
    got = [np.load(folder / f'{name}.out.npy') for name in outputs]
    expect(f'{what}: the same bits again', process.returncode == 0 and all(a.tobytes() == b.tobytes() for a, b in zip(wanted, got)), process.stderr)


def conv(x, f, stride, pad, fill):
    x = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(x - fill, f.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum('nchwij,fcij->nfhw', windows, f.astype(np.int64))


def check_integer_products(folder):
    a, b = integers('uint8', 9, 37), integers('int8', 37, 21)
    y, = results(folder, 'MatMulInteger', [w.node('MatMulInteger', ['a', 'b', 'p'], ['y'])], {'a': a}, {'y': ((9, 21), 'int32')},
                 {'b': b, 'p': np.uint8(113)}, ['tessera.matmul'])
    expect('MatMulInteger', np.array_equal(y, (a.astype(np.int64) - 113) @ b.astype(np.int64)))
    a, b, q = integers('int8', 2, 9, 37), integers('uint8', 37, 21), integers('uint8', 21)
    y, = results(folder, 'both zero points', [w.node('MatMulInteger', ['a', 'b', 'p', 'q'], ['y'])], {'a': a}, {'y': ((2, 9, 21), 'int32')},
                 {'b': b, 'p': np.int8(-7), 'q': q}, ['tessera.matmul'])
    expect('both zero points', np.array_equal(y, (a.astype(np.int64) + 7) @ (b.astype(np.int64) - q)))
    x, f = integers('uint8', 2, 6, 9, 8), integers('int8', 10, 6, 3, 3)
    for what, zero in (('a zero point', {'p': np.uint8(99)}), ('no zero point', {'p': np.uint8(0)}), ('a zero point that is an input', {})):
        node = w.node('ConvInteger', ['x', 'f', 'p'], ['y'], pads=[1, 1, 1, 1], strides=[2, 2])
        given = {} if zero else {'p': np.array(99, np.uint8)}
        y, = results(folder, f'ConvInteger, {what}', [node], {'x': x} | given, {'y': ((2, 10, 5, 4), 'int32')}, {'f': f} | zero, ['tessera.conv2d'])
        expect(f'ConvInteger, {what}', np.array_equal(y, conv(x, f, 2, 1, int((zero | given)['p']))))


def check_scaled(folder):
    a, b = integers('uint8', 9, 64), integers('int8', 64, 21)
    scales = rng.uniform(0.01, 0.02, 21).astype(np.float32)
    tensors = {'as': np.float32(0.03), 'az': np.uint8(130), 'b': b, 'bs': scales, 'bz': np.zeros(21, np.int8), 'ys': np.float32(0.5), 'yz': np.uint8(121)}
    y, = results(folder, 'QLinearMatMul', [w.node('QLinearMatMul', ['a', 'as', 'az', 'b', 'bs', 'bz', 'ys', 'yz'], ['y'])], {'a': a},
                 {'y': ((9, 21), 'uint8')}, tensors, ['tessera.matmul'])
    exact = ((a.astype(np.int64) - 130) @ b.astype(np.int64)) * (np.float64(np.float32(0.03)) * scales) / 0.5
    expect('QLinearMatMul', np.abs(np.clip(exact + 121, 0, 255) - y).max() < 0.51, y)
    x, f, bias = integers('int8', 1, 8, 7, 7), integers('int8', 12, 8, 3, 3), integers('int16', 12).astype(np.int32)
    scales = rng.uniform(0.01, 0.02, 12).astype(np.float32)
    tensors = {'xs': np.float32(0.02), 'xz': np.int8(-128), 'f': f, 'fs': scales, 'fz': np.zeros(12, np.int8), 'ys': np.float32(0.4),
               'yz': np.int8(3), 'b': bias}
    node = w.node('QLinearConv', ['x', 'xs', 'xz', 'f', 'fs', 'fz', 'ys', 'yz', 'b'], ['y'], pads=[1, 1, 1, 1])
    y, = results(folder, 'QLinearConv', [node], {'x': x}, {'y': ((1, 12, 7, 7), 'int8')}, tensors, ['tessera.conv2d'])
    exact = (conv(x, f, 1, 1, -128) + bias[None, :, None, None]) * (0.02 * scales[None, :, None, None].astype(np.float64)) / np.float64(np.float32(0.4))
    expect('QLinearConv', np.abs(np.clip(exact + 3, -128, 127) - y).max() < 0.51, y)


def check_pairs_of_nodes(folder):
    """Conv and Gemm between DequantizeLinear and QuantizeLinear, as quantisers leave them."""
    x, f, m = integers('uint8', 2, 8, 6, 6), integers('int8', 16, 8, 3, 3), integers('int8', 5, 16)
    fs, ms = rng.uniform(0.005, 0.01, 16).astype(np.float32), rng.uniform(0.005, 0.01, 5).astype(np.float32)
    bias = integers('int16', 16).astype(np.int32)
    xs, ys = np.float32(0.03), np.float32(0.25)
    tensors = {'xs': xs, 'xz': np.uint8(128), 'f': f, 'fs': fs, 'fz': np.zeros(16, np.int8), 'b': bias, 'bs': xs * fs, 'bz': np.zeros(16, np.int32),
               'ys': ys, 'yz': np.uint8(0), 'm': m, 'ms': ms, 'mz': np.zeros(5, np.int8), 'c': rng.standard_normal(5).astype(np.float32)}
    nodes = [w.node('DequantizeLinear', ['x', 'xs', 'xz'], ['xf']), w.node('DequantizeLinear', ['f', 'fs', 'fz'], ['ff'], axis=0),
             w.node('DequantizeLinear', ['b', 'bs', 'bz'], ['bf'], axis=0), w.node('Conv', ['xf', 'ff', 'bf'], ['d'], pads=[1, 1, 1, 1]),
             w.node('Relu', ['d'], ['r']), w.node('QuantizeLinear', ['r', 'ys', 'yz'], ['rq']),
             w.node('DequantizeLinear', ['rq', 'ys', 'yz'], ['rf']), w.node('GlobalAveragePool', ['rf'], ['g']), w.node('Flatten', ['g'], ['h']),
             w.node('QuantizeLinear', ['h', 'ys', 'yz'], ['hq']), w.node('DequantizeLinear', ['hq', 'ys', 'yz'], ['hf']),
             w.node('DequantizeLinear', ['m', 'ms', 'mz'], ['mf'], axis=0), w.node('Gemm', ['hf', 'mf', 'c'], ['y'], transB=1)]
    hq, y = results(folder, 'pairs', nodes, {'x': x}, {'hq': ((2, 16), 'uint8'), 'y': ((2, 5), 'float32')}, tensors, ['tessera.conv2d', 'tessera.matmul'])
    exact = (conv(x, f, 1, 1, 128) + bias[None, :, None, None]) * (np.float64(xs) * fs[None, :, None, None])
    r = np.clip(np.round(np.maximum(exact, 0) / ys), 0, 255)
    expect('pairs: Conv', np.abs(np.clip(r.mean(axis=(2, 3)), 0, 255) - hq).max() < 0.6, hq)
    wanted = (hq.astype(np.int64) @ m.astype(np.int64).T) * (np.float64(ys) * ms) + tensors['c']
    expect('pairs: Gemm', np.allclose(y, wanted, rtol=1e-6, atol=1e-6), y - wanted)
    size = (folder / 'm.safetensors').stat().st_size
    expect('pairs: weights stay bytes', size < f.size + m.size + 4096, size)


def check_example(folder):
    """The quantised perceptron gives almost what the one in f32 gives."""
    root, values = pathlib.Path(__file__).resolve().parents[2] / 'examples', []
    images = str(root / 'digits' / 'test-images.npy')
    for name in ('mlp', 'mlp-int8'):
        process = run(folder, AOT, 'build', str(root / 'onnx' / f'{name}.onnx'), '-o', 'm.tsb', '--target=cpu:x86-64-v3', '--dim', 'N=359')
        expect(f'{name}: a build', process.returncode == 0, process.stderr)
        process = run(folder, RUN, 'm.tsb', '--input', f'x={images}', '--output', 'y=y.npy')
        expect(f'{name}: a call', process.returncode == 0, process.stderr)
        values.append(np.load(folder / 'y.npy'))
    far = np.abs(values[0] - values[1]).max() / np.abs(values[0]).max()
    expect('the quantised example', 0 < far < 0.09, far)  # ONNX Runtime: 0.080, with these bits
    expect('its classes', np.mean(values[0].argmax(1) == values[1].argmax(1)) > 0.95)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_integer_products(folder)
        check_scaled(folder)
        check_pairs_of_nodes(folder)
        check_example(folder)
    finish()


main()
