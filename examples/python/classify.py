#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits for a moment, and classifies images that it has not seen.

    tessera-aot build examples/digits/digits.mlir -o digits.tsb
    python examples/python/classify.py digits.tsb examples/digits

It ends with: accuracy 0.961 on 359 images
"""
import sys

import numpy as np
import tessera

bundle, folder = sys.argv[1:]
data = {name: np.load(f'{folder}/{name}.npy') for name in ('train-images', 'train-labels', 'test-images', 'test-labels')}

with tessera.open(bundle) as model:
    print(model.predict)  # its inputs and outputs
    model.train({'images': data['train-images'], 'labels': data['train-labels']}, steps=500)
    scores = model.predict(data['test-images'])  # [359, 10]: any number of rows
    for image, digit in zip(data['test-images'][:2].reshape(-1, 8, 8), scores.argmax(axis=1)):
        print('\n'.join(''.join(' .:-=+*#%@'[pixel * 9 // 16] for pixel in row) for row in image), f'looks like a {digit}')
    means = model.evaluate(data['test-images'], data['test-labels'])
    assert means['accuracy'] == np.float64((scores.argmax(axis=1) == data['test-labels']).mean())
    print(f'accuracy {means["accuracy"]:.3f} on {len(scores)} images')
