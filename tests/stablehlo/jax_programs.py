#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX are built and run, and compared with JAX: those of programs.py with other inputs, steps of flax models with optimizers
of optax, and random programs in f32 and f64.

jax_programs.py AOT RUN [--random N] [--seed S] [NAME...]
"""
import pathlib
import sys
import tempfile

try:
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)

import cases
import programs

from checks import expect, finish  # noqa: E402

TOOLS = [str(pathlib.Path(word).resolve()) for word in sys.argv[1:3]]
WORDS = sys.argv[3:]


def option(name, otherwise):
    """The number after the word, which is taken out."""
    if name not in WORDS:
        return otherwise
    at = WORDS.index(name)
    value = int(WORDS[at + 1])
    del WORDS[at:at + 2]
    return value


RANDOM, SEED = option('--random', 8), option('--seed', 2)


# ---- models of flax ----


class Perceptron(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.LayerNorm()(nn.relu(nn.Dense(16)(x))))


class Images(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.max_pool(nn.relu(nn.Conv(6, (3, 3))(x)), (2, 2), (2, 2))
        x = nn.avg_pool(nn.relu(nn.Conv(6, (3, 3), strides=(1, 2))(x)), (2, 2), (2, 2))
        return nn.Dense(3)(x.reshape(x.shape[0], -1))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=2)(h, h, mask=nn.make_causal_mask(x[..., 0]))
        return x + nn.Dense(16)(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x)))), None


class Transformer(nn.Module):
    """Scan over layers, that are computed again for its gradient."""
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(20, 16)(tokens) + self.param('position', nn.initializers.normal(), (tokens.shape[1], 16))
        x, _ = nn.scan(nn.remat(Block), variable_axes={'params': 0}, split_rngs={'params': True}, length=3)()(x, None)
        return nn.Dense(20)(nn.LayerNorm()(x))


def step_of(model, optimizer, x, y):
    """A step over the leaves of parameters and state, and the arguments."""
    params = model.init(jax.random.PRNGKey(0), x)['params']
    leaves, tree = jax.tree_util.tree_flatten((params, optimizer.init(params)))

    def step(*values):
        params, state = jax.tree_util.tree_unflatten(tree, values[:-2])
        loss = lambda p: optax.softmax_cross_entropy_with_integer_labels(model.apply({'params': p}, values[-2]), values[-1]).mean()  # noqa: E731
        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradient, state, params)
        return [value] + jax.tree_util.tree_leaves((optax.apply_updates(params, updates), state))

    return step, [np.asarray(leaf) for leaf in leaves] + [x, y]


def models(seed):
    rng = np.random.default_rng(seed)
    f = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    labels, tokens = rng.integers(0, 3, 4).astype(np.int32), rng.integers(0, 20, (2, 6)).astype(np.int32)
    clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.warmup_cosine_decay_schedule(1e-3, 1e-2, 10, 100)))
    dropout = lambda k, x: nn.Dropout(0.5).apply({}, x, deterministic=False, rngs={'dropout': k})  # noqa: E731
    with jax.enable_x64(False):
        return {'perceptron': step_of(Perceptron(), clipped, f(4, 5), labels),
                'images': step_of(Images(), optax.sgd(0.1, momentum=0.9, nesterov=True), f(4, 8, 8, 1), labels),
                'transformer': step_of(Transformer(), optax.sgd(0.1), tokens, tokens),
                'dropout': (dropout, [programs.KEY, f(8, 16)])}


# ---- random programs ----

UNARY = (jnp.sin, jnp.tanh, jnp.abs, lambda v: jnp.exp(-v * v), jnp.floor, lambda v: -v, jnp.sign, lambda v: v[::-1], lambda v: jnp.sort(v, -1), jax.nn.softmax,
         lambda v: jnp.cumsum(v, 0), lambda v: v.T.reshape(v.shape), lambda v: jnp.roll(v, 1, 1), lambda v: jnp.where(v > 0, v, v * 0.5), lambda v: v.at[0].add(1),
         lambda v: v[jnp.argsort(v[:, 0])], lambda v: v - v.mean(0), lambda v: jax.lax.fori_loop(0, 9, lambda k, a: a * 0.5 + k, v),
         lambda v: jnp.pad(v, 1)[1:-1, 2:], lambda v: jax.lax.cond(v.sum() > 0, jnp.cos, jnp.sin, v), lambda v: jax.lax.scan(lambda c, r: (c + r, c * r), v[0], v)[1])
BINARY = (jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, lambda a, b: a @ b.T @ b / 16, jnp.arctan2, lambda a, b: jnp.where(a < b, a, b * 0.25))


def random_program(rng):
    """A chain of ops over two arrays of one shape, and its gradient where that is defined."""
    picks = [(int(rng.integers(3)), int(rng.integers(len(UNARY))), int(rng.integers(len(BINARY))), int(rng.integers(99))) for _ in range(10)]

    def function(a, b):
        values = [a, b]
        for kind, unary, binary, number in picks:
            x, y = values[-1], values[number % len(values)]
            values.append(BINARY[binary](x, y) if kind == 0 else UNARY[unary](x))
        return values[-1], jnp.stack(values).sum(), values[-2]

    return function


def random_programs(count, seed):
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        kind = np.float64 if number % 2 else np.float32
        shape = (int(rng.integers(2, 7)), int(rng.integers(2, 7)))
        yield f'random{number}', random_program(rng), [rng.standard_normal(shape).astype(kind) for _ in range(2)]


# ---- the test ----


def check(folder, name, function, inputs, factor=1, shared=False):
    if WORDS and name not in WORDS:
        return
    try:
        text, results = programs.lower(function, inputs)
    except Exception as error:  # noqa: BLE001: of jax
        expect(f'{name}: lowered by jax', False, error)
        return
    cases.check(folder, TOOLS, name, text, inputs, results, factor, shared)


with tempfile.TemporaryDirectory() as temporary:
    root = pathlib.Path(temporary)
    for title, (function, inputs) in programs.programs(SEED).items():
        check(root, title, function, inputs, 4)
    with jax.enable_x64(False):
        for title, (function, inputs) in models(SEED).items():
            # Gradients that are 0 in exact arithmetic are the rounding of others.
            check(root, title, function, inputs, 10, shared=True)
    for title, function, inputs in random_programs(RANDOM, SEED):
        check(root, title, function, inputs, 100)
finish()
