#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""casts.py TOOLS: `tessera.cast` between every two types rounds once, to nearest even; to integers it truncates and saturates.
`tessera.bitcast` between every two types of one width leaves the bits as they are, those of NaN too.

Sources and results of 8 and 16 bits are tested exhaustively: every number of the source; for every number of the result, the
number itself, the tie between it and the next one, and one ulp of the source around both. For results of 32 and 64 bits, the
first, the last and 1,000 random ties of each exponent are tested, and one ulp around them. The reference rounds in integer
arithmetic. Runs on every level that this CPU has; code for the other levels and for a GPU is only compiled. Exit code 77 without
NumPy.
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
from product import LEVELS, cpu_levels  # noqa: E402

# Bits of the fraction with the leading one, the lowest exponent of a unit in the last place, the largest exponent.
FLOATS = {'f64': (53, -1074, 1023), 'f32': (24, -149, 127), 'bf16': (8, -133, 127), 'f16': (11, -24, 15)}
INTS = {'i64': (-2**63, 2**63 - 1), 'i32': (-2**31, 2**31 - 1), 'i16': (-2**15, 2**15 - 1), 'i8': (-128, 127),
        'ui64': (0, 2**64 - 1), 'ui32': (0, 2**32 - 1), 'ui16': (0, 2**16 - 1), 'ui8': (0, 255), 'i1': (0, 1)}
UNSIGNED = [kind for kind, (low, _) in INTS.items() if low == 0]
BITS = {'f64': 64, 'f32': 32, 'bf16': 16, 'f16': 16, 'i64': 64, 'i32': 32, 'i16': 16, 'i8': 8, 'ui64': 64, 'ui32': 32, 'ui16': 16, 'ui8': 8, 'i1': 8}
STORED = {'f64': '<f8', 'f32': '<f4', 'bf16': 'V2', 'f16': '<f2', 'i64': '<i8', 'i32': '<i4', 'i16': '<i2', 'i8': 'i1', 'ui64': '<u8',
          'ui32': '<u4', 'ui16': '<u2', 'ui8': 'u1', 'i1': '?'}
TYPES = [*FLOATS, *INTS]
U = np.uint64
TIES = 1000


def unsigned(bits):
    return np.dtype(f'<u{bits // 8}')


def shifted(m, by):
    """m * 2^by for by >= 0, m >> -by else, of arrays; shifts of 64 and more give 0."""
    left = np.where(by >= 0, m << np.clip(by, 0, 63).astype(U), m >> np.clip(-by, 0, 63).astype(U))
    return np.where(np.abs(by) > 63, U(0), left)


def length(m):
    """The number of bits of each."""
    n = np.zeros(m.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        high = (m >> U(step)) > 0
        n += np.where(high, step, 0)
        m = np.where(high, m >> U(step), m)
    return n + (m > 0)


def decoded(bits, kind):
    """Sign, m and e of bits of a type, m * 2^e being the number's size; and which are infinite, and NaN."""
    if kind in INTS:
        signed = bits.astype(U) if kind in UNSIGNED else bits.view(f'<i{BITS[kind] // 8}').astype(np.int64).view(U)
        negative = (signed >> U(63)).astype(bool) & (kind not in UNSIGNED)
        none = np.zeros(bits.shape, bool)
        return negative, np.where(negative, ~signed + U(1), signed), np.zeros(bits.shape, np.int64), none, none
    p, low, top = FLOATS[kind]
    bits = bits.astype(U)
    exponent = ((bits >> U(p - 1)) & U(2**(BITS[kind] - p) - 1)).astype(np.int64)
    fraction = bits & U(2**(p - 1) - 1)
    special = exponent == 2**(BITS[kind] - p) - 1
    m = np.where(exponent > 0, fraction | U(1 << (p - 1)), fraction)
    e = np.maximum(exponent, 1) - 1 + low
    return (bits >> U(BITS[kind] - 1)).astype(bool), m, e, special & (fraction == 0), special & (fraction != 0)


def cast(bits, source, target):
    """Bits of the target; of NaN only whether it is one is compared."""
    negative, m, e, infinite, nan = decoded(bits, source)
    if target == 'i1':
        return ((m != 0) | infinite | nan).astype('<u1')
    width = unsigned(BITS[target])
    if target in INTS and source in INTS:  # modulo 2^bits
        return np.where(negative, ~m + U(1), m).astype(width)
    if target in INTS:
        low, high = INTS[target]
        whole = shifted(m, e)
        large = infinite | (length(m) + e > (64 if low == 0 else 63))
        below, above = U(-low), U(high)
        size = np.where(negative, np.where(large | (whole > below), below, whole), np.where(large | (whole > above), above, whole))
        size = np.where(nan, U(0), size)
        return np.where(negative, ~size + U(1), size).astype(width)
    p, least, top = FLOATS[target]
    unit = np.maximum(length(m) + e - p, least)  # exponent of the last place
    drop = unit - e
    mantissa = shifted(m, -drop)
    half = np.where((drop > 0) & (drop <= 64), U(1) << np.clip(drop - 1, 0, 63).astype(U), U(0))
    rest = m - np.where((drop > 0) & (drop < 64), mantissa << np.clip(drop, 0, 63).astype(U), np.where(drop > 0, U(0), m))
    up = (drop > 0) & (drop <= 64) & ((rest > half) | ((rest == half) & (mantissa % U(2) == 1)))
    mantissa += up.astype(U)
    # A carry out of the fraction is the next exponent, and so are the bits.
    result = np.where(mantissa < U(1 << (p - 1)), mantissa, ((unit - least).astype(U) << U(p - 1)) + mantissa)
    infinity = U(2**(BITS[target] - p) - 1) << U(p - 1)
    result = np.where(infinite | (result > infinity) | (unit > top - p + 1), infinity, result)
    result = np.where(nan, infinity | U(1 << (p - 2)), result)
    return (result | (negative.astype(U) << U(BITS[target] - 1))).astype(width)


def encoded(m, e, kind):
    """Nonnegative numbers m * 2^e as bits of the type, rounded down; those that it cannot have are left out."""
    if kind in INTS:
        size = shifted(m, e)
        return size[(length(m) + e <= 64) & (size <= U(INTS[kind][1]))].astype(unsigned(BITS[kind]))
    p, least, top = FLOATS[kind]
    unit = np.maximum(length(m) + e - p, least)
    mantissa = shifted(m, e - unit)
    bits = np.where(mantissa < U(1 << (p - 1)), mantissa, ((unit - least).astype(U) << U(p - 1)) + mantissa)
    return bits[unit <= top - p + 1].astype(unsigned(BITS[kind]))


def grid(target, random):
    """Nonnegative numbers of the target, as (m, e), from which sources are made: all of 16 bits and less, else some of each exponent."""
    if BITS[target] <= 16:
        bits = np.arange(2**BITS[target], dtype=unsigned(BITS[target]))
        negative, m, e, infinite, nan = decoded(bits, target)
        good = ~negative & ~infinite & ~nan
        return m[good], e[good]
    if target in INTS:
        bits = np.concatenate([[0, 1], *[np.concatenate([[2**k, 2**(k + 1) - 1], random.integers(2**k, 2**(k + 1), TIES, np.uint64)])
                                         for k in range(BITS[target] - 1)]]).astype(U)
        return bits, np.zeros(bits.shape, np.int64)
    p, least, top = FLOATS[target]
    some = [np.concatenate([[2**(p - 1), 2**p - 1], random.integers(2**(p - 1), 2**p, TIES, np.uint64)]).astype(U)
            for _ in range(least, top - p + 2)]
    low = [np.concatenate([[2**k, 2**(k + 1) - 1], random.integers(2**k, 2**(k + 1), TIES, np.uint64)]).astype(U) for k in range(p - 1)]
    m = np.concatenate([*low, *some])
    e = np.concatenate([np.full(len(v), least) for v in low] + [np.full(len(v), least + i) for i, v in enumerate(some)])
    return m, e.astype(np.int64)


def sources(source, target, random):
    """Bits of the source: all of them if there are few."""
    width = unsigned(BITS[source])
    if BITS[source] <= 16:
        return np.arange(2 if source == 'i1' else 2**BITS[source], dtype=width)
    m, e = grid(target, random)
    ties = encoded(m * U(2) + U(1), e - 1, source)  # between a number and the next one
    bits = np.concatenate([encoded(m, e, source), ties])
    bits = np.concatenate([bits, bits + width.type(1), bits - width.type(1)])
    top = width.type(1 << (BITS[source] - 1))
    other = bits | top if source in FLOATS else ~bits + width.type(1)
    special = np.array([0, top, ~np.zeros((), width)], width)  # a NaN, or -1
    if source in FLOATS:
        p = FLOATS[source][0]
        infinity = width.type((2**(BITS[source] - p) - 1) << (p - 1))
        special = np.concatenate([special, np.array([infinity, infinity | top, infinity - width.type(1), (infinity - width.type(1)) | top], width)])
    return np.unique(np.concatenate([bits, other, special, random.integers(0, 2**BITS[source], 2000, np.uint64).astype(width)]))


def compared(got, want, target):
    """Where bits differ; two NaN are equal."""
    if target not in FLOATS:
        return np.flatnonzero(got != want)
    nan = [decoded(x, target)[4] for x in (got, want)]
    return np.flatnonzero(np.where(nan[0] | nan[1], nan[0] != nan[1], got != want))


def store(path, bits, kind):
    np.save(path, bits.view(STORED[kind]))


def read(path, kind):
    return np.load(path).view(unsigned(BITS[kind])).reshape(-1)


def main():
    tools, random = pathlib.Path(sys.argv[1]), np.random.default_rng(26)
    pairs = [('cast', s, t) for s in TYPES for t in TYPES if s != t]
    pairs += [('bitcast', s, t) for _, s, t in pairs if BITS[s] == BITS[t] and 'i1' not in (s, t)]
    given = {(op, s, t): sources(s, t, random) for op, s, t in pairs}
    source = ''.join(
        f'func.func @{op}_{s}_{t}(%x: tensor<{len(x)}x{s}> {{tessera.name = "x"}}) -> (tensor<{len(x)}x{t}> {{tessera.name = "y"}})'
        f' attributes {{tessera.entry = "infer"}} {{\n  %y = tessera.{op} %x : tensor<{len(x)}x{s}> -> tensor<{len(x)}x{t}>\n'
        f'  return %y : tensor<{len(x)}x{t}>\n}}\n' for (op, s, t), x in given.items())
    failures = 0
    with tempfile.TemporaryDirectory() as where:
        work = pathlib.Path(where)
        (work / 'm.mlir').write_text(source, encoding='utf-8')
        targets = ','.join([f'cpu:{level}' for level in LEVELS] + ['cuda:sm_90a'])
        subprocess.run([tools / 'tessera-aot', 'build', work / 'm.mlir', '-o', work / 'm.tsb', '--target', targets], check=True)
        for (op, s, t), x in given.items():
            store(work / 'x.npy', x, s)
            want = cast(x, s, t) if op == 'cast' else x
            for level in cpu_levels():
                subprocess.run([tools / 'tessera-run', work / 'm.tsb', '--entry', f'{op}_{s}_{t}', '--cpu', level, '--quiet',
                                '--input', f'x={work / "x.npy"}', '--output', f'y={work / "y.npy"}'], check=True)
                got = read(work / 'y.npy', t)
                wrong = compared(got, want, t) if op == 'cast' else np.flatnonzero(got != want)
                failures += len(wrong) > 0
                for i in wrong[:3]:
                    print(f'{op} {s} to {t}, {level}: {len(wrong)} of {len(x)} are wrong; {x[i]:#x} gives {got[i]:#x}, expected {want[i]:#x}')
    count = sum(map(len, given.values()))
    print(f'{len(pairs)} pairs of types, {count} numbers, {len(cpu_levels())} levels, {failures} failures')
    sys.exit(failures > 0)


if __name__ == '__main__':
    main()
