#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ops against ONNX Runtime: those of domain com.microsoft, which its optimizer makes, and others in forms that ONNX's own cases lack.

fused.py AOT RUN

Exits with 77 where the packages onnx and onnxruntime are not installed.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)

AOT, RUN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
PLAIN = ('ConvTranspose', 'DeformConv', 'Det', 'RoiAlign')
DTYPES = {'float32': TensorProto.FLOAT, 'int32': TensorProto.INT32, 'int64': TensorProto.INT64}
# Both compute in f32; sums have up to 64 terms.
RTOL, ATOL = 1e-4, 2e-5
rng = np.random.default_rng(11)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ids(high, *shape):
    return rng.integers(0, high, shape).astype(np.int32)


def make(op, inputs, outputs, attributes):
    """`inputs`: (name, array) or None where one is absent."""
    names = ['' if i is None else i[0] for i in inputs]
    infos = [helper.make_tensor_value_info(name, DTYPES[a.dtype.name], a.shape) for name, a in filter(None, inputs)]
    node = helper.make_node(op, names, outputs, domain='' if op in PLAIN else 'com.microsoft', **attributes)
    made = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    graph = helper.make_graph([node], 'g', infos, made)
    opsets = [helper.make_opsetid('', 20), helper.make_opsetid('com.microsoft', 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def reference(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])
    return session.run(None, dict(filter(None, inputs)))


def typed(model, results):
    """The model with the types of its outputs, as exporters write them."""
    for info, value in zip(list(model.graph.output), results):
        info.CopyFrom(helper.make_tensor_value_info(info.name, DTYPES[value.dtype.name], value.shape))
    return model


def ours(folder, model, inputs):
    (folder / 'm.onnx').write_bytes(model.SerializeToString())
    process = subprocess.run([AOT, 'build', 'm.onnx', '-o', 'm.tsb', '--target=cpu:x86-64-v2'], cwd=folder, capture_output=True, text=True)
    if process.returncode:
        return process.stderr
    command = [RUN, 'm.tsb']
    for name, value in filter(None, inputs):
        np.save(folder / f'{name}.npy', value)
        command += ['--input', f'{name}={name}.npy']
    names = [info.name for info in model.graph.output]
    command += [word for name in names for word in ('--output', f'{name}={name}.out.npy')]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return process.stderr if process.returncode else [np.load(folder / f'{name}.out.npy') for name in names]


def check(op, inputs, outputs=('y',), **attributes):
    """None, or what is wrong."""
    model = make(op, inputs, outputs, attributes)
    wanted = reference(model, inputs)
    with tempfile.TemporaryDirectory() as name:
        got = ours(pathlib.Path(name), typed(model, wanted), inputs)
    if isinstance(got, str):
        return got
    for output, a, b in zip(filter(None, outputs), got, wanted):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f'{output}: {a.dtype}{a.shape}, expected {b.dtype}{b.shape}'
        if not np.allclose(a, b, rtol=RTOL, atol=ATOL):
            return f'{output}: off by {np.abs(a.astype(np.float64) - b).max():g}'
    return None


def cases():
    x, image, filter_ = ('x', floats(2, 5, 16)), ('x', floats(1, 4, 9, 8)), ('w', floats(6, 4, 3, 3))
    bias = ('b', floats(16))
    yield 'Gelu', [x], {}
    yield 'BiasGelu', [x, bias], {}
    yield 'FastGelu', [x], {}
    yield 'FastGelu', [x, bias], {}
    yield 'QuickGelu', [x], {}
    yield 'QuickGelu', [x], {'alpha': 1.3}
    yield 'FusedMatMul', [('a', floats(3, 7, 5)), ('c', floats(3, 7, 6))], {'transA': 1, 'alpha': 0.5}
    yield 'FusedMatMul', [('a', floats(3, 5, 7)), ('c', floats(3, 6, 7))], {'transB': 1}
    for activation, more in (('Relu', {}), ('Tanh', {}), ('Sigmoid', {}), ('LeakyRelu', {'activation_params': [0.2]}),
                             ('Clip', {'activation_params': [-0.5, 1.5]}), ('HardSigmoid', {'activation_params': [0.3, 0.4]})):
        yield 'FusedConv', [image, filter_, ('b', floats(6))], {'activation': activation, 'pads': [1, 1, 1, 1], **more}
    yield 'FusedConv', [image, filter_, ('b', floats(6)), ('z', floats(1, 6, 7, 6))], {'activation': 'Relu'}
    gemm = [('a', floats(4, 7)), ('c', floats(5, 7)), ('b', floats(5))]
    yield 'FusedGemm', gemm, {'transB': 1, 'activation': 'Relu', 'alpha': 0.7, 'beta': 1.5}
    yield 'FusedGemm', gemm, {'transB': 1, 'activation': 'LeakyRelu', 'activation_alpha': 0.3}
    norm = [x, ('s', floats(2, 5, 16)), ('g', floats(16)), ('h', floats(16)), bias]
    yield 'SkipLayerNormalization', norm, {'epsilon': 1e-5, 'outputs': ('y', '', '', 'sum')}
    yield 'SkipLayerNormalization', norm[:4], {'epsilon': 1e-5}
    yield 'SkipSimplifiedLayerNormalization', [*norm[:3], bias], {'epsilon': 1e-5, 'outputs': ('y', '', '', 'sum')}
    words = [('i', ids(20, 2, 5)), ('t', ids(2, 2, 5)), ('words', floats(20, 16)), ('at', floats(9, 16)), ('kinds', floats(2, 16)),
             ('g', floats(16)), ('h', floats(16))]
    mask = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
    yield 'EmbedLayerNormalization', [*words, ('m', mask)], {'epsilon': 1e-5, 'outputs': ('y', 'lengths', 'sum')}
    yield 'EmbedLayerNormalization', [words[0], None, *words[2:4], None, *words[5:]], {'epsilon': 1e-5, 'outputs': ('y', 'lengths')}
    packed = [x, ('w', floats(16, 48)), ('b', floats(48))]
    yield 'Attention', packed, {'num_heads': 4}
    yield 'Attention', [*packed, ('m', mask)], {'num_heads': 4}
    yield 'Attention', [*packed, ('m', np.array([3, 5], np.int32))], {'num_heads': 2}
    yield 'Attention', packed, {'num_heads': 4, 'unidirectional': 1, 'scale': 0.3}
    yield 'Attention', [*packed, None, ('p', floats(2, 2, 4, 3, 4))], {'num_heads': 4, 'unidirectional': 1, 'outputs': ('y', 'present')}
    yield 'Attention', [*packed, None, None, ('bias', floats(2, 4, 5, 5))], {'num_heads': 4}
    heads = [('q', floats(2, 5, 16)), ('k', floats(2, 7, 16)), ('v', floats(2, 7, 24))]
    yield 'MultiHeadAttention', heads, {'num_heads': 4}
    yield 'MultiHeadAttention', [*heads, ('b', floats(56))], {'num_heads': 4, 'scale': 0.2}
    yield 'MultiHeadAttention', [*heads, None, ('m', (rng.random((2, 7)) < 0.7).astype(np.int32))], {'num_heads': 4}
    yield 'MultiHeadAttention', [*heads, None, None, ('bias', floats(1, 4, 5, 7))], {'num_heads': 4}


    boxes = ('r', np.array([[1, 2, 9, 7.5], [-3, -2, 4, 20], [0, 0, 0.5, 0.25], [5, 1, 12, 3]], np.float32))
    regions = [('x', floats(3, 2, 11, 8)), boxes, ('i', np.array([2, 0, 1, 2], np.int64))]
    for mode in ('avg', 'max'):
        for by in ('half_pixel', 'output_half_pixel'):
            yield 'RoiAlign', regions, {'mode': mode, 'coordinate_transformation_mode': by, 'output_height': 3, 'output_width': 4,
                                        'sampling_ratio': 3, 'spatial_scale': 0.7}
    deformed = [('x', floats(2, 8, 9, 7)), ('w', floats(6, 4, 3, 2)), ('o', floats(2, 24, 4, 5)), ('b', floats(6)),
                ('m', rng.random((2, 12, 4, 5)).astype(np.float32))]
    yield 'DeformConv', deformed, {'group': 2, 'offset_group': 2, 'strides': [2, 1], 'dilations': [1, 2], 'pads': [0, 0, 1, 0]}
    yield 'DeformConv', deformed[:3], {'group': 2, 'offset_group': 2, 'strides': [2, 1], 'dilations': [1, 2], 'pads': [0, 0, 1, 0]}
    yield 'Det', [('x', floats(4, 6, 6))], {}
    yield 'ConvTranspose', [('x', floats(2, 4, 3, 5, 4)), ('w', floats(4, 3, 2, 3, 3)), ('b', floats(6))], \
        {'group': 2, 'strides': [2, 1, 2], 'pads': [0, 1, 1, 1, 1, 0], 'output_padding': [1, 0, 1], 'dilations': [2, 1, 1]}


def main():
    count = failed = 0
    for op, inputs, attributes in cases():
        outputs = attributes.pop('outputs', ('y',))
        wrong = check(op, inputs, outputs, **attributes)
        count += 1
        if wrong:
            failed += 1
            print(f'FAILED: {op} {attributes} of {[i and i[0] for i in inputs]}: {wrong}')
    print(f'{count} nodes, {failed} failed')
    return failed > 0


sys.exit(main())
