# SPDX-License-Identifier: Apache-2.0
"""What Graph IR means, in NumPy float64; written from compiler/graph/README.md, sharing nothing with the compiler.

`Interpreter().run(function, arguments)` gives each result with a bound of the error that a right program can have:

- A result is rounded to its type after each op, as the product does, so that + - * / and sqrt have no error of their own
  (53 bits are enough to round a second time to 24, Figueroa 1995), and comparisons of exact values are exact.
- Other ops have an error of their own, which their rows in tests/ops.py state.
- Errors of operands go through an op by evaluating it at the operand plus and minus its error; through sums and products by
  magnitudes; through whole rows (softmax, norms, attention) by moving all elements at random.
"""
import math
import pathlib
import statistics
import sys
import warnings

import numpy as np

from graph import FLOATS, NUMPY, STORED, Op, Type, elements, pack, unpack

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ops import OPS, logsumexp, softmax  # noqa: E402

UNIT = {'f64': 2.0**-53, 'f32': 2.0**-24, 'bf16': 2.0**-24, 'f16': 2.0**-24}  # of what the op is computed in
HALF = {'f64': 2.0**-53, 'f32': 2.0**-24, 'bf16': 2.0**-8, 'f16': 2.0**-11}  # of what its result is rounded to
TINY = {'f64': 2.0**-1074, 'f32': 2.0**-149, 'bf16': 2.0**-133, 'f16': 2.0**-24}  # smallest step
LARGEST = {'f64': np.finfo(np.float64).max, 'f32': float(np.finfo(np.float32).max), 'bf16': 3.38e38, 'f16': 65504.0}

def to_odd(x):
    """In f32; what is inexact ends with a 1, so that rounding it again is as if it were done once."""
    single = x.astype(np.float32)
    bits = single.view(np.uint32)
    moved = np.isfinite(single) & (single.astype(np.float64) != x) & (bits & 1 == 0)
    further = np.where(np.abs(single.astype(np.float64)) > np.abs(x), bits - 1, bits + 1).astype(np.uint32)
    return np.where(moved, further, bits).view(np.float32)


def rounded(x, dtype, once=False):
    """To the type. What is computed is so in f32 at least and then rounded to bf16 or f16; a cast is rounded once."""
    x = np.asarray(x)
    if dtype not in FLOATS:
        return x.astype(NUMPY[dtype])
    x = x.astype(np.float64)
    if dtype == 'f64':
        return x
    with np.errstate(over='ignore'):
        single = to_odd(x) if once and dtype != 'f32' else x.astype(np.float32)
        if dtype == 'f16':
            return single.astype(np.float16).astype(np.float64)
    if dtype == 'bf16':
        bits = single.view(np.uint32).astype(np.uint64)
        rounded = ((bits + np.uint64(0x7fff) + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xffff0000)).astype(np.uint32)
        return np.where(np.isnan(single), single, rounded.view(np.float32)).astype(np.float64)
    return single.astype(np.float64)


# ---- ops that the table does not define -----------------------------------------------------------------------------------------

def cast(x, dtype):
    if dtype in FLOATS:
        return x.astype(np.float64)
    if dtype == 'i1':
        return x != 0
    if x.dtype == np.float64:
        info = np.iinfo(NUMPY[dtype])
        clean = np.where(np.isnan(x), 0, x)
        inside = np.clip(np.trunc(clean), float(info.min), float(info.max))
        whole = np.where(inside >= 2.0**(8 * info.dtype.itemsize - (info.min < 0)), 0, inside).astype(NUMPY[dtype])
        whole = np.where(clean >= float(info.max), NUMPY[dtype](info.max), whole)
        return np.where(clean <= float(info.min), NUMPY[dtype](info.min), whole)
    return x.astype(NUMPY[dtype])


def bitcast(op, x):
    """An attribute says of which type the operand is; floats of all types are float64 here."""
    to = op.types[0].dtype
    return unpack(np.ascontiguousarray(pack(x, op.text('oracle.source'))).view(STORED[to]).reshape(x.shape), to)


def matmul(op, a, b):
    a = np.swapaxes(a, -1, -2) if op.flag('transpose_a') else a
    b = np.swapaxes(b, -1, -2) if op.flag('transpose_b') else b
    return a @ b


def argmax(op, x):
    return np.argmax(x, axis=op.integer('axis')).astype(np.int64)


def sliced(op, x):
    strides = op.integers('stride') or (1,) * x.ndim
    spans = zip(op.integers('start'), op.integers('size'), strides)
    return x[tuple(slice(a, a + (n - 1) * s + 1 if n else a, s) for a, n, s in spans)]


def padded(op, x, value=None):
    low, high, inner = op.integers('low'), op.integers('high'), op.integers('interior') or (0,) * x.ndim
    inside = [d + max(d - 1, 0) * i for d, i in zip(x.shape, inner)]
    shape = tuple(a + d + b for a, d, b in zip(low, inside, high))
    fill = op.number('value', 0.0) if value is None else value
    whole = np.full(shape, fill).astype(x.dtype)
    whole[tuple(slice(a, a + d, i + 1) for a, d, i in zip(low, inside, inner))] = x
    return whole


def scatter_add(op, x, indices, updates):
    axis, whole = op.integer('axis'), np.moveaxis(x, op.integer('axis'), 0).copy()
    rank = indices.ndim
    moved = np.moveaxis(updates, range(axis, axis + rank), range(rank)).reshape((indices.size,) + whole.shape[1:])
    for index, update in zip(indices.reshape(-1), moved):
        whole[index] += update
    return np.moveaxis(whole, 0, axis)


def scatter(op, x, indices, updates):
    """Updates one after the other."""
    how, axis, rank = op.text('how'), op.integer('axis'), indices.ndim
    combine = {'set': lambda old, new: new, 'max': np.maximum, 'min': np.minimum, 'mul': np.multiply}[how]
    whole = np.moveaxis(x, axis, 0).copy()
    moved = np.moveaxis(updates, range(axis, axis + rank), range(rank)).reshape((indices.size,) + whole.shape[1:])
    for index, update in zip(indices.reshape(-1), moved):
        whole[index] = combine(whole[index], update)
    return np.moveaxis(whole, 0, axis)


def one_hot(op, indices):
    axis, kind = op.integer('axis'), op.types[0]
    positions = np.arange(kind.shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(kind.shape))])
    return (np.expand_dims(indices.astype(np.int64), axis) == positions).astype(NUMPY[kind.dtype])


def iota(op):
    kind, axis = op.types[0], op.integer('axis')
    line = np.arange(kind.shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(kind.shape))])
    return np.broadcast_to(line, kind.shape).astype(NUMPY[kind.dtype])


def cumsum(op, x):
    axis = op.integer('axis')
    y = np.flip(x, axis) if op.flag('reverse') else x
    sums = np.cumsum(y, axis=axis, dtype=x.dtype)
    if op.flag('exclusive'):
        sums = np.concatenate([np.zeros_like(np.take(sums, [0][:sums.shape[axis]], axis)),
                               np.take(sums, range(max(sums.shape[axis] - 1, 0)), axis)], axis)
    return np.flip(sums, axis) if op.flag('reverse') else sums


def order(x, axis, descending):
    """Stable, NaN last either way."""
    if x.dtype == np.float64:
        nan = np.isnan(x)
        key = np.where(nan, 0.0, -x if descending else x)
        by_key = np.argsort(key, axis=axis, kind='stable')
        late = np.take_along_axis(nan, by_key, axis)
        return np.take_along_axis(by_key, np.argsort(late, axis=axis, kind='stable'), axis)
    wide = x.astype(object)
    return np.argsort(-wide if descending else wide, axis=axis, kind='stable')


def sort(op, x, descending=None):
    axis = op.integer('axis')
    positions = order(x, axis, op.flag('descending') if descending is None else descending).astype(np.int64)
    return np.take_along_axis(x, positions, axis), positions


def top_k(op, x):
    return tuple(np.take(y, range(op.integer('k')), op.integer('axis')) for y in sort(op, x, True))


def batch_norm(op, x, scale, bias, centre, variance):
    shape = [-1 if i == op.integer('axis') else 1 for i in range(x.ndim)]
    scale, bias, centre, variance = (v.reshape(shape) for v in (scale, bias, centre, variance))
    return (x - centre) / np.sqrt(variance + op.number('eps', 1e-5)) * scale + bias


def batch_norm_train(op, x, scale, bias, centre, variance):
    axes = tuple(i for i in range(x.ndim) if i != op.integer('axis'))
    count = int(np.prod([x.shape[a] for a in axes]))
    m, v, momentum = x.mean(axis=axes), x.var(axis=axes), op.number('momentum', 0.1)
    unbiased = v * count / (count - 1) if count > 1 else v
    return (batch_norm(op, x, scale, bias, m, v), centre + (m - centre) * momentum,
            variance + (unbiased - variance) * momentum)


def attention_logits(op, q, k, mask):
    k = np.repeat(k, q.shape[1] // max(k.shape[1], 1), axis=1)
    logits = q @ np.swapaxes(k, -1, -2) * op.number('scale', 1 / math.sqrt(q.shape[3]) if q.shape[3] else math.inf)
    if mask is not None:
        logits = np.where(mask, logits, -np.inf) if mask.dtype == np.bool_ else logits + mask
    return np.where(attention_seen(op, *logits.shape[-2:]), logits, -np.inf)


def attention_seen(op, s, t):
    """Which keys a query sees, but for what a mask forbids: [S, T]."""
    return (np.arange(t) <= np.arange(s)[:, None] + t - s) | (not op.flag('causal'))


def attention_product(op, weights, x, back=False):
    """weights @ x, or with the transpose of the weights. What is not seen adds nothing, not even zero times an infinity."""
    seen = attention_seen(op, *weights.shape[-2:])
    weights = np.where(seen, weights, 0.0)
    if back:
        weights, seen = np.swapaxes(weights, -1, -2), seen.T
    if np.all(seen) or np.all(np.isfinite(x)):
        return weights @ x
    return np.concatenate([weights[..., i:i + 1, row] @ x[..., row, :] for i, row in enumerate(seen)], axis=-2)


def attention_parts(op, behind):
    """(the mask or None, (elements, step, seed) or None), of the operands behind the others."""
    count = len(behind) - (3 if 'dropout' in op.attrs else 0)
    return behind[0] if count else None, behind[count:] or None


def weight_numbers(heads, step, seed, stream, shape):
    """Of each weight [B, H, S, T]: 15 bits of Philox. Tiles of 16 x 16 weights have 32 counters, each for queries i, i + 8 and keys j, j + 1, j + 8, j + 9."""
    _, h, s, t = shape
    blocks_per_row = -(-t // 16)
    i, j = np.arange(s)[:, None], np.arange(t)[None]
    counter = (i // 16 * blocks_per_row + j // 16) * 32 + i % 8 * 4 + j % 8 // 2
    room = 32
    while room < 32 * -(-s // 16) * blocks_per_row:
        room *= 2
    first = (heads[:, None] + np.arange(h)).astype(np.uint64) * np.uint64(room * 8)
    counter = (first[:, :, None, None] >> np.uint64(3)) + counter.astype(np.uint64)
    low, same = np.uint64(0xffffffff), np.zeros_like(counter)
    words = philox_words([int(seed) & 0xffffffff, stream], [same + np.uint64(int(step) & 0xffffffff), counter & low, counter >> np.uint64(32), same])
    of_key = j // 8 % 2 == 1
    word = np.where(i // 8 % 2 == 1, np.where(of_key, words[3], words[1]), np.where(of_key, words[2], words[0]))
    return ((word >> np.uint64(16) * (j % 2).astype(np.uint64)) & np.uint64(0x7fff)).astype(np.float64) * 2.0**-15


def left(op, shape, samples):
    """What weights are multiplied by: 0, or 1 / (1 - dropout)."""
    if not samples:
        return 1.0
    heads, step, seed = samples
    wide = 'f64' if op.types[0].dtype == 'f64' else 'f32'
    u = weight_numbers(heads, step, seed, op.integer('stream'), shape)
    rate = op.number('dropout')
    return np.where(u >= float(rounded(rate, wide)), 1 / (1 - rate), 0.0)


def dropped(x, drop_mask):
    """What falls is 0, whatever it was."""
    return np.where(drop_mask == 0, 0.0, x * drop_mask)


def attention(op, q, k, v, *behind, part=np.array):
    """`part` is taken of the factors of the last products: np.abs gives the size of their terms."""
    mask, samples = attention_parts(op, behind)
    logits = attention_logits(op, q, k, mask)
    chances = softmax(logits, -1)
    out = attention_product(op, dropped(chances, left(op, logits.shape, samples)), np.repeat(part(v), q.shape[1] // max(v.shape[1], 1), axis=1))
    out = np.where(np.isnan(chances).any(-1, keepdims=True), np.nan, out)  # also where all weights fall: they are of a sum that is NaN
    return (out, logsumexp(logits, (3,))) if len(op.types) == 2 else out


def attention_grad(op, q, k, v, out, lse, dout, *behind, part=np.array):
    mask, samples = attention_parts(op, behind)
    logits = attention_logits(op, q, k, mask)
    chances, heads, drop_mask = softmax(logits, -1), max(k.shape[1], 1), left(op, logits.shape, samples)
    wide = [np.repeat(x, q.shape[1] // heads, axis=1) for x in (k, v)]
    dlogits = chances * (dropped(dout @ np.swapaxes(wide[1], -1, -2), drop_mask) - (dout * out).sum(-1, keepdims=True))
    dlogits = part(dlogits * op.number('scale', 1 / math.sqrt(q.shape[3])))

    def grouped(x):
        return x.reshape(x.shape[0], heads, -1, *x.shape[2:]).sum(2)
    return (attention_product(op, dlogits, part(wide[0])), grouped(attention_product(op, dlogits, part(q), back=True)),
            grouped(attention_product(op, dropped(chances, drop_mask), part(dout), back=True)))


def rotary(op, x):
    axis, size = op.integer('axis'), x.shape[-1]
    positions = np.arange(x.shape[axis]) + op.integer('offset', 0)
    angle = np.outer(positions, op.number('base', 1e4) ** (-2.0 * np.arange(size // 2) / size))
    angle = angle.reshape([x.shape[axis]] + [1] * (x.ndim - 2 - axis) + [size // 2])
    c, s = np.cos(angle), np.sin(angle) * (-1 if op.flag('inverse') else 1)
    a, b = (x[..., 0::2], x[..., 1::2]) if op.flag('interleaved') else (x[..., :size // 2], x[..., size // 2:])
    rotated = a * c - b * s, b * c + a * s
    if op.flag('interleaved'):
        return np.stack(rotated, -1).reshape(x.shape)
    return np.concatenate(rotated, -1)


def windows(op, x, size, dilation=(1, 1), fill=0.0):
    """[N, OH, OW, KH, KW, C]"""
    top, bottom, left, right = op.integers('padding')
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, size)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(1, 2))
    sh, sw = op.integers('strides')
    return np.moveaxis(view[:, ::sh, ::sw, :, ::dilation[0], ::dilation[1]], 3, 5)


def conv2d(op, x, f):
    groups = op.integer('groups', 1)
    parts = [np.einsum('nhwijc,ijcf->nhwf', windows(op, a, f.shape[:2], op.integers('dilation')), b)
             for a, b in zip(np.split(x, groups, 3), np.split(f, groups, 3))]
    return np.concatenate(parts, 3)


def taps(op, size, out, dilation=(1, 1)):
    """For each element of a window: its position in it, and where in the padded image it is read for all results."""
    sh, sw = op.integers('strides')
    for i, j in np.ndindex(*size):
        top, left = i * dilation[0], j * dilation[1]
        yield i, j, (slice(None), slice(top, top + (out[0] - 1) * sh + 1, sh), slice(left, left + (out[1] - 1) * sw + 1, sw))


def unpadded(op, shape, fill):
    """An image of this shape, which `fill` gets with its padding, as zeros."""
    top, bottom, left, right = op.integers('padding')
    whole = np.zeros((shape[0], shape[1] + top + bottom, shape[2] + left + right, shape[3]))
    fill(whole)
    return whole[:, top:top + shape[1], left:left + shape[2]]


def conv2d_grad_input(op, f, g):
    def fill(image):
        groups = op.integer('groups', 1)
        for i, j, position in taps(op, f.shape[:2], g.shape[1:3], op.integers('dilation')):
            parts = [np.einsum('nhwf,cf->nhwc', a, b) for a, b in zip(np.split(g, groups, 3), np.split(f[i, j], groups, 1))]
            image[position] += np.concatenate(parts, 3)
    return unpadded(op, op.types[0].shape, fill)


def conv2d_grad_filter(op, x, g):
    top, bottom, left, right = op.integers('padding')
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    result, groups = np.zeros(op.types[0].shape), op.integer('groups', 1)
    for i, j, position in taps(op, result.shape[:2], g.shape[1:3], op.integers('dilation')):
        parts = [np.einsum('nhwc,nhwf->cf', a, b) for a, b in zip(np.split(x[position], groups, 3), np.split(g, groups, 3))]
        result[i, j] = np.concatenate(parts, 1)
    return result


def avg_pool_grad(op, g):
    size = op.integers('window')
    shape = op.types[0].shape

    def fill(image):
        for _, _, position in taps(op, size, g.shape[1:3]):
            image[position] += g / pooled(op, shape, size)
    return unpadded(op, shape, fill)


def max_pool(op, x):
    return windows(op, x, op.integers('window'), fill=-np.inf).max(axis=(3, 4))


def pooled(op, shape, size):
    """How many elements each window counts."""
    if not op.flag('exclude_padding'):
        return size[0] * size[1]
    return windows(op, np.ones((1,) + shape[1:3] + (1,)), size).sum(axis=(3, 4))


def avg_pool(op, x):
    size = op.integers('window')
    return windows(op, x, size).sum(axis=(3, 4)) / pooled(op, x.shape, size)


def max_pool_grad(op, x, g):
    size = op.integers('window')
    view, inside = windows(op, x, size, fill=-np.inf), windows(op, np.ones(x.shape), size)
    view, inside = (v.reshape(v.shape[:3] + (size[0] * size[1], -1)) for v in (view, inside))
    position = np.where(view.max(axis=3) == -np.inf, inside.argmax(axis=3), view.argmax(axis=3))  # padding is never chosen
    top, _, left, _ = op.integers('padding')
    strides, result = op.integers('strides'), np.zeros(x.shape)
    for n, i, j, c in np.ndindex(*g.shape):
        row, column = divmod(position[n, i, j, c], size[1])
        result[n, i * strides[0] + row - top, j * strides[1] + column - left, c] += g[n, i, j, c]
    return result


# Operands that are the results for rows that are not computed again; other kinds have the second.
PLAIN_OF_INCOMING = {'incoming_product': 2, 'incoming_size': 3, 'incoming_mean': 4}
# Numbers of rows that are not computed again.
PLAIN_NUMBERS = {'offset': -0.0, 'incoming_scale': 1.0}


def plain_of(op):
    """The index of an operand; None: a number."""
    of = op.text('of')
    return None if of in PLAIN_NUMBERS else PLAIN_OF_INCOMING.get(of, 1)


def repair(op, *x):
    """Of rows whose numbers have neither overflowed nor vanished."""
    at, like = plain_of(op), x[2 if op.text('of').startswith('incoming') else 1]
    return np.full(like.shape, PLAIN_NUMBERS[op.text('of')], like.dtype) if at is None else x[at]


def is_repaired(op, x, errors):
    """May a row be computed again? Then what it is hangs on more than the plain number."""
    if op.text('of').startswith('incoming'):  # far below the largest number, so that every count of elements is safe
        return ~(sum(np.abs(x[k]) + errors[k] for k in (2, 4) if k < len(x)) < 2.0**64)
    plain, error = x[1], errors[1]
    odd = ~np.isfinite(plain) | (error > 0) & ~np.isfinite(error)
    return odd if op.text('of') in ('mean', 'average', 'variance') else odd | ~(plain - error > 0)


def cross_entropy(logits, labels):
    return logsumexp(logits, (1,)) - logits[np.arange(len(labels)), labels]


def cross_entropy_grad(logits, labels, dlosses):
    """Of a row of -inf the loss is NaN, and so is this, as PyTorch has it: only softmax_safe is safe."""
    p = softmax(logits, 1)
    p[np.max(logits, axis=1, initial=-np.inf) == -np.inf] = np.nan
    p[np.arange(len(labels)), labels] -= 1
    return p * dlosses[:, None]


def adamw(op, x, g, m, v, step, scale=1.0):
    """torch.optim.AdamW, after Loshchilov and Hutter 2019, algorithm 2."""
    of, g = op.numbers('optimizer'), g * scale
    m, v = m + (g - m) * (1 - of['beta1']), v * of['beta2'] + (1 - of['beta2']) * g * g
    rate, root = of['lr'] / (1 - of['beta1'] ** float(step)), np.sqrt(1 - of['beta2'] ** float(step))
    return x * (1 - of['lr'] * of['weight_decay']) - rate * m / (np.sqrt(v) / root + of['eps']), m, v


def sgd(op, x, g, velocity, scale=1.0):
    """torch.optim.SGD without dampening."""
    of = op.numbers('optimizer')
    g = g * scale + of['weight_decay'] * x
    velocity = of['momentum'] * velocity + g
    return x - of['lr'] * (g + of['momentum'] * velocity if 'nesterov' in op.attrs['optimizer'] else velocity), velocity


quantile = np.vectorize(statistics.NormalDist().inv_cdf, otypes=[np.float64])


def philox_words(key, counter):
    """Salmon et al. 2011, section 3.3: ten rounds of two multiplications."""
    low = np.uint64(0xffffffff)
    k = [np.uint64(v) for v in key]
    c = [np.asarray(v, np.uint64) for v in counter]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & low, (a >> np.uint64(32)) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return c


def philox(op, element, step, seed):
    e, low = element.astype(np.uint64), np.uint64(0xffffffff)
    if op.flag('shared'):  # eight elements a counter
        e, part = e >> np.uint64(3), e & np.uint64(7)
    same = np.zeros_like(e)
    counter = [same + np.uint64(int(step) & 0xffffffff), e & low, e >> np.uint64(32), same + np.uint64(op.integer('draw', 0))]
    words = philox_words([int(seed) & 0xffffffff, op.integer('stream')], counter)
    if op.flag('shared'):
        word = np.choose(part.astype(np.int64) >> 1, words)
        return ((word >> np.uint64(16) * (part & np.uint64(1))) & np.uint64(0x7fff)).astype(np.float64) * 2.0**-15
    if op.flag('normal'):
        middle = (words[0] << np.uint64(20)) | (words[1] >> np.uint64(12))
        return quantile((middle.astype(np.float64) + 0.5) * 2.0**-52)
    if op.types[0].dtype == 'f64':
        return (((words[0] << np.uint64(32)) | words[1]) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (words[0] >> np.uint64(8)).astype(np.float64) * 2.0**-24


def largest_below(bound, dtype):
    """The largest number of the type, a float, that is below the bound."""
    x = pack(rounded([bound], dtype), dtype)
    if float(unpack(x, dtype)[0]) < bound:
        return float(unpack(x, dtype)[0])
    bits = x.view(f'<i{x.itemsize}')
    sign = np.iinfo(bits.dtype).min
    bits = np.where(bits & ~sign == 0, sign | 1, np.where(bits < 0, bits + 1, bits - 1)).astype(bits.dtype)
    return float(unpack(bits.view(x.dtype), dtype)[0])


def drawn(op, step, seed, iteration=0):
    """The elements of a random op, in the order of their positions; behind those of the iterations before."""
    kind = op.types[0]
    wide = Op('philox', [], [], [Type(kind.shape, 'f64' if kind.dtype == 'f64' else 'f32')], op.attrs)
    if op.name == 'random_normal':
        wide.attrs['normal'] = 'unit'
    u = rounded(philox(wide, np.arange(kind.size) + iteration * kind.size, step, seed), wide.types[0].dtype).reshape(kind.shape)
    if op.name == 'random_normal':
        return op.number('mean', 0.0) + op.number('deviation', 1.0) * u
    low, high = op.number('low', 0.0), op.number('high', 1.0)
    return np.minimum(low + (high - low) * u, largest_below(high, kind.dtype))


def dropout(op, x, step, seed, iteration=0):
    """In training: elements that are not dropped grow, so that the mean stays."""
    computed = 'f64' if op.types[0].dtype == 'f64' else 'f32'
    wide = Op('random_uniform', [], [], [Type(op.types[0].shape, computed)], {'stream': op.attrs['stream']})
    rate = float(rounded(op.number('rate'), computed))
    return np.where(drawn(wide, step, seed, iteration) >= rate, x / (1 - op.number('rate')), 0.0)


MEANINGS = {
    'matmul': matmul, 'argmax': argmax, 'slice': sliced, 'pad': padded, 'sort': sort, 'top_k': top_k,
    'bitcast': bitcast, 'cast': lambda op, x: cast(x, op.types[0].dtype), 'reshape': lambda op, x: x.reshape(op.types[0].shape), 'transpose': lambda op, x: x.transpose(op.integers('permutation')),
    'broadcast': lambda op, x: np.broadcast_to(x, op.types[0].shape),
    'concat': lambda op, *x: np.concatenate(x, op.integer('axis')), 'scatter_add': scatter_add, 'scatter': scatter, 'one_hot': one_hot,
    'split': lambda op, x: tuple(np.split(x, np.cumsum([t.shape[op.integer('axis')] for t in op.types])[:-1], op.integer('axis'))),
    'gather': lambda op, x, i: np.take(x, i, op.integer('axis')), 'iota': iota, 'cumsum': cumsum, 'philox': philox,
    'cross_entropy': lambda op, *x: cross_entropy(*x), 'cross_entropy_grad': lambda op, *x: cross_entropy_grad(*x),
    'batch_norm': batch_norm, 'batch_norm_train': batch_norm_train, 'attention': attention, 'attention_grad': attention_grad,
    'rotary': rotary, 'repair': repair, 'conv2d': conv2d, 'max_pool2d': max_pool, 'avg_pool2d': avg_pool, 'max_pool2d_grad': max_pool_grad,
    'conv2d_grad_input': conv2d_grad_input, 'conv2d_grad_filter': conv2d_grad_filter, 'avg_pool2d_grad': avg_pool_grad,
    'constant': lambda op: elements(op.attrs['value']), 'hyperparameter': lambda op: np.float64(op.number('value')), 'adamw': adamw, 'sgd': sgd,
}


def evaluate(op, inputs):
    """The results, not yet rounded."""
    meaning = OPS[op.name].numpy
    with np.errstate(all='ignore'), warnings.catch_warnings():
        warnings.simplefilter('ignore', RuntimeWarning)  # means of nothing are NaN
        results = meaning(*inputs, **op.values()) if meaning else MEANINGS[op.name](op, *inputs)
    return results if isinstance(results, tuple) else (results,)
