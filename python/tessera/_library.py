# SPDX-License-Identifier: Apache-2.0
"""The functions of programs in Python syntax. Made of library.def by tests/language/library.py --update."""
# flake8: noqa
# pylint: skip-file
from __future__ import annotations

from typing import Any

from ._language import Decorator, DType, Symbol, Tensor, call, function

f64 = DType('f64')
f32 = DType('f32')
bf16 = DType('bf16')
f16 = DType('f16')
i64 = DType('i64')
i32 = DType('i32')
i16 = DType('i16')
i8 = DType('i8')
i1 = DType('i1')
ui64 = DType('ui64')
ui32 = DType('ui32')
ui16 = DType('ui16')
ui8 = DType('ui8')
KVCache = Symbol('KVCache')
OptimizerState = Symbol('OptimizerState')
checkpointable = Symbol('checkpointable')
fp32_master = Symbol('fp32_master')
gpu = Symbol('gpu')
paged = Symbol('paged')
rolling_window = Symbol('rolling_window')
saturate = Symbol('saturate')
stochastic_round = Symbol('stochastic_round')
autodiff = Decorator('autodiff')
jit = Decorator('jit')


def abs(x: Any) -> Any:
    """The absolute value of each element."""
    return call('abs', (x, ), {})


def accum(dtype: Any) -> Any:
    """The type in which sums are accumulated, after an element type: f32 for bf16 and f16."""
    return call('accum', (dtype, ), {})


def acos(x: Any) -> Any:
    """The inverse cosine of each element."""
    return call('acos', (x, ), {})


def adamw(lr: Any, beta1: Any = None, beta2: Any = None, eps: Any = None, weight_decay: Any = None) -> Any:
    """The optimizer AdamW, for minimize."""
    return call('adamw', (lr, beta1, beta2, eps, weight_decay, ), {})


def argmax(x: Any, axis: Any = None) -> Any:
    """Where the largest element along an axis is, as i64."""
    return call('argmax', (x, axis, ), {})


def asin(x: Any) -> Any:
    """The inverse sine of each element."""
    return call('asin', (x, ), {})


def assign(name: Any, value: Any = None) -> Any:
    """The value that a parameter has after the step."""
    return call('assign', (name, value, ), {})


def atan(x: Any) -> Any:
    """The inverse tangent of each element."""
    return call('atan', (x, ), {})


def attention(q: Any, k: Any = None, v: Any = None, causal: Any = None, scale: Any = None, dropout: Any = None) -> Any:
    """Scaled dot-product attention of [batch, heads, length, width]."""
    return call('attention', (q, k, v, causal, scale, dropout, ), {})


def avg_pool2d(x: Any, window: Any = None, strides: Any = None, padding: Any = None, exclude_padding: Any = None) -> Any:
    """Means of windows."""
    return call('avg_pool2d', (x, window, strides, padding, exclude_padding, ), {})


def batch_norm(x: Any, scale: Any = None, bias: Any = None, mean: Any = None, variance: Any = None, axis: Any = None, eps: Any = None) -> Any:
    """(x - mean) / sqrt(variance + eps) * scale + bias for each channel."""
    return call('batch_norm', (x, scale, bias, mean, variance, axis, eps, ), {})


def batch_norm_train(x: Any, scale: Any = None, bias: Any = None, mean: Any = None, variance: Any = None, axis: Any = None, eps: Any = None, momentum: Any = None) -> Any:
    """X normalized with the statistics of the batch, and the next running mean and variance."""
    return call('batch_norm_train', (x, scale, bias, mean, variance, axis, eps, momentum, ), {})


def broadcast(x: Any, shape: Any = None) -> Any:
    """The elements of x, repeated along dims."""
    return call('broadcast', (x, shape, ), {})


def cast(x: Any, dtype: Any = None) -> Any:
    """Elements of another type."""
    return call('cast', (x, dtype, ), {})


def cast_like(x: Any, like: Any = None) -> Any:
    """X with the element type of another tensor."""
    return call('cast_like', (x, like, ), {})


def ceil(x: Any) -> Any:
    """The next integer above each element."""
    return call('ceil', (x, ), {})


def celu(x: Any, alpha: Any = None) -> Any:
    """X where x > 0, alpha (exp(x / alpha) - 1) elsewhere."""
    return call('celu', (x, alpha, ), {})


def checkpoint(function: Any, policy: Any = None) -> Any:
    """The function, whose values the backward pass may compute again: 'full', 'selective' (default) or 'none'."""
    return call('checkpoint', (function, policy, ), {})


def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    """Elements limited to a range."""
    return call('clamp', (x, low, high, ), {})


def concat(tensors: Any, axis: Any = None) -> Any:
    """Tensors one after the other along an axis."""
    return call('concat', (tensors, axis, ), {})


def cond(*arguments: Any, **axes: Any) -> Any:
    """F(*arguments) where a scalar condition holds, g(*arguments) elsewhere; only one of them runs."""
    return call('cond', arguments, axes)


def constant(value: Any) -> Any:
    """Initial values of a parameter that are all the same."""
    return call('constant', (value, ), {})


def constraints(*texts: Any) -> Any:
    """What holds for the named dims of a function: remainders, comparisons, ranges."""
    return call('constraints', texts, {})


def conv2d(x: Any, filter: Any = None, strides: Any = None, padding: Any = None, dilation: Any = None, groups: Any = None) -> Any:
    """A convolution over two dims."""
    return call('conv2d', (x, filter, strides, padding, dilation, groups, ), {})


def cos(x: Any) -> Any:
    """The cosine of each element."""
    return call('cos', (x, ), {})


def cosine(warmup_steps: Any, total_steps: Any = None, final: Any = None) -> Any:
    """A schedule of the learning rate, for minimize."""
    return call('cosine', (warmup_steps, total_steps, final, ), {})


def cross_entropy(logits: Any, labels: Any = None) -> Any:
    """The loss of each row."""
    return call('cross_entropy', (logits, labels, ), {})


def cumsum(x: Any, axis: Any = None) -> Any:
    """Sums up to each element."""
    return call('cumsum', (x, axis, ), {})


def custom_jvp(function: Any) -> Any:
    """A function with a rule for tangents: @f.jvp def rule(x, y, tangent)."""
    return call('custom_jvp', (function, ), {})


def custom_vjp(function: Any) -> Any:
    """A function with a rule for gradients: @f.vjp def rule(x, y, cotangent)."""
    return call('custom_vjp', (function, ), {})


def deterministic(seed: Any) -> Any:
    """Results depend on arguments, state, step and this seed alone, with the same bits on all targets."""
    return call('deterministic', (seed, ), {})


def device(kind: Any) -> Any:
    """Where code runs: gpu is the device of a program that is built for a GPU; others ignore it."""
    return call('device', (kind, ), {})


def dropout(x: Any, rate: Any = None) -> Any:
    """Sets elements to 0 at random, and scales the others."""
    return call('dropout', (x, rate, ), {})


def erf(x: Any) -> Any:
    """The error function of each element."""
    return call('erf', (x, ), {})


def exp(x: Any) -> Any:
    """The exponential of each element."""
    return call('exp', (x, ), {})


def expm1(x: Any) -> Any:
    """Exp(x) - 1 without loss of digits."""
    return call('expm1', (x, ), {})


def floor(x: Any) -> Any:
    """The next integer below each element."""
    return call('floor', (x, ), {})


def full(shape: Any, value: Any = None, dtype: Any = None) -> Any:
    """A tensor of one value."""
    return call('full', (shape, value, dtype, ), {})


def gather(x: Any, indices: Any = None, axis: Any = None) -> Any:
    """Rows of x that indices select."""
    return call('gather', (x, indices, axis, ), {})


def gelu(x: Any, approximate: Any = None) -> Any:
    """GELU of each element."""
    return call('gelu', (x, approximate, ), {})


def grad(function: Any, argnums: Any = None) -> Any:
    """A function that computes the gradient of a function for one argument, or for several."""
    return call('grad', (function, argnums, ), {})


def iota(size: Any, dtype: Any = None) -> Any:
    """0, 1, 2, … of one dim."""
    return call('iota', (size, dtype, ), {})


def jvp(function: Any, primals: Any = None, tangents: Any = None) -> Any:
    """The result of a function, and the product of its Jacobian and tangents."""
    return call('jvp', (function, primals, tangents, ), {})


def layernorm_safe(x: Any, scale: Any = None, shift: Any = None, axes: Any = None, eps: Any = None) -> Any:
    """Layer normalization."""
    return call('layernorm_safe', (x, scale, shift, axes, eps, ), {})


def linear(warmup_steps: Any, total_steps: Any = None, final: Any = None) -> Any:
    """A schedule of the learning rate, for minimize."""
    return call('linear', (warmup_steps, total_steps, final, ), {})


def log(x: Any) -> Any:
    """The logarithm of each element."""
    return call('log', (x, ), {})


def log1p(x: Any) -> Any:
    """Log(1 + x) without loss of digits."""
    return call('log1p', (x, ), {})


def logsumexp_safe(x: Any, axes: Any = None) -> Any:
    """Log of the sum of exp."""
    return call('logsumexp_safe', (x, axes, ), {})


def loss_scale(scale: Any) -> Any:
    """A factor of the loss: this version refuses it after a type."""
    return call('loss_scale', (scale, ), {})


def matmul(a: Any, b: Any = None, transpose_a: Any = None, transpose_b: Any = None, allow_tf32: Any = None) -> Any:
    """A matrix product."""
    return call('matmul', (a, b, transpose_a, transpose_b, allow_tf32, ), {})


def max_pool2d(x: Any, window: Any = None, strides: Any = None, padding: Any = None) -> Any:
    """Maxima of windows."""
    return call('max_pool2d', (x, window, strides, padding, ), {})


def maximum(x: Any, y: Any = None) -> Any:
    """The larger of two elements."""
    return call('maximum', (x, y, ), {})


def mean(x: Any, axes: Any = None) -> Any:
    """Means over axes; over all where none are given."""
    return call('mean', (x, axes, ), {})


def mesh(*arguments: Any, **axes: Any) -> Any:
    """The virtual ranks of the program, by the names of their axes, at the top of the module."""
    return call('mesh', arguments, axes)


def minimize(loss: Any, optimizer: Any = None, lr_schedule: Any = None, clip_norm: Any = None, state: Any = None) -> Any:
    """One step of training."""
    return call('minimize', (loss, optimizer, lr_schedule, clip_norm, state, ), {})


def minimum(x: Any, y: Any = None) -> Any:
    """The smaller of two elements."""
    return call('minimum', (x, y, ), {})


def nesterov(lr: Any, momentum: Any = None, weight_decay: Any = None) -> Any:
    """The optimizer SGD with Nesterov's momentum."""
    return call('nesterov', (lr, momentum, weight_decay, ), {})


def normal(mean: Any, deviation: Any = None) -> Any:
    """Initial values of a parameter from a normal distribution."""
    return call('normal', (mean, deviation, ), {})


def one_hot(x: Any, size: Any = None, dtype: Any = None, axis: Any = None) -> Any:
    """A new dim, the last one by default, with 1 where the index is and 0 elsewhere."""
    return call('one_hot', (x, size, dtype, axis, ), {})


def ones(shape: Any, dtype: Any = None) -> Any:
    """A tensor of ones."""
    return call('ones', (shape, dtype, ), {})


def pad(x: Any, low: Any = None, high: Any = None, interior: Any = None, value: Any = None) -> Any:
    """More elements around those of x, all of one value."""
    return call('pad', (x, low, high, interior, value, ), {})


def param(name: Any, shape: Any = None, dtype: Any = None, init: Any = None) -> Any:
    """A named parameter of the program."""
    return call('param', (name, shape, dtype, init, ), {})


def prefetch(object: Any, into: Any = None, overlap: Any = None) -> Any:
    """Keys and values of a cache are copied while kernels of attention compute, as they are on GPUs."""
    return call('prefetch', (object, into, overlap, ), {})


def random_normal(shape: Any, dtype: Any = None) -> Any:
    """Random numbers of a normal distribution."""
    return call('random_normal', (shape, dtype, ), {})


def random_uniform(shape: Any, dtype: Any = None) -> Any:
    """Random numbers from 0 to 1."""
    return call('random_uniform', (shape, dtype, ), {})


def reduce_max(x: Any, axes: Any = None) -> Any:
    """Maxima over axes."""
    return call('reduce_max', (x, axes, ), {})


def reduce_min(x: Any, axes: Any = None) -> Any:
    """Minima over axes."""
    return call('reduce_min', (x, axes, ), {})


def reduce_prod(x: Any, axes: Any = None) -> Any:
    """Products over axes."""
    return call('reduce_prod', (x, axes, ), {})


def relu(x: Any) -> Any:
    """The larger of each element and 0."""
    return call('relu', (x, ), {})


def remat(function: Any) -> Any:
    """The function, whose values the backward pass computes again."""
    return call('remat', (function, ), {})


def reshape(x: Any, shape: Any = None) -> Any:
    """The same elements with other dims; one can be -1."""
    return call('reshape', (x, shape, ), {})


def rmsnorm_safe(x: Any, scale: Any = None, axes: Any = None, eps: Any = None) -> Any:
    """Normalization by the root mean square; the scale is 1 and the axis is the last dim where they are left out."""
    return call('rmsnorm_safe', (x, scale, axes, eps, ), {})


def rotary(x: Any, axis: Any = None, offset: Any = None, base: Any = None, interleaved: Any = None, inverse: Any = None) -> Any:
    """Rotary position embedding of the last dim; axis counts the positions."""
    return call('rotary', (x, axis, offset, base, interleaved, inverse, ), {})


def round(x: Any) -> Any:
    """The nearest integer, halves to even."""
    return call('round', (x, ), {})


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return call('rsqrt', (x, ), {})


def scan(step: Any, init: Any = None, xs: Any = None, length: Any = None, reverse: Any = None) -> Any:
    """Carry, y = step(carry, x) for each slice x of dim 0: the last carry, and all y."""
    return call('scan', (step, init, xs, length, reverse, ), {})


def scatter(x: Any, indices: Any = None, updates: Any = None, axis: Any = None, how: Any = None) -> Any:
    """Slices of x that indices name are changed: 'set', 'max', 'min' or 'mul'."""
    return call('scatter', (x, indices, updates, axis, how, ), {})


def scatter_add(x: Any, indices: Any = None, updates: Any = None, axis: Any = None) -> Any:
    """Updates are added to the slices of x that indices name."""
    return call('scatter_add', (x, indices, updates, axis, ), {})


def scope(name: Any) -> Any:
    """A prefix for the names of parameters."""
    return call('scope', (name, ), {})


def seed() -> Any:
    """The seed of the run, as i64."""
    return call('seed', (), {})


def sgd(lr: Any, momentum: Any = None, weight_decay: Any = None) -> Any:
    """The optimizer SGD."""
    return call('sgd', (lr, momentum, weight_decay, ), {})


def sigmoid(x: Any) -> Any:
    """The logistic function of each element."""
    return call('sigmoid', (x, ), {})


def sign(x: Any) -> Any:
    """-1, 0 or 1."""
    return call('sign', (x, ), {})


def silu(x: Any) -> Any:
    """X * sigmoid(x)."""
    return call('silu', (x, ), {})


def sin(x: Any) -> Any:
    """The sine of each element."""
    return call('sin', (x, ), {})


def softmax_safe(x: Any, axis: Any = None) -> Any:
    """Softmax along an axis."""
    return call('softmax_safe', (x, axis, ), {})


def softplus(x: Any) -> Any:
    """Log(1 + exp(x))."""
    return call('softplus', (x, ), {})


def softsign(x: Any) -> Any:
    """X / (1 + |x|)."""
    return call('softsign', (x, ), {})


def sort(x: Any, axis: Any = None, descending: Any = None) -> Any:
    """The sorted elements along an axis, and their indices."""
    return call('sort', (x, axis, descending, ), {})


def split(x: Any, parts: Any = None, axis: Any = None) -> Any:
    """Equal parts along an axis."""
    return call('split', (x, parts, axis, ), {})


def sqrt(x: Any) -> Any:
    """The square root of each element."""
    return call('sqrt', (x, ), {})


def step() -> Any:
    """The number of the step, from 1, as i64."""
    return call('step', (), {})


def sum(x: Any, axes: Any = None) -> Any:
    """Sums over axes; over all where none are given. It hides Python's sum, which adds up lists."""
    return call('sum', (x, axes, ), {})


def tan(x: Any) -> Any:
    """The tangent of each element."""
    return call('tan', (x, ), {})


def tanh(x: Any) -> Any:
    """The hyperbolic tangent of each element."""
    return call('tanh', (x, ), {})


def top_k(x: Any, k: Any = None, axis: Any = None) -> Any:
    """The k largest elements along an axis, and their indices."""
    return call('top_k', (x, k, axis, ), {})


def transpose(x: Any, permutation: Any = None) -> Any:
    """Dims in another order."""
    return call('transpose', (x, permutation, ), {})


def uniform(low: Any, high: Any = None) -> Any:
    """Initial values of a parameter from a uniform distribution."""
    return call('uniform', (low, high, ), {})


def value_and_grad(function: Any, argnums: Any = None) -> Any:
    """Like grad, with the result of the function: value, gradient."""
    return call('value_and_grad', (function, argnums, ), {})


def verify_numerics(x: Any, stable: Any = None, bounded: Any = None) -> Any:
    """A check in every run: elements are finite, and within bounds."""
    return call('verify_numerics', (x, stable, bounded, ), {})


def vjp(function: Any, primals: Any = None, cotangents: Any = None) -> Any:
    """The result of a function, and the product of cotangents and its Jacobian."""
    return call('vjp', (function, primals, cotangents, ), {})


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """X where the condition holds, y elsewhere."""
    return call('where', (condition, x, y, ), {})


def while_loop(condition: Any, step: Any = None, init: Any = None, limit: Any = None) -> Any:
    """Step(state) while condition(state) holds, at most limit times."""
    return call('while_loop', (condition, step, init, limit, ), {})


def zeros(shape: Any, dtype: Any = None) -> Any:
    """A tensor of zeros."""
    return call('zeros', (shape, dtype, ), {})


__all__ = ['KVCache', 'OptimizerState', 'Tensor', 'abs', 'accum', 'acos', 'adamw', 'argmax', 'asin', 'assign', 'atan', 'attention', 'autodiff', 'avg_pool2d', 'batch_norm', 'batch_norm_train', 'bf16', 'broadcast', 'cast', 'cast_like', 'ceil', 'celu', 'checkpoint', 'checkpointable', 'clamp', 'concat', 'cond', 'constant', 'constraints', 'conv2d', 'cos', 'cosine', 'cross_entropy', 'cumsum', 'custom_jvp', 'custom_vjp', 'deterministic', 'device', 'dropout', 'erf', 'exp', 'expm1', 'f16', 'f32', 'f64', 'floor', 'fp32_master', 'full', 'function', 'gather', 'gelu', 'gpu', 'grad', 'i1', 'i16', 'i32', 'i64', 'i8', 'iota', 'jit', 'jvp', 'layernorm_safe', 'linear', 'log', 'log1p', 'logsumexp_safe', 'loss_scale', 'matmul', 'max_pool2d', 'maximum', 'mean', 'mesh', 'minimize', 'minimum', 'nesterov', 'normal', 'one_hot', 'ones', 'pad', 'paged', 'param', 'prefetch', 'random_normal', 'random_uniform', 'reduce_max', 'reduce_min', 'reduce_prod', 'relu', 'remat', 'reshape', 'rmsnorm_safe', 'rolling_window', 'rotary', 'round', 'rsqrt', 'saturate', 'scan', 'scatter', 'scatter_add', 'scope', 'seed', 'sgd', 'sigmoid', 'sign', 'silu', 'sin', 'softmax_safe', 'softplus', 'softsign', 'sort', 'split', 'sqrt', 'step', 'stochastic_round', 'sum', 'tan', 'tanh', 'top_k', 'transpose', 'ui16', 'ui32', 'ui64', 'ui8', 'uniform', 'value_and_grad', 'verify_numerics', 'vjp', 'where', 'while_loop', 'zeros']
