#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""norm_ranges.py TOOLS: norms, softmax and logsumexp, and their gradients, over the whole range of each type.

Rows near the largest number of the type, near its least, of both, all equal, and ordinary ones between them. The reference is computed
in NumPy's longdouble, whose range is wider than that of f64. Results must be finite wherever the reference fits the type. Every level
that this CPU has; rows of several lengths, so that vectors, tails and both kinds of kernels are used. Exit code 77 without NumPy.
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
MOST = {'f64': np.finfo(np.float64).max, 'f32': float(np.finfo(np.float32).max), 'bf16': (2 - 2.0**-7) * 2.0**127, 'f16': 65504.0}
LEAST = {'f64': 2.0**-1074, 'f32': 2.0**-149, 'bf16': 2.0**-133, 'f16': 2.0**-24}
# Of the largest element of a row's result. 16-bit results are rounded to 8 and 11 bits.
TOLERANCE = {'f64': 1e-13, 'f32': 1e-5, 'bf16': 2.0**-6, 'f16': 2.0**-8}
# Parts of a logsumexp that its gradient may be off by, and from which size on it may not.
LOST = {'f64': (2.0**-52, 2.0**36), 'f32': (2.0**-23, 2.0**10), 'bf16': (2.0**-7, 2.0**4), 'f16': (2.0**-10, 2.0**6)}
COLUMNS = (16, 50, 768)


def stored(x, dtype):
    """To numbers of the type, as float64."""
    if dtype == 'bf16':
        bits = np.asarray(x, np.float32).view(np.uint32)
        return (bits & np.uint32(0xffff0000)).view(np.float32).astype(np.float64)
    return np.asarray(x, {'f64': np.float64, 'f32': np.float32, 'f16': np.float16}[dtype]).astype(np.float64)


def rows(dtype, columns, random):
    """{name: row}"""
    most, least, unit = MOST[dtype], LEAST[dtype], random.standard_normal(columns)
    line = np.linspace(-1, 1, columns)
    ramp = np.linspace(0.25, 1, columns)
    few = np.where(np.arange(columns) % 7 == 3, 1.0, 1e-3)
    made = {
        'ordinary': unit, 'ordinary, far from 0': unit + 3, 'all equal': np.full(columns, 1.5), 'all 0': np.zeros(columns),
        'all the largest': np.full(columns, most), 'near the largest': most * ramp, 'all over the range': most * line,
        'a quarter of the largest': most / 4 * (1 + 0.5 * line), 'beyond the root of the largest': most**0.5 * 2 * ramp,
        'spread beyond that root': most**0.5 * 3 * line, 'few large ones': most / 2 * few * np.sign(unit),
        'one large, others ordinary': np.where(np.arange(columns) == 5, most / 2, unit), 'below the root of the least': unit * least**0.5 / 4,
        'tiny': unit * least * 4096, 'least numbers': np.round(unit * 4) * least,
    }
    return {name: stored(row, dtype) for name, row in made.items()}


def norm(x, g, eps, centred):
    """The norm and its gradient for the cotangent g."""
    d = x - x.mean(1, keepdims=True) if centred else x
    power = (d * d).mean(1, keepdims=True) + L(eps)
    with np.errstate(divide='ignore', invalid='ignore'):
        n = d / np.sqrt(power)
        rest = g - g.mean(1, keepdims=True) if centred else g
        return n, (rest - n * (g * n).mean(1, keepdims=True)) / np.sqrt(power)


def softmax(x, g, eps, centred):
    power = np.exp(x - x.max(1, keepdims=True))
    y = power / power.sum(1, keepdims=True)
    return y, y * (g - (g * y).sum(1, keepdims=True))


def logsumexp(x, g, eps, centred):
    largest = x.max(1, keepdims=True)
    power = np.exp(x - largest)
    total = power.sum(1, keepdims=True)
    return (np.log(total) + largest)[:, 0], g[:, :1] * power / total


CASES = [(f'{name} eps {eps}', f'tessera.{name}_safe', eps, name == 'layernorm', norm)
         for name in ('layernorm', 'rmsnorm') for eps in (1e-5, 1e-30, 0.0)]
CASES += [('softmax', 'tessera.softmax_safe', None, False, softmax), ('logsumexp', 'tessera.logsumexp_safe', None, False, logsumexp)]


def function(name, op, eps, dtype, shape):
    full, kept = f'tensor<{shape[0]}x{shape[1]}x{dtype}>', f'tensor<{shape[0]}x{dtype}>'
    attrs = '{axis = 1 : i64}' if 'softmax' in op else '{axes = [1]}' if eps is None else f'{{axes = [1], eps = {eps:.17e}}}'
    to = kept if 'logsumexp' in op else full
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


def wrong(got, want, dtype, scale, least):
    """Where a result is off by more than the tolerance, of elements that the type can hold."""
    got = got.astype(L)
    fits = np.abs(want) < L(MOST[dtype])
    with np.errstate(invalid='ignore'):
        off = ~(np.abs(got - want) <= L(TOLERANCE[dtype]) * scale + least)
    return np.where(np.isnan(want), False, np.where(fits, off, False))


def main():
    tools, random = pathlib.Path(sys.argv[1]), np.random.default_rng(26)
    source, runs, failures, compared = '', [], 0, 0
    for dtype in MOST:
        for columns in COLUMNS:
            made = rows(dtype, columns, random)
            x = np.stack(list(made.values()))
            g = stored(random.standard_normal(x.shape), dtype)
            for c, (title, op, eps, centred, reference) in enumerate(CASES):
                name = f'f{c}_{dtype}_{columns}'
                source += function(name, op, eps, dtype, x.shape)
                runs.append((name, title, op, eps, dtype, list(made), x, g, reference(x.astype(L), g.astype(L), eps, centred)))
    with tempfile.TemporaryDirectory() as where:
        work = pathlib.Path(where)
        (work / 'm.mlir').write_text(source, encoding='utf-8')
        subprocess.run([tools / 'tessera-aot', 'build', work / 'm.mlir', '-o', work / 'm.tsb', '--target',
                        ','.join(f'cpu:{level}' for level in cpu_levels())], check=True)
        for name, title, op, eps, dtype, names, x, g, want in runs:
            g = g[:, 0] if 'logsumexp' in op else g
            save(work / 'in.safetensors', {'x': (x, dtype), 'g': (g, dtype)})
            for level in cpu_levels():
                out = work / 'out.safetensors'
                out.unlink(missing_ok=True)
                subprocess.run([tools / 'tessera-run', work / 'm.tsb', '--entry', name, '--cpu', level, '--quiet',
                                *[f'--input={n}={work / "in.safetensors"}:{n}' for n in ('x', 'g')],
                                *[f'--output={n}={out}' for n in ('y', 'dx')]], check=True)
                got = load(out)
                for result, right in zip(('y', 'dx'), want):
                    scale = np.abs(right).reshape(len(names), -1).max(1)
                    scale = scale.reshape([-1] + [1] * (right.ndim - 1))
                    # The mean of denormal numbers is rounded to one; the gradient of softmax is a difference of gradients.
                    least = L(LEAST[dtype]) * (2 / eps**0.5 if eps else 2)
                    if 'softmax' in op and result == 'dx':
                        scale = np.maximum(scale, np.abs(g).max(1, keepdims=True))
                    if 'logsumexp' in op and result == 'dx':  # exp(x - y), whose y is rounded
                        part, end = LOST[dtype]
                        size = np.abs(want[0]).reshape(-1, 1)
                        scale = scale * (1 + np.where(size < end, size * part / TOLERANCE[dtype], 0))
                    bad = wrong(got[result][0], right, dtype, scale, least).reshape(len(names), -1)
                    compared += bad.size
                    for r in np.flatnonzero(bad.any(1)):
                        failures += 1
                        k = int(np.argmax(bad[r]))
                        print(f'{title}, {dtype}, {x.shape[1]} columns, {level}: {result} of row "{names[r]}" [{k}] is '
                              f'{got[result][0].reshape(len(names), -1)[r, k]!r}, expected {right.reshape(len(names), -1)[r, k]!r}')
    print(f'{len(runs)} functions, {compared} elements, {failures} rows are wrong')
    sys.exit(failures > 0)


if __name__ == '__main__':
    main()
