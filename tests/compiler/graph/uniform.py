#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""uniform.py TOOLS: `tessera.random_uniform` gives finite numbers of [low, high), never `high`.

Each result must have the bits given by the rule of runtime/base/random/uniform.h, computed here in NumPy from the numbers of [0, 1) of
the same stream. There is one interval for each power of two of bf16 and f16, in both signs, so that every 16-bit number is a
result; intervals that differ by one and two steps; and intervals for which the difference of the bounds overflows. Runs every
level that this CPU has. Exit code 77 without NumPy.
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
from product import cpu_levels  # noqa: E402

COUNT, EACH = 16384, 24  # elements of a result, results of an entry
MOST = {'f64': float(np.finfo(np.float64).max), 'f32': float(np.finfo(np.float32).max), 'bf16': (2 - 2.0**-7) * 2.0**127, 'f16': 65504.0}
POSITIONS = {'bf16': (7, -126, 127), 'f16': (10, -14, 15)}  # bits of the fraction, exponents of normal numbers


def rounded(x, dtype):
    """f64 or f32 to the dtype, to nearest even, as float64."""
    if dtype == 'bf16':
        bits = np.atleast_1d(np.asarray(x, np.float32)).view(np.uint32).astype(np.uint64)
        bits = (bits + np.uint64(0x7fff) + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16) << np.uint64(16)
        return bits.astype(np.uint32).view(np.float32).astype(np.float64).reshape(np.shape(x))
    with np.errstate(over='ignore'):
        return np.asarray(x).astype({'f16': np.float16, 'f32': np.float32, 'f64': np.float64}[dtype]).astype(np.float64)


def below(high, dtype):
    """The largest number of the dtype below `high`."""
    if dtype in ('f32', 'f64'):
        kind = np.float32 if dtype == 'f32' else np.float64
        near = kind(high)
        return float(near if float(near) < high else np.nextafter(near, kind(-np.inf)))
    p, low, top = POSITIONS[dtype]
    if high == 0:
        return -2.0**(low - p)
    step = 2.0**(max(np.frexp(high)[1] - 1, low) - p)
    near = np.floor(high / step) * step
    if near == high:
        step = 2.0**(max(np.frexp(high)[1] - 1 - (high > 0 and np.frexp(high)[0] == 0.5), low) - p)
        near -= step
    return min(near, MOST[dtype])


def expected(u, dtype, low, high):
    kind = np.float64 if dtype == 'f64' else np.float32
    with np.errstate(over='ignore'):
        span, factor = kind(high - low), kind(1)
        if np.isinf(span):
            low, span, factor = low / 2, kind(high / 2 - low / 2), kind(2)
        x = (u.astype(kind) * span + kind(low)) * factor
    return np.minimum(rounded(x, dtype), below(high, dtype))


def intervals():
    for dtype, (p, low, top) in POSITIONS.items():
        for k in range(low, top + 1):
            high = 2.0**(k + 1) if k < top else MOST[dtype]
            yield dtype, 2.0**k, high
            yield dtype, -high, -2.0**k
        yield dtype, 0.0, 2.0**low  # denormal numbers
        yield dtype, -2.0**low, 0.0
        for k in (low, 0, top):
            step = 2.0**(k - p)
            yield dtype, 2.0**k, 2.0**k + step
            yield dtype, 2.0**k, 2.0**k + 2 * step
            yield dtype, -2.0**k - step, -2.0**k
        yield dtype, -1e-30, 0.0
    for dtype, most in MOST.items():
        yield dtype, -most, most
        yield dtype, -most, 0.0
        yield dtype, 0.5 * most, most
    for dtype in MOST:
        for low, high in ((0.0, 1.0), (-1.0, 1.0), (-1.0, 3.0), (0.0, 0.1), (-0.1, 0.1), (1.0, 1.0000001), (0.999, 1.0), (-7.25, 1e4)):
            yield dtype, low, high
    yield 'f32', 1.0, 1.0 + 2.0**-23
    yield 'f64', 1.0, 1.0 + 2.0**-52
    yield 'f32', -3.0e38, 3.0e38
    yield 'f64', -1.7e308, 1.7e308


def main():
    tools = pathlib.Path(sys.argv[1])
    rows = list(intervals())
    source, failures, seen = '', 0, {'bf16': set(), 'f16': set()}
    starts = range(0, len(rows), EACH)
    for start in starts:
        part, wide = rows[start:start + EACH], f'tensor<{COUNT}x'
        body = ''.join(
            f'  %{i} = tessera.random_uniform {{low = {low:.17e}, high = {high:.17e}, stream = 5 : i64}} : {wide}{dtype}>\n'
            f'  %w{i} = tessera.cast %{i} : {wide}{dtype}> to {wide}f64>\n' for i, (dtype, low, high) in enumerate(part))
        results = ', '.join(f'{wide}f64> {{tessera.name = "r{i}"}}' for i in range(len(part)))
        source += (f'func.func @f{start}() -> ({results}) attributes {{tessera.entry = "infer"}} {{\n{body}  return '
                   + ', '.join(f'%w{i}' for i in range(len(part))) + ' : ' + ', '.join([wide + 'f64>'] * len(part)) + '\n}\n')
    source += ''.join(
        f'func.func @{dtype}() -> (tensor<{COUNT}x{dtype}> {{tessera.name = "u"}}) attributes {{tessera.entry = "infer"}} {{\n'
        f'  %u = tessera.random_uniform {{stream = 5 : i64}} : tensor<{COUNT}x{dtype}>\n  return %u : tensor<{COUNT}x{dtype}>\n}}\n'
        for dtype in ('f32', 'f64'))
    with tempfile.TemporaryDirectory() as where:
        work = pathlib.Path(where)
        (work / 'm.mlir').write_text(source, encoding='utf-8')
        subprocess.run([tools / 'tessera-aot', 'build', work / 'm.mlir', '-o', work / 'm.tsb', '--target',
                        ','.join(f'cpu:{level}' for level in cpu_levels())], check=True)

        def run(entry, level, names):
            out = work / 'o.npz'
            out.unlink(missing_ok=True)
            subprocess.run([tools / 'tessera-run', work / 'm.tsb', '--entry', entry, '--cpu', level, '--quiet',
                            *[a for n in names for a in ('--output', f'{n}={out}')]], check=True)
            return np.load(out)
        for level in cpu_levels():
            u = {dtype: run(dtype, level, ['u'])['u'] for dtype in ('f32', 'f64')}
            for start in starts:
                part = rows[start:start + EACH]
                got = run(f'f{start}', level, [f'r{i}' for i in range(len(part))])
                for i, (dtype, low, high) in enumerate(part):
                    x, want = got[f'r{i}'], expected(u['f64' if dtype == 'f64' else 'f32'], dtype, low, high)
                    bad = ~(np.isfinite(x) & (x < high) & (x >= min(rounded(low, dtype), below(high, dtype)))) | (x != want)
                    if dtype in seen:
                        seen[dtype].update(x[np.abs(x) >= 2.0**POSITIONS[dtype][1]].tolist())
                    if bad.any():
                        failures += 1
                        k = int(np.argmax(bad))
                        print(f'{dtype} [{low!r}, {high!r}), {level}: {bad.sum()} of {COUNT} are wrong; [{k}] is {x[k]!r}, expected {want[k]!r}')
    for dtype, (p, low, top) in POSITIONS.items():
        numbers = 2 * (top - low + 1) * 2**p - 1  # normal ones; not the largest
        if len(seen[dtype]) < numbers:
            failures += 1
            print(f'{dtype}: {len(seen[dtype])} of {numbers} normal numbers were a result')
    print(f'{len(rows)} intervals, {len(cpu_levels())} levels, {failures} failures')
    sys.exit(failures > 0)


if __name__ == '__main__':
    main()
