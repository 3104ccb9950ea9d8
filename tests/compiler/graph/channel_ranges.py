#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Norms over dims that are not the last ones, batch norm and means, and their gradients, over the whole range of each type.

usage: channel_ranges.py TOOLS ASSEMBLER [--full]

The rows of norm_ranges.py (near the largest and the least numbers of the type, one row times every power of two, and others) are
stored in tensors with several layouts: as rows, as adjacent columns, as columns of each of several blocks, and as channels whose
elements are split over the blocks. The reference is computed in NumPy's longdouble. The guarantees:

- layernorm, rmsnorm, softmax and logsumexp give the same results for such rows as for rows of the last dim, and have the same
  gradients, for incoming gradients over the whole range. If an incoming gradient of softmax is above a quarter of the largest number, the
  difference of two gradients may overflow: a gradient is then right or not finite, but never another finite number.
- batch_norm_train normalizes like layernorm, and has its gradient. The running mean and variance are correct whenever they fit the type, for old values
  of any size.
- batch_norm and its gradients are correct whenever x - mean fits the type. If an incoming gradient / size does not fit, or sums of them, the
  gradients of mean and variance are right or not finite.
- A mean is correct whenever its elements are finite.
- The bits of a row do not depend on the other rows; they are equal on every level of this CPU with FMA, and for the Tile IR of a
  GPU.

For f32 every case is tried in every layout, for the other types in one or two layouts, with 16 columns. The Tile IR of a GPU is tried
with f32 and 16 columns. Tensors with dims of extent 1 are tried with f32, as columns. --full (minutes): 50 columns for each type, and the Tile IR of a GPU with both.

Exits with 77 without NumPy.
"""
import pathlib
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

import subprocess

from norm_ranges import LEAST, MOST, TOLERANCE, L, build, cpu_levels, crossed, gradient_scale, load, logsumexp, norm, rows, save, softmax, stored

COLUMNS = (16, 50)  # the second, and types other than f32, in some layouts alone
PARTS = 2  # of a row, in tensors where others lie between them
SINGLE = ((1, 1), (1, 2), (4, 1))  # columns and rows, one of them 1: those dims have extent 1


class Layout:
    """How rows, a matrix [rows, columns], lie in a tensor: `dims` of 'r', 'c' (a part of the columns) and 'p' (their parts)."""

    def __init__(self, name, dims):
        self.name, self.dims = name, dims
        self.axes = [i for i, d in enumerate(dims) if d in 'cp']
        self.channel = [i for i, d in enumerate(dims) if d == 'r']

    def lay(self, x):
        if 'b' in self.dims:  # blocks of rows
            return x.reshape(2, -1, x.shape[1]).transpose(0, 2, 1)
        if 'p' not in self.dims:
            return x if self.dims == 'rc' else x.T
        parts = x.reshape(x.shape[0], PARTS, -1)
        return parts.transpose(['rpc'.index(d) for d in self.dims])

    def read(self, x, rows):
        if 'b' in self.dims:
            return x.transpose(0, 2, 1).reshape(rows, -1)
        if 'p' in self.dims:
            x = x.transpose([self.dims.index(d) for d in 'rpc'])
        elif self.dims == 'cr':
            x = x.T
        return x.reshape(rows, -1)

    def shape(self, rows, columns):
        return self.lay(np.empty((rows, columns), bool)).shape

    def reduced(self, rows, columns):
        return tuple(n for i, n in enumerate(self.shape(rows, columns)) if i not in self.axes)


LAYOUTS = {l.name: l for l in (Layout('rows', 'rc'), Layout('columns', 'cr'), Layout('columns of blocks', 'bcr'), Layout('channels last', 'pcr'),
                               Layout('channels in the middle', 'prc'))}


def text(shape, dtype):
    return 'tensor<' + ''.join(f'{n}x' for n in shape) + dtype + '>'


class Case:
    """One op of rows in one layout. `results`: names of what is compared, y and dx first."""

    per_row = ()  # inputs and results that have one number a row
    is_crossed = False  # incoming gradients are from the whole range, too

    def __init__(self, title, layouts):
        self.title, self.layouts = title, layouts

    def inputs(self, dtype, x, g):
        return {'x': x, 'g': g}

    def scale(self, name, dtype, given):
        """What an error is relative to, if that is more than the largest element of a row."""
        return L(0)

    def may_overflow(self, name, dtype, given):
        """Rows whose numbers may also be infinite or NaN."""
        return False


def lines(name, inputs, outputs, body):
    """A function; inputs and outputs {name: type}."""
    given = ', '.join(f'%{n}: {t} {{tessera.name = "{n}"}}' for n, t in inputs.items())
    types = ', '.join(f'{t} {{tessera.name = "{n}"}}' for n, t in outputs.items())
    result = ', '.join(f'%{n}' for n in outputs)
    return f'''func.func @{name}({given}) -> ({types}) attributes {{tessera.entry = "infer"}} {{
{body}  return {result} : {', '.join(outputs.values())}
}}
'''


def through(x, to, op, attrs, more=()):
    """vjp of one op of x."""
    types = ', '.join([x, *(t for _, t in more)])
    read = ', '.join(['%a', *(n for n, _ in more)])
    return f'''  %y, %dx = tessera.vjp %x, %g {{
  ^bb0(%a: {x}):
    %0 = {op} {read} {{{attrs}}} : {types}{"" if "softmax" in op else f" -> {to}"}
    tessera.yield %0 : {to}
  }} : {x}, {to} -> {to}, {x}
'''


class Norm(Case):
    results, is_crossed, is_centred = ('y', 'dx'), True, True

    def __init__(self, kind, eps, layouts):
        super().__init__(f'{kind} eps {eps}', layouts)
        self.kind, self.eps, self.is_centred = kind, eps, kind == 'layernorm'

    def function(self, name, dtype, layout, shape):
        full = text(layout.shape(*shape), dtype)
        attrs = f'axes = {layout.axes}, eps = {self.eps:.17e}'
        return lines(name, {'x': full, 'g': full}, {'y': full, 'dx': full}, through(full, full, f'tessera.{self.kind}_safe', attrs))

    def expected(self, dtype, given, got):
        x, g = given['x'].astype(L), given['g'].astype(L)
        return dict(zip(self.results, norm(x, g, self.eps, self.is_centred, MOST['f64' if dtype == 'f64' else 'f32'])))

    def of_gradient(self, name, dtype, given):
        if name != 'dx':
            return L(0), L(0)
        return gradient_scale(given['x'].astype(L), given['g'].astype(L), self.eps, self.is_centred, dtype)

    def scale(self, name, dtype, given):
        return self.of_gradient(name, dtype, given)[0]

    def slack(self, name, dtype, given, right):
        """By how much more than TOLERANCE of the largest element of a row."""
        return L(LEAST[dtype]) * (2 / self.eps**0.5 if self.eps else 2) + np.nan_to_num(self.of_gradient(name, dtype, given)[1])


class Exponential(Case):
    results, is_crossed = ('y', 'dx'), True

    def __init__(self, kind, layouts):
        super().__init__(kind, layouts)
        self.kind = kind
        self.per_row = ('g', 'y') if kind == 'logsumexp' else ()

    def inputs(self, dtype, x, g):
        return {'x': x, 'g': g[:, :1] if self.per_row else g}

    def function(self, name, dtype, layout, shape):
        full = text(layout.shape(*shape), dtype)
        to = text(layout.reduced(*shape), dtype) if self.per_row else full
        attrs = f'axes = {layout.axes}' if self.per_row else f'axis = {layout.axes[0]} : i64'
        return lines(name, {'x': full, 'g': to}, {'y': to, 'dx': full}, through(full, to, f'tessera.{self.kind}_safe', attrs))

    def expected(self, dtype, given, got):
        x, g = given['x'].astype(L), given['g'].astype(L)
        made = logsumexp(x, g, got['y'].astype(L)) if self.per_row else softmax(x, g)
        return dict(zip(self.results, made))

    def may_overflow(self, name, dtype, given):
        """Rows in which a difference may overflow. f16 is computed in f32."""
        large = np.abs(given['g']).max(1, keepdims=True) > MOST[dtype] / 4
        return large & (name == 'dx' and self.kind == 'softmax' and dtype != 'f16')

    def slack(self, name, dtype, given, right):
        least = L(LEAST[dtype]) * 2
        return least + (L(TOLERANCE[dtype]) * np.abs(given['g']).max(1, keepdims=True) if name == 'dx' else 0)


class Mean(Case):
    results, per_row, is_crossed = ('y', 'dx'), ('g', 'y'), True

    def inputs(self, dtype, x, g):
        return {'x': x, 'g': g[:, :1]}

    def function(self, name, dtype, layout, shape):
        full, to = text(layout.shape(*shape), dtype), text(layout.reduced(*shape), dtype)
        return lines(name, {'x': full, 'g': to}, {'y': to, 'dx': full}, through(full, to, 'tessera.mean', f'axes = {layout.axes}'))

    def expected(self, dtype, given, got):
        x = given['x'].astype(L)
        return {'y': x.mean(1, keepdims=True), 'dx': np.broadcast_to(given['g'].astype(L) / x.shape[1], x.shape)}

    def slack(self, name, dtype, given, right):
        most = np.abs(given['x']).max(1, keepdims=True) if name == 'y' else 0
        return L(LEAST[dtype]) * 2 + L({'f64': 1e-15, 'f32': 3e-7}.get(dtype, 3e-7)) * most


class Train(Norm):
    """The old mean and variance are `old` of the largest number."""

    results, per_row = ('y', 'dx', 'mean', 'variance'), ('mean', 'variance')

    def __init__(self, eps, old, momentum, layouts):
        Case.__init__(self, f'batch_norm_train eps {eps}, old numbers {old} of the largest, momentum {momentum}', layouts)
        self.eps, self.old, self.momentum = eps, old, momentum

    def number(self, dtype):
        return stored(MOST[dtype] * self.old, dtype)

    def function(self, name, dtype, layout, shape):
        full, to = text(layout.shape(*shape), dtype), text((shape[0],), dtype)
        types, results = ', '.join([full] + [to] * 4), ', '.join([full, to, to])
        attrs = f'{{axis = {layout.channel[0]} : i64, eps = {self.eps:.17e}, momentum = {self.momentum}}} : {types} -> {results}'
        body = f'''  %one = tessera.constant dense<1.0> : {to}
  %zero = tessera.constant dense<0.0> : {to}
  %old = tessera.constant dense<{float(self.number(dtype)):.17e}> : {to}
  %size = tessera.constant dense<{abs(float(self.number(dtype))):.17e}> : {to}
  %y, %dx = tessera.vjp %x, %g {{
  ^bb0(%a: {full}):
    %0:3 = tessera.batch_norm_train %a, %one, %zero, %old, %size {attrs}
    tessera.yield %0#0 : {full}
  }} : {full}, {full} -> {full}, {full}
  %1, %mean, %variance = tessera.batch_norm_train %x, %one, %zero, %old, %size {attrs}
'''
        return lines(name, {'x': full, 'g': full}, {'y': full, 'dx': full, 'mean': to, 'variance': to}, body)

    def expected(self, dtype, given, got):
        x, g = given['x'].astype(L), given['g'].astype(L)
        made = dict(zip(self.results, norm(x, g, self.eps, True, MOST['f64' if dtype == 'f64' else 'f32'])))
        mean, old = x.mean(1, keepdims=True), L(self.number(dtype))
        variance = ((x - mean) ** 2).mean(1, keepdims=True)
        # An unbiased variance, and so what is computed of it, must fit.
        wide = variance * x.shape[1] / (x.shape[1] - 1)
        wide = np.where(wide < L(MOST['f64' if dtype == 'f64' else 'f32']), wide, np.nan)
        made['mean'] = old + (mean - old) * L(self.momentum)
        made['variance'] = abs(old) + (wide - abs(old)) * L(self.momentum)
        return made

    def slack(self, name, dtype, given, right):
        step = L(2.0**-50 if dtype == 'f64' else 2.0**-21)
        least = super().slack(name, dtype, given, right)
        if name not in self.per_row:
            return least
        most = np.maximum(np.abs(given['x'].astype(L)).max(1, keepdims=True), abs(L(self.number(dtype))))
        return least + (step * most if name == 'mean' else step * abs(L(self.number(dtype))) + 4 * (step * most) ** 2)


class Evaluate(Case):
    """By the row's own mean and variance, as the type has them; `small`: of gradients so small that the variance's fits."""

    results, per_row, is_crossed = ('y', 'dx', 'dmean', 'dvariance'), ('mean', 'variance', 'dmean', 'dvariance'), True

    def __init__(self, eps, small, layouts):
        super().__init__(f'batch_norm eps {eps}{", small gradients" if small else ""}', layouts)
        self.eps, self.small = eps, small

    def inputs(self, dtype, x, g):
        wide = x.astype(L)
        mean = stored(wide.mean(1, keepdims=True).astype(np.float64), dtype)
        variance = np.minimum(((wide - mean) ** 2).mean(1, keepdims=True), L(MOST[dtype]) / 2)
        if self.small:
            g = stored(g * {'f64': 2.0**-200, 'f32': 2.0**-40, 'bf16': 2.0**-40, 'f16': 1}[dtype], dtype)
        return {'x': x, 'g': g, 'mean': mean, 'variance': stored(np.maximum(variance, LEAST[dtype]).astype(np.float64), dtype)}

    def function(self, name, dtype, layout, shape):
        full, to = text(layout.shape(*shape), dtype), text((shape[0],), dtype)
        body = f'''  %one = tessera.constant dense<1.0> : {to}
  %zero = tessera.constant dense<0.0> : {to}
  %y, %dx, %dmean, %dvariance = tessera.vjp %x, %mean, %variance, %g {{
  ^bb0(%a: {full}, %m: {to}, %v: {to}):
    %0 = tessera.batch_norm %a, %one, %zero, %m, %v {{axis = {layout.channel[0]} : i64, eps = {self.eps:.17e}}} : {', '.join([full] + [to] * 4)} -> {full}
    tessera.yield %0 : {full}
  }} : {full}, {to}, {to}, {full} -> {full}, {full}, {to}, {to}
'''
        return lines(name, {'x': full, 'mean': to, 'variance': to, 'g': full}, {'y': full, 'dx': full, 'dmean': to, 'dvariance': to}, body)

    def parts(self, dtype, given):
        x, g, mean, variance = (given[n].astype(L) for n in ('x', 'g', 'mean', 'variance'))
        apart, eps = x - mean, L(np.float64(self.eps) if dtype == 'f64' else np.float32(self.eps))
        # The difference must fit the type that it is computed in.
        apart = np.where(np.abs(apart) < L(MOST['f64' if dtype == 'f64' else 'f32']), apart, np.nan)
        return g, apart, 1 / np.sqrt(variance + eps)

    def expected(self, dtype, given, got):
        g, apart, root = self.parts(dtype, given)
        return {'y': apart * root, 'dx': g * root, 'dmean': -(g * root).sum(1, keepdims=True), 'dvariance': -(g * apart * root**3).sum(1, keepdims=True) / 2}

    def may_overflow(self, name, dtype, given):
        """g / size, or a sum before its last term."""
        g, apart, root = self.parts(dtype, given)
        terms = {'dmean': g * root, 'dvariance': g * apart * root}.get(name, L(0) * root)
        largest = np.maximum(np.abs(g * root).max(1, keepdims=True), np.abs(terms).sum(1, keepdims=True))
        return (largest > L(MOST['f64' if dtype == 'f64' else 'f32']) / 2) & (name in ('dmean', 'dvariance'))

    def slack(self, name, dtype, given, right):
        g, apart, root = self.parts(dtype, given)
        terms = {'dmean': g * root, 'dvariance': g * apart * root**3}.get(name)
        least = L(LEAST[dtype]) * 4
        if terms is not None:  # the terms of the sum, g root or g (x - mean) root, are numbers of the type that it is computed in
            rounded = apart.shape[1] * L(LEAST['f64' if dtype == 'f64' else 'f32'])
            least = least + rounded * (root**2 if name == 'dvariance' else 1)
        return least + (L(TOLERANCE[dtype]) * np.abs(terms).sum(1, keepdims=True) if terms is not None else 0)


OTHERS = ['columns', 'channels in the middle', 'columns of blocks', 'channels last']
CHANNELS = ['rows', 'columns', 'channels last', 'channels in the middle']
CASES = [Norm('layernorm', 1e-5, OTHERS), Norm('layernorm', 0.0, OTHERS[:1]), Norm('rmsnorm', 0.0, OTHERS), Norm('rmsnorm', 1e-5, OTHERS[:1])]
CASES += [Exponential('softmax', ['columns', 'columns of blocks']), Exponential('logsumexp', OTHERS)]
CASES += [Train(1e-5, 0.0, 1.0, CHANNELS), Train(0.0, -0.75, 0.25, CHANNELS[::3]), Evaluate(1e-5, False, CHANNELS), Evaluate(0.0, True, ['columns', 'channels in the middle'])]
CASES += [Mean('mean', list(LAYOUTS))]


class Run:
    """A case in a layout and a type: its function, its rows, and what they should give."""

    def __init__(self, name, case, layout, dtype, columns, random, count=None):
        """`count`: how many of the rows; by default all."""
        self.name, self.case, self.layout, self.dtype = name, case, layout, dtype
        made = dict(list(rows(dtype, columns, random).items())[:count])
        pairs = crossed(made, dtype, random) if case.is_crossed else {n: (row, stored(random.standard_normal(columns), dtype)) for n, row in made.items()}
        pairs = dict(list(pairs.items())[:count])
        while not count and len(pairs) % 2:  # as many in both blocks
            pairs[f'ordinary, {len(pairs)}'] = tuple(stored(random.standard_normal((2, columns)), dtype))
        self.made = list(pairs)
        self.given = case.inputs(dtype, *(np.stack(of) for of in zip(*pairs.values())))
        self.title = f'{case.title}, {layout.name}, {dtype}, {columns} columns'

    def function(self):
        return self.case.function(self.name, self.dtype, self.layout, self.given['x'].shape)

    def per_row_shape(self):
        channels = (len(self.made),)
        return channels if isinstance(self.case, (Train, Evaluate)) else self.layout.reduced(*self.given['x'].shape)

    def call(self, tools, work, bundle, level, order):
        """{result: [row, column]} of the rows in this order, put back."""
        out, count, per_row = work / 'out.safetensors', len(self.made), self.case.per_row
        out.unlink(missing_ok=True)
        given = {n: v[order].reshape(self.per_row_shape()) if n in per_row else self.layout.lay(v[order]) for n, v in self.given.items()}
        save(work / 'in.safetensors', {n: (v, self.dtype) for n, v in given.items()})
        subprocess.run([tools / 'tessera-run', bundle, '--entry', self.name, '--cpu', level, '--quiet', '--check-finite', 'off',
                        *[f'--input={n}={work / "in.safetensors"}:{n}' for n in given], *[f'--output={n}={out}' for n in self.case.results]], check=True)
        back = np.argsort(order)
        return {n: (v.reshape(count, 1) if n in per_row else self.layout.read(v, count))[back] for n, (v, _) in load(out).items()}

    def wrong(self, got):
        """What to say of each row and result that is off, and how many elements were compared."""
        said, compared = [], 0
        with np.errstate(all='ignore'):
            want = self.case.expected(self.dtype, self.given, got)
            for result in self.case.results:
                right, mine = want[result].reshape(got[result].shape), got[result].astype(L)
                finite = np.where(np.isfinite(right), np.abs(right), 0).max(1, keepdims=True)
                scale = L(TOLERANCE[self.dtype]) * np.fmax(finite, self.case.scale(result, self.dtype, self.given))
                allowed = scale + self.case.slack(result, self.dtype, self.given, right)
                bad = ~(np.abs(mine - right) <= allowed) & (np.abs(right) + allowed < L(MOST[self.dtype])) & ~np.isnan(right)
                bad &= np.isfinite(mine) | np.logical_not(self.case.may_overflow(result, self.dtype, self.given))
                compared += bad.size
                for row in np.flatnonzero(bad.any(1)):
                    at = int(np.argmax(bad[row]))
                    said.append(f'{result} of row "{self.made[row]}" [{at}] is {mine[row, at]}, expected {right[row, at]}')
        return said, compared

    def check(self, tools, work, bundles):
        """What is wrong, and how many elements were compared."""
        count, first, said, compared = len(self.made), None, [], 0
        order = np.random.default_rng(7).permutation(count)
        for where, (bundle, level) in bundles.items():
            got = self.call(tools, work, bundle, level, np.arange(count))
            if level == 'x86-64-v2' or first is None:
                wrong, elements = self.wrong(got)
                said += [f'{where}: {w}' for w in wrong]
                compared += elements
            if level == 'x86-64-v2':
                continue
            if first is None:
                first, moved = got, self.call(tools, work, bundle, level, order)
                said += [f'bits of {n} of a row depend on where it stands' for n in got if moved[n].tobytes() != got[n].tobytes()]
            for n in got:
                differ = ~((got[n] == first[n]) | np.isnan(got[n]) & np.isnan(first[n]))
                if np.any(differ):
                    said.append(f'{np.count_nonzero(differ)} numbers of {n} on {where} are others than on the first level with FMA')
        return [f'{self.title}: {s}' for s in said], compared


def chosen(dtype, full, random):
    runs = []
    for columns in COLUMNS if full or dtype == 'f32' else COLUMNS[:1]:
        for case in CASES:
            few = columns != COLUMNS[0] or dtype in (('f64', 'f16') if full else ('f64', 'f16', 'bf16'))
            for layout in case.layouts[1:4:2] if few else case.layouts:
                runs.append(Run(f'f{len(runs)}', case, LAYOUTS[layout], dtype, columns, random))
    for columns, count in SINGLE if dtype == 'f32' else ():
        for case in CASES:
            if 'columns' in case.layouts:
                runs.append(Run(f'f{len(runs)}', case, LAYOUTS['columns'], dtype, columns, random, count))
    return runs


def build_all(tools, assembler, work, runs, dtype, full):
    """{run: bundles}"""
    def text(chosen):
        return ''.join(run.function() for run in chosen)
    # The Tile IR of a GPU takes as long as two levels of the CPU.
    of_gpu = [run for run in runs if dtype == 'f32' and (full or run.given['x'].shape[1] == COLUMNS[0])]
    bundles = build(tools, assembler, work, text(runs), text(of_gpu))
    return {run: {title: b for title, b in bundles.items() if title in cpu_levels() or run in of_gpu} for run in runs}


def main():
    full = '--full' in sys.argv
    tools, assembler = pathlib.Path(sys.argv[1]), sys.argv[2]
    random, failures, compared, functions = np.random.default_rng(29), 0, 0, 0
    for dtype in MOST:  # bundles of its own each: all of them are more entries than one has
        runs = chosen(dtype, full, random)
        with tempfile.TemporaryDirectory() as where:
            work = pathlib.Path(where)
            for run, bundles in build_all(tools, assembler, work, runs, dtype, full).items():
                said, elements = run.check(tools, work, bundles)
                compared += elements
                failures += len(said)
                for line in said:
                    print(line)
        functions += len(runs)
    print(f'{functions} functions, {compared} elements, {failures} failures')
    sys.exit(failures > 0)


if __name__ == '__main__':
    main()
