# SPDX-License-Identifier: Apache-2.0
"""Graph IR as Python objects, and its generic text form: what `tessera-opt --mlir-print-op-generic` prints, read by a parser
of our own, and written again."""
import re

import numpy as np

FLOATS = ('f64', 'f32', 'bf16', 'f16')
NUMPY = {'f64': np.float64, 'f32': np.float64, 'bf16': np.float64, 'f16': np.float64, 'i64': np.int64, 'i32': np.int32,
         'i8': np.int8, 'ui8': np.uint8, 'i1': np.bool_, 'i16': np.int16, 'ui16': np.uint16, 'ui32': np.uint32,
         'ui64': np.uint64}  # floats are computed in float64
STORED = {'f64': '<f8', 'f32': '<f4', 'bf16': '<u2', 'f16': '<f2', 'i64': '<i8', 'i32': '<i4', 'i8': '|i1', 'ui8': '|u1',
          'i1': '|b1', 'i16': '<i2', 'ui16': '<u2', 'ui32': '<u4', 'ui64': '<u8'}

TYPE = re.compile(r'tensor<((?:\d+x)*)(\w+)>')
HEAD = re.compile(r'^\s*(?:(%[\w]+)(?::(\d+))? = )?"([\w.]+)"\(([^)]*)\)(.*)$')


class Type:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), dtype

    def __str__(self):
        return f'tensor<{"".join(f"{d}x" for d in self.shape)}{self.dtype}>'

    def __eq__(self, other):
        return self.shape == other.shape and self.dtype == other.dtype

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=object))

    @staticmethod
    def read(text):
        match = TYPE.search(text)
        return Type((int(d) for d in match[1].split('x') if d), match[2])


def split(text):
    """At commas outside of brackets and strings."""
    parts, depth, quoted, start = [], 0, False, 0
    for at, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif not quoted and char in '<([{':
            depth += 1
        elif not quoted and char in '>)]}' and text[at - 1] != '-':
            depth -= 1
        elif not quoted and char == ',' and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in parts + [text[start:].strip()] if part]


class Op:
    """name without dialect, operands and results as value names, attributes as text."""

    def __init__(self, name, operands, results, types, attrs=None, regions=()):
        self.name, self.operands, self.results, self.types = name, list(operands), list(results), list(types)
        self.attrs, self.regions = dict(attrs or {}), list(regions)

    def text(self, name):
        return self.attrs[name].rsplit(' : ', 1)[0].strip('"')

    def flag(self, name):
        return self.attrs.get(name, 'false').split(' :')[0] in ('true', 'unit')

    def integer(self, name, otherwise=None):
        return int(self.attrs[name].split(' :')[0]) if name in self.attrs else otherwise

    def integers(self, name, otherwise=None):
        if name not in self.attrs:
            return otherwise
        return tuple(int(i) for i in re.findall(r'-?\d+', re.sub(r'i64', '', self.attrs[name])))

    def numbers(self, name):
        """Of an attribute like #tessera.sgd<lr = 0.1, ...>."""
        return {key: float(value) for key, value in re.findall(r'(\w+) = ([-+.\w]+)', self.attrs[name])}

    def number(self, name, otherwise=None):
        return scalar(self.attrs[name].split(' :')[0], 'f64') if name in self.attrs else otherwise

    def values(self):
        """{attribute: its value}, without those of a dialect."""
        return {name: value_of(text) for name, text in self.attrs.items() if '.' not in name}


class Region:
    def __init__(self, arguments, ops):
        self.arguments, self.ops = list(arguments), list(ops)  # arguments: (name, Type)


class Function(Region):
    def __init__(self, name, arguments=(), ops=()):
        super().__init__(arguments, ops)
        self.name = name


def scalar(text, dtype):
    if text.startswith('0x'):
        bits = {'f64': ('<u8', '<f8'), 'f32': ('<u4', '<f4'), 'f16': ('<u2', '<f2')}
        if dtype == 'bf16':
            return float(np.array([int(text, 16) << 16], '<u4').view('<f4')[0])
        unsigned, real = bits[dtype]
        return float(np.array([int(text, 16)], unsigned).view(real)[0])
    if text in ('true', 'false'):
        return text == 'true'
    return float(text) if dtype in FLOATS else int(text)


def value_of(text):
    """Of an attribute: a flag, a string, a number or a tuple of whole numbers."""
    if text in ('unit', 'true', 'false'):
        return text != 'false'
    if text[0] in '"#@':
        return text.strip('"')
    if text[0] == '[':
        return tuple(int(i) for i in re.findall(r'-?\d+', text.replace('i64', '')))
    number, _, dtype = text.partition(' : ')
    return scalar(number, dtype)


def unpack(stored, dtype):
    """Elements as they lie in memory, as the interpreter has them."""
    if dtype == 'bf16':
        wide = np.left_shift(np.atleast_1d(stored), 16, dtype='<u4', casting='unsafe')
        return wide.view('<f4').astype(np.float64).reshape(np.shape(stored))
    return stored.astype(NUMPY[dtype])


def pack(values, dtype):
    if dtype == 'bf16':
        return (np.ascontiguousarray(values, '<f4').view('<u4') >> 16).astype('<u2')
    return np.ascontiguousarray(values, STORED[dtype])


def elements(text):
    """dense<…> : tensor<…>"""
    kind = Type.read(text[text.rindex(': tensor'):])
    body = text[text.index('<') + 1:text.rindex('> :')]
    if body.startswith('"0x'):
        raw = bytes.fromhex(body.strip('"')[2:])
        if kind.dtype == 'i1':  # packed, the first in the lowest bit
            bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder='little')
            return bits[:kind.size].astype(np.bool_).reshape(kind.shape)
        flat = unpack(np.frombuffer(raw, STORED[kind.dtype]), kind.dtype)
    else:
        tokens = re.findall(r'0x[0-9A-Fa-f]+|true|false|[-+.\w]+', body)
        flat = np.array([scalar(token, kind.dtype) for token in tokens], NUMPY[kind.dtype])
    return np.broadcast_to(flat, kind.shape) if flat.size == 1 and kind.size != 1 else flat.reshape(kind.shape)


def dense(values, kind):
    """The attribute of a constant: its bytes, exactly."""
    if kind.size == 0:
        return f'dense<> : {kind}'
    if kind.dtype == 'i1':
        words = re.sub(r'\s', '', np.array2string(values, threshold=1 << 30, separator=','))
        return f'dense<{words.replace("True", "true").replace("False", "false")}> : {kind}'
    return f'dense<"0x{pack(values, kind.dtype).tobytes().hex().upper()}"> : {kind}'


# ---- reading ----------------------------------------------------------------------------------------------------------------

def attributes(text):
    pairs = (part.split(' = ', 1) if ' = ' in part else (part, 'unit') for part in split(text))
    return dict(pairs)


def braced(text, opening, closing):
    """What stands between the first `opening` and the `closing` that belongs to it, and the rest."""
    start, depth, quoted = text.index(opening) + len(opening), 1, False
    for at in range(start, len(text)):
        quoted ^= text[at] == '"'
        if quoted:
            continue
        depth += text[at] in '{<(['
        depth -= text[at] in '}>)]' and text[at - 1] != '-'
        if depth == 0 or (len(opening) == 2 and depth == -1):
            return text[start:at], text[at + 1:]
    raise ValueError(text)


def finish(op, tail, count):
    """`<{…}> {…} : (…) -> …` after operands or regions."""
    tail = tail.strip()
    if tail.startswith('<{'):
        end = tail.index('}> ') if '}> ' in tail else len(tail)
        op.attrs.update(attributes(tail[2:end]))
        tail = tail[end + 2:].strip()
    if tail.startswith('{'):
        end = tail.rindex('} :')
        op.attrs.update(attributes(tail[1:end]))
        tail = tail[end + 1:].strip()
    arrow = tail.rindex(' -> ')
    results = tail[arrow + 4:]
    op.types = [Type.read(t) for t in split(results[1:-1] if results.startswith('(') else results)]
    name = op.results[0] if op.results else None
    op.results = [name] if count == 1 and name else [f'{name}#{i}' for i in range(count)] if name else []


def parse(text):
    """{name: Function} of a module in generic form, or as write() writes it."""
    functions, stack = {}, []  # stack: [op, count, region]
    for line in text.splitlines():
        if '"func.func"()' in line:
            function = Function(re.search(r'sym_name = "(\w+)"', line)[1])
            functions[function.name] = function
            stack = [[None, 0, function]]
        elif line.startswith('func.func '):
            function = Function(re.search(r'@(\w+)\(', line)[1])
            ports = line[line.index('(') + 1:line.index(') -> (')]
            function.arguments = [(part.split(': ')[0], Type.read(part)) for part in split(ports)]
            functions[function.name] = function
            stack = [[None, 0, function]]
        elif line.strip().startswith('^bb0('):
            inner = line[line.index('(') + 1:line.rindex(')')]
            stack[-1][2].arguments = [(part.split(': ')[0], Type.read(part)) for part in split(inner)]
        elif line.strip().startswith('}, {') and len(stack) > 1:
            region = Region((), ())
            stack[-1][0].regions.append(region)
            stack[-1][2] = region
        elif line.strip().startswith('})') and len(stack) > 1:
            op, count, _ = stack.pop()
            finish(op, line.strip()[2:], count)
        elif stack and HEAD.match(line):
            read_op(line, stack)
        elif '"tessera.' in line:
            raise ValueError('cannot read: ' + line)
    called = [op for function in functions.values() for op in function.ops if op.name == 'call']
    for op in called:
        op.regions = [functions[op.text('callee').lstrip('@')]]
    return {name: f for name, f in functions.items() if f not in [op.regions[0] for op in called]}


def read_op(line, stack):
    match = HEAD.match(line)
    count = int(match[2] or 1) if match[1] else 0
    op = Op(match[3].split('.', 1)[1], split(match[4]), [match[1]] if match[1] else [], [])
    if match[3] == 'func.func' or match[3] == 'builtin.module':
        return
    stack[-1][2].ops.append(op)
    tail = match[5].strip()
    if tail.endswith('({'):
        if tail.startswith('<{'):
            op.attrs.update(attributes(tail[2:tail.rindex('}>')]))
        region = Region((), ())
        op.regions.append(region)
        stack.append([op, count, region])
    else:
        finish(op, tail, count)


# ---- writing ----------------------------------------------------------------------------------------------------------------

def write_ops(ops, types, depth):
    lines = []
    for op in ops:
        names = op.results
        head = ''
        if len(names) == 1:
            head = f'{names[0]} = '
        elif names:
            head = f'{names[0].split("#")[0]}:{len(names)} = '
        types.update(zip(op.results, op.types))
        dialect = 'func' if op.name in ('return', 'call') else 'tessera'
        attrs = ', '.join(name if value == 'unit' else f'{name} = {value}' for name, value in op.attrs.items())
        kinds = ', '.join(str(types[o]) for o in op.operands)
        results = ', '.join(str(t) for t in op.types)
        tail = f'{" {" + attrs + "}" if attrs else ""} : ({kinds}) -> {results if len(op.types) == 1 else f"({results})"}'
        line = f'{"  " * depth}{head}"{dialect}.{op.name}"({", ".join(op.operands)})'
        if op.regions and op.name != 'call':
            bodies = []
            for region in op.regions:
                types.update(region.arguments)
                head = f'^bb0({", ".join(f"{n}: {t}" for n, t in region.arguments)}):\n' if region.arguments else ''
                bodies.append('{\n' + head + '\n'.join(write_ops(region.ops, types, depth + 1)) + '\n' + '  ' * depth + '}')
            line += f' ({", ".join(bodies)})'
        lines.append(line + tail)
    return lines


def callees(region, name):
    """The functions that calls in the region need, each called NAME_INDEX, as text; the calls are given their names."""
    found = []

    def visit(ops):
        for op in ops:
            for inner in op.regions:
                visit(inner.ops)
            if op.name == 'call':
                op.attrs['callee'] = f'@{name}_{len(found)}'
                found.append(op)
    visit(region.ops)
    texts = []
    for op in found:
        body, = op.regions
        arguments = ', '.join(f'{n}: {t}' for n, t in body.arguments)
        lines = write_ops(body.ops, dict(body.arguments), 1)
        texts.append(f'func.func private {op.attrs["callee"]}({arguments}) -> ({", ".join(map(str, op.types))}) {{\n'
                     + '\n'.join(lines) + '\n}\n')
    return texts


def write_entry(function):
    """As an entry that infers, without what it calls; the last op is `return`."""
    types = dict(function.arguments)
    lines = write_ops(function.ops, types, 1)
    results = [types[o] for o in function.ops[-1].operands]
    arguments = ', '.join(f'{n}: {t} {{tessera.name = "{n[1:]}"}}' for n, t in function.arguments)
    outputs = ', '.join(f'{t} {{tessera.name = "r{i}"}}' for i, t in enumerate(results))
    return (f'func.func @{function.name}({arguments}) -> ({outputs}) attributes {{tessera.entry = "infer"}} {{\n'
            + '\n'.join(lines) + '\n}\n')


def write(function):
    """The entry, then the functions that it calls."""
    called = callees(function, function.name)
    return write_entry(function) + ''.join(called)
