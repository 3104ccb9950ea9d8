# SPDX-License-Identifier: Apache-2.0
"""Random graphs: 2 to 30 ops over values of any type, of up to 8 dims, which are 0, 1, primes and numbers off the vector width."""
import numpy as np

from generate_control import branch, call, loops, noise, recurrent, repeat, scan, while_
from graph import FLOATS, NUMPY, STORED, Function, Op, Type, dense, pack, unpack
from interpret import rounded
from ops import ANY, NUMBERS, ROWS, SUMMABLE, UNSIGNED

DIMS = [1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 23, 31, 32, 33, 48, 63, 64, 65, 100, 127, 129]
ELEMENTS_MAX = 6000
RANK_MAX = 8


class Generator:
    """`kinds`: names of KINDS that may be used; `dtypes` restrict the types, `empty` allows dims of 0; every other dim is
    `edge`, if given; a kind of several variants takes `only` that one."""

    def __init__(self, random, kinds, dtypes=None, empty=True, smooth=False, edge=None, only=None):
        self.random, self.kinds, self.smooth, self.edge, self.only = random, kinds, smooth, edge, only
        self.dtypes, self.empty = dtypes, empty and random.random() < 0.15
        self.odd = not smooth and random.random() < 0.1  # infinities, NaN, denormals among the inputs
        self.arguments, self.data, self.ops, self.types, self.count = [], [], [], {}, 0

    # ---- values ---------------------------------------------------------------------------------------------------------------

    def chance(self, p):
        return self.random.random() < p

    def pick(self, items):
        if self.only is not None and self.only in items:
            return self.only
        return items[int(self.random.integers(len(items)))]

    def name(self):
        self.count += 1
        return f'%v{self.count}'

    def size(self, items):
        """One of the items, or the edge."""
        return self.edge if self.edge and self.edge <= 65 and self.chance(0.5) else self.pick(items)

    def dim(self):
        if self.edge is not None and self.chance(0.6):
            return self.edge
        if self.empty and self.chance(0.12):
            return 0
        return self.pick(DIMS[:8] if self.chance(0.5) else DIMS)

    def shape(self, rank=None):
        if rank is None and self.chance(0.03):
            return (self.pick([1000, 2049, 4099]),)
        many = rank is None and self.chance(0.04)  # as many dims as there may be
        ranks, odds = ([5, 6, 7, 8], None) if many else ([0, 1, 2, 3, 4], [0.07, 0.28, 0.38, 0.17, 0.1])
        rank = int(self.random.choice(ranks, p=odds)) if rank is None else rank
        shape = [self.pick(DIMS[:4]) if many and self.chance(0.8) else self.dim() for _ in range(rank)]
        while np.prod(shape, dtype=float) > ELEMENTS_MAX:
            at = int(np.argmax(shape))
            shape[at] = max(shape[at] // 3, 1)
        return tuple(shape)

    def dtype(self, group=None):
        group = [d for d in (group or FLOATS) if not self.dtypes or d in self.dtypes] or list(group or FLOATS)
        weights = {'f32': 6, 'f64': 2}
        p = np.array([weights.get(d, 1) for d in group], float)
        return self.pick(group) if not group else group[int(self.random.choice(len(group), p=p / p.sum()))]

    def draw(self, kind):
        """Numbers whose products and sums are often exact, or not at all."""
        if kind.dtype == 'i1':
            return self.random.integers(0, 2, kind.shape).astype(np.bool_)
        if kind.dtype not in FLOATS:
            if self.odd and self.chance(0.5):
                range_ = np.iinfo(NUMPY[kind.dtype])
                return self.random.integers(range_.min, range_.max, kind.shape, NUMPY[kind.dtype], endpoint=True)
            low = 0 if kind.dtype in UNSIGNED else -9
            return self.random.integers(low, 10, kind.shape).astype(NUMPY[kind.dtype])
        x = self.random.standard_normal(kind.shape)
        if not self.smooth and self.chance(0.3):
            x = self.random.integers(-4, 5, kind.shape).astype(np.float64)
        if self.odd and self.chance(0.5) and kind.size:
            odd = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, -1e30, 3e4]
            spots = self.random.random(kind.shape) < 0.1
            x = np.where(spots, self.random.choice(odd, kind.shape), x)
        return rounded(x, kind.dtype)

    def argument(self, kind, values=None):
        name = self.name()
        values = self.draw(kind) if values is None else values
        if self.chance(0.2) and kind.size <= 256:
            self.add(Op('constant', [], [name], [kind], {'value': dense(values, kind)}))
        else:
            self.arguments.append((name, kind))
            self.data.append(values)
            self.types[name] = kind
        return name

    def value(self, dtypes, rank=None, least=0):
        """An existing value, or a new argument."""
        fits = [n for n, t in self.types.items() if t.dtype in dtypes and (rank is None or len(t.shape) == rank)
                and len(t.shape) >= least]
        if fits and self.chance(0.75):
            return self.pick(fits[-8:] if self.chance(0.6) else fits)
        rank = rank if rank is not None else None
        shape = self.shape(rank)
        while len(shape) < least:
            shape = self.shape(rank)
        return self.argument(Type(shape, self.dtype(dtypes)))

    def like(self, dtype, shape):
        """A value of this very type."""
        fits = [n for n, t in self.types.items() if t.dtype == dtype and t.shape == tuple(shape)]
        return self.pick(fits) if fits and self.chance(0.6) else self.argument(Type(shape, dtype))

    def stretching(self, dtype, shape):
        """A value that broadcasts to the shape."""
        dims = [1 if self.chance(0.2) else d for d in shape][int(self.random.integers(0, len(shape) + 1)) if self.chance(0.4)
                                                             else 0:]
        return self.like(dtype, dims)

    def add(self, op):
        self.ops.append(op)
        self.types.update(zip(op.results, op.types))
        return op.results[0] if op.results else None

    def emit(self, name, operands, kind, **attrs):
        return self.add(Op(name, operands, [self.name()], [kind], attrs))

    def axis(self, shape):
        return int(self.random.integers(len(shape)))

    def axes(self, shape):
        return sorted(self.random.choice(len(shape), int(self.random.integers(0, len(shape) + 1)), replace=False).tolist())

    def graph(self, name, length):
        """A function of about `length` ops that returns what nothing reads."""
        tries = 0
        while len([o for o in self.ops if o.name != 'constant']) < length and tries < 20 * length:
            tries += 1
            KINDS[self.pick(self.kinds)](self)
        used = {o for op in self.ops for o in op.operands} | {o for op in self.ops for r in op.regions for i in r.ops
                                                              for o in i.operands}
        free = [r for op in self.ops for r in op.results if r not in used and r in self.types]
        self.ops.append(Op('return', free[-24:], [], []))
        return Function(name, self.arguments, self.ops)


def bounded(shape):
    return len(shape) <= RANK_MAX and np.prod(shape, dtype=float) <= 4 * ELEMENTS_MAX


# ---- kinds ----------------------------------------------------------------------------------------------------------------------

class Form:
    """An op of the table with some of its attributes."""

    def __init__(self, row, attributes):
        self.row, self.attributes = row, attributes

    def __str__(self):
        return ' '.join([self.row.name, *map(' = '.join, self.attributes.items())])


def forms_of_table():
    """{(kind, group): forms} of the ops that the table defines. A kind draws the operands before it chooses a form."""
    found = {}
    for row in (row for row in ROWS if row.group != 'other'):
        forms = found.setdefault((row.kind, row.group), [])
        for name in ('dtypes', 'positive'):
            if forms and getattr(forms[0].row, name) != getattr(row, name):
                raise ValueError(f'tests/ops.py: kind {row.kind!r} has {name} {getattr(forms[0].row, name)} in the row of {forms[0].row.name} '
                                 f'and {getattr(row, name)} in that of {row.name}; give {row.name} another kind')
        forms += [Form(row, attributes) for attributes in row.forms]
    return found


FORMS = forms_of_table()


def types_of(g, forms):
    """The element types that the ops of a kind take."""
    return [d for d in forms[0].row.dtypes if d in FLOATS or not g.smooth]


def emit_form(g, forms, operands, kind, **attributes):
    """One of the forms."""
    form = g.pick([form for form in forms if form.row.smooth] if g.smooth else forms)
    drawn = g.pick(form.row.drawn(kind.dtype)) if form.row.drawn else form.attributes
    kind = Type(kind.shape, form.row.result or kind.dtype)
    return g.emit(form.row.name, operands, kind, **drawn, **attributes)


def one(kind):
    forms = FORMS[kind, 'one']

    def build(g):
        x = g.value(types_of(g, forms))
        emit_form(g, forms, [x], g.types[x])
    return build


def pair(g, dtypes):
    x = g.value(dtypes)
    kind = g.types[x]
    y = g.stretching(kind.dtype, kind.shape)
    shape = np.broadcast_shapes(kind.shape, g.types[y].shape)
    return ([x, y] if g.chance(0.5) else [y, x]), Type(shape, kind.dtype)


def two(kind):
    forms = FORMS[kind, 'two']

    def build(g):
        operands, result = pair(g, types_of(g, forms))
        if forms[0].row.positive and g.chance(0.8):
            operands[0] = g.emit('exp', [operands[0]], g.types[operands[0]])
        emit_form(g, forms, operands, result)
        return operands
    return build


def ipow(g):
    x = g.value(FLOATS)
    if not g.smooth and g.chance(0.3):
        n = g.stretching('i64', g.types[x].shape)
        g.emit('ipow', [x, n], g.types[x])
        return
    n = g.add(Op('constant', [], [g.name()], [Type((), 'i64')], {'value': f'dense<{g.pick([-2, -1, 0, 1, 2, 3])}> : tensor<i64>'}))
    g.emit('ipow', [x, n], g.types[x])


def logic(g):
    operands = two('logic')(g)
    one_of = FORMS['logic', 'one']
    emit_form(g, one_of, operands[:1], g.types[operands[0]])


def where(g):
    operands, kind = pair(g, ANY)
    g.emit('where', [g.stretching('i1', kind.shape)] + operands, kind)


def mul_add(g):
    x = g.value(('f64', 'f32'))
    kind = g.types[x]
    g.emit('mul_add', [x, g.stretching(kind.dtype, kind.shape), g.stretching(kind.dtype, kind.shape)], kind)


def cast(g):
    x = g.value(ANY)
    to = g.only or g.dtype(FLOATS if g.smooth else ANY)
    if to != g.types[x].dtype:
        g.emit('cast', [x], Type(g.types[x].shape, to))


def bitcast(g):
    """Of an argument, as the last bits of a computed float are not exact; floats that come out are ordinary ones."""
    to = g.only or g.dtype(NUMBERS)
    size = np.dtype(STORED[to]).itemsize
    source = Type(g.shape(), g.pick([d for d in NUMBERS if d != to and np.dtype(STORED[d]).itemsize == size]))
    values = g.draw(Type(source.shape, to if to in FLOATS else source.dtype))
    if values.dtype == np.float64:
        values = np.where(np.isnan(values), 1.0, values)
    if to in FLOATS:
        values = unpack(np.ascontiguousarray(pack(values, to)).view(STORED[source.dtype]).reshape(source.shape), source.dtype)
    g.emit('bitcast', [g.argument(source, values)], Type(source.shape, to), **{'oracle.source': f'"{source.dtype}"'})


def matmul(g):
    if g.chance(0.1):  # beyond one block of a cache
        x = g.like(g.dtype(FLOATS), [g.pick([1, 6, 129, 200]), g.pick([64, 257, 300])])
    else:
        x = g.value(FLOATS, least=2)
    kind = g.types[x]
    *batch, m, k = kind.shape
    ta, tb, n = g.chance(0.3), g.chance(0.3), g.pick([65, 130, 257]) if max(m, k) > 150 else g.dim()
    m, k = (k, m) if ta else (m, k)
    other = [1 if g.chance(0.2) else d for d in batch][g.pick([0, len(batch)]):]
    y = g.like(kind.dtype, other + ([n, k] if tb else [k, n]))
    if bounded(batch + [m, n]) or not batch:
        g.emit('matmul', [x, y], Type(batch + [m, n], kind.dtype), transpose_a=str(ta).lower(), transpose_b=str(tb).lower())


def reduction(kind):
    forms = FORMS[kind, 'reduction']

    def build(g):
        x = g.value(types_of(g, forms))
        axes = g.axes(g.types[x].shape)
        shape = [d for i, d in enumerate(g.types[x].shape) if i not in axes]
        emit_form(g, forms, [x], Type(shape, g.types[x].dtype), axes=str(axes))
    return build


def argmax(g):
    x = g.value(NUMBERS, least=1)
    axis, shape = g.axis(g.types[x].shape), list(g.types[x].shape)
    if shape[axis]:
        g.emit('argmax', [x], Type(shape[:axis] + shape[axis + 1:], 'i64'), axis=f'{axis} : i64')


def reshape(g):
    x = g.value(ANY)
    size, shape = g.types[x].size, []
    rest = size
    while rest > 1 and len(shape) < 4:
        divisors = [d for d in range(1, rest + 1) if rest % d == 0]
        shape.append(g.pick(divisors))
        rest //= shape[-1]
    shape = shape + [rest] if rest > 1 or g.chance(0.3) else shape
    if int(np.prod(shape, dtype=object)) != size:
        shape = [size]
    g.emit('reshape', [x], Type(shape, g.types[x].dtype))


def transpose(g):
    x = g.value(ANY)
    order = g.random.permutation(len(g.types[x].shape)).tolist()
    g.emit('transpose', [x], Type([g.types[x].shape[i] for i in order], g.types[x].dtype), permutation=str(order))


def broadcast(g):
    x = g.value(ANY)
    shape = [g.dim() if d == 1 else d for d in g.types[x].shape]
    shape = ([g.dim()] if g.chance(0.5) and len(shape) < 4 else []) + shape
    if bounded(shape):
        g.emit('broadcast', [x], Type(shape, g.types[x].dtype))


def slice_(g):
    x = g.value(ANY)
    start, size, stride = [], [], []
    for d in g.types[x].shape:
        step = g.pick([1, 1, 1, 2, 3])
        first = int(g.random.integers(0, d + 1))
        most = (d - first + step - 1) // step
        start, stride = start + [first], stride + [step]
        size.append(int(g.random.integers(0 if g.empty else min(1, most), most + 1)))
    g.emit('slice', [x], Type(size, g.types[x].dtype), start=str(start), size=str(size), stride=str(stride))


def pad(g):
    x = g.value(ANY)
    low, high, inner = ([g.pick([0, 0, 1, 2, 5]) for _ in g.types[x].shape] for _ in range(3))
    shape = [a + d + max(d - 1, 0) * i + b for a, d, i, b in zip(low, g.types[x].shape, inner, high)]
    if bounded(shape):
        value = '0.0' if g.types[x].dtype in ('i1', *UNSIGNED) else g.pick(['0.0', '-2.0', '3.0'])
        g.emit('pad', [x], Type(shape, g.types[x].dtype), low=str(low), high=str(high), interior=str(inner), value=value + ' : f64')


def concat(g):
    x = g.value(ANY, least=1)
    kind, axis = g.types[x], None
    axis = g.axis(kind.shape)
    parts = [x]
    for _ in range(g.pick([1, 1, 2, 18])):
        shape = list(kind.shape)
        shape[axis] = g.dim() if g.chance(0.5) else shape[axis]
        parts.append(g.like(kind.dtype, shape))
    shape = list(kind.shape)
    shape[axis] = sum(g.types[p].shape[axis] for p in parts)
    if bounded(shape):
        g.emit('concat', parts, Type(shape, kind.dtype), axis=f'{axis} : i64')


def split(g):
    x = g.value(ANY, least=1)
    kind, axis = g.types[x], g.axis(g.types[x].shape)
    first = int(g.random.integers(0, kind.shape[axis] + 1))
    if not g.empty and first in (0, kind.shape[axis]):
        return
    kinds = [Type([n if i == axis else d for i, d in enumerate(kind.shape)], kind.dtype)
             for n in (first, kind.shape[axis] - first)]
    name = g.name()
    g.add(Op('split', [x], [f'{name}#0', f'{name}#1'], kinds, {'axis': f'{axis} : i64'}))


def indices(g, shape, limit):
    kind = Type(shape, g.pick(['i64', 'i32']))
    return g.argument(kind, g.random.integers(0, limit, shape).astype(NUMPY[kind.dtype]))


def gather(g):
    x = g.value(ANY, least=1)
    kind, axis, shape = g.types[x], g.axis(g.types[x].shape), g.shape(g.pick([0, 1, 2]))
    whole = list(kind.shape[:axis]) + list(shape) + list(kind.shape[axis + 1:])
    if kind.shape[axis] and bounded(whole):
        g.emit('gather', [x, indices(g, shape, kind.shape[axis])], Type(whole, kind.dtype), axis=f'{axis} : i64')


def scatter_add(g):
    x = g.value(FLOATS if g.smooth else SUMMABLE, least=1)
    kind, axis, shape = g.types[x], g.axis(g.types[x].shape), g.shape(g.pick([0, 1, 2]))
    whole = list(kind.shape[:axis]) + list(shape) + list(kind.shape[axis + 1:])
    if kind.shape[axis] and bounded(whole):
        updates = g.like(kind.dtype, whole)
        g.emit('scatter_add', [x, indices(g, shape, kind.shape[axis]), updates], kind, axis=f'{axis} : i64')


def scatter(g):
    how = g.pick(['set', 'set', 'max', 'min', 'mul'])
    x = g.value(FLOATS if g.smooth else {'set': ANY, 'mul': SUMMABLE}.get(how, NUMBERS), least=1)
    kind, axis, shape = g.types[x], g.axis(g.types[x].shape), g.shape(g.pick([0, 1, 2]))
    whole = list(kind.shape[:axis]) + list(shape) + list(kind.shape[axis + 1:])
    if kind.shape[axis] and bounded(whole):
        updates = g.like(kind.dtype, whole)
        g.emit('scatter', [x, indices(g, shape, kind.shape[axis]), updates], kind, axis=f'{axis} : i64', how=f'"{how}"')


def one_hot(g):
    shape = g.shape(g.pick([0, 1, 2]))
    axis, classes = int(g.random.integers(len(shape) + 1)), g.dim()
    whole = list(shape[:axis]) + [classes] + list(shape[axis:])
    if bounded(whole):
        g.emit('one_hot', [indices(g, shape, classes + 2)], Type(whole, g.dtype(ANY)), axis=f'{axis} : i64')


def iota(g):
    shape = g.shape()
    if shape and max(shape) <= 128:
        g.emit('iota', [], Type(shape, g.dtype(NUMBERS)), axis=f'{g.axis(shape)} : i64')


def cumsum(g):
    x = g.value(FLOATS if g.smooth else SUMMABLE, least=1)
    g.emit('cumsum', [x], g.types[x], axis=f'{g.axis(g.types[x].shape)} : i64', reverse=str(g.chance(0.3)).lower(),
           exclusive=str(g.chance(0.3)).lower())


def sort(g):
    x = g.value(FLOATS if g.smooth else NUMBERS, least=1)
    kind, name, axis = g.types[x], g.name(), g.axis(g.types[x].shape)
    kinds = [kind, Type(kind.shape, 'i64')]
    g.add(Op('sort', [x], [f'{name}#0', f'{name}#1'], kinds, {'axis': f'{axis} : i64', 'descending': str(g.chance(0.4)).lower()}))


def top_k(g):
    x = g.value(FLOATS if g.smooth else NUMBERS, least=1)
    kind, name, axis = g.types[x], g.name(), g.axis(g.types[x].shape)
    k = int(g.random.integers(0 if g.empty else min(1, kind.shape[axis]), kind.shape[axis] + 1))
    shape = [k if i == axis else d for i, d in enumerate(kind.shape)]
    g.add(Op('top_k', [x], [f'{name}#0', f'{name}#1'], [Type(shape, kind.dtype), Type(shape, 'i64')],
             {'axis': f'{axis} : i64', 'k': f'{k} : i64'}))


def over_axis(kind):
    forms = FORMS[kind, 'over_axis']

    def build(g):
        x = g.value(types_of(g, forms), least=1)
        emit_form(g, forms, [x], g.types[x], axis=f'{g.axis(g.types[x].shape)} : i64')
    return build


def norm(g):
    forms = FORMS['norm', 'norm']
    x = g.value(types_of(g, forms), least=1)
    kind = g.types[x]
    axes = g.axes(kind.shape) or [len(kind.shape) - 1]
    form = g.pick(forms)
    affine = [g.like(kind.dtype, kind.shape[-1:]) for _ in range(g.pick(range(form.row.operands)))]
    g.emit(form.row.name, [x] + affine, kind, axes=str(axes), eps='1.0e-3 : f64', **form.attributes)


BATCH_NORMS = ('batch_norm', 'batch_norm_train')


def batch_norm(g):
    x = g.value(FLOATS, least=1)
    kind, axis = g.types[x], g.axis(g.types[x].shape)
    channels = [kind.shape[axis]]
    scale, bias, mean = (g.like(kind.dtype, channels) for _ in range(3))
    variance = g.argument(Type(channels, kind.dtype), rounded(g.random.uniform(0.5, 2, channels), kind.dtype))
    operands, attrs = [x, scale, bias, mean, variance], {'axis': f'{axis} : i64', 'eps': '1.0e-3 : f64'}
    form = g.pick(BATCH_NORMS)
    attrs.update({'momentum': '0.25 : f64'} if form != 'batch_norm' and g.chance(0.5) else {})
    if form == 'batch_norm':
        g.add(Op('batch_norm', operands, [g.name()], [kind], attrs))
        return
    name = g.name()
    g.add(Op('batch_norm_train', operands, [f'{name}#{i}' for i in range(3)],
             [kind] + [Type(channels, kind.dtype)] * 2, attrs))
    if g.smooth:  # no gradient passes through the running mean and variance: nothing may use them
        del g.types[f'{name}#1'], g.types[f'{name}#2']


ATTENTIONS = ('attention', 'attention_grad')


def attention(g):
    b, groups, s, t = g.pick([1, 2]), g.pick([1, 2]), g.size([1, 3, 8, 17]), g.size([1, 5, 16, 19])
    d, e = g.size([2, 8, 13]), g.size([1, 8, 9])
    heads, dtype = groups * g.pick([1, 2, 3]), g.dtype(FLOATS)
    q, k, v = g.like(dtype, [b, heads, s, d]), g.like(dtype, [b, groups, t, d]), g.like(dtype, [b, groups, t, e])
    mask = [] if g.chance(0.6) else [g.stretching(g.pick(['i1', dtype]), [b, heads, s, t])]
    seen = not any(g.types[m].dtype == 'i1' for m in mask)  # each query sees a key
    attrs = {'causal': 'unit'} if g.chance(0.5) else {}
    seen = seen and ('causal' not in attrs or s <= t)
    attrs.update({'scale': '0.3 : f64'} if g.chance(0.3) else {})
    if g.chance(0.3):  # which weights fall, by numbers that are given: outside of training, too
        whole = Type((), 'i64')
        mask.append(g.argument(Type([b], 'i64'), g.random.integers(0, 1 << 40, b)))
        mask += [g.argument(whole, np.asarray(g.random.integers(0, 1 << 40), np.int64)) for _ in range(2)]
        attrs.update({'dropout': f'{g.pick([0.1, 0.5])} : f64', 'stream': f'{int(g.random.integers(1 << 32))} : i64'})
    result, wide = Type([b, heads, s, e], dtype), Type([b, heads, s], 'f64' if dtype == 'f64' else 'f32')
    if g.pick(ATTENTIONS) == 'attention' or (g.smooth and g.chance(0.5)):
        name, sums = g.name(), (seen or not g.smooth) and g.chance(0.3)
        results = [f'{name}#0', f'{name}#1'] if sums else [name]
        g.add(Op('attention', [q, k, v] + mask, results, [result, wide][:len(results)], attrs))
        return
    name, gradient = g.name(), g.like(dtype, result.shape)
    g.add(Op('attention', [q, k, v] + mask, [f'{name}#0', f'{name}#1'], [result, wide], attrs))
    given = g.name()
    g.add(Op('attention_grad', [q, k, v, f'{name}#0', f'{name}#1', gradient] + mask, [f'{given}#{i}' for i in range(3)],
             [g.types[x] for x in (q, k, v)], attrs))


def rotary(g):
    dtype = g.dtype(FLOATS)
    shape = list(g.shape(g.pick([2, 3, 4])))
    shape[-1] += shape[-1] % 2
    attrs = {'axis': f'{len(shape) - 2} : i64', 'offset': f'{g.pick([0, 7])} : i64'}
    for name, value in (('interleaved', 'unit'), ('inverse', 'unit'), ('base', '500.0 : f64')):
        attrs.update({name: value} if g.chance(0.5) else {})
    g.add(Op('rotary', [g.like(dtype, shape)], [g.name()], [Type(shape, dtype)], attrs))


def spans(g, size, window):
    """Strides, padding and the pooled sizes of an image of this size."""
    strides = [g.pick([1, 1, 2, 3]) for _ in range(2)]
    padding = [int(g.random.integers(0, w)) for w in window for _ in range(2)]
    padded = [size[i] + padding[2 * i] + padding[2 * i + 1] for i in range(2)]
    return strides, padding, padded


def convolution(g):
    """Image, filter, attributes and result of one; None where no window fits."""
    dtype, groups = g.dtype(FLOATS), g.pick([1, 1, 2])
    c, f = groups * g.size([1, 2, 3, 5, 17]), groups * g.size([1, 3, 4, 8, 17])
    if g.chance(0.15):  # one channel a group
        groups = f = c
    size, window = [g.size([4, 5, 8, 11]) for _ in range(2)], [g.pick([1, 2, 3]) for _ in range(2)]
    dilation = [g.pick([1, 1, 2]) for _ in range(2)]
    strides, padding, padded = spans(g, size, window)
    out = [(padded[i] - dilation[i] * (window[i] - 1) - 1) // strides[i] + 1 for i in range(2)]
    n = g.pick([1, 2])
    if min(padded[i] - dilation[i] * (window[i] - 1) for i in range(2)) < 1 or not bounded([n] + size + [c]):
        return None
    attrs = {'strides': str(strides), 'padding': str(padding), 'dilation': str(dilation), 'groups': f'{groups} : i64'}
    kinds = [[n] + size + [c], window + [c // groups, f], [n] + out + [f]]
    return [Type(kind, dtype) for kind in kinds] + [attrs] if all(bounded(kind) for kind in kinds) else None


def conv2d(g):
    image, filter_, result, attrs = convolution(g) or [None] * 4
    if image:
        g.emit('conv2d', [g.like(image.dtype, image.shape), g.like(image.dtype, filter_.shape)], result, **attrs)


CONV_GRADS = ('conv2d_grad_input', 'conv2d_grad_filter')


def conv_grad(g):
    image, filter_, result, attrs = convolution(g) or [None] * 4
    name = g.pick(CONV_GRADS)
    made, other = (image, filter_) if name == 'conv2d_grad_input' else (filter_, image)
    if image and made.size * result.size <= 1 << 20:  # what the interpreter has patience for
        g.emit(name, [g.like(image.dtype, other.shape), g.like(image.dtype, result.shape)], made, **attrs)


POOLS = ('max_pool2d', 'avg_pool2d')


def pool(g):
    dtype, size, window = g.dtype(FLOATS), [g.size([3, 4, 7, 9]) for _ in range(2)], [g.pick([1, 2, 3]) for _ in range(2)]
    strides, padding, padded = spans(g, size, window)
    out = [(padded[i] - window[i]) // strides[i] + 1 for i in range(2)]
    n, c = g.pick([1, 2]), g.size([1, 3, 8])
    if min(out) < 1 or not bounded([n] + size + [c]):
        return
    attrs = {'window': str(window), 'strides': str(strides), 'padding': str(padding)}
    name = g.pick(POOLS)
    if name == 'avg_pool2d' and g.chance(0.5):
        attrs['exclude_padding'] = 'unit'
    g.add(Op(name, [g.like(dtype, [n] + size + [c])], [g.name()], [Type([n] + out + [c], dtype)], attrs))


POOL_GRADS = ('max_pool2d_grad', 'avg_pool2d_grad')


def pool_grad(g):
    dtype, size, window = g.dtype(FLOATS), [g.size([3, 4, 7, 9]) for _ in range(2)], [g.pick([1, 2, 3]) for _ in range(2)]
    strides, padding, padded = spans(g, size, window)
    out = [(padded[i] - window[i]) // strides[i] + 1 for i in range(2)]
    n, c = g.pick([1, 2]), g.size([1, 3, 8])
    if min(out) < 1 or not bounded([n] + size + [c]):
        return
    attrs = {'window': str(window), 'strides': str(strides), 'padding': str(padding)}
    name, image = g.pick(POOL_GRADS), Type([n] + size + [c], dtype)
    if name == 'avg_pool2d_grad' and g.chance(0.5):
        attrs['exclude_padding'] = 'unit'
    gradient = g.like(dtype, [n] + out + [c])
    g.emit(name, [g.like(dtype, image.shape), gradient] if name == 'max_pool2d_grad' else [gradient], image, **attrs)


def cross_entropy_grad(g):
    x = g.value(FLOATS, rank=2)
    rows, classes = g.types[x].shape
    if classes:
        labels = g.argument(Type([rows], g.pick(['i64', 'i32'])), g.random.integers(0, classes, rows))
        g.emit('cross_entropy_grad', [x, labels, g.like(g.types[x].dtype, [rows])], g.types[x])


def cross_entropy(g):
    x = g.value(FLOATS, rank=2)
    rows, classes = g.types[x].shape
    if classes:
        labels = g.argument(Type([rows], g.pick(['i64', 'i32'])), g.random.integers(0, classes, rows))
        g.emit('cross_entropy', [x, labels], Type([rows], g.types[x].dtype))


def dropout(g):
    x, stream = g.value(FLOATS), int(g.random.integers(1 << 32))
    g.emit('dropout', [x], g.types[x], rate=f'{g.pick(["0.25", "0.5", "0.9"])} : f64', stream=f'{stream} : i64')


OPTIMIZERS = {
    'adamw': '#tessera.adamw<lr = {}, beta1 = 0.75, beta2 = 0.875, eps = 1.0e-3, weight_decay = {}>',
    'sgd': '#tessera.sgd<lr = {}, momentum = {}, weight_decay = {}>',
    'nesterov': '#tessera.nesterov<lr = {}, momentum = {}, weight_decay = {}>',
}


def optimizer(g):
    """As attribute, and its name."""
    name = g.pick(tuple(OPTIMIZERS))
    rates = [g.pick(['0.125', '0.01']), g.pick(['0.0', '0.3'])] + ([g.pick(['0.0', '0.1'])] if name != 'adamw' else [])
    return OPTIMIZERS[name].format(*rates), name


def optimize(g):
    """A step of a parameter, as `minimize` becomes it; the second moment is not below 0."""
    attr, name = optimizer(g)
    parameter = g.value(('f64', 'f32'))
    kind, made = g.types[parameter], g.name()
    operands = [parameter] + [g.like(kind.dtype, kind.shape) for _ in range(2)]
    if name == 'adamw':
        operands.append(g.argument(kind, np.abs(g.draw(kind))))
        operands.append(g.argument(Type((), 'i64'), np.asarray(g.random.integers(1, 2000), np.int64)))
    operands += [g.like(kind.dtype, ())] if g.chance(0.4) else []
    count = 3 if name == 'adamw' else 2
    g.add(Op('adamw' if name == 'adamw' else 'sgd', operands, [f'{made}#{i}' for i in range(count)], [kind] * count, {'optimizer': attr}))


DRAWS = ('random_uniform', 'random_normal')


def draw(g):
    """With a stream of its own; a call runs at step 0 of seed 0."""
    kind, stream = Type(g.shape(), g.dtype(FLOATS)), int(g.random.integers(1 << 32))
    name = g.pick(DRAWS)
    attrs = {'low': '-1.0 : f64', 'high': '3.0 : f64'} if name == 'random_uniform' else {
        'mean': '0.5 : f64', 'deviation': '2.0 : f64'}
    g.emit(name, [], kind, stream=f'{stream} : i64', **attrs)


PHILOX = ('uniform', 'normal', 'shared')


def philox(g):
    """Elements, steps and seeds of more than 32 bits."""
    shape, whole = g.shape(), Type((), 'i64')
    element = g.argument(Type(shape, 'i64'), g.random.integers(0, 1 << 40, shape))
    step, seed = (g.argument(whole, np.asarray(g.random.integers(0, 1 << 40), np.int64)) for _ in range(2))
    attrs = {'stream': f'{int(g.random.integers(1 << 32))} : i64', 'draw': f'{g.pick([0, 3])} : i64'}
    how = g.pick(PHILOX)
    attrs.update({how: 'unit'} if how != 'uniform' else {})
    g.emit('philox', [element, step, seed], Type(shape, g.dtype(('f64', 'f32'))), **attrs)


KINDS = {
    'unary': one('unary'), 'gelu': one('gelu'), 'sign': one('sign'), 'clamp': one('clamp'), 'binary': two('binary'), 'pow': two('pow'),
    'ipow': ipow, 'compare': two('compare'), 'logic': logic, 'where': where, 'shift': two('shift'), 'mul_add': mul_add, 'cast': cast, 'bitcast': bitcast, 'matmul': matmul, 'sum': reduction('sum'),
    'mean': reduction('mean'), 'extremum': reduction('extremum'), 'prod': reduction('prod'), 'argmax': argmax, 'reshape': reshape, 'transpose': transpose,
    'broadcast': broadcast, 'slice': slice_, 'pad': pad, 'concat': concat, 'split': split, 'gather': gather,
    'scatter_add': scatter_add, 'scatter': scatter, 'one_hot': one_hot, 'iota': iota, 'cumsum': cumsum, 'sort': sort, 'top_k': top_k,
    'softmax': over_axis('softmax'), 'logsumexp': reduction('logsumexp'), 'norm': norm, 'batch_norm': batch_norm, 'attention': attention, 'rotary': rotary,
    'conv2d': conv2d, 'conv_grad': conv_grad, 'pool': pool, 'cross_entropy': cross_entropy, 'call': call, 'if': branch, 'scan': scan,
    'while': while_, 'loops': loops, 'recurrent': recurrent, 'dropout': dropout, 'random': draw,
    'noise': noise, 'pool_grad': pool_grad,
    'cross_entropy_grad': cross_entropy_grad, 'philox': philox, 'repeat': repeat, 'optimize': optimize,
}
# Other kinds of the table.
GROUPS = {'one': one, 'two': two, 'reduction': reduction, 'over_axis': over_axis}
KINDS.update({kind: GROUPS[group](kind) for kind, group in FORMS if kind not in KINDS})
# Kinds whose result changes smoothly with float operands, save at kinks: those that gradients are checked of.
STEPPED = {kind for kind, group in FORMS if not any(form.row.smooth for form in FORMS[kind, group])}
SMOOTH = [k for k in KINDS if k not in STEPPED | {'bitcast', 'argmax', 'one_hot', 'iota', 'random', 'loops', 'philox', 'optimize'}]
# What a kind chooses from: as many ops, or forms of one.
VARIANTS = {
    **{kind: tuple(forms) for (kind, group), forms in FORMS.items() if len(forms) > 1},
    'batch_norm': BATCH_NORMS, 'conv_grad': CONV_GRADS, 'pool': POOLS,
    'random': DRAWS, 'cast': tuple(STORED), 'bitcast': NUMBERS, 'pool_grad': POOL_GRADS, 'attention': ATTENTIONS, 'philox': PHILOX,
    'optimize': tuple(OPTIMIZERS),
}
