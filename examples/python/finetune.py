#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits, keeps the parameters as a safetensors file, and fine-tunes them on other images: the same digits, mirrored.

    tessera-aot build examples/digits/digits.mlir -o digits.tsb
    python examples/python/finetune.py digits.tsb examples/digits

It ends with the accuracy on mirrored images before and after.
"""
import pathlib
import sys
import tempfile

import numpy as np
import tessera

bundle, folder = sys.argv[1:]
data = {name: np.load(f'{folder}/{name}.npy') for name in ('train-images', 'train-labels', 'test-images', 'test-labels')}


def mirror(images):
    """A view: the library takes arrays with negative strides."""
    return images.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64)


def batches(position):
    """64 random mirrored images; a generator from seed and step gives a resumed run the same batches."""
    rows = np.random.default_rng([position.seed, position.step]).integers(0, len(data['train-labels']), 64)
    return {'images': mirror(data['train-images'][rows]), 'labels': data['train-labels'][rows]}


with tempfile.TemporaryDirectory() as work:
    parameters = pathlib.Path(work) / 'digits.safetensors'
    with tessera.open(bundle) as model:
        model.train({'images': data['train-images'], 'labels': data['train-labels']}, steps=500)
        model.save_safetensors(parameters)

    with tessera.open(bundle, params=parameters) as model:
        before = model.evaluate(mirror(data['test-images']), data['test-labels'])['accuracy']
        model.set_hyperparameter('lr', 3e-4)
        model.train(batches, steps=400, params=parameters, on_step=lambda report: report.step % 100 or print(report))
        after = model.evaluate(mirror(data['test-images']), data['test-labels'])['accuracy']
        bias = model.state_dict()['layer3.bias']
        print('the last biases are', bias.round(3))
print(f'accuracy on mirrored images: {before:.3f} before, {after:.3f} after')
