#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch on a GPU: calls, steps and outputs there, also on other streams, with the bits of the CPU. Skipped (77) without.

usage: torch_cuda.py (PYTHONPATH: python; TESSERA_LIBRARY; CUDA_BUNDLE)
"""
import os
import sys

import common
from common import raises

try:
    import torch
    found = torch.cuda.is_available()
except ImportError:
    found = False
if not found:
    print('there is no GPU, or no PyTorch that uses it')
    sys.exit(common.SKIPPED)
import tessera

BUNDLE = os.environ['CUDA_BUNDLE']
DATA = {name: torch.from_numpy(array) for name, array in common.digits_data().items()}
MODEL, HOST = tessera.open(BUNDLE, device='cuda', seed=3), tessera.open(BUNDLE, device='cpu', seed=3)
EXPECTED = HOST.predict(DATA['test-images'])


def test_calls():
    x = DATA['test-images'].cuda()
    y = MODEL.predict(x)
    assert y.device == x.device and torch.equal(y.cpu(), EXPECTED)
    assert torch.equal(MODEL.predict(DATA['test-images']), EXPECTED), 'memory of the host'
    assert torch.equal(MODEL.predict(x.flip(0)[:100]).cpu(), EXPECTED.flip(0)[:100])
    assert torch.equal(MODEL.predict(x.T.contiguous().T).cpu(), EXPECTED), 'by columns'
    assert torch.equal(MODEL.predict(x[::3]).cpu(), EXPECTED[::3])
    out = torch.zeros((359, 10), device='cuda')
    assert MODEL.predict(x, out=out) is out and torch.equal(out.cpu(), EXPECTED)
    assert MODEL.predict(x, library='numpy').tobytes() == EXPECTED.numpy().tobytes()


def test_work_on_other_streams_is_waited_for():
    stream = torch.cuda.Stream()
    source, weights = DATA['test-images'].cuda(), torch.randn(4096, 4096, device='cuda')
    torch.cuda.synchronize()
    for _ in range(20):
        x = torch.zeros_like(source)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(10):
                weights = torch.nn.functional.normalize(weights @ weights)  # some milliseconds
            x.copy_(source, non_blocking=True)
            y = MODEL.predict(x)
        assert torch.equal(y.cpu(), EXPECTED)


def test_steps():
    images, labels = DATA['train-images'].cuda(), DATA['train-labels'].cuda()
    models = [tessera.open(BUNDLE, device=device) for device in ('cuda', 'cpu')]

    def batch(position, where):
        rows = torch.arange(64) * 7 + position.step
        return (images[rows.cuda()], labels[rows.cuda()]) if where == 'cuda' else (images.cpu()[rows], labels.cpu()[rows])
    done = [model.train(lambda p, where=where: batch(p, where), 20) for model, where in zip(models, ('cuda', 'cpu'))]
    assert done[0].state_hash == done[1].state_hash and done[0].outputs == done[1].outputs
    with raises(tessera.UsageError, 'in memory of a GPU'):
        models[0].train({'images': images, 'labels': labels}, 25)


def test_what_is_refused():
    x = DATA['test-images'].cuda()
    with raises(tessera.UsageError, 'GPU 0', "runs on 'cpu:"):
        HOST.predict(x)
    if torch.cuda.device_count() > 1:
        with raises(tessera.UsageError, 'GPU 1', 'runs on GPU 0'):
            MODEL.predict(x.to('cuda:1'))
    with raises(tessera.DataError, 'has gaps'):
        MODEL.predict(x, out=torch.zeros((10, 359), device='cuda').T)


common.run(sys.modules['__main__'])
