#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of the block of transformer.py in ONNX Runtime, for its option --onnx-training.

usage: PYTHON onnx_step.py BATCHxPOSITIONSxWIDTHxHEADS THREADS

Package onnxruntime-training has the import name of onnxruntime and replaces it (the newest on PyPI is 1.19.2, of 2024, for Python up to
3.11), so PYTHON belongs to a separate environment, which also contains PyTorch. The first loss is compared with PyTorch's in float64.
Prints `ready`; then, for each line of standard input, the seconds of a step.
"""
import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

import transformer

IR_VERSION_MAX = 10  # the version that 1.19 reads; newer releases of onnx write newer ones
TOLERANCE = 1e-4  # tolerance of the loss, a mean of f32


def make_step(shape, threads, folder):
    """Returns a function that takes a step and returns the loss before it, and the parameters before the first step."""
    model = onnx.load_model_from_string(transformer.onnx_model(shape, False, train=True))
    before = {value.name: onnx.numpy_helper.to_array(value) for value in model.graph.initializer}
    artifacts.generate_artifacts(model, requires_grad=list(transformer.parameters(shape[2])), loss=artifacts.LossType.MSELoss,
                                 optimizer=artifacts.OptimType.AdamW, artifact_directory=folder)
    for name in ('training_model', 'optimizer_model'):
        made = onnx.load(f'{folder}/{name}.onnx')
        made.ir_version = min(made.ir_version, IR_VERSION_MAX)
        onnx.save(made, f'{folder}/{name}.onnx')
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    module = Module(f'{folder}/training_model.onnx', CheckpointState.load_checkpoint(f'{folder}/checkpoint'), None, 'cpu', options)
    optimizer = Optimizer(f'{folder}/optimizer_model.onnx', module)
    optimizer.set_learning_rate(1e-4)
    module.train()
    x, t = (np.random.default_rng(seed).standard_normal(shape[:3]).astype('f4') for seed in (1, 2))

    def step():
        loss = module(x, t)
        optimizer.step()
        module.lazy_reset_grad()
        return loss

    return step, before, x, t


def main():
    shape, threads = tuple(int(part) for part in sys.argv[1].split('x')), int(sys.argv[2])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        step, before, x, t = make_step(shape, threads, folder)
        p = {name: torch.tensor(before[name].T.astype('f8')) for name in transformer.parameters(shape[2])}
        expected = float(F.mse_loss(transformer.forward(p, torch.tensor(x.astype('f8')), shape[3]), torch.tensor(t.astype('f8'))))
        loss = float(step())
        if not abs(loss - expected) <= TOLERANCE * expected:
            sys.exit(f'the loss is {loss}; expected {expected}')
        for _ in range(4):
            later = float(step())
        if not later < loss:
            sys.exit(f'the loss does not fall: {loss}, after four steps {later}')
        print('ready', flush=True)
        for _ in sys.stdin:
            print(transformer.seconds_of(step), flush=True)


if __name__ == '__main__':
    main()
