#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Norms, softmax and logsumexp, and their gradients, over the whole range of each type.

usage: norm_ranges.py TOOLS ASSEMBLER

Rows near the largest number of the type, near its smallest, with both, with equal elements, and ordinary rows between them; and
one row times every power of two for which it stays in the range of the type. The reference is computed in NumPy's longdouble,
whose range is wider than that of f64. The guarantees:

- Every element of a norm is correct to TOLERANCE of the largest one of its row, and finite whenever it fits the type. 1 / size is
  a number of the type in which the norm is computed (f32 for 16 bits): if it would be larger, which requires an eps near 0, it is
  the largest finite number.
- So is every element of its gradient, for every incoming gradient: to TOLERANCE of the largest one of the row, or of the incoming
  gradient's largest element / size, of which it is what remains. An incoming gradient below the normal numbers has few digits, and
  the result has no more.
- softmax and logsumexp have the same accuracy. The gradient of logsumexp is computed from its rounded result: exp(x - y) times
  the gradient.
- The bits of a row do not depend on the other rows; they are equal on every level of this CPU with FMA, and for the Tile IR of a
  GPU.

Rows have several lengths, so that vectors, tails and both kinds of kernels are used. Exits with 77 without NumPy.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print('NumPy is absent')
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'oracle'))
from product import cpu_levels, load, save  # noqa: E402

L = np.longdouble
GPU, CPU = 'cuda:sm_90a', 'cpu:x86-64-v3'
MOST = {'f64': np.finfo(np.float64).max, 'f32': float(np.finfo(np.float32).max), 'bf16': (2 - 2.0**-7) * 2.0**127, 'f16': 65504.0}
LEAST = {'f64': 2.0**-1074, 'f32': 2.0**-149, 'bf16': 2.0**-133, 'f16': 2.0**-24}
# Of a row's largest element that counts: 2^k, from the least to the largest.
POWERS = {'f64': range(-1074, 1024, 7), 'f32': range(-149, 128), 'bf16': range(-133, 128), 'f16': range(-24, 16)}
# 16-bit results are rounded to 8 and 11 bits.
TOLERANCE = {'f64': 1e-13, 'f32': 1e-5, 'bf16': 2.0**-6, 'f16': 2.0**-8}
COLUMNS = (16, 50, 768)


def stored(x, dtype):
    """To numbers of the type, as float64."""
    if dtype == 'bf16':
        bits = np.asarray(x, np.float32).view(np.uint32)
        return (bits & np.uint32(0xffff0000)).view(np.float32).astype(np.float64)
    with np.errstate(under='ignore'):
        return np.asarray(x, {'f64': np.float64, 'f32': np.float32, 'f16': np.float16}[dtype]).astype(np.float64)


def rows(dtype, columns, random):
    """{name: row}"""
    most, least, unit = MOST[dtype], LEAST[dtype], random.standard_normal(columns)
    line = np.linspace(-1, 1, columns)
    ramp = np.linspace(0.25, 1, columns)
    few = np.where(np.arange(columns) % 7 == 3, 1.0, 1e-3)
    at_5 = np.arange(columns) == 5
    made = {
        'ordinary': unit, 'ordinary, far from 0': unit + 3, 'all equal': np.full(columns, 1.5), 'all 0': np.zeros(columns),
        'all the largest': np.full(columns, most), 'near the largest': most * ramp, 'all over the range': most * line,
        'a quarter of the largest': most / 4 * (1 + 0.5 * line), 'beyond the root of the largest': most**0.5 * 2 * ramp,
        'spread beyond that root': most**0.5 * 3 * line, 'few large ones': most / 2 * few * np.sign(unit),
        'one large, others ordinary': np.where(at_5, most / 2, unit), 'one the largest, the others the lowest': np.where(at_5, most, -most),
        'a few last places apart': most / 4 * (1 + np.arange(columns) % 3 * 2.0**-7), 'below the root of the least': unit * least**0.5 / 4,
        'tiny': unit * least * 4096, 'least numbers': np.round(unit * 4) * least,
    }
    if columns == COLUMNS[0]:
        shape = unit / np.abs(unit).max() * 0.999
        made.update({f'2^{k}': shape * 2.0**k for k in POWERS[dtype]})
        made.update({f'2^{k}, far from 0': (2 + shape) * 2.0**(k - 2) for k in POWERS[dtype]})
    return {name: stored(row, dtype) for name, row in made.items()}


def gradients(dtype, columns, random):
    """Incoming gradients that are not ordinary: {name: row}"""
    most, least, unit = MOST[dtype], LEAST[dtype], random.standard_normal(columns)
    line, sign = np.linspace(-1, 1, columns), np.where(np.arange(columns) % 2, 1.0, -1.0)
    at_5 = np.arange(columns) == 5
    made = {
        'all the largest': np.full(columns, most), 'near the largest': most * np.linspace(0.25, 1, columns), 'all over the range': most * line,
        'the largest and the lowest': most * sign, 'random, up to the largest': most * (unit / np.abs(unit).max()),
        'one the largest, others ordinary': np.where(at_5, most, unit), 'one the largest, the others the lowest': np.where(at_5, most, -most),
        'large, means below the largest': most / columns * (1 + line / 2), 'all 0': np.zeros(columns), 'tiny': unit * least * 4096,
        'least numbers': np.round(unit * 4) * least,
    }
    return {name: stored(row, dtype) for name, row in made.items()}


def crossed(made, dtype, random):
    """Rows, each with incoming gradients: {name: (row, gradient)}"""
    columns = len(next(iter(made.values())))
    others, swept = gradients(dtype, columns, random), [n for n in made if n.startswith('2^')]
    pairs = {name: (row, stored(random.standard_normal(columns), dtype)) for name, row in made.items()}
    pairs.update({f'{n}; gradient: {m}': (made[n], g) for n in made if n not in swept for m, g in others.items()})
    for i, n in enumerate(swept):
        m = list(others)[i % len(others)]
        pairs[f'{n}; gradient: {m}'] = made[n], others[m]
    unit = random.standard_normal(columns)
    for k in POWERS[dtype] if swept else ():
        g = stored(unit / np.abs(unit).max() * 0.999 * 2.0**k, dtype)
        pairs.update({f'{n}; gradient: 2^{k}': (made[n], g) for n in ('ordinary', 'near the largest', 'few large ones', 'tiny')})
    return pairs


def size_of(d, eps, most):
    """1 / size of rows without their means."""
    power = (d * d).mean(1, keepdims=True) + L(eps)
    with np.errstate(divide='ignore', invalid='ignore'):
        return np.where(power == 0, np.nan, np.minimum(1 / np.sqrt(power), L(most)))


def centre(x):
    x = x - x.mean(1, keepdims=True)
    return x - x.mean(1, keepdims=True)


def norm(x, g, eps, centred, most):
    """The norm and its gradient for the cotangent g."""
    d = centre(x) if centred else x
    size = size_of(d, eps, most)
    n = d * size
    rest = g - g.mean(1, keepdims=True) if centred else g
    with np.errstate(invalid='ignore'):
        return n, (rest - n * (g * n).mean(1, keepdims=True)) * size


def gradient_scale(x, g, eps, centred, dtype):
    """The sizes of rows whose gradient's error is measured by: the incoming gradient's largest element / size; and of the least numbers."""
    wide = 'f64' if dtype == 'f64' else 'f32'
    size = size_of(centre(x) if centred else x, eps, MOST[wide])
    return np.abs(g).max(1, keepdims=True) * size, L(LEAST[wide]) * size * (2 + x.shape[1]**0.5)


def softmax(x, g):
    power = np.exp(x - x.max(1, keepdims=True))
    y = power / power.sum(1, keepdims=True)
    return y, y * (g - (g * y).sum(1, keepdims=True))


def logsumexp(x, g, y):
    """The gradient is that of the result `y`."""
    largest = x.max(1, keepdims=True)
    return (np.log(np.exp(x - largest).sum(1, keepdims=True)) + largest)[:, 0], g[:, :1] * np.exp(x - y.reshape(-1, 1))


CASES = [(f'{name} eps {eps}', f'tessera.{name}_safe', eps) for name in ('layernorm', 'rmsnorm') for eps in (1e-5, 1e-30, 0.0)]
CASES += [('softmax', 'tessera.softmax_safe', None), ('logsumexp', 'tessera.logsumexp_safe', None)]


def expected(op, eps, dtype, x, g, y):
    x, g = x.astype(L), g.astype(L)
    if 'norm' in op:
        return norm(x, g, eps, 'layer' in op, MOST['f64' if dtype == 'f64' else 'f32'])
    return softmax(x, g) if 'softmax' in op else logsumexp(x, g, y.astype(L))


def function(name, op, eps, dtype, shape):
    full, reduced = f'tensor<{shape[0]}x{shape[1]}x{dtype}>', f'tensor<{shape[0]}x{dtype}>'
    attrs = '{axis = 1 : i64}' if 'softmax' in op else '{axes = [1]}' if eps is None else f'{{axes = [1], eps = {eps:.17e}}}'
    to = reduced if 'logsumexp' in op else full
    types = full if 'softmax' in op else f'{full} -> {to}'
    return f'''func.func @{name}(%x: {full} {{tessera.name = "x"}}, %g: {to} {{tessera.name = "g"}}) -> ({to} {{tessera.name = "y"}}, {full} {{tessera.name = "dx"}}) attributes {{tessera.entry = "infer"}} {{
  %y, %dx = tessera.vjp %x, %g {{
  ^bb0(%a: {full}):
    %0 = {op} %a {attrs} : {types}
    tessera.yield %0 : {to}
  }} : {full}, {to} -> {to}, {full}
  return %y, %dx : {to}, {full}
}}
'''


def build(tools, assembler, work, source, gpu_source=None, levels=None, name='m'):
    """{title: (bundle, level)}: of these levels of the CPU (None: of all), and of the Tile IR of gpu_source (None: the same; '': of nothing) for a CPU."""
    levels = cpu_levels() if levels is None else levels
    text_path, bundle = work / f'{name}.mlir', work / f'{name}.tsb'
    def call(*arguments):
        done = subprocess.run([tools / 'tessera-aot', 'build', *arguments], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            sys.exit(f'tessera-aot build ended with {done.returncode}:\n{done.stderr}')
    text_path.write_text(source, encoding='utf-8')
    call(text_path, '-o', bundle, '--target', ','.join(f'cpu:{level}' for level in levels))
    bundles = {level: (bundle, level) for level in levels}
    if gpu_source != '' and CPU.split(':')[1] in bundles:
        (work / 'of_gpu.mlir').write_text(source if gpu_source is None else gpu_source, encoding='utf-8')
        call(work / 'of_gpu.mlir', '-o', work / 'gpu.tsb', '--target', GPU, '--ptxas', assembler, '--dump', 'tile', '--dump-dir', work)
        text = (work / 'tile.sm_90a.mlir').read_text('utf-8').replace(f'"{GPU}"', f'"{CPU}"')
        (work / 'tile.mlir').write_text(text, 'utf-8')
        call(work / 'tile.mlir', '-o', work / 'of_gpu.tsb', '--target', CPU, '--from', 'tile')
        bundles["a GPU's Tile IR"] = work / 'of_gpu.tsb', CPU.split(':')[1]
    return bundles


class Checker:
    def __init__(self, tools, work, bundles):
        self.tools, self.work, self.bundles = tools, work, bundles
        self.failures = self.compared = 0

    def run(self, bundle, level, name, x, g, dtype):
        out = self.work / 'out.safetensors'
        out.unlink(missing_ok=True)
        save(self.work / 'in.safetensors', {'x': (x, dtype), 'g': (g, dtype)})
        subprocess.run([self.tools / 'tessera-run', bundle, '--entry', name, '--cpu', level, '--quiet', '--check-finite', 'off',
                        *[f'--input={n}={self.work / "in.safetensors"}:{n}' for n in ('x', 'g')],
                        *[f'--output={n}={out}' for n in ('y', 'dx')]], check=True)
        return {n: v[0] for n, v in load(out).items()}

    def fail(self, text):
        self.failures += 1
        print(text)

    def check(self, name, title, op, eps, dtype, made, g):
        x, of_row = np.stack(list(made.values())), g[:, 0] if 'logsumexp' in op else g
        first, order = None, np.random.default_rng(7).permutation(len(made))
        for where, (bundle, level) in self.bundles.items():
            got = self.run(bundle, level, name, x, of_row, dtype)
            if level == 'x86-64-v2':
                self.compare(f'{title}, {dtype}, {x.shape[1]} columns, {where}', got, expected(op, eps, dtype, x, g, got['y']), op, eps, dtype, made, g)
                continue
            if first is None:
                first = got
                moved = self.run(bundle, level, name, x[order], of_row[order], dtype)
                if any(moved[n].tobytes() != got[n][order].tobytes() for n in got):
                    self.fail(f'{title}, {dtype}, {x.shape[1]} columns: bits of a row depend on where it stands')
                self.compare(f'{title}, {dtype}, {x.shape[1]} columns', got, expected(op, eps, dtype, x, g, got['y']), op, eps, dtype, made, g)
            for n in ('y', 'dx'):
                differ = ~((got[n] == first[n]) | np.isnan(got[n]) & np.isnan(first[n]))
                if np.any(differ):
                    self.fail(f'{title}, {dtype}, {x.shape[1]} columns: {np.count_nonzero(differ)} numbers of {n} on {where} are others than on the first level with FMA')

    def compare(self, title, got, want, op, eps, dtype, made, g):
        x = np.stack(list(made.values())).astype(L)
        for result, right in zip(('y', 'dx'), want):
            mine, right = got[result].reshape(len(made), -1).astype(L), right.reshape(len(made), -1)
            scale = np.abs(right).max(1, keepdims=True)
            # The mean of denormal numbers is rounded to one.
            least = L(LEAST[dtype]) * (2 / eps**0.5 if eps else 2)
            if 'norm' in op and result == 'dx':
                of_gradient, more = gradient_scale(x, g.astype(L), eps, 'layer' in op, dtype)
                scale, least = np.fmax(scale, of_gradient), least + np.nan_to_num(more)
            if 'softmax' in op and result == 'dx':  # a difference of gradients
                scale = np.maximum(scale, np.abs(g).max(1, keepdims=True))
            if 'logsumexp' in op and result == 'dx':
                scale = np.maximum(scale, np.abs(g[:, :1]))
            fits, known = np.abs(right) + L(TOLERANCE[dtype]) * scale < L(MOST[dtype]), ~np.isnan(right)
            with np.errstate(invalid='ignore'):
                off = ~(np.abs(mine - right) <= L(TOLERANCE[dtype]) * scale + least)
            bad = off & fits & known
            self.compared += bad.size
            for row in np.flatnonzero(bad.any(1)):
                at = int(np.argmax(bad[row]))
                self.fail(f'{title}: {result} of row "{list(made)[row]}" [{at}] is {mine[row, at]}, expected {right[row, at]}')


def main():
    tools, assembler, random = pathlib.Path(sys.argv[1]), sys.argv[2], np.random.default_rng(26)
    source, runs = '', []
    for dtype in MOST:
        for columns in COLUMNS:
            plain = rows(dtype, columns, random)
            pairs = crossed(plain, dtype, random)
            plain_g = stored(random.standard_normal((len(plain), columns)), dtype)
            for c, (title, op, eps) in enumerate(CASES):
                name = f'f{c}_{dtype}_{columns}'
                made, g = plain, plain_g
                if 'norm' in op:
                    made, g = {n: row for n, (row, _) in pairs.items()}, np.stack([given for _, given in pairs.values()])
                source += function(name, op, eps, dtype, (len(made), columns))
                runs.append((name, title, op, eps, dtype, made, g))
    with tempfile.TemporaryDirectory() as where:
        work = pathlib.Path(where)
        checker = Checker(tools, work, build(tools, assembler, work, source))
        for run in runs:
            checker.check(*run)
    print(f'{len(runs)} functions, {checker.compared} elements, {checker.failures} failures')
    sys.exit(checker.failures > 0)


if __name__ == '__main__':
    main()
