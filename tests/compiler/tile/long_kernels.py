#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Convolutions, attention and their gradients with long sums: the error against float64 does not grow with the length, and the
Tile IR of the GPU gives the same bits as the CPU's.

usage: long_kernels.py TESSERA_AOT TESSERA_RUN ASSEMBLER [SEED] [--large]

The bound is 4 times the error of the same formula in NumPy's float32, with products in blocks of 256 steps that are added in
pairs, but at least 2 units in the last place of the sum of the terms' magnitudes. It applies to the largest error of a tensor,
which is relative to that sum for convolutions. f64 is compared with NumPy's longdouble, and the other formula is in float64.
bf16 and f16 are computed in f32 and rounded once, so that half a unit in the last place of the result is added to the bound.
--large: longer sums, in about a minute. Data is drawn from the seed, which is printed. Exits with 77 without NumPy.
"""
import sys

try:
    import numpy as np
except ImportError as error:
    print(error)
    sys.exit(77)

from long_axes import alternating, check, constant, normal, tensor, uniform
from graph import pack, unpack  # found through long_axes


BLOCK = 256
# Types of elements: in which NumPy computes the exact result and the other one; half a unit in the last place of 1, if the result
# is rounded once more, and half the smallest number.
PRECISIONS = {'f32': (np.float64, np.float32, 0, 0), 'f64': (np.longdouble, np.float64, 0, 0),
              'bf16': (np.float64, np.float32, 2.0**-8, 2.0**-134), 'f16': (np.float64, np.float32, 2.0**-11, 2.0**-25)}


def product(a, b):
    """a @ b, in blocks of steps that are added in pairs: NumPy's own product may be one chain."""
    parts = [a[..., k:k + BLOCK] @ b[..., k:k + BLOCK, :] for k in range(0, a.shape[-1], BLOCK)]
    while len(parts) > 1:
        parts = [sum(parts[i + 1:i + 2], parts[i]) for i in range(0, len(parts), 2)]
    return parts[0]


def columns(x, taps, padding):
    """[N, H, W, C] as [N * OH * OW, KH * KW, C]: what each window covers."""
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    found = np.lib.stride_tricks.sliding_window_view(x, taps, (1, 2))  # N, OH, OW, C, KH, KW
    return np.moveaxis(found, 3, 5).reshape(-1, taps[0] * taps[1], x.shape[3])


def forward(x, f, padding):
    """In the type of x; also of its own channel for each filter."""
    c = columns(x, f.shape[:2], padding)
    out = [x.shape[0], *(x.shape[d] + 2 * padding - f.shape[d - 1] + 1 for d in (1, 2)), f.shape[3]]
    if f.shape[2] == 1 < x.shape[3]:  # per channel
        return np.stack([product(c[:, :, k], f.reshape(-1, f.shape[3])[:, k:k + 1])[:, 0] for k in range(f.shape[3])], -1).reshape(out)
    return product(c.reshape(len(c), -1), f.reshape(-1, f.shape[3])).reshape(out)


def of_image(f, g, padding):
    flipped = np.swapaxes(f[::-1, ::-1], 2, 3)
    return forward(g, flipped, f.shape[0] - 1 - padding)


def of_filter(x, g, padding, taps, groups):
    c, g = columns(x, taps, padding), g.reshape(-1, g.shape[3])
    if groups > 1:
        return np.stack([product(c[:, :, k].T, g[:, k:k + 1])[:, 0] for k in range(groups)], -1).reshape(*taps, 1, groups)
    return product(c.reshape(len(c), -1).T, g).reshape(*taps, x.shape[3], g.shape[1])


def mirrored(axis):
    """The second half along an axis is minus the first: sums along it are 0, so that a result of 16 bits shows the error of its sum."""
    def draw(generator, shape):
        half = [*shape]
        half[axis] //= 2
        values = 0.5 + generator.random(half, dtype=np.float32)
        return np.concatenate([values, -values], axis)
    return draw


CONV = {'conv2d': (forward, 'xf'), 'conv2d_grad_input': (of_image, 'fg'), 'conv2d_grad_filter': (of_filter, 'xg')}
# name: op, shapes of its operands and of the result, padding, groups, data of both operands, or of each
CONVS = {
    'forward': ('conv2d', (1, 5, 6, 512), (3, 3, 512, 16), (1, 5, 6, 16), 1, 1, normal),
    'forward_tenths': ('conv2d', (1, 5, 5, 512), (3, 3, 512, 5), (1, 3, 3, 5), 0, 1, constant(0.1)),
    'forward_groups_of_chunks': ('conv2d', (1, 3, 4, 3000), (3, 3, 3000, 3), (1, 1, 2, 3), 0, 1, uniform),
    'forward_taps': ('conv2d', (1, 40, 40, 3), (32, 32, 3, 8), (1, 9, 9, 8), 0, 1, alternating),
    'forward_per_channel': ('conv2d', (1, 64, 66, 20), (60, 61, 1, 20), (1, 7, 8, 20), 1, 20, constant(0.1)),
    'forward_row': ('conv2d', (1, 1, 3100, 6), (1, 3001, 1, 6), (1, 1, 100, 6), 0, 6, normal),
    'of_image': ('conv2d_grad_input', (3, 3, 8, 512), (1, 6, 7, 512), (1, 6, 7, 8), 1, 1, normal),
    'of_filter': ('conv2d_grad_filter', (2, 60, 61, 9), (2, 60, 61, 4), (3, 3, 9, 4), 1, 1, uniform),
    'of_filter_tenths': ('conv2d_grad_filter', (3, 150, 150, 2), (3, 148, 148, 3), (3, 3, 2, 3), 0, 1, constant(0.1)),
    'of_filter_row': ('conv2d_grad_filter', (1, 3, 20005, 2), (1, 3, 20005, 2), (3, 3, 2, 2), 1, 1, alternating),
    'of_filter_point': ('conv2d_grad_filter', (4, 60, 60, 8), (4, 60, 60, 5), (1, 1, 8, 5), 0, 1, uniform),
    'of_filter_per_channel': ('conv2d_grad_filter', (1, 200, 201, 20), (1, 200, 201, 20), (3, 3, 1, 20), 1, 20, constant(0.1)),
    'forward_mirrored': ('conv2d', (1, 40, 40, 3), (32, 32, 3, 8), (1, 9, 9, 8), 0, 1, constant(0.7), mirrored(0)),
    'of_image_mirrored': ('conv2d_grad_input', (3, 3, 8, 512), (1, 6, 7, 512), (1, 6, 7, 8), 1, 1, mirrored(3), constant(0.7)),
    'of_filter_mirrored': ('conv2d_grad_filter', (2, 60, 61, 9), (2, 60, 61, 4), (3, 3, 9, 4), 1, 1, mirrored(0), constant(0.7)),
    'of_filter_per_channel_mirrored': ('conv2d_grad_filter', (2, 140, 141, 20), (2, 140, 141, 20), (3, 3, 1, 20), 1, 20, mirrored(0), constant(0.7)),
}
LARGE_CONVS = {'of_filter_large': ('conv2d_grad_filter', (4, 512, 512, 3), (4, 512, 512, 8), (3, 3, 3, 8), 1, 1, constant(0.1))}


def softened(q, k, v, mask):
    scores = q @ np.swapaxes(k, -1, -2) * q.dtype.type(q.shape[-1] ** -0.5)
    scores = np.where(mask, scores, -np.inf).astype(q.dtype)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def attend(q, k, v, mask):
    return product(softened(q, k, v, mask), v)


def attend_back(which):
    """`o`: the result that the gradient is computed from; None: the exact one."""
    def gradient(q, k, v, g, mask, o=None):
        p, scale = softened(q, k, v, mask), q.dtype.type(q.shape[-1] ** -0.5)
        c = g @ np.swapaxes(v, -1, -2)
        t = (g * (product(p, v) if o is None else o)).sum(-1, keepdims=True)
        d = p * (c - t) * scale
        heads = lambda x: x.sum(1, keepdims=True, dtype=x.dtype) if k.shape[1] == 1 else x
        return [lambda: product(d, k), lambda: heads(product(np.swapaxes(d, -1, -2), q)), lambda: heads(product(np.swapaxes(p, -1, -2), g))][which]()
    return gradient


# name: gradient of which operand or None, batch, heads, key heads, queries, keys, d, causal, data of q, k, v, and of the result's gradient
ATTENTIONS = {
    'attend': (None, 1, 2, 1, 3, 100003, 8, False, normal, normal, normal),
    'attend_tenths': (None, 1, 1, 1, 2, 100003, 24, False, constant(0), normal, constant(0.1)),
    'attend_causal': (None, 1, 2, 2, 300, 4500, 16, True, normal, normal, uniform),
    'of_query': (0, 1, 2, 1, 3, 100003, 8, False, normal, normal, normal, normal),
    'of_query_even': (0, 1, 2, 1, 2, 40001, 7, False, constant(0), alternating, alternating, constant(1)),
    'of_key': (1, 1, 2, 1, 100003, 5, 8, False, normal, normal, normal, normal),
    'of_key_even': (1, 1, 2, 1, 20001, 3, 7, False, constant(0.01), constant(0), normal, uniform),
    'of_value': (2, 1, 2, 1, 40001, 5, 8, False, constant(0), normal, normal, constant(0.1)),
    'of_query_causal': (0, 1, 2, 1, 300, 4500, 16, True, normal, normal, normal, normal),
    'of_key_causal': (1, 1, 2, 1, 1500, 1700, 8, True, normal, normal, normal, normal),
    'of_value_causal': (2, 1, 3, 1, 1100, 1300, 11, True, normal, normal, normal, uniform),
    'attend_mirrored': (None, 1, 2, 1, 3, 100002, 8, False, constant(0), normal, mirrored(2)),
    'of_key_mirrored': (1, 1, 2, 1, 40002, 5, 8, False, constant(0.25), normal, normal, mirrored(2)),
    'of_value_mirrored': (2, 1, 2, 1, 40002, 5, 8, False, constant(0.25), normal, normal, mirrored(2)),
}
LARGE_ATTENTIONS = {
    'attend_large': (None, 1, 1, 1, 64, 1 << 20, 8, False, normal, normal, constant(0.1)),
    'of_query_large': (0, 1, 1, 1, 4, 1 << 20, 7, False, constant(0), alternating, alternating, constant(1)),
    'of_value_large': (2, 1, 1, 1, 1 << 20, 4, 8, False, constant(0), normal, normal, constant(0.1)),
}


# Cases that other types have as well.
TYPED = ('conv_forward', 'conv_forward_mirrored', 'conv_of_image_mirrored', 'conv_of_filter_mirrored', 'conv_of_filter_per_channel_mirrored', 'attend',
         'attend_mirrored', 'of_query', 'of_query_causal', 'of_key_mirrored', 'of_value_mirrored', 'of_value_causal')


def conv_entry(of, dtype):
    op, a, b, result, padding, groups, *data = of
    names = CONV[op][1]
    attributes = f'{{strides = [1, 1], padding = {[padding] * 4}, dilation = [1, 1], groups = {groups} : i64}}'
    text = f'  %y = tessera.{op} %{names[0]}, %{names[1]} {attributes} : {tensor(a, dtype)}, {tensor(b, dtype)} -> {tensor(result, dtype)}\n'
    return {names[0]: (a, dtype, data[0]), names[1]: (b, dtype, data[-1])}, text, {'y': ('%y', result, dtype)}


def attention_entry(of, dtype):
    """For 16-bit gradients also the result `o`, which is rounded before they are computed from it."""
    which, batch, heads, key_heads, queries, keys, d, causal, *data = of
    q, k = (batch, heads, queries, d), (batch, key_heads, keys, d)
    inputs = {n: (s, dtype, given) for n, s, given in zip('qkvg', (q, k, k, q), data)}
    attributes = ' {causal}' if causal else ''
    tq, tk, lse = tensor(q, dtype), tensor(k, dtype), tensor((batch, heads, queries), 'f64' if dtype == 'f64' else 'f32')
    if which is None:
        return inputs, f'  %y = tessera.attention %q, %k, %v{attributes} : {tq}, {tk}, {tk} -> {tq}\n', {'y': ('%y', q, dtype)}
    text = f'  %o:2 = tessera.attention %q, %k, %v{attributes} : {tq}, {tk}, {tk} -> {tq}, {lse}\n' + \
        f'  %y:3 = tessera.attention_grad %q, %k, %v, %o#0, %o#1, %g{attributes} : {tq}, {tk}, {tk}, {tq}, {lse}, {tq} -> {tq}, {tk}, {tk}\n'
    more = {'o': ('%o#0', q, dtype)} if PRECISIONS[dtype][2] else {}
    return inputs, text, {'y': (f'%y#{which}', (q, k, k)[which], dtype), **more}


def split(name):
    """The case and the element type of an entry."""
    case, _, dtype = name.rpartition('_')
    return (case, dtype) if dtype in PRECISIONS else (name, 'f32')


def cases(large=False):
    """{name: (inputs as (shape, element type, data), body, {output: (value, shape, element type)})}"""
    convs = {f'conv_{n}': of for n, of in {**CONVS, **(LARGE_CONVS if large else {})}.items()}
    attentions = {**ATTENTIONS, **(LARGE_ATTENTIONS if large else {})}
    names = [*convs, *attentions, *(f'{n}_{dtype}' for dtype in PRECISIONS if dtype != 'f32' for n in TYPED)]
    found = {}
    for name in names:
        case, dtype = split(name)
        found[name] = conv_entry(convs[case], dtype) if case in convs else attention_entry(attentions[case], dtype)
    return found


def source(names):
    """The program of these entries."""
    text, known = '', cases(True)
    for name in names:
        inputs, body, outputs = known[name]
        arguments = ', '.join(f'%{n}: {tensor(s, dtype)} {{tessera.name = "{n}"}}' for n, (s, dtype, _) in inputs.items())
        results = ', '.join(f'{tensor(s, dtype)} {{tessera.name = "{n}"}}' for n, (_, s, dtype) in outputs.items())
        text += (f'func.func @{name}({arguments}) -> ({results}) attributes {{tessera.entry = "infer"}} {{\n'
                 f'{body}  return {", ".join(v for v, _, _ in outputs.values())} : {", ".join(tensor(s, dtype) for _, s, dtype in outputs.values())}\n}}\n')
    return text


def rounded(values, dtype):
    return values if dtype == 'f32' else unpack(pack(values, dtype), dtype)


def make(generator, name):
    """{input: (values, element type)}"""
    return {n: (rounded(data(generator, shape), dtype), dtype) for n, (shape, dtype, data) in cases(True)[name][0].items()}


def excess(got, right, dtype):
    """By how much each number is off, apart from the rounding of the result."""
    _, _, unit, least = PRECISIONS[dtype]
    return np.maximum(np.abs(got - right) - 1.001 * (unit * np.abs(right) + least), 0)


def judge(name, inputs, results):
    """None, or what is wrong."""
    case, dtype = split(name)
    exact, other, *_ = PRECISIONS[dtype]
    wide, small = ([x.astype(how) for x in inputs.values()] for how in (exact, other))
    convs = {f'conv_{n}': of for n, of in {**CONVS, **LARGE_CONVS}.items()}
    if case in convs:
        op, _, _, result, padding, groups, *_ = convs[case]
        more = (result[:2], groups) if op == 'conv2d_grad_filter' else ()
        how = lambda *operands: CONV[op][0](*operands, padding, *more)
        right, size = how(*wide), how(*(np.abs(x) for x in wide))
        error, theirs = np.max(excess(results['y'], right, dtype) / size), np.max(np.abs(how(*small) - right) / size)
        return told(error, max(4 * theirs, 2 * np.finfo(other).eps))
    which, _, _, _, queries, keys, _, causal, *_ = {**ATTENTIONS, **LARGE_ATTENTIONS}[case]
    mask = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries if causal else True
    how = attend if which is None else attend_back(which)
    of_exact, of_other = ([results['o'].astype(t)] if 'o' in results else [] for t in (exact, other))
    right = how(*wide, mask, *of_exact)
    error, theirs = np.max(excess(results['y'], right, dtype)), np.max(np.abs(how(*small, mask, *of_other) - right))
    bound = max(4 * theirs, 2 * float(np.spacing(other(magnitude(which, inputs, mask)))))
    return told(error, bound)


def told(error, bound):
    return None if error <= bound else f'the largest error is {error:.2e}, {error / bound:.1f} times what is allowed'


def magnitude(which, inputs, mask):
    """The largest sum of magnitudes of terms."""
    q, k, v, *g = (x.astype(np.float64) for x in inputs.values())
    p = softened(q, k, v, mask)
    if which is None:
        return np.max(p @ np.abs(v))
    g, v = np.abs(g[0]), np.abs(v)
    d = p * (g @ np.swapaxes(v, -1, -2) + (g * (p @ v)).sum(-1, keepdims=True)) * q.shape[-1] ** -0.5
    if which == 0:
        return np.max(d @ np.abs(k))
    terms = np.swapaxes(d, -1, -2) @ np.abs(q) if which == 1 else np.swapaxes(p, -1, -2) @ g
    return np.max(terms.sum(1))


if __name__ == '__main__':
    LARGE = '--large' in sys.argv
    TRIED = cases(LARGE)
    # Kernels of a GPU's attention take a CPU's compiler seconds each: those that a causal one has show all that it shares.
    SHARED = [n for n in TRIED if LARGE or n.startswith('conv_') or n in ('attend_causal', 'of_query_causal', 'of_value_causal')]
    sys.exit(check([a for a in sys.argv[1:] if a != '--large'], source, {n: list(of[2]) for n, of in TRIED.items()}, make, judge, SHARED))
