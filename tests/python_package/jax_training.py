#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tessera.build_jax: the example with flax and optax, state to JAX and back, what is refused. Skipped (77) without flax.

usage: jax_training.py (PYTHONPATH: python; TESSERA_LIBRARY; TESSERA_AOT)
"""
import os
import re
import subprocess
import sys
import tempfile

import common
from common import raises

try:
    import flax  # noqa: F401
    import jax
    import jax.numpy as jnp
    import optax
except ImportError as error:
    print(error)
    sys.exit(common.SKIPPED)
import numpy as np
import tessera

TARGET = 'cpu:x86-64-v2'
OPTIMIZER = optax.adam(0.1)
RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((8, 3)).astype('f4'), RNG.standard_normal(8).astype('f4')
FIRST = {'w': jnp.zeros(3), 'b': [jnp.zeros(()), jnp.ones(2, 'bfloat16')]}


def step(params, state, batch):
    opt_state, key = state
    noise = jax.random.normal(key, (3,)) * 1e-3

    def loss(p):
        return ((batch['x'] @ (p['w'] + noise) + p['b'][0] - batch['y']) ** 2).mean() + (p['b'][1].astype('float32') ** 2).sum()

    value, gradient = jax.value_and_grad(loss)(params)
    updates, opt_state = OPTIMIZER.update(gradient, opt_state)
    return optax.apply_updates(params, updates), (opt_state, jax.random.split(key)[0]), {'loss': value, 'norm': optax.global_norm(gradient)}


def build(function=step, first=None, output=None):
    return tessera.build_jax(function, FIRST, first or (OPTIMIZER.init(FIRST), jax.random.key(3)), {'x': X, 'y': Y}, output, target=TARGET)


def jax_steps(params, state, count):
    reports = []
    for _ in range(count):
        params, state, report = jax.jit(step)(params, state, {'x': X, 'y': Y})
        reports.append(report)
    return params, state, reports


def test_the_example():
    done = subprocess.run([sys.executable, str(common.ROOT / 'examples/python/jax_training.py'), str(common.ROOT / 'examples/digits')], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(re.search(r'resumed at step (\d+)', done.stdout).group(1)) > 0 and 'the same state as an undisturbed run' in done.stdout, done.stdout
    assert float(re.search(r'accuracy in JAX: ([\d.]+)', done.stdout).group(1)) > 0.9, done.stdout


def test_state_and_back():
    model, reports = build(), []
    assert list(model.tensors)[:2] != [] and {'params.w', 'params.b.0', 'params.b.1', 'opt_state.0.0.mu.w', 'opt_state.1'} <= set(model.tensors), model.tensors
    model.train([{'x': X, 'y': Y}], 5, on_step=lambda report: reports.append(dict(report.outputs)))
    params, state, wanted = jax_steps(FIRST, (OPTIMIZER.init(FIRST), jax.random.key(3)), 5)
    for got, want in zip(reports, wanted):
        assert abs(got['loss'] - want['loss']) < 1e-5 * want['loss'] and abs(got['norm'] - want['norm']) < 1e-5 * want['norm'], (got, want)
    ours = model.state()
    assert jax.tree_util.tree_structure(ours) == jax.tree_util.tree_structure((params, state))
    assert (jax.random.key_data(ours[1][1]) == jax.random.key_data(state[1])).all()  # threefry has the bits of JAX
    assert np.allclose(ours[0]['w'], params['w'], rtol=1e-4) and ours[0]['b'][1].dtype == 'bfloat16'
    # JAX goes on from our state, and we go on from that of JAX.
    params, state, wanted = jax_steps(*ours, 3)
    model.trainer()  # begins with the values of the bundle
    model.set_state(params, state)
    report = model.step(x=X, y=Y)
    _, _, wanted = jax_steps(params, state, 1)
    assert abs(report.loss - wanted[0]['loss']) < 1e-5 * wanted[0]['loss']


def test_the_same_bundle():
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name, 'b.tsb') for name in 'ab']
        for path in paths:
            os.mkdir(os.path.dirname(path))
            build(output=path).close()
        first, second = (open(path, 'rb').read() for path in paths)
        assert first == second


def test_what_is_refused():
    with raises(tessera.UsageError, 'the step returns', 'arrays of state; it was given'):
        build(lambda p, s, b: (p, s[0], jnp.zeros(())))
    with raises(tessera.CompilationError, "'params.w' is carried from output", '3xf16', '3xf32'):
        build(lambda p, s, b: ({'w': p['w'].astype('float16'), 'b': p['b']}, s, b['x'].sum()))
    with raises(tessera.CompilationError, 'TSR-0833', 'custom_call'):
        build(lambda p, s, b: (p, s, jnp.linalg.inv(b['x'].T @ b['x']).sum()))
    with raises(tessera.UsageError, 'two leaves have one name: params.w'):
        tessera.build_jax(step, {'w': jnp.zeros(1), 'w.': jnp.zeros(1)}, (), {'x': X})


common.run(sys.modules['__main__'])
