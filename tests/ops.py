# SPDX-License-Identifier: Apache-2.0
"""Every op of Graph IR (compiler/graph/ops.def) as one row: its meaning in NumPy and PyTorch, its types, errors and gradients.

These tests read the table, so that they test a new op without a change of theirs:

    oracle/             its results in random graphs and by itself, for every type, against the row's meaning; gradients and tangents
                        against differences and PyTorch, also at zeros and infinities; which types and attributes it refuses
    compiler/graph/     gradients.py: gradients against central differences; rows.py: it keeps rows apart

A row of `one`, `two`, `reduction`, `over_axis` or `norm` says everything about its op. The meaning of the ops of `other` is in
oracle/interpret.py and oracle/torch_gradients.py, and oracle/generate.py draws them.

`numpy` computes in float64 (integers: in their type) and takes the operands, and the attributes by name. `torch` is the name of a
function of torch or torch.nn.functional, or a function that takes the module torch, the operands, and the attributes by name.
"""
import dataclasses
import math
import re
import typing

import numpy as np

FLOATS = ('f64', 'f32', 'bf16', 'f16')
SUMMABLE = FLOATS + ('i64', 'i32', 'ui64', 'ui32')
SIGNED = FLOATS + ('i64', 'i32', 'i16', 'i8')
UNSIGNED = ('ui64', 'ui32', 'ui16', 'ui8')
NUMBERS = SIGNED + UNSIGNED
INTEGERS = tuple(dtype for dtype in NUMBERS if dtype not in FLOATS)
ANY = NUMBERS + ('i1',)
BITS = INTEGERS + ('i1',)

# How oracle/bounds.py bounds the error of an op whose error is not a number of units in the last place.
MOVES, SUMS, PRODUCTS = 'moves elements', 'adds elements', 'adds products'
OWN = 'a rule of its own in bounds.py'


class Rows(typing.NamedTuple):
    """An error in proportion to the largest result of a row, at least to `least`; `centred`: the op subtracts a mean."""
    least: float = 0
    centred: bool = False


class Precision(typing.NamedTuple):
    """Of the type in which an op is computed: half a unit in the last place of 1; the smallest positive number, or 0 if the result is
    rounded to a smaller type; the largest number."""
    unit: float
    step: float
    largest: float


Function, Text = typing.Optional[typing.Callable], typing.Optional[str]


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    name: str
    numpy: Function = None
    torch: typing.Union[Text, Function] = None
    # The kind of graphs (KINDS in oracle/generate.py) that contain the op; None: no graph does, see `no_graph`.
    kind: Text = None
    group: str = 'other'  # the function below that makes the row
    operands: int = 1  # the largest number
    dtypes: tuple = FLOATS  # element types of the operands
    result: Text = None  # element type of the result, if it is not that of the operands
    # The forms of the op that are tested, as attributes in MLIR. `inner`: forms that only gradients contain. `drawn`: more forms for
    # an element type, of which random graphs contain some.
    forms: tuple = ({},)
    inner: tuple = ()
    drawn: Function = None
    # Wrong attributes, each with a part of the message that refuses them.
    refused: tuple = ()
    # A number: units in the last place, about twice the largest error that compiler/target/README.md measures (x86-64-v2 has no fused
    # multiply-add), 0 if the result is the correctly rounded one. A function of (precision, |result|, operands, attributes): the
    # bound. Or one of the rules above.
    error: typing.Any = 0
    # Gradients are compared with central differences at operands between these numbers.
    low: float = -2.0
    high: float = 2.0
    positive: bool = False  # the first operand is positive in most graphs
    smooth: bool = True  # false: steps all over, so that differences say nothing
    # Functions of operands and attributes. `kinks`: where PyTorch chooses another of several possible slopes. `steep`: where a slope
    # is not finite although the result is. `limit`, with the gradient of the result as second argument: the gradient where PyTorch
    # has NaN, of 0 times infinity, and we have the limit.
    kinks: Function = None
    steep: Function = None
    limit: Function = None
    lost: Function = None  # of an operand and a bound of its error: where that much error leaves nothing known of the result
    no_gradient: Text = None  # why the op has no gradient
    no_graph: Text = None  # why no random graph contains the op when it is written
    typed_by: typing.Optional[int] = 0  # the operand whose element type is the op's; None: the result

    def error_bound(self, precision, size, operands, attributes):
        """Of a result of magnitude `size`, if the operands are exact."""
        if callable(self.error):
            return self.error(precision, size, *operands, **attributes)
        return np.zeros(np.shape(size)) if self.error == 0 else ulps(precision, self.error, size)

    def in_torch(self, torch, operands, attributes):
        if callable(self.torch):
            return self.torch(torch, *operands, **attributes)
        function = getattr(torch, self.torch, None) or getattr(torch.nn.functional, self.torch)
        return function(*operands, **attributes)

    def has_kink(self, *operands, **attributes):
        return self.kinks(*operands, **attributes) if self.kinks else np.zeros(np.shape(operands[0]), bool)


def ulps(precision, units, size, steps=4.0):
    """So many units in the last place, and so many of the smallest numbers."""
    return 2.0 * units * precision.unit * size + precision.step * steps


# ---- groups -------------------------------------------------------------------------------------------------------------------

def one(name, numpy, torch, error, kind='unary', **more):
    """Elementwise, of one operand. Floats, unless `dtypes` says otherwise."""
    return Row(name, numpy, torch, kind, 'one', error=error, **more)


def two(name, numpy, torch, error, kind='binary', **more):
    """Elementwise, of two operands of one type, which broadcast. Numbers, unless `dtypes` says otherwise."""
    return Row(name, numpy, torch, kind, 'two', 2, error=error, **{'dtypes': NUMBERS, 'low': 0.3, **more})


def reduction(name, numpy, torch, error, kind, **more):
    """Removes the dims `axes`."""
    return Row(name, numpy, torch, kind, 'reduction', error=error, **more)


def over_axis(name, numpy, torch, error, kind, **more):
    """Of the elements along `axis`; the result has the type of the operand."""
    return Row(name, numpy, torch, kind, 'over_axis', error=error, **more)


def norm(name, numpy, torch, operands, **more):
    """Normalizes over `axes`, with `eps`; takes an optional scale and, if it has three operands, an optional bias."""
    return Row(name, numpy, torch, 'norm', 'norm', operands, **more)


def other(name, kind=None, error=OWN, **more):
    return Row(name, kind=kind, error=error, **more)


# ---- meanings -----------------------------------------------------------------------------------------------------------------

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def divide(x, y):
    if x.dtype == np.float64:
        return x / y
    quotient = np.zeros(np.broadcast(x, y).shape, x.dtype)
    for at, (a, b) in enumerate(np.broadcast(x, y)):
        a, b = int(a), int(b)
        whole = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        bits = 8 * x.dtype.itemsize
        wrapped = whole & ((1 << bits) - 1)
        if x.dtype.kind == 'i' and wrapped >= 1 << (bits - 1):
            wrapped -= 1 << bits
        quotient.flat[at] = wrapped
    return quotient


def sigmoid(x, of=1.0):
    """of / (1 + exp(-x)), which does not overflow on its way, and in the far tail is rounded to its step once."""
    half = np.exp(np.minimum(x, 0) / 2)
    return np.where(x < 0, half * of * half / (1 + half * half), of / (1 + np.exp(-np.maximum(x, 0))))


def silu(x):
    """The limit at -inf is -0."""
    return sigmoid(x, np.where(x == -np.inf, -1e300, x))


def gelu(x, approximate='none', slope=False):
    if slope:
        x = np.clip(x, -40, 40)  # 0 and 1 from there on
        return erfc(-x * math.sqrt(0.5)) / 2 + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    x = np.where(x == -np.inf, -1e18, x)
    if approximate == 'tanh':
        return sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3), x)
    z = -x * math.sqrt(0.5)
    low = (-x.astype(np.longdouble) * np.sqrt(np.longdouble(0.5)) - z).astype(np.float64)  # what rounding took from z
    return 0.5 * x * erfc(z) * np.where((z > 0) & (z < 40), np.exp(-2 * z * low), 1.0)


def gelu_error(precision, size, x, approximate='none', slope=False):
    """The slope crosses zero (compiler/target/llvm/emit.h); the others are x times a fraction that can be as small as a step."""
    if slope:
        return np.full(size.shape, 2.0**-50 if precision.unit == 2.0**-53 else 2.0**-22)
    return ulps(precision, 3000 if approximate == 'tanh' else 16, size, 4.0 + np.where(np.isfinite(x), np.abs(x), 0) / 2)


def ipow(x, n):
    """The sign is that of an odd exponent, which a float64 may not tell from an even one."""
    return np.power(np.abs(x), n.astype(np.float64)) * np.where(np.signbit(x) & (n % 2 == 1), -1.0, 1.0)


def ipow_error(precision, size, x, n):
    """A rounding of x^k is n / k times in x^n."""
    return ulps(precision, 40 + np.where(np.abs(x) == 1, 0, np.abs(n.astype(np.float64))), size)


def mul_add_error(precision, size, x, y, z):
    """A target without fused multiply-add rounds the product."""
    product = np.abs(x * y)
    return np.where(product < precision.largest, 2 * precision.unit * product + precision.step, np.inf) + np.zeros(size.shape)


def clamp(x, low, high):
    low, high = (bound if x.dtype.kind == 'f' else x.dtype.type(bound) for bound in (low, high))
    return np.where(x < low, low, np.where(x > high, high, x))


def clamp_forms(dtype):
    if dtype in FLOATS:
        pairs = ('-0.5', '1.25'), ('0.0', '0.0'), ('-3.0e38', '1.0e300'), ('0xFFF0000000000000', '0.3')
    else:
        pairs = ('0.0', '3.0'), ('2.0', '2.0'), ('0.0', '200.0') if dtype in UNSIGNED else ('-2.0', '127.0')
    return [{'low': f'{low} : f64', 'high': f'{high} : f64'} for low, high in pairs]


PREDICATES = ('eq', 'ne', 'lt', 'le', 'gt', 'ge')
COMPARE = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


def extremum(numpy, of_floats, of_integers):
    """The largest or smallest element; `of_floats`, or the end of the range of integers, of no elements."""
    def reduce(x, axes):
        return numpy.reduce(x, axis=axes, initial=of_floats if x.dtype == np.float64 else getattr(np.iinfo(x.dtype), of_integers))
    return reduce


def torch_extremum(name, of_nothing):
    """PyTorch has no extremum of no elements."""
    def reduce(torch, x, axes):
        if not x.numel():
            return torch.full([d for i, d in enumerate(x.shape) if i not in axes], of_nothing, dtype=x.dtype)
        return getattr(torch, name)(x, axes) if axes else x
    return reduce


def torch_reduction(name):
    """One axis after the other, as not all functions take several."""
    def reduce(torch, x, axes):
        for axis in reversed(axes):
            x = getattr(torch, name)(x, axis)
        return x
    return reduce


def mean(x, axes):
    count = int(np.prod([x.shape[a] for a in axes], dtype=object))
    return np.add.reduce(x, axis=axes) / count if count else np.full(np.add.reduce(x, axis=axes).shape, np.nan)


def softmax(x, axis):
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    powers = np.exp(x - np.where(top == -np.inf, 0, top))
    whole = powers.sum(axis=axis, keepdims=True)
    return powers / np.where(whole == 0, 1, whole)


def logsumexp(x, axes):
    top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(top == -np.inf, 0, top)
    return np.log(np.exp(x - top).sum(axis=axes)) + top.reshape(np.add.reduce(x, axis=axes).shape)


def rmsnorm(x, *affine, axes, eps=1e-5):
    y = x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + eps)
    y = y * affine[0] if affine else y
    return y + affine[1] if len(affine) > 1 else y


def layernorm(x, *affine, axes, eps=1e-5):
    return rmsnorm(x - x.mean(axis=axes, keepdims=True), *affine, axes=axes, eps=eps)


def torch_layernorm(torch, x, *affine, axes, eps):
    if axes == (x.ndim - 1,):
        y = torch.nn.functional.layer_norm(x, x.shape[-1:], eps=eps)
    else:
        y = (x - x.mean(axes, keepdim=True)) / torch.sqrt(x.var(axes, correction=0, keepdim=True) + eps)
    y = y * affine[0] if affine else y
    return y + affine[1] if len(affine) > 1 else y


def torch_rmsnorm(torch, x, *affine, axes, eps):
    y = x * torch.rsqrt((x * x).mean(axes, keepdim=True) + eps)
    return y * affine[0] if affine else y


# ---- the table ----------------------------------------------------------------------------------------------------------------

STEPS = 'constant between its steps'
CODES = 'converts to or from codes'
FORMATS = 'compiler/tile/formats converts every number of every format'
WHOLE = 'takes or returns whole numbers'
TRAINED = 'parameters and steps: what gradients are made for'
DERIVATIVE = 'asks for derivatives: oracle/tangents.py'
SAMPLES = 'samples do not depend on a float'
REGION = 'a part of ops with regions, or made of them after autodiff'
TRAIN_ONLY = 'only train entries contain it'
IN_TANGENTS = 'oracle/tangents.py puts whole graphs into it'

ROWS = (
    # Elementwise, of one operand.
    one('exp', np.exp, 'exp', 4),
    one('expm1', np.expm1, 'expm1', 5),
    one('log', np.log, 'log', 4, low=0.3),
    one('log1p', np.log1p, 'log1p', 4, low=-0.7),
    one('tanh', np.tanh, 'tanh', 5),
    one('sqrt', np.sqrt, 'sqrt', 0, low=0.3, steep=lambda x: x == 0),
    one('rsqrt', lambda x: 1 / np.sqrt(x), 'rsqrt', 5, low=0.3),
    one('erf', erf, 'erf', 5),
    one('sin', np.sin, 'sin', 2, lost=lambda x, e: e > 0.5),
    one('cos', np.cos, 'cos', 2, lost=lambda x, e: e > 0.5),
    one('tan', np.tan, 'tan', 2, low=-1.2, high=1.2, lost=lambda x, e: e > np.abs(np.cos(x)) / 2),
    one('asin', np.arcsin, 'asin', 2, low=-0.9, high=0.9, steep=lambda x: np.abs(x) == 1),
    one('acos', np.arccos, 'acos', 2, low=-0.9, high=0.9, steep=lambda x: np.abs(x) == 1),
    one('atan', np.arctan, 'atan', 2),
    one('sigmoid', sigmoid, 'sigmoid', 8),
    one('silu', silu, 'silu', 10),
    one('softplus', lambda x: np.logaddexp(x, 0.0), lambda torch, x: torch.nn.functional.softplus(x, threshold=1e9), 4),
    one('softsign', lambda x: x / (1 + np.abs(x)), 'softsign', 3, limit=lambda x, given: np.where(np.isinf(x), 0.0, np.nan)),
    one('celu', lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
        lambda torch, x, alpha: alpha * torch.nn.functional.elu(x / alpha), 8,  # the gradient of torch.celu rounds 1 / alpha to f32
        forms=({'alpha': '1.0 : f64'}, {'alpha': '0.3 : f64'}), kinks=lambda x, alpha: np.isnan(x),
        refused=(({'alpha': '-0.5 : f64'}, 'alpha is -0.5, needs alpha > 0'), ({'alpha': '0.0 : f64'}, 'alpha is 0, needs alpha > 0'),
                 *(({'alpha': f'1.0e{power} : f64'}, f'alpha is 1e{power}, needs 1.17549e-38 <= alpha <= 3.40282e+38 in f32')
                   for power in ('-60', '+60')))),
    one('floor', np.floor, 'floor', 0, smooth=False, no_gradient=STEPS),
    one('ceil', np.ceil, 'ceil', 0, smooth=False, no_gradient=STEPS),
    one('round', np.round, 'round', 0, smooth=False, no_gradient=STEPS),
    one('gelu', gelu, 'gelu', gelu_error, kind='gelu', forms=({'approximate': '"none"'}, {'approximate': '"tanh"'}),
        inner=({'slope': 'unit'},), refused=(({'approximate': '"erf"'}, 'approximate is "erf", needs "none" or "tanh"'),),
        limit=lambda x, given, approximate: np.where(np.isinf(x) & (approximate == 'none'), (x > 0) * given, np.nan)),
    one('neg', np.negative, 'neg', 0, kind='sign', dtypes=SIGNED),
    one('relu', lambda x: np.maximum(x, x.dtype.type(0)), 'relu', 0, kind='sign', dtypes=SIGNED, kinks=np.isnan),
    one('abs', np.abs, 'abs', 0, kind='sign', dtypes=SIGNED),
    one('sign', np.sign, 'sign', 0, kind='sign', dtypes=SIGNED, no_gradient=STEPS),
    one('clamp', clamp, lambda torch, x, low, high: x.clamp(low, high), 0, kind='clamp', dtypes=NUMBERS, drawn=clamp_forms,
        forms=({'low': '-0.5 : f64', 'high': '1.0 : f64'},), kinks=lambda x, low, high: (x == low) | (x == high),
        refused=(({'low': '1.0 : f64', 'high': '0.5 : f64'}, 'low is 1, high is 0.5; low must not be above high'),)),
    one('not', np.invert, 'bitwise_not', 0, kind='logic', dtypes=BITS, smooth=False, no_gradient=WHOLE),

    # Elementwise, of operands that broadcast.
    two('add', np.add, 'add', 0),
    two('sub', np.subtract, 'sub', 0),
    two('mul', np.multiply, 'mul', 0),
    two('div', divide, 'div', 0),
    two('max', np.maximum, 'maximum', 0, kinks=lambda a, b: (a == b) | np.isnan(a) | np.isnan(b)),
    two('min', np.minimum, 'minimum', 0, kinks=lambda a, b: (a == b) | np.isnan(a) | np.isnan(b)),
    two('pow', np.power, 'pow', 4, kind='pow', dtypes=FLOATS, positive=True, steep=lambda a, b: (a == 0) & (b < 1)),
    two('compare', lambda a, b, predicate: COMPARE[predicate](a, b),
        lambda torch, a, b, predicate: getattr(torch, PREDICATES[predicate])(a, b), 0, kind='compare', dtypes=ANY, result='i1',
        forms=tuple({'predicate': f'{i} : i32'} for i in range(len(PREDICATES))), smooth=False, no_gradient=WHOLE),
    two('and', np.bitwise_and, 'bitwise_and', 0, kind='logic', dtypes=BITS, smooth=False, no_gradient=WHOLE),
    two('or', np.bitwise_or, 'bitwise_or', 0, kind='logic', dtypes=BITS, smooth=False, no_gradient=WHOLE),
    two('xor', np.bitwise_xor, 'bitwise_xor', 0, kind='logic', dtypes=BITS, smooth=False, no_gradient=WHOLE),
    two('shift_left', np.left_shift, 'bitwise_left_shift', 0, kind='shift', dtypes=INTEGERS, smooth=False, no_gradient=WHOLE),
    two('shift_right', np.right_shift, 'bitwise_right_shift', 0, kind='shift', dtypes=INTEGERS, smooth=False, no_gradient=WHOLE),
    Row('ipow', ipow, lambda torch, x, n: x ** int(n), 'ipow', operands=2, error=ipow_error),
    Row('where', np.where, 'where', 'where', operands=3, dtypes=ANY, typed_by=1),
    Row('mul_add', lambda x, y, z: x * y + z, lambda torch, x, y, z: x * y + z, 'mul_add', operands=3, dtypes=('f64', 'f32'),
        error=mul_add_error),

    # Over some dims.
    reduction('sum', lambda x, axes: np.add.reduce(x, axis=axes, dtype=x.dtype), torch_reduction('sum'), SUMS, 'sum', dtypes=SUMMABLE),
    reduction('mean', mean, torch_reduction('mean'), SUMS, 'mean'),
    reduction('reduce_max', extremum(np.maximum, -np.inf, 'min'), torch_extremum('amax', -np.inf), 0, 'extremum', dtypes=NUMBERS),
    reduction('reduce_min', extremum(np.minimum, np.inf, 'max'), torch_extremum('amin', np.inf), 0, 'extremum', dtypes=NUMBERS),
    reduction('reduce_prod', lambda x, axes: np.multiply.reduce(x, axis=axes, dtype=x.dtype), torch_reduction('prod'), Rows(), 'prod',
              dtypes=SUMMABLE),
    reduction('logsumexp_safe', logsumexp, lambda torch, x, axes: torch.logsumexp(x, axes) if axes else x, Rows(least=1), 'logsumexp'),
    over_axis('softmax_safe', softmax, lambda torch, x, axis: torch.softmax(x, axis), Rows(), 'softmax'),
    norm('layernorm_safe', layernorm, torch_layernorm, 3, error=Rows(centred=True)),
    norm('rmsnorm_safe', rmsnorm, torch_rmsnorm, 2, error=Rows()),

    # Ops whose operands or results have forms of their own.
    other('cast', 'cast', 0, typed_by=None),
    other('bitcast', 'bitcast', 0, dtypes=NUMBERS, no_gradient='changes the meaning of bits'),
    other('encode', error=0, no_gradient=CODES, no_graph=FORMATS, typed_by=None),
    other('decode', error=0, no_gradient=CODES, no_graph=FORMATS, typed_by=None),
    other('quant_scale', error=0, no_gradient=CODES, no_graph=FORMATS, typed_by=None),
    other('quant', error=0, no_gradient=CODES, no_graph=FORMATS, typed_by=None),
    other('dequant', error=0, no_gradient=CODES, no_graph=FORMATS, typed_by=None),
    other('matmul', 'matmul', PRODUCTS),
    other('argmax', 'argmax', 0, no_gradient=WHOLE),
    other('reshape', 'reshape', MOVES),
    other('words', no_gradient=WHOLE, no_graph='lowered from products of integers: compiler/tile/bytes_reference.py', typed_by=None),
    other('transpose', 'transpose', MOVES),
    other('broadcast', 'broadcast', MOVES),
    other('slice', 'slice', MOVES),
    other('pad', 'pad', MOVES),
    other('concat', 'concat', MOVES),
    other('split', 'split', MOVES),
    other('gather', 'gather', MOVES),
    other('scatter_add', 'scatter_add', Rows()),
    other('scatter', 'scatter'),
    other('one_hot', 'one_hot', 0, no_gradient=WHOLE, typed_by=None),
    other('iota', 'iota', 0, no_gradient=WHOLE, typed_by=None),
    other('sizes', no_gradient='reads nothing', no_graph='a constant once dims have sizes: compiler/graph/tessera-bind-dims.mlir', typed_by=None),
    other('cumsum', 'cumsum', SUMS),
    other('sort', 'sort'),
    other('top_k', 'top_k'),
    other('batch_norm', 'batch_norm', Rows(centred=True)),
    other('batch_norm_train', 'batch_norm', Rows(centred=True)),
    other('attention', 'attention', Rows()),
    other('attention_grad', 'attention', Rows()),
    other('rotary', 'rotary', MOVES),
    other('conv2d', 'conv2d', PRODUCTS),
    other('conv2d_grad_input', 'conv_grad', PRODUCTS),
    other('conv2d_grad_filter', 'conv_grad', PRODUCTS),
    other('max_pool2d', 'pool', 0),
    other('avg_pool2d', 'pool', SUMS),
    other('max_pool2d_grad', 'pool_grad', Rows()),
    other('avg_pool2d_grad', 'pool_grad', SUMS),
    other('cross_entropy', 'cross_entropy', Rows(least=1)),
    other('cross_entropy_grad', 'cross_entropy_grad', Rows(least=1)),
    other('moe_route', dtypes=('f64', 'f32'), no_graph='routes of tokens: compiler/graph/experts.py'),
    other('moe_dispatch', no_graph='moves tokens to slots of moe_route: compiler/graph/experts.py'),
    other('moe_combine', no_graph='moves contents of slots of moe_route: compiler/graph/experts.py'),
    other('moe_dot', no_graph='the gradient of moe_combine: compiler/graph/experts.py'),
    other('repair', no_graph='made of norms: compiler/graph/norm_ranges.py'),
    other('constant', error=0, no_gradient='reads nothing', typed_by=None),

    # Random numbers.
    other('dropout', 'dropout'),
    other('random_uniform', 'random', no_gradient=SAMPLES, typed_by=None),
    other('random_normal', 'random', no_gradient=SAMPLES, typed_by=None),
    other('philox', 'philox', 0, no_gradient=SAMPLES, typed_by=None),
    other('seed', no_gradient=WHOLE, no_graph='lowered from random ops'),

    # Training.
    other('param', no_gradient=TRAINED, no_graph=TRAIN_ONLY),
    other('opt.state', no_gradient=TRAINED, no_graph=TRAIN_ONLY),
    other('assign', no_gradient=TRAINED, no_graph=TRAIN_ONLY),
    other('minimize', no_gradient=TRAINED, no_graph=TRAIN_ONLY),
    other('step', no_gradient=WHOLE, no_graph=TRAIN_ONLY + ': AdamW reads it'),
    other('hyperparameter', no_gradient=WHOLE, no_graph=TRAIN_ONLY + ': steps of optimizers read it', typed_by=None),
    other('adamw', 'optimize', no_gradient=TRAINED),
    other('sgd', 'optimize', no_gradient=TRAINED),

    other('verify.numerics', no_gradient='has no result', no_graph='has no result: tools/run-numerics.sh'),

    # Regions.
    other('if', 'if', typed_by=None),
    other('while', 'while', typed_by=1),
    other('scan', 'scan'),
    other('yield', no_gradient=REGION, no_graph='ends every region'),
    other('loop', no_gradient=REGION, no_graph='made of while, scan and if by -tessera-outline'),
    other('jvp', no_gradient=DERIVATIVE, no_graph=IN_TANGENTS),
    other('vjp', no_gradient=DERIVATIVE, no_graph=IN_TANGENTS),
    other('custom_derivative', no_gradient=DERIVATIVE, no_graph='compiler/graph/derivatives.py: its rule may say anything'),
)
OPS = {row.name: row for row in ROWS}


def of_group(*groups):
    return [row for row in ROWS if row.group in groups]


def declared(table):
    """{op: (gradient, forward)} of the text of ops.def, which must have the ops of this table and no others."""
    found = {name: (gradient, forward) for name, gradient, forward in re.findall(
        r'^X\(\w+, "([\w.]+)", \w+, \w+, \w+, (\w+), (\w+), \w+, \w+, \w+\)$', table, re.MULTILINE)}
    if found.keys() != OPS.keys():
        raise SystemExit(f'only in ops.def: {sorted(found.keys() - OPS.keys())}; only in tests/ops.py: {sorted(OPS.keys() - found.keys())}')
    return found
