#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Small programs of JAX, each with its inputs: what corpus/ is made of. Needs jax.

programs.py --update     writes corpus/NAME.stablehlo.mlir: the text of the module, and in comments its inputs and what JAX computes
"""
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import cases

jax.config.update('jax_enable_x64', True)
jax.config.update('jax_platforms', 'cpu')
HERE = pathlib.Path(__file__).resolve().parent
KEY = np.array([1, 2], np.uint32)
NHWC = ('NHWC', 'HWIO', 'NHWC')


def programs(seed):
    """name: (function, inputs)"""
    rng = np.random.default_rng(seed)
    # Halves of 1/64 are exact in every float type, so that no sum depends on its order by much.
    f = lambda *shape: np.round(rng.standard_normal(shape) * 64).astype(np.float32) / 64  # noqa: E731
    d = lambda *shape: rng.standard_normal(shape)  # noqa: E731
    i = lambda low, high, *shape: rng.integers(low, high, shape).astype(np.int32)  # noqa: E731
    x, image, filters = f(4, 3), f(2, 6, 6, 2), f(3, 3, 2, 4)
    grouped = lambda a, w: lax.conv_general_dilated(a, w, (1, 1), 'VALID', dimension_numbers=NHWC, feature_group_count=2)  # noqa: E731
    strided = lambda a, w: lax.conv_general_dilated(a, w, (2, 1), 'SAME', dimension_numbers=NHWC)  # noqa: E731
    pool = lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')  # noqa: E731
    table = {
        'dense': (lambda a, w, b: jnp.tanh(a @ w + b).sum(), [x, f(3, 5), f(5)]),
        'functions': (lambda a: (jnp.exp(a), jnp.sin(a), jnp.cos(a), jnp.tan(a), jnp.log(jnp.abs(a)), lax.logistic(a), lax.rsqrt(jnp.abs(a)), jnp.expm1(a),
                                 lax.erf(a), lax.erfc(a), lax.erf_inv(a / 4), jnp.cbrt(a), jnp.arctan2(a, a[::-1]), jnp.sinh(a), jnp.cosh(a), jnp.arcsinh(a),
                                 jnp.arccosh(1 + a * a), jnp.arctanh(a / 8)), [x]),
        'functions_f64': (lambda a: (lax.erfc(a), lax.erf_inv(a / 8), jnp.cbrt(a), jnp.arctan2(a, a[::-1]), jnp.sinh(a), jnp.arcsinh(a), lax.rem(a, a[::-1]),
                                     lax.round(a), jnp.abs(a) ** a, jnp.sort(a, 0), a.T @ a), [d(4, 3) * 2]),
        'rounding': (lambda a: (lax.round(a), jnp.round(a), jnp.floor(a), jnp.ceil(a), jnp.trunc(a), lax.rem(a, a[::-1]), lax.reduce_precision(a, 8, 7),
                                jnp.sign(a), lax.clamp(np.float32(-1), a, np.float32(1)), jnp.isfinite(a), jnp.nan_to_num(a)),
                     [np.array([-2.5, -0.5, -0.0, 0.5, 1.5, 7.25, np.inf, np.nan], np.float32)]),
        'types': (lambda a: (a.astype('int8'), a.astype('uint16'), a.astype(bool), a.astype('bfloat16').astype('float32'), a.astype('float16').astype('float64'),
                             lax.bitcast_convert_type(a, 'int32'), lax.bitcast_convert_type(a, 'uint16'),
                             lax.bitcast_convert_type(lax.bitcast_convert_type(a, 'uint8'), 'float32')), [x * 8]),
        'integers': (lambda a, b: (a + b, a // b, a % b, a @ b, a << 1, a >> 1, lax.shift_right_logical(a, np.int32(3)), ~a, a ** 3, jnp.power(a, b % 4),
                                   lax.clz(a), lax.population_count(a), a.min(), a.max(0), jnp.prod(b, 1), jnp.bitwise_xor.reduce(a, axis=0), -a, abs(a)),
                     [i(-9, 9, 3, 3), i(1, 9, 3, 3)]),
        'truth': (lambda a: ((a > 0).any(), (a > 0).all(0), (a > 0) ^ (a < 1), jnp.where(a > 0, a, -a), jnp.isnan(a)), [x]),
        'shapes': (lambda a: (a.T, a.reshape(2, 6), a[::-1, ::2], jnp.concatenate([a, a], 1), jnp.tile(a, (2, 1)), jnp.broadcast_to(a[:, None], (4, 2, 3)),
                              jnp.arange(6.0).reshape(3, 2), jnp.roll(a, 1, 0), a[1:3, 1:]), [x]),
        'padding': (lambda a, b, c: (lax.pad(a, c, ((1, 2, 1), (-1, 1, 0))), lax.pad(a, np.float32(1), ((0, 0, 2), (1, 1, 0))), lax.pad(b, np.int32(7), ((1, -1, 2), (0, 1, 0)))),
                    [x, i(-9, 9, 3, 3), np.float32(2.5)]),
        'products': (lambda a, b: (jnp.einsum('bij,bjk->bik', a, b), jnp.einsum('bij,bkj->ikb', a, jnp.swapaxes(b, 1, 2)), jnp.einsum('bij,bjk->bki', a, b),
                                   jnp.tensordot(a, b, ((0, 2), (0, 1))), jnp.einsum('bij->j', a), jnp.outer(a[0, 0], b[0, 0])), [f(2, 3, 4), f(2, 4, 5)]),
        'bfloat16': (lambda a, b: ((a.astype('bfloat16') * 3).astype('int32'),
                                   jnp.dot(a.astype('bfloat16'), b.astype('bfloat16'), preferred_element_type='float32')), [f(4, 3), f(3, 2)]),
        'convolution': (lambda a, w: (strided(a, w), jax.grad(lambda p: (strided(*p) ** 2).sum())((a, w))), [image, filters]),
        'convolution_groups': (lambda a, w: (grouped(a, w), jax.grad(lambda p: (grouped(*p) ** 2).sum())((a, w))), [image, f(3, 3, 1, 4)]),
        'convolution_dilated': (lambda a, w: (lax.conv_general_dilated(a, w, (1, 1), ((2, 1), (-1, 2)), lhs_dilation=(2, 1), rhs_dilation=(1, 2), dimension_numbers=NHWC),
                                              lax.conv_transpose(a, w, (2, 1), 'VALID')), [image[:1, :3, :4], filters[..., :2]]),
        'convolution_1d': (lambda a, w: lax.conv_general_dilated(a, w, (2,), 'SAME'), [f(2, 3, 8), f(4, 3, 3)]),
        'reductions': (lambda a: (a.max(0), a.min(1), a.sum(), a.mean(0), jnp.prod(a, 1), jnp.argmax(a, 1), jnp.argmin(a, 0), jnp.cumsum(a, 0), jnp.cumprod(a, 1),
                                  lax.cummax(a, 0), jnp.cumsum(a, 1)[:, ::-1], a.var(0), jnp.linalg.norm(a), jax.nn.logsumexp(a, 1), jax.nn.softmax(a)), [x]),
        'reduction_general': (lambda a, b: lax.reduce((a, b), (np.float32(0), np.int32(1)), lambda p, q: (p[0] + q[0] * 2 - q[0], p[1] * q[1]), (0,)), [f(7, 2), i(1, 3, 7, 2)]),
        'reduction_small': (lambda a: (lax.reduce(a, np.int8(0), lax.add, (0,)), lax.reduce(a, np.int8(3), lax.max, (0, 1))), [i(-50, 50, 5, 2).astype(np.int8)]),
        'windows': (lambda a: (pool(a), lax.reduce_window(a, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), 'SAME'),
                               lax.reduce_window(a, np.inf, lax.min, (1, 5, 1, 2), (1, 1, 1, 1), 'VALID', window_dilation=(1, 1, 1, 1)),
                               lax.reduce_window(a, 0.0, lax.add, (1, 2, 3, 1), (1, 1, 1, 1), 'VALID', base_dilation=(1, 2, 1, 1), window_dilation=(1, 3, 1, 1))), [image]),
        'pool_gradient': (lambda a: jax.grad(lambda p: (pool(p) ** 2).sum())(a), [image]),
        'gathers': (lambda a, n: (a[n], a[n, 0], a[:, n - 2], a[1:, None][n - 1], jnp.take(a, n, 1, mode='fill'), jnp.take_along_axis(a, n[None] % 3, 1)),
                    [x, np.array([0, 3, -1], np.int32)]),
        'gather_batched': (lambda a, n: jax.vmap(lambda p, q: lax.dynamic_slice(p, (q, np.int32(0)), (2, 2)))(a, n), [f(3, 4, 3), np.array([0, 9, 1], np.int32)]),
        'scatters': (lambda a, n: (a.at[n].add(1), a.at[n, 1].set(7), a.at[n].max(0), a.at[n].multiply(2), a.at[:, n - 2].min(-1), a.at[n + 9].add(1), a.at[1:3, 1].set(5)),
                     [x, np.array([0, 3, 0], np.int32)]),
        'scatter_batched': (lambda a, n: jax.vmap(lambda p, q: p.at[q].add(1))(a, n), [f(3, 4), np.array([[0, 1], [9, 3], [2, 2]], np.int32)]),
        'slices': (lambda a, n: (lax.dynamic_slice(a, (n, n), (2, 2)), lax.dynamic_update_slice(a, a[:2], (n, np.int32(0))), lax.dynamic_update_slice(a, a[:2, :2], (n, n)),
                                 a[n], lax.dynamic_slice(a, (n * 9, -n), (2, 3))), [x, np.int32(2)]),
        'sorts': (lambda a: (jnp.sort(a, 0), jnp.argsort(a, 1), -jnp.sort(-a, 1), jnp.argsort(a, 0, descending=True), lax.top_k(a, 2), jnp.median(a)),
                  [np.concatenate([x, [[np.nan, -0.0, 0.0]]]).astype(np.float32)]),
        'sort_keys': (lambda a, b: (jnp.lexsort((a, b)), lax.sort((a, b, a * 2), num_keys=2), lax.sort((a, b), num_keys=1)), [i(0, 3, 12), i(0, 3, 12)]),
        'branches': (lambda p, n, a: (lax.cond(p, lambda v: v + 1, lambda v: v * 2, a), lax.switch(n, [jnp.sin, jnp.cos, lambda v: v @ jnp.ones((3, 3), v.dtype)], a)),
                     [np.bool_(True), np.int32(2), x]),
        'loops': (lambda a: (lax.while_loop(lambda v: v.sum() < 50, lambda v: v + 1, a), lax.fori_loop(0, 20, lambda k, v: v * 0.75 + k, a),
                             lax.scan(lambda c, r: (c * np.float32(0.5) + r, c.sum()), a[0], a), lax.fori_loop(0, 3, lambda k, v: v + 1, a)), [x]),
        'map': (lambda a: lax.map(lambda r: r * r.sum(), a), [x]),
        'random': (lambda k: (jax.random.uniform(k, (5,), 'float32'), jax.random.split(k), jax.random.bernoulli(k, 0.25, (9,)), jax.random.randint(k, (4,), 0, 100)), [KEY]),
        'random_normal': (lambda k: jax.random.normal(k, (33,), 'float32'), [KEY]),
        'empty': (lambda a: (a.sum(), a.max(initial=0), jnp.concatenate([a, a[:, :0]], 1), lax.reduce(a, np.float32(2), lax.mul, (0,))), [np.zeros((0, 3), np.float32)]),
    }
    return table


def lower(function, inputs):
    """The text of the module, and what it computes."""
    jitted = jax.jit(function)
    return jitted.lower(*inputs).as_text(), [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(jitted(*inputs))]


if __name__ == '__main__' and sys.argv[1:] == ['--update']:
    for name, (function, inputs) in programs(1).items():
        text, results = lower(function, inputs)
        (HERE / 'corpus' / f'{name}.stablehlo.mlir').write_text(cases.write(text, inputs, results), 'utf-8')
