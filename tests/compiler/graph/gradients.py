# SPDX-License-Identifier: Apache-2.0
"""Gradients that -tessera-autodiff writes, against central differences in float64.

usage: gradients.py TESSERA_OPT DIGITS.mlir

Each case is a scalar loss of parameters a, b, c: the op under test, times fixed weights, summed. The
differences are exact to about h^2 + 1e-16/h; with h = 1e-5 that is 1e-10 for values near 1, and the
tolerance is 1e-6. Each run draws new inputs; the seed is printed.
"""
import random
import subprocess
import sys

try:
    import numpy as np
except ImportError:
    sys.exit(77)

import evaluate
from graph import Type
import ops

STEP, TOLERANCE = 1e-5, 1e-6
# Of two operands, and of what they broadcast to.
SHAPES = [('3x4xf64', '3x4xf64', '3x4xf64'), ('3x4xf64', '4xf64', '3x4xf64'), ('3x1xf64', '3x4xf64', '3x4xf64'),
          ('4xf64', '3x1xf64', '3x4xf64'), ('2x3x1xf64', '1x4xf64', '2x3x4xf64'), ('f64', '3x4xf64', '3x4xf64'), ('3x4xf64', 'f64', '3x4xf64')]
# Of a reduction of 2x3x4 elements, and of its result.
AXES = [([0, 1, 2], 'f64'), ([0], '3x4xf64'), ([1], '2x4xf64'), ([2], '2x3xf64'), ([0, 2], '3xf64'), ([0, 1], '4xf64'), ([], '2x3x4xf64')]
ADAMW = '#tessera.adamw<lr = 1.0e-2, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 1.0e-2>'


def opt(tool, source, *passes):
    done = subprocess.run([tool, '--mlir-print-op-generic', *passes, '-'], input=source, text=True,
                          capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f'tessera-opt: {done.stderr}\n{source}')
    return evaluate.parse(done.stdout)


class Case:
    """`body` computes %y of type `y` from %a, %b, %c; sizes of parameters in `params`."""

    def __init__(self, name, params, body, y, low=-2.0, high=2.0, arguments=()):
        self.name, self.params, self.body, self.y = name, params, body, y
        self.low, self.high, self.arguments = low, high, arguments

    def source(self):
        rank = self.y.count('x')
        axes = ', '.join(str(i) for i in range(rank))
        lines = [f'%{p} = tessera.param "{p}" init = #tessera.constant<0.0> : tensor<{t}>'
                 for p, t in self.params.items()]
        lines += self.body.strip().splitlines()
        lines += [f'%weights = tessera.param "weights" init = #tessera.constant<0.0> : tensor<{self.y}>',
                  f'%product = tessera.mul %y, %weights : tensor<{self.y}>, tensor<{self.y}> -> tensor<{self.y}>']
        element = self.y.split('x')[-1]
        lines += [f'%loss = tessera.sum %product {{axes = [{axes}]}} : tensor<{self.y}> -> tensor<{element}>',
                  f'tessera.minimize %loss {{optimizer = {ADAMW}}} : tensor<{element}>',
                  f'return %loss : tensor<{element}>']
        arguments = ', '.join(f'%{n}: tensor<{t}> {{tessera.name = "{n}"}}' for n, t, _ in self.arguments)
        return (f'func.func @f({arguments}) -> (tensor<{element}> {{tessera.name = "loss"}}) '
                'attributes {tessera.entry = "train"} {\n  ' + '\n  '.join(lines) + '\n}\n')


def binary(name, op, a, b, y, **more):
    return Case(name, {'a': a, 'b': b}, f'%y = tessera.{op} %a, %b : tensor<{a}>, tensor<{b}> -> tensor<{y}>',
                y, **more)


def described(attributes):
    """As MLIR writes them after operands."""
    return ' {' + ', '.join(name if value == 'unit' else f'{name} = {value}' for name, value in attributes.items()) + '}' if attributes else ''


def elementwise(row):
    """Cases of an op of the table in each of its forms: operands of one shape, and shapes that broadcast."""
    for attributes in row.forms + row.inner if row.group == 'one' else ():
        with_attributes = row.name + described(attributes)
        if row.no_gradient:
            yield Case(f'no gradient through {with_attributes}', {'a': '3x4xf64'}, f'''
              %f = tessera.{row.name} %a{described(attributes)} : tensor<3x4xf64>
              %y = tessera.mul %a, %f : tensor<3x4xf64>, tensor<3x4xf64> -> tensor<3x4xf64>''', '3x4xf64')
        else:
            yield Case(with_attributes, {'a': '3x4xf64'}, f'%y = tessera.{row.name} %a{described(attributes)} : tensor<3x4xf64>', '3x4xf64',
                       row.low, row.high)
    for a, b, y in SHAPES if row.group == 'two' and not row.no_gradient else ():
        yield binary(f'{row.name} {a} {b}', row.name, a, b, y, low=row.low, high=row.high)


def over_dims(row):
    """Cases of a reduction over some dims, or of an op of the elements along one."""
    if row.group == 'over_axis':
        for axis in range(3):
            yield move(f'{row.name} {axis}', f'{row.name} %a {{axis = {axis} : i64}}', '2x3x4xf64', None)
    else:
        for axes, y in AXES:
            yield move(f'{row.name} {axes}', f'{row.name} %a {{axes = {axes}}}', '2x3x4xf64', y)


def table():
    """Cases of all ops of the table that take f64."""
    rows = [row for row in ops.ROWS if 'f64' in row.dtypes]
    return [case for row in rows for case in (over_dims if row.group in ('reduction', 'over_axis') else elementwise)(row)]


def move(name, op, a, y):
    """`y` None: the result has the type of the operand."""
    arrow = f' -> tensor<{y}>' if y else ''
    return Case(name, {'a': a}, f'%y = tessera.{op} : tensor<{a}>{arrow}', y or a)


def power(exponent):
    return Case(f'ipow {exponent}', {'a': '3x4xf64'}, f'''
      %n = tessera.constant dense<{exponent}> : tensor<i64>
      %y = tessera.ipow %a, %n : tensor<3x4xf64>, tensor<i64> -> tensor<3x4xf64>''', '3x4xf64',
                low=0.5)


def products():
    for ta in (False, True):
        for tb in (False, True):
            a = '4x3xf64' if ta else '3x4xf64'
            b = '5x4xf64' if tb else '4x5xf64'
            yield binary(f'matmul {ta} {tb}', 'matmul', a, b, '3x5xf64') if not (ta or tb) else Case(
                f'matmul {ta} {tb}', {'a': a, 'b': b},
                f'%y = tessera.matmul %a, %b {{transpose_a = {str(ta).lower()}, transpose_b = {str(tb).lower()}}}'
                f' : tensor<{a}>, tensor<{b}> -> tensor<3x5xf64>', '3x5xf64')


CASES = [
    *table(),
    binary('mul ones', 'mul', '1x1xf64', '3x4xf64', '3x4xf64'),
    *(power(n) for n in (-2, 0, 1, 2, 5)),
    Case('pow of negative bases', {'a': '3x4xf64'}, '''
      %n = tessera.constant dense<3.0> : tensor<f64>
      %y = tessera.pow %a, %n : tensor<3x4xf64>, tensor<f64> -> tensor<3x4xf64>''', '3x4xf64'),
    Case('pow 0', {'a': '3x4xf64'}, '''
      %zero = tessera.constant dense<0.0> : tensor<f64>
      %none = tessera.mul %a, %zero : tensor<3x4xf64>, tensor<f64> -> tensor<3x4xf64>
      %y = tessera.pow %none, %zero : tensor<3x4xf64>, tensor<f64> -> tensor<3x4xf64>''', '3x4xf64'),
    Case('logic', {'a': '3x4xf64', 'b': '4xf64'}, '''
      %zero = tessera.constant dense<0.0> : tensor<f64>
      %p = tessera.compare lt %a, %b : tensor<3x4xf64>, tensor<4xf64> -> tensor<3x4xi1>
      %q = tessera.compare gt %b, %zero : tensor<4xf64>, tensor<f64> -> tensor<4xi1>
      %and = tessera.and %p, %q : tensor<3x4xi1>, tensor<4xi1> -> tensor<3x4xi1>
      %or = tessera.or %p, %q : tensor<3x4xi1>, tensor<4xi1> -> tensor<3x4xi1>
      %not = tessera.not %or : tensor<3x4xi1>
      %xor = tessera.xor %and, %not : tensor<3x4xi1>, tensor<3x4xi1> -> tensor<3x4xi1>
      %y = tessera.where %xor, %a, %b : tensor<3x4xi1>, tensor<3x4xf64>, tensor<4xf64> -> tensor<3x4xf64>''',
         '3x4xf64'),
    Case('where', {'a': '3x4xf64', 'b': '4xf64'}, '''
      %condition = tessera.compare lt %a, %b : tensor<3x4xf64>, tensor<4xf64> -> tensor<3x4xi1>
      %y = tessera.where %condition, %a, %b : tensor<3x4xi1>, tensor<3x4xf64>, tensor<4xf64> -> tensor<3x4xf64>''',
         '3x4xf64'),
    Case('cast', {'a': '3x4xf32'}, '%y = tessera.cast %a : tensor<3x4xf32> to tensor<3x4xf64>', '3x4xf64'),
    Case('no gradient through integers', {'a': '3x4xf64'}, '''
      %i = tessera.cast %a : tensor<3x4xf64> to tensor<3x4xi64>
      %f = tessera.cast %i : tensor<3x4xi64> to tensor<3x4xf64>
      %y = tessera.mul %a, %f : tensor<3x4xf64>, tensor<3x4xf64> -> tensor<3x4xf64>''', '3x4xf64'),
    *products(),
    # Parameters of 1: no, one and two zeros in the rows of %b.
    Case('prod with zeros', {'a': '3x4xf64'}, '''
      %c = tessera.constant dense<[[3.0, -1.0, 0.5, 2.0], [1.0, 0.5, 2.0, 3.0], [1.0, 2.0, 1.0, 0.5]]> : tensor<3x4xf64>
      %b = tessera.sub %a, %c : tensor<3x4xf64>, tensor<3x4xf64> -> tensor<3x4xf64>
      %y = tessera.reduce_prod %b {axes = [1]} : tensor<3x4xf64> -> tensor<3xf64>''', '3xf64', low=1.0, high=1.0),
    move('reshape', 'reshape %a', '2x3x4xf64', '4x6xf64'),
    move('reshape to scalar', 'reshape %a', '1x1xf64', 'f64'),
    move('transpose', 'transpose %a {permutation = [2, 0, 1]}', '2x3x4xf64', '4x2x3xf64'),
    move('broadcast', 'broadcast %a', '3x1xf64', '2x3x4xf64'),
    move('broadcast scalar', 'broadcast %a', 'f64', '2x3xf64'),
    Case('cross_entropy', {'a': '3x4xf64'},
         '%y = tessera.cross_entropy %a, %labels : tensor<3x4xf64>, tensor<3xi64> -> tensor<3xf64>', '3xf64',
         arguments=(('labels', '3xi64', np.array([0, 3, 1])),)),
    Case('reuse', {'a': '3x4xf64'}, '''
      %1 = tessera.mul %a, %a : tensor<3x4xf64>, tensor<3x4xf64> -> tensor<3x4xf64>
      %2 = tessera.exp %1 : tensor<3x4xf64>
      %3 = tessera.add %2, %a : tensor<3x4xf64>, tensor<3x4xf64> -> tensor<3x4xf64>
      %y = tessera.mul %3, %1 : tensor<3x4xf64>, tensor<3x4xf64> -> tensor<3x4xf64>''', '3x4xf64', high=1.0),
    Case('two reads', {'a': '3x4xf64'}, '''
      %again = tessera.param "a" init = #tessera.constant<0.0> : tensor<3x4xf64>
      %t = tessera.tanh %again : tensor<3x4xf64>
      %y = tessera.mul %t, %a : tensor<3x4xf64>, tensor<3x4xf64> -> tensor<3x4xf64>''', '3x4xf64'),
]


def check(name, function, tensors, arguments, elements=None):
    (_,), _, gradients = evaluate.run(function, tensors, arguments)
    for param, gradient in gradients.items():
        value = tensors[param]
        indices = list(np.ndindex(value.shape))
        for index in random.sample(indices, min(elements or len(indices), len(indices))):
            def loss_at(x):
                moved = value.copy()
                moved[index] = x
                (loss,), _, _ = evaluate.run(function, {**tensors, param: moved}, arguments)
                return loss
            expected = (loss_at(value[index] + STEP) - loss_at(value[index] - STEP)) / (2 * STEP)
            got = np.asarray(gradient)[index]
            if abs(got - expected) > TOLERANCE * max(1.0, abs(expected)):
                print(f'{name}: d loss / d {param}{list(index)} is {got!r}, central difference {expected!r}')
                return False
    return bool(gradients)


def run_cases(tool, generator):
    source = '\n'.join(case.source().replace('@f(', f'@f{i}(') for i, case in enumerate(CASES))
    functions = opt(tool, source, '-tessera-autodiff')
    failed = 0
    for i, case in enumerate(CASES):
        types = {**case.params, 'weights': case.y}
        tensors = {p: generator.uniform(case.low, case.high, Type.read(f'tensor<{t}>').shape)
                   for p, t in types.items()}
        # Away from the kinks of relu, abs, max; signs stay mixed where the range has them.
        tensors = {p: np.where(np.abs(v) < 0.01, 0.01, v) for p, v in tensors.items()}
        expected = {p for p in types} if case.name != 'ipow 0' else {'a', 'weights'}
        function = functions[f'f{i}']
        _, _, gradients = evaluate.run(function, tensors, [v for _, _, v in case.arguments])
        if set(gradients) != expected:
            print(f'{case.name}: gradients of {sorted(gradients)}, expected {sorted(expected)}')
            failed += 1
        elif not check(case.name, function, tensors, [v for _, _, v in case.arguments]):
            failed += 1
    return failed


def run_digits(tool, path, generator):
    with open(path, encoding='utf-8') as file:
        function = opt(tool, file.read(), '-inline', '-canonicalize', '-tessera-autodiff')['train']
    tensors = {op.text('name'): generator.normal(0, 0.2, op.types[0].shape)
               for op in function.ops if op.name in ('param', 'opt.state')}
    images = generator.integers(0, 17, (64, 64)).astype(np.uint8)
    labels = generator.integers(0, 10, 64)
    return 0 if check('digits', function, tensors, [images, labels], elements=6) else 1


def adamw(p, g, m, v, t, lr=1e-2, b1=0.9, b2=0.999, eps=1e-8, decay=1e-2):
    """torch.optim.AdamW, as its documentation states the algorithm."""
    p = p - lr * decay * p
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    return p - lr * (m / (1 - b1 ** t)) / (np.sqrt(v / (1 - b2 ** t)) + eps), m, v


def run_adamw(tool, generator):
    """Several whole steps of the lowered program; constants of type f64 are exact to 1e-15."""
    case = next(c for c in CASES if c.name == 'reuse')
    source = case.source()
    lowered = opt(tool, source, '-tessera-graph')['f']
    gradients_of = opt(tool, source, '-tessera-autodiff')['f']
    shape = (3, 4)
    tensors = {'a': generator.uniform(-1, 1, shape), 'weights': generator.uniform(-1, 1, shape)}
    tensors.update({f'{p}.adam_{k}': np.zeros(shape) for p in ('a', 'weights') for k in 'mv'})
    for step in range(1, 6):
        _, _, gradients = evaluate.run(gradients_of, tensors, [])
        _, assigned, _ = evaluate.run(lowered, tensors, [], step)
        for p in ('a', 'weights'):
            expected = adamw(tensors[p], gradients[p], tensors[f'{p}.adam_m'], tensors[f'{p}.adam_v'], step)
            for name, value in zip((p, f'{p}.adam_m', f'{p}.adam_v'), expected):
                if not np.allclose(assigned[name], value, rtol=1e-12, atol=1e-14):
                    print(f'adamw: {name} after step {step} is {assigned[name]}, expected {value}')
                    return 1
        tensors = assigned
    return 0


def sgd(p, g, v, nesterov, lr=1e-2, momentum=0.9, decay=0.1):
    """torch.optim.SGD, as its documentation states the algorithm; the velocity begins at 0."""
    g = g + decay * p
    v = momentum * v + g
    return p - lr * (g + momentum * v if nesterov else v), v


def run_sgd(tool, generator):
    """Several whole steps with momentum, plain and after Nesterov."""
    case = next(c for c in CASES if c.name == 'reuse')
    gradients_of = opt(tool, case.source(), '-tessera-autodiff')['f']
    for kind in ('sgd', 'nesterov'):
        source = case.source().replace(ADAMW, f'#tessera.{kind}<lr = 1.0e-2, momentum = 0.9, weight_decay = 0.1>')
        lowered = opt(tool, source, '-tessera-graph')['f']
        tensors = {p: generator.uniform(-1, 1, (3, 4)) for p in ('a', 'weights')}
        tensors.update({f'{p}.velocity': np.zeros((3, 4)) for p in ('a', 'weights')})
        for step in range(1, 6):
            _, _, gradients = evaluate.run(gradients_of, tensors, [])
            _, assigned, _ = evaluate.run(lowered, tensors, [], step)
            for p in ('a', 'weights'):
                expected = sgd(tensors[p], gradients[p], tensors[f'{p}.velocity'], kind == 'nesterov')
                for name, value in zip((p, f'{p}.velocity'), expected):
                    if not np.allclose(assigned[name], value, rtol=1e-12, atol=1e-14):
                        print(f'{kind}: {name} after step {step} is {assigned[name]}, expected {value}')
                        return 1
            tensors = assigned
    return 0


def main():
    tool, digits = sys.argv[1:3]
    seed = random.SystemRandom().randrange(1 << 32)
    print(f'seed {seed}')
    random.seed(seed)
    generator = np.random.default_rng(seed)
    failed = run_cases(tool, generator) + run_digits(tool, digits, generator) + run_adamw(tool, generator)
    failed += run_sgd(tool, generator)
    print(f'{len(CASES) + 3} cases, {failed} failed')
    sys.exit(1 if failed else 0)


main()
