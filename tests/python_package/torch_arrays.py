#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls, training and state with tensors of PyTorch: values, addresses, bf16, strides, gradients. Skipped (77) without PyTorch.

usage: torch_arrays.py (PYTHONPATH: python; TESSERA_LIBRARY; DIGITS_BUNDLE, ARRAYS_BUNDLE)
"""
import random
import sys
import tempfile

import common
from common import raises

try:
    import torch
except ImportError:
    print('PyTorch is not installed')
    sys.exit(common.SKIPPED)
import tessera

ARRAYS = tessera.open(common.ARRAYS, threads=2)


def test_random_layouts_of_every_dtype():
    rng = random.Random(5)
    cases = {'twice_f64': torch.float64, 'twice_f32': torch.float32, 'twice_f16': torch.float16, 'twice_bf16': torch.bfloat16,
             'twice_i64': torch.int64, 'twice_i32': torch.int32, 'cast_ui8': torch.uint8}
    for _ in range(100):
        for entry, dtype in cases.items():
            buffer = torch.randint(0, 9, (200,)).to(dtype)
            strides = rng.choice([(5, 1), (1, 4), (0, 1), (7, 0), (0, 0), (12, 2), (3, 13)])
            x = torch.as_strided(buffer, (4, 5), strides, rng.choice([0, 1, 7, 40]))
            y = ARRAYS.entries[entry](x)
            expected = x.to(torch.float32) if entry == 'cast_ui8' else x + x
            assert isinstance(y, torch.Tensor) and y.dtype == expected.dtype and torch.equal(y, expected), (entry, strides)


def test_booleans_outputs_and_gradients():
    m, a, b = torch.rand(4, 5) < 0.5, torch.randn(4, 5, requires_grad=True), torch.randn(5, 4).T
    y, n = ARRAYS.choose(m, a, b)
    assert torch.equal(y, torch.where(m, a.detach(), b)) and torch.equal(n, ~m) and not y.requires_grad
    out = torch.full((4, 5), 9.0)
    assert ARRAYS.choose(m, a, b, out=(out,))[0] is out and torch.equal(out, y)
    with raises(tessera.DataError, '4x5xf64', '4x5xf32'):
        ARRAYS.choose(m, a, b.double())
    with raises(tessera.DataError, 'complex'):
        ARRAYS.choose(m, a, b.to(torch.complex64))


def test_tensors_that_are_views_of_other_numbers():
    x = torch.randn(4, 5)
    assert torch.equal(ARRAYS.twice_f32(x), x + x) and torch.equal(ARRAYS.twice_f32(x), x + x)
    minus = torch._neg_view(x)  # the same memory, with a mark that says minus
    try:
        assert torch.equal(ARRAYS.twice_f32(minus), minus + minus)
    except BufferError:
        pass  # PyTorch does not export it
    assert torch.equal(ARRAYS.twice_f32(x), x + x)


def test_memory_is_shared():
    x = torch.ones(64, 300)
    with common.log_lines() as lines:
        y = ARRAYS.scale(x, 3.0)
    text = '\n'.join(lines)
    assert (y == 3).all() and "input 'x' is read in place" in text and "output 'y' is written in place" in text, text
    assert ARRAYS.scale(x, 2.0, library='numpy').sum() == 64 * 300 * 2


def test_state_and_training():
    data = {name: torch.from_numpy(array) for name, array in common.digits_data().items()}
    model, other = (tessera.open(common.DIGITS, threads=2) for _ in range(2))
    done = model.train({'images': data['train-images'], 'labels': data['train-labels']}, 100)
    numpy_data = common.digits_data()
    assert done.state_hash == other.train({'images': numpy_data['train-images'], 'labels': numpy_data['train-labels']}, 100).state_hash
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data['train-images'], data['train-labels']), batch_size=64, drop_last=True)
    assert tessera.open(common.DIGITS).train(loader, 30).step == 30
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).double()
    values = model.state_dict(library='torch')
    net.load_state_dict({f'{2 * i}.{part}': (values[f'layer{i + 1}.{part}'].T if part == 'weight' else values[f'layer{i + 1}.{part}'])
                         for i in range(3) for part in ('weight', 'bias')})
    y = model.predict(data['test-images'])
    assert (y - net(data['test-images'].double() / 16)).abs().max() < 1e-5  # rounding of f32 in 128 products
    third = tessera.open(common.DIGITS)
    third.load_state_dict(values)
    assert torch.equal(third.predict(data['test-images']), y)


def test_safetensors():
    try:
        from safetensors.torch import load_file, save_file
    except ImportError:
        return
    model, other = tessera.open(common.DIGITS, seed=3), tessera.open(common.DIGITS)
    with tempfile.TemporaryDirectory() as folder:
        model.save_safetensors(f'{folder}/a.safetensors')
        values = load_file(f'{folder}/a.safetensors')
        assert all(torch.equal(value, values[name]) for name, value in model.state_dict(library='torch').items())
        save_file({name: value * 2 for name, value in values.items()}, f'{folder}/b.safetensors')
        other.load_state_dict(f'{folder}/b.safetensors')
        assert torch.equal(other.state_dict(library='torch')['layer1.weight'], 2 * values['layer1.weight'])


common.run(sys.modules['__main__'])
