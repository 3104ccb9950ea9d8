#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the models of the gallery, with their inputs and the outputs of their framework.

export.py FOLDER [NAME ...]

Writes FOLDER/NAME/model.onnx, in0.npy ..., out.npy; for some models also FOLDER/NAME-int8, quantised by ONNX Runtime: convolutions
with scales from the inputs (pairs of QuantizeLinear and DequantizeLinear), other models with scales from each call.
"""
import pathlib
import sys
import warnings

import numpy as np
import onnx
import torch

import models


def export(folder, name):
    model, inputs = models.make(name)
    folder.mkdir(parents=True, exist_ok=True)
    path, names = folder / 'model.onnx', [f'in{i}' for i in range(len(inputs))]
    with torch.no_grad():
        wanted = model(*inputs)
        torch.onnx.export(model, inputs, str(path), input_names=names, output_names=['out'], dynamo=True, external_data=False)
    for label, value in zip(names, inputs):
        np.save(folder / f'{label}.npy', value.numpy())
    np.save(folder / 'out.npy', wanted.numpy())
    return names


def quantise(source, folder):
    """The outputs are those of ONNX Runtime on the quantised model."""
    import onnxruntime
    from onnxruntime import quantization
    folder.mkdir(parents=True, exist_ok=True)
    values = {path.stem: np.load(path) for path in sorted(source.glob('in*.npy'))}
    path = folder / 'model.onnx'
    shaped = folder / 'shaped.onnx'
    quantization.quant_pre_process(str(source / 'model.onnx'), str(shaped), skip_symbolic_shape=True)

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = [values]

        def get_next(self):
            return self.left.pop() if self.left else None

    if any(node.op_type == 'Conv' for node in onnx.load(str(shaped)).graph.node):
        quantization.quantize_static(str(shaped), str(path), Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
                                     activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8)
    else:
        quantization.quantize_dynamic(str(shaped), str(path), weight_type=quantization.QuantType.QInt8)
    shaped.unlink()
    for label, value in values.items():
        np.save(folder / f'{label}.npy', value)
    session = onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
    np.save(folder / 'out.npy', session.run(None, values)[0])


def main():
    warnings.filterwarnings('ignore')
    root, names = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(models.MODELS)
    for name in names:
        if not (root / name / 'out.npy').exists():
            export(root / name, name)
        if name in models.QUANTISED and not (root / f'{name}-int8' / 'out.npy').exists():
            quantise(root / name, root / f'{name}-int8')
        print(name, flush=True)


main()
