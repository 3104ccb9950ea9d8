# SPDX-License-Identifier: Apache-2.0
"""Runs a graph by interpret.py, carrying with each value a bound of the error that a right program can have there.

Elements whose bound is infinite are not compared: what they are hangs on a rounding.
"""
import numpy as np

import interpret
from graph import FLOATS, Op
from interpret import HALF, LARGEST, TINY, UNIT, evaluate, rounded
from ops import MOVES, OPS, PRODUCTS, SUMS, Precision, Rows


class Interpreter:
    """`rounding` off: plain float64, no bounds (for derivatives). `train`: dropout drops. `native`: instructions for bf16 and f16 may
    take denormals of f32 for 0, and give none."""

    def __init__(self, rounding=True, step=0, seed=0, train=False, native=False):
        self.rounding, self.step, self.seed, self.train, self.native = rounding, step, seed, train, native
        self.singular = False  # an op met a point where it or its slope is not finite
        self.random = np.random.default_rng(1)
        self.iteration = 0  # of the loops around, counted through

    def run(self, function, arguments, tensors=None):
        """[(value, bound)] of what the function returns. Arguments are arrays."""
        self.tensors, self.assigned = tensors or {}, {}
        values = {n: (np.asarray(a), np.zeros(np.shape(a))) for (n, _), a in zip(function.arguments, arguments)}
        return self.region(function, values)

    def region(self, region, values):
        for op in region.ops:
            inputs = [values[o] for o in op.operands]
            if op.name in ('return', 'yield'):
                return inputs
            values.update(zip(op.results, self.op(op, inputs, values)))
        return []

    def op(self, op, inputs, values):
        if op.regions:
            return self.control(op, inputs, values)
        if op.name in ('param', 'opt.state'):
            return [self.tensors.get(op.text('name'), (np.zeros(op.types[0].shape), np.zeros(op.types[0].shape)))]
        if op.name in ('step', 'seed'):
            return [(np.int64(self.step if op.name == 'step' else self.seed), np.zeros(()))]
        if op.name in ('random_uniform', 'random_normal'):
            return self.drawn(op)
        if op.name == 'dropout':
            return [self.dropped(op, *inputs[0])] if self.train else inputs
        if op.name == 'assign':
            self.assigned[op.text('target')] = inputs[0]
        if op.name in ('assign', 'minimize'):
            return []
        return self.simple(op, inputs)

    def drawn(self, op):
        """Scaled and shifted after the draw: two roundings, and those of a normal's quantile."""
        kind = op.types[0]
        value = interpret.drawn(op, self.step, self.seed, self.iteration)
        bound = self.of_quantile(value, kind.dtype)
        return [(rounded(value, kind.dtype), self.closed(kind, rounded(value, kind.dtype), bound))]

    def dropped(self, op, x, e):
        """Two roundings: of the factor, and of the product with it."""
        value = interpret.dropout(op, x, self.step, self.seed, self.iteration)
        if not self.rounding:
            return value, e
        kind, value = op.types[0], rounded(value, op.types[0].dtype)
        wide = interpret.dropout(op, e, self.step, self.seed, self.iteration)
        return value, self.closed(kind, value, wide + np.where(np.isfinite(value), 4 * UNIT[kind.dtype] * np.abs(value), 0))

    @staticmethod
    def of_quantile(value, dtype):
        return np.where(np.isfinite(value), 16 * UNIT[dtype] * (np.abs(value) + 3), 0)

    # ---- regions ------------------------------------------------------------------------------------------------------------

    def inner(self, region, arguments, values):
        own = dict(values)
        own.update(zip((n for n, _ in region.arguments), arguments))
        return self.region(region, own)

    def control(self, op, inputs, values):
        if op.name == 'call':
            return self.inner(op.regions[0], inputs, {})
        if op.name == 'if':
            return self.inner(op.regions[0 if inputs[0][0] else 1], [], values)
        outer = self.iteration
        try:
            return self.repeat(op, inputs, values, outer) if op.name == 'while' else self.scan(op, inputs, values, outer)
        finally:
            self.iteration = outer

    def repeat(self, op, inputs, values, outer):
        limit = op.integer('limit')
        for i in range(limit):
            self.iteration = outer * limit + i
            if not self.inner(op.regions[0], inputs, values)[0][0]:
                break
            inputs = self.inner(op.regions[1], inputs, values)
        return inputs

    def scan(self, op, inputs, values, outer):
        carried = op.integer('carried')
        length = op.integer('length', inputs[carried][0].shape[0] if len(inputs) > carried else 0)
        state, stacked = inputs[:carried], {}
        for i in range(length):
            self.iteration = outer * length + i
            at = length - 1 - i if op.flag('reverse') else i
            results = self.inner(op.regions[0], state + [(v[at], e[at]) for v, e in inputs[carried:]], values)
            state, stacked[at] = results[:carried], results[carried:]
        for k, kind in enumerate(op.types[carried:]):
            parts = [[np.asarray(stacked[i][k][j]) for i in range(length)] for j in (0, 1)]
            empty = np.zeros(kind.shape)
            state = state + [tuple(np.stack(p) if p else empty for p in parts)]
        return state

    # ---- bounds -------------------------------------------------------------------------------------------------------------

    def simple(self, op, inputs):
        x, e = [np.asarray(v) for v, _ in inputs], [b for _, b in inputs]
        results = evaluate(op, x)
        if op.name == 'repair':
            plain = interpret.plain_of(op)
            bound = np.where(interpret.is_repaired(op, x, e), np.inf, 0 if plain is None else e[plain])
            return [(results[0], np.broadcast_to(bound, np.shape(results[0])))]
        if not self.rounding:
            self.singular = self.singular or steep(op, x, results)
            return [(np.asarray(r), np.zeros(np.shape(r))) for r in results]
        with np.errstate(all='ignore'):
            bounds = self.bounds(op, x, e, results)
            pairs = []
            for kind, y, bound in zip(op.types, results, bounds):
                value = rounded(y, kind.dtype, once=op.name == 'cast').reshape(kind.shape)
                pairs.append((value, self.closed(kind, value, np.broadcast_to(bound, kind.shape))))
        return pairs

    def closed(self, kind, value, bound):
        """One rounding more where there is an error at all; unknown near overflow; NaN bounds are unknown."""
        if kind.dtype not in FLOATS:
            return np.where(bound > 0, np.inf, 0.0)
        size = np.where(np.isfinite(value), np.abs(value), 0)
        bound = np.where(bound > 0, bound + 2 * HALF[kind.dtype] * size + TINY[kind.dtype], bound)
        near = (bound > 0) & ~np.isfinite(value) | (size + 2 * bound > LARGEST[kind.dtype]) & (bound > 0)
        return np.where(np.isnan(bound) | near & ~np.isnan(value), np.inf, bound)

    def bounds(self, op, x, e, results):
        moved = any(np.any(b > 0) for b in e)
        if op.name == 'philox' and op.flag('normal'):
            return [self.of_quantile(results[0], op.types[0].dtype)]
        error = OPS[op.name].error
        if error == MOVES:
            return self.moves(op, x, e, results)
        if op.name == 'scatter':
            return [self.scattered(op, x, e, results[0])]
        if op.name in ('sort', 'top_k'):
            return self.sorted(op, e, results)
        if error == SUMS:
            return [self.sums(op, x[0], e[0])]
        if error == PRODUCTS and results[0].dtype == np.float64:
            return [self.products(op, x, e)]
        bounds = self.optimized(op, x) if op.name in ('adamw', 'sgd') else [self.local(op, x, y) for y in results]
        if self.native and op.name.startswith('attention') and op.types[0].dtype == 'bf16':
            bounds = [a + b for a, b in zip(bounds, self.of_pairs(op, x, results))]
        if op.name.startswith('attention'):
            bounds = [a + np.where(b > 0, np.inf, 0) for a, b in zip(bounds, self.vanishing(op, x, results))]
        if op.name == 'attention_grad':
            bounds = [a + b for a, b in zip(bounds, self.of_slopes(op, x))]
        if op.name == 'reduce_prod' and x[0].dtype == np.float64:
            bounds = [np.where(self.leaves_range(op, x[0]), np.inf, bounds[0])]
        if not moved:
            return bounds
        moves = self.shaken(op, x, e, results) if isinstance(error, Rows) else self.stepped(op, x, e, results)
        # In one kernel with a product whatever is rounded to bf16 may lose what is a denormal of f32.
        lost = 2.0**-126 if self.native and any(kind.dtype == 'bf16' for kind in op.types) else 0.0
        return [a + b + (lost if y.dtype == np.float64 else 0) for a, b, y in zip(bounds, moves, results)]

    @staticmethod
    def leaves_range(op, x):
        """Where a product of some of the factors may be no normal number, or none at all: the result hangs on their order."""
        wide = np.float64 if op.types[0].dtype == 'f64' else np.float32
        axes, size = tuple(op.integers('axes')), np.where(np.isfinite(x) & (x != 0), np.abs(x), 1.0)
        with np.errstate(all='ignore'):
            low, high = np.prod(np.minimum(size, 1), axis=axes), np.prod(np.maximum(size, 1), axis=axes)
            grows = (high > 1) | np.any(np.isinf(x), axis=axes)
        return ((low < np.finfo(wide).tiny) & grows) | (high > np.finfo(wide).max) & ((low < 1) | np.any(x == 0, axis=axes))

    def moves(self, op, x, e, results):
        if op.name == 'gather':
            known = interpret.evaluate(op, [e[0], x[1]])[0]
            return [known + (np.inf if np.any(e[1] > 0) else 0)]
        if op.name == 'rotary':
            size = np.abs(x[0])
            reach = op.integer('offset', 0) + x[0].shape[op.integer('axis')]  # angles are computed in f64
            unit = 8 * UNIT[op.types[0].dtype] + 8 * UNIT['f64'] * reach
            both = np.concatenate([size, np.roll(size, size.shape[-1] // 2, -1), np.roll(size, 1, -1), np.roll(size, -1, -1)])
            most = np.max(both.reshape((4,) + size.shape), axis=0) if size.size else size
            return [unit * most + np.max(e[0], initial=0) * 2]
        if op.name == 'pad':
            return [interpret.padded(op, e[0], 0.0)]
        return list(interpret.evaluate(op, e))

    def scattered(self, op, x, e, result):
        """What is set or chosen has the error of one of its sources. Of products each step is rounded; unknown where one may be out of range."""
        if op.text('how') == 'set':
            return evaluate(op, [e[0], x[1], e[2]])[0].astype(np.float64)
        if op.text('how') != 'mul' or result.dtype != np.float64:
            return evaluate(Op(op.name, op.operands, op.results, op.types, {**op.attrs, 'how': '"max"'}), [e[0], x[1], e[2]])[0].astype(np.float64)
        sizes = [np.where(np.isfinite(v) & (v != 0), np.abs(v), 1.0) for v in (x[0], x[2])]
        terms = x[1].size + 1
        low, high = (evaluate(op, [bound(sizes[0], 1), x[1], bound(sizes[1], 1)])[0] for bound in (np.minimum, np.maximum))
        grown = evaluate(op, [np.abs(x[0]) + e[0], x[1], np.abs(x[2]) + e[2]])[0] - evaluate(op, [np.abs(x[0]), x[1], np.abs(x[2])])[0]
        wide = 'f64' if op.types[0].dtype == 'f64' else 'f32'
        unknown = (low < np.finfo(float if wide == 'f64' else np.float32).tiny) | (high > LARGEST[op.types[0].dtype] / 2)
        unit = UNIT[op.types[0].dtype] + HALF[op.types[0].dtype]
        return np.where(unknown, np.inf, grown + 2 * terms * unit * np.where(np.isfinite(result), np.abs(result), 0))

    def sorted(self, op, e, results):
        worst = np.max(e[0], initial=0)
        return [np.full(results[0].shape, worst), np.full(results[1].shape, np.inf if worst else 0.0)]

    def sums(self, op, x, e):
        if x.dtype != np.float64:
            return np.zeros(op.types[0].shape) + np.any(e > 0)
        if 'grad' in op.name and not np.all(np.isfinite(x)):
            return np.full(op.types[0].shape, np.inf)
        terms = max(x.size // max(op.types[0].size, 1), 1) if op.name != 'cumsum' else x.shape[op.integer('axis')]
        if 'pool' in op.name:
            terms = int(np.prod(op.integers('window')))
        size = evaluate(op, [np.abs(x)])[0]
        unit = UNIT[op.types[0].dtype] * (terms if op.name != 'sum' else terms / 16 + 16)
        spread = evaluate(op, [e])[0]
        exact = terms == 1 and op.name == 'sum'
        return spread + (0 if exact else unit * size)

    def products(self, op, x, e):
        if 'grad' in op.name and not all(np.all(np.isfinite(v)) for v in x):
            return np.full(op.types[0].shape, np.inf)  # whether padding's zeros meet a NaN hangs on the kernel
        sizes = [np.abs(v) for v in x]
        terms = max(x[0].shape) * 4 + 16
        if op.name != 'matmul':
            terms = x[0].size // max(x[0].shape[0], 1) * 4 + 16
        whole = evaluate(op, sizes)[0]
        bound = terms * UNIT[op.types[0].dtype] * whole + self.flushed(op, terms)
        if any(np.any(b > 0) for b in e):
            bound = bound + evaluate(op, [e[0], sizes[1]])[0] + evaluate(op, [sizes[0] + e[0], e[1]])[0]
        return bound

    def flushed(self, op, terms):
        """What native products of bf16 and f16 may lose beside their roundings: each term, where it is a denormal of f32."""
        return terms * 2.0**-126 if self.native and op.types[0].dtype in ('bf16', 'f16') else 0.0

    @staticmethod
    def of_pairs(op, x, results):
        """Native attention of bf16 rounds weights, and gradients of logits, before the last products."""
        sizes = getattr(interpret, op.name)(op, *x, part=np.abs)
        sizes = sizes if isinstance(sizes, tuple) else (sizes,)
        sizes = (sizes[0], np.zeros(results[1].shape)) if op.name == 'attention' and len(results) == 2 else sizes
        return [2.0**-8 * np.where(np.isfinite(size), np.abs(size), np.inf) for size in sizes]

    def local(self, op, x, y):
        row = OPS[op.name]
        if row.error == 0 or y.dtype != np.float64:
            return np.zeros(y.shape)
        dtype = op.types[0].dtype
        unit, size = UNIT[dtype], np.where(np.isfinite(y), np.abs(y), 0)
        if isinstance(row.error, Rows):
            terms = max((d for v in x for d in v.shape), default=1) / 16 + 32
            reach = max((np.max(np.abs(v[np.isfinite(v)]), initial=0) for v in x[:3] if v.dtype == np.float64), default=0)
            if op.name.startswith('attention'):
                mask, _ = interpret.attention_parts(op, x[3:] if op.name == 'attention' else x[6:])
                logits = interpret.attention_logits(op, x[0], x[1], mask)
                reach = 8 * np.max(np.abs(logits[np.isfinite(logits)]), initial=0) + reach
                reach = reach / (1 - op.number('dropout', 0.0))
            known = np.where(self.spread(op, x[0]), np.inf, 0) if op.name == 'reduce_prod' else 0
            if row.error.centred:
                known = known + unit * terms * self.cancelled(op, x)
            return known + unit * terms * (size + np.max(size, initial=0) + row.error.least) * max(1.0, reach) + self.flushed(op, terms)
        precision = Precision(unit, TINY[dtype] if dtype in ('f64', 'f32') else 0.0, LARGEST[dtype])
        return row.error_bound(precision, size, x, op.values())

    def vanishing(self, op, x, results):
        """How often an infinity is weighed by what a rounding of the logits makes zero or not; in native bf16 also what is not seen, for it may
        stand beside what is, and its weight is zero then."""
        mask, _ = interpret.attention_parts(op, x[3:] if op.name == 'attention' else x[6:])
        logits = interpret.attention_logits(op, x[0], x[1], mask)
        sizes = interpret.attention_logits(op, *(np.abs(np.where(np.isfinite(v), v, 0)) for v in x[:2]), None)
        sizes = sum(np.where(np.isfinite(v), np.abs(v), 0) for v in (sizes, logits))
        off = 2 * UNIT[op.types[0].dtype] * (x[0].shape[3] + 64) * np.max(sizes, axis=-1, keepdims=True, initial=0)
        top = np.max(logits, axis=-1, keepdims=True, initial=-np.inf)
        below = logits - np.where(np.isfinite(top), top, 0)
        nearly, surely = (-746, -700) if op.types[0].dtype == 'f64' else (-105, -85)  # an exponential is zero: perhaps from here, from there on
        doubtful = np.isfinite(logits) & (below + off > nearly) & (below - off < surely)
        counts = self.weighed(op, x, doubtful, np.isinf)
        if self.native and op.types[0].dtype == 'bf16':
            unseen = np.broadcast_to(~interpret.attention_seen(op, *logits.shape[-2:]), logits.shape)
            counts = [a + b for a, b in zip(counts, self.weighed(op, x, unseen, lambda v: ~np.isfinite(v)))]
        return counts[:len(results)]

    @staticmethod
    def of_slopes(op, x):
        """A logit's gradient is a difference of sums, of one key the difference of equal ones: each is rounded by its terms' magnitudes."""
        mask, samples = interpret.attention_parts(op, x[6:])
        logits = interpret.attention_logits(op, x[0], x[1], mask)
        chances, heads = interpret.softmax(logits, -1), max(x[1].shape[1], 1)
        drop_mask = interpret.left(op, logits.shape, samples)
        sizes = [np.abs(np.where(np.isfinite(v), v, 0)) for v in x[:6]]
        q, k, v = (np.repeat(a, x[0].shape[1] // heads if i else 1, axis=1) for i, a in enumerate(sizes[:3]))
        out, _, dout = sizes[3:]
        slopes = interpret.dropped(dout @ np.swapaxes(v, -1, -2), drop_mask) + (dout * out).sum(-1, keepdims=True)
        terms = UNIT[op.types[0].dtype] * (x[3].shape[3] + 32) * abs(op.number('scale', 1 / np.sqrt(max(q.shape[3], 1))))
        slopes = terms * slopes * np.where(np.isfinite(chances), chances, 0)
        back = np.swapaxes(slopes, -1, -2) @ q
        return [slopes @ k, back.reshape(back.shape[0], heads, -1, *back.shape[2:]).sum(2), np.zeros(x[2].shape)]

    @staticmethod
    def weighed(op, x, pairs, which):
        """How many terms of each result are of one of these pairs of a query and a key, and of such a factor."""
        pairs, heads = pairs.astype(float), max(x[1].shape[1], 1)
        q, k, v = (np.repeat(a, x[0].shape[1] // heads if i else 1, axis=1) for i, a in enumerate(x[:3]))
        if op.name == 'attention':
            return [pairs @ which(v), np.zeros(q.shape[:3])]
        out, _, dout = x[3:6]
        slopes = pairs * which(dout @ np.swapaxes(v, -1, -2) - (dout * out).sum(-1, keepdims=True))
        pairs_back, slopes_back = (np.swapaxes(a, -1, -2) for a in (pairs, slopes))
        grouped = (lambda a: a.reshape(a.shape[0], heads, -1, *a.shape[2:]).sum(2))
        return [pairs @ which(k) + slopes.sum(-1, keepdims=True),
                grouped(pairs_back @ which(q) + slopes_back.sum(-1, keepdims=True)), grouped(pairs_back @ which(dout))]

    @staticmethod
    def optimized(op, x):
        """Some roundings of each term; unknown where a square overflows."""
        of, (x, g, *state), dtype = op.numbers('optimizer'), [np.abs(v) for v in x], op.types[0].dtype
        g = g * (state[-1] if len(state) == (4 if op.name == 'adamw' else 2) else 1)
        if op.name == 'sgd':
            velocity = state[0] + g + of['weight_decay'] * x
            sizes = [x + of['lr'] * 2 * velocity, velocity]
        else:
            m, v = state[0] + g, state[1] * of['beta2'] + (1 - of['beta2']) * g * g
            root = np.sqrt(1 - of['beta2'] ** float(state[2]))
            sizes = [x + of['lr'] / (1 - of['beta1'] ** float(state[2])) * m / (np.sqrt(v) / root + of['eps']), m, v]
            sizes = [np.where(v + m > LARGEST[dtype], np.inf, size) for size in sizes]
        return [16 * UNIT[dtype] * size + 4 * TINY[dtype] for size in sizes]

    @staticmethod
    def cancelled(op, x):
        """What the mean is taken from may all but vanish with it: what is left of equal elements is the rounding of their mean,
        divided by the deviation, which is that of eps alone."""
        axes = op.integers('axes') or tuple(i for i in range(x[0].ndim) if i != op.integer('axis'))
        spread = x[4] if op.name == 'batch_norm' else np.var(x[0], axis=axes) if x[0].size else np.zeros(0)
        least = np.min(spread[np.isfinite(spread)], initial=np.inf)
        reach, scale = (max((np.max(np.abs(v[np.isfinite(v)]), initial=0) for v in some), default=1) for some in (x, x[1:2]))
        gain = max(1.0, scale) / np.sqrt(least + op.number('eps', 1e-5))
        return reach * max(1.0, reach, gain)

    def spread(self, op, x):
        """Products some order of whose factors overflows, and then meets a 0 or vanishes."""
        size = np.where(np.isfinite(x), np.abs(x), 1.0)
        most = evaluate(op, [np.maximum(size, 1.0)])[0]
        least = evaluate(op, [np.minimum(size, 1.0)])[0]
        return (most >= 2.0**127) & (least < 2.0**-60) if op.types[0].dtype != 'f64' else (most >= 2.0**1000) & (least < 2.0**-900)

    def stepped(self, op, x, e, results):
        """Elementwise: each operand a step up and down."""
        bounds = [np.zeros(np.shape(y)) for y in results]
        ups = [v + b if v.dtype == np.float64 else v for v, b in zip(x, e)]
        downs = [v - b if v.dtype == np.float64 else v for v, b in zip(x, e)]
        cases = [[(ups, downs)[way][i] if i == k else x[i] for i in range(len(x))] for k in range(len(x)) for way in (0, 1)]
        cases += [[a if i == 0 else b for i, (a, b) in enumerate(zip(first, second))] for first in (ups, downs)
                  for second in (ups, downs)]
        for case in cases:
            for bound, y, z in zip(bounds, results, evaluate(op, case)):
                change = np.abs(np.asarray(z).astype(np.float64) - np.asarray(y).astype(np.float64))
                same = (np.asarray(z) == np.asarray(y)) | (np.isnan(y) & np.isnan(z) if y.dtype == np.float64 else False)
                np.maximum(bound, np.where(same, 0, np.where(np.isnan(change), np.inf, change)), out=bound)
        lost = OPS[op.name].lost
        if lost:
            bounds[0] = np.where(lost(x[0], e[0]), np.inf, bounds[0])
        unknown = [np.where(b == np.inf, b, 0) if v.dtype == np.float64 else b for v, b in zip(x, e)]
        unknown = [b for b in unknown if np.any(b > 0)]
        if unknown:
            shapes = {np.broadcast_shapes(np.shape(y)) for y in results}
            elementwise = all(fits(b, shape) for b in unknown for shape in shapes)
            wide = [sum(np.broadcast_to(b, np.shape(y)) for b in unknown) if elementwise else np.inf for y in results]
            bounds = [np.where(w > 0, np.inf, bound) for w, bound in zip(wide, bounds)]
        return [2 * b for b in bounds]

    def shaken(self, op, x, e, results):
        """Rows: all elements at random, the largest change anywhere."""
        if any(v.dtype != np.float64 and np.any(b > 0) for v, b in zip(x, e)):
            return [np.full(np.shape(y), np.inf) for y in results]
        worst = [0.0] * len(results)
        for _ in range(6):
            case = [v + b * self.random.choice([-1.0, 1.0], v.shape) if v.dtype == np.float64 else v for v, b in zip(x, e)]
            for i, (y, z) in enumerate(zip(results, evaluate(op, case))):
                change = np.abs(z - y)
                worst[i] = max(worst[i], np.max(np.where(np.isnan(change), np.inf, change), initial=0))
        terms = np.sqrt(max(v.size for v in x)) + 4
        return [np.full(np.shape(y), w * terms) for y, w in zip(results, worst)]


def steep(op, x, results):
    """Is a result, or the slope that it has there, not finite anywhere?"""
    rule = OPS[op.name].steep
    return bool(rule and np.any(rule(*x, **op.values()))) or any(np.asarray(r).dtype == np.float64 and not np.all(np.isfinite(r)) for r in results)


def fits(bound, shape):
    try:
        return np.broadcast_shapes(np.shape(bound), shape) == shape
    except ValueError:
        return False
