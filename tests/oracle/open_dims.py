#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A dim that is open at run time: random programs of rows give the same bits as the programs that are built for each size.

usage: open_dims.py TOOLS [SEED [COUNT]]

Programs of the first kind have values whose first dim is a multiple of N, between 1 and 70, and ops that keep the rows apart. Those of the
second kind (Mixed) have N in any dim, move and reduce rows, and compute with the size of N. All programs are entries of one bundle with `--dim N=1..70`, and of one bundle per size. The calls of an entry take the sizes in random order, so that rows of larger
calls are left in memory. Prints the seed and how many calls were compared.
"""
import pathlib
import re
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is not installed')
    sys.exit(77)

from product import Product, cpu_levels, save

BOUND = 70
SIZES = 6  # of each program; 1 and the bound are among them
PROGRAMS = 12  # in a bundle
UNARY = ['relu', 'tanh', 'exp', 'gelu', 'neg', 'abs', 'sigmoid', 'silu', 'floor', 'sign', 'softplus', 'erf']
BINARY = ['add', 'sub', 'mul', 'max', 'min', 'div']
SUMS = ['sum', 'reduce_max', 'reduce_min', 'reduce_prod']
REDUCTIONS = ['sum', 'mean', 'reduce_max', 'reduce_min', 'reduce_prod']
DIMS = [1, 2, 3, 5, 8, 16, 17, 31, 33, 48, 64, 100, 130]


class Rows:
    """A random program. A shape is (times, dim, ...): its first dim is times * N; times 0: N is not in it."""

    def __init__(self, random, name):
        self.random, self.name = random, name
        self.dtype = str(random.choice(['f32'] * 5 + ['f64', 'bf16', 'f16']))
        self.lines, self.values, self.params = [], [], 0
        self.inputs = []
        for at in range(int(random.integers(1, 4))):
            times = int(random.choice([1, 1, 2, 3])) if at else 1  # some input has N rows
            shape = (times, *self.dims(int(random.integers(0, 3))))
            self.inputs.append((f'%x{at}', shape))
            self.values.append((f'%x{at}', shape))
        for _ in range(int(random.integers(2, 11))):
            self.step()
        named = [v for v in self.values if not v[0].startswith('%x')]
        self.outputs = named[-int(random.integers(1, 4)):] or self.values[-1:]

    def dims(self, count):
        return tuple(int(d) for d in self.random.choice(DIMS, count))

    def pick(self, items):
        return items[int(self.random.integers(len(items)))]

    def kind(self, shape, dtype=None):
        """The type; $times$dims$ if N is in it."""
        dims = "".join(f"{d}x" for d in shape[1:]) + (dtype or self.dtype)
        return f'${shape[0]}${dims}$' if shape[0] else f'tensor<{dims}>'

    def add(self, op, operands, shape, attrs=''):
        name = f'%v{len(self.lines)}'
        types = ', '.join(self.kind(s) for _, s in operands)
        self.lines.append(f'{name} = tessera.{op} {", ".join(o for o, _ in operands)}{attrs} : ({types}) -> {self.kind(shape)}')
        self.values.append((name, shape))

    def param(self, dims):
        name = f'%p{len(self.lines)}'
        self.params += 1
        kind = self.kind((0, *dims))
        self.lines.append(f'{name} = tessera.param "{self.name}.p{self.params}" init = #tessera.uniform<-0.5, 0.5> : {kind}')
        return name, (0, *dims)

    def step(self):
        value = self.pick(self.values)
        shape = value[1]
        getattr(self, self.pick(['unary', 'binary', 'param_binary', 'rows', 'rows', 'reduce', 'matmul', 'matmul', 'reshape', 'batch',
                                 'splat', 'noise', 'norm', 'move', 'along', 'gather', 'image', 'attention']))(value, shape)

    def unary(self, value, shape):
        self.add(self.pick(UNARY), [value], shape)

    def binary(self, value, shape):
        others = [v for v in self.values if v[1] == shape]
        self.add(self.pick(BINARY), [value, self.pick(others)], shape)

    def param_binary(self, value, shape):
        dims = [int(d) if self.random.random() < 0.7 else 1 for d in shape[1:]][int(self.random.integers(len(shape))):]
        self.add(self.pick(BINARY), [value, self.param(dims)], shape)

    def splat(self, value, shape):
        """A constant with N rows, which no input gives."""
        name = f'%c{len(self.lines)}'
        self.lines.append(f'{name}s = tessera.constant dense<1.5> : tensor<{self.dtype}>')
        self.lines.append(f'{name} = tessera.broadcast {name}s : (tensor<{self.dtype}>) -> {self.kind(shape)}')
        self.add('mul', [value, (name, shape)], shape)

    def noise(self, value, shape):
        """Random numbers for N rows, which no input gives."""
        name = f'%r{len(self.lines)}'
        self.lines.append(f'{name} = tessera.random_uniform {{low = 0.0 : f64, high = 1.0 : f64}} : {self.kind(shape)}')
        self.add('add', [value, (name, shape)], shape)

    def rows(self, value, shape):
        if len(shape) > 1:
            self.add('softmax_safe', [value], shape, f' {{axis = {len(shape) - 1}}}')

    def norm(self, value, shape):
        if len(shape) > 1:
            axis = f' {{axes = [{len(shape) - 1}]}}'
            operands = [value, self.param(shape[-1:])]
            if self.random.random() < 0.5:
                self.add('layernorm_safe', [*operands, self.param(shape[-1:])], shape, axis)
            else:
                self.add('rmsnorm_safe', operands, shape, axis)

    def reduce(self, value, shape):
        if len(shape) > 1:
            axes = sorted(self.random.choice(np.arange(1, len(shape)), int(self.random.integers(1, len(shape))), replace=False).tolist())
            kept = tuple(d for at, d in enumerate(shape) if at not in axes)
            self.add(self.pick(REDUCTIONS), [value], kept, f' {{axes = {axes}}}')

    def matmul(self, value, shape):
        if len(shape) > 1:
            columns = self.dims(1)[0]
            turned = self.random.random() < 0.3
            weight = self.param((columns, shape[-1]) if turned else (shape[-1], columns))
            self.add('matmul', [value, weight], (*shape[:-1], columns), ' {transpose_b = true}' if turned else '')

    def batch(self, value, shape):
        """A product for each row of N."""
        if len(shape) == 3:
            self.add('matmul', [value, value], (shape[0], shape[1], shape[1]), ' {transpose_b = true}')

    def move(self, value, shape):
        last = len(shape) - 1
        if not last:
            return
        *rest, size = shape
        low = [0] * last + [size // 3]
        kind = self.pick(['transpose', 'slice', 'pad', 'concat'])
        if kind == 'transpose' and last > 1:
            order = [0, *(1 + self.random.permutation(last)).tolist()]
            self.add('transpose', [value], tuple(shape[d] for d in order), f' {{permutation = {order}}}')
        elif kind == 'slice':
            count = (size - low[-1] + 1) // 2
            dims = ', '.join([f'@{shape[0]}@', *map(str, shape[1:-1]), str(count)])
            self.add('slice', [value], (*rest, count), f' {{start = {low}, size = [{dims}], stride = {[1] * last + [2]}}}')
        elif kind == 'pad':
            self.add('pad', [value], (*rest, low[-1] + size + 2),
                     f' {{low = {low}, high = {[0] * last + [2]}, interior = {[0] * (last + 1)}, value = 0.5 : f64}}')
        elif kind == 'concat':
            axis = int(self.random.integers(1, last + 1))
            self.add('concat', [value, value], (*shape[:axis], 2 * shape[axis], *shape[axis + 1:]), f' {{axis = {axis}}}')

    def along(self, value, shape):
        axis = len(shape) - 1
        if axis and self.random.random() < 0.5:
            self.add('cumsum', [value], shape, f' {{axis = {axis}}}')
        elif axis:
            most = min(shape[-1], 3)
            kind, made, attrs = self.pick([('sort', shape, ''), ('top_k', (*shape[:-1], most), f', k = {most}')])
            name = f'%v{len(self.lines)}'
            types = f'({self.kind(made)}, {self.kind(made, "i64")})'
            self.lines.append(f'{name}, {name}i = tessera.{kind} {value[0]} {{axis = {axis}{attrs}}} : ({self.kind(shape)}) -> {types}')
            self.lines.append(f'{name}f = tessera.cast {name}i : ({self.kind(made, "i64")}) -> {self.kind(made)}')
            self.values += [(name, made), (f'{name}f', made)]

    def gather(self, value, shape):
        """Rows of a parameter for the positions of the largest elements."""
        if len(shape) == 2 and shape[1] > 1:
            columns = self.dims(1)[0]
            table, name = self.param((shape[1], columns)), f'%v{len(self.lines)}'
            indices, made = self.kind(shape[:1], 'i64'), (shape[0], columns)
            self.lines.append(f'{name}i = tessera.argmax {value[0]} {{axis = 1}} : ({self.kind(shape)}) -> {indices}')
            self.lines.append(f'{name} = tessera.gather {table[0]}, {name}i {{axis = 0}} : ({self.kind(table[1])}, {indices}) -> {self.kind(made)}')
            self.values.append((name, made))

    def image(self, value, shape):
        """A convolution or pooling, if the rows can be images."""
        count = int(np.prod(shape[1:], dtype=int))
        sides = [d for d in (4, 8, 16, 3, 5) if count % (d * d) == 0]
        if not sides or len(shape) < 2:
            return
        side = self.pick(sides)
        image = (shape[0], side, side, count // (side * side))
        self.add('reshape', [value], image)
        source = self.values[-1]
        window = ' {strides = [1, 1], padding = [1, 1, 1, 1]'
        if self.random.random() < 0.6:
            size = int(self.random.choice([1, 3]))
            depthwise = self.random.random() < 0.4
            filters = image[3] if depthwise else self.dims(1)[0]
            weight = self.param((size, size, 1 if depthwise else image[3], filters))
            groups = f', groups = {image[3]}' if depthwise else ''
            if size == 1:
                window = window.replace('1, 1, 1, 1', '0, 0, 0, 0')
            self.add('conv2d', [source, weight], (*image[:3], filters), f'{window}, dilation = [1, 1]{groups}}}')
        else:
            self.add(self.pick(['max_pool2d', 'avg_pool2d']), [source], image, f'{window}, window = [3, 3]}}')

    def attention(self, value, shape):
        if len(shape) != 3:
            return
        heads = (shape[0], 1, *shape[1:])
        self.add('reshape', [value], heads)
        q = self.values[-1]
        self.add(self.pick(['relu', 'tanh']), [q], heads)
        self.add('attention', [q, self.values[-1], q], heads, self.pick([' {causal}', '']))

    def reshape(self, value, shape):
        count = int(np.prod(shape[1:], dtype=int))
        whole = [d for d in DIMS if count % d == 0]
        if len(shape) == 1:
            self.add('reshape', [value], (1, shape[0]))
        elif self.random.random() < 0.5:
            self.add('reshape', [value], (shape[0] * shape[1], *shape[2:]) if shape[0] * shape[1] < 60 else (shape[0], count))
        else:
            inner = self.pick(whole)
            self.add('reshape', [value], (shape[0], count // inner, inner))

    def text(self, size):
        """The function; size None: N is open."""
        ports = lambda values: ', '.join(f'{n + ": " if n.startswith("%x") else ""}{self.kind(s)} {{tessera.name = "{port}"}}'
                                         for port, (n, s) in values)
        inputs = ports((n[1:], (n, s)) for n, s in self.inputs)
        outputs = ports((f'y{at}', ('', s)) for at, (_, s) in enumerate(self.outputs))
        attrs = 'tessera.entry = "infer"' + ('' if size else ', tessera.dims = ["N"]')
        end = f'return {", ".join(n for n, _ in self.outputs)} : {", ".join(self.kind(s) for _, s in self.outputs)}'
        text = '\n    '.join([f'func.func @{self.name}({inputs}) -> ({outputs}) attributes {{{attrs}}} {{', *self.lines, end]) + '\n  }\n'
        if size:
            text = re.sub(r'@(\d+)@', lambda m: str(int(m[1]) * size), text)
            return re.sub(r'\$(\d+)\$(.*?)\$', lambda m: f'tensor<{int(m[1]) * size}x{m[2]}>', text)
        text = re.sub(r'@(\d+)@', lambda m: '"N"' if m[1] == '1' else f'"{m[1]}*N"', text)
        return re.sub(r'\$(\d+)\$(.*?)\$', lambda m: f'tensor<?x{m[2]}, #tessera.dims<{"N" if m[1] == "1" else chr(34) + m[1] + "*N" + chr(34)}>>', text)

    def feed(self, size):
        random = np.random.default_rng([size, len(self.lines)])
        return {n[1:]: (random.standard_normal((s[0] * size, *s[1:])), self.dtype) for n, s in self.inputs}


class Mixed(Rows):
    """A dim is (a, b): a * N + b. Inputs have N rows."""

    def __init__(self, random, name):
        self.random, self.name = random, name
        self.dtype = str(random.choice(['f32'] * 5 + ['f64', 'bf16', 'f16']))
        self.lines, self.values, self.params = [], [], 0
        self.inputs = []
        for at in range(int(random.integers(1, 3))):
            dims = [int(d) for d in random.choice([1, 2, 3, 5, 8, 17, 33], int(random.integers(0, 3)))]
            self.inputs.append((f'%x{at}', ((1, 0), *[(0, d) for d in dims])))
        self.values += self.inputs
        while len(self.values) < len(self.inputs) + int(random.integers(2, 9)):
            self.step()
        rows = [v for v in self.values if all(not a for a, _ in v[1][1:]) and (not v[1] or not v[1][0][0] or v[1][0][1] == 0)]
        self.outputs = rows[-int(random.integers(1, 4)):]

    def kind(self, shape, dtype=None):
        return f'${",".join(f"{a}:{b}" for a, b in shape)};{dtype or self.dtype}$'

    @staticmethod
    def count(shape):
        return int(np.prod([a * BOUND + b for a, b in shape], dtype=float))

    def add_small(self, op, operands, shape, attrs=''):
        """Adds the op, unless its result is large."""
        if self.count(shape) < 300000 and all(a + b >= 1 for a, b in shape) and len(shape) < 5:
            self.add(op, operands, shape, attrs)

    def step(self):
        value = self.pick(self.values)
        kinds = ['unary', 'binary', 'param_rows', 'reduce', 'reduce', 'softmax', 'transposed', 'joined', 'part', 'padded', 'gram', 'product', 'position',
                 'size', 'filled', 'largest', 'average', 'added_up', 'rows_at', 'scattered']
        getattr(self, self.pick(kinds))(value, value[1])

    def some_axis(self, shape):
        return int(self.random.integers(len(shape)))

    def param_rows(self, value, shape):
        if shape and not shape[-1][0]:
            name = f'%p{len(self.lines)}'
            self.params += 1
            kind = f'tensor<{shape[-1][1]}x{self.dtype}>'
            self.lines.append(f'{name} = tessera.param "{self.name}.p{self.params}" init = #tessera.uniform<-0.5, 0.5> : {kind}')
            self.add(self.pick(BINARY), [value, (name, shape[-1:])], shape)

    def reduce(self, value, shape):
        if not shape:
            return
        axes = sorted(self.random.choice(len(shape), int(self.random.integers(1, len(shape) + 1)), replace=False).tolist())
        self.add(self.pick(SUMS), [value], tuple(d for at, d in enumerate(shape) if at not in axes), f' {{axes = {axes}}}')

    def softmax(self, value, shape):
        if shape:
            self.add('softmax_safe', [value], shape, f' {{axis = {self.some_axis(shape)}}}')

    def transposed(self, value, shape):
        order = self.random.permutation(len(shape)).tolist()
        if len(shape) > 1:
            self.add('transpose', [value], tuple(shape[d] for d in order), f' {{permutation = {order}}}')

    def joined(self, value, shape):
        if shape:
            axis = self.some_axis(shape)
            made = list(shape)
            others = [v for v in self.values if len(v[1]) == len(shape) and all(x == y for at, (x, y) in enumerate(zip(v[1], shape)) if at != axis)]
            other = self.pick(others)
            made[axis] = (shape[axis][0] + other[1][axis][0], shape[axis][1] + other[1][axis][1])
            self.add_small('concat', [value, other], tuple(made), f' {{axis = {axis}}}')

    def part(self, value, shape):
        """All but the first or the last elements of a dim."""
        if shape:
            axis = self.some_axis(shape)
            a, b = shape[axis]
            less = int(self.random.integers(0, a + b))
            first = int(self.random.integers(0, less + 1))
            made = (*shape[:axis], (a, b - less), *shape[axis + 1:])
            start = ', '.join(str(first) if at == axis else '0' for at in range(len(shape)))
            size = ', '.join(f'@{x}:{y}@' for x, y in made)
            self.add_small('slice', [value], made, f' {{start = [{start}], size = [{size}]}}')

    def padded(self, value, shape):
        if shape:
            axis = self.some_axis(shape)
            low, high = (int(x) for x in self.random.integers(0, 4, 2))
            made = (*shape[:axis], (shape[axis][0], shape[axis][1] + low + high), *shape[axis + 1:])
            ends = [[n if at == axis else 0 for at in range(len(shape))] for n in (low, high)]
            self.add_small('pad', [value], made, f' {{low = {ends[0]}, high = {ends[1]}, interior = {[0] * len(shape)}, value = 0.5 : f64}}')

    def gram(self, value, shape):
        """The product of a matrix with itself."""
        if len(shape) > 1:
            second = self.random.random() < 0.5
            made = (*shape[:-2], shape[-2], shape[-2]) if second else (*shape[:-2], shape[-1], shape[-1])
            self.add_small('matmul', [value, value], made, ' {transpose_b = true}' if second else ' {transpose_a = true}')

    def product(self, value, shape):
        fits = [v for v in self.values if len(shape) > 1 and len(v[1]) in (2, len(shape)) and v[1][-2] == shape[-1] and v[1][:-2] in ((), shape[:-2])]
        if fits:
            other = self.pick(fits)
            self.add_small('matmul', [value, other], (*shape[:-1], other[1][-1]))

    def position(self, value, shape):
        if shape and self.dtype in ('f32', 'f64'):
            axis, name = self.some_axis(shape), f'%i{len(self.lines)}'
            self.lines.append(f'{name} = tessera.iota {{axis = {axis} : i64}} : {self.kind(shape)}')
            self.add(self.pick(BINARY[:5]), [value, (name, shape)], shape)

    def size(self, value, shape):
        name = f'%n{len(self.lines)}'
        self.lines.append(f'{name} = tessera.sizes {{values = [@{self.random.integers(1, 4)}:{self.random.integers(0, 3)}@]}} : tensor<1xi64>')
        self.lines.append(f'{name}f = tessera.cast {name} : (tensor<1xi64>) -> tensor<1x{self.dtype}>')
        if shape:
            self.add('mul', [value, (f'{name}f', ((0, 1),))], shape)

    def filled(self, value, shape):
        name = f'%c{len(self.lines)}'
        self.lines.append(f'{name}s = tessera.constant dense<1.5> : tensor<{self.dtype}>')
        self.lines.append(f'{name} = tessera.broadcast {name}s : (tensor<{self.dtype}>) -> {self.kind(shape)}')
        self.values.append((name, shape))

    def largest(self, value, shape):
        if shape:
            axis, name = self.some_axis(shape), f'%v{len(self.lines)}'
            made = (*shape[:axis], *shape[axis + 1:])
            self.lines.append(f'{name}i = tessera.argmax {value[0]} {{axis = {axis}}} : ({self.kind(shape)}) -> {self.kind(made, "i64")}')
            self.lines.append(f'{name} = tessera.cast {name}i : ({self.kind(made, "i64")}) -> {self.kind(made)}')
            self.values.append((name, made))

    def average(self, value, shape):
        if shape:
            axis = self.some_axis(shape)
            self.add('mean', [value], (*shape[:axis], *shape[axis + 1:]), f' {{axes = [{axis}]}}')

    def added_up(self, value, shape):
        if shape:
            ends = self.pick(['', ', reverse = true', ', exclusive = true'])
            self.add('cumsum', [value], shape, f' {{axis = {self.some_axis(shape)}{ends}}}')

    def rows_at(self, value, shape):
        """The rows at positions below N, in the order from the last one."""
        if shape and shape[0] == (1, 0):
            name = f'%v{len(self.lines)}'
            self.positions(name)
            self.lines.append(f'{name} = tessera.gather {value[0]}, {name}i {{axis = 0}} : ({self.kind(shape)}, {self.kind(((1, 0),), "i64")}) '
                              f'-> {self.kind(shape)}')
            self.values.append((name, shape))

    def scattered(self, value, shape):
        if shape and shape[0] == (1, 0):
            name, op = f'%v{len(self.lines)}', self.pick(['scatter', 'scatter_add'])
            self.positions(name)
            kinds = f'({self.kind(shape)}, {self.kind(((1, 0),), "i64")}, {self.kind(shape)})'
            self.lines.append(f'{name} = tessera.{op} {value[0]}, {name}i, {value[0]} {{axis = 0}} : {kinds} -> {self.kind(shape)}')
            self.values.append((name, shape))

    def positions(self, name):
        """N - 1 - i"""
        rows = self.kind(((1, 0),), 'i64')
        self.lines += [f'{name}p = tessera.iota {{axis = 0 : i64}} : {rows}',
                       f'{name}e = tessera.sizes {{values = [@1:-1@]}} : tensor<1xi64>',
                       f'{name}i = tessera.sub {name}e, {name}p : (tensor<1xi64>, {rows}) -> {rows}']

    def text(self, size):
        text = super().text(size)
        if size:
            text = re.sub(r'@(\d+):(-?\d+)@', lambda m: str(int(m[1]) * size + int(m[2])), text)
        else:
            text = re.sub(r'@(\d+):(-?\d+)@', lambda m: quoted(int(m[1]), int(m[2])), text)

        def write(m):
            dims = [(int(a), int(b)) for a, b in (d.split(':') for d in m[1].split(',') if d)]
            known = ''.join(f'{a * size + b if size else b}x' if size or not a else '?x' for a, b in dims)
            names = ', '.join(quoted(a, b) for a, b in dims if a)
            return f'tensor<{known}{m[2]}{", #tessera.dims<" + names + ">" if names and not size else ""}>'
        return re.sub(r'\$([\d:,-]*);(\w+)\$', write, text)

    def feed(self, size):
        random = np.random.default_rng([size, len(self.lines)])
        return {n[1:]: (random.standard_normal([a * size + b for a, b in s]), self.dtype) for n, s in self.inputs}


def quoted(a, b):
    return str(b) if not a else f'"{a}*N + {b}"'.replace(' + -', ' - ')


def build(product, name, text, *arguments):
    folder = product.work / name
    folder.mkdir()
    source = folder / 'rows.mlir'
    source.write_text(text, encoding='utf-8')
    targets = ','.join(f'cpu:{level}' for level in product.targets[-1:])
    return folder / 'rows.tsb', product.call('tessera-aot', 'build', source, '-o', folder / 'rows.tsb', '--target', targets, *arguments,
                                             seconds=600)


def call(product, bundle, entry, inputs, outputs):
    """The bytes of the outputs, with their types; the message where the call is refused."""
    save(product.work / 'in.safetensors', inputs)
    arguments = ['--quiet', '--entry', entry, '--check-finite', 'off']
    for name in inputs:
        arguments += ['--input', f'{name}={product.work}/in.safetensors:{name}']
    for name in outputs:
        arguments += ['--output', f'{name}={product.work}/out.safetensors']
    done = product.call('tessera-run', bundle, *arguments)
    if done.returncode:
        return done.stderr
    return (product.work / 'out.safetensors').read_bytes()


def sizes_of(random):
    primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67]
    others = random.choice(np.arange(2, BOUND), SIZES - 3, replace=False)
    return sorted({1, BOUND, int(random.choice(primes)), *map(int, others)})


def compare_programs(product, random, count, kind):
    """The number of comparisons, and of differences."""
    compared = wrong = 0
    for first in range(0, count, PROGRAMS):
        programs = [kind(random, f'g{first}_{at}') for at in range(min(PROGRAMS, count - first))]
        text = 'module {\n' + ''.join(p.text(None) for p in programs) + '}\n'
        bundle, done = build(product, f'{kind.__name__}{first}', text, '--dim', f'N=1..{BOUND}')
        if done.returncode:
            sys.exit(f'{text}\n{done.stderr}')
        for size in random.permutation(sizes_of(random)).tolist():
            exact, done = build(product, f'{kind.__name__}{first}-{size}', 'module {\n' + ''.join(p.text(size) for p in programs) + '}\n')
            if done.returncode:
                sys.exit(done.stderr)
            for p in programs:
                outputs = [f'y{at}' for at in range(len(p.outputs))]
                got, expected = (call(product, b, p.name, p.feed(size), outputs) for b in (bundle, exact))
                compared += 1
                if got == expected and isinstance(got, bytes):
                    continue
                wrong += 1
                print(f'N = {size}:\n{p.text(None)}\n{got if isinstance(got, str) else "other bits"}\n'
                      f'{expected if isinstance(expected, str) else ""}')
    return compared, wrong


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(np.random.SeedSequence().entropy % 10**9)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 24
    print(f'seed {seed}', flush=True)
    with tempfile.TemporaryDirectory() as folder:
        product = Product(sys.argv[1], pathlib.Path(folder) / 'work', cpu_levels())
        random = np.random.default_rng(seed)
        both = [compare_programs(product, random, count, kind) for kind, count in ((Rows, count), (Mixed, count // 3))]
    compared, wrong = (sum(x) for x in zip(*both))
    print(f'{count + count // 3} programs, {compared} calls compared, {wrong} wrong')
    sys.exit(bool(wrong or not compared))


main()
