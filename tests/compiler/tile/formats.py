#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""formats.py TOOLS: conversions to and from number formats of 4, 8 and 16 bits (compiler/graph/NUMERICS.md), in every rounding,
saturating or not.

Sources of 8 and 16 bits are complete; of f32, the numbers of each target are taken, the ties between them, one ulp around both, and
random bits. The reference is a table of all numbers of a format, in which a result is looked up; ml_dtypes, where installed, checks the
table and its nearest results. Scales: every bf16 as the largest magnitude of a block, in every rounding of scales. Runs on every level
that this CPU has; code for the other levels and for GPUs is only compiled. Exit code 77 without NumPy.
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

# Bits of exponent and fraction, bias, what the codes above the numbers are.
FORMATS = {'bf16': (8, 7, 127, 'infinities'), 'f16': (5, 10, 15, 'infinities'), 'f8E5M2': (5, 2, 15, 'infinities'),
           'f8E4M3FN': (4, 3, 7, 'nan'), 'f8E8M0FNU': (8, 0, 127, 'scale'), 'f4E2M1FN': (2, 1, 1, 'none')}
SMALL = ('f8E4M3FN', 'f8E5M2', 'f8E8M0FNU')
ROUNDINGS = ('nearest_even', 'toward_zero', 'up', 'down')
STORED = {'f32': '<f4', 'bf16': 'V2', 'f16': '<f2', 'ui8': 'u1', 'ui16': '<u2', 'ui32': '<u4', 'i8': 'i1', 'i32': '<i4', **dict.fromkeys(SMALL, 'V1')}
ML = {'bf16': 'bfloat16', 'f16': None, 'f8E5M2': 'float8_e5m2', 'f8E4M3FN': 'float8_e4m3fn', 'f8E8M0FNU': 'float8_e8m0fnu', 'f4E2M1FN': 'float4_e2m1fn'}


def code_type(name):
    return 'ui16' if name in ('bf16', 'f16') else 'ui8'


class Table:
    """All numbers of a format, by magnitude."""

    def __init__(self, name):
        self.name, (exponents, self.fraction, bias, self.kind) = name, FORMATS[name]
        self.signed = self.kind != 'scale'
        self.bits = exponents + self.fraction + self.signed
        values = []
        for exponent in range(1 << exponents):
            for digits in range(1 << self.fraction):
                if self.kind == 'scale':
                    values.append(2.0**(exponent - bias))
                elif exponent == 0:
                    values.append(digits * 2.0**(1 - bias - self.fraction))
                else:
                    values.append((1 + digits / (1 << self.fraction)) * 2.0**(exponent - bias))
        special = {'infinities': 1 << self.fraction, 'nan': 1, 'scale': 1, 'none': 0}[self.kind]
        self.values = np.array(values[:len(values) - special])
        self.largest = len(self.values) - 1
        self.infinity = self.largest + 1 if special else self.largest
        quiet = (1 << self.fraction) // 2
        self.nan = {'infinities': self.infinity + quiet, 'nan': self.infinity, 'scale': self.infinity, 'none': 0}[self.kind]
        self.sign = 1 << (self.bits - 1) if self.signed else 0

    def read(self, codes):
        magnitude = codes.astype(np.int64) & ((1 << self.bits) - 1) & ~self.sign
        size = self.values[np.minimum(magnitude, self.largest)]
        size = np.where(magnitude > self.largest, np.inf if self.kind == 'infinities' else np.nan, size)
        size = np.where(magnitude > (self.infinity if self.kind == 'infinities' else self.largest), np.nan, size)
        return np.where(codes.astype(np.int64) & self.sign, -size, size)

    def round(self, values, rounding, saturates):
        """Codes of float64 values."""
        with np.errstate(invalid='ignore'):
            x = np.asarray(values, np.float64)
        size, negative = np.abs(x), np.signbit(x)
        low = np.clip(np.searchsorted(self.values, size, 'right') - 1, 0, self.largest)
        # The number that would follow the largest one decides what is nearest to it.
        following = np.append(self.values[1:], 2 * self.values[-1] if self.kind == 'scale' else 2 * self.values[-1] - self.values[-2])
        below, above = self.values[low], following[low]
        with np.errstate(invalid='ignore'):
            inexact, middle = size != below, below + (above - below) / 2
            tie_up = np.ones(x.shape, bool) if self.kind == 'scale' else low % 2 == 1
            outward = {'nearest_even': (size > middle) | ((size == middle) & tie_up), 'toward_zero': np.zeros(x.shape, bool),
                    'up': ~negative, 'down': negative}[rounding] & inexact & (size > self.values[0])
        over = low + outward > self.largest
        inward = {'nearest_even': np.zeros(x.shape, bool), 'toward_zero': np.ones(x.shape, bool), 'up': negative, 'down': ~negative}[rounding]
        # Directed roundings that point inward stop at the largest number, as do numbers short of overflow.
        beyond = over | (size >= following[-1]) & ~inward
        codes = np.where(beyond, self.largest if saturates else self.infinity, np.minimum(low + outward, self.largest))
        codes = np.where(np.isinf(x), self.largest if saturates else self.infinity if self.kind == 'infinities' else self.nan, codes)
        if self.kind == 'none':
            codes = np.where(beyond | np.isinf(x), self.largest, codes)
        codes = codes + np.where(negative, self.sign, 0)
        if self.kind == 'scale':
            codes = np.where((x < 0) | ((x == 0) & (not saturates)), self.nan, codes)
            codes = np.where(x == 0, 0 if saturates else self.nan, codes)
        return np.where(np.isnan(x), self.nan + np.where(negative & (self.nan > 0), self.sign, 0), codes)


TABLES = {name: Table(name) for name in FORMATS}


def stochastic(table, values, random):
    """Adds random bits below the last bit that is kept, and drops them."""
    codes = np.empty(values.shape, np.int64)
    for i, (x, r) in enumerate(zip(values.tolist(), random.tolist())):
        size, unit = abs(x), 0
        if not np.isfinite(x) or size >= table.values[-1] or (table.kind == 'scale' and x <= 0):
            codes[i] = table.round(np.array([x]), 'toward_zero' if np.isfinite(x) and size == table.values[-1] else 'nearest_even', True)[0]
            continue
        low = int(np.searchsorted(table.values, size, 'right')) - 1
        if low < 0 or size == table.values[low]:
            codes[i] = max(low, 0) + (table.sign if x < 0 or (x == 0 and np.signbit(x)) else 0)
            continue
        unit = table.values[low + 1] - table.values[low]
        exponent = max(int(np.floor(np.log2(size))), -126)
        dropped = int(np.log2(unit)) - (exponent - 23)
        part = int((size - table.values[low]) / 2.0**(exponent - 23))
        carry = dropped < 32 and part + (r >> (32 - dropped)) >= 1 << dropped
        codes[i] = low + carry + (table.sign if x < 0 else 0)
    return codes


def sources(random):
    """f32 values: every number of the formats, the ties, one ulp around them; random bits."""
    parts = []
    for table in TABLES.values():
        ties = table.values[:-1] + np.diff(table.values) / 2
        last = table.values[-1] + (table.values[-1] - table.values[-2]) / 2
        with np.errstate(over='ignore'):
            parts.append(np.concatenate([table.values, ties, [last, 2 * last]]).astype(np.float32))
    base = np.unique(np.concatenate(parts))
    base = base[np.isfinite(base)]
    around = np.concatenate([base, np.nextafter(base, np.float32(0)), np.nextafter(base, np.float32(np.inf))])
    any_bits = random.integers(0, 2**32, 40000, np.uint64).astype(np.uint32).view(np.float32)
    special = np.array([0, np.inf, np.nan, 2**-149, 3.4e38], np.float32)
    values = np.concatenate([around, any_bits, special])
    return np.concatenate([values, -values]).astype(np.float32)


def to_f64(bits, kind):
    with np.errstate(invalid='ignore'):
        return bits.view(np.float32).astype(np.float64) if kind == 'f32' else TABLES[kind].read(bits)


def differ(got, want, table):
    """NaN of any sign are equal."""
    nan = [np.isnan(table.read(x)) & (table.kind != 'none') for x in (got, want)]
    return np.flatnonzero((nan[0] != nan[1]) | (~nan[0] & (got.astype(np.int64) != want)))


class Program:
    """Entries with many results, and what they must be."""

    def __init__(self, work):
        self.work, self.text, self.runs = work, [], []

    def entry(self, name, inputs, body, results, check):
        """inputs: {name: (array, type)}; results: [(value, type, shape)]; check(results) returns failures."""
        def shaped(shape, kind):
            return f'tensor<{"".join(f"{dim}x" for dim in shape)}{kind}>'
        arguments = ', '.join(f'%{key}: {shaped(array.shape, kind)} {{tessera.name = "{key}"}}' for key, (array, kind) in inputs.items())
        types = [shaped(shape, kind) for _, kind, shape in results]
        made = ', '.join(f'{kind} {{tessera.name = "r{i}"}}' for i, kind in enumerate(types))
        self.text.append(f'func.func @{name}({arguments}) -> ({made}) attributes {{tessera.entry = "infer"}} {{\n{body}'
                         f'  return {", ".join(value for value, _, _ in results)} : {", ".join(types)}\n}}\n')
        for key, (array, kind) in inputs.items():
            np.save(self.work / f'{name}-{key}.npy', array.view(STORED[kind]))
        self.runs.append((name, list(inputs), results, check))

    def run(self, tools):
        (self.work / 'm.mlir').write_text(''.join(self.text), encoding='utf-8')
        targets = ','.join([f'cpu:{level}' for level in LEVELS] + ['cuda:sm_90a'])
        built = subprocess.run([tools / 'tessera-aot', 'build', self.work / 'm.mlir', '-o', self.work / 'm.tsb', '--target', targets],
                               stderr=subprocess.PIPE, text=True)
        if built.returncode:
            sys.exit('\n'.join(line for line in built.stderr.splitlines() if 'error' in line))
        failures = 0
        for level in cpu_levels():
            for name, inputs, results, check in self.runs:
                command = [tools / 'tessera-run', self.work / 'm.tsb', '--entry', name, '--cpu', level, '--quiet']
                for key in inputs:
                    command += ['--input', f'{key}={self.work / f"{name}-{key}.npy"}']
                for i in range(len(results)):
                    command += ['--output', f'r{i}={self.work / f"r{i}.npy"}']
                subprocess.run(command, check=True, stderr=subprocess.DEVNULL)  # warnings about infinities and NaN
                got = [np.load(self.work / f'r{i}.npy') for i in range(len(results))]
                for text in check(got):
                    failures += 1
                    print(f'{name}, {level}: {text}')
        return failures


def encodes(program, kind, bits):
    """Every format, every rounding, saturating or not."""
    cases = [(to, rounding, saturates) for to in FORMATS for rounding in ROUNDINGS for saturates in (False, True)]
    body = ''.join(f'  %{i} = tessera.encode %x {{format = "{to}", rounding = "{rounding}"{", saturate" * saturates}}} : '
                   f'tensor<{len(bits)}x{kind}> -> tensor<{len(bits)}x{code_type(to)}>\n' for i, (to, rounding, saturates) in enumerate(cases))
    values = to_f64(bits, kind)

    def check(got):
        for codes, (to, rounding, saturates) in zip(got, cases):
            want = TABLES[to].round(values, rounding, saturates)
            wrong = differ(codes, want, TABLES[to])
            if len(wrong):
                i = wrong[0]
                yield (f'{len(wrong)} codes of {to}, {rounding}{", saturating" * saturates}: {values[i]!r} gives {codes[i]:#x}, '
                       f'expected {int(want[i]):#x}')
    program.entry(f'encode_{kind}', {'x': (bits, kind)}, body, [(f'%{i}', code_type(to), bits.shape) for i, (to, _, _) in enumerate(cases)], check)


def casts(program, kind, bits):
    """From a small format to f32 and to the other formats that are element types, which round to nearest."""
    cases = [('f32', '', False)] + [(to, '', saturates) for to in (*SMALL, 'bf16', 'f16') if to != kind for saturates in (False, True)]
    body = ''.join(f'  %{i} = tessera.cast %x{" {saturate}" * saturates} : tensor<{len(bits)}x{kind}> -> tensor<{len(bits)}x{to}>\n'
                   for i, (to, _, saturates) in enumerate(cases))
    values = to_f64(bits, kind)

    def check(got):
        for result, (to, _, saturates) in zip(got, cases):
            if to == 'f32':
                wrong = np.flatnonzero(~((result == values) & (np.signbit(result) == np.signbit(values)) | np.isnan(result) & np.isnan(values)))
            else:
                codes = result.view('<u2' if code_type(to) == 'ui16' else 'u1')
                wrong = differ(codes, TABLES[to].round(values, 'nearest_even', saturates), TABLES[to])
            if len(wrong):
                yield f'{len(wrong)} results of {to}{", saturating" * saturates} differ, first that of {bits[wrong[0]]:#x}'
    program.entry(f'cast_{kind}', {'x': (bits, kind)}, body, [(f'%{i}', to, bits.shape) for i, (to, _, _) in enumerate(cases)], check)


def integers(program, values):
    """Floats to i8 in every rounding, and i32 to i8 saturating."""
    shape = f'{len(values)}x'
    whole = np.random.default_rng(3).integers(-2**31, 2**31, len(values)).astype(np.int32) >> (np.arange(len(values)) % 31).astype(np.int32)
    body = ''.join(f'  %{i} = tessera.cast %x {{rounding = "{rounding}"}} : tensor<{shape}f32> -> tensor<{shape}i8>\n'
                   for i, rounding in enumerate(ROUNDINGS))
    body += f'  %4 = tessera.cast %y {{saturate}} : tensor<{shape}i32> -> tensor<{shape}i8>\n'
    body += f'  %5 = tessera.cast %y {{saturate}} : tensor<{shape}i32> -> tensor<{shape}ui8>\n'

    def check(got):
        exact = to_f64(values, 'f32')
        for result, to_whole in zip(got, (np.rint, np.trunc, np.ceil, np.floor)):
            want = np.nan_to_num(np.clip(to_whole(exact), -128, 127), nan=0)
            if (result != want).any():
                yield f'{to_whole.__name__} differs for {values[np.flatnonzero(result != want)[0]]!r}'
        for result, low, high in ((got[4], -128, 127), (got[5], 0, 255)):
            if (result != np.clip(whole, low, high)).any():
                yield f'saturating to {low} … {high} differs'
    program.entry('integers', {'x': (values.view(np.uint32), 'f32'), 'y': (whole.view(np.uint32), 'i32')}, body,
                  [(f'%{i}', 'ui8' if i == 5 else 'i8', values.shape) for i in range(6)], check)


def stochastics(program, values, random):
    bits = random.integers(0, 2**32, len(values), np.uint64).astype(np.uint32)
    names = list(FORMATS)
    body = ''.join(f'  %{i} = tessera.encode %x, %r {{format = "{to}", rounding = "stochastic", saturate}} : (tensor<{len(values)}xf32>, '
                   f'tensor<{len(values)}xui32>) -> tensor<{len(values)}x{code_type(to)}>\n' for i, to in enumerate(names))

    def check(got):
        for codes, to in zip(got, names):
            wrong = differ(codes, stochastic(TABLES[to], to_f64(values, 'f32'), bits), TABLES[to])
            if len(wrong):
                yield f'{len(wrong)} codes of {to} differ, first that of {values[wrong[0]]!r}: {codes[wrong[0]]:#x}'
    program.entry('stochastic', {'x': (values.view(np.uint32), 'f32'), 'r': (bits, 'ui32')}, body,
                  [(f'%{i}', code_type(to), values.shape) for i, to in enumerate(names)], check)


LARGEST = {'f8E4M3FN': (448, 256), 'f8E5M2': (57344, 32768), 'f4E2M1FN': (6, 4), 'i8': (127, 64), 'i4': (7, 4)}
SCALE_ROUNDINGS = {'floor': 'toward_zero', 'nearest_even': 'nearest_even', 'ceil': 'up'}


def scale_of(largest, to, kind, rounding, of_tensor):
    """In float32, as NUMERICS.md says."""
    with np.errstate(all='ignore'):
        ratio = largest / np.float32(LARGEST[to][kind == 'f8E8M0FNU'])
        if of_tensor is not None:
            ratio = ratio / of_tensor
        least = {'f8E8M0FNU': 2.0**-127, 'f8E4M3FN': 2.0**-9}[kind]
        ratio = np.where(largest == 0, np.float32(1), np.maximum(ratio, np.float32(least)))
        ratio = np.minimum(ratio, np.float32(3.4028234663852886e38))
    return TABLES[kind].round(ratio, SCALE_ROUNDINGS[rounding], True)


def quantised(values, scale, to):
    """Codes of values / scale, one byte for each."""
    with np.errstate(all='ignore'):
        ratio = (values / scale).astype(np.float32)
    if to in FORMATS:
        return TABLES[to].round(ratio, 'nearest_even', True)
    low, high = (-128, 127) if to == 'i8' else (-8, 7)
    return np.nan_to_num(np.clip(np.rint(ratio.astype(np.float64)), low, high), nan=0).astype(np.int64) & (255 if to == 'i8' else 15)


def valued(codes, to):
    if to in FORMATS:
        return TABLES[to].read(codes).astype(np.float32)
    half = 128 if to == 'i8' else 8
    return ((codes + half) % (2 * half) - half).astype(np.float32)


def blocks(program, to, group, kind, of_tensor, random):
    """Every bf16 as the largest magnitude of a block of `group`."""
    top = np.arange(32768, dtype=np.uint16)
    top = np.concatenate([top[:0x7f80], [0x7f80, 0x7fc0]]).astype(np.uint16)
    largest = TABLES['bf16'].read(top).astype(np.float32)
    with np.errstate(all='ignore'):
        x = largest[:, None] * random.uniform(-1, 1, (len(top), group)).astype(np.float32)
    x[np.arange(len(top)), random.integers(0, group, len(top))] = np.where(top % 2, -largest, largest)
    n, packed = len(top), to in ('f4E2M1FN', 'i4')
    width, element = (group // 2, 'ui8') if packed else (group, to)
    given = f'{{format = "{to}"}} ' if packed else ''
    more, more_type = (', %t', ', tensor<f32>') if of_tensor is not None else ('', '')
    body, results = '', []
    for rounding in SCALE_ROUNDINGS:
        wrap = f'(tensor<{n}x{group}xf32>{more_type})' if more else f'tensor<{n}x{group}xf32>'
        body += f'  %s_{rounding} = tessera.quant_scale %x{more} {{format = "{to}", scale_rounding = "{rounding}"}} : {wrap} -> tensor<{n}x1x{kind}>\n'
        body += (f'  %q_{rounding} = tessera.quant %x, %s_{rounding}{more} {given}: (tensor<{n}x{group}xf32>, tensor<{n}x1x{kind}>{more_type}) '
                 f'-> tensor<{n}x{width}x{element}>\n')
        body += (f'  %y_{rounding} = tessera.dequant %q_{rounding}, %s_{rounding}{more} {given}: (tensor<{n}x{width}x{element}>, '
                 f'tensor<{n}x1x{kind}>{more_type}) -> tensor<{n}x{group}xf32>\n')
        results += [(f'%s_{rounding}', kind, (n, 1)), (f'%q_{rounding}', element, (n, width)), (f'%y_{rounding}', 'f32', (n, group))]

    def check(got):
        for i, rounding in enumerate(SCALE_ROUNDINGS):
            scales, codes, values = got[3 * i:3 * i + 3]
            want = scale_of(np.abs(x).max(1), to, kind, rounding, of_tensor)
            wrong = differ(scales.view('u1')[:, 0], want, TABLES[kind])
            if len(wrong):
                yield f'scale, {rounding}: block of {largest[wrong[0]]!r} has {scales.view("u1")[wrong[0], 0]:#x}, expected {int(want[wrong[0]]):#x}'
                continue
            scale = TABLES[kind].read(want).astype(np.float32)[:, None]
            with np.errstate(all='ignore'):
                scale = scale * of_tensor if of_tensor is not None else scale
            made, bytes_ = quantised(x, scale, to), codes.view('u1').astype(np.int64)
            if packed:
                bytes_ = np.stack([bytes_ & 15, bytes_ >> 4], -1).reshape(n, group)
            if to in FORMATS:
                bad = differ(bytes_.ravel(), made.ravel(), TABLES[to])
            else:
                bad = np.flatnonzero(bytes_.ravel() != made.ravel())
            if len(bad):
                yield f'quant, {rounding}: {len(bad)} codes differ, first that of {x.ravel()[bad[0]]!r}'
            with np.errstate(all='ignore'):
                back = valued(made, to) * scale
            if not np.array_equal(values, back, equal_nan=True):
                yield f'dequant, {rounding}: differs'
    inputs = {'x': (x.view(np.uint32), 'f32')}
    if of_tensor is not None:
        inputs['t'] = (np.array(of_tensor, np.float32).view(np.uint32), 'f32')
    program.entry(f'blocks_{to}_{group}_{kind}', inputs, body, results, check)


def check_with_ml_dtypes(values):
    """The table, and results that are nearest, against a package that we did not write."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    failures = 0
    for name, table in TABLES.items():
        kind = np.float16 if name == 'f16' else getattr(ml_dtypes, ML[name])
        stored = np.uint16 if table.bits == 16 else np.uint8
        codes = np.arange(1 << table.bits).astype(stored)
        with np.errstate(all='ignore'):
            read, rounded = codes.view(kind).astype(np.float64), values.astype(kind).view(stored)
        failures += not np.array_equal(read, table.read(codes), equal_nan=True)
        # f4E2M1FN: ours makes 0 of NaN, ml_dtypes -0. f8E8M0FNU: ml_dtypes does not round denormals of f32 to nearest.
        comparable = ~np.isnan(values) | (table.kind != 'none')
        comparable &= (np.abs(values) >= 2.0**-126) | (values == 0) | (table.kind != 'scale')
        wrong = differ(rounded[comparable], table.round(values, 'nearest_even', False)[comparable], table)
        failures += len(wrong) > 0
        for i in wrong[:3]:
            print(f'{name}: ml_dtypes rounds {values[comparable][i]!r} to {rounded[comparable][i]:#x}')
    return failures


def main():
    tools, random = pathlib.Path(sys.argv[1]), np.random.default_rng(36)
    values = sources(random)
    failures = check_with_ml_dtypes(values)
    print('ml_dtypes is absent' if failures is None else f'ml_dtypes: {failures} failures')
    failures = failures or 0
    with tempfile.TemporaryDirectory() as where:
        program = Program(pathlib.Path(where))
        encodes(program, 'f32', values.view(np.uint32))
        for kind in ('bf16', 'f16'):
            encodes(program, kind, np.arange(65536).astype(np.uint16))
        for kind in SMALL:
            casts(program, kind, np.arange(256).astype(np.uint8))
        integers(program, values)
        stochastics(program, values[random.permutation(len(values))[:20000]], random)
        for to in ('f8E4M3FN', 'f8E5M2', 'f4E2M1FN', 'i8'):
            blocks(program, to, 32, 'f8E8M0FNU', None, random)
        blocks(program, 'f4E2M1FN', 16, 'f8E4M3FN', np.float32(0.37), random)
        blocks(program, 'i4', 16, 'f8E4M3FN', np.float32(3), random)
        failures += program.run(tools)
    print(f'{len(program.runs)} entries, {len(cpu_levels())} levels, {failures} failures')
    sys.exit(failures > 0)


if __name__ == '__main__':
    main()
