#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A flax model with dropout and an optimizer of optax, trained by Tessera: killed, resumed with the same bits, and given back to JAX.

    pip install jax flax optax
    python examples/python/jax_training.py examples/digits        # tessera-aot is in the PATH, or TESSERA_AOT names it
"""
import signal
import subprocess
import sys
import tempfile

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import tessera

STEPS, ROWS = 120, 64


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train=True):
        x = nn.relu(nn.Dense(64)(x / 16))
        return nn.Dense(10)(nn.Dropout(0.1)(x, deterministic=not train))


net, optimizer = Net(), optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 5e-3, 20, STEPS))


def train_step(params, state, batch):
    """The state holds the optimizer's state and a key for dropout."""
    opt_state, key = state
    key, drop = jax.random.split(key)

    def loss(p):
        logits = net.apply({'params': p}, batch['images'], rngs={'dropout': drop})
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch['labels']).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    updates, opt_state = optimizer.update(gradient, opt_state, params)
    return optax.apply_updates(params, updates), (opt_state, key), value


def load(folder):
    images = np.load(f'{folder}/train-images.npy').reshape(-1, 64).astype(np.float32)
    return {'images': images, 'labels': np.load(f'{folder}/train-labels.npy').astype(np.int32)}


def first_state():
    params = net.init(jax.random.key(0), jnp.zeros((1, 64)), train=False)['params']
    return params, (optimizer.init(params), jax.random.key(1))


def build(folder):
    """For this machine; without target, for all levels of x86-64."""
    batch = {name: jax.ShapeDtypeStruct((ROWS, *array.shape[1:]), array.dtype) for name, array in load(folder).items()}
    return tessera.build_jax(train_step, *first_state(), batch, target='cpu:x86-64-v2')


def train(folder, state_dir=None, on_step=None):
    """Resumes from the newest state in state_dir, if there is one."""
    model = build(folder)
    return model, model.train(load(folder), STEPS, state_dir=state_dir, save_every=20, on_step=on_step)


def losses_of(folder):
    """The losses of Tessera and of JAX for the same batches, from the same state."""
    data, ours, theirs = load(folder), [], []
    batches = [{name: array[at:at + ROWS] for name, array in data.items()} for at in range(0, 10 * ROWS, ROWS)]
    build(folder).train(batches, len(batches), on_step=lambda report: ours.append(report.loss))
    params, state = first_state()
    step = jax.jit(train_step)
    for batch in batches:
        params, state, loss = step(params, state, batch)
        theirs.append(float(loss))
    return ours, theirs


def main(folder):
    with tempfile.TemporaryDirectory() as work:
        with subprocess.Popen([sys.executable, __file__, folder, f'{work}/S'], stdout=subprocess.PIPE, text=True) as run:
            for line in run.stdout:  # the step that was made
                if int(line) >= 50:
                    break
            run.send_signal(signal.SIGKILL)
        model, resumed = train(folder, f'{work}/S')
    _, whole = train(folder)
    print(f'killed, resumed at step {resumed.first_step}')
    assert 0 < resumed.first_step and resumed.state_hash == whole.state_hash
    print(f'the same state as an undisturbed run: {whole.state_hash[:16]}')
    params, _ = model.state()
    images, labels = (np.load(f'{folder}/test-{name}.npy') for name in ('images', 'labels'))
    logits = net.apply({'params': params}, images.reshape(-1, 64).astype(np.float32), train=False)
    print(f'accuracy in JAX: {float((logits.argmax(1) == labels).mean()):.3f}')
    ours, theirs = losses_of(folder)
    print('largest difference of a loss from that of JAX:', f'{max(abs(a - b) for a, b in zip(ours, theirs)):.1e}')
    assert np.allclose(ours, theirs, rtol=1e-4)


if len(sys.argv) == 3:
    train(*sys.argv[1:], on_step=lambda report: print(report.step, flush=True))
else:
    main(sys.argv[1])
