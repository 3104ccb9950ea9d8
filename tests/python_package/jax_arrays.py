#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls, training and state with arrays of JAX. Skipped (77) without JAX.

usage: jax_arrays.py (PYTHONPATH: python; TESSERA_LIBRARY; DIGITS_BUNDLE, ARRAYS_BUNDLE)
"""
import sys

import common
from common import raises

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    print('JAX is not installed')
    sys.exit(common.SKIPPED)
import numpy as np
import tessera

jax.config.update('jax_enable_x64', True)
ARRAYS = tessera.open(common.ARRAYS, threads=2)


def test_every_dtype():
    for entry, dtype in {'twice_f64': 'float64', 'twice_f32': 'float32', 'twice_f16': 'float16', 'twice_bf16': 'bfloat16', 'twice_i64': 'int64',
                         'twice_i32': 'int32', 'cast_ui8': 'uint8'}.items():
        for key in range(5):
            x = jax.random.randint(jax.random.key(key), (4, 5), 0, 9).astype(dtype)
            y = ARRAYS.entries[entry](x)
            expected = x.astype('float32') if entry == 'cast_ui8' else x + x
            assert isinstance(y, jax.Array) and y.dtype == expected.dtype and (y == expected).all(), entry
    assert (ARRAYS.twice_f32(jnp.arange(20.0, dtype='float32').reshape(5, 4).T) == 2 * jnp.arange(20.0).reshape(5, 4).T).all()


def test_booleans_and_bfloat16_of_numpy():
    m, a, b = jnp.arange(20).reshape(4, 5) % 3 == 0, jnp.ones((4, 5), 'float32'), jnp.zeros((4, 5), 'float32')
    y, n = ARRAYS.choose(m, a, b)
    assert (y == jnp.where(m, a, b)).all() and (n == ~m).all() and n.dtype == bool
    import ml_dtypes
    x = np.arange(20).reshape(4, 5).astype(ml_dtypes.bfloat16)
    z = ARRAYS.twice_bf16(x[:, ::-1])
    assert z.dtype == x.dtype and (z == 2 * x[:, ::-1]).all()
    with raises(tessera.DataError, 'f64', 'f32'):
        ARRAYS.choose(m, a, b.astype('float64'))


def test_memory_is_not_copied():
    x = jnp.ones((64, 300), 'float32')
    with common.log_lines() as lines:
        y = ARRAYS.scale(x, 3.0)
    assert (y == 3).all() and "input 'x' is read in place" in '\n'.join(lines), lines


def test_training_and_state():
    data = common.digits_data()
    model, other = (tessera.open(common.DIGITS, threads=2) for _ in range(2))
    first = model.train({'images': jnp.asarray(data['train-images']), 'labels': jnp.asarray(data['train-labels'])}, 60)
    assert first.state_hash == other.train({'images': data['train-images'], 'labels': data['train-labels']}, 60).state_hash
    values = model.state_dict(library='jax')
    x = jnp.asarray(data['test-images']).astype('float64') / 16
    for i in (1, 2, 3):
        x = x @ values[f'layer{i}.weight'] + values[f'layer{i}.bias']
        x = jax.nn.relu(x) if i < 3 else x
    assert abs(model.predict(jnp.asarray(data['test-images'])) - x).max() < 1e-5  # rounding of f32 in 128 products
    other.load_state_dict({name: value * 0 for name, value in values.items()})
    assert (other.predict(data['test-images']) == 0).all()


common.run(sys.modules['__main__'])
