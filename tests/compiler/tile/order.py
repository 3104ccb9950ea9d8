# SPDX-License-Identifier: Apache-2.0
"""A reference interpreter, in NumPy, of the orders that compiler/tile/tile.h specifies for reductions and products."""
import numpy as np

PARTIALS, SUM_SHORT, SUM_CHUNK = 64, 16384, 2048
PRODUCT_SHORT, PRODUCT_CHUNK, PRODUCT_GROUP = 2048, 256, 32


def tree(how, values):
    """The root of the binary tree over a list, split at the largest power of two below its length."""
    if len(values) == 1:
        return values[0]
    split = 1 << (len(values) - 1).bit_length() - 1
    return how(tree(how, values[:split]), tree(how, values[split:]))


def reduce_chunk(how, rows, first):
    """64 partial results over axis 0, then halves."""
    parts = np.full((PARTIALS, *rows.shape[1:]), first, rows.dtype)
    for begin in range(0, len(rows), PARTIALS):
        block = rows[begin:begin + PARTIALS]
        parts[:len(block)] = how(parts[:len(block)], block)
    while len(parts) > 1:
        parts = how(parts[:len(parts) // 2], parts[len(parts) // 2:])
    return parts[0]


def reduce(how, x, axes, first=0):
    """Over these axes: in one chunk, or in chunks and a tree."""
    parallel = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose(list(axes) + parallel).reshape(-1, *(x.shape[d] for d in parallel))
    if len(rows) <= SUM_SHORT:
        return reduce_chunk(how, rows, first)
    return tree(how, [reduce_chunk(how, rows[i:i + SUM_CHUNK], first) for i in range(0, len(rows), SUM_CHUNK)])


def total(x, axes=None):
    """The sum over these axes, or over all."""
    return reduce(np.add, x, list(range(x.ndim)) if axes is None else axes)


def fma(a, b, c):
    """a * b + c of float32, rounded once (the product is exact in float64; the sum is rounded to odd before it is rounded to float32)."""
    p, c = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    s = p + c
    high = s - p
    lost = (p - (s - high)) + (c - high)
    bits = s.view(np.int64)
    odd = np.where((lost != 0) & (bits & 1 == 0), np.where((lost > 0) == (s > 0), bits + 1, bits - 1), bits)
    return odd.view(np.float64).astype(np.float32)


def chain(a, b):
    """a @ b of float32, one ascending chain of FMAs per element."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = fma(a[:, k:k + 1], b[k:k + 1], total)
    return total


def add_group(sums):
    total = np.zeros_like(sums[0])
    for x in sums:
        total = total + x
    return total


def product(a, b):
    """a @ b of float32: one chain, or chains whose sums are added in groups, and so on."""
    if a.shape[1] <= PRODUCT_SHORT:
        return chain(a, b)
    sums = [chain(a[:, k:k + PRODUCT_CHUNK], b[k:k + PRODUCT_CHUNK]) for k in range(0, a.shape[1], PRODUCT_CHUNK)]
    while len(sums) > 1:
        sums = [add_group(sums[i:i + PRODUCT_GROUP]) for i in range(0, len(sums), PRODUCT_GROUP)]
    return sums[0]
